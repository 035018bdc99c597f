//! Descriptors that whoever started retro had open, which are no business of a recording.

use std::fs;
use std::process::Stdio;

use retro_testkit::compare::{Outcome, run};

use crate::place::{
    PRECIOUS, Place, Session, TIMEOUT, assert_refused, printed, retro_path, said, stat, wait_until,
};

/// `retro verify` with a file open for writing and one for reading, under numbers of the shell's choice.
fn verify_with(place: &Place, writable: u32, readable: u32) -> Outcome {
    fs::write(place.path().join("secret"), "the secret\n").unwrap();
    let redirected =
        format!("exec {writable}<>home/.bashrc {readable}<secret; exec \"$0\" verify recording");
    run(place.command("bash").args(["-c", &redirected]).arg(retro_path()), TIMEOUT)
}

#[track_caller]
fn assert_nothing_leaked(place: &Place, outcome: &Outcome) {
    let all = said(outcome) + &printed(outcome);
    assert!(!all.contains("the secret"), "{all}");
    assert_eq!(fs::read_to_string(place.victim()).unwrap(), PRECIOUS);
}

macro_rules! inherited {
    ($($name:ident: $writable:literal, $readable:literal, $call:literal $arguments:tt, $words:expr;)*) => {
        $(#[test]
        fn $name() {
            let place = Place::new("inherited");
            let [a, b, c, d]: [&str; 4] = $arguments;
            let macros = [
                concat!("CALL=", $call).to_string(),
                format!("A={a}"), format!("B={b}"), format!("C={c}"), format!("D={d}"),
                format!("E={}", $readable),
            ];
            place.hostile("one_call", &macros.iter().map(String::as_str).collect::<Vec<_>>());
            let outcome = verify_with(&place, $writable, $readable);
            assert_refused(&outcome, &$words);
            assert_nothing_leaked(&place, &outcome);
        })*
    };
}

inherited! {
    // By numbers that the filter does not name.
    an_inherited_file_is_not_written_to:
        7, 8, "NR_write" ["7", "(word)\"owned\\n\"", "6", "0"], ["taken over", "signal 31"];
    an_inherited_file_is_not_mapped:
        7, 8, "NR_mmap" ["0", "4096", "1", "2"], ["taken over", "signal 31"];
    nothing_is_sent_through_an_inherited_descriptor:
        7, 8, "NR_sendmsg" ["7", "0x20000000", "0", "0"], ["taken over", "signal 31"];
    an_inherited_file_does_not_become_the_socket:
        7, 8, "NR_dup2" ["7", "0", "0", "0"], ["taken over", "signal 31"];
    // By the one number that it names: what was there is closed.
    the_number_for_what_is_sent_is_free:
        3, 4, "NR_fstat" ["3", "0x20000000", "0", "0"], ["taken over and did it 18446744073709551607"];
}

/// Nothing is open in a replay process but its socket and the file for complaints.
#[test]
fn a_replay_process_has_its_own_descriptors_alone() {
    let place = Place::new("open");
    place.hostile("spin", &[]);
    let mut command = place.command("bash");
    command.args(["-c", "exec 7<>home/.bashrc 9</etc/passwd 200</; exec \"$0\" verify recording"]);
    let command = command.arg(retro_path()).stdout(Stdio::null()).stderr(Stdio::null());
    let session = Session::start(command);
    let replays = || -> Vec<i32> {
        let of_engine = |pid: &i32| {
            let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
            // The guard is one of ours too, and asleep.
            program.to_string_lossy().contains("retro-engine")
                && stat(*pid).is_some_and(|fields| fields[0] == "R")
        };
        session.members().into_iter().filter(of_engine).collect()
    };
    wait_until("no replay process", || !replays().is_empty());
    for pid in replays() {
        let mut open: Vec<String> = fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        open.sort();
        assert_eq!(open, ["0", "1", "2"], "process {pid}");
    }
}
