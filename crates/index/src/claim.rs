//! Who builds an index: one process at a time.
//!
//! A lock on a file in the index's directory, which the system lets go of however its owner ends. An index may be thrown away
//! at any moment, also while it is built: its directory is moved aside ([`discard`]), and its builder finds that what lies
//! in its place is another one, and stops.

use std::fs::{File, TryLockError};
use std::io;

use retro_recording::Directory;

use crate::{Error, Place};

/// The file that is locked.
const LOCK: &str = "lock";

/// The right to build the index of a recording, as long as this lives.
#[derive(Debug)]
pub struct Claim {
    place: Place,
    index: Directory,
    lock: File,
}

impl Claim {
    /// Claims an index, whose directory is made if there is none. None if another process has claimed it.
    pub fn take(place: &Place) -> Result<Option<Claim>, Error> {
        let index = place.made()?;
        let path = index.path_of(LOCK);
        let lock = match index.lock_file(LOCK) {
            // Thrown away in between.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|source| Error::io("create", &path, source))?,
        };
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(source)) => return Err(Error::io("lock", &path, source)),
        }
        let claim = Claim { place: place.clone(), index, lock };
        Ok(claim.is_valid().then_some(claim))
    }

    /// The directory of the index.
    pub fn index(&self) -> &Directory {
        &self.index
    }

    /// Whether the index is still there. If not, whoever builds it should stop.
    pub fn is_valid(&self) -> bool {
        let identity = |directory: &Directory| Some(directory.own_status().ok()?.identity);
        let there = self.place.existing().ok().flatten();
        there.is_some_and(|there| {
            there.has(LOCK)
                && identity(&there).is_some()
                && identity(&there) == identity(&self.index)
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Closing is not enough: a process that is being started may have the file for a moment.
        let _ = self.lock.unlock();
    }
}

/// Whether a process is building an index.
pub fn is_claimed(place: &Place) -> bool {
    let Ok(Some(index)) = place.existing() else { return false };
    // Shared, so that those who look do not see each other.
    index
        .file(LOCK)
        .is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Throws away an index, even while it is built.
pub fn discard(place: &Place) -> Result<(), Error> {
    if let Some(annex) = place.annex().existing()? {
        retro_recording::store::remove_index(&annex)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_builds_and_a_discarded_index_is_nobody_s() {
        let recording = tempfile::tempdir().unwrap();
        let place = &Place::beside(&Directory::open(recording.path()).unwrap()).unwrap();
        assert!(!is_claimed(place));
        let first = Claim::take(place).unwrap().unwrap();
        assert!(is_claimed(place) && Claim::take(place).unwrap().is_none());
        assert!(first.is_valid());
        discard(place).unwrap();
        assert!(!first.is_valid() && !place.path().exists());
        let second = Claim::take(place).unwrap().unwrap();
        assert!(second.is_valid() && !first.is_valid());
        drop(second);
        assert!(!is_claimed(place) && Claim::take(place).unwrap().is_some());
    }

    #[test]
    fn what_is_gone_is_not_made_again() {
        let parent = tempfile::tempdir().unwrap();
        let recording = Directory::create(&parent.path().join("gone")).unwrap();
        let place = Place::beside(&recording).unwrap();
        std::fs::remove_dir(recording.path()).unwrap();
        assert!(matches!(Claim::take(&place), Err(Error::Io { .. })));
        assert!(!recording.path().exists());
    }
}
