//! A volume: the index of one interval of one log, open for questions.
//!
//! Intervals replay alone, so they are indexed alone: in parallel, in any order, and as soon as the recorder has
//! begun the next. Everything here is about one interval; what spans several is put together by those who ask.
//!
//! ```text
//! INDEX/LOG-INTERVAL/manifest        what is complete
//!                    windows         when windows begin, and their threads
//!                    pages, changed-pages   versions of pages, as of the starts of windows
//!                    words           tree of sets: words of eight bytes that windows wrote, by number
//!                    code, pieces    tree of counted sets: pieces of code that windows executed; the pieces
//!                    calls           parentheses of every thread
//!                    rows, row-kinds system calls, signals, mappings …; tree of counted sets of their kinds
//!                    reads           tree of sets: words that windows read (if wanted)
//! ```
//!
//! Version `n` of a page is that at the start of window `n`: version 0 is that at the start of the interval.

use std::io;
use std::sync::Arc;

use retro_abi::replay::PIECE;
use retro_recording::Directory;
use retro_replayer::{Memory, PAGE_SIZE, Piece as MemoryPiece, Snapshot, Start};

use crate::call_tree::CallTree;
use crate::events::RowTable;
use crate::manifest::Manifest;
use crate::page_versions::{PageVersion, PageVersions};
use crate::pieces::Pieces;
use crate::set_tree::{SetKind, SetTree};
use crate::windows::WindowTable;
use crate::{Error, place};

/// The index of an interval.
#[derive(Debug)]
pub struct Volume {
    /// The log.
    pub log: u64,
    /// The interval.
    pub interval: u64,
    /// When it begins.
    pub start: u64,
    /// When it ends.
    pub end: u64,
    /// When windows begin.
    pub windows: WindowTable,
    /// Contents of memory.
    pub pages: Arc<PageVersions>,
    /// Written words, by number.
    pub words: SetTree,
    /// Executed pieces of code, by number.
    pub code: SetTree,
    /// What they are.
    pub pieces: Pieces,
    /// Calls and returns.
    pub calls: CallTree,
    /// System calls and the like.
    pub rows: RowTable,
    /// Kinds of these.
    pub row_kinds: SetTree,
    /// Words that were read, by number, if that was wanted.
    pub reads: Option<SetTree>,
}

impl Volume {
    /// Opens a volume that is complete; none if it is not. It may keep so many bytes of what it has read.
    pub fn open(
        index: &Directory,
        log: u64,
        interval: u64,
        memory: usize,
    ) -> Result<Option<Volume>, Error> {
        let Some(directory) = place::volume(Some(index), log, interval)? else { return Ok(None) };
        let Some(manifest) = Manifest::load(&directory)?.filter(|manifest| manifest.is_complete)
        else {
            return Ok(None);
        };
        let tree = |name: &str, kind: SetKind, committed: u64| {
            SetTree::open(&directory.named(name), kind, committed, memory / 8)
        };
        let pages = PageVersions::open(&directory, manifest.pages, memory / 2)?;
        Ok(Some(Volume {
            log,
            interval,
            start: manifest.start,
            end: manifest.end,
            windows: WindowTable::open(
                &directory.named("windows"),
                manifest.window_table,
                memory / 16,
            )?,
            pages: Arc::new(pages),
            words: tree("words", SetKind::Plain, manifest.words)?,
            code: tree("code", SetKind::Counted, manifest.code)?,
            pieces: Pieces::open(&directory.named("pieces"), manifest.pieces)?,
            calls: CallTree::open_with_cache(
                &directory.named("calls"),
                manifest.calls,
                memory / 16,
            )?,
            rows: RowTable::open(&directory.named("rows"), manifest.rows)?,
            row_kinds: tree("row-kinds", SetKind::Counted, manifest.row_kinds)?,
            reads: match manifest.reads {
                0 => None,
                committed => Some(tree("reads", SetKind::Plain, committed)?),
            },
        }))
    }

    /// When a window begins and ends.
    pub fn window_range(&self, window: u32) -> std::ops::Range<u64> {
        let start = self.windows.start(window).unwrap_or(self.end);
        start..self.windows.start(window + 1).unwrap_or(self.end)
    }

    /// The window in which the instruction at a time is.
    pub fn window_of(&self, time: u64) -> u32 {
        self.windows.window_of(time)
    }

    /// What a session needs to start at a window.
    pub fn start_of(&self, window: u32) -> Result<Start, Error> {
        let snapshot = self.windows.snapshot(window)?.ok_or(Error::NoWindow(window))?;
        Ok(start(snapshot, &self.pages, window))
    }

    /// A page at the start of a window, as far as the interval knows it.
    pub fn page(&self, address: u64, window: u32) -> Result<Option<Arc<PageVersion>>, Error> {
        Ok(self.pages.page(address, window)?)
    }
}

/// Bytes that all files in the directory of a volume take.
pub(crate) fn stored_bytes(volume: &Directory) -> u64 {
    let names = volume.names().unwrap_or_default().into_iter();
    let lengths = names.filter_map(|name| Some(volume.status(name).ok()?.length));
    lengths.fold(0, u64::saturating_add)
}

/// A start of a session with memory from page versions.
pub(crate) fn start(snapshot: Snapshot, pages: &Arc<PageVersions>, window: u32) -> Start {
    let memory = WindowMemory { pages: Arc::clone(pages), window };
    Start { snapshot: Arc::new(snapshot), memory: Arc::new(memory) }
}

/// Pieces that are sent before they are asked for.
const NEEDED_LIMIT: usize = 256;

/// Memory at the start of a window.
#[derive(Debug)]
struct WindowMemory {
    pages: Arc<PageVersions>,
    window: u32,
}

impl Memory for WindowMemory {
    fn piece(&self, address: u64) -> io::Result<MemoryPiece> {
        let first = address & !(PIECE - 1);
        let mut piece = MemoryPiece::default();
        for index in 0..PIECE / PAGE_SIZE as u64 {
            let page = self.pages.page(first + index * PAGE_SIZE as u64, self.window);
            if let Some(version) = page.map_err(io::Error::other)? {
                piece.mask |= 1 << index;
                piece.bytes.reserve_exact(PIECE as usize - piece.bytes.len());
                piece.bytes.extend_from_slice(&version.bytes[..]);
            }
        }
        Ok(piece)
    }

    /// Those that the window writes.
    fn needed_soon(&self) -> io::Result<Vec<u64>> {
        let window = self.window.saturating_add(1);
        let written = self.pages.changed(window..window.saturating_add(1));
        let mut pieces = Vec::new();
        for run in written.map_err(io::Error::other)? {
            let first =
                (run.start & !(PIECE - 1)).max(pieces.last().map_or(0, |last| last + PIECE));
            pieces.extend((first..run.end).step_by(PIECE as usize).take(NEEDED_LIMIT));
        }
        pieces.truncate(NEEDED_LIMIT);
        Ok(pieces)
    }
}
