//! A recording that is being put together from somebody else's bytes, and gets its name only when all of it is good.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{Directory, Error, RECEIVED_NAME};

/// A directory that goes away unless it is finished.
pub(crate) struct Unfinished {
    /// The directory that it is in.
    parent: Directory,
    /// What it is called while it is not finished.
    hidden: OsString,
    /// What it will be called.
    target: PathBuf,
    directory: Directory,
    is_finished: bool,
}

impl Unfinished {
    /// Begins what will be at `target`, where there must be nothing, and needs so much room.
    pub(crate) fn begin(target: &Path, needed: u64) -> Result<Unfinished, Error> {
        if fs::symlink_metadata(target).is_ok() {
            return Err(Error::Exists(target.to_path_buf()));
        }
        let name = target.file_name().ok_or_else(|| Error::Exists(target.to_path_buf()))?;
        let parent = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let parent = Directory::open(parent).map_err(Error::io("open", parent))?;
        parent.check_room(needed)?;
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".unpacking-{}", std::process::id()));
        let directory =
            parent.new_directory(&hidden).map_err(Error::io("create", parent.path_of(&hidden)))?;
        let target = target.to_path_buf();
        Ok(Unfinished { parent, hidden, target, directory, is_finished: false })
    }

    /// Where it is put together.
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Marks it as received, and gives it its name.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        let failed = |error| Error::io("create", &self.target)(error);
        self.directory.new_file(RECEIVED_NAME).map_err(failed)?;
        let name = self.target.file_name().unwrap_or_default();
        self.parent.rename(&self.hidden, name).map_err(failed)?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_finished {
            // There is nobody to tell.
            let _ = self.parent.remove_all_if_there(&self.hidden);
        }
    }
}
