//! Growing a tree, window by window.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::leaf::{Entries, LeafEncoder};
use super::merge::{Merger, Piece};
use super::node::{Directory, NodeWriter};
use super::tree::{load_nodes, put_node};
use super::{COUNT_LIMIT, FANOUT, KEY_LIMIT, LEVELS, NodeId, SetKind, SetTreeError, children};
use retro_recording::NamedFile;

use crate::frames::ledger::Ledger;
use crate::frames::{FrameError, FrameFile, FrameWriter};

/// Writes a tree of sets.
pub struct SetTreeWriter {
    file: FrameWriter,
    ledger: Ledger,
    kind: SetKind,
    windows: u32,
    /// Where the nodes are that lack no windows, and the partial ones of the last commit.
    nodes: HashMap<NodeId, u64>,
    /// The sets of the windows that are in no complete node yet.
    group: Vec<Piece>,
    merger: Merger,
    encoder: LeafEncoder,
}

impl SetTreeWriter {
    /// Begins a tree in a new file.
    pub fn create(place: &NamedFile, kind: SetKind) -> Result<SetTreeWriter, SetTreeError> {
        let file = FrameWriter::create(place, kind.tag())?;
        Ok(SetTreeWriter::on(file, kind, Ledger::default(), 0, HashMap::new()))
    }

    /// Goes on with a tree as of a commit.
    pub fn resume(
        place: &NamedFile,
        kind: SetKind,
        committed: u64,
    ) -> Result<SetTreeWriter, SetTreeError> {
        let mut file = FrameWriter::reopen(place, kind.tag(), committed)?;
        let (ledger, windows, nodes) = load_nodes(file.written()?)?;
        let mut writer = SetTreeWriter::on(file, kind, ledger, windows, nodes);
        writer.read_group()?;
        Ok(writer)
    }

    fn on(
        file: FrameWriter,
        kind: SetKind,
        ledger: Ledger,
        windows: u32,
        nodes: HashMap<NodeId, u64>,
    ) -> SetTreeWriter {
        let (group, merger, encoder) = (Vec::new(), Merger::new(kind), LeafEncoder::new());
        SetTreeWriter { file, ledger, kind, windows, nodes, group, merger, encoder }
    }

    /// How many windows it has.
    pub fn windows(&self) -> u32 {
        self.windows
    }

    /// Bytes of the file so far.
    pub fn bytes(&self) -> u64 {
        self.file.position()
    }

    /// Appends the set of a window: keys in order, each once.
    pub fn append(&mut self, keys: impl IntoIterator<Item = u64>) -> Result<(), SetTreeError> {
        self.append_runs(keys.into_iter().map(|key| key..key.saturating_add(1)))
    }

    /// As [`SetTreeWriter::append`], for sets that are known as runs of consecutive keys.
    pub fn append_runs(
        &mut self,
        runs: impl IntoIterator<Item = Range<u64>>,
    ) -> Result<(), SetTreeError> {
        if self.kind != SetKind::Plain {
            return Err(SetTreeError::WrongKind);
        }
        self.append_pieces(runs.into_iter().map(|run| (run, 0)))
    }

    /// Appends the set of a window: keys in order, each once, with how often it occurs.
    pub fn append_counted(
        &mut self,
        keys: impl IntoIterator<Item = (u64, u32)>,
    ) -> Result<(), SetTreeError> {
        if self.kind != SetKind::Counted {
            return Err(SetTreeError::WrongKind);
        }
        let keys = keys.into_iter().filter(|&(_, count)| count > 0);
        self.append_pieces(keys.map(|(key, count)| (key..key.saturating_add(1), count.into())))
    }

    /// Makes everything appended readable and tells the length that a manifest has to remember. This costs nothing
    /// when the number of windows is a multiple of [`FANOUT`], and otherwise as much room as the sets of the
    /// windows since the last multiple.
    pub fn commit(&mut self) -> Result<u64, SetTreeError> {
        let partial = NodeId { level: 1, index: self.windows / FANOUT };
        if !self.windows.is_multiple_of(FANOUT) && !self.nodes.contains_key(&partial) {
            self.write_lowest(partial)?;
        }
        Ok(self.ledger.commit(&mut self.file, self.windows.into())?)
    }

    /// Commits a tree that will hardly grow any more, with nodes at the top that make asking it faster.
    pub fn finish(&mut self) -> Result<u64, SetTreeError> {
        self.commit()?;
        for level in 2..=LEVELS {
            let last = u64::from(self.windows).saturating_sub(1);
            let windows = NodeId { level, index: 0 }.windows().end;
            let node = NodeId { level, index: (last / windows) as u32 };
            // Nothing is gained by a top with one child, but a node that is not the top must be there.
            let needed = node.index > 0 || self.nodes.contains_key(&node.child(1));
            if needed && !self.nodes.contains_key(&node) {
                self.write_merged(node)?;
            }
        }
        self.commit()
    }

    /// Waits until what was committed is on the disk.
    pub fn sync(&self) -> Result<(), SetTreeError> {
        Ok(self.file.sync()?)
    }

    /// Either all of a window's keys are appended or none.
    fn append_pieces(
        &mut self,
        runs: impl Iterator<Item = (Range<u64>, u64)>,
    ) -> Result<(), SetTreeError> {
        if self.windows == u32::MAX {
            return Err(SetTreeError::Full);
        }
        let first = self.group.len();
        let child = (self.windows % FANOUT) as u8;
        for (run, count) in runs {
            let previous = self.group[first..].last().map_or(0, |piece| piece.end);
            if run.start < previous || run.end <= run.start || run.end > KEY_LIMIT {
                self.group.truncate(first);
                let window = self.windows;
                return Err(SetTreeError::KeyOutOfOrder { window, key: run.start });
            }
            match self.group[first..].last_mut() {
                Some(last) if last.end == run.start && last.count == count => last.end = run.end,
                _ => self.group.push(Piece { start: run.start, end: run.end, count, child }),
            }
        }
        self.forget_partial_nodes();
        self.windows += 1;
        if self.windows.is_multiple_of(FANOUT) {
            self.complete_group()?;
        }
        Ok(())
    }

    /// What a commit wrote of nodes that now grow.
    fn forget_partial_nodes(&mut self) {
        for level in 1..=LEVELS {
            let windows = NodeId { level, index: 0 }.windows().end;
            let index = (u64::from(self.windows) / windows) as u32;
            self.nodes.remove(&NodeId { level, index });
        }
    }

    fn complete_group(&mut self) -> Result<(), SetTreeError> {
        let mut node = NodeId { level: 1, index: self.windows / FANOUT - 1 };
        self.write_lowest(node)?;
        self.group.clear();
        while node.index % FANOUT == FANOUT - 1 && node.level < LEVELS {
            node = node.parent();
            self.write_merged(node)?;
        }
        Ok(())
    }

    /// Writes a node of the windows in the group.
    fn write_lowest(&mut self, id: NodeId) -> Result<(), SetTreeError> {
        for &piece in &self.group {
            self.merger.add(piece);
        }
        let mut node = NodeWriter::new(&mut self.file, &mut self.encoder, self.kind);
        self.merger.finish(|start, end, mask, counts| node.push(start, end, mask, counts))?;
        let position = node.finish()?;
        self.add_node(id, position);
        Ok(())
    }

    /// Writes a node of the nodes below it.
    fn write_merged(&mut self, id: NodeId) -> Result<(), SetTreeError> {
        let mut rows = Vec::new();
        let file = self.file.written()?;
        for child in children(id.children_in(&(0..self.windows))) {
            let missing = || file.damaged(file.length(), "a node is missing");
            let position = *self.nodes.get(&id.child(child)).ok_or_else(missing)?;
            rows.push(Row::open(file, position, self.kind, child as u8)?);
        }
        let mut node = NodeWriter::new(&mut self.file, &mut self.encoder, self.kind);
        while let Some(bound) = next_bound(&mut rows, &mut node, self.kind)? {
            for row in &mut rows {
                row.take_until(bound, &mut self.merger);
            }
            self.merger.finish(|start, end, mask, counts| node.push(start, end, mask, counts))?;
        }
        let position = node.finish()?;
        self.add_node(id, position);
        Ok(())
    }

    fn add_node(&mut self, id: NodeId, position: u64) {
        self.nodes.insert(id, position);
        let end = id.windows().end.min(self.windows.into()) as u32;
        put_node(self.ledger.end(), id, end, position);
    }

    /// The windows at the end of a tree that are in a partial node.
    fn read_group(&mut self) -> Result<(), SetTreeError> {
        let id = NodeId { level: 1, index: self.windows / FANOUT };
        let Some(&position) = self.nodes.get(&id) else { return Ok(()) };
        let file = self.file.written()?;
        for leaf in Directory::read(file, position, self.kind)?.leaves {
            let entries = leaf.read(file, self.kind)?;
            for entry in 0..entries.len() {
                let (start, end) = (entries.starts[entry], entries.ends[entry]);
                self.group.extend(entries.occurrences(entry).map(|(child, count)| Piece {
                    start,
                    end,
                    count,
                    child: child as u8,
                }));
            }
        }
        self.group.sort_by_key(|piece| piece.child);
        if self.group.last().is_some_and(|last| u32::from(last.child) >= self.windows % FANOUT) {
            return Err(file.damaged(position, "a node has windows that were not written").into());
        }
        Ok(())
    }
}

/// A child that is being merged: its entries in order, one leaf in memory.
struct Row {
    directory: Directory,
    next_leaf: usize,
    entries: Arc<Entries>,
    next_entry: usize,
    /// What is left of the next entry begins here or at its start, whichever is later.
    position: u64,
    child: u8,
}

impl Row {
    fn open(file: &FrameFile, position: u64, kind: SetKind, child: u8) -> Result<Row, FrameError> {
        let directory = Directory::read(file, position, kind)?;
        let entries = Arc::default();
        Ok(Row { directory, next_leaf: 0, entries, next_entry: 0, position: 0, child })
    }

    fn is_used_up(&self) -> bool {
        self.next_entry == self.entries.len()
    }

    /// Merges what lies below a bound, and goes on from there.
    fn take_until(&mut self, bound: u64, merger: &mut Merger) {
        while !self.is_used_up() {
            let entry = self.next_entry;
            let start = self.entries.starts[entry].max(self.position);
            let end = self.entries.ends[entry].min(bound);
            if start >= bound {
                break;
            }
            let counts = self.entries.occurrences(entry).map(|(_, count)| count);
            let count = counts.fold(0, u64::saturating_add).min(COUNT_LIMIT);
            merger.add(Piece { start, end, count, child: self.child });
            if end < self.entries.ends[entry] {
                break;
            }
            self.next_entry += 1;
        }
        self.position = bound;
    }
}

/// Sees to it that all rows have entries, and tells up to where all of them are known; `None` when they are at an end.
fn next_bound(
    rows: &mut [Row],
    node: &mut NodeWriter,
    kind: SetKind,
) -> Result<Option<u64>, FrameError> {
    let mut bound = KEY_LIMIT;
    for row in &mut *rows {
        if row.is_used_up()
            && let Some(leaf) = row.directory.leaves.get(row.next_leaf)
        {
            row.entries = leaf.read(node.written()?, kind)?;
            (row.next_entry, row.next_leaf) = (0, row.next_leaf + 1);
        }
        if row.next_leaf < row.directory.leaves.len() {
            bound = bound.min(row.entries.ends.last().copied().unwrap_or(0));
        }
    }
    Ok((!rows.iter().all(Row::is_used_up)).then_some(bound))
}
