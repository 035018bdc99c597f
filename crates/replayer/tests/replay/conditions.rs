//! Conditions, against a search that looks at every single instruction.

use std::ops::{ControlFlow, Range};

use retro_abi::channel::Stream;
use retro_abi::log::{Event, register};
use retro_replayer::{AccessKind, Condition, Detail, Item, Occurrence, Origin, Session};

use crate::recorded::{Place, Recorded};

/// Instructions that are looked at one by one.
const LOOKED_AT: u64 = 3000;

struct Looked {
    recorded: Recorded,
    place: Place,
    /// Where all of it begins.
    from: u64,
    /// The next instruction at each time from there on.
    pcs: Vec<u64>,
}

impl Looked {
    /// Goes through a stretch in the middle of a run.
    fn at(name: &str) -> Looked {
        let recorded = Recorded::guest(name, &[]);
        let place = recorded.longest();
        let from = place.interval.start + place.interval.instructions() / 2;
        let mut looked = Looked { recorded, place, from, pcs: Vec::new() };
        let mut session = looked.session();
        for time in from..from + LOOKED_AT {
            assert_eq!(session.time(), time);
            looked.pcs.push(session.pc());
            session.step().unwrap();
        }
        looked
    }

    /// A new session where it begins.
    fn session(&self) -> Session {
        let replayer = &self.recorded.replayer;
        let mut session = replayer.session(self.place.log, self.place.interval.number).unwrap();
        session.run_to(self.from).unwrap();
        session
    }

    fn until(&self) -> u64 {
        self.from + LOOKED_AT - 1
    }
}

#[test]
fn executed_addresses_are_found() {
    let looked = Looked::at("flow_loops");
    for index in [1, 10, 500, 1999] {
        let mut session = looked.session();
        let mut expected = looked.pcs.iter().enumerate().skip(1);
        let wanted = [looked.pcs[index], 0xdead_0000];
        let (first, &address) = expected.find(|(_, pc)| wanted.contains(pc)).unwrap();
        let found =
            session.run_until(looked.until(), &Condition::Executed(wanted.to_vec())).unwrap();
        let time = looked.from + first as u64;
        let thread = session.thread();
        assert_eq!(found, Some(Occurrence::Executed { time, thread, address }));
        assert_eq!((session.time(), session.pc()), (time, address));
        // The next time, not this one again.
        let next =
            expected.find(|(_, pc)| wanted.contains(pc)).map(|(next, _)| looked.from + next as u64);
        let again =
            session.run_until(looked.until(), &Condition::Executed(wanted.to_vec())).unwrap();
        assert_eq!(again.is_some(), next.is_some());
        assert_eq!(session.time(), next.unwrap_or(looked.until()));
    }
}

/// The limit counts; one before does not reach it.
#[test]
fn limits_are_kept() {
    let looked = Looked::at("flow_loops");
    let index = 700;
    let wanted = Condition::Executed(vec![looked.pcs[index]]);
    let first =
        looked.pcs.iter().skip(1).position(|pc| *pc == looked.pcs[index]).unwrap() as u64 + 1;
    let mut session = looked.session();
    assert_eq!(session.run_until(looked.from + first - 1, &wanted).unwrap(), None);
    assert_eq!(session.time(), looked.from + first - 1);
    assert!(session.run_until(looked.from + first, &wanted).unwrap().is_some());
    let mut session = looked.session();
    assert_eq!(session.run_until(u64::MAX, &Condition::Executed(vec![3])).unwrap(), None);
    assert_eq!(session.time(), looked.place.interval.end);
}

/// The first change of a few bytes that single steps see.
fn first_change(looked: &Looked, range: &Range<u64>) -> Option<u64> {
    let mut session = looked.session();
    let len = (range.end - range.start) as usize;
    let before = session.read(range.start, len).unwrap();
    (looked.from + 1..=looked.until()).find(|_| {
        session.step().unwrap();
        session.read(range.start, len).unwrap() != before
    })
}

#[test]
fn writes_are_found() {
    let looked = Looked::at("flow_recursion");
    let stack = looked.session().registers(None).unwrap().general[4];
    for range in [stack - 8..stack, stack - 64..stack - 56, stack - 7..stack - 6] {
        let mut session = looked.session();
        let found = session.run_until(looked.until(), &Condition::Written(range.clone())).unwrap();
        let changed = first_change(&looked, &range);
        let Some(Occurrence::Accessed { time, kind, origin, address, value, .. }) = found else {
            assert_eq!(changed, None, "{range:x?}: {found:?}");
            continue;
        };
        assert_eq!(session.time(), time);
        assert!(changed.is_none_or(|changed| time <= changed), "{range:x?}: {time}, {changed:?}");
        assert!(kind.writes() && address < range.end && address + value.len() as u64 > range.start);
        let index = (time - 1 - looked.from) as usize;
        assert_eq!(origin, Origin::Instruction(looked.pcs[index]));
        assert_eq!(session.read(address, value.len()).unwrap(), value, "what is there now");
    }
}

/// What a stream has is what a condition finds, for reads and writes, one after the other.
#[test]
fn accesses_are_those_of_the_stream() {
    let looked = Looked::at("flow_recursion");
    let until = looked.place.interval.end.min(looked.from + 100_000);
    let stack = looked.session().registers(None).unwrap().general[4];
    let range = stack - 32..stack + 32;
    for (detail, writes) in [(Detail::WRITES, true), (Detail::READS, false)] {
        let mut expected = Vec::new();
        let visit = |item: &Item<'_>| {
            match item {
                Item::Block(block) => {
                    let inside =
                        |address: u64, len: u64| address < range.end && address + len > range.start;
                    let hits = block.accesses().filter(|access| access.kind.writes() == writes);
                    expected.extend(hits.filter(|a| inside(a.address, a.len)).map(|a| a.time + 1));
                }
                Item::Event { time, event: Event::Write { address, bytes }, .. }
                    if writes
                        && *address < range.end
                        && address + bytes.len() as u64 > range.start =>
                {
                    expected.push(*time);
                }
                Item::Event { .. } => {}
            }
            ControlFlow::Continue(())
        };
        looked.session().stream(until, detail | Detail::CALLS, visit).unwrap();
        expected.dedup();
        let condition =
            if writes { Condition::Written(range.clone()) } else { Condition::Read(range.clone()) };
        let mut session = looked.session();
        for time in expected.iter().take(30) {
            match session.run_until(until, &condition).unwrap() {
                Some(Occurrence::Accessed { time: found, kind, .. }) => {
                    assert_eq!((found, kind.writes()), (*time, writes));
                    assert_eq!(session.time(), found);
                }
                other => panic!("{other:?} instead of an access at {time}"),
            }
        }
        if expected.len() < 30 {
            assert_eq!(session.run_until(until, &condition).unwrap(), None);
        }
        assert!(!expected.is_empty(), "something is accessed");
    }
}

#[test]
fn system_calls_are_found() {
    let recorded = Recorded::guest("thread_create_join", &[]);
    let place = recorded.longest();
    let mut expected = Vec::new();
    let recording = recorded.replayer.recording();
    let visit = |time, event: &Event<'_>| {
        if let Event::SyscallEnter { number, args, .. } = *event
            && time > place.interval.start
        {
            expected.push((time, number, args));
        }
        ControlFlow::<()>::Continue(())
    };
    let _ = recording.for_each_event(place.log, Stream::Main, visit).unwrap();
    let mut session = recorded.replayer.session(place.log, place.interval.number).unwrap();
    for &(at, call, args) in expected.iter().take(60) {
        let before = at - 1;
        let found = session.run_until(u64::MAX, &Condition::Syscall(None)).unwrap();
        let Some(Occurrence::Syscall { time, number, arguments, .. }) = found else {
            panic!("{found:?}")
        };
        assert_eq!((time, number, arguments), (at, call, args), "after {before}");
    }
    // The last of a kind, and none after it.
    let (_, number, _) = expected[expected.len() / 2];
    let count = expected.iter().filter(|(_, other, _)| *other == number).count();
    let mut session = recorded.replayer.session(place.log, place.interval.number).unwrap();
    for _ in 0..count {
        let found = session.run_until(u64::MAX, &Condition::Syscall(Some(number))).unwrap();
        assert!(
            matches!(found, Some(Occurrence::Syscall { number: found, .. }) if found == number)
        );
    }
    assert_eq!(session.run_until(u64::MAX, &Condition::Syscall(Some(number))).unwrap(), None);
}

/// What the kernel writes counts, and who did it is told.
#[test]
fn the_kernel_writes_too() {
    let recorded = Recorded::guest("process_pipeline", &[]);
    let mut found_any = false;
    for place in recorded.places() {
        let mut first = None;
        let recording = recorded.replayer.recording();
        let visit = |time, event: &Event<'_>| match *event {
            Event::Write { address, bytes } if time > place.interval.start => {
                first = Some((time, address, bytes.to_vec()));
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        };
        let _ = recording
            .for_each_event_from(place.log, Stream::Main, place.interval.start, visit)
            .unwrap();
        let Some((time, address, bytes)) = first else { continue };
        let mut session = recorded.replayer.session(place.log, place.interval.number).unwrap();
        session.run_to(time - 1).unwrap();
        let range = address..address + bytes.len() as u64;
        let found = session.run_until(time, &Condition::Written(range)).unwrap();
        let Some(Occurrence::Accessed { time: at, kind, origin, value, .. }) = found else {
            panic!("{found:?}")
        };
        assert_eq!((at, kind, origin, value), (time, AccessKind::Write, Origin::Kernel, bytes));
        found_any = true;
    }
    assert!(found_any);
}

/// Breakpoints that somebody has set are there again afterwards, and do not matter meanwhile.
#[test]
fn breakpoints_are_kept_apart() {
    let looked = Looked::at("flow_loops");
    let mut session = looked.session();
    let own = looked.pcs[5];
    session.set_breakpoints(&[own]).unwrap();
    assert_eq!(session.run_until(looked.from + 100, &Condition::Executed(vec![3])).unwrap(), None);
    assert_eq!(session.time(), looked.from + 100);
    let next = looked.pcs.iter().skip(101).position(|pc| *pc == own);
    let stop = session.run_to(looked.until()).unwrap();
    assert_eq!(stop.time, next.map_or(looked.until(), |index| looked.from + 101 + index as u64));
    assert_eq!(register::NAMES[4], "rsp");
}
