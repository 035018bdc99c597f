//! Segment registers. GS itself is the engine's, so the guest's selector and base are kept in the context; the others are
//! the guest's own in the machine.

use super::machine;
use super::{Done, Stop, address_of, pop, read_bytes, read_register, store, write_register};
use crate::context::{Context, Gpr};
use crate::guest_memory as guest;
use crate::sys;
use crate::syscalls::segments;
use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};

/// Bit of a selector that chooses the local descriptor table.
const LOCAL: u16 = 4;

/// The flat user data segment.
const USER_DATA: u16 = 0x2b;

/// The segment register of a `mov`, `push` or `pop`.
fn segment_of(decoded: &Instruction) -> Register {
    let registers = (0..decoded.op_count()).map(|i| decoded.op_register(i));
    registers.into_iter().find(|r| r.is_segment_register()).unwrap_or(Register::GS)
}

/// `mov`, `push` and `pop` of a segment register.
pub(super) fn segment_move(context: &mut Context, decoded: &Instruction) -> Done {
    let register = segment_of(decoded);
    match decoded.mnemonic() {
        Mnemonic::Push => {
            let bytes =
                if matches!(decoded.code(), Code::Pushw_GS | Code::Pushw_FS) { 2u64 } else { 8 };
            let selector = get(context, register)? as u64;
            let sp = context.registers.get(Gpr::Rsp).wrapping_sub(bytes);
            store(sp, &selector.to_le_bytes()[..bytes as usize])?;
            context.registers.set(Gpr::Rsp, sp);
            Ok(())
        }
        Mnemonic::Pop => {
            let sp = context.registers.get(Gpr::Rsp);
            let bytes = if matches!(decoded.code(), Code::Popw_GS | Code::Popw_FS) { 2 } else { 8 };
            let value = pop(context, bytes)?;
            set(context, register, value as u16)
                .inspect_err(|_| context.registers.set(Gpr::Rsp, sp))
        }
        _ if decoded.op0_register() == register => {
            let value = if decoded.op1_kind() == OpKind::Memory {
                let address = address_of(context, decoded, 1);
                let mut bytes = [0; 2];
                guest::read(address, &mut bytes).map_err(|_| Stop::Memory(address))?;
                u16::from_le_bytes(bytes)
            } else {
                read_register(context, decoded.op1_register()) as u16
            };
            set(context, register, value)
        }
        _ if decoded.op0_kind() == OpKind::Memory => {
            let selector = get(context, register)?;
            let address = address_of(context, decoded, 0);
            store(address, &selector.to_le_bytes())
        }
        _ => {
            let selector = get(context, register)?;
            write_register(context, decoded.op0_register(), selector as u64);
            Ok(())
        }
    }
}

fn get(context: &Context, register: Register) -> Result<u16, Stop> {
    if register == Register::GS {
        return Ok(context.guest_gs_selector as u16);
    }
    machine::segment(register)
}

fn set(context: &mut Context, register: Register, selector: u16) -> Done {
    if register == Register::GS {
        return load_gs(context, selector);
    }
    machine::load_segment(register, selector)?;
    if register == Register::FS {
        context.guest_fs_base = sys::fs_base();
    }
    Ok(())
}

/// Null selectors and the flat user data segment clear the base; what the guest has put into its local table is known.
fn load_gs(context: &mut Context, selector: u16) -> Done {
    let base = if selector <= 3 || selector == USER_DATA {
        0
    } else {
        if selector & LOCAL == 0 || !machine::is_readable(selector)? {
            return Err(Stop::Protection((selector & 0xfffc) as u64));
        }
        segments::base(selector >> 3)
    };
    context.guest_gs_selector = selector as u32;
    context.guest_gs_base = base;
    Ok(())
}

/// `lfs`, `lgs`, `lss`: a register and the selector from a far pointer.
pub(super) fn load_far(context: &mut Context, decoded: &Instruction) -> Done {
    let segment = match decoded.mnemonic() {
        Mnemonic::Lgs => Register::GS,
        Mnemonic::Lss => Register::SS,
        _ => Register::FS,
    };
    let address = address_of(context, decoded, 1);
    let width = decoded.op0_register().size() as u64;
    let value = read_bytes(address, width)?;
    let selector = read_bytes(address.wrapping_add(width), 2)?;
    set(context, segment, selector as u16)?;
    write_register(context, decoded.op0_register(), value);
    Ok(())
}
