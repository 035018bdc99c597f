//! Calls that write on failure too, or whose outputs have a form of their own.

use super::{FinishedCall, Output, nothing_written_despite};
use core::mem::size_of;
use linux_raw_sys::errno;
use linux_raw_sys::general as c;

const TIMESPEC: usize = size_of::<c::__kernel_timespec>();
const TIMEVAL: usize = size_of::<c::__kernel_old_timeval>();

/// Where the kernel stops looking for descriptors in a set unless its limits were raised: a process can hardly
/// have more. Keeps a senseless count from claiming half of memory.
const MOST_DESCRIPTORS: u32 = 1 << 20;

pub fn poll(call: &mut FinishedCall) -> bool {
    match call.error() {
        // Interrupted, it has still cleared the events.
        None | Some(errno::EINTR) => call.output(Output::Array(0, 1, size_of::<c::pollfd>())),
        error => nothing_written_despite(error),
    }
}

pub fn ppoll(call: &mut FinishedCall) -> bool {
    remaining_time(call, 2, TIMESPEC);
    poll(call)
}

pub fn select(call: &mut FinishedCall) -> bool {
    remaining_time(call, 4, TIMEVAL);
    descriptor_sets(call)
}

pub fn pselect6(call: &mut FinishedCall) -> bool {
    remaining_time(call, 4, TIMESPEC);
    descriptor_sets(call)
}

/// The time that was left is written however the waiting ended.
fn remaining_time(call: &mut FinishedCall, pointer: usize, size: usize) {
    if call.error() != Some(errno::EFAULT) {
        call.bytes(pointer, size);
    }
}

/// The sets are whole words; the kernel leaves them alone on errors, interruption among them.
fn descriptor_sets(call: &mut FinishedCall) -> bool {
    if let error @ Some(_) = call.error() {
        return nothing_written_despite(error);
    }
    let descriptors = call.narrow(0).min(MOST_DESCRIPTORS) as usize;
    let bytes = descriptors.div_ceil(64) * 8;
    for set in 1..=3 {
        call.bytes(set, bytes);
    }
    true
}

pub fn nanosleep(call: &mut FinishedCall) -> bool {
    match call.error() {
        Some(errno::EINTR) => call.bytes(1, TIMESPEC),
        error => nothing_written_despite(error),
    }
}

pub fn clock_nanosleep(call: &mut FinishedCall) -> bool {
    match call.error() {
        Some(errno::EINTR) if call.narrow(1) & c::TIMER_ABSTIME == 0 => call.bytes(3, TIMESPEC),
        error => nothing_written_despite(error),
    }
}

pub fn wait4(call: &mut FinishedCall) -> bool {
    match call.error() {
        // Nobody to wait for yet.
        None if call.result == 0 => true,
        None => call.bytes(1, 4) && call.bytes(3, size_of::<c::rusage>()),
        error => nothing_written_despite(error),
    }
}

/// Fills in who ended, or zeroes for nobody, even when it fails.
pub fn waitid(call: &mut FinishedCall) -> bool {
    /// The fields that it sets end with the status.
    const THROUGH_STATUS: usize = 28;
    match call.error() {
        Some(errno::EFAULT) => false,
        Some(_) => call.bytes(2, THROUGH_STATUS),
        None => {
            call.bytes(2, THROUGH_STATUS);
            let signal = call.read_u32(call.args[2]);
            if signal == Some(0) { true } else { call.bytes(4, size_of::<c::rusage>()) }
        }
    }
}

/// The descriptors are written before the sockets are made, which may fail.
pub fn socketpair(call: &mut FinishedCall) -> bool {
    match call.error() {
        Some(errno::EFAULT) => false,
        Some(errno::EINVAL | errno::EMFILE | errno::ENFILE) => true,
        _ => call.bytes(3, 8),
    }
}

pub fn clone(call: &mut FinishedCall) -> bool {
    let [flags, _, parent_word, child_word, ..] = *call.args;
    // The descriptor goes where the id would go.
    cloned(call, flags, parent_word, parent_word, child_word)
}

pub fn clone3(call: &mut FinishedCall) -> bool {
    let field = |index: u64| call.read_u64(call.args[0].wrapping_add(index * 8));
    let (Some(flags), Some(descriptor), Some(child_word), Some(parent_word)) =
        (field(0), field(1), field(2), field(3))
    else {
        return false;
    };
    cloned(call, flags, descriptor, parent_word, child_word)
}

/// The parent's words are written after a copy of memory was made for the child, so the child does not see them.
fn cloned(
    call: &mut FinishedCall,
    flags: u64,
    descriptor: u64,
    parent_word: u64,
    child_word: u64,
) -> bool {
    let is_set = |flag: u32| flags & u64::from(flag) != 0;
    if let error @ Some(_) = call.error() {
        return nothing_written_despite(error);
    }
    if call.result == 0 {
        if is_set(c::CLONE_CHILD_SETTID) {
            call.range(child_word, 4);
        }
        return true;
    }
    if is_set(c::CLONE_PIDFD) {
        call.range(descriptor, 4);
    }
    if is_set(c::CLONE_PARENT_SETTID) {
        call.range(parent_word, 4);
    }
    true
}

/// Locks that inherit priority keep their owner in the word, and mark it as waited for even if they give up.
pub fn futex(call: &mut FinishedCall) -> bool {
    let word = match call.narrow(1) & c::FUTEX_CMD_MASK as u32 {
        c::FUTEX_WAIT
        | c::FUTEX_WAKE
        | c::FUTEX_FD
        | c::FUTEX_REQUEUE
        | c::FUTEX_CMP_REQUEUE
        | c::FUTEX_WAIT_BITSET
        | c::FUTEX_WAKE_BITSET => return true,
        c::FUTEX_LOCK_PI | c::FUTEX_LOCK_PI2 | c::FUTEX_UNLOCK_PI | c::FUTEX_TRYLOCK_PI => 0,
        c::FUTEX_WAKE_OP | c::FUTEX_WAIT_REQUEUE_PI | c::FUTEX_CMP_REQUEUE_PI => 4,
        _ => return call.error().is_some(),
    };
    match call.error() {
        Some(errno::EFAULT) => false,
        Some(errno::ENOSYS) => true,
        _ => call.bytes(word, 4),
    }
}

/// Fails in the middle if not all is mapped, and does not say where.
pub fn mincore(call: &mut FinishedCall) -> bool {
    match call.error() {
        None => {
            call.range(call.args[2], call.args[1].div_ceil(4096));
            true
        }
        Some(errno::ENOMEM) => false,
        error => nothing_written_despite(error),
    }
}

/// The type of a message comes before its text.
pub fn msgrcv(call: &mut FinishedCall) -> bool {
    match call.error() {
        None => {
            call.range(call.args[1], call.result.min(call.args[2]).saturating_add(8));
            true
        }
        error => nothing_written_despite(error),
    }
}

/// An unknown version is answered with the one that the kernel prefers.
pub fn capget(call: &mut FinishedCall) -> bool {
    match call.error() {
        Some(errno::EINVAL) => call.bytes(0, 4),
        None if call.args[1] == 0 => call.bytes(0, 4),
        None => {
            let sets = match call.read_u32(call.args[0]) {
                Some(c::_LINUX_CAPABILITY_VERSION_1) => 1,
                Some(_) => 2,
                None => return false,
            };
            call.bytes(1, sets * size_of::<c::__user_cap_data_struct>())
        }
        error => nothing_written_despite(error),
    }
}

/// A structure from a newer kernel's header is answered with the size that this kernel knows.
pub fn sched_setattr(call: &mut FinishedCall) -> bool {
    if call.error() == Some(errno::E2BIG) { call.bytes(1, 4) } else { true }
}

/// As [`sched_setattr`]; the size is the second word.
pub fn perf_event_open(call: &mut FinishedCall) -> bool {
    if call.error() == Some(errno::E2BIG) {
        call.range(call.args[0].wrapping_add(4), 4);
    }
    true
}

pub fn name_to_handle_at(call: &mut FinishedCall) -> bool {
    /// Length and type come before the handle's bytes.
    const HEAD: u64 = 8;
    let unique = call.narrow(4) & c::AT_HANDLE_MNT_ID_UNIQUE != 0;
    let mount_id = if unique { 8 } else { 4 };
    match call.error() {
        None => {
            let Some(length) = call.read_u32(call.args[2]) else { return false };
            call.bytes(3, mount_id);
            call.described(call.args[2], HEAD + u64::from(length))
        }
        // Says how much room it would have taken.
        Some(errno::EOVERFLOW) => call.bytes(2, HEAD as usize) && call.bytes(3, mount_id),
        error => nothing_written_despite(error),
    }
}

pub fn copy_file_range(call: &mut FinishedCall) -> bool {
    match call.error() {
        // The offsets stay as they are.
        None if call.result == 0 => true,
        None => call.bytes(1, 8) && call.bytes(3, 8),
        error => nothing_written_despite(error),
    }
}

/// Node masks are whole words, and the last of the nodes asked for does not count.
pub fn get_mempolicy(call: &mut FinishedCall) -> bool {
    match call.error() {
        None => {
            let bits = call.args[2].saturating_sub(1);
            call.range(call.args[1], bits.div_ceil(64) * 8);
            call.bytes(0, 4)
        }
        error => nothing_written_despite(error),
    }
}

/// Fails as a number of 32 bits.
pub fn modify_ldt(call: &mut FinishedCall) -> bool {
    let reads = matches!(call.narrow(0), 0 | 2);
    let count = call.result as i32;
    if reads && count > 0 {
        call.range(call.args[1], count as u64);
    }
    true
}

pub fn sysfs(call: &mut FinishedCall) -> bool {
    /// Writes the name of a file system.
    const NAME_OF_INDEX: u32 = 2;
    /// No file system has a longer name.
    const LONGEST_NAME: u64 = 64;
    if call.narrow(0) != NAME_OF_INDEX {
        return true;
    }
    if let error @ Some(_) = call.error() {
        return nothing_written_despite(error);
    }
    let start = call.args[2];
    for length in 0..LONGEST_NAME {
        let mut byte = [0];
        if !call.memory.read(start.wrapping_add(length), &mut byte) {
            return false;
        }
        if byte == [0] {
            call.range(start, length + 1);
            return true;
        }
    }
    false
}

/// Says in its first word how much it wrote.
pub fn statmount(call: &mut FinishedCall) -> bool {
    match call.error() {
        None => {
            let Some(size) = call.read_u32(call.args[1]) else { return false };
            call.described(call.args[1], u64::from(size).min(call.args[2]))
        }
        error => nothing_written_despite(error),
    }
}

pub fn lsm_get_self_attr(call: &mut FinishedCall) -> bool {
    match call.error() {
        None => {
            let Some(size) = call.read_u32(call.args[2]) else { return false };
            call.bytes(2, 4);
            call.described(call.args[1], size.into())
        }
        Some(errno::E2BIG) => call.bytes(2, 4),
        error => nothing_written_despite(error),
    }
}

pub fn lsm_list_modules(call: &mut FinishedCall) -> bool {
    match call.error() {
        None => {
            call.range(call.args[0], call.result.saturating_mul(8));
            call.bytes(1, 4)
        }
        Some(errno::E2BIG) => call.bytes(1, 4),
        error => nothing_written_despite(error),
    }
}

/// The value's place and room are in a structure.
pub fn getxattrat(call: &mut FinishedCall) -> bool {
    match call.error() {
        None => {
            let arguments = call.args[4];
            let (Some(value), Some(room)) =
                (call.read_u64(arguments), call.read_u32(arguments.wrapping_add(8)))
            else {
                return false;
            };
            call.range(value, call.result.min(room.into()));
            true
        }
        error => nothing_written_despite(error),
    }
}

/// The buffers of the requests were written earlier, at the kernel's own time.
pub fn io_getevents(call: &mut FinishedCall) -> bool {
    /// Bytes of an `io_event`.
    const EVENT: usize = 32;
    /// Offset in the ring, which lies in the guest's memory, of how far it has been read.
    const HEAD: u64 = 8;
    match call.error() {
        None => {
            call.range(call.args[0].wrapping_add(HEAD), 4);
            call.output(Output::Counted(3, 2, EVENT))
        }
        error => nothing_written_despite(error),
    }
}
