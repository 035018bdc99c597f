//! How often code was executed: up to a moment, and within one invocation of a function.
//!
//! The problem: whoever looks at a function wants to know of all its lines at once which were executed, and how often; an
//! invocation may last for the whole run. The strategy: the index has a count for every piece of code and window, so that
//! only windows that are cut by a limit are replayed. What it does not have is which invocation a piece belonged to: within the
//! windows that are replayed the calls tell, in those between them the function's code counts as that of the invocation.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use crate::locate::pieces_at;
use crate::run::{Process, Run, WindowRef};
use crate::{Cancel, Error, Moment};

/// Windows of an invocation that are replayed, at its beginning and at its end each.
const REPLAYED: usize = 1;

/// What an invocation of a function executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// The number of its first instruction.
    pub from: u64,
    /// The number behind its last one; the end of the run if it never ended.
    pub to: u64,
    /// Whether it is known to be this invocation alone; otherwise others within it may be counted, too.
    pub is_exact: bool,
    /// How often each address was executed.
    pub counts: BTreeMap<u64, u64>,
}

impl Run {
    /// How often instructions at each of some addresses were executed before a moment.
    pub fn counts_before(
        &self,
        before: Moment,
        addresses: &[u64],
        cancel: &Cancel,
    ) -> Result<Vec<u64>, Error> {
        let process = self.process(before.log)?;
        process.check_indexed(process.start, before.time.min(process.end))?;
        let mut counts = vec![0; addresses.len()];
        for volume in process.volumes.iter().take_while(|volume| volume.start < before.time) {
            cancel.check()?;
            let cut = (before.time < volume.end).then(|| volume.window_of(before.time));
            let whole = 0..cut.unwrap_or(volume.windows.len());
            let of_pieces = volume.code.count_each(whole, pieces_at(volume, addresses))?;
            for (count, address) in counts.iter_mut().zip(addresses) {
                let pieces = volume.pieces.containing(*address);
                *count += pieces.iter().filter_map(|piece| of_pieces.get(piece)).sum::<u64>();
            }
            let Some(window) = cut else { continue };
            if volume.code.contains(window, pieces_at(volume, addresses))? {
                let place = WindowRef { volume, window };
                let trace = self.trace_before(&process, place, before.time)?;
                let mut seen: HashMap<u64, u64> = HashMap::new();
                for (_, pc) in trace.executions(addresses, trace.range.start..before.time) {
                    *seen.entry(pc).or_default() += 1;
                }
                for (count, address) in counts.iter_mut().zip(addresses) {
                    *count += seen.get(address).copied().unwrap_or(0);
                }
            }
        }
        Ok(counts)
    }

    /// What one invocation of a function executed by itself, without what it called. `entry` is the moment in front of its first
    /// instruction, `code` what is counted where the index alone is asked.
    pub fn invocation(
        &self,
        entry: Moment,
        thread: u32,
        code: &[Range<u64>],
        cancel: &Cancel,
    ) -> Result<Arc<Invocation>, Error> {
        let process = self.process(entry.log)?;
        let call = (thread, entry.time);
        if let Some(known) = process.known_calls.invocation(call, code) {
            return Ok(known);
        }
        let end = self.end_of_frame(entry, thread)?;
        let to = end.map_or(process.end, |end| end.time.saturating_add(1));
        let times = entry.time..to.max(entry.time);
        let depth = self.depth(entry, thread)?;
        let windows = windows_of(&process, &times);
        let is_exact = windows.len() <= 2 * REPLAYED;
        let (first, rest) = windows.split_at(windows.len().min(REPLAYED));
        let (between, last) = match is_exact {
            true => rest.split_at(0),
            false => rest.split_at(rest.len() - REPLAYED),
        };
        let mut counts = BTreeMap::new();
        for place in first.iter().chain(last) {
            cancel.check()?;
            self.count_frame(&process, *place, thread, &times, depth, &mut counts)?;
        }
        for windows in between.chunk_by(|one, next| one.volume.start == next.volume.start) {
            cancel.check()?;
            count_windows(windows, code, &mut counts)?;
        }
        let found = Invocation { from: times.start, to: times.end, is_exact, counts };
        let found = Arc::new(found);
        process.known_calls.keep_invocation(call, code, &found);
        Ok(found)
    }

    /// Counts the instructions of a thread in a window that are as deep as a frame.
    fn count_frame(
        &self,
        process: &Process,
        place: WindowRef<'_>,
        thread: u32,
        times: &Range<u64>,
        frame_depth: u64,
        counts: &mut BTreeMap<u64, u64>,
    ) -> Result<(), Error> {
        let trace = self.trace(process, place)?;
        let start = trace.range.start.max(times.start);
        let end = trace.range.end.min(times.end);
        let at_start = self.depth(Moment { log: process.log, time: start }, thread)?;
        let mut depth = at_start as i64 - frame_depth as i64;
        let mut transfers =
            trace.transfers(start..end).filter(|transfer| transfer.thread == thread).peekable();
        let mut blocks: HashMap<(u64, usize), (u64, Vec<u8>)> = HashMap::new();
        for stretch in trace.stretches_of(thread, start..end) {
            let first = trace.block_with(stretch.start).map_or(stretch.start, |block| block.time);
            for block in trace.blocks_from(first) {
                if block.time >= stretch.end {
                    break;
                }
                // Calls and returns end a block: all of it is as deep as its first instruction.
                while let Some(transfer) = transfers.next_if(|transfer| transfer.time < block.time)
                {
                    depth += if transfer.is_call { 1 } else { -1 };
                }
                if depth != 0 {
                    continue;
                }
                if stretch.start <= block.time && block.end() <= stretch.end {
                    let known = blocks.entry((block.pc, block.lengths.len()));
                    known.or_insert_with(|| (0, block.lengths.to_vec())).0 += 1;
                } else {
                    for (time, pc) in block.instructions() {
                        if stretch.contains(&time) {
                            *counts.entry(pc).or_default() += 1;
                        }
                    }
                }
            }
        }
        for ((pc, _), (count, lengths)) in blocks {
            add_instructions(pc, &lengths, count, counts);
        }
        Ok(())
    }
}

/// The windows with instructions in a range of times.
fn windows_of<'a>(process: &'a Process, times: &Range<u64>) -> Vec<WindowRef<'a>> {
    let mut windows = Vec::new();
    for volume in &process.volumes {
        if volume.end <= times.start || times.end <= volume.start {
            continue;
        }
        let first = volume.window_of(times.start.max(volume.start));
        let last = volume.window_of((times.end - 1).min(volume.end - 1));
        windows.extend((first..=last).map(|window| WindowRef { volume, window }));
    }
    windows
}

/// Counts what some windows of a volume, one after the other, executed of some code, as the index has it.
fn count_windows(
    windows: &[WindowRef<'_>],
    code: &[Range<u64>],
    counts: &mut BTreeMap<u64, u64>,
) -> Result<(), Error> {
    let [WindowRef { volume, window: first }, ..] = windows else { return Ok(()) };
    let range = *first..*first + windows.len() as u32;
    let touching = |range: &Range<u64>| volume.pieces.touching(range.start, range.end);
    let numbers: Vec<Range<u64>> =
        code.iter().flat_map(touching).map(|number| number..number + 1).collect();
    for (number, count) in volume.code.count_each(range, numbers)? {
        if let Some(piece) = volume.pieces.get(number) {
            add_instructions(piece.pc, &piece.lengths, count, counts);
        }
    }
    Ok(())
}

fn add_instructions(pc: u64, lengths: &[u8], count: u64, counts: &mut BTreeMap<u64, u64>) {
    let mut at = pc;
    for &length in lengths {
        *counts.entry(at).or_default() += count;
        at += u64::from(length);
    }
}
