//! The notes of a core file: threads, mapped files, how the program was started. Their layouts are the kernel's.

use std::arch::x86_64::__cpuid_count;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;

use retro_abi::channel::{Origin, Stream};
use retro_abi::log::{Event, register};
use retro_index::events::{Row, RowClass};
use retro_recording::ProcessEnd;
use retro_replayer::Registers;

use crate::locate::RowFilter;
use crate::run::Run;
use crate::state::State;
use crate::{Cancel, Direction, Error, Mapping, Moment};

/// Kinds of notes.
const NT_PRSTATUS: u32 = 1;
const NT_FPREGSET: u32 = 2;
const NT_PRPSINFO: u32 = 3;
const NT_AUXV: u32 = 6;
const NT_X86_XSTATE: u32 = 0x202;
const NT_FILE: u32 = 0x4649_4c45;
const NT_SIGINFO: u32 = 0x5349_4749;

/// Bytes of `siginfo_t`.
const SIGINFO_SIZE: usize = 128;

/// Bytes of `struct fxsave`, with which an image of `xsave` begins.
const FXSAVE_SIZE: usize = 512;

/// Bytes of the smallest image of `xsave`: that, and a header.
const XSAVE_SIZE: usize = FXSAVE_SIZE + 64;

/// Words that the start of a stack may have, more than any kernel allows.
const STACK_WORDS: u64 = 1 << 20;

/// All notes, and how many threads they tell of.
pub fn of(state: &State, maps: &[Mapping], cancel: &Cancel) -> Result<(Vec<u8>, usize), Error> {
    let (run, moment) = (state.run(), state.moment());
    let start = Start::of(run, moment.log)?;
    let death = Death::at(run, moment, cancel)?;
    let signal = death.as_ref().map_or(0, |death| death.signal);
    let threads = state.threads()?;
    let mut notes = Notes::default();
    // Readers take notes behind a thread's status for that thread's, and the first thread for the one that matters.
    for (index, info) in threads.iter().enumerate() {
        let registers = state.registers(Some(info.thread))?;
        notes.add("CORE", NT_PRSTATUS, &thread_status(&registers, &start, signal));
        if index == 0 {
            notes.add("CORE", NT_PRPSINFO, &start.process_information());
            if let Some(death) = &death {
                notes.add("CORE", NT_SIGINFO, &death.information);
            }
            if let Some(vector) = auxiliary_vector(run, moment.log)? {
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

/// How a process began.
#[derive(Default)]
struct Start {
    pid: u32,
    parent: u32,
    path: Vec<u8>,
    /// Strings that end in NUL.
    arguments: Vec<u8>,
}

impl Start {
    fn of(run: &Run, log: u64) -> Result<Start, Error> {
        let mut start = Start::event(run, log)?;
        // A copy of a process is not told again what its program is.
        let program = Start::event(run, executed_log(run, log))?;
        start.path = program.path;
        start.arguments = program.arguments;
        Ok(start)
    }

    fn event(run: &Run, log: u64) -> Result<Start, Error> {
        let found = run.recording().for_each_event(log, Stream::Main, |_, event| match *event {
            Event::Start { pid, parent, path, arguments, .. } => ControlFlow::Break(Start {
                pid,
                parent,
                path: path.to_vec(),
                arguments: arguments.to_vec(),
            }),
            _ => ControlFlow::Continue(()),
        })?;
        Ok(match found {
            ControlFlow::Break(start) => start,
            ControlFlow::Continue(()) => Start::default(),
        })
    }

    /// `struct elf_prpsinfo`.
    fn process_information(&self) -> Vec<u8> {
        const NAME: usize = 16;
        const ARGUMENTS: usize = 80;
        let mut bytes = vec![0, b'R', 0, 0, 0, 0, 0, 0];
        let flags = 0u64;
        bytes.extend(flags.to_le_bytes());
        let (user, group, process_group, session) = (0, 0, self.pid, self.pid);
        for number in [user, group, self.pid, self.parent, process_group, session] {
            bytes.extend(number.to_le_bytes());
        }
        let name = self.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        bytes.extend(text_field::<NAME>(name));
        let words = self.arguments.strip_suffix(b"\0").unwrap_or(&self.arguments);
        let line: Vec<u8> = words.iter().map(|&byte| if byte == 0 { b' ' } else { byte }).collect();
        bytes.extend(text_field::<ARGUMENTS>(&line));
        bytes
    }
}

/// A text with at least one NUL behind it.
fn text_field<const SIZE: usize>(text: &[u8]) -> [u8; SIZE] {
    let mut field = [0; SIZE];
    let len = text.len().min(SIZE - 1);
    field[..len].copy_from_slice(&text[..len]);
    field
}

/// The log that begins with the program that a process executes: its own, or that of the process it is a copy of.
fn executed_log(run: &Run, log: u64) -> u64 {
    let mut log = log;
    // Parents have smaller numbers.
    while let Some(process) = run.recording().process(log)
        && process.summary.origin == Some(Origin::Fork)
        && let Some(parent) = process.summary.parent.filter(|&parent| parent < log)
    {
        log = parent;
    }
    log
}

/// The signal that ended a process.
struct Death {
    signal: u32,
    /// `siginfo_t`.
    information: [u8; SIGINFO_SIZE],
}

impl Death {
    /// What ends the process at a moment, if something does.
    fn at(run: &Run, moment: Moment, cancel: &Cancel) -> Result<Option<Death>, Error> {
        let end = run.recording().process(moment.log).map(|process| process.summary.end);
        let Some(ProcessEnd::Signalled(signal)) = end else { return Ok(None) };
        if moment.time != run.process(moment.log)?.end {
            return Ok(None);
        }
        let mut information = [0; SIGINFO_SIZE];
        information[..4].copy_from_slice(&signal.to_le_bytes());
        let filter = RowFilter::Number(RowClass::Signal, signal.into());
        let last = run.rows(moment, Direction::Backward, filter, cancel)?.next().transpose()?;
        if let Some(Row::Signal { handler: 0, info, .. }) = last.map(|last| last.row) {
            let len = info.len().min(SIGINFO_SIZE);
            information[..len].copy_from_slice(&info[..len]);
        }
        Ok(Some(Death { signal, information }))
    }
}

/// `struct elf_prstatus`.
fn thread_status(registers: &Registers, start: &Start, signal: u32) -> Vec<u8> {
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

/// The auxiliary vector, from where the kernel puts it: on the stack, behind arguments and environment. None if the run never
/// looked at it.
fn auxiliary_vector(run: &Run, log: u64) -> Result<Option<Vec<u8>>, Error> {
    let log = executed_log(run, log);
    let process = match run.process(log) {
        Ok(process) => process,
        Err(Error::NotIndexed { .. } | Error::NoLog(_)) => return Ok(None),
        Err(other) => return Err(other),
    };
    let state = run.state(Moment { log, time: process.start })?;
    let stack = state.registers(None)?.general[4];
    let word = |index: u64| -> Result<u64, Error> {
        let bytes = state.read(stack.wrapping_add(index.wrapping_mul(8)), 8)?;
        Ok(bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)))
    };
    let arguments = word(0)?;
    if arguments > STACK_WORDS {
        return Ok(None);
    }
    let mut at = arguments + 2;
    while word(at)? != 0 {
        at += 1;
        if at > STACK_WORDS {
            return Ok(None);
        }
    }
    let mut vector = Vec::new();
    loop {
        let (key, value) = (word(at + 1)?, word(at + 2)?);
        at += 2;
        vector.extend([key, value].iter().flat_map(|word| word.to_le_bytes()));
        match key {
            0 => break,
            _ if at > STACK_WORDS => return Ok(None),
            _ => {}
        }
    }
    let has_entries = vector.len() > 16;
    Ok(has_entries.then_some(vector))
}
