//! From a cache address back to the guest: every byte of emitted code is asked, for many blocks.
//!
//! Here for the policies whose spilling is simple enough to be followed by reading the code. What recording emits
//! is executed for this instead: see `weaving.rs`.
//!
//! One test, because the code cache has a fixed place in the process.

use iced_x86::{Decoder, DecoderOptions};
use retro_abi::layout::CACHE_BASE;
use retro_engine::cache::{CodeCache, How, Saved, recover};
use retro_engine::context::{Registers, slot, spill_offset};
use retro_engine::policy::{Count, Run};

/// Distinct values, so that a mixed-up register shows.
fn registers() -> Registers {
    let mut registers = Registers::default();
    for (index, value) in registers.gpr.iter_mut().enumerate() {
        *value = 0x1000 + index as u64;
    }
    registers
}

const SPILL: [u64; slot::COUNT] = {
    let mut spill = [0xa0; slot::COUNT];
    let mut slot = 0;
    while slot < slot::COUNT {
        spill[slot] += slot as u64;
        slot += 1;
    }
    spill
};

const SAVED: Saved = Saved { spill: SPILL, gs_base: 0 };

/// Executes emitted engine code symbolically: which register holds what at each host instruction, as far
/// as spilling goes. Returns, for each host instruction offset, the guest's value of each register.
fn expected_registers(bytes: &[u8], address: u64) -> Vec<(usize, [u64; 16])> {
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let mut spilled: [Option<u8>; 16] = [None; 16];
    let mut found = vec![];
    while decoder.can_decode() {
        let position = decoder.position();
        let mut now = registers().gpr;
        for (register, slot) in spilled.iter().enumerate() {
            if let Some(slot) = slot {
                now[register] = SPILL[*slot as usize];
            }
        }
        found.push((position, now));
        let instruction = decoder.decode();
        if instruction.segment_prefix() != iced_x86::Register::GS {
            continue;
        }
        let displacement = instruction.memory_displacement64() as i32;
        let Some(slot) = (0..slot::COUNT as u8).find(|&slot| displacement == spill_offset(slot))
        else {
            continue;
        };
        // A store to a slot begins a spill, a load from it ends it.
        let (stores, register) = if instruction.op0_register() == iced_x86::Register::None {
            (true, instruction.op1_register())
        } else {
            (false, instruction.op0_register())
        };
        spilled[register.number()] = stores.then_some(slot);
    }
    found
}

fn check(cache: &mut CodeCache, code: &[u8], pc: u64, count: bool) {
    let how = How::default();
    let block = if count {
        cache.translate(&mut Count, pc, code, how, &|_, _| 0)
    } else {
        cache.translate(&mut Run, pc, code, how, &|_, _| 0)
    };
    let block = block.expect("there is room");
    let start = cache.body_address(block);
    let len = cache.blocks[block].len as usize;
    // SAFETY: the block that was just written.
    let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, len) };
    let guest_starts: Vec<u64> = {
        let mut decoder = Decoder::with_ip(64, code, pc, DecoderOptions::NONE);
        let mut starts = vec![];
        while decoder.can_decode() {
            starts.push(decoder.ip());
            let _ = decoder.decode();
        }
        starts.push(pc + code.len() as u64);
        starts
    };
    let mut last_pc = pc;
    let mut boundaries = vec![];
    for (offset, expected) in expected_registers(bytes, start) {
        let mut state = registers();
        let position = recover(start + offset as u64, &mut state, &SAVED)
            .unwrap_or_else(|| panic!("no position at {offset:#x} of {code:02x?}"));
        assert_eq!(position.block, block);
        assert!(guest_starts.contains(&position.pc), "{:x} is no instruction", position.pc);
        assert!(position.pc >= last_pc, "positions go backwards");
        last_pc = position.pc;
        assert_eq!(state.gpr, expected, "registers at {offset:#x} of {code:02x?}");
        if position.boundary {
            boundaries.push(position.pc);
            assert_eq!(state.gpr, registers().gpr, "a boundary has all registers in place");
        }
    }
    for start in &guest_starts[..guest_starts.len() - 1] {
        assert!(boundaries.contains(start), "no boundary for {start:x} of {code:02x?}");
    }
    assert_eq!(recover(start + len as u64, &mut registers(), &SAVED), None);
}

#[test]
fn every_byte_of_the_cache_leads_back() {
    let cache = CodeCache::new(None).expect("the cache's place is free").publish();
    {
        assert_eq!(recover(CACHE_BASE, &mut registers(), &SAVED), None);
        let blocks: [&[u8]; 9] = [
            &[0x48, 0x89, 0xe5, 0x48, 0x83, 0xc0, 0x01, 0xc3],
            &[0x48, 0x8b, 0x0d, 0, 1, 0, 0, 0x48, 0x01, 0x05, 0, 1, 0, 0, 0x75, 0x10],
            &[
                0x65, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0, 0x65, 0x48, 0x89, 0x44, 0xcb, 0x10,
                0xc3,
            ],
            &[0x51, 0xe8, 0xfb, 0, 0, 0],
            &[0x90, 0xff, 0x54, 0x24, 0x08],
            &[0x90, 0xff, 0x25, 0, 1, 0, 0],
            &[0x48, 0xff, 0xc0, 0xe2, 0xfb],
            &[0xb8, 0x27, 0, 0, 0, 0x0f, 0x05],
            &[0xf3, 0xa4, 0x65, 0xac, 0xc2, 0x10, 0],
        ];
        for (index, code) in blocks.iter().enumerate() {
            for base in [0x1000_0000u64, 0x1f00_0000_0000] {
                for count in [false, true] {
                    let pc = base + 0x1000 * (2 * index as u64 + count as u64);
                    check(cache, code, pc, count);
                }
            }
        }
    }
}
