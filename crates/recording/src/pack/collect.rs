//! Which files go into a pack: those that the run mapped, if they still are what they were, and their debug
//! information.
//!
//! A recording that was received has its files with it, and only those are taken: what lies on this
//! machine under the same names are other files, and nothing that a stranger's recording names may end up in
//! a pack.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use retro_abi::channel::Stream;
use retro_abi::log::Event;

use super::LeftOut;
use super::debug_info::{ElfIdentity, find_debug, find_shared, open_regular};
use crate::catalogue::{Role, StoredFile};
use crate::{Copied, LOG_NAME, Recording};

/// More files than any program maps; it bounds what a hostile recording makes this crate remember.
const FILES_LIMIT: usize = 1 << 16;

/// A file as the engine saw it when it was mapped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MappedFile {
    path: PathBuf,
    build_id: Vec<u8>,
    size: u64,
    modified: (i64, u32),
}

/// The content of a copy.
pub(super) struct Source {
    /// Where it is read from.
    pub(super) path: PathBuf,
    /// The recording's own copy, if it is that.
    pub(super) copied: Option<Copied>,
    pub(super) size: u64,
    /// When it was changed last, to notice a change while it is read.
    pub(super) modified: (i64, i64),
}

/// What goes into a pack beside the log.
#[derive(Default)]
pub(super) struct Collection {
    /// Contents, by number of copy.
    pub(super) sources: Vec<Source>,
    pub(super) entries: Vec<StoredFile>,
    pub(super) left_out: Vec<LeftOut>,
    /// Numbers of the copies made so far, by where they are read from.
    numbers: BTreeMap<PathBuf, u32>,
}

/// Finds all files for a pack.
pub(super) fn collect(recording: &Recording, debug_roots: &[PathBuf]) -> Collection {
    let mut collection = Collection::default();
    if let Some(catalogue) = recording.catalogue() {
        for file in &catalogue.files {
            if let Err(reason) = collection.keep(catalogue.copy(file), file) {
                collection.leave_out(&file.path, reason);
            }
        }
        return collection;
    }
    let mapped = collection.find_mapped(recording);
    let is_ours = recording.is_ours();
    for file in mapped {
        if !is_ours {
            let reason = "the recording was received without it".to_string();
            collection.leave_out(&file.path, reason);
            continue;
        }
        if let Err(reason) = collection.take(&file, debug_roots) {
            collection.leave_out(&file.path, reason);
        }
    }
    collection
}

impl Collection {
    fn leave_out(&mut self, path: &Path, reason: String) {
        self.left_out.push(LeftOut { path: path.to_path_buf(), reason });
    }

    /// The files that the log names, each once, in the order of their paths.
    fn find_mapped(&mut self, recording: &Recording) -> Vec<MappedFile> {
        let mut found = BTreeMap::new();
        for process in recording.processes() {
            for segment in recording.segments(process.summary.log, Stream::Code) {
                let chunk = match recording.read_chunk(segment) {
                    Ok(chunk) => chunk,
                    Err(error) => {
                        let reason = format!("files named there are unknown: {error}");
                        self.leave_out(&recording.directory().join(LOG_NAME), reason);
                        continue;
                    }
                };
                for (_, event) in chunk.events().flatten() {
                    let Event::File {
                        path,
                        build_id,
                        size,
                        modified_seconds,
                        modified_nanoseconds,
                        ..
                    } = event
                    else {
                        continue;
                    };
                    if found.len() == FILES_LIMIT {
                        let reason = format!("only the first {FILES_LIMIT} files are packed");
                        self.leave_out(&recording.directory().join(LOG_NAME), reason);
                        return found.into_keys().collect();
                    }
                    let file = MappedFile {
                        path: PathBuf::from(OsStr::from_bytes(path)),
                        build_id: build_id.to_vec(),
                        size,
                        modified: (modified_seconds, modified_nanoseconds),
                    };
                    found.insert(file, ());
                }
            }
        }
        found.into_keys().collect()
    }

    /// Takes a file that the run mapped, with its debug information; or says why not.
    fn take(&mut self, mapped: &MappedFile, debug_roots: &[PathBuf]) -> Result<(), String> {
        // A relative name would be looked up from here instead of from where the guest was.
        if !mapped.path.is_absolute() {
            return Err("it has no name in the file system".to_string());
        }
        let file = open_regular(&mapped.path).map_err(|error| error.to_string())?;
        let identity = ElfIdentity::of(&file);
        check_unchanged(mapped, &file, &identity)?;
        let known_debug = self.entries.iter().any(|entry| {
            entry.role == Role::Mapped
                && !mapped.build_id.is_empty()
                && entry.build_id == mapped.build_id
        });
        let owner = self.add(&mapped.path, &file, mapped, Role::Mapped, None)?;
        // The build id is what debug information is looked up by, so that it is stored once for each.
        if known_debug {
            return Ok(());
        }
        let Some(debug_path) = find_debug(&mapped.path, &identity, debug_roots) else {
            return self.take_shared(&mapped.path, &identity, debug_roots, mapped, owner);
        };
        let debug = open_regular(&debug_path).map_err(|error| error.to_string())?;
        self.add(&debug_path, &debug, mapped, Role::Debug, Some(owner))?;
        self.take_shared(&debug_path, &ElfIdentity::of(&debug), debug_roots, mapped, owner)
    }

    fn take_shared(
        &mut self,
        referring: &Path,
        identity: &ElfIdentity,
        debug_roots: &[PathBuf],
        mapped: &MappedFile,
        owner: u32,
    ) -> Result<(), String> {
        let Some(path) = find_shared(referring, identity, debug_roots) else { return Ok(()) };
        let file = open_regular(&path).map_err(|error| error.to_string())?;
        self.add(&path, &file, mapped, Role::SharedDebug, Some(owner))?;
        Ok(())
    }

    /// Adds an entry and, if it is not among the copies yet, its content; returns the number of the copy.
    fn add(
        &mut self,
        path: &Path,
        file: &File,
        mapped: &MappedFile,
        role: Role,
        owner: Option<u32>,
    ) -> Result<u32, String> {
        let (number, size) = self.add_source(path, file, None)?;
        self.entries.push(StoredFile {
            number,
            role,
            owner,
            path: path.to_path_buf(),
            build_id: mapped.build_id.clone(),
            size,
        });
        Ok(number)
    }

    /// Keeps an entry of a recording that was unpacked, with its numbers changed to those of this pack. Files
    /// come before what belongs to them, as they were added.
    fn keep(&mut self, copied: Copied, entry: &StoredFile) -> Result<(), String> {
        let file = copied.open().map_err(|error| error.to_string())?;
        let copy = copied.path();
        let owner = match entry.owner {
            None => None,
            Some(owner) => {
                let owner_copy = copy.with_file_name(owner.to_string());
                let number = self.numbers.get(&owner_copy);
                Some(*number.ok_or("the file it belongs to is missing")?)
            }
        };
        let (number, size) = self.add_source(&copy, &file, Some(copied))?;
        if size != entry.size {
            return Err("its copy has another size than it had".to_string());
        }
        self.entries.push(StoredFile { number, owner, ..entry.clone() });
        Ok(())
    }

    fn add_source(
        &mut self,
        path: &Path,
        file: &File,
        copied: Option<Copied>,
    ) -> Result<(u32, u64), String> {
        let metadata = file.metadata().map_err(|error| error.to_string())?;
        let size = metadata.len();
        if let Some(&number) = self.numbers.get(path) {
            return Ok((number, size));
        }
        let number = self.sources.len() as u32;
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        self.sources.push(Source { path: path.to_path_buf(), copied, size, modified });
        self.numbers.insert(path.to_path_buf(), number);
        Ok((number, size))
    }
}

/// Whether a file still is the one that was mapped. The build id decides where there is one: packages are
/// installed again without a change, and some builds give all files the same time.
fn check_unchanged(mapped: &MappedFile, file: &File, identity: &ElfIdentity) -> Result<(), String> {
    if !mapped.build_id.is_empty() {
        return if identity.build_id == mapped.build_id {
            Ok(())
        } else {
            Err("it was replaced since: its build id differs".to_string())
        };
    }
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if metadata.len() != mapped.size {
        return Err("it was changed since: its size differs".to_string());
    }
    if (metadata.mtime(), metadata.mtime_nsec()) != (mapped.modified.0, mapped.modified.1.into()) {
        return Err("it was changed since: its modification time differs".to_string());
    }
    Ok(())
}
