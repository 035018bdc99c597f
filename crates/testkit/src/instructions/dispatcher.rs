//! The guest's own code: loads a case's state, jumps into its body, writes down what came out.
//!
//! ```text
//! start      alternate stack, signal handlers
//! case       FS and GS base, xrstor, popf, sixteen loads, jmp [body]
//!   body     ... jmp exit
//! exit       sixteen stores, pushf, xsave, changed lines of the scratch area, write(1, record)
//! handler    siginfo and ucontext into the record; resumes at exit through rt_sigreturn
//! ```
//!
//! Every body runs [`PASSES`] times: the second time a translator finds its code translated and
//! linked. A case that raises a signal is recorded twice over, as the handler saw it and as
//! `rt_sigreturn` restored it.
//!
//! Invariants: between the last load and the body, and between the body and the first store, no
//! instruction changes a flag or a register; the scratch area equals its template at the start of
//! every case.

use super::cpu::Cpu;
use super::layout::{Layout, SCRATCH_SIZE};
use super::record::{
    FLAGS, FRAME_SIZE, FS_BASE, GENERAL_REGISTERS, GS_BASE, LENGTH, SIGNAL_INFO, SIGNALS, STATE,
    UCONTEXT,
};
use iced_x86::code_asm::*;
use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};

/// How often each case runs.
pub const PASSES: usize = 2;

/// Exit status: a second signal came while the first was being recorded.
pub const EXIT_NESTED_SIGNAL: i32 = 113;
/// Exit status: the record could not be written.
pub const EXIT_WRITE_FAILED: i32 = 112;

/// Bytes of the dispatcher's writable data.
pub const DATA_SIZE: u64 = 0x60000;
const CASE_SLOT: u64 = 0;
const INDEX_SLOT: u64 = 8;
const PASS_SLOT: u64 = 16;
const BODY_SLOT: u64 = 24;
const RECORD: u64 = 0x1000;
const STACK_TOP: u64 = 0x20000;
const SIGNAL_STACK: u64 = 0x20000;
const SIGNAL_STACK_SIZE: u64 = 0x20000;

/// Bytes of a case table entry: flags, 16 registers, FS base, GS base, body, state image.
pub const CASE_SIZE: u64 = 21 * 8;
const CASE_FS: u64 = 17 * 8;
const CASE_GS: u64 = 18 * 8;
const CASE_BODY: u64 = 19 * 8;
const CASE_STATE: u64 = 20 * 8;

const SYS_WRITE: u32 = 1;
const SYS_RT_SIGACTION: u32 = 13;
const SYS_RT_SIGRETURN: u32 = 15;
const SYS_SIGALTSTACK: u32 = 131;
const SYS_ARCH_PRCTL: u32 = 158;
const SYS_EXIT_GROUP: u32 = 231;
const ARCH_SET_GS: u32 = 0x1001;
const ARCH_SET_FS: u32 = 0x1002;
const ARCH_GET_FS: u32 = 0x1003;
const ARCH_GET_GS: u32 = 0x1004;

const UCONTEXT_REGISTERS: u64 = 40;
const UCONTEXT_RIP: u64 = 168;
const UCONTEXT_FLAGS: u64 = 176;
const UCONTEXT_FLOATING_POINT: u64 = 224;
const TRAP_FLAG: u32 = 0x100;

/// What the dispatcher needs to know of the guest.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// Where the parts lie.
    pub layout: Layout,
    /// Address of the case table.
    pub cases: u64,
    /// Entries in the case table.
    pub case_count: u64,
    /// Address of the scratch template.
    pub template: u64,
    /// Whether the cases use GS.
    pub uses_gs: bool,
}

/// The dispatcher's machine code.
#[derive(Clone, Debug)]
pub struct Dispatcher {
    /// Code for the start of the code segment; the entry point is its first byte.
    pub bytes: Vec<u8>,
    /// Where bodies go when they are done.
    pub exit: u64,
}

/// Assembles the dispatcher.
///
/// # Errors
/// Only if the assembler refuses an instruction.
pub fn dispatcher(cpu: &Cpu, parameters: Parameters) -> Result<Dispatcher, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let mut labels = Labels {
        next_pass: a.create_label(),
        next_case: a.create_label(),
        exit: a.create_label(),
        handler: a.create_label(),
        restorer: a.create_label(),
    };
    emit_start(&mut a, &mut labels, parameters)?;
    emit_load(&mut a, &mut labels, cpu, parameters)?;
    emit_exit(&mut a, &mut labels, cpu, parameters)?;
    emit_handler(&mut a, &mut labels, cpu, parameters)?;
    let options = iced_x86::BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
    let result = a.assemble_options(parameters.layout.code, options)?;
    let exit = result.label_ip(&labels.exit)?;
    Ok(Dispatcher { bytes: result.inner.code_buffer, exit })
}

struct Labels {
    next_pass: CodeLabel,
    next_case: CodeLabel,
    exit: CodeLabel,
    handler: CodeLabel,
    restorer: CodeLabel,
}

fn emit_start(
    a: &mut CodeAssembler,
    labels: &mut Labels,
    parameters: Parameters,
) -> Result<(), IcedError> {
    let data = parameters.layout.data;
    a.mov(rsp, data + STACK_TOP)?;
    // stack_t { sp, flags, size }
    a.mov(rax, SIGNAL_STACK_SIZE)?;
    a.push(rax)?;
    a.push(0)?;
    a.mov(rax, data + SIGNAL_STACK)?;
    a.push(rax)?;
    a.mov(rdi, rsp)?;
    a.xor(esi, esi)?;
    a.mov(eax, SYS_SIGALTSTACK)?;
    a.syscall()?;
    // kernel_sigaction { handler, flags, restorer, mask }
    let flags =
        libc::SA_SIGINFO as u64 | libc::SA_ONSTACK as u64 | libc::SA_NODEFER as u64 | 0x0400_0000;
    a.push(0)?;
    a.lea(rax, ptr(labels.restorer))?;
    a.push(rax)?;
    a.mov(rax, flags)?;
    a.push(rax)?;
    a.lea(rax, ptr(labels.handler))?;
    a.push(rax)?;
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP] {
        a.mov(edi, signal)?;
        a.mov(rsi, rsp)?;
        a.xor(edx, edx)?;
        a.mov(r10d, 8)?;
        a.mov(eax, SYS_RT_SIGACTION)?;
        a.syscall()?;
    }
    // Populated pages: a fault's error code says whether the page was present.
    let Layout { scratch, read_only, .. } = parameters.layout;
    for page in [scratch, scratch + SCRATCH_SIZE / 2, read_only] {
        a.mov(rax, page)?;
        a.mov(rax, qword_ptr(rax))?;
    }
    for page in [scratch, scratch + SCRATCH_SIZE / 2] {
        a.mov(rax, page)?;
        a.lock().add(qword_ptr(rax), 0)?;
    }
    a.mov(r12, data)?;
    a.mov(qword_ptr(r12 + PASS_SLOT), PASSES as i32)?;
    a.set_label(&mut labels.next_pass)?;
    a.mov(r12, data)?;
    a.mov(rax, parameters.cases)?;
    a.mov(qword_ptr(r12 + CASE_SLOT), rax)?;
    a.mov(qword_ptr(r12 + INDEX_SLOT), 0)?;
    Ok(())
}

fn emit_load(
    a: &mut CodeAssembler,
    labels: &mut Labels,
    cpu: &Cpu,
    parameters: Parameters,
) -> Result<(), IcedError> {
    let data = parameters.layout.data;
    a.set_label(&mut labels.next_case)?;
    a.mov(r12, data)?;
    a.mov(rbx, qword_ptr(r12 + CASE_SLOT))?;
    a.mov(qword_ptr(r12 + RECORD + SIGNALS), 0)?;
    if parameters.uses_gs {
        a.mov(edi, ARCH_SET_GS)?;
        a.mov(rsi, qword_ptr(rbx + CASE_GS))?;
        a.mov(eax, SYS_ARCH_PRCTL)?;
        a.syscall()?;
    }
    if cpu.has_fsgsbase {
        a.mov(rax, qword_ptr(rbx + CASE_FS))?;
        a.wrfsbase(rax)?;
    } else {
        a.mov(edi, ARCH_SET_FS)?;
        a.mov(rsi, qword_ptr(rbx + CASE_FS))?;
        a.mov(eax, SYS_ARCH_PRCTL)?;
        a.syscall()?;
    }
    a.mov(rax, qword_ptr(rbx + CASE_BODY))?;
    a.mov(qword_ptr(r12 + BODY_SLOT), rax)?;
    a.mov(rcx, qword_ptr(rbx + CASE_STATE))?;
    a.mov(eax, cpu.components as u32)?;
    a.xor(edx, edx)?;
    a.xrstor64(ptr(rcx))?;
    // The table entry as a stack: popf takes the flags and leaves rsp at the registers.
    a.mov(rsp, rbx)?;
    a.popfq()?;
    let registers = [rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15];
    for (number, &register) in registers.iter().enumerate() {
        if register != rsp {
            a.mov(register, qword_ptr(rsp + 8 * number as u64))?;
        }
    }
    a.mov(rsp, qword_ptr(rsp + 8 * 4u64))?;
    let body = MemoryOperand::with_base_displ_size(Register::RIP, (data + BODY_SLOT) as i64, 8);
    a.add_instruction(Instruction::with1(Code::Jmp_rm64, body)?)?;
    Ok(())
}

fn emit_exit(
    a: &mut CodeAssembler,
    labels: &mut Labels,
    cpu: &Cpu,
    parameters: Parameters,
) -> Result<(), IcedError> {
    let Layout { data, scratch, .. } = parameters.layout;
    let record = data + RECORD;
    a.set_label(&mut labels.exit)?;
    // The one store that needs no register for its address.
    let first = MemoryOperand::with_displ(record + GENERAL_REGISTERS, 8);
    a.add_instruction(Instruction::with2(Code::Mov_moffs64_RAX, first, Register::RAX)?)?;
    a.mov(rax, record)?;
    let others = [rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15];
    for (number, &register) in others.iter().enumerate() {
        a.mov(qword_ptr(rax + GENERAL_REGISTERS + 8 * (number as u64 + 1)), register)?;
    }
    a.mov(rbx, rax)?;
    a.mov(rsp, data + STACK_TOP)?;
    a.pushfq()?;
    a.pop(qword_ptr(rbx + FLAGS))?;
    a.push(0x202)?;
    a.popfq()?;
    a.mov(eax, cpu.components as u32)?;
    a.xor(edx, edx)?;
    a.xsave64(ptr(rbx + STATE))?;
    if cpu.has_fsgsbase {
        a.rdfsbase(rax)?;
        a.mov(qword_ptr(rbx + FS_BASE), rax)?;
    } else {
        a.mov(edi, ARCH_GET_FS)?;
        a.lea(rsi, ptr(rbx + FS_BASE))?;
        a.mov(eax, SYS_ARCH_PRCTL)?;
        a.syscall()?;
    }
    if parameters.uses_gs {
        a.mov(edi, ARCH_GET_GS)?;
        a.lea(rsi, ptr(rbx + GS_BASE))?;
        a.mov(eax, SYS_ARCH_PRCTL)?;
        a.syscall()?;
    }
    a.mov(r12, data)?;
    a.mov(rax, qword_ptr(r12 + INDEX_SLOT))?;
    a.mov(qword_ptr(rbx), rax)?;
    emit_changed_lines(a, cpu, scratch, parameters.template)?;
    // rdi is one past the record.
    a.mov(rdx, rdi)?;
    a.sub(rdx, rbx)?;
    a.mov(qword_ptr(rbx + LENGTH), rdx)?;
    a.mov(edi, 1)?;
    a.mov(rsi, rbx)?;
    a.mov(eax, SYS_WRITE)?;
    a.syscall()?;
    let mut written = a.create_label();
    a.cmp(rax, qword_ptr(rbx + LENGTH))?;
    a.je(written)?;
    emit_exit_group(a, EXIT_WRITE_FAILED)?;
    a.set_label(&mut written)?;
    a.mov(r12, data)?;
    a.add(qword_ptr(r12 + CASE_SLOT), CASE_SIZE as i32)?;
    a.inc(qword_ptr(r12 + INDEX_SLOT))?;
    a.cmp(qword_ptr(r12 + INDEX_SLOT), parameters.case_count as i32)?;
    a.jne(labels.next_case)?;
    a.dec(qword_ptr(r12 + PASS_SLOT))?;
    a.jne(labels.next_pass)?;
    emit_exit_group(a, 0)
}

/// Appends the signal frame's floating-point state, if any, and every 64-byte line of the scratch
/// area that differs from the template; restores those lines. Leaves rdi at the end of the record.
fn emit_changed_lines(
    a: &mut CodeAssembler,
    cpu: &Cpu,
    scratch: u64,
    template: u64,
) -> Result<(), IcedError> {
    let mut next_line = a.create_label();
    let mut next_word = a.create_label();
    let mut changed = a.create_label();
    let mut done = a.create_label();
    let mut no_frame = a.create_label();
    let variable = STATE + cpu.area_size as u64;
    a.lea(rdi, ptr(rbx + variable))?;
    a.cmp(qword_ptr(rbx + SIGNALS), 0)?;
    a.je(no_frame)?;
    // The handler has put the frame's state there already.
    a.add(rdi, cpu.area_size as i32)?;
    a.set_label(&mut no_frame)?;
    a.mov(r8, scratch)?;
    a.mov(r9, template)?;
    a.xor(r10d, r10d)?;
    a.set_label(&mut next_line)?;
    a.xor(ecx, ecx)?;
    a.set_label(&mut next_word)?;
    a.mov(rax, qword_ptr(r8 + rcx * 8))?;
    a.cmp(rax, qword_ptr(r9 + rcx * 8))?;
    a.jne(changed)?;
    a.inc(ecx)?;
    a.cmp(ecx, 8)?;
    a.jne(next_word)?;
    a.set_label(&mut done)?;
    a.add(r8, 64)?;
    a.add(r9, 64)?;
    a.inc(r10d)?;
    a.cmp(r10d, (SCRATCH_SIZE / 64) as i32)?;
    a.jne(next_line)?;
    let mut end = a.create_label();
    a.jmp(end)?;
    a.set_label(&mut changed)?;
    a.mov(qword_ptr(rdi), r10)?;
    for word in 0..8 {
        a.mov(rax, qword_ptr(r8 + 8 * word))?;
        a.mov(qword_ptr(rdi + 8 + 8 * word), rax)?;
        a.mov(rax, qword_ptr(r9 + 8 * word))?;
        a.mov(qword_ptr(r8 + 8 * word), rax)?;
    }
    a.add(rdi, 72)?;
    a.jmp(done)?;
    a.set_label(&mut end)?;
    Ok(())
}

/// rdi: signal, rsi: siginfo, rdx: ucontext.
fn emit_handler(
    a: &mut CodeAssembler,
    labels: &mut Labels,
    cpu: &Cpu,
    parameters: Parameters,
) -> Result<(), IcedError> {
    let record = parameters.layout.data + RECORD;
    let mut first = a.create_label();
    a.set_label(&mut labels.handler)?;
    a.mov(rbx, record)?;
    a.inc(qword_ptr(rbx + SIGNALS))?;
    a.cmp(qword_ptr(rbx + SIGNALS), 1)?;
    a.je(first)?;
    emit_exit_group(a, EXIT_NESTED_SIGNAL)?;
    a.set_label(&mut first)?;
    a.cld()?;
    a.lea(rdi, ptr(rbx + SIGNAL_INFO))?;
    a.mov(ecx, 32)?;
    a.rep().movsb()?;
    a.lea(rsi, ptr(rdx + UCONTEXT_REGISTERS))?;
    a.lea(rdi, ptr(rbx + UCONTEXT))?;
    a.mov(ecx, FRAME_SIZE as u32)?;
    a.rep().movsb()?;
    a.mov(rsi, qword_ptr(rdx + UCONTEXT_FLOATING_POINT))?;
    a.lea(rdi, ptr(rbx + STATE + cpu.area_size as u64))?;
    a.mov(ecx, cpu.area_size as u32)?;
    a.rep().movsb()?;
    a.lea(rax, ptr(labels.exit))?;
    a.mov(qword_ptr(rdx + UCONTEXT_RIP), rax)?;
    a.and(dword_ptr(rdx + UCONTEXT_FLAGS), !TRAP_FLAG as i32)?;
    a.ret()?;
    a.set_label(&mut labels.restorer)?;
    a.mov(eax, SYS_RT_SIGRETURN)?;
    a.syscall()?;
    Ok(())
}

fn emit_exit_group(a: &mut CodeAssembler, status: i32) -> Result<(), IcedError> {
    a.mov(edi, status)?;
    a.mov(eax, SYS_EXIT_GROUP)?;
    a.syscall()?;
    a.ud2()?;
    Ok(())
}
