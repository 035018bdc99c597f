//! Recordings go away, and nothing else does.

use std::fs;
use std::io::Read;
use std::path::PathBuf;

use super::{LATEST, Store};
use crate::header::FILE_MAGIC;
use crate::reader::{is_locked, open_log};
use crate::{
    Directory, Error, FILES_NAME, INDEX_NAME, LOG_NAME, NOTEBOOK_NAME, RECEIVED_NAME, annex,
};

/// What an index is called while it is removed.
const REMOVED_INDEX: &str = "index-removed";

impl Store {
    /// Removes a recording, given as for [`Store::resolve`], and returns where it was. What is not a
    /// recording, or is still being written, stays.
    pub fn remove(&self, name: &str) -> Result<PathBuf, Error> {
        let path = match self.resolve(Some(name)) {
            Err(Error::Unknown { .. }) if self.is_unused_directory(name) => self.root().join(name),
            resolved => resolved?,
        };
        let path = fs::canonicalize(&path).map_err(Error::io("find", &path))?;
        let (Some(parent), Some(own_name)) = (path.parent(), path.file_name()) else {
            let reason = "it is the root of the file system";
            return Err(Error::NotARecording { path, reason });
        };
        let parent = Directory::open(parent).map_err(Error::io("open", parent))?;
        let directory = parent.directory(own_name).map_err(Error::io("open", &path))?;
        check_removable(&directory)?;
        let was_latest = self.latest().ok().flatten().as_ref() == Some(&path);
        // What is ours of somebody else's recording goes, also if that cannot be removed.
        annex::remove(self, &directory)?;
        remove_contents(&directory)?;
        parent.remove_all(own_name).map_err(Error::io("remove", &path))?;
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
        let root = self.made()?;
        root.remove_file_if_there(LATEST).map_err(Error::io("remove", root.path_of(LATEST)))
    }

    /// Whether a name is a directory that [`Store::create`] made for a recorder that never came to use it.
    fn is_unused_directory(&self, name: &str) -> bool {
        let is_ours = self.names().is_ok_and(|names| names.iter().any(|known| known == name));
        let opened = Directory::open(&self.root().join(name));
        is_ours && opened.and_then(|found| found.names()).is_ok_and(|names| names.is_empty())
    }
}

/// Removes the index in a directory, if there is one. Whoever builds it finds that it is not where it was, and stops.
pub fn remove_index(directory: &Directory) -> Result<(), Error> {
    let failed = |error| Error::io("remove", directory.path_of(INDEX_NAME))(error);
    // Left behind by a removal that was killed.
    directory.remove_all_if_there(REMOVED_INDEX).map_err(failed)?;
    match directory.rename(INDEX_NAME, REMOVED_INDEX) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        moved => moved.map_err(failed)?,
    }
    directory.remove_all_if_there(REMOVED_INDEX).map_err(failed)
}

/// The log goes last: as long as it is there, an interrupted removal can be repeated. An indexer that starts at this very
/// moment may put something into the directory, but not once the log is gone.
fn remove_contents(directory: &Directory) -> Result<(), Error> {
    let failed = |error| Error::io("remove", directory.path())(error);
    remove_index(directory)?;
    for name in directory.names().map_err(failed)? {
        if name != LOG_NAME {
            directory.remove_all_if_there(&name).map_err(failed)?;
        }
    }
    directory.remove_file_if_there(LOG_NAME).map_err(failed)
}

/// Whether everything in a directory was put there by retro. A log that was never begun, or only half its
/// magic, is one too.
fn check_removable(directory: &Directory) -> Result<(), Error> {
    let path = directory.path();
    let known = [LOG_NAME, FILES_NAME, INDEX_NAME, REMOVED_INDEX, NOTEBOOK_NAME, RECEIVED_NAME];
    for name in directory.names().map_err(Error::io("read", path))? {
        if !known.iter().any(|known| name == *known) && !Directory::is_leftover(&name) {
            let name = name.to_string_lossy().into_owned();
            return Err(Error::ForeignFile { path: path.to_path_buf(), name });
        }
    }
    if !directory.has(LOG_NAME) {
        return Ok(());
    }
    let log = open_log(directory)?;
    if is_locked(&log) {
        return Err(Error::StillRunning(path.to_path_buf()));
    }
    let mut start = Vec::new();
    log.take(FILE_MAGIC.len() as u64)
        .read_to_end(&mut start)
        .map_err(Error::io("read", directory.path_of(LOG_NAME)))?;
    if !FILE_MAGIC.starts_with(&start) {
        let reason = "its log begins otherwise";
        return Err(Error::NotARecording { path: path.to_path_buf(), reason });
    }
    Ok(())
}
