//! Call trees: every call and return of every thread of a volume, a bit each.
//!
//! *Problem.* Stepping over and out, parents, depths and n-th calls need the calls that enclose a moment and where
//! they end, however far away that is, without replaying what lies between.
//!
//! *Strategy.* The calls and returns of a thread are a sequence of parentheses. The number of opens less the number
//! of closes before a position is its *excess*, the depth. A call ends where the excess is first as low as at its
//! start; the call around a position begins where the excess was last lower. So every question becomes a search for a
//! value of the excess, and a range min-max tree answers it: pages of [`PAGE`] parentheses, above them nodes with the lowest and
//! the highest excess of each of [`FANOUT`] children, in each page a table of blocks.
//!
//! A volume begins in the middle: frames from before it may end within it, so the excess starts at 0 and may
//! become negative. How calls and returns that do not pair become parentheses is the business of [`matching`].
//!
//! *Positions and times.* A position is a number of parentheses: those before it. The time of a parenthesis is known
//! to the block (of [`BLOCK`] parentheses) and to the window; [`ThreadCalls::matcher_at`] gives the state with which
//! a replay of the window tells the position of each of its calls and returns, and thereby their exact times.
//!
//! *On disk.* One file of [frames](crate::frames) for a volume. Full pages, their optional columns and full nodes are written
//! as they come about. The rest of a thread, its *head*, is written at commits. At the end of each window the
//! state of each matcher that did something is written, as changes to the one before.
//!
//! Invariants:
//! 1. Every page but the last has [`PAGE`] parentheses and every stored node [`FANOUT`] children: a position alone tells
//!    the way to it.
//! 2. A query reads a constant number of frames for each level, most of them cached.
//! 3. Nothing in a file makes a reader panic, loop, or allocate more than the file has bytes (but for a constant
//!    factor): where a node promises what its child does not hold, the file is damaged.

mod callees;
mod descent;
mod directory;
mod head;
pub mod matching;
mod node;
mod output;
mod page;
mod parentheses;
mod reader;
mod signed;
mod state_chain;
mod summary;
mod thread_calls;
mod writer;

pub use callees::Callee;
pub use directory::Columns;
pub use matching::CallOrReturn;
pub use reader::{CallTree, DEFAULT_CACHE};
pub use thread_calls::{Enclosing, ThreadCalls};
pub use writer::CallTreeWriter;

use crate::frames::{FrameError, Tag};
use directory::Directory;

/// Parentheses in a page: four kilobytes of bits.
pub const PAGE: usize = 1 << 15;

/// Parentheses for which one time is stored.
pub const BLOCK: usize = 512;

/// Children of a node.
pub const FANOUT: usize = 64;

/// What a file of call trees begins with.
const TAG: Tag = *b"CALL";

/// The kinds of frames.
#[repr(u8)]
#[derive(Clone, Copy)]
enum Kind {
    Page = 0,
    Callees = 1,
    Node = 2,
    State = 3,
    Head = 4,
}

/// Why call trees could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be used.
    #[error(transparent)]
    Frames(#[from] FrameError),
    /// A call or return was reported after a later one of its thread.
    #[error(
        "a call or return of thread {thread} at time {time} was reported after one at time {before}"
    )]
    TimeFalls {
        /// The thread.
        thread: u32,
        /// The time.
        time: u64,
        /// The time of the one before.
        before: u64,
    },
    /// A commit was asked for in the middle of a window.
    #[error("window {0} has to be ended before a commit")]
    WindowNotEnded(u64),
    /// The file was begun with other columns.
    #[error(
        "the call trees were begun with other columns: go on with those, or build the index again"
    )]
    OtherColumns,
    /// There is no such position.
    #[error("there is no position {position}: the thread has {length} calls and returns")]
    NoPosition {
        /// The position.
        position: u64,
        /// The length of the sequence.
        length: u64,
    },
}
