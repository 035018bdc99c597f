//! Append-only files of checked frames, which everything of the index is stored in.
//!
//! The problem: an index is written for hours by a process that may be killed at any byte, on a disk that may fill
//! up, and is read at random places meanwhile and for years after. The strategy: a file is a head and frames; a frame
//! is written once and never changed; whoever coordinates the files of an index remembers, in its manifest, the length
//! up to which each of them was complete at one moment. What lies behind that length does not count: reading ignores
//! it and reopening cuts it off.
//!
//! ```text
//! file   "RETROIDX"  version: u32  tag: [u8; 4]  frame...
//! frame  length: u32  kind: u8  crc32: u32  bytes    (little-endian; the sum covers the position and all the rest)
//! ```
//!
//! Invariants:
//! 1. Bytes before the committed length are never written again, whatever fails.
//! 2. A frame whose sum is wrong is never handed out, and since the sum covers its position, neither is one that was
//!    moved.
//! 3. Reading allocates no more than the file has bytes, and at most [`FRAME_LIMIT`].
//!
//! Files are read with `pread` and never mapped: a file that shrinks or a disk that fails is an error, not a signal.

pub(crate) mod fields;
pub(crate) mod generations;
pub(crate) mod ledger;
pub(crate) mod packing;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use retro_recording::NamedFile;

const MAGIC: [u8; 8] = *b"RETROIDX";

/// Version of the format of all files of an index.
pub const VERSION: u32 = 2;

/// Length of what precedes the first frame: the committed length of a file without frames.
pub const HEAD_SIZE: u64 = 16;

/// Length of what precedes the bytes of a frame.
pub const FRAME_HEAD_SIZE: u64 = 9;

/// The most bytes in a frame.
pub const FRAME_LIMIT: usize = 64 << 20;

/// Appended frames are gathered up to this many bytes before they are written.
const BUFFER_SIZE: usize = 256 << 10;

/// What a file is for: part of its head, so that no file is taken for another.
pub type Tag = [u8; 4];

/// Why a file of frames could not be used.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The system refused an operation on a file.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file has another head.
    #[error("{} is not a {tag} file of an index: build the index again", path.display())]
    NotThisFile {
        /// The file.
        path: PathBuf,
        /// What it should be.
        tag: String,
    },
    /// The file was written by another version of retro.
    #[error("{} has format version {found}, but this retro reads version {VERSION}: build the index again", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The file has lost its end.
    #[error("{} has {found} bytes where {expected} were complete: build the index again", path.display())]
    TooShort {
        /// The file.
        path: PathBuf,
        /// Its length.
        found: u64,
        /// The length that was committed.
        expected: u64,
    },
    /// The contents of a file are not what was written.
    #[error("{} is damaged at byte {offset}: {reason}: build the index again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the frame begins.
        offset: u64,
        /// What is wrong.
        reason: &'static str,
    },
    /// More was appended at once than a frame may hold.
    #[error("{} bytes are too many for a frame of {}", .length, path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// How many bytes.
        length: usize,
    },
    /// An earlier write failed.
    #[error(
        "cannot write {} any more: an earlier write failed; reopen it to go on from what was complete", .0.display()
    )]
    Poisoned(PathBuf),
}

impl FrameError {
    /// Whether the file is not what was written.
    pub fn is_damage(&self) -> bool {
        match self {
            FrameError::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
            FrameError::TooLarge { .. } | FrameError::Poisoned(_) => false,
            _ => true,
        }
    }
}

/// A frame as it was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is, to those who wrote it.
    pub kind: u8,
    /// Its contents.
    pub bytes: Vec<u8>,
}

/// The committed part of a file, for reading at random by any number of threads.
#[derive(Clone, Debug)]
pub struct FrameFile {
    file: Arc<File>,
    path: Arc<Path>,
    length: u64,
}

impl FrameFile {
    /// Opens the part of a file that was complete when it had a length, as told by [`FrameWriter::commit`].
    pub fn open(place: &NamedFile, tag: Tag, committed: u64) -> Result<FrameFile, FrameError> {
        let path = place.path();
        let file = place.open().map_err(io_error("open", &path))?;
        FrameFile::check(file, &path, tag, committed)
    }

    fn check(file: File, path: &Path, tag: Tag, committed: u64) -> Result<FrameFile, FrameError> {
        let found = file.metadata().map_err(io_error("inspect", path))?.len();
        let expected = committed.max(HEAD_SIZE);
        if found < expected {
            return Err(FrameError::TooShort { path: path.into(), found, expected });
        }
        let mut head = [0; HEAD_SIZE as usize];
        file.read_exact_at(&mut head, 0).map_err(io_error("read", path))?;
        let version = [head[8], head[9], head[10], head[11]];
        if head[..8] != MAGIC || head[12..] != tag {
            let tag = tag.escape_ascii().to_string();
            return Err(FrameError::NotThisFile { path: path.into(), tag });
        }
        if version != VERSION.to_le_bytes() {
            return Err(FrameError::Version {
                path: path.into(),
                found: u32::from_le_bytes(version),
            });
        }
        Ok(FrameFile { file: Arc::new(file), path: path.into(), length: expected })
    }

    /// Reads all that was complete when a file of any kind had a length, and compares it with its checksums.
    pub fn check_sums(place: &NamedFile, committed: u64) -> Result<(), FrameError> {
        let path = place.path();
        let file = place.open().map_err(io_error("open", &path))?;
        let mut tag = Tag::default();
        let offset = HEAD_SIZE - tag.len() as u64;
        // A file that is too short for it is told below.
        let _ = file.read_exact_at(&mut tag, offset);
        let file = FrameFile::check(file, &path, tag, committed)?;
        let mut position = HEAD_SIZE;
        while position < file.length {
            position += FRAME_HEAD_SIZE + file.read(position)?.bytes.len() as u64;
        }
        Ok(())
    }

    /// Length of the part that counts.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The frame at a position that [`FrameWriter::append`] told.
    pub fn read(&self, position: u64) -> Result<Frame, FrameError> {
        let rest = self.length.checked_sub(position).filter(|_| position >= HEAD_SIZE);
        let room = rest.and_then(|rest| rest.checked_sub(FRAME_HEAD_SIZE));
        let room = room.ok_or_else(|| self.damaged(position, "no frame begins here"))?;
        let mut head = [0; FRAME_HEAD_SIZE as usize];
        self.read_at(&mut head, position)?;
        let [a, b, c, d, kind, sum @ ..] = head;
        let length = u32::from_le_bytes([a, b, c, d]);
        if u64::from(length) > room || length as usize > FRAME_LIMIT {
            return Err(self.damaged(position, "a frame reaches beyond the end"));
        }
        let mut bytes = vec![0; length as usize];
        self.read_at(&mut bytes, position + FRAME_HEAD_SIZE)?;
        if u32::from_le_bytes(sum) != checksum(position, kind, &bytes) {
            return Err(self.damaged(position, "the checksum of a frame is wrong"));
        }
        Ok(Frame { kind, bytes })
    }

    /// As [`FrameFile::read`], for a frame that can only be of one kind.
    pub fn read_kind(&self, position: u64, kind: u8) -> Result<Vec<u8>, FrameError> {
        let frame = self.read(position)?;
        if frame.kind != kind {
            return Err(self.damaged(position, "a frame is of another kind than expected"));
        }
        Ok(frame.bytes)
    }

    /// The error for contents that passed the checksum and still make no sense.
    pub fn damaged(&self, position: u64, reason: &'static str) -> FrameError {
        FrameError::Damaged { path: self.path.to_path_buf(), offset: position, reason }
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), FrameError> {
        self.file.read_exact_at(bytes, offset).map_err(io_error("read", &self.path))
    }
}

/// Appends frames to a file.
#[derive(Debug)]
pub struct FrameWriter {
    /// What is written so far, whether committed or not.
    written: FrameFile,
    /// Frames that are appended but not written.
    buffer: Vec<u8>,
    committed: u64,
    poisoned: bool,
}

impl FrameWriter {
    /// Begins a file. One that exists gives way; those who have it open keep it.
    pub fn create(place: &NamedFile, tag: Tag) -> Result<FrameWriter, FrameError> {
        let path = place.path();
        let file = place.create_anew().map_err(io_error("create", &path))?;
        let mut head = [0; HEAD_SIZE as usize];
        head[..8].copy_from_slice(&MAGIC);
        head[8..12].copy_from_slice(&VERSION.to_le_bytes());
        head[12..].copy_from_slice(&tag);
        file.write_all_at(&head, 0).map_err(io_error("write", &path))?;
        Ok(FrameWriter::on(FrameFile {
            file: Arc::new(file),
            path: path.into(),
            length: HEAD_SIZE,
        }))
    }

    /// Goes on with a file from the length that [`FrameWriter::commit`] told, cutting off what came after.
    pub fn reopen(place: &NamedFile, tag: Tag, committed: u64) -> Result<FrameWriter, FrameError> {
        let path = place.path();
        let file = place.open_to_change().map_err(io_error("open", &path))?;
        let written = FrameFile::check(file, &path, tag, committed)?;
        written.file.set_len(written.length).map_err(io_error("cut", &path))?;
        Ok(FrameWriter::on(written))
    }

    fn on(written: FrameFile) -> FrameWriter {
        let committed = written.length;
        FrameWriter { written, buffer: Vec::new(), committed, poisoned: false }
    }

    /// Where the next frame will be.
    pub fn position(&self) -> u64 {
        self.written.length + self.buffer.len() as u64
    }

    /// Appends a frame and tells its position. It may reach the file only with [`FrameWriter::commit`].
    pub fn append(&mut self, kind: u8, bytes: &[u8]) -> Result<u64, FrameError> {
        self.refuse_if_poisoned()?;
        if bytes.len() > FRAME_LIMIT {
            let (path, length) = (self.written.path.to_path_buf(), bytes.len());
            return Err(FrameError::TooLarge { path, length });
        }
        let position = self.position();
        self.buffer.extend((bytes.len() as u32).to_le_bytes());
        self.buffer.push(kind);
        self.buffer.extend(checksum(position, kind, bytes).to_le_bytes());
        self.buffer.extend(bytes);
        if self.buffer.len() >= BUFFER_SIZE {
            self.write_buffer()?;
        }
        Ok(position)
    }

    /// All that was appended, for reading.
    pub fn written(&mut self) -> Result<&FrameFile, FrameError> {
        self.refuse_if_poisoned()?;
        self.write_buffer()?;
        Ok(&self.written)
    }

    /// Makes what was appended readable by others and tells the length that a manifest has to remember.
    pub fn commit(&mut self) -> Result<u64, FrameError> {
        self.committed = self.written()?.length;
        Ok(self.committed)
    }

    /// Waits until everything committed is on the disk, so that it survives the loss of power.
    pub fn sync(&self) -> Result<(), FrameError> {
        self.written.file.sync_data().map_err(io_error("write", &self.written.path))
    }

    fn refuse_if_poisoned(&self) -> Result<(), FrameError> {
        if self.poisoned {
            return Err(FrameError::Poisoned(self.written.path.to_path_buf()));
        }
        Ok(())
    }

    fn write_buffer(&mut self) -> Result<(), FrameError> {
        let FrameFile { file, path, length } = &mut self.written;
        if let Err(error) = file.write_all_at(&self.buffer, *length) {
            self.poisoned = true;
            // Gives the room back on a full disk. If it fails, reopening does it.
            let _ = file.set_len(self.committed);
            return Err(io_error("write", path)(error));
        }
        *length += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

fn checksum(position: u64, kind: u8, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&position.to_le_bytes());
    hasher.update(&(bytes.len() as u32).to_le_bytes());
    hasher.update(&[kind]);
    hasher.update(bytes);
    hasher.finalize()
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FrameError {
    move |source| FrameError::Io { action, path: path.into(), source }
}

#[cfg(test)]
mod tests;
