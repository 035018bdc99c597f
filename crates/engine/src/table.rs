//! A hash table from guest addresses to 32-bit indices.
//!
//! Open addressing with linear probing and no deletion by tombstone: removing re-inserts the rest
//! of the probe run, so look-ups never slow down under self-modifying code.

use alloc::vec;
use alloc::vec::Vec;

const EMPTY: u32 = u32::MAX;

/// Multiplier of Fibonacci hashing: spreads consecutive addresses over the table.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The table.
pub struct Table {
    slots: Vec<(u64, u32)>,
    used: usize,
}

impl Table {
    /// An empty table with room for about `capacity` entries; a power of two.
    pub fn new(capacity: usize) -> Table {
        Table { slots: vec![(0, EMPTY); capacity.next_power_of_two() * 2], used: 0 }
    }

    fn first_slot(&self, key: u64) -> usize {
        (key.wrapping_mul(SPREAD) >> (64 - self.slots.len().trailing_zeros())) as usize
    }

    /// Looks a key up.
    pub fn get(&self, key: u64) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut at = self.first_slot(key);
        loop {
            let (found, value) = self.slots[at];
            if value == EMPTY {
                return None;
            }
            if found == key {
                return Some(value);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds or replaces a key. `value` is not `u32::MAX`.
    pub fn insert(&mut self, key: u64, value: u32) {
        debug_assert_ne!(value, EMPTY);
        if (self.used + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = self.first_slot(key);
        while self.slots[at].1 != EMPTY && self.slots[at].0 != key {
            at = (at + 1) & mask;
        }
        self.used += (self.slots[at].1 == EMPTY) as usize;
        self.slots[at] = (key, value);
    }

    /// Removes a key.
    pub fn remove(&mut self, key: u64) {
        let mask = self.slots.len() - 1;
        let mut at = self.first_slot(key);
        while self.slots[at].1 != EMPTY && self.slots[at].0 != key {
            at = (at + 1) & mask;
        }
        if self.slots[at].1 == EMPTY {
            return;
        }
        self.slots[at].1 = EMPTY;
        self.used -= 1;
        // Entries that probed past the hole would no longer be found: put them in again.
        loop {
            at = (at + 1) & mask;
            let (key, value) = self.slots[at];
            if value == EMPTY {
                return;
            }
            self.slots[at].1 = EMPTY;
            self.used -= 1;
            self.insert(key, value);
        }
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.slots.fill((0, EMPTY));
        self.used = 0;
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.slots.iter().copied().filter(|&(_, value)| value != EMPTY)
    }

    #[cold]
    fn grow(&mut self) {
        let bigger = vec![(0, EMPTY); self.slots.len() * 2];
        let old = core::mem::replace(&mut self.slots, bigger);
        self.used = 0;
        for (key, value) in old {
            if value != EMPTY {
                self.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn agrees_with_a_plain_map() {
        let mut table = Table::new(4);
        let mut oracle = HashMap::new();
        let mut seed = 1u64;
        for step in 0..100_000u32 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let key = (seed >> 33) % 500;
            if seed & (1 << 20) == 0 {
                table.insert(key, step);
                oracle.insert(key, step);
            } else {
                table.remove(key);
                oracle.remove(&key);
            }
            let probe = (seed >> 13) % 500;
            assert_eq!(table.get(probe), oracle.get(&probe).copied());
        }
        assert_eq!(table.iter().count(), oracle.len());
    }
}
