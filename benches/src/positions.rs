//! Going to random times of a recording: the work of the mode `position`.
//!
//! The interval in the middle of the longest process is cut into windows of a pool's usual size. Then the same random
//! times are visited twice, and the registers read there:
//!
//! - *cold*: a new replay process begins at the window of the time and runs to it;
//! - *warm*: a [`Pool`] finds the nearest process that it has kept and copies that, or does as above.
//!
//! Invariants:
//! 1. Both ways must give the same registers at the time asked for, or there are no figures.
//! 2. A visit is timed until its registers are there; ending its process is not part of it, since nobody waits for that.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use retro_recording::Recording;
use retro_replayer::{Interval, Pool, Registers, Replayer, Session};
use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::random::Random;
use crate::statistics::{median, percentile};

/// The times of all programs come from here.
const SEED: u64 = 0x7157;

/// The outcome for a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Positioning {
    /// Of the interval.
    pub instructions: u64,
    pub windows: usize,
    /// How many times were visited.
    pub times: u32,
    pub cold: Latency,
    pub warm: Latency,
    /// Of the interval, plainly.
    pub replay_ms: f64,
    /// Of the interval, with all that a later start in its middle needs.
    pub cut_ms: f64,
    /// What the versions of pages take.
    pub stored_bytes: u64,
}

/// How long visits take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub median_ms: f64,
    pub percentile_95_ms: f64,
}

impl Positioning {
    /// Cutting as a multiple of replaying.
    pub fn cut_ratio(&self) -> f64 {
        self.cut_ms / self.replay_ms
    }

    pub fn stored_bytes_per_instruction(&self) -> f64 {
        self.stored_bytes as f64 / self.instructions as f64
    }
}

/// Reads what [`measure`] has found in another process.
pub fn parse(printed: &[u8]) -> Result<Positioning, String> {
    serde_json::from_slice(printed).map_err(|error| format!("prints no figures: {error}"))
}

/// Visits `times` random times of the recording.
pub fn measure(recording: &Path, times: u32) -> Result<Positioning> {
    let engine = Engine::create()?;
    let replayer = Replayer::open(Recording::open(recording)?, engine.path());
    let (log, interval) = middle(&replayer)?;
    // Reads the log of the interval, which all later sessions share.
    drop(replayer.session(log, interval.number)?);

    let start = Instant::now();
    replayer.session(log, interval.number)?.run_to(u64::MAX)?;
    let replay_ms = milliseconds(start);
    let pool = Pool::new(replayer);
    let start = Instant::now();
    let windows = pool.windows(log, interval)?;
    let cut_ms = milliseconds(start);

    let mut random = Random::new(SEED);
    let offsets = (0..times).map(|_| random.below(interval.instructions() as usize) as u64);
    let times: Vec<u64> = offsets.map(|offset| interval.start + offset).collect();
    let mut cold = Vec::new();
    for &time in &times {
        cold.push(visit(time, || {
            let mut session = windows.session_at(windows.window_of(time))?;
            session.run_to(time)?;
            Ok(session)
        })?);
    }
    let mut warm = Vec::new();
    for (&time, cold) in times.iter().zip(&cold) {
        let visit = visit(time, || Ok(pool.at(log, time)?))?;
        if visit.registers != cold.registers {
            bail!("at time {time} a new process and a copied one have different registers");
        }
        warm.push(visit);
    }
    Ok(Positioning {
        instructions: interval.instructions(),
        windows: windows.count(),
        times: times.len() as u32,
        cold: latency(&cold)?,
        warm: latency(&warm)?,
        replay_ms,
        cut_ms,
        stored_bytes: windows.stored_bytes(),
    })
}

/// The interval in the middle of the process with most instructions. The last interval is the last choice, because it
/// may be short.
fn middle(replayer: &Replayer) -> Result<(u64, Interval)> {
    let processes = replayer.recording().processes().iter();
    let longest = processes.max_by_key(|process| process.summary.time);
    let log = longest.context("the recording has no process")?.summary.log;
    let intervals = replayer.intervals(log)?;
    let middle = intervals.get(intervals.len().saturating_sub(1) / 2);
    let interval = middle.filter(|interval| interval.instructions() > 0);
    Ok((log, *interval.context("the interval in the middle has no instructions")?))
}

struct Visit {
    milliseconds: f64,
    registers: Registers,
}

fn visit(time: u64, go: impl FnOnce() -> Result<Session>) -> Result<Visit> {
    let start = Instant::now();
    let mut session = go()?;
    let registers = session.registers(None)?;
    let milliseconds = milliseconds(start);
    if session.time() != time {
        bail!("asked for time {time}, the session is at {}", session.time());
    }
    Ok(Visit { milliseconds, registers })
}

fn latency(visits: &[Visit]) -> Result<Latency> {
    let values: Vec<f64> = visits.iter().map(|visit| visit.milliseconds).collect();
    let none = "no time was visited";
    Ok(Latency {
        median_ms: median(&values).context(none)?,
        percentile_95_ms: percentile(&values, 95).context(none)?,
    })
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// With these medians.
    pub fn positioning(cold: f64, warm: f64) -> Positioning {
        let latency = |median_ms| Latency { median_ms, percentile_95_ms: median_ms * 2.0 };
        Positioning {
            instructions: 128_000_000,
            windows: 32,
            times: 100,
            cold: latency(cold),
            warm: latency(warm),
            replay_ms: 40.0,
            cut_ms: 60.0,
            stored_bytes: 3_200_000,
        }
    }

    #[test]
    fn figures_survive_the_way_between_processes() {
        let positioning = positioning(12.5, 3.25);
        let printed = serde_json::to_vec(&positioning).expect("serialises");
        assert_eq!(parse(&printed), Ok(positioning));
        assert!(parse(b"").is_err());
    }

    #[test]
    fn costs_are_relative_to_the_interval() {
        let positioning = positioning(12.5, 3.25);
        assert_eq!(positioning.cut_ratio(), 1.5);
        assert_eq!(positioning.stored_bytes_per_instruction(), 0.025);
    }
}
