//! What counting weaves into the guest's code: the clock, and a replay's stream if one is wanted.
//!
//! The clock is in r11 while the guest's r11 waits in a slot; a clock in memory would make every block wait for the one before
//! it. A block that uses r11 changes places around its body.
//!
//! ```text
//! block           =>  lea r11, [r11 + n]; body                                n instructions
//!   in a loop     =>  lea r11, [r11 + n]; mov gs:[clock], r11; body           if somebody wants to know
//! with a deadline =>  add r11, n; jg leave; body
//!   if flags live =>  lea r11, [r11 + n]; rcx = highest byte of r11 - 1; jrcxz leave; restore rcx; body
//! jcc T forwards  =>  jcc side; rest of the body;  side: lea r11, [r11 - rest]; jmp link(T)   (side exits)
//! block with r11  =>  count; clock <-> r11; body; clock <-> r11
//! ```
//!
//! A recording has no deadline but a signal, which stops at the next boundary; it needs one only where the user wants intervals or
//! slices of so many instructions. Side exits save counts; where nothing else is done once per block (calm recording) they
//! cost more than that: the taken path has a jump more.
//!
//! Invariants: the clock is in r11 at the start and at every exit of a block. Where it is, a spill range says so.

use super::{CLOCK_REGISTER, CLOCK_WORD, CURSOR_WORD};
use crate::context::{Gpr, slot, spill_offset};
use crate::entry::target;
use crate::replay::stream::weave::{CURSOR_REGISTER, Tracer};
use crate::translate::classify::{Class, classify};
use crate::translate::emit::{Emitter, SpillMark};
use crate::translate::operand::OperandRewriter;
use crate::translate::output::{Output, Site, take_clock};
use alloc::vec::Vec;
use iced_x86::{FlowControl, Instruction};

/// How the clock is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keeping {
    /// Blocks that would run past the deadline leave for the engine.
    pub deadline: bool,
    /// Somebody else wants to know the time while guest code runs: whatever can be executed again and again tells it.
    pub told: bool,
}

/// The state of weaving one block.
pub struct Timekeeper {
    /// How the clock is kept.
    pub keeping: Keeping,
    /// What a stream weaves in.
    pub tracer: Tracer,
    /// Addresses in front of which blocks end, in order.
    pub breakpoints: Vec<u64>,
    /// Whether they also leave for the engine there, each time. Else the engine looks where it goes on.
    pub leaves_at_breakpoints: bool,
    /// The range in which the clock is in its register, or `None` while the guest's register is there.
    holds_clock: Option<SpillMark>,
}

/// What must be kept of the flags.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Flags that matter in front of the block.
    pub live: u32,
    /// Whether all flags are to be kept.
    pub keeps_flags: bool,
}

impl Timekeeper {
    /// One with empty buffers.
    pub fn new() -> Timekeeper {
        Timekeeper {
            keeping: Keeping::default(),
            tracer: Tracer::new(),
            breakpoints: Vec::new(),
            leaves_at_breakpoints: false,
            holds_clock: None,
        }
    }

    /// At a block's first byte.
    pub fn enter(&mut self, out: &Emitter) {
        self.holds_clock = Some(out.mark(CLOCK_REGISTER, slot::CLOCK));
    }

    /// Starts a block: counts it, leaves if it would run past the deadline, and gives its body the guest's registers.
    pub fn begin(
        &mut self,
        out: &mut Output,
        operands: &mut OperandRewriter,
        block: &[Instruction],
        plan: &Plan,
    ) {
        let breaks =
            self.leaves_at_breakpoints && !plan.keeps_flags && self.breaks_at(block[0].ip());
        let flags_dead = plan.live == 0 && !plan.keeps_flags && !breaks;
        if self.keeping.deadline || breaks {
            self.count_to_deadline(out, block, flags_dead, breaks);
        } else {
            out.lea_disp8(CLOCK_REGISTER, block.len() as i8);
        }
        if self.keeping.told && is_repeatable(&block[block.len() - 1]) {
            out.store_gs(CLOCK_REGISTER, CLOCK_WORD);
        }
        if block.iter().any(|guest| uses_clock_register(operands, guest)) {
            self.give_back(out);
        }
        if self.tracer.active() {
            self.tracer.begin(out, operands, block, flags_dead);
        }
    }

    /// Counts, and leaves in front of the block if that would take it past the deadline, or in any case with `always`: then the engine
    /// goes on from here with a cut block.
    fn count_to_deadline(
        &mut self,
        out: &mut Output,
        block: &[Instruction],
        flags_dead: bool,
        always: bool,
    ) {
        let late = out.cold.next_address();
        let uses_rcx = !flags_dead && !always;
        if flags_dead {
            out.add_imm8(CLOCK_REGISTER, block.len() as u8);
            out.jump_if_greater(late);
        } else {
            out.lea_disp8(CLOCK_REGISTER, block.len() as i8);
            if always {
                out.jump_to(late);
            } else {
                jump_if_positive(out, late);
            }
        }
        if uses_rcx {
            out.cold.load_gs(Gpr::Rcx, spill_offset(slot::FLAGS));
        }
        let site = Site { adjust: -(block.len() as i16), ..Site::at(block[0].ip()) };
        out.leave_for(site, target::exit_deadline());
    }

    /// Whether a block ends in front of an address.
    pub fn breaks_at(&self, pc: u64) -> bool {
        !self.breakpoints.is_empty() && self.breakpoints.binary_search(&pc).is_ok()
    }

    /// The guest's own register takes the clock's place.
    fn give_back(&mut self, out: &mut Output) {
        if let Some(mark) = self.holds_clock.take() {
            out.store_gs(CLOCK_REGISTER, CLOCK_WORD);
            out.unspill(mark);
            out.clock_is_away = true;
        }
    }

    /// The only instruction of its block, whose accesses only the engine can tell.
    pub fn loose(&mut self, out: &mut Output, pc: u64, emit: impl FnOnce(&mut Emitter)) {
        let holds_clock = self.holds_clock.is_some();
        let moves_cursor = self.tracer.needs_cursor_register();
        self.leave(out);
        out.ask(Site::at(pc), target::exit_before_access());
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
        out.ask(Site::at(pc), target::exit_after_access());
    }

    /// A conditional branch that the block goes on behind: if it is taken, `executed` instructions are, and not the
    /// `rest` of the block.
    pub fn side_exit(
        &mut self,
        out: &mut Output,
        condition: u8,
        target: u64,
        executed: usize,
        rest: i32,
        linkable: bool,
    ) {
        let side = out.cold.next_address();
        out.jump_if(condition, side);
        if self.tracer.active() {
            self.tracer.side_exit(&mut out.cold, executed);
        }
        if self.holds_clock.is_none() {
            take_clock(&mut out.cold);
        }
        out.cold.lea_disp(CLOCK_REGISTER, CLOCK_REGISTER, -rest);
        out.cold.exit_jump(target, linkable);
    }

    /// In front of an exit: the clock goes back to its register.
    pub fn leave(&mut self, out: &mut Output) {
        if self.tracer.active() {
            self.tracer.leave(out);
        }
        if self.holds_clock.is_none() {
            self.holds_clock = Some(out.spill(CLOCK_REGISTER, slot::CLOCK));
            out.load_gs(CLOCK_REGISTER, CLOCK_WORD);
            out.clock_is_away = false;
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

/// Jumps if the clock is positive, without touching flags: then its highest byte minus one is zero.
fn jump_if_positive(out: &mut Output, to: u64) {
    let rcx = out.spill(Gpr::Rcx, slot::FLAGS);
    out.lea_disp(Gpr::Rcx, CLOCK_REGISTER, -1);
    out.highest_byte_of_rcx();
    let late = out.jump_if_rcx_zero();
    let on = out.jump_short();
    out.bind(late);
    out.jump_to(to);
    out.bind(on);
    out.unspill(rcx);
}

/// Whether a block that ends like this can be executed again and again without any other kind of transfer: on every way back to
/// where the guest was before there is a step to a lower address, or to one that is not known.
fn is_repeatable(last: &Instruction) -> bool {
    match classify(last) {
        Class::Jump | Class::Conditional | Class::CountedJump | Class::Call => {
            last.near_branch_target() <= last.ip()
        }
        class => matches!(class, Class::IndirectJump | Class::IndirectCall),
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
