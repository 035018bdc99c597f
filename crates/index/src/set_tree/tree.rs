//! An opened tree: where its nodes are, and reading them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::leaf::Entries;
use super::node::{Directory, LeafSummary};
use super::{FANOUT, LEVELS, NodeId, SetKind, SetTreeError};
use retro_recording::NamedFile;

use crate::frames::fields::{BadField, Fields, put_number};
use crate::frames::generations::Generations;
use crate::frames::ledger::Ledger;
use crate::frames::{FrameError, FrameFile};

/// A tree of sets as of a commit, for any number of threads.
#[derive(Debug)]
pub struct SetTree {
    file: FrameFile,
    kind: SetKind,
    windows: u32,
    nodes: HashMap<NodeId, u64>,
    /// Nodes that have all windows together, in order.
    pub(super) tops: Vec<NodeId>,
    cache: Mutex<Generations<u64, Cached>>,
}

#[derive(Clone, Debug)]
enum Cached {
    Directory(Arc<Directory>),
    Leaf(Arc<Entries>),
}

impl SetTree {
    /// Opens a tree as of a commit. What was read is kept in memory up to so many bytes.
    pub fn open(
        place: &NamedFile,
        kind: SetKind,
        committed: u64,
        cache_bytes: usize,
    ) -> Result<SetTree, SetTreeError> {
        let file = FrameFile::open(place, kind.tag(), committed)?;
        let (_, windows, nodes) = load_nodes(&file)?;
        let tops = tops(windows, &nodes);
        let tops = tops.ok_or_else(|| file.damaged(file.length(), "a node is missing"))?;
        let cache = Mutex::new(Generations::new(cache_bytes));
        Ok(SetTree { file, kind, windows, nodes, tops, cache })
    }

    /// How many windows it has.
    pub fn windows(&self) -> u32 {
        self.windows
    }

    /// Whether its keys have counts.
    pub fn kind(&self) -> SetKind {
        self.kind
    }

    pub(super) fn directory(&self, node: NodeId) -> Result<Arc<Directory>, FrameError> {
        let missing = || self.file.damaged(self.file.length(), "a node is missing");
        let position = *self.nodes.get(&node).ok_or_else(missing)?;
        if let Some(Cached::Directory(directory)) = self.cached(position) {
            return Ok(directory);
        }
        let directory = Arc::new(Directory::read(&self.file, position, self.kind)?);
        self.keep(position, Cached::Directory(Arc::clone(&directory)), directory.size());
        Ok(directory)
    }

    pub(super) fn entries(&self, leaf: &LeafSummary) -> Result<Arc<Entries>, FrameError> {
        if let Some(Cached::Leaf(entries)) = self.cached(leaf.position()) {
            return Ok(entries);
        }
        let entries = leaf.read(&self.file, self.kind)?;
        self.keep(leaf.position(), Cached::Leaf(Arc::clone(&entries)), entries.size());
        Ok(entries)
    }

    fn cached(&self, position: u64) -> Option<Cached> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).get(position).cloned()
    }

    fn keep(&self, position: u64, value: Cached, bytes: usize) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.insert(position, value, bytes);
    }
}

/// Adds a node to a ledger: its place, the end of its windows, and where its directory is.
pub(super) fn put_node(list: &mut Vec<u8>, id: NodeId, end: u32, position: u64) {
    for number in [id.level.into(), id.index.into(), end.into(), position] {
        put_number(list, number);
    }
}

/// The nodes of a file that are not out of date.
pub(super) fn load_nodes(
    file: &FrameFile,
) -> Result<(Ledger, u32, HashMap<NodeId, u64>), FrameError> {
    let damaged = |reason| file.damaged(file.length(), reason);
    let (ledger, windows) = Ledger::load(file)?;
    let windows = u32::try_from(windows).map_err(|_| damaged("there are too many windows"))?;
    let nodes = nodes_of(ledger.list(), windows).map_err(damaged)?;
    Ok((ledger, windows, nodes))
}

fn nodes_of(list: &[u8], windows: u32) -> Result<HashMap<NodeId, u64>, BadField> {
    let mut nodes = HashMap::new();
    let mut fields = Fields::new(list);
    while !fields.is_empty() {
        let level = u8::try_from(fields.number()?).ok();
        let level = level.filter(|level| (1..=LEVELS).contains(level)).ok_or("a level is wrong")?;
        let id = NodeId { level, index: fields.number32()? };
        let end = fields.number()?;
        let position = fields.number()?;
        let Range { start, end: full } = id.windows();
        if start < windows.into() && end == full.min(windows.into()) {
            nodes.insert(id, position);
        }
    }
    Ok(nodes)
}

/// The largest nodes that have all windows together.
fn tops(windows: u32, nodes: &HashMap<NodeId, u64>) -> Option<Vec<NodeId>> {
    let mut tops = Vec::new();
    let mut start = 0u64;
    while start < windows.into() {
        let mut largest = None;
        let mut index = start;
        for level in 1..=LEVELS {
            if !index.is_multiple_of(u64::from(FANOUT)) {
                break;
            }
            index /= u64::from(FANOUT);
            let id = NodeId { level, index: index as u32 };
            if nodes.contains_key(&id) {
                largest = Some(id);
            }
        }
        let largest = largest?;
        start = largest.windows().end;
        tops.push(largest);
    }
    Some(tops)
}
