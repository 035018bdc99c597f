//! Everything that happened in one window: level 3 of detail.
//!
//! The index tells in which window an answer lies. That window is then replayed once, and what it did is kept here in
//! memory in columns: which blocks ran when, what they and the kernel wrote, where calls and returns had their addresses.
//! Every further question about the window is a search in these.
//!
//! *Time* of a write, a call or an execution is the number of its instruction: the moment before it happened. What the
//! kernel wrote at time `t` counts for the instruction before `t`, the system call; at the very start of an interval, where
//! there is none, for the first.

use std::ops::{ControlFlow, Range};

use retro_abi::channel::Stream;
use retro_abi::log::Event;
use retro_index::Volume;
use retro_index::events::Row;
use retro_recording::Recording;
use retro_replayer::{AccessKind, Block, Detail, Ending, Session, Snapshot, Visitor};

use crate::Error;
use crate::run::WindowRef;

/// What a window has to tell.
pub(crate) const DETAIL: fn() -> Detail = || Detail::CALLS | Detail::WRITES;

/// A window, with all that it did.
#[derive(Debug)]
pub struct Trace {
    /// From when to when.
    pub range: Range<u64>,
    /// The blocks, in the order of time.
    blocks: Vec<BlockAt>,
    codes: Vec<Code>,
    lengths: Vec<u8>,
    writes: Vec<WriteAt>,
    values: Vec<u8>,
    /// Of writes of the kernel, in their order: whom they were for.
    kernel_writes: Vec<KernelWrite>,
    /// Memory whose contents came from outside.
    learned: Vec<Learned>,
    transfers: Vec<TransferAt>,
    /// The thread that runs from a time on.
    switches: Vec<(u64, u32)>,
    /// Where threads stand at the start: in their system calls, or in front of their next instructions.
    starts: Vec<(u32, u64)>,
}

/// A block that ran.
#[derive(Clone, Copy, Debug)]
struct BlockAt {
    /// Since the start of the window.
    time: u32,
    code: u32,
}

/// Code of blocks.
#[derive(Clone, Copy, Debug)]
struct Code {
    pc: u64,
    first_length: u32,
    instructions: u8,
    ending: Ending,
}

/// Who wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// An instruction of the program.
    Instruction,
    /// The kernel: a system call, or the delivery of a signal.
    Kernel,
}

#[derive(Clone, Copy, Debug)]
struct WriteAt {
    address: u64,
    value: Value,
    time: u32,
    len: u32,
}

/// What was written. Most is small.
#[derive(Clone, Copy, Debug)]
enum Value {
    /// The first bytes of these, by an instruction.
    Here([u8; SMALL]),
    /// In the values of the trace, from here on.
    There(u32, Writer),
}

/// Bytes of a value that are kept where the rest of a write is.
const SMALL: usize = 8;

/// What is known of a write of the kernel besides.
#[derive(Clone, Copy, Debug)]
struct KernelWrite {
    /// Its index among all writes.
    write: usize,
    /// The thread whose system call or signal it was.
    thread: u32,
    /// Its time in the log.
    time: u64,
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
    /// Its index among all.
    index: usize,
}

#[derive(Clone, Copy, Debug)]
struct TransferAt {
    slot: u64,
    time: u32,
    is_call: bool,
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
struct Gatherer {
    trace: Trace,
    /// By number of the block: the index of its code, plus one.
    numbers: Vec<u32>,
}

impl Visitor for Gatherer {
    #[inline]
    fn block(&mut self, block: &Block<'_>) -> ControlFlow<()> {
        let start = self.trace.range.start;
        let code = self.code(block);
        let trace = &mut self.trace;
        trace.blocks.push(BlockAt { time: (block.time - start) as u32, code });
        for access in block.accesses() {
            let time = (access.time - start) as u32;
            match access.kind {
                AccessKind::Write => {
                    trace.write(time, access.address, access.value, Writer::Instruction)
                }
                AccessKind::Call => {
                    trace.write(time, access.address, access.value, Writer::Instruction);
                    trace.transfers.push(TransferAt { slot: access.address, time, is_call: true });
                }
                AccessKind::Return => {
                    trace.transfers.push(TransferAt { slot: access.address, time, is_call: false });
                }
                AccessKind::Read => {}
            }
        }
        ControlFlow::Continue(())
    }

    fn event(&mut self, time: u64, thread: u32, event: &Event<'_>) -> ControlFlow<()> {
        let trace = &mut self.trace;
        if trace.switches.last().is_none_or(|&(_, last)| last != thread) {
            trace.switches.push((time, thread));
        }
        trace.event(time, thread, event);
        ControlFlow::Continue(())
    }
}

impl Gatherer {
    fn code(&mut self, block: &Block<'_>) -> u32 {
        let number = block.number as usize;
        if number >= self.numbers.len() {
            self.numbers.resize(number + 1, 0);
        }
        let known = self.numbers[number];
        let trace = &mut self.trace;
        if let Some(index) = known.checked_sub(1) {
            let code = trace.codes[index as usize];
            // Numbers can start over.
            if code.pc == block.pc() && u32::from(code.instructions) == block.instructions() {
                return index;
            }
        }
        let index = trace.codes.len() as u32;
        trace.codes.push(Code {
            pc: block.pc(),
            first_length: trace.lengths.len() as u32,
            instructions: block.instructions() as u8,
            ending: block.ending(),
        });
        trace.lengths.extend_from_slice(block.lengths());
        self.numbers[number] = index + 1;
        index
    }
}

impl Trace {
    /// Replays a session, which stands at the start of a window, to its end. Takes the memory of a trace that nobody needs
    /// any more: fresh memory costs as much as what is done with it.
    pub(crate) fn gather(
        recording: &Recording,
        session: &mut Session,
        place: WindowRef<'_>,
        spare: Option<Trace>,
    ) -> Result<Trace, Error> {
        let end = place.volume.window_range(place.window).end;
        let start = session.time();
        let snapshot = place.volume.windows.snapshot(place.window)?;
        let mut trace = spare.unwrap_or_else(|| Trace::with_room((end - start) as usize));
        trace.clear();
        trace.range = start..end;
        trace.switches.push((start, session.thread()));
        trace.starts = snapshot.as_ref().map(standing_places).unwrap_or_default();
        if place.window == 0 {
            trace.gather_start(recording, place.volume)?;
        }
        let mut gatherer = Gatherer { trace, numbers: Vec::new() };
        session.stream_to(end, DETAIL(), &mut ByReference(&mut gatherer))?;
        Ok(gatherer.trace)
    }

    /// For about so many instructions.
    fn with_room(instructions: usize) -> Trace {
        Trace {
            range: 0..0,
            blocks: Vec::with_capacity(instructions / 5),
            codes: Vec::new(),
            lengths: Vec::new(),
            writes: Vec::with_capacity(instructions / 7),
            values: Vec::new(),
            kernel_writes: Vec::new(),
            learned: Vec::new(),
            transfers: Vec::with_capacity(instructions / 20),
            switches: Vec::new(),
            starts: Vec::new(),
        }
    }

    fn clear(&mut self) {
        self.blocks.clear();
        self.codes.clear();
        self.lengths.clear();
        self.writes.clear();
        self.values.clear();
        self.kernel_writes.clear();
        self.learned.clear();
        self.transfers.clear();
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
                let write = self.writes.len();
                self.kernel_writes.push(KernelWrite { write, thread, time });
                let since = time.saturating_sub(1).saturating_sub(self.range.start);
                self.write(since as u32, address, bytes, Writer::Kernel);
            }
            Event::Load { address, bytes } => {
                self.learned.push(Learned { time, address, len: bytes.len() as u64 });
            }
            _ => {}
        }
    }

    #[inline]
    fn write(&mut self, time: u32, address: u64, value: &[u8], by: Writer) {
        let len = value.len() as u32;
        let value = match (small(value), by) {
            (Some(small), Writer::Instruction) => Value::Here(small),
            _ => {
                let at = self.values.len() as u32;
                self.values.extend_from_slice(value);
                Value::There(at, by)
            }
        };
        self.writes.push(WriteAt { address, value, time, len });
    }

    fn value<'a>(&'a self, write: &'a WriteAt) -> (&'a [u8], Writer) {
        let len = write.len as usize;
        match &write.value {
            Value::Here(bytes) => (&bytes[..len], Writer::Instruction),
            &Value::There(at, by) => (&self.values[at as usize..at as usize + len], by),
        }
    }

    /// Bytes that it takes in memory.
    pub fn memory_size(&self) -> usize {
        self.blocks.capacity() * size_of::<BlockAt>()
            + self.codes.capacity() * size_of::<Code>()
            + self.writes.capacity() * size_of::<WriteAt>()
            + self.transfers.capacity() * size_of::<TransferAt>()
            + self.kernel_writes.capacity() * size_of::<KernelWrite>()
            + self.learned.capacity() * size_of::<Learned>()
            + self.values.capacity()
            + self.lengths.capacity()
    }

    fn block(&self, index: usize) -> TracedBlock<'_> {
        let BlockAt { time, code } = self.blocks[index];
        let code = &self.codes[code as usize];
        let first = code.first_length as usize;
        TracedBlock {
            time: self.range.start + u64::from(time),
            pc: code.pc,
            lengths: &self.lengths[first..first + usize::from(code.instructions)],
            ending: code.ending,
        }
    }

    /// Blocks whose first instruction is at a time or later, in order.
    pub fn blocks_from(&self, time: u64) -> impl Iterator<Item = TracedBlock<'_>> {
        (self.index_of(time)..self.blocks.len()).map(|index| self.block(index))
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
        let since = time.saturating_sub(self.range.start);
        self.blocks.partition_point(|block| u64::from(block.time) < since)
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
        let wanted: Vec<Vec<(u8, u64)>> = (self.codes.iter())
            .map(|code| {
                let first = code.first_length as usize;
                let mut at = code.pc;
                let lengths = &self.lengths[first..first + usize::from(code.instructions)];
                let pcs = lengths.iter().enumerate().map(|(index, &len)| {
                    let pc = at;
                    at += u64::from(len);
                    (index as u8, pc)
                });
                pcs.filter(|(_, pc)| addresses.contains(pc)).collect()
            })
            .collect();
        let start = self.range.start;
        // A block that begins before the range may reach into it.
        let first = self.index_of(times.start).saturating_sub(1);
        let last = self.index_of(times.end);
        let all: Vec<(u64, u64)> = self.blocks[first.min(last)..last]
            .iter()
            .filter(|block| !wanted[block.code as usize].is_empty())
            .flat_map(|block| {
                let time = start + u64::from(block.time);
                wanted[block.code as usize]
                    .iter()
                    .map(move |&(index, pc)| (time + u64::from(index), pc))
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
        let start = self.range.start;
        let since = |time: u64| time.saturating_sub(start);
        // What the kernel wrote is not quite in order with the rest: both have the time of the system call.
        let first = self.writes.partition_point(|write| u64::from(write.time) < since(times.start));
        let last = self.writes.partition_point(|write| u64::from(write.time) < since(times.end));
        let first = first.min(last);
        self.writes[first..last]
            .iter()
            .enumerate()
            .filter(move |(_, write)| touches(&memory, write.address, write.len.into()))
            .map(move |(index, write)| {
                let (value, by) = self.value(write);
                TracedWrite {
                    time: start + u64::from(write.time),
                    address: write.address,
                    value,
                    by,
                    index: first + index,
                }
            })
    }

    /// The thread that wrote something, or for which the kernel did, and its instruction.
    pub fn writer_of(&self, write: &TracedWrite<'_>) -> (u32, u64) {
        let found = self.kernel_writes.binary_search_by_key(&write.index, |known| known.write);
        let Ok(found) = found else {
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
    pub fn transfers(
        &self,
        times: Range<u64>,
    ) -> impl DoubleEndedIterator<Item = TracedTransfer> + '_ {
        let start = self.range.start;
        let since = |time: u64| time.saturating_sub(start);
        let position = |time: u64| {
            self.transfers.partition_point(|transfer| u64::from(transfer.time) < since(time))
        };
        let (first, last) = (position(times.start), position(times.end));
        self.transfers[first.min(last)..last].iter().map(move |transfer| {
            let time = start + u64::from(transfer.time);
            let TransferAt { slot, is_call, .. } = *transfer;
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

/// A value in the size of the small ones, if it is one.
#[inline]
fn small(value: &[u8]) -> Option<[u8; SMALL]> {
    let mut bytes = [0; SMALL];
    // The usual sizes one by one: a copy of any length takes longer than the rest of a write.
    match value.len() {
        8 => bytes.copy_from_slice(value),
        4 => bytes[..4].copy_from_slice(value),
        1 => bytes[0] = value[0],
        2 => bytes[..2].copy_from_slice(value),
        len if len < SMALL => bytes[..len].copy_from_slice(value),
        _ => return None,
    }
    Some(bytes)
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

/// Lets a visitor be looked at afterwards.
struct ByReference<'a>(&'a mut Gatherer);

impl Visitor for &mut ByReference<'_> {
    #[inline]
    fn block(&mut self, block: &Block<'_>) -> ControlFlow<()> {
        self.0.block(block)
    }

    fn event(&mut self, time: u64, thread: u32, event: &Event<'_>) -> ControlFlow<()> {
        self.0.event(time, thread, event)
    }
}
