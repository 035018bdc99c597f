//! Where a command has led to.

use anyhow::Result;
use retro_query::Moment;
use serde_json::{Map, Value};

use super::question::{Question, told};
use super::{frame, last_result, source_lines};
use crate::quantity::grouped;

/// Shows a moment of a thread, and remembers it.
pub fn land(question: &mut Question, moment: Moment, thread: Option<u32>) -> Result<()> {
    show_with(question, moment, thread, Map::new(), None)?;
    question.output.flush()?;
    last_result::write(question.run.recording(), moment);
    Ok(())
}

/// Shows a moment of a thread, with what else there is to tell of it.
pub fn show_with(
    question: &mut Question,
    moment: Moment,
    thread: Option<u32>,
    mut more: Map<String, Value>,
    note: Option<&str>,
) -> Result<()> {
    let state = question.run.state(moment).map_err(told)?;
    let stack = state.stack(thread, 1).map_err(told)?;
    let innermost = stack.frames().first();
    if question.is_json {
        let mut object = fields(moment, stack.thread);
        object.append(&mut more);
        object.extend(innermost.map(frame::place_fields).into_iter().flatten());
        return question.object(&Value::Object(object));
    }
    let style = question.style;
    let place = innermost.map_or_else(String::new, |innermost| frame::unnumbered(innermost, style));
    question.output.line(&format!(
        "time {}, thread {}: {place}",
        grouped(moment.time),
        stack.thread
    ))?;
    if let Some(note) = note {
        question.output.line(&format!("  {note}"))?;
    }
    if let Some(line) =
        innermost.and_then(|innermost| source_lines::current(&question.run, innermost, style))
    {
        question.output.line(&line)?;
    }
    Ok(())
}

/// A moment as fields of an object.
pub fn fields(moment: Moment, thread: u32) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("log".into(), moment.log.into());
    fields.insert("time".into(), moment.time.into());
    fields.insert("thread".into(), thread.into());
    fields
}
