//! The memory that calls, returns and indirect jumps touch.

use super::{Site, Weaver};
use crate::context::{Gpr, slot, spill_offset};
use crate::entry::target;
use crate::gs_offset;
use crate::translate::address::{Address, Operation, Segment};
use crate::translate::emit::Emitter;
use crate::translate::output::Output;
use iced_x86::{Instruction, Register};

impl Weaver {
    /// `push G` has been emitted: the shadow's half. rdx is free, and holds `return_address` if that is large.
    pub fn pushed_return_address(&mut self, out: &mut Emitter, return_address: u64) {
        match i32::try_from(return_address as i64) {
            Ok(small) => {
                out.mov(Gpr::Rdx, Gpr::Rsp);
                out.store_shadow_immediate(8, &Address::at(Gpr::Rdx), small);
            }
            Err(_) => {
                out.memory(Operation::Store, 8, Gpr::Rdx, Segment::Gs, &Address::at(Gpr::Rsp));
            }
        }
    }

    /// `ret` up to its target in rcx, with rcx and rdx spilled, without flags:
    /// `mov rdx, [rsp]; mov rcx, gs:[rsp]; not rcx; lea rcx, [rdx + rcx + 1]; jrcxz same; jmp slow`.
    pub fn checked_return(&mut self, out: &mut Output, pc: u64, extra: u16) {
        let resume = out.next_address();
        let site = Site { resume, ..self.stack_site(pc, Gpr::Rsp, 0) };
        let top = Address::at(Gpr::Rsp);
        out.memory(Operation::Load, 8, Gpr::Rdx, Segment::Flat, &top);
        out.mov(Gpr::Rcx, Gpr::Rsp);
        out.memory(Operation::Load, 8, Gpr::Rcx, Segment::Gs, &Address::at(Gpr::Rcx));
        self.same_or_slow(out, site, false);
        let above = Address { displacement: 8 + extra as i32, ..top };
        out.memory(Operation::Lea, 8, Gpr::Rsp, Segment::Flat, &above);
        out.mov(Gpr::Rcx, Gpr::Rdx);
    }

    /// The target of `jmp [X]` or `call [X]` into rcx, with rcx and rdx spilled. False if only the engine can.
    pub fn checked_target(&mut self, out: &mut Output, guest: &Instruction) -> bool {
        let resume = out.next_address();
        let site = Site { resume, ..self.site_of(guest, 8) };
        match Address::of(guest) {
            Some(address) => {
                let size = if address.narrow { 4 } else { 8 };
                let wide = Address { narrow: false, ..address };
                out.memory(Operation::Lea, size, Gpr::Rcx, Segment::Flat, &wide);
            }
            None if guest.is_ip_rel_memory_operand() => {
                out.mov_imm(Gpr::Rcx, guest.ip_rel_memory_address());
            }
            None => return false,
        }
        let base = match guest.segment_prefix() {
            Register::FS => Some(gs_offset!(guest_fs_base)),
            Register::GS => Some(gs_offset!(guest_gs_base)),
            _ => None,
        };
        if let Some(base) = base {
            out.load_gs(Gpr::Rdx, base);
            out.lea_sum(Gpr::Rcx, Gpr::Rcx, Gpr::Rdx);
        }
        out.memory(Operation::Load, 8, Gpr::Rdx, Segment::Flat, &Address::at(Gpr::Rcx));
        out.memory(Operation::Load, 8, Gpr::Rcx, Segment::Gs, &Address::at(Gpr::Rcx));
        self.same_or_slow(out, site, true);
        out.mov(Gpr::Rcx, Gpr::Rdx);
        true
    }

    /// Goes on if rdx and rcx are the same, else to the engine.
    pub(super) fn same_or_slow(&mut self, out: &mut Output, site: Site, unspill: bool) {
        // not rcx; lea rcx, [rdx + rcx + 1]
        out.raw(&[0x48, 0xf7, 0xd1]);
        out.raw(&[0x48, 0x8d, 0x4c, 0x0a, 0x01]);
        let same = out.jump_if_rcx_zero();
        let slow = out.cold.next_address();
        out.jump_to(slow);
        out.bind(same);
        if unspill {
            // The operand may use what is spilled.
            out.cold.load_gs(Gpr::Rcx, spill_offset(slot::BRANCH_RCX));
            out.cold.load_gs(Gpr::Rdx, spill_offset(slot::BRANCH_RDX));
        }
        out.leave_for(site, target::exit_mismatch());
    }
}
