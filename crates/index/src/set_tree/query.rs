//! Questions to a tree.
//!
//! All of them descend from the top with what a node tells of its children: which of them have any of the keys, and how
//! often. A child that has none is never entered; a child is entered in vain only if the windows asked for
//! end within it, which happens at most twice on each level.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::leaf::Entries;
use super::merge::Counts;
use super::tree::SetTree;
use super::{FANOUT, NodeId, SetKind, SetTreeError, children};

/// The most keys that [`SetTree::keys_of`] hands out.
const KEYS_LIMIT: u64 = 1 << 26;

/// Keys to ask for: ranges of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys(Vec<Range<u64>>);

impl From<Vec<Range<u64>>> for Keys {
    fn from(mut ranges: Vec<Range<u64>>) -> Keys {
        ranges.retain(|range| range.start < range.end);
        ranges.sort_by_key(|range| range.start);
        Keys(joined(ranges))
    }
}

impl From<&[Range<u64>]> for Keys {
    fn from(ranges: &[Range<u64>]) -> Keys {
        ranges.to_vec().into()
    }
}

impl From<Range<u64>> for Keys {
    fn from(range: Range<u64>) -> Keys {
        vec![range].into()
    }
}

/// Joins ranges that touch; they are in the order of their starts.
fn joined(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// Where the n-th occurrence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nth {
    /// Its window.
    pub window: u32,
    /// How many of the occurrences asked for lie between where counting began and that window.
    pub skipped: u64,
}

/// What a node tells of its children.
struct Totals {
    /// The children that have any of the keys.
    mask: u16,
    /// How often the keys occur in each of them.
    counts: Counts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forwards,
    Backwards,
}

impl Direction {
    /// Takes the next child out of a mask.
    fn take(self, mask: &mut u16) -> Option<u32> {
        let child = match self {
            Direction::Forwards => mask.trailing_zeros(),
            Direction::Backwards => mask.checked_ilog2()?,
        };
        *mask &= !1u16.checked_shl(child)?;
        Some(child)
    }
}

/// Where to look, and from which end.
#[derive(Clone, Debug)]
struct Search {
    windows: Range<u32>,
    direction: Direction,
}

/// Windows that have any of some keys, found one after the other; see [`SetTree::windows_before`].
#[derive(Debug)]
pub struct Windows<'a> {
    tree: &'a SetTree,
    keys: Keys,
    search: Search,
    /// Top nodes that are not entered yet, the next one last.
    tops: Vec<NodeId>,
    /// The nodes on the way down, with the children that are still to be entered.
    path: Vec<(NodeId, u16)>,
}

impl<'a> Windows<'a> {
    fn new(tree: &'a SetTree, keys: Keys, search: Search) -> Windows<'a> {
        let mut tops = tree.tops_in(&search.windows);
        if search.direction == Direction::Forwards {
            tops.reverse();
        }
        Windows { tree, keys, search, tops, path: Vec::new() }
    }

    fn enter(&mut self, node: NodeId) -> Result<(), SetTreeError> {
        let mask = self.tree.totals(node, &self.keys)?.mask;
        self.path.push((node, mask & node.children_in(&self.search.windows)));
        Ok(())
    }

    fn advance(&mut self) -> Result<Option<u32>, SetTreeError> {
        loop {
            let Some((node, mask)) = self.path.last_mut() else {
                let Some(top) = self.tops.pop() else { return Ok(None) };
                self.enter(top)?;
                continue;
            };
            let node = *node;
            match self.search.direction.take(mask) {
                None => {
                    self.path.pop();
                }
                Some(child) if node.level == 1 => return Ok(Some(node.index * FANOUT + child)),
                Some(child) => self.enter(node.child(child))?,
            }
        }
    }
}

impl Iterator for Windows<'_> {
    type Item = Result<u32, SetTreeError>;

    fn next(&mut self) -> Option<Result<u32, SetTreeError>> {
        let result = self.advance();
        if result.is_err() {
            self.tops.clear();
            self.path.clear();
        }
        result.transpose()
    }
}

impl SetTree {
    /// The last window before another that has any of the keys.
    pub fn last_before(
        &self,
        window: u32,
        keys: impl Into<Keys>,
    ) -> Result<Option<u32>, SetTreeError> {
        self.windows_before(window, keys).next().transpose()
    }

    /// The first window from another on that has any of the keys.
    pub fn first_from(
        &self,
        window: u32,
        keys: impl Into<Keys>,
    ) -> Result<Option<u32>, SetTreeError> {
        self.windows_from(window, keys).next().transpose()
    }

    /// The windows before another that have any of the keys, the last one first.
    pub fn windows_before(&self, window: u32, keys: impl Into<Keys>) -> Windows<'_> {
        let windows = self.whole_tail(0..window);
        Windows::new(self, keys.into(), Search { windows, direction: Direction::Backwards })
    }

    /// The windows from another on that have any of the keys.
    pub fn windows_from(&self, window: u32, keys: impl Into<Keys>) -> Windows<'_> {
        let windows = self.whole_tail(window..u32::MAX);
        Windows::new(self, keys.into(), Search { windows, direction: Direction::Forwards })
    }

    /// Whether a window has any of the keys.
    pub fn contains(&self, window: u32, keys: impl Into<Keys>) -> Result<bool, SetTreeError> {
        if window >= self.windows() {
            return Ok(false);
        }
        let node = NodeId { level: 1, index: window / FANOUT };
        Ok(self.totals(node, &keys.into())?.mask >> (window % FANOUT) & 1 == 1)
    }

    /// The keys of a range that a window has, as runs with the count of each key (0 in plain sets).
    pub fn runs_of(
        &self,
        window: u32,
        keys: Range<u64>,
    ) -> Result<Vec<(Range<u64>, u32)>, SetTreeError> {
        let mut runs: Vec<(Range<u64>, u32)> = Vec::new();
        if window >= self.windows() {
            return Ok(runs);
        }
        let node = NodeId { level: 1, index: window / FANOUT };
        self.visit(node, &keys.into(), |run, entries, entry| {
            let found = entries.occurrences(entry).find(|&(child, _)| child == window % FANOUT);
            let Some((_, count)) = found else { return };
            // Counts of single windows are 32 bits wide when they are appended.
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            match runs.last_mut() {
                Some((last, same)) if last.end == run.start && *same == count => last.end = run.end,
                _ => runs.push((run, count)),
            }
        })?;
        Ok(runs)
    }

    /// The keys of a range that a window has, with their counts (0 in plain sets).
    pub fn keys_of(&self, window: u32, keys: Range<u64>) -> Result<Vec<(u64, u32)>, SetTreeError> {
        let runs = self.runs_of(window, keys)?;
        let keys: u64 = runs.iter().map(|(run, _)| run.end - run.start).sum();
        if keys > KEYS_LIMIT {
            return Err(SetTreeError::TooManyKeys { window, keys });
        }
        Ok(runs.into_iter().flat_map(|(run, count)| run.map(move |key| (key, count))).collect())
    }

    /// The keys of a range that any of some windows has, as runs.
    pub fn union(
        &self,
        windows: Range<u32>,
        keys: Range<u64>,
    ) -> Result<Vec<Range<u64>>, SetTreeError> {
        let windows = self.whole_tail(windows);
        let keys = keys.into();
        let mut runs = Vec::new();
        let mut stack = self.tops_in(&windows);
        while let Some(node) = stack.pop() {
            let within = node.children_within(&windows);
            let cut = node.children_in(&windows) & !within;
            let mut entered = 0;
            self.visit(node, &keys, |run, entries, entry| {
                let mask = entries.masks[entry];
                entered |= mask & cut;
                if mask & within != 0 {
                    runs.push(run);
                }
            })?;
            stack.extend(children(entered).map(|child| node.child(child)));
        }
        runs.sort_by_key(|run| run.start);
        Ok(joined(runs))
    }

    /// How often the keys occur in some windows.
    pub fn count(&self, windows: Range<u32>, keys: impl Into<Keys>) -> Result<u64, SetTreeError> {
        self.refuse_plain()?;
        let (windows, keys) = (self.whole_tail(windows), keys.into());
        let mut count = 0u64;
        let mut stack = self.tops_in(&windows);
        while let Some(node) = stack.pop() {
            let totals = self.totals(node, &keys)?;
            let within = totals.mask & node.children_within(&windows);
            let cut = totals.mask & node.children_in(&windows) & !within;
            let counts = children(within).map(|child| totals.counts[child as usize]);
            count = counts.fold(count, u64::saturating_add);
            stack.extend(children(cut).map(|child| node.child(child)));
        }
        Ok(count)
    }

    /// How often each of the keys that occur in some windows does so there. All keys are found in one descent: much faster
    /// than to count one after the other.
    pub fn count_each(
        &self,
        windows: Range<u32>,
        keys: impl Into<Keys>,
    ) -> Result<BTreeMap<u64, u64>, SetTreeError> {
        self.refuse_plain()?;
        let (windows, keys) = (self.whole_tail(windows), keys.into());
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        let mut stack = self.tops_in(&windows);
        while let Some(node) = stack.pop() {
            let within = node.children_within(&windows);
            let cut = node.children_in(&windows) & !within;
            let mut entered = 0;
            self.visit(node, &keys, |run, entries, entry| {
                entered |= entries.masks[entry] & cut;
                let occurrences = entries.occurrences(entry);
                let counted = occurrences.filter(|(child, _)| within >> child & 1 == 1);
                let count = counted.fold(0, |sum: u64, (_, count)| sum.saturating_add(count));
                for key in run.filter(|_| count > 0) {
                    let known = counts.entry(key).or_default();
                    *known = known.saturating_add(count);
                }
            })?;
            // A file can claim what it likes, but there are no windows beyond the tree.
            entered &= node.children_in(&(0..self.windows()));
            stack.extend(children(entered).map(|child| node.child(child)));
        }
        Ok(counts)
    }

    /// The window of the occurrence before which there are `n` others, counting from the start of a window.
    pub fn nth_from(
        &self,
        window: u32,
        keys: impl Into<Keys>,
        n: u64,
    ) -> Result<Option<Nth>, SetTreeError> {
        let windows = self.whole_tail(window..u32::MAX);
        self.nth(Search { windows, direction: Direction::Forwards }, &keys.into(), n)
    }

    /// The window of the occurrence after which there are `n` others, counting backwards from the start of a window.
    pub fn nth_before(
        &self,
        window: u32,
        keys: impl Into<Keys>,
        n: u64,
    ) -> Result<Option<Nth>, SetTreeError> {
        let windows = self.whole_tail(0..window);
        self.nth(Search { windows, direction: Direction::Backwards }, &keys.into(), n)
    }

    fn nth(&self, search: Search, keys: &Keys, n: u64) -> Result<Option<Nth>, SetTreeError> {
        self.refuse_plain()?;
        let mut skipped = 0;
        let mut tops = self.tops_in(&search.windows);
        if search.direction == Direction::Backwards {
            tops.reverse();
        }
        for node in tops {
            if let Some(window) = self.nth_below(node, &search, keys, n, &mut skipped)? {
                return Ok(Some(Nth { window, skipped }));
            }
        }
        Ok(None)
    }

    /// The window of the n-th occurrence if it is below a node; otherwise all that are there are skipped.
    fn nth_below(
        &self,
        node: NodeId,
        search: &Search,
        keys: &Keys,
        n: u64,
        skipped: &mut u64,
    ) -> Result<Option<u32>, SetTreeError> {
        let totals = self.totals(node, keys)?;
        let within = node.children_within(&search.windows);
        let mut left = totals.mask & node.children_in(&search.windows);
        while let Some(child) = search.direction.take(&mut left) {
            let beyond = skipped.saturating_add(totals.counts[child as usize]);
            if within >> child & 1 == 1 && beyond <= n {
                *skipped = beyond;
            } else if node.level == 1 {
                return Ok(Some(node.index * FANOUT + child));
            } else {
                let found = self.nth_below(node.child(child), search, keys, n, skipped)?;
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    fn refuse_plain(&self) -> Result<(), SetTreeError> {
        if self.kind() == SetKind::Plain { Err(SetTreeError::NotCounted) } else { Ok(()) }
    }

    /// Windows up to the end of the tree go on without end, so that they cover partial nodes wholly.
    fn whole_tail(&self, windows: Range<u32>) -> Range<u32> {
        if windows.end < self.windows() { windows } else { windows.start..u32::MAX }
    }

    /// The top nodes with windows of a range, in order.
    fn tops_in(&self, windows: &Range<u32>) -> Vec<NodeId> {
        let tops = self.tops.iter().copied();
        tops.filter(|node| node.children_in(windows) != 0).collect()
    }

    /// What a node knows of keys.
    fn totals(&self, node: NodeId, keys: &Keys) -> Result<Totals, SetTreeError> {
        let mut totals = Totals { mask: 0, counts: [0; FANOUT as usize] };
        let directory = self.directory(node)?;
        for range in &keys.0 {
            for leaf in directory.overlapping(range.start, range.end) {
                if range.start <= leaf.start && leaf.end <= range.end {
                    totals.mask |= leaf.mask;
                    let counts = leaf.counts.iter().flat_map(|counts| counts.iter());
                    for (total, count) in totals.counts.iter_mut().zip(counts) {
                        *total = total.saturating_add(*count);
                    }
                    continue;
                }
                let entries = self.entries(leaf)?;
                for entry in entries.overlapping(range.start, range.end) {
                    let start = entries.starts[entry].max(range.start);
                    let keys = entries.ends[entry].min(range.end) - start;
                    totals.mask |= entries.masks[entry];
                    if self.kind() == SetKind::Plain {
                        continue;
                    }
                    for (child, count) in entries.occurrences(entry) {
                        let total = &mut totals.counts[child as usize];
                        *total = total.saturating_add(count.saturating_mul(keys));
                    }
                }
            }
        }
        // A file can claim what it likes, but answers are windows of the tree.
        totals.mask &= node.children_in(&(0..self.windows()));
        Ok(totals)
    }

    /// Hands out all entries of a node with any of the keys, cut to them.
    fn visit(
        &self,
        node: NodeId,
        keys: &Keys,
        mut visitor: impl FnMut(Range<u64>, &Entries, usize),
    ) -> Result<(), SetTreeError> {
        let directory = self.directory(node)?;
        // The next range is mostly in the same leaf.
        let mut last: Option<(u64, Arc<Entries>)> = None;
        for range in &keys.0 {
            for leaf in directory.overlapping(range.start, range.end) {
                let entries = match &last {
                    Some((position, entries)) if *position == leaf.position() => entries,
                    _ => &last.insert((leaf.position(), self.entries(leaf)?)).1,
                };
                for entry in entries.overlapping(range.start, range.end) {
                    let start = entries.starts[entry].max(range.start);
                    let end = entries.ends[entry].min(range.end);
                    visitor(start..end, entries, entry);
                }
            }
        }
        Ok(())
    }
}
