//! Memory of a recorded process at times that mostly follow each other.

use anyhow::{Result, anyhow};
use retro_replayer::{Error, Replayer, Session};

use super::happenings::Instant;
use crate::place;

/// Memory of a process.
pub trait Memory {
    /// Reads memory as it was; the answer is shorter where there is none.
    fn read(&mut self, at: Instant, address: u64, length: u64) -> Result<Vec<u8>>;

    /// Lets go of what it takes to answer; the next question takes it again.
    fn rest(&mut self);
}

/// Memory of a process, by replay.
pub struct ReplayedMemory<'a> {
    replayer: &'a Replayer,
    log: u64,
    /// Where the last question was about.
    session: Option<Session>,
}

impl<'a> ReplayedMemory<'a> {
    /// Of the process of a log.
    pub fn new(replayer: &'a Replayer, log: u64) -> ReplayedMemory<'a> {
        ReplayedMemory { replayer, log, session: None }
    }

    fn session_at(&mut self, at: Instant) -> Result<&mut Session, Error> {
        let serves = |session: &Session| {
            session.interval().number == at.interval && session.time() <= at.time
        };
        let mut session = match self.session.take().filter(serves) {
            Some(session) => session,
            None => self.replayer.session(self.log, at.interval)?,
        };
        session.run_to(at.time)?;
        Ok(self.session.insert(session))
    }
}

impl Memory for ReplayedMemory<'_> {
    fn read(&mut self, at: Instant, address: u64, length: u64) -> Result<Vec<u8>> {
        let length = usize::try_from(length)?;
        let (replayer, log) = (self.replayer, self.log);
        self.session_at(at)
            .and_then(|session| session.read(address, length))
            .map_err(|error| told(replayer, log, error))
    }

    fn rest(&mut self) {
        self.session = None;
    }
}

/// A failure of a replay, with the name of the place.
pub fn told(replayer: &Replayer, log: u64, error: Error) -> anyhow::Error {
    match error {
        Error::Diverged(divergence) => {
            let place = place::describe(replayer.recording(), log, divergence.time, divergence.pc);
            anyhow!(
                "the replay of log {log} is not what was recorded: at time {}, thread {}, pc {place}: {} \
                 (`retro verify` replays everything)",
                divergence.time,
                divergence.thread,
                divergence.text
            )
        }
        // What the process says of itself, without knowing whose it is.
        Error::Failed(_) | Error::Crashed(_) => {
            anyhow::Error::new(error).context(format!("log {log}"))
        }
        error => error.into(),
    }
}
