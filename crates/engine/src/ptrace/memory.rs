//! Memory of a process that another one has written: code that was translated may have changed.
//!
//! The writer's engine says so in a static of the process that was written. Who is stopped looks there when it goes on;
//! who runs is kicked.

use super::{remote, tracees};
use crate::dispatch::engine;
use crate::guest_memory as guest;
use crate::signals;
use crate::sys;
use crate::syscalls::{Args, Outcome, pass};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use linux_raw_sys::general as c;
use retro_abi::layout::GUEST_LIMIT;

/// What others have written.
#[repr(C)]
struct Changes {
    any: AtomicU32,
    start: AtomicU64,
    end: AtomicU64,
}

static CHANGES: Changes =
    Changes { any: AtomicU32::new(0), start: AtomicU64::new(0), end: AtomicU64::new(0) };

/// Throws away what was translated of memory that others have written.
pub fn apply_changes() {
    if CHANGES.any.load(Ordering::Relaxed) == 0 {
        return;
    }
    CHANGES.any.store(0, Ordering::Relaxed);
    let start = CHANGES.start.load(Ordering::Relaxed);
    let end = CHANGES.end.load(Ordering::Relaxed).min(GUEST_LIMIT);
    let engine = &mut *engine();
    engine.cache.unprotect_all(&engine.space);
    engine.cache.invalidate_range(start, end);
    engine.code_changes(start, end);
}

/// Tells a process that part of its memory was written.
pub fn tell(pid: i32, start: u64, end: u64) {
    if start >= GUEST_LIMIT || start >= end || !runs_in_engine(pid) {
        return;
    }
    let at = |offset: usize| &raw const CHANGES as u64 + offset as u64;
    // SAFETY: plain numbers.
    let known = unsafe {
        (
            remote::read_value::<u32>(pid, at(offset_of!(Changes, any))),
            remote::read_value::<u64>(pid, at(offset_of!(Changes, start))),
            remote::read_value::<u64>(pid, at(offset_of!(Changes, end))),
        )
    };
    let (start, end) = match known {
        (Ok(any), Ok(from), Ok(to)) if any != 0 => (start.min(from), end.max(to)),
        _ => (start, end),
    };
    let _ = remote::write_value(pid, at(offset_of!(Changes, start)), &start);
    let _ = remote::write_value(pid, at(offset_of!(Changes, end)), &end);
    let _ = remote::write_value(pid, at(offset_of!(Changes, any)), &1u32);
    if tracees::find(pid).is_none_or(|tracee| tracee.state == tracees::State::Running)
        && let Some((process, _)) = remote::process_and_parent(pid)
    {
        signals::kick(process, pid);
    }
}

fn runs_in_engine(pid: i32) -> bool {
    match tracees::find(pid).and_then(|tracee| tracee.engine) {
        Some(known) => known,
        None => remote::is_engine(pid),
    }
}

/// `process_vm_writev`
pub fn written_through(args: &Args) -> Outcome {
    let outcome = pass(c::__NR_process_vm_writev, args);
    let Outcome::Value(written) = outcome else { return outcome };
    let pid = args[0] as i32;
    if sys::check(written).is_err() || written == 0 {
        return outcome;
    }
    let (mut start, mut end) = (u64::MAX, 0);
    for index in 0..args[4].min(1024) {
        let vector = args[3].wrapping_add(16 * index);
        let (Ok(base), Ok(len)) =
            (guest::read_u64(vector), guest::read_u64(vector.wrapping_add(8)))
        else {
            break;
        };
        start = start.min(base);
        end = end.max(base.saturating_add(len));
    }
    if pid == sys::getpid() || pid == sys::gettid() {
        CHANGES.start.store(start, Ordering::Relaxed);
        CHANGES.end.store(end, Ordering::Relaxed);
        CHANGES.any.store(1, Ordering::Relaxed);
    } else {
        tell(pid, start, end);
    }
    outcome
}
