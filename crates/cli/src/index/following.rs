//! Indexing behind the recorder: `retro index --follow`.
//!
//! The recording is opened again and again, and what is closed by then is indexed, until it is finished. Nobody looks at this
//! process: whatever it cannot do is left to whoever asks the first question, who is told.
//!
//! Invariants: ends when the recording is finished and indexed, when it is removed, or when its index is thrown away; never
//! brings a directory back that was removed.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::sys::prctl;
use retro_index::build::{self, Options};
use retro_index::claim::Claim;
use retro_recording::{Directory, LOG_NAME, Recording, State};
use retro_replayer::Replayer;

use super::building::Building;
use super::interrupt::Noting;
use super::{Effort, explain, interrupt, missing, place_of};
use crate::arguments::IndexOptions;
use crate::engine_file::EngineFile;

/// How often to look.
const PERIOD: Duration = Duration::from_millis(500);

/// Opening a long recording takes a while: no more than this part of the time is spent on it.
const SHARE: u32 = 10;

/// Indexes a recording to its end, and tells whether it is still there then.
pub fn follow(directory: &Path, options: &IndexOptions) -> Result<bool> {
    // Tells it from the supervisor and the recorder in lists of processes.
    let _ = prctl::set_name(c"retro-indexer");
    let _noting = Noting::start();
    let engine = EngineFile::new(&[Path::new("."), directory])?;
    let mut claim = None;
    while !interrupt::is_asked() {
        let begun = Instant::now();
        let recording = match Recording::open(directory) {
            Ok(recording) => recording,
            Err(_) if is_removed(directory) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let is_running = recording.state() == State::Running;
        let opened = begun.elapsed();
        let replayer = Replayer::open(recording, engine.path().to_owned());
        match catch_up(&replayer, &mut claim, options, is_running) {
            Err(_) if is_removed(directory) => return Ok(false),
            Err(error) => return Err(error),
            Ok(Progress::UpToDate) if !is_running => return Ok(true),
            Ok(Progress::Ended) => return Ok(false),
            Ok(Progress::UpToDate | Progress::Behind) => {
                thread::sleep(PERIOD.max(SHARE * opened));
            }
        }
    }
    interrupt::end()
}

/// Where the index is after a round.
enum Progress {
    /// All that can be is indexed.
    UpToDate,
    /// Something is left: another process is at work, or this one should end.
    Behind,
    /// Nobody wants it any more.
    Ended,
}

fn catch_up(
    replayer: &Replayer,
    claim: &mut Option<Claim>,
    options: &IndexOptions,
    is_running: bool,
) -> Result<Progress> {
    let mut build_options = options.build_options();
    if is_running && options.jobs.is_none() {
        // The program that is recorded needs the processors.
        build_options = Options { workers: 1, ..build_options };
    }
    let jobs = missing(replayer, &build_options, Effort::Untried)?;
    if jobs.is_empty() {
        return Ok(Progress::UpToDate);
    }
    if claim.is_none() {
        *claim = Claim::take(&place_of(replayer)?).map_err(explain)?;
    }
    let Some(claim) = claim else { return Ok(Progress::Behind) };
    let instructions = jobs.iter().map(|job| job.interval.instructions());
    let building = Building::start("indexing", instructions.fold(0, u64::saturating_add));
    let watch = building.watch(claim);
    let built = build::build(replayer, claim.index(), &jobs, &build_options, &watch);
    if interrupt::is_asked() {
        return Ok(Progress::Behind);
    }
    if !claim.is_valid() {
        return Ok(Progress::Ended);
    }
    match built {
        Ok(()) | Err(retro_index::Error::Replay { .. }) => Ok(Progress::UpToDate),
        Err(error) => Err(explain(error)),
    }
}

fn is_removed(directory: &Path) -> bool {
    !Directory::open(directory).is_ok_and(|found| found.has(LOG_NAME))
}
