//! Where the index of a recording is.

use std::io;
use std::path::PathBuf;

use retro_recording::{Annex, Directory, INDEX_NAME, Recording};

use crate::Error;

/// The place of an index, which need not be there: beside the log of a recording that is ours, in the store otherwise.
#[derive(Clone, Debug)]
pub struct Place {
    annex: Annex,
}

impl Place {
    /// Of a recording.
    pub fn of(recording: &Recording) -> Result<Place, Error> {
        Place::beside(recording.root())
    }

    /// Of the recording in a directory, whatever is in it.
    pub fn beside(recording: &Directory) -> Result<Place, Error> {
        Ok(Place { annex: Annex::of(recording)? })
    }

    /// Where what belongs to the recording and is this user's own is kept.
    pub fn annex(&self) -> &Annex {
        &self.annex
    }

    /// The directory's path, for messages.
    pub fn path(&self) -> PathBuf {
        self.annex.path().join(INDEX_NAME)
    }

    /// The directory, if it is there.
    pub fn existing(&self) -> Result<Option<Directory>, Error> {
        let Some(annex) = self.annex.existing()? else { return Ok(None) };
        open_existing(&annex, INDEX_NAME)
    }

    /// The directory, which is made if it is not there. The recording has to be there: what was removed is not brought back.
    pub fn made(&self) -> Result<Directory, Error> {
        let made = self.annex.directory()?.made_directory(INDEX_NAME);
        made.map_err(|source| Error::io("create", &self.path(), source))
    }
}

/// The directory of a volume in an index, if both are there.
pub(crate) fn volume(
    index: Option<&Directory>,
    log: u64,
    interval: u64,
) -> Result<Option<Directory>, Error> {
    index.map_or(Ok(None), |index| open_existing(index, &volume_name(log, interval)))
}

/// What the directory of a volume is called.
pub(crate) fn volume_name(log: u64, interval: u64) -> String {
    format!("{log}-{interval}")
}

fn open_existing(parent: &Directory, name: &str) -> Result<Option<Directory>, Error> {
    match parent.directory(name) {
        Ok(directory) => Ok(Some(directory)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::io("open", &parent.path_of(name), source)),
    }
}
