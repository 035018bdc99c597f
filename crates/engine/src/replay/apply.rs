//! What each event does to the replayed process, and what it is compared with.

use super::{Player, frame, time};
use crate::context::{Context, Gpr, Registers};
use crate::record::{UNCERTAIN_FLAGS, VectorImage};
use crate::sys;
use alloc::boxed::Box;
use linux_raw_sys::general as c;
use retro_abi::layout::{GUEST_END, ISLAND_END, ISLAND_START, PAGE};
use retro_abi::log::{Event, MapKind, RegisterSet, check_sum, register};

/// A thread that does not run.
pub struct Thread {
    id: u32,
    registers: Registers,
    fs_base: u64,
    gs_base: u64,
    image: Box<VectorImage>,
    in_syscall: u32,
}

fn check_of(registers: &Registers, flags: u64) -> u32 {
    let mut values = [0; 18];
    values[..16].copy_from_slice(&registers.gpr);
    values[16] = registers.rip;
    values[17] = registers.rflags & flags;
    check_sum(&values)
}

/// Whether memory there belongs to the guest.
fn is_guest(start: u64, len: u64) -> bool {
    let Some(end) = start.checked_add(len) else { return false };
    start >= PAGE && end <= GUEST_END || start >= ISLAND_START && end <= ISLAND_END
}

fn write_memory(address: u64, bytes: &[u8]) -> bool {
    if !is_guest(address, bytes.len() as u64) {
        return false;
    }
    // SAFETY: guest memory is mapped as a whole, and the guest does not run now.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    true
}

/// Makes guest memory zero: by whole pages.
fn clear_memory(start: u64, len: u64) {
    if len > 0 && is_guest(start, len) {
        sys::advise(start & !(PAGE - 1), len.next_multiple_of(PAGE), c::MADV_DONTNEED);
    }
}

fn set_registers(context: &mut Context, set: &RegisterSet) {
    for number in 0..register::COUNT as u32 {
        if set.mask & 1 << number == 0 {
            continue;
        }
        let value = set.values[number as usize];
        match number {
            register::RIP => context.registers.rip = value,
            register::RFLAGS => context.registers.rflags = value,
            register::FS_BASE => set_fs_base(context, value),
            register::GS_BASE => context.guest_gs_base = value,
            number => context.registers.gpr[number as usize] = value,
        }
    }
}

fn set_fs_base(context: &mut Context, base: u64) {
    context.guest_fs_base = base;
    let _ = sys::arch_prctl(sys::arch::SET_FS, base);
}

fn restore_image(image: &[u8]) -> bool {
    let mut whole = VectorImage::new();
    let len = image.len().min(whole.0.len());
    whole.0[..len].copy_from_slice(&image[..len]);
    // SAFETY: aligned and as large as any area; a malformed image is reported.
    unsafe { crate::entry::restore_vectors(whole.0.as_ptr(), frame::features()) }
}

impl Player {
    /// Applies all events of this time; the time of the next event, or `None` if the stretch is over.
    pub fn apply(&mut self, context: &mut Context, now: u64) -> Option<u64> {
        self.code.advance(now);
        self.drop_changed_blocks();
        loop {
            let Some((time, event)) = self.log.peek() else {
                if self.log.broken {
                    self.diverged(context, format_args!("the log cannot be decoded"));
                }
                return None;
            };
            if time > now {
                if context.in_syscall != 0 {
                    self.diverged(
                        context,
                        format_args!(
                            "thread {} waits in system call {}, and the log goes on at {time}",
                            self.running,
                            context.in_syscall - 1
                        ),
                    );
                }
                let code = self.code.next_time().unwrap_or(u64::MAX);
                return Some(time.min(code));
            }
            if time < now {
                self.diverged(
                    context,
                    format_args!("the replay has missed an event at {time}: {event:?}"),
                );
            }
            // A system call is entered by the guest itself.
            if matches!(event, Event::SyscallEnter { .. }) {
                self.diverged(
                    context,
                    format_args!(
                        "the log has a system call here, the replay is at {:#x}: {event:?}",
                        context.registers.rip
                    ),
                );
            }
            self.log.take();
            self.applied += 1;
            self.event(context, &event);
        }
    }

    fn drop_changed_blocks(&mut self) {
        let changes = self.code.take_changes();
        if !changes.is_empty() {
            let mut engine = crate::dispatch::engine();
            for (start, end) in changes {
                engine.cache.invalidate_range(start, end);
            }
        }
    }

    fn event(&mut self, context: &mut Context, event: &Event<'static>) {
        match *event {
            Event::Load { address, bytes } | Event::Write { address, bytes } => {
                if !write_memory(address, bytes) {
                    self.diverged(
                        context,
                        format_args!("the log writes outside the guest: {address:#x}"),
                    );
                }
            }
            Event::SyscallEnter { .. } => {}
            Event::SyscallExit { result } => self.exit_syscall(context, result),
            Event::Registers(ref set) => set_registers(context, set),
            Event::Vectors { image } => {
                restore_image(image);
            }
            Event::Signal { number, handler, check, .. } => {
                let own = check_of(&context.registers, !UNCERTAIN_FLAGS);
                if own != check {
                    self.diverged(
                        context,
                        format_args!(
                            "registers differ when signal {number} comes: {:x?}",
                            context.registers
                        ),
                    );
                }
                if handler != 0 {
                    frame::reset_vectors();
                }
            }
            Event::Map { kind, start, len, offset, .. } => {
                self.map(context, kind, start, len, offset)
            }
            Event::ThreadStart { thread } => {
                self.running = thread;
                // Its state is the next event, and no comparison.
                self.started = false;
            }
            Event::ThreadSwitch { thread, check } => self.switch(context, thread, check),
            Event::ThreadEnd { thread, .. } => {
                self.threads.retain(|t| t.id != thread);
                context.in_syscall = 0;
            }
            Event::Interval { running, .. } => {
                if self.running == 0 {
                    self.running = running;
                } else if self.running != running {
                    self.diverged(
                        context,
                        format_args!("thread {} runs, not {running}", self.running),
                    );
                }
            }
            Event::ThreadState { thread, in_syscall, ref registers, image } => {
                self.thread_state(context, thread, in_syscall, registers, image);
            }
            Event::Fork { .. } | Event::Start { .. } => {}
            Event::End { .. } => context.in_syscall = 0,
            Event::Code { .. } | Event::File { .. } | Event::Inherit { .. } => {}
        }
    }

    fn map(&mut self, context: &Context, kind: MapKind, start: u64, len: u64, offset: u64) {
        if !is_guest(start, len) {
            self.diverged(context, format_args!("the log maps outside the guest: {start:#x}"));
        }
        match kind {
            MapKind::Protect => {}
            MapKind::Map | MapKind::Unmap | MapKind::Discard => clear_memory(start, len),
            MapKind::Move => {
                if !is_guest(offset, len) {
                    self.diverged(context, format_args!("the log moves what is not the guest's"));
                }
                // SAFETY: both ranges are guest memory, which is mapped as a whole.
                unsafe { core::ptr::copy(offset as *const u8, start as *mut u8, len as usize) };
            }
        }
    }

    /// The guest has executed a system call: the next event must say so.
    pub fn enter_syscall(&mut self, context: &mut Context) {
        let own = Registers { ..context.registers };
        match self.log.peek() {
            Some((at, Event::SyscallEnter { number, args, check })) if at == time() => {
                let order = [Gpr::Rdi, Gpr::Rsi, Gpr::Rdx, Gpr::R10, Gpr::R8, Gpr::R9];
                let own_args = order.map(|r| own.get(r));
                if number != own.get(Gpr::Rax)
                    || args != own_args
                    || check != check_of(&own, u64::MAX)
                {
                    self.diverged(
                        context,
                        format_args!("registers differ at system call {number}{args:x?}: {own:x?}"),
                    );
                }
                self.log.take();
                self.applied += 1;
                self.entered = args;
            }
            Some((at, event)) => self.diverged(
                context,
                format_args!(
                    "the guest makes system call {} here; the log has at {at}: {event:?}",
                    own.get(Gpr::Rax)
                ),
            ),
            // The log ends here: the process was killed, or nobody recorded any more.
            None => {}
        }
    }

    fn exit_syscall(&mut self, context: &mut Context, result: u64) {
        const RT_SIGRETURN: u64 = 15;
        let number = (context.in_syscall as u64).wrapping_sub(1);
        context.in_syscall = 0;
        let args = self.entered;
        match number as u32 {
            c::__NR_arch_prctl if result == 0 => match args[0] as u32 {
                sys::arch::SET_FS => set_fs_base(context, args[1]),
                sys::arch::SET_GS => context.guest_gs_base = args[1],
                _ => {}
            },
            _ => {}
        }
        if number == RT_SIGRETURN {
            frame::restore_vectors_of_frame(context);
            return;
        }
        context.registers.set(Gpr::Rax, result);
    }

    /// Whether an event is due that has nothing to do with what the guest does here.
    pub fn is_due(&self, now: u64) -> bool {
        match self.log.peek() {
            None => true,
            Some((_, Event::Signal { synchronous: true, .. })) => false,
            Some((at, _)) => at <= now,
        }
    }

    /// Whether the log has a signal here.
    pub fn expects_signal(&self, signal: u32) -> bool {
        // Registers of a half-done string instruction, and what it has written, come first.
        match self.log.peek() {
            // Where there is no code, the log knows better why.
            Some((at, Event::Signal { number, synchronous: true, .. })) => {
                at == time() && (number == signal || signal == 0)
            }
            Some((at, Event::Registers(_) | Event::Write { .. } | Event::Vectors { .. })) => {
                at == time()
            }
            _ => false,
        }
    }

    /// The next event must tell the outcome of an instruction.
    pub fn expect_registers(&mut self, context: &Context) {
        match self.log.peek() {
            Some((at, Event::Registers(_))) if at == time() => {}
            None => {}
            Some((at, event)) => self.diverged(context, format_args!(
                "the outcome of the instruction before {:#x} is not in the log; it has at {at}: {event:?}",
                context.registers.rip
            )),
        }
    }

    fn switch(&mut self, context: &mut Context, thread: u32, check: u32) {
        self.keep_running(context);
        let Some(at) = self.threads.iter().position(|t| t.id == thread) else {
            // It starts right now; its state follows.
            self.running = thread;
            return;
        };
        let next = self.threads.swap_remove(at);
        context.registers = next.registers;
        context.guest_gs_base = next.gs_base;
        context.in_syscall = next.in_syscall;
        set_fs_base(context, next.fs_base);
        restore_image(&next.image.0);
        self.running = thread;
        let own = check_of(&context.registers, !UNCERTAIN_FLAGS);
        if own != check {
            self.diverged(
                context,
                format_args!(
                    "registers differ when thread {thread} runs again: {:x?}",
                    context.registers
                ),
            );
        }
    }

    /// Keeps the state of the thread that has run so far.
    fn keep_running(&mut self, context: &mut Context) {
        let mut image = Box::new(VectorImage::new());
        // SAFETY: aligned, zeroed and large enough.
        unsafe { crate::entry::save_vectors(image.0.as_mut_ptr(), frame::features()) };
        self.threads.retain(|t| t.id != self.running);
        self.threads.push(Thread {
            id: self.running,
            registers: context.registers,
            fs_base: context.guest_fs_base,
            gs_base: context.guest_gs_base,
            image,
            in_syscall: context.in_syscall,
        });
    }

    fn thread_state(
        &mut self,
        context: &mut Context,
        thread: u32,
        in_syscall: u32,
        registers: &RegisterSet,
        image: &[u8],
    ) {
        if thread == self.running {
            if self.started {
                self.compare(context, registers);
            }
            self.started = true;
            set_registers(context, registers);
            context.in_syscall = in_syscall;
            restore_image(image);
            return;
        }
        let mut state = Registers::default();
        state.gpr.copy_from_slice(&registers.values[..16]);
        state.rip = registers.values[register::RIP as usize];
        state.rflags = registers.values[register::RFLAGS as usize];
        let mut own = Box::new(VectorImage::new());
        let len = image.len().min(own.0.len());
        own.0[..len].copy_from_slice(&image[..len]);
        self.threads.retain(|t| t.id != thread);
        self.threads.push(Thread {
            id: thread,
            registers: state,
            fs_base: registers.values[register::FS_BASE as usize],
            gs_base: registers.values[register::GS_BASE as usize],
            image: own,
            in_syscall,
        });
    }

    /// At the start of an interval in the middle of a stretch the running thread must be as the log says.
    fn compare(&self, context: &Context, registers: &RegisterSet) {
        let own = &context.registers;
        let flags = registers.values[register::RFLAGS as usize];
        let same = registers.values[..16] == own.gpr
            && registers.values[register::RIP as usize] == own.rip
            && (flags ^ own.rflags) & !UNCERTAIN_FLAGS == 0;
        if !same {
            self.diverged(
                context,
                format_args!(
                    "registers differ at the start of an interval: {own:x?}, not {:x?}",
                    registers.values
                ),
            );
        }
    }
}
