//! Writing machine code: the few instructions the engine itself needs, as bytes.
//!
//! Guest instructions are copied or re-encoded by [`super::operand`]; what stands here is the glue
//! around them. None of it touches arithmetic flags, and none of it uses the guest's stack except
//! where a guest call or return does.

use super::address::{Address, Operation, Segment};
use crate::context::{Gpr, slot, spill_offset};
use alloc::vec::Vec;

/// The slot of a register that is not spilled but has the guest's GS base added to it.
pub const GS_BIAS: u8 = 0xff;

/// Stands for the arithmetic flags among the registers of [`SpillRange`]s.
pub const FLAGS_REGISTER: u8 = 16;

/// A stretch of guest-register spilling: while the cache pc lies in `start..end` (offsets from the
/// block's first byte), the guest's `register` is in spill slot `slot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpillRange {
    /// First byte where the register itself may hold something else.
    pub start: u16,
    /// First byte where the register is the guest's again.
    pub end: u16,
    /// The register.
    pub register: u8,
    /// The slot.
    pub slot: u8,
}

/// How an exit leaves its block, which decides how it is patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Site {
    /// A five-byte `jmp rel32`: becomes a nop when its target lies right behind it.
    Jump,
    /// A six-byte `jcc rel32`.
    Conditional,
    /// Not a branch: code that stores its index and leaves for the engine by itself.
    Fixed,
}

/// An exit of the block being built.
#[derive(Clone, Copy, Debug)]
pub struct NewExit {
    /// Guest address it leads to.
    pub target: u64,
    /// Offset of the branch instruction from the block's first byte.
    pub offset: u32,
    /// Kind of the site.
    pub site: Site,
    /// Whether it may be linked to its target.
    pub linkable: bool,
}

/// Machine code under construction, for a known final address.
pub struct Emitter {
    /// The bytes so far.
    pub bytes: Vec<u8>,
    /// Address of the first byte.
    pub address: u64,
    /// Exits so far.
    pub exits: Vec<NewExit>,
    /// Spill ranges so far.
    pub spills: Vec<SpillRange>,
    /// Index that the first exit will get.
    pub first_exit: u32,
    /// Whether instrumentation has destroyed something that is dead only behind the next instruction.
    pub destroys_dead: bool,
}

impl Emitter {
    /// An empty emitter; its buffers are reused from block to block.
    pub fn new() -> Emitter {
        Emitter {
            bytes: Vec::with_capacity(4096),
            address: 0,
            exits: Vec::with_capacity(16),
            spills: Vec::with_capacity(64),
            first_exit: 0,
            destroys_dead: false,
        }
    }

    /// Starts over at another address.
    pub fn begin(&mut self, address: u64, first_exit: u32) {
        self.bytes.clear();
        self.exits.clear();
        self.spills.clear();
        self.address = address;
        self.first_exit = first_exit;
        self.destroys_dead = false;
    }

    /// Offset of the next byte.
    pub fn here(&self) -> usize {
        self.bytes.len()
    }

    /// Cache address of the next byte.
    pub fn next_address(&self) -> u64 {
        self.address + self.here() as u64
    }

    /// Appends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn imm32(&mut self, value: i32) {
        self.raw(&value.to_le_bytes());
    }

    /// `opcode reg, gs:[offset]` with 64-bit operand size.
    fn gs_absolute(&mut self, opcode: u8, register: Gpr, offset: i32) {
        let register = register as u8;
        self.raw(&[0x65, 0x48 | (register >> 3) << 2, opcode, 0x04 | (register & 7) << 3, 0x25]);
        self.imm32(offset);
    }

    /// `mov gs:[offset], reg`
    pub fn store_gs(&mut self, register: Gpr, offset: i32) {
        self.gs_absolute(0x89, register, offset);
    }

    /// `mov reg, gs:[offset]`
    pub fn load_gs(&mut self, register: Gpr, offset: i32) {
        self.gs_absolute(0x8b, register, offset);
    }

    /// `mov dword gs:[offset], value`
    pub fn store_gs_imm32(&mut self, offset: i32, value: u32) {
        self.raw(&[0x65, 0xc7, 0x04, 0x25]);
        self.imm32(offset);
        self.raw(&value.to_le_bytes());
    }

    /// `add qword gs:[offset], value`, where all arithmetic flags are dead.
    pub fn add_gs_imm32(&mut self, offset: i32, value: i32) {
        self.raw(&[0x65, 0x48, 0x81, 0x04, 0x25]);
        self.imm32(offset);
        self.imm32(value);
        self.destroys_dead = true;
    }

    /// `add reg, value`, where the flags may be destroyed.
    pub fn add_imm8(&mut self, register: Gpr, value: u8) {
        let number = register as u8;
        self.raw(&[0x48 | number >> 3, 0x83, 0xc0 | number & 7, value]);
    }

    /// Puts the arithmetic flags into their slot: `lahf; seto al` with rax saved around them.
    pub fn save_flags(&mut self) {
        self.store_gs(Gpr::Rax, spill_offset(slot::FLAGS_RAX));
        self.raw(&[0x9f, 0x0f, 0x90, 0xc0]);
        self.store_gs(Gpr::Rax, spill_offset(slot::FLAGS));
        self.load_gs(Gpr::Rax, spill_offset(slot::FLAGS_RAX));
    }

    /// Takes the arithmetic flags from their slot: `add al, 0x7f; sahf` with rax saved around them.
    pub fn restore_flags(&mut self) {
        self.store_gs(Gpr::Rax, spill_offset(slot::FLAGS_RAX));
        self.load_gs(Gpr::Rax, spill_offset(slot::FLAGS));
        self.raw(&[0x04, 0x7f, 0x9e]);
        self.load_gs(Gpr::Rax, spill_offset(slot::FLAGS_RAX));
    }

    /// Declares that the flags have been in their slot since `start`.
    pub fn spilled_flags(&mut self, start: usize) {
        self.spills.push(SpillRange {
            start: start as u16,
            end: self.here() as u16,
            register: FLAGS_REGISTER,
            slot: slot::FLAGS,
        });
    }

    /// Spills a register; [`Emitter::unspill`] with the returned mark ends the range.
    pub fn spill(&mut self, register: Gpr, slot: u8) -> SpillMark {
        self.store_gs(register, spill_offset(slot));
        SpillMark { start: self.here(), register, slot }
    }

    /// Declares that a register has been spilled elsewhere; [`Emitter::unspill`] or [`Emitter::end_spill`] ends
    /// the range.
    pub fn mark(&self, register: Gpr, slot: u8) -> SpillMark {
        SpillMark { start: self.here(), register, slot }
    }

    /// Restores a spilled register.
    pub fn unspill(&mut self, mark: SpillMark) {
        self.load_gs(mark.register, spill_offset(mark.slot));
        self.end_spill(mark);
    }

    /// Ends a spill range where the register is restored elsewhere (in another block's stub).
    pub fn end_spill(&mut self, mark: SpillMark) {
        self.spills.push(SpillRange {
            start: mark.start as u16,
            end: self.here() as u16,
            register: mark.register as u8,
            slot: mark.slot,
        });
    }

    /// Declares that a register has had the guest's GS base added since `start`.
    pub fn bias(&mut self, start: usize, register: Gpr) {
        self.spills.push(SpillRange {
            start: start as u16,
            end: self.here() as u16,
            register: register as u8,
            slot: GS_BIAS,
        });
    }

    /// `mov to, from`
    pub fn mov(&mut self, to: Gpr, from: Gpr) {
        let (to, from) = (to as u8, from as u8);
        self.raw(&[0x48 | (from >> 3) << 2 | to >> 3, 0x89, 0xc0 | (from & 7) << 3 | (to & 7)]);
    }

    /// `mov to, from` of 32 bits, which clears the upper half.
    pub fn mov32(&mut self, to: Gpr, from: Gpr) {
        let (to, from) = (to as u8, from as u8);
        self.raw(&[0x40 | (from >> 3) << 2 | to >> 3, 0x89, 0xc0 | (from & 7) << 3 | (to & 7)]);
    }

    /// `push reg`
    pub fn push_any(&mut self, register: Gpr) {
        let number = register as u8;
        if number >= 8 {
            self.raw(&[0x41]);
        }
        self.raw(&[0x50 | number & 7]);
    }

    /// `lea reg, [reg + disp32]`
    pub fn lea_disp_any(&mut self, register: Gpr, displacement: i32) {
        let address = Address { displacement, ..Address::at(register) };
        self.memory(Operation::Lea, 8, register, Segment::Flat, &address);
    }

    /// `mov reg, value`, in the shortest form that leaves flags alone.
    pub fn mov_imm(&mut self, register: Gpr, value: u64) {
        let number = register as u8;
        if let Ok(small) = u32::try_from(value) {
            if number >= 8 {
                self.raw(&[0x41]);
            }
            self.raw(&[0xb8 | (number & 7)]);
            self.raw(&small.to_le_bytes());
        } else {
            self.raw(&[0x48 | number >> 3, 0xb8 | (number & 7)]);
            self.raw(&value.to_le_bytes());
        }
    }

    /// `lea to, [base + disp32]`; `base` is neither rsp nor r12.
    pub fn lea_disp(&mut self, to: Gpr, base: Gpr, displacement: i32) {
        debug_assert!(!matches!(base, Gpr::Rsp | Gpr::R12));
        let (to, base) = (to as u8, base as u8);
        self.raw(&[0x48 | (to >> 3) << 2 | base >> 3, 0x8d, 0x80 | (to & 7) << 3 | (base & 7)]);
        self.imm32(displacement);
    }

    /// `lea reg, [reg + disp8]`; the register is neither rsp nor r12.
    pub fn lea_disp8(&mut self, register: Gpr, displacement: i8) {
        debug_assert!(!matches!(register, Gpr::Rsp | Gpr::R12));
        let number = register as u8;
        let rex = 0x48 | (number >> 3) << 2 | number >> 3;
        self.raw(&[rex, 0x8d, 0x40 | (number & 7) << 3 | number & 7, displacement as u8]);
    }

    /// `lea to, [base + index]`; `base` may be any register, `index` is not rsp.
    pub fn lea_sum(&mut self, to: Gpr, base: Gpr, index: Gpr) {
        debug_assert!(index != Gpr::Rsp);
        let (to, base, index) = (to as u8, base as u8, index as u8);
        // mod = 01 with a zero disp8, so that rbp and r13 need no special case.
        self.raw(&[
            0x48 | (to >> 3) << 2 | (index >> 3) << 1 | base >> 3,
            0x8d,
            0x44 | (to & 7) << 3,
            (index & 7) << 3 | (base & 7),
            0,
        ]);
    }

    /// `mov to, [base + disp32]`; `base` is neither rsp nor r12.
    pub fn load(&mut self, to: Gpr, base: Gpr, displacement: i32) {
        debug_assert!(!matches!(base, Gpr::Rsp | Gpr::R12));
        let (to, base) = (to as u8, base as u8);
        self.raw(&[0x48 | (to >> 3) << 2 | base >> 3, 0x8b, 0x80 | (to & 7) << 3 | (base & 7)]);
        self.imm32(displacement);
    }

    /// `movzx edx, cx`: the index of rcx in a branch table.
    pub fn branch_table_index(&mut self) {
        self.raw(&[0x0f, 0xb7, 0xd1]);
    }

    /// `jmp gs:[rdx*8 + table]`
    pub fn jump_through_table(&mut self, table: i32) {
        self.raw(&[0x65, 0xff, 0x24, 0xd5]);
        self.imm32(table);
    }

    /// `push value` for a value that sign-extends from 32 bits.
    pub fn push_imm(&mut self, value: i32) {
        self.raw(&[0x68]);
        self.imm32(value);
    }

    /// `push reg` of one of the first eight registers.
    pub fn push(&mut self, register: Gpr) {
        debug_assert!((register as u8) < 8);
        self.raw(&[0x50 | register as u8]);
    }

    /// `pop reg` of one of the first eight registers.
    pub fn pop(&mut self, register: Gpr) {
        debug_assert!((register as u8) < 8);
        self.raw(&[0x58 | register as u8]);
    }

    /// `jrcxz` to a label that [`Emitter::bind`] sets.
    pub fn jump_if_rcx_zero(&mut self) -> ShortLabel {
        self.raw(&[0xe3, 0]);
        ShortLabel(self.here())
    }

    /// `jmp` to a label that [`Emitter::bind`] sets.
    pub fn jump_short(&mut self) -> ShortLabel {
        self.raw(&[0xeb, 0]);
        ShortLabel(self.here())
    }

    /// `bswap rcx; movzx ecx, cl`
    pub fn highest_byte_of_rcx(&mut self) {
        self.raw(&[0x48, 0x0f, 0xc9, 0x0f, 0xb6, 0xc9]);
    }

    /// Binds a short label here.
    pub fn bind(&mut self, label: ShortLabel) {
        let distance = self.here() - label.0;
        debug_assert!(distance < 128);
        self.bytes[label.0 - 1] = distance as u8;
    }

    /// `jmp` to a fixed address within 2 GiB: assembly of the engine.
    pub fn jump_to(&mut self, address: u64) {
        self.raw(&[0xe9]);
        let next = self.address + self.here() as u64 + 4;
        self.imm32(address.wrapping_sub(next) as i32);
    }

    /// Points a `jmp` of [`Emitter::jump_to`], at an offset, to another address.
    pub fn redirect(&mut self, offset: usize, address: u64) {
        let next = self.address + offset as u64 + 5;
        let displacement = address.wrapping_sub(next) as i32;
        self.bytes[offset + 1..offset + 5].copy_from_slice(&displacement.to_le_bytes());
    }

    /// A patchable `jmp` to a guest address. It does not cross an 8-byte boundary, so that all of
    /// it is replaced by one store.
    pub fn exit_jump(&mut self, target: u64, linkable: bool) {
        while (self.address as usize + self.here()) & 7 > 3 {
            let room = 8 - ((self.address as usize + self.here()) & 7);
            self.nop(room);
        }
        let offset = self.here() as u32;
        self.exits.push(NewExit { target, offset, site: Site::Jump, linkable });
        self.raw(&[0xe9, 0, 0, 0, 0]);
    }

    /// A patchable `jcc` to a guest address; `condition` is the low nibble of its opcode. Its
    /// displacement does not cross an 8-byte boundary.
    pub fn exit_conditional(&mut self, condition: u8, target: u64, linkable: bool) {
        while (self.address as usize + self.here() + 2) & 7 > 4 {
            let room = 8 - ((self.address as usize + self.here() + 2) & 7);
            self.nop(room);
        }
        let offset = self.here() as u32;
        self.exits.push(NewExit { target, offset, site: Site::Conditional, linkable });
        self.raw(&[0x0f, 0x80 | condition, 0, 0, 0, 0]);
    }

    /// Leaves for the engine at `entry` with `exit_index` naming this exit.
    pub fn exit_fixed(&mut self, target: u64, entry: u64) {
        let index = self.first_exit + self.exits.len() as u32;
        let offset = self.here() as u32;
        self.exits.push(NewExit { target, offset, site: Site::Fixed, linkable: false });
        self.store_gs_imm32(crate::gs_offset!(exit_index), index);
        self.jump_to(entry);
    }

    /// `fnstenv gs:[x87_environment]; fldcw gs:[x87_environment]`: notes where x87 stands, for an
    /// instruction that clears it and saves too little of it itself.
    pub fn save_x87_environment(&mut self) {
        let offset = crate::gs_offset!(x87_environment);
        self.raw(&[0x65, 0xd9, 0x34, 0x25]);
        self.imm32(offset);
        self.raw(&[0x65, 0xd9, 0x2c, 0x25]);
        self.imm32(offset);
    }

    /// A nop of up to eight bytes.
    pub fn nop(&mut self, len: usize) {
        const NOPS: [&[u8]; 9] = [
            &[],
            &[0x90],
            &[0x66, 0x90],
            &[0x0f, 0x1f, 0x00],
            &[0x0f, 0x1f, 0x40, 0x00],
            &[0x0f, 0x1f, 0x44, 0x00, 0x00],
            &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
            &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
            &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
        ];
        self.raw(NOPS[len]);
    }
}

impl Default for Emitter {
    fn default() -> Self {
        Emitter::new()
    }
}

/// An open spill range.
#[derive(Clone, Copy, Debug)]
pub struct SpillMark {
    start: usize,
    register: Gpr,
    slot: u8,
}

/// The end of a `jrcxz` whose target is not bound yet.
#[derive(Debug)]
pub struct ShortLabel(usize);
