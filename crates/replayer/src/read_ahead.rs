//! Which pieces of memory a process is sent besides the one that it asks for.
//!
//! Asking for a piece takes a process several times as long as being sent one. A guest that goes through memory in order, or through a
//! tree that lies somewhere, asks for one piece after the other in the same region: the more it has asked for there, the more
//! of the region it is sent with the next. What it has already it does not take, so that too much only costs time.

use std::collections::HashMap;

use retro_abi::replay::PIECE;

/// Bytes of a region: a bit for each piece.
const REGION: u64 = u64::BITS as u64 * PIECE;

/// Most pieces that are sent with one.
const MOST: u32 = 16;

/// Most regions that are known at a time: a process may ask for anything.
const REGIONS: usize = 4096;

/// What a process has asked for and was sent since it started somewhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadAhead {
    regions: HashMap<u64, Region>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Region {
    /// Bit `n`: piece `n` was sent.
    sent: u64,
    /// How often a piece was asked for.
    asked: u32,
}

impl ReadAhead {
    /// A piece is sent.
    pub(crate) fn sent(&mut self, piece: u64) {
        if self.regions.len() >= REGIONS {
            self.regions.clear();
        }
        self.regions.entry(piece / REGION).or_default().sent |= bit(piece);
    }

    /// A piece is asked for, and will be sent: others that should be sent with it. First those behind it.
    pub(crate) fn others(&mut self, piece: u64) -> Vec<u64> {
        self.sent(piece);
        let number = piece / REGION;
        // Whoever has gone through the region before this one, or behind it, goes on.
        let neighbours = [number.checked_sub(1), number.checked_add(1)];
        let neighbours = neighbours.iter().flatten().filter_map(|number| self.regions.get(number));
        let dense = neighbours.filter(|region| region.sent.count_ones() > u64::BITS / 2);
        let asked_before = dense.map(|region| region.asked).max().unwrap_or_default();
        let Some(region) = self.regions.get_mut(&number) else { return Vec::new() };
        region.asked = region.asked.max(asked_before);
        let count = region.asked.min(MOST);
        region.asked = region.asked.saturating_add(1);
        let first = number * REGION;
        let own = (piece - first) / PIECE;
        let order = (own + 1..u64::BITS.into()).chain((0..own).rev());
        let unsent = order.filter(|index| region.sent >> index & 1 == 0);
        let others: Vec<u64> = unsent.take(count as usize).map(|n| first + n * PIECE).collect();
        others.iter().for_each(|&other| region.sent |= bit(other));
        others
    }
}

fn bit(piece: u64) -> u64 {
    1 << (piece % REGION / PIECE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks for pieces as a process does that has those that it was sent, and says how often it asked.
    fn asked_for(pieces: impl Iterator<Item = u64>) -> (usize, usize) {
        let mut ahead = ReadAhead::default();
        let mut present = std::collections::HashSet::new();
        let mut asked = 0;
        for piece in pieces {
            if present.insert(piece) {
                asked += 1;
                for other in ahead.others(piece) {
                    assert!(present.insert(other), "{other:#x} is sent twice");
                }
            }
        }
        (asked, present.len())
    }

    #[test]
    fn walks_through_memory_ask_rarely() {
        let start = 0x1100_0000_0000;
        let (asked, sent) = asked_for((0..1000).map(|n| start + n * PIECE));
        assert!(asked < 100 && sent < 1000 + 2 * MOST as usize, "{asked} {sent}");
        let (asked, sent) = asked_for((0..1000).rev().map(|n| start + n * PIECE));
        assert!(asked < 100 && sent < 1000 + u64::BITS as usize, "{asked} {sent}");
        // All pieces of one region in some order.
        let (asked, sent) = asked_for((0..64).map(|n| start + n * 11 % 64 * PIECE));
        assert!(asked < 20 && sent == 64, "{asked} {sent}");
    }

    #[test]
    fn single_pieces_come_alone() {
        let (asked, sent) = asked_for((0..2000).map(|n| n * REGION));
        assert_eq!((asked, sent), (2000, 2000));
    }

    #[test]
    fn any_question_is_answered() {
        let mut ahead = ReadAhead::default();
        let last = !(PIECE - 1);
        for _ in 0..100 {
            for piece in [0, PIECE, last, last - PIECE] {
                assert!(ahead.others(piece).len() <= MOST as usize);
            }
        }
        for number in 0..100_000 {
            ahead.others(number * REGION);
        }
        assert!(ahead.regions.len() <= REGIONS);
    }
}
