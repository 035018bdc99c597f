//! The smallest static executable Linux loads: a header, program headers, segments.

/// A loadable segment.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Page-aligned address.
    pub address: u64,
    /// `PF_R`, `PF_W`, `PF_X`.
    pub flags: u32,
    /// Initial contents.
    pub bytes: Vec<u8>,
    /// Size in memory; what exceeds `bytes` is zero.
    pub size: u64,
}

/// Executable.
pub const EXECUTE: u32 = 1;
/// Writable.
pub const WRITE: u32 = 2;
/// Readable.
pub const READ: u32 = 4;

const HEADER_SIZE: u64 = 64;
const PROGRAM_HEADER_SIZE: u64 = 56;
const PAGE: u64 = 4096;
const LOAD: u32 = 1;
const GNU_STACK: u32 = 0x6474_e551;

/// An ELF file that starts at `entry`.
pub fn executable(entry: u64, segments: &[Segment]) -> Vec<u8> {
    let count = segments.len() as u64 + 1;
    let mut file = Vec::new();
    file.extend_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    file.extend_from_slice(&2u16.to_le_bytes()); // ET_EXEC
    file.extend_from_slice(&62u16.to_le_bytes()); // EM_X86_64
    file.extend_from_slice(&1u32.to_le_bytes());
    file.extend_from_slice(&entry.to_le_bytes());
    file.extend_from_slice(&HEADER_SIZE.to_le_bytes());
    file.extend_from_slice(&0u64.to_le_bytes());
    file.extend_from_slice(&0u32.to_le_bytes());
    for half in [HEADER_SIZE as u16, PROGRAM_HEADER_SIZE as u16, count as u16, 64, 0, 0] {
        file.extend_from_slice(&half.to_le_bytes());
    }
    let mut offset = (HEADER_SIZE + PROGRAM_HEADER_SIZE * count).next_multiple_of(PAGE);
    program_header(&mut file, GNU_STACK, READ | WRITE, [0, 0, 0, 0, 0, 16]);
    for segment in segments {
        let length = segment.bytes.len() as u64;
        let fields =
            [offset, segment.address, segment.address, length, segment.size.max(length), PAGE];
        program_header(&mut file, LOAD, segment.flags, fields);
        offset += length.next_multiple_of(PAGE);
    }
    for segment in segments {
        file.resize(file.len().next_multiple_of(PAGE as usize), 0);
        file.extend_from_slice(&segment.bytes);
    }
    file
}

fn program_header(file: &mut Vec<u8>, kind: u32, flags: u32, fields: [u64; 6]) {
    file.extend_from_slice(&kind.to_le_bytes());
    file.extend_from_slice(&flags.to_le_bytes());
    for field in fields {
        file.extend_from_slice(&field.to_le_bytes());
    }
}
