//! Taking versions in, window by window.

use retro_recording::Directory;

use super::batch::{BatchBuilder, Known, NewVersion, Predecessor};
use super::store::{BatchEntry, load_batches, put_batch};
use super::{
    CHECKPOINT, Committed, KNOWN_SIZE, PAGE_SIZE, PageVersionsError, TAG, WHOLE, changed_file,
    contents_file, page_number,
};
use crate::frames::FrameWriter;
use crate::frames::generations::Generations;
use crate::frames::ledger::Ledger;
use crate::frames::packing::Packer;
use crate::set_tree::{SetKind, SetTreeWriter};

pub(super) const BATCH: u8 = 0;

/// Bytes of recently changed pages that are kept to compare with, if nothing else is said.
const RECENT_BYTES: usize = 256 << 20;

/// A version of a page.
struct Contents {
    window: u32,
    bytes: Box<[u8; PAGE_SIZE]>,
    known: Known,
}

/// The last version of a page.
struct Recent {
    last: Contents,
    /// How many versions since one that is whole.
    number: u8,
    /// The last version but the last one whose number is a multiple of [`CHECKPOINT`].
    checkpoint: Option<Contents>,
}

impl Recent {
    fn whole(contents: Contents) -> Recent {
        Recent { last: contents, number: 0, checkpoint: None }
    }

    /// What the next version is told from; `None` if it has to be whole.
    fn predecessor(&self, window: u32) -> Option<Predecessor<'_>> {
        // A version that was added in the same window is replaced, so nothing can be told from it.
        if self.number + 1 == WHOLE || self.last.window == window {
            return None;
        }
        let contents = match (self.number + 1) % CHECKPOINT {
            0 => self.checkpoint.as_ref()?,
            _ => &self.last,
        };
        let Contents { window, bytes, known } = contents;
        Some(Predecessor { window: *window, bytes, known })
    }

    fn push(&mut self, contents: Contents) {
        let last = std::mem::replace(&mut self.last, contents);
        if self.number.is_multiple_of(CHECKPOINT) {
            self.checkpoint = Some(last);
        }
        self.number += 1;
    }
}

/// Writes versions of pages.
pub struct PageVersionsWriter {
    contents: FrameWriter,
    ledger: Ledger,
    changed: SetTreeWriter,
    packer: Packer,
    /// The window that pages are being added to.
    window: u32,
    /// Its pages so far.
    pages: Vec<u64>,
    batch: BatchBuilder,
    last_batch: BatchEntry,
    recent: Generations<u64, Recent>,
}

impl PageVersionsWriter {
    /// Begins files in a directory.
    pub fn create(directory: &Directory) -> Result<PageVersionsWriter, PageVersionsError> {
        let contents = FrameWriter::create(&contents_file(directory), TAG)?;
        let changed = SetTreeWriter::create(&changed_file(directory), SetKind::Plain)?;
        Ok(PageVersionsWriter::on(contents, Ledger::default(), changed, BatchEntry::default()))
    }

    /// Goes on from a commit.
    pub fn resume(
        directory: &Directory,
        committed: Committed,
    ) -> Result<PageVersionsWriter, PageVersionsError> {
        let file = contents_file(directory);
        let mut contents = FrameWriter::reopen(&file, TAG, committed.contents)?;
        let (ledger, windows, batches) = load_batches(contents.written()?)?;
        let file = changed_file(directory);
        let changed = SetTreeWriter::resume(&file, SetKind::Plain, committed.changed)?;
        if changed.windows() != windows {
            return Err(PageVersionsError::Inconsistent);
        }
        let last_batch = batches.last().copied().unwrap_or_default();
        Ok(PageVersionsWriter::on(contents, ledger, changed, last_batch))
    }

    fn on(
        contents: FrameWriter,
        ledger: Ledger,
        changed: SetTreeWriter,
        last_batch: BatchEntry,
    ) -> PageVersionsWriter {
        PageVersionsWriter {
            contents,
            ledger,
            window: changed.windows(),
            changed,
            packer: Packer::new(),
            pages: Vec::new(),
            batch: BatchBuilder::default(),
            last_batch,
            recent: Generations::new(RECENT_BYTES),
        }
    }

    /// Compares with no more than so many bytes of recent pages, from now on.
    pub fn limit_memory(&mut self, bytes: usize) {
        self.recent = Generations::new(bytes);
    }

    /// Bytes of the files so far.
    pub fn bytes(&self) -> u64 {
        self.contents.position() + self.changed.bytes()
    }

    /// A page as of the end of a window, with a bit for each byte that is known. Windows come in order.
    pub fn add(
        &mut self,
        window: u32,
        address: u64,
        bytes: &[u8; PAGE_SIZE],
        known: &[u8; KNOWN_SIZE],
    ) -> Result<(), PageVersionsError> {
        let page = page_number(address)?;
        self.begin_window(window)?;
        let known = (known != &[0xff; KNOWN_SIZE]).then(|| Box::new(*known));
        let version = NewVersion { window, page, bytes, known: &known };
        let Some(recent) = self.recent.get(page) else {
            self.batch.add(version, None);
            let recent = Recent::whole(Contents { window, bytes: Box::new(*bytes), known });
            self.recent.insert(page, recent, 2 * (PAGE_SIZE + KNOWN_SIZE));
            return self.added(page);
        };
        if recent.last.known == known && *recent.last.bytes == *bytes {
            return Ok(());
        }
        let as_changes = self.batch.add(version, recent.predecessor(window));
        let contents = Contents { window, bytes: Box::new(*bytes), known };
        if as_changes {
            recent.push(contents);
        } else {
            *recent = Recent::whole(contents);
        }
        self.added(page)
    }

    /// Makes the windows before a number readable, all of whose pages were added.
    pub fn commit(&mut self, windows: u32) -> Result<Committed, PageVersionsError> {
        self.finish_windows(windows)?;
        let contents = self.ledger.commit(&mut self.contents, windows.into())?;
        Ok(Committed { contents, changed: self.changed.commit()? })
    }

    /// As [`PageVersionsWriter::commit`], when hardly anything will follow.
    pub fn finish(&mut self, windows: u32) -> Result<Committed, PageVersionsError> {
        self.finish_windows(windows)?;
        let contents = self.ledger.commit(&mut self.contents, windows.into())?;
        Ok(Committed { contents, changed: self.changed.finish()? })
    }

    /// Waits until what was committed is on the disk.
    pub fn sync(&self) -> Result<(), PageVersionsError> {
        self.contents.sync()?;
        Ok(self.changed.sync()?)
    }

    fn added(&mut self, page: u64) -> Result<(), PageVersionsError> {
        self.pages.push(page);
        if self.batch.is_complete() {
            self.write_batch()?;
        }
        Ok(())
    }

    fn finish_windows(&mut self, windows: u32) -> Result<(), PageVersionsError> {
        self.begin_window(windows)?;
        if !self.pages.is_empty() {
            let (window, next) = (self.window, windows);
            return Err(PageVersionsError::WindowOutOfOrder { window, next });
        }
        self.write_batch()
    }

    /// Ends all windows before another.
    fn begin_window(&mut self, window: u32) -> Result<(), PageVersionsError> {
        if window < self.window {
            return Err(PageVersionsError::WindowOutOfOrder { window, next: self.window });
        }
        while self.window < window {
            self.pages.sort_unstable();
            self.pages.dedup();
            self.changed.append(self.pages.drain(..))?;
            self.window += 1;
        }
        Ok(())
    }

    fn write_batch(&mut self) -> Result<(), PageVersionsError> {
        let Some(batch) = self.batch.finish(&mut self.packer) else { return Ok(()) };
        let position = self.contents.append(BATCH, &batch.bytes)?;
        let entry = BatchEntry { windows: batch.windows, pages: batch.pages, position };
        put_batch(self.ledger.end(), &entry, &self.last_batch);
        self.last_batch = entry;
        Ok(())
    }
}
