//! `retro index`: everything that makes questions about a recording fast, built by replaying it once.
//!
//! Strategy: whoever needs an index completes it. One process builds at a time ([`Claim`]); others wait for it and take over
//! when it ends before it is done. So it makes no difference whether the index was built behind the recorder
//! ([`following`]), by the command, or for the first question ([`ensure`]), nor what was killed meanwhile.
//!
//! Invariants: nothing but the directory of the index is written, which lies in the store if the recording is somebody
//! else's. An interval that cannot be replayed is noted and left out;
//! only `retro index` tries it again.

mod building;
pub(crate) mod facts;
mod following;
mod interrupt;
pub(crate) mod wording;

use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use retro_index::Place;
use retro_index::build::{self, Job, Options};
use retro_index::claim::{self, Claim};
use retro_index::coverage::{self, Coverage};
use retro_recording::{LOG_NAME, Recording, State};
use retro_replayer::Replayer;

use crate::arguments::IndexOptions;
use crate::engine_file::EngineFile;
use crate::message::{complain, notify};
use crate::output::Output;
use crate::{Completeness, quoting, selection};
use building::Building;
use facts::IndexFacts;
use interrupt::Noting;

/// How often a process that waits for another one looks how far it is.
const GLANCE: Duration = Duration::from_millis(200);

/// Failures that are told one by one.
const TOLD_FAILURES: usize = 5;

/// Builds, completes or describes the index of a recording.
pub fn index(options: &IndexOptions) -> Result<Completeness> {
    let path = selection::find(options.recording.as_deref())?;
    let begun = Instant::now();
    if options.follow && !following::follow(&path, options)? {
        return Ok(Completeness::Whole);
    }
    let engine = EngineFile::new(&[Path::new("."), &path])?;
    let replayer = Replayer::open(Recording::open(&path)?, engine.path().to_owned());
    if !options.status && !options.follow {
        let place = place_of(&replayer)?;
        if options.rebuild {
            claim::discard(&place).map_err(explain)?;
        }
        coverage::check(&replayer, &place).map_err(explain)?;
        complete(&replayer, &options.build_options(), Effort::All, "indexing")?;
    }
    let seconds = (!options.status).then(|| begun.elapsed().as_secs_f64());
    report(&replayer, options, seconds)
}

/// Makes sure that everything of the recording that is closed is indexed: returns at once if it is, waits for an
/// indexer that is at work, or builds it now with a progress bar. Intervals that cannot be replayed are left out with a
/// note on stderr.
pub fn ensure(replayer: &Replayer) -> Result<()> {
    if !coverage_of(replayer)?.is_complete() {
        let message = "indexing once; later questions are answered at once";
        complete(replayer, &Options::default(), Effort::Untried, message)?;
    }
    tell_failures(&coverage_of(replayer)?);
    Ok(())
}

fn place_of(replayer: &Replayer) -> Result<Place> {
    Place::of(replayer.recording()).map_err(explain)
}

fn coverage_of(replayer: &Replayer) -> Result<Coverage> {
    Coverage::of(replayer, &place_of(replayer)?).map_err(explain)
}

/// The same, but does not wait for an indexer that is at work if it has got somewhere: says how far, and returns.
pub fn ensure_some(replayer: &Replayer, is_enough: impl Fn() -> bool) -> Result<()> {
    let place = place_of(replayer)?;
    let coverage = coverage_of(replayer)?;
    if !coverage.is_complete() && is_enough() && Claim::take(&place).map_err(explain)?.is_none() {
        let Coverage { complete, intervals, .. } = coverage;
        notify(&format!(
            "another process is indexing this recording: {complete} of {intervals} intervals can be looked at by now, the \
             others as soon as they are done"
        ));
        return Ok(());
    }
    ensure(replayer)
}

const ADVICE_ON_SPACE: &str =
    "what is done is kept: free some space, and `retro index` goes on from there";

/// What to say when an index cannot be built or used.
pub fn explain(error: retro_index::Error) -> anyhow::Error {
    if error.is_damage() {
        return anyhow!(
            "{error} (`retro index --rebuild` does that; the recording itself is untouched)"
        );
    }
    if let retro_index::Error::Recording(retro_recording::Error::NoRoom { .. }) = error {
        return anyhow!("{error}; {ADVICE_ON_SPACE}");
    }
    let advice = match system_error(&error).map(io::Error::kind) {
        Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => ADVICE_ON_SPACE,
        Some(io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) => {
            "the index lies beside the log, or in the store if the recording is somebody else's: set RETRO_DIR to where you \
             can write"
        }
        _ => return error.into(),
    };
    anyhow!("{error}; {advice}")
}

/// What the system said, if it refused something.
fn system_error(error: &retro_index::Error) -> Option<&io::Error> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

/// Which intervals are worth replaying.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effort {
    /// All that are missing.
    All,
    /// Those that did not fail before.
    Untried,
}

/// The intervals that lack an index.
fn missing(replayer: &Replayer, options: &Options, effort: Effort) -> Result<Vec<Job>> {
    let mut jobs = build::jobs(replayer, &place_of(replayer)?, options).map_err(explain)?;
    if effort == Effort::Untried && !jobs.is_empty() {
        let failures = coverage_of(replayer)?.failures;
        jobs.retain(|job| !failures.iter().any(|failure| failure.job == *job));
    }
    Ok(jobs)
}

/// Builds what is missing, or waits for whoever does.
fn complete(
    replayer: &Replayer,
    options: &Options,
    effort: Effort,
    message: &'static str,
) -> Result<()> {
    let _noting = Noting::start();
    let place = place_of(replayer)?;
    let mut waiting: Option<Building> = None;
    loop {
        let jobs = missing(replayer, options, effort)?;
        if jobs.is_empty() {
            return Ok(());
        }
        if let Some(claim) = Claim::take(&place).map_err(explain)? {
            drop(waiting.take());
            return build(replayer, &claim, &jobs, options, message);
        }
        let coverage = coverage_of(replayer)?;
        let building = waiting.get_or_insert_with(|| {
            // A question is only answered later; that needs no words but those of the progress bar.
            if effort == Effort::All {
                notify("another process is indexing this recording: waiting for it");
            }
            Building::start(message, coverage.instructions)
        });
        building.is_at(coverage.indexed);
        thread::sleep(GLANCE);
        if interrupt::is_asked() {
            drop(waiting.take());
            interrupt::end();
        }
    }
}

/// Builds. Intervals that cannot be replayed are noted and no error. Ends this process if the user asks for it.
fn build(
    replayer: &Replayer,
    claim: &Claim,
    jobs: &[Job],
    options: &Options,
    message: &'static str,
) -> Result<()> {
    // What another process has just completed counts as well.
    let instructions = jobs.iter().map(|job| job.interval.instructions());
    let building = Building::start(message, instructions.fold(0, u64::saturating_add));
    let built = build::build(replayer, claim.index(), jobs, options, &building.watch(claim));
    drop(building);
    if interrupt::is_asked() {
        notify("stopped; what is done is kept, and `retro index` goes on from there");
        interrupt::end();
    }
    if !claim.is_valid() {
        bail!("{}", Gone::of(replayer));
    }
    match built {
        Ok(()) | Err(retro_index::Error::Replay { .. }) => Ok(()),
        Err(error) => Err(explain(error)),
    }
}

/// What went away while it was indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Gone {
    #[error("the recording was removed while it was indexed")]
    Recording,
    #[error(
        "the index was thrown away by another process while it was built: `retro index` builds it"
    )]
    Index,
}

impl Gone {
    fn of(replayer: &Replayer) -> Gone {
        /// Who removes a recording takes the index first and the log last.
        const REMOVAL: Duration = Duration::from_secs(1);
        let start = Instant::now();
        while replayer.recording().root().has(LOG_NAME) {
            if start.elapsed() > REMOVAL {
                return Gone::Index;
            }
            thread::sleep(GLANCE);
        }
        Gone::Recording
    }
}

fn report(
    replayer: &Replayer,
    options: &IndexOptions,
    seconds: Option<f64>,
) -> Result<Completeness> {
    let recording = replayer.recording();
    let directory = recording.directory();
    let coverage = coverage_of(replayer)?;
    let facts = IndexFacts::of(&coverage, &place_of(replayer)?);
    let mut output = Output::new();
    if options.json {
        let mut object = serde_json::to_value(&facts)?;
        object["name"] = selection::name_of(directory).into();
        object["state"] = crate::wording::state(recording.state()).into();
        object["seconds"] = seconds.into();
        output.line(&object.to_string())?;
    } else {
        let name = quoting::shell_word(selection::name_of(directory).as_bytes());
        output.line(&format!("{name}: {}", wording::summary(&facts, seconds)))?;
    }
    output.flush()?;
    tell_failures(&coverage);
    if recording.state() == State::Running && !options.json {
        notify("the recording still goes on; only what will not change any more can be indexed");
    }
    Ok(if facts.complete { Completeness::Whole } else { Completeness::Partial })
}

fn tell_failures(coverage: &Coverage) {
    for failure in coverage.failures.iter().take(TOLD_FAILURES) {
        complain(&wording::failure(failure));
    }
    if let Some(more @ 1..) = coverage.failures.len().checked_sub(TOLD_FAILURES) {
        complain(&format!("and {more} more intervals are not indexed: `retro verify` tells why"));
    }
    if !coverage.failures.is_empty() {
        let (done, all) = (coverage.complete, coverage.intervals);
        notify(&format!("{done} of {all} intervals are indexed and can be asked about"));
    }
}
