//! Leaves: a few thousand entries of a node, as they are in a frame and in memory.
//!
//! ```text
//! leaf    entries  masks: dictionary  packed(gaps)  packed(lengths)  packed(masks)  packed(counts)  packed(bits)
//! ```
//!
//! Each of gaps (from the end of the entry before), lengths (less one), masks and counts (differences from the
//! entry before that has the child) is a column of bytes, one a value, that is compressed by itself: a value below
//! 64 is its byte; of a larger one, the byte is its power of two and the two bits below the highest, and the rest
//! of its bits goes to the bits. A mask is its place among the leaf's most frequent ones, or 255 and then all of it
//! among the bits.

use super::merge::Counts;
use super::{COUNT_LIMIT, FANOUT, KEY_LIMIT, children};
use crate::frames::fields::{BadField, Fields, put_number};
use crate::frames::packing::{Packer, unpack};

/// The most entries in a leaf.
pub(super) const LEAF_ENTRIES: usize = 4096;

/// The most bits that a value leaves to the bits.
const BITS_LIMIT: usize = 51;

/// The byte of a mask that is not in the dictionary.
const OTHER_MASK: u8 = 255;

/// Entries of a node, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entries {
    pub(super) starts: Vec<u64>,
    pub(super) ends: Vec<u64>,
    pub(super) masks: Vec<u16>,
    /// For each entry in turn, the counts of the children in its mask; nothing for plain sets.
    counts: Vec<u64>,
    /// Where in `counts` those of each entry begin.
    first_counts: Vec<u32>,
}

impl Entries {
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Bytes in memory.
    pub(super) fn size(&self) -> usize {
        self.len() * 24 + self.counts.len() * 8
    }

    pub(super) fn clear(&mut self) {
        self.starts.clear();
        self.ends.clear();
        self.masks.clear();
        self.counts.clear();
        self.first_counts.clear();
    }

    /// Adds an entry behind the others, or makes the last one longer if it fits.
    pub(super) fn push(&mut self, start: u64, end: u64, mask: u16, counts: Option<&Counts>) {
        if self.ends.last() == Some(&start)
            && self.masks.last() == Some(&mask)
            && self.last_counts_are(mask, counts)
        {
            self.ends.pop();
            self.ends.push(end);
            return;
        }
        self.starts.push(start);
        self.ends.push(end);
        self.masks.push(mask);
        if let Some(counts) = counts {
            self.first_counts.push(self.counts.len() as u32);
            self.counts.extend(children(mask).map(|child| counts[child as usize]));
        }
    }

    fn last_counts_are(&self, mask: u16, counts: Option<&Counts>) -> bool {
        let Some(counts) = counts else { return true };
        let first = self.first_counts.last().map_or(0, |&first| first as usize);
        children(mask).map(|child| counts[child as usize]).eq(self.counts[first..].iter().copied())
    }

    /// The children that an entry is in, with how often each of its keys occurs in them.
    pub(super) fn occurrences(&self, entry: usize) -> impl Iterator<Item = (u32, u64)> + '_ {
        let first = self.first_counts.get(entry).map_or(0, |&first| first as usize);
        let counts = &self.counts[first..];
        let counts = counts.iter().copied().chain(std::iter::repeat(0));
        children(self.masks[entry]).zip(counts)
    }

    /// The entries that have keys of a range.
    pub(super) fn overlapping(&self, start: u64, end: u64) -> std::ops::Range<usize> {
        let first = self.ends.partition_point(|&entry_end| entry_end <= start);
        first..first.max(self.starts.partition_point(|&entry_start| entry_start < end))
    }
}

/// Encodes leaves.
pub(super) struct LeafEncoder {
    packer: Packer,
    /// Of the masks in the dictionary, their places; of all others, [`OTHER_MASK`].
    places: Box<[u8]>,
    column: Vec<u8>,
}

impl LeafEncoder {
    pub(super) fn new() -> LeafEncoder {
        let places = vec![OTHER_MASK; 1 << FANOUT].into_boxed_slice();
        LeafEncoder { packer: Packer::new(), places, column: Vec::new() }
    }

    pub(super) fn encode(&mut self, entries: &Entries) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut bits = BitWriter::default();
        put_number(&mut bytes, entries.len() as u64);
        let dictionary = frequent_masks(&entries.masks);
        put_number(&mut bytes, dictionary.len() as u64);
        bytes.extend(dictionary.iter().flat_map(|mask| mask.to_le_bytes()));

        let previous_ends = std::iter::once(&0).chain(&entries.ends);
        let gaps = entries.starts.iter().zip(previous_ends).map(|(start, end)| start - end);
        self.column(&mut bytes, &mut bits, gaps);
        let lengths = entries.starts.iter().zip(&entries.ends).map(|(start, end)| end - start - 1);
        self.column(&mut bytes, &mut bits, lengths);
        self.masks(&mut bytes, &mut bits, &dictionary, &entries.masks);
        let mut previous: Counts = [0; FANOUT as usize];
        let child_of_count = entries.masks.iter().flat_map(|&mask| children(mask));
        let differences = entries.counts.iter().zip(child_of_count).map(|(&count, child)| {
            let before = std::mem::replace(&mut previous[child as usize], count);
            zigzag(count as i64 - before as i64)
        });
        self.column(&mut bytes, &mut bits, differences);
        self.packer.put(&mut bytes, &bits.finish());
        bytes
    }

    fn column(
        &mut self,
        bytes: &mut Vec<u8>,
        bits: &mut BitWriter,
        values: impl Iterator<Item = u64>,
    ) {
        self.column.clear();
        self.column.extend(values.map(|value| {
            if value < 64 {
                return value as u8;
            }
            let power = value.ilog2();
            let low_bits = power - 2;
            bits.put(value & ((1 << low_bits) - 1), low_bits as usize);
            (64 + (power - 6) * 4) as u8 + (value >> low_bits & 3) as u8
        }));
        self.packer.put(bytes, &self.column);
    }

    fn masks(
        &mut self,
        bytes: &mut Vec<u8>,
        bits: &mut BitWriter,
        dictionary: &[u16],
        masks: &[u16],
    ) {
        for (place, &mask) in dictionary.iter().enumerate() {
            self.places[usize::from(mask)] = place as u8;
        }
        self.column.clear();
        self.column.extend(masks.iter().map(|&mask| {
            let place = self.places[usize::from(mask)];
            if place == OTHER_MASK {
                bits.put(mask.into(), 16);
            }
            place
        }));
        for &mask in dictionary {
            self.places[usize::from(mask)] = OTHER_MASK;
        }
        self.packer.put(bytes, &self.column);
    }
}

/// The masks that occur more than once, the most frequent ones first, as many as fit in a byte.
fn frequent_masks(masks: &[u16]) -> Vec<u16> {
    let mut sorted = masks.to_vec();
    sorted.sort_unstable();
    let mut frequencies: Vec<(usize, u16)> = sorted
        .chunk_by(|a, b| a == b)
        .filter(|same| same.len() > 1)
        .map(|same| (same.len(), same[0]))
        .collect();
    frequencies.sort_unstable_by_key(|&(frequency, mask)| (std::cmp::Reverse(frequency), mask));
    frequencies.truncate(OTHER_MASK.into());
    frequencies.into_iter().map(|(_, mask)| mask).collect()
}

/// The entries of a leaf.
pub(super) fn decode(bytes: &[u8], counted: bool) -> Result<Entries, BadField> {
    let mut fields = Fields::new(bytes);
    let length = fields.number()? as usize;
    if length == 0 || length > LEAF_ENTRIES {
        return Err("a leaf has too many entries or none");
    }
    let dictionary = fields.count()?;
    let dictionary = fields.take(2 * dictionary)?;
    let gaps = unpack(&mut fields, LEAF_ENTRIES, 0)?;
    let lengths = unpack(&mut fields, LEAF_ENTRIES, 0)?;
    let places = unpack(&mut fields, LEAF_ENTRIES, 0)?;
    if [gaps.len(), lengths.len(), places.len()] != [length; 3] {
        return Err("a column of a leaf has another length");
    }
    let counts = unpack(&mut fields, LEAF_ENTRIES * FANOUT as usize, 0)?;
    let values = LEAF_ENTRIES * (3 + FANOUT as usize);
    let bits = unpack(&mut fields, values * BITS_LIMIT / 8, BitReader::PADDING)?;
    let mut bits = BitReader { bytes: &bits, position: 0 };

    let starts = values_of(&gaps, &mut bits)?;
    let ends = values_of(&lengths, &mut bits)?;
    let mut entries = Entries { starts, ends, ..Entries::default() };
    let mut end = 0u64;
    for (start, length) in entries.starts.iter_mut().zip(&mut entries.ends) {
        *start += end;
        end = *start + *length + 1;
        if end > KEY_LIMIT {
            return Err("a key is too large");
        }
        *length = end;
    }
    entries.masks.reserve_exact(length);
    for &place in &places {
        let mask = match dictionary.chunks_exact(2).nth(place.into()) {
            Some(mask) => u16::from_le_bytes([mask[0], mask[1]]),
            None if place == OTHER_MASK => bits.take(16)? as u16,
            None => return Err("a mask is not in the dictionary"),
        };
        if mask == 0 {
            return Err("a mask is empty");
        }
        entries.masks.push(mask);
    }
    if counted {
        decode_counts(&mut entries, &counts, &mut bits)?;
    } else if !counts.is_empty() {
        return Err("a plain set has counts");
    }
    Ok(entries)
}

fn decode_counts(
    entries: &mut Entries,
    column: &[u8],
    bits: &mut BitReader,
) -> Result<(), BadField> {
    let total: usize = entries.masks.iter().map(|mask| mask.count_ones() as usize).sum();
    if column.len() != total {
        return Err("a column of a leaf has another length");
    }
    entries.counts = values_of(column, bits)?;
    let mut previous: Counts = [0; FANOUT as usize];
    let mut counts = entries.counts.iter_mut();
    let mut first = 0;
    for &mask in &entries.masks {
        entries.first_counts.push(first);
        first += mask.count_ones();
        for (child, count) in children(mask).zip(&mut counts) {
            let previous = &mut previous[child as usize];
            *count = previous.wrapping_add_signed(unzigzag(*count));
            if *count > COUNT_LIMIT {
                return Err("a count is too large");
            }
            *previous = *count;
        }
    }
    Ok(())
}

/// The values of a column.
fn values_of(column: &[u8], bits: &mut BitReader) -> Result<Vec<u64>, BadField> {
    let mut values = Vec::with_capacity(column.len());
    for &byte in column {
        values.push(match byte {
            0..64 => byte.into(),
            _ => {
                let low_bits = u32::from(byte - 64) / 4 + 4;
                let high = 4 + u64::from(byte % 4);
                high << low_bits | bits.take(low_bits as usize)?
            }
        });
    }
    Ok(values)
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -(value as i64 & 1)
}

/// Writes numbers of some bits, the lowest bits first.
#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    /// Bits that are not in `bytes` yet, fewer than eight.
    pending: u64,
    count: usize,
}

impl BitWriter {
    fn put(&mut self, value: u64, bits: usize) {
        self.pending |= value << self.count;
        self.count += bits;
        while self.count >= 8 {
            self.bytes.push(self.pending as u8);
            self.pending >>= 8;
            self.count -= 8;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.bytes.push(self.pending as u8);
        }
        self.bytes
    }
}

/// Reads what a [`BitWriter`] wrote.
struct BitReader<'a> {
    /// With padding at the end.
    bytes: &'a [u8],
    /// In bits.
    position: usize,
}

impl BitReader<'_> {
    /// A number may begin in the last byte, and eight are read at once.
    const PADDING: usize = 8;

    fn take(&mut self, bits: usize) -> Result<u64, BadField> {
        let rest = self.bytes.get(self.position / 8..).and_then(|rest| rest.first_chunk::<8>());
        let word = u64::from_le_bytes(*rest.ok_or("bits are cut short")?);
        let value = word >> (self.position % 8) & ((1 << bits) - 1);
        self.position += bits;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_leaf_is_what_it_was(
            raw in prop::collection::vec(
                (0u64..1 << 40, 0u32..41, 1u64..1000, 1u16.., prop::array::uniform16(0u64..1 << 40)),
                1..300,
            ),
            counted: bool,
        ) {
            let mut entries = Entries::default();
            let mut position = 0;
            for (gap, bits, length, mask, counts) in raw {
                let start = position + (gap & ((1 << bits) - 1));
                position = start + length;
                entries.push(start, position, mask, counted.then_some(&counts));
            }
            let bytes = LeafEncoder::new().encode(&entries);
            prop_assert_eq!(decode(&bytes, counted), Ok(entries.clone()));
            for cut in 0..bytes.len() {
                prop_assert!(decode(&bytes[..cut], counted).is_err());
            }
        }

        #[test]
        fn a_damaged_leaf_never_panics(bytes: Vec<u8>, at: prop::sample::Index, flip in 1u8..) {
            let _ = decode(&bytes, true);
            let mut entries = Entries::default();
            for key in 0..500 {
                entries.push(key * key, key * key + 1, key as u16 | 1, None);
            }
            let mut bytes = LeafEncoder::new().encode(&entries);
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            let _ = decode(&bytes, false);
        }
    }
}
