//! The bytes of a pack: a header, then blocks that carry members one after the other.
//!
//! Blocks are small, numbered and checked one by one, so that packing and unpacking stream through a buffer of
//! one block, and damage is noticed before a byte of it is used. A pack is whole when its last block says
//! so. docs/format.md draws every byte.

use std::io::{self, Read, Write};

use crate::header::{Compression, is_sealed, seal, u32_at, u64_at};
use crate::scan::decompress;

/// Version of packs. Readers refuse any other.
pub(crate) const PACK_VERSION: u32 = 1;

/// Most bytes of a block before compression. Together with the size of its header this bounds how much a
/// pack can grow when it is unpacked.
pub(crate) const BLOCK_LIMIT: usize = 256 << 10;

pub(crate) const PACK_HEADER_SIZE: usize = 48;
pub(crate) const BLOCK_HEADER_SIZE: usize = 32;
const PACK_MAGIC: [u8; 8] = *b"retropck";
const BLOCK_MAGIC: [u8; 4] = *b"\xf1pk\n";
const MEMBER_SIZE: usize = 16;

/// A pack is made once and sent around, so that it is worth more effort than a log.
const LEVEL: i32 = 9;

/// What a pack declares before its first member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackHeader {
    /// The recording's id.
    pub(crate) id: [u8; 16],
    pub(crate) members: u32,
    /// Bytes of all members.
    pub(crate) total: u64,
}

impl PackHeader {
    fn encode(&self) -> [u8; PACK_HEADER_SIZE] {
        let mut bytes = [0; PACK_HEADER_SIZE];
        bytes[0..8].copy_from_slice(&PACK_MAGIC);
        bytes[8..12].copy_from_slice(&PACK_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.members.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.id);
        bytes[32..40].copy_from_slice(&self.total.to_le_bytes());
        seal(&mut bytes);
        bytes
    }
}

/// What a member becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberKind {
    /// The log.
    Log,
    /// The list of copied files.
    Catalogue,
    /// The copied file of this number.
    File(u32),
}

/// The start of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) kind: MemberKind,
    pub(crate) length: u64,
}

impl Member {
    fn encode(&self) -> [u8; MEMBER_SIZE] {
        let (kind, number) = match self.kind {
            MemberKind::Log => (1u32, 0),
            MemberKind::Catalogue => (2, 0),
            MemberKind::File(number) => (3, number),
        };
        let mut bytes = [0; MEMBER_SIZE];
        bytes[0..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Member, &'static str> {
        if bytes.len() != MEMBER_SIZE {
            return Err("a member's description has the wrong length");
        }
        let kind = match (u32_at(bytes, 0), u32_at(bytes, 4)) {
            (1, 0) => MemberKind::Log,
            (2, 0) => MemberKind::Catalogue,
            (3, number) => MemberKind::File(number),
            _ => return Err("an unknown kind of member"),
        };
        Ok(Member { kind, length: u64_at(bytes, 8) })
    }
}

/// Kinds of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockKind {
    Member = 1,
    Data = 2,
    End = 3,
}

/// Writes a pack.
pub(crate) struct PackWriter<W> {
    output: W,
    sequence: u64,
    written: u64,
    compressor: zstd::bulk::Compressor<'static>,
}

impl<W: Write> PackWriter<W> {
    pub(crate) fn begin(mut output: W, header: &PackHeader) -> io::Result<PackWriter<W>> {
        output.write_all(&header.encode())?;
        let compressor = zstd::bulk::Compressor::new(LEVEL)?;
        Ok(PackWriter { output, sequence: 0, written: PACK_HEADER_SIZE as u64, compressor })
    }

    /// Begins a member; exactly its length follows through [`PackWriter::data`].
    pub(crate) fn member(&mut self, member: &Member) -> io::Result<()> {
        self.block(BlockKind::Member, &member.encode())
    }

    /// Writes the next bytes of the member, no more than [`BLOCK_LIMIT`].
    pub(crate) fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.block(BlockKind::Data, bytes)
    }

    /// Writes the last block; returns the length of the pack.
    pub(crate) fn finish(mut self) -> io::Result<u64> {
        self.block(BlockKind::End, &[])?;
        self.output.flush()?;
        Ok(self.written)
    }

    fn block(&mut self, kind: BlockKind, raw: &[u8]) -> io::Result<()> {
        let compressed = self.compressor.compress(raw)?;
        let (compression, stored) = if compressed.len() < raw.len() {
            (Compression::Zstd, &compressed[..])
        } else {
            (Compression::None, raw)
        };
        let mut header = [0; BLOCK_HEADER_SIZE];
        header[0..4].copy_from_slice(&BLOCK_MAGIC);
        header[4..6].copy_from_slice(&[kind as u8, compression as u8]);
        header[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        header[16..20].copy_from_slice(&(raw.len() as u32).to_le_bytes());
        header[20..24].copy_from_slice(&(stored.len() as u32).to_le_bytes());
        header[24..28].copy_from_slice(&crc32fast::hash(stored).to_le_bytes());
        seal(&mut header);
        self.output.write_all(&header)?;
        self.output.write_all(stored)?;
        self.sequence += 1;
        self.written += (BLOCK_HEADER_SIZE + stored.len()) as u64;
        Ok(())
    }
}

/// Why a pack cannot be read on.
#[derive(Debug)]
pub(crate) enum BadPack {
    /// Its bytes make no sense.
    Content(&'static str),
    /// The system refused.
    Io(io::Error),
}

impl From<&'static str> for BadPack {
    fn from(reason: &'static str) -> BadPack {
        BadPack::Content(reason)
    }
}

impl From<io::Error> for BadPack {
    fn from(error: io::Error) -> BadPack {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => BadPack::Content("it is cut short"),
            _ => BadPack::Io(error),
        }
    }
}

/// What comes next in a pack.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Member(Member),
    Data(Vec<u8>),
    End,
}

/// Reads a pack.
pub(crate) struct PackReader<R> {
    input: R,
    /// Where the next block begins.
    offset: u64,
    sequence: u64,
}

impl<R: Read> PackReader<R> {
    /// Reads the header.
    pub(crate) fn begin(mut input: R) -> Result<(PackReader<R>, PackHeader), BadPack> {
        let mut bytes = [0; PACK_HEADER_SIZE];
        input.read_exact(&mut bytes)?;
        if bytes[0..8] != PACK_MAGIC {
            return Err("it begins otherwise".into());
        }
        if u32_at(&bytes, 8) != PACK_VERSION {
            return Err("it was packed by another version of retro".into());
        }
        if !is_sealed(&bytes) {
            return Err("its header fails its checksum".into());
        }
        let mut id = [0; 16];
        id.copy_from_slice(&bytes[16..32]);
        let header = PackHeader { id, members: u32_at(&bytes, 12), total: u64_at(&bytes, 32) };
        Ok((PackReader { input, offset: PACK_HEADER_SIZE as u64, sequence: 0 }, header))
    }

    /// Where the next block begins.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads and checks the next block.
    pub(crate) fn next(&mut self) -> Result<Item, BadPack> {
        let mut header = [0; BLOCK_HEADER_SIZE];
        self.input.read_exact(&mut header)?;
        if header[0..4] != BLOCK_MAGIC {
            return Err("no block begins here".into());
        }
        if !is_sealed(&header) {
            return Err("a block's header fails its checksum".into());
        }
        if u64_at(&header, 8) != self.sequence {
            return Err("a block is missing".into());
        }
        let (raw_length, stored_length) =
            (u32_at(&header, 16) as usize, u32_at(&header, 20) as usize);
        if raw_length > BLOCK_LIMIT || stored_length > raw_length {
            return Err("a block declares an absurd length".into());
        }
        let mut stored = vec![0; stored_length];
        self.input.read_exact(&mut stored)?;
        if crc32fast::hash(&stored) != u32_at(&header, 24) {
            return Err("a block fails its checksum".into());
        }
        let raw = match header[5] {
            0 if stored_length == raw_length => stored,
            1 => decompress(&stored, raw_length).ok_or("a block cannot be decompressed")?,
            _ => return Err("an unknown compression".into()),
        };
        let item = match header[4] {
            kind if kind == BlockKind::Member as u8 => Item::Member(Member::decode(&raw)?),
            kind if kind == BlockKind::Data as u8 => Item::Data(raw),
            kind if kind == BlockKind::End as u8 => Item::End,
            _ => return Err("an unknown kind of block".into()),
        };
        self.offset += (BLOCK_HEADER_SIZE + stored_length) as u64;
        self.sequence += 1;
        Ok(item)
    }

    /// Checks that nothing follows the last block.
    pub(crate) fn expect_end_of_file(&mut self) -> Result<(), BadPack> {
        match self.input.read(&mut [0])? {
            0 => Ok(()),
            _ => Err("bytes follow its end".into()),
        }
    }
}
