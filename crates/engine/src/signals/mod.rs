//! Signals: the kernel talks to the engine's handler, the engine talks to the guest's.
//!
//! - Dispositions that are default or ignore are the kernel's business, set for real; only signals the
//!   guest handles, and the few the engine owns, have the engine's handler.
//! - The guest's mask is the real mask, except that owned signals are never really blocked.
//! - An asynchronous signal is noted in the context, everything else is blocked until it is delivered,
//!   so the kernel keeps the queue and its order. Delivery happens at a guest instruction boundary: the
//!   handler single-steps the thread there if it was inside an emitted sequence.
//! - A synchronous fault in the cache is translated to the guest's state by [`crate::cache::recover`].
//!
//! Invariants: the handler takes no lock and allocates nothing; guest handlers run only from dispatch.

pub mod frame;
mod handler;

use crate::context::{Context, Gpr};
use crate::maps::Mapping;
use crate::ptrace::tracee;
use crate::record;
use crate::sys::{self, SigAction};
use crate::{entry, lock::Lock};
use core::sync::atomic::{Ordering, compiler_fence};
use linux_raw_sys::general as c;
use retro_abi::kick;

pub use handler::retro_signal_handler;

/// Number of signals, and of entries in a table indexed by signal.
pub const SIGNALS: usize = 65;

/// `pending` bit: a signal waits in the context.
pub const PENDING_SIGNAL: u32 = 1;
/// `pending` bit: somebody wants this thread out of the cache.
pub const PENDING_KICK: u32 = 2;

/// `pending` bit: the clock has reached its deadline.
pub const PENDING_DEADLINE: u32 = 4;

/// `pending` bit: a tracer has asked for a stop.
pub const PENDING_STOP: u32 = 8;

/// The signal that kicks a thread out of the cache.
pub const KICK_SIGNAL: u32 = kick::SIGNAL;

/// Sends a kick to a thread.
pub fn kick(pid: i32, tid: i32) {
    let info = kick::info();
    let at = info.as_ptr() as u64;
    let args = [pid as u64, tid as u64, KICK_SIGNAL as u64, at, 0, 0];
    // SAFETY: the kernel reads the structure and sends a signal that the engine handles.
    unsafe { sys::syscall(c::__NR_rt_tgsigqueueinfo, args) };
}

/// `si_code` of what the kernel has no better word for.
const SI_KERNEL: i32 = 0x80;

/// Default disposition.
pub const SIG_DFL: u64 = 0;
/// Ignore.
pub const SIG_IGN: u64 = 1;

/// The trap flag.
pub const TRAP_FLAG: u64 = 0x100;

/// Set of one signal.
pub const fn set_of(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// Signals that always have the engine's handler and are never really blocked: faults, which protect
/// code pages and reveal guest errors, and the kick.
pub const OWNED: u64 = set_of(c::SIGSEGV)
    | set_of(c::SIGBUS)
    | set_of(c::SIGILL)
    | set_of(c::SIGFPE)
    | set_of(c::SIGTRAP)
    | set_of(KICK_SIGNAL);

/// The owned signals in order, for tables.
const OWNED_LIST: [u32; 6] = [c::SIGSEGV, c::SIGBUS, c::SIGILL, c::SIGFPE, c::SIGTRAP, KICK_SIGNAL];

/// Signals nobody can block.
const UNBLOCKABLE: u64 = set_of(c::SIGKILL) | set_of(c::SIGSTOP);

/// `siginfo_t` as bytes.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SigInfo(pub [u8; 128]);

impl SigInfo {
    /// All zero.
    pub const EMPTY: SigInfo = SigInfo([0; 128]);

    /// For a fault the engine raises itself.
    pub fn fault(signal: u32, code: i32, address: u64) -> SigInfo {
        let mut info = SigInfo::EMPTY;
        info.0[0..4].copy_from_slice(&(signal as i32).to_le_bytes());
        info.0[8..12].copy_from_slice(&code.to_le_bytes());
        info.0[16..24].copy_from_slice(&address.to_le_bytes());
        info
    }

    /// `si_code`
    pub fn code(&self) -> i32 {
        i32::from_le_bytes([self.0[8], self.0[9], self.0[10], self.0[11]])
    }

    /// `si_pid` of what a process has caused.
    pub fn pid(&self) -> i32 {
        i32::from_le_bytes([self.0[16], self.0[17], self.0[18], self.0[19]])
    }

    /// Sets `si_pid`.
    pub fn set_pid(&mut self, pid: i32) {
        self.0[16..20].copy_from_slice(&pid.to_le_bytes());
    }

    /// `si_status` of what a child has done.
    pub fn status(&self) -> u32 {
        u32::from_le_bytes([self.0[24], self.0[25], self.0[26], self.0[27]])
    }

    /// Sets `si_status`.
    pub fn set_status(&mut self, status: u32) {
        self.0[24..28].copy_from_slice(&status.to_le_bytes());
    }

    /// Whether it is the engine's own kick.
    pub fn is_kick(&self) -> bool {
        kick::is_kick(&self.0)
    }

    /// `si_addr` of faults.
    pub fn address(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[16..24]);
        u64::from_le_bytes(bytes)
    }

    /// Sets `si_addr`.
    pub fn set_address(&mut self, address: u64) {
        self.0[16..24].copy_from_slice(&address.to_le_bytes());
    }
}

/// A signal on its way to the guest.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Number; 0 for none.
    pub signal: u32,
    /// What the kernel said about it.
    pub info: SigInfo,
    /// Page-fault error code and trap number for the guest's ucontext.
    pub error: u64,
    /// Trap number.
    pub trap: u64,
    /// Faulting address register.
    pub cr2: u64,
    /// A fault that the engine reports in the processor's stead.
    pub synthesized: bool,
}

impl Arrived {
    /// None.
    pub const NONE: Arrived =
        Arrived { signal: 0, info: SigInfo::EMPTY, error: 0, trap: 0, cr2: 0, synthesized: false };
}

/// A fault that the engine reports in the processor's stead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The signal it becomes.
    pub signal: u32,
    /// `si_code`
    pub code: i32,
    /// `si_addr`
    pub address: u64,
    /// The processor's error code.
    pub error: u64,
    /// The processor's trap number.
    pub trap: u64,
}

impl Fault {
    const PAGE_FAULT: u64 = 14;

    /// An access to memory; `error` has the bits for write and fetch.
    pub fn page(address: u64, mapping: Option<&Mapping>, error: u64) -> Fault {
        let code = if mapping.is_some() { c::SEGV_ACCERR } else { c::SEGV_MAPERR } as i32;
        // Without any right there is no page to speak of.
        let present = mapping.is_some_and(|m| m.prot != 0) as u64;
        let error = error | Self::USER | present;
        Fault { signal: c::SIGSEGV, code, address, error, trap: Self::PAGE_FAULT }
    }

    /// Error bit: in user mode.
    const USER: u64 = 4;
    /// Error bit: a write.
    pub const WRITE: u64 = 2;
    /// Error bit: an instruction fetch.
    pub const FETCH: u64 = 16;

    /// A page that lies beyond the end of its file.
    pub fn beyond_file(address: u64) -> Fault {
        let code = c::BUS_ADRERR as i32;
        Fault { signal: c::SIGBUS, code, address, error: Self::USER, trap: Self::PAGE_FAULT }
    }

    /// General protection.
    pub fn protection(error: u64) -> Fault {
        Fault { signal: c::SIGSEGV, code: SI_KERNEL, address: 0, error, trap: 13 }
    }

    /// A segment that is not there, or is no stack.
    pub fn segment(trap: u64, error: u64) -> Fault {
        Fault { signal: c::SIGBUS, code: SI_KERNEL, address: 0, error, trap }
    }

    /// A stack address that cannot be.
    pub fn stack() -> Fault {
        Fault { signal: c::SIGBUS, code: SI_KERNEL, address: 0, error: 0, trap: 12 }
    }

    /// An address that is not aligned, under the alignment check.
    pub fn alignment() -> Fault {
        Fault { signal: c::SIGBUS, code: c::BUS_ADRALN as i32, address: 0, error: 0, trap: 17 }
    }

    /// Not an instruction.
    pub fn undefined(pc: u64) -> Fault {
        Fault { signal: c::SIGILL, code: c::ILL_ILLOPN as i32, address: pc, error: 0, trap: 6 }
    }

    /// The trap after an instruction under the trap flag.
    pub fn step(pc: u64) -> Fault {
        Fault { signal: c::SIGTRAP, code: c::TRAP_TRACE as i32, address: pc, error: 0, trap: 1 }
    }
}

impl From<Fault> for Arrived {
    fn from(fault: Fault) -> Arrived {
        Arrived {
            signal: fault.signal,
            info: SigInfo::fault(fault.signal, fault.code, fault.address),
            error: fault.error,
            trap: fault.trap,
            cr2: if fault.trap == Fault::PAGE_FAULT { fault.address } else { 0 },
            // A trap comes after its instruction: nothing is to be resumed.
            synthesized: fault.signal != c::SIGTRAP,
        }
    }
}

/// `stack_t`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the kernel's names")]
pub struct AlternateStack {
    pub sp: u64,
    pub flags: i32,
    pub padding: i32,
    pub size: u64,
}

impl AlternateStack {
    /// None set.
    pub const DISABLED: AlternateStack =
        AlternateStack { sp: 0, flags: c::SS_DISABLE as i32, padding: 0, size: 0 };

    /// Whether a stack pointer lies on it.
    pub fn contains(&self, sp: u64) -> bool {
        self.size != 0 && sp > self.sp && sp - self.sp <= self.size
    }
}

/// The dispositions, shared by the threads of a process.
pub struct Handlers(pub Lock<[SigAction; SIGNALS]>);

/// Signal state of a thread.
#[repr(C)]
pub struct ThreadSignals {
    /// Signals the guest has blocked.
    pub mask: u64,
    /// Mask that a call such as `sigsuspend` put in place while it waited: a handler runs under it.
    pub temporary_mask: Option<u64>,
    /// The asynchronous signal that waits for delivery.
    pub pending: Arrived,
    /// Owned signals that came while blocked or while another was pending.
    held: [Arrived; OWNED_LIST.len()],
    /// The synchronous fault being handled.
    pub fault: Arrived,
    /// Cache address of the fault.
    pub fault_cache_pc: u64,
    /// The guest's alternate stack.
    pub alternate: AlternateStack,
    /// How many signals have arrived: tells whether the handler has been here while a context was copied.
    pub arrivals: u32,
    /// How often in a row a store to a page that nobody protects any more has been tried again.
    pub retries: u32,
    /// Whether the kernel keeps AMX's tiles for this thread: from its first use of one.
    pub has_tiles: bool,
}

impl ThreadSignals {
    /// A thread with nothing pending.
    pub const fn new(mask: u64) -> ThreadSignals {
        ThreadSignals {
            mask,
            temporary_mask: None,
            pending: Arrived::NONE,
            held: [Arrived::NONE; OWNED_LIST.len()],
            fault: Arrived::NONE,
            fault_cache_pc: 0,
            alternate: AlternateStack::DISABLED,
            arrivals: 0,
            retries: 0,
            has_tiles: false,
        }
    }

    /// Owned signals that wait although they came, as a set.
    pub fn held_set(&self) -> u64 {
        self.held.iter().filter(|a| a.signal != 0).fold(0, |set, a| set | set_of(a.signal))
    }

    fn hold(&mut self, arrived: Arrived) {
        let place = OWNED_LIST.iter().position(|&s| s == arrived.signal).unwrap_or(0);
        self.held[place] = arrived;
    }

    /// Takes a held signal that the mask lets through.
    fn take_held(&mut self, mask: u64) -> Option<Arrived> {
        let found = self.held.iter_mut().find(|a| a.signal != 0 && mask & set_of(a.signal) == 0)?;
        Some(core::mem::replace(found, Arrived::NONE))
    }
}

/// What the guest believes about its signals, as sets.
pub struct Visible {
    /// Blocked by the calling thread.
    pub blocked: u64,
    /// Ignored.
    pub ignored: u64,
    /// With a handler.
    pub caught: u64,
}

/// What the calling thread's guest believes about its signals.
pub fn visible() -> Visible {
    let context = handler::current_context();
    let actions = *context.thread.handlers.0.lock();
    let set = |wanted: fn(u64) -> bool| {
        let chosen = (1..SIGNALS).filter(|&signal| wanted(actions[signal].handler));
        chosen.fold(0, |set, signal| set | set_of(signal as u32))
    };
    Visible {
        blocked: context.signals.mask,
        ignored: set(|handler| handler == SIG_IGN),
        caught: set(|handler| handler > SIG_IGN),
    }
}

/// The real mask for a guest mask.
fn real_mask(mask: u64) -> u64 {
    mask & !OWNED
}

/// Changes the guest's mask, for real and in the context.
pub fn set_mask(context: &mut Context, mask: u64) {
    context.signals.mask = mask & !UNBLOCKABLE;
    compiler_fence(Ordering::SeqCst);
    release_held(context, context.signals.mask);
    // While a signal waits for delivery the real mask stays full; delivery sets it.
    if context.pending.load(Ordering::Relaxed) & PENDING_SIGNAL == 0 {
        sys::set_signal_mask(real_mask(context.signals.mask));
    }
}

/// A signal waits for delivery.
pub struct Waiting;

/// Blocks every asynchronous signal, for a step that must not be interrupted, until [`set_mask`] is called;
/// fails if one has come already and must be delivered first. Faults stay open: guest memory may be read.
pub fn block_all(context: &mut Context) -> Result<(), Waiting> {
    sys::set_signal_mask(!OWNED | set_of(KICK_SIGNAL));
    if context.pending.load(Ordering::Relaxed) & PENDING_SIGNAL == 0 {
        return Ok(());
    }
    sys::set_signal_mask(!OWNED);
    Err(Waiting)
}

/// Makes a held signal pending if a mask lets it through; says whether one was.
pub fn release_held(context: &mut Context, mask: u64) -> bool {
    if context.signals.held_set() & !mask == 0 {
        return false;
    }
    // The handler puts signals into the same place: keep it out.
    sys::set_signal_mask(!0);
    let released = context.signals.pending.signal == 0;
    if released && let Some(arrived) = context.signals.take_held(mask) {
        context.signals.pending = arrived;
        context.pending.fetch_or(PENDING_SIGNAL, Ordering::Relaxed);
    }
    sys::set_signal_mask(!OWNED);
    released
}

/// Ignoring a signal also drops it where it is pending.
pub fn discard(context: &mut Context, signal: u32) {
    for held in &mut context.signals.held {
        if held.signal == signal {
            *held = Arrived::NONE;
        }
    }
}

/// The kernel's view of an action that the guest wants.
fn real_action(signal: u32, action: &SigAction) -> SigAction {
    let owned = OWNED & set_of(signal) != 0;
    if !owned && action.handler <= SIG_IGN {
        return SigAction {
            handler: action.handler,
            flags: action.flags & (c::SA_NOCLDSTOP | c::SA_NOCLDWAIT) as u64
                | c::SA_RESTORER as u64,
            restorer: entry::target::signal_restorer(),
            mask: 0,
        };
    }
    let kept = (c::SA_RESTART | c::SA_NOCLDSTOP | c::SA_NOCLDWAIT) as u64;
    SigAction {
        handler: retro_signal_handler as *const () as u64,
        flags: action.flags & kept | (c::SA_SIGINFO | c::SA_ONSTACK | c::SA_RESTORER) as u64,
        restorer: entry::target::signal_restorer(),
        // The handler records one signal and must not be interrupted by another.
        mask: !0,
    }
}

/// Installs a disposition with the kernel.
pub fn install(signal: u32, action: &SigAction) -> sys::Result<()> {
    // SAFETY: the handler is the engine's, default or ignore.
    unsafe { sys::sigaction(signal, Some(&real_action(signal, action))) }.map(drop)
}

/// Reads the inherited dispositions and takes over the owned signals.
pub fn initial_handlers() -> Handlers {
    let mut actions = [SigAction::default(); SIGNALS];
    for signal in 1..SIGNALS as u32 {
        // SAFETY: only reads.
        if let Ok(old) = unsafe { sys::sigaction(signal, None) }
            && old.handler == SIG_IGN
        {
            actions[signal as usize].handler = SIG_IGN;
        }
        if OWNED & set_of(signal) != 0 {
            let _ = install(signal, &actions[signal as usize]);
        }
    }
    Handlers(Lock::new(actions))
}

/// After `CLONE_CLEAR_SIGHAND`: the kernel has reset all handlers, the engine's too.
pub fn clear_handlers(handlers: &Handlers) {
    let mut actions = handlers.0.lock();
    for signal in 1..SIGNALS as u32 {
        let action = &mut actions[signal as usize];
        if action.handler != SIG_IGN {
            *action = SigAction::default();
        }
        if OWNED & set_of(signal) != 0 {
            let _ = install(signal, action);
        }
    }
}

/// Before `execve`: what the guest ignores must be ignored for real, for the next program to inherit.
pub fn expose_ignored(handlers: &Handlers, expose: bool) {
    let actions = handlers.0.lock();
    for signal in OWNED_LIST {
        let action = &actions[signal as usize];
        if action.handler == SIG_IGN {
            let ignore = SigAction { handler: SIG_IGN, ..SigAction::default() };
            let real = if expose { ignore } else { real_action(signal, action) };
            // SAFETY: ignore, or the engine's handler.
            let _ = unsafe { sys::sigaction(signal, Some(&real)) };
        }
    }
}

/// Delivers the pending asynchronous signal.
pub fn deliver_pending(context: &mut Context) {
    // In this order: an owned signal that comes in between must find the place taken.
    let arrived = core::mem::replace(&mut context.signals.pending, Arrived::NONE);
    compiler_fence(Ordering::SeqCst);
    context.pending.fetch_and(!PENDING_SIGNAL, Ordering::SeqCst);
    if arrived.signal == 0 {
        return;
    }
    if context.traced.on == 0 {
        return act(context, &arrived);
    }
    match tracee::signal_stop(context, &arrived) {
        Some(arrived) => act(context, &arrived),
        None => set_mask_after_delivery(context),
    }
}

/// Does what an asynchronous signal demands.
pub fn act(context: &mut Context, arrived: &Arrived) {
    let disposition = handlers(context).0.lock()[arrived.signal as usize].handler;
    match disposition {
        SIG_IGN => set_mask_after_delivery(context),
        SIG_DFL if is_init() => set_mask_after_delivery(context),
        // Without a tracer the kernel takes care of signals that do not end the process.
        SIG_DFL if tracee::survives_default(context, arrived.signal) => {
            set_mask_after_delivery(context)
        }
        SIG_DFL => {
            record::signal(context, arrived, false, 0);
            die(context, arrived.signal)
        }
        _ => deliver(context, arrived, false),
    }
}

/// Delivers a synchronous fault: it cannot be ignored or blocked. False if a tracer wants nothing of it.
pub fn deliver_fault(context: &mut Context, arrived: &Arrived) -> bool {
    let mut arrived = *arrived;
    if context.traced.on != 0 {
        let signal = arrived.signal;
        match tracee::signal_stop(context, &arrived) {
            None => return false,
            Some(other) if other.signal != signal => {
                act(context, &other);
                return true;
            }
            Some(same) => arrived = same,
        }
    }
    if fault_would_end(context, arrived.signal) {
        record::signal(context, &arrived, true, 0);
        die(context, arrived.signal);
    }
    deliver(context, &arrived, true);
    true
}

/// Whether a signal that cannot wait, nor be ignored, ends the process.
pub fn fault_would_end(context: &Context, signal: u32) -> bool {
    let disposition = handlers(context).0.lock()[signal as usize].handler;
    disposition <= SIG_IGN || context.signals.mask & set_of(signal) != 0
}

fn handlers(context: &Context) -> &Handlers {
    &context.thread.handlers
}

/// Whether this is the first process of its namespace: signals that it does not handle are lost on it, faults excepted.
fn is_init() -> bool {
    sys::getpid() == 1
}

fn set_mask_after_delivery(context: &mut Context) {
    context.signals.temporary_mask = None;
    let mask = context.signals.mask;
    set_mask(context, mask);
}

/// Whether a signal to this thread ends the process at once, by default.
pub fn would_end(context: &Context, signal: u32) -> bool {
    const HARMLESS: [u32; 8] = [
        c::SIGCHLD,
        c::SIGCONT,
        c::SIGURG,
        c::SIGWINCH,
        c::SIGSTOP,
        c::SIGTSTP,
        c::SIGTTIN,
        c::SIGTTOU,
    ];
    if !(1..SIGNALS as u32).contains(&signal) || HARMLESS.contains(&signal) {
        return false;
    }
    let is_default = handlers(context).0.lock()[signal as usize].handler == SIG_DFL;
    let is_blocked = context.signals.mask & set_of(signal) != 0;
    signal == c::SIGKILL || is_default && !is_blocked
}

/// Starts the guest's handler.
fn deliver(context: &mut Context, arrived: &Arrived, synchronous: bool) {
    let signal = arrived.signal;
    let action = {
        let mut actions = handlers(context).0.lock();
        let action = actions[signal as usize];
        if action.flags & c::SA_RESETHAND as u64 != 0 {
            actions[signal as usize].handler = SIG_DFL;
            let _ = install(signal, &actions[signal as usize]);
        }
        action
    };
    // Another thread may have changed the disposition since it was looked at.
    match action.handler {
        SIG_IGN if !synchronous => return set_mask_after_delivery(context),
        SIG_DFL if !synchronous && is_init() => return set_mask_after_delivery(context),
        SIG_IGN | SIG_DFL => {
            record::signal(context, arrived, synchronous, 0);
            die(context, signal);
        }
        _ => {}
    }
    crate::dispatch::on_signal(context, signal);
    if context.traced.orig_rax != u64::MAX {
        tracee::before_handler(context, &action);
    }
    let mut arrived = *arrived;
    if signal == c::SIGSYS && arrived.info.code() == c::SYS_SECCOMP as i32 {
        // The address of the call: the guest's, not the engine's.
        arrived.info.set_address(context.registers.rip);
    }
    if signal == c::SIGCHLD && arrived.info.code() == c::CLD_TRAPPED as i32 {
        crate::ptrace::correct_notice(&mut arrived.info);
    }
    record::signal(context, &arrived, synchronous, action.handler);
    let before = context.registers;
    let pushed = frame::push(context, &arrived, &action);
    record::registers_changed(&before, &context.registers);
    if pushed.is_err() {
        // No room for the frame: what the kernel does is a SIGSEGV, and if that has no room either,
        // death.
        if signal == c::SIGSEGV {
            die(context, c::SIGSEGV);
        }
        deliver_fault(context, &Fault::protection(0).into());
        return;
    }
    let base = context.signals.temporary_mask.take().unwrap_or(context.signals.mask);
    let own = if action.flags & c::SA_NODEFER as u64 != 0 { 0 } else { set_of(signal) };
    set_mask(context, base | action.mask | own);
    tracee::after_handler(context);
}

/// Ends the process as the signal would have ended the guest.
pub fn die(context: &mut Context, signal: u32) -> ! {
    crate::dispatch::flush_stats(context);
    if !context.thread.borrows_memory {
        record::process::killed(signal);
    }
    tracee::dies_of(context, signal);
    let default = SigAction { handler: SIG_DFL, ..SigAction::default() };
    // SAFETY: default disposition.
    let _ = unsafe { sys::sigaction(signal, Some(&default)) };
    sys::tgkill(sys::getpid(), sys::gettid(), signal);
    sys::set_signal_mask(!set_of(signal));
    // The first process of a namespace survives what anybody sends, but not a fault.
    // SAFETY: this thread is to end.
    unsafe { entry::fault_with(signal) };
    sys::exit_group(128 + signal as i32)
}

/// The guest's `rsp` for a new signal frame.
fn frame_stack(context: &Context, action: &SigAction) -> u64 {
    let sp = context.registers.get(Gpr::Rsp);
    let alternate = &context.signals.alternate;
    if action.flags & c::SA_ONSTACK as u64 != 0 && alternate.size != 0 && !alternate.contains(sp) {
        return alternate.sp + alternate.size;
    }
    // The red zone stays the interrupted function's.
    sp.wrapping_sub(128)
}
