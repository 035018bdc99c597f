//! The files that names are taken from: those that the run mapped, as long as they are the same.
//!
//! An unpacked recording has copies with it. Otherwise the file of that name on this machine serves, if it has the
//! build id that was recorded, or without one the same size and time; any other would give wrong names. Separate
//! debug information lies by build id below `/usr/lib/debug/.build-id`, or under the name in `.gnu_debuglink`.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use retro_recording::Recording;

use crate::modules::MappedFile;
use crate::object_file::{Identity, ObjectFile};

/// Where distributions put debug information.
const DEBUG_ROOT: &str = "/usr/lib/debug";

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

/// Finds and reads a file. There is no object if it is not ELF.
pub(crate) fn load(recording: &Recording, mapped: &MappedFile) -> (FileState, Option<ObjectFile>) {
    let (file, identity) = match find(recording, mapped) {
        Ok(found) => found,
        Err(state) => return (state, None),
    };
    let debug = recording
        .debug_file_for(&mapped.path, &mapped.build_id)
        .and_then(|copy| open_regular(&copy).ok())
        .or_else(|| find_debug(&mapped.path, &identity, Path::new(DEBUG_ROOT)));
    (FileState::Same, ObjectFile::read(file, debug))
}

fn find(recording: &Recording, mapped: &MappedFile) -> Result<(File, Identity), FileState> {
    let copy = recording.file_for(&mapped.path, &mapped.build_id);
    if let Some(file) = copy.and_then(|copy| open_regular(&copy).ok()) {
        let identity = Identity::of(&file);
        if identity.build_id == mapped.build_id {
            return Ok((file, identity));
        }
    }
    // A relative name would be looked up from here instead of from where the guest was.
    if !mapped.path.is_absolute() {
        return Err(FileState::Missing);
    }
    let file = open_regular(&mapped.path).map_err(|_| FileState::Missing)?;
    let identity = Identity::of(&file);
    if is_unchanged(mapped, &file, &identity) {
        Ok((file, identity))
    } else {
        Err(FileState::Changed)
    }
}

fn is_unchanged(mapped: &MappedFile, file: &File, identity: &Identity) -> bool {
    if !mapped.build_id.is_empty() {
        return identity.build_id == mapped.build_id;
    }
    file.metadata().is_ok_and(|metadata| {
        metadata.len() == mapped.size
            && (metadata.mtime(), metadata.mtime_nsec())
                == (mapped.modified.0, mapped.modified.1.into())
    })
}

/// The separate debug information of a file on this machine.
fn find_debug(path: &Path, identity: &Identity, root: &Path) -> Option<File> {
    if let [first, rest @ ..] = &identity.build_id[..]
        && !rest.is_empty()
    {
        let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        let candidate = root.join(format!(".build-id/{first:02x}/{rest}.debug"));
        let file = open_regular(&candidate).ok();
        if let Some(file) = file.filter(|f| Identity::of(f).build_id == identity.build_id) {
            return Some(file);
        }
    }
    let (name, checksum) = identity.debug_link.as_ref()?;
    let name = Path::new(OsStr::from_bytes(name));
    // A name alone: anything else would lead out of the places that are searched.
    if name.file_name() != Some(name.as_os_str()) {
        return None;
    }
    let directory = path.parent()?;
    let below = directory.strip_prefix("/").unwrap_or(directory);
    let places: [PathBuf; 3] =
        [directory.join(name), directory.join(".debug").join(name), root.join(below).join(name)];
    let is_it = |candidate: &PathBuf| {
        candidate != path
            && open_regular(candidate).is_ok_and(|file| checksum_of(file).ok() == Some(*checksum))
    };
    places.iter().find(|candidate| is_it(candidate)).and_then(|found| open_regular(found).ok())
}

/// The checksum of `.gnu_debuglink`.
fn checksum_of(mut file: File) -> io::Result<u32> {
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize()),
            length => hasher.update(&buffer[..length]),
        }
    }
}

fn open_regular(path: &Path) -> io::Result<File> {
    // Not to wait for a writer if it is a pipe.
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(file)
}
