//! Names for the addresses of recorded processes: module, function, source line, at any time of the run.
//!
//! ```text
//! modules      which file is mapped where and when, from the log
//! files        those files on this machine or in the recording, if they are still the same
//! object_file  what an ELF file holds, with
//!   functions    its symbol tables,
//!   linkage      names for its stubs of other files' functions,
//!   lines        its line tables
//! demangle     names as they were in the source
//! ```
//!
//! Everything is read when it is asked for and kept. Answers are kept by address, so that asking for the same few
//! thousand addresses millions of times costs a look into a table each.
//!
//! Invariants: no recording and no ELF file makes this crate panic or hang, or take memory out of proportion; a
//! name comes from the very file that the run mapped, or there is none. Names are as the files have them: whoever
//! prints them must take care of the terminal.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod demangle;
mod files;
mod functions;
mod lines;
mod linkage;
mod modules;
mod object_file;
mod place;

use std::collections::HashMap;
use std::sync::Arc;

use retro_recording::Recording;

pub use files::FileState;
pub use lines::Source;
pub use place::{Function, Module, Place};

use modules::{Mapped, MappedFile, Modules, Piece, inherited_from};
use object_file::ObjectFile;

/// Answers that are kept for a log.
const KEPT_LIMIT: usize = 1 << 16;

/// Files that are kept open, over all logs.
const FILES_LIMIT: usize = 1 << 12;

/// The names of a recording.
pub struct Symbols<'a> {
    recording: &'a Recording,
    logs: HashMap<u64, Log<'a>>,
    files: HashMap<Arc<MappedFile>, LoadedFile>,
}

struct Log<'a> {
    modules: Modules<'a>,
    kept: HashMap<u64, Kept>,
    /// The number of changes of `modules` that `kept` is good for.
    changes: u64,
}

/// An answer, and from when until when it holds.
struct Kept {
    from: u64,
    until: u64,
    place: Place,
}

struct LoadedFile {
    module: Arc<Module>,
    object: Option<ObjectFile>,
}

impl<'a> Symbols<'a> {
    /// For all processes of a recording. Nothing is read yet.
    pub fn new(recording: &'a Recording) -> Symbols<'a> {
        Symbols { recording, logs: HashMap::new(), files: HashMap::new() }
    }

    /// What an address of a process is called at a time.
    pub fn place(&mut self, log: u64, time: u64, address: u64) -> Place {
        // The last number stands for "never" in the ends of mappings.
        let time = time.min(u64::MAX - 1);
        self.open(log);
        let Some(opened) = self.logs.get_mut(&log) else { return Place::unnamed(address) };
        opened.modules.read_to(time);
        if opened.changes != opened.modules.changes || opened.kept.len() > KEPT_LIMIT {
            opened.kept.clear();
            opened.changes = opened.modules.changes;
        }
        if let Some(kept) = opened.kept.get(&address)
            && (kept.from..kept.until).contains(&time)
        {
            return kept.place.clone();
        }
        let mapped = opened.modules.find(time, address);
        let kept = self.look_up(mapped, time, address);
        let place = kept.place.clone();
        if let Some(opened) = self.logs.get_mut(&log) {
            opened.kept.insert(address, kept);
        }
        place
    }

    /// Opens a log, and before it those that it began as a copy of.
    fn open(&mut self, log: u64) {
        let mut chain = Vec::new();
        let mut next = log;
        while !self.logs.contains_key(&next) {
            let parent = inherited_from(self.recording, next);
            chain.push((next, parent));
            match parent {
                Some((parent, _)) => next = parent,
                None => break,
            }
        }
        for (log, parent) in chain.into_iter().rev() {
            let inherited = parent.and_then(|(parent, time)| {
                let modules = &mut self.logs.get_mut(&parent)?.modules;
                modules.read_to(time);
                Some(modules.pieces_at(time))
            });
            let modules = Modules::new(self.recording, log, inherited.unwrap_or_default());
            self.logs.insert(log, Log { modules, kept: HashMap::new(), changes: 0 });
        }
    }

    fn look_up(&mut self, mapped: Mapped, time: u64, address: u64) -> Kept {
        match mapped {
            Mapped::File(piece) => {
                let place = self.place_in(&piece, address, true);
                let place = place.unwrap_or_else(|| Place::unnamed(address));
                Kept { from: piece.from, until: piece.until, place }
            }
            Mapped::Nothing { until, below } => {
                // Variables that begin as zeroes lie behind their file, in memory of their own.
                let place = below.and_then(|piece| self.place_in(&piece, address, false));
                let place = place.unwrap_or_else(|| Place::unnamed(address));
                Kept { from: time, until, place }
            }
        }
    }

    /// The place of an address in a piece, or, if it need not be mapped, close behind it.
    fn place_in(&mut self, piece: &Piece, address: u64, is_mapped: bool) -> Option<Place> {
        let loaded = self.load(&piece.file);
        let in_file = address.wrapping_sub(piece.map_start).wrapping_add(piece.map_offset);
        let mut place = Place {
            address,
            module: Some(Arc::clone(&loaded.module)),
            offset: in_file,
            function: None,
            source: None,
        };
        let Some(object) = &mut loaded.object else { return is_mapped.then_some(place) };
        let bias = object.bias(piece.map_start, piece.map_offset, piece.rights);
        let Some(bias) = bias else { return is_mapped.then_some(place) };
        let file_address = address.wrapping_sub(bias);
        if !object.covers(file_address) {
            return is_mapped.then_some(place);
        }
        place.offset = file_address;
        let function = object.function(file_address);
        place.function =
            function.map(|(start, name)| Function { name, offset: file_address - start });
        place.source = object.line(file_address);
        Some(place)
    }

    fn load(&mut self, file: &Arc<MappedFile>) -> &mut LoadedFile {
        if self.files.len() > FILES_LIMIT {
            self.files.clear();
        }
        let recording = self.recording;
        self.files.entry(Arc::clone(file)).or_insert_with(|| {
            let (state, object) = files::load(recording, file);
            LoadedFile { module: Arc::new(Module::new(&file.path, state)), object }
        })
    }
}
