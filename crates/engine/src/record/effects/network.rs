//! What receiving messages and asking for socket options writes.
//!
//! A message header is input and output at once: pointers and room go in; the length of the address, the length
//! of the control data and flags come out, in the same fields. Only those fields are reported of it.

use super::{FinishedCall, LARGEST_ADDRESS, MOST_ELEMENTS, nothing_written_despite};
use core::mem::size_of;
use linux_raw_sys::errno;
use linux_raw_sys::general as c;

/// Offsets in `msghdr`.
mod header {
    pub const NAME: u64 = 0;
    pub const NAME_LENGTH: u64 = 8;
    pub const VECTORS: u64 = 16;
    pub const VECTOR_COUNT: u64 = 24;
    pub const CONTROL: u64 = 32;
    pub const CONTROL_LENGTH: u64 = 40;
    pub const FLAGS: u64 = 48;
    /// In `mmsghdr`, behind the header: bytes received or sent.
    pub const BATCH_LENGTH: u64 = 56;
    /// Size of `mmsghdr`.
    pub const BATCH_ELEMENT: u64 = 64;
}

/// Protocol levels whose options are plain data.
const PLAIN_LEVELS: [u32; 9] = [
    SOL_IP, SOL_SOCKET, SOL_TCP, 17,  // SOL_UDP
    41,  // SOL_IPV6
    255, // SOL_RAW
    263, // SOL_PACKET
    270, // SOL_NETLINK
    40,  // AF_VSOCK
];
const SOL_IP: u32 = 0;
const SOL_SOCKET: u32 = 1;
const SOL_TCP: u32 = 6;

/// Its length counts instructions, and nothing is written if the room was given as none.
const SO_GET_FILTER: u32 = 26;
/// Maps pages and fills a buffer besides.
const TCP_ZEROCOPY_RECEIVE: u32 = 35;
/// Options from here on belong to packet filters.
const FIRST_FILTER_OPTION: u32 = 64;

pub fn recvmsg(call: &mut FinishedCall) -> bool {
    match call.error() {
        None => message(call, call.args[1], call.result),
        error => nothing_written_despite(error),
    }
}

pub fn recvmmsg(call: &mut FinishedCall) -> bool {
    if let error @ Some(_) = call.error() {
        return nothing_written_despite(error);
    }
    let mut known = call.result <= MOST_ELEMENTS;
    for index in 0..call.result.min(MOST_ELEMENTS) {
        let element = call.args[1].wrapping_add(index * header::BATCH_ELEMENT);
        let length_word = element.wrapping_add(header::BATCH_LENGTH);
        let Some(length) = call.read_u32(length_word) else { return false };
        known &= message(call, element, length.into());
        call.range(length_word, 4);
    }
    if call.result > 0 {
        call.bytes(4, size_of::<c::__kernel_timespec>());
    }
    known
}

pub fn sendmmsg(call: &mut FinishedCall) -> bool {
    if let error @ Some(_) = call.error() {
        return nothing_written_despite(error);
    }
    for index in 0..call.result.min(MOST_ELEMENTS) {
        let element = call.args[1].wrapping_add(index * header::BATCH_ELEMENT);
        call.range(element.wrapping_add(header::BATCH_LENGTH), 4);
    }
    call.result <= MOST_ELEMENTS
}

/// Reports what receiving `length` bytes through the header at `start` wrote.
fn message(call: &mut FinishedCall, start: u64, length: u64) -> bool {
    let field = |offset| start.wrapping_add(offset);
    let (
        Some(name),
        Some(name_length),
        Some(vectors),
        Some(vector_count),
        Some(control),
        Some(control_length),
    ) = (
        call.read_u64(field(header::NAME)),
        call.read_u32(field(header::NAME_LENGTH)),
        call.read_u64(field(header::VECTORS)),
        call.read_u64(field(header::VECTOR_COUNT)),
        call.read_u64(field(header::CONTROL)),
        call.read_u64(field(header::CONTROL_LENGTH)),
    )
    else {
        return false;
    };
    if name != 0 {
        call.range(name, u64::from(name_length).min(LARGEST_ADDRESS));
        call.range(field(header::NAME_LENGTH), 4);
    }
    let control_known = call.described(control, control_length);
    call.range(field(header::CONTROL_LENGTH), 8);
    call.range(field(header::FLAGS), 4);
    call.vectors(vectors, vector_count, length) && control_known
}

pub fn getsockopt(call: &mut FinishedCall) -> bool {
    let (level, option) = (call.narrow(1), call.narrow(2));
    let length_word = call.args[4];
    match call.error() {
        None => {}
        // Says how much room it would have taken.
        Some(errno::ERANGE) => {
            call.range(length_word, 4);
            return true;
        }
        error => return nothing_written_despite(error),
    }
    call.range(length_word, 4);
    if (level, option) == (SOL_SOCKET, SO_GET_FILTER) {
        return false;
    }
    let Some(length) = call.read_u32(length_word) else { return false };
    call.described(call.args[3], length.into())
        && PLAIN_LEVELS.contains(&level)
        && (level, option) != (SOL_TCP, TCP_ZEROCOPY_RECEIVE)
        && (level != SOL_IP || option < FIRST_FILTER_OPTION)
}
