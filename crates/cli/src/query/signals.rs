//! `retro signals`: which signals arrived, and what became of them.

use anyhow::Result;
use retro_query::{Row, RowClass, RowFilter, TimedRow};

use super::latest;
use super::question::{Question, told};
use crate::Completeness;
use crate::arguments::SignalsOptions;
use crate::message::notify;
use crate::replay::line::{Format, Line, What};

/// Lists signals.
pub fn signals(options: &SignalsOptions) -> Result<Completeness> {
    let mut question = Question::new(&options.subject)?;
    let thread = options.thread;
    let shown = latest::show(
        &mut question,
        &options.extent,
        |question, from, direction| {
            let filter = RowFilter::Class(RowClass::Signal);
            let from = question.at(from);
            let all =
                question.run.rows(from, direction, filter, &question.cancel()).map_err(told)?;
            Ok(all.filter(move |row| match (row, thread) {
                (Ok(row), Some(thread)) => row.thread == thread,
                _ => true,
            }))
        },
        |row| row.time.saturating_sub(1),
        show,
    )?;
    if shown == 0 {
        notify("no signal arrived in that time");
    }
    Ok(Completeness::Whole)
}

fn show(question: &mut Question, arrived: TimedRow) -> Result<()> {
    let Row::Signal { number, synchronous, handler, ref info } = arrived.row else { return Ok(()) };
    let TimedRow { time, thread, .. } = arrived;
    let log = question.moment.log;
    let handler = (handler != 0).then(|| question.run.symbols().place(log, time, handler));
    let what = What::Signal { number, synchronous, handler: handler.as_ref(), info };
    let format = if question.is_json { Format::Json } else { Format::Text(question.style) };
    Ok(question.output.line(&Line { log, time, thread, what }.shown(format))?)
}
