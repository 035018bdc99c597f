//! What a stop that the kernel reports means: shown to the guest, or hidden and resumed.

use super::registers::RemoteContext;
use super::remote::{self, NO_SUCH, UserRegisters};
use super::tracees::{self, DEBUG_REGISTERS, DEBUG_STATUS, State, Tracee};
use super::{STARTS_TRACED, StartsTraced, Traced, event, started, wants};
use crate::cache;
use crate::context::CONTEXT_SIZE;
use crate::entry::{self, Region, target};
use crate::record;
use crate::signals::{
    Arrived, OWNED, PENDING_DEADLINE, PENDING_SIGNAL, PENDING_STOP, SigInfo, TRAP_FLAG, set_of,
};
use crate::sys::{self, Result};
use core::mem::offset_of;
use linux_raw_sys::general as c;
use linux_raw_sys::ptrace as p;

/// Flags that must not be set in engine code: trap, direction, alignment check.
const HOSTILE_FLAGS: u64 = 0x4_0500;

/// What the kernel leaves in rax when a system call was interrupted and may be made again.
pub const RESTARTS: [i64; 4] = [-512, -513, -514, -516];

/// What to do about a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The guest should know, with this status shifted down by eight.
    Shown(u32),
    /// The tracee goes on; there was nothing to see, or there will be.
    Hidden,
    /// Only this thread of the process can look at it.
    Owned(i32),
    /// It is not stopped, not a tracee, or no more.
    Elsewhere,
}

/// Looks at a thread that the kernel says has stopped with this status, shifted down by eight.
pub fn examine(tid: i32, status: u32) -> Seen {
    let by = sys::gettid();
    let known = tracees::find(tid);
    if let Some(known) = known
        && known.by != by
    {
        return Seen::Owned(known.by);
    }
    let Ok(registers) = remote::registers(tid) else { return Seen::Elsewhere };
    let mut tracee = known.unwrap_or_else(|| tracees::newcomer(tid, by));
    let seen = Stopped { tracee: &mut tracee, registers, status }.classify();
    match seen {
        Ok(Seen::Shown(status)) => {
            tracee.status = status;
            tracee.coming = false;
            tracees::put(tracee);
        }
        Ok(_) => {
            tracee.state = State::Running;
            tracees::put(tracee);
        }
        // It was killed meanwhile.
        Err(_) => return Seen::Hidden,
    }
    seen.unwrap_or(Seen::Hidden)
}

/// The guest has taken note of a stop: if its tracer ends now, the tracee goes on without the signal.
pub fn taken(tid: i32) {
    if let Some(Tracee { state: State::Announced(address), .. }) = tracees::find(tid) {
        let context = RemoteContext { tid, address };
        if let Ok(mut traced) = context.traced() {
            traced.inject = 0;
            let _ = context.set_traced(&traced);
        }
    }
}

/// The event of a status that is shifted down by eight.
fn event_of(status: u32) -> u32 {
    status >> 8
}

struct Stopped<'a> {
    tracee: &'a mut Tracee,
    registers: UserRegisters,
    /// Shifted down by eight.
    status: u32,
}

impl Stopped<'_> {
    fn classify(&mut self) -> Result<Seen> {
        let tid = self.tracee.tid;
        let (signal, event) = (self.status & 0x7f, event_of(self.status));
        let fresh = event == event::EXEC
            || event == 0 && signal == c::SIGTRAP && self.registers.rip == super::entry_point();
        if fresh {
            self.tracee.engine = None;
        }
        if self.tracee.engine.is_none() {
            self.tracee.engine = Some(remote::is_engine(tid));
        }
        if event != 0 && event != event::STOP {
            self.tracee.message = remote::message(tid);
        }
        if self.tracee.engine == Some(false) {
            if matches!(event, event::FORK | event::VFORK | event::CLONE) {
                self.add_child();
            }
            self.tracee.state = State::Foreign;
            return Ok(Seen::Shown(self.status));
        }
        if fresh {
            return self.program_starts(event);
        }
        let Some(context) = self.context() else { return self.too_early(signal, event) };
        let mut traced = context.traced()?;
        if traced.on == 0 {
            traced.on = 1;
            traced.wants = 0;
            if self.tracee.seized {
                self.ask_for_exec();
            }
        }
        traced.options = self.tracee.options;
        traced.seized = self.tracee.seized as u32;
        context.set_traced(&traced)?;
        match event {
            0 => self.signal(&context, traced, signal),
            event::FORK | event::VFORK | event::CLONE => {
                self.add_child();
                if self.registers.rip == target::clone_done() {
                    return self.in_place(&context);
                }
                traced.deferred = self.status;
                traced.message = self.tracee.message;
                context.set_traced(&traced)?;
                self.hide(0)
            }
            event::VFORK_DONE | event::EXIT => self.in_place(&context),
            event::STOP if core::mem::take(&mut self.tracee.silent) => {
                if !record::watching() || !cache::contains(self.registers.rip) {
                    return self.hide(0);
                }
                // It must not be kicked any more, and has to know.
                context.add_pending(PENDING_DEADLINE)?;
                self.bring_to_boundary(&context, traced)
            }
            event::STOP if traced.acting != 0 => {
                if signal == c::SIGTRAP {
                    self.group_goes_on();
                }
                self.in_place(&context)
            }
            event::STOP => {
                let info = remote::signal_info(tid).unwrap_or(SigInfo::EMPTY);
                self.ask(&context, traced, info)
            }
            _ => self.hide(0),
        }
    }

    /// A signal, or the group stop that one causes.
    fn signal(&mut self, context: &RemoteContext, traced: Traced, signal: u32) -> Result<Seen> {
        let tid = self.tracee.tid;
        if signal == c::SIGTRAP && self.registers.rip == target::announced() && traced.stop != 0 {
            self.tracee.state = State::Announced(context.address);
            self.tracee.message = traced.message;
            self.show_debug_status(traced.debug_status);
            return Ok(Seen::Shown(traced.stop));
        }
        let Ok(info) = remote::signal_info(tid) else {
            // A group stop has no signal.
            if traced.acting != 0 {
                return self.in_place(context);
            }
            return self.ask(context, traced, SigInfo::EMPTY);
        };
        if signal == c::SIGTRAP && self.tracee.watches() {
            self.keep_debug_status();
        }
        // The engine's own handler knows what to do with these, and the kernel with what the tracee sends itself.
        if OWNED & set_of(signal) != 0 || traced.acting == signal {
            return self.hide(signal);
        }
        // The one signal that comes through every mask has a place of its own.
        if signal == c::SIGSTOP {
            return self.ask(context, traced, info);
        }
        if context.pending()? & PENDING_SIGNAL != 0 {
            // Another one is on its way, and this one was let through by nobody: the handler is the better judge.
            return self.hide(signal);
        }
        remote::set_signal_mask(tid, !OWNED)?;
        context.set_signal(&Arrived { signal, info, ..Arrived::NONE })?;
        context.add_pending(PENDING_SIGNAL)?;
        self.bring_to_boundary(context, traced)
    }

    /// Remembers why a watchpoint has stopped the tracee: single steps to the next boundary would overwrite it.
    fn keep_debug_status(&mut self) {
        let place = DEBUG_REGISTERS + 8 * DEBUG_STATUS as u64;
        let tid = self.tracee.tid;
        let mut status = 0u64;
        if remote::ptrace(p::PTRACE_PEEKUSR, tid, place, &raw mut status as u64).is_ok() {
            self.tracee.debug_status |= status & 0xf;
        }
    }

    fn show_debug_status(&mut self, tracees: u64) {
        let status = core::mem::take(&mut self.tracee.debug_status) | tracees;
        if status != 0 {
            let place = DEBUG_REGISTERS + 8 * DEBUG_STATUS as u64;
            let _ = remote::ptrace(p::PTRACE_POKEUSR, self.tracee.tid, place, status);
        }
    }

    /// Lets the tracee announce this very stop itself.
    fn ask(&mut self, context: &RemoteContext, mut traced: Traced, info: SigInfo) -> Result<Seen> {
        traced.asked = self.status;
        traced.asked_info = info;
        context.set_traced(&traced)?;
        context.add_pending(PENDING_STOP)?;
        self.bring_to_boundary(context, traced)
    }

    /// Does to the stopped tracee what its own handler would do about something that is pending.
    fn bring_to_boundary(&mut self, context: &RemoteContext, mut traced: Traced) -> Result<Seen> {
        let rip = self.registers.rip;
        let mut registers = self.registers;
        // Nothing is to be restarted by the kernel but what is handled here.
        let rax = registers.rax as i64;
        match entry::region(rip) {
            _ if cache::contains(rip) => {
                context.set_stepping()?;
                registers.eflags |= TRAP_FLAG;
            }
            Region::LookingUp => {
                context.set_stepping()?;
                registers.eflags |= TRAP_FLAG;
            }
            Region::Entering => {
                registers.rip = target::enter();
                registers.rsp = context.engine_stack()?;
                registers.eflags &= !HOSTILE_FLAGS;
            }
            Region::BeforeSyscall => registers.rip = target::syscall_interrupted(),
            Region::AfterSyscall if registers.orig_rax as i64 >= 0 && RESTARTS.contains(&rax) => {
                traced.restart = rax as i32;
                context.set_traced(&traced)?;
                registers.rip = target::syscall_interrupted();
                registers.orig_rax = u64::MAX;
            }
            _ => {}
        }
        if registers != self.registers {
            remote::set_registers(self.tracee.tid, &registers)?;
        }
        self.tracee.coming = true;
        self.hide(0)
    }

    fn hide(&mut self, signal: u32) -> Result<Seen> {
        match remote::go_on(self.tracee.tid, signal) {
            Ok(()) | Err(NO_SUCH) => Ok(Seen::Hidden),
            Err(error) => Err(error),
        }
    }

    fn in_place(&mut self, context: &RemoteContext) -> Result<Seen> {
        self.tracee.state = State::InPlace(context.address);
        Ok(Seen::Shown(self.status))
    }

    /// The tracee's context: GS points behind it, unless the thread has only just been made.
    fn context(&self) -> Option<RemoteContext> {
        let tid = self.tracee.tid;
        let new_thread = self.registers.rip == target::clone_done() && self.registers.rax == 0;
        let address = if new_thread {
            self.registers.r12
        } else {
            self.registers.gs_base.checked_sub(CONTEXT_SIZE as u64)?
        };
        let context = RemoteContext { tid, address };
        context.is_valid().then_some(context)
    }

    /// A group stop is over: those of its threads that listen without having stopped for real hear of it, too.
    fn group_goes_on(&self) {
        let process = |tid| remote::process_and_parent(tid).map(|(process, _)| process);
        let own = process(self.tracee.tid);
        for other in tracees::all().iter_mut().filter(|t| t.listens) {
            if process(other.tid) == own {
                other.report = Some(self.status);
            }
        }
    }

    /// A thread or process that the kernel has attached to the same tracer.
    fn add_child(&self) {
        let child = self.tracee.message as i32;
        let known = tracees::find(child).unwrap_or_else(|| Tracee::new(child, self.tracee.by));
        let Tracee { seized, options, engine, .. } = *self.tracee;
        tracees::put(Tracee { seized, options, engine, ..known });
    }

    /// Makes the kernel tell of every program that is executed, whose engine must be told of its tracer. Without being
    /// seized it does so by a signal.
    fn ask_for_exec(&self) {
        let options = self.tracee.options | p::PTRACE_O_TRACEEXEC;
        let _ = remote::ptrace(p::PTRACE_SETOPTIONS, self.tracee.tid, 0, options as u64);
    }

    /// A new program stands before the first instruction of its engine.
    fn program_starts(&mut self, event: u32) -> Result<Seen> {
        let told = self.tracee.options & p::PTRACE_O_TRACEEXEC != 0;
        let mut bits = 0;
        if told && event == event::EXEC {
            bits |= started::EVENT;
        }
        // The kernel has sent the SIGTRAP itself if it was not asked for the event.
        if !told && !self.tracee.seized {
            bits |= started::TRAP;
        }
        let at = |offset: usize| &raw const STARTS_TRACED as u64 + offset as u64;
        let tid = self.tracee.tid;
        if event == event::EXEC && self.tracee.message != tid as u64 {
            // Another thread has executed the program, and has this one's number now.
            tracees::remove(self.tracee.message as i32);
        }
        let previous = self.tracee.wants & (wants::SYSCALLS | wants::EMULATION);
        // After the event the tracer may want to hear of the end of the call, too.
        if bits & started::EVENT != 0 || previous & wants::SYSCALLS != 0 {
            bits |= started::EXIT;
        }
        let words = [
            (offset_of!(StartsTraced, wants), previous),
            (offset_of!(StartsTraced, options), self.tracee.options),
            (offset_of!(StartsTraced, seized), self.tracee.seized as u32),
            (offset_of!(StartsTraced, started), bits),
            (offset_of!(StartsTraced, on), 1),
        ];
        for (offset, value) in words {
            remote::write_value(tid, at(offset), &value)?;
        }
        remote::write_value(tid, at(offset_of!(StartsTraced, message)), &self.tracee.message)?;
        self.tracee.coming = bits != 0;
        self.hide(0)
    }

    /// The engine of a new program has not come far enough to be told anything but how it starts.
    fn too_early(&mut self, signal: u32, event: u32) -> Result<Seen> {
        if signal == c::SIGSTOP || event == event::STOP {
            let at = &raw const STARTS_TRACED as u64 + offset_of!(StartsTraced, started) as u64;
            // SAFETY: a number.
            let bits: u32 = unsafe { remote::read_value(self.tracee.tid, at)? };
            remote::write_value(self.tracee.tid, at, &(bits | started::SIGSTOP))?;
            self.tracee.coming = true;
            return self.hide(0);
        }
        self.hide(if event == 0 { signal } else { 0 })
    }
}
