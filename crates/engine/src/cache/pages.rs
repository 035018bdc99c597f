//! Pages that hold translated code: which blocks are on them, and how changes to them are noticed.
//!
//! A page whose code can change is *protected*: the engine takes away the right to write it, and the
//! first store faults and invalidates its blocks. A page that keeps being written between executions
//! becomes *checked*: it stays writable, its blocks compare their bytes on every entry and end after
//! every store. Pages of shared mappings are checked from the start, because they can change through
//! another mapping, without any fault here; all pages are once the guest has a ring of `io_uring`, through which the kernel
//! writes memory at its own time.

use super::{CodeCache, NONE};
use crate::maps::{AddressSpace, Mapping};
use crate::sys;
use crate::table::Table;
use alloc::vec::Vec;
use linux_raw_sys::general::PROT_WRITE;
use retro_abi::layout::PAGE;

/// Write faults on a page before its blocks check themselves instead.
const FAULTS_BEFORE_CHECKING: u32 = 24;

/// A page with translated code.
#[derive(Clone, Copy, Debug)]
struct CodePage {
    /// Page number.
    page: u64,
    /// Head of its list of blocks.
    blocks: u32,
    /// Whether the engine has taken away the right to write.
    protected: bool,
    /// Write faults so far.
    faults: u32,
}

/// All code pages.
pub struct CodePages {
    index: Table,
    pages: Vec<CodePage>,
    /// Whether the kernel writes memory at its own time, and would fail where a page is protected.
    check_all: bool,
}

/// The real protection for what the guest asked: code must be readable for the translator. It stays
/// executable, although it never runs where it stands, so that the kernel's list of mappings, and its
/// refusals, are the guest's.
pub fn real_protection(prot: u32) -> u32 {
    use linux_raw_sys::general::{PROT_EXEC, PROT_READ};
    if prot & PROT_EXEC != 0 { prot | PROT_READ } else { prot }
}

impl CodePages {
    /// No pages.
    pub fn new() -> CodePages {
        CodePages { index: Table::new(256), pages: Vec::new(), check_all: false }
    }

    fn get(&self, page: u64) -> Option<&CodePage> {
        self.index.get(page).map(|at| &self.pages[at as usize])
    }

    fn entry(&mut self, page: u64) -> &mut CodePage {
        let at = match self.index.get(page) {
            Some(at) => at,
            None => {
                let at = self.pages.len() as u32;
                self.pages.push(CodePage { page, blocks: NONE, protected: false, faults: 0 });
                self.index.insert(page, at);
                at
            }
        };
        &mut self.pages[at as usize]
    }

    /// Whether the engine has write-protected a page.
    pub fn is_protected(&self, page: u64) -> bool {
        self.get(page).is_some_and(|p| p.protected)
    }

    /// Whether any page is write-protected.
    pub fn any_protected(&self) -> bool {
        self.pages.iter().any(|p| p.protected)
    }

    fn must_check(&self, page: u64, mapping: &Mapping) -> bool {
        mapping.shared()
            || self.check_all && mapping.writable()
            || self.get(page).is_some_and(|p| p.faults >= FAULTS_BEFORE_CHECKING)
    }

    /// Drops the lists of blocks, when the cache is flushed.
    pub fn forget_blocks(&mut self) {
        for page in &mut self.pages {
            page.blocks = NONE;
        }
    }

    /// Page numbers in a range that hold code: by page for small ranges, by code page for large ones.
    fn in_range(&self, first: u64, last: u64) -> Vec<u64> {
        if last - first < self.pages.len() as u64 {
            (first..=last).filter(|&p| self.index.get(p).is_some()).collect()
        } else {
            self.pages.iter().map(|p| p.page).filter(|p| (first..=last).contains(p)).collect()
        }
    }
}

impl Default for CodePages {
    fn default() -> Self {
        CodePages::new()
    }
}

impl CodeCache {
    /// Prepares the pages of `pc..pc + len` for translation. Returns whether blocks there must check
    /// themselves.
    pub fn watch_code(&mut self, space: &AddressSpace, pc: u64, len: usize) -> bool {
        let mut checked = false;
        for page in pc / PAGE..=(pc + len as u64 - 1) / PAGE {
            let Some(mapping) = space.find(page * PAGE) else { continue };
            if self.pages.must_check(page, mapping) {
                checked = true;
            } else if mapping.writable() && !self.pages.is_protected(page) {
                let prot = real_protection(mapping.prot) & !PROT_WRITE;
                // SAFETY: guest memory; the engine writes it only with calls that report faults.
                if unsafe { sys::mprotect(page * PAGE, PAGE, prot) }.is_err() {
                    checked = true;
                    continue;
                }
                self.pages.entry(page).protected = true;
            }
        }
        checked
    }

    /// From now on no page is protected: somebody writes memory who cannot be asked to try again.
    pub fn check_all_pages(&mut self, space: &AddressSpace) {
        if !core::mem::replace(&mut self.pages.check_all, true) {
            self.unprotect_all(space);
            self.invalidate_range(0, retro_abi::layout::GUEST_LIMIT);
        }
    }

    pub(super) fn add_to_pages(&mut self, block: u32) {
        let record = self.blocks[block];
        let (first, last) = (record.first_page(), record.last_page());
        let head = self.pages.entry(first);
        let next = core::mem::replace(&mut head.blocks, block);
        self.blocks.get_mut(block).next_in_page[0] = next;
        if last != first {
            let head = self.pages.entry(last);
            let next = core::mem::replace(&mut head.blocks, block);
            self.blocks.get_mut(block).next_in_page[1] = next;
        }
    }

    fn invalidate_page(&mut self, page: u64) {
        let Some(at) = self.pages.index.get(page) else { return };
        let mut block = core::mem::replace(&mut self.pages.pages[at as usize].blocks, NONE);
        while block != NONE {
            let record = self.blocks[block];
            let side = (record.first_page() != page) as usize;
            self.invalidate(block);
            block = record.next_in_page[side];
        }
    }

    /// Invalidates the blocks that share bytes with a new one and were made of other bytes: what a log says about
    /// these bytes is the new block's version now. Drops what is invalid from the lists on the way.
    pub fn invalidate_overlapping(&mut self, new: u32) {
        let newest = self.blocks[new];
        let (start, end) = (newest.pc, newest.pc + newest.guest_len as u64);
        for page in [newest.first_page(), newest.last_page()] {
            let mut block = core::mem::replace(&mut self.pages.entry(page).blocks, NONE);
            let mut kept = NONE;
            while block != NONE {
                let record = self.blocks[block];
                let side = (record.first_page() != page) as usize;
                let next = record.next_in_page[side];
                let overlaps = record.pc < end && record.pc + record.guest_len as u64 > start;
                if block != new && overlaps {
                    self.invalidate(block);
                }
                if self.blocks[block].valid {
                    self.blocks.get_mut(block).next_in_page[side] = kept;
                    kept = block;
                }
                block = next;
            }
            self.pages.entry(page).blocks = kept;
        }
    }

    /// Invalidates all blocks that touch a range whose contents or rights change. The caller sets the
    /// range's real protection, so nothing in it is protected by the engine any more.
    pub fn invalidate_range(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        for page in self.pages.in_range(start / PAGE, (end - 1) / PAGE) {
            self.invalidate_page(page);
            let entry = self.pages.entry(page);
            entry.protected = false;
            entry.faults = 0;
        }
    }

    /// The guest has made a range read-only and executable: its blocks stay, and its protection is
    /// the guest's own now.
    pub fn release_protection(&mut self, start: u64, end: u64) {
        for page in self.pages.in_range(start / PAGE, (end - 1) / PAGE) {
            self.pages.entry(page).protected = false;
        }
    }

    /// A store hit a page that the engine had protected: gives the right back and invalidates the
    /// page's blocks. False if the page is not of that kind, and the fault is the guest's own.
    pub fn unprotect(&mut self, space: &AddressSpace, address: u64) -> bool {
        let page = address / PAGE;
        if !self.pages.is_protected(page) {
            return false;
        }
        let Some(mapping) = space.find(address) else { return false };
        self.invalidate_page(page);
        let entry = self.pages.entry(page);
        entry.protected = false;
        entry.faults += 1;
        // SAFETY: guest memory gets the rights that the guest gave it.
        unsafe { sys::mprotect(page * PAGE, PAGE, real_protection(mapping.prot)) }.is_ok()
    }

    /// Gives all protected pages back, before the kernel writes guest memory on its own.
    pub fn unprotect_all(&mut self, space: &AddressSpace) {
        for at in 0..self.pages.pages.len() {
            let page = self.pages.pages[at];
            if page.protected {
                self.unprotect(space, page.page * PAGE);
            }
        }
    }
}
