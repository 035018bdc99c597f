//! What a process streams while it runs, merged with the events of the log.
//!
//! The process writes records into a shared file: the number of a block and the few words that are not known from
//! its description ([`retro_abi::replay::tell::BLOCK`]). Descriptions come before the first record that needs them.
//! Hundreds of millions of blocks come by, so that nothing is allocated or copied for one: items are views of
//! the buffer that the file was read into.
//!
//! ```text
//! file:  block 7 (words)  block 9  LOOSE  LOOSE  block 7 (words) …     LOOSE belongs to the block before it
//! log:              event at 1000          event at 1004
//! ```
//!
//! Invariants:
//! 1. Items come in the order of time; an event comes after the block whose last instruction retires at its time.
//! 2. The last block of a buffer is kept back until it is known that no more of its accesses follow.
//! 3. Descriptions are checked when they come, records when they are read; neither can make this read beyond
//!    its buffers.

mod kept;

use std::ops::{BitOr, ControlFlow};

use retro_abi::log::Event;
use retro_abi::replay::{
    self, Header, LOOSE, MOST_BLOCKS, NUMBER_BITS, RECORD_GRAIN, access, detail, ending,
};

use crate::Error;
use crate::log_file::Events;

pub use kept::KeptStream;

/// Bytes of the file that a process streams into: two halves.
pub(crate) const STREAM_FILE_SIZE: usize = 2 << 20;

/// What is streamed besides blocks and events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail(u64);

impl Detail {
    /// Blocks that are executed, without their accesses.
    pub const BLOCKS: Detail = Detail(detail::BLOCKS);
    /// Where calls and returns have their return addresses.
    pub const CALLS: Detail = Detail(detail::CALLS);
    /// What is written, but for return addresses.
    pub const WRITES: Detail = Detail(detail::WRITES);
    /// What is read, but for return addresses.
    pub const READS: Detail = Detail(detail::READS);

    pub(crate) fn bits(self) -> u64 {
        self.0
    }
}

impl BitOr for Detail {
    type Output = Detail;

    fn bitor(self, other: Detail) -> Detail {
        Detail(self.0 | other.0)
    }
}

/// Something that happens.
#[derive(Debug)]
pub enum Item<'a> {
    /// Instructions are executed.
    Block(Block<'a>),
    /// The log has an event: a system call, a signal, a switch to another thread, memory that comes from outside…
    Event {
        /// The time.
        time: u64,
        /// The thread that runs after it.
        thread: u32,
        /// The event.
        event: &'a Event<'a>,
    },
}

/// What a stream is told to: a function of items, or something with two methods, which the compiler can make part of the
/// loop that reads the stream.
pub trait Visitor {
    /// Instructions are executed. Breaks when it wants to know no more.
    fn block(&mut self, block: &Block<'_>) -> ControlFlow<()>;
    /// The log has an event; `thread` runs after it.
    fn event(&mut self, time: u64, thread: u32, event: &Event<'_>) -> ControlFlow<()>;
    /// The records of all blocks since the last call, one behind the other, for those who keep them.
    fn records(&mut self, _bytes: &[u8]) {}
}

impl<F: FnMut(&Item<'_>) -> ControlFlow<()>> Visitor for F {
    #[inline]
    fn block(&mut self, block: &Block<'_>) -> ControlFlow<()> {
        self(&Item::Block(*block))
    }

    fn event(&mut self, time: u64, thread: u32, event: &Event<'_>) -> ControlFlow<()> {
        self(&Item::Event { time, thread, event })
    }
}

/// How a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Goes on at the next instruction.
    Next,
    /// Jumps, conditionally or not.
    Jump,
    /// Calls: the next block of the thread is the callee's first.
    Call,
    /// Returns: the next block of the thread is where it returns to.
    Return,
    /// Makes a system call.
    Syscall,
}

impl Ending {
    fn from_number(number: u64) -> Option<Ending> {
        Some(match number {
            ending::NEXT => Ending::Next,
            ending::JUMP => Ending::Jump,
            ending::CALL => Ending::Call,
            ending::RETURN => Ending::Return,
            ending::SYSCALL => Ending::Syscall,
            _ => return None,
        })
    }
}

/// Instructions that are executed one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// The number of its first instruction: the time before it.
    pub time: u64,
    /// The thread that runs.
    pub thread: u32,
    /// A number for this code, the same whenever it comes again, as long as the process does not run out of numbers.
    pub number: u32,
    description: &'a Description,
    blocks: &'a Descriptions,
    record: &'a [u8],
    loose: &'a [u8],
    /// Where the record begins in what [`Visitor::records`] gets.
    offset: usize,
}

impl<'a> Block<'a> {
    /// Address of the instruction that retires at a time of this block; of the one behind it, for its end.
    pub fn pc_at(&self, time: u64) -> u64 {
        let lengths = self.blocks.lengths(self.description);
        let before = time.saturating_sub(self.time).min(lengths.len() as u64) as usize;
        let bytes: u64 = lengths[..before].iter().map(|&len| u64::from(len)).sum();
        self.pc().wrapping_add(bytes)
    }

    /// Address of its first instruction.
    #[inline]
    pub fn pc(&self) -> u64 {
        self.description.pc
    }

    /// How many instructions there are.
    #[inline]
    pub fn instructions(&self) -> u32 {
        self.description.instructions.into()
    }

    /// The length of each.
    #[inline]
    pub fn lengths(&self) -> &'a [u8] {
        self.blocks.lengths(self.description)
    }

    /// How the last one ends.
    #[inline]
    pub fn ending(&self) -> Ending {
        self.description.ending
    }

    /// The time after its last instruction.
    #[inline]
    pub fn end(&self) -> u64 {
        self.time + u64::from(self.instructions())
    }

    /// What it accesses, in the order of its instructions.
    #[inline]
    pub fn accesses(&self) -> Accesses<'a> {
        Accesses {
            known: self.blocks.accesses(self.description).iter(),
            time: self.time,
            end: self.end(),
            record: self.record,
            loose: self.loose,
        }
    }
}

/// Whether an access reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// Writes; the value is what is there after the instruction.
    Write,
    /// Reads; the value is what was there before the instruction.
    Read,
    /// A call writes its return address.
    Call,
    /// A return reads its return address.
    Return,
}

impl AccessKind {
    fn from_number(number: u16) -> Option<AccessKind> {
        Some(match u8::try_from(number).ok()? {
            access::WRITE => AccessKind::Write,
            access::READ => AccessKind::Read,
            access::CALL => AccessKind::Call,
            access::RETURN => AccessKind::Return,
            _ => return None,
        })
    }

    /// Whether it changes memory.
    pub fn writes(self) -> bool {
        matches!(self, AccessKind::Write | AccessKind::Call)
    }
}

/// An access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access<'a> {
    /// The number of the instruction: its effect is seen from the next time on.
    pub time: u64,
    /// Whether it reads or writes.
    pub kind: AccessKind,
    /// Where.
    pub address: u64,
    /// How many bytes.
    pub len: u64,
    /// The bytes; empty where the stream does not have them.
    pub value: &'a [u8],
}

/// The accesses of a block.
#[derive(Clone, Debug)]
pub struct Accesses<'a> {
    /// Those of the description that are left.
    known: std::slice::Iter<'a, KnownAccess>,
    time: u64,
    end: u64,
    record: &'a [u8],
    /// Those that the description does not have, as far as they are left.
    loose: &'a [u8],
}

impl<'a> Iterator for Accesses<'a> {
    type Item = Access<'a>;

    #[inline]
    fn next(&mut self) -> Option<Access<'a>> {
        if !self.loose.is_empty() {
            // By value: what a cold function can change is kept in memory.
            let (access, rest) = self.clone().next_of_both()?;
            *self = rest;
            return Some(access);
        }
        Some(self.known.next()?.in_record(self.record, self.time))
    }
}

impl<'a> Accesses<'a> {
    /// Sorts those in that the description does not have.
    #[cold]
    #[inline(never)]
    fn next_of_both(mut self) -> Option<(Access<'a>, Accesses<'a>)> {
        let loose = LooseRecord::read(self.loose)?;
        let time = loose.time(self.end);
        if let Some(first) = self.known.as_slice().first()
            && self.time + u64::from(first.instruction) <= time
        {
            self.known.next();
            return Some((first.in_record(self.record, self.time), self));
        }
        self.loose = self.loose.get(loose.size..).unwrap_or_default();
        let LooseRecord { kind, address, value, .. } = loose;
        Some((Access { time, kind, address, len: value.len() as u64, value }, self))
    }
}

/// A [`replay::Access`] that was found to make sense.
#[derive(Clone, Copy, Debug)]
struct KnownAccess {
    instruction: u8,
    kind: AccessKind,
    len: u16,
    base: u16,
    value: u16,
    displacement: u64,
    /// What a call writes.
    return_address: [u8; 8],
}

impl KnownAccess {
    /// For a block with so many instructions and so many bytes in its record, and code behind it at `next`.
    fn check(
        access: &replay::Access,
        instructions: u64,
        bytes: u64,
        next: u64,
    ) -> Option<KnownAccess> {
        let replay::Access { instruction, kind, len, base, value, displacement } = *access;
        let fits = |offset: u16, len: u64| u64::from(offset) + len <= bytes;
        let makes_sense = u64::from(instruction) < instructions
            && (base == replay::Access::ABSOLUTE || fits(base, 8))
            && (value == replay::Access::NO_VALUE || fits(value, len.into()));
        let kind = AccessKind::from_number(kind.into()).filter(|_| makes_sense)?;
        let return_address = next.to_le_bytes();
        Some(KnownAccess { instruction, kind, len, base, value, displacement, return_address })
    }

    #[inline]
    fn in_record<'a>(&'a self, record: &'a [u8], block_time: u64) -> Access<'a> {
        let slice = |offset: u16, len: usize| {
            let start = usize::from(offset);
            record.get(start..start + len).unwrap_or_default()
        };
        let base = match self.base {
            replay::Access::ABSOLUTE => 0,
            offset => slice(offset, 8).first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)),
        };
        let value: &[u8] = match self.value {
            replay::Access::NO_VALUE if self.kind == AccessKind::Call => &self.return_address,
            replay::Access::NO_VALUE => &[],
            offset => slice(offset, self.len.into()),
        };
        Access {
            time: block_time + u64::from(self.instruction),
            kind: self.kind,
            address: base.wrapping_add(self.displacement),
            len: self.len.into(),
            value,
        }
    }
}

/// An access that no description fits.
struct LooseRecord<'a> {
    kind: AccessKind,
    /// Instructions between it and the end of its block, itself included.
    back: u16,
    address: u64,
    value: &'a [u8],
    /// Bytes of the record.
    size: usize,
}

const LOOSE_HEAD: usize = 24;

impl<'a> LooseRecord<'a> {
    fn read(bytes: &'a [u8]) -> Option<LooseRecord<'a>> {
        let head = bytes.first_chunk::<LOOSE_HEAD>()?;
        let half = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&head[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let len = usize::try_from(word(16)).ok()?;
        let size = len.checked_next_multiple_of(8)?.checked_add(LOOSE_HEAD)?;
        let padded = bytes.get(LOOSE_HEAD..size)?;
        Some(LooseRecord {
            kind: AccessKind::from_number(half(4))?,
            back: half(6),
            address: word(8),
            value: &padded[..len],
            size,
        })
    }

    fn time(&self, block_end: u64) -> u64 {
        block_end.saturating_sub(self.back.into())
    }
}

/// What is known of a block before it is executed.
#[derive(Clone, Copy, Debug)]
struct Description {
    pc: u64,
    first_access: u32,
    first_length: u32,
    /// Bytes of its record.
    bytes: u16,
    accesses: u16,
    instructions: u8,
    ending: Ending,
    /// Whether it is the part of a block in front of one of its side exits.
    is_partial: bool,
}

/// The length that a record's first word says when it cannot say it.
const LONGEST_TOLD: usize = (u32::MAX >> NUMBER_BITS) as usize * RECORD_GRAIN;

/// All blocks that a process has described.
#[derive(Clone, Debug, Default)]
pub(crate) struct Descriptions {
    /// By number.
    known: Vec<Description>,
    accesses: Vec<KnownAccess>,
    /// Lengths of instructions.
    lengths: Vec<u8>,
    /// How often numbers have begun anew.
    generation: u64,
}

impl Descriptions {
    fn clear(&mut self) {
        self.known.clear();
        self.accesses.clear();
        self.lengths.clear();
    }

    /// Takes in one of the descriptions of others, and gives it the next number.
    fn take_in(&mut self, others: &Descriptions, description: &Description) -> u32 {
        let number = self.known.len() as u32;
        let first_access = self.accesses.len() as u32;
        let first_length = self.lengths.len() as u32;
        self.accesses.extend_from_slice(others.accesses(description));
        self.lengths.extend_from_slice(others.lengths(description));
        self.known.push(Description { first_access, first_length, ..*description });
        number
    }

    fn memory_size(&self) -> usize {
        self.known.capacity() * size_of::<Description>()
            + self.accesses.capacity() * size_of::<KnownAccess>()
            + self.lengths.capacity()
    }

    /// Takes in a description; an error says what is wrong with it.
    pub(crate) fn define(&mut self, header: &Header, payload: &[u8]) -> Result<(), &'static str> {
        let [_, number, pc, instructions, ending, bytes, _, exit] = header.0;
        let split = payload.len().checked_sub(instructions as usize);
        let (accesses, lengths) = payload.split_at(split.ok_or("a block lacks its instructions")?);
        let (chunks, rest) = accesses.as_chunks::<{ replay::Access::SIZE }>();
        let code_len: u64 = lengths.iter().map(|&len| u64::from(len)).sum();
        let next = pc.wrapping_add(code_len);
        let ending = Ending::from_number(ending).ok_or("a block ends in an unknown way")?;
        if number == 0 {
            self.clear();
            self.generation += 1;
        }
        if number != self.known.len() as u64 || number >= MOST_BLOCKS.into() || !rest.is_empty() {
            return Err("a block's description makes no sense");
        }
        let size_fits = (4..=u64::from(u16::MAX)).contains(&bytes)
            && bytes.is_multiple_of(RECORD_GRAIN as u64)
            && (1..=u64::from(u8::MAX)).contains(&instructions);
        if !size_fits {
            return Err("a block has a wrong size");
        }
        let known = self.accesses.len();
        for chunk in chunks {
            let access = replay::Access::from_bytes(chunk);
            match KnownAccess::check(&access, instructions, bytes, next) {
                Some(access) => self.accesses.push(access),
                None => {
                    self.accesses.truncate(known);
                    return Err("an access of a block makes no sense");
                }
            }
        }
        let description = Description {
            pc,
            instructions: instructions as u8,
            bytes: bytes as u16,
            first_access: u32::try_from(known).map_err(|_| "there are too many blocks")?,
            accesses: chunks.len() as u16,
            first_length: self.lengths.len() as u32,
            ending,
            is_partial: exit != 0,
        };
        self.lengths.extend_from_slice(lengths);
        self.known.push(description);
        Ok(())
    }

    /// Whether a block is known, and the part in front of a side exit of the one before.
    pub(crate) fn is_partial(&self, number: usize) -> bool {
        self.known.get(number).is_some_and(|description| description.is_partial)
    }

    /// Address and lengths of the instructions of a block.
    pub(crate) fn code(&self, number: usize) -> Option<(u64, &[u8])> {
        let description = self.known.get(number)?;
        Some((description.pc, self.lengths(description)))
    }

    /// The block whose record begins with `word`, and the length of the record.
    #[inline]
    fn of_record(&self, word: u32) -> Option<(&Description, usize)> {
        let description = self.known.get((word & MOST_BLOCKS) as usize)?;
        let told = (word >> NUMBER_BITS) as usize * RECORD_GRAIN;
        let len = if told == LONGEST_TOLD { usize::from(description.bytes) } else { told };
        (len == usize::from(description.bytes)).then_some((description, len))
    }

    #[inline]
    fn lengths(&self, description: &Description) -> &[u8] {
        let first = description.first_length as usize;
        self.lengths.get(first..first + usize::from(description.instructions)).unwrap_or_default()
    }

    #[inline]
    fn accesses(&self, description: &Description) -> &[KnownAccess] {
        let first = description.first_access as usize;
        self.accesses.get(first..first + usize::from(description.accesses)).unwrap_or_default()
    }
}

/// Merges records and events and tells `visit`, which is known at compile time: items are hardly ever put together in
/// memory then.
pub(crate) struct Merger<'a, V> {
    events: Events<'a>,
    next: Option<(u64, Event<'a>)>,
    /// When that is.
    next_time: u64,
    thread: u32,
    /// The time after the last block.
    time: u64,
    /// The last block's record and what belongs to it, when the buffer ended there.
    kept: Vec<u8>,
    visit: V,
    /// Whether `visit` wants no more.
    pub(crate) is_done: bool,
}

/// Records that make no sense.
const NONSENSE: &str = "its stream makes no sense";

impl<'a, V: Visitor> Merger<'a, V> {
    pub(crate) fn new(
        events: Events<'a>,
        time: u64,
        thread: u32,
        visit: V,
    ) -> Result<Merger<'a, V>, Error> {
        let mut merger = Merger {
            events,
            next: None,
            next_time: 0,
            thread,
            time,
            kept: Vec::new(),
            visit,
            is_done: false,
        };
        merger.read_event()?;
        Ok(merger)
    }

    /// Takes records whose first block begins at `time`. An error says what is wrong with them.
    pub(crate) fn records(
        &mut self,
        blocks: &Descriptions,
        mut bytes: &[u8],
        time: u64,
    ) -> Result<(), Error> {
        let mut continues = false;
        if !self.kept.is_empty() {
            let loose = loose_length(bytes)?;
            continues = loose > 0;
            self.kept.extend_from_slice(&bytes[..loose]);
            bytes = &bytes[loose..];
            if bytes.is_empty() {
                return Ok(());
            }
            self.tell_kept(blocks)?;
        }
        if time != self.time && !continues {
            return Err(nonsense());
        }
        let last = self.blocks(blocks, bytes, false)?;
        self.kept.extend_from_slice(last);
        Ok(())
    }

    /// Tells all blocks, or all but the last, which is returned. The one place where blocks are told: what `visit` does
    /// with them becomes part of this loop.
    fn blocks<'b>(
        &mut self,
        blocks: &Descriptions,
        mut bytes: &'b [u8],
        with_last: bool,
    ) -> Result<&'b [u8], Error> {
        let mut time = self.time;
        let all = bytes;
        while let Some(first) = bytes.first_chunk() {
            let word = u32::from_le_bytes(*first);
            let (description, len) = blocks.of_record(word).ok_or_else(nonsense)?;
            let (record, rest) = bytes.split_at_checked(len).ok_or_else(nonsense)?;
            let has_loose = rest.first_chunk() == Some(&LOOSE.to_le_bytes());
            let loose = if has_loose { loose_length(rest)? } else { 0 };
            if rest.len() == loose && !with_last {
                break;
            }
            if self.next_time <= time {
                self.events_until(time)?;
            }
            let (loose, rest) = rest.split_at(loose);
            let thread = self.thread;
            let number = word & MOST_BLOCKS;
            let offset = all.len() - bytes.len();
            let block = Block { time, thread, number, description, blocks, record, loose, offset };
            time += u64::from(description.instructions);
            self.time = time;
            bytes = rest;
            if !self.is_done {
                self.is_done = self.visit.block(&block).is_break();
            }
        }
        if bytes.len() < size_of::<u32>() && !bytes.is_empty() {
            return Err(nonsense());
        }
        if !self.is_done {
            self.visit.records(&all[..all.len() - bytes.len()]);
        }
        Ok(bytes)
    }

    /// Nothing more comes: the process has stopped at a time, and every instruction before it was in a block.
    pub(crate) fn finish(&mut self, blocks: &Descriptions, time: u64) -> Result<(), Error> {
        self.tell_kept(blocks)?;
        if self.time != time && !self.is_done {
            return Err(nonsense());
        }
        self.events_until(time)
    }

    /// Tells the last block: nothing more belongs to it.
    pub(crate) fn tell_kept(&mut self, blocks: &Descriptions) -> Result<(), Error> {
        let mut kept = std::mem::take(&mut self.kept);
        self.blocks(blocks, &kept, true)?;
        kept.clear();
        self.kept = kept;
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn events_until(&mut self, time: u64) -> Result<(), Error> {
        while let Some((at, event)) = self.next
            && at <= time
        {
            self.thread = thread_after(&event).unwrap_or(self.thread);
            let thread = self.thread;
            if !self.is_done {
                self.is_done = self.visit.event(at, thread, &event).is_break();
            }
            self.read_event()?;
        }
        Ok(())
    }

    fn read_event(&mut self) -> Result<(), Error> {
        self.next = self.events.next().transpose()?;
        self.next_time = self.next.as_ref().map_or(u64::MAX, |(time, _)| *time);
        Ok(())
    }
}

/// The thread that runs after an event, if the event says so.
pub(crate) fn thread_after(event: &Event) -> Option<u32> {
    match *event {
        Event::ThreadSwitch { thread, .. } | Event::ThreadStart { thread } => Some(thread),
        Event::Interval { running, .. } => Some(running),
        _ => None,
    }
}

/// Bytes of all loose records at the start.
fn loose_length(bytes: &[u8]) -> Result<usize, Error> {
    let mut len = 0;
    while bytes[len..].first_chunk() == Some(&LOOSE.to_le_bytes()) {
        len += LooseRecord::read(&bytes[len..]).ok_or_else(nonsense)?.size;
    }
    Ok(len)
}

fn nonsense() -> Error {
    Error::Crashed(NONSENSE.to_owned())
}

#[cfg(test)]
mod tests;
