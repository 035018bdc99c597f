//! Which file an ELF file is, and where its debug information lies when it is separate.
//!
//! Distributions strip their programs and put the debug information elsewhere: by build id below
//! `/usr/lib/debug/.build-id`, or under the name in `.gnu_debuglink` in one of three places. That file may
//! refer to a further one (`.gnu_debugaltlink`), which several packages share.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use object::Object;
use object::read::ReadCache;

/// Where distributions put separate debug information.
pub const DEBUG_ROOT: &str = "/usr/lib/debug";

/// What an ELF file says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElfIdentity {
    /// What no other build has; empty if it has none.
    pub build_id: Vec<u8>,
    /// Name and checksum of the file with its debug information.
    debug_link: Option<(Vec<u8>, u32)>,
    /// Path and build id of the debug information it shares with others.
    shared_link: Option<(Vec<u8>, Vec<u8>)>,
}

impl ElfIdentity {
    /// Reads it from a file; a file that is not ELF, or damaged, has none.
    pub fn of(file: &File) -> ElfIdentity {
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
            shared_link: elf
                .gnu_debugaltlink()
                .ok()
                .flatten()
                .map(|(path, build_id)| (path.to_vec(), build_id.to_vec())),
        }
    }
}

/// The separate debug information of a file, from the first place that has it.
pub fn find_debug(path: &Path, identity: &ElfIdentity, roots: &[PathBuf]) -> Option<PathBuf> {
    if let Some(found) = find_by_build_id(&identity.build_id, roots) {
        return Some(found);
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
pub fn find_shared(debug_path: &Path, debug: &ElfIdentity, roots: &[PathBuf]) -> Option<PathBuf> {
    let (link, build_id) = debug.shared_link.as_ref()?;
    let link = Path::new(OsStr::from_bytes(link));
    // Relative to where the file really is, not to the link by which it was found.
    let real = fs::canonicalize(debug_path).ok();
    let beside = real.as_ref().and_then(|real| Some(real.parent()?.join(link)));
    let collected = roots.iter().filter_map(|root| Some(root.join(".dwz").join(link.file_name()?)));
    let is_it = |candidate: &PathBuf| {
        open_regular(candidate)
            .is_ok_and(|file| build_id.is_empty() || ElfIdentity::of(&file).build_id == *build_id)
    };
    let found = beside.into_iter().chain(collected).find(is_it);
    let found = found.or_else(|| find_by_build_id(build_id, roots))?;
    fs::canonicalize(found).ok()
}

fn find_by_build_id(build_id: &[u8], roots: &[PathBuf]) -> Option<PathBuf> {
    let [first, rest @ ..] = build_id else { return None };
    if rest.is_empty() {
        return None;
    }
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = format!(".build-id/{first:02x}/{rest}.debug");
    roots.iter().map(|root| root.join(&name)).find(|candidate| {
        open_regular(candidate).is_ok_and(|file| ElfIdentity::of(&file).build_id == build_id)
    })
}

/// Opens a file that can be copied: anything else under that name has no content to speak of.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Opening a device may do something, and opening a pipe waits for a writer. Something else may be there in a moment.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(file)
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

/// More than the headers and notes of anything real.
const READ_LIMIT: u64 = 64 << 20;

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
