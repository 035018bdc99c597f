//! Guest memory that a system call hands to the kernel as data.
//!
//! Problem: what a program writes is not logged, since a replay has it in its memory. But it has only what the guest
//! loaded or stored there itself: a constant in the program's file, a buffer that a forked process inherits, one that
//! was filled before the interval began may be handed over without any load.
//!
//! Strategy: when a call that writes begins, its data counts as loaded. Differences to the shadow are logged as for
//! any load, so that data which the guest has touched costs a comparison and nothing in the log.
//!
//! Invariant: no guest value makes this look at more than the kernel would.

use super::effects::Memory;
use linux_raw_sys::general as c;

/// The kernel takes no more in one call.
const MOST_BYTES: u64 = 0x7fff_f000;
/// Nor more vectors, or messages of a batch.
const MOST_ELEMENTS: u64 = 1024;

const VECTOR_SIZE: u64 = 16;
/// Bytes of `msghdr` and `mmsghdr`, and where a header has its vectors and their number.
const HEADER_SIZE: u64 = 56;
const BATCH_ELEMENT: u64 = 64;
const HEADER_VECTORS: u64 = 16;
const HEADER_COUNT: u64 = 24;

/// As much of a path as can name a device or descriptor.
const PATH_LENGTH: u64 = 64;

/// Calls `read(address, len)` for every range that a call which begins takes data from.
pub fn ranges(memory: &dyn Memory, number: u32, args: &[u64; 6], read: &mut dyn FnMut(u64, u64)) {
    let mut left = MOST_BYTES;
    match number {
        c::__NR_write | c::__NR_pwrite64 | c::__NR_sendto => read(args[1], args[2].min(left)),
        c::__NR_writev | c::__NR_pwritev | c::__NR_pwritev2 | c::__NR_vmsplice => {
            vectors(memory, args[1], args[2], &mut left, read);
        }
        c::__NR_sendmsg => message(memory, args[1], &mut left, read),
        c::__NR_sendmmsg => {
            for index in 0..args[2].min(MOST_ELEMENTS) {
                message(memory, args[1].wrapping_add(index * BATCH_ELEMENT), &mut left, read);
            }
        }
        c::__NR_open | c::__NR_creat => read(args[0], PATH_LENGTH),
        c::__NR_openat => read(args[1], PATH_LENGTH),
        _ => {}
    }
}

fn message(memory: &dyn Memory, header: u64, left: &mut u64, read: &mut dyn FnMut(u64, u64)) {
    read(header, HEADER_SIZE);
    let word = |offset| word(memory, header.wrapping_add(offset));
    if let (Some(array), Some(count)) = (word(HEADER_VECTORS), word(HEADER_COUNT)) {
        vectors(memory, array, count, left, read);
    }
}

fn vectors(
    memory: &dyn Memory,
    array: u64,
    count: u64,
    left: &mut u64,
    read: &mut dyn FnMut(u64, u64),
) {
    let count = count.min(MOST_ELEMENTS);
    read(array, count * VECTOR_SIZE);
    for index in 0..count {
        let vector = array.wrapping_add(index * VECTOR_SIZE);
        let (Some(base), Some(len)) = (word(memory, vector), word(memory, vector.wrapping_add(8)))
        else {
            return;
        };
        let len = len.min(*left);
        read(base, len);
        *left -= len;
    }
}

fn word(memory: &dyn Memory, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    memory.read(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
}
