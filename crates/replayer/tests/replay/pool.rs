//! The pool: the same states, however one gets there.

use std::thread;

use retro_replayer::{Pool, Registers};

use crate::recorded::{Place, Recorded, shuffled};

/// Times all over an interval, with the registers of the running thread.
fn states(recorded: &Recorded, place: Place, count: u64) -> Vec<(u64, Registers)> {
    let mut session = recorded.replayer.session(place.log, place.interval.number).unwrap();
    let step = place.interval.instructions() / count;
    let times = (0..count).map(|index| place.interval.start + index * step);
    times
        .map(|time| {
            session.run_to(time).unwrap();
            (time, session.registers(None).unwrap())
        })
        .collect()
}

#[test]
fn sessions_are_where_they_were_asked_for() {
    let recorded = Recorded::guest("thread_cond_queue", &[]);
    let place = recorded.longest();
    let states = states(&recorded, place, 40);
    let window = place.interval.instructions() / 9 + 1;
    let pool = Pool::with_limits(recorded.replayer.clone(), 5, window);
    thread::scope(|scope| {
        for part in 0..3 {
            let (pool, states) = (&pool, &states);
            scope.spawn(move || {
                for index in shuffled(states.len()).into_iter().skip(part * 7) {
                    let (time, registers) = &states[index];
                    let mut session = pool.at(place.log, *time).unwrap();
                    assert_eq!(session.time(), *time);
                    assert_eq!(&session.registers(None).unwrap(), registers, "at {time}");
                    // Whoever has a session may go on with it: the pool's own are others.
                    session.run_to(place.interval.end.min(time + 1000)).unwrap();
                }
            });
        }
    });
}

/// Both ends of a log are in it, and nothing beyond.
#[test]
fn every_time_of_a_log_can_be_had() {
    let recorded = Recorded::guest("insn_stack", &["--interval", "20k"]);
    let pool = Pool::new(recorded.replayer.clone());
    let log = recorded.longest().log;
    let intervals = recorded.replayer.intervals(log).unwrap();
    assert!(intervals.len() > 2);
    for interval in &intervals {
        for time in [interval.start, interval.start + 1, interval.end] {
            let session = pool.at(log, time).unwrap();
            assert_eq!(session.time(), time);
        }
    }
    let last = intervals[intervals.len() - 1];
    assert_eq!(pool.at(log, last.start).unwrap().interval(), last, "the next interval counts");
    assert!(pool.at(log, last.end + 1).is_err());
    assert!(pool.at(log + 100, 0).is_err());
}
