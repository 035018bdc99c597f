//! The side of the traced thread: announces its stops, and does what the tracer wants.

use super::examine::RESTARTS;
use super::{STARTS_TRACED, Traced, changed, event, memory, started, wants};
use crate::context::{Context, Gpr, Registers};
use crate::dispatch;
use crate::entry;
use crate::record;
use crate::signals::{self, Arrived, PENDING_STOP, SigInfo, set_of};
use crate::sys::{self, Errno, SigAction};
use crate::vectors;
use core::sync::atomic::Ordering;
use linux_raw_sys::general as c;
use linux_raw_sys::ptrace as p;

/// Length of the `syscall` instruction.
const SYSCALL_LEN: u64 = 2;

/// What a stop at a system call shows of it, beside `SIGTRAP`.
const SYSCALL_STOP: u32 = 0x80;

/// rax while a system call has no outcome yet.
const NO_OUTCOME: u64 = -(linux_raw_sys::errno::ENOSYS as i64) as u64;

/// What the kernel says of the two stops at a system call.
const MESSAGE_ENTRY: u64 = 1;
const MESSAGE_EXIT: u64 = 2;

/// A stop.
struct Stop {
    /// Signal and event as a wait shows them, shifted down by eight.
    status: u32,
    /// About its signal.
    info: SigInfo,
    /// Which stop at a system call it is.
    operation: u32,
    /// The signal to go on with if nobody says anything else.
    inject: u32,
}

impl Stop {
    /// One that the kernel itself gives notice of: its code is its status.
    fn notice(status: u32, operation: u32) -> Stop {
        let mut info = SigInfo::fault(status & 0x7f, status as i32, 0);
        info.0[16..20].copy_from_slice(&sys::gettid().to_le_bytes());
        info.0[20..24].copy_from_slice(&sys::getuid().to_le_bytes());
        Stop { status, info, operation, inject: 0 }
    }

    fn event(event: u32) -> Stop {
        Stop::notice(c::SIGTRAP | event << 8, p::PTRACE_SYSCALL_INFO_NONE)
    }
}

/// Announces a stop and returns when the tracer lets the thread go on; what it wants is in the context then. The tracer
/// sees the registers `shown`; as long as it does not change them the context keeps its own.
fn announce(context: &mut Context, stop: &Stop, shown: &Registers) {
    let traced = &mut context.traced;
    traced.stop = stop.status;
    traced.info = stop.info;
    traced.operation = stop.operation;
    traced.inject = stop.inject;
    traced.changed = 0;
    traced.wants = 0;
    traced.stops = traced.stops.wrapping_add(1);
    vectors::settle_pointers();
    // A replay has these, and whoever runs meanwhile compares with them.
    let logged = core::mem::replace(&mut context.registers, *shown);
    let after = if record::watching() && record::schedule::shared() {
        let home = record::schedule::release(context);
        // SAFETY: the calling thread's own home, which is its context until it has the baton again.
        let at_home = unsafe { &mut *(home as *mut Context) };
        entry::announce(at_home);
        let after = core::mem::replace(&mut at_home.registers, logged);
        record::schedule::acquire(home);
        after
    } else {
        entry::announce(context);
        core::mem::replace(&mut context.registers, logged)
    };
    context.traced.stop = 0;
    let changed = core::mem::take(&mut context.traced.changed);
    memory::apply_changes();
    if changed & changed::REGISTERS != 0 {
        context.guest_fs_base = sys::fs_base();
        if after != *shown {
            context.registers = after;
        }
        record::executed(context);
    }
    if changed & changed::VECTORS != 0 {
        record::vectors_changed();
    }
    if changed & changed::MASK != 0 {
        signals::set_mask(context, context.signals.mask);
    }
    if changed & changed::BREAKPOINTS != 0 {
        let mut engine = dispatch::engine();
        for &address in context.traced.breakpoints.iter().filter(|&&address| address != 0) {
            engine.cache.add_breakpoint(address);
        }
    }
    if context.traced.wants & wants::STEP != 0 && record::watching() {
        // Every boundary is a place to look at all flags now.
        dispatch::translate_precisely(context);
    }
}

/// Whether the tracer wants a stop after every instruction.
pub fn steps(context: &Context) -> bool {
    context.traced.wants & (wants::STEP | wants::BLOCK) == wants::STEP
}

/// Stops if the tracer wants to at the instruction that comes next, unless it has done so.
pub fn stops_at_breakpoint(context: &mut Context) -> bool {
    let pc = context.registers.rip;
    let passed = core::mem::take(&mut context.traced.passed);
    let Some(number) = context.traced.breakpoints.iter().position(|&at| at == pc && at != 0) else {
        return false;
    };
    if passed == pc {
        return false;
    }
    context.traced.debug_status = 1 << number;
    context.traced.passed = pc;
    let info = SigInfo::fault(c::SIGTRAP, c::TRAP_HWBKPT as i32, pc);
    stop_and_act(context, &Arrived { signal: c::SIGTRAP, info, ..Arrived::NONE });
    context.traced.debug_status = 0;
    true
}

/// Announces a stop with the registers as they are.
fn announce_here(context: &mut Context, stop: &Stop) {
    let shown = context.registers;
    announce(context, stop, &shown);
}

// ---- signals ----

/// Stops for a signal; what is to be delivered instead of it, if anything.
pub fn signal_stop(context: &mut Context, arrived: &Arrived) -> Option<Arrived> {
    let signal = arrived.signal;
    let stop = Stop {
        status: signal,
        info: arrived.info,
        operation: p::PTRACE_SYSCALL_INFO_NONE,
        inject: signal,
    };
    announce_here(context, &stop);
    let injected = core::mem::take(&mut context.traced.inject);
    if injected == 0 || injected as usize >= signals::SIGNALS {
        return None;
    }
    if injected == signal {
        return Some(Arrived { info: context.traced.info, ..*arrived });
    }
    // Another one: sent by the tracer, as far as anybody can tell.
    let mut info = SigInfo::EMPTY;
    info.0[0..4].copy_from_slice(&injected.to_le_bytes());
    info.0[16..20].copy_from_slice(&sys::tracer().to_le_bytes());
    info.0[20..24].copy_from_slice(&sys::getuid().to_le_bytes());
    Some(Arrived { signal: injected, info, ..Arrived::NONE })
}

/// Takes the default action of a signal that the tracer has let through, unless that ends the process: then false.
pub fn survives_default(context: &mut Context, signal: u32) -> bool {
    match signal {
        c::SIGCHLD | c::SIGCONT | c::SIGURG | c::SIGWINCH => true,
        c::SIGSTOP | c::SIGTSTP | c::SIGTTIN | c::SIGTTOU => {
            stop_group(context, signal);
            true
        }
        _ => false,
    }
}

/// Stops the whole process, for real.
fn stop_group(context: &mut Context, signal: u32) {
    context.traced.acting = signal;
    let raise = || {
        let mask = sys::set_signal_mask(!signals::OWNED & !set_of(signal));
        sys::tgkill(sys::getpid(), sys::gettid(), signal);
        sys::set_signal_mask(mask);
    };
    if record::watching() && record::schedule::shared() {
        let home = record::schedule::release(context);
        raise();
        record::schedule::acquire(home);
    } else {
        raise();
    }
    context.traced.acting = 0;
}

/// The thread is about to die of a signal that the tracer has let through.
pub fn dies_of(context: &mut Context, signal: u32) {
    context.traced.acting = signal;
}

/// A handler is about to be started: what becomes of a system call that the signal has interrupted.
pub fn before_handler(context: &mut Context, action: &SigAction) {
    if let Some(code) = interrupted(context) {
        let [restart, always, ..] = RESTARTS;
        let handler_allows = action.flags & c::SA_RESTART as u64 != 0;
        if code == always || code == restart && handler_allows {
            make_again(context, context.traced.orig_rax);
        } else {
            context.registers.set(Gpr::Rax, Errno::EINTR.as_return());
        }
        record::executed(context);
    }
    context.traced.orig_rax = u64::MAX;
}

/// A handler was started: a tracer that steps stops at its first instruction.
pub fn after_handler(context: &mut Context) {
    if context.traced.on != 0 && context.traced.wants & wants::STEP != 0 {
        announce_here(context, &Stop::notice(c::SIGTRAP, p::PTRACE_SYSCALL_INFO_NONE));
    }
}

// ---- system calls ----

/// The thread goes back to its guest: a system call that was interrupted, and by no handler, is made again.
pub fn leave_syscall(context: &mut Context) {
    if let Some(code) = interrupted(context) {
        let [.., with_rest] = RESTARTS;
        let number = context.traced.orig_rax;
        let again = if code == with_rest { c::__NR_restart_syscall as u64 } else { number };
        make_again(context, again);
        record::executed(context);
    }
    context.traced.orig_rax = u64::MAX;
}

fn interrupted(context: &Context) -> Option<i64> {
    let code = context.registers.get(Gpr::Rax) as i64;
    (context.traced.orig_rax != u64::MAX && RESTARTS.contains(&code)).then_some(code)
}

fn make_again(context: &mut Context, number: u64) {
    context.registers.set(Gpr::Rax, number);
    context.registers.rip = context.registers.rip.wrapping_sub(SYSCALL_LEN);
}

/// The status of a stop at a system call.
fn syscall_status(traced: &Traced) -> u32 {
    let good = traced.options & p::PTRACE_O_TRACESYSGOOD != 0;
    c::SIGTRAP | if good { SYSCALL_STOP } else { 0 }
}

/// A system call as the tracer wants it.
pub enum Wanted {
    /// To be made like this.
    Call(u64, [u64; 6]),
    /// Not to be made; this is its outcome.
    Outcome(u64),
}

/// Before a system call.
pub fn enter_syscall(context: &mut Context, number: u64) -> Wanted {
    let wanted = context.traced.wants;
    context.traced.orig_rax = number;
    let mut outcome = NO_OUTCOME;
    if wanted & (wants::SYSCALLS | wants::EMULATION) != 0 {
        context.traced.message = MESSAGE_ENTRY;
        let stop = Stop::notice(syscall_status(&context.traced), p::PTRACE_SYSCALL_INFO_ENTRY);
        outcome = stop_before_call(context, &stop);
    }
    wanted_call(context, outcome, wanted & wants::EMULATION != 0)
}

/// A filter lets the tracer decide about a system call; `None` if nobody wants to be asked.
pub fn ask_about_syscall(context: &mut Context, data: u32) -> Option<Wanted> {
    let traced = &mut context.traced;
    if traced.on == 0 || traced.options & p::PTRACE_O_TRACESECCOMP == 0 {
        return None;
    }
    traced.message = data as u64;
    traced.filter_data = data;
    let mut stop = Stop::event(event::SECCOMP);
    stop.operation = p::PTRACE_SYSCALL_INFO_SECCOMP;
    let outcome = stop_before_call(context, &stop);
    Some(wanted_call(context, outcome, false))
}

fn wanted_call(context: &Context, outcome: u64, emulated: bool) -> Wanted {
    let number = context.traced.orig_rax;
    if emulated || number as i64 == -1 {
        return Wanted::Outcome(outcome);
    }
    Wanted::Call(number, record::syscall_arguments(&context.registers))
}

/// Stops before a system call, with rax as the kernel leaves it; what the tracer has made of it.
fn stop_before_call(context: &mut Context, stop: &Stop) -> u64 {
    let mut shown = context.registers;
    shown.set(Gpr::Rax, NO_OUTCOME);
    let before = context.registers;
    announce(context, stop, &shown);
    inject_late(context);
    if context.registers == before { NO_OUTCOME } else { context.registers.get(Gpr::Rax) }
}

/// After a system call: the event that it caused, and the stop at its end.
pub fn exit_syscall(context: &mut Context) {
    let deferred = core::mem::take(&mut context.traced.deferred);
    if deferred != 0 {
        let mut shown = context.registers;
        shown.set(Gpr::Rax, NO_OUTCOME);
        let stop = Stop::notice(deferred, p::PTRACE_SYSCALL_INFO_NONE);
        announce(context, &stop, &shown);
    }
    if context.traced.on == 0 {
        return;
    }
    match context.traced.wants & (wants::STEP | wants::EMULATION | wants::SYSCALLS) {
        // The end of a call counts as a step.
        wants::STEP => {
            let info = SigInfo::fault(c::SIGTRAP, c::TRAP_BRKPT as i32, context.registers.rip);
            stop_and_act(context, &Arrived { signal: c::SIGTRAP, info, ..Arrived::NONE });
        }
        wants::SYSCALLS => stop_after_call(context),
        _ => {}
    }
}

fn stop_after_call(context: &mut Context) {
    context.traced.message = MESSAGE_EXIT;
    let stop = Stop::notice(syscall_status(&context.traced), p::PTRACE_SYSCALL_INFO_EXIT);
    announce_here(context, &stop);
    inject_late(context);
}

/// A signal that the tracer gives at a stop for a system call is sent, and stops the thread again.
fn inject_late(context: &mut Context) {
    let signal = core::mem::take(&mut context.traced.inject);
    if signal != 0 {
        sys::tgkill(sys::getpid(), sys::gettid(), signal);
    }
}

// ---- stops that somebody has asked for ----

/// Announces what the tracer's engine has asked for, or what an `execve` brings.
pub fn stop_as_asked(context: &mut Context) {
    context.pending.fetch_and(!PENDING_STOP, Ordering::Relaxed);
    if context.traced.on == 0 {
        return;
    }
    let started = core::mem::take(&mut context.traced.started);
    if started & started::EVENT != 0 {
        announce_here(context, &Stop::event(event::EXEC));
    } else if started & started::EXIT != 0 {
        context.traced.wants = STARTS_TRACED.wants.load(Ordering::Relaxed);
    }
    let exits = started & started::EXIT != 0 && context.traced.wants & wants::SYSCALLS != 0;
    if context.traced.on != 0 && exits {
        stop_after_call(context);
    }
    if started & started::TRAP != 0 {
        stop_for(context, c::SIGTRAP);
    }
    if started & started::SIGSTOP != 0 {
        stop_for(context, c::SIGSTOP);
    }
    let asked = core::mem::take(&mut context.traced.asked);
    if asked == 0 || context.traced.on == 0 {
        return;
    }
    let info = context.traced.asked_info;
    if asked >> 8 == 0 && info != SigInfo::EMPTY {
        return stop_and_act(context, &Arrived { signal: asked, info, ..Arrived::NONE });
    }
    let operation = p::PTRACE_SYSCALL_INFO_NONE;
    announce_here(context, &Stop { status: asked, info, operation, inject: 0 });
}

/// Stops for a signal that the kernel has sent by itself.
fn stop_for(context: &mut Context, signal: u32) {
    if context.traced.on != 0 {
        let mut info = SigInfo::fault(signal, 0, 0);
        info.0[16..20].copy_from_slice(&sys::gettid().to_le_bytes());
        stop_and_act(context, &Arrived { signal, info, ..Arrived::NONE });
    }
}

fn stop_and_act(context: &mut Context, arrived: &Arrived) {
    if let Some(arrived) = signal_stop(context, arrived) {
        signals::act(context, &arrived);
    }
}

/// A program starts: what its engine was told by the tracer's.
pub fn starts(context: &mut Context) {
    let told = &STARTS_TRACED;
    let load = |word: &core::sync::atomic::AtomicU32| word.load(Ordering::Relaxed);
    if load(&told.on) == 0 && load(&told.started) == 0 {
        return;
    }
    context.traced = Traced {
        on: 1,
        wants: load(&told.wants),
        options: load(&told.options),
        seized: load(&told.seized),
        started: load(&told.started),
        message: told.message.load(Ordering::Relaxed),
        ..Traced::NONE
    };
    if context.traced.started & (started::EVENT | started::TRAP | started::EXIT) != 0 {
        context.traced.orig_rax = c::__NR_execve as u64;
    }
    if context.traced.started != 0 {
        context.pending.fetch_or(PENDING_STOP, Ordering::Relaxed);
    }
}

/// Before a process is copied: the copy is traced only if the kernel attaches it, and its tracer's engine says so.
pub fn before_fork(context: &mut Context) -> Traced {
    core::mem::replace(&mut context.traced, Traced::NONE)
}

/// After it, in the original. What the tracer's engine has left there meanwhile counts.
pub fn after_fork(context: &mut Context, before: Traced) {
    let now = context.traced;
    context.traced = Traced {
        deferred: now.deferred,
        message: if now.deferred != 0 { now.message } else { before.message },
        asked: now.asked,
        asked_info: now.asked_info,
        ..before
    };
    if now.on != 0 {
        let Traced { on, options, seized, .. } = now;
        context.traced = Traced { on, options, seized, ..context.traced };
    }
}
