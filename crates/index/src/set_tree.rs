//! Which windows wrote a word, executed a piece of code, changed a page: trees of sets.
//!
//! The problem: for each window of a run there is a set of numbers (words written, code executed, with how often),
//! a few thousand to a few million of them. Asked is the last window before a time, or the first after it, whose
//! set has any number of a range, among a hundred thousand windows, after reading next to nothing.
//!
//! The strategy: sixteen windows make a node, sixteen nodes a node of the next level, and so on. A node knows the
//! union of what is below it, and of each key in which of its sixteen children it is, as a mask of 16 bits. So one
//! lookup in a node answers for all of its children at once, a descent never enters a child in vain, and there are
//! no sets of single windows: those are the masks of the lowest nodes. Since neighbouring keys mostly share their
//! fate (arrays, stack frames, the blocks of a loop), a node stores *entries*: runs of keys with one mask. Of
//! counted sets an entry has for each child in its mask how often each key occurs in it, all of the child's windows
//! taken together.
//!
//! ```text
//! level 2                         node 0                          entries: keys, mask of level-1 nodes
//!                  ┌────────────────┼───────── ...
//! level 1       node 0           node 1                           entries: keys, mask of windows
//!            windows 0..16    windows 16..32
//! ```
//!
//! A node in the file is a row of leaves, some thousand entries each (`leaf`), and then a directory of the
//! leaves with their totals (`node`), so that a lookup reads the directory and a leaf, and a range that covers
//! whole leaves does not read them. Where the nodes are is in the ledger of the file.
//!
//! Invariants:
//! 1. The entries of a node are disjoint and in order; no mask is empty.
//! 2. Node `i` of level `k` has the windows from `i * 16^k`, `16^k` of them unless the tree ends before. Nodes at
//!    the end of the tree that lack windows are *partial*; they are written by commits and replaced as the tree
//!    grows.
//! 3. The nodes that a tree is opened with cover its windows, but there may be several at the top ([`SetTree`] asks
//!    them one after the other): at most fifteen of each level, of partial ones at most one.
//!
//! Traps: a commit at a number of windows that is no multiple of 16 writes a partial node, which is dead weight once
//! the next commit replaces it. Merging reads children back from the file rather than keeping them: what a writer holds
//! in memory is the sets of at most fifteen windows and sixteen leaves.

mod leaf;
mod merge;
mod node;
mod query;
mod tree;
mod writer;

pub use query::{Keys, Nth, Windows};
pub use tree::SetTree;
pub use writer::SetTreeWriter;

use std::ops::Range;

use crate::frames::{FrameError, Tag};

/// Children of a node, as a power of two.
const FANOUT_BITS: u32 = 4;

/// Children of a node.
pub const FANOUT: u32 = 1 << FANOUT_BITS;

/// Levels that a tree can have: sixteen to this power are all windows that there can be.
const LEVELS: u8 = 8;

/// Keys are below this.
pub const KEY_LIMIT: u64 = 1 << 54;

/// Counts of merged keys stop here.
const COUNT_LIMIT: u64 = (1 << 53) - 1;

/// Whether the keys of a set have counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetKind {
    /// They are in the set or not.
    Plain,
    /// They occur so and so often.
    Counted,
}

impl SetKind {
    fn tag(self) -> Tag {
        match self {
            SetKind::Plain => *b"sets",
            SetKind::Counted => *b"bags",
        }
    }
}

/// Why a tree of sets could not be written or asked.
#[derive(Debug, thiserror::Error)]
pub enum SetTreeError {
    /// The file failed.
    #[error(transparent)]
    Frames(#[from] FrameError),
    /// The keys of a window must come in order, each once, and below [`KEY_LIMIT`].
    #[error("key {key:#x} of window {window} is out of order or too large")]
    KeyOutOfOrder {
        /// The window.
        window: u32,
        /// The key.
        key: u64,
    },
    /// Keys were appended with counts to a plain set, or without to a counted one.
    #[error("keys with and without counts cannot be in the same tree")]
    WrongKind,
    /// Only counted sets can be asked for counts.
    #[error("these sets have no counts")]
    NotCounted,
    /// More keys were asked for than fit in memory.
    #[error("window {window} has {keys} of these keys: ask for a smaller range")]
    TooManyKeys {
        /// The window.
        window: u32,
        /// How many.
        keys: u64,
    },
    /// The tree has as many windows as there can be.
    #[error("a tree cannot have more windows")]
    Full,
}

/// A node's place in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct NodeId {
    /// From 1.
    level: u8,
    index: u32,
}

impl NodeId {
    fn parent(self) -> NodeId {
        NodeId { level: self.level + 1, index: self.index >> FANOUT_BITS }
    }

    fn child(self, child: u32) -> NodeId {
        NodeId { level: self.level - 1, index: (self.index << FANOUT_BITS) + child }
    }

    /// Windows below each child, as a power of two.
    fn child_bits(self) -> u32 {
        FANOUT_BITS * u32::from(self.level - 1)
    }

    /// The windows that it has unless the tree ends before.
    fn windows(self) -> Range<u64> {
        let bits = self.child_bits() + FANOUT_BITS;
        u64::from(self.index) << bits..(u64::from(self.index) + 1) << bits
    }

    /// Mask of the children that have windows of a range.
    fn children_in(self, windows: &Range<u32>) -> u16 {
        let round_up = (1u64 << self.child_bits()) - 1;
        self.children_between(windows.start.into(), u64::from(windows.end) + round_up)
    }

    /// Mask of the children all of whose windows are in a range.
    fn children_within(self, windows: &Range<u32>) -> u16 {
        let round_up = (1u64 << self.child_bits()) - 1;
        self.children_between(u64::from(windows.start) + round_up, windows.end.into())
    }

    /// Mask of the children from that of one window up to that of another.
    fn children_between(self, start: u64, end: u64) -> u16 {
        let child_of = |window: u64| {
            let child = (window >> self.child_bits())
                .saturating_sub(self.windows().start >> self.child_bits());
            child.min(FANOUT.into()) as u32
        };
        let below = |child: u32| (1u32 << child) - 1;
        (below(child_of(end)) & !below(child_of(start))) as u16
    }
}

/// The children in a mask, in order.
fn children(mut mask: u16) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let child = mask.trailing_zeros();
        mask &= mask.checked_sub(1)?;
        Some(child)
    })
}
