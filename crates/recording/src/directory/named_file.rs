//! A file by its name in a directory, whether or not it is there.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::{Directory, component};

/// A name in a directory, for those who work with one file.
#[derive(Clone, Debug)]
pub struct NamedFile {
    directory: Directory,
    name: OsString,
}

impl Directory {
    /// The file of a name in it.
    pub fn named(&self, name: impl AsRef<OsStr>) -> NamedFile {
        NamedFile { directory: self.clone(), name: name.as_ref().to_os_string() }
    }
}

impl NamedFile {
    /// The file at the end of a path whose directory the user has named.
    pub fn at(path: &Path) -> io::Result<NamedFile> {
        let name = component(path.file_name().unwrap_or_default())?;
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        Ok(Directory::open(parent)?.named(name))
    }

    /// What it is called, for messages.
    pub fn path(&self) -> PathBuf {
        self.directory.path_of(&self.name)
    }

    /// Opens it for reading.
    pub fn open(&self) -> io::Result<File> {
        self.directory.file(&self.name)
    }

    /// Opens it for reading and writing.
    pub fn open_to_change(&self) -> io::Result<File> {
        self.directory.file_to_change(&self.name)
    }

    /// Makes it. A file that has its name gives way; those who have that open keep it.
    pub fn create_anew(&self) -> io::Result<File> {
        self.directory.remove_file_if_there(&self.name)?;
        self.directory.new_file(&self.name)
    }
}
