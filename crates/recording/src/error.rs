//! What can go wrong, and what can be wrong with a file.

use std::io;
use std::path::PathBuf;

use retro_abi::channel::Stream;

/// Why an operation on a recording failed.
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
    /// Appending to the log failed; the log ends after the last whole segment.
    #[error("cannot write the log: {0}")]
    Append(#[source] io::Error),
    /// Appending failed, and so did cutting off what was half written.
    #[error("cannot write the log any more: an earlier write failed and could not be undone")]
    Poisoned,
    /// A chunk is larger than readers accept.
    #[error("a chunk of {length} bytes is larger than the limit of {limit}")]
    ChunkTooLarge {
        /// Its length.
        length: usize,
        /// The most that is accepted.
        limit: usize,
    },
    /// The head of a recording is larger than readers accept.
    #[error(
        "the command line and the description of the machine take {length} bytes, more than the limit of {limit}"
    )]
    HeadTooLarge {
        /// Its length.
        length: usize,
        /// The most that is accepted.
        limit: usize,
    },
    /// Chunks of a stream must be appended in order.
    #[error("chunk {found} of log {log} ({stream:?}) was appended where {expected} was due")]
    OutOfOrder {
        /// Number of the log.
        log: u64,
        /// The stream.
        stream: Stream,
        /// The sequence number that was due.
        expected: u64,
        /// The sequence number that came.
        found: u64,
    },
    /// The directory for a new recording is in use.
    #[error("{} is not empty: choose a new directory for the recording", .0.display())]
    NotEmpty(PathBuf),
    /// There is no recording at that place.
    #[error("{} is not a recording: {reason}", path.display())]
    NotARecording {
        /// The place.
        path: PathBuf,
        /// What is missing.
        reason: &'static str,
    },
    /// The recording was written by another version of retro.
    #[error("{} has format version {found}, but this retro reads version {supported}: use the retro that recorded it", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version of this crate.
        supported: u32,
    },
    /// The header of the log is damaged, so that nothing of it can be trusted.
    #[error("the header of {} is damaged: {reason}", path.display())]
    HeaderDamaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A segment of the log is damaged.
    #[error("{}: {damage}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where and why.
        damage: Damage,
    },
    /// There is no place for recordings.
    #[error("no place for recordings: set RETRO_DIR or HOME")]
    NoStore,
    /// The store belongs to somebody else.
    #[error(
        "{} belongs to another user (number {owner}), who could change what is put there: name another directory with RETRO_DIR",
        path.display()
    )]
    ForeignStore {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// Others can remove and replace what is in the store.
    #[error(
        "other users can write to {}, and could replace what is put there: `chmod go-w` it, or name another directory with RETRO_DIR",
        .0.display()
    )]
    SharedStore(PathBuf),
    /// The link to the latest recording was made by somebody else.
    #[error("the link `latest` in {} belongs to another user: name the recording", .0.display())]
    ForeignLatest(PathBuf),
    /// No recording was named, and there is no latest one.
    #[error("there is no latest recording in {}{}", store.display(), listing(known))]
    NoLatest {
        /// The store.
        store: PathBuf,
        /// Names of the recordings in it.
        known: Vec<String>,
    },
    /// Nothing goes by that name.
    #[error("no recording {name:?} here or in {}{}", store.display(), listing(known))]
    Unknown {
        /// What was asked for.
        name: String,
        /// The store.
        store: PathBuf,
        /// Names of the recordings in it.
        known: Vec<String>,
    },
    /// The recorder is still at work.
    #[error("{} is still being recorded", .0.display())]
    StillRunning(PathBuf),
    /// A recording's directory holds something that retro did not put there.
    #[error("{} holds {name:?}, which is no part of a recording: remove that first", path.display())]
    ForeignFile {
        /// The directory.
        path: PathBuf,
        /// The name in it.
        name: String,
    },
    /// The target of an operation exists.
    #[error("{} exists already", .0.display())]
    Exists(PathBuf),
    /// A file changed while it was being copied.
    #[error("{} changed while it was being copied: try again", .0.display())]
    ChangedWhilePacking(PathBuf),
    /// A pack cannot be unpacked.
    #[error("{} is not a whole pack: {reason} at offset {offset}", path.display())]
    BadPack {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        reason: &'static str,
    },
    /// It would fill the disk.
    #[error(
        "no room in {}: this takes {needed} bytes; {available} are free on the disk, of which {spared} are left alone",
        path.display()
    )]
    NoRoom {
        /// Where it would go.
        path: PathBuf,
        /// Bytes that are needed.
        needed: u64,
        /// Bytes that the file system has.
        available: u64,
        /// Bytes of these that are not used up.
        spared: u64,
    },
}

impl Error {
    /// Names the file and the action of an I/O error; for `map_err`.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { action, path, source }
    }
}

fn listing(known: &[String]) -> String {
    /// A full store should not scroll the message away.
    const SHOWN: usize = 20;
    if known.is_empty() {
        return ", which holds none: make one with `retro record`".to_string();
    }
    let shown = &known[known.len().saturating_sub(SHOWN)..];
    let more = if shown.len() < known.len() { "..., " } else { "" };
    format!(", which holds {more}{}", shown.join(", "))
}

/// Where a file stops being good, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Offset of the segment that is not whole; everything before it is good.
    pub offset: u64,
    /// What is wrong with it.
    pub flaw: Flaw,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "damaged at offset {}: {}", self.offset, self.flaw)
    }
}

/// What is wrong with a segment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// The file ends within a header or a payload.
    #[error("the file ends within a segment")]
    CutShort,
    /// These bytes are not the start of a segment.
    #[error("no segment begins here")]
    NoSegment,
    /// The header fails its checksum.
    #[error("the segment's header fails its checksum")]
    HeaderChecksum,
    /// A field of the header has a value that no writer gives it.
    #[error("the segment's header makes no sense: {0}")]
    HeaderField(&'static str),
    /// The payload fails its checksum.
    #[error("the segment's contents fail their checksum")]
    PayloadChecksum,
    /// The payload cannot be decompressed to the length that the header declares.
    #[error("the segment's contents cannot be decompressed")]
    Decompression,
    /// The payload of a summary or of the end makes no sense.
    #[error("the segment's contents make no sense: {0}")]
    Payload(&'static str),
    /// An event makes no sense.
    #[error("the log makes no sense: {0}")]
    Event(retro_abi::log::BadEvent),
    /// A chunk is missing before this one.
    #[error("a chunk is missing before this one")]
    MissingChunk,
    /// Bytes follow the last segment of a finished recording.
    #[error("bytes follow the end of the recording")]
    AfterEnd,
    /// The system could not read it.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// The list of copied files is damaged.
    #[error("the list of copied files is damaged: {0}")]
    Catalogue(&'static str),
}
