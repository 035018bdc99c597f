//! What is known of an index, as data.

use retro_index::coverage::Coverage;
use retro_index::{Place, claim};
use serde::Serialize;

use crate::quantity;

/// An index.
#[derive(Debug, Serialize)]
pub struct IndexFacts {
    /// Whether everything is indexed that will not change any more.
    pub complete: bool,
    /// Whether a process is building it.
    pub building: bool,
    /// Of the instructions.
    pub percent: f64,
    pub intervals: u64,
    pub indexed_intervals: u64,
    pub instructions: u64,
    pub indexed_instructions: u64,
    pub windows: u64,
    pub bytes: u64,
    pub bits_per_instruction: Option<f64>,
    /// Intervals that cannot be replayed.
    pub failures: Vec<FailureFacts>,
}

/// An interval that cannot be replayed.
#[derive(Debug, Serialize)]
pub struct FailureFacts {
    pub log: u64,
    pub interval: u64,
    pub start: u64,
    pub end: u64,
    pub reason: String,
}

impl IndexFacts {
    /// Of an index at a place.
    pub fn of(coverage: &Coverage, place: &Place) -> IndexFacts {
        let (all, done) = (coverage.instructions, coverage.indexed);
        let is_complete = coverage.complete == coverage.intervals;
        let percent = match all {
            _ if is_complete => 100.0,
            0 => 0.0,
            _ => 100.0 * done as f64 / all as f64,
        };
        let failures = coverage.failures.iter().map(|failure| FailureFacts {
            log: failure.job.log,
            interval: failure.job.interval.number,
            start: failure.job.interval.start,
            end: failure.job.interval.end,
            reason: failure.cause.to_string(),
        });
        IndexFacts {
            complete: is_complete,
            building: claim::is_claimed(place),
            percent,
            intervals: coverage.intervals,
            indexed_intervals: coverage.complete,
            instructions: all,
            indexed_instructions: done,
            windows: coverage.windows,
            bytes: coverage.bytes,
            bits_per_instruction: quantity::bits_per_instruction(coverage.bytes, done),
            failures: failures.collect(),
        }
    }
}
