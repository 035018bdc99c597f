//! The instruction pointer and opcode in x87 state images, which would be those of the code cache.

use super::{Done, Stop, address_of, read_bytes};
use crate::context::Context;
use crate::guest_memory as guest;
use crate::vectors::{guest_code, guest_opcode, guest_pc_of, whole_cache_address};
use core::arch::asm;
use iced_x86::{Code, Instruction};

/// Cache address of the last x87 instruction: from the environment that emitted code put into the context
/// before an `fnsave`, else from the machine. fxsave would tell all of it, but on AMD processors only while
/// an exception is pending.
fn last_x87_instruction(context: &mut Context, from_context: bool) -> u64 {
    let image = &mut context.x87_environment;
    if !from_context {
        // SAFETY: fnstenv writes 28 bytes; it masks all exceptions, which reloading the control word
        // undoes.
        unsafe {
            asm!("fnstenv [{0}]", "fldcw [{0}]", in(reg) image.as_mut_ptr(), options(nostack));
        }
    }
    whole_cache_address(image[3] as u64)
}

/// An x87 state image has just been stored by the instruction itself, in the cache. It holds the address of
/// the last x87 instruction, which was a cache address, and that instruction's opcode, which may have been
/// re-encoded: both become the guest's.
pub(super) fn correct_x87(context: &mut Context, decoded: &Instruction) -> Done {
    let address = address_of(context, decoded, 0);
    // Place and width of the instruction pointer, place of the opcode.
    let (pointer, width, opcode) = match decoded.code() {
        Code::Fnstenv_m28byte | Code::Fnsave_m108byte => (12, 4, Some(18)),
        Code::Fxsave_m512byte | Code::Xsave_mem | Code::Xsaveopt_mem | Code::Xsavec_mem => {
            (8, 4, Some(6))
        }
        Code::Fnstenv_m14byte | Code::Fnsave_m94byte => (6, 2, None),
        _ => (8, 8, Some(6)),
    };
    let saved = read_bytes(address + pointer, width)?;
    let cache_pc = match width {
        8 => saved,
        4 => whole_cache_address(saved),
        // Too little to find the instruction again.
        _ => last_x87_instruction(context, decoded.code() == Code::Fnsave_m94byte),
    };
    let Some(pc) = guest_pc_of(cache_pc) else { return Ok(()) };
    guest::write(address + pointer, &pc.to_le_bytes()[..width as usize])
        .map_err(|_| Stop::Store(address))?;
    if let Some(place) = opcode {
        let saved = read_bytes(address + place, 2)? as u16;
        let opcode = guest_opcode(saved, cache_pc, pc, guest_code());
        guest::write(address + place, &opcode.to_le_bytes()).map_err(|_| Stop::Store(address))?;
    }
    Ok(())
}
