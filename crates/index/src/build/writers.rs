//! Storing what windows tell, in all files of a volume.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

use retro_recording::Directory;
use retro_replayer::PAGE_SIZE;

use super::known::Known;
use super::window::{Replaced, WindowData, Written};
use crate::call_tree::{CallTreeWriter, Columns};
use crate::manifest::Manifest;
use crate::page_versions::{KNOWN_SIZE, PageVersions, PageVersionsWriter};
use crate::pieces::PieceWriter;
use crate::set_tree::{FANOUT, SetKind, SetTreeWriter};
use crate::windows::{WindowTable, WindowWriter};
use crate::{Error, volume};

/// A commit at least so often, at the next multiple of [`FANOUT`] windows.
const COMMIT_EVERY: Duration = Duration::from_secs(5);

/// All files of a volume.
pub(super) struct Writers {
    directory: Directory,
    pub(super) manifest: Manifest,
    windows: WindowWriter,
    pages: PageVersionsWriter,
    words: SetTreeWriter,
    code: SetTreeWriter,
    pieces: PieceWriter,
    calls: CallTreeWriter,
    known: Known,
    /// Words and code of what happened at the very start, which count for the first window.
    first: Option<WindowData>,
}

impl Writers {
    pub(super) fn open(directory: &Directory, manifest: Manifest) -> Result<Writers, Error> {
        let file = |name: &str| directory.named(name);
        let columns = Columns::default();
        let (known, first) = (Known::default(), None);
        if manifest.windows == 0 {
            return Ok(Writers {
                directory: directory.clone(),
                manifest,
                windows: WindowWriter::create(&file("windows"))?,
                pages: PageVersionsWriter::create(directory)?,
                words: SetTreeWriter::create(&file("words"), SetKind::Plain)?,
                code: SetTreeWriter::create(&file("code"), SetKind::Counted)?,
                pieces: PieceWriter::create(&file("pieces"))?,
                calls: CallTreeWriter::create(&file("calls"), columns)?,
                known,
                first,
            });
        }
        let writers = Writers {
            directory: directory.clone(),
            manifest,
            windows: WindowWriter::resume(&file("windows"), manifest.window_table)?,
            pages: PageVersionsWriter::resume(directory, manifest.pages)?,
            words: SetTreeWriter::resume(&file("words"), SetKind::Plain, manifest.words)?,
            code: SetTreeWriter::resume(&file("code"), SetKind::Counted, manifest.code)?,
            pieces: PieceWriter::resume(&file("pieces"), manifest.pieces)?,
            calls: CallTreeWriter::reopen(&file("calls"), manifest.calls, columns)?,
            known,
            first,
        };
        Ok(writers)
    }

    /// Where to go on, if windows are there already.
    pub(super) fn resume_at(&self) -> Result<Option<retro_replayer::Start>, Error> {
        let window = self.manifest.windows;
        if window == 0 {
            return Ok(None);
        }
        let table =
            WindowTable::open(&self.directory.named("windows"), self.manifest.window_table, 0)?;
        let snapshot = table.snapshot(window)?.ok_or(Error::NoWindow(window))?;
        let pages = PageVersions::open(&self.directory, self.manifest.pages, 16 << 20)?;
        Ok(Some(volume::start(snapshot, &Arc::new(pages), window)))
    }

    pub(super) fn store_all(
        mut self,
        receiver: Receiver<WindowData>,
        give_back: &SyncSender<WindowData>,
        mut running: u32,
    ) -> Result<Manifest, Error> {
        if self.manifest.windows > 0 {
            let pages = PageVersions::open(&self.directory, self.manifest.pages, 16 << 20)?;
            self.known.before = Some((pages, self.manifest.windows));
        }
        let mut committed = Instant::now();
        let mut is_complete = false;
        for data in receiver {
            is_complete = data.next.is_none();
            if let Some(stored) = self.store(data, &mut running)? {
                // Whoever has enough of them does not take it.
                let _ = give_back.try_send(stored);
            }
            let due = self.manifest.windows.is_multiple_of(FANOUT);
            if due && !is_complete && committed.elapsed() > COMMIT_EVERY {
                self.commit(false)?;
                committed = Instant::now();
            }
        }
        self.commit(is_complete)?;
        Ok(self.manifest)
    }

    /// Stores what a window has told, and gives it back if it is needed no more.
    fn store(
        &mut self,
        mut data: WindowData,
        running: &mut u32,
    ) -> Result<Option<WindowData>, Error> {
        // How much a window takes is decided by the recording, and need not have an end. It becomes several times smaller.
        self.directory.check_room((data.written.len() * size_of::<Written>() / 4) as u64)?;
        let is_start = self.windows.count() == 0;
        // Version 0 is of the start, which is no window.
        let version = if is_start { 0 } else { self.manifest.windows + 1 };
        for replaced in &data.replaced {
            match *replaced {
                Replaced::Cleared { start, end } => self.clear(version, start, end)?,
                Replaced::Moved { from, to, len } => self.move_known(version, from, to, len)?,
            }
        }
        for page in &data.written {
            let known = self.known.add(page.address, &page.known)?;
            self.pages.add(version, page.address, &page.bytes, &known)?;
        }
        if let Some(next) = &data.next {
            self.windows.append(next)?;
        }
        if is_start {
            self.first = Some(data);
            return Ok(None);
        }
        if let Some(first) = self.first.take() {
            self.store_calls(&first, running)?;
            data.written.extend(first.written);
        }
        self.store_words(&data.written)?;
        self.store_code(&data)?;
        self.store_calls(&data, running)?;
        self.calls.end_window()?;
        self.manifest.windows += 1;
        Ok(Some(data))
    }

    fn store_calls(&mut self, data: &WindowData, running: &mut u32) -> Result<(), Error> {
        let mut stored = 0;
        for &(before, thread) in &data.switches {
            self.calls.append(*running, data.time, &data.calls[stored..before])?;
            stored = before;
            *running = thread;
        }
        Ok(self.calls.append(*running, data.time, &data.calls[stored..])?)
    }

    /// Pages have become zero as far as the interval knows; a file may show there.
    fn clear(&mut self, version: u32, start: u64, end: u64) -> Result<(), Error> {
        for address in self.known.pages_in(start, end)? {
            self.replace(version, address, [0; KNOWN_SIZE])?;
        }
        Ok(())
    }

    /// Pages have moved to where others were cleared. Their contents come with what was written.
    fn move_known(&mut self, version: u32, from: u64, to: u64, len: u64) -> Result<(), Error> {
        let mut offsets = self.known.pages_in(to, to.saturating_add(len))?;
        offsets.iter_mut().for_each(|page| *page -= to);
        let moved = self.known.pages_in(from, from.saturating_add(len))?;
        offsets.extend(moved.into_iter().map(|page| page - from));
        offsets.sort_unstable();
        offsets.dedup();
        for offset in offsets {
            let known = self.known.add(from + offset, &[0; KNOWN_SIZE])?;
            self.replace(version, to + offset, known)?;
        }
        Ok(())
    }

    fn replace(
        &mut self,
        version: u32,
        address: u64,
        known: [u8; KNOWN_SIZE],
    ) -> Result<(), Error> {
        self.known.set(address, known);
        Ok(self.pages.add(version, address, &[0; PAGE_SIZE], &known)?)
    }

    fn store_words(&mut self, written: &[Written]) -> Result<(), Error> {
        let mut words: Vec<u64> = Vec::new();
        for page in written.iter() {
            let first = page.address / 8;
            for (index, &bits) in page.words.iter().enumerate().filter(|(_, bits)| **bits != 0) {
                let word = first + 8 * index as u64;
                words.extend((0..8).filter(|bit| bits >> bit & 1 != 0).map(|bit| word + bit));
            }
        }
        words.sort_unstable();
        words.dedup();
        let runs = words.chunk_by(|a, b| a + 1 == *b).map(|run| run[0]..run[run.len() - 1] + 1);
        Ok(self.words.append_runs(runs)?)
    }

    fn store_code(&mut self, data: &WindowData) -> Result<(), Error> {
        let mut counts: Vec<(u64, u32)> = data
            .executed
            .iter()
            .map(|piece| {
                let lengths = &data.lengths[piece.lengths.clone()];
                let number = self.pieces.number(piece.pc, lengths, piece.enters);
                (number.into(), piece.times)
            })
            .collect();
        counts.sort_unstable();
        counts.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                earlier.1 = earlier.1.saturating_add(later.1);
            }
            same
        });
        Ok(self.code.append_counted(counts)?)
    }

    fn commit(&mut self, is_complete: bool) -> Result<(), Error> {
        let versions = self.manifest.windows + 1;
        self.manifest.window_table = self.windows.commit()?;
        self.manifest.pieces = self.pieces.commit()?;
        self.manifest.calls = self.calls.commit()?;
        if is_complete {
            self.manifest.pages = self.pages.finish(versions)?;
            self.manifest.words = self.words.finish()?;
            self.manifest.code = self.code.finish()?;
            self.manifest.has_all_windows = true;
        } else {
            self.manifest.pages = self.pages.commit(versions)?;
            self.manifest.words = self.words.commit()?;
            self.manifest.code = self.code.commit()?;
        }
        if self.manifest.is_worth_syncing() {
            self.windows.sync()?;
            self.pages.sync()?;
            self.words.sync()?;
            self.code.sync()?;
            self.pieces.sync()?;
            self.calls.sync()?;
        }
        self.manifest.store(&self.directory)
    }
}
