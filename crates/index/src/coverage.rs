//! How much of a recording is indexed.

use std::fs;
use std::path::Path;

use retro_recording::State;
use retro_replayer::{Interval, Replayer};

use crate::build::Job;
use crate::frames::FrameFile;
use crate::manifest::Manifest;
use crate::{Error, Volume, volume};

/// Where a volume tells why it cannot be built.
const FAILURE: &str = "failure";

/// More than any reason is long.
const REASON_LIMIT: usize = 4096;

/// What there is of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Intervals that are closed, so that they can be indexed.
    pub intervals: u64,
    /// Those that are indexed.
    pub complete: u64,
    /// Those that could not be replayed when it was tried.
    pub failures: Vec<Failure>,
    /// Instructions of all intervals.
    pub instructions: u64,
    /// Instructions of windows that are indexed.
    pub indexed: u64,
    /// These windows.
    pub windows: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

/// An interval that cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Where.
    pub job: Job,
    /// Why.
    pub reason: String,
}

impl Coverage {
    /// Of a recording as far as it was when it was opened.
    pub fn of(replayer: &Replayer, index: &Path) -> Coverage {
        let mut coverage = Coverage::default();
        for job in closed_intervals(replayer) {
            coverage.add(index, job);
        }
        coverage
    }

    /// Whether there is nothing left to be done, but for what cannot be done.
    pub fn is_complete(&self) -> bool {
        self.complete + self.failures.len() as u64 == self.intervals
    }

    fn add(&mut self, index: &Path, job: Job) {
        let Job { log, interval } = job;
        self.intervals += 1;
        self.instructions = self.instructions.saturating_add(interval.instructions());
        self.bytes += Volume::stored_bytes(index, log, interval.number);
        let directory = volume::directory(index, log, interval.number);
        if let Some(manifest) = manifest_of(&directory, &interval) {
            let windows = u64::from(manifest.windows);
            self.windows += windows;
            if manifest.is_complete {
                self.complete += 1;
                self.indexed = self.indexed.saturating_add(interval.instructions());
                return;
            }
            let done = windows.saturating_mul(manifest.window_size);
            self.indexed = self.indexed.saturating_add(done.min(interval.instructions()));
        }
        if let Ok(reason) = fs::read(directory.join(FAILURE)) {
            let reason = &reason[..reason.len().min(REASON_LIMIT)];
            let reason = String::from_utf8_lossy(reason).into_owned();
            self.failures.push(Failure { job, reason });
        }
    }
}

/// The intervals that will not grow any more: the last one of a process does while it runs.
pub fn closed_intervals(replayer: &Replayer) -> Vec<Job> {
    let recording = replayer.recording();
    let is_running = recording.state() == State::Running;
    let mut jobs = Vec::new();
    for process in recording.processes() {
        let log = process.summary.log;
        let Ok(mut intervals) = replayer.intervals(log) else { continue };
        // The recorder writes a summary when a process has ended.
        if is_running && process.derived {
            intervals.pop();
        }
        jobs.extend(intervals.into_iter().map(|interval| Job { log, interval }));
    }
    jobs
}

/// Reads all files of complete volumes and compares them with their checksums. An error tells the first damage.
pub fn check(replayer: &Replayer, index: &Path) -> Result<(), Error> {
    for Job { log, interval } in closed_intervals(replayer) {
        let directory = volume::directory(index, log, interval.number);
        if let Some(manifest) = Manifest::load(&directory)?.filter(|manifest| manifest.is_complete)
        {
            for (name, committed) in manifest.files() {
                FrameFile::check_sums(&directory.join(name), committed)?;
            }
        }
    }
    Ok(())
}

/// The manifest of the volume of an interval, unless it is damaged or was made when the interval was shorter.
fn manifest_of(directory: &Path, interval: &Interval) -> Option<Manifest> {
    let manifest = Manifest::load(directory).ok().flatten()?;
    let range = (manifest.start, manifest.end);
    Some(manifest).filter(|_| range == (interval.start, interval.end))
}

/// Whether a volume lacks something that is wanted.
pub(crate) fn is_missing(index: &Path, job: &Job, reads: bool) -> bool {
    let directory = volume::directory(index, job.log, job.interval.number);
    let manifest = manifest_of(&directory, &job.interval);
    !manifest.is_some_and(|manifest| manifest.is_complete && (manifest.reads != 0 || !reads))
}

/// Leaves a note that an interval cannot be replayed, for those who would try again otherwise.
pub(crate) fn note_failure(index: &Path, job: &Job, error: &Error) {
    let directory = volume::directory(index, job.log, job.interval.number);
    let reason = match error {
        Error::Replay { source, .. } => source.to_string(),
        other => other.to_string(),
    };
    // Without the note it is tried again, which does no harm.
    let _ = fs::write(directory.join(FAILURE), reason);
}

/// Takes the note back.
pub(crate) fn forget_failure(directory: &Path) {
    let _ = fs::remove_file(directory.join(FAILURE));
}
