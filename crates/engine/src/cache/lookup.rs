//! The second-level branch table, which assembly probes when a thread's own table misses.
//!
//! It is a cache: an entry may be overwritten by another at any time, because every entry stub
//! checks its own guest address, and what is not found here is found by the engine.

use crate::entry::{LOOKUP_ENTRIES, LOOKUP_PROBES, LookupEntry, lookup_index};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering};

/// A table in the image's zero pages; a few entries more than the hash can name, so that probing
/// never wraps.
#[repr(C, align(64))]
pub struct Lookup(UnsafeCell<[LookupEntry; LOOKUP_ENTRIES + LOOKUP_PROBES]>);

// SAFETY: words are accessed atomically by Rust and by naturally atomic loads in assembly.
unsafe impl Sync for Lookup {}

/// Entries of indirect jumps, calls and returns.
pub static JUMP_LOOKUP: Lookup = Lookup::new();

impl Lookup {
    const fn new() -> Lookup {
        Lookup(UnsafeCell::new(
            [LookupEntry { guest: 0, cache: 0 }; LOOKUP_ENTRIES + LOOKUP_PROBES],
        ))
    }

    fn words(&self, index: usize) -> (&AtomicU64, &AtomicU64) {
        let entry = self.0.get().cast::<LookupEntry>();
        // SAFETY: callers stay within the array; both fields are aligned words.
        unsafe {
            let entry = entry.add(index);
            (
                AtomicU64::from_ptr(&raw mut (*entry).guest),
                AtomicU64::from_ptr(&raw mut (*entry).cache),
            )
        }
    }

    /// Adds an entry, in a free place near its hash or instead of another.
    pub fn insert(&self, guest: u64, cache: u64) {
        let first = lookup_index(guest);
        let place = (first..first + LOOKUP_PROBES)
            .find(|&at| matches!(self.words(at).0.load(Ordering::Relaxed), found if found == 0 || found == guest))
            .unwrap_or(first);
        let (guest_word, cache_word) = self.words(place);
        // Nobody may pair the new address with a null pointer.
        guest_word.store(0, Ordering::Release);
        cache_word.store(cache, Ordering::Release);
        guest_word.store(guest, Ordering::Release);
    }

    /// Forgets everything.
    pub fn clear(&self) {
        for index in 0..LOOKUP_ENTRIES + LOOKUP_PROBES {
            self.words(index).0.store(0, Ordering::Relaxed);
        }
    }
}
