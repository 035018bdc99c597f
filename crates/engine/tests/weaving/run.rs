//! The run of a translated block: host instruction by host instruction, with the part of the engine behind the
//! exits played as simply as possible.

use super::Translated;
use super::machine::{Machine, Reference, address_of_used, arithmetic, as_iced, gprs};
use super::memory::{DATA_LEN, Place};
use super::traced::Registers;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, OpAccess, OpKind, Register, RflagsBits,
};
use retro_engine::cache::{self, CodeCache, Saved, recover};
use retro_engine::context::{self, Gpr, slot, spill_offset};
use retro_engine::entry::target;
use retro_engine::gs_offset;
use retro_engine::record::weave::{ARITHMETIC, NO_REGISTER, Site, is_repeated_string};
use retro_engine::translate::address::Segment;
use std::collections::BTreeSet;

/// Flags that the rest of a block needs in front of each instruction, by a definition as simple as possible. AF
/// is left out: manuals do not define it where processors do. So are flags that an instruction before has left
/// undefined, since processors differ in them.
pub fn needed_flags(guest: &[Instruction]) -> Vec<u32> {
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
    let mut undefined = 0;
    for (instruction, needed) in guest.iter().zip(&mut needed[1..]) {
        let defined =
            instruction.rflags_written() | instruction.rflags_cleared() | instruction.rflags_set();
        undefined = undefined & !defined | instruction.rflags_undefined();
        *needed &= !undefined;
    }
    needed
}

/// Whether a jump of emitted code leads to an entry of the engine. Here the engine is further away from the cache
/// than a jump reaches, so the upper half of the address is lost.
pub fn is_cut(entry: u64, to: u64) -> bool {
    entry as u32 == to as u32
}

pub fn is_exit(to: u64) -> bool {
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
pub enum End {
    /// At a guest address, with everything in its place.
    Direct(u64),
    /// At a guest address in rcx; rcx and rdx are spilled.
    Indirect(u64),
    /// In front of an instruction that the engine executes.
    Engine,
}

/// The run of one translated block.
pub struct Run<'a, 'b> {
    pub machine: &'a mut Machine<'b>,
    pub cache: &'a CodeCache,
    pub block: &'a Translated,
    pub reference: &'a Reference,
    pub needed: &'a [u32],
    pub clock: i64,
    /// Real memory that was touched for the guest instruction now being executed, and whether it was written.
    pub touched: Vec<(u64, u64, bool)>,
    pub position: usize,
    /// Where a check has just been told to start over: it has done part of its work, so that this is no boundary,
    /// even if it is the first byte of its instruction. The signal handler knows by `Context::inside`.
    pub restarts_at: Option<u64>,
    pub boundaries: BTreeSet<usize>,
    pub context: String,
}

impl Run<'_, '_> {
    pub fn index_of(&self, pc: u64) -> usize {
        let guest = &self.block.guest;
        let found = guest.iter().position(|g| g.ip() == pc);
        let end = guest[guest.len() - 1].next_ip();
        found
            .or((pc == end).then_some(guest.len()))
            .unwrap_or_else(|| panic!("{}: {pc:x} is no instruction", self.context))
    }

    /// Instructions counted so far, if the clock is in its register or not.
    pub fn counted(&mut self, registers: &Registers, in_register: bool) -> i64 {
        let clock = if in_register { registers.r11 as i64 } else { self.machine.memory.clock() };
        clock - self.clock
    }

    pub fn assert_registers(&self, found: &[u64; 16], index: usize, what: &str) {
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

    pub fn assert_flags(&self, found: u64, index: usize, which: u32, what: &str) {
        let expected = self.reference.states[index].eflags;
        let wrong = as_iced(arithmetic(found ^ expected)) & which;
        assert!(
            wrong == 0,
            "{}: {what}: flags are {found:x}, not {expected:x} (iced's bits {wrong:x})",
            self.context
        );
    }

    /// Checks what can be recovered in front of the host instruction that comes next.
    pub fn check_position(&mut self, host: &Instruction, registers: &Registers) {
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
        let counted = self.counted(registers, position.clock_in_register);
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
    pub fn touches(&mut self, host: &Instruction, registers: &Registers) -> bool {
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

    pub fn host_instruction(&self, rip: u64) -> Instruction {
        assert!(cache::contains(rip), "{}: and then on to {rip:x}", self.context);
        // SAFETY: an address in committed memory of the cache; whole instructions are there.
        let bytes = unsafe { std::slice::from_raw_parts(rip as *const u8, 15) };
        Decoder::with_ip(64, bytes, rip, DecoderOptions::NONE).decode()
    }

    /// Runs to the end of the block.
    pub fn run(&mut self) -> End {
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
    pub fn leave(&mut self, to: u64, registers: Registers) -> Option<End> {
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
        let time = self.counted(&registers, true) + site.adjust as i64;
        assert_eq!(time, index as i64, "{}: time of the site", self.context);
        let place = self.block.place;
        // As the engine does: the guest's own register comes from its slot, and goes back there.
        let clock = registers.r11;
        let mut registers =
            Registers { r11: self.machine.memory.spill()[slot::CLOCK as usize], ..registers };
        if is(target::exit_mismatch()) {
            self.mend(&site, &registers);
            self.restarts_at = (site.value == NO_REGISTER).then_some(site.again);
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
            assert!(clock as i64 > 0, "{}: not due", self.context);
            // Nothing has happened: the block starts over, with time enough.
            self.clock = -1_000_000;
            self.machine.child.set_registers(&Registers {
                rip: self.cache.body_address(self.block.block),
                r11: self.clock as u64,
                ..registers
            });
            return None;
        }
        self.machine.word(spill_offset(slot::CLOCK), registers.r11);
        registers.r11 = clock;
        registers.rip = site.resume;
        self.machine.child.set_registers(&registers);
        None
    }

    /// The engine executes a repeated string instruction.
    pub fn execute_whole(&mut self, guest: &Instruction, registers: Registers) -> Registers {
        let start = Registers { rip: guest.ip(), ..registers };
        self.machine.child.set_registers(&start);
        self.machine.execute(guest).expect("as natively");
        self.follow(self.block.place);
        self.machine.child.registers()
    }

    /// Makes all of the shadow follow memory.
    pub fn follow(&mut self, place: Place) {
        let data = self.machine.memory.data(place).to_vec();
        self.machine.memory.shadow(place).copy_from_slice(&data);
    }

    /// Makes the shadow of a site's operand equal to memory.
    pub fn mend(&mut self, site: &Site, registers: &Registers) {
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
