//! What a replay process and its owner say to each other.
//!
//! The process has one socket, descriptor 0, of kind `SOCK_SEQPACKET`. A message is a [`Header`] of eight words and a
//! payload of at most [`MAX_PAYLOAD`] bytes. The owner asks, the process answers; while it works on an answer it may
//! itself ask for pages ([`tell::NEED`]) or hand over what it has streamed ([`tell::STREAM`]).
//!
//! ```text
//! ask::STATE*  ask::BEGIN          -> STOPPED       at its first moment
//! ask::STATE*  ask::RESTART        -> STOPPED       at another first moment
//! ask::RUN                         -> STOPPED       with the stream, if details are wanted
//! ask::REGISTERS, THREADS, READ    -> the same
//! ask::CHANGES                     -> (CLEARED | MOVED)* WRITTEN* DONE
//! ask::COUNTS                      -> COUNTS* DONE
//! ask::TRANSLATE                   -> BLOCK* DONE
//! ask::BREAKPOINTS                 -> DONE
//! ask::FORK                        -> DONE          from both, each on its own socket
//! ```
//!
//! Instead of any answer the process may say [`tell::DIVERGED`] or [`tell::FAILED`], and ends. When the socket is
//! closed, it ends silently.
//!
//! *Time* is the number of retired instructions. At time `t` everything that the log has up to `t` has happened, and
//! instruction number `t` is the next.

/// The path in the configuration ([`crate::config`]) of the process that ends all others when their owner is gone. It talks
/// to nobody: the end of its socket, descriptor 0, is all that it waits for.
pub const GUARD: &[u8] = b"guard";

/// Bytes of a header.
pub const HEADER_SIZE: usize = 64;

/// Most bytes behind a header.
pub const MAX_PAYLOAD: usize = 64 << 10;

/// Pages are asked for, and noted as changed, in pieces of this size: small ones, because all of a piece is looked up.
pub const PIECE: u64 = 16 << 10;

/// The words of a message: its kind, then what the kind says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header(pub [u64; HEADER_SIZE / 8]);

impl Header {
    /// With a kind and words behind it; the rest is zero.
    pub fn new<const N: usize>(kind: u64, words: [u64; N]) -> Header {
        const { assert!(N < HEADER_SIZE / 8) };
        let mut all = [0; HEADER_SIZE / 8];
        all[0] = kind;
        all[1..1 + N].copy_from_slice(&words);
        Header(all)
    }

    /// What kind of message this is.
    pub fn kind(&self) -> u64 {
        self.0[0]
    }

    /// As bytes.
    pub fn to_bytes(&self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        for (place, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// From bytes.
    pub fn from_bytes(bytes: &[u8; HEADER_SIZE]) -> Header {
        let mut words = [0; HEADER_SIZE / 8];
        for (word, place) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            let mut eight = [0; 8];
            eight.copy_from_slice(place);
            *word = u64::from_le_bytes(eight);
        }
        Header(words)
    }
}

/// What the owner says.
pub mod ask {
    /// A piece of the state to start from: `[time]`, payload: one chunk of events at that time, which begin with
    /// `Interval` and `ThreadState`s.
    pub const STATE: u64 = 1;
    /// `[main_offset, main_len, code_offset, code_len, from, flags]`, with a descriptor of a file that holds chunks:
    /// each its length and its base time, eight bytes each, then its bytes, padded to a multiple of eight. If a state
    /// was given, events of the main stream up to time `from` are left out. `flags` are of [`super::begin`].
    pub const BEGIN: u64 = 2;
    /// `[until, detail, samples]`: goes on to that time. `detail` is a set of [`super::detail`]. If `samples` is not 0, it does not
    /// stop at [`BREAKPOINTS`] but tells the registers there ([`super::tell::SAMPLES`]).
    pub const RUN: u64 = 3;
    /// Payload: addresses, eight bytes each. From now on [`RUN`] stops in front of an instruction at one of
    /// these, unless it starts there.
    pub const BREAKPOINTS: u64 = 4;
    /// `[thread]`, 0 for the one that runs.
    pub const REGISTERS: u64 = 5;
    /// All threads.
    pub const THREADS: u64 = 6;
    /// `[address, len]`
    pub const READ: u64 = 7;
    /// Pages that were written since the last question.
    pub const CHANGES: u64 = 8;
    /// Makes a copy of the process that talks over the socket given along. Only before the first [`RUN`]: a process that has
    /// executed code of a recording cannot be copied any more.
    pub const FORK: u64 = 9;
    /// `[address, mask]`: the answer to [`super::tell::NEED`]. Bit `n` of `mask`: page `n` of the piece
    /// is in the payload; the others are zero. Pieces that were not asked for may come before, or while the guest
    /// stands still: they are taken if they are still needed.
    pub const PAGES: u64 = 10;
    /// `[size]`, with a descriptor: the file that streams are written to, in halves.
    pub const STREAM_FILE: u64 = 11;
    /// The answer to [`super::tell::STREAM`].
    pub const GO_ON: u64 = 12;
    /// `[from, flags, main_offset, main_len]`: starts over as [`BEGIN`] does, with the same log. Memory is as it was at
    /// first; the code that was translated stays. With a descriptor the main stream is that of another file, of another
    /// interval of the log; without, offset and length mean nothing.
    pub const RESTART: u64 = 13;
    /// How often blocks were executed since the last question, if that is counted ([`super::detail::SUMMARY`]).
    pub const COUNTS: u64 = 14;
    /// `[detail]`, payload: addresses, eight bytes each. Translates the code there as [`RUN`] with this detail would, as far
    /// as it never changes, so that copies have it already.
    pub const TRANSLATE: u64 = 15;
}

/// Flags of [`ask::BEGIN`].
pub mod begin {
    /// Memory is asked for, piece by piece, when it is touched first.
    pub const LAZY: u64 = 1;
    /// Keeps a mark for every byte of memory (see [`super::mark`]), which runs with [`super::detail::SUMMARY`] set, for
    /// [`super::ask::CHANGES`].
    pub const MARK: u64 = 2;
}

/// What is streamed.
pub mod detail {
    /// Blocks that are executed.
    pub const BLOCKS: u64 = 1;
    /// Where the return addresses of calls and returns lie.
    pub const CALLS: u64 = 2;
    /// Memory that is written.
    pub const WRITES: u64 = 4;
    /// Memory that is read.
    pub const READS: u64 = 8;
    /// Together with [`WRITES`] and [`CALLS`]: instead of all that happens, only marks which bytes are written and counts
    /// how often blocks are executed. Of calls, returns and switches of threads a word each is streamed, see
    /// [`super::transfer`].
    pub const SUMMARY: u64 = 16;
}

/// The lowest two bits of a word in the stream of a summary. The others are the stack pointer before a call or a return, or
/// the number of the thread that runs from here.
pub mod transfer {
    /// A call.
    pub const CALL: u64 = 0;
    /// A return.
    pub const RETURN: u64 = 1;
    /// A switch of threads.
    pub const SWITCH: u64 = 2;
    /// All these bits.
    pub const MASK: u64 = 3;
    /// Where the number of a thread begins.
    pub const THREAD_SHIFT: u32 = 2;
}

/// What a mark says of a byte.
pub mod mark {
    /// Its value has come from outside.
    pub const LEARNED: u8 = 1;
    /// It has come from another address, where it may or may not be known.
    pub const MOVED: u8 = 2;
    /// It was written, by the guest or by a system call.
    pub const WRITTEN: u8 = 0xff;
}

/// What the process says.
pub mod tell {
    /// `[why, time, thread, pc, events]`, `why` of [`super::why`]
    pub const STOPPED: u64 = 64;
    /// `[time, thread, pc, events]`, payload: a text that says what was expected and found.
    pub const DIVERGED: u64 = 65;
    /// Payload: a text.
    pub const FAILED: u64 = 66;
    /// `[number]`
    pub const DONE: u64 = 67;
    /// `[thread, in_syscall, running]`, payload: the registers of `log::register`, eight bytes each, then an image of
    /// `xsave`. `in_syscall` is the number of a system call plus one.
    pub const REGISTERS: u64 = 68;
    /// Payload: number and `in_syscall` of each thread, four bytes each; the one that runs comes first.
    pub const THREADS: u64 = 69;
    /// `[address]`, payload: memory there, as far as it can be the guest's.
    pub const MEMORY: u64 = 70;
    /// `[address]`: wants the piece of memory there.
    pub const NEED: u64 = 72;
    /// Payload: descriptions of blocks, one after the other. Each is eight words, the number of the bytes behind
    /// them and `[number, pc, instructions, ending, bytes, time, exit]`, and then [`super::Access`]es, then the length of each
    /// instruction, a byte each. Describes what a block leaves in the stream: `bytes` bytes, the first four are
    /// [`super::record_word`]. `ending` is of [`super::ending`]. Numbers come in order; when they start over with 0,
    /// those before are forgotten. `exit` is 0, or tells which side exit of the block with `exit` 0 before it this is.
    pub const BLOCK: u64 = 73;
    /// `[offset, len, time]`: this much is in the stream file there; `time` is that of its first block. Waits for
    /// [`super::ask::GO_ON`].
    pub const STREAM: u64 = 74;
    /// Payload: pages, one after the other. Each is its address, eight bytes, then its contents, then a bit for each of its words of eight bytes that was [`super::mark::WRITTEN`], then a
    /// bit for each byte that has any mark. See [`super::WRITTEN_SIZE`].
    pub const WRITTEN: u64 = 75;
    /// `[start, end]`: pages there have become zero, before what was written to them since.
    pub const CLEARED: u64 = 76;
    /// `[from, to, len]`: pages have moved, in the order of [`CLEARED`]: where they are now has become zero before, and is
    /// known as far as it was known there.
    pub const MOVED: u64 = 78;
    /// Payload: numbers of blocks and how often they were executed, four bytes each. A block that was left by a side exit
    /// counts for itself and for the exit, whose number follows.
    pub const COUNTS: u64 = 77;
    /// Payload: one sample after the other, each the time, the thread and the registers of `log::register`, eight bytes each.
    pub const SAMPLES: u64 = 79;
}

/// Bytes of a sample of [`tell::SAMPLES`].
pub const SAMPLE_SIZE: usize = 8 * (2 + crate::log::register::COUNT);

/// Why a process has stopped.
pub mod why {
    /// The time has come.
    pub const TIME: u64 = 0;
    /// A breakpoint.
    pub const BREAKPOINT: u64 = 1;
    /// The log is over.
    pub const END: u64 = 2;
}

/// How a block ends.
pub mod ending {
    /// Goes on at the next instruction.
    pub const NEXT: u64 = 0;
    /// Jumps, conditionally or not, or leaves for the engine.
    pub const JUMP: u64 = 1;
    /// Calls.
    pub const CALL: u64 = 2;
    /// Returns.
    pub const RETURN: u64 = 3;
    /// Makes a system call.
    pub const SYSCALL: u64 = 4;
}

/// Bytes of a page's address, of the page, of the bits of its words, and of those of its bytes.
pub const WRITTEN_SIZE: usize = 8 + 4096 + 4096 / 64 + 4096 / 8;

/// Bits of a block's number.
pub const NUMBER_BITS: u32 = 22;

/// One more than the greatest number of a block.
pub const MOST_BLOCKS: u32 = (1 << NUMBER_BITS) - 1;

/// Lengths in a record's first word are counted in these.
pub const RECORD_GRAIN: usize = 4;

/// The first word of a block's record: its number, and above it the length of the record in [`RECORD_GRAIN`]s, so that a
/// reader finds the next one without looking the block up. All bits set mean that the length does not fit.
pub fn record_word(number: u32, len: usize) -> u32 {
    let grains = (len / RECORD_GRAIN).min((u32::MAX >> NUMBER_BITS) as usize) as u32;
    number | grains << NUMBER_BITS
}

/// First word of a record that is no block's: memory that an instruction has accessed in a way that no static
/// description fits. Behind the number: the [`access`] kind and the index back from the end of the last block of the
/// instruction (two bytes each), address and length (eight bytes each), then the bytes, padded to a multiple of eight.
pub const LOOSE: u32 = u32::MAX;

/// Kinds of accesses.
pub mod access {
    /// Writes; the value is what is there after the instruction.
    pub const WRITE: u8 = 0;
    /// Reads; the value is what was there before the instruction.
    pub const READ: u8 = 1;
    /// The return address of a call is written; its value is that of the instruction behind the call and not in the
    /// stream.
    pub const CALL: u8 = 2;
    /// A return address is read.
    pub const RETURN: u8 = 3;
}

/// An access of a block to memory, as far as it is known when the block is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Which instruction of the block.
    pub instruction: u8,
    /// Of [`access`].
    pub kind: u8,
    /// Bytes accessed.
    pub len: u16,
    /// Where in the block's record a word is that `displacement` is added to; [`Access::ABSOLUTE`] for none.
    pub base: u16,
    /// Where in the block's record the value is, [`Access::NO_VALUE`] if it is not.
    pub value: u16,
    /// The address, or its distance from the word in the record.
    pub displacement: u64,
}

impl Access {
    /// Bytes of it in a message.
    pub const SIZE: usize = 16;
    /// An address that does not depend on anything.
    pub const ABSOLUTE: u16 = u16::MAX;
    /// A value that is not in the stream.
    pub const NO_VALUE: u16 = u16::MAX;

    /// As bytes.
    pub fn to_bytes(&self) -> [u8; Access::SIZE] {
        let mut bytes = [0; Access::SIZE];
        bytes[0] = self.instruction;
        bytes[1] = self.kind;
        bytes[2..4].copy_from_slice(&self.len.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.base.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.value.to_le_bytes());
        bytes[8..].copy_from_slice(&self.displacement.to_le_bytes());
        bytes
    }

    /// From bytes.
    pub fn from_bytes(bytes: &[u8; Access::SIZE]) -> Access {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[8..]);
        Access {
            instruction: bytes[0],
            kind: bytes[1],
            len: half(2),
            base: half(4),
            value: half(6),
            displacement: u64::from_le_bytes(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_accesses_come_back() {
        let header = Header::new(ask::RUN, [17, u64::MAX]);
        assert_eq!(header.kind(), ask::RUN);
        assert_eq!(Header::from_bytes(&header.to_bytes()), header);
        let access = Access {
            instruction: 3,
            kind: access::READ,
            len: 64,
            base: 8,
            value: Access::NO_VALUE,
            displacement: 0xffff_ffff_ffff_fff8,
        };
        assert_eq!(Access::from_bytes(&access.to_bytes()), access);
    }
}
