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
#[path = "weaving/machine.rs"]
mod machine;
#[path = "weaving/memory.rs"]
mod memory;
#[path = "weaving/run.rs"]
mod run;
#[path = "weaving/traced.rs"]
mod traced;

use blocks::Block;
use iced_x86::code_asm::CodeAssembler;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory};
use machine::{Machine, gprs, initial_registers, leaves_to_engine, pattern};
use memory::{HIGH, LOW, Memory, Place};
use retro_abi::layout::SHADOW_DISTANCE;
use retro_engine::cache::{CodeCache, How};
use retro_engine::clock::weave::Keeping;
use retro_engine::context::{CLOCK, Gpr, slot, spill_offset};
use retro_engine::gs_offset;
use retro_engine::record::Record;
use retro_engine::record::weave::ARITHMETIC;
use run::{End, Run, needed_flags};
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
    /// Whether it is not to run past a deadline.
    deadline: bool,
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
    deadline: bool,
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
/// Runs a block in both ways and compares; says whether it can be executed at all.
fn check(machine: &mut Machine, cache: &CodeCache, block: &Translated, setting: Setting) -> bool {
    let Some(reference) = machine.reference(block, setting.flags) else { return false };
    let place = block.place;
    let shadow = pattern(if setting.same_shadow { 1 } else { 3 });
    machine.begin(place, &shadow);
    let clock: i64 = if setting.deadline && block.deadline { 0 } else { -1_000_000 };
    let guest_registers = initial_registers(place, setting.flags);
    // Whatever is in the clock's word, or in the register that the guest's own value has left, must not matter.
    machine.word(CLOCK, 0x5eed);
    machine.word(spill_offset(slot::CLOCK), guest_registers.r11);
    machine.word(gs_offset!(guest_fs_base), guest_registers.fs_base);
    machine.word(gs_offset!(guest_gs_base), guest_registers.gs_base);
    machine.child.set_registers(&Registers {
        rip: cache.body_address(block.block),
        gs_base: SHADOW_DISTANCE,
        r11: clock as u64,
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
    let count = registers.r11 as i64 - run.clock;
    assert_eq!(count, block.guest.len() as i64, "{}: the whole block is counted", run.context);
    let mut gpr = gprs(&registers);
    gpr[Gpr::R11 as usize] = run.machine.memory.spill()[slot::CLOCK as usize];
    let goes_on = match end {
        End::Direct(to) => to,
        End::Indirect(to) => {
            let spill = run.machine.memory.spill();
            gpr[Gpr::Rcx as usize] = spill[slot::BRANCH_RCX as usize];
            gpr[Gpr::Rdx as usize] = spill[slot::BRANCH_RDX as usize];
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
    let &Wanted { ref source, place, precise, deadline } = wanted;
    cache.keep_clock(Keeping { deadline, told: !deadline });
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
    let kind = if deadline { format!("{kind}, up to a deadline") } else { kind.into() };
    let mut name = format!("{name} at {pc:x}, {kind}");
    if is_random {
        for instruction in &guest {
            name += &format!("; {instruction}");
        }
    }
    Translated { name, place, precise, deadline, is_random, block, guest }
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
            wanted.extend([(LOW, false), (HIGH, false), (LOW, true)].map(|(place, deadline)| {
                let source = Source::Written(block);
                Wanted { source, place, precise, deadline }
            }));
        }
        wanted.extend((0..RANDOM_BLOCKS).map(|seed| {
            let place = if seed % 2 == 0 { LOW } else { HIGH };
            Wanted { source: Source::Random(seed), place, precise, deadline: seed % 3 == 0 }
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
