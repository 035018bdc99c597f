//! Instructions that ask the machine: its clocks, counters, random numbers, features and descriptor tables.
//!
//! Their results are no function of the guest's state, and not every machine answers: an instruction may be missing, or
//! be denied to this process (`PR_SET_TSC`). So the engine executes them in a *probe*, where a fault is an answer too
//! and becomes the guest's own.

use super::{Done, Stop, address_of, read_bytes, read_register, store, write_register};
use crate::context::{Context, Gpr};
use crate::translate::operand::gpr_of;
use core::arch::global_asm;
use core::arch::x86_64::__cpuid_count;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// What a probe takes and leaves.
#[repr(C)]
#[derive(Default)]
struct Probe {
    rax: u64,
    rcx: u64,
    rdx: u64,
    rflags: u64,
    /// What `sgdt` and `sidt` store.
    table: [u64; 2],
}

/// Bytes of a descriptor-table register: a limit and an address.
const TABLE_BYTES: usize = 10;

const INVALID_OPCODE: u64 = 6;
const NOT_PRESENT: u64 = 11;
const STACK: u64 = 12;
const CARRY: u64 = 1;
const ZERO: u64 = 0x40;
/// Carry, parity, adjust, zero, sign and overflow.
const ARITHMETIC_FLAGS: u64 = 0x8d5;

/// The probes, in the order of their code.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Ask {
    Rdtsc,
    Rdtscp,
    Rdpid,
    Rdpru,
    Rdpmc,
    Rdrand,
    Rdseed,
    Xgetbv,
    Lsl,
    Lar,
    Verr,
    Verw,
    Sgdt,
    Sidt,
    Sldt,
    Sldt32,
    Sldt16,
    Str,
    Str32,
    Str16,
    Smsw,
    Smsw32,
    Smsw16,
    SetDs,
    SetEs,
    SetSs,
    SetFs,
    GetDs,
    GetEs,
    GetSs,
    GetFs,
}

// rdi = which, rsi = the Probe. Returns 0, or the number of the trap that the instruction caused: the signal handler
// puts it into rax and goes to the end.
global_asm!(
    ".section .text.retro_asm, \"ax\", @progbits",
    ".globl retro_asm_probe",
    "retro_asm_probe:",
    "mov r8, rsi",
    "shl edi, 4",
    "lea r9, [rip + retro_asm_probes]",
    "add r9, rdi",
    "mov rax, [r8]",
    "mov rcx, [r8 + 8]",
    "mov rdx, [r8 + 16]",
    "jmp r9",
    ".balign 16",
    ".globl retro_asm_probes",
    "retro_asm_probes:",
    "rdtsc",
    "jmp 2f",
    ".balign 16",
    "rdtscp",
    "jmp 2f",
    ".balign 16",
    "rdpid rax",
    "jmp 2f",
    ".balign 16",
    // rdpru, which assemblers do not know
    ".byte 0x0f, 0x01, 0xfd",
    "jmp 2f",
    ".balign 16",
    "rdpmc",
    "jmp 2f",
    ".balign 16",
    "rdrand rax",
    "jmp 2f",
    ".balign 16",
    "rdseed rax",
    "jmp 2f",
    ".balign 16",
    "xgetbv",
    "jmp 2f",
    ".balign 16",
    "lsl rax, rcx",
    "jmp 2f",
    ".balign 16",
    "lar rax, rcx",
    "jmp 2f",
    ".balign 16",
    "verr cx",
    "jmp 2f",
    ".balign 16",
    "verw cx",
    "jmp 2f",
    ".balign 16",
    "sgdt [r8 + 32]",
    "jmp 2f",
    ".balign 16",
    "sidt [r8 + 32]",
    "jmp 2f",
    ".balign 16",
    "sldt rax",
    "jmp 2f",
    ".balign 16",
    "sldt eax",
    "jmp 2f",
    ".balign 16",
    "sldt ax",
    "jmp 2f",
    ".balign 16",
    "str rax",
    "jmp 2f",
    ".balign 16",
    "str eax",
    "jmp 2f",
    ".balign 16",
    "str ax",
    "jmp 2f",
    ".balign 16",
    "smsw rax",
    "jmp 2f",
    ".balign 16",
    "smsw eax",
    "jmp 2f",
    ".balign 16",
    "smsw ax",
    "jmp 2f",
    ".balign 16",
    "mov ds, ecx",
    "jmp 2f",
    ".balign 16",
    "mov es, ecx",
    "jmp 2f",
    ".balign 16",
    "mov ss, ecx",
    "jmp 2f",
    ".balign 16",
    "mov fs, ecx",
    "jmp 2f",
    ".balign 16",
    "mov eax, ds",
    "jmp 2f",
    ".balign 16",
    "mov eax, es",
    "jmp 2f",
    ".balign 16",
    "mov eax, ss",
    "jmp 2f",
    ".balign 16",
    "mov eax, fs",
    ".globl retro_asm_probes_end",
    "retro_asm_probes_end:",
    "2:",
    "pushfq",
    "pop r10",
    "mov [r8], rax",
    "mov [r8 + 8], rcx",
    "mov [r8 + 16], rdx",
    "mov [r8 + 24], r10",
    "xor eax, eax",
    ".globl retro_asm_probe_trapped",
    "retro_asm_probe_trapped:",
    "ret",
);

unsafe extern "C" {
    fn retro_asm_probe(which: u32, probe: *mut Probe) -> u64;
    fn retro_asm_probes();
    fn retro_asm_probes_end();
    fn retro_asm_probe_trapped();
}

/// Where a probe that traps at this address goes on, with the trap's number in rax.
pub fn after_trap(pc: u64) -> Option<u64> {
    let at = |f: unsafe extern "C" fn()| f as *const () as u64;
    (at(retro_asm_probes)..at(retro_asm_probes_end))
        .contains(&pc)
        .then(|| at(retro_asm_probe_trapped))
}

fn probe(which: Ask, mut probe: Probe) -> Result<Probe, Stop> {
    // A selector that is refused is the error.
    let error = match which {
        Ask::SetDs | Ask::SetEs | Ask::SetSs | Ask::SetFs => probe.rcx & 0xfffc,
        _ => 0,
    };
    // SAFETY: the instruction reads the machine's state, and writes nothing but registers and the probe; the segments that
    // it may load are the guest's.
    match unsafe { retro_asm_probe(which as u32, &mut probe) } {
        0 => Ok(probe),
        INVALID_OPCODE => Err(Stop::Undefined),
        trap @ (NOT_PRESENT | STACK) => Err(Stop::Segment { trap, error }),
        _ => Err(Stop::Protection(error)),
    }
}

/// Loads a segment register with the guest's own value.
pub(super) fn load_segment(register: Register, selector: u16) -> Done {
    let which = match register {
        Register::DS => Ask::SetDs,
        Register::ES => Ask::SetEs,
        Register::SS => Ask::SetSs,
        _ => Ask::SetFs,
    };
    probe(which, Probe { rcx: selector as u64, ..Probe::default() }).map(drop)
}

/// The selector in a segment register.
pub(super) fn segment(register: Register) -> Result<u16, Stop> {
    let which = match register {
        Register::DS => Ask::GetDs,
        Register::ES => Ask::GetEs,
        Register::SS => Ask::GetSs,
        _ => Ask::GetFs,
    };
    probe(which, Probe::default()).map(|answer| answer.rax as u16)
}

/// Whether data can be read through a selector, as the machine's tables are.
pub(super) fn is_readable(selector: u16) -> Result<bool, Stop> {
    let asked = Probe { rcx: selector as u64, ..Probe::default() };
    probe(Ask::Verr, asked).map(|answer| answer.rflags & ZERO != 0)
}

/// Executes an instruction of this kind; `None` if it is of another.
pub(super) fn execute(context: &mut Context, decoded: &Instruction) -> Option<Done> {
    Some(match decoded.mnemonic() {
        Mnemonic::Cpuid => cpuid(context),
        Mnemonic::Rdtsc => counters(context, Ask::Rdtsc),
        Mnemonic::Rdtscp => counters(context, Ask::Rdtscp),
        Mnemonic::Rdpru => counters(context, Ask::Rdpru),
        Mnemonic::Rdpmc => counters(context, Ask::Rdpmc),
        Mnemonic::Xgetbv => counters(context, Ask::Xgetbv),
        Mnemonic::Rdpid => value(context, decoded, Ask::Rdpid),
        Mnemonic::Rdrand => random(context, decoded, Ask::Rdrand),
        Mnemonic::Rdseed => random(context, decoded, Ask::Rdseed),
        Mnemonic::Lsl => descriptor(context, decoded, Ask::Lsl),
        Mnemonic::Lar => descriptor(context, decoded, Ask::Lar),
        Mnemonic::Verr => descriptor(context, decoded, Ask::Verr),
        Mnemonic::Verw => descriptor(context, decoded, Ask::Verw),
        Mnemonic::Sgdt => table(context, decoded, Ask::Sgdt),
        Mnemonic::Sidt => table(context, decoded, Ask::Sidt),
        Mnemonic::Sldt => status(context, decoded, [Ask::Sldt, Ask::Sldt32, Ask::Sldt16]),
        Mnemonic::Str => status(context, decoded, [Ask::Str, Ask::Str32, Ask::Str16]),
        Mnemonic::Smsw => status(context, decoded, [Ask::Smsw, Ask::Smsw32, Ask::Smsw16]),
        Mnemonic::Tpause | Mnemonic::Umwait => pause(context),
        _ => return None,
    })
}

/// cpuid as this machine answers it, less what the engine does not carry: transactional memory, which
/// would abort at every exit, protection keys and control-flow enforcement, whose state the engine would
/// have to switch, and user interrupts.
fn cpuid(context: &mut Context) -> Done {
    if context.cpuid_faults {
        return Err(Stop::Protection(0));
    }
    let leaf = context.registers.get(Gpr::Rax) as u32;
    let subleaf = context.registers.get(Gpr::Rcx) as u32;
    let mut result = __cpuid_count(leaf, subleaf);
    if leaf == 7 && subleaf == 0 {
        const HLE: u32 = 1 << 4;
        const RTM: u32 = 1 << 11;
        const PKU: u32 = 1 << 3;
        const OSPKE: u32 = 1 << 4;
        const SHADOW_STACK: u32 = 1 << 7;
        const INDIRECT_TRACKING: u32 = 1 << 20;
        const USER_INTERRUPTS: u32 = 1 << 5;
        result.ebx &= !(HLE | RTM);
        result.ecx &= !(PKU | OSPKE | SHADOW_STACK);
        result.edx &= !(INDIRECT_TRACKING | USER_INTERRUPTS);
    }
    context.registers.set(Gpr::Rax, result.eax as u64);
    context.registers.set(Gpr::Rbx, result.ebx as u64);
    context.registers.set(Gpr::Rcx, result.ecx as u64);
    context.registers.set(Gpr::Rdx, result.edx as u64);
    Ok(())
}

/// What ecx may choose, and what comes back in rax, rdx and maybe rcx: time stamps, counters, control registers.
fn counters(context: &mut Context, which: Ask) -> Done {
    let registers = &mut context.registers;
    let asked = Probe { rcx: registers.get(Gpr::Rcx), ..Probe::default() };
    let answer = probe(which, asked)?;
    registers.set(Gpr::Rax, answer.rax);
    registers.set(Gpr::Rcx, answer.rcx);
    registers.set(Gpr::Rdx, answer.rdx);
    Ok(())
}

/// One number, to a register.
fn value(context: &mut Context, decoded: &Instruction, which: Ask) -> Done {
    let answer = probe(which, Probe::default())?.rax;
    write_register(context, decoded.op0_register(), answer);
    Ok(())
}

/// A number to memory, 16 bits of it, or to a register. What is left of the register's upper bits depends on whether the
/// processor or the kernel in its stead answers, and in which of three sizes it is asked.
fn status(context: &mut Context, decoded: &Instruction, [wide, middle, narrow]: [Ask; 3]) -> Done {
    if decoded.op0_kind() == OpKind::Memory {
        let answer = probe(wide, Probe::default())?.rax;
        return store(address_of(context, decoded, 0), &(answer as u16).to_le_bytes());
    }
    let register = decoded.op0_register();
    let which = match register.size() {
        8 => wide,
        4 => middle,
        _ => narrow,
    };
    let whole = gpr_of(register);
    let asked = Probe { rax: context.registers.get(whole), ..Probe::default() };
    let answer = probe(which, asked)?;
    context.registers.set(whole, answer.rax);
    Ok(())
}

fn random(context: &mut Context, decoded: &Instruction, which: Ask) -> Done {
    let answer = probe(which, Probe::default())?;
    let carry = answer.rflags & CARRY;
    write_register(context, decoded.op0_register(), if carry == 0 { 0 } else { answer.rax });
    // Carry tells success; the other arithmetic flags are cleared.
    context.registers.rflags = context.registers.rflags & !ARITHMETIC_FLAGS | carry;
    Ok(())
}

/// What is known of a segment. The limit of one of them is the number of the processor that executes this, and the local
/// descriptor table is not there when a recording is replayed.
fn descriptor(context: &mut Context, decoded: &Instruction, which: Ask) -> Done {
    let operand = decoded.op_count() - 1;
    let selector = if decoded.op_kind(operand) == OpKind::Memory {
        read_bytes(address_of(context, decoded, operand), 2)?
    } else {
        read_register(context, decoded.op_register(operand)) & 0xffff
    };
    let answer = probe(which, Probe { rcx: selector, ..Probe::default() })?;
    let zero = answer.rflags & ZERO;
    if zero != 0 && matches!(which, Ask::Lsl | Ask::Lar) {
        write_register(context, decoded.op0_register(), answer.rax);
    }
    context.registers.rflags = context.registers.rflags & !ZERO | zero;
    Ok(())
}

/// The place of a descriptor table: the kernel's, and per processor, where user-mode instruction prevention does not hide it.
fn table(context: &mut Context, decoded: &Instruction, which: Ask) -> Done {
    let answer = probe(which, Probe::default())?;
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&answer.table[0].to_le_bytes());
    bytes[8..].copy_from_slice(&answer.table[1].to_le_bytes());
    store(address_of(context, decoded, 0), &bytes[..TABLE_BYTES])
}

/// A wait that may end at any time, and does at once.
fn pause(context: &mut Context) -> Done {
    const WAITPKG: u32 = 1 << 5;
    if __cpuid_count(7, 0).ecx & WAITPKG == 0 {
        return Err(Stop::Undefined);
    }
    context.registers.rflags &= !ARITHMETIC_FLAGS;
    Ok(())
}
