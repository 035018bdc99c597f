//! `retro verify`: replays a recording and compares it with its log.
//!
//! Every interval of every process is replayed alone, from nothing but its part of the log, as many at once as there are
//! processors.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use retro_recording::{Recording, State};
use retro_replayer::{Interval, Replayed, Replayer, Verdict, Verifier};
use serde_json::json;

use crate::arguments::VerifyOptions;
use crate::engine_file::EngineFile;
use crate::message::notify;
use crate::output::Output;
use crate::{Completeness, place, quantity, quoting, selection};

/// An interval of a log.
struct Stretch {
    log: u64,
    interval: Interval,
}

/// What was found.
#[derive(Default)]
struct Found {
    /// Events applied, by log.
    events: BTreeMap<u64, u64>,
    windows: u64,
    instructions: u64,
    /// The first stretch, in the order of the recording, that is not what was recorded.
    worst: Option<(usize, Replayed)>,
    error: Option<retro_replayer::Error>,
}

/// Verifies a recording.
pub fn verify(options: &VerifyOptions) -> Result<Completeness> {
    let recording = selection::open(options.recording.as_deref())?;
    let engine = EngineFile::new(&[Path::new("."), recording.directory()])?;
    let replayer = Replayer::open(recording, engine.path().to_owned());
    let stretches = stretches(&replayer)?;
    let begun = Instant::now();
    let found = replay_all(&replayer, &stretches);
    let wall = begun.elapsed();
    if let Some(error) = found.error {
        return Err(error.into());
    }
    let stopped = replayer.recording().end().and_then(|end| end.stopped.clone());
    let mut problem = divergence(replayer.recording(), &stretches, &found);
    if stopped.is_none() {
        problem = problem
            .or_else(|| missing_events(&replayer, &found))
            .or_else(|| missing_bytes(&replayer));
    }
    let damage = replayer.recording().damage();
    let is_well = problem.is_none() && damage.is_none();
    report(options, replayer.recording(), &stretches, &found, wall, is_well)?;
    if let Some(problem) = problem {
        bail!(problem);
    }
    if let Some(damage) = damage {
        notify(&format!("the recording is damaged: {damage}; what is before that was replayed"));
        return Ok(Completeness::Partial);
    }
    if let Some(reason) = stopped {
        let reason = quoting::printable(reason.as_bytes());
        notify(&format!("recording stopped before the end: {reason}; what there is was replayed"));
    }
    match replayer.recording().state() {
        State::Finished => {}
        State::Running => notify("the recording still goes on; what there is was replayed"),
        State::Interrupted => {
            notify("the recording has no end: its recorder was killed; what there is was replayed");
        }
    }
    Ok(Completeness::Whole)
}

fn stretches(replayer: &Replayer) -> Result<Vec<Stretch>> {
    let mut all = Vec::new();
    for process in replayer.recording().processes() {
        let log = process.summary.log;
        let intervals = replayer.intervals(log)?;
        all.extend(intervals.into_iter().map(|interval| Stretch { log, interval }));
    }
    Ok(all)
}

fn replay_all(replayer: &Replayer, stretches: &[Stretch]) -> Found {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Found::default());
    let progress = progress_bar(stretches);
    let workers = thread::available_parallelism().map_or(1, usize::from).min(stretches.len());
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let mut verifier = Verifier::new(replayer.clone());
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(stretch) = stretches.get(index) else { return };
                    let Stretch { log, interval } = stretch;
                    let told = |instructions| progress.inc(instructions);
                    let done = verifier.verify(*log, interval.number, told);
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    match done {
                        Ok(done) => found.add(index, stretch, done),
                        Err(error) => found.error = Some(error),
                    }
                    if found.error.is_some() {
                        return;
                    }
                }
            });
        }
    });
    progress.finish_and_clear();
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn progress_bar(stretches: &[Stretch]) -> ProgressBar {
    let all = stretches.iter().map(|stretch| stretch.interval.instructions());
    let total = all.fold(0, u64::saturating_add);
    let progress = ProgressBar::new(total).with_message("replaying");
    let template = "{msg} {wide_bar} {human_pos}/{human_len} instructions {eta}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        progress.set_style(style);
    }
    progress
}

impl Found {
    fn add(&mut self, index: usize, Stretch { log, interval }: &Stretch, done: Replayed) {
        *self.events.entry(*log).or_default() += done.events;
        self.windows += done.windows;
        self.instructions += done.time.saturating_sub(interval.start);
        let first = self.worst.as_ref().is_none_or(|(worst, _)| index < *worst);
        if done.verdict != Verdict::Same && first {
            self.worst = Some((index, done));
        }
    }
}

fn report(
    options: &VerifyOptions,
    recording: &Arc<Recording>,
    stretches: &[Stretch],
    found: &Found,
    wall: Duration,
    is_well: bool,
) -> Result<()> {
    let speed = found.instructions as f64 / wall.as_secs_f64().max(1e-9);
    let events = found.events.values().sum();
    let mut output = Output::new();
    if options.json {
        let divergence = found.worst.as_ref().map(|(index, done)| {
            json!({
                "log": stretches[*index].log,
                "interval": stretches[*index].interval.number,
                "time": done.time,
                "thread": done.thread,
                "pc": done.pc,
                "place": place::describe(recording, stretches[*index].log, done.time, done.pc),
                "why": why(&done.verdict),
            })
        });
        let line = json!({
            "ok": is_well,
            "instructions": found.instructions,
            "intervals": stretches.len(),
            "windows": found.windows,
            "processes": recording.processes().len(),
            "events": events,
            "seconds": wall.as_secs_f64(),
            "instructions_per_second": speed as u64,
            "divergence": divergence,
        });
        output.line(&line.to_string())?;
    } else {
        output.line(&format!(
            "{} instructions, {} in {} of {}, {} events in {:.1} s ({} instructions/s)",
            quantity::scaled(found.instructions),
            quantity::counted(found.windows, "window", "windows"),
            quantity::counted(stretches.len() as u64, "interval", "intervals"),
            quantity::counted(recording.processes().len() as u64, "process", "processes"),
            quantity::scaled(events),
            wall.as_secs_f64(),
            quantity::scaled(speed as u64),
        ))?;
    }
    if is_well && !options.json {
        output.line("OK")?;
    }
    Ok(output.flush()?)
}

/// The first divergence, in words.
fn divergence(recording: &Arc<Recording>, stretches: &[Stretch], found: &Found) -> Option<String> {
    let (index, done) = found.worst.as_ref()?;
    let Stretch { log, interval } = &stretches[*index];
    Some(format!(
        "the replay of log {log}, interval {} is not what was recorded: at {}: {}",
        interval.number,
        describe_place(recording, *log, done),
        why(&done.verdict)
    ))
}

/// A log that lacks chunks at its end replays without a divergence; but its process has counted what it wrote.
fn missing_events(replayer: &Replayer, found: &Found) -> Option<String> {
    found.events.iter().find_map(|(&log, &events)| {
        let counted = replayer.counted_events(log)?;
        // The last event of a killed process may have been counted and not written.
        let is_missing = counted > events + 1;
        is_missing.then(|| {
            format!(
                "log {log} lacks {} of {counted} events: a part of it is missing",
                counted - events
            )
        })
    })
}

/// A process may have written what is not there any more, up to all of it.
fn missing_bytes(replayer: &Replayer) -> Option<String> {
    replayer.recording().processes().iter().find_map(|process| {
        let log = process.summary.log;
        let bytes = replayer.missing_bytes(log);
        (bytes > 0).then(|| format!("log {log} lacks {bytes} bytes: a part of it is missing"))
    })
}

/// Where a replay has stopped, in words.
fn describe_place(recording: &Arc<Recording>, log: u64, done: &Replayed) -> String {
    let pc = place::describe(recording, log, done.time, done.pc);
    format!("time {}, thread {}, pc {pc}", done.time, done.thread)
}

fn why(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Same => "",
        Verdict::Diverged(why) => why,
        Verdict::Crashed(why) => why,
    }
}
