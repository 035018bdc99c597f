//! What all questions go through: the files of a recording by time and address.
//!
//! Answers are kept for each log; the log is locked while an answer is looked up or while the recording is read further,
//! never while a file is read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use retro_recording::Recording;

use crate::debug_info::DebugInfo;
use crate::mapped_bytes::FileBytes;
use crate::modules::{Mapped, MappedFile, Modules, Piece, inherited_from};
use crate::object_file::ObjectFile;
use crate::place::{Function, Module, Place};
use crate::{files, lock};

/// Answers that are kept for a log.
const KEPT_LIMIT: usize = 1 << 16;

/// Files that are kept open, over all logs.
const FILES_LIMIT: usize = 1 << 12;

/// Modules are kept by pages of this size.
const PAGE_BITS: u32 = 12;

/// The names of a recording, for all threads that ask.
pub struct Symbols {
    recording: Arc<Recording>,
    logs: RwLock<HashMap<u64, Arc<Mutex<Log>>>>,
    files: Mutex<HashMap<Arc<MappedFile>, Arc<OnceLock<LoadedFile>>>>,
    /// Files whose bytes were asked for; none for those that are not there any more.
    pub(crate) bytes: Mutex<HashMap<Arc<MappedFile>, Option<Arc<FileBytes>>>>,
}

/// A file at its place in memory.
#[derive(Clone, Debug)]
pub struct LoadedModule {
    /// Which file it is.
    pub module: Arc<Module>,
    /// What is in it. None if it is not ELF, or not there any more.
    pub file: Option<Arc<ObjectFile>>,
    /// How far addresses in memory are from those in the file.
    pub bias: u64,
    /// Where it begins.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
}

impl LoadedModule {
    /// The address as the file counts.
    pub fn file_address(&self, address: u64) -> u64 {
        address.wrapping_sub(self.bias)
    }

    /// Its debug information.
    pub(crate) fn debug_info(&self) -> Option<&Arc<DebugInfo>> {
        self.file.as_ref()?.debug_info()
    }
}

pub(crate) struct Log {
    modules: Modules,
    places: HashMap<u64, Kept<Place>>,
    /// By page.
    loaded: HashMap<u64, Kept<Option<LoadedModule>>>,
    /// The number of changes of `modules` that all that is good for.
    changes: u64,
}

/// An answer, and from when until when it holds.
struct Kept<T> {
    from: u64,
    until: u64,
    answer: T,
}

impl<T: Clone> Kept<T> {
    fn at(&self, time: u64) -> Option<T> {
        (self.from..self.until).contains(&time).then(|| self.answer.clone())
    }
}

#[derive(Clone)]
struct LoadedFile {
    module: Arc<Module>,
    object: Option<Arc<ObjectFile>>,
}

impl Symbols {
    /// For all processes of a recording. Nothing is read yet.
    pub fn new(recording: impl Into<Arc<Recording>>) -> Symbols {
        Symbols {
            recording: recording.into(),
            logs: RwLock::default(),
            files: Mutex::default(),
            bytes: Mutex::default(),
        }
    }

    /// The recording.
    pub fn recording(&self) -> &Arc<Recording> {
        &self.recording
    }

    /// What an address of a process is called at a time.
    pub fn place(&self, log: u64, time: u64, address: u64) -> Place {
        let time = in_bounds(time);
        let opened = self.open(log);
        let (mapped, changes) = {
            let mut opened = lock(&opened);
            opened.read_to(time);
            if let Some(known) = opened.places.get(&address).and_then(|kept| kept.at(time)) {
                return known;
            }
            (opened.modules.find(time, address), opened.changes)
        };
        let kept = self.look_up(mapped, time, address);
        let place = kept.answer.clone();
        let mut opened = lock(&opened);
        if opened.changes == changes {
            opened.places.insert(address, kept);
        }
        place
    }

    /// The file that an address belongs to at a time.
    pub fn module_at(&self, log: u64, time: u64, address: u64) -> Option<LoadedModule> {
        let time = in_bounds(time);
        let page = address >> PAGE_BITS;
        let opened = self.open(log);
        let (mapped, changes) = {
            let mut opened = lock(&opened);
            opened.read_to(time);
            if let Some(known) = opened.loaded.get(&page).and_then(|kept| kept.at(time)) {
                return known;
            }
            (opened.modules.find(time, address), opened.changes)
        };
        let (from, until, answer) = match mapped {
            Mapped::File(piece) => (piece.from, piece.until, Some(self.loaded(&piece))),
            Mapped::Nothing { until, below } => {
                // Variables that begin as zeroes lie behind their file, in memory of their own.
                let below = below.map(|piece| self.loaded(&piece));
                let covers = |module: &LoadedModule| {
                    let file = module.file.as_ref();
                    file.is_some_and(|file| file.covers(module.file_address(address)))
                };
                (time, until, below.filter(covers))
            }
        };
        let mut opened = lock(&opened);
        // A page of which nothing is mapped may lie partly behind a file.
        if opened.changes == changes && answer.is_some() {
            opened.loaded.insert(page, Kept { from, until, answer: answer.clone() });
        }
        answer
    }

    /// All files that are mapped at a time, in the order of their addresses.
    pub fn modules_at(&self, log: u64, time: u64) -> Vec<LoadedModule> {
        let time = in_bounds(time);
        let opened = self.open(log);
        let pieces = {
            let mut opened = lock(&opened);
            opened.read_to(time);
            opened.modules.pieces_at(time)
        };
        let mut modules: Vec<LoadedModule> =
            pieces.iter().map(|piece| self.loaded(piece)).collect();
        modules.sort_by_key(|module| module.start);
        modules.dedup_by(|second, first| {
            let is_same = Arc::ptr_eq(&first.module, &second.module) && first.bias == second.bias;
            if is_same {
                first.end = first.end.max(second.end);
            }
            is_same
        });
        modules
    }

    /// Opens a log, and before it those that it began as a copy of.
    pub(crate) fn open(&self, log: u64) -> Arc<Mutex<Log>> {
        if let Some(known) = self.opened(log) {
            return known;
        }
        let mut chain = Vec::new();
        let mut next = log;
        while self.opened(next).is_none() {
            let parent = inherited_from(&self.recording, next);
            chain.push((next, parent));
            match parent {
                Some((parent, _)) => next = parent,
                None => break,
            }
        }
        for (log, parent) in chain.into_iter().rev() {
            let inherited = parent.and_then(|(parent, time)| {
                let parent = self.opened(parent)?;
                let modules = &mut lock(&parent).modules;
                modules.read_to(time);
                Some(modules.pieces_at(time))
            });
            let modules = Modules::new(&self.recording, log, inherited.unwrap_or_default());
            let opened = Log::new(modules);
            let mut logs = self.logs.write().unwrap_or_else(|poisoned| poisoned.into_inner());
            logs.entry(log).or_insert_with(|| Arc::new(Mutex::new(opened)));
        }
        // What was opened stays; this is for the case that it could not be.
        self.opened(log).unwrap_or_else(|| {
            Arc::new(Mutex::new(Log::new(Modules::new(&self.recording, log, Vec::new()))))
        })
    }

    fn opened(&self, log: u64) -> Option<Arc<Mutex<Log>>> {
        let logs = self.logs.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        logs.get(&log).cloned()
    }

    fn look_up(&self, mapped: Mapped, time: u64, address: u64) -> Kept<Place> {
        match mapped {
            Mapped::File(piece) => {
                let place = self.place_in(&piece, address, true);
                let answer = place.unwrap_or_else(|| Place::unnamed(address));
                Kept { from: piece.from, until: piece.until, answer }
            }
            Mapped::Nothing { until, below } => {
                // Variables that begin as zeroes lie behind their file, in memory of their own.
                let place = below.and_then(|piece| self.place_in(&piece, address, false));
                let answer = place.unwrap_or_else(|| Place::unnamed(address));
                Kept { from: time, until, answer }
            }
        }
    }

    /// The place of an address in a piece, or, if it need not be mapped, close behind it.
    fn place_in(&self, piece: &Piece, address: u64, is_mapped: bool) -> Option<Place> {
        let loaded = self.load(&piece.file);
        let in_file = address.wrapping_sub(piece.map_start).wrapping_add(piece.map_offset);
        let mut place = Place {
            address,
            module: Some(Arc::clone(&loaded.module)),
            offset: in_file,
            function: None,
            source: None,
        };
        let Some(object) = &loaded.object else { return is_mapped.then_some(place) };
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

    /// The whole module that a piece is a part of.
    fn loaded(&self, piece: &Piece) -> LoadedModule {
        let LoadedFile { module, object } = self.load(&piece.file);
        let bias = (object.as_ref())
            .and_then(|object| object.bias(piece.map_start, piece.map_offset, piece.rights));
        let Some((file, bias)) = object.zip(bias) else {
            let bias = piece.map_start.wrapping_sub(piece.map_offset);
            return LoadedModule { module, file: None, bias, start: piece.start, end: piece.end };
        };
        let (start, end) = file.extent();
        let (start, end) = (start.wrapping_add(bias), end.wrapping_add(bias));
        LoadedModule { module, file: Some(file), bias, start, end }
    }

    fn load(&self, file: &Arc<MappedFile>) -> LoadedFile {
        let slot = {
            let mut files = lock(&self.files);
            if files.len() > FILES_LIMIT {
                files.clear();
            }
            Arc::clone(files.entry(Arc::clone(file)).or_default())
        };
        let load = || {
            let (state, object) = files::load(&self.recording, file);
            LoadedFile { module: Arc::new(Module::new(file, state)), object: object.map(Arc::new) }
        };
        slot.get_or_init(load).clone()
    }
}

impl Log {
    pub(crate) fn find(&self, time: u64, address: u64) -> Mapped {
        self.modules.find(time, address)
    }

    fn new(modules: Modules) -> Log {
        Log { modules, places: HashMap::new(), loaded: HashMap::new(), changes: 0 }
    }

    /// Reads on until everything up to a time is known, and forgets answers that this may have changed.
    pub(crate) fn read_to(&mut self, time: u64) {
        self.modules.read_to(time);
        let is_full = self.places.len() > KEPT_LIMIT || self.loaded.len() > KEPT_LIMIT;
        if self.changes != self.modules.changes || is_full {
            self.places.clear();
            self.loaded.clear();
            self.changes = self.modules.changes;
        }
    }
}

/// The last number stands for "never" in the ends of mappings.
pub(crate) fn in_bounds(time: u64) -> u64 {
    time.min(u64::MAX - 1)
}
