//! Reading ELF headers: what an executable wants, without trusting a byte of it.

use crate::sys::{self, Errno, Result};
use alloc::vec;
use alloc::vec::Vec;
use retro_abi::layout::{GUEST_END, PAGE};

const HEADER_LEN: usize = 64;
const PROGRAM_HEADER_LEN: usize = 56;
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;
const EM_X86_64: u16 = 62;
const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
const PT_PHDR: u32 = 6;
const PT_GNU_STACK: u32 = 0x6474_e551;
const PF_X: u32 = 1;
/// The kernel refuses more program headers than fit in 64 KiB.
const MAX_PROGRAM_HEADERS: usize = 65536 / PROGRAM_HEADER_LEN;
/// Longest interpreter path.
const MAX_PATH: u64 = 4096;

/// A loadable segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Address in the file's own terms.
    pub address: u64,
    /// Offset in the file.
    pub offset: u64,
    /// Bytes from the file.
    pub file_len: u64,
    /// Bytes in memory.
    pub memory_len: u64,
    /// `PF_*` flags.
    pub flags: u32,
    /// Alignment.
    pub align: u64,
}

impl Segment {
    /// mmap's protection bits.
    pub fn protection(&self) -> u32 {
        // PF_X = 1, PF_W = 2, PF_R = 4; PROT_READ = 1, PROT_WRITE = 2, PROT_EXEC = 4.
        (self.flags >> 2 & 1) | (self.flags & 2) | (self.flags & PF_X) << 2
    }
}

/// The build-id in the first bytes of an ELF file, if its note lies there.
pub fn build_id(head: &[u8]) -> Option<&[u8]> {
    const PT_NOTE: u32 = 4;
    const NT_GNU_BUILD_ID: u32 = 3;
    let word =
        |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?) as usize);
    let wide =
        |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?) as usize);
    if !head.starts_with(b"\x7fELF\x02") {
        return None;
    }
    let (table, count) = (wide(32)?, word(56)? & 0xffff);
    for index in 0..count {
        let header = table.checked_add(index * PROGRAM_HEADER_LEN)?;
        if word(header)? as u32 != PT_NOTE {
            continue;
        }
        let (mut at, len) = (wide(header.checked_add(8)?)?, wide(header.checked_add(32)?)?);
        let end = at.checked_add(len)?.min(head.len());
        while at.checked_add(12)? <= end {
            let (name, size, kind) = (word(at)?, word(at + 4)?, word(at + 8)?);
            let body = at.checked_add(12)?.checked_add(name.next_multiple_of(4))?;
            if kind as u32 == NT_GNU_BUILD_ID && head.get(at + 12..at + 16) == Some(b"GNU\0") {
                return head.get(body..body.checked_add(size.min(64))?);
            }
            at = body.checked_add(size.next_multiple_of(4))?;
        }
    }
    None
}

/// What an executable wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executable {
    /// Whether it can be placed anywhere.
    pub relocatable: bool,
    /// Entry address in the file's own terms.
    pub entry: u64,
    /// Loadable segments in ascending order.
    pub segments: Vec<Segment>,
    /// Path of the interpreter, ending in NUL.
    pub interpreter: Option<Vec<u8>>,
    /// Whether it wants an executable stack; absent headers mean yes.
    pub executable_stack: bool,
    /// Address of the program headers in the file's own terms.
    pub program_headers: u64,
    /// Their number.
    pub program_header_count: u16,
}

impl Executable {
    /// First and last-plus-one page address, in the file's own terms.
    pub fn span(&self) -> (u64, u64) {
        let first = self.segments.first().map_or(0, |s| s.address & !(PAGE - 1));
        let end = self.segments.iter().map(|s| s.address + s.memory_len).max().unwrap_or(0);
        (first, end.next_multiple_of(PAGE))
    }

    /// Largest alignment any segment asks for.
    pub fn alignment(&self) -> u64 {
        let wanted = self.segments.iter().map(|s| s.align).filter(|a| a.is_power_of_two());
        wanted.max().unwrap_or(PAGE).clamp(PAGE, 1 << 30)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Whether the file begins like ELF.
pub fn is_elf(start: &[u8]) -> bool {
    start.starts_with(b"\x7fELF")
}

/// Something that bytes can be read from: a file, or a slice in tests.
pub trait Source {
    /// Reads at an offset; the number of bytes read is smaller only at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize>;
}

/// An open file.
pub struct File(pub i32);

impl Source for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        sys::read_at(self.0, buffer, offset)
    }
}

/// Reads and checks the headers. Whatever cannot be executed here is ENOEXEC, as from the kernel.
pub fn parse(source: &impl Source) -> Result<Executable> {
    let mut header = [0u8; HEADER_LEN];
    if source.read_at(&mut header, 0)? < HEADER_LEN || !is_elf(&header) {
        return Err(Errno::ENOEXEC);
    }
    let (class, data) = (header[4], header[5]);
    let (kind, machine) = (u16_at(&header, 16), u16_at(&header, 18));
    if class != 2 || data != 1 || machine != EM_X86_64 || !matches!(kind, ET_EXEC | ET_DYN) {
        return Err(Errno::ENOEXEC);
    }
    let count = u16_at(&header, 56) as usize;
    if u16_at(&header, 54) as usize != PROGRAM_HEADER_LEN
        || count == 0
        || count > MAX_PROGRAM_HEADERS
    {
        return Err(Errno::ENOEXEC);
    }
    let table_at = u64_at(&header, 32);
    let mut table = vec![0u8; count * PROGRAM_HEADER_LEN];
    if source.read_at(&mut table, table_at)? < table.len() {
        return Err(Errno::ENOEXEC);
    }
    let mut executable = Executable {
        relocatable: kind == ET_DYN,
        entry: u64_at(&header, 24),
        segments: Vec::new(),
        interpreter: None,
        executable_stack: true,
        program_headers: 0,
        program_header_count: count as u16,
    };
    let mut declared_headers = None;
    for entry in table.chunks_exact(PROGRAM_HEADER_LEN) {
        let (kind, flags) = (u32_at(entry, 0), u32_at(entry, 4));
        let segment = Segment {
            offset: u64_at(entry, 8),
            address: u64_at(entry, 16),
            file_len: u64_at(entry, 32),
            memory_len: u64_at(entry, 40),
            align: u64_at(entry, 48),
            flags,
        };
        match kind {
            PT_LOAD => executable.segments.push(checked(segment)?),
            PT_INTERP if executable.interpreter.is_none() => {
                executable.interpreter = Some(interpreter(source, &segment)?);
            }
            PT_PHDR => declared_headers = Some(segment.address),
            PT_GNU_STACK => executable.executable_stack = flags & PF_X != 0,
            _ => {}
        }
    }
    executable.segments.retain(|s| s.memory_len > 0);
    if executable.segments.is_empty() {
        return Err(Errno::ENOEXEC);
    }
    executable.segments.sort_by_key(|s| s.address);
    let mapped = executable
        .segments
        .iter()
        .find(|s| s.offset <= table_at && table_at - s.offset < s.file_len)
        .map(|s| table_at - s.offset + s.address);
    executable.program_headers = declared_headers.or(mapped).unwrap_or(0);
    Ok(executable)
}

fn checked(segment: Segment) -> Result<Segment> {
    let end = segment.address.checked_add(segment.memory_len).ok_or(Errno::ENOEXEC)?;
    let congruent = segment.address % PAGE == segment.offset % PAGE;
    let in_file = segment.offset.checked_add(segment.file_len).is_some();
    if segment.file_len > segment.memory_len || end > GUEST_END || !in_file {
        return Err(Errno::ENOEXEC);
    }
    if segment.file_len > 0 && !congruent {
        return Err(Errno::EINVAL);
    }
    Ok(segment)
}

fn interpreter(source: &impl Source, segment: &Segment) -> Result<Vec<u8>> {
    if !(2..=MAX_PATH).contains(&segment.file_len) {
        return Err(Errno::ENOEXEC);
    }
    let mut path = vec![0u8; segment.file_len as usize];
    if source.read_at(&mut path, segment.offset)? < path.len() || path.last() != Some(&0) {
        return Err(Errno::ENOEXEC);
    }
    let end = path.iter().position(|&b| b == 0).unwrap_or(0);
    path.truncate(end + 1);
    Ok(path)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    impl Source for [u8] {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
            let start = (offset as usize).min(self.len());
            let len = buffer.len().min(self.len() - start);
            buffer[..len].copy_from_slice(&self[start..start + len]);
            Ok(len)
        }
    }

    struct Bytes(Vec<u8>);
    impl Source for Bytes {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
            self.0[..].read_at(buffer, offset)
        }
    }

    #[test]
    fn reads_this_test_program() {
        let bytes = Bytes(std::fs::read(std::env::current_exe().unwrap()).unwrap());
        let executable = parse(&bytes).unwrap();
        assert!(executable.relocatable);
        assert!(executable.interpreter.unwrap().starts_with(b"/lib"));
        assert!(!executable.executable_stack);
        assert!(executable.segments.iter().any(|s| s.protection() == 5));
    }

    #[test]
    fn survives_any_damage() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let start: Vec<u8> = bytes[..4096].to_vec();
        let mut seed = 99u64;
        for _ in 0..50_000 {
            let mut damaged = Bytes(start.clone());
            for _ in 0..3 {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let at = (seed >> 33) as usize % 1024;
                damaged.0[at] = (seed >> 20) as u8;
            }
            damaged.0.truncate((seed >> 40) as usize % 4096);
            if let Ok(executable) = parse(&damaged) {
                let (first, end) = executable.span();
                assert!(first <= end && end <= GUEST_END + PAGE);
            }
        }
    }

    #[test]
    fn refuses_other_machines() {
        let mut bytes = Bytes(std::fs::read(std::env::current_exe().unwrap()).unwrap());
        bytes.0[18] = 183;
        assert_eq!(parse(&bytes), Err(Errno::ENOEXEC));
        bytes.0[18] = 62;
        bytes.0[4] = 1;
        assert_eq!(parse(&bytes), Err(Errno::ENOEXEC));
    }
}
