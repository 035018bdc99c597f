//! One file to send to somebody: the log, the files that the run mapped, and their debug information.
//!
//! Replay needs none of the files, since executed code is in the log; symbols, sources and types do. They come
//! from the machine that recorded, where they may have been replaced since: each is compared with what the
//! log says of it, and left out, with the reason, if it is another one.

mod collect;
mod container;
pub mod debug_info;
mod unpack;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use collect::{Collection, Source, collect};
use container::{BLOCK_LIMIT, Member, MemberKind, PackHeader, PackWriter};
use debug_info::{DEBUG_ROOT, open_regular};
pub use unpack::unpack;

use crate::catalogue::{self, Role};
use crate::reader::open_log;
use crate::{Error, LOG_NAME, Recording};

/// What a pack holds, and what it lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackReport {
    /// Files that the run mapped, and debug information.
    pub packed: Vec<PackedFile>,
    /// Files that the run mapped and that are not in the pack.
    pub left_out: Vec<LeftOut>,
    /// Bytes of the pack.
    pub bytes: u64,
}

/// A file in a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedFile {
    /// Where it was.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Whether it is debug information of another file.
    pub debug: bool,
}

/// A file that is not in a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Where it was.
    pub path: PathBuf,
    /// Why it could not be packed.
    pub reason: String,
}

/// Packs a recording and the files that it mapped into a new file.
pub fn pack(recording: &Recording, output: &Path) -> Result<PackReport, Error> {
    pack_with_debug_from(recording, output, &[PathBuf::from(DEBUG_ROOT)])
}

/// As [`pack`], with debug information from other places than `/usr/lib/debug`.
pub fn pack_with_debug_from(
    recording: &Recording,
    output: &Path,
    debug_roots: &[PathBuf],
) -> Result<PackReport, Error> {
    let collection = collect(recording, debug_roots);
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(output);
    let file = match created {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Error::Exists(output.to_path_buf()));
        }
        created => created.map_err(Error::io("create", output))?,
    };
    match write_pack(recording, &collection, file, output) {
        Ok(bytes) => Ok(report(collection, bytes)),
        Err(error) => {
            // Half a pack is of no use; that it cannot even be removed changes nothing about the error.
            let _ = fs::remove_file(output);
            Err(error)
        }
    }
}

fn report(collection: Collection, bytes: u64) -> PackReport {
    let packed = collection.entries.into_iter().map(|entry| PackedFile {
        path: entry.path,
        bytes: entry.size,
        debug: entry.role != Role::Mapped,
    });
    PackReport { packed: packed.collect(), left_out: collection.left_out, bytes }
}

fn write_pack(
    recording: &Recording,
    collection: &Collection,
    output: File,
    path: &Path,
) -> Result<u64, Error> {
    let log_path = recording.directory().join(LOG_NAME);
    let list = catalogue::encode(&collection.entries);
    let sizes = collection.sources.iter().fold(0u64, |sum, source| sum.saturating_add(source.size));
    let header = PackHeader {
        id: recording.head().id,
        members: 2 + collection.sources.len() as u32,
        total: (recording.log_bytes() + list.len() as u64).saturating_add(sizes),
    };
    let failed = |error| Error::io("write", path)(error);
    let mut writer = PackWriter::begin(BufWriter::new(output), &header).map_err(failed)?;

    let log = open_log(recording.root())?;
    let member = Member { kind: MemberKind::Log, length: recording.log_bytes() };
    writer.member(&member).map_err(failed)?;
    copy(log, &log_path, member.length, &mut writer, path)?;

    let member = Member { kind: MemberKind::Catalogue, length: list.len() as u64 };
    writer.member(&member).map_err(failed)?;
    for block in list.chunks(BLOCK_LIMIT) {
        writer.data(block).map_err(failed)?;
    }

    for (number, source) in (0..).zip(&collection.sources) {
        let file = open_unchanged(source)?;
        let again = file.try_clone().map_err(Error::io("open", &source.path))?;
        let member = Member { kind: MemberKind::File(number), length: source.size };
        writer.member(&member).map_err(failed)?;
        copy(file, &source.path, source.size, &mut writer, path)?;
        check_source(source, &again)?;
    }
    writer.finish().map_err(failed)
}

/// Copies exactly so many bytes: what a recorder appends meanwhile is not part of the pack.
fn copy(
    mut input: File,
    input_path: &Path,
    length: u64,
    writer: &mut PackWriter<BufWriter<File>>,
    output_path: &Path,
) -> Result<(), Error> {
    let mut buffer = vec![0; BLOCK_LIMIT];
    let mut left = length;
    while left > 0 {
        let block = &mut buffer[..left.min(BLOCK_LIMIT as u64) as usize];
        input.read_exact(block).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Error::ChangedWhilePacking(input_path.to_path_buf()),
            _ => Error::io("read", input_path)(error),
        })?;
        writer.data(block).map_err(Error::io("write", output_path))?;
        left -= block.len() as u64;
    }
    Ok(())
}

fn open_unchanged(source: &Source) -> Result<File, Error> {
    let opened = match &source.copied {
        Some(copied) => copied.open(),
        None => open_regular(&source.path),
    };
    let file = opened.map_err(Error::io("open", &source.path))?;
    check_source(source, &file)?;
    Ok(file)
}

fn check_source(source: &Source, file: &File) -> Result<(), Error> {
    let metadata = file.metadata().map_err(Error::io("read", &source.path))?;
    let modified = (metadata.mtime(), metadata.mtime_nsec());
    if (metadata.len(), modified) != (source.size, source.modified) {
        return Err(Error::ChangedWhilePacking(source.path.clone()));
    }
    Ok(())
}
