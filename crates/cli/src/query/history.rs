//! `retro history`: all writes to some memory.

use anyhow::Result;
use retro_query::Write;
use retro_query::symbols::Scope;
use serde_json::Value;

use super::change::Change;
use super::latest;
use super::question::{Question, stack_of, told};
use super::watched::Watched;
use crate::Completeness;
use crate::arguments::HistoryOptions;
use crate::message::notify;
use crate::quoting::printable;

/// Lists the writes.
pub fn history(options: &HistoryOptions) -> Result<Completeness> {
    let mut question = Question::new(&options.subject)?;
    let state = question.state()?;
    let stack = stack_of(&state, &options.view)?;
    let watched = Watched::find(&state, &stack, options.view.frame, &options.what)?;
    let shown = stack.with_scope(options.view.frame, |scope| {
        latest::show(
            &mut question,
            &options.extent,
            |question, from, direction| {
                let (from, memory) = (question.at(from), watched.memory.clone());
                question.run.writes(from, direction, memory, &question.cancel()).map_err(told)
            },
            |write| write.time,
            |question, write| show(question, &watched, scope, write),
        )
    });
    if shown.map_err(told)?? == 0 {
        let name = printable(watched.text.as_bytes());
        notify(&format!(
            "nothing has written to {name} ({:#x}) in that time",
            watched.memory.start
        ));
    }
    Ok(Completeness::Whole)
}

fn show(question: &mut Question, watched: &Watched, scope: &dyn Scope, write: Write) -> Result<()> {
    let (time, thread) = (write.time, write.thread);
    let change = Change::new(&question.run, question.moment.log, write, watched, scope)?;
    if question.is_json {
        return question.object(&Value::Object(change.fields(watched)));
    }
    let by = question.style.dim(&format!("by {}", change.writer()));
    let place = question.style.dim(&format!("{time:>14} {thread:>7}"));
    Ok(question.output.line(&format!("{place}  {}  {by}", change.values()))?)
}
