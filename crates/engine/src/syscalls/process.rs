//! Threads, processes and programs.
//!
//! | the guest asks for | what happens |
//! | --- | --- |
//! | a thread, `vfork`, `posix_spawn` (shared memory) | a context of its own; the child starts on its engine stack |
//! | `fork` (copied memory) | the kernel copies the engine along; other threads' contexts become free |
//! | `execve` | the target is resolved here, then the engine image executes itself for it |

use super::{Args, Outcome, pass, seccomp, supervision, user_dispatch};
use crate::context::{Context, Gpr, counter};
use crate::dispatch::{Engine, engine, fixed, flush_stats};
use crate::exec::{self, Refused, Resolved};
use crate::guest_memory as guest;
use crate::lock::{Guard, Lock};
use crate::ptrace;
use crate::record;
use crate::signals::{self, AlternateStack, Handlers};
use crate::sys::{self, Errno, Result};
use crate::{entry, threads, vectors};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use linux_raw_sys::auxvec as aux;
use linux_raw_sys::general as c;
use retro_abi::config::{Config, Policy};

const ALL_SIGNALS: u64 = !0;
/// Only for `clone3`: the child starts without handlers.
const CLONE_CLEAR_SIGHAND: u64 = 1 << 32;
/// Longest path.
const PATH_MAX: usize = 4096;
/// Longest single argument (32 pages) and most arguments that are looked at.
const MAX_ARGUMENTS: usize = 1 << 20;

/// How a new task relates to its parent.
struct NewTask {
    flags: u64,
    /// Stack pointer for the guest in the child; 0 for the parent's.
    stack: u64,
}

/// `clone`
pub fn clone(context: &mut Context, args: &Args) -> Outcome {
    let task = NewTask { flags: args[0], stack: args[1] };
    create(context, &task, c::__NR_clone, |child_stack| {
        let mut real = *args;
        real[1] = child_stack;
        real
    })
}

/// `vfork`
pub fn vfork(context: &mut Context) -> Outcome {
    let flags = (c::CLONE_VM | c::CLONE_VFORK | c::SIGCHLD) as u64;
    clone(context, &[flags, 0, 0, 0, 0, 0])
}

/// `fork`
pub fn fork(context: &mut Context) -> Outcome {
    clone(context, &[c::SIGCHLD as u64, 0, 0, 0, 0, 0])
}

/// `clone3`
pub fn clone3(context: &mut Context, args: &Args) -> Outcome {
    /// `struct clone_args` as words: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size,
    /// tls, set_tid, set_tid_size, cgroup.
    const WORDS: usize = 11;
    const STACK: usize = 5;
    const STACK_SIZE: usize = 6;
    let size = args[1] as usize;
    if !(64..=WORDS * 8).contains(&size) || !size.is_multiple_of(8) {
        // Sizes this engine does not know: the kernel's own checks come first, then ENOSYS-like retry.
        return if size < 64 { Errno::EINVAL.into() } else { Errno::E2BIG.into() };
    }
    let mut words = [0u64; WORDS];
    for (at, word) in words.iter_mut().take(size / 8).enumerate() {
        match guest::read_u64(args[0].wrapping_add(8 * at as u64)) {
            Ok(value) => *word = value,
            Err(error) => return error.into(),
        }
    }
    if (words[STACK] == 0) != (words[STACK_SIZE] == 0) {
        return Errno::EINVAL.into();
    }
    let task = NewTask { flags: words[0], stack: words[STACK] + words[STACK_SIZE] };
    create(context, &task, c::__NR_clone3, |child_stack| {
        words[STACK] = if child_stack == 0 { 0 } else { child_stack - 4096 };
        words[STACK_SIZE] = if child_stack == 0 { 0 } else { 4096 };
        [words.as_ptr() as u64, size as u64, 0, 0, 0, 0]
    })
}

fn create(
    context: &mut Context,
    task: &NewTask,
    nr: u32,
    arguments: impl FnMut(u64) -> Args,
) -> Outcome {
    // The child must not get a signal before it has its own GS and signal stack, nor one of its parent's.
    if signals::block_all(context).is_err() {
        return Outcome::Restart;
    }
    let outcome = if task.flags & c::CLONE_VM as u64 != 0 {
        share_memory(context, task, nr, arguments)
    } else {
        copy_memory(context, task, nr, arguments)
    };
    signals::set_mask(context, context.signals.mask);
    outcome
}

/// A thread, or a process that borrows its parent's memory.
fn share_memory(
    context: &mut Context,
    task: &NewTask,
    nr: u32,
    mut arguments: impl FnMut(u64) -> Args,
) -> Outcome {
    let has = |flag: u32| task.flags & flag as u64 != 0;
    let handlers = if has(c::CLONE_SIGHAND) {
        context.thread.handlers.clone()
    } else {
        Arc::new(Handlers(Lock::new(*context.thread.handlers.0.lock())))
    };
    if task.flags & CLONE_CLEAR_SIGHAND != 0 && !has(c::CLONE_SIGHAND) {
        for action in handlers.0.lock().iter_mut().filter(|a| a.handler != signals::SIG_IGN) {
            *action = sys::SigAction::default();
        }
    }
    let child = match threads::allocate(handlers, context.signals.mask) {
        Ok(child) => child,
        Err(_) => return Errno::EAGAIN.into(),
    };
    child.registers = context.registers;
    child.registers.set(Gpr::Rax, 0);
    if task.stack != 0 {
        child.registers.set(Gpr::Rsp, task.stack);
    }
    child.guest_gs_base = context.guest_gs_base;
    child.guest_gs_selector = context.guest_gs_selector;
    child.cpuid_faults = context.cpuid_faults;
    child.thread.filters.follow(&context.thread.filters);
    child.thread.borrows_memory = !has(c::CLONE_THREAD);
    child.thread.reinstall_handlers = task.flags & CLONE_CLEAR_SIGHAND != 0;
    child.signals.alternate =
        if has(c::CLONE_VFORK) { context.signals.alternate } else { AlternateStack::DISABLED };
    let args = arguments(child.engine_stack);
    let child: *mut Context = child;
    let watched = record::watching();
    if watched {
        record::schedule::join(child as u64);
    }
    // A parent that waits for its child must let it run; the kernel keeps it from running itself. So does a tracer
    // that is told of the child.
    let waits = watched && (has(c::CLONE_VFORK) || context.traced.on != 0);
    // Not even somebody's `kill -SEGV` may come before the child has its own GS.
    sys::set_signal_mask(ALL_SIGNALS);
    let home = waits.then(|| record::schedule::release(context));
    // SAFETY: the child's context is ready and its engine stack unused.
    let value = unsafe { entry::clone(nr as u64, &args, child) };
    if let Some(home) = home {
        record::schedule::acquire(home);
    }
    if sys::check(value).is_err() {
        if watched {
            record::schedule::forget(child as u64);
        }
        // SAFETY: no thread was made, so the context is still this thread's to free.
        unsafe { (*child).thread.in_use.store(0, Ordering::Release) };
    } else if watched {
        if !has(c::CLONE_THREAD) {
            record::process::forked(value as u32, None);
        }
        record::process::set_deadline();
    } else if fixed().counting {
        retro_abi::stats::Stats::add(&fixed().stats.threads, 1);
    }
    Outcome::Value(value)
}

/// All locks of the engine, so that none is held by a thread that does not exist in the child.
struct AllLocks<'a> {
    _engine: Guard<'static, Engine>,
    _threads: threads::ListGuard<'static>,
    _handlers: Guard<'a, [sys::SigAction; signals::SIGNALS]>,
    _queue: Guard<'static, record::schedule::Queue>,
    _recorder: Guard<'static, Option<record::Recorder>>,
    _tracees: ptrace::Hold,
    _allocator: crate::memory::Hold,
}

/// A process with a copy of the memory, engine included.
fn copy_memory(
    context: &mut Context,
    task: &NewTask,
    nr: u32,
    mut arguments: impl FnMut(u64) -> Args,
) -> Outcome {
    let args = arguments(0);
    let handlers = context.thread.handlers.clone();
    let log = record::process::reserve_log();
    let traced = ptrace::tracee::before_fork(context);
    let value = {
        let _locks = AllLocks {
            _engine: engine(),
            _threads: threads::lock_list(),
            _handlers: handlers.0.lock(),
            _queue: record::schedule::hold(),
            _recorder: record::hold(),
            _tracees: ptrace::hold(),
            _allocator: crate::memory::hold(),
        };
        // SAFETY: the child runs on a copy of this very stack.
        unsafe { sys::syscall(nr, args) }
    };
    if value == 0 {
        threads::after_fork(context);
        ptrace::forget_all();
        if task.flags & CLONE_CLEAR_SIGHAND != 0 {
            signals::clear_handlers(&context.thread.handlers);
        }
        context.counters = [0; counter::COUNT];
        engine().cache.counts = Default::default();
        if task.stack != 0 {
            context.registers.set(Gpr::Rsp, task.stack);
        }
        context.registers.set(Gpr::Rax, 0);
        context.user_dispatch = Default::default();
        context.guest_fs_base = sys::fs_base();
        record::process::begin_fork(context, log);
        if fixed().counting {
            retro_abi::stats::Stats::add(&fixed().stats.processes, 1);
            retro_abi::stats::Stats::add(&fixed().stats.threads, 1);
        }
        return Outcome::Value(value);
    }
    ptrace::tracee::after_fork(context, traced);
    if sys::check(value).is_ok() {
        record::process::forked(value as u32, log);
    } else {
        record::process::unreserve(log);
    }
    Outcome::Value(value)
}

/// `exit`
pub fn exit(context: &mut Context, code: u64) -> ! {
    flush_stats(context);
    record::process::end_thread(context, code);
    sys::set_signal_mask(ALL_SIGNALS);
    let context = if record::watching() { record::schedule::leave(context) } else { context };
    static NOBODY: AtomicU32 = AtomicU32::new(0);
    let mut state = &raw const context.thread.in_use;
    if context.traced.on != 0 {
        // A tracer may look at the context when the thread is about to end.
        context.thread.in_use.store(threads::in_use::ENDING, Ordering::Release);
        state = &raw const NOBODY;
    }
    // SAFETY: all signals are blocked.
    unsafe { entry::thread_exit(code, state) }
}

/// `exit_group`
pub fn exit_group(context: &mut Context, code: u64) -> ! {
    flush_stats(context);
    if context.thread.borrows_memory {
        // Give the context back to the parent, whose memory this is.
        exit(context, code);
    }
    threads::flush_counters_of_others(context);
    record::process::exited(code);
    sys::exit_group(code as i32)
}

/// `execve`
pub fn execve(context: &mut Context, args: &Args) -> Outcome {
    quietly(context, |context| execute(context, c::AT_FDCWD, args[0], args[1], args[2], 0))
}

/// `execveat`
pub fn execveat(context: &mut Context, args: &Args) -> Outcome {
    let flags = args[4] as u32;
    if flags & !(c::AT_EMPTY_PATH | c::AT_SYMLINK_NOFOLLOW) != 0 {
        return Errno::EINVAL.into();
    }
    quietly(context, |context| execute(context, args[0] as i32, args[1], args[2], args[3], flags))
}

/// Executes a program with all signals blocked: one that came halfway would be lost with the engine that
/// took it. The next engine is told the guest's mask.
fn quietly(context: &mut Context, execute: impl FnOnce(&mut Context) -> Result<u64>) -> Outcome {
    if signals::block_all(context).is_err() {
        return Outcome::Restart;
    }
    let result = execute(context);
    signals::set_mask(context, context.signals.mask);
    result.into()
}

/// Reads a null-terminated array of pointers; a null array is an empty one.
fn pointers(at: u64) -> Result<Vec<u64>> {
    let mut found = Vec::new();
    if at == 0 {
        return Ok(found);
    }
    loop {
        let pointer = guest::read_u64(at.wrapping_add(8 * found.len() as u64))?;
        if pointer == 0 {
            return Ok(found);
        }
        found.push(pointer);
        if found.len() > MAX_ARGUMENTS {
            return Err(Errno::E2BIG);
        }
    }
}

fn execute(
    context: &mut Context,
    dir: i32,
    path: u64,
    argv: u64,
    envp: u64,
    flags: u32,
) -> Result<u64> {
    let path = guest::read_string(path, PATH_MAX)?;
    let path = super::files::visible_path(&path).unwrap_or(path);
    let mut arguments = pointers(argv)?;
    let mut environment = pointers(envp)?;
    let native = Native { dir, path: &path, argv, envp, flags };
    if record::process::leaves_alone(context.thread.borrows_memory) {
        return native.execute(context);
    }
    let resolved = match exec::resolve(dir, &path, flags) {
        Ok(resolved) => resolved,
        Err(Refused::Error(error)) => return Err(error),
        Err(Refused::Native) => return native.execute(context),
    };
    if arguments.is_empty() {
        // The kernel gives a program at least an empty argv[0].
        arguments.push(c"".as_ptr() as u64);
    }
    if !resolved.leading.is_empty() {
        let leading = resolved.leading.iter().map(|s| s.as_ptr() as u64);
        arguments.splice(..1, leading);
    }
    arguments.push(0);
    let borrowed = context.thread.borrows_memory;
    let filters = seccomp::for_exec(context)?;
    let (variable, fd) = configuration(&resolved, context.signals.mask, borrowed, filters)?;
    environment.push(variable.as_ptr() as u64);
    environment.push(0);
    leave_for_exec(context);
    let image = c"/proc/self/exe".as_ptr() as u64;
    let args = [image, arguments.as_ptr() as u64, environment.as_ptr() as u64, 0, 0, 0];
    let error = without_turn(context, || {
        // SAFETY: returns only on failure, with nothing changed.
        sys::check(unsafe { sys::syscall(c::__NR_execve, args) })
    });
    sys::close(fd);
    filters.inspect(|&filters| sys::close(filters));
    stay_after_exec(context);
    error
}

/// Executes a program from a child that borrows its parent's memory: the parent's threads must be able to run
/// when it is gone.
fn without_turn(context: &mut Context, execute: impl FnOnce() -> Result<u64>) -> Result<u64> {
    if !record::watching() || !context.thread.borrows_memory {
        return execute();
    }
    let home = record::schedule::release(context);
    let error = execute();
    record::schedule::acquire(home);
    error
}

/// The variable that tells the next engine what to load, and the descriptor it names.
fn configuration(
    resolved: &Resolved,
    mask: u64,
    borrowed: bool,
    filters: Option<i32>,
) -> Result<(Vec<u8>, i32)> {
    // A high number, which programs are unlikely to expect free; without close-on-exec.
    let fd = sys::duplicate_from(resolved.fd, 700).or_else(|_| sys::duplicate_from(resolved.fd, 3));
    sys::close(resolved.fd);
    let fd = fd?;
    let fixed = fixed();
    let recorded = record::process::for_exec(borrowed);
    let unrecorded = fixed.policy == Policy::Record && recorded.is_none();
    let config = Config {
        policy: if unrecorded { Policy::Run } else { fixed.policy },
        channel: recorded.map(|(file, _)| file),
        previous: recorded.map(|(_, previous)| previous),
        stats: fixed.stats_file,
        exe_fd: Some(fd),
        cache_kib: fixed.cache_kib,
        signal_mask: Some(mask),
        supervised: supervision::for_exec(),
        filters,
        path: b"",
    };
    let mut text = alloc::string::String::new();
    let _ = config.write_prefix(&mut text);
    let mut variable = text.into_bytes();
    variable.extend_from_slice(&resolved.name);
    Ok((variable, fd))
}

fn leave_for_exec(context: &mut Context) {
    if !context.thread.borrows_memory {
        record::schedule::may_kick(false);
        record::kicks::forbid();
    }
    flush_stats(context);
    signals::expose_ignored(&context.thread.handlers, true);
    super::limits::expose(true);
}

/// The program could not be executed: everything goes on as before.
fn stay_after_exec(context: &mut Context) {
    if !context.thread.borrows_memory {
        record::kicks::allow(context);
        record::schedule::may_kick(true);
    }
    signals::expose_ignored(&context.thread.handlers, false);
    super::limits::expose(false);
}

/// An `execve` that the kernel does without the engine.
struct Native<'a> {
    dir: i32,
    path: &'a [u8],
    argv: u64,
    envp: u64,
    flags: u32,
}

impl Native<'_> {
    fn execute(&self, context: &mut Context) -> Result<u64> {
        leave_for_exec(context);
        // Nobody else will set the mask for it.
        sys::set_signal_mask(context.signals.mask);
        let path = self.path.as_ptr() as u64;
        let args = [self.dir as u64, path, self.argv, self.envp, self.flags as u64, 0];
        record::process::native_exec(context.thread.borrows_memory);
        let error = without_turn(context, || {
            // SAFETY: returns only on failure, with nothing changed.
            sys::check(unsafe { sys::syscall(c::__NR_execveat, args) })
        });
        stay_after_exec(context);
        error
    }
}

/// `arch_prctl`
pub fn arch_prctl(context: &mut Context, args: &Args) -> Outcome {
    use sys::arch;
    match args[0] as u32 {
        arch::SET_GS => {
            if args[1] >= 0x7fff_ffff_f000 {
                return Errno::EPERM.into();
            }
            context.guest_gs_base = args[1];
            context.guest_gs_selector = 0;
            Outcome::Value(0)
        }
        arch::GET_GS => guest::write_u64(args[1], context.guest_gs_base).into(),
        arch::SET_FS | arch::GET_FS => {
            let outcome = pass(c::__NR_arch_prctl, args);
            context.guest_fs_base = sys::fs_base();
            outcome
        }
        // The vDSO stays hidden, and control-flow enforcement off.
        arch::MAP_VDSO_X32..=arch::MAP_VDSO_64 => Errno::EINVAL.into(),
        arch::GET_CPUID => Outcome::Value(!context.cpuid_faults as u64),
        arch::SET_CPUID => set_cpuid(context, args[1] != 0).into(),
        code if code >> 12 == 5 => Errno::EINVAL.into(),
        arch::REQ_XCOMP_PERM => request_state(context, args),
        _ => pass(c::__NR_arch_prctl, args),
    }
}

/// Asks for state that frames then hold, too: the kernel refuses it while an alternate stack is too small, and knows only those of the
/// engine.
fn request_state(context: &Context, args: &Args) -> Outcome {
    let asks_for_tiles = args[1] == vectors::TILE_DATA.trailing_zeros() as u64;
    let frame = fixed().program.auxiliary(aux::AT_MINSIGSTKSZ);
    // The running thread's own context may be the newer one.
    let own = context.signals.alternate.size;
    let others = threads::smallest_alternate_stack();
    let too_small = |size: u64| size != 0 && size < frame;
    if asks_for_tiles && (too_small(own) || others.is_some_and(too_small)) {
        return Errno::ENOSPC.into();
    }
    let outcome = pass(c::__NR_arch_prctl, args);
    vectors::permissions_changed();
    outcome
}

/// Lets `cpuid` fault, or not. The engine needs it, so that only the emulated instruction faults; the kernel says whether
/// this machine could do it.
fn set_cpuid(context: &mut Context, allowed: bool) -> Result<()> {
    sys::arch_prctl(sys::arch::SET_CPUID, 0)?;
    sys::arch_prctl(sys::arch::SET_CPUID, 1)?;
    context.cpuid_faults = !allowed;
    Ok(())
}

/// `prctl`
pub fn prctl(context: &mut Context, args: &Args) -> Outcome {
    use linux_raw_sys::prctl as p;
    match args[0] as u32 {
        p::PR_GET_PDEATHSIG => supervision::death_signal(args),
        p::PR_SET_PDEATHSIG => supervision::set_death_signal(args),
        // The heap is the engine's own invention, and the executable for the kernel is the engine.
        p::PR_SET_MM
            if matches!(
                args[1] as u32,
                p::PR_SET_MM_START_BRK
                    | p::PR_SET_MM_BRK
                    | p::PR_SET_MM_EXE_FILE
                    | p::PR_SET_MM_MAP
            ) =>
        {
            Errno::EPERM.into()
        }
        p::PR_SET_SYSCALL_USER_DISPATCH => user_dispatch::set(context, args),
        p::PR_SET_SECCOMP => seccomp::set_by_prctl(context, args),
        _ => pass(c::__NR_prctl, args),
    }
}
