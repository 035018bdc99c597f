//! Compressed bytes within frames.
//!
//! A packed field is its raw length, its stored length, and the stored bytes: those of lz4 where that makes it
//! smaller, the raw ones where both lengths are the same. Questions unpack hundreds of fields each, so what counts is
//! how fast that goes.

use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};

use super::fields::{BadField, Fields, put_bytes, put_number};

/// Packs fields, keeping the memory that it takes.
#[derive(Default)]
pub(crate) struct Packer {
    room: Vec<u8>,
}

impl Packer {
    pub(crate) fn new() -> Packer {
        Packer::default()
    }

    /// Appends a packed field.
    pub(crate) fn put(&mut self, bytes: &mut Vec<u8>, raw: &[u8]) {
        put_number(bytes, raw.len() as u64);
        put_bytes(bytes, self.compressed(raw).unwrap_or(raw));
    }

    /// What is smaller than the raw bytes.
    fn compressed(&mut self, raw: &[u8]) -> Option<&[u8]> {
        let most = get_maximum_output_size(raw.len());
        if self.room.len() < most {
            self.room.resize(most, 0);
        }
        let length = compress_into(raw, &mut self.room).ok()?;
        (length < raw.len()).then(|| &self.room[..length])
    }
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
    if decompress_into(stored, &mut raw[..length]).ok() != Some(length) {
        return Err("a packed field cannot be unpacked");
    }
    Ok(raw)
}
