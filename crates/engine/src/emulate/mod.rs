//! Instructions that the engine executes itself, because they depend on state it owns: the guest's GS,
//! its trap flag, instruction pointers saved by x87, far transfers, and whatever a policy wants to see.

pub mod machine;
mod segment;
mod transfer;
mod x87;

use crate::context::{Context, Gpr};
use crate::dispatch::fixed;
use crate::guest_memory as guest;
use crate::record;
use crate::replay;
use crate::signals::{self, Fault};
use crate::sys;
use crate::translate::classify::{Class, classify, only_stores};
use crate::translate::decoder_options;
use crate::translate::operand::gpr_of;
use crate::vectors::guest_code;
use iced_x86::{Decoder, Instruction, Mnemonic, OpKind, Register};
use linux_raw_sys::general as c;

/// Flags that `popf` changes in user mode; the trap flag is kept apart.
const POPF_FLAGS: u64 = 0x24_4cd5;
const TRAP_FLAG: u64 = 0x100;

/// What stops an emulated instruction.
enum Stop {
    /// A memory operand at this address that could not be read.
    Memory(u64),
    /// A memory operand at this address that could not be written.
    Store(u64),
    /// A general protection fault with this error code.
    Protection(u64),
    /// A segment that is not present, or no stack, with this error code.
    Segment { trap: u64, error: u64 },
    /// Not an instruction of this machine.
    Undefined,
}

type Done = Result<(), Stop>;

/// Executes the instruction at `registers.rip`.
pub fn instruction(context: &mut Context) {
    let pc = context.registers.rip;
    let mut bytes = [0u8; 15];
    let len = guest_code()(pc, &mut bytes);
    let decoded = Decoder::with_ip(64, &bytes[..len], pc, decoder_options()).decode();
    let next = pc.wrapping_add(decoded.len() as u64);
    let before = context.registers;
    let class = classify(&decoded);
    if replay::active() && class == Class::SaveX87 && only_stores(&decoded) {
        context.registers.rip = next;
        return;
    }
    if replay::active() && matches!(class, Class::Nondeterministic(_)) {
        context.registers.rip = next;
        return replay::nondeterministic(context);
    }
    // Most instructions that ask the machine leave memory alone, and are executed often.
    let touches_memory = !matches!(class, Class::Nondeterministic(_))
        || decoded.op_kinds().any(|kind| kind == OpKind::Memory);
    if class != Class::SaveX87 && touches_memory {
        record::access::before_emulated(context, &decoded);
    }
    context.registers.rip = next;
    let done = execute(context, &decoded);
    if let (Ok(()), Class::Nondeterministic(what)) = (&done, class) {
        let fixed = fixed();
        fixed.events.nondeterministic(context, &before, what, fixed.stats);
    }
    // A replay executes neither of these.
    if touches_memory && matches!(class, Class::SaveX87 | Class::Nondeterministic(_)) {
        record::access::stored_image(context, &decoded);
    }
    if class != Class::SaveX87 && touches_memory {
        record::access::after_emulated();
    }
    let stop = match done {
        Ok(()) => return,
        Err(stop) => stop,
    };
    record::uncount();
    context.registers.rip = pc;
    let fault = match stop {
        Stop::Memory(address) => memory_fault(&decoded, address, 0),
        Stop::Store(address) => memory_fault(&decoded, address, Fault::WRITE),
        Stop::Protection(error) => Fault::protection(error),
        Stop::Segment { trap, error } => Fault::segment(trap, error),
        Stop::Undefined => Fault::undefined(pc),
    };
    signals::deliver_fault(context, &fault.into());
}

/// The fault of a memory operand, as the processor and the kernel would report it.
fn memory_fault(decoded: &Instruction, address: u64, error: u64) -> Fault {
    if !is_canonical(address) {
        return if is_on_stack(decoded) { Fault::stack() } else { Fault::protection(0) };
    }
    Fault::page(address, crate::dispatch::engine().space.find(address), error)
}

/// Whether an operand is in the stack segment. The base decides: prefixes that name another segment without a base address of its
/// own mean nothing in 64-bit code.
fn is_on_stack(decoded: &Instruction) -> bool {
    let elsewhere = matches!(decoded.segment_prefix(), Register::FS | Register::GS);
    let base = decoded.memory_base().full_register();
    decoded.is_stack_instruction() || !elsewhere && matches!(base, Register::RSP | Register::RBP)
}

fn is_canonical(address: u64) -> bool {
    (address as i64) << 16 >> 16 == address as i64
}

/// Stores all of the bytes or none.
fn store(address: u64, bytes: &[u8]) -> Done {
    // The first byte that cannot be read back cannot be written either; what is readable but not writable
    // is found by the write itself, which starts at the end that would be left undone.
    let last = address.wrapping_add(bytes.len() as u64 - 1);
    let mut probe = [0u8];
    for at in [address, last] {
        guest::read(at, &mut probe).map_err(|_| Stop::Store(at))?;
        guest::write(at, &probe).map_err(|_| Stop::Store(at))?;
    }
    guest::write(address, bytes).map_err(|_| Stop::Store(address))
}

fn execute(context: &mut Context, decoded: &Instruction) -> Done {
    if classify(decoded) == Class::SaveX87 {
        return x87::correct_x87(context, decoded);
    }
    if let Some(done) = machine::execute(context, decoded) {
        return done;
    }
    match decoded.mnemonic() {
        Mnemonic::Popf => pop_flags(context, 2),
        Mnemonic::Popfq => pop_flags(context, 8),
        Mnemonic::Iret => transfer::interrupt_return(context, 2),
        Mnemonic::Iretd => transfer::interrupt_return(context, 4),
        Mnemonic::Iretq => transfer::interrupt_return(context, 8),
        Mnemonic::Retf => transfer::far_return(context, decoded),
        _ if matches!(decoded.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32) => {
            transfer::narrow_branch(context, decoded)
        }
        Mnemonic::Jmp | Mnemonic::Call if transfer::is_narrow_indirect(decoded.code()) => {
            transfer::narrow_indirect(context, decoded)
        }
        Mnemonic::Ret => transfer::narrow_return(context, decoded),
        Mnemonic::Jmp | Mnemonic::Call => transfer::far_transfer(context, decoded),
        Mnemonic::Rdgsbase => {
            let base = context.guest_gs_base;
            write_register(context, decoded.op0_register(), base);
            Ok(())
        }
        Mnemonic::Wrgsbase => {
            let register = decoded.op0_register();
            let value = read_register(context, register);
            if register.size() == 8 && (value as i64) << 16 >> 16 != value as i64 {
                return Err(Stop::Protection(0));
            }
            context.guest_gs_base = value;
            Ok(())
        }
        Mnemonic::Mov | Mnemonic::Push | Mnemonic::Pop => segment::segment_move(context, decoded),
        Mnemonic::Lfs | Mnemonic::Lgs | Mnemonic::Lss => segment::load_far(context, decoded),
        // `int 0x80` reaches the kernel's 32-bit entry; 64-bit programs get the fault of a gate they may
        // not use.
        Mnemonic::Int => Err(Stop::Protection(decoded.immediate8() as u64 * 8 + 2)),
        _ => Err(Stop::Undefined),
    }
}

/// Value of a register of any size.
fn read_register(context: &Context, register: Register) -> u64 {
    let value = context.registers.get(gpr_of(register));
    match register.size() {
        4 => value & 0xffff_ffff,
        2 => value & 0xffff,
        _ => value,
    }
}

/// Writes a register as the architecture does: 32-bit writes clear the upper half, 16-bit ones do not.
fn write_register(context: &mut Context, register: Register, value: u64) {
    let whole = gpr_of(register);
    let merged = match register.size() {
        2 => context.registers.get(whole) & !0xffff | value & 0xffff,
        4 => value & 0xffff_ffff,
        _ => value,
    };
    context.registers.set(whole, merged);
}

/// Address of the instruction's memory operand.
fn address_of(context: &Context, decoded: &Instruction, operand: u32) -> u64 {
    decoded
        .virtual_address(operand, 0, |register, _, _| {
            Some(match register {
                Register::FS => sys::fs_base(),
                Register::GS => context.guest_gs_base,
                Register::ES | Register::CS | Register::SS | Register::DS => 0,
                _ => read_register(context, register),
            })
        })
        .unwrap_or(0)
}

fn read_bytes(address: u64, bytes: u64) -> Result<u64, Stop> {
    let mut value = [0u8; 8];
    guest::read(address, &mut value[..bytes as usize]).map_err(|_| Stop::Memory(address))?;
    Ok(u64::from_le_bytes(value))
}

fn pop(context: &mut Context, bytes: u64) -> Result<u64, Stop> {
    let sp = context.registers.get(Gpr::Rsp);
    let mut value = [0u8; 8];
    guest::read(sp, &mut value[..bytes as usize]).map_err(|_| Stop::Memory(sp))?;
    context.registers.set(Gpr::Rsp, sp.wrapping_add(bytes));
    Ok(u64::from_le_bytes(value))
}

fn set_flags(context: &mut Context, value: u64, mask: u64) {
    let mask = mask & POPF_FLAGS;
    context.registers.rflags = context.registers.rflags & !mask | value & mask | 2;
    context.guest_trap_flag = value & TRAP_FLAG != 0;
}

fn pop_flags(context: &mut Context, bytes: u64) -> Done {
    let value = pop(context, bytes)?;
    set_flags(context, value, if bytes == 2 { 0xffff } else { !0 });
    Ok(())
}

/// The three entries of the vsyscall page, which old programs call directly. True if one was executed.
pub fn vsyscall(context: &mut Context) -> bool {
    const PAGE: u64 = 0xffff_ffff_ff60_0000;
    let number = match context.registers.rip.wrapping_sub(PAGE) {
        0 => c::__NR_gettimeofday,
        0x400 => c::__NR_time,
        0x800 => c::__NR_getcpu,
        _ => return false,
    };
    if replay::active() {
        replay::nondeterministic(context);
        return true;
    }
    let Ok(back) = guest::read_u64(context.registers.get(Gpr::Rsp)) else { return false };
    let registers = &mut context.registers;
    let args = [registers.get(Gpr::Rdi), registers.get(Gpr::Rsi), 0, 0, 0, 0];
    // SAFETY: these calls write only where the guest's pointers say; the kernel checks them.
    let value = unsafe { sys::syscall(number, args) };
    registers.set(Gpr::Rax, value);
    let sp = registers.get(Gpr::Rsp) + 8;
    registers.set(Gpr::Rsp, sp);
    registers.rip = back;
    record::executed(context);
    true
}
