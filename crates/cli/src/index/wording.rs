//! What is said of an index.

use retro_index::build::Job;
use retro_index::coverage::Failure;

use super::facts::IndexFacts;
use crate::quantity;

/// One line: how much is indexed, and what it takes.
pub fn summary(facts: &IndexFacts, seconds: Option<f64>) -> String {
    let windows = quantity::counted(facts.windows, "window", "windows");
    let mut text = if facts.complete {
        let instructions = quantity::scaled(facts.instructions);
        let intervals = quantity::counted(facts.intervals, "interval", "intervals");
        format!("indexed, {instructions} instructions, {windows} in {intervals}")
    } else {
        format!(
            "{:.0}% indexed, {} of {} instructions, {windows}, {} of {} intervals complete",
            // Not 100 as long as anything is missing.
            facts.percent.floor().min(99.0),
            quantity::scaled(facts.indexed_instructions),
            quantity::scaled(facts.instructions),
            facts.indexed_intervals,
            facts.intervals
        )
    };
    text += &format!(", {}", quantity::bytes(facts.bytes));
    if let Some(bits) = facts.bits_per_instruction {
        text += &format!(", {bits:.3} bits per instruction");
    }
    if let Some(seconds) = seconds {
        text += &format!(", {seconds:.1} s");
    }
    if facts.building {
        text += "; an indexer is at work";
    }
    text
}

/// An interval that is not there.
pub fn failure(failure: &Failure) -> String {
    let Job { log, interval } = failure.job;
    format!(
        "log {log}, interval {}, from time {} to {}, is not indexed: {}",
        interval.number, interval.start, interval.end, failure.cause
    )
}
