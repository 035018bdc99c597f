//! Guests that trace others: debuggers, `strace`, and their children.
//!
//! Problem: tracer and tracee are both guests, each in an engine of its own. The kernel would show the tracer what the
//! tracee's engine does: its code, its registers, its signals, its system calls. The tracer must see the tracee's guest
//! instead, and stop it only where a guest can stop: between two of its instructions.
//!
//! Strategy: the kernel keeps the relation. Tracer and tracee are attached for real, so that waiting, `SIGCHLD`, exits,
//! permissions and the death of either are its business. What it cannot know, the two engines do together:
//!
//! - The tracee *announces* stops ([`tracee`]). At a boundary it writes into its context what the tracer is to see and
//!   executes one `int3`, at an address that the tracer's engine knows. That stops it for real; resuming continues behind
//!   the `int3`, with the tracer's wishes in the context.
//! - The tracer's engine looks at every stop that the kernel reports, before the guest hears of it ([`examine`]). Announced
//!   stops are shown, with the status that the context holds. All others are *hidden*: the tracee is resumed at once. If
//!   there was a reason to stop (a signal, a group stop), it is first put into the tracee's context, just as the tracee's
//!   own signal handler would have done, and comes back as an announced stop.
//! - Requests ([`requests`]) are answered from the tracee's context: registers, masks, signals. Memory and vector
//!   state are the guest's own at the kernel, too, since the engine shares the guest's addresses and uses no vectors.
//!   Resuming is always a plain `PTRACE_CONT`; single steps and stops at system calls are what the tracee does itself.
//!
//! Both engines are the same image at the same address, so that each knows the other's layout: addresses of code, of
//! statics, and of the fields of a context, to which the tracee's GS points. A tracee that does not run in this engine is
//! left to the kernel alone.
//!
//! | kernel's stop | becomes |
//! | --- | --- |
//! | `int3` of an announcement | shown, as the context says |
//! | fault, trap or any other signal that the engine owns | hidden; its handler decides |
//! | another signal | hidden; announced at the next boundary |
//! | fork, with all locks held | hidden; announced after the call |
//! | thread, `vfork`, end of `vfork`, exit | shown as it is, with the registers of the context |
//! | exec, and its SIGTRAP | hidden; announced before the first instruction of the new program |
//! | group stop, stop by `PTRACE_INTERRUPT` | hidden and announced; shown where the tracee itself has stopped its group |
//! | filter that asks the tracer | hidden; the tracee has announced it |
//!
//! While recording, a thread gives the baton up for as long as it is stopped: a tracer that stops one thread after the
//! other waits for each of them. What a tracer changes (registers, memory, code) is logged when the tracee goes on.
//!
//! Invariants:
//! 1. A tracee waits for its tracer only in announcements and in stops that are shown.
//! 2. Whatever becomes of the tracer, the tracee goes on: an `int3` that nobody takes is a SIGTRAP, and ends the tracing.
//! 3. A tracer that waits for one tracee serves all of them, since they may wait for each other.

mod errands;
mod examine;
mod memory;
mod registers;
mod remote;
mod requests;
pub mod steps;
pub mod tracee;
mod tracees;
mod waits;

use crate::signals::SigInfo;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub use errands::run as run_errands;
pub use memory::{apply_changes, tell as memory_written, written_through};
pub use requests::ptrace;
pub use waits::{correct_notice, wait4, waitid};

/// What a tracer knows, held still.
pub struct Hold(
    #[allow(dead_code, reason = "held for its drop")] (tracees::Guarded, errands::Guarded),
);

/// Holds what a tracer knows still, across `fork`.
pub fn hold() -> Hold {
    Hold((tracees::hold(), errands::hold()))
}

/// In a forked child, which traces nobody.
pub fn forget_all() {
    tracees::forget_all();
    errands::forget_all();
}

/// A thread's side of being traced; part of its context, where the tracer's engine reads and writes it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Traced {
    /// Nonzero while a tracer wants to hear of stops.
    pub on: u32,
    /// What it wants beyond them: bits of [`wants`].
    pub wants: u32,
    /// Its options (`PTRACE_O_…`).
    pub options: u32,
    /// Whether it has seized the thread instead of attaching to it.
    pub seized: u32,
    /// The announced stop: signal and event as a wait shows them, shifted down by eight; 0 for none.
    pub stop: u32,
    /// A stop that the tracer's engine has asked for, in the same form.
    pub asked: u32,
    /// Stops after `execve` that are still to be announced: bits of [`started`].
    pub started: u32,
    /// An event that is announced after the system call that caused it.
    pub deferred: u32,
    /// The signal that the tracer lets the thread go on with.
    pub inject: u32,
    /// The signal whose default action the thread is about to take.
    pub acting: u32,
    /// What the tracer has changed: bits of [`changed`].
    pub changed: u32,
    /// What kind of stop at a system call this is (`PTRACE_SYSCALL_INFO_…`).
    pub operation: u32,
    /// How many stops have been announced.
    pub stops: u32,
    /// What a filter that asks the tracer has to say.
    pub filter_data: u32,
    /// What the kernel would have done with a system call that was interrupted, as it says it in rax; 0 if it was not.
    pub restart: i32,
    /// The system call that the thread is in or has just left; all ones for none.
    pub orig_rax: u64,
    /// Message of the last event.
    pub message: u64,
    /// Addresses at which the tracer wants to stop, as it has told the debug registers; 0 for none.
    pub breakpoints: [u64; 4],
    /// What the debug status says of this stop, as far as the tracee knows: the breakpoint that it stands at, or a step.
    pub debug_status: u64,
    /// The one that it goes on from.
    pub passed: u64,
    /// What is known of the signal that the thread stops for.
    pub info: SigInfo,
    /// What is known of the stop that was asked for.
    pub asked_info: SigInfo,
}

impl Traced {
    /// Of a thread that nobody traces.
    pub const NONE: Traced = Traced {
        on: 0,
        wants: 0,
        options: 0,
        seized: 0,
        stop: 0,
        asked: 0,
        started: 0,
        deferred: 0,
        inject: 0,
        acting: 0,
        changed: 0,
        operation: 0,
        stops: 0,
        filter_data: 0,
        restart: 0,
        orig_rax: u64::MAX,
        message: 0,
        breakpoints: [0; 4],
        debug_status: 0,
        passed: 0,
        info: SigInfo::EMPTY,
        asked_info: SigInfo::EMPTY,
    };
}

/// What the debug status says after a single step.
pub const DEBUG_STEP: u64 = 0x4000;

/// Bits of [`Traced::wants`].
pub mod wants {
    /// Stops at system calls.
    pub const SYSCALLS: u32 = 1;
    /// Only before them; they are not made.
    pub const EMULATION: u32 = 2;
    /// A stop after one instruction.
    pub const STEP: u32 = 4;
    /// A stop after the next branch that is taken.
    pub const BLOCK: u32 = 8;
}

/// Bits of [`Traced::started`].
pub mod started {
    /// `PTRACE_EVENT_EXEC`
    pub const EVENT: u32 = 1;
    /// The end of `execve`, if system calls are traced.
    pub const EXIT: u32 = 2;
    /// The SIGTRAP of tracers that do not ask for the event.
    pub const TRAP: u32 = 4;
    /// A SIGSTOP that came before there was anybody to take it.
    pub const SIGSTOP: u32 = 8;
}

/// Bits of [`Traced::changed`].
pub mod changed {
    /// Integer registers.
    pub const REGISTERS: u32 = 1;
    /// Vector state.
    pub const VECTORS: u32 = 2;
    /// The signal mask.
    pub const MASK: u32 = 4;
    /// Breakpoints.
    pub const BREAKPOINTS: u32 = 8;
}

/// `PTRACE_EVENT_…`, as they are in a status shifted down by eight.
pub mod event {
    #![allow(missing_docs, reason = "the kernel's names")]
    pub const FORK: u32 = 1;
    pub const VFORK: u32 = 2;
    pub const CLONE: u32 = 3;
    pub const EXEC: u32 = 4;
    pub const VFORK_DONE: u32 = 5;
    pub const EXIT: u32 = 6;
    pub const SECCOMP: u32 = 7;
    pub const STOP: u32 = 128;
}

/// How a program that is executed by a traced process starts: written by the tracer's engine into the new image.
#[repr(C)]
pub struct StartsTraced {
    on: AtomicU32,
    wants: AtomicU32,
    options: AtomicU32,
    seized: AtomicU32,
    started: AtomicU32,
    message: AtomicU64,
}

/// Of the program that starts here.
pub static STARTS_TRACED: StartsTraced = StartsTraced {
    on: AtomicU32::new(0),
    wants: AtomicU32::new(0),
    options: AtomicU32::new(0),
    seized: AtomicU32::new(0),
    started: AtomicU32::new(0),
    message: AtomicU64::new(0),
};

/// Entry point of the image: where a process stands after an `execve` of the engine.
static ENTRY_POINT: AtomicU64 = AtomicU64::new(0);

/// Remembers the entry point of the image, of which the kernel tells at the start.
pub fn set_entry_point(address: u64) {
    ENTRY_POINT.store(address, Ordering::Relaxed);
}

fn entry_point() -> u64 {
    ENTRY_POINT.load(Ordering::Relaxed)
}
