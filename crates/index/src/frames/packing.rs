//! Compressed bytes within frames.
//!
//! A packed field is its raw length, its stored length, and the stored bytes: those of zstd where that makes it
//! smaller, the raw ones where both lengths are the same.

use std::cell::RefCell;

use zstd::bulk::{Compressor, Decompressor};

use super::fields::{BadField, Fields, put_bytes, put_number};

/// Compression that keeps up with a replay.
const LEVEL: i32 = 1;

/// Packs fields, keeping what setting up a compression costs.
pub(crate) struct Packer {
    /// What zstd cannot do, for want of memory, stays uncompressed.
    compressor: Option<Compressor<'static>>,
    room: Vec<u8>,
}

impl Packer {
    pub(crate) fn new() -> Packer {
        Packer { compressor: Compressor::new(LEVEL).ok(), room: Vec::new() }
    }

    /// Appends a packed field.
    pub(crate) fn put(&mut self, bytes: &mut Vec<u8>, raw: &[u8]) {
        put_number(bytes, raw.len() as u64);
        put_bytes(bytes, self.compressed(raw).unwrap_or(raw));
    }

    /// What is smaller than the raw bytes.
    fn compressed(&mut self, raw: &[u8]) -> Option<&[u8]> {
        let limit = raw.len().checked_sub(1)?;
        self.room.resize(limit, 0);
        let compressor = self.compressor.as_mut()?;
        let length = compressor.compress_to_buffer(raw, &mut self.room[..]).ok()?;
        Some(&self.room[..length])
    }
}

thread_local! {
    /// Setting it up costs more than unpacking a field.
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Takes a packed field of at most so many raw bytes, with room for so many more behind it.
pub(crate) fn unpack(
    fields: &mut Fields,
    limit: usize,
    padding: usize,
) -> Result<Vec<u8>, BadField> {
    let length = fields.number()?;
    let stored = fields.bytes()?;
    if length > limit as u64 {
        return Err("a packed field is too long");
    }
    let length = length as usize;
    let mut raw = vec![0; length + padding];
    if stored.len() == length {
        raw[..length].copy_from_slice(stored);
        return Ok(raw);
    }
    let unpacked = DECOMPRESSOR.with_borrow_mut(|kept| {
        if kept.is_none() {
            *kept = Decompressor::new().ok();
        }
        kept.as_mut()?.decompress_to_buffer(stored, &mut raw[..length]).ok()
    });
    if unpacked != Some(length) {
        return Err("a packed field cannot be unpacked");
    }
    Ok(raw)
}
