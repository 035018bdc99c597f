//! The process that clients look at: shared by all of them, and never changed.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use retro_query::{Error, Moment, Process, Program, Run};

use crate::libraries;
use crate::stop::{Reason, Stop};
use crate::thread_names::{self, NameChanges};

/// A process of a recorded run.
#[derive(Clone)]
pub struct Debuggee {
    /// The run.
    pub run: Run,
    /// Its index.
    pub process: Arc<Process>,
    /// How it began.
    pub program: Arc<Program>,
    /// What its threads were called, as far as somebody has asked.
    pub(crate) names: Arc<Mutex<NameChanges>>,
    /// When somebody last looked whether more is indexed.
    looked: Option<Instant>,
}

impl Debuggee {
    /// The process with a log.
    pub fn open(run: Run, log: u64) -> Result<Debuggee, Error> {
        let process = run.process(log)?;
        let program = Arc::new(run.program(log)?);
        Ok(Debuggee { run, process, program, names: Arc::default(), looked: None })
    }

    /// Looks once at what every client asks for first, so that the first one does not wait for it.
    pub fn get_ready(&self, time: u64) -> Result<(), Error> {
        self.run.state(self.at(time))?.registers(None)?;
        thread_names::names(self, &[], time)?;
        Ok(())
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

    /// Takes in what was indexed since, if that was not all.
    pub(crate) fn look_for_more(&mut self) {
        /// It may never be complete, and opening it takes a while.
        const AGAIN: Duration = Duration::from_secs(1);
        if self.process.is_indexed() || self.looked.is_some_and(|at| at.elapsed() < AGAIN) {
            return;
        }
        self.looked = Some(Instant::now());
        if let Ok(newest) = self.run.newest_process(self.process.log) {
            self.process = newest;
        }
    }

    /// Whether a stop says that there is no more history, because there is no more index.
    pub(crate) fn ends_early(&self, stop: &Stop) -> bool {
        match stop.reason {
            Reason::HistoryBegin => stop.time != self.process.start,
            Reason::HistoryEnd => stop.time != self.process.end,
            _ => false,
        }
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
