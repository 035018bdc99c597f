//! Every instruction this processor can execute in 64-bit user mode, sorted into groups.
//!
//! The decoder's tables are the source: all codes that are valid in 64-bit mode and whose features
//! the processor has, less those in [`exclusion`], each with its reason. A new decoder release or
//! a newer processor therefore brings its instructions into the tests without a change here.
//!
//! Invariant: a code is either in exactly one group or excluded with a reason.

use super::cpu::Cpu;
use iced_x86::{Code, CpuidFeature, EncodingKind, FlowControl, Mnemonic, OpCodeOperandKind};

/// How an instruction has to be generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// General-purpose registers and memory; also hints and cache control.
    Integer,
    /// `movs`, `stos` and their kin, with and without `rep`; `xlat`.
    Strings,
    /// Pushes, pops and frames.
    Stack,
    /// x87, except for what stores or loads its environment.
    X87,
    /// MMX and legacy-encoded SSE.
    Sse,
    /// VEX and XOP encodings of vector instructions.
    Avx,
    /// EVEX encodings, and the VEX-encoded opmask instructions.
    Avx512,
    /// Vector-indexed loads and stores.
    Gather,
    /// `xsave`, `fldenv`, `ldmxcsr`: whole states in memory.
    State,
    /// Segment selectors and bases.
    Segment,
    /// Near branches, calls and returns.
    Branch,
    /// Near branches whose target is cut to 16 bits.
    ShortBranch,
    /// Far branches, `iret`.
    Far,
    /// `cpuid`, `syscall` and what else asks the system.
    System,
    /// Raises a signal in user mode, always.
    Trap,
}

impl Group {
    /// All groups.
    pub const ALL: [Group; 15] = [
        Group::Integer,
        Group::Strings,
        Group::Stack,
        Group::X87,
        Group::Sse,
        Group::Avx,
        Group::Avx512,
        Group::Gather,
        Group::State,
        Group::Segment,
        Group::Branch,
        Group::ShortBranch,
        Group::Far,
        Group::System,
        Group::Trap,
    ];
}

/// The instructions of this processor.
#[derive(Clone, Debug)]
pub struct Catalogue {
    entries: Vec<(Code, Group)>,
}

impl Catalogue {
    /// Sorts everything `cpu` can execute.
    pub fn new(cpu: &Cpu) -> Catalogue {
        let entries = Code::values()
            .filter(|&code| is_available(cpu, code) && exclusion(code).is_none())
            .map(|code| (code, group(code)))
            .collect();
        Catalogue { entries }
    }

    /// The codes of some groups.
    pub fn codes(&self, groups: &[Group]) -> Vec<Code> {
        self.entries
            .iter()
            .filter(|(_, group)| groups.contains(group))
            .map(|&(code, _)| code)
            .collect()
    }

    /// All codes with their groups.
    pub fn entries(&self) -> &[(Code, Group)] {
        &self.entries
    }
}

fn is_available(cpu: &Cpu, code: Code) -> bool {
    let info = code.op_code();
    let decodes = if cpu.is_amd { info.amd_decoder64() } else { info.intel_decoder64() };
    info.is_instruction()
        && info.mode64()
        && decodes
        && info.decoder_option() == 0
        && info.encoding() != EncodingKind::MVEX
        && code.cpuid_features().iter().all(|&feature| cpu.has(feature))
}

/// Why an instruction is not tested, if it is not.
pub fn exclusion(code: Code) -> Option<&'static str> {
    use Mnemonic::*;
    match code.mnemonic() {
        Rdtsc | Rdtscp | Rdrand | Rdseed | Rdpid | Rdpmc => {
            Some("the result differs from run to run")
        }
        Monitor | Mwait | Monitorx | Mwaitx | Umonitor | Umwait | Tpause => {
            Some("waits for an event")
        }
        Xbegin | Xend | Xabort | Xtest => Some("transactions abort at any time"),
        Sysenter => Some("returns to an address the kernel chose"),
        Wrpkru => Some("takes access to all memory away"),
        Incsspd | Incsspq | Rstorssp | Saveprevssp | Wrssd | Wrssq | Wrussd | Wrussq | Setssbsy
        | Clrssbsy => Some("needs a shadow stack"),
        Enqcmd | Enqcmds => Some("needs a device"),
        _ => match code {
            // The decoder knows two forms of UD0; this one lacks the operands the processor skips.
            Code::Ud0 => Some("the same opcode as the form with operands"),
            _ => None,
        },
    }
}

fn group(code: Code) -> Group {
    use Mnemonic::*;
    let info = code.op_code();
    let features = code.cpuid_features();
    let short_branch = |kind: &OpCodeOperandKind| {
        matches!(kind, OpCodeOperandKind::br16_1 | OpCodeOperandKind::br16_2)
    };
    match code.mnemonic() {
        Cpuid | Xgetbv | Syscall | Sgdt | Sidt | Sldt | Str | Smsw | Verr | Verw | Lar | Lsl
        | Rdpkru => {
            return Group::System;
        }
        Clac | Stac | Rsm => return Group::Trap,
        Retf | Iret | Iretd | Iretq => return Group::Far,
        Xlatb => return Group::Strings,
        Rdfsbase | Rdgsbase | Wrfsbase | Wrgsbase | Lfs | Lgs | Lss => return Group::Segment,
        Ldmxcsr | Stmxcsr | Vldmxcsr | Vstmxcsr | Fldenv | Fnstenv | Fstenv | Frstor | Fnsave
        | Fsave | Fldcw => {
            return Group::State;
        }
        _ => {}
    }
    match code {
        Code::Call_m1616
        | Code::Call_m1632
        | Code::Call_m1664
        | Code::Jmp_m1616
        | Code::Jmp_m1632
        | Code::Jmp_m1664 => return Group::Far,
        Code::Call_rm16 | Code::Jmp_rm16 | Code::Retnw | Code::Retnw_imm16 => {
            return Group::ShortBranch;
        }
        _ => {}
    }
    if info.is_privileged() || !info.cpl3() || info.is_input_output() {
        return Group::Trap;
    }
    if info.op_kinds().iter().any(short_branch) {
        return Group::ShortBranch;
    }
    match code.flow_control() {
        FlowControl::Next => {}
        FlowControl::Interrupt | FlowControl::Exception => return Group::Trap,
        _ => return Group::Branch,
    }
    let uses_selector = |kind: &OpCodeOperandKind| {
        use OpCodeOperandKind::*;
        matches!(kind, seg_reg | es | cs | ss | ds | fs | gs)
    };
    if info.op_kinds().iter().any(uses_selector) {
        return Group::Segment;
    }
    if code.is_string_instruction() {
        return Group::Strings;
    }
    if code.is_stack_instruction() {
        return Group::Stack;
    }
    if code.is_save_restore_instruction() {
        return Group::State;
    }
    if info.op_kinds().iter().any(is_vector_indexed) {
        return Group::Gather;
    }
    let is_x87 = |feature: &CpuidFeature| {
        matches!(feature, CpuidFeature::FPU | CpuidFeature::FPU287 | CpuidFeature::FPU387)
    };
    if features.iter().any(is_x87) {
        return Group::X87;
    }
    match info.encoding() {
        EncodingKind::EVEX => Group::Avx512,
        EncodingKind::VEX | EncodingKind::XOP if features.iter().all(is_general_purpose) => {
            Group::Integer
        }
        EncodingKind::VEX if info.op_kinds().iter().any(is_opmask) => Group::Avx512,
        EncodingKind::VEX | EncodingKind::XOP => Group::Avx,
        EncodingKind::D3NOW => Group::Sse,
        _ if features.iter().all(is_general_purpose) => Group::Integer,
        _ => Group::Sse,
    }
}

/// Whether an operand addresses memory through a vector of indices.
pub fn is_vector_indexed(kind: &OpCodeOperandKind) -> bool {
    use OpCodeOperandKind::*;
    matches!(
        kind,
        mem_vsib32x | mem_vsib32y | mem_vsib32z | mem_vsib64x | mem_vsib64y | mem_vsib64z
    )
}

fn is_opmask(kind: &OpCodeOperandKind) -> bool {
    use OpCodeOperandKind::*;
    matches!(kind, k_reg | kp1_reg | k_rm | k_vvvv | k_or_mem)
}

fn is_general_purpose(feature: &CpuidFeature) -> bool {
    use CpuidFeature::*;
    matches!(
        feature,
        INTEL8086
            | INTEL186
            | INTEL286
            | INTEL386
            | INTEL486
            | X64
            | ADX
            | BMI1
            | BMI2
            | TBM
            | CET_IBT
            | CET_SS
            | CLDEMOTE
            | CLFLUSHOPT
            | CLFSH
            | CLWB
            | CLZERO
            | CMOV
            | CMPXCHG16B
            | CX8
            | LZCNT
            | MOVBE
            | MOVDIR64B
            | MOVDIRI
            | MULTIBYTENOP
            | PAUSE
            | POPCNT
            | PREFETCHW
            | SERIALIZE
            | RAO_INT
            | CMPCCXADD
    )
}
