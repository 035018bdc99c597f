//! `modify_ldt`: the guest's local descriptor table.
//!
//! The table is the kernel's, and the processor's where the guest loads FS and other segment registers itself. Its GS is
//! emulated, for which the bases must be known here. Code segments can be described, but no code of another kind is ever
//! executed.

use super::{Args, Outcome, pass};
use crate::guest_memory as guest;
use core::sync::atomic::{AtomicU32, Ordering};
use linux_raw_sys::general as c;

/// Entries of a table.
const ENTRIES: usize = 8192;

/// Functions that write an entry.
const WRITE_OLD: u64 = 1;
const WRITE: u64 = 0x11;

/// The kernel's `struct user_desc` as far as it matters: number and base.
type Description = [u32; 4];

static BASES: [AtomicU32; ENTRIES] = [const { AtomicU32::new(0) }; ENTRIES];

/// The base of a segment in the local table.
pub fn base(entry: u16) -> u64 {
    BASES[entry as usize % ENTRIES].load(Ordering::Relaxed) as u64
}

/// `modify_ldt`
pub fn modify_ldt(args: &Args) -> Outcome {
    let outcome = pass(c::__NR_modify_ldt, args);
    if outcome == Outcome::Value(0)
        && matches!(args[0], WRITE | WRITE_OLD)
        // SAFETY: plain numbers.
        && let Ok([number, base, ..]) = unsafe { guest::read_value::<Description>(args[1]) }
    {
        BASES[number as usize % ENTRIES].store(base, Ordering::Relaxed);
    }
    outcome
}
