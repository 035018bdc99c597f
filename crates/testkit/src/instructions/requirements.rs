//! What an instruction demands of its operands, beyond what the operand kinds say.

use iced_x86::{Code, EncodingKind, Instruction, Mnemonic, OpCodeInfo, OpCodeOperandKind, OpKind};

/// Whether vector registers that must differ do differ.
pub fn has_distinct_registers(instruction: &Instruction, info: &OpCodeInfo) -> bool {
    let mut numbers: Vec<usize> = (0..instruction.op_count())
        .filter(|&operand| instruction.op_kind(operand) == OpKind::Register)
        .map(|operand| instruction.op_register(operand))
        .filter(|register| register.is_vector_register())
        .map(|register| register.number())
        .collect();
    if instruction.memory_index().is_vector_register() {
        numbers.push(instruction.memory_index().number());
    }
    if info.requires_unique_reg_nums() {
        (1..numbers.len()).all(|at| !numbers[..at].contains(&numbers[at]))
    } else if info.requires_unique_dest_reg_num() && instruction.op0_kind() == OpKind::Register {
        numbers.iter().skip(1).all(|&number| number != numbers[0])
    } else {
        true
    }
}

/// Whether an implicit operand obeys a segment override.
pub fn takes_override(kind: OpCodeOperandKind) -> bool {
    matches!(
        kind,
        OpCodeOperandKind::seg_rSI | OpCodeOperandKind::seg_rDI | OpCodeOperandKind::seg_rBX_al
    )
}

/// Whether a register operand selects a bit relative to a memory operand.
pub fn is_bit_test(code: Code) -> bool {
    matches!(code.mnemonic(), Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc)
}

/// Instructions that name memory and do not touch it, or touch it without ever faulting.
pub fn accesses_nothing(code: Code) -> bool {
    use Mnemonic::*;
    matches!(
        code.mnemonic(),
        Lea | Nop
            | Reservednop
            | Prefetch
            | Prefetchw
            | Prefetchwt1
            | Prefetcht0
            | Prefetcht1
            | Prefetcht2
            | Prefetchnta
            | Cldemote
    )
}

/// The alignment without which an instruction faults; 1 if there is none.
pub fn required_alignment(code: Code, size: u64) -> u64 {
    use Mnemonic::*;
    match code.mnemonic() {
        Movaps | Movapd | Movdqa | Movntps | Movntpd | Movntdq | Movntdqa | Vmovaps | Vmovapd
        | Vmovdqa | Vmovdqa32 | Vmovdqa64 | Vmovntps | Vmovntpd | Vmovntdq | Vmovntdqa => {
            size.max(16)
        }
        Cmpxchg16b | Fxsave | Fxsave64 | Fxrstor | Fxrstor64 => 16,
        Movups | Movupd | Movdqu | Lddqu | Pcmpestri | Pcmpestrm | Pcmpistri | Pcmpistrm => 1,
        Aadd | Aand | Aor | Axor | Movdiri => size,
        _ if code.op_code().encoding() == EncodingKind::Legacy && size == 16 => 16,
        _ => 1,
    }
}
