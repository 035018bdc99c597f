//! What recording weaves into code, executed: guest blocks natively and translated, both by single steps, compared
//! at every step.
//!
//! Problem: after a fault or a signal anywhere in emitted code the guest's exact state must be recovered, and
//! whatever path through checks and slow paths was taken, the guest must compute what it would have computed.
//! Strategy: a traced child (`traced`) executes a block's guest code, then its translation, on memory that it shares
//! with this process (`memory`). The part of the engine behind the exits is played here, as simply as possible.
//!
//! Checked at each boundary, and at each instruction that could fault:
//! 1. The recovered registers are those that the guest has in front of the instruction.
//! 2. So are the recovered flags: all of them at boundaries and, in precise code, everywhere; elsewhere those that
//!    the guest still needs.
//! 3. The clock, moved by `Position::unsettled`, tells how many instructions the guest has completed.
//!
//! Checked at the end: registers, flags, vector state, memory, where the guest goes on, and that the shadow equals
//! memory wherever the guest has touched it.
//!
//! One test, because the code cache and the memory have fixed places in the process.

#[path = "weaving/blocks.rs"]
mod blocks;
#[path = "weaving/memory.rs"]
mod memory;
#[path = "weaving/traced.rs"]
mod traced;

use blocks::Block;
use iced_x86::code_asm::CodeAssembler;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register, RflagsBits, UsedMemory,
};
use memory::{DATA_LEN, HIGH, LOW, Memory, Place};
use retro_abi::layout::SHADOW_DISTANCE;
use retro_engine::cache::{self, CodeCache, How, Saved, recover};
use retro_engine::context::{self, CLOCK, Gpr};
use retro_engine::entry::target;
use retro_engine::gs_offset;
use retro_engine::record::Record;
use retro_engine::record::weave::{ARITHMETIC, NO_REGISTER, Site, is_masked, is_repeated_string};
use retro_engine::translate::address::Segment;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use traced::{Registers, Traced};

/// Distance between the code of two blocks.
const CODE_STEP: u64 = 0x100;

/// A translated block.
struct Translated {
    name: String,
    place: Place,
    precise: bool,
    /// Whether it may do anything, even fault.
    is_random: bool,
    block: u32,
    guest: Vec<Instruction>,
}

/// Where a block comes from.
enum Source {
    Written(Block),
    Random(u64),
}

/// A block to be translated.
struct Wanted {
    source: Source,
    place: Place,
    precise: bool,
}

/// One way to run a block.
#[derive(Clone, Copy, Debug)]
struct Setting {
    /// Whether the shadow equals memory in the beginning; if not, every check fails.
    same_shadow: bool,
    /// Whether the clock is about to reach its deadline.
    deadline: bool,
    flags: u64,
}

/// Data that looks like addresses, different in every word.
fn pattern(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let words = (0..DATA_LEN / 8).flat_map(|_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 18).to_le_bytes()
    });
    words.collect()
}

fn initial_registers(place: Place, flags: u64) -> Registers {
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

fn gprs(r: &Registers) -> [u64; 16] {
    [
        r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12,
        r.r13, r.r14, r.r15,
    ]
}

fn arithmetic(flags: u64) -> u32 {
    const ADJUST_TO_OVERFLOW: u64 = 0x8d5;
    (flags & ADJUST_TO_OVERFLOW) as u32
}

/// The same in iced's bits.
fn as_iced(flags: u32) -> u32 {
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
struct Reference {
    /// State in front of each instruction, and behind the last.
    states: Vec<Registers>,
    data: Vec<u8>,
    vectors: Vec<u8>,
    /// Bytes of data that it touches.
    touched: BTreeSet<usize>,
}

struct Machine<'a> {
    memory: &'a mut Memory,
    child: &'a Traced,
    info: InstructionInfoFactory,
}

fn register_value(registers: &Registers, register: Register) -> Option<u64> {
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

fn address_of_used(used: &UsedMemory, registers: &Registers) -> Option<u64> {
    used.virtual_address(0, |register, _, _| register_value(registers, register))
}

fn is_write(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::ReadWrite)
}

fn is_sure(access: OpAccess) -> bool {
    is_write(access) || access == OpAccess::Read
}

impl Machine<'_> {
    fn begin(&mut self, place: Place, shadow: &[u8]) {
        self.memory.data(place).copy_from_slice(&pattern(1));
        self.memory.shadow(place).copy_from_slice(shadow);
        let xmm: Vec<u8> = pattern(2)[..256].iter().map(|&b| b ^ (b << 5)).collect();
        self.child.reset_vectors(xmm[..].try_into().expect("256 bytes"));
    }

    /// Executes the guest's code as it is; nothing if it faults, as random code may.
    fn reference(&mut self, block: &Translated, flags: u64) -> Option<Reference> {
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
    fn execute(&mut self, guest: &Instruction) -> Result<(), i32> {
        loop {
            self.child.step()?;
            if self.child.registers().rip != guest.ip() {
                return Ok(());
            }
        }
    }

    fn word(&mut self, offset: i32, value: u64) {
        *self.memory.context(offset) = value.to_le_bytes();
    }
}

/// Whether an instruction is executed by the engine.
fn leaves_to_engine(guest: &Instruction) -> bool {
    matches!(guest.mnemonic(), Mnemonic::Syscall | Mnemonic::Rdtsc)
}

/// Flags that the rest of a block needs in front of each instruction, by a definition as simple as possible. AF
/// is left out: manuals do not define it where processors do.
fn needed_flags(guest: &[Instruction]) -> Vec<u32> {
    let mut needed = vec![ARITHMETIC & !RflagsBits::AF];
    for instruction in guest.iter().rev() {
        let shifts = (0..instruction.op_count()).any(|i| {
            instruction.op_kind(i) == OpKind::Register && instruction.op_register(i) == Register::CL
        });
        let sure = !shifts && !instruction.is_string_instruction();
        let written =
            instruction.rflags_written() | instruction.rflags_cleared() | instruction.rflags_set();
        let after = needed[needed.len() - 1];
        let kept = if sure { after & !written } else { after };
        needed.push((kept | instruction.rflags_read()) & ARITHMETIC & !RflagsBits::AF);
    }
    needed.reverse();
    needed
}

/// Whether a jump of emitted code leads to an entry of the engine. Here the engine is further away from the cache
/// than a jump reaches, so the upper half of the address is lost.
fn is_cut(entry: u64, to: u64) -> bool {
    entry as u32 == to as u32
}

fn is_exit(to: u64) -> bool {
    let entries = [
        target::exit_direct(),
        target::exit_emulate(),
        target::exit_syscall(),
        target::exit_mismatch(),
        target::exit_before_access(),
        target::exit_after_access(),
        target::exit_deadline(),
    ];
    entries.into_iter().any(|entry| is_cut(entry, to))
}

/// How a translated block came to its end.
enum End {
    /// At a guest address, with everything in its place.
    Direct(u64),
    /// At a guest address in rcx; rcx and rdx are spilled.
    Indirect(u64),
    /// In front of an instruction that the engine executes.
    Engine,
}

/// The run of one translated block.
struct Run<'a, 'b> {
    machine: &'a mut Machine<'b>,
    cache: &'a CodeCache,
    block: &'a Translated,
    reference: &'a Reference,
    needed: &'a [u32],
    clock: i64,
    /// Real memory that was touched for the guest instruction now being executed, and whether it was written.
    touched: Vec<(u64, u64, bool)>,
    position: usize,
    /// Where a check has just been told to start over: it has done part of its work, so that this is no boundary,
    /// even if it is the first byte of its instruction. The signal handler knows by `Context::inside`.
    restarts_at: Option<u64>,
    boundaries: BTreeSet<usize>,
    context: String,
}

impl Run<'_, '_> {
    fn index_of(&self, pc: u64) -> usize {
        let guest = &self.block.guest;
        let found = guest.iter().position(|g| g.ip() == pc);
        let end = guest[guest.len() - 1].next_ip();
        found
            .or((pc == end).then_some(guest.len()))
            .unwrap_or_else(|| panic!("{}: {pc:x} is no instruction", self.context))
    }

    fn counted(&mut self) -> i64 {
        self.machine.memory.clock() - self.clock
    }

    fn assert_registers(&self, found: &[u64; 16], index: usize, what: &str) {
        let expected = gprs(&self.reference.states[index]);
        for register in Gpr::ALL {
            let (found, expected) = (found[register as usize], expected[register as usize]);
            assert!(
                found == expected,
                "{}: {what}: {register:?} is {found:x}, not {expected:x}",
                self.context
            );
        }
    }

    fn assert_flags(&self, found: u64, index: usize, which: u32, what: &str) {
        let expected = self.reference.states[index].eflags;
        let wrong = as_iced(arithmetic(found ^ expected)) & which;
        assert!(
            wrong == 0,
            "{}: {what}: flags are {found:x}, not {expected:x} (iced's bits {wrong:x})",
            self.context
        );
    }

    /// Checks what can be recovered in front of the host instruction that comes next.
    fn check_position(&mut self, host: &Instruction, registers: &Registers) {
        let mut state = context::Registers {
            gpr: gprs(registers),
            rip: registers.rip,
            rflags: registers.eflags,
        };
        let gs_base = u64::from_le_bytes(*self.machine.memory.context(gs_offset!(guest_gs_base)));
        let saved = Saved { spill: self.machine.memory.spill(), gs_base };
        let Some(position) = recover(registers.rip, &mut state, &saved) else { return };
        assert_eq!(position.block, self.block.block, "{}", self.context);
        let index = self.index_of(position.pc);
        if index != self.position {
            assert!(index > self.position, "{}: positions go backwards", self.context);
            self.position = index;
            self.touched.clear();
        }
        let touches = self.touches(host, registers);
        let restarts = self.restarts_at.take() == Some(registers.rip);
        let boundary = position.boundary && !restarts;
        let what = match (boundary, touches) {
            (true, _) => "at a boundary",
            (_, true) => "where it can fault",
            _ => return,
        };
        if boundary {
            self.boundaries.insert(index);
        }
        self.assert_registers(&state.gpr, index, what);
        let which = if boundary || self.block.precise {
            ARITHMETIC
        } else if host.op0_kind() == OpKind::Memory {
            // A store: what the guest's instruction makes of flags may have been computed, and will be again.
            self.needed[index] & !self.block.guest[index].rflags_modified()
        } else {
            self.needed[index]
        };
        self.assert_flags(state.rflags, index, which, what);
        let counted = self.counted();
        assert_eq!(
            counted + position.unsettled as i64,
            index as i64,
            "{}: {what}: clock {counted}, unsettled {}",
            self.context,
            position.unsettled
        );
    }

    /// Whether a host instruction touches guest memory in a way that can fault: what was touched already for the
    /// same guest instruction can be touched again.
    fn touches(&mut self, host: &Instruction, registers: &Registers) -> bool {
        let mut touches = false;
        for used in self.machine.info.info(host).used_memory() {
            let ours = used.segment() == Register::GS;
            if ours || matches!(used.access(), OpAccess::None | OpAccess::NoMemAccess) {
                continue;
            }
            let Some(start) = address_of_used(used, registers) else {
                touches = true;
                continue;
            };
            let end = start + used.memory_size().size() as u64;
            let writes = used.access() != OpAccess::Read;
            let again = |&(from, to, written): &(u64, u64, bool)| {
                from <= start && end <= to && (written || !writes)
            };
            if !self.touched.iter().any(again) {
                self.touched.push((start, end, writes));
                touches = true;
            }
        }
        touches
    }

    fn host_instruction(&self, rip: u64) -> Instruction {
        assert!(cache::contains(rip), "{}: and then on to {rip:x}", self.context);
        // SAFETY: an address in committed memory of the cache; whole instructions are there.
        let bytes = unsafe { std::slice::from_raw_parts(rip as *const u8, 15) };
        Decoder::with_ip(64, bytes, rip, DecoderOptions::NONE).decode()
    }

    /// Runs to the end of the block.
    fn run(&mut self) -> End {
        let name = self.context.clone();
        for _ in 0..3000 {
            let registers = self.machine.child.registers();
            let host = self.host_instruction(registers.rip);
            self.context = format!("{name}: {:x} {host}", registers.rip);
            self.check_position(&host, &registers);
            let to = host.near_branch_target();
            if host.flow_control() == FlowControl::UnconditionalBranch && is_exit(to) {
                if let Some(end) = self.leave(to, registers) {
                    return end;
                }
                continue;
            }
            if host.flow_control() == FlowControl::IndirectBranch {
                return End::Indirect(registers.rcx);
            }
            if let Err(signal) = self.machine.child.step() {
                panic!("{}: signal {signal}", self.context);
            }
        }
        panic!("{name}: no end");
    }

    /// Does what the engine would do at an exit; says so if the block ends there.
    fn leave(&mut self, to: u64, registers: Registers) -> Option<End> {
        let is = |entry: u64| is_cut(entry, to);
        let number = self.machine.memory.exit_index();
        if is(target::exit_direct()) {
            return Some(End::Direct(self.cache.exits[number].target));
        }
        if is(target::exit_emulate()) || is(target::exit_syscall()) {
            return Some(End::Engine);
        }
        let site = cache::site(number);
        let index = self.index_of(site.pc);
        let time = self.counted() + site.adjust as i64;
        assert_eq!(time, index as i64, "{}: time of the site", self.context);
        let place = self.block.place;
        let mut registers = registers;
        if is(target::exit_mismatch()) {
            self.mend(&site, &registers);
            self.restarts_at = (site.value == NO_REGISTER).then_some(site.resume);
        } else if is(target::exit_before_access()) {
            self.assert_registers(&gprs(&registers), index, "the engine is asked");
            self.assert_flags(registers.eflags, index, self.needed[index], "the engine is asked");
            self.follow(place);
            let guest = self.block.guest[index];
            if is_repeated_string(&guest) {
                registers = self.execute_whole(&guest, registers);
            }
        } else if is(target::exit_after_access()) {
            self.assert_registers(&gprs(&registers), index + 1, "the engine is told");
            self.follow(place);
        } else {
            assert!(is(target::exit_deadline()), "{}: unknown exit", self.context);
            assert!(self.machine.memory.clock() >= 0, "{}: not due", self.context);
        }
        registers.rip = site.resume;
        self.machine.child.set_registers(&registers);
        None
    }

    /// The engine executes a repeated string instruction.
    fn execute_whole(&mut self, guest: &Instruction, registers: Registers) -> Registers {
        let start = Registers { rip: guest.ip(), ..registers };
        self.machine.child.set_registers(&start);
        self.machine.execute(guest).expect("as natively");
        self.follow(self.block.place);
        self.machine.child.registers()
    }

    /// Makes all of the shadow follow memory.
    fn follow(&mut self, place: Place) {
        let data = self.machine.memory.data(place).to_vec();
        self.machine.memory.shadow(place).copy_from_slice(&data);
    }

    /// Makes the shadow of a site's operand equal to memory.
    fn mend(&mut self, site: &Site, registers: &Registers) {
        let register = |number: u8| match number {
            NO_REGISTER => 0,
            number => gprs(registers)[number as usize],
        };
        let sum = register(site.base)
            .wrapping_add(register(site.index) << site.scale)
            .wrapping_add(site.displacement as u64);
        let cut = if site.narrow { sum as u32 as u64 } else { sum };
        let context = |offset| u64::from_le_bytes(offset);
        let address =
            match site.segment {
                Segment::Flat => cut,
                Segment::Fs => cut
                    .wrapping_add(context(*self.machine.memory.context(gs_offset!(guest_fs_base)))),
                Segment::Gs => cut
                    .wrapping_add(context(*self.machine.memory.context(gs_offset!(guest_gs_base)))),
            };
        let place = self.block.place;
        let start = address.wrapping_sub(place.data()) as usize;
        let end = start.wrapping_add(site.len as usize);
        assert!(start < end && end <= DATA_LEN, "{}: mends {address:x}", self.context);
        let bytes = match site.value {
            NO_REGISTER => self.machine.memory.data(place)[start..end].to_vec(),
            number => register(number).to_le_bytes()[..site.len as usize].to_vec(),
        };
        let shadow = &mut self.machine.memory.shadow(place)[start..end];
        assert!(*shadow != bytes[..], "{}: there is nothing to mend", self.context);
        shadow.copy_from_slice(&bytes);
    }
}

/// Runs a block in both ways and compares; says whether it can be executed at all.
fn check(machine: &mut Machine, cache: &CodeCache, block: &Translated, setting: Setting) -> bool {
    let Some(reference) = machine.reference(block, setting.flags) else { return false };
    let place = block.place;
    let shadow = pattern(if setting.same_shadow { 1 } else { 3 });
    machine.begin(place, &shadow);
    let clock = if setting.deadline { -1 } else { -1_000_000 };
    let guest_registers = initial_registers(place, setting.flags);
    machine.word(CLOCK, clock as u64);
    machine.word(gs_offset!(guest_fs_base), guest_registers.fs_base);
    machine.word(gs_offset!(guest_gs_base), guest_registers.gs_base);
    machine.child.set_registers(&Registers {
        rip: cache.body_address(block.block),
        gs_base: SHADOW_DISTANCE,
        ..guest_registers
    });
    let needed = needed_flags(&block.guest);
    let mut run = Run {
        machine: &mut *machine,
        cache,
        block,
        reference: &reference,
        needed: &needed,
        clock,
        touched: vec![],
        position: 0,
        restarts_at: None,
        boundaries: BTreeSet::new(),
        context: format!("{}, {setting:?}", block.name),
    };
    let end = run.run();
    let registers = run.machine.child.registers();
    let last = reference.states.len() - 1;
    let count = run.counted();
    assert_eq!(count, block.guest.len() as i64, "{}: the whole block is counted", run.context);
    let mut gpr = gprs(&registers);
    let goes_on = match end {
        End::Direct(to) => to,
        End::Indirect(to) => {
            let spill = run.machine.memory.spill();
            gpr[Gpr::Rcx as usize] = spill[context::slot::BRANCH_RCX as usize];
            gpr[Gpr::Rdx as usize] = spill[context::slot::BRANCH_RDX as usize];
            to
        }
        End::Engine => reference.states[last].rip,
    };
    assert_eq!(goes_on, reference.states[last].rip, "{}: goes on elsewhere", run.context);
    run.assert_registers(&gpr, last, "in the end");
    run.assert_flags(registers.eflags, last, ARITHMETIC, "in the end");
    assert_eq!(registers.fs_base, reference.states[last].fs_base, "{}: FS base", run.context);
    if block.precise {
        let all: BTreeSet<usize> = (0..block.guest.len()).collect();
        let missing: Vec<_> = all.difference(&run.boundaries).collect();
        assert!(missing.is_empty(), "{}: no boundaries at {missing:?}", run.context);
    }
    let name = run.context;
    let fs_base = u64::from_le_bytes(*machine.memory.context(gs_offset!(guest_fs_base)));
    assert_eq!(fs_base, registers.fs_base, "{name}: FS base in the context");
    assert!(machine.child.vectors() == reference.vectors, "{name}: vector state");
    let before = pattern(1);
    let data = machine.memory.data(place).to_vec();
    let copy = machine.memory.shadow(place);
    for (at, &byte) in data.iter().enumerate() {
        let expected = reference.data[at];
        assert_eq!(byte, expected, "{name}: memory at {at:#x}");
        let involved = reference.touched.contains(&at) || expected != before[at];
        if involved || copy[at] != shadow[at] {
            assert_eq!(copy[at], expected, "{name}: shadow at {at:#x}");
        }
    }
    true
}

/// Code of a block at a guest address.
fn assembled(place: Place, pc: u64, build: impl FnOnce(&mut CodeAssembler, u64)) -> Vec<u8> {
    let mut assembler = CodeAssembler::new(64).expect("64 bits");
    build(&mut assembler, place.data());
    let code = assembler.assemble(pc).expect("assembles");
    assert!(code.len() < CODE_STEP as usize);
    code
}

fn translate(
    cache: &mut CodeCache,
    memory: &mut Memory,
    wanted: &Wanted,
    number: u64,
) -> Translated {
    let &Wanted { ref source, place, precise } = wanted;
    let pc = place.code + number * CODE_STEP;
    let (code, name, is_random) = match source {
        Source::Written(block) => {
            let build = |a: &mut CodeAssembler, data| (block.build)(a, data).expect("builds");
            (assembled(place, pc, build), block.name.to_string(), false)
        }
        Source::Random(seed) => {
            let build = |a: &mut CodeAssembler, data| mix(a, place, data, *seed);
            (assembled(place, pc, build), format!("random block {seed}"), true)
        }
    };
    memory.code(pc, code.len()).copy_from_slice(&code);
    let block =
        cache.translate(&mut Record, pc, &code, How::default(), &|_, _| 0).expect("there is room");
    assert_eq!(cache.blocks[block].guest_len as usize, code.len(), "{name}: one block");
    let guest: Vec<Instruction> =
        Decoder::with_ip(64, &code, pc, DecoderOptions::NONE).into_iter().collect();
    let kind = if precise { "precise" } else { "usual" };
    let mut name = format!("{name} at {pc:x}, {kind}");
    if is_random {
        for instruction in &guest {
            name += &format!("; {instruction}");
        }
    }
    Translated { name, place, precise, is_random, block, guest }
}

/// Instructions of the written blocks in random order, with a jump at the end that reads some flag.
fn mix(assembler: &mut CodeAssembler, place: Place, data: u64, seed: u64) {
    let mut pool = vec![];
    for block in blocks::blocks().iter().filter(|b| b.supported) {
        let build = |a: &mut CodeAssembler, data| (block.build)(a, data).expect("builds");
        let code = assembled(place, place.code, build);
        let guest = Decoder::with_ip(64, &code, place.code, DecoderOptions::NONE);
        pool.extend(
            guest
                .into_iter()
                .filter(|g| g.flow_control() == FlowControl::Next && !leaves_to_engine(g)),
        );
    }
    let mut state = seed;
    let mut random = |below: usize| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) as usize % below
    };
    for _ in 0..2 + random(9) {
        let mut picked = pool[random(pool.len())];
        // Addresses that it had in another block mean nothing here.
        picked.set_ip(0);
        assembler.add_instruction(picked).expect("fits");
    }
    match random(5) {
        0 => assembler.je(data),
        1 => assembler.jb(data),
        2 => assembler.jo(data),
        3 => assembler.jmp(data),
        _ => assembler.jp(data & !0x3_ffff),
    }
    .expect("fits");
}

/// Does something for each of many; what fails is told at the end, so that one failure does not hide another.
fn each<T>(items: impl IntoIterator<Item = (String, T)>, mut action: impl FnMut(T)) -> usize {
    let mut failed = 0;
    for (name, item) in items {
        if catch_unwind(AssertUnwindSafe(|| action(item))).is_err() {
            eprintln!("failed: {name}");
            failed += 1;
        }
    }
    failed
}

/// How many blocks are made at random, for each setting of the weaver.
const RANDOM_BLOCKS: u64 = 300;

#[test]
fn recorded_blocks_do_what_the_guest_does() {
    let cache = CodeCache::new(None).expect("the cache's place is free").publish();
    let mut memory = Memory::new();
    let mut wanted = vec![];
    for precise in [false, true] {
        for block in blocks::blocks().into_iter().filter(|b| b.supported) {
            wanted.extend([LOW, HIGH].map(|place| {
                let source = Source::Written(block);
                Wanted { source, place, precise }
            }));
        }
        wanted.extend((0..RANDOM_BLOCKS).map(|seed| {
            let place = if seed % 2 == 0 { LOW } else { HIGH };
            Wanted { source: Source::Random(seed), place, precise }
        }));
    }
    let mut translated = vec![];
    let named = wanted.iter().zip(0..).map(|(wanted, number)| {
        let name = match &wanted.source {
            Source::Written(block) => block.name.to_string(),
            Source::Random(seed) => format!("random block {seed}"),
        };
        (name, (wanted, number))
    });
    let mut failures = each(named, |(wanted, number)| {
        if wanted.precise {
            cache.make_precise();
        }
        translated.push(translate(cache, &mut memory, wanted, number));
    });
    // The child is a copy of this process: now everything is in it.
    let child = Traced::start();
    let mut machine =
        Machine { memory: &mut memory, child: &child, info: InstructionInfoFactory::new() };
    const ALL_FLAGS: u64 = 0x8d5;
    let mut executed = 0;
    failures += each(translated.iter().map(|b| (b.name.clone(), b)), |block| {
        for same_shadow in [true, false] {
            for flags in [0, ALL_FLAGS] {
                let deadline = same_shadow == (flags == 0);
                let setting = Setting { same_shadow, deadline, flags };
                executed += check(&mut machine, cache, block, setting) as usize;
            }
        }
    });
    assert_eq!(failures, 0, "of {} blocks", wanted.len());
    assert!(executed > 2 * wanted.len(), "most random blocks can be executed");
}
