//! Flags: which of them matter where, and keeping those that do over a comparison.

use super::{ARITHMETIC, SavedFlags, Weaver};
use crate::context::Gpr;
use crate::translate::address::{Address, Operation, Segment};
use crate::translate::classify::{Class, classify};
use crate::translate::operand::GprSet;
use crate::translate::output::Output;
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, RflagsBits};

/// Flags that an instruction surely overwrites.
pub(super) fn overwritten(guest: &Instruction) -> u32 {
    let defined = defined_flags(guest);
    use Mnemonic::{And, Andn, Or, Test, Xor};
    let logical = matches!(guest.mnemonic(), And | Or | Xor | Test | Andn);
    if logical && logic_overwrites_adjust() { defined | RflagsBits::AF } else { defined }
}

/// Manuals leave AF undefined after logical instructions. Processors clear it; this one was asked whether it
/// depends on what AF was.
fn logic_overwrites_adjust() -> bool {
    use core::sync::atomic::{AtomicU8, Ordering};
    const UNKNOWN: u8 = 2;
    static KNOWN: AtomicU8 = AtomicU8::new(UNKNOWN);
    let known = KNOWN.load(Ordering::Relaxed);
    if known != UNKNOWN {
        return known != 0;
    }
    let adjust_after = |before: u16| {
        let (mut test, mut and, mut or, mut xor) = (before, before, before, before);
        // SAFETY: changes flags and the registers named.
        unsafe {
            core::arch::asm!(
                "mov ax, {0:x}", "sahf", "test ecx, ecx", "lahf", "mov {0:x}, ax",
                "mov ax, {1:x}", "sahf", "and ecx, ecx", "lahf", "mov {1:x}, ax",
                "mov ax, {2:x}", "sahf", "or ecx, ecx", "lahf", "mov {2:x}, ax",
                "mov ax, {3:x}", "sahf", "xor ecx, ecx", "lahf", "mov {3:x}, ax",
                inout(reg) test, inout(reg) and, inout(reg) or, inout(reg) xor,
                out("rax") _, inout("rcx") 0x5a5au64 => _, options(nomem, nostack),
            );
        }
        [test, and, or, xor].map(|ax| ax & 0x1000)
    };
    let independent = adjust_after(0x1200) == adjust_after(0x0200);
    KNOWN.store(independent as u8, Ordering::Relaxed);
    independent
}

fn defined_flags(guest: &Instruction) -> u32 {
    let written =
        (guest.rflags_written() | guest.rflags_cleared() | guest.rflags_set()) & ARITHMETIC;
    use Mnemonic::{Rcl, Rcr, Rol, Ror, Sal, Sar, Shl, Shld, Shr, Shrd};
    if matches!(guest.mnemonic(), Rcl | Rcr | Rol | Ror | Sal | Sar | Shl | Shld | Shr | Shrd) {
        // A count of zero changes nothing, be it zero only after it is cut to the operand's size; beyond one,
        // OF is anybody's guess.
        let last = guest.op_count() - 1;
        let count = match guest.op_kind(last) {
            OpKind::Immediate8 => guest.immediate8() & 0x1f,
            _ => 0,
        };
        let through_carry = matches!(guest.mnemonic(), Rcl | Rcr);
        return match count {
            0 => 0,
            1 => written,
            _ if through_carry => 0,
            _ => written & !RflagsBits::OF,
        };
    }
    if guest.is_string_instruction() {
        return 0;
    }
    written
}

/// Flags that matter in front of an instruction, if `after` matter behind it.
pub fn live_before(guest: &Instruction, after: u32) -> u32 {
    match classify(guest) {
        Class::Plain if guest.flow_control() == FlowControl::Next => {
            after & !overwritten(guest) | read(guest)
        }
        Class::Jump | Class::Call => after,
        Class::Conditional => after | read(guest),
        // Leaves for the engine, or for nobody knows where.
        _ => ARITHMETIC,
    }
}

/// Flags that matter at the start of some code, as far as it is given.
pub fn live_at(code: &[Instruction]) -> u32 {
    // Behind a jump anything may come.
    let straight = code.iter().position(|g| g.flow_control() != FlowControl::Next);
    let (code, end) = match straight {
        Some(end) => (&code[..end], live_before(&code[end], ARITHMETIC)),
        None => (code, ARITHMETIC),
    };
    code.iter().rev().fold(end, |after, guest| live_before(guest, after))
}

fn read(guest: &Instruction) -> u32 {
    guest.rflags_read() & ARITHMETIC
}

/// Whether an instruction may change flags. A rotation through carry by the operand's whole size is said not to,
/// but processors change OF then.
fn modifies(guest: &Instruction) -> bool {
    guest.rflags_modified() & ARITHMETIC != 0
        || matches!(guest.mnemonic(), Mnemonic::Rcl | Mnemonic::Rcr)
}

impl Weaver {
    /// rcx as scratch for a comparison that leaves flags alone, where that is cheaper than saving them.
    pub(super) fn flagless(&mut self, out: &mut Output) -> bool {
        let live = self.live[self.index] != 0 || self.settings.precise && self.wrong == 0;
        if !live || self.saved.is_some() || self.used.contains(Gpr::Rcx) {
            return false;
        }
        match self.held[0] {
            Some(held) => held.register == Gpr::Rcx,
            None => self.scratch(out, 0, GprSet::default()) == Gpr::Rcx,
        }
    }

    /// `mov rcx, gs:[X]; not rcx; lea rcx, [rcx + r + 1]; jrcxz same; jmp slow`, with `r` zero-extended.
    pub(super) fn compare_flagless(
        &mut self,
        out: &mut Output,
        register: Gpr,
        size: usize,
        shadow: &Address,
    ) {
        out.memory(Operation::Load, size, Gpr::Rcx, Segment::Gs, shadow);
        out.raw(&[0x48, 0xf7, 0xd1]);
        let sum = Address {
            base: Some(register),
            index: Some((Gpr::Rcx, 0)),
            displacement: 1,
            narrow: false,
        };
        out.memory(Operation::Lea, 8, Gpr::Rcx, Segment::Flat, &sum);
        let same = out.jump_if_rcx_zero();
        let slow = out.cold.next_address();
        out.jump_to(slow);
        out.bind(same);
    }

    /// The next emitted instruction may destroy all arithmetic flags.
    pub(super) fn destroy_flags(&mut self, out: &mut Output) {
        if self.wrong == ARITHMETIC && (self.saved.is_some() || self.live[self.index] == 0) {
            return;
        }
        if (self.settings.precise || self.live[self.index] != 0) && self.saved.is_none() {
            out.save_flags();
            self.saved = Some(SavedFlags { start: out.here(), wrong: self.wrong });
        }
        self.wrong = ARITHMETIC;
    }

    pub(super) fn restore_flags(&mut self, out: &mut Output) {
        if let Some(saved) = self.saved.take() {
            out.restore_flags();
            out.spilled_flags(saved.start);
            self.wrong = saved.wrong;
        }
    }

    /// Flags behind the present instruction that anybody may look at.
    pub(super) fn observed_behind(&self) -> u32 {
        if self.settings.precise { ARITHMETIC } else { self.live[self.index + 1] }
    }

    /// In front of the guest's own instruction: flags that it reads or keeps must be right.
    pub(super) fn before_own(&mut self, out: &mut Output, guest: &Instruction) {
        let kept = if modifies(guest) { self.observed_behind() & !overwritten(guest) } else { 0 };
        if (read(guest) | kept) & self.wrong != 0 {
            self.restore_flags(out);
        }
    }

    /// Behind the guest's own instruction.
    pub(super) fn after_own(&mut self, out: &mut Output, guest: &Instruction) {
        if !modifies(guest) {
            return;
        }
        self.wrong &= !overwritten(guest);
        if let Some(saved) = self.saved.take() {
            out.spilled_flags(saved.start);
        }
    }
}
