//! The fixed-size headers of the log: one for the file, one for each segment.
//!
//! Both are 64 bytes with little-endian fields at fixed offsets, and both end in a checksum of what is before
//! it, so that a header is believed whole or not at all. docs/format.md draws them; the offsets here mirror it.

use retro_abi::channel::Stream;

use crate::Flaw;

/// Version of the format of logs. Readers refuse any other.
pub const FORMAT_VERSION: u32 = 2;

/// Bytes of either header.
pub(crate) const HEADER_SIZE: usize = 64;

/// First bytes of a log.
pub(crate) const FILE_MAGIC: [u8; 8] = *b"retrolog";

/// First bytes of a segment. The high bit keeps it apart from text, the line feed from a translated one.
pub(crate) const SEGMENT_MAGIC: [u8; 4] = *b"\xf1sg\n";

/// Most bytes of the head's payload: command lines are limited to 2 MiB by default, but may be longer.
pub(crate) const HEAD_LIMIT: usize = 16 << 20;

/// Most bytes of a summary's or the end's payload.
const NOTE_LIMIT: usize = 64 << 10;

/// Longest chunk that is accepted in a stream: what the engine's buffer holds, and a page to spare.
pub const fn chunk_limit(stream: Stream) -> usize {
    stream.chunk_size() + 4096
}

/// The fixed part of a file's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) head_length: u32,
    pub(crate) id: [u8; 16],
    pub(crate) created_seconds: u64,
    pub(crate) created_nanoseconds: u32,
    pub(crate) head_checksum: u32,
}

/// Why bytes are not a file's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadFileHeader {
    NotALog,
    Version(u32),
    Damaged(&'static str),
}

impl FileHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        bytes[0..8].copy_from_slice(&FILE_MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.head_length.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.id);
        bytes[32..40].copy_from_slice(&self.created_seconds.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.created_nanoseconds.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.head_checksum.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    /// Magic and version come before the checksum: they stay where they are in every version.
    pub(crate) fn decode(bytes: &[u8; HEADER_SIZE]) -> Result<FileHeader, BadFileHeader> {
        if bytes[0..8] != FILE_MAGIC {
            return Err(BadFileHeader::NotALog);
        }
        let version = u32_at(bytes, 8);
        if version != FORMAT_VERSION {
            return Err(BadFileHeader::Version(version));
        }
        if !is_sealed(bytes) {
            return Err(BadFileHeader::Damaged("it fails its checksum"));
        }
        let head_length = u32_at(bytes, 12);
        if head_length as usize > HEAD_LIMIT {
            return Err(BadFileHeader::Damaged("it declares an absurd length"));
        }
        let mut id = [0; 16];
        id.copy_from_slice(&bytes[16..32]);
        Ok(FileHeader {
            head_length,
            id,
            created_seconds: u64_at(bytes, 32),
            created_nanoseconds: u32_at(bytes, 40),
            head_checksum: u32_at(bytes, 44),
        })
    }
}

/// Kinds of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentKind {
    /// Events of a stream of a log.
    Chunk(Stream),
    /// What is known of a process that ended.
    ProcessSummary,
    /// How the recording ended; nothing follows.
    End,
    /// Something that a later retro added; readers that do not know it skip it.
    Other(u8),
}

impl SegmentKind {
    fn numbers(self) -> (u8, u8) {
        match self {
            SegmentKind::Chunk(stream) => (1, stream as u8),
            SegmentKind::ProcessSummary => (2, 0),
            SegmentKind::End => (3, 0),
            SegmentKind::Other(number) => (number, 0),
        }
    }

    fn from_numbers(kind: u8, stream: u8) -> Result<SegmentKind, Flaw> {
        match kind {
            0 => Err(Flaw::HeaderField("its kind is 0")),
            1 => Stream::ALL
                .into_iter()
                .find(|&known| known as u8 == stream)
                .map(SegmentKind::Chunk)
                .ok_or(Flaw::HeaderField("an unknown stream")),
            2 => Ok(SegmentKind::ProcessSummary),
            3 => Ok(SegmentKind::End),
            other => Ok(SegmentKind::Other(other)),
        }
    }

    fn length_limit(self) -> usize {
        match self {
            SegmentKind::Chunk(stream) => chunk_limit(stream),
            SegmentKind::ProcessSummary | SegmentKind::End => NOTE_LIMIT,
            // Skipped, never read into memory.
            SegmentKind::Other(_) => u32::MAX as usize,
        }
    }
}

/// How a payload is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None = 0,
    Zstd = 1,
}

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) kind: SegmentKind,
    pub(crate) compression: Compression,
    pub(crate) log: u64,
    pub(crate) sequence: u64,
    pub(crate) base_time: u64,
    pub(crate) interval: u64,
    pub(crate) raw_length: u32,
    pub(crate) stored_length: u32,
    pub(crate) payload_checksum: u32,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        let (kind, stream) = self.kind.numbers();
        bytes[0..4].copy_from_slice(&SEGMENT_MAGIC);
        bytes[4..7].copy_from_slice(&[kind, stream, self.compression as u8]);
        bytes[8..16].copy_from_slice(&self.log.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.base_time.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.interval.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.raw_length.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.stored_length.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.payload_checksum.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    /// A header that is returned has lengths within the limits of its kind.
    pub(crate) fn decode(bytes: &[u8; HEADER_SIZE]) -> Result<SegmentHeader, Flaw> {
        if bytes[0..4] != SEGMENT_MAGIC {
            return Err(Flaw::NoSegment);
        }
        if !is_sealed(bytes) {
            return Err(Flaw::HeaderChecksum);
        }
        let header = SegmentHeader {
            kind: SegmentKind::from_numbers(bytes[4], bytes[5])?,
            compression: match bytes[6] {
                0 => Compression::None,
                1 => Compression::Zstd,
                _ => return Err(Flaw::HeaderField("an unknown compression")),
            },
            log: u64_at(bytes, 8),
            sequence: u64_at(bytes, 16),
            base_time: u64_at(bytes, 24),
            interval: u64_at(bytes, 32),
            raw_length: u32_at(bytes, 40),
            stored_length: u32_at(bytes, 44),
            payload_checksum: u32_at(bytes, 48),
        };
        if header.raw_length as usize > header.kind.length_limit() {
            return Err(Flaw::HeaderField("it declares an absurd length"));
        }
        let fits = match header.compression {
            Compression::None => header.stored_length == header.raw_length,
            Compression::Zstd => header.stored_length < header.raw_length,
        };
        if !fits {
            return Err(Flaw::HeaderField("its lengths contradict each other"));
        }
        Ok(header)
    }
}

/// Puts the checksum of the other bytes into the last four.
pub(crate) fn seal<const N: usize>(bytes: &mut [u8; N]) {
    let sum = crc32fast::hash(&bytes[..N - 4]);
    bytes[N - 4..].copy_from_slice(&sum.to_le_bytes());
}

/// Whether [`seal`] made the last four bytes.
pub(crate) fn is_sealed<const N: usize>(bytes: &[u8; N]) -> bool {
    crc32fast::hash(&bytes[..N - 4]) == u32_at(bytes, N - 4)
}

/// The number at an offset that lies within a header.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The number at an offset that lies within a header.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
