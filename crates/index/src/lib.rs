//! Where in a recorded run things happened.
//!
//! The problem: a run is billions of instructions, and a question about it should be answered in milliseconds. The
//! strategy: while the run is replayed once, window by window, it is summarised ([`build`]): which words each
//! window wrote, which code it executed and how often, what its calls were, what memory and registers held when it began.
//! These summaries tell in which window an answer lies; replaying that window alone tells the rest.
//!
//! ```text
//! build          replays intervals and writes volumes
//! claim          who builds them
//! coverage       how much is built;  failure  what cannot be, and why
//! place          where it is
//! volume         one interval, open for questions; a directory with
//!   windows        when windows begin, and their threads
//!   page_versions  what memory held
//!   set_tree       which windows wrote a word, executed a piece of code, had a system call …
//!   pieces         what code there is
//!   call_tree      parentheses of calls and returns
//!   events         system calls, signals, mappings, threads
//!   manifest       what of all this is complete
//! frames         the checked files that everything is in
//! ```
//!
//! Invariants: the index never touches the recording and can be thrown away and built again; whatever kills a build or fills the
//! disk, what was complete stays usable; no bytes of its files make this crate panic or allocate without bound.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod build;
pub mod call_tree;
pub mod claim;
pub mod coverage;
pub mod events;
mod failure;
pub mod frames;
mod manifest;
pub mod page_versions;
pub mod pieces;
mod place;
pub mod set_tree;
mod volume;
pub mod windows;

use std::io;
use std::path::{Path, PathBuf};

pub use failure::Cause;
pub use place::Place;
pub use volume::Volume;

/// Why an index could not be built or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused an operation on a file.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file of frames failed.
    #[error(transparent)]
    Frames(#[from] frames::FrameError),
    /// A tree of sets failed.
    #[error(transparent)]
    SetTree(#[from] set_tree::SetTreeError),
    /// Call trees failed.
    #[error(transparent)]
    CallTree(#[from] call_tree::Error),
    /// Page versions failed.
    #[error(transparent)]
    PageVersions(#[from] page_versions::PageVersionsError),
    /// A manifest is not what was written.
    #[error("{} is damaged: build the index again", .0.display())]
    Manifest(PathBuf),
    /// The recording could not be read.
    #[error(transparent)]
    Recording(#[from] retro_recording::Error),
    /// An interval could not be replayed.
    #[error("log {log} cannot be replayed: {source}")]
    Replay {
        /// The log.
        log: u64,
        /// What happened.
        source: Box<retro_replayer::Error>,
    },
    /// A recording may not use that much memory.
    #[error("the index is not built: {0}")]
    Memory(#[from] retro_recording::OverBudget),
    /// There is no such window.
    #[error("there is no window {0} in the index")]
    NoWindow(u32),
    /// Another process builds the same.
    #[error("another process is building this index")]
    Busy,
    /// The build was told to stop.
    #[error("stopped; what is done is kept, and `retro index` goes on from there")]
    Cancelled,
}

impl Error {
    /// Whether files of the index are not what was written, so that it has to be built again.
    pub fn is_damage(&self) -> bool {
        use call_tree::Error as Calls;
        use page_versions::PageVersionsError as Pages;
        use set_tree::SetTreeError as Sets;
        match self {
            Error::Manifest(_) | Error::NoWindow(_) => true,
            Error::PageVersions(Pages::Inconsistent) => true,
            Error::Frames(error)
            | Error::SetTree(Sets::Frames(error))
            | Error::CallTree(Calls::Frames(error))
            | Error::PageVersions(Pages::Frames(error) | Pages::Changed(Sets::Frames(error))) => {
                error.is_damage()
            }
            _ => false,
        }
    }

    /// Of a log that could not be replayed. What takes too much memory may fit another time.
    fn replay(log: u64, source: retro_replayer::Error) -> Error {
        match source {
            retro_replayer::Error::Memory(over) => Error::Memory(over),
            source => Error::Replay { log, source: Box::new(source) },
        }
    }

    fn io(action: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Io { action, path: path.to_owned(), source }
    }
}
