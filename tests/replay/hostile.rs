//! Recordings whose checksums are right and whose contents are made to do harm.

use std::time::{Duration, Instant};

use retro_abi::layout::{CACHE_BASE, ENGINE_BASE, GUEST_END, GUEST_MIN, SHADOW_DISTANCE};
use retro_abi::log::{Event, MapKind, RegisterSet, register};
use retro_testkit::compare::{Ending, Outcome, assert_orderly};

use crate::forged::{CODE, Forged, LOOP, STACK, THREAD};
use crate::{Place, text};

/// No case takes longer; nearly all take a fraction of a second.
const PATIENCE: Duration = Duration::from_secs(20);

/// Verifies and traces what was forged; returns the outcome of verifying.
#[track_caller]
fn looked_at(place: &Place, forged: &Forged, what: &str) -> Outcome {
    forged.write(&place.recording());
    let begun = Instant::now();
    let trace = ["replay", "--trace=blocks,writes,calls,syscalls", "recording"];
    assert_orderly(&place.retro(&trace), what);
    let verified = place.retro(&["verify", "recording"]);
    assert_orderly(&verified, what);
    assert!(begun.elapsed() < PATIENCE, "{what}: {:?}", begun.elapsed());
    let is_well = text(&verified.stdout).ends_with("OK\n");
    assert_eq!(is_well, verified.status == Ending::Exited(0), "{what}");
    verified
}

/// The same for what cannot be right; returns what was said about it.
#[track_caller]
fn refused(place: &Place, forged: &Forged, what: &str) -> String {
    let outcome = looked_at(place, forged, what);
    let said = text(&outcome.stderr);
    assert_eq!(outcome.status, Ending::Exited(1), "{what}: {said}");
    said
}

/// Everything below differs from this in one thing.
#[test]
fn what_is_right_replays() {
    let place = Place::new("hostile-right");
    let outcome = looked_at(&place, &Forged::new(LOOP, 1000), "a loop");
    assert_eq!(outcome.status, Ending::Exited(0), "{}", text(&outcome.stderr));
    let late = Forged { begin: 1 << 50, ..Forged::new(LOOP, (1 << 50) + 1000) };
    let outcome = looked_at(&place, &late, "a loop that begins late");
    assert_eq!(outcome.status, Ending::Exited(0), "{}", text(&outcome.stderr));
}

#[test]
fn endless_loops_are_refused() {
    let place = Place::new("hostile-times");
    for end in [1 << 40, 1 << 60, u64::MAX - 1, u64::MAX] {
        let said = refused(&place, &Forged::new(LOOP, end), "an absurd end");
        assert!(said.contains("log 0, interval 0 cannot be replayed: "), "{said}");
        assert!(said.contains(&end.to_string()), "{said}");
    }
    // Even where the user has asked for such intervals, the process has not lived so long.
    let said = refused(
        &place,
        &Forged { interval: u64::MAX, summary_end: Some(1000), ..Forged::new(LOOP, 1 << 60) },
        "an end after the end",
    );
    assert!(said.contains("its process ended at time 1000"), "{said}");
    // At the end of time nothing overflows.
    let last = Forged { begin: u64::MAX - 1000, ..Forged::new(LOOP, u64::MAX) };
    looked_at(&place, &last, "at the end of time");
    let beyond = Forged::new(LOOP, 1000).with(u64::MAX, Event::SyscallExit { result: 0 });
    refused(&place, &beyond, "an event after the end of time, and back");
}

#[test]
fn memory_that_is_not_the_guest_s_is_refused() {
    let place = Place::new("hostile-memory");
    let addresses =
        [0, GUEST_MIN - 1, GUEST_END - 1, SHADOW_DISTANCE - 64, ENGINE_BASE, u64::MAX - 1];
    for address in addresses {
        for event in [
            Event::Write { address, bytes: b"harm" },
            Event::Load { address, bytes: b"harm" },
            map(MapKind::Map, address, 1 << 20, 0),
            map(MapKind::Move, address, 4096, CODE),
            map(MapKind::Move, STACK, 4096, address),
            Event::MemorySum { start: address, len: 8192, sum: 1 },
        ] {
            let said =
                refused(&place, &Forged::new(LOOP, 1000).with(500, event), &format!("{event:?}"));
            assert!(said.contains("time 500"), "{event:?}: {said}");
        }
    }
}

fn map(kind: MapKind, start: u64, len: u64, offset: u64) -> Event<'static> {
    Event::Map { kind, start, len, prot: 7, flags: 0x22, file: 0, offset }
}

/// All of the guest's memory may be mapped, cleared and summed; none of it is there.
#[test]
fn large_ranges_cost_nothing() {
    let place = Place::new("hostile-ranges");
    let all = GUEST_END - GUEST_MIN;
    for event in [
        map(MapKind::Map, GUEST_MIN, all, 0),
        map(MapKind::Unmap, GUEST_MIN, all, 0),
        map(MapKind::Discard, GUEST_MIN, all, 0),
        map(MapKind::Protect, GUEST_MIN, all, 0),
        map(MapKind::Map, STACK + 1, 0, 0),
        map(MapKind::Move, GUEST_MIN, all / 2, GUEST_MIN + all / 2),
    ] {
        let forged = Forged::new(LOOP, 1000).with(500, event);
        let outcome = looked_at(&place, &forged, &format!("{event:?}"));
        assert_eq!(outcome.status, Ending::Exited(0), "{event:?}: {}", text(&outcome.stderr));
    }
    for event in [
        map(MapKind::Map, 0, u64::MAX, 0),
        map(MapKind::Move, GUEST_MIN, all, GUEST_MIN + 4096),
        Event::MemorySum { start: GUEST_MIN, len: 1 << 40, sum: 1 },
        Event::MemorySum { start: 0, len: u64::MAX, sum: 0 },
    ] {
        refused(&place, &Forged::new(LOOP, 1000).with(500, event), &format!("{event:?}"));
    }
}

#[test]
fn states_that_make_no_sense_are_refused() {
    let place = Place::new("hostile-states");
    let ones = Forged { image: vec![0xff; 2432], ..Forged::new(LOOP, 1000) };
    let said = refused(&place, &ones, "an image of ones");
    assert!(said.contains("vector state"), "{said}");
    let long = Forged { image: vec![0; 30_000], ..Forged::new(LOOP, 1000) };
    looked_at(&place, &long, "a long image");
    let short = Forged { image: Vec::new(), ..Forged::new(LOOP, 1000) };
    looked_at(&place, &short, "no image");
    for number in 0..register::COUNT as u32 {
        for value in [u64::MAX, ENGINE_BASE] {
            let mut forged = Forged::new(LOOP, 1000);
            forged.registers.set(number, value);
            let what = format!("{} = {value:#x}", register::NAMES[number as usize]);
            let outcome = looked_at(&place, &forged, &what);
            if number == register::RIP {
                assert_eq!(outcome.status, Ending::Exited(1), "{what}");
            }
        }
    }
    let nobody = Forged { registers: RegisterSet::default(), ..Forged::new(LOOP, 1000) };
    refused(&place, &nobody, "no registers");
}

#[test]
fn events_out_of_place_are_refused() {
    let place = Place::new("hostile-events");
    let mut registers = RegisterSet::default();
    registers.set(register::RIP, u64::MAX);
    let call = Event::SyscallEnter { number: u64::MAX, args: [u64::MAX; 6], check: 0 };
    let state = |thread, image| Event::ThreadState { thread, in_syscall: 0, registers, image };
    let signal = |number, handler| Event::Signal {
        number,
        synchronous: true,
        handler,
        check: 0,
        info: &[0xff; 128],
    };
    for event in [
        call,
        signal(11, 0),
        signal(u32::MAX >> 1, u64::MAX),
        Event::Registers(registers),
        Event::Vectors { image: &[0xff; 1000] },
        Event::ThreadSwitch { thread: THREAD, check: 0 },
        Event::ThreadSwitch { thread: u32::MAX, check: 0 },
        Event::ThreadStart { thread: u32::MAX },
        Event::Interval { number: u64::MAX, running: u32::MAX, threads: u32::MAX },
        state(THREAD, &[]),
        Event::MemorySum { start: STACK - 4096, len: 4096, sum: 1 },
    ] {
        let forged = Forged::new(LOOP, 1000).with(500, event);
        refused(&place, &forged, &format!("{event:?}"));
    }
    for event in [
        Event::SyscallExit { result: u64::MAX },
        Event::ThreadEnd { thread: THREAD, code: u32::MAX },
        Event::ThreadEnd { thread: u32::MAX, code: u32::MAX },
        Event::Fork { pid: u32::MAX, log: u64::MAX },
        Event::End { how: u32::MAX, code: u32::MAX },
        Event::Inherit { log: u64::MAX, time: u64::MAX },
        Event::Code { address: u64::MAX, bytes: LOOP },
        state(u32::MAX, &[0xff; 3000]),
    ] {
        let forged = Forged::new(LOOP, 1000).with(500, event);
        looked_at(&place, &forged, &format!("{event:?}"));
    }
    let back = Forged::new(LOOP, 1000)
        .with(500, Event::Fork { pid: 1, log: 0 })
        .with(400, Event::Fork { pid: 1, log: 0 });
    refused(&place, &back, "time that goes back");
}

/// Code that breaks out, as far as it can.
#[test]
fn code_that_does_harm_is_contained() {
    let place = Place::new("hostile-code");
    let engine = ENGINE_BASE.to_le_bytes();
    let store_to = |address: u64| {
        // mov rdi, address; mov [rdi], rdi
        [&[0x48, 0xbf][..], &address.to_le_bytes(), &[0x48, 0x89, 0x3f], LOOP].concat()
    };
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("a jump to where nothing is", [&[0xe9][..], &[0, 0, 0, 1]].concat()),
        ("a jump to the engine", [&[0x48, 0xb8][..], &engine, &[0xff, 0xe0]].concat()),
        ("a return to nowhere", vec![0xc3]),
        ("a system call", vec![0x0f, 0x05, 0xeb, 0xfc]),
        ("an old system call", vec![0xcd, 0x80, 0xeb, 0xfc]),
        ("sysenter", vec![0x0f, 0x34]),
        ("a trap", vec![0xcc]),
        ("an undefined instruction", vec![0x0f, 0x0b]),
        ("a halt", vec![0xf4]),
        ("half an instruction", vec![0x48]),
        ("nothing", vec![]),
        ("a breakpoint register", vec![0x0f, 0x23, 0xc0]),
        ("a store to the engine", store_to(ENGINE_BASE)),
        ("a store to address 0", store_to(0)),
        ("a store beyond all", store_to(1 << 63)),
        ("cpuid, which the log must answer", vec![0x0f, 0xa2, 0xeb, 0xfc]),
        ("rdtsc, which the log must answer", vec![0x0f, 0x31, 0xeb, 0xfc]),
    ];
    for (what, code) in cases {
        let said = refused(&place, &Forged::new(&code, 1000), what);
        assert!(said.contains("the replay of log 0, interval 0"), "{what}: {said}");
    }
}

/// Code that writes over what the engine needs. Nothing is known of what happens then, but that it ends, and nobody else
/// is harmed.
#[test]
fn code_that_ruins_the_engine_is_contained() {
    let place = Place::new("hostile-ruin");
    let below_shadow = (1..40).map(|page| SHADOW_DISTANCE.wrapping_sub(page * 4096));
    let image = (0..40).map(|piece| ENGINE_BASE + piece * 0x1_0000);
    let cache = (0..4).map(|page| CACHE_BASE + page * 4096);
    for start in below_shadow.chain(image).chain(cache) {
        // mov rdi, start; mov ecx, 4096; mov al, 0x41; rep stosb
        let address = start.to_le_bytes();
        let code =
            [&[0x48, 0xbf][..], &address, &[0xb9, 0, 0x10, 0, 0, 0xb0, 0x41, 0xf3, 0xaa], LOOP]
                .concat();
        let forged = Forged::new(&code, 100_000);
        forged.write(&place.recording());
        let begun = Instant::now();
        let outcome = place.retro(&["verify", "recording"]);
        assert_orderly(&outcome, &format!("{start:#x}"));
        assert!(begun.elapsed() < PATIENCE, "{start:#x}: {:?}", begun.elapsed());
    }
}
