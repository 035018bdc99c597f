//! Signal frames on the guest's stack, as the kernel lays them out, and the way back from them.
//!
//! ```text
//! rsp -> return address (the restorer) | ucontext | siginfo | ... | xsave area (64-byte aligned)
//! ```
//!
//! The vector state is the machine's at both moments: the engine never uses vector registers.

use super::handler::{UserContext, index};
use super::{AlternateStack, Arrived, SigInfo, frame_stack, set_mask};
use crate::context::{Context, Gpr};
use crate::guest_memory as guest;
use crate::record;
use crate::sys::{Errno, Result, SigAction};
use crate::vectors::{self, Image};
use linux_raw_sys::auxvec as aux;
use linux_raw_sys::general as c;

const MAGIC1: u32 = 0x4650_5853;
const MAGIC2: u32 = 0x4650_5845;
/// Offset of what the kernel says about the image, in its legacy part.
const SOFTWARE: usize = 464;

/// Flags the guest controls through a frame: the arithmetic ones, DF, TF, AC, ID, NT, RF.
const USER_FLAGS: u64 = 0x25_4dd5;

/// What the processor sets in the flags it saves for a fault.
const RESUME_FLAG: u64 = 0x1_0000;

/// ucontext flags: xstate present, ss saved, ss restored strictly.
const UC_FLAGS: u64 = 7;

/// The frame below the xsave area.
#[repr(C)]
#[derive(Clone, Copy)]
struct Frame {
    return_address: u64,
    flags: u64,
    link: u64,
    stack: AlternateStack,
    registers: [u64; 23],
    fpstate: u64,
    reserved: [u64; 8],
    mask: u64,
    info: SigInfo,
}

const _: () = assert!(size_of::<Frame>() == 440);
const _: () = assert!(size_of::<UserContext>() == 304);

/// Smallest alternate stack the kernel accepts: one that holds a whole frame if the process may use tiles.
pub fn minimum_stack() -> u64 {
    match vectors::features() & vectors::TILE_DATA {
        0 => c::MINSIGSTKSZ as u64,
        _ => crate::dispatch::fixed().program.auxiliary(aux::AT_MINSIGSTKSZ) + 1,
    }
}

fn put32(area: &mut Image, at: usize, value: u32) {
    area.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn get32(area: &Image, at: usize) -> u32 {
    u32::from_le_bytes([area.0[at], area.0[at + 1], area.0[at + 2], area.0[at + 3]])
}

/// Whether the kernel keeps tiles for a thread, as a frame of its own tells.
pub fn has_tiles(frame: &UserContext) -> bool {
    let place = frame.fpstate.wrapping_add(SOFTWARE as u64 + 8);
    guest::read_u64(place).is_ok_and(|features| features & vectors::TILE_DATA != 0)
}

/// The state that a frame of this thread holds: tiles once it has used them.
fn frame_features(context: &mut Context) -> u64 {
    context.signals.has_tiles |= vectors::tiles_in_use();
    match context.signals.has_tiles {
        true => vectors::features(),
        false => vectors::features() & !vectors::TILE_DATA,
    }
}

/// Builds a frame and points the guest's registers at the handler.
pub fn push(context: &mut Context, arrived: &Arrived, action: &SigAction) -> Result<()> {
    let features = frame_features(context);
    let size = vectors::size_of(features);
    let mut area = Image::new();
    vectors::save(&mut area, features, vectors::FROM_MEMORY);
    area.0[SOFTWARE..SOFTWARE + 48].fill(0);
    put32(&mut area, SOFTWARE, MAGIC1);
    put32(&mut area, SOFTWARE + 4, size as u32 + 4);
    area.0[SOFTWARE + 8..SOFTWARE + 16].copy_from_slice(&features.to_le_bytes());
    put32(&mut area, SOFTWARE + 16, size as u32);
    put32(&mut area, size, MAGIC2);

    let top = frame_stack(context, action);
    let fpstate = top.wrapping_sub(size as u64 + 4) & !63;
    let at = (fpstate.wrapping_sub(size_of::<Frame>() as u64) & !15).wrapping_sub(8);
    let registers = &context.registers;
    let mut saved = [0; 23];
    for (register, &position) in index::GPR.iter().enumerate() {
        saved[position] = registers.gpr[register];
    }
    saved[index::RIP] = registers.rip;
    let trap_flag = if context.guest_trap_flag { super::TRAP_FLAG } else { 0 };
    let resume_flag = if arrived.synthesized { RESUME_FLAG } else { 0 };
    saved[index::FLAGS] = registers.rflags | trap_flag | resume_flag;
    // cs 0x33, gs 0, fs 0, ss 0x2b.
    saved[index::SEGMENTS] = 0x002b_0000_0000_0033;
    saved[index::ERROR] = arrived.error;
    saved[index::TRAP] = arrived.trap;
    saved[index::OLD_MASK] = context.signals.mask;
    saved[index::CR2] = arrived.cr2;
    let frame = Frame {
        return_address: action.restorer,
        flags: UC_FLAGS,
        link: 0,
        stack: reported_stack(context),
        registers: saved,
        fpstate,
        reserved: [0; 8],
        mask: context.signals.mask,
        info: arrived.info,
    };
    write_over_code(fpstate, &area.0[..size + 4])?;
    // SAFETY: `Frame` is plain data without padding that matters.
    let bytes =
        unsafe { core::slice::from_raw_parts((&raw const frame).cast::<u8>(), size_of::<Frame>()) };
    write_over_code(at, bytes)?;
    record::wrote(fpstate, size as u64 + 4);
    record::wrote(at, bytes.len() as u64);

    // A handler starts with vector state as a program does.
    restore_vectors(0)?;
    if context.signals.alternate.flags as u32 & c::SS_AUTODISARM != 0 {
        context.signals.alternate = AlternateStack::DISABLED;
    }
    let registers = &mut context.registers;
    registers.set(Gpr::Rdi, arrived.signal as u64);
    registers.set(Gpr::Rsi, at + core::mem::offset_of!(Frame, info) as u64);
    registers.set(Gpr::Rdx, at + core::mem::offset_of!(Frame, flags) as u64);
    registers.set(Gpr::Rax, 0);
    registers.set(Gpr::Rsp, at);
    registers.rip = action.handler;
    // Direction, resume and trap flags start clear.
    registers.rflags &= !(0x1_0400 | super::TRAP_FLAG);
    context.guest_trap_flag = false;
    Ok(())
}

/// Writes guest memory even where the engine has write-protected it because code is there.
pub fn write_over_code(address: u64, bytes: &[u8]) -> Result<()> {
    if guest::write(address, bytes).is_ok() {
        return Ok(());
    }
    crate::dispatch::unprotect_all_code();
    guest::write(address, bytes)
}

/// What `sigaltstack` and frames report: whether the guest is on the stack right now.
pub fn reported_stack(context: &Context) -> AlternateStack {
    let mut stack = context.signals.alternate;
    if stack.size == 0 {
        stack.flags = c::SS_DISABLE as i32;
    } else if stack.flags as u32 & c::SS_AUTODISARM == 0
        && stack.contains(context.registers.get(Gpr::Rsp))
    {
        stack.flags = c::SS_ONSTACK as i32;
    }
    stack
}

/// `rt_sigreturn`: everything comes back from the frame, which the handler may have changed.
pub fn pop(context: &mut Context) -> Result<()> {
    let at = context.registers.get(Gpr::Rsp).wrapping_sub(8);
    record::reads(at, size_of::<Frame>() as u64);
    // SAFETY: `Frame` is plain data.
    let frame: Frame = unsafe { guest::read_value(at)? };
    for (register, &position) in index::GPR.iter().enumerate() {
        context.registers.gpr[register] = frame.registers[position];
    }
    context.registers.rip = frame.registers[index::RIP];
    let flags = frame.registers[index::FLAGS];
    context.guest_trap_flag = flags & super::TRAP_FLAG != 0;
    context.registers.rflags = flags & USER_FLAGS & !super::TRAP_FLAG | 0x202;
    restore_vectors(frame.fpstate)?;
    set_mask(context, frame.mask);
    if frame.stack.flags as u32 & !(c::SS_ONSTACK | c::SS_AUTODISARM | c::SS_DISABLE) == 0 {
        let mut stack = frame.stack;
        stack.flags &= !(c::SS_ONSTACK as i32);
        if stack.flags as u32 & c::SS_DISABLE != 0 {
            stack = AlternateStack::DISABLED;
        }
        context.signals.alternate = stack;
    }
    Ok(())
}

/// Vector state as a handler finds it.
pub fn reset_vectors() {
    let _ = restore_vectors(0);
}

/// Vector state of the frame that `rt_sigreturn` is about to leave.
pub fn restore_vectors_of_frame(context: &Context) {
    let at = context.registers.get(Gpr::Rsp).wrapping_sub(8);
    let place = at.wrapping_add(core::mem::offset_of!(Frame, fpstate) as u64);
    if let Ok(fpstate) = guest::read_u64(place) {
        let _ = restore_vectors(fpstate);
    }
}

fn restore_vectors(fpstate: u64) -> Result<()> {
    let mut area = Image::new();
    if fpstate == 0 {
        // No state: everything goes to its initial value.
        put32(&mut area, 24, 0x1f80);
        put32(&mut area, 0, 0x37f);
    } else {
        record::reads(fpstate, vectors::area_size() as u64 + 4);
        guest::read(fpstate, &mut area.0[..512])?;
        let size = get32(&area, SOFTWARE + 16) as usize;
        let extended = get32(&area, SOFTWARE) == MAGIC1
            && (vectors::SMALLEST_IMAGE..=vectors::area_size()).contains(&size)
            && {
                guest::read(fpstate + 512, &mut area.0[512..size + 4])?;
                get32(&area, size) == MAGIC2
            };
        if extended {
            // Unknown features in the header would fault; the kernel drops them too.
            let mut header = [0; 8];
            header.copy_from_slice(&area.0[512..520]);
            let mut wanted = [0; 8];
            wanted.copy_from_slice(&area.0[SOFTWARE + 8..SOFTWARE + 16]);
            let kept =
                u64::from_le_bytes(header) & vectors::features() & u64::from_le_bytes(wanted);
            area.0[512..520].copy_from_slice(&kept.to_le_bytes());
            area.0[520..576].fill(0);
        } else {
            // Only the legacy part: x87 and SSE, the rest initial.
            area.0[512..576].fill(0);
            area.0[512] = 3;
        }
        let valid_mxcsr = get32(&area, 24) & 0xffff;
        put32(&mut area, 24, valid_mxcsr);
    }
    if vectors::restore(&area, vectors::features()) { Ok(()) } else { Err(Errno::EINVAL) }
}
