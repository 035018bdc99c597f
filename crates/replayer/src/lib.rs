//! Replaying a recording: any stretch of it, alone, exactly, in processes of their own.
//!
//! The problem: answer "what was it like at this time?" and "when did that happen?" about a run that is over. The
//! recording has everything that came from outside; the rest has to be executed again, and what is executed
//! there may be hostile.
//!
//! The strategy: a [`Session`] is one replay process, an engine in a sandbox, that runs forward through one
//! [`Interval`] and answers questions about registers and memory. Everything else is built from sessions:
//!
//! ```text
//! Replayer ──► log file of an interval (shared by its sessions)
//!    │              │
//!    ├─ session ────┴──► Session ── run_to, step, registers, read, fork, stream, run_until
//!    ├─ session_from(start) ──► one that starts in the middle, memory comes page by page
//!    ├─ summary_session ──► one that tells what windows wrote and executed
//!    └─ verify ────────► Replayed
//! ```
//!
//! *Time* is the number of retired instructions of a log's process. At time `t` everything that the log has up to `t`
//! has happened, and instruction number `t` is the next. An instruction's effects are therefore seen from one later
//! than its own number on.
//!
//! Invariants:
//! 1. A replay needs nothing but the recording; whatever happens to its process is an [`Error`] and nothing worse.
//! 2. A session never goes beyond the end of its interval, and never begins when a part of its log is missing.
//! 3. What a replay process says is not trusted: lengths are checked before anything is allocated or read, and no
//!    process is killed that is not a copy made for us.
//! 4. No process outlives its session, nor this process; none makes another one, runs on unasked, or takes all memory.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod claims;
mod condition;
mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod hearsay;
mod intervals;
mod link;
mod log_file;
mod process;
mod processor;
mod read_ahead;
mod recent;
mod session;
mod start;
mod stream;
mod summary;
mod verify;
mod warden;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use retro_abi::log::Kind;
use retro_recording::Recording;

use log_file::{LogCode, LogFile};
use recent::Recent;
use session::Tracking;
use warden::Warden;

pub use condition::{Condition, Occurrence, Origin};
pub use error::{Divergence, Error};
pub use intervals::Interval;
pub use processor::Unfit;
pub use session::{Registers, Sample, Session, Stop, StopReason, ThreadInfo};
pub use start::{Memory, Piece, Snapshot, Start};
pub use stream::{Access, AccessKind, Accesses, Block, Detail, Ending, Item, KeptStream, Visitor};
pub use summary::{Summary, Transfer, WrittenPage};
pub use verify::{Replayed, Verdict, Verifier};

/// Bytes of a page of guest memory.
pub const PAGE_SIZE: usize = 4096;

/// Log files of intervals that are kept for the next session.
const KEPT_LOG_FILES: usize = 64;

/// A recording and an engine to replay it with. Clones share everything.
#[derive(Clone, Debug)]
pub struct Replayer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    recording: Arc<Recording>,
    engine: PathBuf,
    /// Looks after all processes.
    warden: Arc<Warden>,
    /// By log.
    intervals: Mutex<BTreeMap<u64, Arc<[Interval]>>>,
    log_files: Mutex<Recent<(u64, u64), Arc<LogFile>>>,
    /// By log: what its files have in common.
    code: Mutex<Recent<u64, Arc<LogCode>>>,
    /// Whether this processor can do it.
    processor: OnceLock<Result<(), Unfit>>,
    #[cfg(feature = "fuzzing")]
    script: Option<Arc<fuzzing::Script>>,
}

impl Replayer {
    /// For a recording, with the engine in the file `engine`, which must stay there.
    pub fn open(recording: impl Into<Arc<Recording>>, engine: PathBuf) -> Replayer {
        let recording = recording.into();
        let warden = Warden::new(&engine);
        let intervals = Mutex::default();
        let log_files = Mutex::new(Recent::new(KEPT_LOG_FILES));
        let code = Mutex::new(Recent::new(KEPT_LOG_FILES));
        Replayer {
            shared: Arc::new(Shared {
                recording,
                engine,
                warden,
                intervals,
                log_files,
                code,
                processor: OnceLock::new(),
                #[cfg(feature = "fuzzing")]
                script: None,
            }),
        }
    }

    #[cfg(feature = "fuzzing")]
    fn with_script(recording: Arc<Recording>, script: Arc<fuzzing::Script>) -> Replayer {
        let mut replayer = Replayer::open(recording, PathBuf::new());
        if let Some(shared) = Arc::get_mut(&mut replayer.shared) {
            shared.script = Some(script);
            // Whether this processor could execute it does not matter.
            let _ = shared.processor.set(Ok(()));
        }
        replayer
    }

    /// The recording, to be looked at or shared.
    pub fn recording(&self) -> &Arc<Recording> {
        &self.shared.recording
    }

    /// The intervals of a log, in order.
    pub fn intervals(&self, log: u64) -> Result<Vec<Interval>, Error> {
        self.known_intervals(log).map(|known| known.to_vec())
    }

    fn known_intervals(&self, log: u64) -> Result<Arc<[Interval]>, Error> {
        if let Some(known) = lock(&self.shared.intervals).get(&log) {
            return Ok(Arc::clone(known));
        }
        let found: Arc<[Interval]> = intervals::intervals(self.recording(), log)?.into();
        lock(&self.shared.intervals).insert(log, Arc::clone(&found));
        Ok(found)
    }

    /// The interval that a time lies in. Where one interval ends and the next begins, it is the next.
    pub fn interval_of(&self, log: u64, time: u64) -> Result<Interval, Error> {
        intervals::at_time(&self.known_intervals(log)?, log, time)
    }

    /// Whether recording stopped before the run ended, so that logs may end before their processes did.
    pub fn stops_early(&self) -> bool {
        intervals::stops_early(self.recording())
    }

    /// How many events the main stream of a log has, as its process has counted them; `None` if that is not known.
    pub fn counted_events(&self, log: u64) -> Option<u64> {
        let process = self.recording().process(log).filter(|process| !process.derived)?;
        let in_code = [Kind::Code, Kind::File, Kind::Inherit].map(|kind| kind as u32);
        let counts = process.summary.counts.events.iter();
        let in_main = counts.filter(|(kind, _)| !in_code.contains(kind));
        Some(in_main.fold(0, |sum, (_, count)| sum.saturating_add(count.events)))
    }

    /// Bytes that the process of a log has written and that the recording does not have: what was at its end replays
    /// as if it had never been.
    pub fn missing_bytes(&self, log: u64) -> u64 {
        claims::missing_bytes(self.recording(), log)
    }

    /// Starts a session at the beginning of an interval.
    pub fn session(&self, log: u64, interval: u64) -> Result<Session, Error> {
        Session::start(self, log, interval, Tracking::Off)
    }

    /// Starts a session for [`Session::summarise`] at the beginning of an interval, or where a summary was left.
    pub fn summary_session(
        &self,
        log: u64,
        interval: u64,
        start: Option<Start>,
    ) -> Result<Session, Error> {
        match start {
            Some(start) => Session::start_at(self, log, interval, start, Tracking::Marked),
            None => Session::start(self, log, interval, Tracking::Marked),
        }
    }

    /// Starts a session in the middle of an interval.
    pub fn session_from(&self, log: u64, interval: u64, start: Start) -> Result<Session, Error> {
        Session::start_at(self, log, interval, start, Tracking::Off)
    }

    fn engine(&self) -> &Path {
        &self.shared.engine
    }

    fn warden(&self) -> &Arc<Warden> {
        &self.shared.warden
    }

    fn code_of(&self, log: u64) -> Result<Arc<LogCode>, Error> {
        if let Some(known) = lock(&self.shared.code).get(&log) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(LogCode::of(self.recording(), log)?);
        let dropped = lock(&self.shared.code).insert(log, Arc::clone(&made));
        drop(dropped);
        Ok(made)
    }

    /// What a session replays. Refuses what this processor cannot execute.
    fn log_file(&self, log: u64, interval: u64) -> Result<Arc<LogFile>, Error> {
        self.shared.processor.get_or_init(|| processor::check(self.recording())).clone()?;
        let key = (log, interval);
        if let Some(known) = lock(&self.shared.log_files).get(&key) {
            return Ok(Arc::clone(known));
        }
        let all = self.known_intervals(log)?;
        let found = all.iter().find(|known| known.number == interval);
        let found = found.ok_or(Error::NoInterval { log, interval })?;
        // Made without the lock: it takes a while, and sessions of other intervals need not wait for it.
        let code = self.code_of(log)?;
        let make = || LogFile::make(self.recording(), log, *found, &code.bytes);
        let made = match make() {
            // Those that are kept for later can be made again.
            Err(Error::Memory(_)) => {
                let kept = std::mem::replace(
                    &mut *lock(&self.shared.log_files),
                    Recent::new(KEPT_LOG_FILES),
                );
                drop(kept);
                make()?
            }
            made => made?,
        };
        let made = Arc::new(made);
        let dropped = lock(&self.shared.log_files).insert(key, Arc::clone(&made));
        drop(dropped);
        Ok(made)
    }
}

/// Locks; a thread that panicked has left nothing half done behind the locks of this crate.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
