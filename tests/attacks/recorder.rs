//! Programs that are recorded, and know it.
//!
//! A recorded program has the rights of the user who started it, so that it needs no recorder to do harm; what is demanded is
//! that it gets no others by it: the recorder writes nothing but its log, ends when the run is over, and what comes of it is a
//! recording like any other, which may be hostile (see the other attacks).

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use retro_testkit::compare::Ending;

use crate::place::{Place, Session, printed, retro_path, said, wait_until};

/// Compiles a program of `tests/attacks/guests` and records it, in a session of its own.
fn record(place: &Place, name: &str) -> Session {
    let source = format!("{}/../../tests/attacks/guests/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let built = place.command("cc").args(["-O1", "-o", name, &source]).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut command = place.command(retro_path());
    command.args(["record", "-o", "recording", "--", &format!("./{name}")]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(fs::File::create(place.path().join("said")).unwrap());
    Session::start(&mut command)
}

/// Writes garbage over all the memory that it shares with its recorder, for a while.
#[test]
fn a_program_that_scribbles_over_the_channel() {
    let place = Place::new("scribble");
    let mut session = record(&place, "scribble");
    let begun = Instant::now();
    let status = session.wait();
    assert_eq!(
        status.code(),
        Some(7),
        "{}",
        fs::read_to_string(place.path().join("said")).unwrap()
    );
    assert!(begun.elapsed() < Duration::from_secs(30));
    // The recorder is in a session of its own, and lets go of the log when it is done.
    wait_until("the recorder does not end", || {
        !printed(&place.retro(&["info", "recording"])).contains("still")
            && fs::File::open(place.recording().join("log")).unwrap().try_lock_shared().is_ok()
    });
    let names: Vec<_> =
        fs::read_dir(place.recording()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["log"]);
    for command in
        [&["info", "recording", "--check"][..], &["verify", "recording"], &["dump", "recording"]]
    {
        let outcome = place.retro(command);
        let is_orderly = matches!(outcome.status, Ending::Exited(0 | 1));
        assert!(
            is_orderly && !said(&outcome).contains("panicked"),
            "{command:?} {}",
            said(&outcome)
        );
    }
    place.assert_unharmed();
}

/// Puts a link in the place of the directory that it is recorded to.
#[test]
fn a_program_that_moves_its_recording() {
    let place = Place::new("move");
    let mut session = record(&place, "move");
    assert_eq!(session.wait().code(), Some(7));
    wait_until("the recorder does not end", || {
        fs::File::open(place.path().join("moved/log"))
            .is_ok_and(|log| log.try_lock_shared().is_ok())
    });
    place.assert_unharmed();
    let outcome = place.retro(&["verify", "moved"]);
    assert_eq!(outcome.status, Ending::Exited(0), "{}", said(&outcome));
}
