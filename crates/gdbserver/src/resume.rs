//! Going on and going back: which of all the things that a client wants to be told comes first.
//!
//! *Problem.* Between two stops there may be billions of instructions, and a client may wait for many things at once.
//!
//! *Strategy.* Every kind of thing is a search through the index ([`crate::searches`]). They are done one after the other, each
//! only as far as the nearest stop that is known by then; so the answer costs what the nearest things cost. A step is a
//! stop that is known at once.
//!
//! *What a stop looks like.* At time `t` the instruction with number `t` is next. A breakpoint stops in front of its instruction.
//! A watchpoint stops behind the instruction that wrote, as processors do, if time goes forward, and in front of it if it
//! goes backward: both show what the memory was on the other side. A system call stops in front of its instruction, and where
//! its thread goes on. A signal stops where it strikes, in front of its handler, though the handler's first instruction has the
//! same time ([`crate::signal_frame`]).
//!
//! *Threads.* They were recorded one at a time, so that stepping one may take others along. A step of a thread ends behind its
//! instruction, even if another thread comes next; its registers are then what they will be when it goes on.

use retro_query::{Cancel, Direction, Error, Moment, Process, Run};

use crate::own_frame::FrameBound;
use crate::points::Points;
use crate::request::Motion;
use crate::searches::Searches;
use crate::stop::{Reason, Stop};

/// What moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// Which way.
    pub direction: Direction,
    /// The thread that steps, and how.
    pub step: Option<(u32, Motion)>,
    /// Only what this thread does counts.
    pub only: Option<u32>,
}

/// Where to begin and what to look for.
pub struct Resume<'a> {
    /// The run.
    pub run: &'a Run,
    /// The process.
    pub process: &'a Process,
    /// Where the view stands.
    pub from: Stop,
    /// What to stop at.
    pub points: &'a Points,
    /// Until nobody wants to know.
    pub cancel: &'a Cancel,
}

impl Resume<'_> {
    /// The first stop on a course, which may lead to the bound of a frame.
    pub fn first_stop(&self, course: Course, bound: Option<FrameBound>) -> Result<Stop, Error> {
        let mut nearest = match bound.and_then(|bound| bound.end) {
            Some(end) => end,
            None => self.furthest(course)?,
        };
        let searches = Searches::new(self, course, bound);
        // The last one that is found is the nearest. Those that find the same time in passing do not replace what was found
        // before, so what matters most comes first.
        for search in [
            Searches::watchpoint,
            Searches::signal,
            Searches::syscall,
            Searches::breakpoint,
            // The index may not have reads: then only windows up to what is known by now are looked into.
            Searches::read,
        ] {
            if let Some(found) = search(&searches, &nearest)? {
                nearest = found;
            }
        }
        Ok(nearest)
    }

    /// The moment with a time of this process.
    pub fn at(&self, time: u64) -> Moment {
        Moment { log: self.process.log, time }
    }

    /// Where the course ends if nothing happens.
    fn furthest(&self, course: Course) -> Result<Stop, Error> {
        let target = match course.step {
            None => None,
            Some((thread, motion)) => {
                let time = match course.direction {
                    Direction::Forward => self.step_forward(thread, motion)?,
                    Direction::Backward => {
                        self.run.previous_of_thread(self.process, thread, self.from.time)?
                    }
                };
                time.map(|time| Stop { time, thread, reason: Reason::Step })
            }
        };
        match target {
            Some(target) => Ok(target),
            None => self.end_of_history(course.direction),
        }
    }

    fn end_of_history(&self, direction: Direction) -> Result<Stop, Error> {
        let reason = match direction {
            Direction::Forward => Reason::HistoryEnd,
            Direction::Backward => Reason::HistoryBegin,
        };
        // While the recording is being indexed, that is as far as the view can go.
        let time = self.process.indexed_reach(self.from.time, direction);
        let thread = self.run.state(self.at(time))?.thread()?;
        Ok(Stop { time, thread, reason })
    }

    /// Where a step of a thread ends.
    fn step_forward(&self, thread: u32, motion: Motion) -> Result<Option<u64>, Error> {
        let behind = if self.from.is_before_handler() && self.from.thread == thread {
            // The step is that into the handler, which takes no time.
            self.from.time
        } else {
            let next = self.run.next_of_thread(self.process, thread, self.from.time)?;
            let Some(executed) = next else { return Ok(None) };
            self.behind(thread, executed)?
        };
        match motion {
            Motion::StepRange(start, end) if start < end => {
                crate::range_step::first_outside(self, thread, behind, start..end)
            }
            _ => Ok(Some(behind)),
        }
    }

    /// The time behind an instruction of a thread, as the thread sees it: behind a system call, where it goes on.
    fn behind(&self, thread: u32, executed: u64) -> Result<u64, Error> {
        let next = executed + 1;
        if next >= self.process.end {
            return Ok(next.min(self.process.end));
        }
        let trace = self.run.trace(self.process, self.process.window_of(next)?)?;
        if trace.thread_at(next) == thread {
            return Ok(next);
        }
        let state = self.run.state(self.at(next))?;
        let waits =
            state.threads()?.iter().any(|info| info.thread == thread && info.in_syscall.is_some());
        match waits {
            true => Ok(self.run.next_of_thread(self.process, thread, next)?.unwrap_or(next)),
            false => Ok(next),
        }
    }
}
