//! Where recordings live when nobody says otherwise, and what they are called.
//!
//! The store is a directory with one directory `NAME-N` per recording and a symbolic link `latest`. There is no
//! other state: making a directory is what claims a name, and renaming a link over `latest` is what switches
//! it, so that any number of recorders can work at the same time.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use crate::header::FILE_MAGIC;
use crate::reader::{is_locked, open_log, read_head};
use crate::{Error, FILES_NAME, INDEX_NAME, LOG_NAME, NOTEBOOK_NAME};

/// Name of the link to the latest recording.
const LATEST: &str = "latest";

/// What an index is called while it is removed.
const REMOVED_INDEX: &str = "index-removed";

/// How often a directory is removed in which something appears meanwhile.
const REMOVALS: u32 = 10;

/// Longest part of a recording's name before its number.
const NAME_LIMIT: usize = 100;

/// A directory of recordings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    root: PathBuf,
}

/// A recording in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its directory.
    pub path: PathBuf,
    /// When it was begun, if its header can be read.
    pub created: Option<SystemTime>,
    /// Bytes of its log.
    pub log_bytes: u64,
    /// Whether `latest` points to it.
    pub latest: bool,
}

impl Store {
    /// The user's store: `$RETRO_DIR`, else `$XDG_DATA_HOME/retro`, else `~/.local/share/retro`.
    pub fn from_environment() -> Result<Store, Error> {
        Store::from_variables(|name| env::var_os(name))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Store, Error> {
        let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        // Relative values of XDG_DATA_HOME are to be ignored, says its specification.
        set("RETRO_DIR")
            .or_else(|| Some(set("XDG_DATA_HOME").filter(|path| path.is_absolute())?.join("retro")))
            .or_else(|| Some(set("HOME")?.join(".local/share/retro")))
            .map(Store::at)
            .ok_or(Error::NoStore)
    }

    /// A store at a given place.
    pub fn at(root: impl Into<PathBuf>) -> Store {
        Store { root: root.into() }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Makes the empty directory `NAME-N` with a number that is higher than any before, for
    /// [`Writer::create`](crate::Writer::create). Characters that are awkward in a shell become `_`.
    pub fn create(&self, name: &str) -> Result<PathBuf, Error> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.root)
            .map_err(Error::io("create", &self.root))?;
        let name = plain_name(name);
        let highest = self
            .names()?
            .iter()
            .filter_map(|known| known.strip_prefix(&name)?.strip_prefix('-')?.parse::<u64>().ok())
            .max();
        let mut number = highest.map_or(1, |highest| highest.saturating_add(1));
        loop {
            let path = self.root.join(format!("{name}-{number}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                // Another recorder was faster.
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < u64::MAX => {
                    number += 1;
                }
                result => {
                    result.map_err(Error::io("create", &path))?;
                    return Ok(path);
                }
            }
        }
    }

    /// Makes `latest` point to a recording, which may be outside of the store.
    pub fn mark_latest(&self, recording: &Path) -> Result<(), Error> {
        /// Tells the links apart that several threads are making.
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.root)
            .map_err(Error::io("create", &self.root))?;
        let target = match recording.strip_prefix(&self.root) {
            // Relative, so that the store can be moved.
            Ok(name) => name.to_path_buf(),
            Err(_) => fs::canonicalize(recording).map_err(Error::io("find", recording))?,
        };
        let link = self.root.join(LATEST);
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let new = self.root.join(format!(".{LATEST}-{}-{count}", std::process::id()));
        match fs::remove_file(&new) {
            // Left behind by a process of the same number that was killed right here.
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("replace", &new)(error)),
        }
        symlink(&target, &new).map_err(Error::io("create", &new))?;
        fs::rename(&new, &link).map_err(|error| {
            let _ = fs::remove_file(&new);
            Error::io("replace", &link)(error)
        })
    }

    /// Finds a recording by its path or by its name in the store; without either, the latest.
    pub fn resolve(&self, name: Option<&str>) -> Result<PathBuf, Error> {
        let Some(name) = name else {
            let latest = fs::canonicalize(self.root.join(LATEST)).ok();
            return latest
                .filter(|path| looks_like_recording(path))
                .ok_or_else(|| Error::NoLatest { store: self.root.clone(), known: self.known() });
        };
        let path = Path::new(name);
        if looks_like_recording(path) {
            return Ok(path.to_path_buf());
        }
        let is_name = path.file_name() == Some(OsStr::new(name));
        let stored = self.root.join(name);
        if is_name && looks_like_recording(&stored) {
            // A name may also be `latest`.
            return fs::canonicalize(&stored).map_err(Error::io("find", &stored));
        }
        if !is_name && path.is_dir() {
            let reason = "there is no log in it";
            return Err(Error::NotARecording { path: path.to_path_buf(), reason });
        }
        let (name, store) = (name.to_string(), self.root.clone());
        Err(Error::Unknown { name, store, known: self.known() })
    }

    /// The recordings in the store, oldest first.
    pub fn list(&self) -> Result<Vec<Entry>, Error> {
        let latest = fs::canonicalize(self.root.join(LATEST)).ok();
        let mut entries: Vec<Entry> = self
            .names()?
            .into_iter()
            .filter_map(|name| {
                let path = self.root.join(&name);
                let log_bytes = fs::metadata(path.join(LOG_NAME)).ok()?.len();
                let is_latest = latest.is_some() && fs::canonicalize(&path).ok() == latest;
                Some(Entry { created: created(&path), log_bytes, latest: is_latest, name, path })
            })
            .collect();
        entries.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
        Ok(entries)
    }

    /// Removes a recording, given as for [`Store::resolve`], and returns where it was. What is not a
    /// recording, or is still being written, stays.
    pub fn remove(&self, name: &str) -> Result<PathBuf, Error> {
        let path = match self.resolve(Some(name)) {
            Err(Error::Unknown { .. }) if self.is_unused_directory(name) => self.root.join(name),
            resolved => resolved?,
        };
        check_removable(&path)?;
        let path = fs::canonicalize(&path).map_err(Error::io("find", &path))?;
        let was_latest = fs::canonicalize(self.root.join(LATEST)).ok().as_ref() == Some(&path);
        // The log goes last: as long as it is there, an interrupted removal can be repeated.
        let files = path.join(FILES_NAME);
        match fs::remove_dir_all(&files) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            result => result.map_err(Error::io("remove", &files))?,
        }
        remove_index(&path)?;
        remove_directory(&path)?;
        if was_latest {
            self.repair_latest()?;
        }
        Ok(path)
    }

    /// Points `latest` to the newest recording that is left.
    fn repair_latest(&self) -> Result<(), Error> {
        if let Some(newest) = self.list()?.last() {
            return self.mark_latest(&newest.path);
        }
        let link = self.root.join(LATEST);
        match fs::remove_file(&link) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::io("remove", &link)(error))
            }
            _ => Ok(()),
        }
    }

    /// Whether a name is a directory that [`Store::create`] made for a recorder that never came to use it.
    fn is_unused_directory(&self, name: &str) -> bool {
        let is_ours = self.names().is_ok_and(|names| names.iter().any(|known| known == name));
        is_ours
            && fs::read_dir(self.root.join(name)).is_ok_and(|mut entries| entries.next().is_none())
    }

    /// Names of the directories in the store; none if there is no store yet.
    fn names(&self) -> Result<Vec<String>, Error> {
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(Error::io("read", &self.root))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(Error::io("read", &self.root))?;
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if let (true, Ok(name)) = (is_directory, entry.file_name().into_string()) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Names for an error message.
    fn known(&self) -> Vec<String> {
        let entries = self.list().unwrap_or_default();
        entries.into_iter().map(|entry| entry.name).collect()
    }
}

/// Removes the index of a recording, if there is one. Whoever builds it goes by its path: moved aside first, nothing new
/// appears in it while it is removed.
pub fn remove_index(recording: &Path) -> Result<(), Error> {
    let (index, removed) = (recording.join(INDEX_NAME), recording.join(REMOVED_INDEX));
    // Left behind by a removal that was killed.
    remove_if_there(&removed)?;
    match fs::rename(&index, &removed) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        moved => moved.map_err(Error::io("remove", &index))?,
    }
    remove_if_there(&removed)
}

fn remove_if_there(directory: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(Error::io("remove", directory)),
    }
}

/// Removes the directory of a recording. An indexer that starts at this very moment may put something into it, but not
/// once the log is gone.
fn remove_directory(path: &Path) -> Result<(), Error> {
    for _ in 1..REMOVALS {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
            removed => return removed.map_err(Error::io("remove", path)),
        }
    }
    fs::remove_dir_all(path).map_err(Error::io("remove", path))
}

/// A name that needs no quoting and is not hidden.
fn plain_name(name: &str) -> String {
    let plain: String = name
        .chars()
        .take(NAME_LIMIT)
        .map(|c| if c.is_ascii_alphanumeric() || "._+-".contains(c) { c } else { '_' })
        .collect();
    match plain.chars().next() {
        None => "recording".to_string(),
        Some('.' | '-') => format!("_{plain}"),
        Some(_) => plain,
    }
}

fn looks_like_recording(path: &Path) -> bool {
    path.join(LOG_NAME).is_file()
}

/// When a recording was begun, as its header says.
fn created(directory: &Path) -> Option<SystemTime> {
    let path = directory.join(LOG_NAME);
    let log = open_log(directory, &path).ok()?;
    let (head, _) = read_head(&log, &path, log.metadata().ok()?.len()).ok()?;
    let since = Duration::new(head.created_seconds, 0)
        .checked_add(Duration::from_nanos(head.created_nanoseconds.into()))?;
    SystemTime::UNIX_EPOCH.checked_add(since)
}

/// Whether everything in a directory was put there by retro. A log that was never begun, or only half its
/// magic, is one too.
fn check_removable(path: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(path).map_err(Error::io("read", path))? {
        let name = entry.map_err(Error::io("read", path))?.file_name();
        let known = [LOG_NAME, FILES_NAME, INDEX_NAME, REMOVED_INDEX, NOTEBOOK_NAME];
        if !known.iter().any(|known| name == *known) {
            let name = name.to_string_lossy().into_owned();
            return Err(Error::ForeignFile { path: path.to_path_buf(), name });
        }
    }
    let log_path = path.join(LOG_NAME);
    if !log_path.exists() {
        return Ok(());
    }
    let log = open_log(path, &log_path)?;
    if is_locked(&log) {
        return Err(Error::StillRunning(path.to_path_buf()));
    }
    let mut start = Vec::new();
    log.take(FILE_MAGIC.len() as u64)
        .read_to_end(&mut start)
        .map_err(Error::io("read", &log_path))?;
    if !FILE_MAGIC.starts_with(&start) {
        let reason = "its log begins otherwise";
        return Err(Error::NotARecording { path: path.to_path_buf(), reason });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_root(variables: &[(&str, &str)], expected: Option<&str>) {
        let store = Store::from_variables(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        });
        assert_eq!(store.ok().as_ref().map(Store::root), expected.map(Path::new));
    }

    #[test]
    fn the_root_comes_from_the_first_variable_that_is_set() {
        let (own, data, home) = (("RETRO_DIR", "/r"), ("XDG_DATA_HOME", "/x"), ("HOME", "/h"));
        check_root(&[own, data, home], Some("/r"));
        check_root(&[data, home], Some("/x/retro"));
        check_root(&[home], Some("/h/.local/share/retro"));
        check_root(
            &[("RETRO_DIR", ""), ("XDG_DATA_HOME", "x"), home],
            Some("/h/.local/share/retro"),
        );
        check_root(&[], None);
    }

    #[test]
    fn names_are_made_harmless() {
        for (name, plain) in [
            ("ls", "ls"),
            ("g++-12.2", "g++-12.2"),
            ("a b/../c", "a_b_.._c"),
            ("..", "_.."),
            ("-rf", "_-rf"),
            ("", "recording"),
            ("é", "_"),
        ] {
            assert_eq!(plain_name(name), plain, "{name}");
        }
    }
}
