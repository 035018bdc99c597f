//! What replay weaves into the guest's code: the clock, and the stream if one is wanted.
//!
//! The clock is in r11, the register that compilers use least, while the guest's r11 waits in a slot; a clock in
//! memory would make every block wait for the one before it. A block that uses r11 changes places around its body.
//!
//! ```text
//! block           =>  add r11, n; jg leave; body                              n instructions
//!   if flags live =>  lea r11, [r11 + n]; rcx = highest byte of r11 - 1; jrcxz leave; restore rcx; body
//! jcc T forwards  =>  jcc side; rest of the body;  side: lea r11, [r11 - rest]; jmp link(T)
//! block with r11  =>  add r11, n; jg leave; clock <-> r11; body; clock <-> r11
//! ```
//!
//! The engine finds the clock in r11 at every exit, and [`super::clock`] puts both where they belong.
//!
//! Invariants: the clock is in r11 at the start and at every exit of a block. Where it is, a spill range says so.

use super::clock::{CLOCK_REGISTER, CLOCK_WORD, CURSOR_WORD};
use super::stream::weave::{CURSOR_REGISTER, Tracer};
use crate::context::{Gpr, slot, spill_offset};
use crate::entry::target;
use crate::gs_offset;
use crate::record::weave::Site;
use crate::translate::classify::{Class, classify};
use crate::translate::emit::{Emitter, SpillMark};
use crate::translate::operand::OperandRewriter;
use alloc::vec::Vec;
use iced_x86::{FlowControl, Instruction};

/// The state of weaving one block.
pub struct Timekeeper {
    /// Code that is rarely executed.
    pub cold: Emitter,
    /// Places of this block.
    pub sites: Vec<Site>,
    /// What a stream weaves in.
    pub tracer: Tracer,
    /// Addresses in front of which blocks end, in order.
    pub breakpoints: Vec<u64>,
    first_site: u32,
    /// The range in which the clock is in its register, or `None` while the guest's register is there.
    holds_clock: Option<SpillMark>,
}

/// Where a block's parts will lie, and what must be kept.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Cache address of cold code.
    pub cold_address: u64,
    /// Number that the first site gets.
    pub first_site: u32,
    /// Flags that matter in front of the block.
    pub live: u32,
    /// Whether all flags are to be kept.
    pub keeps_flags: bool,
}

impl Timekeeper {
    /// One with empty buffers.
    pub fn new() -> Timekeeper {
        Timekeeper {
            cold: Emitter::new(),
            sites: Vec::with_capacity(4),
            tracer: Tracer::new(),
            breakpoints: Vec::new(),
            first_site: 0,
            holds_clock: None,
        }
    }

    /// Starts a block: counts it, leaves if it would run past the deadline, and gives its body the guest's registers.
    pub fn begin(
        &mut self,
        out: &mut Emitter,
        operands: &mut OperandRewriter,
        block: &[Instruction],
        plan: &Plan,
    ) {
        self.cold.begin(plan.cold_address, 0);
        self.sites.clear();
        self.first_site = plan.first_site;
        self.holds_clock = Some(out.mark(CLOCK_REGISTER, slot::CLOCK));
        let breaks = !plan.keeps_flags && self.breaks_at(block[0].ip());
        let flags_dead = plan.live == 0 && !plan.keeps_flags && !breaks;
        if !flags_dead {
            self.count_without_flags(out, block.len(), breaks);
        } else {
            out.add_imm8(CLOCK_REGISTER, block.len() as u8);
            out.jump_if_greater(self.cold.next_address());
        }
        self.cold.store_gs_imm32(gs_offset!(exit_index), plan.first_site);
        self.cold.jump_to(target::exit_deadline());
        self.sites.push(Site { adjust: -(block.len() as i16), ..Site::at(block[0].ip()) });
        if block.iter().any(|guest| uses_clock_register(operands, guest)) {
            self.give_back(out);
        }
        if self.tracer.active() {
            self.tracer.begin(out, operands, block, flags_dead);
        }
    }

    /// Counts without touching flags: the highest byte of the clock minus one is zero if the clock is positive. With
    /// `always` it leaves in any case: the engine goes on from here with a cut block.
    fn count_without_flags(&mut self, out: &mut Emitter, instructions: usize, always: bool) {
        out.lea_disp(CLOCK_REGISTER, CLOCK_REGISTER, instructions as i32);
        if always {
            return out.jump_to(self.cold.next_address());
        }
        let rcx = out.spill(Gpr::Rcx, slot::FLAGS);
        out.lea_disp(Gpr::Rcx, CLOCK_REGISTER, -1);
        out.highest_byte_of_rcx();
        let late = out.jump_if_rcx_zero();
        let on = out.jump_short();
        out.bind(late);
        out.jump_to(self.cold.next_address());
        out.bind(on);
        out.unspill(rcx);
        self.cold.load_gs(Gpr::Rcx, spill_offset(slot::FLAGS));
    }

    /// Whether a block ends in front of an address.
    pub fn breaks_at(&self, pc: u64) -> bool {
        !self.breakpoints.is_empty() && self.breakpoints.binary_search(&pc).is_ok()
    }

    /// The guest's own register takes the clock's place.
    fn give_back(&mut self, out: &mut Emitter) {
        if let Some(mark) = self.holds_clock.take() {
            out.store_gs(CLOCK_REGISTER, CLOCK_WORD);
            out.unspill(mark);
        }
    }

    /// The only instruction of its block, whose accesses only the engine can tell.
    pub fn loose(&mut self, out: &mut Emitter, pc: u64, emit: impl FnOnce(&mut Emitter)) {
        let holds_clock = self.holds_clock.is_some();
        let moves_cursor = self.tracer.needs_cursor_register();
        self.leave(out);
        self.ask_engine(out, pc, target::exit_before_access());
        if !holds_clock {
            self.give_back(out);
        }
        if moves_cursor {
            out.store_gs(CURSOR_REGISTER, CURSOR_WORD);
            out.load_gs(CURSOR_REGISTER, spill_offset(slot::CURSOR));
        }
        emit(out);
        if moves_cursor {
            out.store_gs(CURSOR_REGISTER, spill_offset(slot::CURSOR));
            out.load_gs(CURSOR_REGISTER, CURSOR_WORD);
        }
        self.leave(out);
        self.ask_engine(out, pc, target::exit_after_access());
    }

    /// Leaves for the engine and goes on right behind.
    fn ask_engine(&mut self, out: &mut Emitter, pc: u64, entry: u64) {
        let number = self.first_site + self.sites.len() as u32;
        out.store_gs_imm32(gs_offset!(exit_index), number);
        out.jump_to(entry);
        self.sites.push(Site { resume: out.next_address(), ..Site::at(pc) });
    }

    /// A conditional branch that the block goes on behind: if it is taken, `executed` instructions are, and not the
    /// `rest` of the block.
    pub fn side_exit(
        &mut self,
        out: &mut Emitter,
        condition: u8,
        target: u64,
        executed: usize,
        rest: i32,
        linkable: bool,
    ) {
        out.jump_if(condition, self.cold.next_address());
        if self.tracer.active() {
            self.tracer.side_exit(&mut self.cold, executed);
        }
        if self.holds_clock.is_none() {
            self.cold.store_gs(CLOCK_REGISTER, spill_offset(slot::CLOCK));
            self.cold.load_gs(CLOCK_REGISTER, CLOCK_WORD);
        }
        self.cold.lea_disp(CLOCK_REGISTER, CLOCK_REGISTER, -rest);
        self.cold.exit_jump(target, linkable);
    }

    /// In front of an exit: the clock goes back to its register.
    pub fn leave(&mut self, out: &mut Emitter) {
        if self.tracer.active() {
            self.tracer.leave(out);
        }
        if self.holds_clock.is_none() {
            self.holds_clock = Some(out.spill(CLOCK_REGISTER, slot::CLOCK));
            out.load_gs(CLOCK_REGISTER, CLOCK_WORD);
        }
    }

    /// Behind the block's last byte.
    pub fn end(&mut self, out: &mut Emitter) {
        if let Some(mark) = self.holds_clock.take() {
            out.end_spill(mark);
        }
    }
}

impl Default for Timekeeper {
    fn default() -> Self {
        Timekeeper::new()
    }
}

/// Whether an instruction needs the guest's own register; what the engine executes does not.
fn uses_clock_register(operands: &mut OperandRewriter, guest: &Instruction) -> bool {
    let runs_here = match classify(guest) {
        Class::Plain => guest.flow_control() == FlowControl::Next,
        class => matches!(class, Class::IndirectJump | Class::IndirectCall | Class::SaveX87),
    };
    runs_here && operands.used_registers(guest).contains(CLOCK_REGISTER)
}
