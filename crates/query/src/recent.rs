//! A map that keeps what was used lately, within a number of bytes.

use std::collections::HashMap;
use std::hash::Hash;

/// Recently used values.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    entries: HashMap<K, Entry<V>>,
    bytes: usize,
    limit: usize,
    clock: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    bytes: usize,
    used: u64,
}

impl<K: Hash + Eq + Copy, V> Recent<K, V> {
    pub(crate) fn new(limit: usize) -> Recent<K, V> {
        Recent { entries: HashMap::new(), bytes: 0, limit, clock: 0 }
    }

    pub(crate) fn get(&mut self, key: K) -> Option<&V> {
        self.clock += 1;
        let entry = self.entries.get_mut(&key)?;
        entry.used = self.clock;
        Some(&entry.value)
    }

    /// Keeps a value that takes so many bytes; others go if there is not enough room, and are returned.
    pub(crate) fn insert(&mut self, key: K, value: V, bytes: usize) -> Vec<V> {
        let mut forgotten = Vec::new();
        self.clock += 1;
        let entry = Entry { value, bytes, used: self.clock };
        if let Some(old) = self.entries.insert(key, entry) {
            self.bytes -= old.bytes;
        }
        self.bytes += bytes;
        while self.bytes > self.limit && self.entries.len() > 1 {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(key, _)| *key) else { break };
            if let Some(old) = self.entries.remove(&oldest) {
                self.bytes -= old.bytes;
                forgotten.push(old.value);
            }
        }
        forgotten
    }
}
