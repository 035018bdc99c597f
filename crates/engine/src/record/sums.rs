//! Sums of memory in the log, by which a replay finds out whether it holds what it should.
//!
//! Registers are compared at every event that shows them; memory that never gets into a register then would not be
//! noticed. So where an interval or a log ends, the sum of every range of guest memory is logged, as the shadow has
//! it. An interval thereby ends with an event, and a replay runs exactly up to there.
//!
//! Most of the shadow was never touched. Reading it would fill it with pages, so the kernel is asked first which
//! pages there are.
//!
//! Not summed are the ends that nobody sees coming (SIGKILL, a default action that the kernel takes itself), and the memory
//! of a `vfork` child, which is its parent's and summed in time.

use super::{Recorder, shadow};
use crate::maps::AddressSpace;
use crate::sys::{self, Errno, Result};
use alloc::vec::Vec;
use linux_raw_sys::general as c;
use retro_abi::layout::{PAGE, SHADOW_DISTANCE};
use retro_abi::log::Event;
use retro_abi::memory_sum::{PAGE_BYTES, of_page};

/// Larger mappings are left out: even finding out that nothing is there would take too long. AddressSanitizer makes
/// many.
const LARGEST: u64 = 4 << 30;

/// Pages that the kernel is asked about at once.
const PAGES: usize = 4096;

impl Recorder {
    /// Logs the sums of all guest memory.
    pub(super) fn log_memory_sums(&mut self, space: &AddressSpace) {
        let mut some = false;
        for (start, end) in ranges(space) {
            // SAFETY: the shadow of guest memory is mapped for good, and only the thread that runs the guest gets here.
            if let Ok(sum) = unsafe { sum(start, end, SHADOW_DISTANCE, pages_of_shadow) } {
                self.event(Event::MemorySum { start, len: end - start, sum });
                some = true;
            }
        }
        if !some {
            self.event(Event::MemorySum { start: 0, len: 0, sum: 0 });
        }
    }
}

/// The ranges to sum: mappings, those that touch each other as one.
fn ranges(space: &AddressSpace) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for mapping in space.mappings() {
        let (start, end) = (mapping.start, mapping.end);
        if !shadow::covers(start, end) || end - start > LARGEST {
            continue;
        }
        match ranges.last_mut() {
            Some(last) if last.1 == start && end - last.0 <= LARGEST => last.1 = end,
            _ => ranges.push((start, end)),
        }
    }
    ranges
}

/// The sum of a range of whole pages, of which there is a copy at a distance. `look` marks the pages that are worth reading,
/// of as many pages at an address as there are marks: all that may be other than zero.
///
/// # Safety
/// The copy is readable and nobody writes it meanwhile.
pub unsafe fn sum(
    start: u64,
    end: u64,
    distance: u64,
    look: impl Fn(u64, &mut [u8]) -> Result<()>,
) -> Result<u64> {
    // A page whose copy does not lie on a page lies on two.
    let second = !distance.is_multiple_of(PAGE) as usize;
    let mut marks = [0; PAGES];
    let mut sum = 0u64;
    let mut at = start;
    while at < end {
        let count = ((end - at) / PAGE).min((PAGES - second) as u64) as usize;
        look((at + distance) & !(PAGE - 1), &mut marks[..count + second])?;
        for index in 0..count {
            if marks[index] | marks[index + second] != 0 {
                let address = at + index as u64 * PAGE;
                // SAFETY: the caller vouches for it.
                let page = unsafe { &*((address + distance) as *const [u8; PAGE_BYTES]) };
                sum = sum.wrapping_add(of_page(address, page));
            }
        }
        at += count as u64 * PAGE;
    }
    Ok(sum)
}

/// Marks the pages of the shadow that there are.
fn pages_of_shadow(address: u64, marks: &mut [u8]) -> Result<()> {
    sys::resident(address, marks)?;
    // A page that was swapped out counts as not resident.
    if sys::swap_in_use() { mark_swapped(address, marks) } else { Ok(()) }
}

fn mark_swapped(address: u64, marks: &mut [u8]) -> Result<()> {
    /// Bits of an entry of `pagemap`.
    const PRESENT_OR_SWAPPED: u64 = 0b11 << 62;
    let file = sys::open(b"/proc/self/pagemap\0", c::O_RDONLY | c::O_CLOEXEC, 0)?;
    let mut entries = [0; 8 * 256];
    let mut outcome = Ok(());
    for (index, marks) in marks.chunks_mut(256).enumerate() {
        let entries = &mut entries[..8 * marks.len()];
        let page = address / PAGE + index as u64 * 256;
        match sys::read_at(file, entries, 8 * page) {
            Ok(len) if len == entries.len() => {}
            Ok(_) => outcome = Err(Errno::EIO),
            Err(error) => outcome = Err(error),
        }
        for (mark, entry) in marks.iter_mut().zip(entries.chunks_exact(8)) {
            let mut word = [0; 8];
            word.copy_from_slice(entry);
            *mark |= (u64::from_le_bytes(word) & PRESENT_OR_SWAPPED != 0) as u8;
        }
    }
    sys::close(file);
    outcome
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::maps::{Backing, Mapping};
    use std::vec;

    const GUEST: u64 = 0x40_0000;

    /// A copy of 40 pages at some distance, of which pages 3 and 20 hold something.
    fn copy(skew: u64) -> (u64, Vec<u8>) {
        let base = sys::map_anonymous(50 * PAGE, c::PROT_READ | c::PROT_WRITE).unwrap();
        let at = base + skew;
        // SAFETY: just mapped.
        let bytes = unsafe { core::slice::from_raw_parts_mut(at as *mut u8, 40 * PAGE_BYTES) };
        bytes[3 * PAGE_BYTES] = 1;
        bytes[21 * PAGE_BYTES - 1] = 2;
        (at.wrapping_sub(GUEST), bytes.to_vec())
    }

    fn naive(bytes: &[u8]) -> u64 {
        let pages = bytes.as_chunks().0.iter().enumerate();
        pages.fold(0, |sum, (index, page)| {
            sum.wrapping_add(of_page(GUEST + index as u64 * PAGE, page))
        })
    }

    #[test]
    fn pages_that_are_there_make_the_sum() {
        for skew in [0, 0x840] {
            let (distance, bytes) = copy(skew);
            // SAFETY: mapped and left alone.
            let resident =
                unsafe { sum(GUEST, GUEST + 40 * PAGE, distance, pages_of_shadow) }.unwrap();
            assert_eq!(resident, naive(&bytes), "skew {skew:#x}");
            assert_ne!(resident, 0);
        }
    }

    #[test]
    fn swapped_pages_are_looked_up_in_the_page_map() {
        let base = sys::map_anonymous(600 * PAGE, c::PROT_READ | c::PROT_WRITE).unwrap();
        for page in [0, 255, 256, 599] {
            // SAFETY: just mapped.
            unsafe { *((base + page * PAGE) as *mut u8) = 1 };
        }
        let mut resident = vec![0; 600];
        sys::resident(base, &mut resident).unwrap();
        let mut mapped = vec![0; 600];
        mark_swapped(base, &mut mapped).unwrap();
        assert_eq!(mapped.iter().filter(|&&mark| mark != 0).count(), 4);
        assert_eq!(mapped, resident);
    }

    #[test]
    fn mappings_that_touch_are_one_range() {
        let mut space = AddressSpace::new(8 << 20);
        let mut map = |start: u64, end: u64, prot: u32| {
            space.insert(Mapping { start, end, prot, backing: Backing::File });
        };
        map(0x10000, 0x12000, 1);
        map(0x12000, 0x13000, 3);
        map(0x14000, 0x15000, 3);
        map(0x1000_0000_0000, 0x1000_0000_0000 + LARGEST + PAGE, 3);
        assert_eq!(ranges(&space), vec![(0x10000, 0x13000), (0x14000, 0x15000)]);
    }
}
