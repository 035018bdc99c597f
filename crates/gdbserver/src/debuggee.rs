//! The process that clients look at: shared by all of them, and never changed.

use std::path::PathBuf;
use std::sync::Arc;

use retro_query::{Error, Moment, Process, Program, Run};

use crate::libraries;

/// A process of a recorded run.
#[derive(Clone)]
pub struct Debuggee {
    /// The run.
    pub run: Run,
    /// Its index.
    pub process: Arc<Process>,
    /// How it began.
    pub program: Arc<Program>,
}

impl Debuggee {
    /// The process with a log.
    pub fn open(run: Run, log: u64) -> Result<Debuggee, Error> {
        let process = run.process(log)?;
        let program = Arc::new(run.program(log)?);
        Ok(Debuggee { run, process, program })
    }

    /// The moment with a time.
    pub fn at(&self, time: u64) -> Moment {
        Moment { log: self.process.log, time }
    }

    /// The dynamic linker: its name in the program, which may go through links, and the file that was mapped.
    pub fn interpreter(&self) -> Result<Option<(PathBuf, PathBuf)>, Error> {
        libraries::interpreter(self)
    }

    /// Its id; one that no process has if it is not known.
    pub fn pid(&self) -> u32 {
        self.program.pid.max(1)
    }

    /// The last moment that can be looked at: the end, unless the last part of the run is not indexed.
    pub fn last_time(&self) -> u64 {
        let Process { end, volumes, .. } = &*self.process;
        match volumes.last() {
            Some(last) if last.end < *end => last.end.saturating_sub(1).max(last.start),
            _ => *end,
        }
    }
}
