//! Values: what a variable or an expression stands for at one moment.
//!
//! Problem: a value may be a gigabyte of memory of which a line is shown, may lie in several registers, and parts of it
//! may not exist any more because the compiler left them out.
//!
//! Strategy: a value in memory is its address and its type, and is read where it is looked at. Everything else holds its
//! bytes, and which of them are missing.
//!
//! ```text
//! scalar   numbers: reading them from bytes, and writing them as gdb does
//! decimal  floating-point numbers of any width in decimal
//! text     characters and strings
//! parts    elements, members, bases, and what containers of C++ and Rust hold
//! format   the whole as text
//! tree     the whole for programs
//! ```
//!
//! Invariants: looking at a value costs in proportion to what is shown, whatever its type claims; nothing panics.

pub(crate) mod containers;
pub(crate) mod decimal;
mod format;
pub(crate) mod parts;
pub(crate) mod scalar;
mod text;
mod tree;

use std::ops::Range;
use std::sync::Arc;

use thiserror::Error;

use crate::machine::Machine;
use crate::types::{Bits, Spot, Type};

pub use format::{Format, FormatOptions};
pub use scalar::Number;
pub use tree::{Tree, TreeOptions};

/// Bytes of one value that are read at once.
pub(crate) const READ_LIMIT: u64 = 1 << 20;

/// A value of some type.
#[derive(Clone, Debug)]
pub struct Value {
    /// Its type.
    pub ty: Type,
    /// Where its bytes are.
    pub contents: Contents,
    /// It is only these bits of the bytes.
    pub bits: Option<Bits>,
}

/// The bytes of a value.
#[derive(Clone, Debug)]
pub enum Contents {
    /// In memory at this address.
    Memory(u64),
    /// Not in memory.
    Held(Held),
    /// A pointer to something that is not in memory, but known.
    Synthetic(SyntheticPointer),
    /// The compiler did not keep it.
    OptimizedOut,
}

/// Bytes that are not in memory.
#[derive(Clone, Debug)]
pub struct Held {
    /// The bytes.
    pub bytes: Arc<[u8]>,
    /// Which of them are not known.
    pub missing: Vec<Range<usize>>,
    /// Where they are from.
    pub origin: Origin,
}

/// Where bytes that are not in memory are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A register, by its DWARF number.
    Register(u16),
    /// Several places.
    Pieces,
    /// They were computed.
    Computed,
}

/// A pointer to a variable that is in no memory.
#[derive(Clone, Debug)]
pub struct SyntheticPointer {
    /// The variable.
    pub(crate) target: Spot,
    /// How far behind its beginning.
    pub(crate) offset: i64,
}

/// Why the bytes of a value are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Absent {
    /// The compiler did not keep it.
    #[error("optimized out")]
    OptimizedOut,
    /// It is a pointer to something that is in no memory.
    #[error("synthetic pointer")]
    Synthetic,
    /// Its memory is not mapped.
    #[error("Cannot access memory at address {0:#x}")]
    Unreadable(u64),
    /// Its type has no size, or one that cannot be.
    #[error("incomplete type")]
    Incomplete,
    /// It is larger than what is read at once.
    #[error("{0} bytes are more than are read at once")]
    TooLarge(u64),
}

impl Value {
    /// What lies in memory.
    pub fn in_memory(ty: Type, address: u64) -> Value {
        Value { ty, contents: Contents::Memory(address), bits: None }
    }

    /// What was computed.
    pub fn computed(ty: Type, bytes: &[u8]) -> Value {
        Value::held(ty, bytes, Origin::Computed)
    }

    pub(crate) fn held(ty: Type, bytes: &[u8], origin: Origin) -> Value {
        let held = Held { bytes: Arc::from(bytes), missing: Vec::new(), origin };
        Value { ty, contents: Contents::Held(held), bits: None }
    }

    /// What the compiler did not keep.
    pub fn optimized_out(ty: Type) -> Value {
        Value { ty, contents: Contents::OptimizedOut, bits: None }
    }

    /// Its address, if it has one.
    pub fn address(&self) -> Option<u64> {
        match self.contents {
            Contents::Memory(address) if self.bits.is_none() => Some(address),
            _ => None,
        }
    }

    /// The memory that it takes: address and length. Bits take the bytes around them.
    pub fn memory_range(&self) -> Option<(u64, u64)> {
        let Contents::Memory(address) = self.contents else { return None };
        match self.bits {
            None => Some((address, self.ty.size()?)),
            Some(Bits { offset, size }) => {
                let end = offset.checked_add(size)?.div_ceil(8);
                Some((address.wrapping_add(offset / 8), end - offset / 8))
            }
        }
    }

    /// The same bytes as another type.
    pub(crate) fn with_type(&self, ty: Type) -> Value {
        Value { ty, ..self.clone() }
    }

    /// A part of it.
    pub(crate) fn part(&self, offset: u64, ty: Type) -> Value {
        let size = ty.size().unwrap_or(0);
        let contents = match &self.contents {
            Contents::Memory(address) => Contents::Memory(address.wrapping_add(offset)),
            Contents::Held(held) => held.part(offset, size),
            Contents::Synthetic(pointer) if offset == 0 => Contents::Synthetic(pointer.clone()),
            Contents::Synthetic(_) | Contents::OptimizedOut => Contents::OptimizedOut,
        };
        Value { ty, contents, bits: None }
    }

    /// Bits of it.
    pub(crate) fn bit_part(&self, bits: Bits, ty: Type) -> Value {
        let first = bits.offset / 8;
        let bits = Bits { offset: bits.offset % 8, size: bits.size };
        let length = (bits.offset + bits.size).div_ceil(8);
        let contents = match &self.contents {
            Contents::Memory(address) => Contents::Memory(address.wrapping_add(first)),
            Contents::Held(held) => held.part(first, length),
            _ => Contents::OptimizedOut,
        };
        Value { ty, contents, bits: Some(bits) }
    }

    /// All its bytes; of a field of bits, those of its type with the bits at the bottom.
    pub fn bytes(&self, machine: &dyn Machine) -> Result<Vec<u8>, Absent> {
        let size = self.ty.size().ok_or(Absent::Incomplete)?;
        match self.bits {
            None => self.raw_bytes(size, machine),
            Some(bits) => self.bit_bytes(bits, size, machine),
        }
    }

    /// The first bytes of it, whatever its type.
    pub(crate) fn raw_bytes(&self, size: u64, machine: &dyn Machine) -> Result<Vec<u8>, Absent> {
        match &self.contents {
            Contents::Memory(address) => {
                let wanted = usize::try_from(size).ok().filter(|_| size <= READ_LIMIT);
                let mut bytes = vec![0; wanted.ok_or(Absent::TooLarge(size))?];
                let is_read = bytes.is_empty() || machine.read(*address, &mut bytes);
                if is_read { Ok(bytes) } else { Err(Absent::Unreadable(*address)) }
            }
            Contents::Held(held) => held.first_bytes(size).ok_or(Absent::OptimizedOut),
            Contents::Synthetic(_) => Err(Absent::Synthetic),
            Contents::OptimizedOut => Err(Absent::OptimizedOut),
        }
    }

    fn bit_bytes(&self, bits: Bits, size: u64, machine: &dyn Machine) -> Result<Vec<u8>, Absent> {
        let length = (bits.offset + bits.size).div_ceil(8);
        let bytes = self.raw_bytes(length, machine)?;
        // At most 128 bits that begin within the first byte: they may reach into a 17th.
        let mut low = [0; 16];
        let taken = bytes.len().min(16);
        low[..taken].copy_from_slice(&bytes[..taken]);
        let mut number = u128::from_le_bytes(low) >> bits.offset;
        if let (Some(&last), 1..) = (bytes.get(16), bits.offset) {
            number |= u128::from(last) << (128 - bits.offset);
        }
        let unused = 128 - (bits.size.clamp(1, 128) as u32);
        let is_signed = scalar::is_signed(&self.ty);
        let number = match is_signed {
            true => ((number << unused) as i128 >> unused) as u128,
            false => number << unused >> unused,
        };
        let size = (size as usize).min(16);
        Ok(number.to_le_bytes()[..size].to_vec())
    }
}

impl Held {
    fn part(&self, offset: u64, size: u64) -> Contents {
        let range = usize::try_from(offset)
            .ok()
            .and_then(|start| Some(start..start.checked_add(usize::try_from(size).ok()?)?));
        let Some((range, bytes)) =
            range.and_then(|range| Some((range.clone(), self.bytes.get(range)?)))
        else {
            return Contents::OptimizedOut;
        };
        let missing: Vec<Range<usize>> = (self.missing.iter())
            .map(|gap| gap.start.max(range.start)..gap.end.min(range.end))
            .filter(|gap| gap.start < gap.end)
            .map(|gap| gap.start - range.start..gap.end - range.start)
            .collect();
        if missing.iter().any(|gap| gap.len() == bytes.len()) {
            return Contents::OptimizedOut;
        }
        Contents::Held(Held { bytes: Arc::from(bytes), missing, origin: self.origin })
    }

    fn first_bytes(&self, size: u64) -> Option<Vec<u8>> {
        let size = usize::try_from(size).ok()?;
        if self.missing.iter().any(|gap| gap.start < size) {
            return None;
        }
        Some(self.bytes.get(..size)?.to_vec())
    }
}
