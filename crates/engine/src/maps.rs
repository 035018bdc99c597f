//! The guest's address space as the engine keeps it: what is mapped, with which rights, and where new
//! mappings go.
//!
//! The kernel knows all this too, but asking it is slow and it would place mappings outside the guest's
//! range. Mappings are pure bookkeeping here; [`crate::syscalls::memory`] makes the real calls.
//!
//! Invariants: mappings are sorted, disjoint, page-aligned and below `GUEST_LIMIT`.

use alloc::vec::Vec;
use linux_raw_sys::general::{PROT_EXEC, PROT_WRITE};
use retro_abi::layout::{GUEST_END, GUEST_LIMIT, GUEST_MIN, MODULES_END, MODULES_START, PAGE};

/// Where the heap (`brk`) begins: above what AddressSanitizer reserves for its shadow.
pub const HEAP_START: u64 = 0x1100_0000_0000;

/// One past the stack: a page short of the guest's end, so that nothing overflows out of its range.
pub const STACK_TOP: u64 = GUEST_END - PAGE;

/// Mappings of a multiple of this size are aligned to it, so that the kernel can use huge pages. Others are
/// not, as with the kernel: large arrays that all begin at the same offset in a huge page would fight for the
/// same cache sets.
const HUGE_PAGE: u64 = 2 << 20;

/// What a mapping is backed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Anonymous memory.
    Anonymous,
    /// A file, privately.
    File,
    /// Anything shared: its bytes can change without this mapping being written.
    Shared,
    /// The main stack, whose lower part the kernel maps on demand.
    Stack,
    /// The heap.
    Heap,
    /// A System V segment.
    SharedSegment,
}

/// A mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// The rights the guest asked for.
    pub prot: u32,
    /// Backing.
    pub backing: Backing,
}

impl Mapping {
    /// Whether the guest may execute it.
    pub fn executable(&self) -> bool {
        self.prot & PROT_EXEC != 0
    }

    /// Whether the guest may write it.
    pub fn writable(&self) -> bool {
        self.prot & PROT_WRITE != 0
    }

    /// Whether its bytes can change without a write through this mapping.
    pub fn shared(&self) -> bool {
        matches!(self.backing, Backing::Shared | Backing::SharedSegment)
    }
}

/// The address space.
#[derive(Debug)]
pub struct AddressSpace {
    mappings: Vec<Mapping>,
    /// Top of the area for ordinary mappings: below the stack's reserve.
    mmap_top: u64,
}

impl AddressSpace {
    /// An empty address space with a reserve for a stack of `stack_limit` bytes.
    pub fn new(stack_limit: u64) -> AddressSpace {
        let reserve = stack_limit.clamp(128 << 20, 1 << 40).next_multiple_of(PAGE) + (16 << 20);
        AddressSpace { mappings: Vec::with_capacity(256), mmap_top: STACK_TOP - reserve }
    }

    /// Lowest address the stack may reach.
    pub fn stack_floor(&self) -> u64 {
        self.mmap_top
    }

    /// All mappings, in order.
    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    /// Bytes mapped; the stack's reserve is not, only what the kernel has grown it to, which is small.
    pub fn total(&self) -> u64 {
        let counted = self.mappings.iter().filter(|m| m.backing != Backing::Stack);
        counted.map(|m| m.end - m.start).sum()
    }

    /// Bytes of private writable memory, which count as data.
    pub fn total_data(&self) -> u64 {
        let counted = self
            .mappings
            .iter()
            .filter(|m| m.writable() && !m.shared() && m.backing != Backing::Stack);
        counted.map(|m| m.end - m.start).sum()
    }

    /// Index of the first mapping that ends above `address`.
    fn first_above(&self, address: u64) -> usize {
        self.mappings.partition_point(|m| m.end <= address)
    }

    /// The mapping that holds an address.
    pub fn find(&self, address: u64) -> Option<&Mapping> {
        self.mappings.get(self.first_above(address)).filter(|m| m.start <= address)
    }

    /// Mappings that overlap a range.
    pub fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &Mapping> {
        self.mappings[self.first_above(start)..].iter().take_while(move |m| m.start < end)
    }

    /// Whether nothing is mapped in a range.
    pub fn is_free(&self, start: u64, end: u64) -> bool {
        self.overlapping(start, end).next().is_none()
    }

    /// Adds a mapping in place of whatever was there.
    pub fn insert(&mut self, mapping: Mapping) {
        debug_assert!(mapping.start < mapping.end && mapping.end <= GUEST_LIMIT);
        self.remove(mapping.start, mapping.end);
        let at = self.first_above(mapping.start);
        self.mappings.insert(at, mapping);
        self.merge_around(at);
    }

    /// Joins a mapping with equal neighbours, so that the list stays short.
    fn merge_around(&mut self, at: usize) {
        let joins = |a: &Mapping, b: &Mapping| {
            a.end == b.start
                && a.prot == b.prot
                && a.backing == b.backing
                && matches!(a.backing, Backing::Anonymous | Backing::Heap)
        };
        if at + 1 < self.mappings.len() && joins(&self.mappings[at], &self.mappings[at + 1]) {
            self.mappings[at].end = self.mappings[at + 1].end;
            self.mappings.remove(at + 1);
        }
        if at > 0 && joins(&self.mappings[at - 1], &self.mappings[at]) {
            self.mappings[at - 1].end = self.mappings[at].end;
            self.mappings.remove(at);
        }
    }

    /// Splits mappings so that one begins at `address`, if it is mapped.
    fn split_at(&mut self, address: u64) {
        let at = self.first_above(address);
        if let Some(found) = self.mappings.get_mut(at)
            && found.start < address
        {
            let upper = Mapping { start: address, ..*found };
            found.end = address;
            self.mappings.insert(at + 1, upper);
        }
    }

    /// Removes everything in a range.
    pub fn remove(&mut self, start: u64, end: u64) {
        self.split_at(start);
        self.split_at(end);
        let first = self.first_above(start);
        let last = self.mappings.partition_point(|m| m.start < end);
        self.mappings.drain(first..last.max(first));
    }

    /// Changes the rights of everything in a range.
    pub fn protect(&mut self, start: u64, end: u64, prot: u32) {
        self.split_at(start);
        self.split_at(end);
        let first = self.first_above(start);
        let last = self.mappings.partition_point(|m| m.start < end).max(first);
        for mapping in &mut self.mappings[first..last] {
            mapping.prot = prot;
        }
        // Join from the back, so that indices stay valid.
        for at in (first.saturating_sub(1)..last).rev() {
            if at < self.mappings.len() {
                self.merge_around(at);
            }
        }
    }

    /// A free range for a module: an executable or a file mapping, low where it fits.
    pub fn place_module(&self, len: u64) -> Option<u64> {
        // Large data files would crowd out modules.
        if len > (MODULES_END - MODULES_START) / 8 {
            return self.place(len);
        }
        self.lowest_gap(MODULES_START, MODULES_END, len).or_else(|| self.place(len))
    }

    /// A free range in the first 2 GiB, for MAP_32BIT.
    pub fn place_low(&self, len: u64) -> Option<u64> {
        self.lowest_gap(0x4000_0000, MODULES_END, len)
            .or_else(|| self.lowest_gap(GUEST_MIN, 0x4000_0000, len))
    }

    fn lowest_gap(&self, from: u64, to: u64, len: u64) -> Option<u64> {
        let mut start = from;
        for mapping in self.overlapping(from, to) {
            if mapping.start.saturating_sub(start) >= len {
                return Some(start);
            }
            start = start.max(mapping.end);
        }
        (start.checked_add(len)? <= to).then_some(start)
    }

    /// A free range for anything else: the highest gap below the stack.
    pub fn place(&self, len: u64) -> Option<u64> {
        let align = if len.is_multiple_of(HUGE_PAGE) { HUGE_PAGE } else { PAGE };
        let fit = |low: u64, high: u64| {
            let start = high.checked_sub(len)? & !(align - 1);
            (start >= low).then_some(start)
        };
        let mut top = self.mmap_top;
        let below_top = self.mappings.partition_point(|m| m.start < top);
        for mapping in self.mappings[..below_top].iter().rev() {
            if mapping.end < top
                && let Some(start) = fit(mapping.end.max(MODULES_END), top)
            {
                return Some(start);
            }
            top = top.min(mapping.start);
        }
        fit(MODULES_END, top)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;

    fn map(start: u64, end: u64, prot: u32) -> Mapping {
        Mapping { start: start * PAGE, end: end * PAGE, prot, backing: Backing::Anonymous }
    }

    fn pages(space: &AddressSpace) -> Vec<(u64, u64, u32)> {
        space.mappings().iter().map(|m| (m.start / PAGE, m.end / PAGE, m.prot)).collect()
    }

    #[test]
    fn inserting_replaces_and_joins() {
        let mut space = AddressSpace::new(8 << 20);
        space.insert(map(100, 200, 3));
        space.insert(map(200, 210, 3));
        assert_eq!(pages(&space), vec![(100, 210, 3)]);
        space.insert(map(150, 160, 5));
        assert_eq!(pages(&space), vec![(100, 150, 3), (150, 160, 5), (160, 210, 3)]);
        space.protect(150 * PAGE, 160 * PAGE, 3);
        assert_eq!(pages(&space), vec![(100, 210, 3)]);
        space.remove(120 * PAGE, 130 * PAGE);
        assert_eq!(pages(&space), vec![(100, 120, 3), (130, 210, 3)]);
    }

    #[test]
    fn agrees_with_a_page_array() {
        let mut space = AddressSpace::new(8 << 20);
        let mut oracle = [0u32; 64];
        let mut seed = 7u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let start = (seed >> 33) % 60;
            let end = start + 1 + (seed >> 45) % (64 - start - 1).max(1);
            let prot = 1 + ((seed >> 20) % 3) as u32;
            match (seed >> 58) % 3 {
                0 => {
                    space.insert(map(100 + start, 100 + end, prot));
                    oracle[start as usize..end as usize].fill(prot);
                }
                1 => {
                    space.remove((100 + start) * PAGE, (100 + end) * PAGE);
                    oracle[start as usize..end as usize].fill(0);
                }
                _ => {
                    space.protect((100 + start) * PAGE, (100 + end) * PAGE, prot);
                    for page in &mut oracle[start as usize..end as usize] {
                        if *page != 0 {
                            *page = prot;
                        }
                    }
                }
            }
            for (page, &expected) in oracle.iter().enumerate() {
                let found = space.find((100 + page as u64) * PAGE).map_or(0, |m| m.prot);
                assert_eq!(found, expected);
            }
            assert!(space.mappings().windows(2).all(|w| w[0].end <= w[1].start));
        }
    }

    #[test]
    fn placement_avoids_what_is_there() {
        let mut space = AddressSpace::new(8 << 20);
        let first = space.place(PAGE * 10).unwrap();
        space.insert(Mapping {
            start: first,
            end: first + PAGE * 10,
            prot: 1,
            backing: Backing::File,
        });
        let second = space.place(PAGE * 10).unwrap();
        assert_eq!(second + PAGE * 10, first);
        let module = space.place_module(PAGE).unwrap();
        assert_eq!(module, MODULES_START);
        assert_eq!(space.place(HUGE_PAGE * 3).unwrap() % HUGE_PAGE, 0);
        assert_eq!(space.place(GUEST_END), None);
    }
}
