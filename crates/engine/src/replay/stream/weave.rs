//! What a stream weaves into the guest's code: every block leaves a record of what it did.
//!
//! `T` points to where the record goes, `A` is a scratch register, `off` a place in the record.
//!
//! ```text
//! block          =>  mov dword [T], number; body; lea T, [T + length of the record]
//! side exit      =>  mov dword [T], its own number; lea T, [T + length so far]
//! first use of r in an address   =>  mov [T + off], r
//! [r + i*s + d]                  =>  lea A, [r + i*s]; mov [T + off], A
//! what is written                =>  instruction; mov A, [X]; mov [T + off], A
//! what is read                   =>  mov A, [X]; mov [T + off], A; instruction
//! ```
//!
//! Most of a record is known beforehand and said once, in the description of the block: which instruction accesses
//! how many bytes, and at what distance from which word of the record. Two accesses whose addresses differ by a
//! constant share a word, as all accesses through an unchanged register do, and pushes and pops.
//!
//! T is r10 unless the block uses r10. Where no such description fits (strings, gathers, masks), the instruction has
//! a block of its own, and the engine looks at memory before and after it.
//!
//! A *summary* needs less: which bytes are written, how often blocks are executed, and where calls have their return
//! addresses. Marks lie where a recording has its shadow, counters behind the code cache.
//!
//! ```text
//! block          =>  add dword [counter], 1; body                 (through A if flags live)
//! side exit      =>  its own counter is added to
//! mov [X], r     =>  mov gs:[X], -1; mov [X], r
//! call           =>  mov [T], rsp; lea T, [T + 8]
//! return         =>  lea A, [rsp + 1]; mov [T], A; lea T, [T + 8]
//! ```
//!
//! Nothing here touches flags that matter. Guest memory can be read freely: in a replay all of it is mapped.

use crate::context::{Gpr, slot, spill_offset};
use crate::gs_offset;
use crate::policy::{is_read, is_write};
use crate::record::weave::{is_masked, is_plain_size};
use crate::translate::address::{Address, Operation, Segment};
use crate::translate::classify::{Class, classify};
use crate::translate::emit::{Emitter, SpillMark};
use crate::translate::operand::{GprSet, OperandRewriter, gpr_of};
use alloc::vec::Vec;
use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};
use retro_abi::replay::{
    Access, RECORD_GRAIN, access, detail, ending, mark, record_word, transfer,
};

use super::super::summary::counter;

/// Where guest code keeps the place of the next record.
pub const CURSOR_REGISTER: Gpr = Gpr::R10;

/// No instruction leaves more in a record: address and value of 64 bytes, read and written, and the block's number.
pub const MOST_PER_INSTRUCTION: u64 = 160;

/// Everything in a record takes a multiple of so many bytes.
const SMALLEST: usize = RECORD_GRAIN;

/// Registers that a block may use in a stream, so that some are left for it.
const MOST_REGISTERS: u32 = 11;

/// How an instruction accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Not at all, or not in a way that anybody wants to know.
    Nothing,
    /// One operand.
    Operand { len: usize, reads: bool, writes: bool },
    /// Writes below the stack pointer.
    Push { len: usize },
    /// Reads at the stack pointer.
    Pop,
    /// Reads at rbp.
    Leave,
    /// Only the engine can tell.
    Loose,
}

/// The sum that an address has in common with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sum {
    base: Option<(Gpr, u16)>,
    index: Option<(Gpr, u16, u8)>,
    segment: Segment,
    /// A sum that is cut to 32 bits, with its displacement, is shared by nobody else.
    narrow: Option<i32>,
}

/// A word of the record.
#[derive(Clone, Copy, Debug)]
struct Known {
    sum: Sum,
    at: u16,
    /// How far the stack pointer had moved when it was stored.
    stack: i64,
}

/// Where an operand is.
#[derive(Clone, Copy, Debug)]
struct Place {
    base: u16,
    displacement: u64,
}

/// The state of weaving one block.
pub struct Tracer {
    /// What is wanted, of [`detail`].
    pub detail: u64,
    /// Number of the next block; its side exits have those behind it.
    pub next: u32,
    /// What is left in the stream when the block is left early.
    pub partial: Vec<Partial>,
    /// What the block does to memory.
    pub accesses: Vec<Access>,
    /// Length of each instruction.
    pub lengths: Vec<u8>,
    /// How it ends.
    pub ending: u64,
    /// Bytes of its record.
    pub len: usize,
    known: Vec<Known>,
    /// Counts how often each register has changed.
    versions: [u16; 16],
    stack: i64,
    cursor: Gpr,
    scratch: Gpr,
    held_cursor: Option<SpillMark>,
    held_scratch: Option<SpillMark>,
    /// What is to be stored when the instruction is done.
    after: Option<(Place, usize)>,
    index: u8,
    left: bool,
    /// Where the block's first word is stored, if it leaves a record.
    word_at: Option<usize>,
    /// How far the place of the next record moves.
    moved: usize,
    /// The register that the scratch register has a copy of, and how far the stack pointer had moved then.
    copied: Option<(Gpr, u16, i64)>,
}

/// A block that is left by a side exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    /// Instructions executed.
    pub instructions: usize,
    /// Accesses made.
    pub accesses: usize,
    /// Bytes of its record.
    pub len: usize,
}

impl Tracer {
    /// One with empty buffers that is not wanted.
    pub fn new() -> Tracer {
        Tracer {
            detail: 0,
            next: 0,
            accesses: Vec::with_capacity(64),
            lengths: Vec::with_capacity(64),
            ending: ending::NEXT,
            len: 0,
            known: Vec::with_capacity(16),
            versions: [0; 16],
            stack: 0,
            cursor: CURSOR_REGISTER,
            scratch: Gpr::Rax,
            held_cursor: None,
            held_scratch: None,
            after: None,
            index: 0,
            left: false,
            partial: Vec::with_capacity(4),
            word_at: None,
            moved: 0,
            copied: None,
        }
    }

    /// Whether anything is wanted.
    pub fn active(&self) -> bool {
        self.detail != 0
    }

    fn wants(&self, what: u64) -> bool {
        self.detail & what != 0
    }

    /// Whether a block must end in front of an instruction, given the registers it uses so far.
    pub fn ends_before(
        &self,
        operands: &mut OperandRewriter,
        guest: &Instruction,
        used: &mut GprSet,
    ) -> bool {
        used.0 |= operands.used_registers(guest).0;
        used.0.count_ones() > MOST_REGISTERS || self.is_loose(operands, guest)
    }

    /// Whether the engine must look at memory before and after an instruction.
    pub fn is_loose(&self, operands: &mut OperandRewriter, guest: &Instruction) -> bool {
        classify(guest) == Class::Plain && self.shape(operands, guest) == Shape::Loose
    }

    /// How an instruction accesses memory.
    fn shape(&self, operands: &mut OperandRewriter, guest: &Instruction) -> Shape {
        if !self.wants(detail::WRITES | detail::READS) || guest.is_invalid() {
            return Shape::Nothing;
        }
        let memory = operands.accesses(guest);
        let reads = self.wants(detail::READS) && memory.iter().any(|m| is_read(m.access()));
        let writes = self.wants(detail::WRITES) && memory.iter().any(|m| is_write(m.access()));
        if !reads && !writes {
            return Shape::Nothing;
        }
        match guest.code() {
            Code::Push_r64 | Code::Pushq_imm8 | Code::Pushq_imm32 | Code::Pushfq => {
                return Shape::Push { len: 8 };
            }
            Code::Push_rm64 if guest.op0_kind() == OpKind::Register => {
                return Shape::Push { len: 8 };
            }
            Code::Pop_r64 => return Shape::Pop,
            Code::Pop_rm64 if guest.op0_kind() == OpKind::Register => return Shape::Pop,
            Code::Leaveq => return Shape::Leave,
            _ => {}
        }
        let &[one] = memory else { return Shape::Loose };
        let len = one.memory_size().size();
        let bit_string = matches!(
            guest.mnemonic(),
            Mnemonic::Bt | Mnemonic::Btc | Mnemonic::Btr | Mnemonic::Bts
        ) && guest.op1_kind() == OpKind::Register;
        if guest.is_string_instruction()
            || guest.is_stack_instruction()
            || guest.is_vsib()
            || is_masked(guest)
            || bit_string
            || matches!(guest.mnemonic(), Mnemonic::Xlatb)
            || !is_plain_size(len)
            || !(0..guest.op_count()).any(|i| guest.op_kind(i) == OpKind::Memory)
            || self.operand(guest).is_none_or(|(address, _)| len > 8 && address.plus(64).is_none())
        {
            return Shape::Loose;
        }
        Shape::Operand { len, reads, writes }
    }

    /// The operand of an instruction, if it can be followed.
    fn operand(&self, guest: &Instruction) -> Option<(Address, Segment)> {
        let segment = match guest.segment_prefix() {
            Register::FS => Segment::Fs,
            Register::GS => return None,
            _ => Segment::Flat,
        };
        let address = Address::of(guest)?;
        let both = address.base.is_some() && address.index.is_some();
        if segment == Segment::Fs && (both || address.narrow) {
            return None;
        }
        Some((address, segment))
    }

    /// Starts a block, after it was counted.
    pub fn begin(
        &mut self,
        out: &mut Emitter,
        operands: &mut OperandRewriter,
        block: &[Instruction],
        flags_dead: bool,
    ) {
        self.accesses.clear();
        self.known.clear();
        self.versions = [0; 16];
        self.stack = 0;
        self.len = size_of::<u32>();
        self.after = None;
        self.left = false;
        self.held_scratch = None;
        self.ending = ending_of(block);
        self.lengths.clear();
        self.lengths.extend(block.iter().map(|guest| guest.len() as u8));
        let mut used = GprSet::default();
        used.0 |= 1 << Gpr::Rsp as u16 | 1 << crate::clock::CLOCK_REGISTER as u16;
        for guest in block {
            used.0 |= operands.used_registers(guest).0;
        }
        let needs_cursor = used.contains(CURSOR_REGISTER);
        used.0 |= 1 << CURSOR_REGISTER as u16;
        // Those that need no REX prefix, rbx and rbp aside, make the shortest code.
        let mut free = Gpr::ALL.into_iter().rev().filter(|&r| !used.contains(r));
        self.scratch = free.next().unwrap_or(Gpr::Rax);
        self.cursor = CURSOR_REGISTER;
        self.copied = None;
        self.moved = 0;
        self.word_at = (!self.summarises()).then(|| {
            out.memory_immediate32(&Address::at(CURSOR_REGISTER), 0);
            out.here() - size_of::<u32>()
        });
        self.partial.clear();
        self.held_cursor = None;
        if needs_cursor {
            self.cursor = free.next().unwrap_or(Gpr::Rax);
            self.held_cursor = Some(out.spill(self.cursor, slot::POLICY));
            out.mov(self.cursor, CURSOR_REGISTER);
            out.load_gs(CURSOR_REGISTER, spill_offset(slot::CURSOR));
        }
        if self.summarises() {
            if flags_dead {
                out.count_up(counter(self.next));
            } else {
                let scratch = self.take_scratch(out);
                out.count_up_through(scratch, counter(self.next));
            }
        }
    }

    /// Whether only a summary is wanted.
    fn summarises(&self) -> bool {
        self.wants(detail::SUMMARY)
    }

    /// Whether the block uses the register that the cursor is kept in.
    pub fn needs_cursor_register(&self) -> bool {
        self.active() && self.held_cursor.is_some()
    }

    fn at(&self, offset: usize) -> Address {
        Address { displacement: offset as i32, ..Address::at(self.cursor) }
    }

    fn take_scratch(&mut self, out: &mut Emitter) -> Gpr {
        if self.held_scratch.is_none() {
            self.held_scratch = Some(out.spill(self.scratch, slot::POLICY_SECOND));
        }
        self.scratch
    }

    fn store(&mut self, out: &mut Emitter, register: Gpr, size: usize) -> u16 {
        let at = self.len;
        out.memory(Operation::Store, size, register, Segment::Flat, &self.at(at));
        self.len += size;
        at as u16
    }

    /// The word of the record that an address is counted from, stored if it is not there yet.
    fn locate(&mut self, out: &mut Emitter, address: &Address, segment: Segment) -> Place {
        let mut displacement = address.displacement as i64;
        if address.base.is_none() && address.index.is_none() && segment == Segment::Flat {
            return Place { base: Access::ABSOLUTE, displacement: displacement as u64 };
        }
        let version = |register: Gpr| self.versions[register as usize];
        let sum = Sum {
            base: address.base.map(|r| (r, version(r))),
            index: address.index.map(|(r, scale)| (r, version(r), scale)),
            segment,
            narrow: address.narrow.then_some(address.displacement),
        };
        if address.base == Some(Gpr::Rsp) {
            displacement += self.stack;
        }
        if let Some(known) = self.known.iter().find(|known| known.sum == sum) {
            let moved = if address.base == Some(Gpr::Rsp) { known.stack } else { 0 };
            let displacement = if address.narrow { 0 } else { displacement - moved };
            return Place { base: known.at, displacement: displacement as u64 };
        }
        let at = self.store_sum(out, address, segment);
        self.known.push(Known { sum, at, stack: self.stack });
        if address.base == Some(Gpr::Rsp) {
            displacement -= self.stack;
        }
        let displacement = if address.narrow { 0 } else { displacement };
        Place { base: at, displacement: displacement as u64 }
    }

    fn store_sum(&mut self, out: &mut Emitter, address: &Address, segment: Segment) -> u16 {
        match (segment, address.base, address.index) {
            (Segment::Flat, Some(base), None) if !address.narrow => self.store(out, base, 8),
            _ => {
                let scratch = self.take_scratch(out);
                self.sum_to(out, scratch, address, segment);
                self.store(out, scratch, 8)
            }
        }
    }

    /// What an address is counted from, into a register; the address itself if it is narrow.
    fn sum_to(&self, out: &mut Emitter, to: Gpr, address: &Address, segment: Segment) {
        if segment == Segment::Fs {
            out.load_gs(to, gs_offset!(guest_fs_base));
            let sum = match address.base.map(|b| (b, 0)).or(address.index) {
                None => return,
                // rsp cannot be an index.
                Some((Gpr::Rsp, _)) => Address { index: Some((to, 0)), ..Address::at(Gpr::Rsp) },
                index => Address { index, ..Address::at(to) },
            };
            return out.memory(Operation::Lea, 8, to, Segment::Flat, &sum);
        }
        let displacement = if address.narrow { address.displacement } else { 0 };
        let sum = Address { displacement, ..*address };
        let size = if address.narrow { 4 } else { 8 };
        out.memory(Operation::Lea, size, to, Segment::Flat, &sum);
    }

    /// Marks memory that is about to be written.
    fn mark(&mut self, out: &mut Emitter, address: &Address, segment: Segment, len: usize) {
        let mut at = *address;
        let on_stack = at.base.filter(|base| matches!(base, Gpr::Rsp | Gpr::Rbp));
        if segment == Segment::Fs || at.narrow {
            let scratch = self.take_scratch(out);
            self.copied = None;
            self.sum_to(out, scratch, address, segment);
            let displacement = if at.narrow { 0 } else { at.displacement };
            at = Address { displacement, ..Address::at(scratch) };
        } else if let Some(base) = on_stack {
            // Not through the stack's own registers: processors take the mark for what a load from there gets.
            let moved = self.copy_of(out, base);
            let Some(displacement) = i32::try_from(i64::from(at.displacement) + moved).ok() else {
                return;
            };
            at = Address { base: Some(self.scratch), displacement, ..at };
        }
        let mut done = 0;
        while done < len {
            let size = largest_piece(len - done);
            let Some(piece) = at.plus(done as i32) else { return };
            out.store_shadow_immediate(size, &piece, mark::WRITTEN as i8 as i32);
            done += size;
        }
    }

    /// Lets the scratch register hold what a register held not long ago; says how far that has moved since.
    fn copy_of(&mut self, out: &mut Emitter, base: Gpr) -> i64 {
        let version = self.versions[base as usize];
        let stack = if base == Gpr::Rsp { self.stack } else { 0 };
        if let Some((known, its_version, its_stack)) = self.copied
            && (known, its_version) == (base, version)
        {
            return stack - its_stack;
        }
        let scratch = self.take_scratch(out);
        out.mov(scratch, base);
        self.copied = Some((base, version, stack));
        0
    }

    fn note(&mut self, kind: u8, place: Place, len: usize, value: u16) {
        self.accesses.push(Access {
            instruction: self.index,
            kind,
            len: len as u16,
            base: place.base,
            value,
            displacement: place.displacement,
        });
    }

    /// Copies memory into the record.
    fn copy(&mut self, out: &mut Emitter, from: &Address, segment: Segment, len: usize) -> u16 {
        let at = self.len;
        let scratch = self.take_scratch(out);
        let mut done = 0;
        while done < len {
            let size = largest_piece(len - done);
            let piece = from.plus(done as i32).unwrap_or(*from);
            out.load_zero_extended(size, scratch, segment, &piece);
            self.store(out, scratch, size.max(SMALLEST));
            done += size;
        }
        at as u16
    }

    /// In front of an instruction that is executed here, or that ends the block.
    pub fn before(
        &mut self,
        out: &mut Emitter,
        operands: &mut OperandRewriter,
        guest: &Instruction,
        index: usize,
    ) {
        self.index = index as u8;
        self.after = None;
        match classify(guest) {
            Class::Plain => self.before_plain(out, operands, guest),
            Class::Call | Class::IndirectCall => {
                if let Some((address, segment)) = self.operand_read(guest) {
                    self.read(out, &address, segment, 8);
                }
                self.return_address(out, access::CALL, -8);
            }
            Class::IndirectJump => {
                if let Some((address, segment)) = self.operand_read(guest) {
                    self.read(out, &address, segment, 8);
                }
            }
            Class::Return => self.return_address(out, access::RETURN, 0),
            _ => {}
        }
    }

    /// The memory operand of an indirect transfer, if it is to be told.
    fn operand_read(&self, guest: &Instruction) -> Option<(Address, Segment)> {
        let has_operand = guest.op0_kind() == OpKind::Memory;
        (self.wants(detail::READS) && has_operand).then(|| self.operand(guest))?
    }

    fn return_address(&mut self, out: &mut Emitter, kind: u8, displacement: i32) {
        let wanted = match kind {
            access::CALL => self.wants(detail::CALLS | detail::WRITES),
            _ => self.wants(detail::CALLS | detail::READS),
        };
        if wanted {
            let top = Address { displacement, ..Address::at(Gpr::Rsp) };
            if self.summarises() {
                return self.transfer(out, kind, &top);
            }
            let place = self.locate(out, &top, Segment::Flat);
            self.note(kind, place, 8, Access::NO_VALUE);
        }
    }

    /// What a summary has of a call or a return: the stack pointer, which is even, or one more for a return.
    fn transfer(&mut self, out: &mut Emitter, kind: u8, top: &Address) {
        let mut stack = Gpr::Rsp;
        if kind == access::CALL {
            self.mark(out, top, Segment::Flat, 8);
        } else {
            stack = self.take_scratch(out);
            let odd = Address { displacement: transfer::RETURN as i32, ..Address::at(Gpr::Rsp) };
            out.memory(Operation::Lea, 8, stack, Segment::Flat, &odd);
        }
        out.memory(Operation::Store, 8, stack, Segment::Flat, &self.at(0));
        self.moved = size_of::<u64>();
        self.len = self.moved;
    }

    fn read(&mut self, out: &mut Emitter, address: &Address, segment: Segment, len: usize) {
        let place = self.locate(out, address, segment);
        let value = self.copy(out, address, segment, len);
        self.note(access::READ, place, len, value);
    }

    fn before_plain(
        &mut self,
        out: &mut Emitter,
        operands: &mut OperandRewriter,
        guest: &Instruction,
    ) {
        match self.shape(operands, guest) {
            Shape::Nothing | Shape::Loose => {}
            Shape::Push { len } if self.summarises() => {
                let below = Address { displacement: -(len as i32), ..Address::at(Gpr::Rsp) };
                self.mark(out, &below, Segment::Flat, len);
            }
            Shape::Operand { len, .. } if self.summarises() => {
                let Some((address, segment)) = self.operand(guest) else { return };
                self.mark(out, &address, segment, len);
            }
            Shape::Push { len } => {
                if self.wants(detail::WRITES) {
                    let below = Address { displacement: -(len as i32), ..Address::at(Gpr::Rsp) };
                    let place = self.locate(out, &below, Segment::Flat);
                    self.after = Some((place, len));
                }
            }
            Shape::Pop => self.read(out, &Address::at(Gpr::Rsp), Segment::Flat, 8),
            Shape::Leave => self.read(out, &Address::at(Gpr::Rbp), Segment::Flat, 8),
            Shape::Operand { len, reads, writes } => {
                let Some((address, segment)) = self.operand(guest) else { return };
                if reads {
                    self.read(out, &address, segment, len);
                }
                if writes {
                    let place = self.locate(out, &address, segment);
                    self.after = Some((place, len));
                }
            }
        }
        if matches!(guest.code(), Code::Wrfsbase_r64) && guest.op0_kind() == OpKind::Register {
            out.store_gs(gpr_of(guest.op0_register()), gs_offset!(guest_fs_base));
        }
    }

    /// Behind an instruction that was executed here.
    pub fn after(
        &mut self,
        out: &mut Emitter,
        operands: &mut OperandRewriter,
        guest: &Instruction,
    ) {
        if let Some((place, len)) = self.after.take() {
            let value = self.written_value(out, operands, guest, place, len);
            self.note(access::WRITE, place, len, value);
        }
        self.follow_registers(operands, guest);
    }

    fn written_value(
        &mut self,
        out: &mut Emitter,
        operands: &mut OperandRewriter,
        guest: &Instruction,
        place: Place,
        len: usize,
    ) -> u16 {
        if let Some(register) = stored_register(guest) {
            return self.store(out, register, len.max(SMALLEST));
        }
        if guest.is_stack_instruction() {
            return self.copy(out, &Address::at(Gpr::Rsp), Segment::Flat, len);
        }
        // The operand's registers may have changed; the record knows the address.
        if operands.writes_registers(guest) && place.base != Access::ABSOLUTE {
            return self.copy_through(out, place, len);
        }
        match self.operand(guest) {
            Some((address, segment)) => self.copy(out, &address, segment, len),
            None => Access::NO_VALUE,
        }
    }

    /// Copies memory whose address is in the record, piece by piece: there is one scratch register only.
    fn copy_through(&mut self, out: &mut Emitter, place: Place, len: usize) -> u16 {
        let at = self.len;
        let scratch = self.take_scratch(out);
        let mut done = 0;
        while done < len {
            let size = largest_piece(len - done);
            out.memory(Operation::Load, 8, scratch, Segment::Flat, &self.at(place.base as usize));
            let displacement = place.displacement as i64 as i32 + done as i32;
            let address = Address { displacement, ..Address::at(scratch) };
            out.load_zero_extended(size, scratch, Segment::Flat, &address);
            self.store(out, scratch, size.max(SMALLEST));
            done += size;
        }
        at as u16
    }

    /// Keeps track of which registers still hold what they held.
    fn follow_registers(&mut self, operands: &mut OperandRewriter, guest: &Instruction) {
        let mut written = operands.written_registers(guest);
        if let Some(moved) = stack_movement(guest) {
            self.stack += moved;
            // `pop rsp` is more than a movement.
            let target = matches!(guest.code(), Code::Pop_r64 | Code::Pop_rm64)
                && gpr_of(guest.op0_register()) == Gpr::Rsp;
            if !target {
                written.0 &= !(1 << Gpr::Rsp as u16);
            }
        }
        for register in Gpr::ALL.into_iter().filter(|&r| written.contains(r)) {
            self.versions[register as usize] += 1;
        }
    }

    /// Cold code of a side exit behind `instructions`: the record ends here.
    pub fn side_exit(&mut self, cold: &mut Emitter, instructions: usize) {
        let (len, accesses) = (self.len, self.accesses.len());
        self.partial.push(Partial { instructions, accesses, len });
        let number = self.next + self.partial.len() as u32;
        if self.summarises() {
            cold.store_gs(Gpr::Rax, spill_offset(slot::FLAGS));
            cold.count_up_through(Gpr::Rax, counter(number));
            cold.load_gs(Gpr::Rax, spill_offset(slot::FLAGS));
        } else {
            cold.memory_immediate32(&Address::at(self.cursor), record_word(number, len));
        }
        if self.held_scratch.is_some() {
            cold.load_gs(self.scratch, spill_offset(slot::POLICY_SECOND));
        }
        let moved = if self.summarises() { 0 } else { len as i32 };
        let next = Address { displacement: moved, ..Address::at(self.cursor) };
        if self.held_cursor.is_some() {
            cold.store_gs(CURSOR_REGISTER, spill_offset(slot::CURSOR));
            cold.memory(Operation::Lea, 8, CURSOR_REGISTER, Segment::Flat, &next);
            cold.load_gs(self.cursor, spill_offset(slot::POLICY));
        } else if moved != 0 {
            cold.memory(Operation::Lea, 8, CURSOR_REGISTER, Segment::Flat, &next);
        }
    }

    /// In front of an exit: the record is complete.
    pub fn leave(&mut self, out: &mut Emitter) {
        if core::mem::replace(&mut self.left, true) {
            return;
        }
        let mut moved = self.moved as i32;
        if let Some(word_at) = self.word_at {
            let word = record_word(self.next, self.len).to_le_bytes();
            out.bytes[word_at..word_at + word.len()].copy_from_slice(&word);
            moved = self.len as i32;
        }
        if let Some(mark) = self.held_scratch.take() {
            out.unspill(mark);
        }
        let next = Address { displacement: moved, ..Address::at(self.cursor) };
        if let Some(mark) = self.held_cursor.take() {
            out.store_gs(CURSOR_REGISTER, spill_offset(slot::CURSOR));
            out.memory(Operation::Lea, 8, CURSOR_REGISTER, Segment::Flat, &next);
            out.unspill(mark);
        } else if moved != 0 {
            out.memory(Operation::Lea, 8, CURSOR_REGISTER, Segment::Flat, &next);
        }
    }
}

impl Default for Tracer {
    fn default() -> Self {
        Tracer::new()
    }
}

/// The largest piece of memory that one instruction copies.
fn largest_piece(len: usize) -> usize {
    match len {
        8.. => 8,
        4.. => 4,
        2.. => 2,
        _ => 1,
    }
}

fn ending_of(block: &[Instruction]) -> u64 {
    match block.last().map(classify) {
        None | Some(Class::Plain) => ending::NEXT,
        Some(Class::Call | Class::IndirectCall) => ending::CALL,
        Some(Class::Return) => ending::RETURN,
        Some(Class::Syscall) => ending::SYSCALL,
        Some(_) => ending::JUMP,
    }
}

/// The register that a plain store or push copies to memory, if it still holds that value.
fn stored_register(guest: &Instruction) -> Option<Gpr> {
    let register = match guest.code() {
        Code::Mov_rm64_r64 | Code::Mov_rm32_r32 | Code::Mov_rm16_r16 => guest.op1_register(),
        Code::Mov_rm8_r8 => guest.op1_register(),
        Code::Push_r64 => guest.op0_register(),
        _ => return None,
    };
    let high = matches!(register, Register::AH | Register::BH | Register::CH | Register::DH);
    let stack = register == Register::RSP && guest.code() == Code::Push_r64;
    (!high && !stack).then(|| gpr_of(register))
}

/// By how much an instruction moves the stack pointer, if it does only that to it.
fn stack_movement(guest: &Instruction) -> Option<i64> {
    match guest.code() {
        Code::Push_r64 | Code::Pushq_imm8 | Code::Pushq_imm32 | Code::Pushfq => Some(-8),
        Code::Push_rm64 => Some(-8),
        Code::Pop_r64 => Some(8),
        Code::Pop_rm64 if guest.op0_kind() == OpKind::Register => Some(8),
        Code::Sub_rm64_imm8 | Code::Sub_rm64_imm32 if guest.op0_register() == Register::RSP => {
            Some((guest.immediate(1) as i64).wrapping_neg())
        }
        Code::Add_rm64_imm8 | Code::Add_rm64_imm32 if guest.op0_register() == Register::RSP => {
            Some(guest.immediate(1) as i64)
        }
        Code::Lea_r64_m
            if guest.op0_register() == Register::RSP
                && guest.memory_base() == Register::RSP
                && guest.memory_index() == Register::None =>
        {
            Some(guest.memory_displacement64() as i64)
        }
        _ => None,
    }
}
