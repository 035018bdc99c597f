//! Replaying a whole recording, plainly or with everything streamed: the work of the modes `replay` and `stream`.
//!
//! Both are done in a process of their own (`retro-bench replay RECORDING`), so that they are timed as every other
//! mode is. Intervals are replayed one after the other by one replay process at a time: the figure is that of
//! a single replay, not of the machine's cores.
//!
//! What was replayed is printed as JSON on standard output. [`Totals::instructions`] must be what the recording says;
//! the rest is there so that no work on it can be left out.

use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Context, Result, bail};
use retro_abi::log::Event;
use retro_recording::Recording;
use retro_replayer::{Block, Detail, Interval, Replayer, Session, Visitor};
use serde::{Deserialize, Serialize};

use crate::engine::Engine;

/// How much of a replay is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Nothing but where it ends.
    Plain,
    /// Every block, call, return and write, and every event of the log.
    Streamed,
}

/// What was replayed.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    pub instructions: u64,
    /// Of a replay that was streamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streamed: Option<Streamed>,
}

/// What came by in a stream.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Streamed {
    pub blocks: u64,
    /// Of all blocks.
    pub instructions: u64,
    /// Calls and returns with their return addresses, and writes.
    pub accesses: u64,
    pub written_bytes: u64,
    /// The sum of all values, as words.
    pub sum_of_values: u64,
    pub events: u64,
}

/// The part of what a replaying command prints that tells whether it did its work; `retro verify --json` has it, too.
#[derive(Deserialize)]
struct Claim {
    instructions: u64,
}

/// Why what a replaying command has printed does not say that it replayed so many instructions.
pub fn difference(printed: &[u8], instructions: u64) -> Option<String> {
    match serde_json::from_slice::<Claim>(printed) {
        Ok(claim) if claim.instructions == instructions => None,
        Ok(claim) => {
            Some(format!("replayed {} instructions of {instructions}", claim.instructions))
        }
        Err(error) => Some(format!("does not say how many instructions it replayed: {error}")),
    }
}

/// Replays all intervals of all processes.
pub fn replay(recording: &Path, depth: Depth) -> Result<Totals> {
    let engine = Engine::create()?;
    let replayer = Replayer::open(Recording::open(recording)?, engine.path());
    let mut totals = Totals::default();
    let mut streamed = Streamed::default();
    for process in replayer.recording().processes() {
        let log = process.summary.log;
        let mut session = None;
        for interval in replayer.intervals(log)?.iter() {
            let into = (depth == Depth::Streamed).then_some(&mut streamed);
            totals.instructions += replay_interval(&replayer, &mut session, log, interval, into)
                .with_context(|| format!("log {log}, interval {}", interval.number))?;
        }
    }
    if depth == Depth::Streamed {
        if streamed.instructions != totals.instructions {
            bail!(
                "the blocks of the stream have {} instructions, the replay {}",
                streamed.instructions,
                totals.instructions
            );
        }
        totals.streamed = Some(streamed);
    }
    Ok(totals)
}

/// Gives the number of instructions. A log's intervals share a session.
fn replay_interval(
    replayer: &Replayer,
    session: &mut Option<Session>,
    log: u64,
    interval: &Interval,
    streamed: Option<&mut Streamed>,
) -> Result<u64> {
    let session = match session {
        Some(session) => {
            session.go_to_interval(replayer, interval.number)?;
            session
        }
        None => session.insert(replayer.session(log, interval.number)?),
    };
    let stop = match streamed {
        None => session.run_to(u64::MAX)?,
        Some(streamed) => {
            let detail = Detail::BLOCKS | Detail::CALLS | Detail::WRITES;
            session.stream_to(u64::MAX, detail, streamed)?
        }
    };
    if stop.time != interval.end {
        bail!("the replay is over at time {}, the interval goes to {}", stop.time, interval.end);
    }
    Ok(interval.instructions())
}

impl Visitor for &mut Streamed {
    fn event(&mut self, _: u64, _: u32, _: &Event<'_>) -> ControlFlow<()> {
        self.events += 1;
        ControlFlow::Continue(())
    }

    #[inline(always)]
    fn block(&mut self, block: &Block<'_>) -> ControlFlow<()> {
        self.blocks += 1;
        self.instructions += u64::from(block.instructions());
        let (mut accesses, mut written, mut sum) = (0, 0, 0u64);
        for access in block.accesses() {
            accesses += 1;
            if access.kind.writes() {
                written += access.len;
                sum = sum.wrapping_add(sum_of_words(access.value));
            }
        }
        self.accesses += accesses;
        self.written_bytes += written;
        self.sum_of_values = self.sum_of_values.wrapping_add(sum);
        ControlFlow::Continue(())
    }
}

#[inline]
fn sum_of_words(value: &[u8]) -> u64 {
    let (words, rest) = value.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let rest = rest.iter().map(|byte| u64::from(*byte));
    words.chain(rest).fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_recorded_number_of_instructions_will_do() {
        let totals = Totals { instructions: 5000, streamed: Some(Streamed::default()) };
        let printed = serde_json::to_vec(&totals).expect("serialises");
        assert_eq!(difference(&printed, 5000), None);
        let fewer = difference(&printed, 5001).expect("differs");
        assert_eq!(fewer, "replayed 5000 instructions of 5001");
        let verified = br#"{"divergence":null,"instructions":5000,"ok":true}"#;
        assert_eq!(difference(verified, 5000), None);
        assert!(difference(b"", 5000).is_some());
    }

    #[test]
    fn every_byte_of_a_value_counts() {
        assert_eq!(sum_of_words(&[]), 0);
        assert_eq!(sum_of_words(&[1, 2]), 3);
        assert_eq!(sum_of_words(&[1, 1, 0, 0, 0, 0, 0, 0, 7]), 0x101 + 7);
        assert_eq!(sum_of_words(&[0xff; 16]), u64::MAX - 1);
    }
}
