//! Loading an executable and its interpreter, and laying out the first stack, as the kernel does.

use crate::cache::pages::real_protection;
use crate::elf::{self, Executable};
use crate::maps::{AddressSpace, Backing, Mapping, STACK_TOP};
use crate::record::{self, maps::Source};
use crate::sys::{self, Errno, Result};
use alloc::vec::Vec;
use linux_raw_sys::auxvec as aux;
use linux_raw_sys::general as c;
use retro_abi::layout::PAGE;

/// A file in memory.
pub struct Loaded {
    /// What was added to the file's own addresses.
    pub bias: u64,
    /// Address of its entry.
    pub entry: u64,
    /// The headers.
    pub executable: Executable,
}

/// Maps an ELF file.
pub fn load(space: &mut AddressSpace, fd: i32) -> Result<Loaded> {
    let executable = elf::parse(&elf::File(fd))?;
    let (first, end) = executable.span();
    let bias = if executable.relocatable {
        let align = executable.alignment();
        let len = end - first + align - PAGE;
        let at = space.place_module(len).ok_or(Errno::ENOMEM)?;
        at.next_multiple_of(align).wrapping_sub(first)
    } else {
        if !space.is_free(first, end) {
            return Err(Errno::ENOMEM);
        }
        0
    };
    for segment in &executable.segments {
        load_segment(space, fd, bias, segment)?;
    }
    Ok(Loaded { bias, entry: executable.entry.wrapping_add(bias), executable })
}

fn load_segment(
    space: &mut AddressSpace,
    fd: i32,
    bias: u64,
    segment: &elf::Segment,
) -> Result<()> {
    let prot = segment.protection();
    let address = segment.address.wrapping_add(bias);
    let start = address & !(PAGE - 1);
    let file_end = address + segment.file_len;
    let end = (address + segment.memory_len).next_multiple_of(PAGE);
    let mut mapped_to = start;
    if segment.file_len > 0 {
        mapped_to = file_end.next_multiple_of(PAGE);
        let offset = segment.offset - (address - start);
        map(start, mapped_to, prot, c::MAP_PRIVATE, fd, offset)?;
        space.insert(Mapping { start, end: mapped_to, prot, backing: Backing::File });
        let source = Some(Source { fd, offset });
        record::maps::mapped(start, mapped_to - start, prot, c::MAP_PRIVATE, source);
        if segment.memory_len > segment.file_len && prot & c::PROT_WRITE != 0 {
            let tail = (mapped_to.min(end) - file_end) as usize;
            // SAFETY: the rest of the last page of a private, writable mapping just made.
            unsafe { core::ptr::write_bytes(file_end as *mut u8, 0, tail) };
        }
    }
    if end > mapped_to {
        map(mapped_to, end, prot, c::MAP_PRIVATE | c::MAP_ANONYMOUS, -1, 0)?;
        space.insert(Mapping { start: mapped_to, end, prot, backing: Backing::Anonymous });
        let flags = c::MAP_PRIVATE | c::MAP_ANONYMOUS;
        record::maps::mapped(mapped_to, end - mapped_to, prot, flags, None);
    }
    Ok(())
}

fn map(start: u64, end: u64, prot: u32, flags: u32, fd: i32, offset: u64) -> Result<()> {
    // Segments may share a page; the later one wins, as with the kernel.
    // SAFETY: the range is the guest's, chosen free or demanded by the executable.
    unsafe {
        sys::mmap(start, end - start, real_protection(prot), flags | c::MAP_FIXED, fd, offset)
    }
    .map(drop)
}

/// What goes onto the first stack.
pub struct Initial<'a> {
    /// Arguments, each ending in NUL.
    pub arguments: &'a [&'a [u8]],
    /// Environment, each ending in NUL.
    pub environment: &'a [&'a [u8]],
    /// The auxiliary vector that the engine itself got.
    pub own_auxv: &'a [(u64, u64)],
    /// The name that was executed, ending in NUL.
    pub name: &'a [u8],
    /// The executable.
    pub program: &'a Loaded,
    /// Its interpreter.
    pub interpreter: Option<&'a Loaded>,
    /// 16 random bytes.
    pub random: [u8; 16],
}

/// The first stack.
pub struct Stack {
    /// Initial stack pointer.
    pub pointer: u64,
    /// The auxiliary vector's bytes.
    pub auxv: Vec<u8>,
    /// Where the vector lies.
    pub auxv_at: u64,
    /// Range of the argument strings.
    pub arguments: (u64, u64),
    /// Range of the environment strings.
    pub environment: (u64, u64),
}

/// A cursor that fills the stack from its top.
struct Builder {
    at: u64,
}

impl Builder {
    fn push(&mut self, bytes: &[u8]) -> u64 {
        self.at -= bytes.len() as u64;
        // SAFETY: `build_stack` has mapped more than all strings and vectors need.
        unsafe {
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at as *mut u8, bytes.len());
        }
        self.at
    }

    fn push_words(&mut self, words: &[u64]) -> u64 {
        for &word in words.iter().rev() {
            self.push(&word.to_le_bytes());
        }
        self.at
    }
}

/// Maps the stack and fills it as the kernel does: strings at the top, then auxv, envp, argv and argc.
pub fn build_stack(space: &mut AddressSpace, initial: &Initial) -> Result<Stack> {
    let strings: usize =
        initial.arguments.iter().chain(initial.environment).map(|s| s.len()).sum::<usize>();
    let pointers = (initial.arguments.len() + initial.environment.len() + 64) * 8;
    let room = (strings + pointers + initial.name.len() + 4096) as u64;
    let size = (room + (132 << 10)).next_multiple_of(PAGE);
    if STACK_TOP - size <= space.stack_floor() {
        return Err(Errno::E2BIG);
    }
    let executable = initial.program.executable.executable_stack;
    let prot = c::PROT_READ | c::PROT_WRITE | if executable { c::PROT_EXEC } else { 0 };
    let flags = c::MAP_PRIVATE | c::MAP_ANONYMOUS | c::MAP_GROWSDOWN | c::MAP_STACK;
    map(STACK_TOP - size, STACK_TOP, prot, flags, -1, 0)?;
    space.insert(Mapping {
        start: space.stack_floor(),
        end: STACK_TOP,
        prot,
        backing: Backing::Stack,
    });
    record::maps::mapped(space.stack_floor(), STACK_TOP - space.stack_floor(), prot, flags, None);

    let mut out = Builder { at: STACK_TOP };
    out.push(&[0; 8]);
    let name = out.push(initial.name);
    let environment_end = out.at;
    let mut environment: Vec<u64> =
        initial.environment.iter().rev().map(|text| out.push(text)).collect();
    environment.reverse();
    let arguments_end = out.at;
    let mut arguments: Vec<u64> =
        initial.arguments.iter().rev().map(|text| out.push(text)).collect();
    arguments.reverse();
    let arguments_start = out.at;
    let platform = out.push(b"x86_64\0");
    let random = out.push(&initial.random);
    let auxv = auxiliary_vector(initial, name, platform, random);

    let words = auxv.len() * 2 + environment.len() + arguments.len() + 3;
    out.at &= !15;
    if !words.is_multiple_of(2) {
        out.at -= 8;
    }
    for &(key, value) in auxv.iter().rev() {
        out.push_words(&[key, value]);
    }
    let auxv_at = out.at;
    out.push_words(&[0]);
    out.push_words(&environment);
    out.push_words(&[0]);
    out.push_words(&arguments);
    let pointer = out.push_words(&[arguments.len() as u64]);
    debug_assert_eq!(pointer % 16, 0);
    Ok(Stack {
        pointer,
        auxv: auxv
            .iter()
            .flat_map(|&(k, v)| [k.to_le_bytes(), v.to_le_bytes()])
            .flatten()
            .collect(),
        auxv_at,
        arguments: (arguments_start, arguments_end),
        environment: (arguments_end, environment_end),
    })
}

/// The kernel's vector with the guest's addresses, without the vDSO and without rseq.
fn auxiliary_vector(initial: &Initial, name: u64, platform: u64, random: u64) -> Vec<(u64, u64)> {
    /// Sizes for restartable sequences, which are refused.
    const AT_RSEQ_FEATURE_SIZE: u32 = 27;
    const AT_RSEQ_ALIGN: u32 = 28;
    let program = initial.program;
    let base = initial.interpreter.map_or(0, |i| i.bias);
    let mut vector = Vec::new();
    for &(key, value) in initial.own_auxv {
        let value = match key as u32 {
            aux::AT_SYSINFO_EHDR | AT_RSEQ_FEATURE_SIZE | AT_RSEQ_ALIGN | aux::AT_NULL => continue,
            aux::AT_PHDR => program.executable.program_headers.wrapping_add(program.bias),
            aux::AT_PHNUM => program.executable.program_header_count as u64,
            aux::AT_BASE => base,
            aux::AT_ENTRY => program.entry,
            aux::AT_EXECFN => name,
            aux::AT_PLATFORM => platform,
            aux::AT_RANDOM => random,
            _ => value,
        };
        vector.push((key, value));
    }
    vector.push((0, 0));
    vector
}
