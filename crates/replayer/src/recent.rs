//! A few things that were used recently.

/// Keeps at most `limit` values; the one that was not used for longest goes first.
///
/// Made for a handful of values: everything is a search.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    limit: usize,
    /// The last is the one used last.
    entries: Vec<(K, V)>,
}

impl<K: PartialEq, V> Recent<K, V> {
    pub(crate) fn new(limit: usize) -> Recent<K, V> {
        Recent { limit, entries: Vec::new() }
    }

    /// Finds a value and counts that as use.
    pub(crate) fn get(&mut self, key: &K) -> Option<&V> {
        let index = self.entries.iter().position(|(known, _)| known == key)?;
        let entry = self.entries.remove(index);
        self.entries.push(entry);
        self.entries.last().map(|(_, value)| value)
    }

    /// Adds a value. What has to go for it is returned, to be dropped where that may take its time.
    #[must_use]
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.entries.push((key, value));
        (self.entries.len() > self.limit).then(|| self.entries.remove(0).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_goes_first() {
        let mut recent = Recent::new(2);
        assert_eq!(recent.insert(1, "a"), None);
        assert_eq!(recent.insert(2, "b"), None);
        assert_eq!(recent.get(&1), Some(&"a"));
        assert_eq!(recent.insert(3, "c"), Some("b"));
        assert_eq!(recent.get(&2), None);
        assert_eq!(recent.get(&3), Some(&"c"));
        assert_eq!(recent.entries.len(), 2);
    }
}
