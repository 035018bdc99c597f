//! The requests of `ptrace`, answered from the tracee's context where the kernel would show the engine.

use super::registers::RemoteContext;
use super::remote::{self, NO_SUCH, REGISTERS, UserRegisters};
use super::tracees::{self, DEBUG_REGISTERS, State, Tracee};
use super::{Traced, changed, event, memory, waits, wants};
use crate::context::Context;
use crate::guest_memory as guest;
use crate::signals::{SIGNALS, SigInfo, set_of};
use crate::sys::{self, Errno, Result};
use crate::syscalls::{Args, Outcome, pass};
use linux_raw_sys::general as c;
use linux_raw_sys::ptrace as p;
use retro_abi::layout::GUEST_LIMIT;

const NT_PRSTATUS: u64 = 1;
const NT_PRFPREG: u64 = 2;
const NT_X86_XSTATE: u64 = 0x202;

/// rax while a system call has no outcome yet.
const NO_OUTCOME: u64 = -(linux_raw_sys::errno::ENOSYS as i64) as u64;

/// `ptrace`
pub fn ptrace(context: &mut Context, args: &Args) -> Outcome {
    let request = args[0] as u32;
    match request {
        p::PTRACE_TRACEME => trace_me(context, args),
        p::PTRACE_ATTACH => attach(args),
        p::PTRACE_SEIZE => seize(args),
        p::PTRACE_INTERRUPT => interrupt(args),
        p::PTRACE_KILL => pass(c::__NR_ptrace, args),
        _ => match stopped(args[1] as i32) {
            Some((tracee, Some(context))) => {
                Request { tracee, context, args }.answer(request).into()
            }
            Some((tracee, None)) => foreign(tracee, args),
            None => pass_unstopped(args),
        },
    }
}

/// A tracee that is stopped, with its context if it runs in this engine.
fn stopped(tid: i32) -> Option<(Tracee, Option<RemoteContext>)> {
    let me = sys::gettid();
    let mut tracee = tracees::find(tid).filter(|t| t.by == me);
    if tracee.is_none_or(|t| t.state == State::Running) {
        // It may have stopped without anybody having waited for it.
        waits::look_patiently(tid);
        tracee = tracees::find(tid).filter(|t| t.by == me);
    }
    let tracee = tracee.filter(|t| !t.listens)?;
    match tracee.state {
        State::Running => None,
        State::Foreign => Some((tracee, None)),
        State::Announced(address) | State::InPlace(address) => {
            Some((tracee, Some(RemoteContext { tid, address })))
        }
    }
}

/// A request about a thread that is not a stopped tracee: the kernel knows the right error.
fn pass_unstopped(args: &Args) -> Outcome {
    let known = tracees::find(args[1] as i32).is_some();
    if known { NO_SUCH.into() } else { pass(c::__NR_ptrace, args) }
}

/// A request about a tracee that the kernel knows best.
fn foreign(mut tracee: Tracee, args: &Args) -> Outcome {
    let outcome = pass(c::__NR_ptrace, args);
    if let Outcome::Value(value) = outcome
        && sys::check(value).is_ok()
    {
        match args[0] as u32 {
            p::PTRACE_DETACH => tracees::remove(tracee.tid),
            p::PTRACE_SETOPTIONS => tracee.options = args[3] as u32,
            request if wants_of(request).is_some() || request == p::PTRACE_LISTEN => {
                tracee.state = State::Running;
            }
            _ => return outcome,
        }
        if args[0] as u32 != p::PTRACE_DETACH {
            tracees::put(tracee);
        }
    }
    outcome
}

/// What a request to go on asks of the tracee.
fn wants_of(request: u32) -> Option<u32> {
    match request {
        p::PTRACE_CONT => Some(0),
        p::PTRACE_SYSCALL => Some(wants::SYSCALLS),
        p::PTRACE_SYSEMU => Some(wants::EMULATION),
        p::PTRACE_SINGLESTEP => Some(wants::STEP),
        p::PTRACE_SINGLEBLOCK => Some(wants::STEP | wants::BLOCK),
        p::PTRACE_SYSEMU_SINGLESTEP => Some(wants::EMULATION | wants::STEP),
        _ => None,
    }
}

fn succeeded(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Value(value) if sys::check(value).is_ok())
}

/// The parent may be anything; only another engine understands announcements.
fn trace_me(context: &mut Context, args: &Args) -> Outcome {
    let outcome = pass(c::__NR_ptrace, args);
    if succeeded(outcome) && remote::is_engine(sys::getppid()) {
        context.traced = Traced { on: 1, ..Traced::NONE };
    }
    outcome
}

fn attach(args: &Args) -> Outcome {
    let outcome = pass(c::__NR_ptrace, args);
    if succeeded(outcome) {
        let tid = args[1] as i32;
        let engine = Some(remote::is_engine(tid));
        // The stop is on its way.
        tracees::put(Tracee { engine, coming: true, ..Tracee::new(tid, sys::gettid()) });
    }
    outcome
}

/// Seizes a thread at once: it may be about to stop. Then one hidden stop tells its engine.
fn seize(args: &Args) -> Outcome {
    let outcome = pass(c::__NR_ptrace, args);
    if succeeded(outcome) {
        let (tid, options) = (args[1] as i32, args[3] as u32);
        let engine = remote::is_engine(tid);
        let fresh = Tracee::new(tid, sys::gettid());
        let tracee =
            Tracee { seized: true, options, engine: Some(engine), silent: engine, ..fresh };
        tracees::put(tracee);
        if engine && remote::ptrace(p::PTRACE_INTERRUPT, tid, 0, 0).is_ok() {
            waits::introduce(tid);
        }
    }
    outcome
}

fn interrupt(args: &Args) -> Outcome {
    let tid = args[1] as i32;
    let mut tracees = tracees::all();
    if let Some(tracee) = tracees.iter_mut().find(|t| t.tid == tid && t.listens) {
        tracee.report = Some(c::SIGTRAP | event::STOP << 8);
        return Outcome::Value(0);
    }
    let running = tracees.iter_mut().find(|t| t.tid == tid && t.state == State::Running);
    if let Some(tracee) = running {
        tracee.coming = tracee.engine == Some(true);
    }
    drop(tracees);
    pass(c::__NR_ptrace, args)
}

/// A request about a stopped tracee in this engine.
struct Request<'a> {
    tracee: Tracee,
    context: RemoteContext,
    args: &'a Args,
}

impl Request<'_> {
    fn address(&self) -> u64 {
        self.args[2]
    }

    fn data(&self) -> u64 {
        self.args[3]
    }

    fn announced(&self) -> bool {
        matches!(self.tracee.state, State::Announced(_))
    }

    fn pass(&self) -> Result<u64> {
        remote::ptrace(self.args[0] as u32, self.tracee.tid, self.address(), self.data())
    }

    fn answer(&mut self, request: u32) -> Result<u64> {
        if let Some(wants) = wants_of(request) {
            return self.go_on(wants);
        }
        match request {
            p::PTRACE_PEEKTEXT | p::PTRACE_PEEKDATA => {
                if self.address() > GUEST_LIMIT - 8 {
                    return Err(Errno::EIO);
                }
                self.pass()
            }
            p::PTRACE_POKETEXT | p::PTRACE_POKEDATA => {
                let address = self.address();
                if address > GUEST_LIMIT - 8 {
                    return Err(Errno::EIO);
                }
                let done = self.pass()?;
                memory::tell(self.tracee.tid, address, address + 8);
                Ok(done)
            }
            p::PTRACE_PEEKUSR => match self.register_index() {
                Some(index) => {
                    let word = self.registers()?.words()[index];
                    guest::write_u64(self.data(), word).map(|()| 0)
                }
                None => self.pass(),
            },
            p::PTRACE_POKEUSR => match self.register_index() {
                Some(index) => {
                    let mut words = self.registers()?.words();
                    words[index] = self.data();
                    self.set_registers(&UserRegisters::from_words(words))
                }
                None => self.set_debug_register(),
            },
            p::PTRACE_GETREGS => {
                let registers = self.registers()?;
                guest::write_value(self.data(), &registers).map(|()| 0)
            }
            p::PTRACE_SETREGS => {
                // SAFETY: plain numbers.
                let registers = unsafe { guest::read_value::<UserRegisters>(self.data())? };
                self.set_registers(&registers)
            }
            p::PTRACE_SETFPREGS => {
                let done = self.pass()?;
                self.mark(changed::VECTORS)?;
                Ok(done)
            }
            p::PTRACE_GETREGSET | p::PTRACE_SETREGSET => self.register_set(request),
            p::PTRACE_ARCH_PRCTL => self.arch_prctl(),
            p::PTRACE_GETSIGINFO if self.announced() => {
                let info = self.context.traced()?.info;
                if info == SigInfo::EMPTY {
                    return Err(Errno::EINVAL);
                }
                guest::write_value(self.data(), &info).map(|()| 0)
            }
            p::PTRACE_SETSIGINFO if self.announced() => {
                // SAFETY: plain bytes.
                let info = unsafe { guest::read_value::<SigInfo>(self.data())? };
                let mut traced = self.context.traced()?;
                if traced.info == SigInfo::EMPTY {
                    return Err(Errno::EINVAL);
                }
                traced.info = info;
                self.context.set_traced(&traced).map(|()| 0)
            }
            p::PTRACE_GETSIGMASK | p::PTRACE_SETSIGMASK => self.signal_mask(request),
            p::PTRACE_GETEVENTMSG => guest::write_u64(self.data(), self.tracee.message).map(|()| 0),
            p::PTRACE_SETOPTIONS | p::PTRACE_OLDSETOPTIONS => self.set_options(),
            p::PTRACE_GET_SYSCALL_INFO => self.syscall_info(),
            p::PTRACE_LISTEN => self.listen(),
            p::PTRACE_DETACH => self.detach(),
            _ => self.pass(),
        }
    }

    /// The register that an address of the kernel's `struct user` means, if it means one.
    fn register_index(&self) -> Option<usize> {
        let address = self.address();
        let aligned = address.is_multiple_of(8);
        (aligned && address < 8 * REGISTERS as u64).then_some(address as usize / 8)
    }

    /// Sets what may be a debug register. The kernel watches data; execution the tracee watches itself.
    fn set_debug_register(&mut self) -> Result<u64> {
        let done = self.pass()?;
        let offset = self.address().wrapping_sub(DEBUG_REGISTERS);
        if offset < 64 && offset.is_multiple_of(8) {
            self.tracee.debug[offset as usize / 8] = self.data();
            tracees::put(self.tracee);
            let mut traced = self.context.traced()?;
            traced.breakpoints = self.tracee.breakpoints();
            traced.changed |= changed::BREAKPOINTS;
            self.context.set_traced(&traced)?;
        }
        Ok(done)
    }

    fn registers(&self) -> Result<UserRegisters> {
        let mut registers = self.context.user_registers()?;
        if !self.announced() && registers.orig_rax != u64::MAX {
            registers.rax = NO_OUTCOME;
        }
        Ok(registers)
    }

    fn set_registers(&self, registers: &UserRegisters) -> Result<u64> {
        self.context.set_user_registers(registers).map(|()| 0)
    }

    fn mark(&self, what: u32) -> Result<()> {
        let mut traced = self.context.traced()?;
        traced.changed |= what;
        self.context.set_traced(&traced)
    }

    fn register_set(&self, request: u32) -> Result<u64> {
        let gets = request == p::PTRACE_GETREGSET;
        let vector = self.data();
        if self.address() != NT_PRSTATUS {
            let done = self.pass()?;
            if !gets && matches!(self.address(), NT_PRFPREG | NT_X86_XSTATE) {
                self.mark(changed::VECTORS)?;
            }
            return Ok(done);
        }
        let (base, len) = (guest::read_u64(vector)?, guest::read_u64(vector.wrapping_add(8))?);
        if !len.is_multiple_of(8) {
            return Err(Errno::EINVAL);
        }
        let count = (len as usize / 8).min(REGISTERS);
        let mut words = self.registers()?.words();
        for (index, word) in words.iter_mut().enumerate().take(count) {
            let at = base.wrapping_add(8 * index as u64);
            if gets {
                guest::write_u64(at, *word)?;
            } else {
                *word = guest::read_u64(at)?;
            }
        }
        if !gets {
            self.set_registers(&UserRegisters::from_words(words))?;
        }
        guest::write_u64(vector + 8, 8 * count as u64)?;
        Ok(0)
    }

    fn arch_prctl(&self) -> Result<u64> {
        use sys::arch;
        let mut registers = self.registers()?;
        match self.data() as u32 {
            arch::GET_FS => guest::write_u64(self.address(), registers.fs_base).map(|()| 0),
            arch::GET_GS => guest::write_u64(self.address(), registers.gs_base).map(|()| 0),
            arch::SET_FS => {
                registers.fs_base = self.address();
                self.set_registers(&registers)
            }
            arch::SET_GS => {
                registers.gs_base = self.address();
                self.set_registers(&registers)
            }
            _ => self.pass(),
        }
    }

    fn signal_mask(&self, request: u32) -> Result<u64> {
        if self.address() != 8 {
            return Err(Errno::EINVAL);
        }
        if request == p::PTRACE_GETSIGMASK {
            return guest::write_u64(self.data(), self.context.mask()?).map(|()| 0);
        }
        let mask = guest::read_u64(self.data())?;
        self.context.set_mask(mask & !(set_of(c::SIGKILL) | set_of(c::SIGSTOP)))?;
        self.mark(changed::MASK)?;
        Ok(0)
    }

    fn set_options(&mut self) -> Result<u64> {
        let options = self.data();
        let more = if self.tracee.seized { p::PTRACE_O_TRACEEXEC as u64 } else { 0 };
        if options & !(p::PTRACE_O_MASK as u64) != 0 {
            return Err(Errno::EINVAL);
        }
        let done = remote::ptrace(p::PTRACE_SETOPTIONS, self.tracee.tid, 0, options | more)?;
        self.tracee.options = options as u32;
        let mut traced = self.context.traced()?;
        traced.options = options as u32;
        self.context.set_traced(&traced)?;
        tracees::put(self.tracee);
        Ok(done)
    }

    /// `struct ptrace_syscall_info`
    fn syscall_info(&self) -> Result<u64> {
        const ARCHITECTURE: u32 = 0xc000_003e;
        let traced = self.context.traced()?;
        let registers = self.registers()?;
        let operation = if self.announced() { traced.operation } else { 0 };
        let mut bytes = [0u8; 88];
        bytes[0] = operation as u8;
        bytes[4..8].copy_from_slice(&ARCHITECTURE.to_le_bytes());
        let mut put = |at: usize, value: u64| {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        };
        put(8, registers.rip);
        put(16, registers.rsp);
        let len = match operation {
            p::PTRACE_SYSCALL_INFO_ENTRY | p::PTRACE_SYSCALL_INFO_SECCOMP => {
                let args = [
                    registers.rdi,
                    registers.rsi,
                    registers.rdx,
                    registers.r10,
                    registers.r8,
                    registers.r9,
                ];
                put(24, registers.orig_rax);
                for (index, &arg) in args.iter().enumerate() {
                    put(32 + 8 * index, arg);
                }
                if operation == p::PTRACE_SYSCALL_INFO_SECCOMP {
                    bytes[80..84].copy_from_slice(&traced.filter_data.to_le_bytes());
                    84
                } else {
                    80
                }
            }
            p::PTRACE_SYSCALL_INFO_EXIT => {
                put(24, registers.rax);
                bytes[32] = sys::check(registers.rax).is_err() as u8;
                33
            }
            _ => 24,
        };
        let room = (self.address() as usize).min(len);
        guest::write(self.data(), &bytes[..room])?;
        Ok(len as u64)
    }

    /// Lets the tracee go on.
    fn go_on(&mut self, wants: u32) -> Result<u64> {
        let signal = self.data();
        if signal >= SIGNALS as u64 {
            return Err(Errno::EIO);
        }
        let mut traced = self.context.traced()?;
        traced.wants = wants;
        traced.options = self.tracee.options;
        traced.seized = self.tracee.seized as u32;
        if self.announced() {
            traced.inject = signal as u32;
        }
        self.context.set_traced(&traced)?;
        self.tracee.state = State::Running;
        self.tracee.wants = wants;
        tracees::put(self.tracee);
        remote::go_on(self.tracee.tid, 0).map(|()| 0)
    }

    fn detach(&mut self) -> Result<u64> {
        let signal = self.data();
        if signal >= SIGNALS as u64 {
            return Err(Errno::EIO);
        }
        let mut traced = self.context.traced()?;
        traced.on = 0;
        traced.wants = 0;
        let mut real = signal;
        if self.announced() {
            traced.inject = signal as u32;
            real = 0;
        }
        self.context.set_traced(&traced)?;
        tracees::remove(self.tracee.tid);
        remote::ptrace(p::PTRACE_DETACH, self.tracee.tid, 0, real)
    }

    /// Stays in a group stop, and hears of its end.
    fn listen(&mut self) -> Result<u64> {
        if self.announced() {
            if self.tracee.status >> 8 != event::STOP {
                return Err(Errno::EIO);
            }
            self.tracee.listens = true;
            tracees::put(self.tracee);
            return Ok(0);
        }
        let done = self.pass()?;
        self.tracee.state = State::Running;
        tracees::put(self.tracee);
        Ok(done)
    }
}
