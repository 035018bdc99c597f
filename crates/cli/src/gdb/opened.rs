//! What is debugged: the recording with its index, the process, the moment to begin at.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use retro_gdbserver::Debuggee;
use retro_query::language::{Clock, TimePoint};
use retro_query::{Options, Run};

use crate::arguments::Debugged;
use crate::engine_file::EngineFile;
use crate::query::{last_result, question::told, which_process};
use crate::{index, selection};

/// A recording that is debugged.
pub struct Opened {
    /// The process.
    pub debuggee: Debuggee,
    /// Where to begin.
    pub time: u64,
    _engine: EngineFile,
}

impl Opened {
    /// Opens what the options say, and indexes it if it is not yet.
    pub fn open(options: &Debugged) -> Result<Opened> {
        let recording = Arc::new(selection::open(options.recording.as_deref())?);
        let point = options.at.unwrap_or(TimePoint::End);
        let last = last_result::read(&recording);
        let is_last = matches!(point, TimePoint::Last | TimePoint::Now);
        let log = match (options.process, last) {
            (Some(number), _) => which_process::named(&recording, number)?,
            (None, Some(last)) if is_last => last.log,
            (None, _) => which_process::likeliest(&recording)?,
        };
        let last = last.filter(|last| last.log == log).map(|last| last.time);
        let engine = EngineFile::new(&[recording.directory()])?;
        let run_options = Options { warm_up: true, ..Options::default() };
        let run = Run::open(recording, engine.path().to_owned(), run_options).map_err(told)?;
        index::ensure_some(run.replayer(), || run.newest_process(log).is_ok())?;
        // What was built meanwhile counts.
        run.newest_process(log).map_err(told)?;
        let debuggee = Debuggee::open(run, log).map_err(told)?;
        let end = debuggee.last_time();
        let clock = Clock { now: last.unwrap_or(end), last, end };
        let time = point.on(&clock).ok_or_else(|| {
            anyhow!("there is no last result in log {log}: goto, step and last-write have one")
        })?;
        // A forked process begins later than with its first instruction.
        let is_relative = matches!(point, TimePoint::Start | TimePoint::Part(_));
        let time = if is_relative { time.max(debuggee.process.start) } else { time };
        debuggee.process.volume_of(time).map_err(told)?;
        Ok(Opened { debuggee, time, _engine: engine })
    }
}
