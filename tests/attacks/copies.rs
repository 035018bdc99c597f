//! Processes that a recording starts, or that outlive whoever replays it.

use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use retro_cli::engine_file::EngineFile;
use retro_recording::Recording;
use retro_replayer::{Error, Replayer};

use crate::place::{
    Place, Session, assert_refused, is_alive, most_memory, printed, retro_path, said, wait_until,
};

fn start(place: &Place, arguments: &[&str]) -> Session {
    let mut command = place.command(retro_path());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Session::start(&mut command)
}

/// A process that has run anything cannot make another: the first attempt ends it.
#[test]
fn a_bomb_does_not_go_off() {
    let place = Place::new("bomb");
    place.hostile("bomb", &[]);
    let outcome = place.retro(&["verify", "recording"]);
    assert_refused(&outcome, &["taken over", "it was ended by signal 31"]);
    assert!(!said(&outcome).contains("copied"), "{}", said(&outcome));
}

#[test]
fn nothing_is_left_of_a_bomb() {
    let place = Place::new("bomb-left");
    place.hostile("bomb", &[]);
    let mut session = start(&place, &["verify", "recording"]);
    assert!(!session.wait().success());
    session.assert_gone();
}

/// However a command ends, no replay process of it is left, whatever it does and whatever it blocks.
#[track_caller]
fn assert_nothing_survives(payload: &str, command: &[&str], signal: Signal) {
    let place = Place::new("survivor");
    place.hostile(payload, &[]);
    let mut session = start(&place, command);
    // retro, its guard, and the process that was taken over.
    wait_until("the replay does not begin", || session.members().len() >= 3);
    std::thread::sleep(Duration::from_millis(300));
    session.signal(signal);
    session.wait();
    session.assert_gone();
}

#[test]
fn nothing_survives_a_kill() {
    assert_nothing_survives("spin", &["verify", "recording"], Signal::SIGKILL);
}

#[test]
fn nothing_survives_an_interrupt() {
    assert_nothing_survives("spin", &["verify", "recording"], Signal::SIGINT);
}

#[test]
fn nothing_survives_a_hangup() {
    assert_nothing_survives("spin", &["replay", "--trace=calls", "recording"], Signal::SIGHUP);
}

#[test]
fn nothing_survives_a_termination_while_indexing() {
    // The second signal ends it, if the first one is only noted.
    assert_nothing_survives("sleep", &["index", "recording"], Signal::SIGKILL);
}

#[test]
fn nothing_survives_in_its_sleep() {
    assert_nothing_survives("sleep", &["verify", "recording"], Signal::SIGKILL);
}

#[test]
fn nothing_survives_a_question() {
    assert_nothing_survives("spin", &["bt", "-r", "recording"], Signal::SIGKILL);
}

/// One that pretends to be done is gone when the command is.
#[test]
fn nothing_runs_on_after_a_success() {
    let place = Place::new("success");
    place.hostile("pretend", &["END_TIME=50000000"]);
    let mut session = start(&place, &["verify", "recording"]);
    assert!(session.wait().success());
    session.assert_gone();
}

/// A guard that is killed is no way out either, as long as retro is there to end what it has started.
#[test]
fn without_its_guard_nothing_survives_the_end_of_the_command() {
    let place = Place::new("guard");
    place.hostile("pretend", &["END_TIME=50000000"]);
    let mut session = start(&place, &["verify", "recording"]);
    let guards = || -> Vec<i32> {
        let named = |pid: &i32| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.trim() == "retro-guard"
        };
        session.members().into_iter().filter(named).collect()
    };
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        for guard in guards() {
            let pid = nix::unistd::Pid::from_raw(guard);
            let _ = nix::sys::signal::kill(pid, Signal::SIGKILL);
        }
    }
    session.wait();
    session.assert_gone();
}

/// A process that is not asked anything must not run. It is ended after a few seconds of it.
#[test]
fn a_process_that_runs_unasked_is_ended() {
    let place = Place::new("unasked");
    place.hostile("pretend", &["END_TIME=50000000"]);
    let engine = EngineFile::new(&[]).unwrap();
    let recording = Recording::open(&place.recording()).unwrap();
    let replayer = Replayer::open(recording, engine.path().to_owned());
    let mut session = replayer.session(0, 0).unwrap();
    session.run_to(1000).unwrap();
    let pid = session.process_id().unwrap() as i32;
    wait_until("it runs on", || !is_alive(pid));
    match session.registers(None) {
        Err(Error::Crashed(text)) => assert!(text.contains("nobody had asked"), "{text}"),
        other => panic!("{other:?}"),
    }
}

/// One that is asked, and honest, is not, however long it waits.
#[test]
fn a_process_that_waits_is_left_alone() {
    let place = Place::new("waits");
    place.honest();
    let engine = EngineFile::new(&[]).unwrap();
    let recording = Recording::open(&place.recording()).unwrap();
    let replayer = Replayer::open(recording, engine.path().to_owned());
    let mut session = replayer.session(0, 0).unwrap();
    session.run_to(10).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    assert!(session.run_to(1000).is_ok());
}

/// Memory has a limit for all replay processes of a recording.
#[test]
fn memory_is_not_used_up() {
    let place = Place::new("hog");
    place.hostile("hog", &["GIGABYTES=3ul"]);
    let mut command = place.command(retro_path());
    command.args(["verify", "recording"]).env("RETRO_MEMORY", "300M");
    let outcome = retro_testkit::compare::run(&mut command, crate::place::TIMEOUT);
    assert_refused(&outcome, &["replay processes took", "more than 300 MiB", "RETRO_MEMORY"]);
    assert!(!said(&outcome).contains("used all of it"), "{}", said(&outcome));
    assert!(printed(&outcome).is_empty() || !printed(&outcome).contains("OK"));
    // It is looked at a few times a second.
    assert!(most_memory() < 3 << 30, "{}", most_memory());
}
