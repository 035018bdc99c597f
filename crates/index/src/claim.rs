//! Who builds an index: one process at a time.
//!
//! A lock on a file in the index's directory, which the system lets go of however its owner ends. An index may be thrown away
//! at any moment, also while it is built: its directory is moved aside ([`discard`]), where nothing new can appear since
//! builders go by paths, and its builder finds that its claim is void and stops.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::{Error, directory};

/// The file that is locked.
const LOCK: &str = "lock";

/// The right to build the index of a recording, as long as this lives.
#[derive(Debug)]
pub struct Claim {
    index: PathBuf,
    lock: File,
}

impl Claim {
    /// Claims the index of a recording, whose directory is made if there is none. None if another process has claimed it.
    pub fn take(recording: &Path) -> Result<Option<Claim>, Error> {
        let index = directory(recording);
        create_directory(&index)?;
        let path = index.join(LOCK);
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false).mode(0o600);
        let lock = match options.open(&path) {
            // Thrown away in between.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|source| Error::io("create", &path, source))?,
        };
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(source)) => return Err(Error::io("lock", &path, source)),
        }
        let claim = Claim { index, lock };
        Ok(claim.is_valid().then_some(claim))
    }

    /// The directory of the index.
    pub fn index(&self) -> &Path {
        &self.index
    }

    /// Whether the index is still there. If not, whoever builds it should stop.
    pub fn is_valid(&self) -> bool {
        let identity = |file: &fs::Metadata| (file.dev(), file.ino());
        let there = fs::metadata(self.index.join(LOCK));
        let (Ok(there), Ok(ours)) = (there, self.lock.metadata()) else { return false };
        identity(&there) == identity(&ours)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Closing is not enough: a process that is being started may have the file for a moment.
        let _ = self.lock.unlock();
    }
}

/// Whether a process is building the index of a recording.
pub fn is_claimed(recording: &Path) -> bool {
    // Shared, so that those who look do not see each other.
    File::open(directory(recording).join(LOCK))
        .is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Throws away the index of a recording, even while it is built.
pub fn discard(recording: &Path) -> Result<(), Error> {
    retro_recording::store::remove_index(recording)?;
    Ok(())
}

/// Makes a directory whose parent has to exist: what was removed is not brought back.
pub(crate) fn create_directory(path: &Path) -> Result<(), Error> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(|source| Error::io("create", path, source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_builds_and_a_discarded_index_is_nobody_s() {
        let recording = tempfile::tempdir().unwrap();
        let path = recording.path();
        assert!(!is_claimed(path));
        let first = Claim::take(path).unwrap().unwrap();
        assert!(is_claimed(path) && Claim::take(path).unwrap().is_none());
        assert!(first.is_valid());
        discard(path).unwrap();
        assert!(!first.is_valid() && !directory(path).exists());
        let second = Claim::take(path).unwrap().unwrap();
        assert!(second.is_valid() && !first.is_valid());
        drop(second);
        assert!(!is_claimed(path) && Claim::take(path).unwrap().is_some());
    }

    #[test]
    fn what_is_gone_is_not_made_again() {
        let parent = tempfile::tempdir().unwrap();
        let gone = parent.path().join("gone");
        assert!(matches!(Claim::take(&gone), Err(Error::Io { .. })));
        assert!(!gone.exists());
    }
}
