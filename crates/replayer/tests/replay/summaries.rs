//! Summaries against streams: the same stretch, told as a whole and one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use retro_abi::log::{Event, MapKind};
use retro_replayer::{
    AccessKind, Detail, Error, Item, PAGE_SIZE, Session, Summary, Transfer, WrittenPage,
};

use crate::recorded::{Place, Recorded};

/// Most instructions of an interval that are looked at.
const MOST: u64 = 3_000_000;

/// What a stretch has done.
#[derive(Debug, Default, PartialEq, Eq)]
struct Done {
    executed: BTreeMap<u64, u64>,
    transfers: Vec<Transfer>,
    /// Words of eight bytes that were written, by number.
    words: BTreeSet<u64>,
    /// Memory that got other contents as a whole, after which nothing is known of what was written there.
    replaced: Vec<(u64, u64)>,
}

/// A summary as it comes.
#[derive(Default)]
struct Told {
    done: Done,
    pages: BTreeMap<u64, [u8; PAGE_SIZE]>,
    known: BTreeSet<u64>,
}

impl Summary for Told {
    fn transfer(&mut self, transfer: Transfer) {
        self.done.transfers.push(transfer);
    }

    fn executed(&mut self, pc: u64, lengths: &[u8], times: u32, _: bool) {
        let mut at = pc;
        for &len in lengths {
            *self.done.executed.entry(at).or_default() += u64::from(times);
            at += u64::from(len);
        }
    }

    fn cleared(&mut self, start: u64, end: u64) -> Result<(), Error> {
        for (_, page) in self.pages.range_mut(start..end) {
            page.fill(0);
        }
        Ok(())
    }

    fn written(&mut self, page: WrittenPage<'_>) -> Result<(), Error> {
        let is_set = |bits: &[u8], index: u64| bits[index as usize / 8] >> (index % 8) & 1 != 0;
        let words = (0..512).filter(|&word| is_set(page.words, word));
        self.done.words.extend(words.map(|word| page.address / 8 + word));
        let bytes = (0..4096).filter(|&byte| is_set(page.bytes_known, byte));
        self.known.extend(bytes.map(|byte| page.address + byte));
        self.pages.insert(page.address, *page.bytes);
        Ok(())
    }
}

/// The same by looking at every instruction. Gaps in `exact` are places where a summary may say more.
fn stream(session: &mut Session, until: u64) -> Done {
    let mut done = Done::default();
    let detail = Detail::CALLS | Detail::WRITES;
    let visit = |item: &Item<'_>| {
        match item {
            Item::Block(block) => {
                for time in block.time..block.end() {
                    *done.executed.entry(block.pc_at(time)).or_default() += 1;
                }
                for access in block.accesses() {
                    match access.kind {
                        AccessKind::Call => {
                            done.transfers.push(Transfer::Call { slot: access.address });
                        }
                        AccessKind::Return => {
                            done.transfers.push(Transfer::Return { slot: access.address });
                        }
                        _ => {}
                    }
                    if access.kind.writes() {
                        done.write(access.address, access.len);
                    }
                }
            }
            Item::Event { event: Event::Write { address, bytes }, .. } => {
                done.write(*address, bytes.len() as u64);
            }
            Item::Event { event, .. } => match event {
                Event::ThreadSwitch { thread, .. } | Event::ThreadStart { thread } => {
                    done.transfers.push(Transfer::Switch { thread: *thread });
                }
                Event::Interval { running, .. } => {
                    done.transfers.push(Transfer::Switch { thread: *running });
                }
                Event::Map { kind, start, len, .. } => {
                    assert!(*kind as u8 <= MapKind::Move as u8);
                    done.replaced.push((*start, start + len));
                }
                _ => {}
            },
        }
        ControlFlow::Continue(())
    };
    session.stream(until, detail, visit).unwrap();
    done
}

impl Done {
    fn write(&mut self, address: u64, len: u64) {
        if len > 0 {
            self.words.extend(address / 8..=(address + len - 1) / 8);
        }
    }
}

fn check_place(recorded: &Recorded, place: Place, window: u64) {
    let Place { log, interval } = place;
    let mut plain = recorded.replayer.session(log, interval.number).unwrap();
    let mut summed = recorded.replayer.summary_session(log, interval.number, None).unwrap();
    let mut told = Told::default();
    // What the log has at the very start has happened before either looks.
    summed.summarise(summed.time(), &mut told).unwrap();
    told.done = Done::default();
    let end = interval.end.min(interval.start + MOST);
    while summed.time() < end {
        let until = (summed.time() + window).min(end);
        let expected = stream(&mut plain, until);
        let stop = summed.summarise(until, &mut told).unwrap();
        let found = std::mem::take(&mut told.done);
        assert_eq!(stop.time, plain.time());
        assert_eq!(found.executed, expected.executed, "{place:?} executed up to {until}");
        assert_eq!(found.transfers, expected.transfers, "{place:?} transfers up to {until}");
        let words = |done: &Done, other: &Done| -> Vec<u64> {
            done.words.difference(&other.words).map(|word| word * 8).collect()
        };
        assert_eq!(
            words(&expected, &found),
            [0u64; 0],
            "{place:?} written, not told, up to {until}"
        );
        assert_eq!(
            words(&found, &expected),
            [0u64; 0],
            "{place:?} told, not written, up to {until}"
        );
        for (&address, page) in &told.pages {
            assert!(
                plain.read(address, PAGE_SIZE).unwrap() == page,
                "page {address:#x} at {until}"
            );
        }
        let was_replaced = |address: u64| {
            expected.replaced.iter().any(|&(start, end)| start < address + 8 && address < end)
        };
        for address in found.words.iter().map(|word| word * 8) {
            let is_known = (0..8).any(|byte| told.known.contains(&(address + byte)));
            assert!(is_known || was_replaced(address), "{place:?} {address:#x} up to {until}");
        }
    }
}

fn check(name: &str, options: &[&str]) {
    let recorded = Recorded::guest(name, options);
    for place in recorded.places() {
        for window in [50_021, 1_000_000] {
            check_place(&recorded, place, window);
        }
    }
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
    stack: "insn_stack" [];
    exchanges: "insn_cmpxchg" [];
    vectors: "insn_sse" [];
    saved_vectors: "insn_xsave" [];
    x87: "insn_x87" [];
    moved_memory: "memory_mremap" [];
    segments: "insn_segments" [];
}
