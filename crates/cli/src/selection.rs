//! Which recording a command is about: a path, a name in the store, or the latest.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, io};

use anyhow::{Result, bail};
use retro_recording::{Error, FILES_NAME, INDEX_NAME, LOG_NAME, Recording, Store};

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
    let length = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
    let copies =
        copies_of(directory).map_or(0, |copies| copies.iter().map(|path| length(path)).sum());
    length(&directory.join(LOG_NAME)).saturating_add(copies)
}

/// Bytes that the index of a recording takes.
pub fn index_size_of(directory: &Path) -> u64 {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let volumes = entries(&directory.join(INDEX_NAME)).map(|volume| volume.path());
    let files = volumes.flat_map(|volume| entries(&volume).collect::<Vec<_>>());
    files.filter_map(|file| Some(file.metadata().ok()?.len())).fold(0, u64::saturating_add)
}

/// The files beside the log.
pub fn copies_of(directory: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(directory.join(FILES_NAME))?.map(|entry| Ok(entry?.path())).collect()
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
    path.join(LOG_NAME).is_file()
}
