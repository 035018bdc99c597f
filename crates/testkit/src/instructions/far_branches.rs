//! Branches that 64-bit programs hardly ever use: far ones, and near ones with 16-bit targets.
//!
//! Far returns and jumps go through the selectors Linux gives to user code and stay in 64-bit
//! mode. Forms that cannot express an address of the guest (16-bit offsets, and 32-bit ones in the
//! high placement) run too, with selectors that are sure to fault.
//!
//! Invariant: no selector of a 32-bit segment is ever loaded; from there nothing would return.

use super::assembly::Item;
use super::control_flow::{Flow, branch, instruction};
use super::recipes::bare;
use super::registers::wide;
use iced_x86::{Code, Instruction, MemoryOperand, Mnemonic, OpCodeOperandKind, Register};

/// Linux's selector of 64-bit user code.
const USER_CODE_SELECTOR: i32 = 0x33;
/// Linux's selector of user data.
const USER_STACK_SELECTOR: i32 = 0x2b;
/// Selectors beyond the end of the descriptor table, in both words; the upper half becomes null.
const INVALID_SELECTORS: i32 = 0x0a08_0a08;

impl Flow<'_, '_> {
    /// A return from a far call or an interrupt, to the next instruction.
    pub fn far_return(&mut self, code: Code) {
        self.begin();
        let register = self.operands.free_register();
        let target = self.label();
        let is_interrupt = code.mnemonic() != Mnemonic::Retf;
        let is_low = self.operands.setting.layout.is_low;
        match code {
            Code::Retfq | Code::Retfq_imm16 | Code::Iretq => {
                self.load_address(register, target);
                if is_interrupt {
                    let stack = loop {
                        let stack = self.operands.free_register();
                        if stack != register {
                            break stack;
                        }
                    };
                    self.plain(instruction!(Code::Mov_r64_rm64, wide(stack), Register::RSP));
                    self.plain(instruction!(Code::Pushq_imm8, USER_STACK_SELECTOR));
                    self.plain(instruction!(Code::Push_r64, wide(stack)));
                    self.push(bare(Code::Pushfq));
                }
                self.plain(instruction!(Code::Pushq_imm8, USER_CODE_SELECTOR));
                self.plain(instruction!(Code::Push_r64, wide(register)));
                self.plain(far_instruction(code));
            }
            Code::Retfd | Code::Retfd_imm16 if is_low => {
                // Two doublewords: the low half of a quadword is the offset, the high half the selector.
                self.load_address(register, target);
                self.plain(instruction!(Code::Push_r64, wide(register)));
                let selector = MemoryOperand::with_base_displ(Register::RSP, 4);
                self.plain(instruction!(Code::Mov_rm32_imm32, selector, USER_CODE_SELECTOR));
                self.plain(far_instruction(code));
            }
            _ => {
                // These reach no address of the guest. Any selector but a null one or one beyond the
                // table might switch to 32-bit code, from which nothing returns.
                for _ in 0..5 {
                    self.plain(instruction!(Code::Pushq_imm32, INVALID_SELECTORS));
                }
                self.plain(far_instruction(code));
            }
        }
        self.place(target);
    }

    /// A far jump or call through memory.
    pub fn far_branch(&mut self, code: Code) {
        self.begin();
        let is_low = self.operands.setting.layout.is_low;
        let pointer = wide(self.operands.setting.pointers[0]);
        let (offset_size, the_return) = match code {
            Code::Call_m1664 | Code::Jmp_m1664 => (8, Code::Retfq),
            Code::Call_m1632 | Code::Jmp_m1632 if is_low => (4, Code::Retfd),
            _ => {
                self.plain(instruction!(
                    Code::Mov_rm64_imm32,
                    MemoryOperand::with_base(pointer),
                    INVALID_SELECTORS
                ));
                self.plain(instruction!(code, MemoryOperand::with_base(pointer)));
                return;
            }
        };
        let register = self.operands.free_register();
        let target = self.label();
        self.load_address(register, target);
        self.plain(instruction!(
            Code::Mov_rm64_r64,
            MemoryOperand::with_base(pointer),
            wide(register)
        ));
        let selector = MemoryOperand::with_base_displ(pointer, offset_size);
        self.plain(instruction!(Code::Mov_rm16_imm16, selector, USER_CODE_SELECTOR));
        self.plain(instruction!(code, MemoryOperand::with_base(pointer)));
        if matches!(code, Code::Call_m1664 | Code::Call_m1632) {
            self.push_to_tail(Item::Place(target));
            let pieces = self.ordinary_pieces(2);
            self.tail.extend(pieces);
            self.push_to_tail(bare(the_return));
        } else {
            self.junk();
            self.place(target);
        }
    }

    /// A branch with a 16-bit target: falls through, or leaves for the lowest 64 KiB.
    pub fn short_branch(&mut self, code: Code) {
        self.begin();
        if code.op_code().op_kinds().contains(&OpCodeOperandKind::imm16) {
            self.plain(instruction!(code, 4));
        } else if code.op_code().op_count() == 0 {
            self.plain(Instruction::with(code));
        } else if matches!(code, Code::Call_rm16 | Code::Jmp_rm16) {
            if let Some(instruction) = self.operands.instruction(code) {
                self.plain(instruction);
            }
        } else {
            let target = self.label();
            self.push(Item::Branch(branch(code), target));
            self.ordinary(1);
            self.place(target);
        }
    }
}

fn far_instruction(code: Code) -> Instruction {
    if code.op_code().op_count() == 1 { instruction!(code, 8) } else { Instruction::with(code) }
}
