//! Which of the equations an instruction is woven by.

use super::flags::overwritten;
use super::{ARITHMETIC, Weaver};
use crate::context::Gpr;
use crate::translate::operand::{OperandRewriter, gpr_of};
use iced_x86::{Code, CpuidFeature, Instruction, Mnemonic, OpAccess, OpKind, Register};

/// The forms of translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    NoMemory,
    /// Into a general-purpose register that can be compared afterwards.
    Load(Gpr, usize),
    Read(usize),
    Store,
    StoreThenCopy(usize),
    Modify(usize),
    ModifyWithFlags(usize),
    LockedModify(usize),
    CompareExchange(usize),
    ExchangeAdd(usize),
    Exchange(usize),
    PushRegister(Gpr),
    PushImmediate(i32),
    PushMemory,
    PushFlags,
    Pop(Gpr),
    Leave,
    SetFsBase,
    Engine,
}

pub(super) fn has_high_byte(guest: &Instruction) -> bool {
    (0..guest.op_count())
        .any(|i| guest.op_kind(i) == OpKind::Register && is_high_byte(guest.op_register(i)))
}

pub(super) fn is_high_byte(register: Register) -> bool {
    matches!(register, Register::AH | Register::BH | Register::CH | Register::DH)
}

/// Sizes that pieces of 8, 4, 2 and 1 bytes cover well.
pub fn is_plain_size(len: usize) -> bool {
    matches!(len, 1 | 2 | 4 | 6 | 8 | 10 | 16 | 32 | 64)
}

/// Whether parts of an instruction's memory operand may not be touched, depending on a mask.
pub fn is_masked(guest: &Instruction) -> bool {
    use Mnemonic::{Vmaskmovpd, Vmaskmovps, Vpmaskmovd, Vpmaskmovq};
    guest.op_mask() != Register::None
        || matches!(guest.mnemonic(), Vmaskmovpd | Vmaskmovps | Vpmaskmovd | Vpmaskmovq)
}

pub(super) fn is_x87(guest: &Instruction) -> bool {
    guest.cpuid_features().contains(&CpuidFeature::FPU)
}

pub(super) fn exchanged(guest: &Instruction) -> Register {
    if guest.op0_kind() == OpKind::Register { guest.op0_register() } else { guest.op1_register() }
}

pub(super) fn is_conditional_move(guest: &Instruction) -> bool {
    use Mnemonic::*;
    matches!(
        guest.mnemonic(),
        Cmova
            | Cmovae
            | Cmovb
            | Cmovbe
            | Cmove
            | Cmovg
            | Cmovge
            | Cmovl
            | Cmovle
            | Cmovne
            | Cmovno
            | Cmovnp
            | Cmovns
            | Cmovo
            | Cmovp
            | Cmovs
    )
}

/// Whether the engine executes an instruction as a whole.
pub fn is_repeated_string(guest: &Instruction) -> bool {
    guest.is_string_instruction() && (guest.has_rep_prefix() || guest.has_repne_prefix())
}

impl Weaver {
    pub(super) fn form(&self, operands: &mut OperandRewriter, guest: &Instruction) -> Form {
        use Code::*;
        match guest.code() {
            Push_r64 => return Form::PushRegister(gpr_of(guest.op0_register())),
            Push_rm64 if guest.op0_kind() == OpKind::Register => {
                return Form::PushRegister(gpr_of(guest.op0_register()));
            }
            Push_rm64 => return Form::PushMemory,
            Pushq_imm8 => return Form::PushImmediate(guest.immediate8to64() as i32),
            Pushq_imm32 => return Form::PushImmediate(guest.immediate32to64() as i32),
            Pushfq => return Form::PushFlags,
            Pop_r64 => return Form::Pop(gpr_of(guest.op0_register())),
            Pop_rm64 if guest.op0_kind() == OpKind::Register => {
                return Form::Pop(gpr_of(guest.op0_register()));
            }
            Leaveq => return Form::Leave,
            Wrfsbase_r32 | Wrfsbase_r64 => return Form::SetFsBase,
            _ => {}
        }
        if guest.op_count() > 0
            && guest.op0_kind() == OpKind::Register
            && guest.op0_register() == Register::FS
            && guest.mnemonic() == Mnemonic::Mov
        {
            return Form::Engine;
        }
        let (count, access, len, plain) = {
            let memory = operands.accesses(guest);
            match memory {
                [] => return Form::NoMemory,
                [one] => (1, one.access(), one.memory_size().size(), true),
                more => (more.len(), more[0].access(), 0, false),
            }
        };
        if count != 1
            || !plain
            || guest.is_string_instruction()
            || guest.is_stack_instruction()
            || guest.is_vsib()
            || matches!(guest.mnemonic(), Mnemonic::Xlatb | Mnemonic::Lfs)
            || self.careful
            || !is_plain_size(len)
            || !(0..guest.op_count()).any(|i| guest.op_kind(i) == OpKind::Memory)
        {
            return Form::Engine;
        }
        let masked = guest.op_mask() != Register::None;
        match access {
            OpAccess::Read => self.read_form(guest, len),
            OpAccess::CondRead if is_masked(guest) => self.read_form(guest, len),
            OpAccess::CondRead if is_conditional_move(guest) => Form::Read(len),
            OpAccess::Write | OpAccess::CondWrite => self.store_form(operands, guest, len, masked),
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => self.modify_form(guest, len),
            _ => Form::Engine,
        }
    }

    pub(super) fn read_form(&self, guest: &Instruction, len: usize) -> Form {
        use Mnemonic::{Bt, Mov, Movsx, Movsxd, Movzx};
        if guest.mnemonic() == Bt && guest.op1_kind() == OpKind::Register {
            return Form::Engine;
        }
        let to = guest.op0_register();
        if matches!(guest.mnemonic(), Mov | Movzx | Movsx | Movsxd)
            && guest.op0_kind() == OpKind::Register
            && to.is_gpr()
            && !is_high_byte(to)
        {
            let to = gpr_of(to);
            let in_address = |r: Register| r.is_gpr() && gpr_of(r) == to;
            if !in_address(guest.memory_base())
                && !in_address(guest.memory_index())
                && to != Gpr::Rsp
            {
                return Form::Load(to, len);
            }
        }
        Form::Read(len)
    }

    pub(super) fn store_form(
        &self,
        operands: &mut OperandRewriter,
        guest: &Instruction,
        len: usize,
        masked: bool,
    ) -> Form {
        if !is_x87(guest) && !operands.writes_registers(guest) && guest.rflags_modified() == 0 {
            return Form::Store;
        }
        if masked { Form::Engine } else { Form::StoreThenCopy(len) }
    }

    pub(super) fn modify_form(&self, guest: &Instruction, len: usize) -> Form {
        use Mnemonic::*;
        if len > 8
            || has_high_byte(guest)
            || guest.op0_kind() != OpKind::Memory && guest.mnemonic() != Xchg
        {
            return Form::Engine;
        }
        let in_address = |r: Register| {
            let same = |other: Register| other.is_gpr() && gpr_of(other) == gpr_of(r);
            same(guest.memory_base()) || same(guest.memory_index())
        };
        // Computed in a register, flags would have changed already where the store can still fault.
        let modified = guest.rflags_modified() & ARITHMETIC;
        let at_once = self.settings.precise && modified != 0 && overwritten(guest) != ARITHMETIC
            // On a register, flags that the manual leaves undefined may come out otherwise than on memory.
            || guest.rflags_undefined() & self.observed_behind() != 0;
        match guest.mnemonic() {
            Add | Sub | And | Or | Xor | Inc | Dec | Neg | Not if guest.has_lock_prefix() => {
                Form::LockedModify(len)
            }
            Bts | Btr | Btc
                if guest.op1_kind() == OpKind::Immediate8 && guest.has_lock_prefix() =>
            {
                Form::LockedModify(len)
            }
            Inc | Dec | Shl | Sal | Shr | Sar | Rol | Ror | Shld | Shrd if at_once => {
                Form::ModifyWithFlags(len)
            }
            Bts | Btr | Btc if guest.op1_kind() == OpKind::Immediate8 && at_once => {
                Form::ModifyWithFlags(len)
            }
            Add | Sub | And | Or | Xor | Inc | Dec | Neg | Not | Shl | Sal | Shr | Sar | Rol
            | Ror => Form::Modify(len),
            Bts | Btr | Btc if guest.op1_kind() == OpKind::Immediate8 => Form::Modify(len),
            Shld | Shrd => Form::Modify(len),
            Adc | Sbb | Rcl | Rcr => Form::ModifyWithFlags(len),
            Cmpxchg if !in_address(Register::RAX) => Form::CompareExchange(len),
            Xadd if !in_address(guest.op1_register()) => Form::ExchangeAdd(len),
            Xchg => {
                let register = exchanged(guest);
                if in_address(register) { Form::Engine } else { Form::Exchange(len) }
            }
            _ => Form::Engine,
        }
    }
}
