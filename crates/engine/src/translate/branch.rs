//! Control transfers, as equations from guest instruction to emitted code.
//!
//! `G` is the guest return address; links are patchable jumps.
//!
//! ```text
//! jmp T         =>  jmp link(T)
//! jcc T         =>  jcc link(T); jmp link(next)
//! call T        =>  push G; jmp link(T)
//! jmp r/m       =>  spill rcx, rdx; mov rcx, r/m; movzx edx, cx; jmp gs:[table + rdx*8]
//! call r/m      =>  spill; mov rcx, r/m; push G; movzx edx, cx; jmp gs:[table + rdx*8]
//! ret           =>  spill; pop rcx; movzx edx, cx; jmp gs:[table + rdx*8]
//! entry of T    =>  lea rcx, [rcx - T]; jrcxz ok; lea rcx, [rcx + T]; jmp miss
//!               ok: restore rdx, rcx; jmp link(T)
//! ```
//!
//! Where a block keeps more than others do, its indirect transfers do not take the table: `jmp exit_indirect`.
//!
//! A table entry is one pointer and whatever it points to checks rcx again, so tables may be
//! overwritten at any time, by hash collisions or by other threads, without locks. No sequence
//! touches flags.
//!
//! Returns are predicted as indirect jumps. Pairing them with real `call` and `ret` instructions, which
//! needs a cache address in the guest's stack slot for a moment, was tried and measured: a recursive
//! Fibonacci took 3.6 times its native time instead of 1.35 (Zen 4).

use super::emit::Emitter;
use crate::context::{Gpr, JUMP_TABLE, slot, spill_offset};
use crate::entry::target;
use crate::record::weave::Weaver;

/// Goes to `miss` with rcx intact unless rcx is `guest`.
fn check_target(out: &mut Emitter, guest: u64, miss: u64) {
    match i32::try_from(guest) {
        Ok(small) => {
            out.lea_disp(Gpr::Rcx, Gpr::Rcx, -small);
            let ok = out.jump_if_rcx_zero();
            out.lea_disp(Gpr::Rcx, Gpr::Rcx, small);
            out.jump_to(miss);
            out.bind(ok);
        }
        Err(_) => {
            out.mov_imm(Gpr::Rdx, guest.wrapping_neg());
            out.lea_sum(Gpr::Rcx, Gpr::Rcx, Gpr::Rdx);
            let ok = out.jump_if_rcx_zero();
            out.mov_imm(Gpr::Rdx, guest);
            out.lea_sum(Gpr::Rcx, Gpr::Rcx, Gpr::Rdx);
            out.jump_to(miss);
            out.bind(ok);
        }
    }
}

/// Where an indirect transfer to `guest` arrives.
pub fn jump_entry(out: &mut Emitter, guest: u64) {
    check_target(out, guest, target::jump_miss());
    out.load_gs(Gpr::Rdx, spill_offset(slot::BRANCH_RDX));
    out.load_gs(Gpr::Rcx, spill_offset(slot::BRANCH_RCX));
    out.exit_jump(guest, true);
}

/// `push value`. Clobbers rdx, which must be spilled, unless `value` sign-extends from 32 bits.
fn push_return_address(out: &mut Emitter, weaver: Option<&mut Weaver>, value: u64) {
    match i32::try_from(value as i64) {
        Ok(small) => out.push_imm(small),
        Err(_) => {
            out.mov_imm(Gpr::Rdx, value);
            out.push(Gpr::Rdx);
        }
    }
    if let Some(weaver) = weaver {
        weaver.pushed_return_address(out, value);
    }
}

/// `call T`
pub fn call(
    out: &mut Emitter,
    weaver: Option<&mut Weaver>,
    callee: u64,
    return_address: u64,
    linkable: bool,
) {
    if weaver.is_none() && i32::try_from(return_address as i64).is_ok() {
        push_return_address(out, weaver, return_address);
    } else {
        let mark = out.spill(Gpr::Rdx, slot::BRANCH_RDX);
        push_return_address(out, weaver, return_address);
        out.unspill(mark);
    }
    out.exit_jump(callee, linkable);
}

/// How an indirect transfer finds its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Through the table of jump targets.
    Table,
    /// Through the engine: other blocks do not keep what this one keeps.
    Engine,
}

/// The rest of `jmp r/m`, with the target in rcx and rcx, rdx spilled.
pub fn indirect_jump(out: &mut Emitter, way: Way) {
    match way {
        Way::Table => {
            out.branch_table_index();
            out.jump_through_table(JUMP_TABLE);
        }
        Way::Engine => out.jump_to(target::exit_indirect()),
    }
}

/// The rest of `call r/m`.
pub fn indirect_call(
    out: &mut Emitter,
    weaver: Option<&mut Weaver>,
    return_address: u64,
    way: Way,
) {
    push_return_address(out, weaver, return_address);
    indirect_jump(out, way);
}

/// `ret` and `ret imm16`, with rcx and rdx spilled.
pub fn ret(out: &mut Emitter, extra: u16, way: Way) {
    out.pop(Gpr::Rcx);
    if extra != 0 {
        // lea rsp, [rsp + extra]
        out.raw(&[0x48, 0x8d, 0xa4, 0x24]);
        out.raw(&(extra as i32).to_le_bytes());
    }
    indirect_jump(out, way);
}
