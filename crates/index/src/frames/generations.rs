//! A map that remembers what was used lately, within a number of bytes.
//!
//! Two generations: what is used goes into the young one; when that holds half of the bytes, it becomes the old one,
//! and what was in the old one is forgotten. An entry is thus kept at least until half of the bytes were used
//! after it, and nothing needs to be ordered.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem;

/// A map of recently used values.
#[derive(Debug)]
pub(crate) struct Generations<K, V> {
    young: HashMap<K, (V, usize)>,
    old: HashMap<K, (V, usize)>,
    /// Bytes in the young generation.
    bytes: usize,
    limit: usize,
}

impl<K: Hash + Eq + Copy, V> Generations<K, V> {
    pub(crate) fn new(limit: usize) -> Generations<K, V> {
        Generations { young: HashMap::new(), old: HashMap::new(), bytes: 0, limit: limit / 2 }
    }

    /// A value that is still there; it counts as used.
    pub(crate) fn get(&mut self, key: K) -> Option<&mut V> {
        if let Some((value, bytes)) = self.old.remove(&key) {
            self.insert(key, value, bytes);
        }
        self.young.get_mut(&key).map(|(value, _)| value)
    }

    /// Keeps a value that takes so many bytes.
    pub(crate) fn insert(&mut self, key: K, value: V, bytes: usize) {
        if self.bytes >= self.limit {
            self.old = mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.old.remove(&key);
        self.bytes += bytes;
        if let Some((_, replaced)) = self.young.insert(key, (value, bytes)) {
            self.bytes -= replaced;
        }
    }
}
