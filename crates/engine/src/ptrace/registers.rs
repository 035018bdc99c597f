//! The guest's registers in a tracee's context, in the forms that `ptrace` has for them.

use super::remote::{self, UserRegisters};
use super::{Traced, changed};
use crate::context::{CONTEXT_SIZE, Context, Gpr, Registers};
use crate::signals::{TRAP_FLAG, ThreadSignals};
use crate::sys::{Errno, Result};
use core::mem::offset_of;
use linux_raw_sys::ptrace as p;
use retro_abi::layout::SHADOW_DISTANCE;

/// Code and stack segment of a 64-bit program.
const USER_CS: u64 = 0x33;
const USER_SS: u64 = 0x2b;

/// Flags that a tracer may change: the arithmetic ones, TF, DF, NT, RF, AC.
const CHANGEABLE_FLAGS: u64 = 0x5_4dd5;

/// Real register number of the FS base.
const FS_BASE: u64 = 21;

/// A context in another process.
#[derive(Clone, Copy, Debug)]
pub struct RemoteContext {
    /// The thread it belongs to.
    pub tid: i32,
    /// Where it is.
    pub address: u64,
}

macro_rules! field {
    ($self:ident, $($field:tt)+) => {
        $self.address + offset_of!(Context, $($field)+) as u64
    };
}

impl RemoteContext {
    pub fn traced(&self) -> Result<Traced> {
        // SAFETY: plain numbers.
        unsafe { remote::read_value(self.tid, field!(self, traced)) }
    }

    pub fn set_traced(&self, traced: &Traced) -> Result<()> {
        remote::write_value(self.tid, field!(self, traced), traced)
    }

    /// Whether there is a context at all: it knows its own address.
    pub fn is_valid(&self) -> bool {
        // SAFETY: a number.
        unsafe { remote::read_value::<u64>(self.tid, field!(self, me)) == Ok(self.address) }
    }

    fn registers(&self) -> Result<Registers> {
        // SAFETY: plain numbers.
        unsafe { remote::read_value(self.tid, field!(self, registers)) }
    }

    pub fn engine_stack(&self) -> Result<u64> {
        // SAFETY: a number.
        unsafe { remote::read_value(self.tid, field!(self, engine_stack)) }
    }

    /// The context of whichever thread of a recorded process runs.
    pub fn running(tid: i32) -> RemoteContext {
        RemoteContext { tid, address: SHADOW_DISTANCE - CONTEXT_SIZE as u64 }
    }

    /// Whether something is pending, as far as the context can be read.
    pub fn is_pending(&self, bits: u32) -> bool {
        self.pending().is_ok_and(|pending| pending & bits != 0)
    }

    pub fn pending(&self) -> Result<u32> {
        // SAFETY: a number.
        unsafe { remote::read_value(self.tid, field!(self, pending)) }
    }

    /// Adds bits to what is pending, and makes sure that a copy of the context follows.
    pub fn add_pending(&self, bits: u32) -> Result<()> {
        remote::write_value(self.tid, field!(self, pending), &(self.pending()? | bits))?;
        let arrivals = field!(self, signals) + offset_of!(ThreadSignals, arrivals) as u64;
        // SAFETY: a number.
        let count: u32 = unsafe { remote::read_value(self.tid, arrivals)? };
        remote::write_value(self.tid, arrivals, &count.wrapping_add(1))
    }

    pub fn set_stepping(&self) -> Result<()> {
        remote::write_value(self.tid, field!(self, stepping), &1u32)
    }

    /// Puts a signal into the place of the one that waits for delivery.
    pub fn set_signal(&self, arrived: &crate::signals::Arrived) -> Result<()> {
        let place = field!(self, signals) + offset_of!(ThreadSignals, pending) as u64;
        remote::write_value(self.tid, place, arrived)
    }

    pub fn mask(&self) -> Result<u64> {
        let place = field!(self, signals) + offset_of!(ThreadSignals, mask) as u64;
        // SAFETY: a number.
        unsafe { remote::read_value(self.tid, place) }
    }

    pub fn set_mask(&self, mask: u64) -> Result<()> {
        let place = field!(self, signals) + offset_of!(ThreadSignals, mask) as u64;
        remote::write_value(self.tid, place, &mask)
    }

    /// All registers as the tracer should see them.
    pub fn user_registers(&self) -> Result<UserRegisters> {
        let registers = self.registers()?;
        let traced = self.traced()?;
        let real = remote::registers(self.tid)?;
        // SAFETY: numbers; the flag is a byte.
        let (gs_base, gs, trap): (u64, u32, u8) = unsafe {
            (
                remote::read_value(self.tid, field!(self, guest_gs_base))?,
                remote::read_value(self.tid, field!(self, guest_gs_selector))?,
                remote::read_value(self.tid, field!(self, guest_trap_flag))?,
            )
        };
        let get = |register: Gpr| registers.get(register);
        Ok(UserRegisters {
            r15: get(Gpr::R15),
            r14: get(Gpr::R14),
            r13: get(Gpr::R13),
            r12: get(Gpr::R12),
            rbp: get(Gpr::Rbp),
            rbx: get(Gpr::Rbx),
            r11: get(Gpr::R11),
            r10: get(Gpr::R10),
            r9: get(Gpr::R9),
            r8: get(Gpr::R8),
            rax: get(Gpr::Rax),
            rcx: get(Gpr::Rcx),
            rdx: get(Gpr::Rdx),
            rsi: get(Gpr::Rsi),
            rdi: get(Gpr::Rdi),
            orig_rax: traced.orig_rax,
            rip: registers.rip,
            cs: USER_CS,
            eflags: registers.rflags & !TRAP_FLAG | if trap != 0 { TRAP_FLAG } else { 0 },
            rsp: get(Gpr::Rsp),
            ss: USER_SS,
            fs_base: real.fs_base,
            gs_base,
            ds: real.ds,
            es: real.es,
            fs: real.fs,
            gs: gs as u64,
        })
    }

    /// Sets all registers.
    pub fn set_user_registers(&self, wanted: &UserRegisters) -> Result<()> {
        if wanted.cs != USER_CS || wanted.ss != USER_SS {
            return Err(Errno::EIO);
        }
        let old = self.user_registers()?;
        let mut registers = self.registers()?;
        let new = [
            (Gpr::R15, wanted.r15),
            (Gpr::R14, wanted.r14),
            (Gpr::R13, wanted.r13),
            (Gpr::R12, wanted.r12),
            (Gpr::Rbp, wanted.rbp),
            (Gpr::Rbx, wanted.rbx),
            (Gpr::R11, wanted.r11),
            (Gpr::R10, wanted.r10),
            (Gpr::R9, wanted.r9),
            (Gpr::R8, wanted.r8),
            (Gpr::Rax, wanted.rax),
            (Gpr::Rcx, wanted.rcx),
            (Gpr::Rdx, wanted.rdx),
            (Gpr::Rsi, wanted.rsi),
            (Gpr::Rdi, wanted.rdi),
            (Gpr::Rsp, wanted.rsp),
        ];
        for (register, value) in new {
            registers.set(register, value);
        }
        registers.rip = wanted.rip;
        let flags = registers.rflags & !CHANGEABLE_FLAGS | wanted.eflags & CHANGEABLE_FLAGS;
        registers.rflags = flags & !TRAP_FLAG;
        remote::write_value(self.tid, field!(self, registers), &registers)?;
        let trap = (wanted.eflags & TRAP_FLAG != 0) as u8;
        remote::write_value(self.tid, field!(self, guest_trap_flag), &trap)?;
        remote::write_value(self.tid, field!(self, guest_gs_base), &wanted.gs_base)?;
        remote::write_value(self.tid, field!(self, guest_gs_selector), &(wanted.gs as u32))?;
        if wanted.fs_base != old.fs_base {
            remote::ptrace(p::PTRACE_POKEUSR, self.tid, FS_BASE * 8, wanted.fs_base)?;
        }
        let mut traced = self.traced()?;
        traced.orig_rax = wanted.orig_rax;
        traced.changed |= changed::REGISTERS;
        self.set_traced(&traced)
    }
}
