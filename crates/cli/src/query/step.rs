//! `retro step`: from one instruction or source line of a thread to another.

use anyhow::{Result, anyhow};
use retro_query::language::TimePoint;
use retro_query::{Calls, Direction, Unit};

use super::landing;
use super::question::{Question, told};
use crate::Completeness;
use crate::arguments::StepOptions;
use crate::quantity::grouped;

/// Steps, and shows where that leads to.
pub fn step(options: &StepOptions) -> Result<Completeness> {
    let mut question = Question::about(&options.subject, TimePoint::Last)?;
    if options.subject.at.is_none() && question.last().is_none() && !options.reverse {
        question.moment = question.at(question.process.start);
    }
    let mut moment = question.moment;
    let thread = match options.thread {
        // A thread that there is not is told before its steps are looked for.
        Some(thread) => question.run.registers(moment, Some(thread)).map_err(told)?.thread,
        None => question.run.running_thread(moment).map_err(told)?,
    };
    let unit = if options.instruction { Unit::Instruction } else { Unit::Line };
    let calls = match (options.over, options.out) {
        (true, _) => Calls::Over,
        (_, true) => Calls::Out,
        _ => Calls::Into,
    };
    let direction = if options.reverse { Direction::Backward } else { Direction::Forward };
    let cancel = question.cancel();
    for _ in 0..options.count {
        let next =
            question.run.step(moment, thread, unit, calls, direction, &cancel).map_err(told)?;
        moment = next.ok_or_else(|| no_further(moment.time, thread, options))?;
    }
    landing::land(&mut question, moment, Some(thread))?;
    Ok(Completeness::Whole)
}

fn no_further(time: u64, thread: u32, options: &StepOptions) -> anyhow::Error {
    let side = if options.reverse { "before" } else { "behind" };
    let what = match (options.out, options.instruction) {
        (true, _) if options.reverse => "no call of this function",
        (true, _) => "no return of this function",
        (_, true) => "no instruction",
        _ => "no source line",
    };
    let hint = match options.out || options.instruction {
        true => "",
        false => "; `--instruction` steps through code without debug information",
    };
    anyhow!("thread {thread} has {what} {side} time {}{hint}", grouped(time))
}
