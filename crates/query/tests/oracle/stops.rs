//! Wherever a replay stops, its registers are what they are when it goes there instruction by instruction.

use crate::recorded::Recorded;

/// Instructions that are gone through one by one.
const STRETCH: u64 = 6_000;

#[test]
fn flags_do_not_depend_on_the_way() {
    let recorded = Recorded::guest("insn_strings", &[]);
    let log = recorded.logs()[0];
    let interval = recorded.replayer.intervals(log).unwrap()[0];
    let mut stepping = recorded.replayer.session(log, interval.number).unwrap();
    let mut truth = Vec::new();
    while stepping.time() < (interval.start + STRETCH).min(interval.end) {
        truth.push(stepping.registers(None).unwrap());
        stepping.step().unwrap();
    }
    for (time, expected) in (interval.start..).zip(&truth).skip(1_000).step_by(23) {
        let mut session = recorded.replayer.session(log, interval.number).unwrap();
        session.run_to(time).unwrap();
        assert_eq!(session.registers(None).unwrap().general, expected.general, "at {time}");
    }
}
