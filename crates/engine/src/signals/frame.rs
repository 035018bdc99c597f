//! Signal frames on the guest's stack, as the kernel lays them out, and the way back from them.
//!
//! ```text
//! rsp -> return address (the restorer) | ucontext | siginfo | ... | xsave area (64-byte aligned)
//! ```
//!
//! The vector state is the machine's at both moments: the engine never uses vector registers.

use super::handler::{UserContext, index};
use super::{AlternateStack, Arrived, SigInfo, frame_stack, set_mask};
use crate::cache;
use crate::context::{Context, Gpr, Registers};
use crate::entry;
use crate::guest_memory as guest;
use crate::record;
use crate::sys::{Errno, Result, SigAction};
use core::arch::x86_64::{__cpuid_count, _xgetbv};
use core::sync::atomic::{AtomicU64, Ordering};
use linux_raw_sys::general as c;

/// Largest xsave area this engine handles: AMX included.
pub const MAX_XSAVE: usize = 12 * 1024;
const MAGIC1: u32 = 0x4650_5853;
const MAGIC2: u32 = 0x4650_5845;
/// Offsets in the legacy area.
const OPCODE: usize = 6;
const FIP: usize = 8;
const SOFTWARE: usize = 464;

/// Flags the guest controls through a frame: the arithmetic ones, DF, TF, AC, ID, NT, RF.
const USER_FLAGS: u64 = 0x25_4dd5;

/// What the processor sets in the flags it saves for a fault.
const RESUME_FLAG: u64 = 0x1_0000;

/// ucontext flags: xstate present, ss saved, ss restored strictly.
const UC_FLAGS: u64 = 7;

static FEATURES: AtomicU64 = AtomicU64::new(0);
static AREA_SIZE: AtomicU64 = AtomicU64::new(0);

#[repr(C, align(64))]
struct Area([u8; MAX_XSAVE]);

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

/// Finds out which vector state this machine has.
pub fn detect() {
    // SAFETY: every x86-64 machine that the engine supports has xsave (checked by cpuid in `start`).
    let features = unsafe { xgetbv() };
    let size = __cpuid_count(0xd, 0).ebx as u64;
    FEATURES.store(features, Ordering::Relaxed);
    AREA_SIZE.store(size.min(MAX_XSAVE as u64 - 64), Ordering::Relaxed);
}

#[target_feature(enable = "xsave")]
fn xgetbv() -> u64 {
    // SAFETY: xsave is enabled.
    unsafe { _xgetbv(0) }
}

/// The features the frame saves.
pub fn features() -> u64 {
    FEATURES.load(Ordering::Relaxed)
}

/// Bytes of the state that [`features`] take.
pub fn area_size() -> usize {
    AREA_SIZE.load(Ordering::Relaxed) as usize
}

/// Smallest alternate stack the kernel accepts.
pub fn minimum_stack() -> u64 {
    c::MINSIGSTKSZ as u64
}

fn put32(area: &mut Area, at: usize, value: u32) {
    area.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn get32(area: &Area, at: usize) -> u32 {
    u32::from_le_bytes([area.0[at], area.0[at + 1], area.0[at + 2], area.0[at + 3]])
}

/// The guest address of a cache address that ended up in guest-visible state (x87's instruction pointer);
/// None if no block is there: then it is the guest's own number, loaded by `frstor` or the like.
pub fn guest_pc_of(address: u64) -> Option<u64> {
    if !cache::contains(address) {
        return None;
    }
    let mut scratch = Registers::default();
    cache::recover(address, &mut scratch, &cache::Saved::default()).map(|position| position.pc)
}

/// The opcode that x87 remembers of the guest instruction at `pc`, which may have been re-encoded in the
/// cache: the escape byte's low bits and the ModRM byte behind it.
pub fn x87_opcode_at(pc: u64) -> Option<u16> {
    let mut bytes = [0u8; 15];
    let len = guest::read_partial(pc, &mut bytes);
    let escape = bytes[..len].iter().position(|&b| (0xd8..=0xdf).contains(&b))?;
    let modrm = *bytes[..len].get(escape + 1)?;
    Some(u16::from(bytes[escape] & 7) << 8 | u16::from(modrm))
}

/// Makes the x87 pointers in a saved image the guest's.
fn correct_pointers(area: &mut Area) {
    let mut fip = [0; 8];
    fip.copy_from_slice(&area.0[FIP..FIP + 8]);
    let Some(pc) = guest_pc_of(u64::from_le_bytes(fip)) else { return };
    area.0[FIP..FIP + 8].copy_from_slice(&pc.to_le_bytes());
    if let Some(opcode) = x87_opcode_at(pc) {
        area.0[OPCODE..OPCODE + 2].copy_from_slice(&opcode.to_le_bytes());
    }
}

/// Where x87 remembers its last instruction, in the cache and in the guest; zeroes if that is not in the cache.
pub fn x87_pointer() -> [u64; 2] {
    const X87: u64 = 1;
    let mut area = Area([0; MAX_XSAVE]);
    // SAFETY: aligned, zeroed and large enough.
    unsafe { entry::save_vectors(area.0.as_mut_ptr(), X87) };
    let mut fip = [0; 8];
    fip.copy_from_slice(&area.0[FIP..FIP + 8]);
    let fip = u64::from_le_bytes(fip);
    guest_pc_of(fip).map_or([0; 2], |pc| [fip, pc])
}

/// Builds a frame and points the guest's registers at the handler.
pub fn push(context: &mut Context, arrived: &Arrived, action: &SigAction) -> Result<()> {
    let size = AREA_SIZE.load(Ordering::Relaxed) as usize;
    let mut area = Area([0; MAX_XSAVE]);
    // SAFETY: aligned, zeroed and large enough for all features of this machine.
    unsafe { entry::save_vectors(area.0.as_mut_ptr(), features()) };
    correct_pointers(&mut area);
    area.0[SOFTWARE..SOFTWARE + 48].fill(0);
    put32(&mut area, SOFTWARE, MAGIC1);
    put32(&mut area, SOFTWARE + 4, size as u32 + 4);
    area.0[SOFTWARE + 8..SOFTWARE + 16].copy_from_slice(&features().to_le_bytes());
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
    let mut area = Area([0; MAX_XSAVE]);
    if fpstate == 0 {
        // No state: everything goes to its initial value.
        put32(&mut area, 24, 0x1f80);
        put32(&mut area, 0, 0x37f);
    } else {
        record::reads(fpstate, area_size() as u64 + 4);
        guest::read(fpstate, &mut area.0[..512])?;
        let size = get32(&area, SOFTWARE + 16) as usize;
        let extended = get32(&area, SOFTWARE) == MAGIC1
            && (576..=AREA_SIZE.load(Ordering::Relaxed) as usize).contains(&size)
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
            let kept = u64::from_le_bytes(header) & features() & u64::from_le_bytes(wanted);
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
    // SAFETY: aligned and as large as any area.
    if unsafe { entry::restore_vectors(area.0.as_ptr(), features()) } {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}
