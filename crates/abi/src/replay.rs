//! The shared memory between a replay process and whoever wants the replay.
//!
//! ```text
//! 0                Control
//! main_offset      chunks of the main stream, in order
//! code_offset      chunks of the code stream, all up to the end of the stretch
//! ```
//!
//! A chunk is its length and base time, eight bytes each, then its bytes, padded to a multiple of eight.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// First word of the file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"retrorpl");

/// Bytes in front of the chunks.
pub const CONTROL_SIZE: usize = 4096;

/// Longest text of a divergence.
pub const REASON_SIZE: usize = 1024;

/// States of a replay.
pub mod state {
    /// It has not come to its end. If the process is gone, it crashed.
    pub const RUNNING: u32 = 0;
    /// The whole stretch was replayed and agreed with the log.
    pub const FINISHED: u32 = 1;
    /// It came to something that the log does not say.
    pub const DIVERGED: u32 = 2;
}

/// The first page.
#[repr(C)]
#[derive(Debug)]
pub struct Control {
    /// [`MAGIC`]
    pub magic: u64,
    /// Where the main stream lies.
    pub main_offset: u64,
    /// Its length.
    pub main_len: u64,
    /// Where the code stream lies.
    pub code_offset: u64,
    /// Its length.
    pub code_len: u64,
    /// One of [`state`].
    pub state: AtomicU32,
    /// Thread that ran last.
    pub thread: AtomicU32,
    /// Time that was reached.
    pub time: AtomicU64,
    /// Guest address that was reached.
    pub pc: AtomicU64,
    /// Events that were applied.
    pub events: AtomicU64,
    /// Length of the text behind the divergence.
    pub reason_len: AtomicU32,
    /// What was expected and found.
    pub reason: [AtomicU32; REASON_SIZE / 4],
}

const _: () = assert!(size_of::<Control>() <= CONTROL_SIZE);
