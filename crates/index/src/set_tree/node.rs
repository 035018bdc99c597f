//! Nodes in the file: leaves, then a directory of them.

use std::sync::Arc;

use super::leaf::{Entries, LEAF_ENTRIES, LeafEncoder, decode};
use super::merge::Counts;
use super::{COUNT_LIMIT, FANOUT, KEY_LIMIT, SetKind, children};
use crate::frames::fields::{BadField, Fields, put_number};
use crate::frames::{FrameError, FrameFile, FrameWriter};

const LEAF: u8 = 0;
const DIRECTORY: u8 = 1;

/// What is known of a leaf without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeafSummary {
    /// The first key of its first entry.
    pub(super) start: u64,
    /// The end of its last entry.
    pub(super) end: u64,
    position: u64,
    /// All masks together.
    pub(super) mask: u16,
    /// How often all of its keys together occur in each child; `None` for plain sets.
    pub(super) counts: Option<Box<Counts>>,
}

/// The leaves of a node, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Directory {
    pub(super) leaves: Vec<LeafSummary>,
}

impl Directory {
    pub(super) fn read(
        file: &FrameFile,
        position: u64,
        kind: SetKind,
    ) -> Result<Directory, FrameError> {
        let bytes = file.read_kind(position, DIRECTORY)?;
        Directory::decode(&bytes, position, kind).map_err(|reason| file.damaged(position, reason))
    }

    /// Bytes in memory.
    pub(super) fn size(&self) -> usize {
        self.leaves.len() * (size_of::<LeafSummary>() + size_of::<Counts>())
    }

    /// The leaves that may have keys of a range.
    pub(super) fn overlapping(&self, start: u64, end: u64) -> &[LeafSummary] {
        let first = self.leaves.partition_point(|leaf| leaf.end <= start);
        let until = self.leaves.partition_point(|leaf| leaf.start < end);
        &self.leaves[first..until.max(first)]
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_number(&mut bytes, self.leaves.len() as u64);
        let (mut end, mut position) = (0, 0);
        for leaf in &self.leaves {
            put_number(&mut bytes, leaf.start - end);
            put_number(&mut bytes, leaf.end - leaf.start);
            put_number(&mut bytes, leaf.position - position);
            put_number(&mut bytes, leaf.mask.into());
            for child in leaf.counts.iter().flat_map(|_| children(leaf.mask)) {
                let count = leaf.counts.as_ref().map_or(0, |counts| counts[child as usize]);
                put_number(&mut bytes, count);
            }
            (end, position) = (leaf.end, leaf.position);
        }
        bytes
    }

    /// The leaves of a node lie before its directory.
    fn decode(bytes: &[u8], limit: u64, kind: SetKind) -> Result<Directory, BadField> {
        let mut fields = Fields::new(bytes);
        let mut directory = Directory::default();
        let (mut end, mut position) = (0u64, 0u64);
        for _ in 0..fields.count()? {
            let start = end.checked_add(fields.number()?).ok_or("a key is too large")?;
            end = start.checked_add(fields.number()?).ok_or("a key is too large")?;
            position = position.checked_add(fields.number()?).ok_or("a leaf is nowhere")?;
            let mask = fields.number()?;
            let mask = u16::try_from(mask).map_err(|_| "a mask is too large")?;
            if start >= end || end > KEY_LIMIT || mask == 0 || position >= limit {
                return Err("a directory of leaves makes no sense");
            }
            let mut counts = None;
            if kind == SetKind::Counted {
                let counts = counts.insert(Box::new([0; FANOUT as usize]));
                for child in children(mask) {
                    counts[child as usize] = fields.number()?;
                }
            }
            directory.leaves.push(LeafSummary { start, end, position, mask, counts });
        }
        Ok(directory)
    }
}

impl LeafSummary {
    /// Where it is, which is also what it is called in caches.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn read(&self, file: &FrameFile, kind: SetKind) -> Result<Arc<Entries>, FrameError> {
        let damaged = |reason| file.damaged(self.position, reason);
        let bytes = file.read_kind(self.position, LEAF)?;
        let entries = decode(&bytes, kind == SetKind::Counted).map_err(damaged)?;
        // Merging relies on the leaves of a node being in order.
        if entries.starts.first() != Some(&self.start) || entries.ends.last() != Some(&self.end) {
            return Err(damaged("a leaf has other keys than its directory says"));
        }
        Ok(Arc::new(entries))
    }
}

/// Writes a node, entry by entry.
pub(super) struct NodeWriter<'a> {
    file: &'a mut FrameWriter,
    encoder: &'a mut LeafEncoder,
    kind: SetKind,
    leaf: Entries,
    directory: Directory,
}

impl<'a> NodeWriter<'a> {
    pub(super) fn new(
        file: &'a mut FrameWriter,
        encoder: &'a mut LeafEncoder,
        kind: SetKind,
    ) -> NodeWriter<'a> {
        let (leaf, directory) = (Entries::default(), Directory::default());
        NodeWriter { file, encoder, kind, leaf, directory }
    }

    /// The file as written so far, for reading the children.
    pub(super) fn written(&mut self) -> Result<&FrameFile, FrameError> {
        self.file.written()
    }

    pub(super) fn push(
        &mut self,
        start: u64,
        end: u64,
        mask: u16,
        counts: &Counts,
    ) -> Result<(), FrameError> {
        let counts = (self.kind == SetKind::Counted).then_some(counts);
        self.leaf.push(start, end, mask, counts);
        if self.leaf.len() == LEAF_ENTRIES {
            self.write_leaf()?;
        }
        Ok(())
    }

    /// Tells where the node's directory is.
    pub(super) fn finish(mut self) -> Result<u64, FrameError> {
        if self.leaf.len() > 0 {
            self.write_leaf()?;
        }
        self.file.append(DIRECTORY, &self.directory.encode())
    }

    fn write_leaf(&mut self) -> Result<(), FrameError> {
        let leaf = &self.leaf;
        let position = self.file.append(LEAF, &self.encoder.encode(leaf))?;
        self.directory.leaves.push(LeafSummary {
            start: leaf.starts[0],
            end: leaf.ends[leaf.len() - 1],
            position,
            mask: leaf.masks.iter().fold(0, |all, mask| all | mask),
            counts: (self.kind == SetKind::Counted).then(|| Box::new(totals(leaf))),
        });
        self.leaf.clear();
        Ok(())
    }
}

fn totals(leaf: &Entries) -> Counts {
    let mut totals = [0u64; FANOUT as usize];
    for entry in 0..leaf.len() {
        let keys = leaf.ends[entry] - leaf.starts[entry];
        for (child, count) in leaf.occurrences(entry) {
            let total = &mut totals[child as usize];
            *total = total.saturating_add(keys.saturating_mul(count)).min(COUNT_LIMIT);
        }
    }
    totals
}
