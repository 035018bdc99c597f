//! Every window alone: whatever the order, its end is what the run from the start has there.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use retro_abi::replay::PIECE;
use retro_replayer::{
    Error, Memory, PAGE_SIZE, Piece, Registers, Session, Snapshot, Start, Summary, Transfer,
    WrittenPage,
};

use crate::recorded::{Place, Recorded, shuffled};

/// What the run from the start was like at the end of a window.
struct End {
    time: u64,
    registers: Vec<Registers>,
    /// All pages that were touched.
    pages: Pages,
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

/// Pages as they were at some moment; the others were zero.
#[derive(Clone, Debug, Default)]
struct Pages(BTreeMap<u64, [u8; PAGE_SIZE]>);

impl Memory for Pages {
    fn piece(&self, address: u64) -> io::Result<Piece> {
        let mut piece = Piece::default();
        for index in 0..PIECE / PAGE_SIZE as u64 {
            if let Some(page) = self.0.get(&(address / PIECE * PIECE + index * PAGE_SIZE as u64)) {
                piece.mask |= 1 << index;
                piece.bytes.extend_from_slice(page);
            }
        }
        Ok(piece)
    }

    /// Some of them: the others have to be asked for.
    fn needed_soon(&self) -> io::Result<Vec<u64>> {
        let mut pieces: Vec<u64> = self.0.keys().map(|page| page / PIECE * PIECE).collect();
        pieces.dedup();
        Ok(pieces.into_iter().step_by(2).collect())
    }
}

impl Summary for Pages {
    fn transfer(&mut self, _: Transfer) {}
    fn executed(&mut self, _: u64, _: &[u8], _: u32, _: bool) {}

    fn cleared(&mut self, start: u64, end: u64) -> Result<(), Error> {
        self.0.range_mut(start..end).for_each(|(_, page)| page.fill(0));
        Ok(())
    }

    fn written(&mut self, page: WrittenPage<'_>) -> Result<(), Error> {
        self.0.insert(page.address, *page.bytes);
        Ok(())
    }
}

/// What a run from the start was like at the start and at the end of a window.
struct Window {
    start: Start,
    end: End,
}

/// Runs from the start, window by window. `kept` is the session of the interval before.
fn run_through(
    recorded: &Recorded,
    place: Place,
    size: u64,
    kept: &mut Option<Session>,
) -> Vec<Window> {
    let (log, interval) = (place.log, place.interval);
    let mut session = match kept.take().filter(|session| session.log() == log) {
        Some(mut session) => {
            session.go_to_interval(&recorded.replayer, interval.number).unwrap();
            session
        }
        None => recorded.replayer.summary_session(log, interval.number, None).unwrap(),
    };
    let mut windows = Vec::new();
    let mut pages = Pages::default();
    session.summarise(session.time(), &mut pages).unwrap();
    loop {
        let snapshot = Arc::new(Snapshot::take(&mut session, None).unwrap());
        let start = Start { snapshot, memory: Arc::new(pages.clone()) };
        let until = (session.time() + size).min(interval.end);
        let stop = session.summarise(until, &mut pages).unwrap();
        let registers = all_registers(&mut session);
        let end = End { time: stop.time, registers, pages: pages.clone() };
        windows.push(Window { start, end });
        if stop.time >= interval.end || stop.time < until {
            *kept = Some(session);
            return windows;
        }
    }
}

fn check_interval(recorded: &Recorded, place: Place, count: u64, kept: &mut Option<Session>) {
    let size = place.interval.instructions() / count + 1;
    let windows = run_through(recorded, place, size, kept);
    let mut last: Option<Session> = None;
    for (round, window) in shuffled(windows.len()).into_iter().enumerate() {
        let Window { start, end } = &windows[window];
        let what = format!("{place:?}, window {window}");
        let (log, interval) = (place.log, place.interval.number);
        let mut session = match last.take().filter(|_| round % 3 > 0) {
            // From wherever it is, forwards and backwards.
            Some(mut session) => {
                session.go_to_start(&recorded.replayer, interval, start.clone()).unwrap();
                session
            }
            None => recorded.replayer.session_from(log, interval, start.clone()).unwrap(),
        };
        assert_eq!(session.time(), start.snapshot.time, "{what}");
        if let Some(before) = window.checked_sub(1) {
            assert_same(
                &all_registers(&mut session),
                &windows[before].end.registers,
                &format!("{what}, at its start"),
            );
        }
        assert_eq!(session.run_to(end.time).unwrap().time, end.time, "{what}");
        assert_same(&all_registers(&mut session), &end.registers, &format!("{what}, at its end"));
        for (&address, bytes) in &end.pages.0 {
            let found = session.read(address, PAGE_SIZE).unwrap();
            assert!(found == bytes, "{what}: page {address:#x} differs");
        }
        last = Some(session);
    }
}

fn check(name: &str, options: &[&str]) {
    let recorded = Recorded::guest(name, options);
    let mut kept = None;
    for place in recorded.places() {
        check_interval(&recorded, place, 7, &mut kept);
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
    let mut first = recorded.replayer.session(place.log, place.interval.number).unwrap();
    let mut session = first.fork().unwrap();
    while session.time() < end {
        session.step().unwrap();
    }
    let expected = all_registers(&mut session);
    for index in shuffled(300).into_iter().take(20) {
        let mut copy = first.fork().unwrap();
        copy.run_to(place.interval.start + index as u64).unwrap();
        copy.run_to(end).unwrap();
        assert_same(&all_registers(&mut copy), &expected, &format!("from {index}"));
    }
}
