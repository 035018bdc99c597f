//! A small seeded generator, and the values on which instructions tend to differ.
//!
//! Uniform 64-bit numbers rarely hit a carry, a sign change or a NaN, so most values are drawn
//! from short lists of boundary values and from numbers of few significant bits.
//!
//! Invariant: everything a guest contains is a function of the seed; nothing here reads a clock.

/// SplitMix64: one multiplication chain per number, any seed is a good seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

const WORDS: [u64; 24] = [
    0,
    1,
    2,
    3,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_ffff,
    0xffff_ffff_ffff_fffe,
    0xffff_ffff_8000_0000,
    0x5555_5555_5555_5555,
    0xaaaa_aaaa_aaaa_aaaa,
    0x0123_4567_89ab_cdef,
    0x8080_8080_8080_8080,
];

const DOUBLES: [u64; 14] = [
    0,
    0x8000_0000_0000_0000,
    0x3ff0_0000_0000_0000,
    0xbff8_0000_0000_0000,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0001,
    0xfff4_0000_0000_0000,
    0x0000_0000_0000_0001,
    0x800f_ffff_ffff_ffff,
    0x7fef_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x41df_ffff_ffc0_0000,
    0xc3e0_0000_0000_0000,
];

const FLOATS: [u32; 13] = [
    0,
    0x8000_0000,
    0x3f80_0000,
    0xbfc0_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0001,
    0xffa0_0000,
    0x0000_0001,
    0x807f_ffff,
    0x7f7f_ffff,
    0x0080_0000,
    0x4f00_0000,
];

impl Random {
    /// Starts the sequence that belongs to `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    /// A uniform 64-bit number.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// A number in `low..high`.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low) as u64) as i64
    }

    /// True in `percent` of a hundred calls.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Puts `items` in random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// A general-purpose value: boundary values, short numbers, pairs of halves, plain bits.
    pub fn word(&mut self) -> u64 {
        match self.below(8) {
            0..3 => self.pick(&WORDS),
            3 => self.pick(&WORDS) << 32 | self.pick(&WORDS) & 0xffff_ffff,
            4 => self.bits() >> self.below(64),
            5 => (self.bits() >> self.below(64)).wrapping_neg(),
            _ => self.bits(),
        }
    }

    /// Eight bytes of vector or memory contents: floating-point specials of all widths included.
    pub fn lane(&mut self) -> u64 {
        match self.below(8) {
            0 | 1 => self.pick(&DOUBLES),
            2 | 3 => u64::from(self.pick(&FLOATS)) << 32 | u64::from(self.pick(&FLOATS)),
            4 => (self.below(2000) as f64 - 1000.25).to_bits(),
            5 => {
                let half = |r: &mut Random| {
                    r.pick(&[0u64, 0x8000, 0x3c00, 0x7c00, 0xfc00, 0x7e01, 0xfd00, 1, 0x83ff])
                };
                half(self) << 48 | half(self) << 32 | half(self) << 16 | half(self)
            }
            6 => self.word(),
            _ => self.bits(),
        }
    }

    /// Fills `bytes` with lanes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let lane = self.lane().to_le_bytes();
            chunk.copy_from_slice(&lane[..chunk.len()]);
        }
    }
}
