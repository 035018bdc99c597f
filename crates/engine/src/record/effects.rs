//! Which guest memory a system call wrote.
//!
//! Problem: a recording should be able to say "these bytes came from `read` on descriptor 3". The kernel does
//! not tell what it wrote; the call's number, arguments and result nearly do.
//!
//! Strategy: most calls write a few ranges whose place and size follow from the arguments and the result, and
//! only when they succeed. Those are rows of a table ([`table`]), made of the few [`Output`] shapes there are.
//! The others have a function each: [`special`] where failure writes too or the sizes are odd, [`network`] for
//! messages and socket options, [`control`] for calls that are many calls behind one number, [`ioctl`].
//!
//! Nothing here is needed for a correct replay, since loads notice what changed whoever changed it. It decides
//! only when a change is recorded and whom it is attributed to. Hence what may be imprecise, and how:
//!
//! 1. Ranges may be too large where the kernel does not say (padding of structures, a truncated socket address).
//!    They may reach into memory that is not mapped; who reads them has to cope.
//! 2. Ranges are too small only where the answer is `false`, or where memory that describes the ranges (a
//!    vector, a message header) was itself changed meanwhile.
//! 3. Changes of mappings, signal frames, and what the kernel writes at its own time (asynchronous I/O, a
//!    thread's id as it ends) are no output of a call and not reported.
//!
//! Invariants: no guest value makes anything here loop more than [`MOST_ELEMENTS`] times squared, allocate or panic.

mod control;
mod ioctl;
mod network;
mod special;
mod table;

use linux_raw_sys::errno;

/// Reads guest memory as the kernel left it.
pub trait Memory {
    /// Fills `bytes` from `address`; false, with any contents, if that is not readable.
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool;
}

/// How many elements of a vector, or messages of a batch, are looked at: the kernel's own limit on vectors.
const MOST_ELEMENTS: u64 = 1024;

/// Bytes of an `iovec`.
const VECTOR_SIZE: u64 = 16;

/// The largest socket address (`sockaddr_storage`).
const LARGEST_ADDRESS: u64 = 128;

/// The largest output whose length is taken from guest memory. The kernel wrote that length, but a guest can
/// place it where an output overwrites it, and must not make a recording of all its memory that way.
const LARGEST_DESCRIBED: u64 = 1 << 20;

/// Calls `wrote(address, len)` for every range that the call is known to have written.
///
/// `result` is what the call left in rax. Returns whether the call's effects are known completely; if not, what
/// else it wrote shows up in later loads.
pub fn written(
    memory: &dyn Memory,
    number: u32,
    args: &[u64; 6],
    result: u64,
    wrote: &mut dyn FnMut(u64, u64),
) -> bool {
    let mut call = FinishedCall { memory, args, result, wrote };
    match table::effects(number) {
        Effects::Nothing => true,
        Effects::OnSuccess(outputs) => match call.error() {
            None => {
                let mut known = true;
                for &output in outputs {
                    known &= call.output(output);
                }
                known
            }
            error => nothing_written_despite(error),
        },
        Effects::Special(special) => special(&mut call),
        Effects::Unknown => call.error() == Some(errno::ENOSYS),
    }
}

/// What is known of one system call.
#[derive(Clone, Copy)]
enum Effects {
    /// Nobody modelled it.
    Unknown,
    /// It writes no memory, whatever becomes of it.
    Nothing,
    /// It writes these if it succeeds and nothing if it fails.
    OnSuccess(&'static [Output]),
    /// It needs a closer look. The function answers as [`written`] does.
    Special(fn(&mut FinishedCall) -> bool),
}

/// One thing that a call writes. Arguments are given by their index; a null pointer is an output not wanted.
#[derive(Clone, Copy)]
enum Output {
    /// So many bytes at this argument.
    Bytes(usize, usize),
    /// At this argument, as many elements as the other argument says, of so many bytes.
    Array(usize, usize, usize),
    /// At this argument, as many elements as the result says but no more than the other argument allows, of so
    /// many bytes. (A result may exceed the room: it is then the room that would have been needed.)
    Counted(usize, usize, usize),
    /// Through the vectors at this argument, as many as the other says, as many bytes as the result says.
    Vectors(usize, usize),
    /// The socket address at this argument, its length at the other.
    Address(usize, usize),
}

/// Whether a call that writes only on success is known to have written nothing with this error.
///
/// A bad pointer may have been noticed when half of the outputs were written.
fn nothing_written_despite(error: Option<u32>) -> bool {
    error != Some(errno::EFAULT)
}

/// A system call that has returned.
struct FinishedCall<'a> {
    memory: &'a dyn Memory,
    args: &'a [u64; 6],
    result: u64,
    wrote: &'a mut dyn FnMut(u64, u64),
}

impl FinishedCall<'_> {
    /// The error number, if the call failed.
    fn error(&self) -> Option<u32> {
        (self.result > -4096i64 as u64).then(|| (self.result as u32).wrapping_neg())
    }

    /// An argument of which the kernel looks at the lower half.
    fn narrow(&self, index: usize) -> u32 {
        self.args[index] as u32
    }

    /// Reports a range. Null pointers and empty or impossible ranges are passed over.
    fn range(&mut self, address: u64, len: u64) {
        if address != 0 && len != 0 && address.checked_add(len).is_some() {
            (self.wrote)(address, len);
        }
    }

    /// Reports a range whose length was found in guest memory; returns whether all of it was reported.
    fn described(&mut self, address: u64, len: u64) -> bool {
        self.range(address, len.min(LARGEST_DESCRIBED));
        len <= LARGEST_DESCRIBED
    }

    /// Reports so many bytes at an argument. Returns true, as most calls' last step.
    fn bytes(&mut self, pointer: usize, size: usize) -> bool {
        self.range(self.args[pointer], size as u64);
        true
    }

    fn read_u16(&self, address: u64) -> Option<u16> {
        let mut bytes = [0; 2];
        self.memory.read(address, &mut bytes).then(|| u16::from_le_bytes(bytes))
    }

    fn read_u32(&self, address: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        self.memory.read(address, &mut bytes).then(|| u32::from_le_bytes(bytes))
    }

    fn read_u64(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.memory.read(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }

    /// Reports an output of a call that succeeded; returns whether it is known completely.
    fn output(&mut self, output: Output) -> bool {
        match output {
            Output::Bytes(pointer, size) => self.bytes(pointer, size),
            Output::Array(pointer, count, size) => {
                self.range(self.args[pointer], u64::from(self.narrow(count)) * size as u64);
                true
            }
            Output::Counted(pointer, room, size) => {
                let count = self.result.min(self.args[room]);
                self.range(self.args[pointer], count.saturating_mul(size as u64));
                true
            }
            Output::Vectors(pointer, count) => {
                self.vectors(self.args[pointer], self.args[count], self.result)
            }
            Output::Address(pointer, length) => self.address(self.args[pointer], self.args[length]),
        }
    }

    /// Reports the first `left` bytes of what an array of vectors describes.
    fn vectors(&mut self, array: u64, count: u64, mut left: u64) -> bool {
        for index in 0..count.min(MOST_ELEMENTS) {
            if left == 0 {
                break;
            }
            let vector = array.wrapping_add(index * VECTOR_SIZE);
            let (Some(base), Some(len)) =
                (self.read_u64(vector), self.read_u64(vector.wrapping_add(8)))
            else {
                return false;
            };
            let len = len.min(left);
            self.range(base, len);
            left -= len;
        }
        true
    }

    /// Reports a socket address and the word with its length.
    ///
    /// That word was the room before the call and is the length of the whole address after it, so that how much
    /// of a truncated address was written is not known any more.
    fn address(&mut self, address: u64, length_word: u64) -> bool {
        if address == 0 {
            return true;
        }
        let Some(length) = self.read_u32(length_word) else { return false };
        self.range(address, u64::from(length).min(LARGEST_ADDRESS));
        self.range(length_word, 4);
        true
    }
}
