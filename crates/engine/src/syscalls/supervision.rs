//! What the guest would see of the process of `retro` that stands in for it: a parent that is not its own, and a signal that
//! comes when that parent ends.

use super::{Args, Outcome, pass};
use crate::guest_memory as guest;
use crate::sys;
use core::sync::atomic::{AtomicI32, Ordering};
use linux_raw_sys::general as c;
use retro_abi::config::Supervised;

/// The supervised process; 0 for none. Atomics, since a lock could be held by a thread that a forked child lacks.
static PROCESS: AtomicI32 = AtomicI32::new(0);
static SUPERVISOR: AtomicI32 = AtomicI32::new(0);
static PARENT: AtomicI32 = AtomicI32::new(0);
static DEATH_SIGNAL: AtomicI32 = AtomicI32::new(0);

/// The kernel's word for "when my parent dies", which the supervisor has asked for.
const KILL: i32 = c::SIGKILL as i32;

/// Takes over what the engine was told at its start.
pub fn adopt(told: Option<Supervised>) {
    let process = sys::getpid();
    let Some(told) = told.filter(|told| told.process == 0 || told.process == process) else {
        return;
    };
    SUPERVISOR.store(told.supervisor, Ordering::Relaxed);
    PARENT.store(told.parent, Ordering::Relaxed);
    DEATH_SIGNAL.store(told.death_signal, Ordering::Relaxed);
    PROCESS.store(process, Ordering::Relaxed);
}

/// What the engine of the next program must know.
pub fn for_exec() -> Option<Supervised> {
    own()
}

/// The supervision of the calling process; children have the same memory, or a copy, and are not supervised.
fn own() -> Option<Supervised> {
    let process = PROCESS.load(Ordering::Relaxed);
    (process != 0 && process == sys::getpid()).then(|| Supervised {
        process,
        supervisor: SUPERVISOR.load(Ordering::Relaxed),
        parent: PARENT.load(Ordering::Relaxed),
        death_signal: DEATH_SIGNAL.load(Ordering::Relaxed),
    })
}

/// The parent as the guest should see it, given the real one.
pub fn visible_parent(real: i32) -> i32 {
    own().filter(|own| own.supervisor == real).map_or(real, |own| own.parent)
}

/// `getppid`
pub fn getppid(args: &Args) -> Outcome {
    match pass(c::__NR_getppid, args) {
        Outcome::Value(real) => Outcome::Value(visible_parent(real as i32) as u64),
        other => other,
    }
}

/// The supervision, if it is about the calling thread: signals at a parent's death are a matter of single threads.
fn of_this_thread() -> Option<Supervised> {
    own().filter(|own| own.process == sys::gettid())
}

/// `PR_GET_PDEATHSIG`
pub fn death_signal(args: &Args) -> Outcome {
    let outcome = pass(c::__NR_prctl, args);
    if outcome == Outcome::Value(0)
        && let Some(own) = of_this_thread()
        // SAFETY: a plain word.
        && unsafe { guest::read_value::<i32>(args[1]) } == Ok(KILL)
    {
        return guest::write(args[1], &own.death_signal.to_le_bytes()).into();
    }
    outcome
}

/// `PR_SET_PDEATHSIG`: what the guest asks for comes first, but if it wants nothing it still ends with its supervisor.
pub fn set_death_signal(args: &Args) -> Outcome {
    let none = args[1] == 0 && of_this_thread().is_some();
    let outcome = if none { Outcome::Value(0) } else { pass(c::__NR_prctl, args) };
    if outcome == Outcome::Value(0) && of_this_thread().is_some() {
        DEATH_SIGNAL.store(args[1] as i32, Ordering::Relaxed);
    }
    outcome
}
