//! What recording weaves into the guest's code: every load checked against the shadow, every store done
//! twice, instructions counted.
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
//! count           =>  add qword gs:[clock], n; jns deadline
//! ```
//!
//! `gs:[rsp]` and `gs:[rbp]` stand for accesses through a copy of these registers (see `off_the_stack`).
//!
//! A checked operand is *used* from the shadow: whatever changes guest memory in between, the guest computes with
//! what replay will compute with.
//!
//! Flags: an instruction before which all arithmetic flags are dead lets the check destroy them. `wrong` says which
//! flags the machine holds wrongly; where one of these is still needed they wait in a slot and come back before
//! their reader. The code behind a block is looked at, too, where it cannot change. With `precise`, which the engine chooses when the guest could look at them in a handler of
//! a fault, they are always saved.
//!
//! Invariants:
//! 1. At a check's start all registers that its operand uses are the guest's.
//! 2. At the end of a block nothing is spilled and no flag is wrong.
//! 3. The count is added exactly once per block; a position before it or behind it is told apart by `counted`.

use crate::context::{CLOCK, Gpr, slot, spill_offset};
use crate::entry::target;
use crate::gs_offset;
use crate::translate::address::{Address, Operation, Segment};
use crate::translate::classify::{Class, classify};
use crate::translate::emit::{Emitter, SpillMark};
use crate::translate::liveness::flags_dead_before;
use crate::translate::operand::{GprSet, OperandRewriter, emit_absolute, gpr_of, iced_register};
use alloc::vec::Vec;
use iced_x86::{
    Code, ConstantOffsets, CpuidFeature, FlowControl, Instruction, Mnemonic, OpAccess, OpKind,
    Register, RflagsBits,
};
use retro_abi::channel::CLOCKS;

/// All arithmetic flags.
pub const ARITHMETIC: u32 = RflagsBits::OF
    | RflagsBits::SF
    | RflagsBits::ZF
    | RflagsBits::AF
    | RflagsBits::CF
    | RflagsBits::PF;

/// No register.
pub const NO_REGISTER: u8 = 0xff;

/// A place in a block from which the engine is asked: what it must know there.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// Guest address of the instruction.
    pub pc: u64,
    /// Cache address to go on at.
    pub resume: u64,
    /// Displacement of the operand.
    pub displacement: i64,
    /// Registers of the operand, [`NO_REGISTER`] for none.
    pub base: u8,
    /// Index register.
    pub index: u8,
    /// Logarithm of the index's scale.
    pub scale: u8,
    /// Segment.
    pub segment: Segment,
    /// Whether the address is cut to 32 bits.
    pub narrow: bool,
    /// Bytes of the operand.
    pub len: u8,
    /// A register that holds what was loaded, if the instruction cannot start over.
    pub value: u8,
    /// What to add to the clock's time to get the time of the instruction.
    pub adjust: i16,
}

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

/// A memory operand, ready to use.
struct Operand {
    segment: Segment,
    real: Address,
    shadow: Address,
    /// Whether the real address needs another encoding than the guest's own bytes.
    moved: bool,
    /// Whether the shadow's address does.
    shadow_moved: bool,
}

/// The forms of translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    NoMemory,
    /// Into a general-purpose register that can be compared afterwards.
    Load(Gpr, usize),
    Read(usize),
    Store,
    StoreThenCopy(usize),
    Modify(usize),
    ModifyWithFlags(usize),
    LockedModify(usize),
    CompareExchange(usize),
    ExchangeAdd(usize),
    Exchange(usize),
    PushRegister(Gpr),
    PushImmediate(i32),
    PushMemory,
    PushFlags,
    Pop(Gpr),
    Leave,
    SetFsBase,
    Engine,
}

/// The state of weaving one block.
pub struct Weaver {
    /// How careful to be.
    pub settings: Settings,
    /// Whether the engine follows all accesses, so that a fault is that of the guest's own instruction: where a
    /// check faults, the instruction is translated again, carefully.
    pub careful: bool,
    /// Code that is rarely executed.
    pub cold: Emitter,
    /// Places of this block; the first has number `first_site`.
    pub sites: Vec<Site>,
    first_site: u32,
    live: Vec<u32>,
    used: GprSet,
    held: [Option<Held>; 2],
    wrong: u32,
    /// Where the flags are in their slot.
    saved: Option<SavedFlags>,
    counted: Option<usize>,
    instructions: usize,
    index: usize,
}

fn bit(register: Gpr) -> GprSet {
    let mut set = GprSet::default();
    set.add(iced_register(register));
    set
}

/// Flags that an instruction surely overwrites.
fn overwritten(guest: &Instruction) -> u32 {
    let defined = defined_flags(guest);
    use Mnemonic::{And, Andn, Or, Test, Xor};
    let logical = matches!(guest.mnemonic(), And | Or | Xor | Test | Andn);
    if logical && logic_overwrites_adjust() { defined | RflagsBits::AF } else { defined }
}

/// Manuals leave AF undefined after logical instructions. Processors clear it; this one was asked whether it
/// depends on what AF was.
fn logic_overwrites_adjust() -> bool {
    use core::sync::atomic::{AtomicU8, Ordering};
    const UNKNOWN: u8 = 2;
    static KNOWN: AtomicU8 = AtomicU8::new(UNKNOWN);
    let known = KNOWN.load(Ordering::Relaxed);
    if known != UNKNOWN {
        return known != 0;
    }
    let adjust_after = |before: u16| {
        let (mut test, mut and, mut or, mut xor) = (before, before, before, before);
        // SAFETY: changes flags and the registers named.
        unsafe {
            core::arch::asm!(
                "mov ax, {0:x}", "sahf", "test ecx, ecx", "lahf", "mov {0:x}, ax",
                "mov ax, {1:x}", "sahf", "and ecx, ecx", "lahf", "mov {1:x}, ax",
                "mov ax, {2:x}", "sahf", "or ecx, ecx", "lahf", "mov {2:x}, ax",
                "mov ax, {3:x}", "sahf", "xor ecx, ecx", "lahf", "mov {3:x}, ax",
                inout(reg) test, inout(reg) and, inout(reg) or, inout(reg) xor,
                out("rax") _, inout("rcx") 0x5a5au64 => _, options(nomem, nostack),
            );
        }
        [test, and, or, xor].map(|ax| ax & 0x1000)
    };
    let independent = adjust_after(0x1200) == adjust_after(0x0200);
    KNOWN.store(independent as u8, Ordering::Relaxed);
    independent
}

fn defined_flags(guest: &Instruction) -> u32 {
    use Mnemonic::{Rcl, Rcr, Rol, Ror, Sal, Sar, Shl, Shld, Shr, Shrd};
    if matches!(guest.mnemonic(), Rcl | Rcr | Rol | Ror | Sal | Sar | Shl | Shld | Shr | Shrd) {
        // A count of zero changes nothing, be it zero only after it is cut to the operand's size; beyond one,
        // OF is anybody's guess.
        let last = guest.op_count() - 1;
        let count = match guest.op_kind(last) {
            OpKind::Immediate8 => guest.immediate8() & 0x1f,
            _ => 0,
        };
        let through_carry = matches!(guest.mnemonic(), Rcl | Rcr);
        let written =
            (guest.rflags_written() | guest.rflags_cleared() | guest.rflags_set()) & ARITHMETIC;
        return match count {
            0 => 0,
            1 => written,
            _ if through_carry => 0,
            _ => written & !RflagsBits::OF,
        };
    }
    if guest.is_string_instruction() {
        return 0;
    }
    (guest.rflags_written() | guest.rflags_cleared() | guest.rflags_set()) & ARITHMETIC
}

/// Flags that matter in front of an instruction, if `after` matter behind it.
fn live_before(guest: &Instruction, after: u32) -> u32 {
    match classify(guest) {
        Class::Plain if guest.flow_control() == FlowControl::Next => {
            after & !overwritten(guest) | read(guest)
        }
        Class::Jump | Class::Call => after,
        Class::Conditional => after | read(guest),
        // Leaves for the engine, or for nobody knows where.
        _ => ARITHMETIC,
    }
}

/// Flags that matter at the start of some code, as far as it is given.
pub fn live_at(code: &[Instruction]) -> u32 {
    // Behind a jump anything may come.
    let straight = code.iter().position(|g| g.flow_control() != FlowControl::Next);
    let (code, end) = match straight {
        Some(end) => (&code[..end], live_before(&code[end], ARITHMETIC)),
        None => (code, ARITHMETIC),
    };
    code.iter().rev().fold(end, |after, guest| live_before(guest, after))
}

fn read(guest: &Instruction) -> u32 {
    guest.rflags_read() & ARITHMETIC
}

fn is_high_byte(register: Register) -> bool {
    matches!(register, Register::AH | Register::BH | Register::CH | Register::DH)
}

fn has_high_byte(guest: &Instruction) -> bool {
    (0..guest.op_count())
        .any(|i| guest.op_kind(i) == OpKind::Register && is_high_byte(guest.op_register(i)))
}

/// Sizes that pieces of 8, 4, 2 and 1 bytes cover well.
fn is_plain_size(len: usize) -> bool {
    matches!(len, 1 | 2 | 4 | 6 | 8 | 10 | 16 | 32 | 64)
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
            cold: Emitter::new(),
            sites: Vec::with_capacity(64),
            first_site: 0,
            live: Vec::with_capacity(65),
            used: GprSet::default(),
            held: [None; 2],
            wrong: 0,
            saved: None,
            counted: None,
            instructions: 0,
            index: 0,
        }
    }

    /// Index of the instruction in front of which the block is counted.
    pub fn counted_at(&self) -> usize {
        self.counted.unwrap_or(0)
    }

    /// Starts a block; its cold code will lie at `cold_address`.
    pub fn begin(
        &mut self,
        block: &[Instruction],
        operands: &mut OperandRewriter,
        cold_address: u64,
        first_site: u32,
        live_at_end: u32,
    ) {
        self.cold.begin(cold_address, 0);
        self.sites.clear();
        self.first_site = first_site;
        self.held = [None; 2];
        self.wrong = 0;
        self.saved = None;
        self.counted = None;
        self.instructions = block.len();
        self.used = bit(Gpr::Rsp);
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

    /// Whether the guest's state is complete in front of the next instruction.
    pub fn intact(&self) -> bool {
        self.saved.map_or(self.wrong, |saved| saved.wrong) == 0
    }

    /// In front of each instruction: counts the block where that costs least.
    pub fn before(&mut self, out: &mut Emitter, index: usize, block: &[Instruction]) {
        self.index = index;
        if self.counted.is_some() {
            return;
        }
        let guest = &block[index];
        let dead = self.live[index] == 0 && (!self.settings.precise || flags_dead_before(guest));
        if self.wrong == ARITHMETIC || dead {
            self.wrong = ARITHMETIC;
            self.count(out, guest.ip(), clock_of(block[0].ip()));
        } else if index + 1 == block.len() {
            if goes_back(guest) {
                self.destroy_flags(out);
                self.count(out, guest.ip(), clock_of(block[0].ip()));
            } else {
                let clock = self.scratch(out, 0, GprSet::default());
                let word = clock_of(block[0].ip());
                out.load_gs(clock, word);
                out.lea_disp_any(clock, self.instructions as i32);
                out.store_gs(clock, word);
                self.release_local(out);
                self.counted = Some(index);
            }
        }
    }

    fn count(&mut self, out: &mut Emitter, pc: u64, clock: i32) {
        self.counted = Some(self.index);
        out.add_gs_imm8(clock, self.instructions as u8);
        let stub = self.cold.address + self.cold.here() as u64;
        out.jump_if_not_negative(stub);
        let site = Site { resume: out.address + out.here() as u64, ..self.site(pc) };
        self.leave_for(site, target::exit_deadline());
    }

    /// Counts the block before anything of it runs; leaves if it would run past the deadline.
    pub fn count_first(&mut self, out: &mut Emitter, pc: u64) {
        self.index = 0;
        let live = self.live[0] != 0;
        if live {
            out.save_flags();
        }
        self.counted = Some(0);
        out.add_gs_imm8(CLOCK, self.instructions as u8);
        out.jump_if_greater(self.cold.address + self.cold.here() as u64);
        let site = self.site(pc);
        if live {
            out.restore_flags();
            self.cold.restore_flags();
        }
        self.wrong = 0;
        self.leave_for(site, target::exit_deadline());
    }

    /// Cold code that goes to the engine, naming a site.
    fn leave_for(&mut self, site: Site, entry: u64) {
        let number = self.first_site + self.sites.len() as u32;
        self.sites.push(site);
        self.cold.store_gs_imm32(gs_offset!(exit_index), number);
        self.cold.jump_to(entry);
    }

    fn site(&self, pc: u64) -> Site {
        let counted = if self.counted.is_some() { self.instructions } else { 0 };
        Site {
            pc,
            resume: 0,
            displacement: 0,
            base: NO_REGISTER,
            index: NO_REGISTER,
            scale: 0,
            segment: Segment::Flat,
            narrow: false,
            len: 0,
            value: NO_REGISTER,
            adjust: self.index as i16 - counted as i16,
        }
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
    fn scratch(&mut self, out: &mut Emitter, number: usize, avoid: GprSet) -> Gpr {
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
                let taken = avoid.0 | other.0 | bit(Gpr::Rsp).0;
                (pick(taken).unwrap_or(Gpr::R11), true)
            }
        };
        let which = if number == 0 { slot::POLICY } else { slot::POLICY_SECOND };
        let mark = out.spill(register, which);
        self.held[number] = Some(Held { register, mark, local });
        register
    }

    fn release(&mut self, out: &mut Emitter, local_only: bool) {
        for held in &mut self.held {
            if let Some(spilled) = *held
                && (spilled.local || !local_only)
            {
                out.unspill(spilled.mark);
                *held = None;
            }
        }
    }

    fn release_local(&mut self, out: &mut Emitter) {
        self.release(out, true);
    }

    /// rcx as scratch for a comparison that leaves flags alone, where that is cheaper than saving them.
    fn flagless(&mut self, out: &mut Emitter) -> bool {
        let live = self.live[self.index] != 0 || self.settings.precise && self.wrong == 0;
        if !live || self.saved.is_some() || self.used.contains(Gpr::Rcx) {
            return false;
        }
        match self.held[0] {
            Some(held) => held.register == Gpr::Rcx,
            None => self.scratch(out, 0, GprSet::default()) == Gpr::Rcx,
        }
    }

    /// `mov rcx, gs:[X]; not rcx; lea rcx, [rcx + r + 1]; jrcxz same; jmp slow`, with `r` zero-extended.
    fn compare_flagless(
        &mut self,
        out: &mut Emitter,
        register: Gpr,
        size: usize,
        shadow: &Address,
    ) {
        out.memory(Operation::Load, size, Gpr::Rcx, Segment::Gs, shadow);
        out.raw(&[0x48, 0xf7, 0xd1]);
        let sum = Address {
            base: Some(register),
            index: Some((Gpr::Rcx, 0)),
            displacement: 1,
            narrow: false,
        };
        out.memory(Operation::Lea, 8, Gpr::Rcx, Segment::Flat, &sum);
        let same = out.jump_if_rcx_zero();
        out.jump_to(self.cold.address + self.cold.here() as u64);
        out.bind(same);
    }

    // ---- flags ----

    /// The next emitted instruction may destroy all arithmetic flags.
    fn destroy_flags(&mut self, out: &mut Emitter) {
        if self.wrong == ARITHMETIC && (self.saved.is_some() || self.live[self.index] == 0) {
            return;
        }
        if (self.settings.precise || self.live[self.index] != 0) && self.saved.is_none() {
            out.save_flags();
            self.saved = Some(SavedFlags { start: out.here(), wrong: self.wrong });
        }
        self.wrong = ARITHMETIC;
    }

    fn restore_flags(&mut self, out: &mut Emitter) {
        if let Some(saved) = self.saved.take() {
            out.restore_flags();
            out.spilled_flags(saved.start);
            self.wrong = saved.wrong;
        }
    }

    /// In front of the guest's own instruction: flags that it reads or keeps must be right.
    fn before_own(&mut self, out: &mut Emitter, guest: &Instruction) {
        let after = if self.settings.precise { ARITHMETIC } else { self.live[self.index + 1] };
        let kept =
            if guest.rflags_modified() & ARITHMETIC != 0 { after & !overwritten(guest) } else { 0 };
        if (read(guest) | kept) & self.wrong != 0 {
            self.restore_flags(out);
        }
    }

    /// Behind the guest's own instruction.
    fn after_own(&mut self, out: &mut Emitter, guest: &Instruction) {
        if guest.rflags_modified() & ARITHMETIC == 0 {
            return;
        }
        self.wrong &= !overwritten(guest);
        if let Some(saved) = self.saved.take() {
            out.spilled_flags(saved.start);
        }
    }

    /// At the end of a block, and wherever the engine needs the guest's whole state.
    pub fn leave(&mut self, out: &mut Emitter) {
        self.restore_flags(out);
        self.release(out, false);
    }

    // ---- operands ----

    /// Makes the operand addressable; `None` if only the engine can.
    fn operand(
        &mut self,
        out: &mut Emitter,
        guest: &Instruction,
        avoid: GprSet,
    ) -> Option<Operand> {
        let segment = guest.segment_prefix();
        let address = Address::of(guest);
        if matches!(segment, Register::FS | Register::GS) {
            let address = address.filter(|a| !a.narrow)?;
            let base = if segment == Register::FS {
                gs_offset!(guest_fs_base)
            } else {
                gs_offset!(guest_gs_base)
            };
            let moved = self.scratch(out, 1, avoid);
            out.load_gs(moved, base);
            let shadow = match (address.base, address.index) {
                (None, _) => Address { base: Some(moved), ..address },
                (Some(_), None) => Address { index: Some((moved, 0)), ..address },
                (Some(own), Some(_)) => {
                    out.lea_sum(moved, own, moved);
                    Address { base: Some(moved), ..address }
                }
            };
            return Some(if segment == Register::FS {
                Operand {
                    segment: Segment::Fs,
                    real: address,
                    shadow,
                    moved: false,
                    shadow_moved: true,
                }
            } else {
                Operand {
                    segment: Segment::Flat,
                    real: shadow,
                    shadow,
                    moved: true,
                    shadow_moved: true,
                }
            });
        }
        match address {
            Some(address) => {
                let shadow = self.off_the_stack(out, &address, avoid);
                let shadow_moved = segment != Register::None || shadow != address;
                Some(Operand {
                    segment: Segment::Flat,
                    real: address,
                    shadow,
                    moved: false,
                    shadow_moved,
                })
            }
            None if guest.is_ip_rel_memory_operand() => {
                let place = self.scratch(out, 1, avoid);
                out.mov_imm(place, guest.ip_rel_memory_address());
                let address = Address::at(place);
                Some(Operand {
                    segment: Segment::Flat,
                    real: address,
                    shadow: address,
                    moved: true,
                    shadow_moved: true,
                })
            }
            None => None,
        }
    }

    /// The shadow of an address, without rsp or rbp as its base.
    ///
    /// Zen processors forward stores to loads by base and displacement when the base is rsp or rbp, and take no
    /// notice of the segment: after a store to `gs:[rsp]` a load from `[rsp]` is predicted to get that one's value and
    /// has to be done over. Measured: a doubled `push` in calls alone made sqlite3 twice as slow.
    fn off_the_stack(&mut self, out: &mut Emitter, address: &Address, avoid: GprSet) -> Address {
        match (address.base, address.index) {
            (Some(Gpr::Rbp), None) if !address.narrow => {
                Address { base: None, index: Some((Gpr::Rbp, 0)), ..*address }
            }
            (Some(Gpr::Rsp), None) if !address.narrow => {
                let copy = self.stack_pointer(out, avoid);
                Address { base: Some(copy), ..*address }
            }
            _ => *address,
        }
    }

    /// A copy of rsp, as of now.
    fn stack_pointer(&mut self, out: &mut Emitter, avoid: GprSet) -> Gpr {
        let copy = self.scratch(out, 1, avoid);
        out.mov(copy, Gpr::Rsp);
        copy
    }

    /// The guest's instruction on guest memory, or on the shadow.
    #[allow(clippy::too_many_arguments, reason = "all of it describes one instruction")]
    fn emit_own(
        &mut self,
        out: &mut Emitter,
        operands: &mut OperandRewriter,
        guest: &Instruction,
        bytes: &[u8],
        offsets: &ConstantOffsets,
        operand: &Operand,
        on_shadow: bool,
    ) {
        let strip_lock = on_shadow && guest.has_lock_prefix();
        let moved = if on_shadow { operand.shadow_moved } else { operand.moved };
        if !moved && !strip_lock {
            if on_shadow {
                out.raw(&[Segment::Gs as u8]);
            }
            if guest.is_ip_rel_memory_operand() {
                emit_absolute(out, bytes, offsets, guest.ip_rel_memory_address() as u32);
            } else {
                out.raw(bytes);
            }
            return;
        }
        if !on_shadow && operand.segment == Segment::Fs {
            if guest.is_ip_rel_memory_operand() {
                emit_absolute(out, bytes, offsets, guest.ip_rel_memory_address() as u32);
            } else {
                out.raw(bytes);
            }
            return;
        }
        let address = if on_shadow { &operand.shadow } else { &operand.real };
        let mut changed = *guest;
        changed.set_code(general_move(guest.code()));
        if !address.narrow {
            set_address(&mut changed, address);
        }
        changed.set_has_lock_prefix(guest.has_lock_prefix() && !on_shadow);
        changed.set_segment_prefix(if on_shadow { Register::GS } else { Register::None });
        let encoded = operands.encode(out, &changed);
        assert!(encoded, "an instruction without an encoding");
    }

    /// `mov T, [X]; cmp T, gs:[X]; jne slow` over all of the operand. The last piece stays in `T`.
    fn check(
        &mut self,
        out: &mut Emitter,
        guest: &Instruction,
        operand: &Operand,
        len: usize,
        value: Gpr,
    ) -> bool {
        let site = Site { resume: out.address + out.here() as u64, ..self.site_of(guest, len) };
        let slow = self.cold.address + self.cold.here() as u64;
        let mut at = 0;
        while at < len {
            let size = match len - at {
                8.. => 8,
                4.. => 4,
                2.. => 2,
                _ => 1,
            };
            let (Some(real), Some(shadow)) =
                (operand.real.plus(at as i32), operand.shadow.plus(at as i32))
            else {
                return false;
            };
            out.load_zero_extended(size, value, operand.segment, &real);
            out.memory(Operation::Compare, size, value, Segment::Gs, &shadow);
            out.jump_if_not_equal(slow);
            at += size;
        }
        self.leave_for(site, target::exit_mismatch());
        true
    }

    /// `cmp r, gs:[X]; jne note`, behind an instruction that cannot start over.
    fn check_after(
        &mut self,
        out: &mut Emitter,
        site: Site,
        register: Gpr,
        size: usize,
        shadow: &Address,
    ) {
        out.memory(Operation::Compare, size, register, Segment::Gs, shadow);
        let slow = self.cold.address + self.cold.here() as u64;
        out.jump_if_not_equal(slow);
        let resume = out.address + out.here() as u64;
        let site = Site { value: register as u8, len: size as u8, resume, ..site };
        self.leave_for(site, target::exit_mismatch());
    }

    // ---- instructions ----

    fn form(&self, operands: &mut OperandRewriter, guest: &Instruction) -> Form {
        use Code::*;
        match guest.code() {
            Push_r64 => return Form::PushRegister(gpr_of(guest.op0_register())),
            Push_rm64 if guest.op0_kind() == OpKind::Register => {
                return Form::PushRegister(gpr_of(guest.op0_register()));
            }
            Push_rm64 => return Form::PushMemory,
            Pushq_imm8 => return Form::PushImmediate(guest.immediate8to64() as i32),
            Pushq_imm32 => return Form::PushImmediate(guest.immediate32to64() as i32),
            Pushfq => return Form::PushFlags,
            Pop_r64 => return Form::Pop(gpr_of(guest.op0_register())),
            Pop_rm64 if guest.op0_kind() == OpKind::Register => {
                return Form::Pop(gpr_of(guest.op0_register()));
            }
            Leaveq => return Form::Leave,
            Wrfsbase_r32 | Wrfsbase_r64 => return Form::SetFsBase,
            _ => {}
        }
        if guest.op_count() > 0
            && guest.op0_kind() == OpKind::Register
            && guest.op0_register() == Register::FS
            && guest.mnemonic() == Mnemonic::Mov
        {
            return Form::Engine;
        }
        let (count, access, len, plain) = {
            let memory = operands.accesses(guest);
            match memory {
                [] => return Form::NoMemory,
                [one] => (1, one.access(), one.memory_size().size(), true),
                more => (more.len(), more[0].access(), 0, false),
            }
        };
        if count != 1
            || !plain
            || guest.is_string_instruction()
            || guest.is_stack_instruction()
            || guest.is_vsib()
            || matches!(guest.mnemonic(), Mnemonic::Xlatb | Mnemonic::Lfs)
            || self.careful
            || !is_plain_size(len)
            || !(0..guest.op_count()).any(|i| guest.op_kind(i) == OpKind::Memory)
        {
            return Form::Engine;
        }
        let masked = guest.op_mask() != Register::None;
        match access {
            OpAccess::Read => self.read_form(guest, len),
            OpAccess::CondRead if is_masked(guest) => self.read_form(guest, len),
            OpAccess::CondRead if is_conditional_move(guest) => Form::Read(len),
            OpAccess::Write | OpAccess::CondWrite => self.store_form(operands, guest, len, masked),
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => self.modify_form(guest, len),
            _ => Form::Engine,
        }
    }

    fn read_form(&self, guest: &Instruction, len: usize) -> Form {
        use Mnemonic::{Bt, Mov, Movsx, Movsxd, Movzx};
        if guest.mnemonic() == Bt && guest.op1_kind() == OpKind::Register {
            return Form::Engine;
        }
        let to = guest.op0_register();
        if matches!(guest.mnemonic(), Mov | Movzx | Movsx | Movsxd)
            && guest.op0_kind() == OpKind::Register
            && to.is_gpr()
            && !is_high_byte(to)
        {
            let to = gpr_of(to);
            let in_address = |r: Register| r.is_gpr() && gpr_of(r) == to;
            if !in_address(guest.memory_base())
                && !in_address(guest.memory_index())
                && to != Gpr::Rsp
            {
                return Form::Load(to, len);
            }
        }
        Form::Read(len)
    }

    fn store_form(
        &self,
        operands: &mut OperandRewriter,
        guest: &Instruction,
        len: usize,
        masked: bool,
    ) -> Form {
        if !is_x87(guest) && !operands.writes_registers(guest) && guest.rflags_modified() == 0 {
            return Form::Store;
        }
        if masked { Form::Engine } else { Form::StoreThenCopy(len) }
    }

    fn modify_form(&self, guest: &Instruction, len: usize) -> Form {
        use Mnemonic::*;
        if len > 8
            || has_high_byte(guest)
            || guest.op0_kind() != OpKind::Memory && guest.mnemonic() != Xchg
        {
            return Form::Engine;
        }
        let in_address = |r: Register| {
            let same = |other: Register| other.is_gpr() && gpr_of(other) == gpr_of(r);
            same(guest.memory_base()) || same(guest.memory_index())
        };
        // Computed in a register, flags would have changed already where the store can still fault.
        let modified = guest.rflags_modified() & ARITHMETIC;
        let at_once = self.settings.precise && modified != 0 && overwritten(guest) != ARITHMETIC;
        match guest.mnemonic() {
            Add | Sub | And | Or | Xor | Inc | Dec | Neg | Not if guest.has_lock_prefix() => {
                Form::LockedModify(len)
            }
            Bts | Btr | Btc
                if guest.op1_kind() == OpKind::Immediate8 && guest.has_lock_prefix() =>
            {
                Form::LockedModify(len)
            }
            Inc | Dec | Shl | Sal | Shr | Sar | Rol | Ror | Shld | Shrd if at_once => {
                Form::ModifyWithFlags(len)
            }
            Bts | Btr | Btc if guest.op1_kind() == OpKind::Immediate8 && at_once => {
                Form::ModifyWithFlags(len)
            }
            Add | Sub | And | Or | Xor | Inc | Dec | Neg | Not | Shl | Sal | Shr | Sar | Rol
            | Ror => Form::Modify(len),
            Bts | Btr | Btc if guest.op1_kind() == OpKind::Immediate8 => Form::Modify(len),
            Shld | Shrd => Form::Modify(len),
            Adc | Sbb | Rcl | Rcr => Form::ModifyWithFlags(len),
            Cmpxchg if !in_address(Register::RAX) => Form::CompareExchange(len),
            Xadd if !in_address(guest.op1_register()) => Form::ExchangeAdd(len),
            Xchg => {
                let register = exchanged(guest);
                if in_address(register) { Form::Engine } else { Form::Exchange(len) }
            }
            _ => Form::Engine,
        }
    }

    /// Weaves one instruction that does not end its block.
    pub fn plain(
        &mut self,
        out: &mut Emitter,
        operands: &mut OperandRewriter,
        guest: &Instruction,
        bytes: &[u8],
        offsets: &ConstantOffsets,
    ) {
        let form = self.form(operands, guest);
        let avoid = operands.used_registers(guest);
        let woven = match form {
            Form::NoMemory => self.no_memory(out, operands, guest, bytes, offsets),
            Form::PushRegister(register) => self.push_register(out, guest, register, avoid),
            Form::PushImmediate(value) => {
                out.raw(bytes);
                let top = Address::at(self.stack_pointer(out, avoid));
                out.store_shadow_immediate(&top, value);
                true
            }
            Form::PushFlags => {
                self.before_own(out, guest);
                let value = self.scratch(out, 0, avoid);
                out.raw(bytes);
                let top = Address::at(self.stack_pointer(out, avoid));
                self.copy_to_shadow(out, Segment::Flat, &Address::at(Gpr::Rsp), &top, 8, value)
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
        out: &mut Emitter,
        operands: &mut OperandRewriter,
        guest: &Instruction,
        bytes: &[u8],
        offsets: &ConstantOffsets,
    ) -> bool {
        self.before_own(out, guest);
        if crate::translate::operand::is_position_independent(guest) {
            out.raw(bytes);
        } else if !operands.emit(out, guest, bytes, offsets) {
            out.raw(&[0x0f, 0x0b]);
        }
        self.after_own(out, guest);
        true
    }

    #[allow(clippy::too_many_arguments, reason = "all of it describes one instruction")]
    fn memory_form(
        &mut self,
        out: &mut Emitter,
        operands: &mut OperandRewriter,
        guest: &Instruction,
        bytes: &[u8],
        offsets: &ConstantOffsets,
        form: Form,
        avoid: GprSet,
    ) -> bool {
        // With a register of its own the operand could need a prefix that turns ah into spl.
        let moves = matches!(guest.segment_prefix(), Register::FS | Register::GS)
            || Address::of(guest).is_none_or(|a| a.base == Some(Gpr::Rsp));
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
                let resume = out.address + out.here() as u64;
                let site = Site { resume, ..self.site_of(guest, len) };
                self.emit_own(out, operands, guest, bytes, offsets, &operand, false);
                self.compare_flagless(out, to, len, &operand.shadow);
                self.leave_for(site, target::exit_mismatch());
            }
            Form::Load(to, len) => {
                self.destroy_flags(out);
                let resume = out.address + out.here() as u64;
                let site = Site { resume, ..self.site_of(guest, len) };
                self.emit_own(out, operands, guest, bytes, offsets, &operand, false);
                out.memory(Operation::Compare, len, to, Segment::Gs, &operand.shadow);
                let slow = self.cold.address + self.cold.here() as u64;
                out.jump_if_not_equal(slow);
                self.leave_for(site, target::exit_mismatch());
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
                self.copy_to_shadow(
                    out,
                    operand.segment,
                    &operand.real,
                    &operand.shadow,
                    len,
                    value,
                );
            }
            Form::Modify(len) => {
                let value = self.scratch(out, 0, avoid);
                self.destroy_flags(out);
                self.check(out, guest, &operand, len, value);
                self.before_own(out, guest);
                let mut changed = *guest;
                changed.set_op0_kind(OpKind::Register);
                changed.set_op0_register(sized(value, len));
                changed.set_segment_prefix(Register::None);
                let encoded = operands.encode(out, &changed);
                assert!(encoded, "an instruction without an encoding");
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
                self.copy_to_shadow(
                    out,
                    operand.segment,
                    &operand.real,
                    &operand.shadow,
                    len,
                    value,
                );
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
        out: &mut Emitter,
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
        let mut changed = *guest;
        changed.set_op0_kind(OpKind::Register);
        changed.set_op0_register(sized(value, len));
        changed.set_segment_prefix(Register::None);
        changed.set_has_lock_prefix(false);
        let site = Site { resume: out.address + check as u64, ..self.site_of(guest, len) };
        out.memory(Operation::Load, len, Gpr::Rax, operand.segment, &operand.real);
        out.memory(Operation::Compare, len, Gpr::Rax, Segment::Gs, &operand.shadow);
        out.jump_if_not_equal(self.cold.address + self.cold.here() as u64);
        self.leave_for(site, target::exit_mismatch());
        out.mov(value, Gpr::Rax);
        let encoded = operands.encode(out, &changed);
        assert!(encoded, "an instruction without an encoding");
        out.compare_exchange(len, value, operand.segment, &operand.real);
        out.jump_if_not_equal(out.address + check as u64);
        out.memory(Operation::Store, len, value, Segment::Gs, &operand.shadow);
        out.mov(value, Gpr::Rax);
        self.before_own(out, guest);
        let encoded = operands.encode(out, &changed);
        assert!(encoded, "an instruction without an encoding");
        self.after_own(out, guest);
        out.unspill(rax);
    }

    fn copy_to_shadow(
        &mut self,
        out: &mut Emitter,
        segment: Segment,
        real: &Address,
        shadow: &Address,
        len: usize,
        value: Gpr,
    ) -> bool {
        let mut at = 0;
        while at < len {
            let size = match len - at {
                8.. => 8,
                4.. => 4,
                2.. => 2,
                _ => 1,
            };
            let (Some(real), Some(shadow)) = (real.plus(at as i32), shadow.plus(at as i32)) else {
                return false;
            };
            out.memory(Operation::Load, size, value, segment, &real);
            out.memory(Operation::Store, size, value, Segment::Gs, &shadow);
            at += size;
        }
        true
    }

    fn push_register(
        &mut self,
        out: &mut Emitter,
        guest: &Instruction,
        register: Gpr,
        avoid: GprSet,
    ) -> bool {
        let _ = guest;
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
    fn follow_push(&mut self, out: &mut Emitter, value: Gpr, avoid: GprSet) {
        let top = Address::at(self.stack_pointer(out, avoid));
        out.memory(Operation::Store, 8, value, Segment::Gs, &top);
    }

    fn pop(
        &mut self,
        out: &mut Emitter,
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
            let resume = out.address + out.here() as u64;
            let site = Site { value: register as u8, resume, ..site };
            self.leave_for(site, target::exit_mismatch());
            return true;
        }
        self.destroy_flags(out);
        let shadow = Address::at(self.stack_pointer(out, avoid));
        out.raw(bytes);
        self.check_after(out, site, register, 8, &shadow);
        true
    }

    fn leave_frame(&mut self, out: &mut Emitter, guest: &Instruction, avoid: GprSet) -> bool {
        let value = self.scratch(out, 0, avoid);
        self.destroy_flags(out);
        let resume = out.address + out.here() as u64;
        let site = Site { resume, ..self.stack_site(guest.ip(), Gpr::Rbp, 0) };
        out.memory(Operation::Load, 8, value, Segment::Flat, &Address::at(Gpr::Rbp));
        let shadow = self.off_the_stack(out, &Address::at(Gpr::Rbp), avoid);
        out.memory(Operation::Compare, 8, value, Segment::Gs, &shadow);
        let slow = self.cold.address + self.cold.here() as u64;
        out.jump_if_not_equal(slow);
        self.leave_for(site, target::exit_mismatch());
        let above = Address { displacement: 8, ..Address::at(Gpr::Rbp) };
        out.memory(Operation::Lea, 8, Gpr::Rsp, Segment::Flat, &above);
        out.mov(Gpr::Rbp, value);
        true
    }

    /// The general way: the engine checks what the instruction will read, and afterwards copies what it wrote.
    fn by_engine(
        &mut self,
        out: &mut Emitter,
        operands: &mut OperandRewriter,
        guest: &Instruction,
        bytes: &[u8],
        offsets: &ConstantOffsets,
    ) {
        self.leave(out);
        let whole = is_repeated_string(guest);
        self.ask(out, guest.ip(), target::exit_before_access());
        if whole {
            // The engine executes all of it.
            self.after_own(out, guest);
            return;
        }
        if crate::translate::operand::is_position_independent(guest) {
            out.raw(bytes);
        } else if !operands.emit(out, guest, bytes, offsets) {
            out.raw(&[0x0f, 0x0b]);
        }
        self.after_own(out, guest);
        self.ask(out, guest.ip(), target::exit_after_access());
    }

    /// Leaves for the engine here and goes on behind.
    fn ask(&mut self, out: &mut Emitter, pc: u64, entry: u64) {
        let number = self.first_site + self.sites.len() as u32;
        out.store_gs_imm32(gs_offset!(exit_index), number);
        out.jump_to(entry);
        let resume = out.address + out.here() as u64;
        self.sites.push(Site { resume, ..self.site(pc) });
    }

    // ---- control transfers ----

    /// `push G` has been emitted: the shadow's half. rdx is free, and holds `return_address` if that is large.
    pub fn pushed_return_address(&mut self, out: &mut Emitter, return_address: u64) {
        match i32::try_from(return_address as i64) {
            Ok(small) => {
                out.mov(Gpr::Rdx, Gpr::Rsp);
                out.store_shadow_immediate(&Address::at(Gpr::Rdx), small);
            }
            Err(_) => {
                out.memory(Operation::Store, 8, Gpr::Rdx, Segment::Gs, &Address::at(Gpr::Rsp));
            }
        }
    }

    /// `ret` up to its target in rcx, with rcx and rdx spilled, without flags:
    /// `mov rdx, [rsp]; mov rcx, gs:[rsp]; not rcx; lea rcx, [rdx + rcx + 1]; jrcxz same; jmp slow`.
    pub fn checked_return(&mut self, out: &mut Emitter, pc: u64, extra: u16) {
        let resume = out.address + out.here() as u64;
        let site = Site { resume, ..self.stack_site(pc, Gpr::Rsp, 0) };
        let top = Address::at(Gpr::Rsp);
        out.memory(Operation::Load, 8, Gpr::Rdx, Segment::Flat, &top);
        out.mov(Gpr::Rcx, Gpr::Rsp);
        out.memory(Operation::Load, 8, Gpr::Rcx, Segment::Gs, &Address::at(Gpr::Rcx));
        self.same_or_slow(out, site, false);
        let above = Address { displacement: 8 + extra as i32, ..top };
        out.memory(Operation::Lea, 8, Gpr::Rsp, Segment::Flat, &above);
        out.mov(Gpr::Rcx, Gpr::Rdx);
    }

    /// The target of `jmp [X]` or `call [X]` into rcx, with rcx and rdx spilled. False if only the engine can.
    pub fn checked_target(&mut self, out: &mut Emitter, guest: &Instruction) -> bool {
        let resume = out.address + out.here() as u64;
        let site = Site { resume, ..self.site_of(guest, 8) };
        match Address::of(guest) {
            Some(address) => {
                let size = if address.narrow { 4 } else { 8 };
                let wide = Address { narrow: false, ..address };
                out.memory(Operation::Lea, size, Gpr::Rcx, Segment::Flat, &wide);
            }
            None if guest.is_ip_rel_memory_operand() => {
                out.mov_imm(Gpr::Rcx, guest.ip_rel_memory_address());
            }
            None => return false,
        }
        let base = match guest.segment_prefix() {
            Register::FS => Some(gs_offset!(guest_fs_base)),
            Register::GS => Some(gs_offset!(guest_gs_base)),
            _ => None,
        };
        if let Some(base) = base {
            out.load_gs(Gpr::Rdx, base);
            out.lea_sum(Gpr::Rcx, Gpr::Rcx, Gpr::Rdx);
        }
        out.memory(Operation::Load, 8, Gpr::Rdx, Segment::Flat, &Address::at(Gpr::Rcx));
        out.memory(Operation::Load, 8, Gpr::Rcx, Segment::Gs, &Address::at(Gpr::Rcx));
        self.same_or_slow(out, site, true);
        out.mov(Gpr::Rcx, Gpr::Rdx);
        true
    }

    /// Goes on if rdx and rcx are the same, else to the engine.
    fn same_or_slow(&mut self, out: &mut Emitter, site: Site, unspill: bool) {
        // not rcx; lea rcx, [rdx + rcx + 1]
        out.raw(&[0x48, 0xf7, 0xd1]);
        out.raw(&[0x48, 0x8d, 0x4c, 0x0a, 0x01]);
        let same = out.jump_if_rcx_zero();
        let slow = self.cold.address + self.cold.here() as u64;
        out.jump_to(slow);
        out.bind(same);
        if unspill {
            // The operand may use what is spilled.
            self.cold.load_gs(Gpr::Rcx, spill_offset(slot::BRANCH_RCX));
            self.cold.load_gs(Gpr::Rdx, spill_offset(slot::BRANCH_RDX));
        }
        self.leave_for(site, target::exit_mismatch());
    }
}

impl Default for Weaver {
    fn default() -> Self {
        Weaver::new()
    }
}

/// Whether parts of an instruction's memory operand may not be touched, depending on a mask.
pub fn is_masked(guest: &Instruction) -> bool {
    use Mnemonic::{Vmaskmovpd, Vmaskmovps, Vpmaskmovd, Vpmaskmovq};
    guest.op_mask() != Register::None
        || matches!(guest.mnemonic(), Vmaskmovpd | Vmaskmovps | Vpmaskmovd | Vpmaskmovq)
}

fn is_x87(guest: &Instruction) -> bool {
    guest.cpuid_features().contains(&CpuidFeature::FPU)
}

/// A `mov` between the accumulator and an absolute address, in the form that can have any address.
fn general_move(code: Code) -> Code {
    use Code::*;
    match code {
        Mov_AL_moffs8 => Mov_r8_rm8,
        Mov_AX_moffs16 => Mov_r16_rm16,
        Mov_EAX_moffs32 => Mov_r32_rm32,
        Mov_RAX_moffs64 => Mov_r64_rm64,
        Mov_moffs8_AL => Mov_rm8_r8,
        Mov_moffs16_AX => Mov_rm16_r16,
        Mov_moffs32_EAX => Mov_rm32_r32,
        Mov_moffs64_RAX => Mov_rm64_r64,
        other => other,
    }
}

/// The clock of a block, by its address: one that its neighbours do not use.
fn clock_of(pc: u64) -> i32 {
    let mixed = pc >> 2 ^ pc >> 5 ^ pc >> 9;
    CLOCK + 8 * (mixed % CLOCKS as u64) as i32
}

fn exchanged(guest: &Instruction) -> Register {
    if guest.op0_kind() == OpKind::Register { guest.op0_register() } else { guest.op1_register() }
}

fn is_conditional_move(guest: &Instruction) -> bool {
    use Mnemonic::*;
    matches!(
        guest.mnemonic(),
        Cmova
            | Cmovae
            | Cmovb
            | Cmovbe
            | Cmove
            | Cmovg
            | Cmovge
            | Cmovl
            | Cmovle
            | Cmovne
            | Cmovno
            | Cmovnp
            | Cmovns
            | Cmovo
            | Cmovp
            | Cmovs
    )
}

/// Whether the engine executes an instruction as a whole.
pub fn is_repeated_string(guest: &Instruction) -> bool {
    guest.is_string_instruction() && (guest.has_rep_prefix() || guest.has_repne_prefix())
}

/// Whether a block that ends like this can be part of a loop without any other kind of transfer.
fn goes_back(guest: &Instruction) -> bool {
    matches!(classify(guest), Class::Jump | Class::Conditional | Class::CountedJump | Class::Call)
        && guest.near_branch_target() <= guest.ip()
}

fn set_address(guest: &mut Instruction, address: &Address) {
    guest.set_memory_base(address.base.map_or(Register::None, iced_register));
    guest.set_memory_index(address.index.map_or(Register::None, |(i, _)| iced_register(i)));
    guest.set_memory_index_scale(address.index.map_or(1, |(_, scale)| 1 << scale));
    guest.set_memory_displacement64(address.displacement as i64 as u64);
    let size = if address.base.is_none() { 8 } else { u32::from(address.displacement != 0) };
    guest.set_memory_displ_size(size);
}
