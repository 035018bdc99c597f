//! Every window alone: whatever the order, its end is what the run from the start has there.

use std::collections::BTreeMap;

use retro_replayer::{PAGE_SIZE, Registers, Session};

use crate::recorded::{Place, Recorded, shuffled};

/// What the run from the start was like at the end of a window.
struct End {
    time: u64,
    registers: Vec<Registers>,
    /// Pages that the window has changed.
    changed: BTreeMap<u64, [u8; PAGE_SIZE]>,
}

fn all_registers(session: &mut Session) -> Vec<Registers> {
    let threads = session.threads().unwrap();
    let mut all: Vec<Registers> =
        threads.iter().map(|info| session.registers(Some(info.thread)).unwrap()).collect();
    assert!(all[0].running, "the running thread comes first");
    assert_eq!(all[0].pc(), session.pc());
    all.sort_by_key(|registers| registers.thread);
    all
}

/// Says where registers differ, rather than all that they are.
fn assert_same(found: &[Registers], expected: &[Registers], what: &str) {
    let threads = |all: &[Registers]| -> Vec<_> {
        all.iter()
            .map(|registers| (registers.thread, registers.in_syscall, registers.running))
            .collect()
    };
    assert_eq!(threads(found), threads(expected), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.general, expected.general, "{what}, thread {}", found.thread);
        let bytes = found.vectors.iter().zip(&expected.vectors).enumerate();
        let differences: Vec<_> =
            bytes.filter(|(_, (found, expected))| found != expected).collect();
        assert!(found == expected, "{what}, thread {}: {differences:?}", found.thread);
    }
}

/// Runs from the start, window by window.
fn run_through(recorded: &Recorded, place: Place, size: u64) -> Vec<End> {
    let mut session = recorded.replayer.tracking_session(place.log, place.interval.number).unwrap();
    let mut ends = Vec::new();
    session.changes(|_| Ok(())).unwrap();
    loop {
        let until = (session.time() + size).min(place.interval.end);
        let stop = session.run_to(until).unwrap();
        let mut changed = BTreeMap::new();
        session
            .changes(|page| {
                changed.insert(page.address, *page.bytes);
                Ok(())
            })
            .unwrap();
        ends.push(End { time: stop.time, registers: all_registers(&mut session), changed });
        if stop.time >= place.interval.end || stop.time < until {
            return ends;
        }
    }
}

fn check_interval(recorded: &Recorded, place: Place, count: u64) {
    let size = place.interval.instructions() / count + 1;
    let ends = run_through(recorded, place, size);
    let windows = recorded.replayer.cut(place.log, place.interval.number, size, |_| {}).unwrap();
    assert_eq!(windows.count(), ends.len(), "{place:?}");
    for window in shuffled(windows.count()) {
        let end = &ends[window];
        let what = format!("{place:?}, window {window}");
        let mut session = windows.session_at(window).unwrap();
        assert_eq!(session.time(), windows.snapshot(window).unwrap().time, "{what}");
        if let Some(before) = window.checked_sub(1) {
            assert_same(
                &all_registers(&mut session),
                &ends[before].registers,
                &format!("{what}, at its start"),
            );
        }
        assert_eq!(session.run_to(end.time).unwrap().time, end.time, "{what}");
        assert_same(&all_registers(&mut session), &end.registers, &format!("{what}, at its end"));
        for (&address, bytes) in &end.changed {
            let found = session.read(address, PAGE_SIZE).unwrap();
            assert!(found == bytes, "{what}: page {address:#x} differs");
        }
    }
}

fn check(name: &str, options: &[&str]) {
    let recorded = Recorded::guest(name, options);
    for place in recorded.places() {
        check_interval(&recorded, place, 7);
    }
}

macro_rules! guests {
    ($($name:ident: $guest:literal $options:tt;)*) => {
        $(#[test] fn $name() { check($guest, &$options); })*
    };
}

guests! {
    threads: "thread_create_join" [];
    many_threads_in_chaos: "thread_many" ["--chaos=7"];
    locks: "thread_mutex" [];
    threads_in_short_intervals: "thread_cond_queue" ["--interval", "200k"];
    signals: "signal_async_registers" [];
    signals_in_string_instructions: "signal_string_interrupt" [];
    nested_signals: "signal_altstack_nested" [];
    just_in_time_code: "code_jit_many" [];
    self_modifying_code: "code_self_modify" [];
    string_instructions: "insn_strings" [];
    vectors: "insn_sse" [];
    x87: "insn_x87" [];
    moved_memory: "memory_mremap" [];
    dropped_memory: "memory_madvise" [];
    forks: "process_fork" [];
}

/// The smallest windows: one instruction each.
#[test]
fn single_instructions() {
    let recorded = Recorded::guest("insn_stack", &[]);
    let place = recorded.longest();
    let end = place.interval.start + 300;
    let mut session = recorded.replayer.session(place.log, place.interval.number).unwrap();
    let mut copies = Vec::new();
    while session.time() < end {
        copies.push(session.fork().unwrap());
        session.step().unwrap();
    }
    let expected = all_registers(&mut session);
    for index in shuffled(copies.len()).into_iter().take(20) {
        let copy = &mut copies[index];
        copy.run_to(end).unwrap();
        assert_same(&all_registers(copy), &expected, &format!("from {index}"));
    }
}
