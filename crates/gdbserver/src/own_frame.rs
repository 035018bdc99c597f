//! Steps over calls and out of frames, in one go however deep the callees recurse.
//!
//! *Problem.* gdb steps over a call by a breakpoint of its own: at the address that the call returns to, or, backwards, at
//! the entry of the function. It means one frame, but the protocol cannot say so: the server would stop at that address in
//! every frame of a recursion, thousands or millions of times, and gdb would go on each time.
//!
//! *Strategy.* While gdb executes a command that steps, `retro.py` tells which breakpoints are the user's, and which frame is
//! to be left ([`Step`]). A breakpoint of gdb's own at a bound of the frame in which the view stands can only mean this
//! frame, and the index knows where it begins and ends: hits in frames that it called are passed over, without looking at
//! them. That holds until gdb takes its breakpoint away, since there may be stops of other kinds on the way.
//!
//! gdb goes back to the call of a frame by the entry of its function, which it does not know if the program is stripped, and
//! which may be that of another frame in a recursion. Of a frame that was named the call is known: the way ends there.
//!
//! What `retro.py` tells is over with the command ([`Step::can_be`]): it would take the breakpoints of the next for gdb's own.
//!
//! Of a frame that is left otherwise than by returning (`longjmp`) all hits count, and gdb tells which it means.

use std::collections::HashSet;

use retro_query::{Direction, Error, Moment};

use crate::resume::{Course, Resume};
use crate::stop::{Reason, Stop};

/// The stack pointer's number in the log.
const RSP: usize = 4;

/// A command that steps, as long as gdb executes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The addresses of the user's breakpoints. All others are gdb's own.
    pub of_user: HashSet<u64>,
    /// Where the return address of the frame lies that is to be left, if one was chosen.
    pub leaves: Option<u64>,
    /// The bound of a frame that gdb waits for.
    pub bound: Option<FrameBound>,
    /// Whether gdb has resumed since.
    pub is_under_way: bool,
}

impl Step {
    /// Whether a resumption can be that of the command. gdb may have refused the command without telling: stepping begins
    /// with a step, only leaving a frame begins otherwise.
    pub fn can_be(&self, course: Course) -> bool {
        self.is_under_way || self.leaves.is_some() || course.step.is_some()
    }
}

/// Where a frame begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameBound {
    direction: Direction,
    /// The address of gdb's breakpoint.
    pub address: u64,
    /// Where hits of it begin to count, on the way; none if they never do.
    pub from: Option<u64>,
    /// Where the way ends at the latest, if gdb has no breakpoint at the bound.
    pub end: Option<Stop>,
}

/// The bound of a frame that the way leads to and that gdb waits for. None if there is none.
pub fn bound(resume: &Resume<'_>, course: Course) -> Result<Option<FrameBound>, Error> {
    let Some(step) = resume.points.step.as_ref().filter(|_| course.step.is_none()) else {
        return Ok(None);
    };
    let now = resume.from.time;
    let is_ahead = |bound: &FrameBound| {
        bound.from.is_none_or(|from| match course.direction {
            Direction::Forward => now < from,
            Direction::Backward => now >= from,
        })
    };
    let known = step.bound.filter(|known| known.direction == course.direction && is_ahead(known));
    if known.is_some() {
        return Ok(known);
    }
    let own = resume.points.addresses_but(&step.of_user);
    if own.is_empty() && step.leaves.is_none() {
        return Ok(None);
    }
    let Some(call) = call_of_frame(resume, step)? else { return Ok(None) };
    let found = match course.direction {
        Direction::Forward => end_of(resume, call)?,
        Direction::Backward => begin_of(resume, call)?,
    };
    Ok(found.and_then(|found| match own.contains(&found.address) && is_ahead(&found) {
        true => Some(FrameBound { end: None, ..found }),
        false => found.end.filter(|_| step.leaves.is_some()).map(|_| found),
    }))
}

/// The call of the frame that is to be left, or of that in which the view stands.
fn call_of_frame(resume: &Resume<'_>, step: &Step) -> Result<Option<Moment>, Error> {
    let here = resume.at(resume.from.time);
    match step.leaves {
        // The call wrote the return address.
        Some(slot) => {
            let written =
                resume.run.last_write(here, slot..slot.saturating_add(8), resume.cancel)?;
            Ok(written.map(|write| resume.at(write.time)))
        }
        None => resume.run.enclosing_call(here, resume.from.thread),
    }
}

fn end_of(resume: &Resume<'_>, call: Moment) -> Result<Option<FrameBound>, Error> {
    let Resume { run, process, from, .. } = *resume;
    let trace = run.trace(process, process.window_of(call.time)?)?;
    let Some(block) = trace.block_with(call.time) else { return Ok(None) };
    let address = block.pc_at(call.time + 1);
    let bound = FrameBound { direction: Direction::Forward, address, from: None, end: None };
    let Some(end) = run.return_of_call(call, from.thread)? else {
        let called = trace.transfers(call.time..call.time + 1).next();
        let is_left = match called {
            Some(called) => stack_at_end(resume)? > called.slot,
            None => true,
        };
        return Ok((!is_left).then_some(bound));
    };
    // Where a frame was left otherwise is known only by the next call or return.
    let next = run.next_of_thread(process, from.thread, end.time + 1)?;
    let returns = match next {
        Some(next) => address_at(resume, next)? == Some(address),
        None => false,
    };
    Ok(returns.then_some(FrameBound { from: Some(end.time + 1), ..bound }))
}

/// How far the stack of the thread reaches at the end.
fn stack_at_end(resume: &Resume<'_>) -> Result<u64, Error> {
    let end = resume.process.indexed_reach(resume.from.time, Direction::Forward);
    let registers = resume.run.registers(resume.at(end), Some(resume.from.thread))?;
    Ok(registers.general[RSP])
}

/// The address of the instruction with a number.
fn address_at(resume: &Resume<'_>, number: u64) -> Result<Option<u64>, Error> {
    let trace = resume.run.trace(resume.process, resume.process.window_of(number)?)?;
    Ok(trace.block_with(number).map(|block| block.pc_at(number)))
}

fn begin_of(resume: &Resume<'_>, call: Moment) -> Result<Option<FrameBound>, Error> {
    let Resume { run, process, from, .. } = *resume;
    let entered = run.next_of_thread(process, from.thread, call.time + 1)?;
    let Some(entered) = entered else { return Ok(None) };
    let Some(address) = address_at(resume, entered)? else { return Ok(None) };
    Ok(Some(FrameBound {
        direction: Direction::Backward,
        address,
        from: Some(entered + 1),
        end: Some(Stop { time: call.time, thread: from.thread, reason: Reason::Sought }),
    }))
}
