//! The translator: guest code in, cache code out, one block at a time.
//!
//! Problem: run the guest's instructions from another place, so faithfully that it cannot tell, while
//! leaving room for instrumentation.
//! Strategy: decode a basic block, copy what can be copied, rewrite memory operands that depend on the
//! place ([`operand`]), and replace control transfers ([`branch`]).
//!
//! Invariants:
//! 1. For every byte of emitted code the guest's exact state can be recovered: `map` says which guest
//!    instruction a byte belongs to, spill ranges say which registers wait in memory.
//! 2. An emitted sequence changes guest-visible state only in its last faulting instruction, or in
//!    instructions after it that cannot fault.
//! 3. Arithmetic flags are the guest's at every guest instruction boundary.
//! 4. Translation reads nothing but the bytes it is given and writes nothing but its own buffers.
//!
//! Complexity trap: cold code is translated once and run once, so this path must stay cheap; anything
//! that needs `InstructionInfoFactory` or `Encoder` (about 25 and 45 ns) happens only for instructions
//! that need it.

pub mod address;
pub mod branch;
pub mod classify;
pub mod emit;
pub mod liveness;
pub mod operand;
pub mod output;

use crate::clock::weave::{Plan, Timekeeper};
use crate::context::{Gpr, slot};
use crate::entry::target;
use crate::policy::Policy;
use crate::record::weave::{self, Weaver};
use alloc::vec::Vec;
use classify::{Class, classify};
use core::sync::atomic::{AtomicU64, Ordering};
use emit::Emitter;
use iced_x86::{
    Code, ConstantOffsets, Decoder, DecoderError, DecoderOptions, FlowControl, Instruction, OpKind,
};
use operand::OperandRewriter;
use output::Output;

/// Most guest instructions in one block.
pub const MAX_INSTRUCTIONS: usize = 64;

/// Most branches that a block goes on behind.
const MOST_SIDE_EXITS: usize = 4;

/// Most guest bytes in one block; more are never fetched.
pub const MAX_GUEST_BYTES: usize = 512;

/// What to translate and how.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Guest address of the first instruction.
    pub pc: u64,
    /// Guest code from there on, as far as it may be executed.
    pub code: &'a [u8],
    /// Limit on instructions.
    pub max_instructions: usize,
    /// Cache address of the code.
    pub address: u64,
    /// Index that the block's first exit will get.
    pub first_exit: u32,
    /// Put an entry for indirect jumps in front of the block.
    pub jump_entry: bool,
    /// Leave masked loads to the engine, which touches no more than they do.
    pub careful: bool,
    /// Check the guest bytes on every entry, and end the block after each store: the code may
    /// change without a fault.
    pub checked: bool,
    /// Whether exits may be linked.
    pub linkable: bool,
    /// Whether all flags are to be kept, even those that nothing needs.
    pub keeps_flags: bool,
    /// Whether a block goes on behind a conditional branch forwards, which is rarely taken.
    pub side_exits: bool,
    /// Cache address of the cold code that a recording policy adds.
    pub cold_address: u64,
    /// Number that the first site of a recording policy will get.
    pub first_site: u32,
    /// Reads code that will not change, into a buffer; says how much there is.
    pub peek: &'a dyn Fn(u64, &mut [u8]) -> usize,
}

/// One entry of the map from cache bytes to guest instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapEntry {
    /// Length of the guest instruction; 0 for code that belongs to a boundary (instrumentation at
    /// block entry, the jump at the end). With [`NOT_INTACT`] the guest's state is not complete in front of it.
    pub guest_len: u8,
    /// Length of what was emitted for it.
    pub cache_len: u16,
}

/// Set in [`MapEntry::guest_len`] where dead flags have been destroyed.
pub const NOT_INTACT: u8 = 0x80;

/// Why nothing was translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CannotTranslate {
    /// The first instruction runs past the code given: the guest faults there.
    OutOfBytes,
}

/// The translator with its buffers. After [`Translator::translate`] the results are in its fields.
pub struct Translator {
    /// Emitted code, exits and spill ranges.
    pub out: Output,
    /// The map, one entry per guest instruction plus boundary entries.
    pub map: Vec<MapEntry>,
    /// Offset of the block's body: behind the jump entry, if there is one.
    pub body: usize,
    /// Guest bytes covered.
    pub guest_len: usize,
    /// Guest instructions covered.
    pub instructions: usize,
    /// What a recording policy weaves in.
    pub weaver: Weaver,
    /// What a replay policy weaves in.
    pub timekeeper: Timekeeper,
    operands: OperandRewriter,
    /// Whether the last instruction ends the block by itself.
    terminated: bool,
    decoded: Vec<Instruction>,
    offsets: Vec<ConstantOffsets>,
    decoder_options: u32,
}

impl Translator {
    /// A translator. Builds the decoder's tables, so that nothing is built lazily later.
    pub fn new() -> Translator {
        let mut decoder = Decoder::new(64, &[0x90], decoder_options());
        let _ = decoder.decode();
        Translator {
            out: Output::new(),
            map: Vec::with_capacity(MAX_INSTRUCTIONS + 2),
            body: 0,
            guest_len: 0,
            instructions: 0,
            weaver: Weaver::new(),
            timekeeper: Timekeeper::new(),
            operands: OperandRewriter::new(),
            terminated: false,
            decoded: Vec::with_capacity(MAX_INSTRUCTIONS),
            offsets: Vec::with_capacity(MAX_INSTRUCTIONS),
            decoder_options: decoder_options(),
        }
    }

    /// Translates one block.
    pub fn translate<P: Policy>(
        &mut self,
        policy: &mut P,
        request: &Request,
    ) -> Result<(), CannotTranslate> {
        let terminated = self.decode(request)?;
        self.terminated = terminated;
        self.map.clear();
        let (cold, site) = (request.cold_address, request.first_site);
        self.out.begin(request.address, request.first_exit, cold, site);
        if request.jump_entry {
            branch::jump_entry(&mut self.out, request.pc);
        }
        self.body = self.out.here();
        if P::COUNTS {
            self.timekeeper.enter(&self.out);
        }
        if request.checked {
            emit_self_check(&mut self.out, request.pc, &request.code[..self.guest_len]);
        }
        if P::BLOCK_ENTRY {
            let dead = self.operands.dead_before(&self.decoded[0]);
            policy.block_entry(&mut self.out, &self.decoded, dead);
        }
        if P::RECORDS {
            self.weaver.careful = request.careful;
            let live = self.flags_live_at_end(request, terminated);
            self.weaver.begin(&self.decoded, &mut self.operands, live);
        }
        if P::COUNTS {
            let plan = Plan {
                live: self.flags_live_at_start(request, terminated),
                // A replay has nobody who looks; recorded code may leave flags out that are dead.
                keeps_flags: request.keeps_flags
                    || !P::REPLAYS && (!P::RECORDS || self.weaver.settings.precise),
            };
            self.timekeeper.begin(&mut self.out, &mut self.operands, &self.decoded, &plan);
        }
        // What instrumentation has destroyed is whole again only behind the first instruction: then there
        // is no boundary in front of it.
        let mut joined = core::mem::take(&mut self.out.destroys_dead).then_some(self.body);
        if joined.is_none() && self.out.here() > self.body {
            let mut entry = boundary(self.out.here() - self.body);
            if P::RECORDS {
                entry.guest_len = self.weaver.completeness();
            }
            self.map.push(entry);
        }
        let mut at = 0;
        for index in 0..self.decoded.len() {
            let guest = self.decoded[index];
            let mut start = joined.take().unwrap_or(self.out.here());
            let bytes = &request.code[at..at + guest.len()];
            let mut intact = 0;
            if P::RECORDS {
                intact = self.weaver.completeness();
                self.weaver.before(index);
            }
            if P::ACCESSES {
                self.before_access(policy, &guest);
                // A repeated string instruction can be interrupted between its iterations, where the
                // guest's state is complete: it needs a boundary of its own.
                let repeats = guest.has_rep_prefix() || guest.has_repne_prefix();
                if repeats && guest.is_string_instruction() && self.out.here() > start {
                    self.map.push(boundary(self.out.here() - start));
                    start = self.out.here();
                }
            }
            self.instruction::<P>(policy, &guest, bytes, index, request);
            at += guest.len();
            let cache_len = (self.out.here() - start) as u16;
            self.map.push(MapEntry { guest_len: guest.len() as u8 | intact, cache_len });
        }
        if terminated && P::RECORDS {
            // Behind an instruction that always faults nothing is executed, but what is spilled must be declared.
            self.weaver.leave(&mut self.out);
        }
        if !terminated {
            let mut start = self.out.here();
            let mut end = boundary(0);
            if P::RECORDS {
                end.guest_len = self.weaver.completeness();
                self.weaver.leave(&mut self.out);
                if self.out.here() > start {
                    let cache_len = (self.out.here() - start) as u16;
                    self.map.push(MapEntry { cache_len, ..end });
                    start = self.out.here();
                }
                // Flags that the next block overwrites may be wrong even where everything is put back.
                end.guest_len = self.weaver.completeness();
            }
            if P::COUNTS {
                self.timekeeper.leave(&mut self.out);
            }
            self.out.exit_jump(request.pc + self.guest_len as u64, request.linkable);
            self.map.push(MapEntry { cache_len: (self.out.here() - start) as u16, ..end });
        }
        if P::COUNTS {
            self.timekeeper.end(&mut self.out);
        }
        Ok(())
    }

    /// Decodes up to the end of the block; says whether its last instruction ends it by itself.
    fn decode(&mut self, request: &Request) -> Result<bool, CannotTranslate> {
        self.decoded.clear();
        self.offsets.clear();
        let mut decoder = Decoder::with_ip(64, request.code, request.pc, self.decoder_options);
        let mut terminated = false;
        let mut used = operand::GprSet::default();
        let mut side_exits = 0;
        while self.decoded.len() < request.max_instructions && decoder.can_decode() {
            let position = decoder.position();
            let mut guest = decoder.decode();
            if decoder.last_error() == DecoderError::InvalidInstruction
                && self.decoder_options != DecoderOptions::NONE
            {
                // Undefined by this vendor's manual, but the processor may still say so differently.
                let rest = &request.code[position..];
                let mut other = Decoder::with_ip(64, rest, guest.ip(), DecoderOptions::NONE);
                let second = other.decode();
                if other.last_error() == DecoderError::None {
                    guest = second;
                    let _ = decoder.set_position(position + guest.len());
                    decoder.set_ip(guest.next_ip());
                }
            }
            if decoder.last_error() == DecoderError::NoMoreBytes {
                // Decide with all bytes at hand, when this instruction begins a block.
                let _ = decoder.set_position(position);
                break;
            }
            if self.timekeeper.tracer.active()
                && self.timekeeper.tracer.ends_before(&mut self.operands, &guest, &mut used)
                && !self.decoded.is_empty()
            {
                let _ = decoder.set_position(position);
                break;
            }
            self.decoded.push(guest);
            self.offsets.push(decoder.get_constant_offsets(&guest));
            if request.side_exits && side_exits < MOST_SIDE_EXITS && is_side_exit(&guest) {
                side_exits += 1;
            } else if guest.is_invalid() || !continues(&guest) {
                terminated = true;
                break;
            }
            if self.timekeeper.tracer.active()
                && self.timekeeper.tracer.is_loose(&mut self.operands, &guest)
                || self.timekeeper.breaks_at(guest.next_ip())
            {
                break;
            }
            if request.checked && self.writes_memory(&guest) {
                break;
            }
        }
        if self.decoded.is_empty() {
            return Err(CannotTranslate::OutOfBytes);
        }
        self.guest_len = decoder.position();
        self.instructions = self.decoded.len();
        Ok(terminated)
    }

    /// Flags that matter at an address, as far as the code there tells.
    fn flags_live_at(&self, request: &Request, address: u64) -> u32 {
        const LOOK: usize = 8;
        let mut bytes = [0u8; 64];
        let available = (request.peek)(address, &mut bytes);
        let mut ahead = [Instruction::default(); LOOK];
        let mut found = 0;
        let mut decoder = Decoder::with_ip(64, &bytes[..available], address, self.decoder_options);
        while found < LOOK && decoder.can_decode() {
            decoder.decode_out(&mut ahead[found]);
            if decoder.last_error() != DecoderError::None {
                break;
            }
            found += 1;
            if ahead[found - 1].flow_control() != FlowControl::Next {
                break;
            }
        }
        weave::live_at(&ahead[..found])
    }

    /// Flags that matter behind the block.
    fn flags_live_at_end(&self, request: &Request, terminated: bool) -> u32 {
        let last = &self.decoded[self.decoded.len() - 1];
        if self.weaver.settings.precise || request.checked {
            return weave::ARITHMETIC;
        }
        let live_at = |address| self.flags_live_at(request, address);
        if !terminated {
            return live_at(last.next_ip());
        }
        match classify(last) {
            Class::Jump | Class::Call => live_at(last.near_branch_target()),
            Class::Conditional => live_at(last.near_branch_target()) | live_at(last.next_ip()),
            _ => weave::ARITHMETIC,
        }
    }

    /// Flags that matter in front of the block.
    fn flags_live_at_start(&self, request: &Request, terminated: bool) -> u32 {
        let at_end = self.flags_live_at_end(request, terminated);
        self.decoded.iter().rev().fold(at_end, |mut live, guest| {
            if request.side_exits && is_side_exit(guest) {
                live |= self.flags_live_at(request, guest.near_branch_target());
            }
            weave::flags_live_before(guest, live)
        })
    }

    fn writes_memory(&mut self, guest: &Instruction) -> bool {
        use iced_x86::OpAccess::*;
        self.operands
            .accesses(guest)
            .iter()
            .any(|m| matches!(m.access(), Write | CondWrite | ReadWrite | ReadCondWrite))
    }

    fn before_access<P: Policy>(&mut self, policy: &mut P, guest: &Instruction) {
        let memory = self.operands.accesses(guest);
        if !guest.is_invalid() && !memory.is_empty() {
            policy.before_access(&mut self.out, guest, memory);
        }
    }

    fn instruction<P: Policy>(
        &mut self,
        policy: &mut P,
        guest: &Instruction,
        bytes: &[u8],
        index: usize,
        request: &Request,
    ) {
        let pc = guest.ip();
        let next = pc + guest.len() as u64;
        let linkable = request.linkable;
        // A block of so many instructions is left for the engine, wherever it leads.
        let way = if linkable { branch::Way::Table } else { branch::Way::Engine };
        if guest.is_invalid() {
            // The CPU may know better than the decoder what it executes, but not at this address:
            // undefined here means SIGILL at the guest's pc.
            self.out.raw(&[0x0f, 0x0b]);
            return;
        }
        let class = classify(guest);
        if P::COUNTS && self.timekeeper.tracer.active() {
            if self.timekeeper.tracer.is_loose(&mut self.operands, guest) {
                let (operands, offsets) = (&mut self.operands, self.offsets[index]);
                self.timekeeper.loose(&mut self.out, pc, |out| {
                    if operand::is_position_independent(guest) {
                        out.raw(bytes);
                    } else if !operands.emit(out, guest, bytes, &offsets) {
                        out.raw(&[0x0f, 0x0b]);
                    }
                });
                return;
            }
            self.timekeeper.tracer.before(&mut self.out, &mut self.operands, guest, index);
        }
        if P::RECORDS {
            if class == Class::Plain && guest.flow_control() == FlowControl::Next {
                let offsets = self.offsets[index];
                self.weaver.plain(&mut self.out, &mut self.operands, guest, bytes, &offsets);
                return;
            }
            self.weaver.leave(&mut self.out);
        }
        let last = index + 1 == self.decoded.len() && self.terminated;
        if request.side_exits && is_side_exit(guest) && !last {
            let condition = guest.condition_code() as u8 - 1;
            let rest = (self.decoded.len() - index - 1) as i32;
            let target = guest.near_branch_target();
            let executed = index + 1;
            self.timekeeper.side_exit(&mut self.out, condition, target, executed, rest, linkable);
            return;
        }
        let uses_registers = match class {
            Class::Plain => guest.flow_control() == FlowControl::Next,
            _ => matches!(class, Class::SaveX87 | Class::IndirectJump | Class::IndirectCall),
        };
        if P::COUNTS && !uses_registers {
            self.timekeeper.leave(&mut self.out);
        }
        match class {
            Class::Plain => {
                if operand::is_position_independent(guest) {
                    self.out.raw(bytes);
                } else {
                    let offsets = self.offsets[index];
                    if !self.operands.emit(&mut self.out, guest, bytes, &offsets) {
                        if P::COUNTS {
                            self.timekeeper.leave(&mut self.out);
                        }
                        self.out.exit_fixed(pc, target::exit_emulate());
                    }
                }
                if P::COUNTS && self.timekeeper.tracer.active() {
                    self.timekeeper.tracer.after(&mut self.out, &mut self.operands, guest);
                }
                if P::ACCESSES {
                    let memory = self.operands.accesses(guest);
                    if !memory.is_empty() {
                        policy.after_access(&mut self.out, guest, memory);
                    }
                }
            }
            Class::Nondeterministic(what)
                if !P::INTERCEPT_NONDETERMINISTIC && !what.is_always_emulated() =>
            {
                let offsets = self.offsets[index];
                if operand::is_position_independent(guest) {
                    self.out.raw(bytes);
                    self.out.exit_jump(next, linkable);
                } else if self.operands.emit(&mut self.out, guest, bytes, &offsets) {
                    self.out.exit_jump(next, linkable);
                } else {
                    self.out.exit_fixed(pc, target::exit_emulate());
                }
            }
            Class::Nondeterministic(_) | Class::Emulate => {
                self.out.exit_fixed(pc, target::exit_emulate());
            }
            // What is stored depends on the processor's whims: a replay takes all of it from the log.
            Class::SaveX87 if P::REPLAYS && classify::only_stores(guest) => {
                self.timekeeper.leave(&mut self.out);
                self.out.exit_fixed(pc, target::exit_emulate());
            }
            Class::SaveX87 => {
                if guest.code() == Code::Fnsave_m94byte {
                    self.out.save_x87_environment();
                }
                let offsets = self.offsets[index];
                if operand::is_position_independent(guest) {
                    self.out.raw(bytes);
                } else if !self.operands.emit(&mut self.out, guest, bytes, &offsets) {
                    self.out.raw(&[0x0f, 0x0b]);
                }
                if P::COUNTS {
                    self.timekeeper.leave(&mut self.out);
                }
                self.out.exit_fixed(pc, target::exit_emulate());
            }
            Class::Syscall => self.out.exit_fixed(next, target::exit_syscall()),
            Class::Jump => self.out.exit_jump(guest.near_branch_target(), linkable),
            Class::Conditional => {
                let condition = guest.condition_code() as u8 - 1;
                self.out.exit_conditional(condition, guest.near_branch_target(), linkable);
                self.out.exit_jump(next, linkable);
            }
            Class::CountedJump => {
                // loop taken (+2..); jmp next; taken: jmp T. An operand-size prefix that means nothing
                // here could truncate the cache address.
                for &byte in bytes[..bytes.len() - 1].iter().filter(|&&b| b != 0x66) {
                    self.out.raw(&[byte]);
                }
                self.out.raw(&[0]);
                let from = self.out.here();
                self.out.exit_jump(next, linkable);
                let distance = self.out.here() - from;
                self.out.bytes[from - 1] = distance as u8;
                self.out.exit_jump(guest.near_branch_target(), linkable);
            }
            Class::Call => {
                policy.before_call(&mut self.out, guest, next);
                let callee = guest.near_branch_target();
                let weaver = P::RECORDS.then_some(&mut self.weaver);
                branch::call(&mut self.out, weaver, callee, next, linkable);
            }
            Class::Return => {
                policy.before_return(&mut self.out, guest);
                let extra = if guest.code() == Code::Retnq_imm16 { guest.immediate16() } else { 0 };
                let rcx = self.out.spill(Gpr::Rcx, slot::BRANCH_RCX);
                let rdx = self.out.spill(Gpr::Rdx, slot::BRANCH_RDX);
                if P::RECORDS {
                    self.weaver.checked_return(&mut self.out, pc, extra);
                    branch::indirect_jump(&mut self.out, way);
                } else {
                    branch::ret(&mut self.out, extra, way);
                }
                self.out.end_spill(rcx);
                self.out.end_spill(rdx);
            }
            Class::IndirectJump | Class::IndirectCall => {
                if class == Class::IndirectCall {
                    policy.before_call(&mut self.out, guest, next);
                }
                let offsets = self.offsets[index];
                let rcx = self.out.spill(Gpr::Rcx, slot::BRANCH_RCX);
                let rdx = self.out.spill(Gpr::Rdx, slot::BRANCH_RDX);
                let out = &mut self.out;
                let checked = P::RECORDS && guest.op0_kind() == OpKind::Memory;
                let done = if checked {
                    self.weaver.checked_target(out, guest)
                } else {
                    self.operands.emit_branch_target(out, guest, bytes, &offsets)
                };
                if P::COUNTS {
                    self.timekeeper.leave(out);
                }
                if !done {
                    out.exit_fixed(pc, target::exit_emulate());
                }
                if class == Class::IndirectCall {
                    let weaver = P::RECORDS.then_some(&mut self.weaver);
                    branch::indirect_call(out, weaver, next, way);
                } else {
                    branch::indirect_jump(out, way);
                }
                self.out.end_spill(rcx);
                self.out.end_spill(rdx);
            }
        }
    }
}

impl Default for Translator {
    fn default() -> Self {
        Translator::new()
    }
}

/// How this processor reads instructions that vendors read differently.
pub fn decoder_options() -> u32 {
    /// Asked once: on a virtual machine cpuid takes as long as thousands of instructions.
    static KNOWN: AtomicU64 = AtomicU64::new(u64::MAX);
    let known = KNOWN.load(Ordering::Relaxed);
    if known != u64::MAX {
        return known as u32;
    }
    // The vendor string is "AuthenticAMD"; its last four letters come in ecx.
    let amd = core::arch::x86_64::__cpuid(0).ecx == u32::from_le_bytes(*b"cAMD");
    let options = if amd { DecoderOptions::AMD } else { DecoderOptions::NONE };
    KNOWN.store(options as u64, Ordering::Relaxed);
    options
}

fn boundary(cache_len: usize) -> MapEntry {
    MapEntry { guest_len: 0, cache_len: cache_len as u16 }
}

/// Whether an instruction may be one that a block goes on behind: compilers put the likely path behind a branch.
fn is_side_exit(guest: &Instruction) -> bool {
    classify(guest) == Class::Conditional && guest.near_branch_target() > guest.ip()
}

/// Whether the next instruction belongs to the same block.
fn continues(guest: &Instruction) -> bool {
    match classify(guest) {
        // Cpuid always, the others only under a policy that intercepts them; ending the block in
        // both cases keeps blocks the same whatever the policy.
        Class::Nondeterministic(_) => false,
        // Beyond what always faults or traps there may be no code at all.
        Class::Plain => guest.flow_control() == FlowControl::Next && guest.code() != Code::Hlt,
        _ => false,
    }
}

/// Compares the guest's bytes with what was translated, without flags:
/// `rcx = bytes; rdx = -expected; lea rcx, [rcx + rdx]; jrcxz same`.
fn emit_self_check(out: &mut Emitter, pc: u64, code: &[u8]) {
    let rcx = out.spill(Gpr::Rcx, slot::BRANCH_RCX);
    let rdx = out.spill(Gpr::Rdx, slot::BRANCH_RDX);
    let mut at = 0;
    while at < code.len() {
        let rest = code.len() - at;
        // Widest load that stays inside the code: it may end at an unmapped page.
        let width = match rest {
            8.. => 8,
            4.. => 4,
            2.. => 2,
            _ => 1,
        };
        let mut expected = [0u8; 8];
        expected[..width].copy_from_slice(&code[at..at + width]);
        out.mov_imm(Gpr::Rdx, pc + at as u64);
        out.raw(match width {
            8 => &[0x48, 0x8b, 0x0a], // mov rcx, [rdx]
            4 => &[0x8b, 0x0a],       // mov ecx, [rdx]
            2 => &[0x0f, 0xb7, 0x0a], // movzx ecx, word [rdx]
            _ => &[0x0f, 0xb6, 0x0a], // movzx ecx, byte [rdx]
        });
        out.mov_imm(Gpr::Rdx, u64::from_le_bytes(expected).wrapping_neg());
        out.lea_sum(Gpr::Rcx, Gpr::Rcx, Gpr::Rdx);
        let same = out.jump_if_rcx_zero();
        out.load_gs(Gpr::Rdx, crate::context::spill_offset(slot::BRANCH_RDX));
        out.load_gs(Gpr::Rcx, crate::context::spill_offset(slot::BRANCH_RCX));
        out.exit_fixed(pc, target::exit_modified());
        out.bind(same);
        at += width;
    }
    out.unspill(rdx);
    out.unspill(rcx);
}
