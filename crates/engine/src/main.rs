//! The freestanding executable around the engine: entry point, memory functions, allocator, panic handler.
//!
//! Built only by the crate `engine-image` (feature `image`), with its own profile and link arguments.

#![no_std]
#![no_main]

use core::arch::global_asm;
use retro_engine::{memory::EngineHeap, start, sys};

#[global_allocator]
static HEAP: EngineHeap = EngineHeap;

global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {main}",
    "ud2",
    main = sym main,
);

extern "C" fn main(stack: *const u64) -> ! {
    // SAFETY: called once, by `_start`, with the kernel's stack pointer.
    unsafe { start::start(stack) }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    sys::complain(format_args!("internal error: {info}; please report this"));
    sys::exit_group(125)
}

// What the compiler calls for copies, fills and comparisons. String instructions are fast on every machine
// the engine supports, and use no vector registers.
global_asm!(
    ".globl memcpy",
    "memcpy:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "rep movsb",
    "ret",
    ".globl memmove",
    "memmove:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "mov r8, rdi",
    "sub r8, rsi",
    "cmp r8, rdx",
    "jb 2f",
    "rep movsb",
    "ret",
    "2:",
    "lea rdi, [rdi + rdx - 1]",
    "lea rsi, [rsi + rdx - 1]",
    "std",
    "rep movsb",
    "cld",
    "ret",
    ".globl memset",
    "memset:",
    "mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    ".globl memcmp",
    ".globl bcmp",
    "memcmp:",
    "bcmp:",
    "xor eax, eax",
    "mov rcx, rdx",
    "cmp rcx, rcx",
    "repe cmpsb",
    "je 2f",
    "movzx eax, byte ptr [rdi - 1]",
    "movzx ecx, byte ptr [rsi - 1]",
    "sub ecx, eax",
    "mov eax, ecx",
    "2:",
    "ret",
    ".globl strlen",
    "strlen:",
    "xor eax, eax",
    "2:",
    "cmp byte ptr [rdi + rax], 0",
    "je 3f",
    "inc rax",
    "jmp 2b",
    "3:",
    "ret",
);

// The precompiled `alloc` crate refers to unwinding; with `panic = "abort"` nothing ever unwinds.
global_asm!(
    ".globl _Unwind_Resume",
    "_Unwind_Resume:",
    ".globl rust_eh_personality",
    "rust_eh_personality:",
    "ud2",
);
