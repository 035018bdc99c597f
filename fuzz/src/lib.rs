//! What all targets have in common: a recording, and a replay process that says what a fuzzer wants.
//!
//! An input is a list of messages, each some bytes long, and what is left is what the process has streamed:
//!
//! ```text
//! count (1 byte)
//! count times: kind (1 byte), seven words (each a byte for its form and up to 8 bytes), length (2 bytes), payload
//! stream
//! ```
//!
//! The first message of a session is always a sensible one, and is not part of the input: nothing comes after one that is not.

#[path = "../../tests/replay/forged.rs"]
#[allow(dead_code, reason = "the tests that it was written for use all of it")]
mod forged;

use std::sync::{Arc, OnceLock};

use retro_abi::replay::{MAX_PAYLOAD, tell, why};
use retro_recording::Recording;
use retro_replayer::fuzzing::Script;

use forged::{Forged, LOOP, THREAD};

/// When the recorded process ends.
pub const END: u64 = 5000;

/// What a process can say.
const KINDS: [u64; 16] = [
    tell::STOPPED,
    tell::DIVERGED,
    tell::FAILED,
    tell::DONE,
    tell::REGISTERS,
    tell::THREADS,
    tell::MEMORY,
    tell::NEED,
    tell::BLOCK,
    tell::STREAM,
    tell::WRITTEN,
    tell::CLEARED,
    tell::MOVED,
    tell::COUNTS,
    tell::SAMPLES,
    0,
];

/// A recording of a loop, made once.
pub fn recording() -> Arc<Recording> {
    static MADE: OnceLock<(tempfile::TempDir, Arc<Recording>)> = OnceLock::new();
    let (_, recording) = MADE.get_or_init(|| {
        let place = tempfile::tempdir().expect("a directory");
        let directory = place.path().join("recording");
        Forged::new(LOOP, END).write(&directory);
        let recording = Recording::open(&directory).expect("a recording");
        (place, Arc::new(recording))
    });
    Arc::clone(recording)
}

/// Takes bytes from the front.
pub struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    /// The next byte; zero behind the end.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// A number: small, near the end of the run, near the largest, an address, or any.
    pub fn word(&mut self) -> u64 {
        match self.byte() % 8 {
            0 => 0,
            1 => self.byte().into(),
            2 => END.wrapping_add_signed(i64::from(self.byte() as i8)),
            3 => u64::MAX - u64::from(self.byte()),
            4 => 0x1000_0000 + 16 * u64::from(self.byte()),
            5 => 1u64 << (self.byte() % 64),
            6 => u64::from(self.byte()) << 12,
            _ => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
        }
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let (first, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        first.to_vec()
    }

    /// What the process says.
    pub fn script(mut self) -> Script {
        let first = [tell::STOPPED, why::TIME, 0, THREAD.into(), 0x1000_0000, 3, 0, 0];
        let mut messages = vec![(first, Vec::new())];
        for _ in 0..self.byte() {
            if self.0.is_empty() {
                break;
            }
            let mut words = [0; 8];
            words[0] = KINDS[usize::from(self.byte()) % KINDS.len()];
            for word in &mut words[1..] {
                *word = self.word();
            }
            let len = usize::from(self.byte()) | usize::from(self.byte()) << 8;
            messages.push((words, self.bytes(len.min(MAX_PAYLOAD))));
        }
        Script { messages, stream: self.0.to_vec() }
    }
}

/// The way back: an input with messages that somebody has thought of.
#[derive(Default)]
pub struct Output {
    messages: Vec<u8>,
    count: u8,
}

impl Output {
    /// Adds a message.
    pub fn message(&mut self, kind: u64, words: &[u64], payload: &[u8]) {
        let kind = KINDS.iter().position(|&known| known == kind).unwrap_or(KINDS.len() - 1);
        self.messages.push(kind as u8);
        for index in 0..7 {
            self.messages.push(7);
            let word = words.get(index).copied().unwrap_or(0);
            self.messages.extend_from_slice(&word.to_le_bytes());
        }
        self.messages.extend_from_slice(&(payload.len() as u16).to_le_bytes());
        self.messages.extend_from_slice(payload);
        self.count += 1;
    }

    /// The input, with what was streamed.
    pub fn finish(self, stream: &[u8]) -> Vec<u8> {
        [&[self.count][..], &self.messages, stream].concat()
    }
}
