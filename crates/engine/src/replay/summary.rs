//! The summary of a stretch: what was written and executed, without when.
//!
//! Code that was translated for it ([`super::stream::weave`]) marks bytes that it writes, where a recording has its
//! shadow, and adds to counters, one for each block and one for each of its side exits. Both are read and reset when the
//! owner asks, which costs little against a window of a million instructions.

use super::socket;
use crate::sys::{self, Result};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use linux_raw_sys::general as c;
use retro_abi::layout::COUNTERS_BASE;
use retro_abi::replay::{Header, MAX_PAYLOAD, MOST_BLOCKS, tell};

static MAPPED: AtomicBool = AtomicBool::new(false);

/// Where the executions of a block are counted.
pub fn counter(number: u32) -> u64 {
    COUNTERS_BASE + number as u64 * size_of::<u32>() as u64
}

/// Makes room for the counters, once.
pub fn create_counters() -> Result<()> {
    if MAPPED.load(Ordering::Relaxed) {
        return Ok(());
    }
    let flags = c::MAP_PRIVATE | c::MAP_ANONYMOUS | c::MAP_NORESERVE | c::MAP_FIXED_NOREPLACE;
    let size = counter(MOST_BLOCKS) - COUNTERS_BASE;
    // SAFETY: MAP_FIXED_NOREPLACE never replaces a mapping.
    unsafe { sys::mmap(COUNTERS_BASE, size, c::PROT_READ | c::PROT_WRITE, flags, -1, 0)? };
    MAPPED.store(true, Ordering::Relaxed);
    Ok(())
}

/// Sends the counters of all blocks below a number, and starts them over.
pub fn send_counts(numbers: u32) {
    if !MAPPED.load(Ordering::Relaxed) {
        return;
    }
    let numbers = numbers.min(MOST_BLOCKS) as usize;
    // SAFETY: mapped, and written by nobody but guest code, which does not run now.
    let counters =
        unsafe { core::slice::from_raw_parts(COUNTERS_BASE as *const AtomicU32, numbers) };
    let mut payload = Vec::with_capacity(MAX_PAYLOAD);
    for (number, counter) in counters.iter().enumerate() {
        let count = counter.load(Ordering::Relaxed);
        if count == 0 {
            continue;
        }
        counter.store(0, Ordering::Relaxed);
        payload.extend_from_slice(&(number as u32).to_le_bytes());
        payload.extend_from_slice(&count.to_le_bytes());
        if payload.len() == MAX_PAYLOAD {
            socket::send(Header::new(tell::COUNTS, []), &payload);
            payload.clear();
        }
    }
    if !payload.is_empty() {
        socket::send(Header::new(tell::COUNTS, []), &payload);
    }
}
