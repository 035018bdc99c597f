//! What can go wrong with a replay.

use std::fmt;
use std::io;

use crate::Unfit;

/// Why a replay cannot go on, or cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recording cannot be read.
    #[error("the recording cannot be read: {0}")]
    Recording(#[from] retro_recording::Error),
    /// There is no such log.
    #[error("the recording has no log {0} (`retro info` lists them)")]
    NoLog(u64),
    /// There is no such interval.
    #[error("log {log} has no interval {interval}")]
    NoInterval {
        /// The log.
        log: u64,
        /// The interval that it does not have.
        interval: u64,
    },
    /// There is no such time in the log.
    #[error("time {time} is outside of log {log}, which goes from {start} to {end}")]
    NoTime {
        /// The log.
        log: u64,
        /// The time asked for.
        time: u64,
        /// First time of the log.
        start: u64,
        /// Last time of the log.
        end: u64,
    },
    /// Something is missing, so that a replay would go wrong.
    #[error("log {log}, interval {interval} cannot be replayed: {what}")]
    Incomplete {
        /// The log.
        log: u64,
        /// The interval.
        interval: u64,
        /// What is missing.
        what: String,
    },
    /// This processor cannot execute it.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// A session cannot go back.
    #[error("a replay at time {now} cannot go back to {wanted}: start another one before that")]
    Backwards {
        /// Where it is.
        now: u64,
        /// Where it should go.
        wanted: u64,
    },
    /// A recording may not use that much memory.
    #[error("the replay is given up: {0}")]
    Memory(#[from] retro_recording::OverBudget),
    /// A session that has executed something cannot be copied.
    #[error("a replay that has run cannot be copied: make the copy before")]
    HasRun,
    /// There is no such thread at this time.
    #[error("there is no thread {0} at this time")]
    NoThread(u32),
    /// A process takes only so many breakpoints.
    #[error("there can be at most {most} breakpoints")]
    TooManyBreakpoints {
        /// The limit.
        most: usize,
    },
    /// A replay process could not be made.
    #[error("cannot start a replay process: {0}")]
    Start(#[source] io::Error),
    /// Memory to start from could not be found.
    #[error("cannot find the memory of this moment: {0}")]
    Pages(#[source] io::Error),
    /// The replay is not what was recorded.
    #[error("{0}")]
    Diverged(Box<Divergence>),
    /// The replay process says that it cannot go on.
    #[error("the replay cannot go on: {0}")]
    Failed(String),
    /// The replay process died, or said something that makes no sense.
    #[error("the replay process crashed: {0}")]
    Crashed(String),
}

/// Where a replay is not what was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The time.
    pub time: u64,
    /// The thread that ran.
    pub thread: u32,
    /// Where it was.
    pub pc: u64,
    /// Events applied before.
    pub events: u64,
    /// What was expected and found.
    pub text: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the replay is not what was recorded: at time {}, thread {}, pc {:#x}: {}",
            self.time, self.thread, self.pc, self.text
        )
    }
}
