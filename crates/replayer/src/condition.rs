//! Running until something happens.
//!
//! Every condition has its own way: breakpoints find executed addresses at full speed; system calls are found in the
//! log, without running anything; accesses to memory are found by streaming, in steps. When an access was seen, the session
//! goes back to where it began, and from there to the exact time.

use std::ops::{ControlFlow, Range};

use retro_abi::log::Event;

use crate::stream::{AccessKind, Detail, Item, thread_after};
use crate::{Error, Session, StopReason};

/// Instructions that are streamed at once.
const AHEAD: u64 = 8_000_000;

/// What a session can run to. It stops at the first time after now that the condition holds for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// One of these instructions is the next to be executed.
    Executed(Vec<u64>),
    /// The instruction before was the first to write somewhere in this range, or the kernel has written there. Memory
    /// that others changed, and that the recording knows only from a later read, does not count.
    Written(Range<u64>),
    /// The instruction before was the first to read somewhere in this range. What the kernel reads does not count.
    Read(Range<u64>),
    /// The instruction before has made a system call, any or the one with this number.
    Syscall(Option<u64>),
}

/// Who has accessed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The instruction at this address.
    Instruction(u64),
    /// A system call or a signal.
    Kernel,
}

/// What a session has run into. It is at that `time` now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Occurrence {
    /// An instruction is about to be executed.
    Executed {
        /// The time before it.
        time: u64,
        /// The thread that does it.
        thread: u32,
        /// Its address.
        address: u64,
    },
    /// Memory was accessed.
    Accessed {
        /// The time after the instruction, or at which the kernel has written.
        time: u64,
        /// The thread that did it.
        thread: u32,
        /// How.
        kind: AccessKind,
        /// Who did it.
        origin: Origin,
        /// Where the access begins.
        address: u64,
        /// The bytes written or read. They may begin before the range and end after it.
        value: Vec<u8>,
    },
    /// A system call was made.
    Syscall {
        /// The time after it. If it took no other thread's time, its effects are there, too.
        time: u64,
        /// The thread that made it.
        thread: u32,
        /// Its number.
        number: u64,
        /// Its arguments.
        arguments: [u64; 6],
    },
}

/// An access that was seen ahead.
struct Seen {
    /// The time at which its effect is there.
    time: u64,
    thread: u32,
    kind: AccessKind,
    by_kernel: bool,
    address: u64,
    len: u64,
    value: Vec<u8>,
}

impl Session {
    /// Goes on until a condition holds or to the time `limit`, whichever comes first, and tells what has
    /// happened; `None` at `limit`, or at the end of the interval. Something that happens at `limit` still counts.
    /// Breakpoints that are set do not matter meanwhile.
    pub fn run_until(
        &mut self,
        limit: u64,
        condition: &Condition,
    ) -> Result<Option<Occurrence>, Error> {
        let limit = limit.min(self.interval().end);
        if limit < self.time() {
            return Err(Error::Backwards { now: self.time(), wanted: limit });
        }
        let breakpoints = self.breakpoints().to_vec();
        let addresses =
            if let Condition::Executed(addresses) = condition { &addresses[..] } else { &[] };
        self.set_breakpoints(addresses)?;
        let found = match condition {
            Condition::Executed(addresses) => self.run_to_address(limit, addresses),
            Condition::Written(range) => {
                self.run_to_access(limit, range, Detail::WRITES, AccessKind::writes)
            }
            Condition::Read(range) => {
                self.run_to_access(limit, range, Detail::READS, |kind| !kind.writes())
            }
            Condition::Syscall(number) => self.run_to_syscall(limit, *number),
        }?;
        self.set_breakpoints(&breakpoints)?;
        Ok(found)
    }

    fn run_to_address(
        &mut self,
        limit: u64,
        addresses: &[u64],
    ) -> Result<Option<Occurrence>, Error> {
        let begun = self.time();
        let stop = self.run_to(limit)?;
        // At the limit, breakpoints are not looked at.
        let is_there = stop.reason == StopReason::Breakpoint
            || stop.time > begun && stop.reason == StopReason::Time && addresses.contains(&stop.pc);
        let (time, thread, address) = (stop.time, stop.thread, stop.pc);
        Ok(is_there.then_some(Occurrence::Executed { time, thread, address }))
    }

    fn run_to_syscall(
        &mut self,
        limit: u64,
        wanted: Option<u64>,
    ) -> Result<Option<Occurrence>, Error> {
        let found = self.find_syscall(limit, wanted)?;
        let time = found.as_ref().map_or(limit, |(time, _)| *time);
        self.run_to(time)?;
        Ok(found.map(|(_, occurrence)| occurrence))
    }

    fn find_syscall(
        &self,
        limit: u64,
        wanted: Option<u64>,
    ) -> Result<Option<(u64, Occurrence)>, Error> {
        let between = self.log_file().chunks_between(self.time(), limit)?;
        let mut thread = self.thread();
        for event in between.events() {
            let (time, event) = event?;
            thread = thread_after(&event).unwrap_or(thread);
            if let Event::SyscallEnter { number, args: arguments, .. } = event
                && wanted.is_none_or(|wanted| wanted == number)
            {
                return Ok(Some((time, Occurrence::Syscall { time, thread, number, arguments })));
            }
        }
        Ok(None)
    }

    fn run_to_access(
        &mut self,
        limit: u64,
        range: &Range<u64>,
        detail: Detail,
        matches: fn(AccessKind) -> bool,
    ) -> Result<Option<Occurrence>, Error> {
        while self.time() < limit {
            let until = self.time().saturating_add(AHEAD).min(limit);
            let mut seen = None;
            let stop = self.stream(until, detail | Detail::CALLS, |item| {
                seen = find_access(item, range, matches);
                if seen.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            if let Some(seen) = seen {
                self.begin_again()?;
                return self.go_to(seen).map(Some);
            }
            if stop.reason == StopReason::End {
                break;
            }
        }
        Ok(None)
    }

    /// Goes to where an access has just happened.
    fn go_to(&mut self, seen: Seen) -> Result<Occurrence, Error> {
        let mut origin = Origin::Kernel;
        let mut value = seen.value;
        if !seen.by_kernel {
            self.run_to(seen.time - 1)?;
            origin = Origin::Instruction(self.pc());
            if value.is_empty() && !seen.kind.writes() {
                value = self.read(seen.address, seen.len as usize)?;
            }
        }
        self.run_to(seen.time)?;
        if value.is_empty() {
            value = self.read(seen.address, seen.len as usize)?;
        }
        let Seen { time, thread, kind, address, .. } = seen;
        Ok(Occurrence::Accessed { time, thread, kind, origin, address, value })
    }
}

fn find_access(item: &Item, range: &Range<u64>, matches: fn(AccessKind) -> bool) -> Option<Seen> {
    let overlaps = |address: u64, len: u64| {
        address < range.end && address.checked_add(len).is_none_or(|end| end > range.start)
    };
    match item {
        Item::Block(block) => {
            let mut accesses = block.accesses();
            let found =
                accesses.find(|found| matches(found.kind) && overlaps(found.address, found.len))?;
            Some(Seen {
                time: found.time + 1,
                thread: block.thread,
                kind: found.kind,
                by_kernel: false,
                address: found.address,
                len: found.len,
                value: found.value.to_vec(),
            })
        }
        Item::Event { time, thread, event: Event::Write { address, bytes } }
            if matches(AccessKind::Write) && overlaps(*address, bytes.len() as u64) =>
        {
            Some(Seen {
                time: *time,
                thread: *thread,
                kind: AccessKind::Write,
                by_kernel: true,
                address: *address,
                len: bytes.len() as u64,
                value: bytes.to_vec(),
            })
        }
        Item::Event { .. } => None,
    }
}
