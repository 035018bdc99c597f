//! What every question begins with: the recording with its index, the process, the moment.

use std::sync::Arc;

use anyhow::{Error, Result, anyhow};
use retro_query::language::{Clock, TimePoint};
use retro_query::{Cancel, Moment, Options, Process, Run, State, ThreadStack};
use retro_recording::budget::MEMORY_VARIABLE;
use retro_symbols::SourceFiles;
use serde_json::Value;

use super::{last_result, which_process};
use crate::arguments::{Subject, View};
use crate::engine_file::EngineFile;
use crate::message::notify;
use crate::output::Output;
use crate::quoting::printable;
use crate::style::Style;
use crate::{index, selection};

/// A recording that is asked, and the moment it is asked about.
pub struct Question {
    /// The run.
    pub run: Run,
    /// The process.
    pub process: Arc<Process>,
    /// The moment.
    pub moment: Moment,
    /// Where answers go.
    pub output: Output,
    /// How they look.
    pub style: Style,
    /// Whether they are JSON.
    pub is_json: bool,
    last: Option<u64>,
    _engine: EngineFile,
}

impl Question {
    /// About a moment; about the end of the run if none is named.
    pub fn new(subject: &Subject) -> Result<Question> {
        Question::about(subject, TimePoint::End)
    }

    /// About a moment, or another one if none is named. A last result that there is not stands for `None`.
    pub fn about(subject: &Subject, otherwise: TimePoint) -> Result<Question> {
        let recording = Arc::new(selection::open(subject.recording.as_deref())?);
        let last = last_result::read(&recording);
        let point = subject.at.unwrap_or(otherwise);
        let is_last = matches!(point, TimePoint::Last | TimePoint::Now);
        let log = match (subject.process, last) {
            (Some(number), _) => which_process::named(&recording, number)?,
            (None, Some(last)) if is_last => last.log,
            (None, _) => which_process::likeliest(&recording)?,
        };
        let engine = EngineFile::new(&[recording.directory()])?;
        let sources = source_files(subject)?;
        let options = Options { sources, ..Options::default() };
        let run = Run::open(recording, engine.path().to_owned(), options).map_err(told)?;
        index::ensure(run.replayer())?;
        let process = run.process(log).map_err(told)?;
        let last = last.filter(|last| last.log == log).map(|last| last.time);
        let mut question = Question {
            moment: Moment { log, time: process.end },
            run,
            process,
            output: Output::new(),
            style: Style::stdout(),
            is_json: subject.json,
            last,
            _engine: engine,
        };
        let time = match last {
            // Whoever did not ask for it gets on without.
            None if is_last && subject.at.is_none() => question.process.end,
            _ => question.time_of(point)?,
        };
        question.moment.time = time;
        // A time that there is not is told before anything else is looked at.
        question.process.volume_of(time).map_err(told)?;
        Ok(question)
    }

    /// The time that the last command has led to in this process.
    pub fn last(&self) -> Option<u64> {
        self.last
    }

    /// The time that a point of the run stands for.
    pub fn time_of(&self, point: TimePoint) -> Result<u64> {
        let Process { start, end, .. } = *self.process;
        let clock = Clock { now: self.last.unwrap_or(end), last: self.last, end };
        let time = point.on(&clock).ok_or_else(|| {
            let log = self.process.log;
            anyhow!("there is no last result in log {log}: goto, step and last-write have one")
        })?;
        // A forked process begins later than with its first instruction.
        let is_relative = matches!(point, TimePoint::Start | TimePoint::Part(_));
        Ok(if is_relative { time.max(start) } else { time })
    }

    /// The moment at a time of the process.
    pub fn at(&self, time: u64) -> Moment {
        Moment { time, ..self.moment }
    }

    /// The state at the moment.
    pub fn state(&self) -> Result<State> {
        self.run.state(self.moment).map_err(told)
    }

    /// Prints an object.
    pub fn object(&mut self, object: &Value) -> Result<()> {
        Ok(self.output.line(&object.to_string())?)
    }

    /// Nobody stops a command's search but by stopping the command.
    pub fn cancel(&self) -> Cancel {
        Cancel::new()
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        if self.run.recording().budget().has_refused() {
            notify(&format!(
                "something was left out of this answer because it takes too much memory, maybe names or lines \
                 ({MEMORY_VARIABLE}=8G allows more)"
            ));
        }
    }
}

/// The call stack that a view is of, deep enough for its frame.
pub fn stack_of<'a>(state: &'a State, view: &View) -> Result<ThreadStack<'a>> {
    let stack = state.stack(view.thread, view.frame.saturating_add(1)).map_err(told)?;
    if view.frame >= stack.frames().len() {
        let frames = stack.frames().len();
        return Err(told(retro_query::Error::NoFrame { frame: view.frame, frames }));
    }
    Ok(stack)
}

/// Why a question has no answer, safe for a terminal.
pub fn told(error: retro_query::Error) -> Error {
    match error {
        retro_query::Error::Index(error) => index::explain(error),
        error => safe(&error.to_string()),
    }
}

/// An error with a text that may come from a recording. Its lines stay lines.
pub fn safe(text: &str) -> Error {
    let lines: Vec<String> = text.lines().map(|line| printable(line.as_bytes())).collect();
    anyhow!("{}", lines.join("\n"))
}

fn source_files(subject: &Subject) -> Result<SourceFiles> {
    let mut sources = SourceFiles::new();
    for map in &subject.source_map {
        sources.add_map(map)?;
    }
    for directory in &subject.source_dir {
        sources.add_directory(directory);
    }
    Ok(sources)
}
