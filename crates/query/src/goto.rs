//! Answers queries of the language of `goto`.
//!
//! ```text
//! goto        from a query to moments: where to begin, how far to go
//!   code        the instructions that functions, lines and addresses stand for
//!   names       functions and lines of instructions, remembered
//!   object      the memory that a store or load is about, and its type
//!   walk        the windows that the index leaves, in the direction of the search
//!   sought      the events of a window
//!     branches    conditional jumps, which end blocks
//!   look        what a condition asks of an event
//!     called      what functions were given, and return
//!     entry_scope parameters by their names, where they were given
//!     complaints  why expressions had no value
//!   matches     events that fit, one after the other
//! ```
//!
//! *Strategy.* What a query looks for is known by its plan ([`crate::language::Plan`]): instructions at some addresses,
//! writes to some memory, rows of some kind. The index tells windows, the window's trace tells events. The context is
//! then tried on each of them, which asks for no more than it needs: registers and memory, the dearest, are those of a
//! replay that stands at the event.
//!
//! *Backwards.* A replay goes forwards only. Going backwards, events are therefore tried in batches, each in the
//! order of time; batches begin small, so that what is near costs little.
//!
//! *Names* mean what they mean in all that the process had mapped at any time: a library can be gone before the search
//! begins, or be loaded after it.

mod branches;
mod called;
mod code;
mod complaints;
mod entry_scope;
mod look;
mod matches;
mod names;
mod object;
mod sought;
mod walk;

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use crate::address_space::MapChange;
use crate::language::{self, Clock, Count, Event, Query, Search, TimePoint, Value};
use crate::run::{Process, Run};
use crate::trace::Writer;
use crate::{Cancel, Direction, Error, Moment};

pub use matches::Matches;
use sought::Sought;

/// Where whoever asks a query is.
#[derive(Clone, Copy, Debug)]
pub struct GotoContext {
    /// The process, by its log.
    pub log: u64,
    /// The time.
    pub now: u64,
    /// The time of the result before.
    pub last: Option<u64>,
    /// The thread; the one that runs, if there is none.
    pub thread: Option<u32>,
    /// The frame of it. Thread and frame tell what variables an operand means if the search begins now.
    pub frame: usize,
}

/// Where a query leads to.
pub enum Goto {
    /// The moment that was asked for.
    Moment(Moment),
    /// The event that was looked for, if it happens.
    Found(Option<Found>),
    /// All events that fit.
    All(Box<Matches>),
}

/// An event that fits a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The moment of it: just before its instruction.
    pub time: u64,
    /// The thread.
    pub thread: u32,
    /// The instruction; 0 if there is none.
    pub pc: u64,
    /// What happens.
    pub event: FoundEvent,
}

/// What happens at a moment that was found.
#[derive(Clone, Debug, PartialEq)]
pub enum FoundEvent {
    /// A function is entered.
    FunctionEnter,
    /// A function is about to return.
    FunctionExit {
        /// What it returns, if that is a number.
        result: Option<Value>,
    },
    /// A basic block begins.
    BlockEntry,
    /// An instruction is next.
    Instruction,
    /// A line begins.
    Line,
    /// Memory is about to be written.
    Store {
        /// The variable, or what is written of the memory that was asked for.
        memory: Range<u64>,
        /// Its bytes before.
        old: Vec<u8>,
        /// Its bytes after.
        new: Vec<u8>,
        /// Who writes.
        by: Writer,
        /// The bytes before as a number of the variable's type.
        old_value: Option<Value>,
        /// The bytes after.
        new_value: Option<Value>,
    },
    /// Memory is about to be read.
    Load {
        /// Where.
        address: u64,
        /// How many bytes.
        len: u64,
    },
    /// A system call is about to be made.
    Syscall {
        /// Which one.
        number: u64,
        /// What it is given.
        args: [u64; 6],
        /// What it returns, if it does.
        result: Option<i64>,
    },
    /// A signal arrives.
    Signal {
        /// Which one.
        number: u32,
        /// Whether an instruction caused it.
        synchronous: bool,
        /// Who takes it; 0 if it ends the process.
        handler: u64,
    },
    /// The address space is about to change.
    Map(MapChange),
    /// The thread begins.
    ThreadStart,
    /// The thread ends.
    ThreadEnd {
        /// With this.
        code: u32,
    },
}

impl Run {
    /// Where a query leads to.
    pub fn goto(
        &self,
        query: &Query,
        context: &GotoContext,
        cancel: &Cancel,
    ) -> Result<Goto, Error> {
        match query {
            Query::Moment(point) => {
                let process = self.process(context.log)?;
                let time = time_on(*point, &clock_of(&process, context), &process)?;
                Ok(Goto::Moment(Moment { log: context.log, time }))
            }
            Query::Search(search) => match search.count {
                Count::All => Ok(Goto::All(Box::new(self.matches(search, context, cancel)?))),
                Count::Nth(nth) => {
                    self.nth_match(search, nth.get(), context, cancel).map(Goto::Found)
                }
            },
        }
    }

    /// All events that fit a search, the nearest first, whatever its count.
    pub fn matches(
        &self,
        search: &Search,
        context: &GotoContext,
        cancel: &Cancel,
    ) -> Result<Matches, Error> {
        let bounds = Bounds::of(self, search, context)?;
        let sought = Sought::of(self, search, &bounds, context, cancel)?;
        Ok(Matches::new(self, search, bounds, sought, cancel))
    }

    fn nth_match(
        &self,
        search: &Search,
        nth: u64,
        context: &GotoContext,
        cancel: &Cancel,
    ) -> Result<Option<Found>, Error> {
        let bounds = Bounds::of(self, search, context)?;
        if search.event == Event::Instruction(None) && search.context.is_none() {
            return self.nth_instruction(&bounds, nth);
        }
        let sought = Sought::of(self, search, &bounds, context, cancel)?;
        if let (Some(address), None) = (sought.single_address(), &search.context) {
            let Some(times) = &bounds.times else { return Ok(None) };
            let time = match bounds.direction {
                Direction::Forward => *times.start(),
                // Those before it count.
                Direction::Backward => *times.end() + 1,
            };
            let from = Moment { log: context.log, time };
            let found = self.nth_execution(from, bounds.direction, address, nth, cancel)?;
            let event = sought.executed_event();
            return Ok(found.map(|hit| Found {
                time: hit.time,
                thread: hit.thread,
                pc: hit.pc,
                event,
            }));
        }
        let mut matches = Matches::new(self, search, bounds, sought, cancel);
        matches.find_only(nth);
        matches.next().transpose()
    }

    /// So many instructions further.
    fn nth_instruction(&self, bounds: &Bounds, nth: u64) -> Result<Option<Found>, Error> {
        let Some(times) = &bounds.times else { return Ok(None) };
        let time = match bounds.direction {
            Direction::Forward => times.start().checked_add(nth - 1),
            Direction::Backward => times.end().checked_sub(nth - 1),
        };
        let inside = time.filter(|time| times.contains(time) && *time < bounds.process.end);
        let Some(time) = inside else { return Ok(None) };
        let state = self.state(Moment { log: bounds.process.log, time })?;
        let (thread, pc) = (state.thread()?, state.pc()?);
        Ok(Some(Found { time, thread, pc, event: FoundEvent::Instruction }))
    }
}

/// Where a search begins, and how far it goes.
struct Bounds {
    process: Arc<Process>,
    clock: Clock,
    from: u64,
    is_from_now: bool,
    direction: Direction,
    /// The moments that may fit; none at all if the context leaves none.
    times: Option<RangeInclusive<u64>>,
}

impl Bounds {
    fn of(run: &Run, search: &Search, context: &GotoContext) -> Result<Bounds, Error> {
        let process = run.process(context.log)?;
        let clock = clock_of(&process, context);
        let from = time_on(search.from, &clock, &process)?;
        let left = search.plan().window(&clock);
        let (direction, reach) = match search.direction {
            language::Direction::Forward => {
                (Direction::Forward, from.checked_add(1).map(|first| first..=process.end))
            }
            language::Direction::Backward => {
                // The signal that ends a process arrives when all instructions are over, and the end is behind it.
                let may_be_last =
                    search.from == TimePoint::End && matches!(search.event, Event::Signal(_));
                let last = if may_be_last { Some(from) } else { from.checked_sub(1) };
                (Direction::Backward, last.map(|last| process.start..=last))
            }
        };
        let times = left
            .zip(reach)
            .map(|(left, reach)| *left.start().max(reach.start())..=*left.end().min(reach.end()));
        let times = times.filter(|times| !times.is_empty());
        let is_from_now = search.from == TimePoint::Now;
        Ok(Bounds { process, clock, from, is_from_now, direction, times })
    }
}

fn clock_of(process: &Process, context: &GotoContext) -> Clock {
    Clock { now: context.now, last: context.last, end: process.end }
}

/// The time that a point stands for, which has to be in the index.
fn time_on(point: TimePoint, clock: &Clock, process: &Process) -> Result<u64, Error> {
    let time = point.on(clock).ok_or_else(no_last_result)?;
    let time = match point {
        // A forked process begins later.
        TimePoint::Start | TimePoint::Part(_) => time.max(process.start),
        _ => time,
    };
    process.volume_of(time)?;
    Ok(time)
}

fn no_last_result() -> Error {
    Error::Question(
        "there is no last result yet: begin with `now`, `start`, `end` or a time".to_owned(),
    )
}
