//! Streams: everything that happens, once, in order, with the right values.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, RangeInclusive};

use retro_abi::channel::Stream;
use retro_abi::log::Event;
use retro_replayer::{AccessKind, Detail, Ending, Item, PAGE_SIZE, Session};

use crate::model::Memory;
use crate::recorded::{Place, Recorded};

/// Most instructions that one test streams: the model is slow.
const MOST: u64 = 2_000_000;

fn everything() -> Detail {
    Detail::CALLS | Detail::WRITES | Detail::READS
}

/// Memory at the start of an interval: what the log has there has happened before the first item.
fn memory_at_start(recorded: &Recorded, place: Place) -> Memory {
    let mut memory = Memory::default();
    let mut begun = false;
    let recording = recorded.replayer.recording();
    let visit = |time, event: &Event<'_>| {
        begun |=
            matches!(event, Event::Interval { number, .. } if *number == place.interval.number);
        if time > place.interval.start {
            return ControlFlow::Break(());
        }
        if begun {
            memory.event(event);
        }
        ControlFlow::Continue(())
    };
    let _ = recording
        .for_each_event_from(place.log, Stream::Main, place.interval.start, visit)
        .unwrap();
    memory
}

/// Streams the beginning of an interval and checks what comes against the session's own memory.
/// Returns how many calls, returns and bytes read there were.
fn check_place(recorded: &Recorded, place: Place) -> [u64; 3] {
    let mut session = recorded.replayer.session(place.log, place.interval.number).unwrap();
    let first = session.time();
    let until = place.interval.end.min(first + MOST);
    let mut memory = memory_at_start(recorded, place);
    let (mut time, mut thread, mut calls, mut returns) = (first, session.thread(), 0, 0);
    let stop = session.stream(until, everything(), |item| {
        memory.apply(item);
        match item {
            Item::Block(block) => {
                assert_eq!((block.time, block.thread), (time, thread), "blocks follow each other");
                time = block.end();
                let mut at = block.time;
                for access in block.accesses() {
                    assert!((at..time).contains(&access.time), "accesses are in order");
                    at = access.time;
                    calls += u64::from(access.kind == AccessKind::Call);
                    returns += u64::from(access.kind == AccessKind::Return);
                }
            }
            Item::Event { time: at, thread: after, .. } => {
                assert_eq!(*at, time, "an event comes right after what retires at its time");
                thread = *after;
            }
        }
        ControlFlow::Continue(())
    });
    assert_eq!(stop.unwrap().time, time, "{place:?}: every instruction is in a block");
    assert_eq!(session.thread(), thread);
    compare_memory(&mut session, &memory);
    [calls, returns, memory.reads]
}

fn compare_memory(session: &mut Session, memory: &Memory) {
    for (&address, expected) in &memory.pages {
        let found = session.read(address, PAGE_SIZE).unwrap();
        for (at, (found, expected)) in (address..).zip(found.iter().zip(&expected[..])) {
            assert_eq!(found, expected, "memory at {at:#x}");
        }
    }
}

fn check(name: &str, options: &[&str]) {
    let recorded = Recorded::guest(name, options);
    let mut counts = [0; 3];
    for place in recorded.places() {
        let more = check_place(&recorded, place);
        counts = std::array::from_fn(|index| counts[index] + more[index]);
    }
    assert!(counts.iter().all(|&count| count > 0), "{counts:?} calls, returns, bytes read");
}

macro_rules! guests {
    ($($name:ident: $guest:literal $options:tt;)*) => {
        $(#[test] fn $name() { check($guest, &$options); })*
    };
}

guests! {
    threads: "thread_mutex" [];
    threads_in_short_intervals: "thread_cond_queue" ["--interval", "100k"];
    signals: "signal_async_registers" [];
    just_in_time_code: "code_jit_many" [];
    self_modifying_code: "code_self_modify" [];
    string_instructions: "insn_strings" [];
    addressing: "insn_addressing" [];
    alignment_checks: "insn_alignment" [];
    alignment_checks_that_hold: "insn_alignment_kept" [];
    stack: "insn_stack" [];
    exchanges: "insn_cmpxchg" [];
    vectors: "insn_sse" [];
    saved_vectors: "insn_xsave" [];
    x87: "insn_x87" [];
    moved_memory: "memory_mremap" [];
    segments: "insn_segments" [];
}

/// What happened does not depend on where a stream is cut, or on what is streamed along.
#[test]
fn pieces_make_the_whole() {
    let recorded = Recorded::guest("thread_create_join", &[]);
    let place = recorded.longest();
    let end = place.interval.end.min(place.interval.start + 200_000);
    let writes = |step: u64, detail: Detail| {
        let mut session = recorded.replayer.session(place.log, place.interval.number).unwrap();
        let mut found = Vec::new();
        while session.time() < end {
            let until = (session.time() + step).min(end);
            let visit = |item: &Item<'_>| {
                match item {
                    Item::Block(block) => {
                        let writes =
                            block.accesses().filter(|access| access.kind == AccessKind::Write);
                        found.extend(writes.map(|a| (a.time, a.address, a.value.to_vec())));
                    }
                    Item::Event { time, event, .. } => {
                        found.push((*time, event.kind() as u64, Vec::new()))
                    }
                }
                ControlFlow::Continue(())
            };
            session.stream(until, detail, visit).unwrap();
        }
        found
    };
    let whole = writes(u64::MAX / 2, Detail::WRITES);
    assert!(whole.len() > 1000);
    assert!(writes(777, Detail::WRITES) == whole, "in small pieces");
    assert!(writes(50_000, everything()) == whole, "with everything else");
}

/// A return reads what its call has written, and goes behind it.
#[test]
fn returns_go_where_calls_came_from() {
    /// No instruction is longer.
    const LONGEST_INSTRUCTION: u64 = 15;
    let recorded = Recorded::guest("flow_recursion", &[]);
    let place = recorded.longest();
    let mut session = recorded.replayer.session(place.log, place.interval.number).unwrap();
    // Where return addresses are, with the places that they can point to.
    let mut slots = BTreeMap::new();
    let mut returning = None;
    let mut compared = 0;
    let visit = |item: &Item<'_>| {
        let Item::Block(block) = item else {
            returning = None;
            return ControlFlow::Continue(());
        };
        if let Some(range) = returning.take() {
            let range: &RangeInclusive<u64> = &range;
            assert!(range.contains(&block.pc()), "{:#x} is not in {range:x?}", block.pc());
            compared += 1;
        }
        for access in block.accesses() {
            let length = LONGEST_INSTRUCTION * u64::from(block.instructions());
            match access.kind {
                AccessKind::Call => {
                    assert_eq!(block.ending(), Ending::Call);
                    slots.insert(access.address, block.pc() + 1..=block.pc() + length);
                }
                AccessKind::Return => {
                    assert_eq!(block.ending(), Ending::Return);
                    returning = slots.remove(&access.address);
                }
                kind => panic!("{kind:?} was not asked for"),
            }
        }
        ControlFlow::Continue(())
    };
    session.stream(place.interval.end.min(session.time() + MOST), Detail::CALLS, visit).unwrap();
    assert!(compared > 100, "{compared}");
}
