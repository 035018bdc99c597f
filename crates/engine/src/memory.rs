//! The engine's own heap: size classes over large chunks, under one lock.
//!
//! The engine allocates little and mostly for ever (tables that grow, path strings), so simplicity wins
//! over density. Nothing is allocated in signal handlers.

use crate::lock::{Guard, Lock};
use crate::sys;
use core::alloc::{GlobalAlloc, Layout};
use linux_raw_sys::general::{PROT_READ, PROT_WRITE};

const SMALLEST: usize = 16;
const CLASSES: usize = 13;
/// Larger requests get mappings of their own.
const LARGEST: usize = SMALLEST << (CLASSES - 1);
const CHUNK: usize = 256 << 10;
/// The first chunk holds the decoder's tables, which are built at once and used whole; it is populated by
/// one call instead of hundreds of faults.
const FIRST_CHUNK: usize = 1792 << 10;

struct Heap {
    /// Heads of the lists of free blocks; a free block's first word points to the next.
    free: [usize; CLASSES],
    next: usize,
    end: usize,
}

static HEAP: Lock<Heap> = Lock::new(Heap { free: [0; CLASSES], next: 0, end: 0 });

/// Keeps other threads out of the heap.
pub struct Hold {
    _guard: Guard<'static, Heap>,
}

/// Holds the heap still, across `fork`.
pub fn hold() -> Hold {
    Hold { _guard: HEAP.lock() }
}

/// The allocator.
pub struct EngineHeap;

fn class_of(layout: &Layout) -> Option<usize> {
    let size = layout.size().max(layout.align()).max(SMALLEST);
    (size <= LARGEST).then(|| (size.next_power_of_two() / SMALLEST).trailing_zeros() as usize)
}

// SAFETY: blocks of a class are disjoint, at least as large and as aligned as asked, and on a free list
// only while nobody uses them.
unsafe impl GlobalAlloc for EngineHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(class) = class_of(&layout) else {
            let mapped = sys::map_anonymous(layout.size() as u64, PROT_READ | PROT_WRITE);
            return mapped.map_or(core::ptr::null_mut(), |at| at as *mut u8);
        };
        let size = SMALLEST << class;
        let mut heap = HEAP.lock();
        let head = heap.free[class];
        if head != 0 {
            // SAFETY: a free block's first word is its link.
            heap.free[class] = unsafe { (head as *const usize).read() };
            return head as *mut u8;
        }
        let mut at = heap.next.next_multiple_of(size);
        if at + size > heap.end {
            let first = heap.end == 0;
            let want = if first { FIRST_CHUNK } else { CHUNK.max(size) };
            let mapped = if first { sys::map_populated(want as u64) } else { None };
            let mapped =
                mapped.or_else(|| sys::map_anonymous(want as u64, PROT_READ | PROT_WRITE).ok());
            let Some(chunk) = mapped else { return core::ptr::null_mut() };
            at = (chunk as usize).next_multiple_of(size);
            heap.end = chunk as usize + want;
        }
        heap.next = at + size;
        at as *mut u8
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(class) = class_of(&layout) else {
            // SAFETY: `alloc` mapped exactly this.
            let _ = unsafe { sys::munmap(block as u64, layout.size() as u64) };
            return;
        };
        let mut heap = HEAP.lock();
        // SAFETY: the block is free and large enough for a link.
        unsafe { block.cast::<usize>().write(heap.free[class]) };
        heap.free[class] = block as usize;
    }
}
