//! `retro record`: a program under the engine, with everything logged that a replay needs.
//!
//! Three processes: a child becomes the program, the recorder takes its log, and this one stands in for the
//! program (see [`supervise`]) until both are done. A fourth one indexes what is recorded, on its own ([`indexer`]). What happens to the recording never changes what the
//! caller sees of the program: output, exit status and signals are its own.
//!
//! Invariants:
//! - A program that could not be started leaves no recording and no trace in `latest`.
//! - `latest` points to the recording from its beginning, so that whatever is killed afterwards, the next
//!   command finds it.

mod indexer;
mod summary;

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs};

use anyhow::{Context, Result};
use nix::unistd::Pid;
use retro_abi::config::Policy;
use retro_recorder::{Ending, Fate, Session, Summary};
use retro_recording::{Directory, Head, LOG_NAME, Options, Store};

use crate::arguments::RecordOptions;
use crate::launch::Launch;
use crate::message::{CANNOT_EXECUTE, FAILED, NOT_FOUND, complain};
use crate::supervise::Finale;
use crate::{engine_file, resolve, selection, supervise};
use summary::Report;

/// Records the command. Returns only if it could not be started.
pub fn record(options: &RecordOptions) -> Result<()> {
    let [name, ..] = options.command.as_slice() else {
        unreachable!("the command line requires a command")
    };
    let path = resolve::resolve(name, env::var_os("PATH").as_deref())?;
    let launch = Launch::new(engine_file::open()?, path, &options.command, options.code_cache)?;
    let settings = Options {
        interval: options.interval.unwrap_or(0),
        chaos: options.chaos.map(|seed| seed.map_or_else(pick_seed, Ok)).transpose()?,
        follow: !options.no_follow,
    };
    let head = Head::new(options.command.clone(), selection::working_directory(), settings)
        .context("cannot describe the recording")?;
    let place = Place::choose(options, name)?;
    let recorder_options =
        retro_recorder::Options { directory: place.directory.clone(), head, level: options.level };
    let started = Instant::now();
    let mut details = None;
    let outcome = retro_recorder::record(&recorder_options, |session| {
        let latest = place.become_latest();
        let indexer =
            indexer::is_wanted(options.no_index).then(|| indexer::start(&place.directory));
        let finale = start(&launch, session).map_err(NotStarted)?;
        details = Some(Details { latest, indexer, finale, duration: started.elapsed() });
        Ok(finale.ending)
    });
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            place.leave();
            return Err(match error {
                retro_recorder::Error::Launch(NotStarted(error)) => error,
                other => other.into(),
            });
        }
    };
    let Some(Details { latest, indexer, finale, duration }) = details else {
        unreachable!("a program that ended was started")
    };
    if is_empty(&outcome.fate) {
        place.remove_recording();
        if !said_why(outcome.ending) {
            complain(
                "nothing was recorded: the program ran outside the engine, as set-uid programs do",
            );
        }
        supervise::end_as(outcome.ending)
    }
    if let Err(error) = latest {
        complain(&format!("`latest` does not point to the recording: {error}"));
    }
    let is_indexed = matches!(indexer, Some(Ok(())));
    if let Some(Err(error)) = indexer {
        complain(&format!("cannot index in the background: {error}; `retro index` does it later"));
    }
    let chaos = settings.chaos;
    let report = Report { name: place.name(), finale, duration, chaos, is_indexed };
    report.print(&outcome.fate, options.quiet);
    supervise::end_as(outcome.ending)
}

/// Why there is no program, in a form that the recorder can hand on.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}")]
struct NotStarted(anyhow::Error);

/// What is learnt while the program runs.
struct Details {
    latest: Result<(), retro_recording::Error>,
    /// None if it was not wanted.
    indexer: Option<io::Result<()>>,
    finale: Finale,
    duration: Duration,
}

fn start(launch: &Launch, session: &Session) -> Result<Finale> {
    let recorder = Pid::from_raw(session.recorder);
    let channel = session.channel;
    supervise::supervise(Some(recorder), |supervised| {
        launch.execute(Policy::Record, Some(channel), Some(supervised))
    })
}

/// A seed that is short enough to be typed again.
fn pick_seed() -> Result<u64> {
    let mut bytes = [0; 4];
    fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("cannot pick a seed: give one after --chaos")?;
    Ok(u32::from_ne_bytes(bytes).into())
}

/// Whether there is nothing in a recording that anybody could look at.
fn is_empty(fate: &Fate) -> bool {
    match fate {
        Fate::Finished(summary) => {
            *summary == Summary { file_bytes: summary.file_bytes, ..Summary::default() }
        }
        Fate::Continues { .. } | Fate::Lost { .. } => false,
    }
}

/// Whether the engine has said why it did not start the program.
fn said_why(ending: Ending) -> bool {
    matches!(ending, Ending::Exited(FAILED | CANNOT_EXECUTE | NOT_FOUND))
}

/// Where a recording goes.
struct Place {
    directory: PathBuf,
    /// The store that has `latest`; none if the user has no place for one and named a directory.
    store: Option<Store>,
    /// Whether the directory is made for this recording.
    is_new: bool,
    /// What was the latest before.
    previous: Option<PathBuf>,
}

impl Place {
    fn choose(options: &RecordOptions, program: &OsStr) -> Result<Place> {
        let store = Store::from_environment();
        let previous = store.as_ref().ok().and_then(|store| store.resolve(None).ok());
        if let Some(directory) = &options.output {
            let is_new = fs::symlink_metadata(directory).is_err();
            return Ok(Place { directory: directory.clone(), store: store.ok(), is_new, previous });
        }
        let store = store?;
        let name = options.name.clone().unwrap_or_else(|| program_name(program));
        let directory = store
            .create(&name)
            .context("no place for the recording; set RETRO_DIR, or name a directory with -o")?;
        Ok(Place { directory, store: Some(store), is_new: true, previous })
    }

    fn become_latest(&self) -> Result<(), retro_recording::Error> {
        self.store.as_ref().map_or(Ok(()), |store| store.mark_latest(&self.directory))
    }

    /// What it is called.
    fn name(&self) -> String {
        selection::name_of(&self.directory)
    }

    /// Removes the recording that was made here.
    fn remove_recording(&self) {
        let _ = Directory::open(&self.directory).and_then(|found| found.remove_file(LOG_NAME));
        self.leave();
    }

    /// Leaves everything as it was, if there is no recording here after all. A directory with anything in it
    /// stays: it was there before.
    fn leave(&self) {
        if self.is_new {
            let _ = fs::remove_dir(&self.directory);
        }
        let Some(store) = &self.store else { return };
        // Somebody else's recording may be the latest by now.
        if store.resolve(None).is_err()
            && let Some(previous) = &self.previous
        {
            let _ = store.mark_latest(previous);
        }
    }
}

fn program_name(program: &OsStr) -> String {
    let name = Path::new(program).file_name().unwrap_or(program);
    name.to_string_lossy().into_owned()
}
