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

mod access;
mod descriptions;
mod kept;
mod merger;

use std::ops::{BitOr, ControlFlow};

use retro_abi::log::Event;
use retro_abi::replay::{detail, ending};

pub use access::{Access, AccessKind, Accesses};
use descriptions::Description;
pub(crate) use descriptions::Descriptions;
pub use kept::KeptStream;
pub(crate) use merger::{Merger, thread_after};

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

#[cfg(test)]
mod tests;
