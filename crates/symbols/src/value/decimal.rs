//! Floating-point numbers of any binary format in decimal, as C's `%g` writes them.
//!
//! Numbers of 80 and 128 bits do not fit any type of Rust. A number is taken apart into an integer times a power of two,
//! written out in full as a large integer, and rounded once, so that every digit is right.

/// The formats, by how many bits their parts have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FloatFormat {
    /// Bits of the fraction that are stored.
    fraction: u32,
    exponent: u32,
    /// The leading bit is stored too.
    explicit: bool,
}

/// Digits of a large number are held in limbs of nine.
const LIMB: u64 = 1_000_000_000;
const LIMB_DIGITS: usize = 9;

impl FloatFormat {
    /// By the size of the type.
    pub(crate) fn of_size(size: u64) -> Option<FloatFormat> {
        match size {
            2 => Some(FloatFormat { fraction: 10, exponent: 5, explicit: false }),
            4 => Some(FloatFormat { fraction: 23, exponent: 8, explicit: false }),
            8 => Some(FloatFormat { fraction: 52, exponent: 11, explicit: false }),
            10 | 12 => Some(FloatFormat::EXTENDED),
            16 => Some(FloatFormat { fraction: 112, exponent: 15, explicit: false }),
            _ => None,
        }
    }

    /// The 80 bits of the x87.
    pub(crate) const EXTENDED: FloatFormat =
        FloatFormat { fraction: 63, exponent: 15, explicit: true };

    /// Digits after which every number of the format is told from its neighbours.
    fn digits(self) -> usize {
        // The rounding up is that of gdb: one more than the format strictly needs.
        (1.0 + f64::from(self.fraction + 1) * std::f64::consts::LOG10_2).ceil() as usize
    }

    fn parts(self, bits: u128) -> Parts {
        let stored = self.fraction + u32::from(self.explicit);
        let mantissa = bits & low_bits(stored);
        let exponent = (bits >> stored) & low_bits(self.exponent);
        let is_negative = bits >> (stored + self.exponent) & 1 == 1;
        let fraction = mantissa & low_bits(self.fraction);
        let largest = low_bits(self.exponent);
        let bias = (largest >> 1) as i64;
        let has_leading_bit = mantissa >> self.fraction & 1 == 1;
        let kind = if self.explicit && has_leading_bit != (exponent != 0) {
            Class::Invalid
        } else if exponent == largest {
            if fraction == 0 { Class::Infinite } else { Class::NotANumber(fraction) }
        } else {
            let implied = if self.explicit || exponent == 0 { 0 } else { 1u128 << self.fraction };
            let power = exponent.max(1) as i64 - bias - i64::from(self.fraction);
            Class::Finite { mantissa: mantissa | implied, power }
        };
        Parts { is_negative, kind }
    }

    /// As gdb prints it.
    pub(crate) fn show(self, bits: u128) -> String {
        let parts = self.parts(bits);
        let sign = if parts.is_negative { "-" } else { "" };
        match parts.kind {
            Class::Infinite => format!("{sign}inf"),
            Class::NotANumber(fraction) => format!("{sign}nan({fraction:#x})"),
            Class::Invalid => "<invalid float value>".to_string(),
            Class::Finite { mantissa: 0, .. } => format!("{sign}0"),
            Class::Finite { mantissa, power } => {
                let digits = Digits::of(mantissa, power);
                format!("{sign}{}", digits.general(self.digits()))
            }
        }
    }

    /// The nearest number of 64 bits.
    pub(crate) fn to_f64(self, bits: u128) -> f64 {
        let parts = self.parts(bits);
        let magnitude = match parts.kind {
            Class::Infinite => f64::INFINITY,
            Class::NotANumber(_) | Class::Invalid => f64::NAN,
            Class::Finite { mantissa, power } => scaled(mantissa, power),
        };
        if parts.is_negative { -magnitude } else { magnitude }
    }
}

/// An integer times a power of two. The integer is rounded to what fits first, so that it is rounded once.
fn scaled(mantissa: u128, power: i64) -> f64 {
    let unneeded = (128 - mantissa.leading_zeros()).saturating_sub(64);
    let kept = mantissa >> unneeded;
    // A bit for everything that was cut decides ties.
    let cut = u128::from(mantissa & low_bits(unneeded) != 0);
    let mut number = (kept | cut) as f64;
    let mut power = power + i64::from(unneeded);
    while power > 0 && number.is_finite() && number != 0.0 {
        let step = power.min(1000);
        number *= 2f64.powi(step as i32);
        power -= step;
    }
    while power < 0 && number != 0.0 {
        let step = (-power).min(1000);
        number *= 2f64.powi(-step as i32);
        power += step;
    }
    number
}

fn low_bits(count: u32) -> u128 {
    if count >= 128 { u128::MAX } else { (1 << count) - 1 }
}

struct Parts {
    is_negative: bool,
    kind: Class,
}

enum Class {
    Infinite,
    NotANumber(u128),
    /// The leading bit is stored, and is not what the exponent asks for: the processor refuses most of these.
    Invalid,
    Finite {
        mantissa: u128,
        power: i64,
    },
}

/// A number in decimal: 0.DIGITS times ten to the `point`.
struct Digits {
    digits: Vec<u8>,
    point: i64,
}

impl Digits {
    /// Of an integer times a power of two, in full. A half is five tenths: dividing by two is multiplying by five
    /// and moving the point.
    fn of(mantissa: u128, power: i64) -> Digits {
        let mut limbs = Vec::new();
        let mut rest = mantissa;
        while rest > 0 {
            limbs.push((rest % u128::from(LIMB)) as u64);
            rest /= u128::from(LIMB);
        }
        let (factor, chunk_factor, per_chunk) =
            if power >= 0 { (2u64, 1 << 29, 29) } else { (5u64, 5u64.pow(12), 12) };
        let times = power.unsigned_abs();
        for _ in 0..times / per_chunk {
            multiply(&mut limbs, chunk_factor);
        }
        for _ in 0..times % per_chunk {
            multiply(&mut limbs, factor);
        }
        let mut digits = Vec::with_capacity(limbs.len() * LIMB_DIGITS);
        for limb in limbs.iter().rev() {
            digits.extend(format!("{limb:09}").bytes());
        }
        let leading = digits.iter().take_while(|&&digit| digit == b'0').count();
        digits.drain(..leading);
        let point = digits.len() as i64 - if power < 0 { -power } else { 0 };
        Digits { digits, point }
    }

    /// To so many digits; a tie goes to the even one.
    fn round(&mut self, count: usize) {
        if self.digits.len() > count {
            let rest = self.digits.split_off(count);
            let is_tie = rest[0] == b'5' && rest[1..].iter().all(|&digit| digit == b'0');
            let is_odd = self.digits.last().is_some_and(|digit| (digit - b'0') % 2 == 1);
            if rest[0] > b'5' || rest[0] == b'5' && !is_tie || is_tie && is_odd {
                self.increment();
            }
        }
        while self.digits.last() == Some(&b'0') {
            self.digits.pop();
        }
    }

    fn increment(&mut self) {
        for digit in self.digits.iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                return;
            }
            *digit = b'0';
        }
        self.digits.insert(0, b'1');
        self.point += 1;
    }

    /// C's `%.{precision}g`.
    fn general(mut self, precision: usize) -> String {
        self.round(precision);
        let digits = String::from_utf8_lossy(&self.digits).into_owned();
        let exponent = self.point - 1;
        if exponent < -4 || exponent >= precision as i64 {
            let (first, rest) = digits.split_at(1.min(digits.len()));
            let dot = if rest.is_empty() { "" } else { "." };
            let sign = if exponent < 0 { '-' } else { '+' };
            return format!("{first}{dot}{rest}e{sign}{:02}", exponent.unsigned_abs());
        }
        if self.point <= 0 {
            return format!("0.{}{digits}", "0".repeat(self.point.unsigned_abs() as usize));
        }
        let before = self.point as usize;
        if digits.len() <= before {
            return format!("{digits}{}", "0".repeat(before - digits.len()));
        }
        format!("{}.{}", &digits[..before], &digits[before..])
    }
}

fn multiply(limbs: &mut Vec<u64>, factor: u64) {
    let mut carry = 0;
    for limb in limbs.iter_mut() {
        let product = *limb * factor + carry;
        *limb = product % LIMB;
        carry = product / LIMB;
    }
    while carry > 0 {
        limbs.push(carry % LIMB);
        carry /= LIMB;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn double(number: f64) -> String {
        FloatFormat::of_size(8).unwrap().show(number.to_bits().into())
    }

    #[test]
    fn doubles_are_shown_as_c_does() {
        for (number, shown) in [
            (1.1, "1.1000000000000001"),
            (5.0, "5"),
            (-0.0, "-0"),
            (1e22, "1e+22"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (12_345_678_901_234_568.0, "12345678901234568"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (1.0 / 3.0, "0.33333333333333331"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(double(number), shown);
        }
        assert_eq!(FloatFormat::of_size(4).unwrap().show(1.1f32.to_bits().into()), "1.10000002");
    }

    #[test]
    fn extended_numbers_have_all_their_digits() {
        // 1.1L
        let bits = 0x3fff_8ccc_cccc_cccc_cccd;
        assert_eq!(FloatFormat::EXTENDED.show(bits), "1.10000000000000000002");
        assert_eq!(FloatFormat::EXTENDED.to_f64(bits), 1.1);
        // The largest.
        let bits = 0x7ffe_ffff_ffff_ffff_ffff;
        assert_eq!(FloatFormat::EXTENDED.show(bits), "1.18973149535723176502e+4932");
    }

    #[test]
    fn extended_numbers_whose_leading_bit_is_wrong_are_none() {
        for (bits, shown) in [
            // An unnormal, a pseudo-infinity, a pseudo-NaN, a pseudo-denormal.
            (0x3fff_0ccc_cccc_cccc_cccd_u128, "<invalid float value>"),
            (0xffff_0000_0000_0000_0000, "<invalid float value>"),
            (0x7fff_0000_0000_0000_0001, "<invalid float value>"),
            (0x0000_8000_0000_0000_0000, "<invalid float value>"),
            (0x8000_0000_0000_0000_0000, "-0"),
            (0x0000_0000_0000_0000_0001, "3.64519953188247460253e-4951"),
            (0x7fff_8000_0000_0000_0000, "inf"),
            (0x7fff_c000_0000_0000_0000, "nan(0x4000000000000000)"),
        ] {
            assert_eq!(FloatFormat::EXTENDED.show(bits), shown, "{bits:#x}");
        }
        assert!(FloatFormat::EXTENDED.to_f64(0x3fff_0ccc_cccc_cccc_cccd).is_nan());
    }

    #[test]
    fn doubles_survive_the_way_there_and_back() {
        for bits in [1u64, 0x000f_ffff_ffff_ffff, 0x0010_0000_0000_0000, 0x3ff1_9999_9999_999a] {
            let number = f64::from_bits(bits);
            assert_eq!(FloatFormat::of_size(8).unwrap().to_f64(bits.into()), number);
            assert_eq!(double(number).parse::<f64>().unwrap(), number);
        }
    }
}
