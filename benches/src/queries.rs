//! Asking random questions about a recording: the work of the mode `query`.
//!
//! The recording is indexed, if it is not yet, and opened as a server does. Questions of each kind are asked about random
//! times of the longest process, one after the other, about memory and code that the run is known to have used. Nothing
//! that a question has found out is kept for the next one but what a server always keeps: translated code and pages.
//!
//! Invariants:
//! 1. A question that fails fails the whole mode: there are no figures of wrong answers.
//! 2. A question is timed until its answer is there; ending its replay process is not part of it, since nobody waits for that.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use retro_index::build;
use retro_query::{
    Calls, Cancel, Direction, Moment, Options, Process, RowClass, RowFilter, Run, Unit,
};
use retro_recording::Recording;
use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::random::Random;
use crate::statistics::{median, percentile};

/// The questions about all programs come from here.
const SEED: u64 = 0x7157;

/// What a server does before it is warm.
const WARM_UP: Duration = Duration::from_secs(10);

/// The outcome for a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answers {
    /// Of the process asked about.
    pub instructions: u64,
    /// Questions of each kind.
    pub questions: u32,
    /// From opening the recording to the first answer.
    pub first_answer_ms: f64,
    /// By kind of question.
    pub latencies: BTreeMap<String, Latency>,
}

/// How long answers take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub median_ms: f64,
    pub percentile_95_ms: f64,
    pub worst_ms: f64,
}

impl Answers {
    /// The median of the kind that takes longest.
    pub fn worst_median_ms(&self) -> f64 {
        self.latencies.values().fold(0.0, |worst, latency| latency.median_ms.max(worst))
    }

    /// The longest that any answer took.
    pub fn worst_ms(&self) -> f64 {
        self.latencies.values().fold(0.0, |worst, latency| latency.worst_ms.max(worst))
    }
}

/// Reads what [`measure`] has found in another process.
pub fn parse(printed: &[u8]) -> Result<Answers, String> {
    serde_json::from_slice(printed).map_err(|error| format!("prints no figures: {error}"))
}

/// A recording that is indexed and open.
pub struct Opened {
    pub run: Run,
    /// Of its longest process.
    pub log: u64,
    /// When it began to be opened.
    pub start: Instant,
    /// What it is replayed with, as long as there is this.
    pub engine: Engine,
}

impl Opened {
    /// Opens a recording as `retro serve` does.
    pub fn as_served(recording: &Path) -> Result<Opened> {
        let engine = Engine::create()?;
        index(recording, &engine)?;
        let start = Instant::now();
        let options = Options { warm_up: true, ..Options::default() };
        let run = Run::open(Recording::open(recording)?, engine.path(), options)?;
        let log = longest(&run)?;
        Ok(Opened { run, log, start, engine })
    }
}

/// Asks so many questions of each kind.
pub fn measure(recording: &Path, questions: u32) -> Result<Answers> {
    let Opened { run, log, start, engine: _engine } = Opened::as_served(recording)?;
    let process = run.process(log)?;
    run.registers(Moment { log, time: process.end / 2 }, None)?;
    let first_answer_ms = milliseconds(start);
    // The template for streams begins to be made as well.
    run.trace(&process, process.window_of(process.start)?)?;
    std::thread::sleep(WARM_UP);

    let asker = Asker::new(run, Arc::clone(&process))?;
    let mut latencies = BTreeMap::new();
    for (kind, (name, ask)) in (0..).zip(KINDS) {
        // Other moments for each kind: what one has found out is of no use to the next.
        let mut random = Random::new(SEED + kind);
        let mut values = Vec::new();
        for _ in 0..questions {
            let question = asker.question(&mut random);
            let start = Instant::now();
            ask(&asker, question).with_context(|| format!("{name} at {}", question.at.time))?;
            values.push(milliseconds(start));
        }
        latencies.insert((*name).to_owned(), latency(&values)?);
    }
    let instructions = process.end - process.start;
    Ok(Answers { instructions, questions, first_answer_ms, latencies })
}

fn index(recording: &Path, engine: &Engine) -> Result<()> {
    let replayer = retro_replayer::Replayer::open(Recording::open(recording)?, engine.path());
    let place = retro_index::Place::of(replayer.recording())?;
    let options = build::Options::default();
    let jobs = build::jobs(&replayer, &place, &options)?;
    build::build(&replayer, &place.made()?, &jobs, &options, &build::Unwatched)?;
    Ok(())
}

fn longest(run: &Run) -> Result<u64> {
    let processes = run.recording().processes().iter();
    let longest = processes.max_by_key(|process| process.summary.time);
    Ok(longest.context("the recording has no process")?.summary.log)
}

/// A random moment, and something that the run has used.
#[derive(Clone, Copy)]
struct Question {
    at: Moment,
    word: u64,
    pc: u64,
}

struct Asker {
    run: Run,
    process: Arc<Process>,
    /// Addresses of words that were written.
    words: Vec<u64>,
    /// Addresses of code that was executed.
    code: Vec<u64>,
    cancel: Cancel,
}

type Ask = fn(&Asker, Question) -> Result<()>;

/// All kinds of questions.
const KINDS: &[(&str, Ask)] = &[
    ("registers", |asker, question| {
        asker.run.registers(question.at, None)?;
        Ok(())
    }),
    ("64 bytes of memory", |asker, question| {
        // There may be none yet, or no more.
        asker.run.memory(question.at, question.word, 64)?;
        Ok(())
    }),
    ("call stack", |asker, question| {
        let state = asker.run.state(question.at)?;
        let stack = state.stack(None, 1000)?;
        ensure!(!stack.frames().is_empty(), "no frames");
        Ok(())
    }),
    ("last write of a word", |asker, question| {
        let memory = question.word..question.word + 8;
        asker.run.last_write(question.at, memory, &asker.cancel)?;
        Ok(())
    }),
    ("next write of a word", |asker, question| {
        let memory = question.word..question.word + 8;
        let found = asker.run.writes(question.at, Direction::Forward, memory, &asker.cancel)?;
        found.take(1).try_for_each(|write| write.map(drop))?;
        Ok(())
    }),
    ("last execution", |asker, question| asker.execution(question, Direction::Backward)),
    ("next execution", |asker, question| asker.execution(question, Direction::Forward)),
    ("1000th execution before", |asker, question| {
        let Question { at, pc, .. } = question;
        asker.run.nth_execution(at, Direction::Backward, pc, 1000, &asker.cancel)?;
        Ok(())
    }),
    ("step over, back", |asker, question| {
        asker.step(question, Unit::Instruction, Calls::Over, Direction::Backward)
    }),
    ("step out", |asker, question| {
        asker.step(question, Unit::Instruction, Calls::Out, Direction::Forward)
    }),
    ("caller", |asker, question| {
        let thread = asker.run.running_thread(question.at)?;
        asker.run.enclosing_call(question.at, thread)?;
        Ok(())
    }),
    ("system call before", |asker, question| {
        let filter = RowFilter::Class(RowClass::Syscall);
        let rows = asker.run.rows(question.at, Direction::Backward, filter, &asker.cancel)?;
        rows.take(1).try_for_each(|row| row.map(drop))?;
        Ok(())
    }),
    ("mappings", |asker, question| {
        ensure!(!asker.run.maps(question.at)?.is_empty(), "no mappings");
        Ok(())
    }),
];

impl Asker {
    fn new(run: Run, process: Arc<Process>) -> Result<Asker> {
        let (mut words, mut code) = (Vec::new(), Vec::new());
        for volume in &process.volumes {
            let windows = volume.windows.len();
            for window in [0, windows / 3, windows / 2, windows.saturating_sub(1)] {
                let written = volume.words.keys_of(window, 0..1 << 50)?;
                words.extend(written.into_iter().map(|(word, _)| word * 8));
            }
            code.extend(volume.pieces.entries());
        }
        ensure!(!words.is_empty() && !code.is_empty(), "nothing was written or executed");
        Ok(Asker { run, process, words, code, cancel: Cancel::new() })
    }

    fn question(&self, random: &mut Random) -> Question {
        let Process { log, start, end, .. } = *self.process;
        let time = start + random.below((end - start) as usize) as u64;
        Question {
            at: Moment { log, time },
            word: self.words[random.below(self.words.len())],
            pc: self.code[random.below(self.code.len())],
        }
    }

    fn execution(&self, question: Question, direction: Direction) -> Result<()> {
        let found = self.run.executions(question.at, direction, &[question.pc], &self.cancel)?;
        found.take(1).try_for_each(|execution| execution.map(drop))?;
        Ok(())
    }

    fn step(
        &self,
        question: Question,
        unit: Unit,
        calls: Calls,
        direction: Direction,
    ) -> Result<()> {
        let thread = self.run.running_thread(question.at)?;
        self.run.step(question.at, thread, unit, calls, direction, &self.cancel)?;
        Ok(())
    }
}

pub fn latency(values: &[f64]) -> Result<Latency> {
    let none = "no question was asked";
    Ok(Latency {
        median_ms: median(values).context(none)?,
        percentile_95_ms: percentile(values, 95).context(none)?,
        worst_ms: percentile(values, 100).context(none)?,
    })
}

pub fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// With these medians, by kind.
    pub fn answers(medians: &[(&str, f64)]) -> Answers {
        let latency = |median_ms: f64| Latency {
            median_ms,
            percentile_95_ms: median_ms * 2.0,
            worst_ms: median_ms * 10.0,
        };
        let latencies = medians.iter().map(|&(kind, ms)| (kind.to_owned(), latency(ms))).collect();
        Answers { instructions: 8_230_000_000, questions: 100, first_answer_ms: 120.0, latencies }
    }

    #[test]
    fn figures_survive_the_way_between_processes() {
        let answers = answers(&[("registers", 1.5)]);
        let printed = serde_json::to_vec(&answers).expect("serialises");
        assert_eq!(parse(&printed), Ok(answers));
        assert!(parse(b"").is_err());
    }
}
