//! Control transfers, as equations from guest instruction to emitted code.
//!
//! `G` is the guest return address, `C` the cache address behind a `call`; links are patchable jumps.
//!
//! ```text
//! jmp T         =>  jmp link(T)
//! jcc T         =>  jcc link(T); jmp link(next)
//! call T        =>  call t                ; pushes C: the CPU's return predictor learns it
//!                C: <landing of G>
//!                t: mov [rsp], G          ; the guest sees only G
//!                   jmp link(T)
//! jmp r/m       =>  spill rcx, rdx; mov rcx, r/m; movzx edx, cx; jmp gs:[jump table + rdx*8]
//! call r/m      =>  spill; mov rcx, r/m; call t; C: <landing>; t: mov [rsp], G; movzx...; jmp gs:[...]
//! ret           =>  spill; mov rcx, [rsp]; movzx edx, cx; mov rdx, gs:[return table + rdx*8]
//!                   mov [rsp], rdx; ret   ; predicted by the CPU's return stack
//! landing of G  =>  lea rcx, [rcx - G]; jrcxz ok; lea rcx, [rcx + G]; jmp return_miss
//!               ok: mov [rsp - 8], G; restore rdx, rcx; jmp link(G)
//! jump entry T  =>  lea rcx, [rcx - T]; jrcxz ok; lea rcx, [rcx + T]; jmp jump_miss
//!               ok: restore rdx, rcx; jmp link(T)
//! ```
//!
//! A table entry is one pointer and whatever it points to checks rcx again, so tables may be
//! overwritten at any time, by hash collisions or by other threads, without locks. No sequence
//! touches flags. The guest's stack slot holds a cache address only between two instructions of one
//! sequence, which no signal is delivered into.

use super::emit::Emitter;
use crate::context::{Gpr, JUMP_TABLE, RETURN_TABLE, slot, spill_offset};
use crate::entry::target;

/// `mov [rsp + displacement], value`. Clobbers rdx, which must be spilled, unless `value` fits.
fn store_return_address(out: &mut Emitter, displacement: i8, value: u64) {
    match i32::try_from(value as i64) {
        Ok(small) => out.store_imm_to_stack(displacement, small),
        Err(_) => {
            out.mov_imm(Gpr::Rdx, value);
            out.store_rdx_to_stack(displacement);
        }
    }
}

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

fn restore_branch_registers(out: &mut Emitter) {
    out.load_gs(Gpr::Rdx, spill_offset(slot::BRANCH_RDX));
    out.load_gs(Gpr::Rcx, spill_offset(slot::BRANCH_RCX));
}

/// Where a return to `guest` arrives.
pub fn landing(out: &mut Emitter, guest: u64, linkable: bool) {
    check_target(out, guest, target::return_miss());
    store_return_address(out, -8, guest);
    restore_branch_registers(out);
    out.exit_jump(guest, linkable);
}

/// Where an indirect jump or call to `guest` arrives.
pub fn jump_entry(out: &mut Emitter, guest: u64) {
    check_target(out, guest, target::jump_miss());
    restore_branch_registers(out);
    out.exit_jump(guest, true);
}

/// `call T`. Returns the offset of the landing.
pub fn call(out: &mut Emitter, callee: u64, return_address: u64, linkable: bool) -> usize {
    let label = out.call_forward();
    let at = out.here();
    landing(out, return_address, linkable);
    out.bind_call(label);
    if i32::try_from(return_address as i64).is_ok() {
        store_return_address(out, 0, return_address);
    } else {
        let mark = out.spill(Gpr::Rdx, slot::BRANCH_RDX);
        store_return_address(out, 0, return_address);
        out.unspill(mark);
    }
    out.exit_jump(callee, linkable);
    at
}

/// The rest of `jmp r/m`, with the target in rcx and rcx, rdx spilled.
pub fn indirect_jump(out: &mut Emitter) {
    out.branch_table_index();
    out.jump_through_table(JUMP_TABLE);
}

/// The rest of `call r/m`. Returns the offset of the landing.
pub fn indirect_call(out: &mut Emitter, return_address: u64, linkable: bool) -> usize {
    let label = out.call_forward();
    let at = out.here();
    landing(out, return_address, linkable);
    out.bind_call(label);
    store_return_address(out, 0, return_address);
    indirect_jump(out);
    at
}

/// `ret`, with rcx and rdx spilled.
pub fn plain_return(out: &mut Emitter) {
    out.load_return_address();
    out.branch_table_index();
    out.load_from_table(RETURN_TABLE);
    out.store_rdx_to_stack(0);
    out.ret();
}

/// `ret imm16`, rare: the address is popped and jumped to like any other.
pub fn popping_return(out: &mut Emitter, extra: u16) {
    out.load_return_address();
    // lea rsp, [rsp + 8 + extra]
    out.raw(&[0x48, 0x8d, 0xa4, 0x24]);
    out.raw(&(8 + extra as i32).to_le_bytes());
    indirect_jump(out);
}
