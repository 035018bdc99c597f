//! Transfers of control that fault, and transfers under the trap flag.
//!
//! Invariant: no target is read from random bytes, which hardly ever are a canonical address.

use super::assembly::Item;
use super::control_flow::{Flow, branch, instruction};
use super::recipes::bare;
use super::registers::wide;
use iced_x86::{Code, Instruction, MemoryOperand, Register};

impl Flow<'_, '_> {
    /// Jumps, calls or returns to an address that has no code for the body.
    pub fn transfer_to(&mut self, address: u64) {
        self.begin();
        let register = self.operands.free_register();
        self.plain(instruction!(Code::Mov_r64_imm64, wide(register), address));
        match self.operands.random.below(3) {
            0 => self.plain(instruction!(Code::Jmp_rm64, wide(register))),
            1 => self.plain(instruction!(Code::Call_rm64, wide(register))),
            _ => {
                self.plain(instruction!(Code::Push_r64, wide(register)));
                self.push(bare(Code::Retnq));
            }
        }
    }

    /// Calls with the stack pointer at `address`, or returns with it at `unreadable`.
    pub fn transfer_with_stack_at(&mut self, address: u64, unreadable: u64) {
        self.begin();
        let kind = self.operands.random.below(4);
        let stack = if kind < 2 { unreadable } else { address };
        self.plain(instruction!(Code::Mov_r64_imm64, Register::RSP, stack));
        match kind {
            0 => self.push(bare(Code::Retnq)),
            1 => self.plain(instruction!(Code::Retnq_imm16, 16)),
            2 => {
                let function = self.function();
                self.push(Item::Branch(branch(Code::Call_rel32_64), function));
            }
            _ => self.indirect(Code::Call_rm64),
        }
    }

    /// Jumps or calls through a pointer at `unreadable`, or pushes what is at `address`.
    pub fn transfer_through(&mut self, address: u64, unreadable: u64) {
        self.begin();
        let code = self.operands.random.pick(&[Code::Call_rm64, Code::Jmp_rm64, Code::Push_rm64]);
        let address = if code == Code::Push_rm64 { address } else { unreadable };
        let register = self.operands.free_register();
        if self.operands.random.percent(50) {
            let operand = MemoryOperand::with_base_displ_size(Register::RIP, address as i64, 8);
            self.plain(instruction!(code, operand));
        } else {
            self.plain(instruction!(Code::Mov_r64_imm64, wide(register), address));
            self.plain(instruction!(code, MemoryOperand::with_base(wide(register))));
        }
    }

    /// A branch, or nothing: what comes next when every instruction is stepped.
    pub fn any_transfer_or_not(&mut self) {
        let code = self.operands.random.pick(&[
            Code::Jmp_rel8_64,
            Code::Call_rel32_64,
            Code::Call_rm64,
            Code::Jmp_rm64,
            Code::Je_rel8_64,
            Code::Jae_rel32_64,
            Code::Nopd,
            Code::Nopd,
        ]);
        self.snippet(code);
    }
}
