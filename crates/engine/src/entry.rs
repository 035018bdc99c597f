//! The border between guest and engine, in assembly.
//!
//! - `retro_asm_exit_*`: from the code cache into the engine. Saves the guest's integer registers in
//!   the context, switches to the engine's stack and calls [`retro_dispatch`].
//! - `retro_asm_enter`: the way back. Restartable: a signal anywhere in it rewinds to its start, so
//!   that a pending signal is never overlooked.
//! - `retro_asm_jump_miss`: second-level look-up of indirect branch targets, without leaving for Rust.
//! - `retro_asm_guest_syscall`: a system call on the guest's behalf with a known point of no return.
//! - `retro_asm_copy`: copies memory that may fault.
//!
//! The signal handler recognises where it interrupted the thread by the `region` addresses below.

use crate::context::{Context, ExitKind, JUMP_TABLE, register_offset, slot, spill_offset};
use crate::gs_offset;
use core::arch::{asm, global_asm};
use linux_raw_sys::general as c;

/// Entries of a second-level branch table.
pub const LOOKUP_ENTRIES: usize = 1 << 18;

/// How many neighbouring entries a look-up probes.
pub const LOOKUP_PROBES: usize = 4;

/// Guest addresses that differ only below this bit share a hash: neighbouring code then shares the
/// table's pages, and a short-lived process touches few of them.
pub const LOOKUP_GRAIN: u32 = 4;

/// The second-level hash: folds the module's place into the offset within it.
pub fn lookup_index(guest: u64) -> usize {
    let grains = guest >> LOOKUP_GRAIN;
    (grains ^ grains >> LOOKUP_ENTRIES.trailing_zeros()) as usize & (LOOKUP_ENTRIES - 1)
}

/// One entry of a second-level table: a guest address and the cache address of its entry stub.
/// Written by the lock's holder, read by assembly; a stub checks the address again, so a torn pair
/// is harmless.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LookupEntry {
    /// Guest address.
    pub guest: u64,
    /// Cache address.
    pub cache: u64,
}

/// What a syscall returns to the engine when a signal came before it could begin, or when the
/// kernel would restart it after a handler. The kernel never shows this number to user space.
pub const RESTART: u64 = (-512i64) as u64;

// Saves the guest's integer registers, then runs the engine on its own stack.
global_asm!(
    ".section .text.retro_asm, \"ax\", @progbits",
    // Indirect exits: rcx holds the target; the guest's rcx and rdx are spilled.
    ".globl retro_asm_jump_miss",
    ".balign 16",
    "retro_asm_jump_miss:",
    "mov gs:[{spill_rax}], rax",
    "lahf",
    "seto al",
    "mov gs:[{spill_flags}], rax",
    "mov rdx, rcx",
    "mov rax, rcx",
    "shr rdx, {grain}",
    "shr rax, {grain} + {bits}",
    "xor edx, eax",
    "and edx, {mask}",
    "shl edx, 4",
    "lea rax, [rip + {jump_lookup}]",
    "add rdx, rax",
    // Address 0 marks free entries; a jump there is the engine's to report.
    "jrcxz 5f",
    ".rept {probes}",
    "cmp [rdx], rcx",
    "je 2f",
    "add rdx, 16",
    ".endr",
    "5:",
    "mov rax, gs:[{spill_flags}]",
    "add al, 0x7f",
    "sahf",
    "mov rax, gs:[{spill_rax}]",
    // Indirect exits that are not to be looked up.
    ".globl retro_asm_exit_indirect",
    "retro_asm_exit_indirect:",
    "mov gs:[{exit_target}], rcx",
    "mov rcx, gs:[{spill_rcx}]",
    "mov rdx, gs:[{spill_rdx}]",
    "mov dword ptr gs:[{exit_kind}], {kind_indirect}",
    "jmp retro_asm_exit_common",
    "2:",
    "mov rdx, [rdx + 8]",
    "movzx eax, cx",
    "mov gs:[rax*8 + {jump_table}], rdx",
    "mov rax, gs:[{spill_flags}]",
    "add al, 0x7f",
    "sahf",
    "mov rax, gs:[{spill_rax}]",
    "jmp rdx",
    // Exits that set `exit_index` before they come here.
    ".globl retro_asm_jump_miss_end",
    "retro_asm_jump_miss_end:",
    ".globl retro_asm_exit_syscall",
    "retro_asm_exit_syscall:",
    "mov dword ptr gs:[{exit_kind}], {kind_syscall}",
    "jmp retro_asm_exit_common",
    ".globl retro_asm_exit_emulate",
    "retro_asm_exit_emulate:",
    "mov dword ptr gs:[{exit_kind}], {kind_emulate}",
    "jmp retro_asm_exit_common",
    ".globl retro_asm_exit_modified",
    "retro_asm_exit_modified:",
    "mov dword ptr gs:[{exit_kind}], {kind_modified}",
    "jmp retro_asm_exit_common",
    ".globl retro_asm_exit_mismatch",
    "retro_asm_exit_mismatch:",
    "mov dword ptr gs:[{exit_kind}], {kind_mismatch}",
    "jmp retro_asm_exit_common",
    ".globl retro_asm_exit_deadline",
    "retro_asm_exit_deadline:",
    "mov dword ptr gs:[{exit_kind}], {kind_deadline}",
    "jmp retro_asm_exit_common",
    ".globl retro_asm_exit_before_access",
    "retro_asm_exit_before_access:",
    "mov dword ptr gs:[{exit_kind}], {kind_before_access}",
    "jmp retro_asm_exit_common",
    ".globl retro_asm_exit_after_access",
    "retro_asm_exit_after_access:",
    "mov dword ptr gs:[{exit_kind}], {kind_after_access}",
    "jmp retro_asm_exit_common",
    ".globl retro_asm_exit_direct",
    "retro_asm_exit_direct:",
    "mov dword ptr gs:[{exit_kind}], {kind_direct}",
    "retro_asm_exit_common:",
    "mov gs:[{rax}], rax",
    "mov gs:[{rcx}], rcx",
    "mov gs:[{rdx}], rdx",
    "mov gs:[{rbx}], rbx",
    "mov gs:[{rsp}], rsp",
    "mov gs:[{rbp}], rbp",
    "mov gs:[{rsi}], rsi",
    "mov gs:[{rdi}], rdi",
    "mov gs:[{r8}], r8",
    "mov gs:[{r9}], r9",
    "mov gs:[{r10}], r10",
    "mov gs:[{r11}], r11",
    "mov gs:[{r12}], r12",
    "mov gs:[{r13}], r13",
    "mov gs:[{r14}], r14",
    "mov gs:[{r15}], r15",
    "mov rsp, gs:[{engine_stack}]",
    "pushfq",
    "pop rax",
    // The trap flag is the engine's when it is set here (stepping to a boundary).
    "and eax, {without_trap_flag}",
    "mov gs:[{rflags}], rax",
    // Engine code wants direction and alignment check clear.
    "test eax, 0x40400",
    "jz 3f",
    "push 2",
    "popfq",
    "3:",
    ".globl retro_asm_call_engine",
    "retro_asm_call_engine:",
    "mov rdi, gs:[{me}]",
    "call {dispatch}",
    // Restartable from here to `retro_asm_enter_end`.
    ".globl retro_asm_enter",
    "retro_asm_enter:",
    // An exchange, because this store must be visible before `pending` is read.
    "mov eax, 1",
    "xchg gs:[{in_cache}], eax",
    "cmp dword ptr gs:[{pending}], 0",
    "jne 4f",
    "5:",
    "push qword ptr gs:[{rflags}]",
    "popfq",
    "mov rax, gs:[{rax}]",
    "mov rcx, gs:[{rcx}]",
    "mov rdx, gs:[{rdx}]",
    "mov rbx, gs:[{rbx}]",
    "mov rbp, gs:[{rbp}]",
    "mov rsi, gs:[{rsi}]",
    "mov rdi, gs:[{rdi}]",
    "mov r8, gs:[{r8}]",
    "mov r9, gs:[{r9}]",
    "mov r10, gs:[{r10}]",
    "mov r11, gs:[{r11}]",
    "mov r12, gs:[{r12}]",
    "mov r13, gs:[{r13}]",
    "mov r14, gs:[{r14}]",
    "mov r15, gs:[{r15}]",
    "mov rsp, gs:[{rsp}]",
    "jmp qword ptr gs:[{enter_target}]",
    "4:",
    // A thread that steps to the next boundary is stopped there.
    "cmp dword ptr gs:[{stepping}], 0",
    "jne 5b",
    "mov dword ptr gs:[{exit_kind}], {kind_continue}",
    "jmp retro_asm_call_engine",
    ".globl retro_asm_enter_end",
    "retro_asm_enter_end:",
    ".globl retro_asm_from_handler",
    "retro_asm_from_handler:",
    "mov rsp, gs:[{engine_stack}]",
    "jmp retro_asm_call_engine",
    spill_rcx = const spill_offset(slot::BRANCH_RCX),
    spill_rdx = const spill_offset(slot::BRANCH_RDX),
    spill_rax = const spill_offset(slot::LOOKUP_RAX),
    spill_flags = const spill_offset(slot::LOOKUP_FLAGS),
    grain = const LOOKUP_GRAIN,
    bits = const LOOKUP_ENTRIES.trailing_zeros(),
    mask = const LOOKUP_ENTRIES - 1,
    probes = const LOOKUP_PROBES,
    jump_lookup = sym crate::cache::lookup::JUMP_LOOKUP,
    jump_table = const JUMP_TABLE,
    exit_target = const gs_offset!(exit_target),
    exit_kind = const gs_offset!(exit_kind),
    kind_direct = const ExitKind::Direct as u32,
    kind_indirect = const ExitKind::Indirect as u32,
    kind_syscall = const ExitKind::Syscall as u32,
    kind_emulate = const ExitKind::Emulate as u32,
    kind_continue = const ExitKind::Continue as u32,
    kind_modified = const ExitKind::ModifiedCode as u32,
    kind_mismatch = const ExitKind::Mismatch as u32,
    kind_deadline = const ExitKind::Deadline as u32,
    kind_before_access = const ExitKind::BeforeAccess as u32,
    kind_after_access = const ExitKind::AfterAccess as u32,
    stepping = const gs_offset!(stepping),
    without_trap_flag = const !0x100i32,
    rax = const register_offset(0),
    rcx = const register_offset(1),
    rdx = const register_offset(2),
    rbx = const register_offset(3),
    rsp = const register_offset(4),
    rbp = const register_offset(5),
    rsi = const register_offset(6),
    rdi = const register_offset(7),
    r8 = const register_offset(8),
    r9 = const register_offset(9),
    r10 = const register_offset(10),
    r11 = const register_offset(11),
    r12 = const register_offset(12),
    r13 = const register_offset(13),
    r14 = const register_offset(14),
    r15 = const register_offset(15),
    rflags = const gs_offset!(registers.rflags),
    engine_stack = const gs_offset!(engine_stack),
    enter_target = const gs_offset!(enter_target),
    pending = const gs_offset!(pending),
    in_cache = const gs_offset!(thread.in_cache),
    me = const gs_offset!(me),
    dispatch = sym crate::dispatch::retro_dispatch,
);

// Guest system calls: rdi = number, rsi = six arguments.
global_asm!(
    ".section .text.retro_asm, \"ax\", @progbits",
    ".globl retro_asm_guest_syscall",
    "retro_asm_guest_syscall:",
    "mov rax, rdi",
    "mov r11, rsi",
    "mov rdi, [r11]",
    "mov rsi, [r11 + 8]",
    "mov rdx, [r11 + 16]",
    "mov r10, [r11 + 24]",
    "mov r8, [r11 + 32]",
    "mov r9, [r11 + 40]",
    ".globl retro_asm_syscall_check",
    "retro_asm_syscall_check:",
    // A kick must not show as an interrupted system call.
    "test dword ptr gs:[{pending}], {interrupting}",
    "jnz retro_asm_syscall_interrupted",
    ".globl retro_asm_syscall_instruction",
    "retro_asm_syscall_instruction:",
    "syscall",
    ".globl retro_asm_syscall_done",
    "retro_asm_syscall_done:",
    "ret",
    ".globl retro_asm_syscall_interrupted",
    "retro_asm_syscall_interrupted:",
    "mov rax, {restart}",
    "ret",
    // A clone that shares memory: rdi = number, rsi = six arguments, rdx = the child's context.
    // The child never returns; it starts on the stack given in the arguments.
    ".globl retro_asm_clone",
    "retro_asm_clone:",
    "push r12",
    "mov r12, rdx",
    "mov rax, rdi",
    "mov r11, rsi",
    "mov rdi, [r11]",
    "mov rsi, [r11 + 8]",
    "mov rdx, [r11 + 16]",
    "mov r10, [r11 + 24]",
    "mov r8, [r11 + 32]",
    "mov r9, [r11 + 40]",
    "syscall",
    ".globl retro_asm_clone_done",
    "retro_asm_clone_done:",
    "test rax, rax",
    "jz 2f",
    "pop r12",
    "ret",
    "2:",
    "xor ebp, ebp",
    "and rsp, -16",
    "mov rdi, r12",
    "call {thread_start}",
    "ud2",
    // Ends a thread whose context somebody else may reuse at once: after the store nothing but
    // registers is touched. rdi = exit code, rsi = the state word of the context.
    ".globl retro_asm_thread_exit",
    "retro_asm_thread_exit:",
    "mov dword ptr [rsi], 0",
    "mov eax, 60",
    "syscall",
    "ud2",
    // Copies rdx bytes from rsi to rdi; returns how many could not be copied.
    ".globl retro_asm_copy",
    "retro_asm_copy:",
    "mov rcx, rdx",
    "rep movsb",
    ".globl retro_asm_copy_end",
    "retro_asm_copy_end:",
    "mov rax, rcx",
    "ret",
    // xsave to / xrstor from rdi with feature mask rsi; xrstor returns 0, or 1 after a fault.
    ".globl retro_asm_xsave",
    "retro_asm_xsave:",
    "mov eax, esi",
    "mov rdx, rsi",
    "shr rdx, 32",
    "xsave64 [rdi]",
    "ret",
    ".globl retro_asm_xrstor",
    "retro_asm_xrstor:",
    "mov eax, esi",
    "mov rdx, rsi",
    "shr rdx, 32",
    ".globl retro_asm_xrstor_instruction",
    "retro_asm_xrstor_instruction:",
    "xrstor64 [rdi]",
    "xor eax, eax",
    "ret",
    ".globl retro_asm_xrstor_fault",
    "retro_asm_xrstor_fault:",
    "mov eax, 1",
    "ret",
    ".globl retro_asm_fldenv",
    "retro_asm_fldenv:",
    "fldenv [rdi]",
    "ret",
    // Stops for a tracer.
    ".globl retro_asm_announce",
    "retro_asm_announce:",
    "int3",
    ".globl retro_asm_announced",
    "retro_asm_announced:",
    "ret",
    ".globl retro_asm_signal_restorer",
    "retro_asm_signal_restorer:",
    "mov eax, 15",
    "syscall",
    ".globl retro_asm_start",
    "retro_asm_start:",
    "mov rsp, gs:[{engine_stack}]",
    "xor ebp, ebp",
    "jmp retro_asm_call_engine",
    pending = const gs_offset!(pending),
    interrupting = const (crate::signals::PENDING_SIGNAL | crate::signals::PENDING_STOP),
    restart = const RESTART as i64,
    thread_start = sym crate::threads::retro_thread_start,
    engine_stack = const gs_offset!(engine_stack),
);

// What a fresh branch table holds. Threads map it privately from the image, so that an unused part
// of a table costs no memory and no time.
#[cfg(feature = "image")]
global_asm!(
    ".section .data.rel.ro.retro_tables, \"aw\", @progbits",
    ".balign 4096",
    ".globl retro_table_template",
    "retro_table_template:",
    ".rept {entries}",
    ".quad retro_asm_jump_miss",
    ".endr",
    ".text",
    entries = const crate::context::BRANCH_TABLE_ENTRIES,
);

unsafe extern "C" {
    fn retro_asm_jump_miss();
    fn retro_asm_jump_miss_end();
    fn retro_asm_exit_indirect();
    fn retro_asm_exit_syscall();
    fn retro_asm_exit_emulate();
    fn retro_asm_exit_modified();
    fn retro_asm_exit_direct();
    fn retro_asm_exit_mismatch();
    fn retro_asm_exit_deadline();
    fn retro_asm_exit_before_access();
    fn retro_asm_exit_after_access();
    fn retro_asm_enter();
    fn retro_asm_enter_end();
    fn retro_asm_from_handler();
    fn retro_asm_guest_syscall(number: u64, args: *const [u64; 6]) -> u64;
    fn retro_asm_syscall_check();
    fn retro_asm_syscall_instruction();
    fn retro_asm_syscall_interrupted();
    fn retro_asm_syscall_done();
    fn retro_asm_clone(number: u64, args: *const [u64; 6], child: *mut core::ffi::c_void) -> u64;
    fn retro_asm_thread_exit(code: u64, state: *const core::sync::atomic::AtomicU32) -> !;
    fn retro_asm_copy(to: *mut u8, from: *const u8, len: usize) -> usize;
    fn retro_asm_copy_end();
    fn retro_asm_xsave(area: *mut u8, mask: u64);
    fn retro_asm_xrstor(area: *const u8, mask: u64) -> u64;
    fn retro_asm_xrstor_instruction();
    fn retro_asm_fldenv(environment: *const u32);
    fn retro_asm_xrstor_fault();
    fn retro_asm_clone_done();
    fn retro_asm_announce(context: *mut core::ffi::c_void);
    fn retro_asm_announced();
    fn retro_asm_signal_restorer();
    fn retro_asm_start() -> !;
    #[cfg(feature = "image")]
    static retro_table_template: [u64; crate::context::BRANCH_TABLE_ENTRIES];
}

/// Addresses of the assembly above that emitted code jumps to.
pub mod target {
    macro_rules! address {
        ($($(#[doc = $doc:literal])* $name:ident = $symbol:ident;)*) => {
            $($(#[doc = $doc])* pub fn $name() -> u64 { super::$symbol as *const () as u64 })*
        };
    }
    address! {
        /// Look-up of jump targets.
        jump_miss = retro_asm_jump_miss;
        /// Exit of an indirect branch.
        exit_indirect = retro_asm_exit_indirect;
        /// Exit at a syscall.
        exit_syscall = retro_asm_exit_syscall;
        /// Exit to emulate.
        exit_emulate = retro_asm_exit_emulate;
        /// Exit for modified code.
        exit_modified = retro_asm_exit_modified;
        /// Exit of an unlinked direct branch.
        exit_direct = retro_asm_exit_direct;
        /// Exit of a load that found memory and shadow different.
        exit_mismatch = retro_asm_exit_mismatch;
        /// Exit of the clock.
        exit_deadline = retro_asm_exit_deadline;
        /// Exit before an access that the engine follows.
        exit_before_access = retro_asm_exit_before_access;
        /// Exit behind it.
        exit_after_access = retro_asm_exit_after_access;
        /// Where the signal handler sends a thread that must enter the engine.
        from_handler = retro_asm_from_handler;
        /// The restorer of the engine's own signal handlers.
        signal_restorer = retro_asm_signal_restorer;
        /// Restart point of the way into the cache.
        enter = retro_asm_enter;
        /// Right behind the instruction that makes threads.
        clone_done = retro_asm_clone_done;
        /// Right behind the instruction that stops for a tracer.
        announced = retro_asm_announced;
        /// Right behind the instruction that makes the guest's syscalls.
        syscall_done = retro_asm_syscall_done;
        /// Where an interrupted guest syscall goes.
        syscall_interrupted = retro_asm_syscall_interrupted;
    }
}

/// What the engine was doing at an address, as far as a signal handler cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// On the way into the cache: rewind to [`target::enter`].
    Entering,
    /// Looking a branch target up, on behalf of the cache: it may go back there without the engine.
    LookingUp,
    /// Before the point of no return of a guest syscall: go to [`target::syscall_interrupted`].
    BeforeSyscall,
    /// Right behind a guest syscall, with its result in rax.
    AfterSyscall,
    /// In [`copy`]: on a fault, go to the returned address.
    Copying(u64),
    /// In [`restore_vectors`]: on a fault, go to the returned address.
    Restoring(u64),
    /// In an instruction that may trap on behalf of the guest: go to the returned address with the trap's number.
    Probing(u64),
    /// Anywhere else.
    Other,
}

/// Classifies an engine address.
pub fn region(pc: u64) -> Region {
    let at = |f: unsafe extern "C" fn()| f as *const () as u64;
    let copy = retro_asm_copy as *const () as u64;
    if (at(retro_asm_enter)..at(retro_asm_enter_end)).contains(&pc) {
        Region::Entering
    } else if (at(retro_asm_jump_miss)..at(retro_asm_jump_miss_end)).contains(&pc) {
        Region::LookingUp
    } else if (at(retro_asm_syscall_check)..=at(retro_asm_syscall_instruction)).contains(&pc) {
        Region::BeforeSyscall
    } else if pc == at(retro_asm_syscall_done) {
        Region::AfterSyscall
    } else if (copy..at(retro_asm_copy_end)).contains(&pc) {
        Region::Copying(at(retro_asm_copy_end))
    } else if pc == at(retro_asm_xrstor_instruction) {
        Region::Restoring(at(retro_asm_xrstor_fault))
    } else if let Some(after) = crate::emulate::machine::after_trap(pc) {
        Region::Probing(after)
    } else {
        Region::Other
    }
}

/// The initial contents of a thread's branch tables, in the engine image.
#[cfg(feature = "image")]
pub fn table_template() -> u64 {
    &raw const retro_table_template as u64
}

/// Executes a system call for the guest; [`RESTART`] means that it has not happened because a
/// signal wants delivery first.
///
/// # Safety
/// The call must not damage the engine's memory.
pub unsafe fn guest_syscall(number: u64, args: &[u64; 6]) -> u64 {
    // SAFETY: the assembly reads the six arguments and makes the call; the rest is the caller's.
    unsafe { retro_asm_guest_syscall(number, args) }
}

/// `clone` or `clone3` with shared memory: the child starts in `retro_thread_start(child)`.
///
/// # Safety
/// The arguments must name a stack of the child's own, and `child` must be a ready context.
pub unsafe fn clone(number: u64, args: &[u64; 6], child: *mut Context) -> u64 {
    // SAFETY: passed on.
    unsafe { retro_asm_clone(number, args, child.cast()) }
}

/// Ends the thread after giving up its context.
///
/// # Safety
/// All signals must be blocked: there is no stack for a handler after the store.
pub unsafe fn thread_exit(code: u64, state: *const core::sync::atomic::AtomicU32) -> ! {
    // SAFETY: passed on.
    unsafe { retro_asm_thread_exit(code, state) }
}

/// Stops the thread for its tracer, who reads and writes its context meanwhile. If there is no tracer any more, the
/// signal handler takes note.
pub fn announce(context: &mut Context) {
    // SAFETY: the assembly touches nothing; what the tracer's engine writes to the context is valid there.
    unsafe { retro_asm_announce(core::ptr::from_mut(context).cast()) }
}

/// Copies memory of which one side may be the guest's and may fault; returns how many bytes could
/// not be copied.
///
/// # Safety
/// The engine's side must be valid memory of that length.
pub unsafe fn copy(to: *mut u8, from: *const u8, len: usize) -> usize {
    // SAFETY: faults on the guest's side end the copy (see `region`).
    unsafe { retro_asm_copy(to, from, len) }
}

/// Stores the guest's vector state, which lives in the machine, to memory.
///
/// # Safety
/// `area` is 64-byte aligned and large enough for the features in `mask`, with a zeroed header.
pub unsafe fn save_vectors(area: *mut u8, mask: u64) {
    // SAFETY: passed on.
    unsafe { retro_asm_xsave(area, mask) }
}

/// Loads an x87 environment, in which no exception may be pending.
pub fn restore_x87_environment(environment: &[u32; 7]) {
    // SAFETY: reads the 28 bytes of the array.
    unsafe { retro_asm_fldenv(environment.as_ptr()) }
}

/// Loads vector state from memory; false if the image is malformed.
///
/// # Safety
/// `area` is 64-byte aligned and large enough for the features in `mask`.
pub unsafe fn restore_vectors(area: *const u8, mask: u64) -> bool {
    // SAFETY: passed on; a malformed image faults and is reported.
    unsafe { retro_asm_xrstor(area, mask) == 0 }
}

/// Makes the processor raise a signal that stands for a fault; returns if there is none for it.
///
/// # Safety
/// The signal has its default disposition, and the process is to end.
pub unsafe fn fault_with(signal: u32) {
    const NOT_CANONICAL: u64 = 1 << 63;
    // SAFETY: none of these comes back.
    unsafe {
        match signal {
            c::SIGSEGV => {
                asm!("mov rax, [{}]", in(reg) NOT_CANONICAL, out("rax") _, options(nostack))
            }
            c::SIGBUS => {
                asm!("mov rsp, {}", "push rax", "ud2", in(reg) NOT_CANONICAL, options(noreturn))
            }
            c::SIGILL => asm!("ud2", options(noreturn)),
            c::SIGFPE => {
                asm!("xor ecx, ecx", "div ecx", out("eax") _, out("ecx") _, out("edx") _)
            }
            c::SIGTRAP => asm!("int3"),
            _ => {}
        }
    }
}

/// Gives the thread over to its guest at `registers.rip`.
///
/// # Safety
/// GS must point to the end of a ready context; nothing on the current stack is used again.
pub unsafe fn start() -> ! {
    // SAFETY: passed on.
    unsafe { retro_asm_start() }
}
