//! Merging the sorted sets of sixteen children into entries.
//!
//! Two ways. In general, all pieces are sorted by where they begin (the standard library's stable sort finds the
//! sixteen sorted rows and merges them, which is faster than a heap of sixteen), and one sweep over them keeps
//! which children are present. For the many short pieces of plain sets there is a faster way: a table of masks, one
//! for each key, in chunks of neighbouring keys, which only has to be read out in order. Long pieces stay out of
//! the table, so that what it takes is in proportion to the number of pieces.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::{FANOUT, SetKind, children};

/// Consecutive keys of one child that have the same count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) count: u64,
    pub(super) child: u8,
}

/// The counts of each child; 0 for those that are not in the mask, and for all in plain sets.
pub(super) type Counts = [u64; FANOUT as usize];

const NO_COUNTS: Counts = [0; FANOUT as usize];

/// Keys of a chunk, as a power of two: their masks fill a cache line.
const CHUNK_BITS: u32 = 5;

const CHUNK: u64 = 1 << CHUNK_BITS;

/// Pieces of more keys stay out of the table.
const SHORT: u64 = 4 * CHUNK;

/// Masks of the keys of a chunk.
type Chunk = [u16; CHUNK as usize];

/// Merges pieces that come in any order, as long as those of each child are disjoint.
#[derive(Debug)]
pub(super) struct Merger {
    kind: SetKind,
    pieces: Vec<Piece>,
    /// Where in `chunks` those of a number are.
    places: HashMap<u64, u32, BuildHasherDefault<ChunkHasher>>,
    chunks: Vec<Chunk>,
    /// The numbers of the chunks, with their places.
    order: Vec<(u64, u32)>,
    /// The chunk that was used last; pieces mostly come in order.
    last: (u64, u32),
}

impl Merger {
    pub(super) fn new(kind: SetKind) -> Merger {
        Merger {
            kind,
            pieces: Vec::new(),
            places: HashMap::default(),
            chunks: Vec::new(),
            order: Vec::new(),
            last: (u64::MAX, 0),
        }
    }

    pub(super) fn add(&mut self, piece: Piece) {
        if self.kind == SetKind::Counted || piece.end - piece.start > SHORT {
            self.pieces.push(piece);
            return;
        }
        let bit = 1 << piece.child;
        let mut start = piece.start;
        while start < piece.end {
            let number = start >> CHUNK_BITS;
            let end = piece.end.min((number + 1) << CHUNK_BITS);
            let first = (start % CHUNK) as usize;
            for mask in &mut self.chunk(number)[first..first + (end - start) as usize] {
                *mask |= bit;
            }
            start = end;
        }
    }

    fn chunk(&mut self, number: u64) -> &mut Chunk {
        if self.last.0 != number {
            let place = *self.places.entry(number).or_insert_with(|| {
                // Sixteen leaves or the sets of sixteen windows make far fewer than 2^32 chunks.
                let place = self.chunks.len() as u32;
                self.chunks.push([0; CHUNK as usize]);
                self.order.push((number, place));
                place
            });
            self.last = (number, place);
        }
        &mut self.chunks[self.last.1 as usize]
    }

    /// Hands out the entries that all pieces make together, in order, and forgets the pieces.
    pub(super) fn finish<E>(
        &mut self,
        mut emit: impl FnMut(u64, u64, u16, &Counts) -> Result<(), E>,
    ) -> Result<(), E> {
        // Chunks were made in the order of each child's keys, so that this finds sorted rows, too.
        self.order.sort();
        let result = if self.pieces.is_empty() {
            self.chunk_entries(|start, end, mask| emit(start, end, mask, &NO_COUNTS))
        } else if self.order.is_empty() {
            sweep(&mut self.pieces, emit)
        } else {
            self.finish_both(emit)
        };
        self.pieces.clear();
        self.places.clear();
        self.chunks.clear();
        self.order.clear();
        self.last = (u64::MAX, 0);
        result
    }

    /// Hands out what is in the table.
    fn chunk_entries<E>(
        &self,
        mut emit: impl FnMut(u64, u64, u16) -> Result<(), E>,
    ) -> Result<(), E> {
        for &(number, place) in &self.order {
            let mut start = number << CHUNK_BITS;
            for same in self.chunks[place as usize].chunk_by(|a, b| a == b) {
                let end = start + same.len() as u64;
                if same[0] != 0 {
                    emit(start, end, same[0])?;
                }
                start = end;
            }
        }
        Ok(())
    }

    /// Lays what is in the table over the long pieces.
    fn finish_both<E>(
        &mut self,
        mut emit: impl FnMut(u64, u64, u16, &Counts) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut long = Vec::new();
        let collect = |start, end, mask, _: &Counts| {
            long.push((start, end, mask));
            Ok::<(), E>(())
        };
        sweep(&mut self.pieces, collect)?;
        let mut long = long.into_iter().peekable();
        let mut emit = |start, end, mask| emit(start, end, mask, &NO_COUNTS);
        self.chunk_entries(|mut start, end, mask| {
            while let Some((long_start, long_end, long_mask)) = long.peek_mut() {
                if *long_start >= end {
                    break;
                }
                if *long_start < start {
                    let until = start.min(*long_end);
                    emit(*long_start, until, *long_mask)?;
                    *long_start = until;
                } else {
                    if start < *long_start {
                        emit(start, *long_start, mask)?;
                    }
                    start = end.min(*long_end);
                    emit(*long_start, start, mask | *long_mask)?;
                    *long_start = start;
                }
                if long_start == long_end {
                    long.next();
                }
                if start == end {
                    return Ok(());
                }
            }
            emit(start, end, mask)
        })?;
        long.try_for_each(|(start, end, mask)| emit(start, end, mask))
    }
}

/// Spreads the numbers of chunks, which are small and close to each other.
#[derive(Debug, Default)]
pub(super) struct ChunkHasher(u64);

impl Hasher for ChunkHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Hands out the entries that pieces make together, in order. The pieces of each child are disjoint.
fn sweep<E>(
    pieces: &mut [Piece],
    mut emit: impl FnMut(u64, u64, u16, &Counts) -> Result<(), E>,
) -> Result<(), E> {
    pieces.sort_by_key(|piece| piece.start);
    let mut pieces = pieces.iter().peekable();
    let mut present = 0u16;
    let mut ends = NO_COUNTS;
    let mut counts = NO_COUNTS;
    let mut position = 0;
    loop {
        let next_start = pieces.peek().map(|piece| piece.start);
        if present == 0 {
            let Some(start) = next_start else { return Ok(()) };
            position = start;
        } else {
            let first_end = children(present).map(|child| ends[child as usize]).min();
            let end = first_end.into_iter().chain(next_start).min().unwrap_or(position);
            if end > position {
                emit(position, end, present, &counts)?;
                position = end;
            }
            for child in children(present).filter(|&child| ends[child as usize] == position) {
                present &= !(1 << child);
                counts[child as usize] = 0;
            }
        }
        while let Some(piece) = pieces.next_if(|piece| piece.start == position) {
            present |= 1 << piece.child;
            ends[usize::from(piece.child)] = piece.end;
            counts[usize::from(piece.child)] = piece.count;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Long and short pieces, of some children with a random beginning and length, against a mask for each key.
        #[test]
        fn entries_say_of_each_key_who_has_it(
            rows in prop::collection::vec(
                prop::collection::vec((0u64..200, 1u64..400), 0..30),
                0..FANOUT as usize,
            ),
            counted: bool,
        ) {
            let mut merger =
                Merger::new(if counted { SetKind::Counted } else { SetKind::Plain });
            for _ in 0..2 {
                let mut expected = BTreeMap::new();
                for (child, row) in rows.iter().enumerate() {
                    let mut position = 0;
                    for &(gap, length) in row {
                        let (start, end) = (position + gap, position + gap + length / (1 + gap % 3) + 1);
                        let count = if counted { gap } else { 0 };
                        merger.add(Piece { start, end, count, child: child as u8 });
                        for key in start..end {
                            let (mask, counts) = expected.entry(key).or_insert((0, NO_COUNTS));
                            *mask |= 1 << child;
                            counts[child] = count;
                        }
                        position = end;
                    }
                }
                let mut found = Vec::new();
                let Ok(()) = merger.finish(|start, end, mask, counts| {
                    found.extend((start..end).map(|key| (key, (mask, *counts))));
                    Ok::<(), Infallible>(())
                });
                prop_assert!(found.into_iter().eq(expected));
            }
        }
    }
}
