//! Reading versions.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use retro_recording::Directory;

use super::batch::Batch;
use super::writer::BATCH;
use super::{
    Committed, KNOWN_SIZE, PAGE_SIZE, PageVersionsError, STEPS, TAG, changed_file, contents_file,
    page_number,
};
use crate::frames::fields::{BadField, Fields, put_number};
use crate::frames::generations::Generations;
use crate::frames::ledger::Ledger;
use crate::frames::{FrameError, FrameFile};
use crate::set_tree::{KEY_LIMIT, SetKind, SetTree};

/// Where a batch is, and what may be in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BatchEntry {
    /// The first and the last window.
    pub(super) windows: (u32, u32),
    /// The lowest and the highest page.
    pub(super) pages: (u64, u64),
    pub(super) position: u64,
}

/// A page as of some window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageVersion {
    /// The window at whose end it became what it is.
    pub window: u32,
    /// Its contents.
    pub bytes: Box<[u8; PAGE_SIZE]>,
    /// A bit for each byte, the lowest first: whether the contents are known.
    pub known: Box<[u8; KNOWN_SIZE]>,
}

/// Versions of pages as of a commit, for any number of threads.
#[derive(Debug)]
pub struct PageVersions {
    contents: FrameFile,
    changed: SetTree,
    batches: Vec<BatchEntry>,
    cache: Mutex<Generations<u64, Arc<Batch>>>,
    /// Whole versions, by page and window: most pages of most windows are those of other windows, too.
    whole: Mutex<Generations<(u64, u32), Arc<PageVersion>>>,
}

impl PageVersions {
    /// Opens files as of a commit. What was read is kept in memory up to so many bytes.
    pub fn open(
        directory: &Directory,
        committed: Committed,
        cache_bytes: usize,
    ) -> Result<PageVersions, PageVersionsError> {
        let contents = FrameFile::open(&contents_file(directory), TAG, committed.contents)?;
        let (_, windows, batches) = load_batches(&contents)?;
        let (file, kind) = (changed_file(directory), SetKind::Plain);
        let changed = SetTree::open(&file, kind, committed.changed, cache_bytes / 4)?;
        if changed.windows() != windows {
            return Err(PageVersionsError::Inconsistent);
        }
        let cache = Mutex::new(Generations::new(cache_bytes / 4));
        let whole = Mutex::new(Generations::new(cache_bytes / 2));
        Ok(PageVersions { contents, changed, batches, cache, whole })
    }

    /// How many windows there are.
    pub fn windows(&self) -> u32 {
        self.changed.windows()
    }

    /// A page as of the end of a window: its newest version up to then, if there is any.
    pub fn page(
        &self,
        address: u64,
        window: u32,
    ) -> Result<Option<Arc<PageVersion>>, PageVersionsError> {
        let page = page_number(address)?;
        let newest = self.changed.last_before(window.saturating_add(1), page..page + 1)?;
        newest.map(|window| self.version(page, window)).transpose()
    }

    /// The addresses of all pages that have versions of some windows, as ranges.
    pub fn changed(&self, windows: Range<u32>) -> Result<Vec<Range<u64>>, PageVersionsError> {
        let runs = self.changed.union(windows, 0..KEY_LIMIT)?;
        // Only a damaged file has pages beyond the end of the address space.
        let address = |page: u64| page.saturating_mul(PAGE_SIZE as u64);
        Ok(runs.into_iter().map(|run| address(run.start)..address(run.end)).collect())
    }

    fn version(&self, page: u64, window: u32) -> Result<Arc<PageVersion>, PageVersionsError> {
        let whole = || self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = whole().get((page, window)) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(self.make_version(page, window)?);
        whole().insert((page, window), Arc::clone(&made), PAGE_SIZE + KNOWN_SIZE);
        Ok(made)
    }

    fn make_version(&self, page: u64, window: u32) -> Result<PageVersion, PageVersionsError> {
        let mut row = Vec::new();
        let mut next = Some(window);
        while let Some(window) = next {
            let (position, batch) = self.find(page, window)?;
            let damaged = |reason| self.contents.damaged(position, reason);
            let version = batch.version(window, page).map_err(damaged)?;
            next = match version.and_then(|version| version.predecessor) {
                None => None,
                Some(back) => {
                    let before = window.checked_sub(back);
                    Some(before.ok_or_else(|| damaged("a version has no predecessor"))?)
                }
            };
            row.push((window, position, batch));
            if row.len() > usize::from(STEPS) {
                return Err(damaged("a version has too many predecessors").into());
            }
        }
        let mut bytes = Box::new([0; PAGE_SIZE]);
        let mut known = Box::new([0; KNOWN_SIZE]);
        for (window, position, batch) in row.into_iter().rev() {
            let damaged = |reason| self.contents.damaged(position, reason);
            if let Some(version) = batch.version(window, page).map_err(damaged)? {
                version.apply(&mut bytes, &mut known).map_err(damaged)?;
            }
        }
        Ok(PageVersion { window, bytes, known })
    }

    /// The batch that has the version of a window.
    fn find(&self, page: u64, window: u32) -> Result<(u64, Arc<Batch>), PageVersionsError> {
        let until = self.batches.partition_point(|batch| batch.windows.0 <= window);
        // Backwards, since the last of two versions in the same window counts.
        for entry in self.batches[..until].iter().rev() {
            if entry.windows.1 < window {
                break;
            }
            if (entry.pages.0..=entry.pages.1).contains(&page) {
                let batch = self.batch(entry)?;
                let damaged = |reason| self.contents.damaged(entry.position, reason);
                if batch.version(window, page).map_err(damaged)?.is_some() {
                    return Ok((entry.position, batch));
                }
            }
        }
        let end = self.contents.length();
        Err(self.contents.damaged(end, "a version of a page is missing").into())
    }

    fn batch(&self, entry: &BatchEntry) -> Result<Arc<Batch>, FrameError> {
        let position = entry.position;
        let cache = || self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(batch) = cache().get(position) {
            return Ok(Arc::clone(batch));
        }
        let bytes = self.contents.read_kind(position, BATCH)?;
        let batch = Batch::decode(&bytes, entry.windows.0)
            .map_err(|reason| self.contents.damaged(position, reason))?;
        let batch = Arc::new(batch);
        cache().insert(position, Arc::clone(&batch), batch.size());
        Ok(batch)
    }
}

/// Adds a batch to a ledger, told from the one before.
pub(super) fn put_batch(list: &mut Vec<u8>, batch: &BatchEntry, before: &BatchEntry) {
    put_number(list, (batch.windows.0 - before.windows.1).into());
    put_number(list, (batch.windows.1 - batch.windows.0).into());
    put_number(list, batch.pages.0);
    put_number(list, batch.pages.1 - batch.pages.0);
    put_number(list, batch.position - before.position);
}

/// The batches of a file, and how many windows they are for.
pub(super) fn load_batches(file: &FrameFile) -> Result<(Ledger, u32, Vec<BatchEntry>), FrameError> {
    let damaged = |reason| file.damaged(file.length(), reason);
    let (ledger, windows) = Ledger::load(file)?;
    let windows = u32::try_from(windows).map_err(|_| damaged("there are too many windows"))?;
    let batches = batches_of(ledger.list()).map_err(damaged)?;
    Ok((ledger, windows, batches))
}

fn batches_of(list: &[u8]) -> Result<Vec<BatchEntry>, BadField> {
    const TOO_LARGE: BadField = "a list of batches makes no sense";
    let mut fields = Fields::new(list);
    let mut batches = Vec::new();
    let mut last = BatchEntry::default();
    while !fields.is_empty() {
        let first_window = last.windows.1.checked_add(fields.number32()?).ok_or(TOO_LARGE)?;
        let last_window = first_window.checked_add(fields.number32()?).ok_or(TOO_LARGE)?;
        let first_page = fields.number()?;
        let last_page = first_page.checked_add(fields.number()?).ok_or(TOO_LARGE)?;
        let position = last.position.checked_add(fields.number()?).ok_or(TOO_LARGE)?;
        last = BatchEntry {
            windows: (first_window, last_window),
            pages: (first_page, last_page),
            position,
        };
        batches.push(last);
    }
    Ok(batches)
}
