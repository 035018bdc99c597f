//! Liveness: what instrumentation in front of a guest instruction may destroy.
//!
//! A value is dead only if nobody can see it any more. A compiler looks for the next read; here a signal
//! handler sees everything at every instruction boundary, and a fault shows the state before the faulting
//! instruction. So the only instruction that can kill a value is the very next one, if it overwrites the
//! value without reading it and cannot fault. Instrumentation that destroys something dead is joined with
//! that instruction in the map, so that no boundary lies between them.

use super::operand::{GprSet, iced_register};
use crate::context::Gpr;
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, RflagsBits};

/// What the next instruction overwrites before anybody can look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dead {
    /// All six arithmetic flags.
    pub flags: bool,
    /// General-purpose registers.
    pub registers: GprSet,
}

/// The arithmetic flags.
pub const ARITHMETIC: u32 = RflagsBits::OF
    | RflagsBits::SF
    | RflagsBits::ZF
    | RflagsBits::AF
    | RflagsBits::CF
    | RflagsBits::PF;

/// Whether all arithmetic flags are dead in front of an instruction. Cheap: table look-ups only.
pub fn flags_dead_before(guest: &Instruction) -> bool {
    // A flag that is undefined afterwards may simply stay as it was.
    let defined = guest.rflags_written() | guest.rflags_cleared() | guest.rflags_set();
    defined & ARITHMETIC == ARITHMETIC && guest.rflags_read() & ARITHMETIC == 0 && !can_fault(guest)
}

/// All that is dead in front of an instruction.
pub fn dead_before(info: &mut InstructionInfoFactory, guest: &Instruction) -> Dead {
    let mut dead = Dead { flags: flags_dead_before(guest), registers: GprSet::default() };
    // Only what always writes: other instructions that are said to write a register may leave it alone, as
    // `rdssp` does where there is no shadow stack and `bsf` does for zero.
    use Mnemonic::{Lea, Mov, Movsx, Movsxd, Movzx};
    if can_fault(guest) || !matches!(guest.mnemonic(), Mov | Movzx | Movsx | Movsxd | Lea) {
        return dead;
    }
    let mut read = GprSet::default();
    for used in info.info(guest).used_registers() {
        let register = used.register();
        if !register.is_gpr() {
            continue;
        }
        // A 32-bit write clears the upper half; narrower ones keep the rest of the register alive.
        let whole = register.size() >= 4 && used.access() == OpAccess::Write;
        if whole { dead.registers.add(register) } else { read.add(register) }
    }
    dead.registers.0 &= !read.0;
    // The stack pointer is never anybody's scratch.
    let mut stack = GprSet::default();
    stack.add(iced_register(Gpr::Rsp));
    dead.registers.0 &= !stack.0;
    dead
}

/// Whether an instruction can fault, trap or leave: anything but plain register arithmetic.
fn can_fault(guest: &Instruction) -> bool {
    guest.is_invalid()
        || guest.flow_control() != FlowControl::Next
        || guest.is_stack_instruction()
        || guest.is_privileged()
        || guest.is_string_instruction()
        || (0..guest.op_count()).any(|i| is_memory(guest, i) && guest.mnemonic() != Mnemonic::Lea)
        || !is_integer(guest)
        || matches!(
            guest.mnemonic(),
            Mnemonic::Div | Mnemonic::Idiv | Mnemonic::Ud0 | Mnemonic::Ud1
        )
}

fn is_memory(guest: &Instruction, operand: u32) -> bool {
    use iced_x86::OpKind::*;
    matches!(
        guest.op_kind(operand),
        Memory
            | MemorySegSI
            | MemorySegESI
            | MemorySegRSI
            | MemorySegDI
            | MemorySegEDI
            | MemorySegRDI
            | MemoryESDI
            | MemoryESEDI
            | MemoryESRDI
    )
}

/// Only general-purpose registers and immediates: vector instructions can raise floating-point exceptions.
fn is_integer(guest: &Instruction) -> bool {
    guest.op_count() > 0
        && (0..guest.op_count()).all(|operand| {
            guest.op_kind(operand) != iced_x86::OpKind::Register
                || guest.op_register(operand).is_gpr()
        })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use iced_x86::code_asm::*;
    use std::vec::Vec;

    fn assembled(build: impl Fn(&mut CodeAssembler)) -> Instruction {
        let mut assembler = CodeAssembler::new(64).unwrap();
        build(&mut assembler);
        let instructions: Vec<_> = assembler.instructions().to_vec();
        assert_eq!(instructions.len(), 1);
        instructions[0]
    }

    fn check(build: impl Fn(&mut CodeAssembler), flags: bool, registers: &[Gpr]) {
        let guest = assembled(build);
        let mut expected = GprSet::default();
        for &register in registers {
            expected.add(iced_register(register));
        }
        let found = dead_before(&mut InstructionInfoFactory::new(), &guest);
        assert_eq!(found, Dead { flags, registers: expected }, "{guest:?}");
    }

    #[test]
    fn what_the_next_instruction_kills() {
        check(|a| a.mov(rax, rbx).unwrap(), false, &[Gpr::Rax]);
        check(|a| a.mov(eax, ebx).unwrap(), false, &[Gpr::Rax]);
        check(|a| a.mov(ax, bx).unwrap(), false, &[]);
        check(|a| a.add(rax, rbx).unwrap(), true, &[]);
        check(|a| a.cmp(rax, rbx).unwrap(), true, &[]);
        check(|a| a.lea(rcx, ptr(rax + rbx * 4)).unwrap(), false, &[Gpr::Rcx]);
        check(|a| a.lea(rax, ptr(rax + 8)).unwrap(), false, &[]);
    }

    #[test]
    fn what_stays_alive() {
        // Reads a flag, or leaves some alone.
        check(|a| a.adc(rax, rbx).unwrap(), false, &[]);
        check(|a| a.inc(rax).unwrap(), false, &[]);
        check(|a| a.xor(eax, eax).unwrap(), false, &[]);
        check(|a| a.rdsspq(rax).unwrap(), false, &[]);
        check(|a| a.bsf(rax, rbx).unwrap(), false, &[]);
        check(|a| a.shl(rax, cl).unwrap(), false, &[]);
        check(|a| a.shl(rax, 0u32).unwrap(), false, &[]);
        // Can fault: the state before it is seen.
        check(|a| a.mov(rax, ptr(rbx)).unwrap(), false, &[]);
        check(|a| a.add(rax, ptr(rbx)).unwrap(), false, &[]);
        check(|a| a.div(rbx).unwrap(), false, &[]);
        check(|a| a.pop(rbx).unwrap(), false, &[]);
        // Leaves.
        check(|a| a.ret().unwrap(), false, &[]);
        check(|a| a.ucomisd(xmm0, xmm1).unwrap(), false, &[]);
    }
}
