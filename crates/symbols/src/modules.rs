//! Which file is mapped where, and when.
//!
//! The log tells of every mapping at its time. It is read only as far as the latest time that was asked about, so that
//! following a run from its start costs no look ahead; what was read is kept as pieces of address space with the
//! times between which they hold a file.
//!
//! A forked process begins with what its parent had. Its log lists those mappings again, without their files.
//!
//! Invariants: the pieces in `current` do not overlap; a piece in `past` is over by the time that was read up to;
//! memory is bounded by [`PIECES_LIMIT`] and [`FILES_LIMIT`] whatever the log.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use retro_abi::channel::Stream;
use retro_abi::log::{Event, MapKind};
use retro_recording::Recording;

use crate::object_file::Rights;

/// Pieces that are remembered.
const PIECES_LIMIT: usize = 1 << 16;

/// Files that are remembered.
const FILES_LIMIT: usize = 1 << 16;

const PROT_WRITE: u32 = 2;
const PROT_EXEC: u32 = 4;

/// A file as it was when it was mapped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct MappedFile {
    pub(crate) path: PathBuf,
    pub(crate) build_id: Vec<u8>,
    pub(crate) size: u64,
    pub(crate) modified: (i64, u32),
}

/// A part of the address space that holds a file for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) from: u64,
    /// The first time at which it is gone; `u64::MAX` if that is not known to happen.
    pub(crate) until: u64,
    pub(crate) file: Arc<MappedFile>,
    /// Where the whole mapping began, of which this is a part.
    pub(crate) map_start: u64,
    /// What of the file was there.
    pub(crate) map_offset: u64,
    /// The rights that it began with.
    pub(crate) rights: Rights,
}

impl Piece {
    fn holds(&self, time: u64, address: u64) -> bool {
        (self.from..self.until).contains(&time) && (self.start..self.end).contains(&address)
    }
}

/// What is mapped at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mapped {
    /// A file.
    File(Piece),
    /// No file, until that time at least. Below, the nearest file begins with `below`.
    Nothing { until: u64, below: Option<Piece> },
}

/// The mappings of one log.
pub(crate) struct Modules {
    recording: Arc<Recording>,
    log: u64,
    /// How many segments were read.
    read: usize,
    files: Files,
    current: BTreeMap<u64, Piece>,
    past: Vec<Piece>,
    /// The process began as a copy, and its log still lists what was copied.
    lists_copies: bool,
    /// Counts changes, for those who keep answers.
    pub(crate) changes: u64,
}

/// The log and the time of it that a forked process began from.
pub(crate) fn inherited_from(recording: &Recording, log: u64) -> Option<(u64, u64)> {
    let first = recording.segments(log, Stream::Code).first()?;
    let chunk = recording.read_chunk(first).ok()?;
    match chunk.events().next()?.ok()?.1 {
        // Lower numbers only, so that following them comes to an end.
        Event::Inherit { log: parent, time } if parent < log => Some((parent, time)),
        _ => None,
    }
}

impl Modules {
    /// Of a log that begins with these pieces.
    pub(crate) fn new(recording: &Arc<Recording>, log: u64, inherited: Vec<Piece>) -> Modules {
        let begin = |piece: Piece| (piece.start, Piece { from: 0, until: u64::MAX, ..piece });
        Modules {
            recording: Arc::clone(recording),
            log,
            read: 0,
            files: Files { recording: Arc::clone(recording), log, read: 0, known: HashMap::new() },
            lists_copies: !inherited.is_empty(),
            current: inherited.into_iter().map(begin).collect(),
            past: Vec::new(),
            changes: 0,
        }
    }

    /// Reads on until everything up to a time is known.
    pub(crate) fn read_to(&mut self, time: u64) {
        let recording = Arc::clone(&self.recording);
        while let Some(segment) = recording.segments(self.log, Stream::Main).get(self.read)
            && segment.base_time <= time
        {
            self.read += 1;
            // Damage is for those to tell who are asked for the log itself; here it costs names.
            if let Ok(chunk) = recording.read_chunk(segment) {
                chunk.events().flatten().for_each(|(time, event)| self.take(time, &event));
            }
        }
    }

    /// What is mapped at an address, of what was read.
    pub(crate) fn find(&self, time: u64, address: u64) -> Mapped {
        let near = self.current.range(..=address).next_back().map(|(_, piece)| piece);
        let covering = self.past.iter().chain(near).filter(|p| (p.start..p.end).contains(&address));
        let mut until = u64::MAX;
        for piece in covering {
            if piece.holds(time, address) {
                return Mapped::File(piece.clone());
            }
            if piece.from > time {
                until = until.min(piece.from);
            }
        }
        Mapped::Nothing { until, below: near.filter(|piece| piece.from <= time).cloned() }
    }

    /// All pieces at a time, of what was read.
    pub(crate) fn pieces_at(&self, time: u64) -> Vec<Piece> {
        let all = self.past.iter().chain(self.current.values());
        all.filter(|piece| piece.holds(time, piece.start)).cloned().collect()
    }

    fn take(&mut self, time: u64, event: &Event) {
        match *event {
            Event::Interval { .. } => self.lists_copies = false,
            Event::Map { kind, start, len, prot, file, offset, .. } => {
                let end = start.saturating_add(len);
                match kind {
                    MapKind::Protect | MapKind::Discard => {}
                    MapKind::Unmap => self.remove(time, start, end),
                    MapKind::Move => self.copy(time, offset, start, end),
                    MapKind::Map if file == 0 && self.lists_copies => {}
                    MapKind::Map => {
                        self.remove(time, start, end);
                        if let Some(file) = file.checked_sub(1).and_then(|n| self.files.find(n)) {
                            let rights = Rights {
                                write: prot & PROT_WRITE != 0,
                                execute: prot & PROT_EXEC != 0,
                            };
                            self.insert(Piece {
                                start,
                                end,
                                from: time,
                                until: u64::MAX,
                                file,
                                map_start: start,
                                map_offset: offset,
                                rights,
                            });
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn insert(&mut self, piece: Piece) {
        if piece.start < piece.end && self.current.len() < PIECES_LIMIT {
            self.current.insert(piece.start, piece);
            self.changes += 1;
        }
    }

    /// Takes the files out of a range; what is left of their mappings stays.
    fn remove(&mut self, time: u64, start: u64, end: u64) {
        let before = self.current.range(..start).next_back().map(|(&key, _)| key);
        let within = self.current.range(start..end.max(start)).map(|(&key, _)| key);
        let hit: Vec<u64> = before.into_iter().chain(within).collect();
        for key in hit {
            let Some(piece) = self.current.get(&key).filter(|piece| piece.end > start).cloned()
            else {
                continue;
            };
            self.current.remove(&key);
            self.insert(Piece { end: start.max(piece.start), ..piece.clone() });
            self.insert(Piece { start: end.min(piece.end), ..piece.clone() });
            let gone = Piece {
                start: start.max(piece.start),
                end: end.min(piece.end),
                until: time,
                ..piece
            };
            self.changes += 1;
            // What began at this very time was never seen by an instruction.
            if gone.from < time && self.past.len() < PIECES_LIMIT {
                self.past.push(gone);
            }
        }
    }

    /// Memory at `from` lies at `start` now, too.
    fn copy(&mut self, time: u64, from: u64, start: u64, end: u64) {
        let shift = start.wrapping_sub(from);
        let from_end = from.saturating_add(end - start.min(end));
        let copies: Vec<Piece> = (self.current.values())
            .filter(|piece| piece.start < from_end && from < piece.end)
            .map(|piece| Piece {
                start: piece.start.max(from).wrapping_add(shift),
                end: piece.end.min(from_end).wrapping_add(shift),
                from: time,
                map_start: piece.map_start.wrapping_add(shift),
                ..piece.clone()
            })
            .collect();
        self.remove(time, start, end);
        copies.into_iter().for_each(|piece| self.insert(piece));
    }
}

/// The files of one log by number. They are in its other stream, which is read only as far as it takes.
struct Files {
    recording: Arc<Recording>,
    log: u64,
    /// How many segments were read.
    read: usize,
    known: HashMap<u64, Arc<MappedFile>>,
}

impl Files {
    fn find(&mut self, number: u64) -> Option<Arc<MappedFile>> {
        let recording = Arc::clone(&self.recording);
        while !self.known.contains_key(&number) {
            let segment = recording.segments(self.log, Stream::Code).get(self.read)?;
            self.read += 1;
            if let Ok(chunk) = recording.read_chunk(segment) {
                chunk.events().flatten().for_each(|(_, event)| self.take(&event));
            }
        }
        self.known.get(&number).cloned()
    }

    fn take(&mut self, event: &Event) {
        if let Event::File {
            number,
            size,
            modified_seconds,
            modified_nanoseconds,
            build_id,
            path,
            ..
        } = *event
            && self.known.len() < FILES_LIMIT
        {
            let file = MappedFile {
                path: PathBuf::from(OsStr::from_bytes(path)),
                build_id: build_id.to_vec(),
                size,
                modified: (modified_seconds, modified_nanoseconds),
            };
            self.known.insert(number, Arc::new(file));
        }
    }
}
