//! The classes of tests: which instructions, in which surroundings.

use super::catalogue::{Catalogue, Group};
use super::cpu::Cpu;
use super::memory::Segments;
use super::operands::Style;
use super::recipes::IMAGE_ROOM;
use super::setting::Hazards;
use super::state::Exceptions;
use iced_x86::{Code, Mnemonic, OpCodeOperandKind};

/// A class of tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// General-purpose instructions.
    Integer,
    /// Lock prefixes and what locks without one.
    Atomics,
    /// String instructions.
    Strings,
    /// Pushes, pops, frames, and arithmetic on the stack pointer.
    Stack,
    /// Near branches, calls, returns.
    ControlFlow,
    /// x87 arithmetic.
    X87,
    /// MMX and SSE.
    Sse,
    /// AVX, AVX2, FMA and the other VEX encodings.
    Avx,
    /// AVX-512.
    Avx512,
    /// Gathers and scatters.
    Gather,
    /// Whole states stored and loaded.
    State,
    /// The same, comparing x87 instruction and operand pointers too.
    X87Pointers,
    /// Operands relative to FS, and its base.
    Fs,
    /// Operands relative to GS, and its base.
    Gs,
    /// Selectors loaded into segment registers.
    SegmentLoads,
    /// `cpuid`, `syscall`, descriptor queries.
    System,
    /// Far branches, `iret`.
    FarBranches,
    /// Branches with an operand-size prefix, on processors that heed it.
    ShortBranches,
    /// Everything mixed.
    Mixed,
    /// Memory operands that fault.
    MemoryFaults,
    /// Unmasked floating-point exceptions.
    FloatFaults,
    /// Alignment checks.
    AlignmentFaults,
    /// Breakpoints, invalid and privileged instructions, bad branch targets, single steps.
    Traps,
}

impl Class {
    /// All classes.
    pub const ALL: [Class; 23] = [
        Class::Integer,
        Class::Atomics,
        Class::Strings,
        Class::Stack,
        Class::ControlFlow,
        Class::X87,
        Class::Sse,
        Class::Avx,
        Class::Avx512,
        Class::Gather,
        Class::State,
        Class::X87Pointers,
        Class::Fs,
        Class::Gs,
        Class::SegmentLoads,
        Class::System,
        Class::FarBranches,
        Class::ShortBranches,
        Class::Mixed,
        Class::MemoryFaults,
        Class::FloatFaults,
        Class::AlignmentFaults,
        Class::Traps,
    ];
}

/// How bodies are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// One instruction after the other.
    Straight,
    /// With near branches.
    Branches,
    /// With far branches.
    FarBranches,
    /// With branches to 16-bit targets.
    ShortBranches,
}

/// What a class consists of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Codes that take turns; empty if the processor has none of them.
    pub featured: Vec<Code>,
    /// Codes that fill the bodies up.
    pub filler: Vec<Code>,
    /// How operands look.
    pub style: Style,
    /// Whether floating-point exceptions are delivered.
    pub exceptions: Exceptions,
    /// How bodies are made.
    pub body: Body,
    /// Whether the stack pointer is also moved by ordinary instructions.
    pub moves_stack: bool,
    /// Whether cases run with alignment checks on.
    pub alignment_checks: bool,
    /// Percentage of cases whose memory operands may fault on purpose.
    pub hazards: u64,
    /// Percentage of cases that raise a signal without a featured code.
    pub traps: u64,
    /// Whether the scratch template holds XSAVE images.
    pub has_images: bool,
    /// Cases per guest.
    pub cases: usize,
}

/// What all classes have in common.
const ORDINARY: Style = Style {
    segments: Segments { fs: 5, gs: 0 },
    locked: 25,
    in_memory: 55,
    hazards: Hazards::None,
    x87_pointers: false,
};

/// Groups whose instructions are safe to mix with any others.
const MIXABLE: [Group; 8] = [
    Group::Integer,
    Group::Strings,
    Group::Stack,
    Group::X87,
    Group::Sse,
    Group::Avx,
    Group::Avx512,
    Group::Gather,
];

impl Plan {
    /// The plan of `class`.
    pub fn new(cpu: &Cpu, catalogue: &Catalogue, class: Class) -> Plan {
        let integer = catalogue.codes(&[Group::Integer]);
        let base = Plan {
            featured: Vec::new(),
            filler: integer.clone(),
            style: ORDINARY,
            exceptions: Exceptions::Masked,
            body: Body::Straight,
            moves_stack: false,
            alignment_checks: false,
            hazards: 0,
            traps: 0,
            has_images: false,
            cases: 800,
        };
        let group = |group: Group| catalogue.codes(&[group]);
        let featuring = |featured: Vec<Code>| Plan { featured, ..base.clone() };
        // Half of the filler from the class itself: sequences of its own kind matter most.
        let own = |featured: Vec<Code>| {
            let filler = if featured.is_empty() { integer.clone() } else { featured.clone() };
            Plan { featured, filler, ..base.clone() }
        };
        match class {
            Class::Integer => own(integer.clone()),
            Class::Atomics => {
                let locking = |code: &Code| code.op_code().can_use_lock_prefix();
                let style = Style { locked: 85, in_memory: 90, ..ORDINARY };
                Plan { style, ..featuring(integer.iter().copied().filter(locking).collect()) }
            }
            Class::Strings => own(group(Group::Strings)),
            Class::Stack => Plan { moves_stack: true, ..own(group(Group::Stack)) },
            Class::ControlFlow => {
                Plan { body: Body::Branches, cases: 1500, ..featuring(group(Group::Branch)) }
            }
            Class::X87 => own(group(Group::X87)),
            Class::Sse => own(group(Group::Sse)),
            Class::Avx => Plan { cases: 1000, ..own(group(Group::Avx)) },
            Class::Avx512 => Plan { cases: 1600, ..own(group(Group::Avx512)) },
            Class::Gather => own(group(Group::Gather)),
            Class::State => {
                let mut filler = catalogue.codes(&[Group::X87, Group::Sse, Group::Avx]);
                // Whether the processor remembers that all registers are zero, and leaves them out
                // of what it saves, is its own business.
                filler.retain(|code| code.mnemonic() != Mnemonic::Vzeroall);
                Plan { filler, has_images: true, ..featuring(group(Group::State)) }
            }
            Class::X87Pointers => {
                let style = Style { x87_pointers: true, ..ORDINARY };
                let filler = catalogue.codes(&[Group::X87]);
                Plan {
                    filler,
                    style,
                    has_images: true,
                    cases: 300,
                    ..featuring(group(Group::State))
                }
            }
            Class::Fs => segment_plan(
                &base,
                catalogue,
                Mnemonic::Rdfsbase,
                Mnemonic::Wrfsbase,
                Segments { fs: 60, gs: 0 },
            ),
            Class::Gs => segment_plan(
                &base,
                catalogue,
                Mnemonic::Rdgsbase,
                Mnemonic::Wrgsbase,
                Segments { fs: 5, gs: 60 },
            ),
            Class::SegmentLoads => {
                let loads = |code: &Code| loads_segment(*code);
                let style = Style { segments: Segments { fs: 0, gs: 0 }, ..ORDINARY };
                let featured = group(Group::Segment).into_iter().filter(loads).collect();
                Plan { style, cases: 200, ..featuring(featured) }
            }
            Class::System => Plan { cases: 400, ..featuring(group(Group::System)) },
            Class::FarBranches => {
                Plan { body: Body::FarBranches, cases: 400, ..featuring(group(Group::Far)) }
            }
            Class::ShortBranches => Plan {
                body: Body::ShortBranches,
                cases: 400,
                ..featuring(group(Group::ShortBranch))
            },
            Class::Mixed => Plan { cases: 1500, ..own(catalogue.codes(&MIXABLE)) },
            Class::MemoryFaults => {
                let with_state: Vec<Group> = MIXABLE.into_iter().chain([Group::State]).collect();
                let featured = catalogue
                    .codes(&with_state)
                    .into_iter()
                    .filter(|code| touches_memory(*code))
                    .collect();
                let style = Style { in_memory: 92, ..ORDINARY };
                Plan { style, hazards: 100, has_images: true, cases: 2000, ..featuring(featured) }
            }
            Class::FloatFaults => {
                let featured =
                    catalogue.codes(&[Group::X87, Group::Sse, Group::Avx, Group::Avx512]);
                Plan { exceptions: Exceptions::Unmasked, cases: 1500, ..own(featured) }
            }
            Class::AlignmentFaults => {
                let featured = catalogue.codes(&[
                    Group::Integer,
                    Group::Strings,
                    Group::Stack,
                    Group::Sse,
                    Group::Avx,
                ]);
                Plan { alignment_checks: true, ..own(featured) }
            }
            Class::Traps => Plan { traps: 35, ..featuring(group(Group::Trap)) },
        }
        .with_images_that_fit(cpu)
    }

    /// Leaves XSAVE images out if the scratch area has no room for them.
    fn with_images_that_fit(mut self, cpu: &Cpu) -> Plan {
        if cpu.area_size as u64 > IMAGE_ROOM {
            self.has_images = false;
        }
        self
    }
}

fn segment_plan(
    base: &Plan,
    catalogue: &Catalogue,
    reads: Mnemonic,
    writes: Mnemonic,
    segments: Segments,
) -> Plan {
    let mut featured: Vec<Code> = catalogue
        .codes(&[Group::Segment])
        .into_iter()
        .filter(|code| {
            let mnemonic = code.mnemonic();
            mnemonic == reads
                || mnemonic == writes
                || mnemonic == Mnemonic::Mov && !loads_segment(*code)
                || mnemonic == Mnemonic::Push
        })
        .collect();
    let filler =
        catalogue.codes(&MIXABLE).into_iter().filter(|code| touches_memory(*code)).collect();
    featured.sort_unstable();
    Plan {
        featured,
        filler,
        hazards: 25,
        style: Style { segments, in_memory: 85, ..ORDINARY },
        ..base.clone()
    }
}

fn loads_segment(code: Code) -> bool {
    let writes_selector = matches!(code.op_code().op0_kind(), OpCodeOperandKind::seg_reg);
    writes_selector
        || matches!(code.mnemonic(), Mnemonic::Pop | Mnemonic::Lfs | Mnemonic::Lgs | Mnemonic::Lss)
}

/// Whether an instruction can have a memory operand, named or not.
fn touches_memory(code: Code) -> bool {
    use OpCodeOperandKind::*;
    let is_memory = |kind: &OpCodeOperandKind| {
        matches!(
            kind,
            mem | mem_offs
                | r8_or_mem
                | r16_or_mem
                | r32_or_mem
                | r64_or_mem
                | mm_or_mem
                | xmm_or_mem
                | ymm_or_mem
                | zmm_or_mem
                | k_or_mem
                | seg_rSI
                | es_rDI
                | seg_rDI
                | seg_rBX_al
        ) || super::catalogue::is_vector_indexed(kind)
    };
    code.op_code().op_kinds().iter().any(is_memory) || code.is_stack_instruction()
}
