//! Random operands for any code in the decoder's tables.
//!
//! The operand kinds of a code say what goes where: a register of which class, a memory operand,
//! an immediate of which width. On top come lock and rep prefixes and the EVEX decorations:
//! opmask, zeroing, broadcast, rounding, suppressed exceptions.
//!
//! Invariant: an instruction from here encodes, and writes no register its case has reserved.

use super::assembly::instruction_bytes;
use super::catalogue::is_vector_indexed;
use super::cpu::Cpu;
use super::memory::{Segments, address_operand, unaccessed_operand};
use super::random::Random;
use super::registers::{dword, wide, word};
use super::requirements::{
    accesses_nothing, has_distinct_registers, is_bit_test, required_alignment, takes_override,
};
use super::setting::{Hazards, Setting};
use super::state::{DWORD_INDICES, QWORD_INDICES};
use iced_x86::{
    Code, EncodingKind, Instruction, InstructionInfoFactory, OpAccess, OpCodeInfo,
    OpCodeOperandKind, OpKind, Register, RoundingControl,
};

/// How often a random instruction is thrown away before its code is given up.
const ATTEMPTS: usize = 40;

/// How operands of a case are chosen.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Segment overrides of memory operands.
    pub segments: Segments,
    /// Percentage of lockable instructions with memory operands that get a lock prefix.
    pub locked: u64,
    /// Percentage of operands that are in memory, where a register would do.
    pub in_memory: u64,
    /// Whether memory operands may fault on purpose.
    pub hazards: Hazards,
    /// Whether x87 instruction and operand pointers stay in stored images. A translator runs the
    /// code elsewhere, so only a test of just that keeps them.
    pub x87_pointers: bool,
}

/// Makes operands within one case.
pub struct Operands<'a> {
    /// The processor.
    pub cpu: &'a Cpu,
    /// The source of all choices.
    pub random: &'a mut Random,
    /// The registers the case starts with.
    pub setting: &'a mut Setting,
    /// What operands look like.
    pub style: Style,
    info: InstructionInfoFactory,
}

impl<'a> Operands<'a> {
    /// Makes operands for a case that starts with `setting`.
    pub fn new(
        cpu: &'a Cpu,
        random: &'a mut Random,
        setting: &'a mut Setting,
        style: Style,
    ) -> Operands<'a> {
        Operands { cpu, random, setting, style, info: InstructionInfoFactory::new() }
    }

    /// A random instruction with this code, if one can be found that leaves reserved registers alone.
    pub fn instruction(&mut self, code: Code) -> Option<Instruction> {
        (0..ATTEMPTS).find_map(|_| {
            let instruction = self.attempt(code)?;
            (self.is_encodable(&instruction) && self.keeps_reserved(&instruction))
                .then_some(instruction)
        })
    }

    /// Whether the encoder accepts `instruction`.
    pub fn is_encodable(&self, instruction: &Instruction) -> bool {
        instruction_bytes(&[], instruction, self.setting.layout.code).is_ok()
    }

    /// An address for an access of `size` bytes that suits the case.
    pub fn address(&mut self, size: u64, alignment: u64) -> u64 {
        let hazardous = self.style.hazards == Hazards::Memory && self.random.percent(55);
        let address = if hazardous {
            self.setting.hazardous_address(self.random, size)
        } else if self.random.percent(15) {
            let crossing = self.random.between(0, size.clamp(1, 64) as i64 + 1);
            self.setting.layout.middle().wrapping_add_signed(-crossing)
        } else {
            self.setting.near_middle(self.random, 700)
        };
        if hazardous && self.random.percent(20) { address } else { address & !(alignment - 1) }
    }

    /// Gives `instruction` a memory operand at `address`, in a random form.
    pub fn set_address(&mut self, instruction: &mut Instruction, address: u64) {
        let wild = self.setting.wild.filter(|_| self.random.percent(30));
        if let Some(register) = wild {
            instruction.set_memory_base(wide(register));
            instruction.set_memory_index_scale(1);
            instruction.set_memory_displ_size(1);
            instruction.set_memory_displacement64(self.random.below(100));
        } else {
            address_operand(self.random, self.setting, self.style.segments, instruction, address);
        }
    }

    fn attempt(&mut self, code: Code) -> Option<Instruction> {
        let info = code.op_code();
        let mut instruction = Instruction::default();
        instruction.set_code(code);
        let in_memory = self.random.percent(self.style.in_memory);
        let broadcast = info.can_broadcast() && self.random.percent(30);
        for operand in 0..info.op_count() {
            self.set_operand(&mut instruction, info, operand, in_memory, broadcast)?;
        }
        self.decorate(&mut instruction, info);
        has_distinct_registers(&instruction, info).then_some(instruction)
    }

    fn set_operand(
        &mut self,
        instruction: &mut Instruction,
        info: &OpCodeInfo,
        operand: u32,
        in_memory: bool,
        broadcast: bool,
    ) -> Option<()> {
        use OpCodeOperandKind::*;
        let kind = info.op_kind(operand);
        if is_vector_indexed(&kind) {
            self.set_vector_indexed(instruction, info, operand, kind);
            return Some(());
        }
        let may_be_memory = matches!(
            kind,
            r8_or_mem
                | r16_or_mem
                | r32_or_mem
                | r64_or_mem
                | mm_or_mem
                | xmm_or_mem
                | ymm_or_mem
                | zmm_or_mem
                | k_or_mem
        );
        if kind == mem || may_be_memory && in_memory {
            self.set_memory(instruction, info, operand, broadcast && may_be_memory);
            return Some(());
        }
        // A bit offset in a register reaches 2^60 bytes far; the small index does not.
        let bit_offset =
            is_bit_test(info.code()) && operand == 1 && instruction.op0_kind() == OpKind::Memory;
        let register = match kind {
            r16_reg if bit_offset => Some(word(self.setting.index)),
            r32_reg if bit_offset => Some(dword(self.setting.index)),
            r64_reg if bit_offset => Some(wide(self.setting.index)),
            _ => self.register(info, kind),
        };
        if let Some(register) = register {
            instruction.set_op_kind(operand, OpKind::Register);
            instruction.set_op_register(operand, register);
            return Some(());
        }
        let second = operand > 0
            && (0..operand)
                .any(|earlier| info.op_kind(earlier) == imm8 || info.op_kind(earlier) == imm16);
        let narrow = self.setting.layout.is_low && self.random.percent(10);
        match kind {
            imm8 if second => {
                instruction.set_op_kind(operand, OpKind::Immediate8_2nd);
                instruction.set_immediate8_2nd(self.random.word() as u8);
            }
            imm8 => {
                instruction.set_op_kind(operand, OpKind::Immediate8);
                instruction.set_immediate8(self.random.word() as u8);
            }
            imm8_const_1 => {
                instruction.set_op_kind(operand, OpKind::Immediate8);
                instruction.set_immediate8(1);
            }
            imm8sex16 => {
                instruction.set_op_kind(operand, OpKind::Immediate8to16);
                instruction.set_immediate8to16(i16::from(self.random.word() as i8));
            }
            imm8sex32 => {
                instruction.set_op_kind(operand, OpKind::Immediate8to32);
                instruction.set_immediate8to32(i32::from(self.random.word() as i8));
            }
            imm8sex64 => {
                instruction.set_op_kind(operand, OpKind::Immediate8to64);
                instruction.set_immediate8to64(i64::from(self.random.word() as i8));
            }
            imm16 => {
                instruction.set_op_kind(operand, OpKind::Immediate16);
                instruction.set_immediate16(self.random.word() as u16);
            }
            imm32 => {
                instruction.set_op_kind(operand, OpKind::Immediate32);
                instruction.set_immediate32(self.random.word() as u32);
            }
            imm32sex64 => {
                instruction.set_op_kind(operand, OpKind::Immediate32to64);
                instruction.set_immediate32to64(i64::from(self.random.word() as i32));
            }
            imm64 => {
                instruction.set_op_kind(operand, OpKind::Immediate64);
                instruction.set_immediate64(self.random.word());
            }
            seg_rSI => instruction.set_op_kind(
                operand,
                if narrow { OpKind::MemorySegESI } else { OpKind::MemorySegRSI },
            ),
            es_rDI => instruction.set_op_kind(
                operand,
                if narrow { OpKind::MemoryESEDI } else { OpKind::MemoryESRDI },
            ),
            seg_rDI => instruction.set_op_kind(
                operand,
                if narrow { OpKind::MemorySegEDI } else { OpKind::MemorySegRDI },
            ),
            seg_rBX_al => {
                instruction.set_op_kind(operand, OpKind::Memory);
                instruction.set_memory_base(if narrow { Register::EBX } else { Register::RBX });
                instruction.set_memory_index(Register::AL);
            }
            mem_offs => {
                instruction.set_op_kind(operand, OpKind::Memory);
                let address = self.address(info.memory_size().size() as u64, 1);
                instruction.set_memory_displ_size(if narrow { 4 } else { 8 });
                instruction.set_memory_displacement64(address);
            }
            _ => return Option::None,
        }
        Some(())
    }

    fn set_memory(
        &mut self,
        instruction: &mut Instruction,
        info: &OpCodeInfo,
        operand: u32,
        broadcast: bool,
    ) {
        instruction.set_op_kind(operand, OpKind::Memory);
        if accesses_nothing(info.code()) {
            let is_low = self.setting.layout.is_low;
            unaccessed_operand(self.random, is_low, instruction);
            return;
        }
        instruction.set_is_broadcast(broadcast);
        let memory_size = if broadcast { info.broadcast_memory_size() } else { info.memory_size() };
        let size = memory_size.size() as u64;
        let alignment = required_alignment(info.code(), size);
        // A few misaligned operands even where that faults: the fault must look the same.
        let alignment = if alignment > 1 && self.random.percent(3) { 1 } else { alignment };
        let address = self.address(size, alignment);
        self.set_address(instruction, address);
    }

    fn set_vector_indexed(
        &mut self,
        instruction: &mut Instruction,
        info: &OpCodeInfo,
        operand: u32,
        kind: OpCodeOperandKind,
    ) {
        use OpCodeOperandKind::*;
        let numbers = if info.encoding() == EncodingKind::EVEX { 4 } else { 2 };
        let dwords = self.random.pick(&DWORD_INDICES[..numbers]) as u32;
        let qwords = self.random.pick(&QWORD_INDICES[..numbers]) as u32;
        let index = match kind {
            mem_vsib32x => Register::XMM0 + dwords,
            mem_vsib32y => Register::YMM0 + dwords,
            mem_vsib32z => Register::ZMM0 + dwords,
            mem_vsib64x => Register::XMM0 + qwords,
            mem_vsib64y => Register::YMM0 + qwords,
            _ => Register::ZMM0 + qwords,
        };
        let pointer = self.random.pick(&self.setting.pointers);
        let address = self.address(64, 1);
        instruction.set_op_kind(operand, OpKind::Memory);
        instruction.set_memory_base(wide(pointer));
        instruction.set_memory_index(index);
        instruction.set_memory_index_scale(self.random.pick(&[1, 2, 4, 8]));
        instruction.set_memory_displ_size(1);
        instruction
            .set_memory_displacement64(address.wrapping_sub(self.setting.registers[pointer]));
    }

    fn register(&mut self, info: &OpCodeInfo, kind: OpCodeOperandKind) -> Option<Register> {
        use OpCodeOperandKind::*;
        let general = self.random.below(16) as u32;
        let vectors = if info.encoding() == EncodingKind::EVEX { 32 } else { 16 };
        let vector = self.random.below(vectors) as u32;
        let small = self.random.below(8) as u32;
        Some(match kind {
            r8_or_mem | r8_reg | r8_opcode => Register::AL + self.random.below(20) as u32,
            r16_or_mem | r16_reg | r16_rm | r16_opcode => Register::AX + general,
            r32_or_mem | r32_reg | r32_rm | r32_opcode | r32_vvvv => Register::EAX + general,
            r64_or_mem | r64_reg | r64_rm | r64_opcode | r64_vvvv => Register::RAX + general,
            r16_reg_mem => word(self.random.pick(&self.setting.pointers)),
            r32_reg_mem => dword(self.random.pick(&self.setting.pointers)),
            r64_reg_mem => wide(self.random.pick(&self.setting.pointers)),
            seg_reg => Register::ES + self.random.below(6) as u32,
            k_or_mem | k_reg | k_rm | k_vvvv => Register::K0 + small,
            kp1_reg => Register::K0 + (small & !1),
            mm_or_mem | mm_reg | mm_rm => Register::MM0 + small,
            xmm_or_mem | xmm_reg | xmm_rm | xmm_vvvv | xmm_is4 | xmm_is5 => Register::XMM0 + vector,
            ymm_or_mem | ymm_reg | ymm_rm | ymm_vvvv | ymm_is4 | ymm_is5 => Register::YMM0 + vector,
            zmm_or_mem | zmm_reg | zmm_rm | zmm_vvvv => Register::ZMM0 + vector,
            cr_reg => self.random.pick(&[
                Register::CR0,
                Register::CR2,
                Register::CR3,
                Register::CR4,
                Register::CR8,
            ]),
            dr_reg => {
                self.random.pick(&[Register::DR0, Register::DR3, Register::DR6, Register::DR7])
            }
            es => Register::ES,
            cs => Register::CS,
            ss => Register::SS,
            ds => Register::DS,
            fs => Register::FS,
            gs => Register::GS,
            al => Register::AL,
            cl => Register::CL,
            ax => Register::AX,
            dx => Register::DX,
            eax => Register::EAX,
            rax => Register::RAX,
            st0 => Register::ST0,
            sti_opcode => Register::ST0 + small,
            _ => return Option::None,
        })
    }

    fn decorate(&mut self, instruction: &mut Instruction, info: &OpCodeInfo) {
        let has_memory = (0..instruction.op_count())
            .any(|operand| instruction.op_kind(operand) == OpKind::Memory);
        let stores = instruction.op0_kind() == OpKind::Memory;
        if info.can_use_lock_prefix() && stores && self.random.percent(self.style.locked) {
            instruction.set_has_lock_prefix(true);
            if info.can_use_xacquire_prefix() && self.random.percent(5) {
                instruction.set_has_xacquire_prefix(true);
            }
        }
        if info.code().is_string_instruction() {
            match self.random.below(5) {
                0 | 1 if info.can_use_rep_prefix() => instruction.set_has_rep_prefix(true),
                2 if info.can_use_repne_prefix() => instruction.set_has_repne_prefix(true),
                3 if info.can_use_rep_prefix() => instruction.set_has_rep_prefix(true),
                _ => {}
            }
        }
        if info.op_kinds().iter().any(|kind| takes_override(*kind)) {
            self.override_segment(instruction);
        }
        if info.encoding() != EncodingKind::EVEX {
            return;
        }
        let masked = info.require_op_mask_register()
            || info.can_use_op_mask_register() && self.random.percent(65);
        if masked {
            instruction.set_op_mask(Register::K1 + self.random.below(7) as u32);
            if info.can_use_zeroing_masking() && !stores && self.random.percent(40) {
                instruction.set_zeroing_masking(true);
            }
        }
        if !has_memory && info.can_use_rounding_control() && self.random.percent(30) {
            use RoundingControl::*;
            instruction.set_rounding_control(self.random.pick(&[
                RoundToNearest,
                RoundDown,
                RoundUp,
                RoundTowardZero,
            ]));
        } else if !has_memory && info.can_suppress_all_exceptions() && self.random.percent(30) {
            instruction.set_suppress_all_exceptions(true);
        }
    }

    /// An implicit operand keeps its address only if the segment's base is small.
    fn override_segment(&mut self, instruction: &mut Instruction) {
        let Segments { fs, gs } = self.style.segments;
        if self.setting.fs_base < 0x1000 && self.random.percent(fs) {
            instruction.set_segment_prefix(Register::FS);
        } else if self.setting.gs_base < 0x1000 && self.random.percent(gs) {
            instruction.set_segment_prefix(Register::GS);
        }
    }

    fn keeps_reserved(&mut self, instruction: &Instruction) -> bool {
        let owns_stack = instruction.is_stack_instruction();
        let owns_counters = instruction.is_string_instruction();
        let info = self.info.info(instruction);
        let names_and_writes = |register: Register| {
            (0..instruction.op_count()).any(|operand| {
                instruction.op_kind(operand) == OpKind::Register
                    && writes(info.op_access(operand))
                    && instruction.op_register(operand).full_register() == register
            })
        };
        info.used_registers().iter().all(|used| {
            let full = used.register().full_register();
            !writes(used.access())
                || !self.setting.reserved.contains(full)
                || owns_stack
                    && matches!(full, Register::RSP | Register::RBP)
                    && !names_and_writes(full)
                || owns_counters && matches!(full, Register::RSI | Register::RDI | Register::RCX)
        })
    }
}

/// Whether an access may change its operand.
fn writes(access: OpAccess) -> bool {
    !matches!(access, OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess)
}
