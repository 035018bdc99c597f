//! Removing a directory with everything in it, without leaving it.

use std::ffi::OsStr;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::{Directory, Kind};

/// Directories within each other that are entered; a recording has three.
const DEPTH_LIMIT: u32 = 32;

/// How long names are removed that appear meanwhile: an indexer whose index is removed notices at its next window.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long whoever makes them is given to notice.
const PAUSE: Duration = Duration::from_millis(5);

impl Directory {
    /// Removes whatever has a name, with everything in it if it is a directory. Links are removed, not followed.
    pub fn remove_all(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = name.as_ref();
        let begun = Instant::now();
        loop {
            match self.remove_below(name, DEPTH_LIMIT) {
                Err(error)
                    if error.kind() == io::ErrorKind::DirectoryNotEmpty
                        && begun.elapsed() < PATIENCE =>
                {
                    thread::sleep(PAUSE);
                }
                removed => return removed,
            }
        }
    }

    /// The same, if there is something.
    pub fn remove_all_if_there(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        match self.remove_all(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Removes everything in it.
    pub fn clear(&self) -> io::Result<()> {
        self.names()?.into_iter().try_for_each(|name| self.remove_all_if_there(name))
    }

    fn remove_below(&self, name: &OsStr, depth: u32) -> io::Result<()> {
        if self.status(name)?.kind != Kind::Directory {
            return self.remove_file(name);
        }
        let depth = depth.checked_sub(1).ok_or(io::ErrorKind::InvalidInput)?;
        let directory = self.directory(name)?;
        for (entry, kind) in directory.entries()? {
            let removed = match kind {
                Kind::Directory => directory.remove_below(&entry, depth),
                _ => directory.remove_file(&entry),
            };
            match removed {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
        drop(directory);
        self.remove_directory(name)
    }
}
