//! Registers at breakpoints where nobody stops.
//!
//! Whoever tries a condition at hundreds of thousands of moments cannot have a dialogue about each: the registers are gathered here
//! and told together ([`tell::SAMPLES`]).

use super::{Player, clock::time, socket, with};
use crate::context::Context;
use crate::sys;
use alloc::vec::Vec;
use retro_abi::replay::{Header, MAX_PAYLOAD, SAMPLE_SIZE, tell};

/// Begins to take samples, or ends it.
pub(super) fn set(player: &mut Player, wanted: bool) {
    player.samples = wanted.then(|| Vec::with_capacity(MAX_PAYLOAD));
}

/// Takes a sample where the guest stands. False if nobody wants any.
pub(super) fn take(context: &Context) -> bool {
    let full = with(|player| {
        let now = time();
        let thread = player.running;
        let Some(samples) = &mut player.samples else { return None };
        let registers = &context.registers;
        let rest = [registers.rip, registers.rflags, sys::fs_base(), context.guest_gs_base];
        let words = [now, thread as u64].into_iter().chain(registers.gpr).chain(rest);
        words.for_each(|word| samples.extend_from_slice(&word.to_le_bytes()));
        player.at_breakpoint = false;
        player.seen_at = now;
        let is_full = samples.len() + SAMPLE_SIZE > MAX_PAYLOAD;
        Some(if is_full { core::mem::take(samples) } else { Vec::new() })
    });
    match full {
        Some(samples) => {
            if !samples.is_empty() {
                socket::send(Header::new(tell::SAMPLES, []), &samples);
            }
            true
        }
        None => false,
    }
}

/// Tells those that are not told yet, and takes no more.
pub(super) fn end() {
    let left = with(|player| player.samples.take()).unwrap_or_default();
    if !left.is_empty() {
        socket::send(Header::new(tell::SAMPLES, []), &left);
    }
}
