//! Appending to a log so that whatever happens, all whole segments stay readable.
//!
//! Invariants:
//! 1. Between calls the file holds the header and whole segments, nothing else. A write that fails, as on a
//!    full disk, is undone by cutting the file; if that fails too, the writer refuses all further work.
//! 2. The chunks of each stream are appended in the order of their sequence numbers, without gaps.
//! 3. The file stays locked (`flock`) while the writer lives: that is how readers know that a recording which
//!    has no end is still being written.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use nix::sys::stat::{Mode, fchmod};
use retro_abi::channel::Stream;

use crate::header::{FileHeader, HEAD_LIMIT, SegmentKind};
use crate::{Directory, EncodedSegment, Error, Head, LOG_NAME};

/// Where a log is written to; a file, or in tests something that fails.
pub trait Storage {
    /// Appends some of the bytes and says how many, as `write(2)`.
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Cuts the file to a length.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// Brings everything to the disk.
    fn sync(&mut self) -> io::Result<()>;
}

/// The file must be open for appending, so that what is written after a truncation follows directly.
impl Storage for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write(bytes)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Writes a log.
#[derive(Debug)]
pub struct Writer<S = File> {
    storage: S,
    /// Length of the file, all whole segments.
    length: u64,
    /// The sequence number that is due in each stream that has begun.
    due: HashMap<(u64, Stream), u64>,
    poisoned: bool,
}

impl Writer<File> {
    /// Begins a recording in a directory that does not exist yet or is empty.
    pub fn create(directory: &Path, head: &Head) -> Result<Writer, Error> {
        Writer::create_in(&new_directory(directory)?, head)
    }

    /// Begins a recording in an empty directory of [`new_directory`].
    pub fn create_in(directory: &Directory, head: &Head) -> Result<Writer, Error> {
        let failed = || Error::io("create", directory.path_of(LOG_NAME));
        // Whoever looks finds no log, or one that has a header.
        let new = Directory::new_name();
        let file = directory.new_log(&new).map_err(failed())?;
        // Some network file systems have no locks; then a running recording looks interrupted.
        let _ = file.lock();
        let written = Writer::on_storage(file, head).and_then(|writer| {
            if directory.has(LOG_NAME) {
                return Err(Error::NotEmpty(directory.path().to_path_buf()));
            }
            directory.rename(&new, LOG_NAME).map_err(failed())?;
            Ok(writer)
        });
        if written.is_err() {
            let _ = directory.remove_file(&new);
        }
        written
    }
}

/// A directory for a recording, which does not exist yet or is empty. Only this user can look into it.
pub fn new_directory(path: &Path) -> Result<Directory, Error> {
    match Directory::create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => take_empty(path),
        made => made.map_err(Error::io("create", path)),
    }
}

/// Makes an existing directory fit for a recording.
fn take_empty(path: &Path) -> Result<Directory, Error> {
    let directory = Directory::open(path).map_err(Error::io("open", path))?;
    if !directory.names().map_err(Error::io("read", path))?.is_empty() {
        return Err(Error::NotEmpty(path.to_path_buf()));
    }
    fchmod(&directory, Mode::S_IRWXU)
        .map_err(|errno| Error::io("restrict access to", path)(errno.into()))?;
    Ok(directory)
}

impl<S: Storage> Writer<S> {
    /// Begins a log on empty storage.
    pub fn on_storage(storage: S, head: &Head) -> Result<Writer<S>, Error> {
        let payload = head.encode();
        if payload.len() > HEAD_LIMIT {
            return Err(Error::HeadTooLarge { length: payload.len(), limit: HEAD_LIMIT });
        }
        let header = FileHeader {
            head_length: payload.len() as u32,
            id: head.id,
            created_seconds: head.created_seconds,
            created_nanoseconds: head.created_nanoseconds,
            head_checksum: crc32fast::hash(&payload),
        };
        let mut writer = Writer { storage, length: 0, due: HashMap::new(), poisoned: false };
        writer.append_whole(&[&header.encode()[..], &payload].concat())?;
        Ok(writer)
    }

    /// Appends a segment. After an error the file is as it was before; unless the error is
    /// [`Error::Poisoned`] or an [`Error::Append`] followed by it, smaller segments may still fit.
    pub fn append(&mut self, segment: &EncodedSegment) -> Result<(), Error> {
        let header = segment.header();
        let SegmentKind::Chunk(stream) = header.kind else {
            return self.append_whole(segment.bytes());
        };
        let (log, found) = (header.log, header.sequence);
        let expected = self.due.get(&(log, stream)).copied().unwrap_or(0);
        if found != expected {
            return Err(Error::OutOfOrder { log, stream, expected, found });
        }
        self.append_whole(segment.bytes())?;
        self.due.insert((log, stream), expected + 1);
        Ok(())
    }

    /// Bytes written so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Waits until everything written is on the disk.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.storage.sync().map_err(Error::Append)
    }

    /// Appends all of the bytes or none.
    fn append_whole(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.poisoned {
            return Err(Error::Poisoned);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let failure = match self.storage.append(rest) {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(written) => {
                    rest = &rest[written..];
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            self.poisoned = self.storage.truncate(self.length).is_err();
            return Err(Error::Append(failure));
        }
        self.length += bytes.len() as u64;
        Ok(())
    }
}
