//! `retro pack`, `retro unpack` and `retro import`: recordings that are sent to somebody, as one file or as a directory.
//!
//! What comes in is marked as received: from then on it is only read.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use retro_abi::channel::Stream;
use retro_abi::log::Event;
use retro_recording::pack::{self, LeftOut};
use retro_recording::{Recording, State, Store};

use crate::arguments::{ImportOptions, PackOptions, UnpackOptions};
use crate::message::{complain, notify};
use crate::output::{Output, OutputError};
use crate::{Completeness, quantity, quoting, selection};

/// What a pack's name ends in.
const EXTENSION: &str = ".retro";

/// A name that the store has another use for.
const LATEST: &str = "latest";

/// Files that are remembered while a recording is compared with its copies; more would only be in one that was
/// made to use up memory.
const FILES_LIMIT: usize = 1 << 16;

/// Packs a recording.
pub fn pack(options: &PackOptions) -> Result<Completeness> {
    let recording = selection::open(options.recording.as_deref())?;
    let target = match &options.output {
        Some(target) => target.clone(),
        None => default_target(&recording)?,
    };
    let progress = Progress::start("packing", Some(&target));
    let packed = pack::pack(&recording, &target);
    progress.finish();
    let report = packed.context(ADVICE_ON_TARGET)?;

    let mut output = Output::new();
    list(
        &mut output,
        report.packed.iter().map(|file| (file.path.as_path(), file.bytes, file.debug)),
    )?;
    output.flush()?;
    warn_of(&report.left_out);
    let mut completeness = Completeness::Whole;
    if let Some(damage) = recording.damage() {
        complain(&format!("the recording is damaged, and so is what was packed: {damage}"));
        completeness = Completeness::Partial;
    }
    let files = quantity::counted(report.packed.len() as u64, "file", "files");
    let state = match recording.state() {
        State::Running => ", as far as it was recorded by now",
        State::Finished | State::Interrupted => "",
    };
    notify(&format!(
        "packed {} into {}: the log and {files}, {}{state}",
        shown(selection::name_of(recording.directory())),
        shown(&target),
        quantity::bytes(report.bytes)
    ));
    Ok(completeness)
}

const ADVICE_ON_TARGET: &str = "cannot pack the recording (-o names another file)";

/// `NAME.retro` in the working directory.
fn default_target(recording: &Recording) -> Result<PathBuf> {
    let name = selection::file_name_of(recording.directory())
        .context("the recording has no name to call the pack by: use -o")?;
    Ok(PathBuf::from(format!("{name}{EXTENSION}")))
}

/// Unpacks a recording.
pub fn unpack(options: &UnpackOptions) -> Result<Completeness> {
    let take = |target: &Path| pack::unpack(&options.file, target);
    take_in(&options.file, options.output.as_deref(), ["unpacking", "unpacked"], take)
}

/// Copies a recording that somebody sent as a directory.
pub fn import(options: &ImportOptions) -> Result<Completeness> {
    let take = |target: &Path| retro_recording::import(&options.directory, target);
    take_in(&options.directory, options.output.as_deref(), ["importing", "imported"], take)
}

/// Takes in a recording of somebody else's, as `words` say.
fn take_in(
    source: &Path,
    output: Option<&Path>,
    words: [&'static str; 2],
    take: impl FnOnce(&Path) -> Result<(), retro_recording::Error>,
) -> Result<Completeness> {
    let store = Store::from_environment();
    let (target, store) = match output {
        Some(target) => (target.to_path_buf(), store.ok()),
        None => {
            let store = store?;
            (place_in(&store, source)?, Some(store))
        }
    };
    let progress = Progress::start(words[0], None);
    let taken = take(&target);
    progress.finish();
    taken?;

    let recording = Recording::open(&target)?;
    let (included, left_out) = compare_with_copies(&recording);
    let mut output = Output::new();
    let files = included.iter().map(|(path, &bytes)| (path.as_path(), bytes, false));
    list(&mut output, files)?;
    output.flush()?;
    warn_of(&left_out);
    let mut completeness = Completeness::Whole;
    if let Some(damage) = recording.damage() {
        complain(&format!("the recording in it is damaged: {damage}"));
        completeness = Completeness::Partial;
    }
    if let Some(store) = store
        && let Err(error) = store.mark_latest(&target)
    {
        complain(&format!("`latest` does not point to the recording: {error}"));
    }
    let copies = selection::copies_of(&target);
    notify(&format!(
        "{} {} ({} with {}); it is the latest recording now",
        words[1],
        shown(selection::name_of(&target)),
        quantity::bytes(selection::size_of(&target)),
        quantity::counted(copies as u64, "file", "files")
    ));
    Ok(completeness)
}

/// A directory that does not exist yet, with the name of the pack if it is free.
fn place_in(store: &Store, file: &Path) -> Result<PathBuf> {
    let name = selection::file_name_of(file).unwrap_or_default();
    let name = name.strip_suffix(EXTENSION).unwrap_or(&name);
    // This makes the store, and finds a name that works whatever the file is called.
    let numbered = store.create(name)?;
    fs::remove_dir(&numbered).with_context(|| format!("cannot replace {}", numbered.display()))?;
    let is_plain = numbered.file_name().is_some_and(|found| {
        found
            .to_str()
            .is_some_and(|found| found.strip_prefix(name).is_some_and(|rest| rest.starts_with('-')))
    });
    let plain = store.root().join(name);
    let is_free = fs::symlink_metadata(&plain).is_err();
    Ok(if is_plain && is_free && name != LATEST { plain } else { numbered })
}

/// The files that a recording mentions: those it has copies of, with their sizes, and those it has not.
fn compare_with_copies(recording: &Recording) -> (BTreeMap<PathBuf, u64>, Vec<LeftOut>) {
    let (mut included, mut missing) = (BTreeMap::new(), BTreeMap::new());
    for process in recording.processes() {
        // Damage was noticed when the pack was read, or is told by whoever reads the log.
        let _ = recording.for_each_event(process.summary.log, Stream::Code, |_, event| {
            let Event::File { path, build_id, size, .. } = *event else {
                return ControlFlow::Continue(());
            };
            let path = PathBuf::from(OsStr::from_bytes(path));
            if recording.file_for(&path, build_id).is_some() {
                included.insert(path, size);
            } else {
                missing.insert(path, ());
            }
            if included.len() + missing.len() < FILES_LIMIT {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
    }
    let reason = || "it was not sent along".to_string();
    let left_out = missing.into_keys().map(|path| LeftOut { path, reason: reason() }).collect();
    (included, left_out)
}

/// One line per file.
fn list<'a>(
    output: &mut Output,
    files: impl Iterator<Item = (&'a Path, u64, bool)>,
) -> Result<(), OutputError> {
    for (path, bytes, is_debug) in files {
        let kind = if is_debug { " (debug information)" } else { "" };
        let size = quantity::bytes(bytes);
        output.line(&format!(
            "{size:>8}  {}{kind}",
            quoting::printable(path.as_os_str().as_bytes())
        ))?;
    }
    Ok(())
}

fn warn_of(left_out: &[LeftOut]) {
    for LeftOut { path, reason } in left_out {
        let path = quoting::printable(path.as_os_str().as_bytes());
        complain(&format!("left out {path}: {}", quoting::printable(reason.as_bytes())));
    }
}

fn shown(path: impl AsRef<OsStr>) -> String {
    quoting::shell_word(path.as_ref().as_bytes())
}

/// A sign of life on a terminal, and nothing elsewhere.
struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// `growing` is a file whose size tells how far it is.
    fn start(what: &'static str, growing: Option<&Path>) -> Progress {
        if !io::stderr().is_terminal() {
            return Progress { bar: ProgressBar::hidden() };
        }
        let bar = ProgressBar::new_spinner().with_message(what);
        let growing = growing.map(Path::to_path_buf);
        let written = move |_: &indicatif::ProgressState, text: &mut dyn std::fmt::Write| {
            let size =
                growing.as_ref().and_then(|path| fs::metadata(path).ok()).map(|file| file.len());
            if let Some(size) = size {
                let _ = write!(text, "{}", quantity::bytes(size));
            }
        };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {written} ({elapsed})") {
            bar.set_style(style.with_key("written", written));
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        Progress { bar }
    }

    fn finish(self) {
        self.bar.finish_and_clear();
    }
}
