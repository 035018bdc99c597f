//! Where recordings live when nobody says otherwise, and what they are called.
//!
//! The store is a directory with one directory `NAME-N` per recording and a symbolic link `latest`. There is no
//! other state but what this user has added to recordings of others ([`Annex`](crate::Annex)): making a directory is what
//! claims a name, and renaming a link over `latest` is what switches it, so that any number of recorders can work at the
//! same time.
//!
//! Invariant: nothing is written to a store that belongs to somebody else, or in which others can replace what is ours.

mod removal;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use nix::fcntl::readlinkat;
use nix::unistd::symlinkat;

use crate::directory::{Directory, Kind};
use crate::reader::{open_log, read_head};
use crate::{Error, LOG_NAME};

pub use removal::remove_index;

/// Name of the link to the latest recording.
const LATEST: &str = "latest";

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
        let root = self.made()?;
        let name = plain_name(name);
        let highest = self
            .names()?
            .iter()
            .filter_map(|known| known.strip_prefix(&name)?.strip_prefix('-')?.parse::<u64>().ok())
            .max();
        let mut number = highest.map_or(1, |highest| highest.saturating_add(1));
        loop {
            let numbered = format!("{name}-{number}");
            match root.new_directory(&numbered) {
                // Another recorder was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < u64::MAX => {
                    number += 1;
                }
                result => {
                    result.map_err(Error::io("create", root.path_of(&numbered)))?;
                    return Ok(self.root.join(numbered));
                }
            }
        }
    }

    /// Makes `latest` point to a recording, which may be outside of the store.
    pub fn mark_latest(&self, recording: &Path) -> Result<(), Error> {
        /// Tells the links apart that several threads are making.
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let root = self.made()?;
        let target = match recording.strip_prefix(&self.root) {
            // Relative, so that the store can be moved.
            Ok(name) => name.to_path_buf(),
            Err(_) => fs::canonicalize(recording).map_err(Error::io("find", recording))?,
        };
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let new = format!(".{LATEST}-{}-{count}", std::process::id());
        // Left behind by a process of the same number that was killed right here.
        root.remove_file_if_there(&new).map_err(Error::io("replace", root.path_of(&new)))?;
        symlinkat(&target, &root, new.as_str())
            .map_err(|errno| Error::io("create", root.path_of(&new))(errno.into()))?;
        root.rename(&new, LATEST).map_err(|error| {
            let _ = root.remove_file(&new);
            Error::io("replace", root.path_of(LATEST))(error)
        })
    }

    /// Finds a recording by its path or by its name in the store; without either, the latest.
    pub fn resolve(&self, name: Option<&str>) -> Result<PathBuf, Error> {
        let Some(name) = name else {
            return self
                .latest()?
                .filter(|path| looks_like_recording(path))
                .ok_or_else(|| Error::NoLatest { store: self.root.clone(), known: self.known() });
        };
        let path = Path::new(name);
        if looks_like_recording(path) {
            return Ok(path.to_path_buf());
        }
        let is_name = path.file_name() == Some(OsStr::new(name));
        if is_name && name == LATEST {
            return self.resolve(None);
        }
        let stored = self.root.join(name);
        if is_name && looks_like_recording(&stored) {
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
        let latest = self.latest().ok().flatten();
        let mut entries: Vec<Entry> = self
            .names()?
            .into_iter()
            .filter_map(|name| {
                let path = self.root.join(&name);
                let directory = Directory::open(&path).ok()?;
                let log_bytes = directory.status(LOG_NAME).ok()?.length;
                let is_latest = latest.is_some() && fs::canonicalize(&path).ok() == latest;
                let created = created(&directory);
                Some(Entry { created, log_bytes, latest: is_latest, name, path })
            })
            .collect();
        entries.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
        Ok(entries)
    }

    /// Where `latest` leads to, if there is such a link. One that somebody else has put there is not followed.
    fn latest(&self) -> Result<Option<PathBuf>, Error> {
        let Ok(root) = Directory::open(&self.root) else { return Ok(None) };
        let Ok(status) = root.status(LATEST) else { return Ok(None) };
        if !status.is_own() {
            return Err(Error::ForeignLatest(self.root.clone()));
        }
        let target = match readlinkat(&root, LATEST) {
            Ok(target) => self.root.join(target),
            Err(_) => return Ok(None),
        };
        Ok(fs::canonicalize(target).ok())
    }

    /// Names of the directories in the store that are not hidden; none if there is no store yet.
    fn names(&self) -> Result<Vec<String>, Error> {
        let root = match Directory::open(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened.map_err(Error::io("read", &self.root))?,
        };
        let entries = root.entries().map_err(Error::io("read", &self.root))?;
        let directories = entries.into_iter().filter(|(_, kind)| *kind == Kind::Directory);
        let names = directories.filter_map(|(name, _)| name.into_string().ok());
        Ok(names.filter(|name| !name.starts_with('.')).collect())
    }

    /// Names for an error message.
    fn known(&self) -> Vec<String> {
        let entries = self.list().unwrap_or_default();
        entries.into_iter().map(|entry| entry.name).collect()
    }

    /// The store's directory, which is made if there is none, to be written to.
    fn made(&self) -> Result<Directory, Error> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.root)
            .map_err(Error::io("create", &self.root))?;
        let root = Directory::open(&self.root).map_err(Error::io("open", &self.root))?;
        self.check_private(&root)?;
        Ok(root)
    }

    /// A directory of ours in the store, if it is there.
    pub(crate) fn private(&self, name: &str) -> Result<Option<Directory>, Error> {
        let root = match Directory::open(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(Error::io("open", &self.root))?,
        };
        self.check_private(&root)?;
        match root.directory(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => {
                let opened = opened.map_err(Error::io("open", root.path_of(name)))?;
                self.check_private(&opened)?;
                Ok(Some(opened))
            }
        }
    }

    /// The same, which is made if it is not there.
    pub(crate) fn made_private(&self, name: &str) -> Result<Directory, Error> {
        let root = self.made()?;
        let made = root.made_directory(name).map_err(Error::io("create", root.path_of(name)))?;
        self.check_private(&made)?;
        Ok(made)
    }

    /// Whether what is put into a directory stays what it is.
    fn check_private(&self, directory: &Directory) -> Result<(), Error> {
        const ROOT: u32 = 0;
        let path = directory.path();
        let status = directory.own_status().map_err(Error::io("read", path))?;
        if !status.is_own() && status.owner != ROOT {
            return Err(Error::ForeignStore { path: path.to_path_buf(), owner: status.owner });
        }
        if status.is_shared() && !status.is_sticky() {
            return Err(Error::SharedStore(path.to_path_buf()));
        }
        Ok(())
    }
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

/// Whether there is something called a log. If it is not a file, whoever opens it says so.
fn looks_like_recording(path: &Path) -> bool {
    Directory::open(path).is_ok_and(|directory| directory.has(LOG_NAME))
}

/// When a recording was begun, as its header says.
fn created(directory: &Directory) -> Option<SystemTime> {
    let log = open_log(directory).ok()?;
    let path = directory.path_of(LOG_NAME);
    let (head, _) = read_head(&log, &path, log.metadata().ok()?.len()).ok()?;
    let since = Duration::new(head.created_seconds, 0)
        .checked_add(Duration::from_nanos(head.created_nanoseconds.into()))?;
    SystemTime::UNIX_EPOCH.checked_add(since)
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
