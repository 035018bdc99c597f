//! The tracees of this process, as far as its engine has to know them.

use crate::lock::{Guard, Lock};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

/// Where a tracee stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs, or has not been looked at.
    Running,
    /// It has announced a stop; its context is here.
    Announced(u64),
    /// It is stopped where the kernel stopped it; its context is here.
    InPlace(u64),
    /// It is stopped, and no business of the engine's.
    Foreign,
}

/// A tracee.
#[derive(Clone, Copy, Debug)]
pub struct Tracee {
    /// Its thread id.
    pub tid: i32,
    /// The thread that traces it: nobody else may.
    pub by: i32,
    /// Whether it was seized.
    pub seized: bool,
    /// The options that the guest has set.
    pub options: u32,
    /// Whether it runs in this engine, once that is known of the program that it executes.
    pub engine: Option<bool>,
    /// Where it stands.
    pub state: State,
    /// What it was told to do when it was last resumed: bits of [`super::wants`].
    pub wants: u32,
    /// Status of its stop, shifted down by eight.
    pub status: u32,
    /// Message of its last event.
    pub message: u64,
    /// Whether it is on its way to a stop that it will announce.
    pub coming: bool,
    /// Its debug registers, as the guest has set them.
    pub debug: [u64; 8],
    /// Which of them have been the reason of stops that were hidden.
    pub debug_status: u64,
    /// Whether its next stop is only to tell it that it is traced.
    pub silent: bool,
    /// Whether it listens for the end of a group stop, without having stopped for real.
    pub listens: bool,
    /// A stop that nobody has caused but the engine: to be told at the next wait.
    pub report: Option<u32>,
}

/// Number of the debug register that says what has happened, and of the one that says what is watched.
pub const DEBUG_STATUS: usize = 6;
const DEBUG_CONTROL: usize = 7;

/// Where the kernel's `struct user` has the debug registers.
pub const DEBUG_REGISTERS: u64 = 848;

impl Tracee {
    /// Whether any debug register is in use.
    pub fn watches(&self) -> bool {
        self.debug[DEBUG_CONTROL] & 0xff != 0
    }

    /// The addresses that the debug registers want execution to stop at.
    pub fn breakpoints(&self) -> [u64; 4] {
        let control = self.debug[DEBUG_CONTROL];
        core::array::from_fn(|number| {
            let enabled = control >> (2 * number) & 3 != 0;
            let kind = control >> (16 + 4 * number) & 3;
            if enabled && kind == 0 { self.debug[number] } else { 0 }
        })
    }

    /// Whether what it creates may be attached, too.
    fn attaches_children(&self) -> bool {
        use linux_raw_sys::ptrace as p;
        let creates = p::PTRACE_O_TRACEFORK | p::PTRACE_O_TRACEVFORK | p::PTRACE_O_TRACECLONE;
        self.options & creates != 0
    }

    pub fn new(tid: i32, by: i32) -> Tracee {
        Tracee {
            tid,
            by,
            seized: false,
            options: 0,
            engine: None,
            state: State::Running,
            wants: 0,
            status: 0,
            message: 0,
            coming: false,
            debug: [0; 8],
            debug_status: 0,
            silent: false,
            listens: false,
            report: None,
        }
    }
}

static TRACEES: Lock<Vec<Tracee>> = Lock::new(Vec::new());

/// Whether there may be any.
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether there are any.
pub fn any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// All of them.
pub fn all() -> Guard<'static, Vec<Tracee>> {
    TRACEES.lock()
}

/// Of one.
pub fn find(tid: i32) -> Option<Tracee> {
    any().then(|| all().iter().find(|t| t.tid == tid).copied()).flatten()
}

/// Adds one, or gives it new properties.
pub fn put(tracee: Tracee) {
    let mut tracees = all();
    match tracees.iter_mut().find(|t| t.tid == tracee.tid) {
        Some(known) => *known = tracee,
        None => tracees.push(tracee),
    }
    ANY.store(true, Ordering::Relaxed);
}

/// It is gone.
pub fn remove(tid: i32) {
    if any() {
        let mut tracees = all();
        tracees.retain(|t| t.tid != tid);
        ANY.store(!tracees.is_empty(), Ordering::Relaxed);
    }
}

/// One that stops for the first time. If the kernel has attached it because its creator is traced, it has that one's
/// options; the creator's own event may come later.
pub fn newcomer(tid: i32, by: i32) -> Tracee {
    let fresh = Tracee::new(tid, by);
    let Some((process, parent)) = super::remote::process_and_parent(tid) else { return fresh };
    let tracees = all();
    let creator = tracees
        .iter()
        .find(|t| t.tid == process)
        .or_else(|| tracees.iter().find(|t| t.tid == parent && t.by == by));
    match creator {
        Some(creator) if creator.attaches_children() => {
            let Tracee { seized, options, engine, .. } = *creator;
            Tracee { seized, options, engine, ..fresh }
        }
        _ => fresh,
    }
}

/// The list, held still.
pub struct Guarded(#[allow(dead_code, reason = "held for its drop")] Guard<'static, Vec<Tracee>>);

/// Holds them still, across `fork`.
pub fn hold() -> Guarded {
    Guarded(TRACEES.lock())
}

/// In a forked child, which traces nobody.
pub fn forget_all() {
    if any() {
        all().clear();
        ANY.store(false, Ordering::Relaxed);
    }
}
