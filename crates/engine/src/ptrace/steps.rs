//! How far a tracer's step goes.

use super::wants;
use crate::context::Context;
use crate::guest_memory as guest;
use iced_x86::Decoder;

/// Whether a string instruction with a repeat prefix, or anything that begins like one, stands at an address.
pub fn is_repeated(pc: u64) -> bool {
    const PREFIXES: [u8; 11] = [0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3];
    let mut bytes = [0u8; 15];
    let len = guest::read_partial(pc, &mut bytes);
    let prefixes = bytes[..len].iter().take_while(|b| PREFIXES.contains(b));
    prefixes.into_iter().any(|b| matches!(b, 0xf2 | 0xf3))
}

/// Whether a tracer that goes from branch to branch has not come to one: the instruction was followed by the next.
pub fn within_block(context: &Context) -> bool {
    if context.guest_trap_flag || context.traced.wants & wants::BLOCK == 0 {
        return false;
    }
    let mut bytes = [0u8; 15];
    let len = guest::read_partial(context.stepped_pc, &mut bytes);
    let options = crate::translate::decoder_options();
    let decoded = Decoder::with_ip(64, &bytes[..len], context.stepped_pc, options).decode();
    context.registers.rip == decoded.next_ip()
}
