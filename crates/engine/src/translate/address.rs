//! Memory operands of instructions that the engine makes itself.
//!
//! Guest operands are decoded into [`Address`], and simple instructions on them (`mov`, `cmp`) are encoded by
//! hand: the general encoder takes ten times as long, and recording needs several of these per guest instruction.

use super::emit::Emitter;
use super::operand::gpr_of;
use crate::context::Gpr;
use iced_x86::{Instruction, Register};

/// Segment override prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Segment {
    /// None: guest memory.
    Flat = 0,
    /// FS: the guest's thread-local memory.
    Fs = 0x64,
    /// GS: the shadow.
    Gs = 0x65,
}

/// `[base + index * scale + displacement]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Base register.
    pub base: Option<Gpr>,
    /// Index register, never rsp, and the logarithm of its scale.
    pub index: Option<(Gpr, u8)>,
    /// Displacement.
    pub displacement: i32,
    /// Whether the sum is cut to 32 bits.
    pub narrow: bool,
}

impl Address {
    /// `[register]`
    pub fn at(register: Gpr) -> Address {
        Address { base: Some(register), index: None, displacement: 0, narrow: false }
    }

    /// The same, some bytes further; `None` if that cannot be said.
    pub fn plus(self, bytes: i32) -> Option<Address> {
        let displacement = self.displacement.checked_add(bytes)?;
        // A narrow sum may wrap, and an absolute address must not change its sign.
        let wraps =
            self.narrow || self.base.is_none() && (displacement < 0) != (self.displacement < 0);
        if wraps && bytes != 0 {
            return None;
        }
        Some(Address { displacement, ..self })
    }

    /// The operand of a guest instruction without its segment; `None` if it has no such form (a vector
    /// index, or a place that needs 64 bits to be named).
    pub fn of(guest: &Instruction) -> Option<Address> {
        let (base, index) = (guest.memory_base(), guest.memory_index());
        if base == Register::RIP || base == Register::EIP {
            let target = guest.ip_rel_memory_address();
            let displacement = i32::try_from(target).ok()?;
            return Some(Address { base: None, index: None, displacement, narrow: false });
        }
        if index.is_vector_register() || index != Register::None && index.size() < 4 {
            return None;
        }
        let narrow = base.size() == 4 || index.size() == 4;
        let displacement = guest.memory_displacement64();
        let displacement = if narrow {
            displacement as u32 as i32
        } else {
            i32::try_from(displacement as i64).ok()?
        };
        if base == Register::None
            && index == Register::None
            && guest.memory_displ_size() == 4
            && displacement < 0
        {
            // With an address-size prefix an absolute address is zero-extended.
            return None;
        }
        Some(Address {
            base: (base != Register::None).then(|| gpr_of(base)),
            index: (index != Register::None)
                .then(|| (gpr_of(index), guest.memory_index_scale().trailing_zeros() as u8)),
            displacement,
            narrow,
        })
    }
}

/// An operation between a register and memory, by its opcode for words; bytes have the opcode before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// `mov register, memory`
    Load = 0x8b,
    /// `mov memory, register`
    Store = 0x89,
    /// `cmp register, memory`
    Compare = 0x3b,
    /// `lea register, memory`
    Lea = 0x8d,
}

impl Emitter {
    /// `operation register, segment:address` with operands of 1, 2, 4 or 8 bytes.
    pub fn memory(
        &mut self,
        operation: Operation,
        size: usize,
        register: Gpr,
        segment: Segment,
        address: &Address,
    ) {
        self.prefixes(size, register, segment, address);
        self.raw(&[operation as u8 - (size == 1) as u8]);
        self.address_bytes(register as u8, address);
    }

    /// `mov register, segment:address`, or `movzx` for bytes and words, which would have to wait for the rest of
    /// the register otherwise.
    pub fn load_zero_extended(
        &mut self,
        size: usize,
        register: Gpr,
        segment: Segment,
        address: &Address,
    ) {
        if size >= 4 {
            return self.memory(Operation::Load, size, register, segment, address);
        }
        self.prefixes(4, register, segment, address);
        self.raw(&[0x0f, if size == 1 { 0xb6 } else { 0xb7 }]);
        self.address_bytes(register as u8, address);
    }

    /// `mov dword address, value`
    pub fn memory_immediate32(&mut self, address: &Address, value: u32) {
        self.prefixes(4, Gpr::Rax, Segment::Flat, address);
        self.raw(&[0xc7]);
        self.address_bytes(0, address);
        self.raw(&value.to_le_bytes());
    }

    /// `mov gs:address, value` with 1, 2, 4 or 8 bytes.
    pub fn store_shadow_immediate(&mut self, size: usize, address: &Address, value: i32) {
        self.prefixes(size, Gpr::Rax, Segment::Gs, address);
        self.raw(&[0xc7 - (size == 1) as u8]);
        self.address_bytes(0, address);
        self.raw(&value.to_le_bytes()[..size.min(4)]);
    }

    /// `add dword [address], 1` relative to the code, where the flags may be destroyed.
    pub fn count_up(&mut self, address: u64) {
        self.raw(&[0x83, 0x05]);
        self.relative_to_next(address, 1);
        self.raw(&[1]);
    }

    /// The same by way of a register, which keeps the flags.
    pub fn count_up_through(&mut self, register: Gpr, address: u64) {
        let number = register as u8;
        for opcode in [Operation::Load, Operation::Store] {
            if number >= 8 {
                self.raw(&[0x44]);
            }
            self.raw(&[opcode as u8, (number & 7) << 3 | 5]);
            self.relative_to_next(address, 0);
            if opcode == Operation::Load {
                let next = Address { displacement: 1, ..Address::at(register) };
                self.memory(Operation::Lea, 4, register, Segment::Flat, &next);
            }
        }
    }

    /// A displacement relative to the end of the instruction, `behind` bytes after it.
    fn relative_to_next(&mut self, address: u64, behind: u64) {
        let next = self.next_address() + 4 + behind;
        self.raw(&(address.wrapping_sub(next) as i32).to_le_bytes());
    }

    /// `lock cmpxchg segment:address, register`
    pub fn compare_exchange(
        &mut self,
        size: usize,
        register: Gpr,
        segment: Segment,
        address: &Address,
    ) {
        self.raw(&[0xf0]);
        self.prefixes(size, register, segment, address);
        self.raw(&[0x0f, if size == 1 { 0xb0 } else { 0xb1 }]);
        self.address_bytes(register as u8, address);
    }

    /// All prefixes that operands of this size at this address need.
    fn prefixes(&mut self, size: usize, register: Gpr, segment: Segment, address: &Address) {
        if segment != Segment::Flat {
            self.raw(&[segment as u8]);
        }
        if address.narrow {
            self.raw(&[0x67]);
        }
        if size == 2 {
            self.raw(&[0x66]);
        }
        let number = register as u8;
        let base = address.base.map_or(0, |b| b as u8);
        let index = address.index.map_or(0, |(i, _)| i as u8);
        let rex =
            0x40 | ((size == 8) as u8) << 3 | (number >> 3) << 2 | (index >> 3) << 1 | base >> 3;
        if rex != 0x40 || size == 1 && number >= 4 {
            self.raw(&[rex]);
        }
    }

    /// ModRM, SIB and displacement.
    fn address_bytes(&mut self, register: u8, address: &Address) {
        let reg = (register & 7) << 3;
        let displacement = address.displacement;
        let Some(base) = address.base else {
            let (scale, index) = address.index.map_or((0, 4), |(i, s)| (s, i as u8 & 7));
            self.raw(&[reg | 4, scale << 6 | index << 3 | 5]);
            self.raw(&displacement.to_le_bytes());
            return;
        };
        let low = base as u8 & 7;
        let mode = match displacement {
            0 if low != 5 => 0x00,
            -128..=127 => 0x40,
            _ => 0x80,
        };
        match address.index {
            Some((index, scale)) => {
                self.raw(&[mode | reg | 4, scale << 6 | (index as u8 & 7) << 3 | low]);
            }
            None if low == 4 => self.raw(&[mode | reg | 4, 0x24]),
            None => self.raw(&[mode | reg | low]),
        }
        match mode {
            0x40 => self.raw(&[displacement as u8]),
            0x80 => self.raw(&displacement.to_le_bytes()),
            _ => {}
        }
    }

    /// `jne` to an address that is known: cold code of the same block.
    pub fn jump_if_not_equal(&mut self, to: u64) {
        self.conditional_to(0x85, to);
    }

    /// `jns` to cold code.
    pub fn jump_if_not_negative(&mut self, to: u64) {
        self.conditional_to(0x89, to);
    }

    /// `jg` to cold code.
    pub fn jump_if_greater(&mut self, to: u64) {
        self.conditional_to(0x8f, to);
    }

    /// `jcc` to an address that is known: cold code of the same block.
    pub fn jump_if(&mut self, condition: u8, to: u64) {
        self.conditional_to(0x80 | condition, to);
    }

    fn conditional_to(&mut self, opcode: u8, to: u64) {
        self.raw(&[0x0f, opcode]);
        let next = self.address + self.here() as u64 + 4;
        self.raw(&(to.wrapping_sub(next) as i32).to_le_bytes());
    }
}
