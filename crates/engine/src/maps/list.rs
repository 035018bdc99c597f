//! The mappings of an address space in order, in chunks, so that a program with tens of thousands of them pays for one as
//! little as any other.
//!
//! Each chunk knows the largest gap in front of one of its mappings: who looks for room passes over whole chunks.
//!
//! Invariants: no chunk is empty or longer than [`LONGEST`]; mappings are sorted and disjoint; `start`, `end` and `largest_gap` are exact, where the
//! gap of a chunk's first mapping reaches down to the last mapping of the chunk before, or to address 0.

use super::Mapping;
use alloc::vec::Vec;

/// Most mappings in a chunk.
const LONGEST: usize = 64;

#[derive(Debug)]
struct Chunk {
    /// Start of the first and end of the last, so that a search need not look at the mappings themselves.
    start: u64,
    end: u64,
    largest_gap: u64,
    mappings: Vec<Mapping>,
}

impl Chunk {
    fn new(mappings: Vec<Mapping>) -> Chunk {
        Chunk { start: 0, end: 0, largest_gap: 0, mappings }
    }

    /// Starts and ends of some of its mappings, as one if no gap has `gap` bytes.
    fn used(
        &self,
        from: usize,
        to: usize,
        gap: u64,
    ) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        let all = from == 0 && to == self.mappings.len();
        let (one, each) = match all && self.largest_gap < gap {
            true => (Some((self.start, self.end)), &[][..]),
            false => (None, &self.mappings[from..to]),
        };
        one.into_iter().chain(each.iter().map(|m| (m.start, m.end)))
    }
}

/// A mapping's place in the list; any change of the list makes it void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    chunk: usize,
    index: usize,
}

/// The list.
#[derive(Debug, Default)]
pub struct MappingList {
    chunks: Vec<Chunk>,
}

impl MappingList {
    /// All mappings, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Mapping> {
        self.chunks.iter().flat_map(|chunk| chunk.mappings.iter())
    }

    /// Those that end above an address, in order.
    pub fn iter_above(&self, address: u64) -> impl Iterator<Item = &Mapping> {
        let Place { chunk, index } = self.first_above(address);
        let first = self.chunks.get(chunk).map_or(&[][..], |c| &c.mappings[index..]);
        let rest = self.chunks.get(chunk + 1..).unwrap_or(&[]);
        first.iter().chain(rest.iter().flat_map(|c| c.mappings.iter()))
    }

    /// What is in use below an address, from the top down: start and end of each mapping that starts there. Mappings between
    /// which no gap has `gap` bytes may be told as one.
    pub fn used_below(&self, address: u64, gap: u64) -> impl Iterator<Item = (u64, u64)> {
        let chunks = self.chunks.partition_point(|c| c.start < address);
        self.chunks[..chunks].iter().rev().flat_map(move |chunk| {
            let below = match chunk.end <= address {
                true => chunk.mappings.len(),
                false => chunk.mappings.partition_point(|m| m.start < address),
            };
            chunk.used(0, below, gap).rev()
        })
    }

    /// The same for what ends above an address, from the bottom up.
    pub fn used_above(&self, address: u64, gap: u64) -> impl Iterator<Item = (u64, u64)> {
        let first = self.first_above(address);
        let chunks = self.chunks.get(first.chunk..).unwrap_or(&[]);
        chunks.iter().enumerate().flat_map(move |(number, chunk)| {
            let from = if number == 0 { first.index } else { 0 };
            chunk.used(from, chunk.mappings.len(), gap)
        })
    }

    /// The first mapping that ends above an address, or the end of the list.
    pub fn first_above(&self, address: u64) -> Place {
        let ends_below = |m: &Mapping| m.end <= address;
        let chunk = self.chunks.partition_point(|c| c.end <= address);
        let index = self.chunks.get(chunk).map_or(0, |c| c.mappings.partition_point(ends_below));
        Place { chunk, index }
    }

    /// The mapping at a place; `None` at the end.
    pub fn get(&self, place: Place) -> Option<&Mapping> {
        self.chunks.get(place.chunk)?.mappings.get(place.index)
    }

    /// The place in front of another; `None` at the beginning.
    pub fn before(&self, place: Place) -> Option<Place> {
        if place.index > 0 {
            return Some(Place { index: place.index - 1, ..place });
        }
        let chunk = place.chunk.checked_sub(1)?;
        Some(Place { chunk, index: self.chunks[chunk].mappings.len() - 1 })
    }

    /// The place behind another.
    pub fn after(&self, place: Place) -> Place {
        let next = Place { index: place.index + 1, ..place };
        match self.get(next) {
            Some(_) => next,
            None => Place { chunk: place.chunk + 1, index: 0 },
        }
    }

    /// Puts another mapping in the place of one.
    pub fn set(&mut self, place: Place, mapping: Mapping) {
        self.chunks[place.chunk].mappings[place.index] = mapping;
        self.measure_around(place.chunk);
    }

    /// Adds a mapping in front of a place.
    pub fn insert(&mut self, place: Place, mapping: Mapping) {
        let Place { mut chunk, mut index } = place;
        if chunk == self.chunks.len() {
            // Behind everything: the last chunk takes it, if there is one.
            match self.chunks.last() {
                Some(last) => (chunk, index) = (chunk - 1, last.mappings.len()),
                None => self.chunks.push(Chunk::new(Vec::with_capacity(LONGEST))),
            }
        }
        if self.chunks[chunk].mappings.len() == LONGEST {
            // Mappings mostly come one below the other: then chunks fill up.
            let middle = if index == 0 { 1 } else { LONGEST / 2 };
            let mut upper = Vec::with_capacity(LONGEST);
            upper.extend(self.chunks[chunk].mappings.drain(middle..));
            self.chunks.insert(chunk + 1, Chunk::new(upper));
            if index > middle {
                (chunk, index) = (chunk + 1, index - middle);
            }
        }
        self.chunks[chunk].mappings.insert(index, mapping);
        self.measure_around(chunk.saturating_sub(1));
        self.measure_around(chunk + 1);
    }

    /// Removes the mapping at a place; what came behind it is there then.
    pub fn remove(&mut self, place: Place) {
        let chunk = &mut self.chunks[place.chunk];
        chunk.mappings.remove(place.index);
        if chunk.mappings.is_empty() {
            self.chunks.remove(place.chunk);
        }
        self.measure_around(place.chunk);
    }

    /// Finds the largest gaps of a chunk and of the one behind it, if there are such.
    fn measure_around(&mut self, chunk: usize) {
        for number in chunk..(chunk + 2).min(self.chunks.len()) {
            let below = number.checked_sub(1).and_then(|n| self.chunks[n].mappings.last());
            let mut end = below.map_or(0, |m| m.end);
            let chunk = &mut self.chunks[number];
            chunk.largest_gap = 0;
            for mapping in &chunk.mappings {
                chunk.largest_gap = chunk.largest_gap.max(mapping.start - end);
                end = mapping.end;
            }
            chunk.start = chunk.mappings[0].start;
            chunk.end = end;
        }
    }
}
