//! The guest's system-call filters.
//!
//! Problem: the kernel applies a filter to every call of the process, the engine's own included, while some calls of the
//! guest are answered without any call, or with several others. The guest must see its filters applied to its own calls,
//! each once, and to nothing else.
//!
//! Strategy: a filter is given to the kernel behind a few instructions that let calls from the engine's code pass. One
//! address is excepted, the instruction that makes calls for the guest as they are; to those the kernel applies the
//! filter, with all that only the kernel can do (listeners, tracers). The engine keeps the program, too, and asks it
//! before each call ([`judge`]). A call that is refused then goes to the kernel as it is, whoever would have
//! answered it: the same program refuses it there, and the error, the signal or the death are the kernel's own.
//!
//! A filter that looks at the instruction's address cannot be asked by the kernel, which sees the engine's: there the engine
//! acts on its own.
//!
//! Strict mode is not given to the kernel at all, since the engine could not go on in it.
//!
//! Invariants:
//! 1. Filters are never removed, so a list of them is shared by all threads that have it, and lives for ever.
//! 2. The engine of the next program knows all filters of this one.

mod program;

use super::{Args, Outcome, pass};
use crate::context::Context;
use crate::entry;
use crate::guest_memory as guest;
use crate::ptrace::tracee::{self, Wanted};
use crate::record;
use crate::signals::{self, Arrived};
use crate::sys::{self, Errno, Result};
use crate::{dispatch, threads};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use linux_raw_sys::general as c;
use linux_raw_sys::{prctl as p, ptrace as s};
pub use program::Call;
use program::{Instruction, MOST_INSTRUCTIONS, Range};
use retro_abi::layout::{CACHE_BASE, ENGINE_BASE};

/// What applies to a thread's calls.
#[derive(Default)]
pub struct Filters {
    newest: AtomicPtr<Filter>,
    /// Only `read`, `write`, `exit` and `rt_sigreturn` are left.
    strict: AtomicBool,
}

/// A filter and those that were there before it.
pub struct Filter {
    program: Vec<Instruction>,
    looks_at_pc: bool,
    older: Option<&'static Filter>,
}

impl Filter {
    /// The strictest answer of all filters; among equals, that of the newest.
    fn verdict(&self, call: &Call) -> u32 {
        let action = |answer: u32| (answer & s::SECCOMP_RET_ACTION_FULL) as i32;
        let mut strictest = program::run(&self.program, call);
        let mut next = self.older;
        while let Some(filter) = next {
            let answer = program::run(&filter.program, call);
            if action(answer) < action(strictest) {
                strictest = answer;
            }
            next = filter.older;
        }
        strictest
    }

    fn any_looks_at_pc(&self) -> bool {
        self.looks_at_pc || self.older.is_some_and(Filter::any_looks_at_pc)
    }
}

impl Filters {
    fn newest(&self) -> Option<&'static Filter> {
        // SAFETY: null, or a filter that lives for ever.
        unsafe { self.newest.load(Ordering::Acquire).as_ref() }
    }

    fn push(&self, program: Vec<Instruction>) {
        let looks_at_pc = program::looks_at_pc(&program);
        let filter = Box::new(Filter { program, looks_at_pc, older: self.newest() });
        self.newest.store(Box::into_raw(filter), Ordering::Release);
    }

    /// Makes them the same as another thread's.
    pub fn follow(&self, other: &Filters) {
        self.newest.store(other.newest.load(Ordering::Acquire), Ordering::Release);
        self.strict.store(other.strict.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Whether there is anything to ask.
    pub fn any(&self) -> bool {
        !self.newest.load(Ordering::Relaxed).is_null() || self.strict.load(Ordering::Relaxed)
    }
}

/// Asks the filters about a call that is about to be made; what it comes to if they do not let it pass.
pub fn judge(context: &mut Context, number: u64, args: &Args) -> Option<Outcome> {
    let filters = &context.thread.filters;
    if filters.strict.load(Ordering::Relaxed) {
        return judge_strictly(context, number);
    }
    let filter = filters.newest()?;
    let call = Call { number: number as i32, pc: context.registers.rip, args: *args };
    let verdict = filter.verdict(&call);
    let data = verdict & s::SECCOMP_RET_DATA;
    let alone = filter.any_looks_at_pc();
    match verdict & s::SECCOMP_RET_ACTION_FULL {
        // The kernel asks whoever listens, if the call comes to it.
        s::SECCOMP_RET_ALLOW | s::SECCOMP_RET_LOG | s::SECCOMP_RET_USER_NOTIF => None,
        s::SECCOMP_RET_TRACE => ask_tracer(context, &call, data),
        s::SECCOMP_RET_ERRNO if alone => Some(Errno(data.min(4095) as i32).into()),
        s::SECCOMP_RET_TRAP if alone => {
            Some(Outcome::Trapped(signal(c::SYS_SECCOMP as i32, data, &call)))
        }
        s::SECCOMP_RET_ERRNO => Some(pass(number as u32, args)),
        // Else the kernel would end the process before it could say so.
        s::SECCOMP_RET_TRAP
            if context.traced.on != 0 || !signals::fault_would_end(context, c::SIGSYS) =>
        {
            Some(pass(number as u32, args))
        }
        s::SECCOMP_RET_KILL_THREAD if threads::others_live(context) => {
            super::process::exit(context, 0)
        }
        _ => {
            record::signal(context, &signal(c::SYS_SECCOMP as i32, data, &call), true, 0);
            if !alone {
                dispatch::flush_stats(context);
                record::process::killed(c::SIGSYS);
                let _ = pass(number as u32, args);
            }
            signals::die(context, c::SIGSYS)
        }
    }
}

/// Lets the tracer decide; without one there is no such call. A tracer may also change it into another.
fn ask_tracer(context: &mut Context, call: &Call, data: u32) -> Option<Outcome> {
    match tracee::ask_about_syscall(context, data) {
        None => Some(Errno::ENOSYS.into()),
        Some(Wanted::Outcome(value)) => Some(Outcome::Value(value)),
        Some(Wanted::Call(number, args)) if number as i32 == call.number && args == call.args => {
            None
        }
        Some(Wanted::Call(number, args)) => Some(super::call_unfiltered(context, number, &args)),
    }
}

/// A SIGSYS about a call.
pub fn signal(code: i32, errno: u32, call: &Call) -> Arrived {
    let mut arrived = Arrived::from(signals::Fault {
        signal: c::SIGSYS,
        code,
        address: call.pc,
        error: 0,
        trap: 0,
    });
    arrived.synthesized = false;
    arrived.info.0[4..8].copy_from_slice(&errno.to_le_bytes());
    arrived.info.0[24..28].copy_from_slice(&call.number.to_le_bytes());
    arrived.info.0[28..32].copy_from_slice(&program::ARCHITECTURE.to_le_bytes());
    arrived
}

fn judge_strictly(context: &mut Context, number: u64) -> Option<Outcome> {
    match number as u32 {
        c::__NR_read | c::__NR_write | c::__NR_exit | c::__NR_rt_sigreturn => None,
        _ if threads::others_live(context) => super::process::exit(context, 0),
        _ => {
            dispatch::flush_stats(context);
            record::process::killed(c::SIGKILL);
            sys::tgkill(sys::getpid(), sys::gettid(), c::SIGKILL);
            sys::exit_group(128 + c::SIGKILL as i32)
        }
    }
}

/// `seccomp`
pub fn seccomp(context: &mut Context, args: &Args) -> Outcome {
    match args[0] as u32 {
        s::SECCOMP_SET_MODE_STRICT if args[1] == 0 && args[2] == 0 => set_strict(context).into(),
        s::SECCOMP_SET_MODE_FILTER => {
            let flags = args[1] as u32;
            let outcome = install(context, c::__NR_seccomp, args);
            if let Outcome::Value(0) = outcome
                && flags & s::SECCOMP_FILTER_FLAG_TSYNC != 0
            {
                threads::for_each_other(context, |other| {
                    other.filters.follow(&context.thread.filters);
                });
            }
            outcome
        }
        _ => pass(c::__NR_seccomp, args),
    }
}

/// `PR_SET_SECCOMP`
pub fn set_by_prctl(context: &mut Context, args: &Args) -> Outcome {
    match args[1] as u32 {
        s::SECCOMP_MODE_STRICT => set_strict(context).into(),
        s::SECCOMP_MODE_FILTER => install(context, c::__NR_prctl, args),
        _ => pass(c::__NR_prctl, args),
    }
}

/// Both modes exclude each other; in strict mode a program cannot read the clock, either.
fn set_strict(context: &mut Context) -> Result<()> {
    if sys::prctl(p::PR_GET_SECCOMP, 0, 0, 0)? != s::SECCOMP_MODE_DISABLED as u64 {
        return Err(Errno::EINVAL);
    }
    sys::prctl(p::PR_SET_TSC, p::PR_TSC_SIGSEGV as u64, 0, 0)?;
    context.thread.filters.strict.store(true, Ordering::Relaxed);
    Ok(())
}

/// Installs a filter: number 2 of the arguments points to its description.
fn install(context: &mut Context, nr: u32, args: &Args) -> Outcome {
    // What cannot be read or is no program is the kernel's to refuse.
    let Ok(program) = read_program(args[2]) else { return pass(nr, args) };
    let range = Range {
        upper: (ENGINE_BASE >> 32) as u32,
        start: ENGINE_BASE as u32,
        end: CACHE_BASE as u32,
    };
    let guests = entry::target::syscall_done() as u32;
    let except = (!program::looks_at_pc(&program)).then_some(guests);
    let mut whole = program::exempting(&program, range, except);
    if whole.len() > MOST_INSTRUCTIONS {
        whole.truncate(0);
        whole.extend_from_slice(&program);
    }
    let description = [whole.len() as u64, whole.as_ptr() as u64];
    let mut changed = *args;
    changed[2] = description.as_ptr() as u64;
    let outcome = pass(nr, &changed);
    let tsync = nr == c::__NR_seccomp
        && args[1] as u32 & s::SECCOMP_FILTER_FLAG_TSYNC != 0
        && args[1] as u32 & s::SECCOMP_FILTER_FLAG_NEW_LISTENER == 0;
    match outcome {
        // The id of a thread that could not follow.
        Outcome::Value(thread) if tsync && thread != 0 => {}
        Outcome::Value(value) if sys::check(value).is_ok() => context.thread.filters.push(program),
        _ => {}
    }
    outcome
}

const _: () = assert!(ENGINE_BASE >> 32 == CACHE_BASE >> 32);

/// Reads the program that a `struct sock_fprog` in guest memory describes.
fn read_program(description: u64) -> Result<Vec<Instruction>> {
    let length = guest::read_u64(description)? as u16 as usize;
    let start = guest::read_u64(description.wrapping_add(8))?;
    if !(1..=MOST_INSTRUCTIONS).contains(&length) {
        return Err(Errno::EINVAL);
    }
    let mut program = Vec::with_capacity(length);
    for index in 0..length as u64 {
        // SAFETY: plain numbers.
        program.push(unsafe { guest::read_value(start.wrapping_add(index * 8))? });
    }
    Ok(program)
}

// ---- across execve ----

/// A file with all filters of a thread, oldest first, each after its length; without close-on-exec.
pub fn for_exec(context: &Context) -> Result<Option<i32>> {
    let mut filters = Vec::new();
    let mut next = context.thread.filters.newest();
    while let Some(filter) = next {
        filters.push(filter);
        next = filter.older;
    }
    if filters.is_empty() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    for filter in filters.iter().rev() {
        bytes.extend_from_slice(&(filter.program.len() as u32).to_le_bytes());
        for instruction in &filter.program {
            bytes.extend_from_slice(&instruction.code.to_le_bytes());
            bytes.extend_from_slice(&[instruction.if_true, instruction.if_false]);
            bytes.extend_from_slice(&instruction.value.to_le_bytes());
        }
    }
    let file = sys::memfd(b"filters\0", 0)?;
    let high = sys::duplicate_from(file, 700).unwrap_or(file);
    if high != file {
        sys::close(file);
    }
    sys::write_all(high, &bytes)?;
    Ok(Some(high))
}

/// Takes over the filters that the program before had.
pub fn adopt(context: &Context, file: Option<i32>) {
    let Some(file) = file else { return };
    let mut at = 0u64;
    let mut length = [0u8; 4];
    while let Ok(4) = sys::read_at(file, &mut length, at) {
        let bytes = (u32::from_le_bytes(length) as usize).min(MOST_INSTRUCTIONS) * 8;
        let mut code = alloc::vec![0; bytes];
        if sys::read_at(file, &mut code, at + 4) != Ok(bytes) {
            break;
        }
        at += 4 + bytes as u64;
        let instructions = code.chunks_exact(8).map(|b| Instruction {
            code: u16::from_le_bytes([b[0], b[1]]),
            if_true: b[2],
            if_false: b[3],
            value: u32::from_le_bytes([b[4], b[5], b[6], b[7]]),
        });
        context.thread.filters.push(instructions.collect());
    }
    sys::close(file);
}
