//! Append-only arrays at stable addresses.
//!
//! Problem: a signal handler must look up what a cache address means while another thread
//! translates. A `Vec` would move under it.
//! Strategy: reserve address space once and commit it in steps; elements never move, and `len` is
//! published after the element is written.
//!
//! Invariants: elements below `len` are initialised; only the holder of the engine lock appends.

use crate::sys;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicUsize, Ordering};
use linux_raw_sys::general::{PROT_NONE, PROT_READ, PROT_WRITE};

const STEP: usize = 256 * 1024;

/// An append-only array of plain data.
pub struct Arena<T: Copy> {
    base: *mut T,
    len: AtomicUsize,
    committed: usize,
    reserved: usize,
    marker: PhantomData<T>,
}

// SAFETY: shared access reads published elements only; appending takes `&mut`.
unsafe impl<T: Copy + Send> Sync for Arena<T> {}
// SAFETY: the arena owns its memory.
unsafe impl<T: Copy + Send> Send for Arena<T> {}

impl<T: Copy> Arena<T> {
    /// Reserves room for `capacity` elements. Fails only when address space is short.
    pub fn new(capacity: usize) -> sys::Result<Arena<T>> {
        let reserved = (capacity * size_of::<T>()).next_multiple_of(STEP);
        let base = sys::map_anonymous(reserved as u64, PROT_NONE)? as *mut T;
        Ok(Arena { base, len: AtomicUsize::new(0), committed: 0, reserved, marker: PhantomData })
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends an element; `None` when the reservation is used up.
    pub fn push(&mut self, value: T) -> Option<u32> {
        self.extend(&[value])
    }

    /// Appends elements and returns the index of the first; `None` when there is no room.
    pub fn extend(&mut self, values: &[T]) -> Option<u32> {
        let len = self.len.load(Ordering::Relaxed);
        let end = (len + values.len()) * size_of::<T>();
        if end > self.committed {
            self.commit(end)?;
        }
        // SAFETY: `commit` made the range writable and nothing else refers to it yet.
        unsafe { self.base.add(len).copy_from_nonoverlapping(values.as_ptr(), values.len()) };
        self.len.store(len + values.len(), Ordering::Release);
        Some(len as u32)
    }

    #[cold]
    fn commit(&mut self, end: usize) -> Option<()> {
        let target = end.next_multiple_of(STEP);
        if target > self.reserved {
            return None;
        }
        let start = self.base as u64 + self.committed as u64;
        let len = (target - self.committed) as u64;
        // SAFETY: the range lies in this arena's reservation.
        unsafe { sys::mprotect(start, len, PROT_READ | PROT_WRITE) }.ok()?;
        self.committed = target;
        Some(())
    }

    /// Forgets all elements; their memory stays committed.
    pub fn clear(&mut self) {
        self.len.store(0, Ordering::Release);
    }

    /// The elements.
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: elements below `len` are initialised and never move.
        unsafe { core::slice::from_raw_parts(self.base, self.len()) }
    }

    /// One element, for changing.
    pub fn get_mut(&mut self, index: u32) -> &mut T {
        assert!((index as usize) < self.len());
        // SAFETY: in bounds, and `&mut self` excludes other references in safe code. The signal
        // handler reads only fields that are written before the element is published.
        unsafe { &mut *self.base.add(index as usize) }
    }
}

impl<T: Copy> core::ops::Index<u32> for Arena<T> {
    type Output = T;
    fn index(&self, index: u32) -> &T {
        &self.as_slice()[index as usize]
    }
}
