//! Recordings on disk: writing, reading, checking, keeping and packing them.
//!
//! A recording is a directory that only its owner can read:
//!
//! ```text
//! log        a header, then self-checking segments, only ever appended to
//! files/     copies of the files that the run mapped; only in unpacked recordings
//! received   there if it came from somebody else
//! ```
//!
//! Recorders get killed, disks fill up and machines lose power, so the strategy is that of a journal: whole
//! segments are appended, each with its own checksums, and nothing written is changed again. A reader takes
//! segments until the first one that is not whole; what is before it is good. docs/format.md draws every
//! byte.
//!
//! Invariants:
//! 1. No bytes of a file make this crate panic, or allocate more than the file's own size justifies.
//! 2. Data that fails its checksum is never handed out.
//! 3. Directories are made with mode 0700 and files with 0600, and files are opened through their directory
//!    ([`Directory`]), so that no name in a recording leads out of it.
//! 4. No text formats for people, no JSON: those belong to the edges.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod annex;
pub mod budget;
mod catalogue;
mod directory;
mod error;
mod fields;
mod head;
mod header;
mod import;
pub mod pack;
mod reader;
mod scan;
mod segment;
pub mod store;
mod summary;
mod unfinished;
mod writer;

pub use annex::Annex;
pub use budget::{Budget, OverBudget, Share};
pub use catalogue::Copied;
pub use directory::{Directory, Kind, NamedFile, Status, Unfit};
pub use error::{Damage, Error, Flaw};
pub use head::{Head, Machine, Options};
pub use header::{FORMAT_VERSION, chunk_limit};
pub use import::import;
pub use reader::{Chunk, Events, Process, Recording, SegmentRef, State};
pub use segment::{
    ChunkHead, DEFAULT_LEVEL, EncodedSegment, encode_chunk, encode_end, encode_process_summary,
};
pub use store::Store;
pub use summary::{
    Counts, KindCount, ProcessEnd, ProcessSummary, RunEnd, RunOutcome, UnrecordedCounts,
};
pub use writer::{Storage, Writer, new_directory};

/// Name of the log within a recording's directory.
pub const LOG_NAME: &str = "log";

/// Name of the directory with copies of mapped files within a recording's directory.
pub const FILES_NAME: &str = "files";

/// Name of the directory with the index within a recording's directory. It is made from the log and can be made again.
pub const INDEX_NAME: &str = "index";

/// Name of the file that marks a recording as somebody else's: it is only read.
pub const RECEIVED_NAME: &str = "received";

/// Name of the file with what somebody noted while debugging, within a recording's directory. No part of what was recorded.
pub const NOTEBOOK_NAME: &str = "notebook.json";
