//! Why a question has no answer.

use crate::Moment;

/// Why a question has no answer. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recording could not be read.
    #[error(transparent)]
    Recording(#[from] retro_recording::Error),
    /// A part of the run could not be replayed.
    #[error(transparent)]
    Replay(#[from] retro_replayer::Error),
    /// The index failed.
    #[error(transparent)]
    Index(#[from] retro_index::Error),
    /// There is no index for a part of the run.
    #[error("log {log} has no index from time {from} on: build it with `retro index`")]
    NotIndexed {
        /// The log.
        log: u64,
        /// The first time without.
        from: u64,
    },
    /// There is no such process.
    #[error("there is no log {0}: `retro info` lists the processes and their logs")]
    NoLog(u64),
    /// The process did not run then.
    #[error("log {log} goes from time {start} to {end}; there is no time {time}")]
    OutOfRange {
        /// The log.
        log: u64,
        /// The time asked for.
        time: u64,
        /// Its first time.
        start: u64,
        /// Its last.
        end: u64,
    },
    /// There is no such thread then.
    #[error("there is no thread {thread} at time {}", moment.time)]
    NoThread {
        /// The thread.
        thread: u32,
        /// When.
        moment: Moment,
    },
    /// There is no such frame.
    #[error("there is no frame {frame}: the call stack has {frames}")]
    NoFrame {
        /// The frame.
        frame: usize,
        /// How many there are.
        frames: usize,
    },
    /// An expression makes no sense.
    #[error("{0}")]
    Expression(String),
    /// A name is not known.
    #[error("{0}")]
    Unknown(String),
    /// A question makes no sense.
    #[error("{0}")]
    Question(String),
    /// Reads were asked for and are not in the index.
    #[error("which memory was read is not in the index: build it with `retro index --reads`")]
    NoReads,
    /// A window has more than fits into memory.
    #[error(
        "what happened from time {time} on is too much to be looked at at once: \
         build the index with a smaller window, by `retro index --rebuild --window`"
    )]
    WindowTooLarge {
        /// When it begins.
        time: u64,
    },
    /// The one who asked does not want to know any more.
    #[error("cancelled")]
    Cancelled,
}

macro_rules! through_index {
    ($($source:ty),*) => {
        $(impl From<$source> for Error {
            fn from(source: $source) -> Error {
                Error::Index(source.into())
            }
        })*
    };
}

through_index!(
    retro_index::frames::FrameError,
    retro_index::set_tree::SetTreeError,
    retro_index::call_tree::Error,
    retro_index::page_versions::PageVersionsError
);
