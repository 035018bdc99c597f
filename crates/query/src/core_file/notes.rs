//! The notes of a core file: threads, mapped files, how the program was started. Their layouts are the kernel's.

use std::arch::x86_64::__cpuid_count;
use std::os::unix::ffi::OsStrExt;

use retro_abi::log::register;
use retro_replayer::Registers;

use crate::program::Program;
use crate::state::State;
use crate::{Cancel, Error, Mapping};

/// Kinds of notes.
const NT_PRSTATUS: u32 = 1;
const NT_FPREGSET: u32 = 2;
const NT_PRPSINFO: u32 = 3;
const NT_AUXV: u32 = 6;
const NT_X86_XSTATE: u32 = 0x202;
const NT_FILE: u32 = 0x4649_4c45;
const NT_SIGINFO: u32 = 0x5349_4749;

/// Bytes of `struct fxsave`, with which an image of `xsave` begins.
const FXSAVE_SIZE: usize = 512;

/// Bytes of the smallest image of `xsave`: that, and a header.
const XSAVE_SIZE: usize = FXSAVE_SIZE + 64;

/// All notes, and how many threads they tell of.
pub fn of(state: &State, maps: &[Mapping], cancel: &Cancel) -> Result<(Vec<u8>, usize), Error> {
    let (run, moment) = (state.run(), state.moment());
    let start = run.program(moment.log)?;
    let death = run.death_at(moment, cancel)?;
    let signal = death.as_ref().map_or(0, |death| death.signal);
    let threads = state.threads()?;
    let mut notes = Notes::default();
    // Readers take notes behind a thread's status for that thread's, and the first thread for the one that matters.
    for (index, info) in threads.iter().enumerate() {
        let registers = state.registers(Some(info.thread))?;
        notes.add("CORE", NT_PRSTATUS, &thread_status(&registers, &start, signal));
        if index == 0 {
            notes.add("CORE", NT_PRPSINFO, &process_information(&start));
            if let Some(death) = &death {
                notes.add("CORE", NT_SIGINFO, &death.information);
            }
            if let Some(vector) = run.auxiliary_vector(moment.log)? {
                notes.add("CORE", NT_AUXV, &vector);
            }
            notes.add("CORE", NT_FILE, &mapped_files(maps));
        }
        if let Some(image) = registers.vectors.get(..FXSAVE_SIZE) {
            notes.add("CORE", NT_FPREGSET, image);
        }
        if registers.vectors.len() >= XSAVE_SIZE {
            notes.add("LINUX", NT_X86_XSTATE, &vector_state(&registers.vectors));
        }
    }
    Ok((notes.0, threads.len()))
}

/// Notes, one behind the other.
#[derive(Default)]
struct Notes(Vec<u8>);

impl Notes {
    fn add(&mut self, owner: &str, kind: u32, contents: &[u8]) {
        let bytes = &mut self.0;
        let name_size = owner.len() as u32 + 1;
        for number in [name_size, contents.len() as u32, kind] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(owner.as_bytes());
        bytes.push(0);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(contents);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
}

/// `struct elf_prpsinfo`.
fn process_information(start: &Program) -> Vec<u8> {
    const NAME: usize = 16;
    const ARGUMENTS: usize = 80;
    let mut bytes = vec![0, b'R', 0, 0, 0, 0, 0, 0];
    let flags = 0u64;
    bytes.extend(flags.to_le_bytes());
    let (user, group, process_group, session) = (0, 0, start.pid, start.pid);
    for number in [user, group, start.pid, start.parent, process_group, session] {
        bytes.extend(number.to_le_bytes());
    }
    let name = start.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    bytes.extend(text_field::<NAME>(name));
    let words = start.arguments.strip_suffix(b"\0").unwrap_or(&start.arguments);
    let line: Vec<u8> = words.iter().map(|&byte| if byte == 0 { b' ' } else { byte }).collect();
    bytes.extend(text_field::<ARGUMENTS>(&line));
    bytes
}

/// A text with at least one NUL behind it.
fn text_field<const SIZE: usize>(text: &[u8]) -> [u8; SIZE] {
    let mut field = [0; SIZE];
    let len = text.len().min(SIZE - 1);
    field[..len].copy_from_slice(&text[..len]);
    field
}

/// `struct elf_prstatus`.
fn thread_status(registers: &Registers, start: &Program, signal: u32) -> Vec<u8> {
    /// Masks of signals, which recordings do not have, then ids.
    const IDS: usize = 32;
    const TIMES: usize = 64;
    let mut bytes = Vec::new();
    let (code, error) = (0, 0);
    for number in [signal, code, error, signal] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.resize(IDS, 0);
    for id in [registers.thread, start.parent, start.pid, start.pid] {
        bytes.extend(id.to_le_bytes());
    }
    bytes.extend([0; TIMES]);
    bytes.extend(user_registers(registers).iter().flat_map(|value| value.to_le_bytes()));
    let has_vectors = 1u64;
    bytes.extend(has_vectors.to_le_bytes());
    bytes
}

/// `struct user_regs_struct`.
fn user_registers(registers: &Registers) -> [u64; 27] {
    /// Segments of 64-bit programs.
    const CODE: u64 = 0x33;
    const STACK: u64 = 0x2b;
    let [rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15, ..] =
        registers.general;
    let [rip, rflags, fs_base, gs_base] =
        [register::RIP, register::RFLAGS, register::FS_BASE, register::GS_BASE]
            .map(|number| registers.general[number as usize]);
    let called = registers.in_syscall.map_or(u64::MAX, u64::from);
    let (ds, es, fs, gs) = (0, 0, 0, 0);
    [
        r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, called, rip, CODE,
        rflags, rsp, STACK, fs_base, gs_base, ds, es, fs, gs,
    ]
}

/// Parts of an image of `xsave` behind the first two: their numbers and sizes, and where Intel's processors have them.
const PARTS: [(u32, usize, usize); 5] =
    [(2, 256, 576), (5, 64, 1088), (6, 512, 1152), (7, 1024, 1664), (9, 8, 2688)];

/// The image of `xsave` as readers expect it: parts where Intel's processors have them, and a word that says which ones the
/// processor has. The image is of the processor that replays, this one.
fn vector_state(image: &[u8]) -> Vec<u8> {
    const PARTS_THERE: usize = 464;
    const PARTS_HELD: usize = 512;
    const X87_AND_SSE: u64 = 0b11;
    let mut there = X87_AND_SSE;
    let mut state = image[..XSAVE_SIZE].to_vec();
    for (number, size, to) in PARTS {
        let from = __cpuid_count(0xd, number).ebx as usize;
        let Some(part) = image.get(from..from + size).filter(|_| from >= XSAVE_SIZE) else {
            continue;
        };
        there |= 1 << number;
        state.resize(to, 0);
        state.extend(part);
    }
    state[PARTS_THERE..PARTS_THERE + 8].copy_from_slice(&there.to_le_bytes());
    for (index, held) in state[PARTS_HELD..PARTS_HELD + 8].iter_mut().enumerate() {
        *held &= there.to_le_bytes()[index];
    }
    state
}

/// Which files are mapped where.
fn mapped_files(maps: &[Mapping]) -> Vec<u8> {
    /// Offsets in files are in units of this.
    const UNIT: u64 = super::PAGE;
    let files: Vec<_> =
        maps.iter().filter_map(|mapping| Some((mapping, mapping.file.as_ref()?))).collect();
    let mut bytes = Vec::new();
    let mut put = |number: u64| bytes.extend(number.to_le_bytes());
    put(files.len() as u64);
    put(UNIT);
    for (mapping, _) in &files {
        put(mapping.start);
        put(mapping.end);
        put(mapping.offset / UNIT);
    }
    for (_, path) in files {
        bytes.extend(path.as_os_str().as_bytes());
        bytes.push(0);
    }
    bytes
}
