//! The one signal handler: classifies what it interrupted and notes what must happen.
//!
//! | interrupted | asynchronous signal | fault |
//! | --- | --- | --- |
//! | cache, at a guest instruction boundary | enter the engine | enter the engine |
//! | cache, inside a sequence | single-step to the boundary | enter the engine, unless the engine itself is not aligned |
//! | a look-up on behalf of the cache | single-step to the cache | engine error |
//! | on the way into the cache | start over, see `pending` | engine error |
//! | before a guest syscall | make it return RESTART | engine error |
//! | a copy of guest memory | note | end the copy |
//! | an instruction executed for the guest | note | tell the trap |
//! | elsewhere in the engine | note | engine error |

use super::{
    Arrived, KICK_SIGNAL, OWNED, PENDING_DEADLINE, PENDING_SIGNAL, SigInfo, TRAP_FLAG, set_of,
};
use crate::cache::{self, Position, Saved};
use crate::clock;
use crate::context::{Context, ExitKind, Registers};
use crate::entry::{self, Region, target};
use crate::sys;
use crate::translate::output::Site;
use crate::vectors;
use core::arch::asm;
use core::sync::atomic::Ordering;
use iced_x86::{Decoder, DecoderOptions, Register};
use linux_raw_sys::general as c;
use retro_abi::layout::SHADOW_DISTANCE;

/// Trap, direction and alignment-check flags: none may be set in engine code.
const HOSTILE_FLAGS: u64 = 0x40500;

/// The flag by which a guest asks that addresses are aligned.
const ALIGNMENT_CHECK: u64 = 0x4_0000;

/// Bytes of an instruction.
const LONGEST_INSTRUCTION: usize = 15;

/// The kernel's `struct ucontext` up to the mask.
#[repr(C)]
pub struct UserContext {
    flags: u64,
    link: u64,
    stack: [u64; 3],
    /// r8-r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, flags, segments, err, trapno, oldmask, cr2
    pub registers: [u64; 23],
    /// Pointer to the floating-point state.
    pub fpstate: u64,
    reserved: [u64; 8],
    /// Signal mask.
    pub mask: u64,
}

/// Indices into `UserContext::registers`.
pub mod index {
    #![allow(missing_docs, reason = "the kernel's names")]
    pub const RAX: usize = 13;
    pub const RSP: usize = 15;
    pub const RIP: usize = 16;
    pub const FLAGS: usize = 17;
    pub const SEGMENTS: usize = 18;
    pub const ERROR: usize = 19;
    pub const TRAP: usize = 20;
    pub const OLD_MASK: usize = 21;
    pub const CR2: usize = 22;
    /// Position of each general-purpose register, in encoding order.
    pub const GPR: [usize; 16] = [13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7];
}

fn registers_of(frame: &UserContext) -> Registers {
    let mut registers = Registers {
        rip: frame.registers[index::RIP],
        rflags: frame.registers[index::FLAGS] & !TRAP_FLAG,
        ..Registers::default()
    };
    for (register, &position) in index::GPR.iter().enumerate() {
        registers.gpr[register] = frame.registers[position];
    }
    registers
}

/// The context of the running thread.
pub fn current_context() -> &'static mut Context {
    let me: u64;
    // SAFETY: GS points to the end of a context whenever a handler can run: threads start with all
    // signals blocked and set GS first. A context is used by its own thread only.
    unsafe {
        asm!("mov {}, gs:[{offset}]", out(reg) me, offset = const crate::gs_offset!(me),
            options(nostack, readonly, preserves_flags));
        &mut *(me as *mut Context)
    }
}

/// The kernel starts a handler with the alignment check of whatever it interrupted; compiled code does not always align.
fn clear_alignment_check() {
    // SAFETY: leaves the stack as it was; the arithmetic flags are declared as changed.
    unsafe { asm!("pushfq", "and dword ptr [rsp], 0xfffbffff", "popfq") };
}

/// The handler of all signals.
pub extern "C" fn retro_signal_handler(signal: u32, info: &SigInfo, frame: &mut UserContext) {
    clear_alignment_check();
    let context = current_context();
    if vectors::features() & vectors::TILE_DATA != 0 {
        context.signals.has_tiles |= super::frame::has_tiles(frame);
    }
    let synchronous = info.code() > 0 && OWNED & set_of(signal) != 0 && signal != KICK_SIGNAL;
    if synchronous {
        fault(context, signal, info, frame)
    } else {
        arrival(context, signal, info, frame)
    }
}

/// Whether the interrupted instruction stores something for the engine. Streams are packed, and the processor checks
/// alignment whoever stores.
fn is_engine_store(frame: &UserContext) -> bool {
    let pc = frame.registers[index::RIP];
    if !cache::contains(pc) {
        return false;
    }
    // SAFETY: an instruction was executed from here, so these bytes are committed cache memory.
    let bytes = unsafe { core::slice::from_raw_parts(pc as *const u8, LONGEST_INSTRUCTION) };
    let instruction = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode();
    let base = instruction.memory_base();
    if !base.is_gpr64() || instruction.memory_index() != Register::None {
        return false;
    }
    let start = frame.registers[index::GPR[base.number()]];
    let address = start.wrapping_add(instruction.memory_displacement64());
    crate::replay::stream::contains(address)
}

fn fault(context: &mut Context, signal: u32, info: &SigInfo, frame: &mut UserContext) {
    let pc = frame.registers[index::RIP];
    let store = frame.registers[index::ERROR] & super::Fault::WRITE != 0;
    if signal == c::SIGSEGV && crate::replay::memory::supply(info.address(), store) {
        return;
    }
    if signal == c::SIGBUS && info.code() == c::BUS_ADRALN as i32 && is_engine_store(frame) {
        // Once it is executed, the trap flag leads back here.
        context.unaligned = true;
        frame.registers[index::FLAGS] &= !ALIGNMENT_CHECK;
        frame.registers[index::FLAGS] |= TRAP_FLAG;
        return;
    }
    if signal == c::SIGTRAP && pc == target::announced() {
        // There is no tracer any more.
        context.traced.on = 0;
        return;
    }
    if signal == c::SIGTRAP && info.code() == c::TRAP_HWBKPT as i32 {
        // A watchpoint tells after the access, which may be in the middle of a sequence.
        return arrival(context, signal, info, frame);
    }
    if signal == c::SIGTRAP && is_trap_flag(info, frame) {
        if core::mem::take(&mut context.unaligned) {
            frame.registers[index::FLAGS] |= ALIGNMENT_CHECK;
            if context.stepping == 0 {
                frame.registers[index::FLAGS] &= !TRAP_FLAG;
                return;
            }
        }
        if context.stepping != 0 {
            return step(context, frame);
        }
    }
    match entry::region(pc) {
        Region::Copying(resume) | Region::Restoring(resume) => {
            frame.registers[index::RIP] = resume;
            return;
        }
        Region::Probing(resume) => {
            frame.registers[index::RIP] = resume;
            frame.registers[index::RAX] = frame.registers[index::TRAP];
            return;
        }
        _ => {}
    }
    context.stepping = 0;
    let mut registers = registers_of(frame);
    // Traps report the address behind the instruction: int3, int 4, and int1, except on virtual machines
    // that restart it.
    let behind = match frame.registers[index::TRAP] {
        3 | 4 => 1,
        1 => !(cache::contains(pc) && is_int1(pc)) as u64,
        _ => 0,
    };
    let position = if cache::contains(pc) {
        cache::recover(pc - behind, &mut registers, &Saved::of(context))
    } else {
        None
    };
    let Some(position) = position else { engine_error(context, signal, info, frame) };
    registers.rip = position.pc + behind * position.guest_len as u64;
    context.registers = registers;
    clock::interrupted(context, &registers_of(frame), position.clock_in_register);
    context.unsettled = position.unsettled + behind as i32;
    let mut info = *info;
    if cache::contains(pc) && signal == c::SIGSEGV && crate::record::touches_shadow(pc) {
        // The guest's own access reached memory of the engine: it means the address that has no shadow.
        info.set_address(info.address().wrapping_sub(SHADOW_DISTANCE));
    }
    // These signals report the instruction's own address.
    if matches!(signal, c::SIGILL | c::SIGFPE) || signal == c::SIGTRAP && info.address() == pc {
        info.set_address(registers.rip);
    }
    context.signals.fault = Arrived {
        signal,
        info,
        error: frame.registers[index::ERROR],
        trap: frame.registers[index::TRAP],
        cr2: frame.registers[index::CR2],
        synthesized: false,
    };
    context.signals.fault_cache_pc = pc;
    enter_engine(context, ExitKind::Fault, frame);
}

/// Whether a trap is that of the trap flag. Virtual machines now and then lose the bit that tells it from an `int1`; outside of
/// the guest's code there is none of those.
fn is_trap_flag(info: &SigInfo, frame: &UserContext) -> bool {
    const DEBUG: u64 = 1;
    let pc = frame.registers[index::RIP];
    if info.code() == c::TRAP_TRACE as i32 {
        return true;
    }
    let int1 = || cache::contains(pc - 1) && (is_int1(pc) || is_int1(pc - 1));
    frame.registers[index::TRAP] == DEBUG && !int1()
}

/// Whether an `int1`, maybe with prefixes, stands at a cache address.
fn is_int1(mut pc: u64) -> bool {
    const PREFIXES: [u8; 11] = [0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3];
    const INT1: u8 = 0xf1;
    for _ in 0..15 {
        // SAFETY: an instruction was executed from here, so these bytes are committed cache memory.
        let byte = unsafe { *(pc as *const u8) };
        let rex = byte & 0xf0 == 0x40;
        if !rex && !PREFIXES.contains(&byte) {
            return byte == INT1;
        }
        pc += 1;
    }
    false
}

fn enter_engine(context: &mut Context, kind: ExitKind, frame: &mut UserContext) {
    context.exit_kind = kind as u32;
    frame.registers[index::RIP] = target::from_handler();
    frame.registers[index::FLAGS] &= !HOSTILE_FLAGS;
}

fn arrival(context: &mut Context, signal: u32, info: &SigInfo, frame: &mut UserContext) {
    let pending = context.pending.load(Ordering::Relaxed);
    let kick = info.is_kick();
    if kick && crate::record::watching() {
        // Somebody wants a new interval, or this thread's turn.
        context.pending.fetch_or(PENDING_DEADLINE, Ordering::Relaxed);
    }
    if !kick {
        let arrived = Arrived { signal, info: *info, ..Arrived::NONE };
        context.signals.arrivals = context.signals.arrivals.wrapping_add(1);
        // Other signals are blocked for real, so that one that comes is wanted.
        let mask = context.signals.temporary_mask.unwrap_or(context.signals.mask);
        let blocked = OWNED & mask & set_of(signal) != 0;
        if blocked || pending & PENDING_SIGNAL != 0 {
            context.signals.hold(arrived);
            return;
        }
        context.signals.pending = arrived;
        context.pending.fetch_or(PENDING_SIGNAL, Ordering::Relaxed);
        frame.mask = !OWNED;
    }
    let pc = frame.registers[index::RIP];
    if cache::contains(pc) {
        return stop_at_boundary(context, frame);
    }
    match entry::region(pc) {
        Region::Entering => {
            frame.registers[index::RIP] = target::enter();
            frame.registers[index::RSP] = context.engine_stack;
            frame.registers[index::FLAGS] &= !HOSTILE_FLAGS;
        }
        Region::LookingUp => {
            context.stepping = 1;
            frame.registers[index::FLAGS] |= TRAP_FLAG;
        }
        Region::BeforeSyscall if !kick => {
            frame.registers[index::RIP] = target::syscall_interrupted();
        }
        // A kick must not show as an interrupted system call.
        Region::AfterSyscall
            if kick
                && pending & PENDING_SIGNAL == 0
                && frame.registers[index::RAX] == sys::Errno::EINTR.as_return() =>
        {
            frame.registers[index::RAX] = entry::RESTART;
        }
        _ => {}
    }
}

/// Enters the engine if the guest's state is complete here, else arranges for another look one
/// instruction later. A guest that single-steps itself is stopped by [`step`] already.
fn stop_at_boundary(context: &mut Context, frame: &mut UserContext) {
    let mut registers = registers_of(frame);
    let pc = registers.rip;
    match cache::recover(pc, &mut registers, &Saved::of(context)) {
        Some(position) if position.boundary && !starts_over(context, pc, position.pc) => {
            stop_at(context, &position, registers, ExitKind::Asynchronous, frame);
        }
        _ => {
            context.stepping = 1;
            frame.registers[index::FLAGS] |= TRAP_FLAG;
        }
    }
}

/// Enters the engine at a boundary with the guest's registers.
fn stop_at(
    context: &mut Context,
    position: &Position,
    registers: Registers,
    kind: ExitKind,
    frame: &mut UserContext,
) {
    context.stepping = 0;
    context.registers = Registers { rip: position.pc, ..registers };
    clock::interrupted(context, &registers_of(frame), position.clock_in_register);
    context.unsettled = position.unsettled;
    enter_engine(context, kind, frame);
}

fn step(context: &mut Context, frame: &mut UserContext) {
    if context.trap_armed {
        return guest_step(context, frame);
    }
    if cache::contains(frame.registers[index::RIP]) {
        return stop_at_boundary(context, frame);
    }
    if matches!(entry::region(frame.registers[index::RIP]), Region::LookingUp | Region::Entering) {
        return;
    }
    // Left the cache: the engine looks at `pending` before it goes back.
    context.stepping = 0;
    frame.registers[index::FLAGS] &= !TRAP_FLAG;
}

/// A step of a guest that has set the trap flag: through the entry assembly and whatever precedes the
/// guest instruction in its block, then to the next boundary, where the guest gets its trap.
fn guest_step(context: &mut Context, frame: &mut UserContext) {
    let pc = frame.registers[index::RIP];
    if matches!(entry::region(pc), Region::Entering | Region::LookingUp) {
        return;
    }
    if !cache::contains(pc) {
        // The instruction left for the engine, which raises the trap.
        context.stepping = 0;
        frame.registers[index::FLAGS] &= !TRAP_FLAG;
        return;
    }
    let mut registers = registers_of(frame);
    let Some(position) = cache::recover(pc, &mut registers, &Saved::of(context)) else { return };
    let boundary = position.boundary && !starts_over(context, pc, position.pc);
    if !context.step_begun {
        context.step_begun = boundary && position.guest_len > 0;
    } else if boundary {
        stop_at(context, &position, registers, ExitKind::Stepped, frame);
    }
}

/// Whether an instruction is about to start over in the middle of a recorded load: registers that it loads hold
/// their new value already.
fn starts_over(context: &Context, address: u64, pc: u64) -> bool {
    let is_same = |site: Site| address == site.again && site.pc == pc;
    context.inside && is_same(cache::site(context.exit_index))
}

/// A fault in the engine's own code is never shown to the guest as its own.
fn engine_error(context: &Context, signal: u32, info: &SigInfo, frame: &UserContext) -> ! {
    sys::complain(format_args!(
        "internal error: signal {signal} ({}, trap {}) at {:#x}, address {:#x}, guest pc {:#x}, exit {} ({}), stepping {}; \
         please report this",
        info.code(),
        frame.registers[index::TRAP],
        frame.registers[index::RIP],
        info.address(),
        context.registers.rip,
        context.exit_kind,
        context.exit_index,
        context.stepping,
    ));
    sys::exit_group(125)
}
