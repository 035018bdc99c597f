//! Control transfers that change more than rip, or less of it: far ones, and near ones that an operand-size
//! prefix truncates.

use super::{
    Done, Stop, address_of, pop, read_bytes, read_register, set_flags, store, write_register,
};
use crate::context::{Context, Gpr};
use iced_x86::{Code, ConditionCode, Instruction, Mnemonic, OpKind, Register};

/// The only code segment of a 64-bit process.
const USER_CS: u64 = 0x33;

pub(super) fn interrupt_return(context: &mut Context, width: u64) -> Done {
    // A nested task cannot return in 64-bit mode.
    const NESTED_TASK: u64 = 0x4000;
    if context.registers.rflags & NESTED_TASK != 0 {
        return Err(Stop::Protection(0));
    }
    let sp = context.registers.get(Gpr::Rsp);
    let mut words = [0u64; 5];
    for (at, word) in words.iter_mut().enumerate() {
        *word = read_bytes(sp.wrapping_add(width * at as u64), width)?;
    }
    let [rip, cs, flags, rsp, _] = words;
    check_code_segment(cs)?;
    context.registers.rip = rip;
    context.registers.set(Gpr::Rsp, rsp);
    set_flags(context, flags, !0);
    Ok(())
}

/// Far transfers stay in the one code segment that a 64-bit process has.
fn check_code_segment(selector: u64) -> Done {
    if selector & 0xffff == USER_CS { Ok(()) } else { Err(Stop::Protection(selector & 0xfffc)) }
}

pub(super) fn far_return(context: &mut Context, decoded: &Instruction) -> Done {
    let (width, extra) = match decoded.code() {
        Code::Retfw => (2, 0),
        Code::Retfw_imm16 => (2, decoded.immediate16()),
        Code::Retfd => (4, 0),
        Code::Retfd_imm16 => (4, decoded.immediate16()),
        Code::Retfq => (8, 0),
        _ => (8, decoded.immediate16()),
    };
    let sp = context.registers.get(Gpr::Rsp);
    let rip = read_bytes(sp, width)?;
    check_code_segment(read_bytes(sp + width, width)?)?;
    context.registers.rip = rip;
    context.registers.set(Gpr::Rsp, sp + 2 * width + extra as u64);
    Ok(())
}

/// `jmp` and `call` through a far pointer in memory.
pub(super) fn far_transfer(context: &mut Context, decoded: &Instruction) -> Done {
    let width = match decoded.code() {
        Code::Jmp_m1616 | Code::Call_m1616 => 2,
        Code::Jmp_m1632 | Code::Call_m1632 => 4,
        Code::Jmp_m1664 | Code::Call_m1664 => 8,
        _ => return Err(Stop::Undefined),
    };
    let address = address_of(context, decoded, 0);
    let rip = read_bytes(address, width)?;
    check_code_segment(read_bytes(address + width, 2)?)?;
    if decoded.mnemonic() == Mnemonic::Call {
        let sp = context.registers.get(Gpr::Rsp).wrapping_sub(2 * width);
        let len = width as usize;
        let back = context.registers.rip.to_le_bytes();
        let mut pushed = [0u8; 16];
        pushed[..len].copy_from_slice(&back[..len]);
        pushed[len..2 * len].copy_from_slice(&USER_CS.to_le_bytes()[..len]);
        store(sp, &pushed[..2 * len])?;
        context.registers.set(Gpr::Rsp, sp);
    }
    context.registers.rip = rip;
    Ok(())
}

/// Near branches with an operand-size prefix, on processors where it truncates rip to 16 bits.
pub(super) fn narrow_branch(context: &mut Context, decoded: &Instruction) -> Done {
    let mask = if decoded.op0_kind() == OpKind::NearBranch16 { 0xffff } else { 0xffff_ffff };
    let target = decoded.near_branch_target() & mask;
    let next = context.registers.rip;
    let taken = match decoded.mnemonic() {
        Mnemonic::Jmp => true,
        Mnemonic::Call => {
            let width = if mask == 0xffff { 2 } else { 4 };
            let sp = context.registers.get(Gpr::Rsp).wrapping_sub(width);
            store(sp, &next.to_le_bytes()[..width as usize])?;
            context.registers.set(Gpr::Rsp, sp);
            true
        }
        Mnemonic::Loop | Mnemonic::Loope | Mnemonic::Loopne => counted(context, decoded),
        Mnemonic::Jcxz => read_register(context, Register::CX) == 0,
        Mnemonic::Jecxz => read_register(context, Register::ECX) == 0,
        Mnemonic::Jrcxz => context.registers.get(Gpr::Rcx) == 0,
        _ => holds(decoded.condition_code(), context.registers.rflags),
    };
    context.registers.rip = if taken { target } else { next };
    Ok(())
}

pub(super) fn is_narrow_indirect(code: Code) -> bool {
    matches!(code, Code::Jmp_rm16 | Code::Jmp_rm32 | Code::Call_rm16 | Code::Call_rm32)
}

/// `jmp` and `call` through a 16-bit register or word in memory.
pub(super) fn narrow_indirect(context: &mut Context, decoded: &Instruction) -> Done {
    let width = if matches!(decoded.code(), Code::Jmp_rm16 | Code::Call_rm16) { 2 } else { 4 };
    let target = if decoded.op0_kind() == OpKind::Register {
        read_register(context, decoded.op0_register())
    } else {
        read_bytes(address_of(context, decoded, 0), width)?
    };
    if decoded.mnemonic() == Mnemonic::Call {
        let sp = context.registers.get(Gpr::Rsp).wrapping_sub(width);
        store(sp, &context.registers.rip.to_le_bytes()[..width as usize])?;
        context.registers.set(Gpr::Rsp, sp);
    }
    context.registers.rip = target;
    Ok(())
}

/// `ret` with an operand-size prefix.
pub(super) fn narrow_return(context: &mut Context, decoded: &Instruction) -> Done {
    let (width, extra) = match decoded.code() {
        Code::Retnw => (2, 0),
        Code::Retnw_imm16 => (2, decoded.immediate16()),
        _ => return Err(Stop::Undefined),
    };
    let target = pop(context, width)?;
    let sp = context.registers.get(Gpr::Rsp).wrapping_add(extra as u64);
    context.registers.set(Gpr::Rsp, sp);
    context.registers.rip = target;
    Ok(())
}

/// Counts down and tells whether a `loop` goes on.
fn counted(context: &mut Context, decoded: &Instruction) -> bool {
    const ZERO: u64 = 0x40;
    // The count's width follows the address-size prefix, which iced shows in the code's name.
    let narrow = matches!(
        decoded.code(),
        Code::Loop_rel8_16_ECX | Code::Loope_rel8_16_ECX | Code::Loopne_rel8_16_ECX
    );
    let register = if narrow { Register::ECX } else { Register::RCX };
    let mask = if narrow { 0xffff_ffff } else { u64::MAX };
    let count = read_register(context, register).wrapping_sub(1) & mask;
    write_register(context, register, count);
    let zero = context.registers.rflags & ZERO != 0;
    count != 0
        && match decoded.mnemonic() {
            Mnemonic::Loope => zero,
            Mnemonic::Loopne => !zero,
            _ => true,
        }
}

/// Whether a condition holds for these flags.
fn holds(condition: ConditionCode, flags: u64) -> bool {
    let bit = |at: u32| flags >> at & 1 != 0;
    let (carry, parity, zero, sign, overflow) = (bit(0), bit(2), bit(6), bit(7), bit(11));
    match condition {
        ConditionCode::o => overflow,
        ConditionCode::no => !overflow,
        ConditionCode::b => carry,
        ConditionCode::ae => !carry,
        ConditionCode::e => zero,
        ConditionCode::ne => !zero,
        ConditionCode::be => carry || zero,
        ConditionCode::a => !carry && !zero,
        ConditionCode::s => sign,
        ConditionCode::ns => !sign,
        ConditionCode::p => parity,
        ConditionCode::np => !parity,
        ConditionCode::l => sign != overflow,
        ConditionCode::ge => sign == overflow,
        ConditionCode::le => zero || sign != overflow,
        ConditionCode::g => !zero && sign == overflow,
        ConditionCode::None => true,
    }
}
