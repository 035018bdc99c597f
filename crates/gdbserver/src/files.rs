//! Files as a client reads them: executables and libraries as they were recorded, and `/proc` of the process.
//!
//! Invariants: only files that the run mapped are served, and what belongs to them, so that no client reads other files of
//! this machine; nothing is written.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use retro_query::Error;
use retro_query::symbols::{Location, RecordedFile};

use crate::debuggee::Debuggee;
use crate::packet;
use crate::proc_files;
use crate::request::FileRequest;

/// Files that a client may have open.
const MOST_OPEN: usize = 256;

/// The protocol's numbers of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    NoSuchFile = 2,
    BadFile = 9,
    Denied = 13,
    Invalid = 22,
    TooMany = 24,
    ReadOnly = 30,
    Unknown = 9999,
}

/// An open file.
enum Open {
    File(File),
    Text(Vec<u8>),
}

/// The files of one client.
pub struct Files {
    debuggee: Debuggee,
    recorded: Option<Vec<RecordedFile>>,
    open: HashMap<u64, Open>,
    next: u64,
}

impl Files {
    /// None are open.
    pub fn new(debuggee: Debuggee) -> Files {
        Files { debuggee, recorded: None, open: HashMap::new(), next: 3 }
    }

    /// Answers a question at a time of the run.
    pub fn answer(&mut self, question: FileRequest, time: u64) -> Vec<u8> {
        self.try_answer(question, time)
            .unwrap_or_else(|refusal| format!("F-1,{:x}", refusal as u32).into_bytes())
    }

    fn try_answer(&mut self, question: FileRequest, time: u64) -> Result<Vec<u8>, Refusal> {
        match question {
            FileRequest::SetView => Ok(b"F0".to_vec()),
            FileRequest::Change => Err(Refusal::ReadOnly),
            FileRequest::Open(path, flags) => {
                const WRITING: u64 = 0x3;
                if flags & WRITING != 0 {
                    return Err(Refusal::ReadOnly);
                }
                if self.open.len() >= MOST_OPEN {
                    return Err(Refusal::TooMany);
                }
                let opened = self.find(&path, time)?;
                let number = self.next;
                self.next += 1;
                self.open.insert(number, opened);
                Ok(format!("F{number:x}").into_bytes())
            }
            FileRequest::Close(number) => {
                self.open.remove(&number).ok_or(Refusal::BadFile)?;
                Ok(b"F0".to_vec())
            }
            FileRequest::Read(number, len, offset) => {
                // Escapes may double the size.
                let len = len.min(packet::LONGEST as u64 / 2 - 16) as usize;
                let bytes = self.open.get(&number).ok_or(Refusal::BadFile)?.read(len, offset)?;
                Ok(with_attachment(bytes.len(), &bytes))
            }
            FileRequest::Properties(number) => {
                let bytes = self.open.get(&number).ok_or(Refusal::BadFile)?.properties()?;
                Ok(with_attachment(bytes.len(), &bytes))
            }
            FileRequest::ReadLink(path) => {
                let target = proc_files::link(&self.debuggee, &path).ok_or(Refusal::Invalid)?;
                Ok(with_attachment(target.len(), &target))
            }
        }
    }

    fn find(&mut self, path: &str, time: u64) -> Result<Open, Refusal> {
        match proc_files::contents(&self.debuggee, path, time) {
            Ok(Some(text)) => return Ok(Open::Text(text)),
            Ok(None) => {}
            Err(Error::NotIndexed { .. }) => return Err(Refusal::NoSuchFile),
            Err(_) => return Err(Refusal::Unknown),
        }
        let wanted = match proc_files::link(&self.debuggee, path) {
            Some(target) => Path::new(OsStr::from_bytes(&target)).to_owned(),
            None => Path::new(path).to_owned(),
        };
        let wanted = match self.debuggee.interpreter() {
            Ok(Some((name, file))) if name == wanted => file,
            _ => wanted,
        };
        let log = self.debuggee.process.log;
        let symbols = self.debuggee.run.symbols();
        let recorded = self.recorded.get_or_insert_with(|| symbols.recorded_files(log));
        let location = recorded.iter().find_map(|file| {
            let debug = [&file.debug, &file.shared_debug].into_iter().flatten();
            let is_debug = debug.clone().find(|debug| debug.path() == wanted);
            is_debug
                .map(|debug| Location::Copied(debug.clone()))
                .or_else(|| (file.path == wanted).then(|| file.location.clone().ok()).flatten())
        });
        let location = location.ok_or(Refusal::NoSuchFile)?;
        location.open().map(Open::File).map_err(|_| Refusal::Denied)
    }
}

impl Open {
    fn read(&self, len: usize, offset: u64) -> Result<Vec<u8>, Refusal> {
        match self {
            Open::Text(text) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
                Ok(text[start..start.saturating_add(len).min(text.len())].to_vec())
            }
            Open::File(file) => {
                let mut bytes = vec![0; len];
                let read = file.read_at(&mut bytes, offset).map_err(|_| Refusal::Unknown)?;
                bytes.truncate(read);
                Ok(bytes)
            }
        }
    }

    /// The protocol's `struct stat`, highest bytes first.
    fn properties(&self) -> Result<Vec<u8>, Refusal> {
        const REGULAR: u32 = 0o100_444;
        const UNIT: u64 = 4096;
        let (size, inode, modified) = match self {
            Open::Text(text) => (text.len() as u64, 0, 0),
            Open::File(file) => {
                let metadata = file.metadata().map_err(|_| Refusal::Unknown)?;
                (metadata.len(), metadata.ino(), metadata.mtime())
            }
        };
        let (device, links, user, group, special) = (0, 1, 0, 0, 0);
        let mut bytes = Vec::with_capacity(64);
        for number in [device, inode as u32, REGULAR, links, user, group, special] {
            bytes.extend(number.to_be_bytes());
        }
        for number in [size, UNIT, size.div_ceil(512)] {
            bytes.extend(number.to_be_bytes());
        }
        for _accessed_modified_changed in 0..3 {
            bytes.extend((modified as u32).to_be_bytes());
        }
        Ok(bytes)
    }
}

fn with_attachment(result: usize, bytes: &[u8]) -> Vec<u8> {
    [format!("F{result:x};").as_bytes(), bytes].concat()
}
