//! Instructions that need more than random operands to be worth executing.
//!
//! `popf` of random memory would set the trap flag, `ldmxcsr` of it would fault on reserved bits,
//! `wrfsbase` needs a canonical address: a recipe puts the instructions before, or picks the
//! memory, that make them succeed. All other codes go to [`Operands::instruction`] as they are.
//!
//! Invariant: without hazards, the code that a recipe is for completes without a signal, unless
//! it belongs to the group that always raises one.

use super::assembly::{Item, instruction_bytes};
use super::operands::Operands;
use super::registers::{RCX, dword, wide, word};
use super::setting::{DIRECTION, Hazards};
use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

/// Offset in the scratch template of 16 values for `ldmxcsr`.
pub const MXCSR_SLOTS: u64 = 0xfc0;
/// Offset in the scratch template of 32 values for `fldcw`.
pub const CONTROL_SLOTS: u64 = 0xf80;
/// Offset of a standard-format XSAVE image, in the template of the state tests.
pub const STANDARD_IMAGE: u64 = 0;
/// Offset of a compacted XSAVE image, in the template of the state tests.
pub const COMPACTED_IMAGE: u64 = 0x1580;
/// Bytes that each image may take.
pub const IMAGE_ROOM: u64 = 0xa80;
/// Offset of the first of three places where a whole image fits between the two.
const IMAGE_TARGET: u64 = STANDARD_IMAGE + IMAGE_ROOM;

/// Flags that `popf` may set to anything without a signal: arithmetic, DF, NT, ID.
const HARMLESS_FLAGS: u64 = 0x20_4cd5 | DIRECTION;

impl Operands<'_> {
    /// Items that execute `code` with random operands.
    pub fn items(&mut self, code: Code) -> Option<Vec<Item>> {
        use Mnemonic::*;
        match code.mnemonic() {
            Popf | Popfq => self.pop_flags(code),
            Enter => self.enter(code),
            Ldmxcsr | Vldmxcsr => self.load_from_slots(code, MXCSR_SLOTS, 16, 4),
            Fldcw => self.load_from_slots(code, CONTROL_SLOTS, 32, 2),
            Fnstenv | Fstenv | Fnsave | Fsave => self.store_environment(code),
            Fxsave | Fxsave64 | Xsave | Xsave64 | Xsavec | Xsavec64 | Xsaveopt | Xsaveopt64 => {
                self.store_state(code)
            }
            Fxrstor | Fxrstor64 | Xrstor | Xrstor64 => self.load_state(code),
            Wrfsbase | Wrgsbase => self.write_base(code),
            Cpuid => {
                let leaf =
                    self.random.pick(&[0u32, 0x8000_0000, 0x8000_0002, 0x8000_0003, 0x8000_0004]);
                Some(vec![
                    plain(Instruction::with2(Code::Mov_r32_imm32, Register::EAX, leaf).ok()?),
                    bare(code),
                ])
            }
            Xgetbv => Some(vec![
                plain(Instruction::with2(Code::Mov_r32_imm32, Register::ECX, 0u32).ok()?),
                bare(code),
            ]),
            Syscall => {
                // No such call, a number with garbage above bit 31, and getuid.
                let number = self.random.pick(&[
                    u64::MAX,
                    1000,
                    0x4000_0fff,
                    0x1234_5678_0000_0fff,
                    102,
                    0xabcd_0000_0066,
                ]);
                Some(vec![
                    plain(Instruction::with2(Code::Mov_r64_imm64, Register::RAX, number).ok()?),
                    bare(code),
                ])
            }
            // Never returns, so that it sets the stack pointer is of no consequence.
            Sysexit | Sysexitq => Some(vec![bare(code)]),
            Lsl | Lar | Verr | Verw => self.query_selector(code),
            Int => self.interrupt(code),
            Lfs | Lgs | Lss => self.load_far_pointer(code),
            Cmpxchg | Cmpxchg8b | Cmpxchg16b => self.compare_and_exchange(code),
            _ => match code {
                Code::Mov_Sreg_rm16 | Code::Mov_Sreg_r32m16 | Code::Mov_Sreg_r64m16 => {
                    self.load_selector(code)
                }
                Code::Popw_FS | Code::Popq_FS | Code::Popw_GS | Code::Popq_GS => {
                    let selector = Instruction::with1(Code::Pushq_imm8, 0).ok()?;
                    Some(vec![plain(selector), plain(self.instruction(code)?)])
                }
                _ => {
                    let instruction = self.instruction(code)?;
                    Some(vec![self.perhaps_prefixed(instruction)])
                }
            },
        }
    }

    /// An adjustment of the stack pointer by an ordinary instruction.
    pub fn stack_adjustment(&mut self) -> Option<Vec<Item>> {
        let small = self.random.between(-8, 8) as i32 * 8;
        let pointer = wide(self.random.pick(&self.setting.pointers));
        let instruction = match self.random.below(6) {
            0 => Instruction::with2(Code::Add_rm64_imm8, Register::RSP, small),
            1 => Instruction::with2(Code::Sub_rm64_imm32, Register::RSP, small),
            2 => Instruction::with2(Code::And_rm64_imm8, Register::RSP, -16),
            3 => Instruction::with2(Code::Mov_r64_rm64, Register::RSP, pointer),
            4 => Instruction::with2(Code::Xchg_rm64_r64, Register::RSP, pointer),
            _ => {
                let mut lea = Instruction::default();
                lea.set_code(Code::Lea_r64_m);
                lea.set_op0_register(Register::RSP);
                lea.set_op1_kind(OpKind::Memory);
                lea.set_memory_base(Register::RSP);
                lea.set_memory_displ_size(1);
                lea.set_memory_displacement64(i64::from(small) as u64);
                Ok(lea)
            }
        };
        Some(vec![plain(instruction.ok()?)])
    }

    /// A register that the body may overwrite.
    pub fn free_register(&mut self) -> usize {
        loop {
            let register = self.random.below(16) as usize;
            if !self.setting.reserved.has_general(register) {
                return register;
            }
        }
    }

    /// Adds, now and then, a prefix byte that changes nothing.
    fn perhaps_prefixed(&mut self, instruction: Instruction) -> Item {
        let prefix = self.random.pick(&[0x26, 0x2e, 0x36, 0x3e, 0x66]);
        let decodes_alike = |bytes: &[u8], address: u64| {
            let options = if self.cpu.is_amd { DecoderOptions::AMD } else { DecoderOptions::NONE };
            let mut decoder = Decoder::with_ip(64, bytes, address, options);
            let decoded = decoder.decode();
            decoded.code() == instruction.code()
                && decoded.len() == bytes.len()
                && decoded.memory_base() == instruction.memory_base()
                && decoded.memory_displacement64() == instruction.memory_displacement64()
        };
        let address = self.setting.layout.code;
        if self.random.percent(5)
            && instruction.segment_prefix() == Register::None
            && instruction_bytes(&[prefix], &instruction, address)
                .is_ok_and(|bytes| decodes_alike(&bytes, address))
        {
            Item::Prefixed(prefix, instruction)
        } else {
            plain(instruction)
        }
    }

    fn pop_flags(&mut self, code: Code) -> Option<Vec<Item>> {
        let flags = (0x202 | self.random.bits() & HARMLESS_FLAGS) as i32;
        Some(vec![plain(Instruction::with1(Code::Pushq_imm32, flags).ok()?), bare(code)])
    }

    fn enter(&mut self, code: Code) -> Option<Vec<Item>> {
        let level = if self.random.percent(50) { 0 } else { self.random.below(4) as u32 };
        let frame = self.random.below(48) as u32;
        Some(vec![plain(Instruction::with2(code, frame, level).ok()?)])
    }

    fn load_from_slots(
        &mut self,
        code: Code,
        slots: u64,
        count: u64,
        size: u64,
    ) -> Option<Vec<Item>> {
        let address = self.setting.layout.scratch + slots + self.random.below(count) * size;
        self.at_address(code, address).map(|instruction| vec![plain(instruction)])
    }

    fn store_environment(&mut self, code: Code) -> Option<Vec<Item>> {
        let address = self.address(108, 1);
        let instruction = self.at_address(code, address)?;
        let mut items = vec![plain(instruction)];
        if !self.style.x87_pointers {
            let short = matches!(
                code,
                Code::Fnstenv_m14byte
                    | Code::Fstenv_m14byte
                    | Code::Fnsave_m94byte
                    | Code::Fsave_m94byte
            );
            let blanks: &[(u64, Code)] = if short {
                &[(6, Code::Mov_rm64_imm32)]
            } else {
                &[(12, Code::Mov_rm64_imm32), (20, Code::Mov_rm64_imm32)]
            };
            items.extend(blank(&instruction, blanks));
        }
        Some(items)
    }

    fn store_state(&mut self, code: Code) -> Option<Vec<Item>> {
        let address = if self.style.hazards == Hazards::Memory {
            self.address(512, 64)
        } else {
            self.setting.layout.scratch + IMAGE_TARGET + 64 * self.random.below(3)
        };
        let instruction = self.at_address(code, address)?;
        let mut items = vec![plain(instruction)];
        if !self.style.x87_pointers {
            let blanks =
                [(6, Code::Mov_rm16_imm16), (8, Code::Mov_rm64_imm32), (16, Code::Mov_rm64_imm32)];
            items.extend(blank(&instruction, &blanks));
        }
        Some(items)
    }

    fn load_state(&mut self, code: Code) -> Option<Vec<Item>> {
        let image = self.random.pick(&[STANDARD_IMAGE, COMPACTED_IMAGE]);
        let address = if self.style.hazards == Hazards::Memory {
            self.address(512, 64)
        } else {
            self.setting.layout.scratch + image
        };
        self.at_address(code, address).map(|instruction| vec![plain(instruction)])
    }

    fn write_base(&mut self, code: Code) -> Option<Vec<Item>> {
        let register = self.free_register();
        let is_narrow = matches!(code, Code::Wrfsbase_r32 | Code::Wrgsbase_r32);
        let base = if is_narrow && !self.setting.layout.is_low || self.random.percent(40) {
            self.random.below(64)
        } else {
            self.setting.near_middle(self.random, 300)
        };
        let is_fs = code.mnemonic() == Mnemonic::Wrfsbase;
        let slot = if is_fs { &mut self.setting.fs_base } else { &mut self.setting.gs_base };
        *slot = base;
        let garbage = if is_narrow { self.random.bits() << 32 } else { 0 };
        let operand = if is_narrow { dword(register) } else { wide(register) };
        let load = Instruction::with2(Code::Mov_r64_imm64, wide(register), base | garbage).ok()?;
        Some(vec![plain(load), plain(Instruction::with1(code, operand).ok()?)])
    }

    /// Selectors whose descriptors are the same in every process; the per-CPU one is not.
    fn query_selector(&mut self, code: Code) -> Option<Vec<Item>> {
        let register = self.free_register();
        let selector = self.random.pick(&[0u32, 0x10, 0x18, 0x23, 0x2b, 0x33, 0x40, 0xffff]);
        let load = Instruction::with2(Code::Mov_r32_imm32, dword(register), selector).ok()?;
        let query = (0..100).find_map(|_| {
            let mut query = self.instruction(code)?;
            let source = query.op_count() - 1;
            if query.op_kind(source) == OpKind::Register {
                let width = query.op_register(source).size();
                query.set_op_register(
                    source,
                    [wide(register), dword(register), word(register)][3 - width.ilog2() as usize],
                );
                Some(query)
            } else {
                None
            }
        })?;
        Some(vec![plain(load), plain(query)])
    }

    fn interrupt(&mut self, code: Code) -> Option<Vec<Item>> {
        // Not 0x80, the 32-bit system call, which always faults: a limit that docs/limits.md names.
        let vector = self.random.pick(&[0u32, 1, 3, 4, 6, 13, 14, 0x20, 0x7f, 0x81, 0xff]);
        Some(vec![plain(Instruction::with1(code, vector).ok()?)])
    }

    fn load_far_pointer(&mut self, code: Code) -> Option<Vec<Item>> {
        let address = self.address(10, 1);
        let load = (0..100).find_map(|_| {
            let mut load = self.instruction(code)?;
            self.clear_address(&mut load);
            self.set_address(&mut load, address);
            self.is_encodable(&load).then_some(load)
        })?;
        let offset_size = load.op0_register().size() as u64;
        let selector = if code.mnemonic() == Mnemonic::Lss { 0x2b } else { 0 };
        let mut items = blank(&load, &[(offset_size, Code::Mov_rm16_imm16)]);
        if let Some(Item::Plain(store)) = items.first_mut() {
            store.set_immediate16(selector);
        }
        items.push(plain(load));
        Some(items)
    }

    /// Random values never compare equal; half of the time, load what is there first.
    fn compare_and_exchange(&mut self, code: Code) -> Option<Vec<Item>> {
        let exchange = self.instruction(code)?;
        let loads: &[(Code, Register, u64)] = match code {
            Code::Cmpxchg8b_m64 => {
                &[(Code::Mov_r32_rm32, Register::EAX, 0), (Code::Mov_r32_rm32, Register::EDX, 4)]
            }
            Code::Cmpxchg16b_m128 => {
                &[(Code::Mov_r64_rm64, Register::RAX, 0), (Code::Mov_r64_rm64, Register::RDX, 8)]
            }
            Code::Cmpxchg_rm8_r8 => &[(Code::Mov_r8_rm8, Register::AL, 0)],
            Code::Cmpxchg_rm16_r16 => &[(Code::Mov_r16_rm16, Register::AX, 0)],
            Code::Cmpxchg_rm32_r32 => &[(Code::Mov_r32_rm32, Register::EAX, 0)],
            _ => &[(Code::Mov_r64_rm64, Register::RAX, 0)],
        };
        let mut items = Vec::new();
        if exchange.op0_kind() == OpKind::Memory && self.random.percent(50) {
            items.extend(loads.iter().map(|&(code, register, offset)| {
                let mut load = Instruction::default();
                load.set_code(code);
                load.set_op0_register(register);
                load.set_op1_kind(OpKind::Memory);
                copy_address(&exchange, &mut load, offset);
                plain(load)
            }));
        }
        items.push(plain(exchange));
        Some(items)
    }

    fn load_selector(&mut self, code: Code) -> Option<Vec<Item>> {
        let register = self.free_register();
        let segment = self.random.pick(&[
            Register::ES,
            Register::DS,
            Register::FS,
            Register::GS,
            Register::SS,
        ]);
        let selector = match segment {
            Register::SS => 0x2bu32,
            Register::ES | Register::DS => self.random.pick(&[0, 1, 3, 0x2b]),
            _ => 0,
        };
        let operand = match code {
            Code::Mov_Sreg_rm16 => word(register),
            Code::Mov_Sreg_r32m16 => dword(register),
            _ => wide(register),
        };
        let value = Instruction::with2(Code::Mov_r32_imm32, dword(register), selector).ok()?;
        Some(vec![plain(value), plain(Instruction::with2(code, segment, operand).ok()?)])
    }

    /// An instruction with a single memory operand, at `address`.
    fn at_address(&mut self, code: Code, address: u64) -> Option<Instruction> {
        let mut instruction = Instruction::default();
        instruction.set_code(code);
        instruction.set_op0_kind(OpKind::Memory);
        self.set_address(&mut instruction, address);
        self.is_encodable(&instruction).then_some(instruction)
    }

    fn clear_address(&self, instruction: &mut Instruction) {
        instruction.set_memory_base(Register::None);
        instruction.set_memory_index(Register::None);
        instruction.set_segment_prefix(Register::None);
    }

    /// Whether `rcx` is free to be a loop count.
    pub fn counter_is_free(&self) -> bool {
        !self.setting.reserved.has_general(RCX)
    }
}

/// Stores of zero behind `instruction`'s memory operand.
fn blank(instruction: &Instruction, fields: &[(u64, Code)]) -> Vec<Item> {
    fields
        .iter()
        .map(|&(offset, code)| {
            let mut store = Instruction::default();
            store.set_code(code);
            store.set_op0_kind(OpKind::Memory);
            let is_word = code == Code::Mov_rm16_imm16;
            store.set_op1_kind(if is_word { OpKind::Immediate16 } else { OpKind::Immediate32to64 });
            copy_address(instruction, &mut store, offset);
            plain(store)
        })
        .collect()
}

/// Gives `to` the memory operand of `from`, some bytes further on.
fn copy_address(from: &Instruction, to: &mut Instruction, offset: u64) {
    to.set_segment_prefix(from.segment_prefix());
    to.set_memory_base(from.memory_base());
    to.set_memory_index(from.memory_index());
    to.set_memory_index_scale(from.memory_index_scale());
    let displacement = from.memory_displacement64().wrapping_add(offset);
    let is_narrow = from.memory_base().is_gpr32() || from.memory_index().is_gpr32();
    to.set_memory_displacement64(if is_narrow { displacement & 0xffff_ffff } else { displacement });
    to.set_memory_displ_size(from.memory_displ_size().max(1));
}

/// An item for an instruction without labels.
pub fn plain(instruction: Instruction) -> Item {
    Item::Plain(instruction)
}

/// An item for an instruction without operands.
pub fn bare(code: Code) -> Item {
    Item::Plain(Instruction::with(code))
}
