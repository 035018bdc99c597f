//! Everything that happened in one window: level 3 of detail.
//!
//! The index tells in which window an answer lies. That window is then replayed once, and what it did is kept here in
//! memory: the stream of its blocks, as the replay has written it, and what the kernel wrote. Every further question about
//! the window is a search in these.
//!
//! *Time* of a write, a call or an execution is the number of its instruction: the moment before it happened. What the
//! kernel wrote at time `t` counts for the instruction before `t`, the system call; at the very start of an interval, where
//! there is none, for the first.

mod last_writes;

use std::ops::{ControlFlow, Range};

use retro_abi::channel::Stream;
use retro_abi::log::Event;
use retro_index::Volume;
use retro_index::events::Row;
use retro_recording::{Recording, Share};
use retro_replayer::{
    Access, AccessKind, Block, Detail, Ending, KeptStream, Session, Snapshot, Visitor,
};

use crate::Error;
use crate::run::WindowRef;

/// What a window has to tell.
pub(crate) const DETAIL: fn() -> Detail = || Detail::CALLS | Detail::WRITES;

/// A window, with all that it did.
#[derive(Debug, Default)]
pub struct Trace {
    /// From when to when: all of the window, or the beginning of it.
    pub range: Range<u64>,
    /// The blocks, with what they accessed.
    stream: KeptStream,
    /// In the order of the log.
    kernel_writes: Vec<KernelWrite>,
    /// What the kernel wrote.
    values: Vec<u8>,
    /// Memory whose contents came from outside.
    learned: Vec<Learned>,
    /// The thread that runs from a time on.
    switches: Vec<(u64, u32)>,
    /// Where threads stand at the start: in their system calls, or in front of their next instructions.
    starts: Vec<(u32, u64)>,
    /// The memory for all this, as far as the replay process decides how much it is.
    share: Option<Share>,
}

/// Who wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// An instruction of the program.
    Instruction,
    /// The kernel: a system call, or the delivery of a signal.
    Kernel,
}

/// A write of the kernel.
#[derive(Clone, Debug)]
struct KernelWrite {
    /// Its time in the log.
    time: u64,
    /// The thread whose system call or signal it was.
    thread: u32,
    address: u64,
    /// Where in the values.
    value: Range<usize>,
}

/// Memory that became known.
#[derive(Clone, Copy, Debug)]
struct Learned {
    time: u64,
    address: u64,
    len: u64,
}

/// Something written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedWrite<'a> {
    /// Number of the instruction.
    pub time: u64,
    /// Where.
    pub address: u64,
    /// What is there from the next time on.
    pub value: &'a [u8],
    /// By whom.
    pub by: Writer,
    /// Which of the kernel's it is.
    of_kernel: Option<usize>,
}

/// A call or a return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedTransfer {
    /// Number of its instruction.
    pub time: u64,
    /// Where the return address lies.
    pub slot: u64,
    /// Whether it is a call.
    pub is_call: bool,
    /// The thread.
    pub thread: u32,
}

/// Instructions that were executed one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedBlock<'a> {
    /// Number of the first.
    pub time: u64,
    /// Its address.
    pub pc: u64,
    /// Length of each.
    pub lengths: &'a [u8],
    /// How the last one ends.
    pub ending: Ending,
}

impl TracedBlock<'_> {
    /// The address of the instruction with a number.
    pub fn pc_at(&self, time: u64) -> u64 {
        let before = (time.saturating_sub(self.time) as usize).min(self.lengths.len());
        self.pc + self.lengths[..before].iter().map(|&len| u64::from(len)).sum::<u64>()
    }

    /// The time behind the last instruction.
    pub fn end(&self) -> u64 {
        self.time + self.lengths.len() as u64
    }

    /// Numbers and addresses of its instructions.
    pub fn instructions(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        let mut at = self.pc;
        let pcs: Vec<u64> = (self.lengths.iter())
            .map(|&len| {
                let pc = at;
                at += u64::from(len);
                pc
            })
            .collect();
        let time = self.time;
        pcs.into_iter().enumerate().map(move |(index, pc)| (time + index as u64, pc))
    }
}

/// Gathers a trace.
struct Gatherer<'a> {
    trace: &'a mut Trace,
    is_too_much: bool,
}

impl Visitor for &mut Gatherer<'_> {
    #[inline]
    fn block(&mut self, block: &Block<'_>) -> ControlFlow<()> {
        if !self.is_too_much && self.trace.stream.keep(block) {
            return ControlFlow::Continue(());
        }
        self.is_too_much = true;
        ControlFlow::Break(())
    }

    fn event(&mut self, time: u64, thread: u32, event: &Event<'_>) -> ControlFlow<()> {
        let trace = &mut self.trace;
        if trace.switches.last().is_none_or(|&(_, last)| last != thread) {
            trace.switches.push((time, thread));
        }
        trace.event(time, thread, event);
        ControlFlow::Continue(())
    }

    fn records(&mut self, bytes: &[u8]) {
        let trace = &mut self.trace;
        // Blocks take about as much as their records, and vectors grow by doubling.
        let needed = 4 * bytes.len() as u64;
        if self.is_too_much || trace.share.as_mut().is_some_and(|share| share.grow(needed).is_err())
        {
            self.is_too_much = true;
            return;
        }
        trace.stream.keep_records(bytes);
    }
}

impl Trace {
    /// Replays a session, which stands at the start of a window, to its end or a time before. Takes the memory of a trace
    /// that nobody needs any more: fresh memory costs as much as what is done with it.
    pub(crate) fn gather(
        recording: &Recording,
        session: &mut Session,
        place: WindowRef<'_>,
        end: u64,
        spare: Option<Trace>,
    ) -> Result<Trace, Error> {
        let start = session.time();
        let snapshot = place.volume.windows.snapshot(place.window)?;
        let mut trace = spare.unwrap_or_default();
        trace.clear();
        trace.range = start..end;
        trace.stream.begin(start);
        trace.share = Some(recording.budget().share());
        trace.switches.push((start, session.thread()));
        trace.starts = snapshot.as_ref().map(standing_places).unwrap_or_default();
        if place.window == 0 {
            trace.gather_start(recording, place.volume)?;
        }
        let mut gatherer = Gatherer { trace: &mut trace, is_too_much: false };
        session.stream_to(end, DETAIL(), &mut gatherer)?;
        match gatherer.is_too_much {
            true => Err(Error::WindowTooLarge { time: start }),
            false => Ok(trace),
        }
    }

    fn clear(&mut self) {
        self.share = None;
        self.kernel_writes.clear();
        self.values.clear();
        self.learned.clear();
        self.switches.clear();
        self.starts.clear();
    }

    /// What the log has where an interval begins: a session has it already when it starts.
    fn gather_start(&mut self, recording: &Recording, volume: &Volume) -> Result<(), Error> {
        let rows = volume.rows.rows(0)?;
        let mut at_start = rows.iter().take_while(|row| row.time == volume.start);
        if !at_start.any(|row| matches!(row.row, Row::Write { .. })) {
            return Ok(());
        }
        let (mut begun, mut thread) = (false, 0);
        let visit = |time: u64, event: &Event<'_>| {
            match *event {
                Event::Interval { number, running, .. } => {
                    (begun, thread) = (number == volume.interval, running);
                }
                Event::ThreadSwitch { thread: next, .. } | Event::ThreadStart { thread: next } => {
                    thread = next;
                }
                _ => {}
            }
            if time > volume.start {
                return ControlFlow::Break(());
            }
            if begun {
                self.event(time, thread, event);
            }
            ControlFlow::Continue(())
        };
        let log = volume.log;
        let _ = recording.for_each_event_from(log, Stream::Main, volume.start, visit)?;
        Ok(())
    }

    /// What the log has at a time.
    fn event(&mut self, time: u64, thread: u32, event: &Event<'_>) {
        match *event {
            Event::Write { address, bytes } => {
                let from = self.values.len();
                self.values.extend_from_slice(bytes);
                let value = from..self.values.len();
                self.kernel_writes.push(KernelWrite { time, thread, address, value });
            }
            Event::Load { address, bytes } => {
                self.learned.push(Learned { time, address, len: bytes.len() as u64 });
            }
            _ => {}
        }
    }

    /// Bytes that it takes in memory.
    pub fn memory_size(&self) -> usize {
        self.stream.memory_size()
            + self.kernel_writes.capacity() * size_of::<KernelWrite>()
            + self.learned.capacity() * size_of::<Learned>()
            + self.values.capacity()
    }

    fn block(&self, index: usize) -> TracedBlock<'_> {
        let code = self.stream.code(index);
        let (pc, lengths) = self.stream.instructions(code);
        let (time, ending) = (self.stream.time(index), self.stream.ending(code));
        TracedBlock { time, pc, lengths, ending }
    }

    /// The blocks with instructions in a range of times.
    fn blocks_of(&self, times: &Range<u64>) -> Range<usize> {
        // A block that begins before the range may reach into it.
        let first = self.index_of(times.start.saturating_add(1)).saturating_sub(1);
        let last = self.index_of(times.end);
        first.min(last)..last
    }

    /// Blocks whose first instruction is at a time or later, in order.
    pub fn blocks_from(&self, time: u64) -> impl Iterator<Item = TracedBlock<'_>> {
        (self.index_of(time)..self.stream.len()).map(|index| self.block(index))
    }

    /// Blocks that begin before a time, the last first.
    pub fn blocks_before(&self, time: u64) -> impl Iterator<Item = TracedBlock<'_>> {
        (0..self.index_of(time)).rev().map(|index| self.block(index))
    }

    /// The block with the instruction of a number.
    pub fn block_with(&self, time: u64) -> Option<TracedBlock<'_>> {
        self.blocks_before(time + 1).next().filter(|block| time < block.end())
    }

    /// The first block that begins at a time or later.
    fn index_of(&self, time: u64) -> usize {
        self.stream.count_before(time)
    }

    /// The thread that executes the instruction with a number.
    pub fn thread_at(&self, time: u64) -> u32 {
        let after = self.switches.partition_point(|&(since, _)| since <= time);
        self.switches[after.saturating_sub(1)].1
    }

    /// Executions of instructions at some addresses with numbers in a range, in order.
    pub fn executions<'a>(
        &'a self,
        addresses: &'a [u64],
        times: Range<u64>,
    ) -> impl DoubleEndedIterator<Item = (u64, u64)> + 'a {
        // Which instructions of which code are meant is found once for each code.
        let wanted: Vec<Vec<(u8, u64)>> = (0..self.stream.codes())
            .map(|code| {
                let (mut at, lengths) = self.stream.instructions(code);
                let pcs = lengths.iter().enumerate().map(|(index, &len)| {
                    let pc = at;
                    at += u64::from(len);
                    (index as u8, pc)
                });
                pcs.filter(|(_, pc)| addresses.contains(pc)).collect()
            })
            .collect();
        let all: Vec<(u64, u64)> = (self.blocks_of(&times))
            .filter(|&block| !wanted[self.stream.code(block)].is_empty())
            .flat_map(|block| {
                let time = self.stream.time(block);
                let wanted = wanted[self.stream.code(block)].iter();
                wanted.map(move |&(index, pc)| (time + u64::from(index), pc))
            })
            .filter(|(time, _)| times.contains(time))
            .collect();
        all.into_iter()
    }

    /// What was written to a range of memory by instructions with numbers in a range, in order.
    pub fn writes<'a>(
        &'a self,
        memory: Range<u64>,
        times: Range<u64>,
    ) -> impl DoubleEndedIterator<Item = TracedWrite<'a>> + 'a {
        let mut all: Vec<TracedWrite<'_>> = Vec::new();
        let mut kernel = self.kernel_writes_in(&memory, &times).peekable();
        for Access { time, address, value, .. } in self.accesses(times.clone(), AccessKind::writes)
        {
            if touches(&memory, address, value.len() as u64) {
                // What the log has at the time of an instruction happened before it.
                let before = |(logged, _): &(u64, TracedWrite<'_>)| *logged <= time;
                while let Some((_, write)) = kernel.next_if(before) {
                    all.push(write);
                }
                let by = Writer::Instruction;
                all.push(TracedWrite { time, address, value, by, of_kernel: None });
            }
        }
        all.extend(kernel.map(|(_, write)| write));
        all.into_iter()
    }

    /// Accesses of some kinds by instructions with numbers in a range, in order.
    fn accesses<'a>(
        &'a self,
        times: Range<u64>,
        is_wanted: impl Fn(AccessKind) -> bool + Copy + 'a,
    ) -> impl Iterator<Item = Access<'a>> + 'a {
        let stream = &self.stream;
        let makes_some: Vec<bool> =
            (0..stream.codes()).map(|code| stream.kinds(code).any(is_wanted)).collect();
        self.blocks_of(&times)
            .filter(move |&block| makes_some[stream.code(block)] || stream.has_loose(block))
            .flat_map(move |block| stream.accesses(block))
            .filter(move |access| is_wanted(access.kind) && times.contains(&access.time))
    }

    /// What the kernel wrote, and when in the log.
    fn kernel_writes_in(
        &self,
        memory: &Range<u64>,
        times: &Range<u64>,
    ) -> impl Iterator<Item = (u64, TracedWrite<'_>)> {
        self.kernel_writes.iter().enumerate().filter_map(move |(index, write)| {
            let time = write.time.saturating_sub(1).max(self.range.start);
            let value = &self.values[write.value.clone()];
            let is_wanted =
                touches(memory, write.address, value.len() as u64) && times.contains(&time);
            let (address, by) = (write.address, Writer::Kernel);
            let write_of = TracedWrite { time, address, value, by, of_kernel: Some(index) };
            is_wanted.then_some((write.time, write_of))
        })
    }

    /// The thread that wrote something, or for which the kernel did, and its instruction.
    pub fn writer_of(&self, write: &TracedWrite<'_>) -> (u32, u64) {
        let Some(found) = write.of_kernel else {
            let pc = self.block_with(write.time).map_or(0, |block| block.pc_at(write.time));
            return (self.thread_at(write.time), pc);
        };
        let KernelWrite { thread, time, .. } = self.kernel_writes[found];
        (thread, self.last_pc(thread, time))
    }

    /// The last instruction of a thread before a time; where it stood at the start if it has not run since.
    fn last_pc(&self, thread: u32, before: u64) -> u64 {
        let stretches = self.stretches_of(thread, self.range.start..before);
        let last = stretches.last().map(|stretch| stretch.end - 1);
        let block = last.and_then(|last| Some((last, self.block_with(last)?)));
        let at_start = || self.starts.iter().find(|(known, _)| *known == thread);
        match block {
            Some((last, block)) => block.pc_at(last),
            None => at_start().map_or(0, |(_, pc)| *pc),
        }
    }

    /// Which bytes of a range of memory were written between two times, or had their contents come from outside.
    pub(crate) fn touched(
        &self,
        memory: Range<u64>,
        times: Range<u64>,
    ) -> impl Iterator<Item = Range<u64>> {
        let written = self.writes(memory.clone(), times.clone());
        let written = written.map(|write| (write.address, write.value.len() as u64));
        let first = self.learned.partition_point(|learned| learned.time < times.start);
        let learned = self.learned[first..].iter().take_while(move |at| at.time <= times.end);
        let learned = learned.map(|learned| (learned.address, learned.len));
        written
            .chain(learned.filter({
                let memory = memory.clone();
                move |(address, len)| touches(&memory, *address, *len)
            }))
            .map(move |(address, len)| address.max(memory.start)..(address + len).min(memory.end))
    }

    /// Calls and returns with numbers in a range, in order.
    pub fn transfers(&self, times: Range<u64>) -> impl Iterator<Item = TracedTransfer> + '_ {
        let is_transfer = |kind: AccessKind| matches!(kind, AccessKind::Call | AccessKind::Return);
        let accesses = self.accesses(times, is_transfer);
        accesses.map(move |Access { time, address: slot, kind, .. }| {
            let is_call = kind == AccessKind::Call;
            TracedTransfer { time, slot, is_call, thread: self.thread_at(time) }
        })
    }

    /// The stretches of a range in which a thread runs, in order.
    pub fn stretches_of(&self, thread: u32, times: Range<u64>) -> Vec<Range<u64>> {
        let ends = self.switches.iter().skip(1).map(|&(time, _)| time).chain([self.range.end]);
        self.switches
            .iter()
            .zip(ends)
            .filter(|((_, runs), _)| *runs == thread)
            .map(|(&(since, _), until)| since.max(times.start)..until.min(times.end))
            .filter(|stretch| stretch.start < stretch.end)
            .collect()
    }
}

/// Whether something reaches into a range of memory.
fn touches(memory: &Range<u64>, address: u64, len: u64) -> bool {
    address < memory.end && memory.start < address.saturating_add(len)
}

/// Where the threads of a snapshot stand.
fn standing_places(snapshot: &Snapshot) -> Vec<(u32, u64)> {
    /// Bytes of every instruction that makes a system call.
    const SYSCALL: u64 = 2;
    let place = |thread: &retro_replayer::Registers| match thread.in_syscall {
        Some(_) => thread.pc().wrapping_sub(SYSCALL),
        None => thread.pc(),
    };
    snapshot.threads.iter().map(|thread| (thread.thread, place(thread))).collect()
}
