//! Names of the general-purpose registers by number and width, and a set of full registers.

use iced_x86::Register;

/// General-purpose registers in encoding order, which is also their order in a record.
pub const GENERAL: [Register; 16] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RBX,
    Register::RSP,
    Register::RBP,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// Number of `rax` in [`GENERAL`].
pub const RAX: usize = 0;
/// Number of `rcx`.
pub const RCX: usize = 1;
/// Number of `rdx`.
pub const RDX: usize = 2;
/// Number of `rbx`.
pub const RBX: usize = 3;
/// Number of `rsp`.
pub const RSP: usize = 4;
/// Number of `rbp`.
pub const RBP: usize = 5;
/// Number of `rsi`.
pub const RSI: usize = 6;
/// Number of `rdi`.
pub const RDI: usize = 7;
/// Number of `r11`.
pub const R11: usize = 11;

/// The 64-bit register with a number.
pub fn wide(number: usize) -> Register {
    GENERAL[number]
}

/// The 32-bit register with a number.
pub fn dword(number: usize) -> Register {
    Register::EAX + number as u32
}

/// The 16-bit register with a number.
pub fn word(number: usize) -> Register {
    Register::AX + number as u32
}

/// A set of full-width registers: general-purpose and vector.
#[derive(Clone, Copy, Debug, Default)]
pub struct RegisterSet {
    general: u16,
    vectors: u32,
}

impl RegisterSet {
    /// Adds a general-purpose register.
    pub fn add_general(&mut self, number: usize) {
        self.general |= 1 << number;
    }

    /// Adds a vector register.
    pub fn add_vector(&mut self, number: usize) {
        self.vectors |= 1 << number;
    }

    /// Whether a general-purpose register is in the set.
    pub fn has_general(&self, number: usize) -> bool {
        self.general & 1 << number != 0
    }

    /// Whether `register`, of any width, is part of a register in the set.
    pub fn contains(&self, register: Register) -> bool {
        let full = register.full_register();
        if full.is_gpr64() {
            self.general & 1 << full.number() != 0
        } else if full.is_vector_register() {
            self.vectors & 1 << full.number() != 0
        } else {
            false
        }
    }
}
