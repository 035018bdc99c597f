//! Threads that wait for what another thread of the process traces: only that one can look at its tracees.
//!
//! The waiting thread leaves an errand and kicks the tracer, which runs it when it next passes through its engine.

use super::examine::{Seen, examine};
use crate::lock::Lock;
use crate::signals;
use crate::sys;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

struct Errand {
    /// Who is to look.
    by: i32,
    /// At whom.
    tid: i32,
    /// The status that the kernel has told, shifted down by eight.
    status: u32,
    /// What was seen.
    seen: Option<Seen>,
}

static ERRANDS: Lock<Vec<Errand>> = Lock::new(Vec::new());

/// Whether there may be any.
static ANY: AtomicBool = AtomicBool::new(false);

/// Leaves an errand for another thread.
pub fn leave(by: i32, tid: i32, status: u32) {
    ERRANDS.lock().push(Errand { by, tid, status, seen: None });
    ANY.store(true, Ordering::Relaxed);
    signals::kick(sys::getpid(), by);
}

/// Its outcome, once there is one; then it is done with.
pub fn collect(by: i32, tid: i32) -> Option<Seen> {
    let mut errands = ERRANDS.lock();
    let place = errands.iter().position(|e| e.by == by && e.tid == tid && e.seen.is_some())?;
    let seen = errands.swap_remove(place).seen;
    ANY.store(!errands.is_empty(), Ordering::Relaxed);
    seen
}

/// Gives an errand up.
pub fn cancel(by: i32, tid: i32) {
    ERRANDS.lock().retain(|e| !(e.by == by && e.tid == tid));
}

/// Runs the errands that others have left for the calling thread.
pub fn run() {
    if !ANY.load(Ordering::Relaxed) {
        return;
    }
    let me = sys::gettid();
    loop {
        let next = {
            let errands = ERRANDS.lock();
            errands.iter().find(|e| e.by == me && e.seen.is_none()).map(|e| (e.tid, e.status))
        };
        let Some((tid, status)) = next else { return };
        let seen = examine(tid, status);
        if let Some(errand) = ERRANDS.lock().iter_mut().find(|e| e.by == me && e.tid == tid) {
            errand.seen = Some(seen);
        }
    }
}

/// In a forked child nobody waits for anything.
pub fn forget_all() {
    if ANY.load(Ordering::Relaxed) {
        ERRANDS.lock().clear();
        ANY.store(false, Ordering::Relaxed);
    }
}

/// Holds them still, across `fork`.
pub struct Guarded(
    #[allow(dead_code, reason = "held for its drop")] crate::lock::Guard<'static, Vec<Errand>>,
);

/// Holds them still, across `fork`.
pub fn hold() -> Guarded {
    Guarded(ERRANDS.lock())
}
