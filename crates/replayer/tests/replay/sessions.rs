//! Sessions: going forward, copies, and what is left of their processes.

use std::path::Path;

use retro_replayer::{Error, StopReason, Verdict, Verifier};

use crate::recorded::Recorded;

/// Steps, runs and copies all come by the same states.
#[test]
fn there_is_one_way_forward() {
    let recorded = Recorded::guest("flow_loops", &[]);
    let place = recorded.longest();
    let middle = place.interval.start + place.interval.instructions() / 3;
    let mut session = recorded.replayer.session(place.log, place.interval.number).unwrap();
    let mut copy = session.fork().unwrap();
    let start = place.interval.start;
    assert_eq!((copy.time(), copy.pc(), copy.thread()), (start, session.pc(), session.thread()));
    // A copy of a copy outlives both.
    let mut last = copy.fork().unwrap();
    let stop = session.run_to(middle).unwrap();
    assert_eq!((stop.time, stop.reason), (middle, StopReason::Time));
    for _ in 0..200 {
        session.step().unwrap();
    }
    assert_eq!(copy.time(), start, "a copy stays where it is");
    copy.run_to(middle + 200).unwrap();
    assert_eq!(copy.registers(None).unwrap(), session.registers(None).unwrap());
    let stack = session.registers(None).unwrap().by_name("rsp").unwrap();
    assert_eq!(copy.read(stack, 4096).unwrap(), session.read(stack, 4096).unwrap());
    drop((session, copy));
    let stop = last.run_to(u64::MAX).unwrap();
    assert_eq!((stop.time, stop.reason), (place.interval.end, StopReason::End));
}

#[test]
fn processes_are_gone_when_their_sessions_are() {
    let recorded = Recorded::guest("insn_stack", &[]);
    let place = recorded.longest();
    let mut session = recorded.replayer.session(place.log, place.interval.number).unwrap();
    let copy = session.fork().unwrap();
    let processes = [session.process_id().unwrap(), copy.process_id().unwrap()];
    assert_ne!(processes[0], processes[1]);
    let exists = |id: u32| Path::new(&format!("/proc/{id}")).exists();
    assert!(processes.into_iter().all(exists));
    drop(session);
    assert_eq!(processes.map(exists), [false, true]);
    drop(copy);
    assert_eq!(processes.map(exists), [false, false]);
}

/// What has executed code of a recording may be that code's by now.
#[test]
fn what_has_run_is_not_copied() {
    let recorded = Recorded::guest("insn_stack", &[]);
    let place = recorded.longest();
    let mut session = recorded.replayer.session(place.log, place.interval.number).unwrap();
    assert!(session.fork().is_ok());
    session.step().unwrap();
    assert!(matches!(session.fork(), Err(Error::HasRun)));
    // Also when it is sent elsewhere.
    session.go_to_interval(&recorded.replayer, place.interval.number).unwrap();
    assert!(matches!(session.fork(), Err(Error::HasRun)));
    assert!(session.run_to(place.interval.end).is_ok());
}

/// Killing a process from outside is an error of its session, and of no other.
#[test]
fn a_killed_process_is_reported() {
    let recorded = Recorded::guest("insn_stack", &[]);
    let place = recorded.longest();
    let mut session = recorded.replayer.session(place.log, place.interval.number).unwrap();
    let mut copy = session.fork().unwrap();
    let id = session.process_id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-KILL", &id]).status().unwrap().success());
    match session.run_to(place.interval.end) {
        Err(Error::Crashed(text)) => assert!(text.contains("signal 9"), "{text}"),
        other => panic!("{other:?}"),
    }
    assert!(copy.run_to(place.interval.end).is_ok());
}

#[test]
fn every_interval_is_what_was_recorded() {
    let recorded = Recorded::guest("thread_cond_queue", &["--interval", "100k"]);
    let places = recorded.places();
    assert!(places.len() > 3);
    let mut verifier = Verifier::new(recorded.replayer.clone());
    // Forwards and backwards: intervals share a process, whatever their order.
    for place in places.iter().chain(places.iter().rev()) {
        let mut told = 0;
        let add = |instructions| told += instructions;
        let replayed = verifier.verify(place.log, place.interval.number, add).unwrap();
        assert_eq!(replayed.verdict, Verdict::Same, "{place:?}");
        assert_eq!((replayed.time, told), (place.interval.end, place.interval.instructions()));
        assert!(replayed.windows >= 1);
    }
}
