//! The machine that executes blocks: a traced child and the memory that it shares with this process; and what the
//! guest's own code does on it.

use super::Translated;
use super::memory::{DATA_LEN, Memory, Place};
use super::traced::{Registers, Traced};
use iced_x86::{
    Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, RflagsBits,
    UsedMemory,
};
use retro_engine::record::weave::{is_masked, is_repeated_string};
use std::collections::BTreeSet;

/// Data that looks like addresses, different in every word.
pub fn pattern(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let words = (0..DATA_LEN / 8).flat_map(|_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 18).to_le_bytes()
    });
    words.collect()
}

pub fn initial_registers(place: Place, flags: u64) -> Registers {
    let data = place.data();
    // SAFETY: integers, for which zero is valid.
    let zero: Registers = unsafe { std::mem::zeroed() };
    Registers {
        rax: data + 0x600,
        rcx: 3,
        rdx: data + 0x700,
        rbx: data + 0x100,
        rsp: data + 0x1400,
        rbp: data + 0x1100,
        rsi: data + 0x200,
        rdi: data + 0x400,
        r8: 8,
        r9: data + 0x500,
        r10: 10,
        r11: 0x8000_0000_0000_0011,
        r12: 12,
        r13: 13,
        r14: u64::MAX,
        r15: 15,
        eflags: 0x202 | flags,
        cs: 0x33,
        ss: 0x2b,
        fs_base: data + 0x800,
        gs_base: data + 0x900,
        ..zero
    }
}

pub fn gprs(r: &Registers) -> [u64; 16] {
    [
        r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12,
        r.r13, r.r14, r.r15,
    ]
}

pub fn arithmetic(flags: u64) -> u32 {
    const ADJUST_TO_OVERFLOW: u64 = 0x8d5;
    (flags & ADJUST_TO_OVERFLOW) as u32
}

/// The same in iced's bits.
pub fn as_iced(flags: u32) -> u32 {
    let bits = [
        (0x800, RflagsBits::OF),
        (0x80, RflagsBits::SF),
        (0x40, RflagsBits::ZF),
        (0x10, RflagsBits::AF),
        (0x4, RflagsBits::PF),
        (0x1, RflagsBits::CF),
    ];
    bits.into_iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| name).sum()
}

/// What the guest's own code does.
pub struct Reference {
    /// State in front of each instruction, and behind the last.
    pub states: Vec<Registers>,
    pub data: Vec<u8>,
    pub vectors: Vec<u8>,
    /// Bytes of data that it touches.
    pub touched: BTreeSet<usize>,
}

pub struct Machine<'a> {
    pub memory: &'a mut Memory,
    pub child: &'a Traced,
    pub info: InstructionInfoFactory,
}

pub fn register_value(registers: &Registers, register: Register) -> Option<u64> {
    Some(match register {
        Register::FS => registers.fs_base,
        Register::GS => registers.gs_base,
        r if r.is_segment_register() || r == Register::None => 0,
        r if r.is_gpr() => {
            let whole = gprs(registers)[r.full_register().number()];
            if r.size() == 4 { whole as u32 as u64 } else { whole }
        }
        _ => return None,
    })
}

pub fn address_of_used(used: &UsedMemory, registers: &Registers) -> Option<u64> {
    used.virtual_address(0, |register, _, _| register_value(registers, register))
}

pub fn is_write(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::ReadWrite)
}

pub fn is_sure(access: OpAccess) -> bool {
    is_write(access) || access == OpAccess::Read
}

impl Machine<'_> {
    pub fn begin(&mut self, place: Place, shadow: &[u8]) {
        self.memory.data(place).copy_from_slice(&pattern(1));
        self.memory.shadow(place).copy_from_slice(shadow);
        let xmm: Vec<u8> = pattern(2)[..256].iter().map(|&b| b ^ (b << 5)).collect();
        self.child.reset_vectors(xmm[..].try_into().expect("256 bytes"));
    }

    /// Executes the guest's code as it is; nothing if it faults, as random code may.
    pub fn reference(&mut self, block: &Translated, flags: u64) -> Option<Reference> {
        self.begin(block.place, &pattern(1));
        let mut registers = initial_registers(block.place, flags);
        registers.rip = block.guest[0].ip();
        self.child.set_registers(&registers);
        let mut states = vec![registers];
        let mut touched = BTreeSet::new();
        for guest in &block.guest {
            if leaves_to_engine(guest) {
                break;
            }
            let before = self.child.registers();
            for used in self.info.info(guest).used_memory() {
                let whole = !guest.is_vsib() && !is_masked(guest) && !is_repeated_string(guest);
                if !whole || !is_sure(used.access()) {
                    continue;
                }
                let address = address_of_used(used, &before).expect("simple registers");
                let start = address.wrapping_sub(block.place.data()) as usize;
                let bit_string =
                    guest.mnemonic() == Mnemonic::Bts && guest.op1_kind() == OpKind::Register;
                if start < DATA_LEN && !bit_string {
                    touched.extend(start..start + used.memory_size().size());
                }
            }
            if let Err(signal) = self.execute(guest) {
                assert!(block.is_random, "{}: {guest} raises signal {signal}", block.name);
                return None;
            }
            states.push(self.child.registers());
        }
        let data = self.memory.data(block.place).to_vec();
        Some(Reference { states, data, vectors: self.child.vectors(), touched })
    }

    /// Executes one guest instruction where it stands, all iterations of it.
    pub fn execute(&mut self, guest: &Instruction) -> Result<(), i32> {
        loop {
            self.child.step()?;
            if self.child.registers().rip != guest.ip() {
                return Ok(());
            }
        }
    }

    pub fn word(&mut self, offset: i32, value: u64) {
        *self.memory.context(offset) = value.to_le_bytes();
    }
}

/// Whether an instruction is executed by the engine.
pub fn leaves_to_engine(guest: &Instruction) -> bool {
    matches!(guest.mnemonic(), Mnemonic::Syscall | Mnemonic::Rdtsc)
}
