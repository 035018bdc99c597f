//! `retro calls`: every call of a function.

use anyhow::Result;
use retro_query::symbols::FormatOptions;
use retro_query::{CallDetails, Execution};
use serde_json::{Value, json};

use super::question::{Question, told};
use super::{code, frame, landing, latest};
use crate::Completeness;
use crate::arguments::CallsOptions;
use crate::message::notify;
use crate::quoting::printable;

/// How much of a value a line shows.
fn brief() -> FormatOptions {
    FormatOptions { elements: 64, depth: 3, length: 400, types: false, ..FormatOptions::default() }
}

/// Lists calls.
pub fn calls(options: &CallsOptions) -> Result<Completeness> {
    let mut question = Question::new(&options.subject)?;
    let entries = code::entries(&question, &options.function)?;
    let thread = options.thread;
    let shown = latest::show(
        &mut question,
        &options.extent,
        |question, from, direction| {
            let from = question.at(from);
            let all = question
                .run
                .executions(from, direction, &entries, &question.cancel())
                .map_err(told)?;
            Ok(all.filter(move |execution| match (execution, thread) {
                (Ok(execution), Some(thread)) => execution.thread == thread,
                _ => true,
            }))
        },
        |execution| execution.time,
        show,
    )?;
    if shown == 0 {
        notify(&format!("{} was not called in that time", printable(options.function.as_bytes())));
    }
    Ok(Completeness::Whole)
}

fn show(question: &mut Question, execution: Execution) -> Result<()> {
    let Execution { time, thread, .. } = execution;
    let call = question.run.call_details(question.at(time), thread, &brief()).map_err(told)?;
    if question.is_json { question.object(&object(&call)) } else { print(&call, question) }
}

fn object(call: &CallDetails) -> Value {
    let mut object = landing::fields(call.moment, call.thread);
    object.extend(call.function.iter().flat_map(frame::place_fields));
    let caller = call.caller.as_ref().map(|caller| Value::Object(frame::place_fields(caller)));
    object.insert("caller".into(), caller.into());
    object.insert("arguments".into(), frame::variables(&call.arguments));
    let returned = call.returned.as_ref().map(|returned| {
        let (type_name, value) =
            returned.value.as_ref().map(|(type_name, value)| (type_name, value)).unzip();
        json!({
            "time": returned.moment.time,
            "rax": frame::hex(returned.rax),
            "type": type_name,
            "value": value,
        })
    });
    object.insert("returned".into(), returned.into());
    Value::Object(object)
}

fn print(call: &CallDetails, question: &mut Question) -> Result<()> {
    let name = question.style.bold(&printable(call.name().as_bytes()));
    let result = match &call.returned {
        None => " (did not return)".to_string(),
        Some(returned) => match returned.text() {
            Some(text) => format!(" = {}", printable(text.as_bytes())),
            None => String::new(),
        },
    };
    let caller = call.caller.as_ref().map(|caller| {
        let place = match (&caller.source, &caller.module) {
            (Some(source), _) => format!(" at {source}"),
            (None, Some(module)) => format!(" from {}", module.name),
            (None, None) => format!(" at {:#x}", caller.pc),
        };
        let text = format!("  in {}{place}", caller.function.as_deref().unwrap_or("??"));
        question.style.dim(&printable(text.as_bytes()))
    });
    let (time, thread) = (call.moment.time, call.thread);
    let moment = question.style.dim(&format!("{time:>14} {thread:>7}"));
    let arguments = frame::listed(&call.arguments);
    let line = format!("{moment}  {name}({arguments}){result}{}", caller.unwrap_or_default());
    Ok(question.output.line(&line)?)
}
