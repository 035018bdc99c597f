//! The shared memory between the recorder and the engines of a recorded process tree.
//!
//! One file, made by the recorder and kept open there; engines map parts of it through
//! `/proc/PID/fd/FD`, so that no guest has a descriptor of it:
//!
//! ```text
//! 0                      Control, one page
//! SLOTS_START            slot 0: SlotHeader (two pages), then the chunks of its streams
//! + SLOT_SIZE            slot 1 ...
//! ```
//!
//! The file is sparse: a slot costs what was touched of it. A process claims a free slot, writes its log
//! into the chunks of two streams, and leaves the slot for the recorder to drain and free. Which slots are taken is
//! in the first page, too ([`Claims`]).
//!
//! Protocol of a chunk: FREE -> (engine) FILLING -> FULL -> (recorder) FREE. Within FILLING, `committed` bytes
//! are whole events, so that whatever kills the engine, the recorder can still take them.
//!
//! Invariants:
//! 1. A slot has one writer at a time: the thread of the guest that runs.
//! 2. `committed` grows only over whole events; it is stored with release after their bytes.
//! 3. Chunks of a stream are filled and drained round robin, in order.
//! 4. The recorder trusts nothing in here: a guest may have scribbled over it.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// First word of the file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"retrochn");

/// Version of this layout; recorder and engine come from one build, so a mismatch is a mix-up.
pub const VERSION: u32 = 3;

/// Size of a page.
const PAGE: usize = 4096;

/// How many processes can be recorded at once.
pub const SLOTS: usize = 4096;

/// Offset of the first slot.
pub const SLOTS_START: usize = PAGE;

/// Bytes of a slot's header.
pub const HEADER_SIZE: usize = 4 * PAGE;

/// The streams of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Stream {
    /// Everything that happens, in order.
    Main = 0,
    /// Code bytes and file identities, which every interval needs.
    Code = 1,
}

impl Stream {
    /// Both.
    pub const ALL: [Stream; 2] = [Stream::Main, Stream::Code];

    /// Number of chunks.
    pub const fn chunks(self) -> usize {
        match self {
            Stream::Main => 8,
            Stream::Code => 2,
        }
    }

    /// Bytes of a chunk.
    pub const fn chunk_size(self) -> usize {
        match self {
            Stream::Main => 256 << 10,
            Stream::Code => 128 << 10,
        }
    }

    /// Offset of a chunk's bytes from the start of its slot.
    pub const fn chunk_offset(self, chunk: usize) -> usize {
        match self {
            Stream::Main => HEADER_SIZE + chunk * Stream::Main.chunk_size(),
            Stream::Code => {
                HEADER_SIZE
                    + Stream::Main.chunks() * Stream::Main.chunk_size()
                    + chunk * Stream::Code.chunk_size()
            }
        }
    }
}

/// Bytes of a slot.
pub const SLOT_SIZE: usize = HEADER_SIZE
    + Stream::Main.chunks() * Stream::Main.chunk_size()
    + Stream::Code.chunks() * Stream::Code.chunk_size();

/// Bytes of the whole file.
pub const FILE_SIZE: usize = SLOTS_START + SLOTS * SLOT_SIZE;

/// Offset of a slot in the file.
pub const fn slot_offset(slot: usize) -> usize {
    SLOTS_START + slot * SLOT_SIZE
}

/// The first page. Zeroes are valid.
#[repr(C)]
#[derive(Debug)]
pub struct Control {
    /// [`MAGIC`]
    pub magic: u64,
    /// [`VERSION`]
    pub version: u32,
    /// The recorder's process id.
    pub recorder: AtomicI32,
    /// Futex that engines bump when there is something to drain.
    pub doorbell: AtomicU32,
    /// Nonzero while the recorder sleeps on the doorbell: only then is a wake-up worth a system call.
    pub sleeping: AtomicU32,
    /// Nonzero when the recorder has given up (a full disk): engines stop logging and let their guests run on.
    pub closed: AtomicU32,
    /// Instructions per interval; 0 lets the engine decide by the cost of a reset.
    pub interval: AtomicU64,
    /// Seed of the chaos scheduler, if [`Control::chaos_on`].
    pub chaos: AtomicU64,
    /// Whether the scheduler varies slices and picks.
    pub chaos_on: AtomicU32,
    /// Whether forked and executed children are recorded too.
    pub follow: AtomicU32,
    /// Number that the next log gets; logs count from 0.
    pub next_log: AtomicU64,
    /// Processes that run on unrecorded, by reason ([`Unrecorded`]).
    pub unrecorded: [AtomicU64; Unrecorded::ALL.len()],
    /// Which slots are taken.
    pub claims: Claims,
}

const _: () = assert!(size_of::<Control>() <= PAGE);

/// Which slots are taken, a bit for each: the recorder finds new ones without looking at every slot.
#[repr(transparent)]
#[derive(Debug)]
pub struct Claims([AtomicU64; SLOTS / 64]);

impl Claims {
    /// Takes the lowest free slot, or none if all are taken. Low ones are used again, so that few are ever touched.
    pub fn claim(&self) -> Option<usize> {
        let mut words = self.0.iter().enumerate();
        words.find_map(|(index, word)| Some(index * 64 + take_lowest_clear_bit(word)? as usize))
    }

    /// Gives a slot back, whose state says so already.
    pub fn give_back(&self, slot: usize) {
        self.0[slot / 64].fetch_and(!(1 << (slot % 64)), Ordering::Release);
    }

    /// The slots that are taken.
    pub fn taken(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(index, word)| {
            let word = word.load(Ordering::Acquire);
            (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| index * 64 + bit)
        })
    }
}

fn take_lowest_clear_bit(word: &AtomicU64) -> Option<u32> {
    let mut before = word.load(Ordering::Relaxed);
    while before != u64::MAX {
        let bit = before.trailing_ones();
        match word.compare_exchange(before, before | 1 << bit, Ordering::AcqRel, Ordering::Relaxed)
        {
            Ok(_) => return Some(bit),
            Err(now) => before = now,
        }
    }
    None
}

/// Why a process runs on unrecorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Unrecorded {
    /// As many as can be were being recorded.
    TooMany = 0,
    /// Recording had stopped when it began.
    Stopped = 1,
    /// There was no memory for what recording needs.
    NoMemory = 2,
    /// It cannot get at the recorder: it belongs to another user, or sees no /proc.
    Unreachable = 3,
}

impl Unrecorded {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Unrecorded; 4] =
        [Unrecorded::TooMany, Unrecorded::Stopped, Unrecorded::NoMemory, Unrecorded::Unreachable];
}

/// Children killed by signals that a process can report before the recorder takes note.
pub const REAPED: usize = 64;

/// States of a slot.
pub mod slot_state {
    /// Nobody's.
    pub const FREE: u32 = 0;
    /// A process is filling in the header.
    pub const CLAIMED: u32 = 1;
    /// A process writes its log here.
    pub const LIVE: u32 = 2;
    /// The process has nothing more to say; what is committed is to be drained.
    pub const ENDED: u32 = 3;
}

/// States of a chunk.
pub mod chunk_state {
    /// The engine may fill it.
    pub const FREE: u32 = 0;
    /// The engine is filling it.
    pub const FILLING: u32 = 1;
    /// The recorder may take it.
    pub const FULL: u32 = 2;
}

/// One chunk of a stream.
#[repr(C)]
#[derive(Debug)]
pub struct Chunk {
    /// One of [`chunk_state`]; also the futex an engine waits on for it to become free.
    pub state: AtomicU32,
    /// Bytes of whole events in it.
    pub committed: AtomicU32,
    /// Time that its first event's difference counts from.
    pub base_time: AtomicU64,
    /// Number of the interval it begins in.
    pub interval: AtomicU64,
}

/// What a process counts while it is recorded; copied into the recording when it ends, whatever ends it.
#[repr(C)]
#[derive(Debug)]
pub struct Counts {
    /// Events by kind (see [`crate::log`]).
    pub events: [AtomicU64; 32],
    /// Bytes of log by kind.
    pub bytes: [AtomicU64; 32],
    /// System calls by number; what is beyond goes to the last entry.
    pub syscalls: [AtomicU32; 512],
    /// Signals delivered, by number.
    pub signals: [AtomicU32; 65],
    /// Threads that ever were.
    pub threads: AtomicU32,
    /// Intervals begun.
    pub intervals: AtomicU64,
}

/// Which kind of start a log has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Origin {
    /// The program that was recorded.
    First = 0,
    /// A copy made by `fork`.
    Fork = 1,
    /// A program executed in place of another.
    Exec = 2,
}

impl Origin {
    /// From its number.
    pub fn from_number(number: u64) -> Option<Origin> {
        [Origin::First, Origin::Fork, Origin::Exec].into_iter().find(|&o| o as u64 == number)
    }
}

/// Head of a slot. The first page is mapped by the engine where emitted code counts instructions.
#[repr(C)]
#[derive(Debug)]
pub struct SlotHeader {
    /// The time minus `deadline`, wrapping, as of the last exit of guest code, or the last step of a loop.
    pub clock: AtomicU64,
    /// See [`SlotHeader::clock`].
    pub deadline: AtomicU64,
    /// Keeps the clock's page apart.
    padding: [u64; 510],
    /// One of [`slot_state`].
    pub state: AtomicU32,
    /// Process id of its writer.
    pub pid: AtomicI32,
    /// Number of the log.
    pub log: AtomicU64,
    /// Log of the parent, or of the program before; meaningless for [`Origin::First`].
    pub parent: AtomicU64,
    /// [`Origin`] by number.
    pub origin: AtomicU32,
    /// How the process ended as far as it could tell: see [`ended`].
    pub ended: AtomicU32,
    /// Exit status or signal number.
    pub end_code: AtomicU32,
    /// The thread that may be kicked ([`crate::kick`]), as the recorder sees its id, or 0: not one that waits in a system call, which
    /// would be interrupted, nor one that executes another program, which a signal that it does not know would end.
    pub kickable: AtomicI32,
    /// Nonzero while the recorder is about to kick it: the thread waits for that before it becomes unkickable.
    pub kicking: AtomicU32,
    /// How many entries of [`SlotHeader::reaped`] were ever made.
    pub reaped_count: AtomicU32,
    /// Children that were killed by signals, as the process was told: process id in the upper half, signal in the
    /// lower. Entry `n` is at `n % REAPED`. A process that is killed cannot say so itself.
    pub reaped: [AtomicU64; REAPED],
    /// Chunks of [`Stream::Main`].
    pub main: [Chunk; Stream::Main.chunks()],
    /// Chunks of [`Stream::Code`].
    pub code: [Chunk; Stream::Code.chunks()],
    /// Statistics.
    pub counts: Counts,
}

const _: () = assert!(size_of::<SlotHeader>() <= HEADER_SIZE);

/// How a log ended.
pub mod ended {
    /// Without a word: killed, or still running.
    pub const UNKNOWN: u32 = 0;
    /// `exit_group`, or the last thread's `exit`; the code is the status.
    pub const EXITED: u32 = 1;
    /// By a fault or a signal that the engine saw; the code is the signal.
    pub const SIGNALLED: u32 = 2;
    /// It executed another program, which has its own log.
    pub const EXECUTED: u32 = 3;
    /// Recording stopped before the process ended (`--no-follow`, a recorder that gave up).
    pub const STOPPED: u32 = 4;
    /// It is about to execute another program, which has not said yet that it did. No log ends like this: what comes
    /// of it is [`EXECUTED`], or [`STOPPED`] if the other program cannot reach the recorder.
    pub const EXECUTING: u32 = 5;
}

impl SlotHeader {
    /// The chunks of a stream.
    pub fn chunks(&self, stream: Stream) -> &[Chunk] {
        match stream {
            Stream::Main => &self.main,
            Stream::Code => &self.code,
        }
    }

    /// Retired guest instructions so far.
    pub fn time(&self) -> u64 {
        self.deadline.load(Ordering::Relaxed).wrapping_add(self.clock.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn slots_are_claimed_lowest_first() {
        let claims = Claims([const { AtomicU64::new(0) }; SLOTS / 64]);
        assert_eq!((0..SLOTS).map(|_| claims.claim()).collect::<Vec<_>>(), {
            (0..SLOTS).map(Some).collect::<Vec<_>>()
        });
        assert_eq!(claims.claim(), None);
        for slot in [SLOTS - 1, 64, 3] {
            claims.give_back(slot);
        }
        assert_eq!(claims.taken().count(), SLOTS - 3);
        assert!(claims.taken().all(|slot| ![3, 64, SLOTS - 1].contains(&slot)));
        let again: Vec<_> = (0..4).map(|_| claims.claim()).collect();
        assert_eq!(again, [Some(3), Some(64), Some(SLOTS - 1), None]);
    }
}
