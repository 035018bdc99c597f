//! Accesses to memory, as records have them.

use retro_abi::replay::{self, LOOSE, access};

use super::merger::nonsense;
use crate::Error;

/// Whether an access reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// Writes; the value is what is there after the instruction.
    Write,
    /// Reads; the value is what was there before the instruction.
    Read,
    /// A call writes its return address.
    Call,
    /// A return reads its return address.
    Return,
}

impl AccessKind {
    fn from_number(number: u16) -> Option<AccessKind> {
        Some(match u8::try_from(number).ok()? {
            access::WRITE => AccessKind::Write,
            access::READ => AccessKind::Read,
            access::CALL => AccessKind::Call,
            access::RETURN => AccessKind::Return,
            _ => return None,
        })
    }

    /// Whether it changes memory.
    pub fn writes(self) -> bool {
        matches!(self, AccessKind::Write | AccessKind::Call)
    }
}

/// An access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access<'a> {
    /// The number of the instruction: its effect is seen from the next time on.
    pub time: u64,
    /// Whether it reads or writes.
    pub kind: AccessKind,
    /// Where.
    pub address: u64,
    /// How many bytes.
    pub len: u64,
    /// The bytes; empty where the stream does not have them.
    pub value: &'a [u8],
}

/// The accesses of a block.
#[derive(Clone, Debug)]
pub struct Accesses<'a> {
    /// Those of the description that are left.
    pub(super) known: std::slice::Iter<'a, KnownAccess>,
    pub(super) time: u64,
    pub(super) end: u64,
    pub(super) record: &'a [u8],
    /// Those that the description does not have, as far as they are left.
    pub(super) loose: &'a [u8],
}

impl<'a> Iterator for Accesses<'a> {
    type Item = Access<'a>;

    #[inline]
    fn next(&mut self) -> Option<Access<'a>> {
        if !self.loose.is_empty() {
            // By value: what a cold function can change is kept in memory.
            let (access, rest) = self.clone().next_of_both()?;
            *self = rest;
            return Some(access);
        }
        Some(self.known.next()?.in_record(self.record, self.time))
    }
}

impl<'a> Accesses<'a> {
    /// Sorts those in that the description does not have.
    #[cold]
    #[inline(never)]
    fn next_of_both(mut self) -> Option<(Access<'a>, Accesses<'a>)> {
        let loose = LooseRecord::read(self.loose)?;
        let time = loose.time(self.end);
        if let Some(first) = self.known.as_slice().first()
            && self.time + u64::from(first.instruction) <= time
        {
            self.known.next();
            return Some((first.in_record(self.record, self.time), self));
        }
        self.loose = self.loose.get(loose.size..).unwrap_or_default();
        let LooseRecord { kind, address, value, .. } = loose;
        Some((Access { time, kind, address, len: value.len() as u64, value }, self))
    }
}

/// A [`replay::Access`] that was found to make sense.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownAccess {
    pub(super) instruction: u8,
    pub(super) kind: AccessKind,
    pub(super) len: u16,
    pub(super) base: u16,
    pub(super) value: u16,
    pub(super) displacement: u64,
    /// What a call writes.
    pub(super) return_address: [u8; 8],
}

impl KnownAccess {
    /// For a block with so many instructions and so many bytes in its record, and code behind it at `next`.
    pub(super) fn check(
        access: &replay::Access,
        instructions: u64,
        bytes: u64,
        next: u64,
    ) -> Option<KnownAccess> {
        let replay::Access { instruction, kind, len, base, value, displacement } = *access;
        let fits = |offset: u16, len: u64| u64::from(offset) + len <= bytes;
        let makes_sense = u64::from(instruction) < instructions
            && (base == replay::Access::ABSOLUTE || fits(base, 8))
            && (value == replay::Access::NO_VALUE || fits(value, len.into()));
        let kind = AccessKind::from_number(kind.into()).filter(|_| makes_sense)?;
        let return_address = next.to_le_bytes();
        Some(KnownAccess { instruction, kind, len, base, value, displacement, return_address })
    }

    #[inline]
    fn in_record<'a>(&'a self, record: &'a [u8], block_time: u64) -> Access<'a> {
        let slice = |offset: u16, len: usize| {
            let start = usize::from(offset);
            record.get(start..start + len).unwrap_or_default()
        };
        let base = match self.base {
            replay::Access::ABSOLUTE => 0,
            offset => slice(offset, 8).first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)),
        };
        let value: &[u8] = match self.value {
            replay::Access::NO_VALUE if self.kind == AccessKind::Call => &self.return_address,
            replay::Access::NO_VALUE => &[],
            offset => slice(offset, self.len.into()),
        };
        Access {
            time: block_time + u64::from(self.instruction),
            kind: self.kind,
            address: base.wrapping_add(self.displacement),
            len: self.len.into(),
            value,
        }
    }
}

/// An access that no description fits.
struct LooseRecord<'a> {
    kind: AccessKind,
    /// Instructions between it and the end of its block, itself included.
    back: u16,
    address: u64,
    value: &'a [u8],
    /// Bytes of the record.
    size: usize,
}

const LOOSE_HEAD: usize = 24;

impl<'a> LooseRecord<'a> {
    fn read(bytes: &'a [u8]) -> Option<LooseRecord<'a>> {
        let head = bytes.first_chunk::<LOOSE_HEAD>()?;
        let half = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&head[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let len = usize::try_from(word(16)).ok()?;
        let size = len.checked_next_multiple_of(8)?.checked_add(LOOSE_HEAD)?;
        let padded = bytes.get(LOOSE_HEAD..size)?;
        Some(LooseRecord {
            kind: AccessKind::from_number(half(4))?,
            back: half(6),
            address: word(8),
            value: &padded[..len],
            size,
        })
    }

    fn time(&self, block_end: u64) -> u64 {
        block_end.saturating_sub(self.back.into())
    }
}

/// Bytes of all loose records at the start.
pub(super) fn loose_length(bytes: &[u8]) -> Result<usize, Error> {
    let mut len = 0;
    while bytes[len..].first_chunk() == Some(&LOOSE.to_le_bytes()) {
        len += LooseRecord::read(&bytes[len..]).ok_or_else(nonsense)?.size;
    }
    Ok(len)
}
