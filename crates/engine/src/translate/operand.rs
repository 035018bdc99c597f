//! Memory operands that mean something else in the cache than in the guest's code.
//!
//! | guest operand | in the cache |
//! | --- | --- |
//! | `[rip + d]`, target below 2 GiB | `[disp32]`: one SIB byte longer, nothing else changes |
//! | `lea r, [rip + d]`, target above | `mov r, imm64` |
//! | `[rip + d]`, target above | `[s]` with `s` a spilled register holding the target |
//! | `gs:[...]` | `[s]` with `s` = the guest's GS base + address, by `lea`, so flags survive |
//!
//! The spilled register is one the instruction does not use; it is restored right after the
//! instruction, and its spill range lets a fault inside recover it.

use super::emit::{Emitter, SpillMark};
use super::liveness::{self, Dead};
use crate::context::{Gpr, slot};
use crate::gs_offset;
use iced_x86::{
    Code, ConstantOffsets, Encoder, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register,
};

/// Machinery for operand rewriting, kept from block to block for its buffers.
pub struct OperandRewriter {
    encoder: Encoder,
    info: InstructionInfoFactory,
}

/// Whether the instruction's memory operand can be copied as it is.
pub fn is_position_independent(guest: &Instruction) -> bool {
    !guest.is_ip_rel_memory_operand() && guest.segment_prefix() != Register::GS
}

/// A set of general-purpose registers, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GprSet(pub u16);

impl GprSet {
    /// Adds a register if it is a general-purpose one, of any size.
    pub fn add(&mut self, register: Register) {
        if register.is_gpr() {
            self.0 |= 1 << register.full_register().number();
        }
    }

    /// Whether a register is in it.
    pub fn contains(self, register: Gpr) -> bool {
        self.0 & (1 << register as u16) != 0
    }
}

/// Registers that make good scratch: none needs a SIB or displacement byte as a plain base. Those that need
/// no REX prefix come first, because instructions with ah to dh cannot have one.
const SCRATCH: [Gpr; 10] = [
    Gpr::Rcx,
    Gpr::Rdx,
    Gpr::Rsi,
    Gpr::Rdi,
    Gpr::Rbx,
    Gpr::Rax,
    Gpr::R8,
    Gpr::R9,
    Gpr::R10,
    Gpr::R11,
];

/// The iced name of a 64-bit register.
pub fn iced_register(register: Gpr) -> Register {
    const NAMES: [Register; 16] = [
        Register::RAX,
        Register::RCX,
        Register::RDX,
        Register::RBX,
        Register::RSP,
        Register::RBP,
        Register::RSI,
        Register::RDI,
        Register::R8,
        Register::R9,
        Register::R10,
        Register::R11,
        Register::R12,
        Register::R13,
        Register::R14,
        Register::R15,
    ];
    NAMES[register as usize]
}

/// The 64-bit register that an iced register is part of.
pub fn gpr_of(register: Register) -> Gpr {
    Gpr::ALL[register.full_register().number()]
}

impl OperandRewriter {
    /// A rewriter.
    pub fn new() -> OperandRewriter {
        OperandRewriter { encoder: Encoder::new(64), info: InstructionInfoFactory::new() }
    }

    /// Whether an instruction changes any register.
    pub fn writes_registers(&mut self, guest: &Instruction) -> bool {
        use iced_x86::OpAccess::{CondRead, NoMemAccess, None, Read};
        self.info
            .info(guest)
            .used_registers()
            .iter()
            .any(|r| !matches!(r.access(), Read | CondRead | NoMemAccess | None))
    }

    /// The general-purpose registers an instruction changes.
    pub fn written_registers(&mut self, guest: &Instruction) -> GprSet {
        use iced_x86::OpAccess::{CondRead, NoMemAccess, None, Read};
        let mut written = GprSet::default();
        for used in self.info.info(guest).used_registers() {
            if !matches!(used.access(), Read | CondRead | NoMemAccess | None) {
                written.add(used.register());
            }
        }
        written
    }

    /// What an instruction overwrites before anybody can look.
    pub fn dead_before(&mut self, guest: &Instruction) -> Dead {
        liveness::dead_before(&mut self.info, guest)
    }

    /// The memory an instruction touches.
    pub fn accesses(&mut self, guest: &Instruction) -> &[iced_x86::UsedMemory] {
        self.info.info(guest).used_memory()
    }

    /// The general-purpose registers an instruction uses.
    pub fn used_registers(&mut self, guest: &Instruction) -> GprSet {
        let mut used = GprSet::default();
        for register in self.info.info(guest).used_registers() {
            used.add(register.register());
        }
        used
    }

    /// Emits an instruction by the general encoder; false if it has no encoding.
    pub fn encode(&mut self, out: &mut Emitter, guest: &Instruction) -> bool {
        let address = out.address + out.here() as u64;
        let encoded = self.encoder.encode(guest, address).is_ok();
        let bytes = self.encoder.take_buffer();
        if encoded {
            out.raw(&bytes);
        }
        self.encoder.set_buffer({
            let mut buffer = bytes;
            buffer.clear();
            buffer
        });
        encoded
    }

    /// Emits a guest instruction whose memory operand depends on where it stands. False if that
    /// cannot be done (the caller lets the engine report it).
    pub fn emit(
        &mut self,
        out: &mut Emitter,
        guest: &Instruction,
        bytes: &[u8],
        offsets: &ConstantOffsets,
    ) -> bool {
        if guest.segment_prefix() == Register::GS {
            return self.emit_gs(out, guest);
        }
        let target = guest.ip_rel_memory_address();
        if guest.memory_base() == Register::RIP && target < 1 << 31 {
            emit_absolute(out, bytes, offsets, target as u32);
            return true;
        }
        if guest.mnemonic() == Mnemonic::Lea && guest.op0_register().size() >= 4 {
            let to = guest.op0_register();
            let value = if to.size() == 4 { target & 0xffff_ffff } else { target };
            out.mov_imm(gpr_of(to), value);
            return true;
        }
        let used = self.used_registers(guest);
        let Some(mark) = spill_scratch(out, used, slot::OPERAND) else { return false };
        out.mov_imm(mark.0, target);
        let done = self.encode(out, &with_base(guest, mark.0));
        out.unspill(mark.1);
        done
    }

    fn emit_gs(&mut self, out: &mut Emitter, guest: &Instruction) -> bool {
        if let Some(implicit) = implicit_address(guest) {
            return self.emit_gs_biased(out, guest, implicit);
        }
        if guest.mnemonic() == Mnemonic::Lea {
            // `lea` ignores segments.
            let mut plain = *guest;
            plain.set_segment_prefix(Register::None);
            return self.encode(out, &plain);
        }
        let mut used = self.used_registers(guest);
        used.add(guest.memory_base());
        used.add(guest.memory_index());
        let Some((scratch, mark)) = spill_scratch(out, used, slot::OPERAND) else { return false };
        let done = if guest.memory_index().is_vector_register() {
            // Vector index: only the base moves.
            out.load_gs(scratch, gs_offset!(guest_gs_base));
            if guest.memory_base() != Register::None {
                out.lea_sum(scratch, gpr_of(guest.memory_base()), scratch);
            }
            let mut moved = *guest;
            moved.set_memory_base(iced_register(scratch));
            moved.set_segment_prefix(Register::None);
            self.encode(out, &moved)
        } else {
            self.emit_gs_address(out, guest, used, scratch)
                && self.encode(out, &with_base(guest, scratch))
        };
        out.unspill(mark);
        done
    }

    /// `scratch = guest GS base + effective address`.
    fn emit_gs_address(
        &mut self,
        out: &mut Emitter,
        guest: &Instruction,
        mut used: GprSet,
        scratch: Gpr,
    ) -> bool {
        let to = iced_register(scratch);
        let address = effective_address(guest, to);
        if !self.encode(out, &address) {
            return false;
        }
        used.add(to);
        let Some((base, mark)) = spill_scratch(out, used, slot::OPERAND_SECOND) else {
            return false;
        };
        out.load_gs(base, gs_offset!(guest_gs_base));
        out.lea_sum(scratch, scratch, base);
        out.unspill(mark);
        true
    }

    /// Instructions whose address is in a fixed register: that register is moved by the GS base around the
    /// instruction, and a bias range lets a fault inside, even of a half-done `rep`, move it back.
    fn emit_gs_biased(&mut self, out: &mut Emitter, guest: &Instruction, biased: Gpr) -> bool {
        let used = self.used_registers(guest);
        let Some((base, mark)) = spill_scratch(out, used, slot::OPERAND) else { return false };
        out.load_gs(base, gs_offset!(guest_gs_base));
        out.lea_sum(biased, biased, base);
        let start = out.here();
        let mut plain = *guest;
        plain.set_segment_prefix(Register::None);
        let done = self.encode(out, &plain);
        // base = -base without flags: not(base) + 1.
        let number = base as u8;
        out.raw(&[0x48 | number >> 3, 0xf7, 0xd0 | (number & 7)]);
        out.lea_disp(base, base, 1);
        out.lea_sum(biased, biased, base);
        out.bias(start, biased);
        out.unspill(mark);
        done
    }

    /// `mov rcx, <operand 0>`: the target of an indirect jump or call. rcx and rdx are spilled
    /// already, so rdx serves as scratch, unless the operand uses it.
    pub fn emit_branch_target(
        &mut self,
        out: &mut Emitter,
        guest: &Instruction,
        bytes: &[u8],
        offsets: &ConstantOffsets,
    ) -> bool {
        if guest.op0_kind() == OpKind::Register {
            let from = gpr_of(guest.op0_register());
            if from != Gpr::Rcx {
                out.mov(Gpr::Rcx, from);
            }
            return true;
        }
        let mut load = *guest;
        load.set_code(Code::Mov_r64_rm64);
        load.set_op0_kind(OpKind::Register);
        load.set_op0_register(Register::RCX);
        load.set_op1_kind(OpKind::Memory);
        load.set_has_repe_prefix(false);
        load.set_has_repne_prefix(false);
        if is_position_independent(guest) {
            return self.encode(out, &load);
        }
        if guest.segment_prefix() != Register::GS {
            let target = guest.ip_rel_memory_address();
            if let Ok(low) = i32::try_from(target) {
                // mov rcx, [disp32]
                out.raw(&[0x48, 0x8b, 0x0c, 0x25]);
                out.raw(&low.to_le_bytes());
                return true;
            }
            out.mov_imm(Gpr::Rcx, target);
            out.load(Gpr::Rcx, Gpr::Rcx, 0);
            return true;
        }
        self.emit(out, &load, bytes, offsets)
    }
}

impl Default for OperandRewriter {
    fn default() -> Self {
        OperandRewriter::new()
    }
}

/// The register that holds the address of an implicit operand which a segment prefix applies to.
fn implicit_address(guest: &Instruction) -> Option<Gpr> {
    if guest.mnemonic() == Mnemonic::Xlatb {
        return Some(Gpr::Rbx);
    }
    (0..guest.op_count()).find_map(|operand| match guest.op_kind(operand) {
        OpKind::MemorySegSI | OpKind::MemorySegESI | OpKind::MemorySegRSI => Some(Gpr::Rsi),
        OpKind::MemorySegDI | OpKind::MemorySegEDI | OpKind::MemorySegRDI => Some(Gpr::Rdi),
        _ => None,
    })
}

/// Spills a register that is not in `used`.
fn spill_scratch(out: &mut Emitter, used: GprSet, slot: u8) -> Option<(Gpr, SpillMark)> {
    let scratch = SCRATCH.into_iter().find(|&r| !used.contains(r))?;
    Some((scratch, out.spill(scratch, slot)))
}

/// The instruction with `[base]` as its memory operand.
fn with_base(guest: &Instruction, base: Gpr) -> Instruction {
    let mut changed = *guest;
    changed.set_memory_base(iced_register(base));
    changed.set_memory_index(Register::None);
    changed.set_memory_index_scale(1);
    changed.set_memory_displacement64(0);
    changed.set_memory_displ_size(0);
    // The guest's GS base is in `base` already; its FS is for real.
    if guest.segment_prefix() == Register::GS {
        changed.set_segment_prefix(Register::None);
    }
    changed
}

/// `lea to, <the instruction's memory operand without segment>`.
fn effective_address(guest: &Instruction, to: Register) -> Instruction {
    let mut lea = Instruction::new();
    let narrow = guest.memory_base().size() == 4 || guest.memory_index().size() == 4;
    // A 32-bit address wraps before the segment base is added: a 32-bit destination truncates it.
    if narrow || guest.memory_displ_size() == 4 && is_absolute(guest) {
        lea.set_code(Code::Lea_r32_m);
        lea.set_op0_register(low_half(to));
    } else {
        lea.set_code(Code::Lea_r64_m);
        lea.set_op0_register(to);
    }
    lea.set_op0_kind(OpKind::Register);
    lea.set_op1_kind(OpKind::Memory);
    lea.set_memory_base(guest.memory_base());
    lea.set_memory_index(guest.memory_index());
    lea.set_memory_index_scale(guest.memory_index_scale());
    lea.set_memory_displacement64(guest.memory_displacement64());
    lea.set_memory_displ_size(guest.memory_displ_size());
    lea
}

fn is_absolute(guest: &Instruction) -> bool {
    guest.memory_base() == Register::None && guest.memory_index() == Register::None
}

fn low_half(register: Register) -> Register {
    const LOW: [Register; 16] = [
        Register::EAX,
        Register::ECX,
        Register::EDX,
        Register::EBX,
        Register::ESP,
        Register::EBP,
        Register::ESI,
        Register::EDI,
        Register::R8D,
        Register::R9D,
        Register::R10D,
        Register::R11D,
        Register::R12D,
        Register::R13D,
        Register::R14D,
        Register::R15D,
    ];
    LOW[register.number()]
}

/// Copies an instruction with a RIP-relative operand, making it `[disp32]`: ModRM's `rm` becomes
/// 100 (a SIB byte follows) and the SIB byte says "no base, no index".
pub fn emit_absolute(out: &mut Emitter, bytes: &[u8], offsets: &ConstantOffsets, target: u32) {
    let displacement = offsets.displacement_offset();
    let modrm = bytes[displacement - 1];
    out.raw(&bytes[..displacement - 1]);
    out.raw(&[(modrm & 0x38) | 0x04, 0x25]);
    out.raw(&target.to_le_bytes());
    out.raw(&bytes[displacement + 4..]);
}
