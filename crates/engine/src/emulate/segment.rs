//! The guest's GS selector and base, which are kept in the context because GS itself is the engine's.

use super::{Done, Stop, address_of, pop, read_bytes, read_register, store, write_register};
use crate::context::{Context, Gpr};
use crate::guest_memory as guest;
use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};

/// `mov`, `push` and `pop` with GS: the selector is remembered, not loaded, because loading it would
/// change the engine's GS base.
pub(super) fn segment_move(context: &mut Context, decoded: &Instruction) -> Done {
    let selector = context.guest_gs_selector as u64;
    match decoded.mnemonic() {
        Mnemonic::Push => {
            let bytes = if decoded.code() == Code::Pushw_GS { 2u64 } else { 8 };
            let sp = context.registers.get(Gpr::Rsp).wrapping_sub(bytes);
            store(sp, &selector.to_le_bytes()[..bytes as usize])?;
            context.registers.set(Gpr::Rsp, sp);
            Ok(())
        }
        Mnemonic::Pop => {
            let sp = context.registers.get(Gpr::Rsp);
            let bytes = if decoded.code() == Code::Popw_GS { 2 } else { 8 };
            let value = pop(context, bytes)?;
            load_gs(context, value as u16).inspect_err(|_| context.registers.set(Gpr::Rsp, sp))
        }
        _ if decoded.op0_register() == Register::GS => {
            let value = if decoded.op1_kind() == OpKind::Memory {
                let address = address_of(context, decoded, 1);
                let mut bytes = [0; 2];
                guest::read(address, &mut bytes).map_err(|_| Stop::Memory(address))?;
                u16::from_le_bytes(bytes)
            } else {
                read_register(context, decoded.op1_register()) as u16
            };
            load_gs(context, value)
        }
        _ if decoded.op0_kind() == OpKind::Memory => {
            let address = address_of(context, decoded, 0);
            store(address, &(selector as u16).to_le_bytes())
        }
        _ => {
            write_register(context, decoded.op0_register(), selector);
            Ok(())
        }
    }
}

/// Null selectors and the flat user data segment are all a 64-bit process has; they clear the base.
fn load_gs(context: &mut Context, selector: u16) -> Done {
    if selector > 3 && selector != 0x2b {
        return Err(Stop::Protection((selector & 0xfffc) as u64));
    }
    context.guest_gs_selector = selector as u32;
    context.guest_gs_base = 0;
    Ok(())
}

/// `lgs`: a register and the selector from a far pointer.
pub(super) fn load_far_gs(context: &mut Context, decoded: &Instruction) -> Done {
    let address = address_of(context, decoded, 1);
    let width = decoded.op0_register().size() as u64;
    let value = read_bytes(address, width)?;
    let selector = read_bytes(address.wrapping_add(width), 2)?;
    load_gs(context, selector as u16)?;
    write_register(context, decoded.op0_register(), value);
    Ok(())
}
