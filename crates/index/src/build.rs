//! Building volumes: an interval is replayed once, window by window, and everything it tells is stored.
//!
//! Two threads: one talks to the replay process, which marks and counts while it runs; the other stores what a window
//! has told while the next one runs. Several intervals are built at once if there are processors for it.
//!
//! Every so many windows all files are committed and the manifest is replaced. A build that was killed goes on from there: the
//! replay starts from the state that was stored last.

mod known;
mod reads;
mod replay;
mod rows;
mod window;
mod writers;

use std::fs::{File, TryLockError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use retro_recording::Directory;
use retro_replayer::{Interval, Replayer, Session};

use crate::manifest::Manifest;
use crate::{Error, Place, coverage, place};

use reads::store_reads;
use replay::summarise;
use rows::store_rows;
use writers::Writers;

/// Instructions of a window, if nobody says otherwise: what is streamed in a few milliseconds.
pub const DEFAULT_WINDOW: u64 = 2_000_000;

/// What to build.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Instructions of a window.
    pub window_size: u64,
    /// Whether to store which words are read, too.
    pub reads: bool,
    /// Intervals that are built at once.
    pub workers: usize,
}

impl Default for Options {
    fn default() -> Options {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        Options { window_size: DEFAULT_WINDOW, reads: false, workers }
    }
}

/// An interval that is to be indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its log.
    pub log: u64,
    /// The interval.
    pub interval: Interval,
}

/// What a builder is told by those who wait for it, and tells them. Shared by all threads.
pub trait Watch: Sync {
    /// So many more instructions are indexed.
    fn advanced(&self, instructions: u64);
    /// Whether to stop at the next window. What is done stays done.
    fn is_cancelled(&self) -> bool;
}

/// Nobody waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn advanced(&self, _: u64) {}
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// The intervals of a recording that lack an index. The last interval of a log is left out while it may still grow.
pub fn jobs(replayer: &Replayer, place: &Place, options: &Options) -> Result<Vec<Job>, Error> {
    let index = place.existing()?;
    let mut jobs = Vec::new();
    for job in coverage::closed_intervals(replayer) {
        if coverage::is_missing(index.as_ref(), &job, options.reads)? {
            jobs.push(job);
        }
    }
    Ok(jobs)
}

/// Builds all that is missing in the directory of an index. Intervals that cannot be replayed are reported in the end; the
/// others are built nevertheless.
pub fn build(
    replayer: &Replayer,
    index: &Directory,
    jobs: &[Job],
    options: &Options,
    watch: &impl Watch,
) -> Result<(), Error> {
    // The longest first: whoever comes to it last would be waited for by all others.
    let mut jobs = jobs.to_vec();
    jobs.sort_by_key(|job| std::cmp::Reverse(job.interval.end - job.interval.start));
    let queue = Mutex::new(jobs.iter());
    let failed = Mutex::new(None);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..options.workers.clamp(1, jobs.len().max(1)) {
            scope.spawn(|| {
                let mut kept = None;
                while !stop.load(Ordering::Relaxed) && !watch.is_cancelled() {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(job) = next else { break };
                    let built = build_volume(replayer, index, *job, options, watch, &mut kept);
                    if let Err(error) = built {
                        let is_replay = matches!(error, Error::Replay { .. });
                        if let Error::Replay { source, .. } = &error
                            && !watch.is_cancelled()
                        {
                            coverage::note_failure(index, job, source);
                        }
                        // Where nothing can be stored, nothing else can.
                        let is_own = is_replay || matches!(error, Error::Memory(_));
                        stop.fetch_or(!is_own, Ordering::Relaxed);
                        let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                        failed.get_or_insert(error);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    match failed {
        Some(error) => Err(error),
        None if watch.is_cancelled() => Err(Error::Cancelled),
        None => Ok(()),
    }
}

/// Builds or completes one volume. `kept` is a session of the volume before: code that it has translated need not be
/// translated again.
fn build_volume(
    replayer: &Replayer,
    index: &Directory,
    job: Job,
    options: &Options,
    watch: &impl Watch,
    kept: &mut Option<Session>,
) -> Result<(), Error> {
    let name = place::volume_name(job.log, job.interval.number);
    let directory = index
        .made_directory(&name)
        .map_err(|source| Error::io("create", &index.path_of(&name), source))?;
    let _lock = Lock::take(&directory)?;
    let Interval { start, end, .. } = job.interval;
    let manifest = coverage::manifest_of(&directory, &job.interval)?;
    let replay = |source| Error::replay(job.log, source);
    let mut manifest = match manifest {
        Some(manifest) if manifest.has_all_windows => manifest,
        manifest => {
            let window_size = options.window_size;
            let manifest = manifest.unwrap_or(Manifest::empty(start, end, window_size));
            let writers = Writers::open(&directory, manifest)?;
            summarise(replayer, job, writers, watch, kept)?
        }
    };
    if manifest.rows == 0 {
        (manifest.rows, manifest.row_kinds) = store_rows(replayer, job, &directory, &manifest)?;
    }
    if options.reads && manifest.reads == 0 {
        manifest.reads = store_reads(replayer, job, &directory, &manifest, watch, replay)?;
    }
    manifest.is_complete = true;
    coverage::forget_failure(&directory);
    manifest.store(&directory)
}

/// Only one build works on a volume.
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a process that is being started may have the file for a moment.
        let _ = self.0.unlock();
    }
}

impl Lock {
    fn take(directory: &Directory) -> Result<Lock, Error> {
        const NAME: &str = "lock";
        let failed = |action, source| Error::io(action, &directory.path_of(NAME), source);
        let file = directory.lock_file(NAME).map_err(|source| failed("create", source))?;
        match file.try_lock() {
            Ok(()) => Ok(Lock(file)),
            Err(TryLockError::WouldBlock) => Err(Error::Busy),
            Err(TryLockError::Error(source)) => Err(failed("lock", source)),
        }
    }
}
