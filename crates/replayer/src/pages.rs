//! Versions of pages: what memory was like at the start of each window.
//!
//! The problem: a window's memory is what all windows before it left, and there may be thousands of windows. The
//! strategy: a page is stored when it has changed since its last version, so that the page as of window `k` is
//! the last of its versions up to `k`. Pages are compressed one by one, fast rather than well, and appended to a
//! file without a name.
//!
//! Invariants: the versions of a page are in the order of windows, and no two neighbours have the same contents; a page
//! without versions is zero.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;

use lz4_flex::block;
use retro_abi::replay::PIECE;

use crate::PAGE_SIZE;

/// Pages in a piece that a process asks for.
pub(crate) const PIECE_PAGES: usize = PIECE as usize / PAGE_SIZE;

/// A page of guest memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page<'a> {
    /// Where it is.
    pub address: u64,
    /// What it holds.
    pub bytes: &'a [u8; PAGE_SIZE],
}

/// Where the contents of a page are.
#[derive(Clone, Copy, Debug)]
struct Version {
    /// The window from whose start on it is valid.
    window: u32,
    /// Bytes in the file: [`ZERO`] for a page of zeroes, a whole page if it could not be compressed.
    length: u16,
    offset: u64,
}

const ZERO: u16 = 0;

impl Version {
    /// Where it ends in the file.
    fn end(&self) -> u64 {
        self.offset + u64::from(self.length)
    }
}

#[derive(Debug)]
struct History {
    /// Of the last version.
    hash: u64,
    versions: Vec<Version>,
}

/// Hash of a page of zeroes, which is what every page begins with.
fn hash(page: &[u8; PAGE_SIZE]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(page);
    hasher.finish()
}

/// Takes pages in, window by window.
pub(crate) struct PageWriter {
    out: BufWriter<File>,
    len: u64,
    histories: HashMap<u64, History>,
    room: Vec<u8>,
    zero_hash: u64,
}

impl PageWriter {
    pub(crate) fn new() -> io::Result<PageWriter> {
        Ok(PageWriter {
            out: BufWriter::with_capacity(1 << 20, tempfile::tempfile()?),
            len: 0,
            histories: HashMap::new(),
            room: vec![0; block::get_maximum_output_size(PAGE_SIZE)],
            zero_hash: hash(&[0; PAGE_SIZE]),
        })
    }

    /// A page at the start of a window. Windows come in order.
    pub(crate) fn add(&mut self, window: u32, page: Page) -> io::Result<()> {
        let hash = hash(page.bytes);
        let history = self
            .histories
            .entry(page.address / PAGE_SIZE as u64)
            .or_insert(History { hash: self.zero_hash, versions: Vec::new() });
        if history.hash == hash {
            return Ok(());
        }
        history.hash = hash;
        let mut version = Version { window, length: ZERO, offset: self.len };
        if page.bytes.iter().any(|&byte| byte != 0) {
            let stored = match block::compress_into(page.bytes, &mut self.room) {
                Ok(len) if len < PAGE_SIZE => &self.room[..len],
                _ => &page.bytes[..],
            };
            self.out.write_all(stored)?;
            version.length = stored.len() as u16;
            self.len += stored.len() as u64;
        }
        match history.versions.last_mut() {
            Some(last) if last.window == window => *last = version,
            _ => history.versions.push(version),
        }
        Ok(())
    }

    /// All pages are there.
    pub(crate) fn finish(self) -> io::Result<PageStore> {
        let file = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        let histories = self.histories.into_iter();
        let versions = histories
            .filter(|(_, history)| !history.versions.is_empty())
            .map(|(page, history)| (page, history.versions.into_boxed_slice()))
            .collect();
        Ok(PageStore { file, len: self.len, versions })
    }
}

/// Pages as of the start of each window.
#[derive(Debug)]
pub(crate) struct PageStore {
    file: File,
    len: u64,
    versions: HashMap<u64, Box<[Version]>>,
}

/// Some pages of a piece, for [`retro_abi::replay::ask::PAGES`].
#[derive(Clone, Debug, Default)]
pub struct Piece {
    /// Bit `n`: page `n` is in `bytes`; the others are zero.
    pub mask: u64,
    /// These pages, one after the other.
    pub bytes: Vec<u8>,
}

impl PageStore {
    /// Bytes that the pages take in the file.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.len
    }

    /// A piece of memory as of the start of a window.
    pub(crate) fn piece(&self, address: u64, window: u32) -> io::Result<Piece> {
        let mut piece = Piece::default();
        let mut versions = Vec::with_capacity(PIECE_PAGES);
        let first = address / PIECE * PIECE_PAGES as u64;
        for index in 0..PIECE_PAGES {
            if let Some(version) = self.version(first + index as u64, window) {
                piece.mask |= 1 << index;
                versions.push(version);
            }
        }
        piece.bytes.resize(versions.len() * PAGE_SIZE, 0);
        let mut pages = piece.bytes.chunks_exact_mut(PAGE_SIZE);
        let mut stored = Vec::new();
        // Neighbours that changed in the same window are neighbours in the file.
        for run in versions.chunk_by(|a, b| a.end() == b.offset) {
            let (start, end) = (run[0].offset, run[run.len() - 1].end());
            stored.resize((end - start) as usize, 0);
            self.file.read_exact_at(&mut stored, start)?;
            for (version, page) in run.iter().zip(&mut pages) {
                let at = (version.offset - start) as usize;
                unpack(&stored[at..at + usize::from(version.length)], page)?;
            }
        }
        Ok(piece)
    }

    /// The version of a page at the start of a window; none if it is zero.
    fn version(&self, page: u64, window: u32) -> Option<Version> {
        let versions = self.versions.get(&page)?;
        let until = versions.partition_point(|version| version.window <= window);
        let version = versions[until.checked_sub(1)?];
        (version.length != ZERO).then_some(version)
    }
}

fn unpack(stored: &[u8], page: &mut [u8]) -> io::Result<()> {
    if stored.len() == PAGE_SIZE {
        page.copy_from_slice(stored);
    } else if block::decompress_into(stored, page).ok() != Some(PAGE_SIZE) {
        return Err(io::Error::other("a page is cut short"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(seed: u64) -> [u8; PAGE_SIZE] {
        let mut state = seed | 1;
        std::array::from_fn(|_| {
            state = state.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ state >> 29;
            state as u8
        })
    }

    /// A page that is written, becomes zero, and is written again, among others that never change.
    #[test]
    fn every_window_has_its_version() {
        let contents = |window: u32| match window {
            0 | 5..7 => [0; PAGE_SIZE],
            1..3 => noise(7),
            3..5 => [window as u8; PAGE_SIZE],
            _ => noise(9),
        };
        let mut writer = PageWriter::new().unwrap();
        for window in 0..9 {
            writer.add(window, Page { address: 0x11000, bytes: &contents(window) }).unwrap();
            writer.add(window, Page { address: 0x13000, bytes: &[1; PAGE_SIZE] }).unwrap();
        }
        let store = writer.finish().unwrap();
        assert!(store.stored_bytes() < 3 * PAGE_SIZE as u64, "only changes are stored");
        for window in 0..9 {
            let piece = store.piece(0x10000, window).unwrap();
            let zero = contents(window) == [0; PAGE_SIZE];
            assert_eq!(piece.mask, if zero { 0x8 } else { 0xa }, "window {window}");
            assert_eq!(&piece.bytes[piece.bytes.len() - PAGE_SIZE..], [1; PAGE_SIZE]);
            if !zero {
                assert_eq!(&piece.bytes[..PAGE_SIZE], contents(window));
            }
            assert_eq!(store.piece(0x20000, window).unwrap().mask, 0);
        }
    }

    /// The last word counts when a page is told twice.
    #[test]
    fn a_page_can_change_within_a_window() {
        let mut writer = PageWriter::new().unwrap();
        for byte in [1, 2] {
            writer.add(4, Page { address: 0, bytes: &[byte; PAGE_SIZE] }).unwrap();
        }
        let store = writer.finish().unwrap();
        assert_eq!(store.piece(0, 4).unwrap().bytes, [2; PAGE_SIZE]);
        assert_eq!(store.piece(0, 3).unwrap().mask, 0);
    }
}
