//! Instructions that the engine executes itself, because they depend on state it owns: the guest's GS,
//! its trap flag, instruction pointers saved by x87, far transfers, and whatever a policy wants to see.

use crate::context::{Context, Gpr};
use crate::dispatch::fixed;
use crate::guest_memory as guest;
use crate::policy::Nondeterministic as N;
use crate::signals::frame::{guest_pc_of, x87_opcode_at};
use crate::signals::{self, Fault};
use crate::sys;
use crate::translate::decoder_options;
use crate::translate::operand::gpr_of;
use core::arch::asm;
use core::arch::x86_64::__cpuid_count;
use iced_x86::{Code, ConditionCode, Decoder, Instruction, Mnemonic, OpKind, Register};
use linux_raw_sys::general as c;

/// Flags that `popf` changes in user mode; the trap flag is kept apart.
const POPF_FLAGS: u64 = 0x24_4cd5;
const TRAP_FLAG: u64 = 0x100;
/// The only code segment of a 64-bit process.
const USER_CS: u64 = 0x33;

/// What stops an emulated instruction.
enum Stop {
    /// A memory operand at this address that could not be read.
    Memory(u64),
    /// A memory operand at this address that could not be written.
    Store(u64),
    /// A general protection fault with this error code.
    Protection(u64),
    /// Not an instruction of this machine.
    Undefined,
}

type Done = Result<(), Stop>;

/// Executes the instruction at `registers.rip`.
pub fn instruction(context: &mut Context) {
    let pc = context.registers.rip;
    let mut bytes = [0u8; 15];
    let len = guest::read_partial(pc, &mut bytes);
    let decoded = Decoder::with_ip(64, &bytes[..len], pc, decoder_options()).decode();
    let next = pc.wrapping_add(decoded.len() as u64);
    context.registers.rip = next;
    let stop = match execute(context, &decoded) {
        Ok(()) => return,
        Err(stop) => stop,
    };
    context.registers.rip = pc;
    let fault = match stop {
        Stop::Memory(address) => memory_fault(&decoded, address, 0),
        Stop::Store(address) => memory_fault(&decoded, address, Fault::WRITE),
        Stop::Protection(error) => Fault::protection(error),
        Stop::Undefined => Fault::undefined(pc),
    };
    signals::deliver_fault(context, &fault.into());
}

/// The fault of a memory operand, as the processor and the kernel would report it.
fn memory_fault(decoded: &Instruction, address: u64, error: u64) -> Fault {
    if !is_canonical(address) {
        let stack = decoded.is_stack_instruction() || decoded.memory_segment() == Register::SS;
        return if stack { Fault::stack() } else { Fault::protection(0) };
    }
    Fault::page(address, crate::dispatch::engine().space.find(address), error)
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
    match decoded.mnemonic() {
        Mnemonic::Cpuid => {
            cpuid(context);
            nondeterministic(context, N::Cpuid)
        }
        Mnemonic::Rdtsc => {
            rdtsc(context);
            nondeterministic(context, N::Rdtsc)
        }
        Mnemonic::Rdtscp => {
            rdtscp(context);
            nondeterministic(context, N::Rdtscp)
        }
        Mnemonic::Rdrand | Mnemonic::Rdseed => random(context, decoded),
        Mnemonic::Rdpid => {
            let id: u64;
            // SAFETY: reads a number; the guest executed it, so cpuid has announced it or it traps
            // here as an engine error, which the classification rules out on machines without it.
            unsafe { asm!("rdpid {}", out(reg) id, options(nomem, nostack, preserves_flags)) };
            write_register(context, decoded.op0_register(), id);
            nondeterministic(context, N::Rdpid)
        }
        Mnemonic::Rdpru => {
            let (low, high): (u64, u64);
            let which = context.registers.get(Gpr::Rcx);
            // SAFETY: reads counters selected by ecx.
            unsafe {
                asm!(".byte 0x0f, 0x01, 0xfd", in("ecx") which as u32, out("rax") low,
                    out("rdx") high, options(nomem, nostack));
            }
            context.registers.set(Gpr::Rax, low);
            context.registers.set(Gpr::Rdx, high);
            nondeterministic(context, N::Rdpru)
        }
        Mnemonic::Popf => pop_flags(context, 2),
        Mnemonic::Popfq => pop_flags(context, 8),
        Mnemonic::Iret => interrupt_return(context, 2),
        Mnemonic::Iretd => interrupt_return(context, 4),
        Mnemonic::Iretq => interrupt_return(context, 8),
        Mnemonic::Retf => far_return(context, decoded),
        _ if matches!(decoded.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32) => {
            narrow_branch(context, decoded)
        }
        Mnemonic::Jmp | Mnemonic::Call if is_narrow_indirect(decoded.code()) => {
            narrow_indirect(context, decoded)
        }
        Mnemonic::Ret => narrow_return(context, decoded),
        Mnemonic::Jmp | Mnemonic::Call => far_transfer(context, decoded),
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
        Mnemonic::Mov | Mnemonic::Push | Mnemonic::Pop => segment_move(context, decoded),
        Mnemonic::Fnstenv
        | Mnemonic::Fnsave
        | Mnemonic::Fxsave
        | Mnemonic::Fxsave64
        | Mnemonic::Xsave
        | Mnemonic::Xsave64
        | Mnemonic::Xsaveopt
        | Mnemonic::Xsaveopt64
        | Mnemonic::Xsavec
        | Mnemonic::Xsavec64 => correct_x87(context, decoded),
        // `int 0x80` reaches the kernel's 32-bit entry; 64-bit programs get the fault of a gate they may
        // not use.
        Mnemonic::Int => Err(Stop::Protection(decoded.immediate8() as u64 * 8 + 2)),
        Mnemonic::Lgs => load_far_gs(context, decoded),
        _ => Err(Stop::Undefined),
    }
}

fn nondeterministic(context: &mut Context, what: N) -> Done {
    let fixed = fixed();
    fixed.events.nondeterministic(context, what, fixed.stats);
    Ok(())
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
                Register::FS => sys_fs_base(),
                Register::GS => context.guest_gs_base,
                Register::ES | Register::CS | Register::SS | Register::DS => 0,
                _ => read_register(context, register),
            })
        })
        .unwrap_or(0)
}

fn sys_fs_base() -> u64 {
    let mut base = 0u64;
    let _ = sys::arch_prctl(sys::arch::GET_FS, &raw mut base as u64);
    base
}

/// cpuid as this machine answers it, less what the engine does not carry: transactional memory, which
/// would abort at every exit, protection keys and control-flow enforcement, whose state the engine would
/// have to switch, and user interrupts.
fn cpuid(context: &mut Context) {
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
}

fn rdtsc(context: &mut Context) {
    let (low, high): (u64, u64);
    // SAFETY: reads the clock.
    unsafe { asm!("rdtsc", out("rax") low, out("rdx") high, options(nomem, nostack)) };
    context.registers.set(Gpr::Rax, low);
    context.registers.set(Gpr::Rdx, high);
}

fn rdtscp(context: &mut Context) {
    let (low, high, id): (u64, u64, u64);
    // SAFETY: reads the clock and the processor id.
    unsafe {
        asm!("rdtscp", out("rax") low, out("rdx") high, out("rcx") id, options(nomem, nostack));
    }
    context.registers.set(Gpr::Rax, low);
    context.registers.set(Gpr::Rdx, high);
    context.registers.set(Gpr::Rcx, id);
}

fn random(context: &mut Context, decoded: &Instruction) -> Done {
    let seed = decoded.mnemonic() == Mnemonic::Rdseed;
    let value: u64;
    let carry: u8;
    // SAFETY: produce a number and the carry flag.
    unsafe {
        if seed {
            asm!("rdseed {}", "setc {}", out(reg) value, out(reg_byte) carry, options(nomem, nostack));
        } else {
            asm!("rdrand {}", "setc {}", out(reg) value, out(reg_byte) carry, options(nomem, nostack));
        }
    }
    let value = if carry == 0 { 0 } else { value };
    write_register(context, decoded.op0_register(), value);
    // Carry tells success; the other arithmetic flags are cleared.
    context.registers.rflags = context.registers.rflags & !0x8d5 | carry as u64;
    nondeterministic(context, if seed { N::Rdseed } else { N::Rdrand })
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

fn interrupt_return(context: &mut Context, width: u64) -> Done {
    // A nested task cannot return in 64-bit mode.
    const NESTED_TASK: u64 = 0x4000;
    if context.registers.rflags & NESTED_TASK != 0 {
        return Err(Stop::Protection(0));
    }
    let sp = context.registers.get(Gpr::Rsp);
    let mut words = [0u64; 5];
    for (at, word) in words.iter_mut().enumerate() {
        *word = read_bytes(sp.wrapping_add(width * at as u64), width)?;
    }
    let [rip, cs, flags, rsp, _] = words;
    check_code_segment(cs)?;
    context.registers.rip = rip;
    context.registers.set(Gpr::Rsp, rsp);
    set_flags(context, flags, !0);
    Ok(())
}

/// Far transfers stay in the one code segment that a 64-bit process has.
fn check_code_segment(selector: u64) -> Done {
    if selector & 0xffff == USER_CS { Ok(()) } else { Err(Stop::Protection(selector & 0xfffc)) }
}

fn read_bytes(address: u64, bytes: u64) -> Result<u64, Stop> {
    let mut value = [0u8; 8];
    guest::read(address, &mut value[..bytes as usize]).map_err(|_| Stop::Memory(address))?;
    Ok(u64::from_le_bytes(value))
}

fn far_return(context: &mut Context, decoded: &Instruction) -> Done {
    let (width, extra) = match decoded.code() {
        Code::Retfw => (2, 0),
        Code::Retfw_imm16 => (2, decoded.immediate16()),
        Code::Retfd => (4, 0),
        Code::Retfd_imm16 => (4, decoded.immediate16()),
        Code::Retfq => (8, 0),
        _ => (8, decoded.immediate16()),
    };
    let sp = context.registers.get(Gpr::Rsp);
    let rip = read_bytes(sp, width)?;
    check_code_segment(read_bytes(sp + width, width)?)?;
    context.registers.rip = rip;
    context.registers.set(Gpr::Rsp, sp + 2 * width + extra as u64);
    Ok(())
}

/// `jmp` and `call` through a far pointer in memory.
fn far_transfer(context: &mut Context, decoded: &Instruction) -> Done {
    let width = match decoded.code() {
        Code::Jmp_m1616 | Code::Call_m1616 => 2,
        Code::Jmp_m1632 | Code::Call_m1632 => 4,
        Code::Jmp_m1664 | Code::Call_m1664 => 8,
        _ => return Err(Stop::Undefined),
    };
    let address = address_of(context, decoded, 0);
    let rip = read_bytes(address, width)?;
    check_code_segment(read_bytes(address + width, 2)?)?;
    if decoded.mnemonic() == Mnemonic::Call {
        let sp = context.registers.get(Gpr::Rsp).wrapping_sub(2 * width);
        let len = width as usize;
        let back = context.registers.rip.to_le_bytes();
        let mut pushed = [0u8; 16];
        pushed[..len].copy_from_slice(&back[..len]);
        pushed[len..2 * len].copy_from_slice(&USER_CS.to_le_bytes()[..len]);
        store(sp, &pushed[..2 * len])?;
        context.registers.set(Gpr::Rsp, sp);
    }
    context.registers.rip = rip;
    Ok(())
}

/// `mov`, `push` and `pop` with GS: the selector is remembered, not loaded, because loading it would
/// change the engine's GS base.
fn segment_move(context: &mut Context, decoded: &Instruction) -> Done {
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
fn load_far_gs(context: &mut Context, decoded: &Instruction) -> Done {
    let address = address_of(context, decoded, 1);
    let width = decoded.op0_register().size() as u64;
    let value = read_bytes(address, width)?;
    let selector = read_bytes(address.wrapping_add(width), 2)?;
    load_gs(context, selector as u16)?;
    write_register(context, decoded.op0_register(), value);
    Ok(())
}

/// Near branches with an operand-size prefix, on processors where it truncates rip to 16 bits.
fn narrow_branch(context: &mut Context, decoded: &Instruction) -> Done {
    let mask = if decoded.op0_kind() == OpKind::NearBranch16 { 0xffff } else { 0xffff_ffff };
    let target = decoded.near_branch_target() & mask;
    let next = context.registers.rip;
    let taken = match decoded.mnemonic() {
        Mnemonic::Jmp => true,
        Mnemonic::Call => {
            let width = if mask == 0xffff { 2 } else { 4 };
            let sp = context.registers.get(Gpr::Rsp).wrapping_sub(width);
            store(sp, &next.to_le_bytes()[..width as usize])?;
            context.registers.set(Gpr::Rsp, sp);
            true
        }
        Mnemonic::Loop | Mnemonic::Loope | Mnemonic::Loopne => counted(context, decoded),
        Mnemonic::Jcxz => read_register(context, Register::CX) == 0,
        Mnemonic::Jecxz => read_register(context, Register::ECX) == 0,
        Mnemonic::Jrcxz => context.registers.get(Gpr::Rcx) == 0,
        _ => holds(decoded.condition_code(), context.registers.rflags),
    };
    context.registers.rip = if taken { target } else { next };
    Ok(())
}

fn is_narrow_indirect(code: Code) -> bool {
    matches!(code, Code::Jmp_rm16 | Code::Jmp_rm32 | Code::Call_rm16 | Code::Call_rm32)
}

/// `jmp` and `call` through a 16-bit register or word in memory.
fn narrow_indirect(context: &mut Context, decoded: &Instruction) -> Done {
    let width = if matches!(decoded.code(), Code::Jmp_rm16 | Code::Call_rm16) { 2 } else { 4 };
    let target = if decoded.op0_kind() == OpKind::Register {
        read_register(context, decoded.op0_register())
    } else {
        read_bytes(address_of(context, decoded, 0), width)?
    };
    if decoded.mnemonic() == Mnemonic::Call {
        let sp = context.registers.get(Gpr::Rsp).wrapping_sub(width);
        store(sp, &context.registers.rip.to_le_bytes()[..width as usize])?;
        context.registers.set(Gpr::Rsp, sp);
    }
    context.registers.rip = target;
    Ok(())
}

/// `ret` with an operand-size prefix.
fn narrow_return(context: &mut Context, decoded: &Instruction) -> Done {
    let (width, extra) = match decoded.code() {
        Code::Retnw => (2, 0),
        Code::Retnw_imm16 => (2, decoded.immediate16()),
        _ => return Err(Stop::Undefined),
    };
    let target = pop(context, width)?;
    let sp = context.registers.get(Gpr::Rsp).wrapping_add(extra as u64);
    context.registers.set(Gpr::Rsp, sp);
    context.registers.rip = target;
    Ok(())
}

/// Counts down and tells whether a `loop` goes on.
fn counted(context: &mut Context, decoded: &Instruction) -> bool {
    const ZERO: u64 = 0x40;
    // The count's width follows the address-size prefix, which iced shows in the code's name.
    let narrow = matches!(
        decoded.code(),
        Code::Loop_rel8_16_ECX | Code::Loope_rel8_16_ECX | Code::Loopne_rel8_16_ECX
    );
    let register = if narrow { Register::ECX } else { Register::RCX };
    let mask = if narrow { 0xffff_ffff } else { u64::MAX };
    let count = read_register(context, register).wrapping_sub(1) & mask;
    write_register(context, register, count);
    let zero = context.registers.rflags & ZERO != 0;
    count != 0
        && match decoded.mnemonic() {
            Mnemonic::Loope => zero,
            Mnemonic::Loopne => !zero,
            _ => true,
        }
}

/// Whether a condition holds for these flags.
fn holds(condition: ConditionCode, flags: u64) -> bool {
    let bit = |at: u32| flags >> at & 1 != 0;
    let (carry, parity, zero, sign, overflow) = (bit(0), bit(2), bit(6), bit(7), bit(11));
    match condition {
        ConditionCode::o => overflow,
        ConditionCode::no => !overflow,
        ConditionCode::b => carry,
        ConditionCode::ae => !carry,
        ConditionCode::e => zero,
        ConditionCode::ne => !zero,
        ConditionCode::be => carry || zero,
        ConditionCode::a => !carry && !zero,
        ConditionCode::s => sign,
        ConditionCode::ns => !sign,
        ConditionCode::p => parity,
        ConditionCode::np => !parity,
        ConditionCode::l => sign != overflow,
        ConditionCode::ge => sign == overflow,
        ConditionCode::le => zero || sign != overflow,
        ConditionCode::g => !zero && sign == overflow,
        ConditionCode::None => true,
    }
}

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

/// A cache address of which only the lower half was saved; anything else stays.
fn whole_cache_address(saved: u64) -> u64 {
    let whole = retro_abi::layout::CACHE_BASE & !0xffff_ffff | saved;
    if crate::cache::contains(whole) { whole } else { saved }
}

/// An x87 state image has just been stored by the instruction itself, in the cache. It holds the address of
/// the last x87 instruction, which was a cache address, and that instruction's opcode, which may have been
/// re-encoded: both become the guest's.
fn correct_x87(context: &mut Context, decoded: &Instruction) -> Done {
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
    if let (Some(place), Some(opcode)) = (opcode, x87_opcode_at(pc)) {
        guest::write(address + place, &opcode.to_le_bytes()).map_err(|_| Stop::Store(address))?;
    }
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
    let Ok(back) = guest::read_u64(context.registers.get(Gpr::Rsp)) else { return false };
    let registers = &mut context.registers;
    let args = [registers.get(Gpr::Rdi), registers.get(Gpr::Rsi), 0, 0, 0, 0];
    // SAFETY: these calls write only where the guest's pointers say; the kernel checks them.
    let value = unsafe { sys::syscall(number, args) };
    registers.set(Gpr::Rax, value);
    let sp = registers.get(Gpr::Rsp) + 8;
    registers.set(Gpr::Rsp, sp);
    registers.rip = back;
    true
}
