//! The parentheses of one page, a bit each, and searches among them.
//!
//! A range min-max tree of three levels: bits, bytes with a table, blocks with summaries made when the page is loaded.
//! Every search is one walk that takes the largest step which cannot miss what is looked for.
//!
//! Positions are within the page, and values of the excess relative to its start.

use std::cmp::Ordering;
use std::ops::Range;

use super::summary::{OF_BYTE, Summary};
use super::{BLOCK, PAGE};

/// Up to a page of parentheses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parentheses {
    /// The first parenthesis is the lowest bit of the first byte. Bits behind the last one are 0.
    bits: Vec<u8>,
    length: usize,
    /// Of the whole blocks.
    blocks: Vec<Summary>,
}

/// A few parentheses in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    /// The first is the lowest bit: 1 for an open. Bits behind the last one are 0.
    pub(super) bits: u64,
    /// Up to [`Run::LONGEST`].
    pub(super) length: usize,
}

impl Run {
    pub(super) const LONGEST: usize = u64::BITS as usize;

    pub(super) fn of_one(is_open: bool) -> Run {
        Run { bits: u64::from(is_open), length: 1 }
    }

    /// The first so many, and the others.
    pub(super) fn split_at(self, length: usize) -> (Run, Run) {
        if length >= self.length {
            return (self, Run::default());
        }
        let first = Run { bits: self.bits & !(u64::MAX << length), length };
        (first, Run { bits: self.bits >> length, length: self.length - length })
    }
}

impl Parentheses {
    /// So many parentheses from bytes, if there are exactly enough of them.
    pub(super) fn from_bits(bits: Vec<u8>, length: usize) -> Option<Parentheses> {
        let unused = (bits.len() * 8).checked_sub(length)?;
        let clean =
            unused < 8 && bits.last().is_none_or(|&last| u32::from(last) >> (8 - unused) == 0);
        if length > PAGE || !clean {
            return None;
        }
        let blocks =
            bits[..length / BLOCK * (BLOCK / 8)].chunks_exact(BLOCK / 8).map(of_bytes).collect();
        Some(Parentheses { bits, length, blocks })
    }

    pub(super) fn bits(&self) -> &[u8] {
        &self.bits
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Adds a run that does not go beyond the end of a block.
    pub(super) fn append(&mut self, run: Run) {
        let used = self.length % 8;
        let begun = if used == 0 { 0 } else { self.bits.pop().unwrap_or_default() };
        let bytes = (u128::from(run.bits) << used | u128::from(begun)).to_le_bytes();
        self.bits.extend_from_slice(&bytes[..(used + run.length).div_ceil(8)]);
        self.length += run.length;
        if self.length.is_multiple_of(BLOCK) && run.length > 0 {
            self.blocks.push(of_bytes(&self.bits[(self.length - BLOCK) / 8..]));
        }
    }

    pub(super) fn is_open(&self, position: usize) -> bool {
        self.bits.get(position / 8).is_some_and(|byte| byte >> (position % 8) & 1 == 1)
    }

    pub(super) fn summary(&self) -> Summary {
        self.summary_of(0..self.length)
    }

    /// Opens before a position.
    pub(super) fn rank_open(&self, position: usize) -> usize {
        let position = position.min(self.length);
        let (blocks, bytes) = (position / BLOCK, position / 8);
        let in_blocks: u64 = self.blocks[..blocks].iter().map(|block| block.opens).sum();
        let in_bytes: u32 =
            self.bits[blocks * (BLOCK / 8)..bytes].iter().map(|byte| byte.count_ones()).sum();
        let in_bits = self
            .bits
            .get(bytes)
            .map_or(0, |byte| (byte & !(u8::MAX << (position % 8))).count_ones());
        in_blocks as usize + in_bytes as usize + in_bits as usize
    }

    pub(super) fn excess(&self, position: usize) -> i64 {
        2 * self.rank_open(position) as i64 - position.min(self.length) as i64
    }

    /// The open that has so many before it.
    pub(super) fn select_open(&self, mut rank: u64) -> Option<usize> {
        let mut position = 0;
        while let Some(step) = self.step(position, self.length, |step| step.opens <= rank) {
            rank -= step.opens;
            position += step.length as usize;
        }
        (position < self.length).then_some(position)
    }

    /// The first position, at `from` or later, after whose parenthesis the excess is at most `limit`.
    pub(super) fn first_at_or_below(&self, from: usize, limit: i64) -> Option<usize> {
        let mut position = from;
        let mut excess = self.excess(from);
        while let Some(step) = self.step(position, self.length, |step| excess + step.lowest > limit)
        {
            excess += step.change();
            position += step.length as usize;
        }
        (position < self.length).then_some(position)
    }

    /// The last position before `end` after whose parenthesis the excess is at most `limit`.
    pub(super) fn last_at_or_below(&self, end: usize, limit: i64) -> Option<usize> {
        let mut position = end.min(self.length);
        let mut excess = self.excess(position);
        while let Some(step) =
            self.step_back(position, |step| excess - step.change() + step.lowest > limit)
        {
            excess -= step.change();
            position -= step.length as usize;
        }
        position.checked_sub(1)
    }

    /// The summary of the parentheses in a range.
    pub(super) fn summary_of(&self, range: Range<usize>) -> Summary {
        let mut position = range.start;
        let mut summary = Summary::default();
        while let Some(step) = self.step(position, range.end.min(self.length), |_| true) {
            summary = summary.then(&step);
            position += step.length as usize;
        }
        summary
    }

    /// Looks for the parenthesis, at `from` or later, after which the excess is `value` and has been so often before,
    /// or is lower, whichever comes first.
    pub(super) fn select_lowest(&self, from: usize, value: i64, mut before: u64) -> Occurrence {
        let mut position = from;
        let mut excess = self.excess(from);
        loop {
            let step =
                self.step(position, self.length, |step| match (excess + step.lowest).cmp(&value) {
                    Ordering::Less => false,
                    Ordering::Equal => step.lowest_count <= before,
                    Ordering::Greater => true,
                });
            let Some(step) = step else { break };
            if excess + step.lowest == value {
                before -= step.lowest_count;
            }
            excess += step.change();
            position += step.length as usize;
        }
        if position >= self.length {
            return Occurrence::NotYet { before };
        }
        let after = excess + Summary::of_one(self.is_open(position)).change();
        if after == value { Occurrence::At(position) } else { Occurrence::Never }
    }

    /// The largest step forwards that does not lead beyond `end` and may be taken.
    fn step(
        &self,
        position: usize,
        end: usize,
        may_be_taken: impl Fn(&Summary) -> bool,
    ) -> Option<Summary> {
        if position.is_multiple_of(BLOCK) && position + BLOCK <= end {
            let block = self.blocks[position / BLOCK];
            if may_be_taken(&block) {
                return Some(block);
            }
        }
        if position.is_multiple_of(8) && position + 8 <= end {
            let byte = OF_BYTE[usize::from(self.bits[position / 8])];
            if may_be_taken(&byte) {
                return Some(byte);
            }
        }
        (position < end).then(|| Summary::of_one(self.is_open(position))).filter(may_be_taken)
    }

    /// The largest step backwards that may be taken.
    fn step_back(
        &self,
        position: usize,
        may_be_taken: impl Fn(&Summary) -> bool,
    ) -> Option<Summary> {
        let last = position.checked_sub(1)?;
        if position.is_multiple_of(BLOCK) && may_be_taken(&self.blocks[last / BLOCK]) {
            return Some(self.blocks[last / BLOCK]);
        }
        if position.is_multiple_of(8) {
            let byte = OF_BYTE[usize::from(self.bits[last / 8])];
            if may_be_taken(&byte) {
                return Some(byte);
            }
        }
        Some(Summary::of_one(self.is_open(last))).filter(may_be_taken)
    }
}

/// What became of a search for an occurrence of a value of the excess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occurrence {
    /// After this parenthesis.
    At(usize),
    /// The excess is lower before that.
    Never,
    /// Not here: so many are to be skipped from here on.
    NotYet { before: u64 },
}

fn of_bytes(bytes: &[u8]) -> Summary {
    bytes
        .iter()
        .fold(Summary::default(), |summary, &byte| summary.then(&OF_BYTE[usize::from(byte)]))
}
