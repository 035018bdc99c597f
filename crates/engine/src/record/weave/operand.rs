//! Memory operands on both sides: guest memory and its shadow.

use super::form::has_high_byte;
use super::{Site, Weaver};
use crate::context::Gpr;
use crate::entry::target;
use crate::gs_offset;
use crate::translate::address::{Address, Operation, Segment};
use crate::translate::operand::{GprSet, OperandRewriter, emit_absolute, iced_register};
use crate::translate::output::Output;
use iced_x86::{Code, ConstantOffsets, Instruction, Register};

/// A memory operand, ready to use.
pub(super) struct Operand {
    pub(super) segment: Segment,
    pub(super) real: Address,
    pub(super) shadow: Address,
    /// Whether the real address needs another encoding than the guest's own bytes.
    pub(super) moved: bool,
    /// Whether the shadow's address does.
    pub(super) shadow_moved: bool,
}

pub(super) fn set_address(guest: &mut Instruction, address: &Address) {
    guest.set_memory_base(address.base.map_or(Register::None, iced_register));
    guest.set_memory_index(address.index.map_or(Register::None, |(i, _)| iced_register(i)));
    guest.set_memory_index_scale(address.index.map_or(1, |(_, scale)| 1 << scale));
    guest.set_memory_displacement64(address.displacement as i64 as u64);
    let size = if address.base.is_none() { 8 } else { u32::from(address.displacement != 0) };
    guest.set_memory_displ_size(size);
}

/// A `mov` between the accumulator and an absolute address, in the form that can have any address.
pub(super) fn general_move(code: Code) -> Code {
    use Code::*;
    match code {
        Mov_AL_moffs8 => Mov_r8_rm8,
        Mov_AX_moffs16 => Mov_r16_rm16,
        Mov_EAX_moffs32 => Mov_r32_rm32,
        Mov_RAX_moffs64 => Mov_r64_rm64,
        Mov_moffs8_AL => Mov_rm8_r8,
        Mov_moffs16_AX => Mov_rm16_r16,
        Mov_moffs32_EAX => Mov_rm32_r32,
        Mov_moffs64_RAX => Mov_rm64_r64,
        other => other,
    }
}

impl Weaver {
    /// Makes the operand addressable; `None` if only the engine can.
    pub(super) fn operand(
        &mut self,
        out: &mut Output,
        guest: &Instruction,
        avoid: GprSet,
    ) -> Option<Operand> {
        let segment = guest.segment_prefix();
        let address = Address::of(guest);
        if matches!(segment, Register::FS | Register::GS) {
            let address = address.filter(|a| !a.narrow)?;
            let base = if segment == Register::FS {
                gs_offset!(guest_fs_base)
            } else {
                gs_offset!(guest_gs_base)
            };
            let moved = self.scratch(out, 1, avoid);
            out.load_gs(moved, base);
            let shadow = match (address.base, address.index) {
                (None, _) => Address { base: Some(moved), ..address },
                (Some(_), None) => Address { index: Some((moved, 0)), ..address },
                (Some(own), Some(_)) => {
                    out.lea_sum(moved, own, moved);
                    Address { base: Some(moved), ..address }
                }
            };
            return Some(if segment == Register::FS {
                Operand {
                    segment: Segment::Fs,
                    real: address,
                    shadow,
                    moved: false,
                    shadow_moved: true,
                }
            } else {
                Operand {
                    segment: Segment::Flat,
                    real: shadow,
                    shadow,
                    moved: true,
                    shadow_moved: true,
                }
            });
        }
        match address {
            Some(address) => {
                // A copy of rsp could need a prefix that turns ah into spl.
                let shadow = if has_high_byte(guest) {
                    address
                } else {
                    self.off_the_stack(out, &address, avoid)
                };
                let shadow_moved = segment != Register::None || shadow != address;
                Some(Operand {
                    segment: Segment::Flat,
                    real: address,
                    shadow,
                    moved: false,
                    shadow_moved,
                })
            }
            None if guest.is_ip_rel_memory_operand() => {
                let place = self.scratch(out, 1, avoid);
                out.mov_imm(place, guest.ip_rel_memory_address());
                let address = Address::at(place);
                Some(Operand {
                    segment: Segment::Flat,
                    real: address,
                    shadow: address,
                    moved: true,
                    shadow_moved: true,
                })
            }
            None => None,
        }
    }

    /// The shadow of an address, without rsp or rbp as its base.
    ///
    /// Zen processors forward stores to loads by base and displacement when the base is rsp or rbp, and take no
    /// notice of the segment: after a store to `gs:[rsp]` a load from `[rsp]` is predicted to get that one's value and
    /// has to be done over. Measured: a doubled `push` in calls alone made sqlite3 twice as slow.
    pub(super) fn off_the_stack(
        &mut self,
        out: &mut Output,
        address: &Address,
        avoid: GprSet,
    ) -> Address {
        match (address.base, address.index) {
            (Some(Gpr::Rbp), None) if !address.narrow => {
                Address { base: None, index: Some((Gpr::Rbp, 0)), ..*address }
            }
            (Some(Gpr::Rsp), None) if !address.narrow => {
                let copy = self.stack_pointer(out, avoid);
                Address { base: Some(copy), ..*address }
            }
            _ => *address,
        }
    }

    /// A copy of rsp, as of now.
    pub(super) fn stack_pointer(&mut self, out: &mut Output, avoid: GprSet) -> Gpr {
        let copy = self.scratch(out, 1, avoid);
        out.mov(copy, Gpr::Rsp);
        copy
    }

    /// The guest's instruction on guest memory, or on the shadow.
    #[allow(clippy::too_many_arguments, reason = "all of it describes one instruction")]
    pub(super) fn emit_own(
        &mut self,
        out: &mut Output,
        operands: &mut OperandRewriter,
        guest: &Instruction,
        bytes: &[u8],
        offsets: &ConstantOffsets,
        operand: &Operand,
        on_shadow: bool,
    ) {
        let strip_lock = on_shadow && guest.has_lock_prefix();
        let moved = if on_shadow { operand.shadow_moved } else { operand.moved };
        if !moved && !strip_lock {
            if on_shadow {
                out.raw(&[Segment::Gs as u8]);
            }
            if guest.is_ip_rel_memory_operand() {
                emit_absolute(out, bytes, offsets, guest.ip_rel_memory_address() as u32);
            } else {
                out.raw(bytes);
            }
            return;
        }
        let address = if on_shadow { &operand.shadow } else { &operand.real };
        let mut changed = *guest;
        changed.set_code(general_move(guest.code()));
        if !address.narrow {
            set_address(&mut changed, address);
        }
        changed.set_has_lock_prefix(guest.has_lock_prefix() && !on_shadow);
        changed.set_segment_prefix(if on_shadow { Register::GS } else { Register::None });
        let encoded = operands.encode(out, &changed);
        assert!(encoded, "an instruction without an encoding");
    }

    /// `mov T, [X]; cmp T, gs:[X]; jne slow` over all of the operand. The last piece stays in `T`.
    pub(super) fn check(
        &mut self,
        out: &mut Output,
        guest: &Instruction,
        operand: &Operand,
        len: usize,
        value: Gpr,
    ) {
        let site = Site { resume: out.next_address(), ..self.site_of(guest, len) };
        let slow = out.cold.next_address();
        for (size, real, shadow) in pieces(&operand.real, &operand.shadow, len) {
            out.load_zero_extended(size, value, operand.segment, &real);
            out.memory(Operation::Compare, size, value, Segment::Gs, &shadow);
            out.jump_if_not_equal(slow);
        }
        out.leave_for(site, target::exit_mismatch());
    }

    /// `cmp r, gs:[X]; jne slow`, with `site` for the engine.
    pub(super) fn compare(
        &mut self,
        out: &mut Output,
        site: Site,
        register: Gpr,
        size: usize,
        shadow: &Address,
    ) {
        out.memory(Operation::Compare, size, register, Segment::Gs, shadow);
        let slow = out.cold.next_address();
        out.jump_if_not_equal(slow);
        out.leave_for(site, target::exit_mismatch());
    }

    /// `cmp r, gs:[X]; jne note`, behind an instruction that cannot start over.
    pub(super) fn check_after(
        &mut self,
        out: &mut Output,
        site: Site,
        register: Gpr,
        size: usize,
        shadow: &Address,
    ) {
        self.compare(out, site, register, size, shadow);
        out.goes_on_with(register as u8, size as u8);
    }

    /// Copies what an instruction has stored.
    pub(super) fn copy_to_shadow(
        &mut self,
        out: &mut Output,
        operand: &Operand,
        len: usize,
        value: Gpr,
    ) {
        for (size, real, shadow) in pieces(&operand.real, &operand.shadow, len) {
            out.memory(Operation::Load, size, value, operand.segment, &real);
            out.memory(Operation::Store, size, value, Segment::Gs, &shadow);
        }
    }
}

/// The operand in pieces that a register holds: size and addresses. All of it can be said: [`Weaver::plain`] has
/// made sure before it emits anything.
fn pieces(
    real: &Address,
    shadow: &Address,
    len: usize,
) -> impl Iterator<Item = (usize, Address, Address)> {
    let (real, shadow) = (*real, *shadow);
    let mut at = 0;
    core::iter::from_fn(move || {
        let size = match len - at {
            0 => return None,
            8.. => 8,
            4.. => 4,
            2.. => 2,
            _ => 1,
        };
        let piece = (size, real.plus(at as i32)?, shadow.plus(at as i32)?);
        at += size;
        Some(piece)
    })
}
