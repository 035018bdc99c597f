//! Where something happened: writes of memory, executions of code, rows of the log; forwards and backwards.
//!
//! All searches are alike: the index tells windows, the nearest first; a window's trace, or its rows, tell the exact
//! times. They are iterators, so that the n-th, a page of them and all are the same thing.
//!
//! *Before* a time means instructions with a smaller number; *from* a time on, those with this number or a greater one. A
//! write is seen from the time behind its instruction on: the write that a moment shows is the last before it.

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};

use retro_index::Volume;
use retro_index::events::{Row, RowClass, TimedRow};
use retro_index::set_tree::{Keys, SetTree};
use retro_replayer::{AccessKind, Detail, Item};

use crate::run::{Process, Run, WindowRef, discard};
use crate::templates::Kind;
use crate::trace::{Trace, TracedWrite, Writer};
use crate::{Cancel, Direction, Error, Moment};

/// A change of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Number of the instruction: the moment right before it. What the kernel wrote counts for the instruction before,
    /// whichever thread's that was.
    pub time: u64,
    /// The thread, or whose system call or signal it was.
    pub thread: u32,
    /// Its instruction: what wrote, the system call, or the last one before the signal.
    pub pc: u64,
    /// Where it wrote.
    pub address: u64,
    /// What it wrote.
    pub value: Vec<u8>,
    /// By whom.
    pub by: Writer,
}

impl Write {
    /// A write of a window, with who wrote.
    pub(crate) fn of(trace: &Trace, write: &TracedWrite<'_>) -> Write {
        let (thread, pc) = trace.writer_of(write);
        let TracedWrite { time, address, value, by, .. } = *write;
        Write { time, thread, pc, address, value: value.to_vec(), by }
    }

    /// Memory from an address on, after the write: what it does not reach stays as it was.
    pub fn applied_to(&self, address: u64, before: &[u8]) -> Vec<u8> {
        let mut after = before.to_vec();
        for (offset, &byte) in self.value.iter().enumerate() {
            let at = self.address.checked_add(offset as u64).and_then(|at| at.checked_sub(address));
            if let Some(place) = at.and_then(|at| after.get_mut(usize::try_from(at).ok()?)) {
                *place = byte;
            }
        }
        after
    }
}

/// A read of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Number of the instruction: the moment right before it.
    pub time: u64,
    /// The thread.
    pub thread: u32,
    /// Its instruction.
    pub pc: u64,
    /// Where it read.
    pub address: u64,
    /// How many bytes.
    pub len: u64,
}

/// An instruction that was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execution {
    /// Its number: the moment right before it.
    pub time: u64,
    /// The thread.
    pub thread: u32,
    /// Where it is.
    pub pc: u64,
}

/// What the log tells, for searches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowFilter {
    /// A class, with any number.
    Class(RowClass),
    /// A class, with this number: of a system call, a signal, a thread.
    Number(RowClass, u64),
}

impl RowFilter {
    fn keys(&self) -> Range<u64> {
        match self {
            RowFilter::Class(class) => class.keys(),
            RowFilter::Number(class, number) => {
                let key = class.key(*number);
                key..key + 1
            }
        }
    }

    fn matches(&self, row: &Row) -> bool {
        row.key().is_some_and(|key| self.keys().contains(&key))
    }
}

impl Run {
    /// Writes to a range of memory, from a moment on, the nearest first.
    pub fn writes(
        &self,
        from: Moment,
        direction: Direction,
        memory: Range<u64>,
        cancel: &Cancel,
    ) -> Result<Search<Write>, Error> {
        if memory.is_empty() {
            return Err(Error::Question("there is no memory to look for".to_owned()));
        }
        let words = memory.start / 8..memory.end.div_ceil(8);
        let keys = Keys::from(words);
        self.search(
            from,
            direction,
            cancel,
            |volume| Some(&volume.words),
            move |_| keys.clone(),
            move |run: &Run, process: &Process, place: WindowRef<'_>, times: Range<u64>| {
                let trace = run.trace_before(process, place, times.end)?;
                let writes = trace.writes(memory.clone(), times);
                Ok(writes.map(|write| Write::of(&trace, &write)).collect())
            },
        )
    }

    /// Reads of a range of memory, from a moment on, the nearest first. Where the index does not have them
    /// ([`Process::has_reads`]), every window is looked into.
    pub fn reads(
        &self,
        from: Moment,
        direction: Direction,
        memory: Range<u64>,
        cancel: &Cancel,
    ) -> Result<Search<Read>, Error> {
        if memory.is_empty() {
            return Err(Error::Question("there is no memory to look for".to_owned()));
        }
        let keys = Keys::from(memory.start / 8..memory.end.div_ceil(8));
        self.search(
            from,
            direction,
            cancel,
            |volume| volume.reads.as_ref(),
            move |_| keys.clone(),
            move |run: &Run, process: &Process, place: WindowRef<'_>, times: Range<u64>| {
                run.reads_in(process, place, &memory, &times)
            },
        )
    }

    /// What a window read of some memory, by instructions with numbers in a range.
    pub(crate) fn reads_in(
        &self,
        process: &Process,
        place: WindowRef<'_>,
        memory: &Range<u64>,
        times: &Range<u64>,
    ) -> Result<Vec<Read>, Error> {
        let mut session = self.shared.templates.session(self, process, place, Kind::Streaming)?;
        let mut found: Vec<Read> = Vec::new();
        let visit = |item: &Item<'_>| {
            let Item::Block(block) = item else { return ControlFlow::Continue(()) };
            for access in block.accesses() {
                let is_read = matches!(access.kind, AccessKind::Read | AccessKind::Return);
                let end = access.address.saturating_add(access.len);
                let is_meant = is_read
                    && times.contains(&access.time)
                    && access.address < memory.end
                    && memory.start < end
                    // One instruction counts once.
                    && found.last().is_none_or(|last| last.time != access.time);
                if is_meant {
                    let pc = block.pc_at(access.time);
                    let (time, thread, address) = (access.time, block.thread, access.address);
                    found.push(Read { time, thread, pc, address, len: access.len });
                }
            }
            ControlFlow::Continue(())
        };
        let streamed = session.stream_to(times.end, Detail::CALLS | Detail::READS, visit);
        // Its code is not what others stream.
        discard(session);
        streamed?;
        Ok(found)
    }

    /// Executions of instructions at any of some addresses, from a moment on, the nearest first.
    pub fn executions(
        &self,
        from: Moment,
        direction: Direction,
        addresses: &[u64],
        cancel: &Cancel,
    ) -> Result<Search<Execution>, Error> {
        let addresses: Vec<u64> = addresses.to_vec();
        let asked = addresses.clone();
        self.search(
            from,
            direction,
            cancel,
            |volume| Some(&volume.code),
            move |volume: &Volume| pieces_at(volume, &asked),
            move |run: &Run, process: &Process, place: WindowRef<'_>, times: Range<u64>| {
                let trace = run.trace_before(process, place, times.end)?;
                let found = trace.executions(&addresses, times);
                Ok(found
                    .map(|(time, pc)| Execution { time, thread: trace.thread_at(time), pc })
                    .collect())
            },
        )
    }

    /// How often instructions at an address were executed before a moment.
    pub fn count_executions(&self, before: Moment, address: u64) -> Result<u64, Error> {
        let process = self.process(before.log)?;
        process.check_indexed(process.start, before.time.min(process.end))?;
        let mut count = 0;
        for volume in process.volumes.iter().take_while(|volume| volume.start < before.time) {
            let keys = pieces_at(volume, &[address]);
            let window = if before.time > volume.end {
                volume.windows.len()
            } else {
                volume.window_of(before.time)
            };
            count += volume.code.count(0..window, keys.clone())?;
            if window < volume.windows.len() && volume.code.contains(window, keys)? {
                let place = WindowRef { volume, window };
                let trace = self.trace_before(&process, place, before.time)?;
                count +=
                    trace.executions(&[address], trace.range.start..before.time).count() as u64;
            }
        }
        Ok(count)
    }

    /// The n-th execution of an address from a moment on, from 1, without looking at those before it.
    pub fn nth_execution(
        &self,
        from: Moment,
        direction: Direction,
        address: u64,
        nth: u64,
        cancel: &Cancel,
    ) -> Result<Option<Execution>, Error> {
        let before = self.count_executions(from, address)?;
        let wanted = match direction {
            Direction::Forward => before.checked_add(nth.saturating_sub(1)),
            Direction::Backward => before.checked_sub(nth),
        };
        let Some(mut rank) = wanted else { return Ok(None) };
        let process = self.process(from.log)?;
        for volume in &process.volumes {
            cancel.check()?;
            process.check_indexed(process.start, volume.start)?;
            let keys = pieces_at(volume, &[address]);
            let all = volume.code.count(0..volume.windows.len(), keys.clone())?;
            if rank >= all {
                rank -= all;
                continue;
            }
            let Some(found) = volume.code.nth_from(0, keys, rank)? else { return Ok(None) };
            let trace = self.trace(&process, WindowRef { volume, window: found.window })?;
            let skip = (rank - found.skipped) as usize;
            let hit = trace.executions(&[address], trace.range.clone()).nth(skip);
            return Ok(hit.map(|(time, pc)| Execution { time, thread: trace.thread_at(time), pc }));
        }
        process.check_indexed(process.start, process.end)?;
        Ok(None)
    }

    /// What the log tells, from a moment on, the nearest first. Rows of time `t` belong to the instruction before it.
    pub fn rows(
        &self,
        from: Moment,
        direction: Direction,
        filter: RowFilter,
        cancel: &Cancel,
    ) -> Result<Search<TimedRow>, Error> {
        let keys = Keys::from(filter.keys());
        self.search(
            from,
            direction,
            cancel,
            |volume| Some(&volume.row_kinds),
            move |_| keys.clone(),
            move |_: &Run, _: &Process, place: WindowRef<'_>, times: Range<u64>| {
                let rows = place.volume.rows.rows(place.window)?.into_iter();
                // The instruction before a row has its number less one; at the very start there is none.
                let number = |row: &TimedRow| row.time.saturating_sub(1).max(place.volume.start);
                Ok(rows
                    .filter(|row| filter.matches(&row.row) && times.contains(&number(row)))
                    .collect())
            },
        )
    }

    fn search<T: 'static>(
        &self,
        from: Moment,
        direction: Direction,
        cancel: &Cancel,
        tree: impl Fn(&Volume) -> Option<&SetTree> + 'static,
        keys: impl Fn(&Volume) -> Keys + 'static,
        look: impl Fn(&Run, &Process, WindowRef<'_>, Range<u64>) -> Result<Vec<T>, Error> + 'static,
    ) -> Result<Search<T>, Error> {
        let process = self.process(from.log)?;
        process.check_time(from.time)?;
        let search = Search {
            run: self.clone(),
            process,
            direction,
            from: from.time,
            limit: None,
            cancel: cancel.clone(),
            tree: Box::new(tree),
            keys: Box::new(keys),
            look: Box::new(look),
            found: VecDeque::new(),
            next: None,
            is_over: false,
        };
        search.begin()
    }
}

/// Numbers of the pieces of code with an instruction at any of some addresses.
pub(crate) fn pieces_at(volume: &Volume, addresses: &[u64]) -> Keys {
    let mut numbers: Vec<u64> =
        addresses.iter().flat_map(|&address| volume.pieces.containing(address)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_iter().map(|number| number..number + 1).collect::<Vec<_>>().into()
}

/// None for a volume of which nobody knows which windows have something.
type TreeOf = Box<dyn Fn(&Volume) -> Option<&SetTree>>;
type KeysOf = Box<dyn Fn(&Volume) -> Keys>;
type Look<T> = Box<dyn Fn(&Run, &Process, WindowRef<'_>, Range<u64>) -> Result<Vec<T>, Error>>;

/// A search that goes from window to window: an iterator over what it finds.
pub struct Search<T> {
    run: Run,
    process: std::sync::Arc<Process>,
    direction: Direction,
    from: u64,
    /// Windows beyond this time are not looked into.
    limit: Option<u64>,
    cancel: Cancel,
    tree: TreeOf,
    keys: KeysOf,
    look: Look<T>,
    found: VecDeque<T>,
    /// Volume, and the window where to go on looking: the first that may be next, or one behind the last.
    next: Option<(usize, u32)>,
    is_over: bool,
}

impl<T> Search<T> {
    /// Ends it at a time: windows that lie wholly beyond are not looked into. The last window may still tell of what is
    /// beyond.
    pub fn until(mut self, limit: u64) -> Search<T> {
        self.limit = Some(limit);
        self
    }

    /// Whether a window lies beyond what is looked for.
    fn is_beyond(&self, window: &Range<u64>) -> bool {
        self.limit.is_some_and(|limit| match self.direction {
            Direction::Forward => window.start > limit,
            Direction::Backward => window.end <= limit,
        })
    }

    fn begin(mut self) -> Result<Search<T>, Error> {
        let Process { start, end, volumes, .. } = &*self.process;
        match self.direction {
            Direction::Forward => {
                let is_over = |volume: &Volume| volume.end <= self.from && volume.start < self.from;
                let index = volumes.partition_point(is_over);
                let first = volumes.get(index);
                self.process.check_indexed(self.from, first.map_or(*end, |first| first.start))?;
                self.next = first.map(|first| (index, first.window_of(self.from)));
            }
            Direction::Backward => {
                let index =
                    volumes.partition_point(|volume| volume.start < self.from).checked_sub(1);
                let last = index.map(|index| (index, &volumes[index]));
                self.process.check_indexed(last.map_or(*start, |(_, last)| last.end), self.from)?;
                let before = self.from.saturating_sub(1);
                self.next = last.map(|(index, last)| (index, last.window_of(before) + 1));
            }
        }
        Ok(self)
    }

    /// Leaves a volume. Whether there is something in an interval without index nobody knows.
    fn go_to_next_volume(&mut self, index: usize) -> Result<(), Error> {
        let Process { start, end, volumes, .. } = &*self.process;
        let is_last = self.limit.is_some_and(|limit| match self.direction {
            Direction::Forward => limit < volumes[index].end,
            Direction::Backward => limit >= volumes[index].start,
        });
        if is_last {
            self.is_over = true;
            return Ok(());
        }
        match self.direction {
            Direction::Forward => {
                let next = volumes.get(index + 1);
                self.next = next.map(|_| (index + 1, 0));
                self.process.check_indexed(volumes[index].end, next.map_or(*end, |next| next.start))
            }
            Direction::Backward => {
                let next = index.checked_sub(1);
                self.next = next.map(|next| (next, volumes[next].windows.len()));
                let reached = next.map_or(*start, |next| volumes[next].end);
                self.process.check_indexed(reached, volumes[index].start)
            }
        }
    }

    /// Looks into the next window that may have something.
    fn look_on(&mut self) -> Result<(), Error> {
        self.cancel.check()?;
        let Some((index, window)) = self.next else {
            self.is_over = true;
            return Ok(());
        };
        let volume = &self.process.volumes[index];
        let tree = (self.tree)(volume);
        let keys = (self.keys)(volume);
        let found = match (tree, self.direction) {
            (Some(tree), Direction::Forward) => tree.first_from(window, keys)?,
            (Some(tree), Direction::Backward) => tree.last_before(window, keys)?,
            (None, Direction::Forward) => Some(window).filter(|&next| next < volume.windows.len()),
            (None, Direction::Backward) => window.checked_sub(1),
        };
        let Some(found) = found else { return self.go_to_next_volume(index) };
        // What happens in an interval without instructions counts for the first that there would be.
        let range = volume.window_range(found);
        let range = range.start..range.end.max(volume.start + 1);
        if self.is_beyond(&range) {
            self.is_over = true;
            return Ok(());
        }
        let (times, next) = match self.direction {
            Direction::Forward => (range.start.max(self.from)..range.end, found + 1),
            Direction::Backward => (range.start..range.end.min(self.from), found),
        };
        self.next = Some((index, next));
        let place = WindowRef { volume, window: found };
        let mut all = (self.look)(&self.run, &self.process, place, times)?;
        if self.direction == Direction::Backward {
            all.reverse();
        }
        self.found = all.into();
        Ok(())
    }
}

impl<T> Iterator for Search<T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Result<T, Error>> {
        loop {
            if let Some(found) = self.found.pop_front() {
                return Some(Ok(found));
            }
            if self.is_over {
                return None;
            }
            if let Err(error) = self.look_on() {
                self.is_over = true;
                return Some(Err(error));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_changes_what_it_covers() {
        let write = |address, value: &[u8]| Write {
            time: 0,
            thread: 1,
            pc: 0,
            address,
            value: value.to_vec(),
            by: Writer::Instruction,
        };
        let before = [1, 2, 3, 4];
        assert_eq!(write(102, &[9]).applied_to(100, &before), [1, 2, 9, 4]);
        assert_eq!(write(98, &[7, 8, 9]).applied_to(100, &before), [9, 2, 3, 4]);
        assert_eq!(write(103, &[9, 9, 9]).applied_to(100, &before), [1, 2, 3, 9]);
        assert_eq!(write(u64::MAX, &[9, 9]).applied_to(100, &before), before);
        assert_eq!(write(0xfe, &[9, 9, 5]).applied_to(0x100, &before), [5, 2, 3, 4]);
        assert_eq!(write(0x103, &[6, 7]).applied_to(0x100, &[5, 2, 3, 4]), [5, 2, 3, 6]);
    }
}
