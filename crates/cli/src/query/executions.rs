//! `retro executions`: when a line, a function or an instruction was executed.

use anyhow::Result;
use retro_query::{Execution, Run};
use serde_json::{Value, json};

use super::code::Code;
use super::frame::hex;
use super::landing;
use super::latest::{self, Stretch};
use super::question::{Question, told};
use crate::arguments::ExecutionsOptions;
use crate::message::notify;
use crate::quantity::grouped;
use crate::quoting::printable;
use crate::{Completeness, place};

/// Lists executions.
pub fn executions(options: &ExecutionsOptions) -> Result<Completeness> {
    let mut question = Question::new(&options.subject)?;
    let code = Code::find(&question, &options.code)?;
    if options.count {
        let count = count(&question, options, &code)?;
        match question.is_json {
            true => question.object(&json!({ "log": question.moment.log, "count": count }))?,
            false => question.output.line(&grouped(count))?,
        }
        question.output.flush()?;
        return Ok(Completeness::Whole);
    }
    let shown = latest::show(
        &mut question,
        &options.extent,
        |question, from, direction| wanted(question, options, &code, from, direction),
        |execution| execution.time,
        show,
    )?;
    if shown == 0 {
        notify(&format!("{} was not executed in that time", printable(options.code.as_bytes())));
    }
    Ok(Completeness::Whole)
}

/// The executions that are wanted, the nearest first.
fn wanted(
    question: &Question,
    options: &ExecutionsOptions,
    code: &Code,
    from: u64,
    direction: retro_query::Direction,
) -> Result<impl Iterator<Item = Result<Execution, retro_query::Error>> + use<>> {
    let from = question.at(from);
    let all = question
        .run
        .executions(from, direction, &code.addresses, &question.cancel())
        .map_err(told)?;
    let (thread, code) = (options.thread, code.clone());
    let (run, log) = (question.run.clone(), from.log);
    Ok(all.filter_map(move |execution| {
        let execution = match execution {
            Ok(execution) => execution,
            Err(error) => return Some(Err(error)),
        };
        if thread.is_some_and(|thread| thread != execution.thread) {
            return None;
        }
        match begins(&run, log, &code, execution) {
            Ok(true) => Some(Ok(execution)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }))
}

/// Whether the thread comes to the code from elsewhere.
fn begins(
    run: &Run,
    log: u64,
    code: &Code,
    execution: Execution,
) -> Result<bool, retro_query::Error> {
    let Some(before) = execution.time.checked_sub(1).filter(|_| !code.ranges.is_empty()) else {
        return Ok(true);
    };
    let process = run.process(log)?;
    if before < process.start {
        return Ok(true);
    }
    let trace = run.trace(&process, process.window_of(before)?)?;
    if trace.thread_at(before) != execution.thread {
        return Ok(true);
    }
    Ok(trace.block_with(before).is_none_or(|block| !code.holds(block.pc_at(before))))
}

fn count(question: &Question, options: &ExecutionsOptions, code: &Code) -> Result<u64> {
    let since = Stretch::new(question, &options.extent)?.since();
    // What the index has counted need not be looked at one by one.
    if options.thread.is_none() && code.ranges.is_empty() {
        let mut count = 0;
        for &address in &code.addresses {
            let until = question.run.count_executions(question.moment, address).map_err(told)?;
            let before =
                question.run.count_executions(question.at(since), address).map_err(told)?;
            count += until - before;
        }
        return Ok(count);
    }
    let mut count = 0;
    for execution in wanted(question, options, code, since, retro_query::Direction::Forward)? {
        if execution.map_err(told)?.time >= question.moment.time {
            break;
        }
        count += 1;
    }
    Ok(count)
}

fn show(question: &mut Question, execution: Execution) -> Result<()> {
    let Execution { time, thread, pc } = execution;
    let place = question.run.symbols().place(question.moment.log, time, pc);
    if question.is_json {
        let mut object = landing::fields(question.at(time), thread);
        object.insert("address".into(), hex(pc).into());
        object.insert(
            "function".into(),
            place.function.map(|function| function.name.to_string()).into(),
        );
        object.insert(
            "source".into(),
            place.source.as_ref().map(|source| source.path.to_string()).into(),
        );
        object.insert("line".into(), place.source.map(|source| source.line).into());
        return question.object(&Value::Object(object));
    }
    let moment = question.style.dim(&format!("{time:>14} {thread:>7}"));
    Ok(question.output.line(&format!("{moment}  {}", place::text(&place)))?)
}
