//! `retro verify`: replays a recording and compares it with its log.
//!
//! Every interval of every process is replayed alone, in a process of its own, as many at once as there are
//! processors.

use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use retro_recording::{Recording, SegmentRef};
use retro_replayer::{Replayed, Verdict, intervals, replay};
use serde_json::json;

use crate::arguments::VerifyOptions;
use crate::message::notify;
use crate::output::Output;
use crate::{Completeness, engine_file, quantity, selection};

/// An interval of a log.
struct Stretch {
    log: u64,
    interval: u64,
    segments: Vec<SegmentRef>,
}

/// What was found.
#[derive(Default)]
struct Found {
    events: u64,
    /// The first stretch, in the order of the recording, that is not what was recorded.
    worst: Option<(usize, Replayed)>,
    error: Option<retro_replayer::Error>,
}

/// Verifies a recording.
pub fn verify(options: &VerifyOptions) -> Result<Completeness> {
    let recording = selection::open(options.recording.as_deref())?;
    let stretches = stretches(&recording);
    let file = engine_file::open()?;
    let engine = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let begun = Instant::now();
    let found = replay_all(&recording, &stretches, &engine);
    let wall = begun.elapsed();
    if let Some(error) = found.error {
        return Err(error.into());
    }
    let instructions: u64 = recording.processes().iter().map(|p| p.summary.time).sum();
    report(options, &recording, &stretches, found, instructions, wall)
}

fn stretches(recording: &Recording) -> Vec<Stretch> {
    let mut all = Vec::new();
    for process in recording.processes() {
        let log = process.summary.log;
        for (interval, segments) in intervals(recording, log) {
            all.push(Stretch { log, interval, segments });
        }
    }
    all
}

fn replay_all(recording: &Recording, stretches: &[Stretch], engine: &std::path::Path) -> Found {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Found::default());
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} intervals {eta}");
    let progress = ProgressBar::new(stretches.len() as u64).with_message("replaying");
    if let Ok(style) = style {
        progress.set_style(style);
    }
    let workers = thread::available_parallelism().map_or(1, usize::from).min(stretches.len());
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(stretch) = stretches.get(index) else { return };
                    let done = replay(recording, stretch.log, &stretch.segments, engine);
                    progress.inc(1);
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    match done {
                        Ok(done) => found.add(index, done),
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

impl Found {
    fn add(&mut self, index: usize, done: Replayed) {
        self.events += done.events;
        let first = self.worst.as_ref().is_none_or(|(worst, _)| index < *worst);
        if done.verdict != Verdict::Same && first {
            self.worst = Some((index, done));
        }
    }
}

fn report(
    options: &VerifyOptions,
    recording: &Recording,
    stretches: &[Stretch],
    found: Found,
    instructions: u64,
    wall: Duration,
) -> Result<Completeness> {
    let speed = instructions as f64 / wall.as_secs_f64().max(1e-9);
    let mut output = Output::new();
    if options.json {
        let divergence = found.worst.as_ref().map(|(index, done)| {
            json!({
                "log": stretches[*index].log,
                "interval": stretches[*index].interval,
                "time": done.time,
                "thread": done.thread,
                "pc": done.pc,
                "why": why(&done.verdict),
            })
        });
        let line = json!({
            "ok": found.worst.is_none(),
            "instructions": instructions,
            "intervals": stretches.len(),
            "processes": recording.processes().len(),
            "events": found.events,
            "seconds": wall.as_secs_f64(),
            "divergence": divergence,
        });
        output.line(&line.to_string())?;
    } else {
        output.line(&format!(
            "{} instructions, {} intervals of {} processes, {} events in {:.1} s ({} instructions/s)",
            quantity::scaled(instructions),
            stretches.len(),
            recording.processes().len(),
            quantity::scaled(found.events),
            wall.as_secs_f64(),
            quantity::scaled(speed as u64),
        ))?;
    }
    if found.worst.is_none() && !options.json {
        output.line("OK")?;
    }
    output.flush()?;
    if recording.damage().is_some() {
        notify("the recording is damaged; what is whole of it was replayed (see `retro info`)");
    }
    let Some((index, done)) = found.worst else {
        return Ok(Completeness::Whole);
    };
    let Stretch { log, interval, .. } = stretches[index];
    bail!(
        "the replay of log {log}, interval {interval} is not what was recorded: at time {}, thread {}, pc {:#x}: {}",
        done.time,
        done.thread,
        done.pc,
        why(&done.verdict)
    )
}

fn why(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Same => "",
        Verdict::Diverged(why) => why,
        Verdict::Crashed(why) => why,
    }
}
