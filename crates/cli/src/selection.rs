//! Which recording a command is about: a path, a name in the store, or the latest.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use anyhow::{Result, bail};
use retro_index::Place;
use retro_recording::{Directory, Error, FILES_NAME, LOG_NAME, Recording, Store};

/// Finds a recording.
pub fn find(argument: Option<&OsStr>) -> Result<PathBuf> {
    let store = match (Store::from_environment(), argument) {
        (Ok(store), _) => store,
        // A path needs no store.
        (Err(Error::NoStore), Some(path)) if is_recording(Path::new(path)) => {
            return Ok(path.into());
        }
        (Err(error), _) => return Err(error.into()),
    };
    let Some(argument) = argument else {
        return Ok(store.resolve(None)?);
    };
    match argument.to_str() {
        Some(name) => Ok(store.resolve(Some(name))?),
        // Names in the store are plain text; paths need not be.
        None if is_recording(Path::new(argument)) => Ok(argument.into()),
        None => bail!("no recording {argument:?}: `retro ls` lists what there is"),
    }
}

/// Finds and opens a recording.
pub fn open(argument: Option<&OsStr>) -> Result<Recording> {
    Ok(Recording::open(&find(argument)?)?)
}

/// What a recording is called: its name in the store, or its path elsewhere.
pub fn name_of(directory: &Path) -> String {
    let in_store = Store::from_environment().ok().and_then(|store| {
        let root = fs::canonicalize(store.root()).ok()?;
        let directory = fs::canonicalize(directory).ok()?;
        (directory.parent() == Some(&root))
            .then(|| directory.file_name().map(OsStr::to_os_string))?
    });
    let name = in_store.unwrap_or_else(|| directory.into());
    name.to_string_lossy().into_owned()
}

/// A name for a file or a recording that is made from the one in `directory`.
pub fn file_name_of(directory: &Path) -> Option<String> {
    let named = |path: &Path| Some(path.file_name()?.to_string_lossy().into_owned());
    // `.` and `..` have names, too.
    named(directory).or_else(|| named(&fs::canonicalize(directory).ok()?))
}

/// Bytes that a recording takes: the log, and copies of files if it was unpacked. The index can be made again, and does
/// not count.
pub fn size_of(directory: &Path) -> u64 {
    let Ok(directory) = Directory::open(directory) else { return 0 };
    let log = directory.status(LOG_NAME).map_or(0, |status| status.length);
    log.saturating_add(directory.directory(FILES_NAME).map_or(0, |files| bytes_in(&files)))
}

/// Bytes that the index of a recording takes.
pub fn index_size_of(directory: &Path) -> u64 {
    let index = Directory::open(directory).ok().and_then(|found| Place::beside(&found).ok());
    let Some(index) = index.and_then(|place| place.existing().ok().flatten()) else { return 0 };
    let volumes = index.names().unwrap_or_default().into_iter();
    let volumes = volumes.filter_map(|name| index.directory(name).ok());
    volumes.map(|volume| bytes_in(&volume)).fold(0, u64::saturating_add)
}

/// How many copies of files a recording has beside the log.
pub fn copies_of(directory: &Path) -> usize {
    let files = Directory::open(directory).and_then(|found| found.directory(FILES_NAME));
    let names = files.and_then(|files| files.names()).unwrap_or_default();
    // One of them is the list of the others.
    names.len().saturating_sub(1)
}

/// Bytes of all files in a directory.
fn bytes_in(directory: &Directory) -> u64 {
    let names = directory.names().unwrap_or_default().into_iter();
    let lengths = names.filter_map(|name| Some(directory.status(name).ok()?.length));
    lengths.fold(0, u64::saturating_add)
}

/// Instructions of all processes. Hostile counts saturate.
pub fn instructions_of(recording: &Recording) -> u64 {
    let times = recording.processes().iter().map(|process| process.summary.time);
    times.fold(0, u64::saturating_add)
}

/// How long the run took, if its end is known.
pub fn duration_of(recording: &Recording) -> Option<Duration> {
    recording.end().map(|end| Duration::from_nanos(end.wall_nanoseconds))
}

/// The directory that commands are started in; empty if it was removed meanwhile.
pub fn working_directory() -> PathBuf {
    env::current_dir().unwrap_or_default()
}

fn is_recording(path: &Path) -> bool {
    Directory::open(path).is_ok_and(|directory| directory.has(LOG_NAME))
}
