//! What a stretch of parentheses does to the excess: the values of a range min-max tree.
//!
//! The excess at a position is the number of opens before it less the number of closes. A summary tells how it runs
//! within a stretch, relative to its start, counting the values *after* each parenthesis and not the one at the
//! start. Every value from the lowest to the highest is taken, since the excess moves by one.

/// A stretch of parentheses in short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) length: u64,
    pub(super) opens: u64,
    /// The lowest value of the excess, and how often it is taken. Meaningless if there are no parentheses.
    pub(super) lowest: i64,
    pub(super) lowest_count: u64,
    pub(super) highest: i64,
}

impl Summary {
    /// By how much the excess grows.
    pub(super) const fn change(&self) -> i64 {
        self.opens.wrapping_mul(2).wrapping_sub(self.length) as i64
    }

    /// The summary of one parenthesis.
    pub(super) const fn of_one(is_open: bool) -> Summary {
        let value = if is_open { 1 } else { -1 };
        Summary { length: 1, opens: is_open as u64, lowest: value, lowest_count: 1, highest: value }
    }

    /// The summary of this stretch and the one after it. Summaries from a damaged file may give nonsense, not a panic.
    pub(super) const fn then(&self, next: &Summary) -> Summary {
        if self.length == 0 {
            return *next;
        }
        if next.length == 0 {
            return *self;
        }
        let lowest = self.change().wrapping_add(next.lowest);
        let highest = self.change().wrapping_add(next.highest);
        let lowest_count = if lowest < self.lowest {
            next.lowest_count
        } else if lowest > self.lowest {
            self.lowest_count
        } else {
            self.lowest_count.wrapping_add(next.lowest_count)
        };
        Summary {
            length: self.length.wrapping_add(next.length),
            opens: self.opens.wrapping_add(next.opens),
            lowest: if lowest < self.lowest { lowest } else { self.lowest },
            lowest_count,
            highest: if highest > self.highest { highest } else { self.highest },
        }
    }

    /// The summary of the first bits of a byte.
    pub(super) const fn of_bits(byte: u8, count: usize) -> Summary {
        let mut summary = Summary { length: 0, opens: 0, lowest: 0, lowest_count: 0, highest: 0 };
        let mut bit = 0;
        while bit < count {
            summary = summary.then(&Summary::of_one(byte >> bit & 1 == 1));
            bit += 1;
        }
        summary
    }
}

/// The summaries of all bytes.
pub(super) static OF_BYTE: [Summary; 256] = {
    let mut table = [Summary { length: 0, opens: 0, lowest: 0, lowest_count: 0, highest: 0 }; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = Summary::of_bits(byte as u8, 8);
        byte += 1;
    }
    table
};
