//! What each event does to the replayed process, and what it is compared with.

use super::{Player, memory, stream, time};
use crate::context::{Context, Gpr, Registers};
use crate::record::{UNCERTAIN_FLAGS, check_of, check_without_flags, syscall_arguments};
use crate::signals::frame;
use crate::sys;
use crate::vectors::{self, Image};
use alloc::boxed::Box;
use linux_raw_sys::general as c;
use retro_abi::log::{Event, MapKind, RegisterSet, register};
use retro_abi::replay::mark;

/// The state of a thread.
pub struct Thread {
    /// Its number.
    pub id: u32,
    /// Integer registers.
    pub registers: Registers,
    /// FS base.
    pub fs_base: u64,
    /// GS base as the guest sees it.
    pub gs_base: u64,
    /// Vector state.
    pub image: Box<Image>,
    /// The system call it is in, by number plus one.
    pub in_syscall: u32,
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

impl Player {
    /// Applies all events of this time; says when the next one is.
    pub fn apply(&mut self, context: &mut Context, now: u64) -> u64 {
        self.code.advance(now);
        self.drop_changed_blocks();
        loop {
            let Some((time, event)) = self.log.peek() else {
                if self.log.broken {
                    self.diverged(context, format_args!("the log cannot be decoded"));
                }
                // Beyond its last event nothing tells what the guest did: an interval that was recorded to its
                // end has one there.
                self.over = true;
                return u64::MAX;
            };
            if time > now {
                if !self.started {
                    self.diverged(
                        context,
                        format_args!("thread {} runs, and the log does not say how", self.running),
                    );
                }
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
                return time;
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
                let written = matches!(event, Event::Write { .. });
                let why = if written { mark::WRITTEN } else { mark::LEARNED };
                if !memory::write(address, bytes, why) {
                    self.diverged(
                        context,
                        format_args!("the log writes outside the guest: {address:#x}"),
                    );
                }
            }
            Event::SyscallEnter { .. } => {}
            Event::SyscallExit { result } => self.exit_syscall(context, result),
            Event::Registers(ref set) => set_registers(context, set),
            Event::Vectors { image } => self.restore_vectors(context, image),
            Event::Signal { number, handler, check, .. } => {
                let own = check_without_flags(&context.registers);
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
                stream::switched(thread);
                self.running = thread;
                // Its state is the next event, and no comparison.
                self.started = false;
            }
            Event::ThreadSwitch { thread, check } => {
                stream::switched(thread);
                self.switch(context, thread, check);
            }
            Event::ThreadEnd { thread, .. } => {
                self.threads.retain(|t| t.id != thread);
                context.in_syscall = 0;
            }
            Event::Interval { running, .. } => {
                stream::switched(running);
                super::sums::interval_begins(!self.started);
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
            Event::End { .. } => {
                context.in_syscall = 0;
                self.over = true;
            }
            Event::Code { .. } | Event::File { .. } | Event::Inherit { .. } => {}
            Event::MemorySum { start, len, sum } => self.compare_memory(context, start, len, sum),
        }
    }

    fn map(&mut self, context: &Context, kind: MapKind, start: u64, len: u64, offset: u64) {
        if !memory::is_guest(start, len) {
            self.diverged(context, format_args!("the log maps outside the guest: {start:#x}"));
        }
        match kind {
            MapKind::Protect => {}
            MapKind::Map | MapKind::Unmap | MapKind::Discard => memory::clear(start, len),
            MapKind::Move => {
                if !memory::relocate(offset, start, len) {
                    self.diverged(context, format_args!("the log moves what is not the guest's"));
                }
            }
        }
    }

    /// The guest has executed a system call: the next event must say so.
    pub fn enter_syscall(&mut self, context: &mut Context) {
        let own = Registers { ..context.registers };
        match self.log.peek() {
            Some((at, Event::SyscallEnter { number, args, check })) if at == time() => {
                let own_args = syscall_arguments(&own);
                if number != own.get(Gpr::Rax) || args != own_args || check != check_of(&own) {
                    self.diverged(
                        context,
                        format_args!("registers differ at system call {number}{args:x?}: {own:x?}"),
                    );
                }
                self.log.take();
                self.applied += 1;
            }
            Some((at, event)) => self.diverged(
                context,
                format_args!(
                    "the guest makes system call {} here; the log has at {at}: {event:?}",
                    own.get(Gpr::Rax)
                ),
            ),
            // The log ends here: the process was killed, or nobody recorded any more.
            None => self.over = true,
        }
        self.limit = time();
    }

    fn exit_syscall(&mut self, context: &mut Context, result: u64) {
        const RT_SIGRETURN: u64 = 15;
        let number = (context.in_syscall as u64).wrapping_sub(1);
        context.in_syscall = 0;
        let [function, base] = [Gpr::Rdi, Gpr::Rsi].map(|r| context.registers.get(r));
        match number as u32 {
            c::__NR_arch_prctl if result == 0 => match function as u32 {
                sys::arch::SET_FS => set_fs_base(context, base),
                sys::arch::SET_GS => context.guest_gs_base = base,
                sys::arch::REQ_XCOMP_PERM => vectors::ask_for_all(),
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

    /// Whether the log has a signal for what was just executed.
    pub fn expects_trap(&self, signal: u32) -> bool {
        matches!(self.log.peek(), Some((at, Event::Signal { number, synchronous: true, .. }))
            if at == time() && number == signal)
    }

    /// The next event must tell the outcome of an instruction.
    pub fn expect_registers(&mut self, context: &Context) {
        match self.log.peek() {
            Some((at, Event::Registers(_))) if at == time() => {}
            None => self.over = true,
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
            self.started = false;
            return;
        };
        let next = self.threads.swap_remove(at);
        context.registers = next.registers;
        context.guest_gs_base = next.gs_base;
        context.in_syscall = next.in_syscall;
        set_fs_base(context, next.fs_base);
        self.restore_vectors(context, &next.image.0);
        self.running = thread;
        let own = check_without_flags(&context.registers);
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

    fn restore_vectors(&self, context: &Context, image: &[u8]) {
        // The recorded process had asked for more than this one.
        if image.len() > vectors::area_size() {
            vectors::ask_for_all();
        }
        let mut whole = Image::new();
        let len = image.len().min(whole.0.len());
        whole.0[..len].copy_from_slice(&image[..len]);
        if !vectors::restore(&whole, vectors::image_features()) {
            self.diverged(
                context,
                format_args!("the log has vector state that this processor cannot hold"),
            );
        }
    }

    /// The state of the thread that runs.
    fn running_state(&self, context: &Context) -> Thread {
        let mut image = Box::new(Image::new());
        vectors::save(&mut image, vectors::image_features(), &|pc, code| self.code.read(pc, code));
        Thread {
            id: self.running,
            registers: context.registers,
            fs_base: sys::fs_base(),
            gs_base: context.guest_gs_base,
            image,
            in_syscall: context.in_syscall,
        }
    }

    /// Keeps the state of the thread that has run so far.
    fn keep_running(&mut self, context: &Context) {
        let state = self.running_state(context);
        self.threads.retain(|t| t.id != state.id);
        self.threads.push(state);
    }

    /// The state of a thread, by number; 0 is the one that runs.
    pub fn state_of(&self, context: &Context, thread: u32) -> Option<Thread> {
        if thread == 0 || thread == self.running {
            return Some(self.running_state(context));
        }
        let other = self.threads.iter().find(|t| t.id == thread)?;
        Some(Thread { image: Box::new(Image(other.image.0)), ..*other })
    }

    /// Numbers of the threads that do not run, with the system calls they are in.
    pub fn others(&self) -> impl Iterator<Item = (u32, u32)> {
        self.threads.iter().filter(|t| t.id != self.running).map(|t| (t.id, t.in_syscall))
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
            self.restore_vectors(context, image);
            return;
        }
        let mut state = Registers::default();
        state.gpr.copy_from_slice(&registers.values[..16]);
        state.rip = registers.values[register::RIP as usize];
        state.rflags = registers.values[register::RFLAGS as usize];
        let mut own = Box::new(Image::new());
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
