//! Which file an ELF file is, and where its debug information lies when it is separate.
//!
//! Distributions strip their programs and put the debug information elsewhere: by build id below
//! `/usr/lib/debug/.build-id`, or under the name in `.gnu_debuglink` in one of three places. That file may
//! refer to a further one (`.gnu_debugaltlink`), which several packages share.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::Object;
use object::read::ReadCache;

use super::collect::open_regular;

/// What an ELF file says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ElfIdentity {
    pub(super) build_id: Vec<u8>,
    /// Name and checksum of the file with its debug information.
    debug_link: Option<(Vec<u8>, u32)>,
    /// Path of the debug information it shares with others.
    shared_link: Option<Vec<u8>>,
}

impl ElfIdentity {
    /// Reads it from a file; a file that is not ELF, or damaged, has none.
    pub(super) fn of(file: &File) -> ElfIdentity {
        let Ok(file) = file.try_clone() else { return ElfIdentity::default() };
        let cache = ReadCache::new(Budget { file, left: READ_LIMIT });
        let Ok(elf) = object::File::parse(&cache) else { return ElfIdentity::default() };
        ElfIdentity {
            build_id: elf.build_id().ok().flatten().unwrap_or_default().to_vec(),
            debug_link: elf
                .gnu_debuglink()
                .ok()
                .flatten()
                .map(|(name, checksum)| (name.to_vec(), checksum)),
            shared_link: elf.gnu_debugaltlink().ok().flatten().map(|(path, _)| path.to_vec()),
        }
    }
}

/// The separate debug information of a file, from the first place that has it.
pub(super) fn find_debug(
    path: &Path,
    identity: &ElfIdentity,
    roots: &[PathBuf],
) -> Option<PathBuf> {
    if let [first, rest @ ..] = &identity.build_id[..]
        && !rest.is_empty()
    {
        let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!(".build-id/{first:02x}/{rest}.debug");
        let found = roots.iter().map(|root| root.join(&name)).find(|candidate| {
            open_regular(candidate)
                .is_ok_and(|file| ElfIdentity::of(&file).build_id == identity.build_id)
        });
        if found.is_some() {
            return found;
        }
    }
    let (name, checksum) = identity.debug_link.as_ref()?;
    let name = Path::new(OsStr::from_bytes(name));
    // A name alone: anything else would lead out of the places that are searched.
    if name.file_name() != Some(name.as_os_str()) {
        return None;
    }
    let directory = path.parent()?;
    let beside = [directory.join(name), directory.join(".debug").join(name)];
    let below = directory.strip_prefix("/").unwrap_or(directory);
    let elsewhere = roots.iter().map(|root| root.join(below).join(name));
    beside.into_iter().chain(elsewhere).find(|candidate| {
        candidate != path
            && open_regular(candidate).is_ok_and(|file| checksum_of(file).ok() == Some(*checksum))
    })
}

/// The debug information that a file with debug information shares with others.
pub(super) fn find_shared(debug_path: &Path, debug: &ElfIdentity) -> Option<PathBuf> {
    let link = Path::new(OsStr::from_bytes(debug.shared_link.as_ref()?));
    // Relative to where the file really is, not to the link by which it was found.
    let real = std::fs::canonicalize(debug_path).ok()?;
    let path = real.parent()?.join(link);
    std::fs::canonicalize(path).ok().filter(|path| open_regular(path).is_ok())
}

/// The checksum of `.gnu_debuglink`, which is that of all other checksums here.
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

/// More than the headers, notes and symbol tables of anything real.
const READ_LIMIT: u64 = 1 << 30;

/// A file of which only so much can be read: tables of a damaged file may overlap, and each is read anew.
struct Budget {
    file: File,
    left: u64,
}

impl Read for Budget {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.left = self
            .left
            .checked_sub(buffer.len() as u64)
            .ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))?;
        self.file.read(buffer)
    }
}

impl Seek for Budget {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.file.seek(position)
    }
}
