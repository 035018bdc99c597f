//! How much of a recording is indexed.

use std::io;

use retro_recording::{Directory, State};
use retro_replayer::{Interval, Replayer};

use crate::build::Job;
use crate::failure::{Cause, NOTE_LIMIT};
use crate::frames::FrameFile;
use crate::manifest::Manifest;
use crate::{Error, Place, place, volume};

/// Where a volume tells why it cannot be built.
const FAILURE: &str = "failure";

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
    pub cause: Cause,
}

impl Coverage {
    /// Of a recording as far as it was when it was opened.
    pub fn of(replayer: &Replayer, place: &Place) -> Result<Coverage, Error> {
        let index = place.existing()?;
        let mut coverage = Coverage::default();
        for job in closed_intervals(replayer) {
            coverage.add(index.as_ref(), job)?;
        }
        Ok(coverage)
    }

    /// Whether there is nothing left to be done, but for what cannot be done.
    pub fn is_complete(&self) -> bool {
        self.complete + self.failures.len() as u64 == self.intervals
    }

    fn add(&mut self, index: Option<&Directory>, job: Job) -> Result<(), Error> {
        let Job { log, interval } = job;
        self.intervals += 1;
        self.instructions = self.instructions.saturating_add(interval.instructions());
        let Some(directory) = place::volume(index, log, interval.number)? else { return Ok(()) };
        self.bytes = self.bytes.saturating_add(volume::stored_bytes(&directory));
        if let Some(manifest) = manifest_of(&directory, &interval)? {
            let windows = u64::from(manifest.windows);
            self.windows += windows;
            if manifest.is_complete {
                self.complete += 1;
                self.indexed = self.indexed.saturating_add(interval.instructions());
                return Ok(());
            }
            let done = windows.saturating_mul(manifest.window_size);
            self.indexed = self.indexed.saturating_add(done.min(interval.instructions()));
        }
        if let Ok(note) = directory.read(FAILURE, NOTE_LIMIT)
            && let Some(cause) = Cause::from_note(&note)
        {
            self.failures.push(Failure { job, cause });
        }
        Ok(())
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
pub fn check(replayer: &Replayer, place: &Place) -> Result<(), Error> {
    let index = place.existing()?;
    for Job { log, interval } in closed_intervals(replayer) {
        let volume = place::volume(index.as_ref(), log, interval.number)?;
        let Some(directory) = volume else { continue };
        if let Some(manifest) = Manifest::load(&directory)?.filter(|manifest| manifest.is_complete)
        {
            for (name, committed) in manifest.files() {
                FrameFile::check_sums(&directory.named(name), committed)?;
            }
        }
    }
    Ok(())
}

/// The manifest of the volume of an interval, unless it is damaged or was made when the interval was shorter.
pub(crate) fn manifest_of(
    directory: &Directory,
    interval: &Interval,
) -> Result<Option<Manifest>, Error> {
    let manifest = match Manifest::load(directory) {
        Err(Error::Manifest(_)) => None,
        loaded => loaded?,
    };
    let is_usable =
        |manifest: &Manifest| (manifest.start, manifest.end) == (interval.start, interval.end);
    Ok(manifest.filter(is_usable))
}

/// Whether a volume lacks something that is wanted.
pub(crate) fn is_missing(index: Option<&Directory>, job: &Job, reads: bool) -> Result<bool, Error> {
    let directory = place::volume(index, job.log, job.interval.number)?;
    let Some(directory) = directory else { return Ok(true) };
    let manifest = manifest_of(&directory, &job.interval)?;
    let has_all = |found: Manifest| found.is_complete && (found.reads != 0 || !reads);
    Ok(!manifest.is_some_and(has_all))
}

/// Leaves a note that an interval cannot be replayed, for those who would try again otherwise.
pub(crate) fn note_failure(index: &Directory, job: &Job, error: &retro_replayer::Error) {
    let note = Cause::of(error).to_note();
    // Without the note it is tried again, which does no harm.
    let _: io::Result<()> = index
        .directory(place::volume_name(job.log, job.interval.number))
        .and_then(|volume| volume.replace(FAILURE, note.as_bytes(), false));
}

/// Takes the note back.
pub(crate) fn forget_failure(volume: &Directory) {
    let _ = volume.remove_file(FAILURE);
}
