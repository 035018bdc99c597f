//! Bodies with branches: every near transfer, and the odd ways programs use them.
//!
//! A branch code chooses a snippet: a conditional branch jumps forward over other instructions or
//! closes a short loop; a call goes to a function placed behind the body's end; an indirect
//! branch finds its target in a register, in a literal, in a table or on the stack. Between the
//! snippets stand ordinary instructions, so that flags and registers are live across every
//! transfer, and bytes that are never executed follow the unconditional ones.
//!
//! Invariant: all branches go forward except those that close a loop of a known count, so every
//! body terminates.

use super::assembly::{ENDING, EXIT, Item, Label, Piece};
use super::operands::Operands;
use super::recipes::{bare, plain};
use super::registers::{RAX, RBP, RCX, wide};
use iced_x86::{Code, FlowControl, Instruction, MemoryOperand, Mnemonic, Register};

/// An instruction with operands that are known to fit its code.
macro_rules! instruction {
    ($code:expr, $operand:expr) => {
        Instruction::with1($code, $operand).expect("operands that fit the code")
    };
    ($code:expr, $first:expr, $second:expr) => {
        Instruction::with2($code, $first, $second).expect("operands that fit the code")
    };
}

pub(super) use instruction;

/// A body under construction.
pub struct Flow<'a, 'b> {
    pub(super) operands: &'a mut Operands<'b>,
    filler: &'a [Code],
    body: Vec<Piece>,
    /// Functions and literals, placed behind the jump to [`EXIT`].
    pub(super) tail: Vec<Piece>,
    last_label: Label,
    last_unit: usize,
    /// The unit of the snippet under construction.
    unit: usize,
}

impl<'a, 'b> Flow<'a, 'b> {
    /// A body whose ordinary instructions come from `filler`.
    pub fn new(operands: &'a mut Operands<'b>, filler: &'a [Code]) -> Flow<'a, 'b> {
        Flow {
            operands,
            filler,
            body: Vec::new(),
            tail: Vec::new(),
            last_label: EXIT,
            last_unit: ENDING,
            unit: ENDING,
        }
    }

    /// Ends the body.
    pub fn finish(mut self) -> Vec<Piece> {
        let item = Item::Branch(branch(Code::Jmp_rel32_64), EXIT);
        self.body.push(Piece { unit: ENDING, item });
        self.body.append(&mut self.tail);
        self.body
    }

    /// Starts a unit; what is added from now on belongs to it, except ordinary instructions.
    pub fn begin(&mut self) {
        self.last_unit += 1;
        self.unit = self.last_unit;
    }

    pub(super) fn push(&mut self, item: Item) {
        self.body.push(Piece { unit: self.unit, item });
    }

    pub(super) fn push_to_tail(&mut self, item: Item) {
        self.tail.push(Piece { unit: self.unit, item });
    }

    /// True in `percent` of a hundred calls.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.operands.random.percent(percent)
    }

    /// Adds one instruction, with what it needs.
    pub fn instruction(&mut self, code: Code) {
        self.begin();
        let items = self.operands.items(code).into_iter().flatten().collect();
        self.extend(items);
    }

    /// Adds an adjustment of the stack pointer.
    pub fn stack_adjustment(&mut self) {
        self.begin();
        let items = self.operands.stack_adjustment().into_iter().flatten().collect();
        self.extend(items);
    }

    /// Adds up to `most` ordinary instructions.
    pub fn ordinary(&mut self, most: u64) {
        let pieces = self.ordinary_pieces(most);
        self.body.extend(pieces);
    }

    /// Adds the snippet that a near branch code stands for.
    pub fn snippet(&mut self, code: Code) {
        self.begin();
        match code.flow_control() {
            FlowControl::ConditionalBranch => self.conditional(code),
            FlowControl::UnconditionalBranch => self.jump(code),
            FlowControl::Call => self.call(code),
            FlowControl::Return => self.return_somewhere(code),
            FlowControl::IndirectBranch | FlowControl::IndirectCall => self.indirect(code),
            _ => {}
        }
    }

    pub(super) fn label(&mut self) -> Label {
        self.last_label += 1;
        self.last_label
    }

    pub(super) fn place(&mut self, label: Label) {
        self.push(Item::Place(label));
    }

    pub(super) fn plain(&mut self, instruction: Instruction) {
        self.push(plain(instruction));
    }

    /// Each ordinary instruction is a unit of its own.
    pub(super) fn ordinary_pieces(&mut self, most: u64) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for _ in 0..self.operands.random.below(most + 1) {
            let code = self.operands.random.pick(self.filler);
            self.last_unit += 1;
            let unit = self.last_unit;
            let items = self.operands.items(code).into_iter().flatten();
            pieces.extend(items.map(|item| Piece { unit, item }));
        }
        pieces
    }

    /// Bytes nobody executes.
    pub(super) fn junk(&mut self) {
        let count = self.operands.random.below(9);
        let bytes = (0..count).map(|_| self.operands.random.bits() as u8).collect();
        self.push(Item::Bytes(bytes));
    }

    fn conditional(&mut self, code: Code) {
        let is_counting =
            matches!(code.mnemonic(), Mnemonic::Loop | Mnemonic::Loope | Mnemonic::Loopne);
        if is_counting && self.operands.counter_is_free() && self.operands.random.percent(60) {
            self.counted_loop(code);
            return;
        }
        let target = self.label();
        if self.operands.random.percent(10) {
            let hint = self.operands.random.pick(&[0x2e, 0x3e]);
            self.push(Item::PrefixedBranch(vec![hint], branch(code), target));
        } else {
            self.push(Item::Branch(branch(code), target));
        }
        self.ordinary(2);
        if self.operands.random.percent(30) {
            // The other path also ends in a jump, over a third part.
            let join = self.label();
            self.push(Item::Branch(branch(Code::Jmp_rel32_64), join));
            self.place(target);
            self.ordinary(2);
            self.place(join);
        } else {
            self.place(target);
        }
    }

    fn counted_loop(&mut self, code: Code) {
        let count = self.operands.random.below(5) as u32 + 1;
        self.plain(instruction!(Code::Mov_r32_imm32, Register::ECX, count));
        self.operands.setting.reserve(RCX);
        let head = self.label();
        self.place(head);
        self.ordinary(2);
        self.push(Item::Branch(branch(code), head));
    }

    fn jump(&mut self, code: Code) {
        let rax_is_free = !self.operands.setting.reserved.has_general(RAX);
        if rax_is_free && self.operands.random.percent(15) {
            // jmp to its own second byte, where `inc eax` hides: two decodings of one byte.
            self.push(Item::Bytes(vec![0xeb, 0xff, 0xc0]));
            return;
        }
        let target = self.label();
        let prefixes = if self.operands.random.percent(10) { vec![0xf2] } else { Vec::new() };
        self.push(Item::PrefixedBranch(prefixes, branch(code), target));
        self.junk();
        self.place(target);
    }

    fn call(&mut self, code: Code) {
        match self.operands.random.below(5) {
            0 => {
                // call next; pop: how position-independent code finds itself.
                let next = self.label();
                self.push(Item::Branch(branch(code), next));
                self.place(next);
                let register = self.operands.free_register();
                self.plain(instruction!(Code::Pop_r64, wide(register)));
            }
            1 => {
                // The function returns past bytes that follow the call.
                let function = self.label();
                self.push(Item::Branch(branch(code), function));
                let skipped = self.operands.random.below(12) as i32;
                self.push(Item::Bytes(vec![0x0f; skipped as usize]));
                self.push_to_tail(Item::Place(function));
                let stack_top = MemoryOperand::with_base(Register::RSP);
                self.push_to_tail(plain(instruction!(Code::Add_rm64_imm8, stack_top, skipped)));
                self.push_to_tail(bare(Code::Retnq));
            }
            2 => {
                // With the prefixes of a thread-local-storage access. REX.W keeps the operand-size
                // prefix from cutting the target where processors would.
                let function = self.function();
                let prefixes = vec![0x66, 0x66, 0x48];
                self.push(Item::PrefixedBranch(prefixes, branch(code), function));
            }
            _ => {
                let function = self.function();
                self.push(Item::Branch(branch(code), function));
            }
        }
    }

    /// A function behind the body's end.
    pub(super) fn function(&mut self) -> Label {
        let function = self.label();
        self.push_to_tail(Item::Place(function));
        if self.operands.random.percent(20) {
            self.push_to_tail(bare(Code::Endbr64));
        }
        let frame =
            self.operands.random.percent(30) && !self.operands.setting.reserved.has_general(RBP);
        if frame {
            self.push_to_tail(plain(instruction!(Code::Push_r64, Register::RBP)));
            self.push_to_tail(plain(instruction!(
                Code::Mov_r64_rm64,
                Register::RBP,
                Register::RSP
            )));
            self.operands.setting.reserve(RBP);
        }
        let pieces = self.ordinary_pieces(2);
        self.tail.extend(pieces);
        if frame {
            self.push_to_tail(bare(Code::Leaveq));
        }
        let the_return = match self.operands.random.below(4) {
            0 => plain(instruction!(Code::Retnq_imm16, 8 * self.operands.random.below(4) as u32)),
            1 => Item::Prefixed(0xf2, Instruction::with(Code::Retnq)),
            2 => Item::Prefixed(0xf3, Instruction::with(Code::Retnq)),
            _ => bare(Code::Retnq),
        };
        self.push_to_tail(the_return);
        function
    }

    fn return_somewhere(&mut self, code: Code) {
        let register = self.operands.free_register();
        let target = self.label();
        self.load_address(register, target);
        let the_return = match code {
            Code::Retnq_imm16 => instruction!(code, 8 * self.operands.random.below(4) as u32),
            _ => Instruction::with(code),
        };
        if self.operands.random.percent(40) {
            // A function that swaps its return address: the old one stays in a register.
            let function = self.label();
            self.push(Item::Branch(branch(Code::Call_rel32_64), function));
            self.junk();
            self.push_to_tail(Item::Place(function));
            let stack_top = MemoryOperand::with_base(Register::RSP);
            self.push_to_tail(plain(instruction!(Code::Xchg_rm64_r64, stack_top, wide(register))));
            self.push_to_tail(plain(the_return));
        } else {
            self.plain(instruction!(Code::Push_r64, wide(register)));
            self.plain(the_return);
            self.junk();
        }
        self.place(target);
    }

    pub(super) fn indirect(&mut self, code: Code) {
        let is_call = code.flow_control() == FlowControl::IndirectCall;
        let register = self.operands.free_register();
        let target = if is_call { self.function() } else { self.label() };
        let mut transfer: Option<Instruction> = None;
        match self.operands.random.below(5) {
            0 => {
                self.load_address(register, target);
                transfer = Some(instruction!(code, wide(register)));
            }
            1 => {
                let literal = self.label();
                let operand = MemoryOperand::with_base_displ_size(Register::RIP, 0, 8);
                self.push(Item::Reference(instruction!(code, operand), literal));
                self.push_to_tail(Item::Place(literal));
                self.push_to_tail(Item::Address(target));
            }
            2 => {
                let table = self.label();
                self.load_address(register, table);
                let entry = self.operands.random.between(0, 4);
                let index = self.operands.setting.index;
                let displacement = 8 * (entry - self.operands.setting.registers[index] as i64);
                let operand = MemoryOperand::with_base_index_scale_displ_size(
                    wide(register),
                    wide(index),
                    8,
                    displacement,
                    8,
                );
                transfer = Some(instruction!(code, operand));
                self.push_to_tail(Item::Place(table));
                (0..4).for_each(|_| self.push_to_tail(Item::Address(target)));
            }
            3 => {
                self.load_address(register, target);
                self.plain(instruction!(Code::Push_r64, wide(register)));
                transfer = Some(instruction!(code, MemoryOperand::with_base(Register::RSP)));
            }
            _ => {
                self.load_address(register, target);
                self.plain(instruction!(Code::Push_r64, wide(register)));
                self.plain(instruction!(Code::Pushq_imm8, -3));
                transfer =
                    Some(instruction!(code, MemoryOperand::with_base_displ(Register::RSP, 8)));
            }
        }
        if let Some(transfer) = transfer {
            let item = match self.operands.random.below(10) {
                0 => Item::Prefixed(0x3e, transfer),
                1 => Item::Prefixed(0xf2, transfer),
                _ => plain(transfer),
            };
            self.push(item);
        }
        if !is_call {
            self.junk();
            self.place(target);
        }
    }

    /// Loads a label's address: RIP-relative or as an immediate.
    pub fn load_address(&mut self, register: usize, label: Label) {
        if self.operands.random.percent(50) {
            let operand = MemoryOperand::with_base_displ_size(Register::RIP, 0, 8);
            self.push(Item::Reference(
                instruction!(Code::Lea_r64_m, wide(register), operand),
                label,
            ));
        } else {
            self.push(Item::Immediate(
                instruction!(Code::Mov_r64_imm64, wide(register), 0u64),
                label,
            ));
        }
    }

    /// Adds items made elsewhere.
    pub fn extend(&mut self, items: Vec<Item>) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

/// A near branch; its target is filled in later.
pub(super) fn branch(code: Code) -> Instruction {
    Instruction::with_branch(code, 0).expect("a code with a near branch operand")
}
