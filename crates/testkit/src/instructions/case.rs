//! Cases: an initial state and a body to run on it.
//!
//! Each class of test features some codes, dealt out in random order so that every one of them
//! gets its turn, and fills the bodies up with others, so that a block holds a mixture.

use super::assembly::Piece;
use super::class::{Body, Plan};
use super::control_flow::Flow;
use super::cpu::Cpu;
use super::layout::Layout;
use super::operands::{Operands, Style};
use super::random::Random;
use super::recipes::{bare, plain};
use super::setting::{ALIGNMENT, Hazards, Setting};
use iced_x86::{Code, Instruction, OpCodeOperandKind};

/// One test case.
#[derive(Clone, Debug)]
pub struct Case {
    /// Initial general-purpose registers.
    pub registers: [u64; 16],
    /// Initial flags.
    pub flags: u64,
    /// Initial FS base.
    pub fs_base: u64,
    /// Initial GS base.
    pub gs_base: u64,
    /// Which of the guest's state images it starts from.
    pub image: usize,
    /// What it executes.
    pub body: Vec<Piece>,
}

/// Bytes at the end of the code segment, behind which nothing is mapped: `inc eax`, then a `mov`
/// whose immediate would lie beyond the end and whose last bytes are `nop`s of their own.
pub const CLIFF: [u8; 5] = [0xff, 0xc0, 0xb8, 0x40, 0x90];

/// Makes cases.
pub struct CaseGenerator<'a> {
    cpu: &'a Cpu,
    layout: Layout,
    plan: &'a Plan,
    random: Random,
    /// Featured codes that have not had their turn in this round.
    deck: Vec<Code>,
    images: usize,
    code_end: u64,
}

impl<'a> CaseGenerator<'a> {
    /// Cases of one class for a guest that has `images` state images and whose code ends at `code_end`.
    pub fn new(
        cpu: &'a Cpu,
        layout: Layout,
        plan: &'a Plan,
        seed: u64,
        images: usize,
        code_end: u64,
    ) -> Self {
        CaseGenerator {
            cpu,
            layout,
            plan,
            random: Random::new(seed),
            deck: Vec::new(),
            images,
            code_end,
        }
    }

    /// The next case.
    pub fn case(&mut self) -> Case {
        // Where most featured codes end the case, a second one would not be reached.
        let most =
            if matches!(self.plan.body, Body::FarBranches | Body::ShortBranches) { 1 } else { 3 };
        let featured_count = self.random.below(most) + 1;
        let featured: Vec<Code> = (0..featured_count).map(|_| self.deal()).collect();
        let filler_count = self.random.below(4);
        let filler: Vec<Code> =
            (0..filler_count).map(|_| self.random.pick(&self.plan.filler)).collect();
        let mut order: Vec<Code> = featured.iter().chain(&filler).copied().collect();
        let image = self.random.below(self.images as u64) as usize;
        if self.plan.body == Body::Straight {
            self.random.shuffle(&mut order);
            self.straight(order, image)
        } else {
            self.flowing(&featured, order, image)
        }
    }

    fn deal(&mut self) -> Code {
        if self.deck.is_empty() {
            self.deck = self.plan.featured.clone();
            self.random.shuffle(&mut self.deck);
        }
        self.deck.pop().expect("a class features at least one code")
    }

    fn straight(&mut self, order: Vec<Code>, image: usize) -> Case {
        let hazardous = self.random.percent(self.plan.hazards);
        let hazards = if hazardous { Hazards::Memory } else { Hazards::None };
        let mut setting = Setting::new(&mut self.random, self.layout, &order, hazards);
        if self.plan.alignment_checks && self.random.percent(50) {
            setting.flags |= ALIGNMENT;
        }
        let initial = setting.clone();
        let style = Style { hazards, ..self.plan.style };
        let moves_stack = if self.plan.moves_stack { 15 } else { 0 };
        let mut operands = Operands::new(self.cpu, &mut self.random, &mut setting, style);
        let mut flow = Flow::new(&mut operands, &self.plan.filler);
        for code in order {
            if flow.percent(moves_stack) {
                flow.stack_adjustment();
            }
            flow.instruction(code);
        }
        case(&initial, image, flow.finish())
    }

    fn flowing(&mut self, featured: &[Code], all: Vec<Code>, image: usize) -> Case {
        let mut setting = Setting::new(&mut self.random, self.layout, &all, Hazards::None);
        setting.keep_stack_apart(&mut self.random);
        let initial = setting.clone();
        let mut operands = Operands::new(self.cpu, &mut self.random, &mut setting, self.plan.style);
        let mut flow = Flow::new(&mut operands, &self.plan.filler);
        for &code in featured {
            flow.ordinary(2);
            match self.plan.body {
                Body::Branches => flow.snippet(code),
                Body::FarBranches
                    if code.op_code().op_kinds().contains(&OpCodeOperandKind::mem) =>
                {
                    flow.far_branch(code);
                }
                Body::FarBranches => flow.far_return(code),
                Body::ShortBranches => flow.short_branch(code),
                Body::Straight => {}
            }
        }
        flow.ordinary(2);
        case(&initial, image, flow.finish())
    }

    /// A case that raises a signal by other means than a featured code.
    pub fn trap(&mut self) -> Case {
        let image = self.random.below(self.images as u64) as usize;
        let mut setting = Setting::new(&mut self.random, self.layout, &[], Hazards::None);
        setting.keep_stack_apart(&mut self.random);
        let initial = setting.clone();
        let Layout { scratch, read_only, .. } = self.layout;
        // No target here or below is non-canonical: such a transfer faults at its target instead of
        // at the branch, a limit that docs/limits.md names. Data at such addresses is tested.
        let nowhere = [0, 0x1000, scratch, scratch - 0x800, read_only];
        let cliff = self.code_end - 1 - self.random.below(CLIFF.len() as u64);
        let kind = self.random.below(5);
        let target = self.random.pick(&nowhere);
        let bad_memory = setting.hazardous_address(&mut self.random, 8);
        let unreadable = setting.unreadable_address(&mut self.random, 8);
        let mut operands = Operands::new(self.cpu, &mut self.random, &mut setting, self.plan.style);
        let mut flow = Flow::new(&mut operands, &self.plan.filler);
        flow.ordinary(3);
        match kind {
            0 => flow.transfer_to(target),
            1 => flow.transfer_to(cliff),
            2 => flow.transfer_with_stack_at(bad_memory, unreadable),
            3 => flow.transfer_through(bad_memory, unreadable),
            _ => {
                // The trap flag: a signal after the instruction behind popf.
                let flags = Instruction::with1(Code::Pushq_imm32, 0x302).expect("a push");
                flow.begin();
                flow.extend(vec![plain(flags), bare(Code::Popfq)]);
                flow.any_transfer_or_not();
                flow.ordinary(3);
            }
        }
        case(&initial, image, flow.finish())
    }
}

fn case(setting: &Setting, image: usize, body: Vec<Piece>) -> Case {
    let Setting { registers, flags, fs_base, gs_base, .. } = *setting;
    Case { registers, flags, fs_base, gs_base, image, body }
}
