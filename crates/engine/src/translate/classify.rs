//! Which guest instructions cannot simply be copied, and why.

use crate::policy::Nondeterministic;
use iced_x86::{Code, FlowControl, Instruction, Mnemonic, OpKind, Register};

/// How an instruction is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Copied; only its memory operand may need rewriting.
    Plain,
    /// `jmp rel`
    Jump,
    /// `jcc rel`
    Conditional,
    /// `loop`, `jrcxz` and relatives, which exist with an 8-bit displacement only.
    CountedJump,
    /// `call rel`
    Call,
    /// `jmp r/m`
    IndirectJump,
    /// `call r/m`
    IndirectCall,
    /// `ret` and `ret imm16`
    Return,
    /// `syscall`
    Syscall,
    /// Executed by the engine: it depends on state that the engine owns (GS, the trap flag,
    /// instruction pointers in x87 images, far transfers).
    Emulate,
    /// Copied, then the engine corrects the instruction pointer in the x87 image it stored.
    SaveX87,
    /// A nondeterministic instruction.
    Nondeterministic(Nondeterministic),
}

/// Whether an instruction that saves an image leaves the state itself as it is.
pub fn only_stores(guest: &Instruction) -> bool {
    !matches!(guest.mnemonic(), Mnemonic::Fnstenv | Mnemonic::Fnsave)
}

fn is_data_segment(register: Register) -> bool {
    matches!(register, Register::DS | Register::ES | Register::SS | Register::FS)
}

/// Classifies an instruction.
pub fn classify(guest: &Instruction) -> Class {
    use Nondeterministic as N;
    match guest.mnemonic() {
        Mnemonic::Syscall => return Class::Syscall,
        Mnemonic::Cpuid => return Class::Nondeterministic(N::Cpuid),
        Mnemonic::Rdtsc => return Class::Nondeterministic(N::Rdtsc),
        Mnemonic::Rdtscp => return Class::Nondeterministic(N::Rdtscp),
        Mnemonic::Rdrand => return Class::Nondeterministic(N::Rdrand),
        Mnemonic::Rdseed => return Class::Nondeterministic(N::Rdseed),
        Mnemonic::Rdpid => return Class::Nondeterministic(N::Rdpid),
        Mnemonic::Rdpru => return Class::Nondeterministic(N::Rdpru),
        Mnemonic::Rdpmc => return Class::Nondeterministic(N::Rdpmc),
        Mnemonic::Lsl
        | Mnemonic::Lar
        | Mnemonic::Verr
        | Mnemonic::Verw
        | Mnemonic::Sgdt
        | Mnemonic::Sidt
        | Mnemonic::Sldt
        | Mnemonic::Str
        | Mnemonic::Smsw => return Class::Nondeterministic(N::Descriptor),
        // Whether it was the time limit that ended the wait is in the carry flag.
        Mnemonic::Tpause | Mnemonic::Umwait => return Class::Nondeterministic(N::Pause),
        // Undefined, as on the machine without protection keys that cpuid shows; the rights of key 0 are the engine's.
        Mnemonic::Rdpkru | Mnemonic::Wrpkru => return Class::Emulate,
        // One of its registers says which parts of the vector state are in use.
        Mnemonic::Xgetbv => return Class::Nondeterministic(N::Xgetbv),
        // The trap flag may be in what they pop.
        Mnemonic::Popf | Mnemonic::Popfd | Mnemonic::Popfq => return Class::Emulate,
        Mnemonic::Iret | Mnemonic::Iretd | Mnemonic::Iretq | Mnemonic::Retf => {
            return Class::Emulate;
        }
        Mnemonic::Sysenter => return Class::Emulate,
        // They fault in user mode, here as anywhere.
        Mnemonic::Sysexit
        | Mnemonic::Sysexitq
        | Mnemonic::Sysret
        | Mnemonic::Sysretq
        | Mnemonic::Rsm => return Class::Plain,
        Mnemonic::Rdgsbase | Mnemonic::Wrgsbase => return Class::Emulate,
        Mnemonic::Lgs => return Class::Nondeterministic(N::GuestGs),
        // They store the address of the last x87 instruction, which is a cache address.
        Mnemonic::Fnstenv
        | Mnemonic::Fnsave
        | Mnemonic::Fxsave
        | Mnemonic::Fxsave64
        | Mnemonic::Xsave
        | Mnemonic::Xsave64
        | Mnemonic::Xsaveopt
        | Mnemonic::Xsaveopt64
        | Mnemonic::Xsavec
        | Mnemonic::Xsavec64 => return Class::SaveX87,
        Mnemonic::Mov | Mnemonic::Push | Mnemonic::Pop
            if (0..guest.op_count()).any(|i| guest.op_register(i) == Register::GS) =>
        {
            return Class::Nondeterministic(N::GuestGs);
        }
        Mnemonic::Mov | Mnemonic::Push | Mnemonic::Pop | Mnemonic::Lfs | Mnemonic::Lss
            if (0..guest.op_count()).any(|i| is_data_segment(guest.op_register(i)))
                || matches!(guest.mnemonic(), Mnemonic::Lfs | Mnemonic::Lss) =>
        {
            return Class::Nondeterministic(N::Segment);
        }
        _ => {}
    }
    // AMD processors truncate rip when a near branch has an operand-size prefix.
    if guest.flow_control() != FlowControl::Next
        && matches!(guest.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32)
    {
        return Class::Emulate;
    }
    match guest.flow_control() {
        FlowControl::Next | FlowControl::Exception => Class::Plain,
        FlowControl::UnconditionalBranch if guest.is_jmp_short_or_near() => Class::Jump,
        FlowControl::ConditionalBranch if guest.is_jcc_short_or_near() => Class::Conditional,
        FlowControl::ConditionalBranch => Class::CountedJump,
        FlowControl::IndirectBranch if guest.code() == Code::Jmp_rm64 => Class::IndirectJump,
        FlowControl::IndirectCall if guest.code() == Code::Call_rm64 => Class::IndirectCall,
        FlowControl::Call if guest.is_call_near() => Class::Call,
        FlowControl::Return => match guest.code() {
            Code::Retnq | Code::Retnq_imm16 => Class::Return,
            _ => Class::Emulate,
        },
        // Interrupts trap in the cache just as well, save the one that would enter the kernel behind the
        // engine's back.
        FlowControl::Interrupt => match guest.code() {
            Code::Int_imm8 if guest.immediate8() == 0x80 => Class::Emulate,
            _ => Class::Plain,
        },
        // Far transfers, and transactions, which cpuid hides.
        _ => Class::Emulate,
    }
}
