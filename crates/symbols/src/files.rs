//! The files that names are taken from: those that the run mapped, as long as they are the same.
//!
//! An unpacked recording has copies with it. Otherwise the file of that name on this machine serves, if it has the
//! build id that was recorded, or without one the same size and time; any other would give wrong names. A recording that
//! was received may name any file of this machine, so there only the build id counts. Separate
//! debug information lies where [`retro_recording::pack::debug_info`] finds it.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use retro_recording::pack::debug_info::{DEBUG_ROOT, ElfIdentity, find_debug, find_shared};
use retro_recording::{Copied, Recording};

use crate::elf::ElfSource;
use crate::modules::MappedFile;
use crate::object_file::ObjectFile;

pub(crate) use retro_recording::pack::debug_info::open_regular;

/// Whether a file can be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// It is what was mapped.
    Same,
    /// There is another one in its place.
    Changed,
    /// It is not there, or it has no name.
    Missing,
}

/// Where a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In the file system of this machine.
    Here(PathBuf),
    /// In the recording.
    Copied(Copied),
}

impl Location {
    /// Its path, for messages and for other programs.
    pub fn path(&self) -> PathBuf {
        match self {
            Location::Here(path) => path.clone(),
            Location::Copied(copied) => copied.path(),
        }
    }

    /// Opens it, if it is a file.
    pub fn open(&self) -> io::Result<File> {
        match self {
            Location::Here(path) => open_regular(path),
            Location::Copied(copied) => copied.open(),
        }
    }
}

/// The file with debug information of another.
#[derive(Debug)]
pub(crate) struct DebugFile {
    pub(crate) path: PathBuf,
    pub(crate) file: ElfSource,
}

/// Finds and reads a file. There is no object if it is not ELF.
pub(crate) fn load(recording: &Recording, mapped: &MappedFile) -> (FileState, Option<ObjectFile>) {
    let (_, file, identity) = match find(recording, mapped) {
        Ok(found) => found,
        Err(state) => return (state, None),
    };
    let source = |file: File| ElfSource::new(file, recording.budget());
    let roots = [PathBuf::from(DEBUG_ROOT)];
    let debug = (recording.debug_file_for(&mapped.path, &mapped.build_id))
        .and_then(|copied| {
            Some(DebugFile { file: source(copied.open().ok()?), path: copied.path() })
        })
        .or_else(|| {
            let path = find_debug(&mapped.path, &identity, &roots)?;
            Some(DebugFile { file: source(open_regular(&path).ok()?), path })
        });
    let shared = (recording.shared_debug_file_for(&mapped.path, &mapped.build_id))
        .map(Location::Copied)
        .or_else(|| {
            Some(Location::Here(match &debug {
                Some(debug) => find_shared(&debug.path, &ElfIdentity::of(&debug.file), &roots)?,
                None => find_shared(&mapped.path, &identity, &roots)?,
            }))
        })
        .and_then(|location| Some(source(location.open().ok()?)));
    (FileState::Same, ObjectFile::read(&mapped.path, source(file), debug, shared))
}

/// Where the very file is that was mapped, and what is in it.
pub(crate) fn find(
    recording: &Recording,
    mapped: &MappedFile,
) -> Result<(Location, File, ElfIdentity), FileState> {
    let copy = recording.file_for(&mapped.path, &mapped.build_id);
    if let Some(copy) = copy
        && let Ok(file) = copy.open()
    {
        let identity = ElfIdentity::of(&file);
        if identity.build_id == mapped.build_id {
            return Ok((Location::Copied(copy), file, identity));
        }
    }
    if mapped.build_id.is_empty() && !recording.is_ours() {
        return Err(FileState::Missing);
    }
    // A relative name would be looked up from here instead of from where the guest was.
    if !mapped.path.is_absolute() {
        return Err(FileState::Missing);
    }
    let file = open_regular(&mapped.path).map_err(|_| FileState::Missing)?;
    let identity = ElfIdentity::of(&file);
    if is_unchanged(mapped, &file, &identity) {
        Ok((Location::Here(mapped.path.clone()), file, identity))
    } else {
        Err(FileState::Changed)
    }
}

fn is_unchanged(mapped: &MappedFile, file: &File, identity: &ElfIdentity) -> bool {
    if !mapped.build_id.is_empty() {
        return identity.build_id == mapped.build_id;
    }
    file.metadata().is_ok_and(|metadata| {
        metadata.len() == mapped.size
            && (metadata.mtime(), metadata.mtime_nsec())
                == (mapped.modified.0, mapped.modified.1.into())
    })
}
