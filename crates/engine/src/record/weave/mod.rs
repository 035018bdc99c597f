//! What recording weaves into the guest's code: every load checked against the shadow, every store done
//! twice.
//!
//! `[X]` is guest memory, `gs:[X]` its shadow, `T` a scratch register, `slow` cold code that lets the engine log
//! the difference, mend the shadow and start over at `check`.
//!
//! ```text
//! mov r, [X]      =>  check: mov r, [X]; cmp r, gs:[X]; jne slow          (r not in X)
//! op r, [X]       =>  check: mov T, [X]; cmp T, gs:[X]; jne slow; op r, gs:[X]
//! mov [X], r      =>  mov [X], r; mov gs:[X], r
//! op [X], r       =>  check: mov T, [X]; cmp T, gs:[X]; jne slow; op T, r; mov [X], T; mov gs:[X], T
//! lock op [X], r  =>  check: mov T, [X]; cmp T, gs:[X]; jne slow; lock op [X], r; op gs:[X], r
//! cmpxchg [X], r  =>  mov T, rax; cmpxchg [X], r; cmp rax, gs:[X]; jne note; mov rax, T; cmpxchg gs:[X], r
//! push r          =>  push r; mov gs:[rsp], r
//! pop r           =>  pop r; cmp r, gs:[rsp - 8]; jne note
//! anything else   =>  the engine, before and after it
//! ```
//!
//! `gs:[rsp]` and `gs:[rbp]` stand for accesses through a copy of these registers (see `off_the_stack`).
//!
//! A checked operand is *used* from the shadow: whatever changes guest memory in between, the guest computes with
//! what replay will compute with.
//!
//! Flags: an instruction before which all arithmetic flags are dead lets the check destroy them. `wrong` says which
//! flags the machine holds wrongly; where one of these is still needed they wait in a slot and come back before
//! their reader. The code behind a block is looked at, too, where it cannot change: then flags may be wrong from one
//! block to the next, and no signal is delivered there (`Context::incomplete`). With `precise`, which the engine chooses
//! when the guest could look at them in a handler of a fault, they are always saved.
//!
//! Invariants:
//! 1. At a check's start all registers that its operand uses are the guest's.
//! 2. At the end of a block nothing is spilled and no flag is wrong that anybody reads.
//! 3. r11 is no scratch register: it holds the clock, or the guest's own value where the block uses it.

mod flags;
mod form;
mod operand;
mod transfer;

pub use flags::{live_at, live_before as flags_live_before};
pub use form::{is_masked, is_plain_size, is_repeated_string};

use flags::live_before;
use form::{Form, exchanged, has_high_byte, is_x87};
use operand::Operand;

use crate::clock::CLOCK_REGISTER;
use crate::context::{Gpr, slot};
use crate::entry::target;
use crate::gs_offset;
use crate::translate::NOT_INTACT;
use crate::translate::address::{Address, Operation, Segment};
use crate::translate::emit::SpillMark;
pub use crate::translate::liveness::ARITHMETIC;
use crate::translate::operand::{
    GprSet, OperandRewriter, gpr_of, iced_register, is_position_independent,
};
pub use crate::translate::output::{NO_REGISTER, Output, Site};
use alloc::vec::Vec;
use iced_x86::{Code, ConstantOffsets, Instruction, OpKind, Register};

/// What the guest can notice decides how careful the code has to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Keep all flags recoverable at every instruction that can fault.
    pub precise: bool,
    /// Others may write guest memory at any moment: what an atomic instruction has loaded must be known, not
    /// guessed from a load before it.
    pub shared: bool,
}

#[derive(Clone, Copy)]
struct Held {
    register: Gpr,
    mark: SpillMark,
    /// Only for one instruction.
    local: bool,
}

#[derive(Clone, Copy)]
struct SavedFlags {
    /// Offset from which they are there.
    start: usize,
    /// Those that were wrong already, and dead.
    wrong: u32,
}

/// The state of weaving one block.
pub struct Weaver {
    /// How careful to be.
    pub settings: Settings,
    /// Whether the engine follows all accesses, so that a fault is that of the guest's own instruction: where a
    /// check faults, the instruction is translated again, carefully.
    pub careful: bool,
    live: Vec<u32>,
    used: GprSet,
    held: [Option<Held>; 2],
    wrong: u32,
    /// Where the flags are in their slot.
    saved: Option<SavedFlags>,
    instructions: usize,
    index: usize,
}

fn bit(register: Gpr) -> GprSet {
    let mut set = GprSet::default();
    set.add(iced_register(register));
    set
}

fn sized(register: Gpr, size: usize) -> Register {
    let whole = iced_register(register);
    let number = whole.number() as u32;
    let first = match size {
        1 if number >= 4 => return Register::SPL + (number - 4),
        1 => Register::AL,
        2 => Register::AX,
        4 => Register::EAX,
        _ => Register::RAX,
    };
    first + number
}

impl Weaver {
    /// A weaver with empty buffers.
    pub fn new() -> Weaver {
        Weaver {
            settings: Settings::default(),
            careful: false,
            live: Vec::with_capacity(65),
            used: GprSet::default(),
            held: [None; 2],
            wrong: 0,
            saved: None,
            instructions: 0,
            index: 0,
        }
    }

    /// Starts a block.
    pub fn begin(
        &mut self,
        block: &[Instruction],
        operands: &mut OperandRewriter,
        live_at_end: u32,
    ) {
        self.held = [None; 2];
        self.wrong = 0;
        self.saved = None;
        self.instructions = block.len();
        self.used = GprSet(bit(Gpr::Rsp).0 | bit(CLOCK_REGISTER).0);
        for guest in block {
            self.used.0 |= operands.used_registers(guest).0;
        }
        self.live.clear();
        self.live.resize(block.len() + 1, live_at_end);
        for (index, guest) in block.iter().enumerate().rev() {
            let after = self.live[index + 1];
            self.live[index] = live_before(guest, after);
        }
        // What is dead here may have been destroyed by the block before.
        self.wrong = if self.settings.precise { 0 } else { ARITHMETIC & !self.live[0] };
    }

    /// [`NOT_INTACT`] if the guest's state is not complete in front of the next instruction, else 0.
    pub fn completeness(&self) -> u8 {
        let wrong = self.saved.map_or(self.wrong, |saved| saved.wrong);
        if wrong == 0 { 0 } else { NOT_INTACT }
    }

    /// In front of each instruction.
    pub fn before(&mut self, index: usize) {
        self.index = index;
    }

    fn site(&self, pc: u64) -> Site {
        // All of the block is counted before its first instruction.
        Site { adjust: self.index as i16 - self.instructions as i16, ..Site::at(pc) }
    }

    /// The site of an instruction's memory operand.
    fn site_of(&self, guest: &Instruction, len: usize) -> Site {
        let register = |r: Register| if r.is_gpr() { gpr_of(r) as u8 } else { NO_REGISTER };
        let relative = guest.is_ip_rel_memory_operand();
        Site {
            displacement: if relative {
                guest.ip_rel_memory_address() as i64
            } else {
                guest.memory_displacement64() as i64
            },
            base: register(guest.memory_base()),
            index: register(guest.memory_index()),
            scale: guest.memory_index_scale().trailing_zeros() as u8,
            segment: match guest.segment_prefix() {
                Register::FS => Segment::Fs,
                Register::GS => Segment::Gs,
                _ => Segment::Flat,
            },
            narrow: guest.memory_base().size() == 4 && !relative
                || guest.memory_index().size() == 4,
            len: len as u8,
            ..self.site(guest.ip())
        }
    }

    fn stack_site(&self, pc: u64, base: Gpr, displacement: i64) -> Site {
        Site { base: base as u8, displacement, len: 8, ..self.site(pc) }
    }

    // ---- scratch registers ----

    /// A scratch register; `number` tells the first from the second. `avoid` are registers of the instruction.
    fn scratch(&mut self, out: &mut Output, number: usize, avoid: GprSet) -> Gpr {
        if let Some(held) = self.held[number] {
            return held.register;
        }
        let other = self.held[1 - number].map_or(GprSet::default(), |h| bit(h.register));
        // No r12 and rbp-like special cases here: every register works as base and index but rsp.
        let pick = |taken: u16| Gpr::ALL.into_iter().rev().find(|&r| taken & bit(r).0 == 0);
        // rcx first: it also serves to compare without flags.
        let free = self.used.0 | other.0;
        let first = (number == 0 && free & bit(Gpr::Rcx).0 == 0).then_some(Gpr::Rcx);
        let (register, local) = match first.or_else(|| pick(free)) {
            Some(register) => (register, false),
            None => {
                let taken = avoid.0 | other.0 | bit(Gpr::Rsp).0 | bit(CLOCK_REGISTER).0;
                (pick(taken).unwrap_or(Gpr::R15), true)
            }
        };
        let which = if number == 0 { slot::POLICY } else { slot::POLICY_SECOND };
        let mark = out.spill(register, which);
        self.held[number] = Some(Held { register, mark, local });
        register
    }

    fn release(&mut self, out: &mut Output, local_only: bool) {
        for held in &mut self.held {
            if let Some(spilled) = *held
                && (spilled.local || !local_only)
            {
                out.unspill(spilled.mark);
                *held = None;
            }
        }
    }

    fn release_local(&mut self, out: &mut Output) {
        self.release(out, true);
    }

    /// At the end of a block, and wherever the engine needs the guest's whole state.
    pub fn leave(&mut self, out: &mut Output) {
        self.restore_flags(out);
        self.release(out, false);
    }

    /// Weaves one instruction that does not end its block.
    pub fn plain(
        &mut self,
        out: &mut Output,
        operands: &mut OperandRewriter,
        guest: &Instruction,
        bytes: &[u8],
        offsets: &ConstantOffsets,
    ) {
        let form = self.form(operands, guest);
        let avoid = operands.used_registers(guest);
        let woven = match form {
            Form::NoMemory => self.no_memory(out, operands, guest, bytes, offsets),
            Form::PushRegister(register) => self.push_register(out, register, avoid),
            Form::PushImmediate(value) => {
                out.raw(bytes);
                let top = Address::at(self.stack_pointer(out, avoid));
                out.store_shadow_immediate(8, &top, value);
                true
            }
            Form::PushFlags => {
                self.before_own(out, guest);
                let value = self.scratch(out, 0, avoid);
                out.raw(bytes);
                out.memory(Operation::Load, 8, value, Segment::Flat, &Address::at(Gpr::Rsp));
                self.follow_push(out, value, avoid);
                true
            }
            Form::Pop(register) => self.pop(out, guest, bytes, register, avoid),
            Form::Leave => self.leave_frame(out, guest, avoid),
            Form::SetFsBase => {
                let from = gpr_of(guest.op0_register());
                out.raw(bytes);
                let value = self.scratch(out, 0, avoid);
                // mov value, from: of 32 bits it clears the upper half.
                if guest.op0_register().size() == 4 {
                    out.mov32(value, from)
                } else {
                    out.mov(value, from)
                }
                out.store_gs(value, gs_offset!(guest_fs_base));
                true
            }
            Form::Engine => false,
            _ => self.memory_form(out, operands, guest, bytes, offsets, form, avoid),
        };
        if !woven {
            self.by_engine(out, operands, guest, bytes, offsets);
        }
        self.release_local(out);
    }

    fn no_memory(
        &mut self,
        out: &mut Output,
        operands: &mut OperandRewriter,
        guest: &Instruction,
        bytes: &[u8],
        offsets: &ConstantOffsets,
    ) -> bool {
        self.before_own(out, guest);
        emit_anywhere(out, operands, guest, bytes, offsets);
        self.after_own(out, guest);
        true
    }

    #[allow(clippy::too_many_arguments, reason = "all of it describes one instruction")]
    fn memory_form(
        &mut self,
        out: &mut Output,
        operands: &mut OperandRewriter,
        guest: &Instruction,
        bytes: &[u8],
        offsets: &ConstantOffsets,
        form: Form,
        avoid: GprSet,
    ) -> bool {
        // With a register of its own the operand could need a prefix that turns ah into spl.
        let moves = matches!(guest.segment_prefix(), Register::FS | Register::GS)
            || Address::of(guest).is_none();
        if moves && has_high_byte(guest) {
            return false;
        }
        // What cannot be said about the operand must be found out before anything is emitted.
        let reach = match form {
            Form::Read(len) | Form::StoreThenCopy(len) => len as i32 - 1,
            _ => 0,
        };
        if Address::of(guest).is_some_and(|a| a.plus(reach).is_none()) {
            return false;
        }
        let Some(operand) = self.operand(out, guest, avoid) else { return false };
        match form {
            Form::Load(to, len)
                if matches!(guest.code(), Code::Mov_r64_rm64 | Code::Mov_r32_rm32)
                    && self.flagless(out) =>
            {
                let resume = out.next_address();
                let site = Site { resume, ..self.site_of(guest, len) };
                self.emit_own(out, operands, guest, bytes, offsets, &operand, false);
                self.compare_flagless(out, to, len, &operand.shadow);
                out.leave_for(site, target::exit_mismatch());
            }
            Form::Load(to, len) => {
                self.destroy_flags(out);
                let resume = out.next_address();
                let site = Site { resume, ..self.site_of(guest, len) };
                self.emit_own(out, operands, guest, bytes, offsets, &operand, false);
                self.compare(out, site, to, len, &operand.shadow);
            }
            Form::Read(len) => {
                let value = self.scratch(out, 0, avoid);
                self.destroy_flags(out);
                self.check(out, guest, &operand, len, value);
                self.before_own(out, guest);
                // x87 remembers where its operand was.
                let on_shadow = !is_x87(guest);
                self.emit_own(out, operands, guest, bytes, offsets, &operand, on_shadow);
                self.after_own(out, guest);
            }
            Form::Store => {
                self.before_own(out, guest);
                self.emit_own(out, operands, guest, bytes, offsets, &operand, false);
                self.emit_own(out, operands, guest, bytes, offsets, &operand, true);
            }
            Form::StoreThenCopy(len) => {
                let value = self.scratch(out, 0, avoid);
                self.before_own(out, guest);
                self.emit_own(out, operands, guest, bytes, offsets, &operand, false);
                self.after_own(out, guest);
                self.copy_to_shadow(out, &operand, len, value);
            }
            Form::Modify(len) => {
                let value = self.scratch(out, 0, avoid);
                self.destroy_flags(out);
                self.check(out, guest, &operand, len, value);
                self.before_own(out, guest);
                emit_on_register(out, operands, guest, sized(value, len));
                out.memory(Operation::Store, len, value, operand.segment, &operand.real);
                self.after_own(out, guest);
                out.memory(Operation::Store, len, value, Segment::Gs, &operand.shadow);
            }
            Form::ModifyWithFlags(len) => {
                let value = self.scratch(out, 0, avoid);
                self.destroy_flags(out);
                self.check(out, guest, &operand, len, value);
                self.before_own(out, guest);
                self.emit_own(out, operands, guest, bytes, offsets, &operand, false);
                self.after_own(out, guest);
                self.copy_to_shadow(out, &operand, len, value);
            }
            Form::LockedModify(len)
                if self.settings.shared
                    && !avoid.contains(Gpr::Rax)
                    && self.held.iter().flatten().all(|h| h.register != Gpr::Rax) =>
            {
                self.compare_and_swap(out, operands, guest, &operand, len, avoid);
            }
            Form::LockedModify(len) => {
                let value = self.scratch(out, 0, avoid);
                self.destroy_flags(out);
                self.check(out, guest, &operand, len, value);
                self.before_own(out, guest);
                self.emit_own(out, operands, guest, bytes, offsets, &operand, false);
                self.after_own(out, guest);
                self.emit_own(out, operands, guest, bytes, offsets, &operand, true);
            }
            Form::CompareExchange(len) => {
                let before = self.scratch(out, 0, avoid);
                out.mov(before, Gpr::Rax);
                self.emit_own(out, operands, guest, bytes, offsets, &operand, false);
                let site = self.site_of(guest, len);
                self.check_after(out, site, Gpr::Rax, len, &operand.shadow);
                out.mov(Gpr::Rax, before);
                self.emit_own(out, operands, guest, bytes, offsets, &operand, true);
                self.after_own(out, guest);
            }
            Form::ExchangeAdd(len) => {
                let register = gpr_of(guest.op1_register());
                let before = self.scratch(out, 0, avoid);
                out.mov(before, register);
                self.emit_own(out, operands, guest, bytes, offsets, &operand, false);
                let site = self.site_of(guest, len);
                self.check_after(out, site, register, len, &operand.shadow);
                out.mov(register, before);
                self.emit_own(out, operands, guest, bytes, offsets, &operand, true);
                self.after_own(out, guest);
            }
            Form::Exchange(len) => {
                let register = gpr_of(exchanged(guest));
                let before = self.scratch(out, 0, avoid);
                self.destroy_flags(out);
                out.mov(before, register);
                self.emit_own(out, operands, guest, bytes, offsets, &operand, false);
                let site = self.site_of(guest, len);
                self.check_after(out, site, register, len, &operand.shadow);
                out.memory(Operation::Store, len, before, Segment::Gs, &operand.shadow);
            }
            Form::PushMemory => {
                let value = self.scratch(out, 0, avoid);
                self.destroy_flags(out);
                self.check(out, guest, &operand, 8, value);
                out.push_any(value);
                self.follow_push(out, value, avoid);
            }
            _ => return false,
        }
        true
    }

    /// `lock op [X], r` when others may write `[X]` meanwhile, with rax spilled:
    /// `check: mov rax, [X]; cmp rax, gs:[X]; jne slow; mov T, rax; op T, r; lock cmpxchg [X], T; jne check;
    /// mov gs:[X], T; mov T, rax; op T, r`, the last for its flags.
    fn compare_and_swap(
        &mut self,
        out: &mut Output,
        operands: &mut OperandRewriter,
        guest: &Instruction,
        operand: &Operand,
        len: usize,
        avoid: GprSet,
    ) {
        let value = self.scratch(out, 0, GprSet(avoid.0 | bit(Gpr::Rax).0));
        self.destroy_flags(out);
        let rax = out.spill(Gpr::Rax, slot::LOOKUP_RAX);
        let check = out.here();
        let register = sized(value, len);
        let site = Site { resume: out.address + check as u64, ..self.site_of(guest, len) };
        out.memory(Operation::Load, len, Gpr::Rax, operand.segment, &operand.real);
        self.compare(out, site, Gpr::Rax, len, &operand.shadow);
        out.mov(value, Gpr::Rax);
        emit_on_register(out, operands, guest, register);
        out.compare_exchange(len, value, operand.segment, &operand.real);
        let again = out.address + check as u64;
        out.jump_if_not_equal(again);
        out.memory(Operation::Store, len, value, Segment::Gs, &operand.shadow);
        out.mov(value, Gpr::Rax);
        self.before_own(out, guest);
        emit_on_register(out, operands, guest, register);
        self.after_own(out, guest);
        out.unspill(rax);
    }

    fn push_register(&mut self, out: &mut Output, register: Gpr, avoid: GprSet) -> bool {
        if register == Gpr::Rsp {
            let value = self.scratch(out, 0, avoid);
            out.mov(value, Gpr::Rsp);
            out.push_any(value);
            self.follow_push(out, value, avoid);
        } else {
            out.push_any(register);
            self.follow_push(out, register, avoid);
        }
        true
    }

    /// The shadow's half of a push.
    fn follow_push(&mut self, out: &mut Output, value: Gpr, avoid: GprSet) {
        let top = Address::at(self.stack_pointer(out, avoid));
        out.memory(Operation::Store, 8, value, Segment::Gs, &top);
    }

    fn pop(
        &mut self,
        out: &mut Output,
        guest: &Instruction,
        bytes: &[u8],
        register: Gpr,
        avoid: GprSet,
    ) -> bool {
        if register == Gpr::Rsp {
            return false;
        }
        let site = self.stack_site(guest.ip(), Gpr::Rsp, -8);
        if self.flagless(out) {
            let shadow = Address::at(Gpr::Rcx);
            out.mov(Gpr::Rcx, Gpr::Rsp);
            out.raw(bytes);
            self.compare_flagless(out, register, 8, &shadow);
            out.leave_for(site, target::exit_mismatch());
            out.goes_on_with(register as u8, 8);
            return true;
        }
        self.destroy_flags(out);
        let shadow = Address::at(self.stack_pointer(out, avoid));
        out.raw(bytes);
        self.check_after(out, site, register, 8, &shadow);
        true
    }

    fn leave_frame(&mut self, out: &mut Output, guest: &Instruction, avoid: GprSet) -> bool {
        let value = self.scratch(out, 0, avoid);
        self.destroy_flags(out);
        let resume = out.next_address();
        let site = Site { resume, ..self.stack_site(guest.ip(), Gpr::Rbp, 0) };
        out.memory(Operation::Load, 8, value, Segment::Flat, &Address::at(Gpr::Rbp));
        let shadow = self.off_the_stack(out, &Address::at(Gpr::Rbp), avoid);
        self.compare(out, site, value, 8, &shadow);
        let above = Address { displacement: 8, ..Address::at(Gpr::Rbp) };
        out.memory(Operation::Lea, 8, Gpr::Rsp, Segment::Flat, &above);
        out.mov(Gpr::Rbp, value);
        true
    }

    /// The general way: the engine checks what the instruction will read, and afterwards copies what it wrote.
    fn by_engine(
        &mut self,
        out: &mut Output,
        operands: &mut OperandRewriter,
        guest: &Instruction,
        bytes: &[u8],
        offsets: &ConstantOffsets,
    ) {
        self.leave(out);
        let whole = is_repeated_string(guest);
        if whole && self.careful {
            // The engine has done what can be done of it; what is left faults.
            emit_anywhere(out, operands, guest, bytes, offsets);
            return;
        }
        out.ask(self.site(guest.ip()), target::exit_before_access());
        if whole {
            // The engine executes all of it.
            self.after_own(out, guest);
            return;
        }
        emit_anywhere(out, operands, guest, bytes, offsets);
        self.after_own(out, guest);
        out.ask(self.site(guest.ip()), target::exit_after_access());
    }
}

/// The guest's instruction with a register in place of its memory operand.
fn emit_on_register(
    out: &mut Output,
    operands: &mut OperandRewriter,
    guest: &Instruction,
    register: Register,
) {
    let mut changed = *guest;
    changed.set_op0_kind(OpKind::Register);
    changed.set_op0_register(register);
    changed.set_segment_prefix(Register::None);
    changed.set_has_lock_prefix(false);
    let encoded = operands.encode(out, &changed);
    assert!(encoded, "an instruction without an encoding");
}

/// The guest's instruction as it is, wherever it stands.
fn emit_anywhere(
    out: &mut Output,
    operands: &mut OperandRewriter,
    guest: &Instruction,
    bytes: &[u8],
    offsets: &ConstantOffsets,
) {
    if is_position_independent(guest) {
        out.raw(bytes);
    } else if !operands.emit(out, guest, bytes, offsets) {
        out.raw(&[0x0f, 0x0b]);
    }
}

impl Default for Weaver {
    fn default() -> Self {
        Weaver::new()
    }
}
