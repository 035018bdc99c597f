//! The sum of a range of guest memory, by which a recording and its replay compare what they hold.
//!
//! Problem: one number per range, computed fast without vector instructions, over memory of which most was never
//! touched. Strategy: pages are summed apart and their sums are added, so that any order will do and a page can be left out
//! where it adds nothing: a page of zeroes is as good as one that was never touched.
//!
//! A page is eaten in four chains of wide multiplications, each of which takes two words. The halves of a product are
//! folded together, so that a difference in any bit spreads over all of them.

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

/// As many chains as keep the multiplier busy.
const LANES: usize = 4;

/// Random numbers, as one of which no word of a page is expected.
const KEYS: [u64; LANES] =
    [0x9e37_79b9_7f4a_7c15, 0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53, 0xbf58_476d_1ce4_e5b9];

/// Where the lanes start: elsewhere than at their keys, so that no two words of a page are treated alike.
const STARTS: [u64; LANES] =
    [0x2545_f491_4f6c_dd1d, 0xda94_2042_e4dd_58b5, 0x94d0_49bb_1331_11eb, 0xd6e8_feb8_6659_fd93];

/// The pages' words, two for each lane at a time.
fn lines(page: &[u8; PAGE_BYTES]) -> impl Iterator<Item = [(u64, u64); LANES]> {
    page.chunks_exact(16 * LANES).map(|bytes| {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        core::array::from_fn(|lane| (word(16 * lane), word(16 * lane + 8)))
    })
}

fn folded(left: u64, right: u64) -> u64 {
    let product = left as u128 * right as u128;
    product as u64 ^ (product >> 64) as u64
}

/// What the page at `address` adds to the sum of any range that it is in.
pub fn of_page(address: u64, page: &[u8; PAGE_BYTES]) -> u64 {
    if lines(page).all(|line| line.iter().fold(0, |all, (one, other)| all | one | other) == 0) {
        return 0;
    }
    let mut lanes = STARTS;
    for line in lines(page) {
        for ((lane, key), (one, other)) in lanes.iter_mut().zip(KEYS).zip(line) {
            *lane = folded(one ^ key, other ^ *lane);
        }
    }
    let start = folded(address ^ KEYS[0], STARTS[0]);
    lanes.into_iter().fold(start, |sum, lane| folded(sum ^ KEYS[1], lane ^ STARTS[1]))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::HashSet;

    fn page(seed: u64) -> [u8; PAGE_BYTES] {
        let mut state = seed;
        core::array::from_fn(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8
        })
    }

    #[test]
    fn a_page_of_zeroes_adds_nothing() {
        assert_eq!(of_page(0x1000, &[0; PAGE_BYTES]), 0);
        let mut almost = [0; PAGE_BYTES];
        almost[PAGE_BYTES - 1] = 1;
        assert_ne!(of_page(0x1000, &almost), 0);
    }

    #[test]
    fn every_bit_counts() {
        for original in [page(7), [0; PAGE_BYTES], [0xff; PAGE_BYTES]] {
            let mut seen = HashSet::from([of_page(0x1000, &original)]);
            for bit in 0..8 * PAGE_BYTES {
                let mut changed = original;
                changed[bit / 8] ^= 1 << (bit % 8);
                assert!(seen.insert(of_page(0x1000, &changed)), "bit {bit}");
            }
        }
    }

    #[test]
    fn the_highest_bits_of_two_words_do_not_cancel() {
        let original = page(3);
        let sum = of_page(0, &original);
        for (left, right) in [(7, 71), (7, 15), (63, 4095), (4031, 4095)] {
            for other in [0x80, 0x40, 0x01] {
                let mut changed = original;
                changed[left] ^= 0x80;
                changed[right] ^= other;
                assert_ne!(of_page(0, &changed), sum, "bytes {left} and {right}");
            }
        }
    }

    #[test]
    fn the_place_counts() {
        let (one, other) = (page(1), page(2));
        assert_ne!(of_page(0x1000, &one), of_page(0x2000, &one));
        let swapped = of_page(0x1000, &other).wrapping_add(of_page(0x2000, &one));
        assert_ne!(of_page(0x1000, &one).wrapping_add(of_page(0x2000, &other)), swapped);
        let mut turned = one;
        turned.rotate_left(8);
        assert_ne!(of_page(0x1000, &one), of_page(0x1000, &turned));
    }

    /// Sums are part of the format.
    #[test]
    fn sums_stay_what_they_are() {
        let counted: [u8; PAGE_BYTES] = core::array::from_fn(|at| at as u8);
        assert_eq!(of_page(0x1234_5000, &counted), 0xb073_3715_6941_3de9);
    }
}
