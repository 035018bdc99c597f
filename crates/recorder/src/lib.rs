//! Recording a program: the recorder process, and the function that starts it beside the program.
//!
//! Problem: whatever happens to the program, everything that it logged must get to the disk, and whatever
//! happens to the recorder, the program must run on as if nobody watched.
//!
//! Strategy: two processes. The *supervisor* is `retro record` itself: it starts the recorder, has the
//! program started, waits for its end and reports. The *recorder* is forked from it and lives on its own: it
//! owns the shared memory that engines log into (`retro_abi::channel`), compresses what they log and appends
//! it to the recording. Neither needs the other to finish its own work.
//!
//! ```text
//! retro record ──fork──► recorder: recorder.rs ── process.rs ── pipeline.rs ──► recording
//!      │  ▲  └─ dialogue.rs ─┘         ▲ channel.rs, watch.rs
//!      │  └ supervisor.rs              │ chunks
//!      └────────fork────► engine ──────┘
//! ```
//!
//! Invariants:
//! 1. The recorder holds none of the program's descriptors and is in no process group that a terminal signals.
//! 2. The exit status of the program reaches the caller, whatever became of the recording.
//! 3. `unsafe` is in `channel` (shared memory), `isolation`, `watch` and `supervisor` (system calls).

#![warn(missing_docs)]

mod channel;
mod dialogue;
mod isolation;
mod pipeline;
mod process;
mod recorder;
mod supervisor;
mod watch;

use std::io;
use std::path::PathBuf;

use retro_abi::config::SharedFile;
use retro_recording::{Head, UnrecordedCounts};

pub use supervisor::record;

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory of the recording: does not exist yet, or is empty.
    pub directory: PathBuf,
    /// What the recording says of itself. Its options are also what engines are told.
    pub head: Head,
    /// Level of compression, as zstd has it (see [`retro_recording::DEFAULT_LEVEL`]).
    pub level: i32,
}

impl Options {
    fn settings(&self) -> channel::Settings {
        let retro_recording::Options { interval, chaos, follow } = self.head.options;
        channel::Settings { interval, chaos, follow }
    }
}

/// What whoever starts the program must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The memory for logs, as [`retro_abi::config::Config::channel`] takes it.
    pub channel: SharedFile,
    /// The recorder, a child of this process. Who waits for the program should also reap this one if it
    /// ends early, so that engines can tell that it is gone.
    pub recorder: i32,
}

/// How a program ended. Signals are plain numbers, since real-time signals have no names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this status.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
}

/// What was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Instructions of all processes.
    pub instructions: u64,
    /// Bytes of log before compression.
    pub log_bytes: u64,
    /// Bytes of the recording on disk.
    pub file_bytes: u64,
    /// Programs recorded: processes, counted anew when they execute another program.
    pub processes: u64,
    /// Processes that ran unrecorded, by reason.
    pub unrecorded: UnrecordedCounts,
    /// Logs that were dropped because their process had overwritten what the recorder needs.
    pub damaged: u64,
    /// Why recording stopped before the end, if it did.
    pub failure: Option<String>,
}

impl Summary {
    /// Size of the recording in bits, for each instruction.
    pub fn bits_per_instruction(&self) -> Option<f64> {
        (self.instructions > 0).then(|| self.file_bytes as f64 * 8.0 / self.instructions as f64)
    }
}

/// What became of the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is finished; [`Summary::failure`] says if something is missing.
    Finished(Summary),
    /// The program has ended, but so many of its descendants are still running and being recorded; none if
    /// only the disk is not done yet. The recorder finishes by itself.
    Continues {
        /// Processes that are still being recorded.
        processes: u64,
    },
    /// The recorder ended before its time; the recording is complete up to the last whole segment.
    Lost {
        /// The signal that killed it, if that is known.
        signal: Option<i32>,
    },
}

/// How a recorded run went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How the program ended.
    pub ending: Ending,
    /// What became of the recording.
    pub fate: Fate,
}

/// Why nothing was recorded.
#[derive(Debug, thiserror::Error)]
pub enum Error<E> {
    /// The recorder cannot be forked once there are threads.
    #[error("cannot start the recorder: this process has several threads")]
    Threads,
    /// The system refused a process or a socket.
    #[error("cannot start the recorder: {0}")]
    Start(#[source] io::Error),
    /// The recorder started and found that it cannot record; the text says why.
    #[error("{0}")]
    Refused(String),
    /// The recorder was gone before the program started.
    #[error("the recorder was killed before the program started")]
    Gone,
    /// The program could not be started.
    #[error(transparent)]
    Launch(E),
}
