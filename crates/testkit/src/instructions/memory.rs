//! Memory operands: an effective address first, then a form that reaches it.
//!
//! Since the registers' values are known ([`Setting`]), any address can be reached through any
//! form by solving for the displacement. Every form of 64-bit mode occurs: base, base and index
//! with each scale, index alone, absolute, RIP-relative, through FS and GS, through the stack
//! pointer, and with an address-size prefix.

use super::random::Random;
use super::registers::{RSP, dword, wide};
use super::setting::Setting;
use iced_x86::{Instruction, Register};

/// How an operand addresses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Base,
    BaseIndex,
    RipRelative,
    Stack,
    Segment(Register),
    Absolute,
    Index,
    NarrowBase,
    NarrowBaseIndex,
    NarrowRipRelative,
    NarrowAbsolute,
}

/// Which segment overrides operands may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// Percentage of operands relative to FS.
    pub fs: u64,
    /// Percentage of operands relative to GS.
    pub gs: u64,
}

/// Gives `instruction` a memory operand at `address`.
pub fn address_operand(
    random: &mut Random,
    setting: &Setting,
    segments: Segments,
    instruction: &mut Instruction,
    address: u64,
) {
    let form = choose_form(random, setting, segments);
    let index = random.pick(&[1, 2, 4, 8]);
    let index_value = setting.registers[setting.index];
    let pointer = random.pick(&setting.pointers);
    let pointer_value = setting.registers[pointer];
    instruction.set_memory_index_scale(1);
    match form {
        Form::Base => {
            instruction.set_memory_base(wide(pointer));
            if random.percent(4) {
                // A SIB byte without an index: the longer encoding of the same operand.
                instruction.set_memory_index_scale(2);
            }
            displace(random, instruction, address.wrapping_sub(pointer_value), 8);
        }
        Form::BaseIndex if random.percent(20) => {
            // The pointer as index: scale 1, and the small number as base.
            instruction.set_memory_base(wide(setting.index));
            instruction.set_memory_index(wide(pointer));
            displace(
                random,
                instruction,
                address.wrapping_sub(pointer_value).wrapping_sub(index_value),
                8,
            );
        }
        Form::BaseIndex => {
            instruction.set_memory_base(wide(pointer));
            instruction.set_memory_index(wide(setting.index));
            instruction.set_memory_index_scale(index);
            let scaled = index_value.wrapping_mul(u64::from(index));
            displace(
                random,
                instruction,
                address.wrapping_sub(pointer_value).wrapping_sub(scaled),
                8,
            );
        }
        Form::RipRelative => {
            instruction.set_memory_base(Register::RIP);
            instruction.set_memory_displ_size(8);
            instruction.set_memory_displacement64(address);
        }
        Form::Stack => {
            instruction.set_memory_base(Register::RSP);
            displace(random, instruction, address.wrapping_sub(setting.registers[RSP]), 8);
        }
        Form::Segment(segment) => {
            instruction.set_segment_prefix(segment);
            let base = if segment == Register::FS { setting.fs_base } else { setting.gs_base };
            let offset = address.wrapping_sub(base);
            let register = if base < 0x1000 { pointer } else { setting.index };
            if base >= 0x1000 && random.percent(60) {
                instruction.set_memory_displ_size(8);
                instruction.set_memory_displacement64(offset);
            } else {
                instruction.set_memory_base(wide(register));
                displace(random, instruction, offset.wrapping_sub(setting.registers[register]), 8);
            }
        }
        Form::Absolute => {
            instruction.set_memory_displ_size(8);
            instruction.set_memory_displacement64(address);
        }
        Form::Index => {
            instruction.set_memory_index(wide(setting.index));
            instruction.set_memory_index_scale(index);
            instruction.set_memory_displ_size(8);
            instruction.set_memory_displacement64(
                address.wrapping_sub(index_value.wrapping_mul(u64::from(index))),
            );
        }
        Form::NarrowBase => {
            let base = setting.narrow.unwrap_or(pointer);
            instruction.set_memory_base(dword(base));
            displace(random, instruction, narrow(address.wrapping_sub(setting.registers[base])), 4);
        }
        Form::NarrowBaseIndex => {
            let base = setting.narrow.unwrap_or(pointer);
            instruction.set_memory_base(dword(base));
            instruction.set_memory_index(dword(setting.index));
            instruction.set_memory_index_scale(index);
            let rest = address.wrapping_sub(setting.registers[base]);
            displace(
                random,
                instruction,
                narrow(rest.wrapping_sub(index_value.wrapping_mul(u64::from(index)))),
                4,
            );
        }
        Form::NarrowRipRelative => {
            instruction.set_memory_base(Register::EIP);
            instruction.set_memory_displ_size(4);
            instruction.set_memory_displacement64(address);
        }
        Form::NarrowAbsolute => {
            instruction.set_memory_displ_size(4);
            instruction.set_memory_displacement64(address);
        }
    }
}

/// Gives `instruction` an operand that nothing accesses: any registers, any displacement.
pub fn unaccessed_operand(random: &mut Random, layout_is_low: bool, instruction: &mut Instruction) {
    let narrow = random.percent(15);
    let register =
        |number: u64| if narrow { dword(number as usize) } else { wide(number as usize) };
    let full_size = if narrow { 4 } else { 8 };
    instruction.set_memory_index_scale(1);
    if random.percent(10) && (layout_is_low || !narrow) {
        instruction.set_memory_base(if narrow { Register::EIP } else { Register::RIP });
        instruction.set_memory_displ_size(full_size);
        instruction.set_memory_displacement64(0x7fff_0000_u64.min(random.below(0x7000_0000)));
        return;
    }
    if random.percent(85) {
        instruction.set_memory_base(register(random.below(16)));
    }
    let index = random.below(16);
    if random.percent(60) && index != RSP as u64 {
        instruction.set_memory_index(register(index));
        instruction.set_memory_index_scale(random.pick(&[1, 2, 4, 8]));
    }
    let displacement = random.pick(&[0, 1, -1, 127, -128, 128, 0x1234, -0x7fff_ffff, 0x7fff_ffff]);
    if instruction.memory_base() == Register::None {
        instruction.set_memory_displ_size(full_size);
        instruction.set_memory_displacement64(if narrow {
            narrow_signed(displacement)
        } else {
            displacement as u64
        });
    } else {
        let displacement = if narrow { narrow_signed(displacement) } else { displacement as u64 };
        displace(random, instruction, displacement, full_size);
    }
}

fn choose_form(random: &mut Random, setting: &Setting, segments: Segments) -> Form {
    if random.percent(segments.fs) {
        return Form::Segment(Register::FS);
    }
    if random.percent(segments.gs) {
        return Form::Segment(Register::GS);
    }
    let low = setting.layout.is_low;
    match random.below(100) {
        0..40 => Form::Base,
        40..64 => Form::BaseIndex,
        64..82 => Form::RipRelative,
        82..88 => Form::Stack,
        88..90 if low => Form::Absolute,
        90..93 if low => Form::Index,
        93..96 if low => Form::NarrowBase,
        96..98 if low => Form::NarrowBaseIndex,
        98 if low => Form::NarrowRipRelative,
        99 if low => Form::NarrowAbsolute,
        _ => Form::Base,
    }
}

/// Sets a displacement, in the shortest form or, at times, in a longer one.
fn displace(random: &mut Random, instruction: &mut Instruction, displacement: u64, full_size: u32) {
    instruction.set_memory_displacement64(displacement);
    instruction.set_memory_displ_size(match random.below(5) {
        0 => full_size,
        1 => 1,
        _ if displacement == 0 => 0,
        _ => 1,
    });
}

fn narrow(displacement: u64) -> u64 {
    displacement & 0xffff_ffff
}

fn narrow_signed(displacement: i64) -> u64 {
    narrow(displacement as u64)
}
