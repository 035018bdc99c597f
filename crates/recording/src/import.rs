//! Taking in a recording that somebody sent as a directory: its log and the copies of files, and nothing else.
//!
//! What lies in such a directory was chosen by a stranger: links, pipes, an index with what it pleases. So nothing is moved;
//! the files that a recording has are copied, as they are opened by [`Directory`], and what is copied has to be a recording.

use std::io::{self, Read, Write};
use std::path::Path;

use crate::catalogue::CATALOGUE_NAME;
use crate::unfinished::Unfinished;
use crate::{Directory, Error, FILES_NAME, LOG_NAME, Recording};

/// Copies a recording of somebody else's into a new directory, which appears only when everything was good.
pub fn import(source: &Path, target: &Path) -> Result<(), Error> {
    let recording = Recording::open(source)?;
    let root = recording.root();
    let mut copies = Vec::new();
    let mut needed = recording.log_bytes();
    if let Some(catalogue) = recording.catalogue() {
        copies.push(CATALOGUE_NAME.to_string());
        let mut numbers: Vec<u32> = catalogue.files.iter().map(|file| file.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        copies.extend(numbers.iter().map(u32::to_string));
        let files = files_of(root)?;
        for name in &copies {
            let status = files.status(name).map_err(Error::io("read", files.path_of(name)))?;
            needed = needed.saturating_add(status.length);
        }
    }
    let unfinished = Unfinished::begin(target, needed)?;
    let directory = unfinished.directory();
    copy(root, directory, LOG_NAME, recording.log_bytes())?;
    if !copies.is_empty() {
        let files = files_of(root)?;
        let path = directory.path_of(FILES_NAME);
        let copied = directory.new_directory(FILES_NAME).map_err(Error::io("create", path))?;
        for name in &copies {
            // What grows meanwhile is cut off: there is room for what was there.
            let length = files.status(name).map_err(Error::io("read", files.path_of(name)))?.length;
            copy(&files, &copied, name, length)?;
        }
    }
    // Whoever sent it may have changed it while it was copied.
    let copied = Recording::open_in(directory.clone())?;
    if copied.head().id != recording.head().id {
        return Err(Error::ChangedWhilePacking(source.to_path_buf()));
    }
    unfinished.finish()
}

fn files_of(root: &Directory) -> Result<Directory, Error> {
    root.directory(FILES_NAME).map_err(Error::io("open", root.path_of(FILES_NAME)))
}

/// Copies so many bytes of a file.
fn copy(from: &Directory, to: &Directory, name: &str, length: u64) -> Result<(), Error> {
    let source = from.file(name).map_err(Error::io("open", from.path_of(name)))?;
    let mut target = to.new_file(name).map_err(Error::io("create", to.path_of(name)))?;
    let copied = io::copy(&mut source.take(length), &mut target)
        .map_err(Error::io("copy", from.path_of(name)))?;
    if copied != length {
        return Err(Error::ChangedWhilePacking(from.path_of(name)));
    }
    target.flush().map_err(Error::io("write", to.path_of(name)))
}
