//! `retro last-write`: who wrote what some memory holds.

use anyhow::{Result, anyhow};
use serde_json::Value;

use super::change::Change;
use super::question::{Question, stack_of, told};
use super::watched::Watched;
use super::{frame, last_result, source_lines};
use crate::Completeness;
use crate::arguments::LastWriteOptions;
use crate::quantity::{counted, grouped};
use crate::quoting::printable;

/// Finds the last write.
pub fn last_write(options: &LastWriteOptions) -> Result<Completeness> {
    let mut question = Question::new(&options.subject)?;
    let state = question.state()?;
    let stack = stack_of(&state, &options.view)?;
    let frame = options.view.frame;
    let watched = Watched::find(&state, &stack, frame, &options.what)?;
    let cancel = question.cancel();
    let write =
        question.run.last_write(question.moment, watched.memory.clone(), &cancel).map_err(told)?;
    let Some(write) = write else { return Err(never_written(&question, &watched)) };
    let (time, thread) = (write.time, write.thread);
    let change = stack.with_scope(frame, |scope| {
        Change::new(&question.run, question.moment.log, write, &watched, scope)
    });
    let change = change.map_err(told)??;
    let moment = question.at(time);
    show(&mut question, options, &watched, &change, thread, time)?;
    question.output.flush()?;
    last_result::write(question.run.recording(), moment);
    Ok(Completeness::Whole)
}

fn show(
    question: &mut Question,
    options: &LastWriteOptions,
    watched: &Watched,
    change: &Change,
    thread: u32,
    time: u64,
) -> Result<()> {
    let then = question.run.state(question.at(time)).map_err(told)?;
    let stack = then.stack(Some(thread), options.frames.max(1)).map_err(told)?;
    if question.is_json {
        let mut object = change.fields(watched);
        object.insert("stack".into(), frame::all_fields(&stack));
        return question.object(&Value::Object(object));
    }
    let style = question.style;
    let name = style.bold(&printable(watched.text.as_bytes()));
    let size = counted(watched.memory.end - watched.memory.start, "byte", "bytes");
    let start = watched.memory.start;
    let lines = [
        format!(
            "{name} ({size} at {start:#x}) was last written at time {}, thread {thread}",
            grouped(time)
        ),
        format!("  {}", change.values()),
        format!("  by {}", change.writer()),
    ];
    for line in lines.into_iter().chain(frame::all_lines(&stack, style)) {
        question.output.line(&line)?;
    }
    // The innermost frame with a source is where somebody has to look.
    let source = stack.frames().iter().find_map(|frame| {
        let line = source_lines::current(&question.run, frame, style)?;
        Some((frame.source.as_ref()?.to_string(), line))
    });
    if let Some((place, line)) = source {
        question.output.line(&printable(place.as_bytes()))?;
        question.output.line(&line)?;
    }
    Ok(())
}

fn never_written(question: &Question, watched: &Watched) -> anyhow::Error {
    let time = grouped(question.moment.time);
    let name = printable(watched.text.as_bytes());
    let start = watched.memory.start;
    anyhow!(
        "nothing has written to {name} ({start:#x}) before time {time}: it is as it was when it was mapped, or as another \
         process left it"
    )
}
