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

// What the compiler calls for copies, fills and comparisons, without vector registers. Most copies of the
// translator are a few bytes long, where string instructions are slow.
global_asm!(
    ".globl memcpy",
    "memcpy:",
    "mov rax, rdi",
    "cmp rdx, 16",
    "ja 3f",
    // Two overlapping halves cover every length of a class.
    "cmp edx, 8",
    "jb 2f",
    "mov rcx, [rsi]",
    "mov r8, [rsi + rdx - 8]",
    "mov [rdi], rcx",
    "mov [rdi + rdx - 8], r8",
    "ret",
    "2:",
    "cmp edx, 4",
    "jb 2f",
    "mov ecx, [rsi]",
    "mov r8d, [rsi + rdx - 4]",
    "mov [rdi], ecx",
    "mov [rdi + rdx - 4], r8d",
    "ret",
    "2:",
    "test edx, edx",
    "jz 2f",
    "movzx ecx, byte ptr [rsi]",
    "movzx r8d, byte ptr [rsi + rdx - 1]",
    "mov [rdi], cl",
    "cmp edx, 3",
    "jne 5f",
    "movzx ecx, byte ptr [rsi + 1]",
    "mov [rdi + 1], cl",
    "5:",
    "mov [rdi + rdx - 1], r8b",
    "2:",
    "ret",
    "3:",
    "cmp rdx, 128",
    "ja 4f",
    "mov r8, [rsi + rdx - 16]",
    "mov r9, [rsi + rdx - 8]",
    "lea r10, [rdi + rdx - 16]",
    "2:",
    "mov rcx, [rsi]",
    "mov r11, [rsi + 8]",
    "mov [rdi], rcx",
    "mov [rdi + 8], r11",
    "add rsi, 16",
    "add rdi, 16",
    "cmp rdi, r10",
    "jb 2b",
    "mov [r10], r8",
    "mov [r10 + 8], r9",
    "ret",
    "4:",
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
