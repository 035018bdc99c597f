//! System calls of the guest.
//!
//! Most go to the kernel as they are. Handled here are those that touch what the engine owns: the address
//! space ([`memory`]), threads and programs ([`process`]), signals ([`signal`]), and names under /proc that
//! would show the engine instead of the guest ([`files`]), and who seems to be the guest's parent ([`supervision`]).

pub mod files;
pub mod limits;
pub mod memory;
pub mod process;
pub mod seccomp;
pub mod segments;
pub mod signal;
pub mod supervision;
pub mod user_dispatch;

use crate::context::{Context, Gpr};
use crate::dispatch::{engine, fixed, unprotect_all_code};
use crate::entry::{self, RESTART};
use crate::ptrace;
use crate::ptrace::tracee::{self, Wanted};
use crate::record;
use crate::signals::{self, Arrived};
use crate::sys::{self, Errno};
use linux_raw_sys::general as c;

/// Length of the `syscall` instruction.
const SYSCALL_LEN: u64 = 2;

/// The six arguments.
pub type Args = [u64; 6];

/// What a system call came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "it is moved once")]
pub enum Outcome {
    /// A value for rax.
    Value(u64),
    /// A signal comes first; the guest executes the call again after its handler.
    Restart,
    /// All registers have been set already (`rt_sigreturn`).
    Resumed,
    /// It is not made; rax keeps its number, and a signal tells.
    Trapped(Arrived),
}

impl From<sys::Result<u64>> for Outcome {
    fn from(result: sys::Result<u64>) -> Outcome {
        Outcome::Value(result.unwrap_or_else(Errno::as_return))
    }
}

impl From<sys::Result<()>> for Outcome {
    fn from(result: sys::Result<()>) -> Outcome {
        result.map(|()| 0).into()
    }
}

/// Executes the guest's system call; `next` is the address behind it.
pub fn handle(context: &mut Context, next: u64) {
    let number = context.registers.get(Gpr::Rax);
    let args = [Gpr::Rdi, Gpr::Rsi, Gpr::Rdx, Gpr::R10, Gpr::R8, Gpr::R9]
        .map(|register| context.registers.get(register));
    context.registers.rip = next;
    // As the `syscall` instruction leaves them.
    let flags = context.registers.rflags;
    context.registers.set(Gpr::Rcx, next);
    context.registers.set(Gpr::R11, flags);
    let fixed = fixed();
    fixed.events.syscall_entry(context, fixed.stats);
    let Made { number, args, outcome } = match user_dispatch::divert(context, number, &args) {
        Some(outcome) => Made { number, args, outcome },
        None if context.traced.on != 0 => traced_call(context, number),
        None => Made { number, args, outcome: call(context, number, &args) },
    };
    match outcome {
        Outcome::Value(value) => context.registers.set(Gpr::Rax, value),
        Outcome::Restart => restart(context, number, next),
        Outcome::Resumed | Outcome::Trapped(_) => {}
    }
    match outcome {
        Outcome::Value(_) => fixed.events.syscall_exit(context, number, &args, fixed.stats),
        Outcome::Restart | Outcome::Resumed | Outcome::Trapped(_) => {
            record::resumed(context, RESTART)
        }
    }
    if context.traced.on != 0 && !matches!(outcome, Outcome::Trapped(_)) {
        tracee::exit_syscall(context);
    }
    if let Outcome::Trapped(arrived) = outcome {
        signals::deliver_fault(context, &arrived);
    }
}

/// A system call that was made, maybe another one than the guest asked for.
struct Made {
    number: u64,
    args: Args,
    outcome: Outcome,
}

/// A call of a thread whose tracer may have other plans with it.
fn traced_call(context: &mut Context, number: u64) -> Made {
    match tracee::enter_syscall(context, number) {
        Wanted::Call(wanted, args) => {
            let outcome = call(context, wanted, &args);
            Made { number: wanted, args, outcome }
        }
        Wanted::Outcome(value) => {
            let args = record::syscall_arguments(&context.registers);
            Made { number: u64::MAX, args, outcome: Outcome::Value(value) }
        }
    }
}

/// A call that was not made, or was interrupted, is made again. A tracer that watches calls sees how this one ended
/// before it begins anew, and sees nothing of one that never began.
fn restart(context: &mut Context, number: u64, next: u64) {
    /// Made again whatever handler comes first.
    const ALWAYS: i32 = -513;
    let traced = &mut context.traced;
    let mut code = core::mem::take(&mut traced.restart);
    if code == 0 && traced.on != 0 && traced.wants & ptrace::wants::SYSCALLS != 0 {
        code = ALWAYS;
    }
    if code == 0 {
        traced.orig_rax = u64::MAX;
        context.registers.set(Gpr::Rax, number);
        context.registers.rip = next - SYSCALL_LEN;
    } else {
        traced.orig_rax = number;
        context.registers.set(Gpr::Rax, code as i64 as u64);
    }
}

fn call(context: &mut Context, number: u64, args: &Args) -> Outcome {
    if context.thread.filters.any()
        && let Some(outcome) = seccomp::judge(context, number, args)
    {
        return outcome;
    }
    call_unfiltered(context, number, args)
}

fn call_unfiltered(context: &mut Context, number: u64, args: &Args) -> Outcome {
    // The kernel looks at the lower half only.
    let nr = number as u32;
    match nr {
        c::__NR_read | c::__NR_futex | c::__NR_poll | c::__NR_clock_gettime => pass(nr, args),
        c::__NR_mmap => memory::mmap(args).into(),
        c::__NR_munmap => memory::munmap(args).into(),
        c::__NR_mprotect => memory::mprotect(args, None).into(),
        c::__NR_pkey_mprotect => memory::mprotect(args, Some(args[3])).into(),
        // As on a machine without protection keys.
        c::__NR_pkey_alloc => Errno::ENOSPC.into(),
        c::__NR_pkey_free => Errno::EINVAL.into(),
        c::__NR_mremap => memory::mremap(args).into(),
        c::__NR_brk => Outcome::Value(memory::brk(args[0])),
        c::__NR_madvise => memory::madvise(args),
        c::__NR_mlockall if record::watching() => memory::mlockall(args),
        c::__NR_shmat => memory::shmat(args).into(),
        c::__NR_shmdt => memory::shmdt(args).into(),
        c::__NR_remap_file_pages => memory::remap_file_pages(args),

        c::__NR_clone => process::clone(context, args),
        c::__NR_clone3 => process::clone3(context, args),
        c::__NR_fork => process::fork(context),
        c::__NR_vfork => process::vfork(context),
        c::__NR_execve => process::execve(context, args),
        c::__NR_execveat => process::execveat(context, args),
        c::__NR_exit => process::exit(context, args[0]),
        c::__NR_exit_group => process::exit_group(context, args[0]),
        c::__NR_arch_prctl => process::arch_prctl(context, args),
        c::__NR_prctl => process::prctl(context, args),
        c::__NR_seccomp => seccomp::seccomp(context, args),
        c::__NR_ptrace => ptrace::ptrace(context, args),
        c::__NR_wait4 => ptrace::wait4(context, args),
        c::__NR_waitid => ptrace::waitid(context, args),
        c::__NR_process_vm_writev => ptrace::written_through(args),
        c::__NR_getppid => supervision::getppid(args),
        // The kernel would write to memory and change rip behind the engine's back; libraries fall back.
        c::__NR_rseq => Errno::ENOSYS.into(),
        c::__NR_io_uring_setup => memory::io_uring_setup(args),
        c::__NR_io_setup => memory::io_setup(args),
        c::__NR_io_destroy => memory::io_destroy(args),
        c::__NR_modify_ldt => segments::modify_ldt(args),
        c::__NR_map_shadow_stack => Errno::EOPNOTSUPP.into(),

        c::__NR_rt_sigaction => signal::sigaction(context, args).into(),
        c::__NR_rt_sigprocmask => signal::sigprocmask(context, args).into(),
        c::__NR_rt_sigreturn => signal::sigreturn(context),
        c::__NR_sigaltstack => signal::sigaltstack(context, args).into(),
        c::__NR_rt_sigpending => signal::sigpending(context, args).into(),
        c::__NR_rt_sigsuspend => signal::sigsuspend(context, args),
        c::__NR_pselect6
        | c::__NR_ppoll
        | c::__NR_epoll_pwait
        | c::__NR_epoll_pwait2
        | c::__NR_io_pgetevents => signal::with_temporary_mask(context, nr, args),

        c::__NR_open
        | c::__NR_openat
        | c::__NR_openat2
        | c::__NR_readlink
        | c::__NR_readlinkat
        | c::__NR_stat
        | c::__NR_lstat
        | c::__NR_newfstatat
        | c::__NR_statx
        | c::__NR_access
        | c::__NR_faccessat
        | c::__NR_faccessat2 => files::by_path(nr, args),
        c::__NR_write | c::__NR_pwrite64 | c::__NR_writev | c::__NR_pwritev | c::__NR_pwritev2 => {
            files::write(nr, args)
        }
        c::__NR_setrlimit => limits::set(args).unwrap_or_else(|| pass(nr, args)),
        c::__NR_getrlimit => limits::get(args).unwrap_or_else(|| pass(nr, args)),
        c::__NR_prlimit64 => limits::exchange(args).unwrap_or_else(|| pass(nr, args)),
        _ => pass(nr, args),
    }
}

impl From<Errno> for Outcome {
    fn from(errno: Errno) -> Outcome {
        Outcome::Value(errno.as_return())
    }
}

/// Lets the kernel do it.
pub fn pass(nr: u32, args: &Args) -> Outcome {
    // SAFETY: calls that could change engine memory by address are handled elsewhere; the rest only
    // touches memory that the guest names.
    let call = || unsafe { entry::guest_syscall(nr as u64, args) };
    let value = record::schedule::around(nr, args, call);
    if value == RESTART {
        return Outcome::Restart;
    }
    // The kernel may have met a page that is read-only because code on it is being watched.
    if value == Errno::EFAULT.as_return() && engine().cache.pages.any_protected() {
        unprotect_all_code();
        let value = record::schedule::around(nr, args, call);
        return if value == RESTART { Outcome::Restart } else { Outcome::Value(value) };
    }
    Outcome::Value(value)
}
