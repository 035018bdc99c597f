//! `retro bt`: call stacks.

use anyhow::Result;
use retro_query::symbols::FormatOptions;
use retro_query::{Moment, Named, State, ThreadStack};
use serde_json::Value;

use super::question::{Question, told};
use super::{frame, landing};
use crate::Completeness;
use crate::arguments::BacktraceOptions;
use crate::quoting::printable;

/// How much of a value a line of a call stack shows.
fn brief() -> FormatOptions {
    FormatOptions { elements: 64, depth: 3, length: 400, types: false, ..FormatOptions::default() }
}

/// Prints call stacks.
pub fn backtrace(options: &BacktraceOptions) -> Result<Completeness> {
    let mut question = Question::new(&options.subject)?;
    let state = question.state()?;
    let threads: Vec<Option<u32>> = match options.all_threads {
        true => state.threads().map_err(told)?.iter().map(|info| Some(info.thread)).collect(),
        false => vec![options.thread],
    };
    for (index, thread) in threads.into_iter().enumerate() {
        if options.all_threads && !question.is_json {
            let blank = if index > 0 { "\n" } else { "" };
            let heading = thread.map_or_else(String::new, |thread| format!("thread {thread}:"));
            question.output.line(&format!("{blank}{}", question.style.bold(&heading)))?;
        }
        show(&mut question, options, &state, thread)?;
    }
    question.output.flush()?;
    Ok(Completeness::Whole)
}

fn show(
    question: &mut Question,
    options: &BacktraceOptions,
    state: &State,
    thread: Option<u32>,
) -> Result<()> {
    let stack = state.stack(thread, options.limit.max(1)).map_err(told)?;
    let mut objects = Vec::new();
    let variables = Variables::of_all(question, options, &stack)?;
    for (number, (one, variables)) in stack.frames().iter().zip(variables).enumerate() {
        if question.is_json {
            let mut object = frame::fields(number, one);
            let named = [("arguments", &variables.arguments), ("locals", &variables.locals)];
            for (name, variables) in named {
                let variables = variables.as_ref().map(|variables| frame::variables(variables));
                object.extend(variables.map(|variables| (name.to_string(), variables)));
            }
            objects.push(Value::Object(object));
            continue;
        }
        question.output.line(&frame::text(
            number,
            one,
            variables.arguments.as_deref(),
            question.style,
        ))?;
        for local in variables.locals.iter().flatten() {
            let kind = if local.is_shadowed { " (shadowed)" } else { "" };
            let text = format!("        {} = {}{kind}", local.name, local.value);
            question.output.line(&printable(text.as_bytes()))?;
        }
    }
    if question.is_json {
        let mut object = landing::fields(question.moment, stack.thread);
        object.insert("frames".into(), objects.into());
        object.insert("complete".into(), frame::end(&stack).is_none().into());
        return question.object(&Value::Object(object));
    }
    if let Some(note) = frame::end(&stack) {
        question.output.line(&question.style.dim(note))?;
    }
    Ok(())
}

/// The variables of a frame that are asked for.
struct Variables {
    arguments: Option<Vec<Named>>,
    locals: Option<Vec<Named>>,
}

impl Variables {
    fn of_all(
        question: &Question,
        options: &BacktraceOptions,
        stack: &ThreadStack<'_>,
    ) -> Result<Vec<Variables>> {
        let frames = 0..stack.frames().len();
        let entries = match options.args {
            true => stack.entries(frames.clone(), &question.cancel()).map_err(told)?,
            false => vec![None; frames.len()],
        };
        ThreadStack::by_calls(frames, entries, |(number, entry)| {
            Variables::of(options, stack, number, entry)
        })
    }

    fn of(
        options: &BacktraceOptions,
        stack: &ThreadStack<'_>,
        number: usize,
        entry: Option<Moment>,
    ) -> Result<Variables> {
        let arguments = match options.args {
            true => Some(stack.arguments_since(number, entry, &brief()).map_err(told)?),
            false => None,
        };
        let locals = match options.locals {
            true => {
                let mut all = stack.locals(number, &brief()).map_err(told)?;
                // What is shown as it was at the call is not shown again as it is, unless nobody asked for the former.
                all.retain(|local| !(options.args && local.is_parameter));
                Some(all)
            }
            false => None,
        };
        Ok(Variables { arguments, locals })
    }
}
