//! `retro replay`: that the output of a replay is that of the recorded run, and traces are what happened.

use std::fs;

use retro_testkit::compare::Ending;
use serde_json::Value;

use crate::store::Store;
use crate::text;

/// Records a command and replays it; both must have written the same.
#[track_caller]
fn check_in(store: &Store, command: &[&str]) {
    let recorded = store.record(command);
    assert!(!recorded.stdout.is_empty() || !recorded.stderr.is_empty(), "nothing to compare");
    let replayed = store.retro(["replay"]);
    assert_eq!(text(&replayed.stderr), text(&recorded.stderr));
    if replayed.stdout != recorded.stdout {
        assert_eq!(text(&replayed.stdout), text(&recorded.stdout));
        panic!("bytes that are no text differ");
    }
    assert_eq!(replayed.status, Ending::Exited(0));
}

#[track_caller]
fn check(name: &str, command: &[&str]) {
    check_in(&Store::new(name), command);
}

#[track_caller]
fn check_program(name: &str, source: &str) {
    let store = Store::new(name);
    let program = store.compile("program", source);
    check_in(&store, &[&program]);
}

#[test]
fn output_comes_again() {
    check("replay-echo", &["/bin/echo", "hello, replay"]);
    check("replay-many", &["seq", "30000"]);
    check("replay-binary", &["head", "-c", "300000", "/dev/urandom"]);
    check("replay-failure", &["ls", "-l", "/no/such/file", "/"]);
}

#[test]
fn a_stack_without_limit_does_not_matter() {
    let store = Store::new("replay-unlimited");
    let outcome = store.bash(
        "ulimit -S -s unlimited || exit 1; $retro record --quiet -- echo hello && $retro replay",
    );
    assert_eq!((outcome.status, text(&outcome.stderr)), (Ending::Exited(0), String::new()));
    assert_eq!(text(&outcome.stdout), "hello\nhello\n");
}

#[test]
fn shells_redirect_and_fork() {
    for (name, script) in [
        ("replay-pipe", "echo one | tr a-z A-Z; printf 'two\\nthree\\n' | sort -r | cat"),
        ("replay-errors", "echo out; echo err >&2; (echo sub; echo suberr >&2)"),
        ("replay-swap", "{ echo out; echo err >&2; } 3>&1 1>&2 2>&3 3>&-"),
        ("replay-files", "echo hidden > file; cat < file; echo more >> file; wc -l < file"),
        ("replay-substitution", "x=$(echo inner; echo shown >&2); echo \"got $x\""),
        ("replay-named", "echo to-stderr > /dev/stderr; echo to-stdout > /dev/stdout"),
        ("replay-exec", "exec 5>&1 1>/dev/null; echo hidden; echo shown >&5; exec echo never"),
        ("replay-wait", "(sleep 0.1; echo slow) & wait; echo after"),
        ("replay-loop", "for i in 1 2 3; do /bin/echo $i; done; exit 3"),
    ] {
        check(name, &["bash", "-c", script]);
    }
}

#[test]
fn every_way_to_write_is_known() {
    check_program(
        "replay-ways",
        r#"
        #include <fcntl.h>
        #include <stdio.h>
        #include <sys/uio.h>
        #include <unistd.h>
        static char later[4096];
        int main(void) {
            write(1, "from the program's file\n", 24);
            struct iovec parts[3] = { { "gath", 4 }, { 0, 0 }, { "ered\n", 5 } };
            writev(1, parts, 3);
            int copy = dup(2), other = fcntl(1, F_DUPFD_CLOEXEC, 50);
            write(copy, "dup\n", 4);
            dprintf(other, "fcntl\n");
            dup2(copy, 1);
            puts("stdout is stderr");
            fflush(stdout);
            close(2);
            write(2, "to nowhere\n", 11);
            write(-1, "to nowhere\n", 11);
            close_range(3, 10, 0);
            write(copy, "to nowhere\n", 11);
            for (int i = 0; i < 4096; i++) later[i] = 'a' + i % 26;
            write(other, later, sizeof later);
            return 0;
        }
        "#,
    );
}

#[test]
fn what_a_child_inherits_in_memory_is_written_by_both() {
    check_program(
        "replay-buffered",
        r#"
        #include <stdio.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(void) {
            printf("twice ");
            if (fork() == 0) { printf("child\n"); return 0; }
            wait(0);
            printf("parent\n");
            return 0;
        }
        "#,
    );
}

#[test]
fn spawned_programs_and_threads_write() {
    check_program(
        "replay-spawn",
        r#"
        #include <pthread.h>
        #include <spawn.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        extern char **environ;
        static void *body(void *name) { for (int i = 0; i < 20; i++) write(1, name, 2); return 0; }
        // One after the other: the kernel alone knows the order of calls that run at the same time.
        int main(void) {
            pid_t child;
            char *arguments[] = { "/bin/echo", "spawned", 0 };
            posix_spawn_file_actions_t actions;
            posix_spawn_file_actions_init(&actions);
            posix_spawn_file_actions_adddup2(&actions, 2, 1);
            posix_spawn(&child, arguments[0], &actions, 0, arguments, environ);
            waitpid(child, 0, 0);
            pthread_t threads[2];
            pthread_create(&threads[0], 0, body, "x\n");
            pthread_join(threads[0], 0);
            pthread_create(&threads[1], 0, body, "y\n");
            pthread_join(threads[1], 0);
            puts("main");
            fflush(stdout);
            return system("echo system; exit 4") == -1;
        }
        "#,
    );
}

#[test]
fn scripts_write() {
    check(
        "replay-python",
        &[
            "python3",
            "-c",
            "import sys, subprocess, os
print('from python', 2 ** 100)
print('to stderr', file=sys.stderr)
sys.stdout.flush()
subprocess.run(['echo', 'from a child'])
os.write(1, bytes(range(256)))
print(subprocess.check_output(['printf', 'captured']))",
        ],
    );
    check("replay-perl", &["perl", "-e", "$| = 1; print \"$_\\n\" for 1..100; warn 'warned'"]);
}

#[test]
fn a_crash_keeps_what_was_written_before() {
    let store = Store::new("replay-crash");
    let program = store.compile(
        "crash",
        "#include <stdio.h>
        int main(void) { puts(\"before\"); fflush(stdout); *(volatile int *)16 = 1; puts(\"after\"); }",
    );
    assert_eq!(store.record(&[&program]).status, Ending::Signaled(libc::SIGSEGV));
    let replayed = store.retro(["replay"]);
    assert_eq!(
        (text(&replayed.stdout), replayed.status),
        ("before\n".to_string(), Ending::Exited(0))
    );
    let trace = store.output(["replay", "--trace=syscalls"]);
    let last = trace.lines().last().unwrap();
    assert!(
        last.contains("SIGSEGV (SEGV_MAPERR, address 0x10, synchronous) ends the process"),
        "{last}"
    );
}

#[test]
fn intervals_make_no_difference() {
    let store = Store::new("replay-intervals");
    let script = "for (1..3000) { print \"line $_\\n\" } print STDERR 'end'";
    let outcome =
        store.retro(["record", "--quiet", "--interval", "200k", "--", "perl", "-e", script]);
    assert!(store.json(["info", "--json"])["intervals"].as_u64() > Some(3));
    let replayed = store.retro(["replay"]);
    assert_eq!(
        (text(&replayed.stdout), text(&replayed.stderr)),
        (text(&outcome.stdout), text(&outcome.stderr))
    );
}

#[test]
fn output_that_is_not_in_memory_is_counted() {
    let store = Store::new("replay-sendfile");
    let program = store.compile(
        "send",
        "#include <fcntl.h>
        #include <sys/sendfile.h>
        #include <unistd.h>
        int main(void) {
            write(1, \"before\\n\", 7);
            int file = open(\"send.c\", O_RDONLY);
            return sendfile(1, file, 0, 50) != 50;
        }",
    );
    assert_eq!(store.record(&[&program]).status, Ending::Exited(0));
    let replayed = store.retro(["replay"]);
    assert_eq!(
        (text(&replayed.stdout), replayed.status),
        ("before\n".to_string(), Ending::Exited(0))
    );
    assert!(text(&replayed.stderr).contains("50 bytes of the output are missing"));
}

#[test]
fn a_reader_that_goes_away_ends_the_replay_quietly() {
    let store = Store::new("replay-head");
    store.record(&["seq", "100000"]);
    for what in ["", "--trace=blocks", "--trace=calls --json"] {
        let outcome =
            store.bash(&format!("$retro replay {what} | head -n 1; echo ${{PIPESTATUS[0]}}"));
        let stdout = text(&outcome.stdout);
        assert_eq!(stdout.lines().count(), 2, "{stdout}");
        assert_eq!((stdout.lines().last(), text(&outcome.stderr)), (Some("0"), String::new()));
    }
}

#[test]
fn one_process_and_a_part_of_its_time_can_be_chosen() {
    let store = Store::new("replay-bounds");
    store.record(&["bash", "-c", "echo parent; /bin/echo child; echo again"]);
    let pieces = objects(&store, &["replay", "--json"]);
    let texts: Vec<&str> = pieces.iter().map(|piece| piece["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["parent\n", "child\n", "again\n"]);
    assert!(pieces.iter().all(|piece| piece["stream"] == "stdout" && piece["kind"] == "output"));
    let child = pieces[1]["log"].to_string();
    assert_ne!(child, "0");
    assert_eq!(store.output(["replay", "--process", &child]), "child\n");
    let pid = store.json(["info", "--json"])["processes"][0]["pid"].to_string();
    assert_eq!(store.output(["replay", "--process", &pid]), "parent\nagain\n");

    let time = pieces[0]["time"].as_u64().unwrap();
    let (at, after) = (time.to_string(), (time + 1).to_string());
    assert_eq!(store.output(["replay", "--process", "0", "--to", &at]), "parent\n");
    assert_eq!(store.output(["replay", "--process", "0", "--from", &after]), "again\n");
    assert_eq!(
        store.output(["replay", "--process", "0", "--from", "start", "--to", "100%"]),
        "parent\nagain\n"
    );

    for (arguments, message) in [
        (&["--to", "50%"][..], "--from and --to need one process, and there are several"),
        (&["--trace=calls"], "--trace needs one process, and there are several"),
        (&["--process", "99999999"], "no log or process 99999999 in this recording; it has 0 (pid"),
        (&["--process", "0", "--from", "end", "--to", "start"], "--from is behind --to"),
        (&["--process", "0", "--from", "100G"], "before --from"),
    ] {
        let outcome = store.retro(["replay"].iter().chain(arguments));
        let stderr = text(&outcome.stderr);
        assert!(stderr.contains(message), "{stderr}");
        assert_eq!(outcome.status, Ending::Exited(1));
    }
}

#[test]
fn a_packed_recording_needs_no_files() {
    let store = Store::new("replay-packed");
    let program = store.compile(
        "gone",
        "#include <stdio.h>
        int shown(const char *text) { return puts(text); }
        int main(void) { return shown(\"still here\") < 0; }",
    );
    store.record(&[&program]);
    assert_eq!(store.retro(["pack", "-o", "it.retro"]).status, Ending::Exited(0));
    fs::remove_file(&program).unwrap();
    fs::remove_dir_all(store.root()).unwrap();
    assert_eq!(store.retro(["unpack", "it.retro", "-o", "here"]).status, Ending::Exited(0));
    assert_eq!(store.output(["replay", "./here"]), "still here\n");
    let calls = store.output(["replay", "./here", "--trace=calls"]);
    assert!(calls.contains("-> shown (gone)"), "{calls}");
}

/// Objects, one a line.
#[track_caller]
fn objects(store: &Store, arguments: &[&str]) -> Vec<Value> {
    let output = store.output(arguments);
    output.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

/// A program whose calls, system calls and writes are known.
#[track_caller]
fn traced(name: &str) -> Store {
    let store = Store::new(name);
    fs::write(
        store.directory().join("traced.c"),
        "#include <setjmp.h>
#include <signal.h>
#include <unistd.h>
volatile long watched;
static jmp_buf back;
__attribute__((noinline)) static long leaf(long x) { watched = x; return x + 1; }
__attribute__((noinline)) static long middle(long x) { return leaf(x) + 1; }
__attribute__((noinline)) static void jumps(void) { longjmp(back, 1); }
static void handler(int number) { watched = number; }
int main(void) {
    middle(0x1234);
    if (!setjmp(back)) jumps();
    leaf(0x5678);
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    return write(1, \"done\\n\", 5) != 5;
}
",
    )
    .unwrap();
    let compiled = store.bash("cc -g -O1 -fno-inline -o traced traced.c");
    assert_eq!(compiled.status, Ending::Exited(0), "{}", text(&compiled.stderr));
    assert_eq!(text(&store.record(&["./traced"]).stdout), "done\n");
    store
}

#[test]
fn calls_are_a_tree() {
    let store = traced("replay-calls");
    let trace = store.output(["replay", "--trace=calls"]);
    let depth_of = |what: &str| {
        let line = trace.lines().find(|line| line.contains(what));
        let line = line.unwrap_or_else(|| panic!("no {what} in\n{trace}"));
        line.find(what).unwrap()
    };
    let main = depth_of("-> main (traced.c:10)");
    assert_eq!(depth_of("-> middle (traced.c:7)"), main + 2);
    assert_eq!(depth_of("-> leaf (traced.c:6)"), main + 4);
    assert_eq!(depth_of("<- leaf"), main + 4);
    assert_eq!(depth_of("<- middle"), main + 2);
    assert_eq!(depth_of("-> jumps (traced.c:8)"), main + 2);
    assert_eq!(depth_of("<- main"), main);
    assert!(trace.contains("-> handler (traced.c:9) for SIGUSR1"), "{trace}");
    assert!(!trace.contains('\x1b'), "no colours in a pipe");
    // After the jump, the next call is where the one before was.
    let leaves: Vec<&str> = trace.lines().filter(|line| line.contains("-> leaf")).collect();
    assert_eq!(leaves.len(), 2);
    assert_eq!(leaves[1].find("-> leaf"), Some(main + 2), "{trace}");

    let calls = objects(&store, &["replay", "--trace=calls", "--json"]);
    let middle = calls.iter().find(|call| call["function"] == "middle").unwrap();
    assert_eq!((&middle["kind"], &middle["line"]), (&"call".into(), &7.into()));
    assert!(middle["source"].as_str().unwrap().ends_with("/traced.c"));
    assert_eq!(calls.len(), trace.lines().count());
}

#[test]
fn system_calls_are_shown_with_their_functions() {
    let store = traced("replay-syscalls");
    let trace = store.output(["replay", "--trace=syscalls"]);
    let written = trace.lines().find(|line| line.contains(" write(1, 0x")).expect("it writes");
    assert!(written.contains(", 5) = 5  in ") && written.contains("write"), "{written}");
    assert!(
        trace.contains("SIGUSR1 (SI_TKILL") && trace.contains("handled by handler (traced.c:9)")
    );
    assert!(trace.lines().last().unwrap().contains("exit_group(0) ..."), "{trace}");
    // The same calls as the log has.
    let logged = store.output(["dump", "--kind", "syscall-enter", "--json"]);
    let shown = objects(&store, &["replay", "--trace=syscalls", "--json"]);
    let shown: Vec<&Value> = shown.iter().filter(|line| line["kind"] == "syscall").collect();
    assert_eq!(shown.len(), logged.lines().count());
}

#[test]
fn writes_tell_what_is_in_memory_then() {
    let store = traced("replay-writes");
    let writes = objects(&store, &["replay", "--trace=writes", "--json"]);
    let watched: Vec<(&Value, &Value)> = (writes.iter())
        .filter(|write| write["target"]["function"] == "watched")
        .map(|write| (&write["by"]["function"], &write["bytes"]))
        .collect();
    let number = |value: u64| -> Value {
        let digits: String = value.to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        digits.into()
    };
    assert_eq!(
        watched,
        [
            (&"leaf".into(), &number(0x1234)),
            (&"leaf".into(), &number(0x5678)),
            (&"handler".into(), &number(10)),
        ]
    );
    assert!(writes.iter().any(|write| write["kernel"] == true));
    let text = store.output(["replay", "--trace=writes"]);
    assert!(text.contains("8 bytes = 0x1234  by leaf"), "watched is written");
}

#[test]
fn blocks_cover_the_run_and_bounds_cut_it() {
    let store = traced("replay-blocks");
    let blocks = objects(&store, &["replay", "--trace=blocks", "--json"]);
    let instructions = |blocks: &[Value]| -> u64 {
        blocks.iter().map(|block| block["instructions"].as_u64().unwrap()).sum()
    };
    let total = store.json(["info", "--json"])["instructions"].as_u64().unwrap();
    assert_eq!(instructions(&blocks), total);
    let times: Vec<u64> = blocks.iter().map(|block| block["time"].as_u64().unwrap()).collect();
    assert!(times.is_sorted());
    assert!(blocks.iter().any(|block| block["function"] == "main"));

    let (from, to) = ((total / 2).to_string(), (total / 2 + 1000).to_string());
    let part =
        objects(&store, &["replay", "--trace=blocks", "--json", "--from", &from, "--to", &to]);
    assert_eq!(instructions(&part), 1000);
    let last = objects(&store, &["replay", "--trace=blocks", "--json", "--from", "99%"]);
    assert!(!last.is_empty() && instructions(&last) <= total / 100 + 1);
}

#[test]
fn a_damaged_recording_is_replayed_as_far_as_it_is_whole() {
    let store = Store::new("replay-damaged");
    let recorded = store.record(&["bash", "-c", "echo parent; /bin/echo child; echo again"]);
    let log = store.root().join("bash-1/log");
    let bytes = fs::read(&log).unwrap();
    let mut damaged_replays = 0;
    for part in 1..16 {
        let mut damaged = bytes.clone();
        damaged[bytes.len() * part / 16] ^= 0x10;
        fs::write(&log, &damaged).unwrap();
        for arguments in [&["replay"][..], &["replay", "--process", "0", "--trace=syscalls"]] {
            let outcome = store.retro(arguments);
            let stderr = text(&outcome.stderr);
            match outcome.status {
                Ending::Exited(0) if arguments.len() == 1 => {
                    assert_eq!(text(&outcome.stdout), text(&recorded.stdout));
                }
                Ending::Exited(0) => {}
                Ending::Exited(1) => {
                    assert!(stderr.contains("retro: ") && !stderr.contains("panicked"), "{stderr}");
                    damaged_replays += 1;
                }
                other => panic!("{other:?}: {stderr}"),
            }
        }
    }
    assert!(damaged_replays > 0);
}
