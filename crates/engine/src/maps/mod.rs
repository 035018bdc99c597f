//! The guest's address space as the engine keeps it: what is mapped, with which rights, and where new
//! mappings go.
//!
//! The kernel knows all this too, but asking it is slow and it would place mappings outside the guest's
//! range. Mappings are pure bookkeeping here; [`crate::syscalls::memory`] makes the real calls.
//!
//! Invariants: mappings are sorted, disjoint, page-aligned and below `GUEST_LIMIT`.

mod list;

use linux_raw_sys::general::{PROT_EXEC, PROT_WRITE};
use list::{MappingList, Place};
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

    /// Whether it and the one behind it are one.
    fn joins(&self, next: &Mapping) -> bool {
        self.end == next.start
            && self.prot == next.prot
            && self.backing == next.backing
            && matches!(self.backing, Backing::Anonymous | Backing::Heap)
    }

    /// Whether its bytes can change without a write through this mapping.
    pub fn shared(&self) -> bool {
        matches!(self.backing, Backing::Shared | Backing::SharedSegment)
    }
}

/// The address space.
#[derive(Debug)]
pub struct AddressSpace {
    mappings: MappingList,
    /// Top of the area for ordinary mappings: below the stack's reserve.
    mmap_top: u64,
    total: u64,
    total_data: u64,
}

impl AddressSpace {
    /// An empty address space with a reserve for a stack of `stack_limit` bytes.
    pub fn new(stack_limit: u64) -> AddressSpace {
        let reserve = stack_limit.clamp(128 << 20, 1 << 40).next_multiple_of(PAGE) + (16 << 20);
        AddressSpace {
            mappings: MappingList::default(),
            mmap_top: STACK_TOP - reserve,
            total: 0,
            total_data: 0,
        }
    }

    /// Lowest address the stack may reach.
    pub fn stack_floor(&self) -> u64 {
        self.mmap_top
    }

    /// All mappings, in order.
    pub fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        self.mappings.iter()
    }

    /// Bytes mapped; the stack's reserve is not, only what the kernel has grown it to, which is small.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Bytes of private writable memory, which count as data.
    pub fn total_data(&self) -> u64 {
        self.total_data
    }

    /// The mapping that holds an address.
    pub fn find(&self, address: u64) -> Option<&Mapping> {
        self.mappings.get(self.mappings.first_above(address)).filter(|m| m.start <= address)
    }

    /// Mappings that overlap a range.
    pub fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &Mapping> {
        self.mappings.iter_above(start).take_while(move |m| m.start < end)
    }

    /// Whether nothing is mapped in a range.
    pub fn is_free(&self, start: u64, end: u64) -> bool {
        self.overlapping(start, end).next().is_none()
    }

    /// Adds a mapping in place of whatever was there.
    pub fn insert(&mut self, mapping: Mapping) {
        debug_assert!(mapping.start < mapping.end && mapping.end <= GUEST_LIMIT);
        self.remove(mapping.start, mapping.end);
        let at = self.mappings.first_above(mapping.start);
        self.mappings.insert(at, mapping);
        self.count(&mapping, u64::wrapping_add);
        self.join_with_next(mapping.start);
        self.join_with_previous(mapping.start);
    }

    /// Adds a mapping to the totals, or takes it away.
    fn count(&mut self, mapping: &Mapping, change: fn(u64, u64) -> u64) {
        if mapping.backing == Backing::Stack {
            return;
        }
        let len = mapping.end - mapping.start;
        self.total = change(self.total, len);
        if mapping.writable() && !mapping.shared() {
            self.total_data = change(self.total_data, len);
        }
    }

    /// Joins the mapping that holds an address with its neighbours if they are equal, so that the list stays short.
    fn join_with_next(&mut self, address: u64) {
        let at = self.mappings.first_above(address);
        let next = self.mappings.after(at);
        if let (Some(&lower), Some(&upper)) = (self.mappings.get(at), self.mappings.get(next))
            && lower.joins(&upper)
        {
            self.mappings.remove(next);
            self.mappings.set(at, Mapping { end: upper.end, ..lower });
        }
    }

    fn join_with_previous(&mut self, address: u64) {
        let at = self.mappings.first_above(address);
        if let Some(before) = self.mappings.before(at)
            && let Some(start) = self.mappings.get(before).map(|m| m.start)
        {
            self.join_with_next(start);
        }
    }

    /// Splits mappings so that one begins at `address`, if it is mapped; says where what lies above begins.
    fn split_at(&mut self, address: u64) -> Place {
        let at = self.mappings.first_above(address);
        if let Some(&found) = self.mappings.get(at)
            && found.start < address
        {
            self.mappings.set(at, Mapping { end: address, ..found });
            let behind = self.mappings.after(at);
            self.mappings.insert(behind, Mapping { start: address, ..found });
        }
        self.mappings.first_above(address)
    }

    /// Removes everything in a range.
    pub fn remove(&mut self, start: u64, end: u64) {
        self.split_at(end);
        loop {
            let at = self.split_at(start);
            let Some(&found) = self.mappings.get(at).filter(|m| m.start < end) else { return };
            self.mappings.remove(at);
            self.count(&found, u64::wrapping_sub);
        }
    }

    /// Changes the rights of everything in a range.
    pub fn protect(&mut self, start: u64, end: u64, prot: u32) {
        self.split_at(end);
        let mut at = self.split_at(start);
        while let Some(&found) = self.mappings.get(at).filter(|m| m.start < end) {
            self.count(&found, u64::wrapping_sub);
            let changed = Mapping { prot, ..found };
            self.mappings.set(at, changed);
            self.count(&changed, u64::wrapping_add);
            // Backwards, so that what is left to do stays where it is.
            self.join_with_previous(changed.start);
            at = self.mappings.first_above(found.end);
        }
        if let Some(last) = self.mappings.before(at)
            && let Some(start) = self.mappings.get(last).map(|m| m.start)
        {
            self.join_with_next(start);
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
        for (used, end) in self.mappings.used_above(from, len).take_while(|&(used, _)| used < to) {
            if used.saturating_sub(start) >= len {
                return Some(start);
            }
            start = start.max(end);
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
        for (used, end) in self.mappings.used_below(top, len) {
            if end < top
                && let Some(start) = fit(end.max(MODULES_END), top)
            {
                return Some(start);
            }
            top = top.min(used);
        }
        fit(MODULES_END, top)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;
    use std::vec::Vec;

    fn map(start: u64, end: u64, prot: u32) -> Mapping {
        Mapping { start: start * PAGE, end: end * PAGE, prot, backing: Backing::Anonymous }
    }

    fn pages(space: &AddressSpace) -> Vec<(u64, u64, u32)> {
        space.mappings().map(|m| (m.start / PAGE, m.end / PAGE, m.prot)).collect()
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
            let mappings: Vec<Mapping> = space.mappings().copied().collect();
            assert!(mappings.windows(2).all(|w| w[0].end <= w[1].start));
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

    /// Thousands of mappings, so that there are many chunks: totals and places are those of a plain list.
    #[test]
    fn many_mappings_agree_with_a_plain_list() {
        let mut space = AddressSpace::new(8 << 20);
        let mut plain: Vec<Mapping> = Vec::new();
        let top = space.stack_floor();
        let mut seed = 11u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        for round in 0..6000 {
            let len = (1 + random(4)) * PAGE;
            let place = space.place(len);
            assert_eq!(place, highest_gap(&plain, top, len), "round {round}");
            let start = match random(4) {
                0 => top - (1 + random(9000)) * PAGE,
                _ => place.unwrap(),
            };
            let end = (start + len).min(top);
            // Rights that differ, so that neighbours are not joined.
            let prot = [1, 3][round % 2];
            plain.retain(|m| m.end <= start || m.start >= end || m.start < start || m.end > end);
            let cut: Vec<Mapping> = plain
                .iter()
                .flat_map(|m| {
                    let below = Mapping { end: m.end.min(start), ..*m };
                    let above = Mapping { start: m.start.max(end), ..*m };
                    [below, above].into_iter().filter(|m| m.start < m.end)
                })
                .collect();
            plain = cut;
            if random(3) == 0 {
                space.remove(start, end);
            } else {
                let mapping = Mapping { start, end, prot, backing: Backing::File };
                space.insert(mapping);
                plain.push(mapping);
                plain.sort_by_key(|m| m.start);
            }
            assert_eq!(space.total(), plain.iter().map(|m| m.end - m.start).sum::<u64>());
            let data = plain.iter().filter(|m| m.writable());
            assert_eq!(space.total_data(), data.map(|m| m.end - m.start).sum::<u64>());
        }
        assert!(space.mappings().count() > 1000);
        assert!(space.mappings().eq(plain.iter()));
    }

    fn highest_gap(sorted: &[Mapping], mut top: u64, len: u64) -> Option<u64> {
        for mapping in sorted.iter().rev() {
            if top - mapping.end >= len {
                return Some(top - len);
            }
            top = mapping.start;
        }
        Some(top - len)
    }
}
