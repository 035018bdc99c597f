//! What a session tells about threads.

use std::ops::Range;

use retro_abi::log::register;
use retro_abi::replay::{Header, SAMPLE_SIZE};

/// Registers of a thread.
///
/// Two are equal when they hold the same values. The processor may or may not say of a vector that is zero that it
/// was never used, which depends on what else it had to do; that makes no difference.
#[derive(Clone, Debug)]
pub struct Registers {
    /// The thread.
    pub thread: u32,
    /// Whether it is the one that runs.
    pub running: bool,
    /// The system call that it waits in.
    pub in_syscall: Option<u32>,
    /// General registers, by the numbers of [`retro_abi::log::register`].
    pub general: [u64; register::COUNT],
    /// Vector and x87 state: an image of `xsave` in standard form.
    pub vectors: Vec<u8>,
}

/// The word of an image of `xsave` that says which parts were used. Those that were not are zero in it.
const USED_PARTS: Range<usize> = 512..520;

impl PartialEq for Registers {
    fn eq(&self, other: &Registers) -> bool {
        fn values(image: &[u8]) -> (&[u8], &[u8]) {
            let (legacy, rest) = image.split_at(USED_PARTS.start.min(image.len()));
            (legacy, rest.get(USED_PARTS.len()..).unwrap_or_default())
        }
        self.thread == other.thread
            && self.running == other.running
            && self.in_syscall == other.in_syscall
            && self.general == other.general
            && values(&self.vectors) == values(&other.vectors)
    }
}

impl Eq for Registers {}

impl Registers {
    /// The instruction pointer.
    pub fn pc(&self) -> u64 {
        self.general[register::RIP as usize]
    }

    /// A general register by its name, as in [`register::NAMES`].
    pub fn by_name(&self, name: &str) -> Option<u64> {
        let index = register::NAMES.iter().position(|known| *known == name)?;
        Some(self.general[index])
    }

    pub(super) fn parse(header: &Header, payload: &[u8]) -> Option<Registers> {
        let [_, thread, in_syscall, running, ..] = header.0;
        let (general, vectors) = payload.split_at_checked(8 * register::COUNT)?;
        let mut words = [0; register::COUNT];
        for (word, bytes) in words.iter_mut().zip(general.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Some(Registers {
            thread: u32::try_from(thread).ok()?,
            running: running != 0,
            in_syscall: u32::try_from(in_syscall).ok()?.checked_sub(1),
            general: words,
            vectors: vectors.to_vec(),
        })
    }
}

/// The registers of the thread that runs, without vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub time: u64,
    /// The thread.
    pub thread: u32,
    /// General registers, by the numbers of [`retro_abi::log::register`].
    pub general: [u64; register::COUNT],
}

impl Sample {
    pub(super) fn parse(bytes: &[u8; SAMPLE_SIZE]) -> Sample {
        let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let mut next = || words.next().unwrap_or_default();
        let (time, thread) = (next(), next() as u32);
        let mut general = [0; register::COUNT];
        general.fill_with(next);
        Sample { time, thread, general }
    }
}

/// A thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadInfo {
    /// Its number.
    pub thread: u32,
    /// The system call that it waits in.
    pub in_syscall: Option<u32>,
}
