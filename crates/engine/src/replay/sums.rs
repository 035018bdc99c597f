//! Compares the sums of memory in the log with those of the replay's memory.

use super::Player;
use super::memory::{is_guest, lazy};
use crate::context::Context;
use crate::record::sums::sum;
use crate::sys;
use core::sync::atomic::{AtomicBool, Ordering};
use retro_abi::layout::PAGE;

/// Where memory is read that is not there, so that the kernel fills it in, it must not be more than this.
const LARGEST_FILLED: u64 = 4 << 30;

/// Whether memory is older than the interval, and holds more than was read and written in it.
static KEPT: AtomicBool = AtomicBool::new(false);

/// An interval begins; `first` says whether the replay starts with it.
pub fn interval_begins(first: bool) {
    KEPT.store(!first, Ordering::Relaxed);
}

/// Whether memory holds what the sums are of: all of what the interval read and wrote, and nothing else.
fn comparable() -> bool {
    !lazy() && !KEPT.load(Ordering::Relaxed)
}

impl Player {
    /// Memory from `start` on must have this sum.
    pub fn compare_memory(&self, context: &Context, start: u64, len: u64, expected: u64) {
        if len == 0 || !comparable() {
            return;
        }
        if !is_guest(start, len) || !start.is_multiple_of(PAGE) || !len.is_multiple_of(PAGE) {
            self.diverged(
                context,
                format_args!("the log sums what is not the guest's: {start:#x}"),
            );
        }
        let end = start + len;
        // SAFETY: guest memory is mapped as a whole, and the guest does not run now.
        let mut found = unsafe { sum(start, end, 0, sys::resident) };
        if found != Ok(expected) && len <= LARGEST_FILLED {
            // Pages that were swapped out do not count as resident: all are read before anybody is accused.
            // SAFETY: as above.
            found = unsafe { sum(start, end, 0, every_page) };
        }
        match found {
            Ok(found) if found == expected => {}
            Ok(found) => self.diverged(
                context,
                format_args!(
                    "memory {start:#x}-{end:#x} differs: it has the sum {found:016x}, not {expected:016x}"
                ),
            ),
            Err(error) => self.diverged(
                context,
                format_args!("memory {start:#x}-{end:#x} cannot be summed (error {})", error.0),
            ),
        }
    }
}

fn every_page(_: u64, marks: &mut [u8]) -> sys::Result<()> {
    marks.fill(1);
    Ok(())
}
