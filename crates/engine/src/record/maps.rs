//! Changes of the address space, in the log and in the shadow, and the identity of mapped files.

use super::{Recorder, shadow, with};
use crate::elf;
use crate::sys;
use alloc::vec::Vec;
use linux_raw_sys::general as c;
use retro_abi::channel::Stream;
use retro_abi::layout::GUEST_RANGES;
use retro_abi::log::{Event, MapKind};

/// The files that the process has mapped so far.
#[derive(Default)]
pub struct Files(Vec<Identity>);

#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, u32),
}

/// A file behind a mapping.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Its descriptor.
    pub fd: i32,
    /// Where in it the mapping begins.
    pub offset: u64,
}

/// New memory.
pub fn mapped(start: u64, len: u64, prot: u32, flags: u32, source: Option<Source>) {
    with(|recorder| {
        let file = source.map_or(0, |source| recorder.file(source.fd));
        let offset = source.map_or(0, |source| source.offset);
        clear(start, len);
        recorder.event(Event::Map { kind: MapKind::Map, start, len, prot, flags, file, offset });
    });
}

/// A change of whatever of a range can be the guest's: nothing keeps it from unmapping more.
fn change(kind: MapKind, start: u64, len: u64, prot: u32) {
    with(|recorder| {
        for (first, last) in GUEST_RANGES {
            let (start, end) = (start.max(first), (start + len).min(last));
            if start >= end {
                continue;
            }
            if kind != MapKind::Protect {
                clear(start, end - start);
            }
            recorder.log_map(kind, start, end - start, prot);
        }
    });
}

fn clear(start: u64, len: u64) {
    if shadow::covers(start, start + len) {
        shadow::clear(start, start + len);
    }
}

/// Memory went away.
pub fn unmapped(start: u64, len: u64) {
    change(MapKind::Unmap, start, len, 0);
}

/// Memory has other rights.
pub fn protected(start: u64, len: u64, prot: u32) {
    change(MapKind::Protect, start, len, prot);
}

/// Memory has lost its contents.
pub fn discarded(start: u64, len: u64) {
    change(MapKind::Discard, start, len, 0);
}

/// Memory lies elsewhere.
pub fn moved(from: u64, old_len: u64, to: u64, new_len: u64, prot: u32, keeps_old: bool) {
    with(|recorder| {
        if from == to {
            let (kind, start, len) = if new_len > old_len {
                (MapKind::Map, from + old_len, new_len - old_len)
            } else {
                (MapKind::Unmap, from + new_len, old_len - new_len)
            };
            if len != 0 {
                clear(start, len);
                recorder.log_map(kind, start, len, prot);
            }
            return;
        }
        let carried = old_len.min(new_len);
        clear(to, new_len);
        if carried != 0 && !keeps_old {
            shadow::relocate(from, to, carried);
        }
        recorder.log_map(MapKind::Map, to, new_len, prot);
        if keeps_old {
            return;
        }
        recorder.event(Event::Map {
            kind: MapKind::Move,
            start: to,
            len: carried,
            prot,
            flags: 0,
            file: 0,
            offset: from,
        });
        if old_len > carried {
            clear(from + carried, old_len - carried);
        }
        recorder.log_map(MapKind::Unmap, from, old_len, 0);
    });
}

impl Recorder {
    /// Logs a change that has nothing to do with a file.
    pub(super) fn log_map(&mut self, kind: MapKind, start: u64, len: u64, prot: u32) {
        self.event(Event::Map { kind, start, len, prot, flags: 0, file: 0, offset: 0 });
    }

    /// Number of an open file plus one, logged when it is new.
    fn file(&mut self, fd: i32) -> u64 {
        let Ok(status) = sys::file_status(fd) else { return 0 };
        let identity = Identity {
            device: status.st_dev,
            inode: status.st_ino,
            size: status.st_size as u64,
            modified: (status.st_mtime as i64, status.st_mtime_nsec as u32),
        };
        if let Some(known) = self.files.0.iter().position(|&f| f == identity) {
            return known as u64 + 1;
        }
        self.files.0.push(identity);
        let number = self.files.0.len() as u64 - 1;
        let link = alloc::format!("/proc/self/fd/{fd}\0");
        let mut buffer = [0u8; 4096];
        let path = sys::read_link(link.as_bytes(), &mut buffer).unwrap_or(b"");
        let mut head = alloc::vec![0u8; 8192];
        // Reading from a device may do something.
        let is_regular = status.st_mode & c::S_IFMT == c::S_IFREG;
        let len = if is_regular { sys::read_at(fd, &mut head, 0).unwrap_or(0) } else { 0 };
        let event = Event::File {
            number,
            device: identity.device,
            inode: identity.inode,
            size: identity.size,
            modified_seconds: identity.modified.0,
            modified_nanoseconds: identity.modified.1,
            build_id: elf::build_id(&head[..len]).unwrap_or(b""),
            path,
        };
        let time = self.time();
        self.writer.event(Stream::Code, time, &event, path.len() + 64);
        number + 1
    }

    /// Forgets which files were logged: a new log starts.
    pub(super) fn forget_files(&mut self) {
        self.files.0.clear();
    }
}
