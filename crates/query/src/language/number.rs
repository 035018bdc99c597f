//! Numbers as people write them: `1_500_000`, `1,500,000`, `1.5M`, `0x7ffe1000`, `12.5%`, `2nd`.

use super::TimePoint;

/// Why something is not a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberProblem {
    /// It does not look like one.
    NotANumber,
    /// It is larger than what is meant can be.
    TooLarge,
}

use NumberProblem::{NotANumber, TooLarge};

/// A whole number with separators, and k, M or G behind it for thousands, millions and billions: `1.5M`.
pub fn quantity(text: &str) -> Result<u64, NumberProblem> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1_000_000),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    fixed_point(&without_separators(digits)?, factor)
}

/// A part of the run, without the `%`: `12.5`.
pub fn percent(text: &str) -> Result<u32, NumberProblem> {
    let whole = TimePoint::WHOLE;
    let parts = fixed_point(text, u64::from(whole) / 100)?;
    u32::try_from(parts).ok().filter(|parts| *parts <= whole).ok_or(TooLarge)
}

/// A decimal number, maybe with a fraction, times a power of ten that makes it whole.
fn fixed_point(text: &str, factor: u64) -> Result<u64, NumberProblem> {
    let (whole, fraction) = match text.split_once('.') {
        Some((_, "")) => return Err(NotANumber),
        Some(parts) => parts,
        None => (text, ""),
    };
    let mut value = decimal(whole)?.checked_mul(factor).ok_or(TooLarge)?;
    let mut unit = factor;
    for digit in fraction.bytes() {
        if !digit.is_ascii_digit() || !unit.is_multiple_of(10) {
            return Err(NotANumber);
        }
        unit /= 10;
        value = value.checked_add(u64::from(digit - b'0') * unit).ok_or(TooLarge)?;
    }
    Ok(value)
}

fn without_separators(text: &str) -> Result<String, NumberProblem> {
    let is_separator = |character| matches!(character, '_' | ',');
    if text.starts_with(is_separator) || text.ends_with(is_separator) {
        return Err(NotANumber);
    }
    Ok(text.replace(is_separator, ""))
}

/// Digits alone.
pub fn decimal(text: &str) -> Result<u64, NumberProblem> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NotANumber);
    }
    text.parse().map_err(|_| TooLarge)
}

/// The length of a number with commas before every three digits, such as `1,234,567`, that a text begins with. Other
/// commas are not part of a number.
pub fn grouped_length(text: &str) -> Option<usize> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let mut length = digits(text);
    if !(1..=3).contains(&length) {
        return None;
    }
    let mut groups = 0;
    while text[length..].starts_with(',') && digits(&text[length + 1..]) == 3 {
        length += 4;
        groups += 1;
    }
    (groups > 0).then_some(length)
}

/// A number in hexadecimal, with its `0x`.
pub fn hexadecimal(text: &str) -> Result<u64, NumberProblem> {
    let digits = text.strip_prefix("0x").or(text.strip_prefix("0X")).ok_or(NotANumber)?;
    let digits = without_separators(digits)?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(NotANumber);
    }
    u64::from_str_radix(&digits, 16).map_err(|_| TooLarge)
}

/// Whether it is meant to be a number in hexadecimal.
pub fn is_hexadecimal(text: &str) -> bool {
    text.starts_with("0x") || text.starts_with("0X")
}

/// A number in hexadecimal or in plain decimal.
pub fn address(text: &str) -> Result<u64, NumberProblem> {
    if is_hexadecimal(text) { hexadecimal(text) } else { decimal(text) }
}

/// A literal that means the same here and in C; octal numbers and those with a suffix are left to C.
pub fn literal(text: &str) -> Option<i128> {
    if text.len() > 1 && text.starts_with('0') && !is_hexadecimal(text) {
        return None;
    }
    address(text).ok().map(i128::from)
}

/// A count: a quantity, or a number as in `2nd`. `None` for what does not look like one.
pub fn count(text: &str) -> Option<Result<u64, NumberProblem>> {
    let ordinal = ["st", "nd", "rd", "th"].iter().find_map(|ending| text.strip_suffix(ending));
    let value = match ordinal {
        Some(digits) => decimal(digits),
        None => quantity(text),
    };
    (value != Err(NotANumber)).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_exact() {
        for (text, value) in [
            ("0", Ok(0)),
            ("1_500_000", Ok(1_500_000)),
            ("1,500,000", Ok(1_500_000)),
            ("1.5M", Ok(1_500_000)),
            ("0.001k", Ok(1)),
            ("3G", Ok(3_000_000_000)),
            ("18446744073709551615", Ok(u64::MAX)),
            ("18446744073709551616", Err(TooLarge)),
            ("18446744073.709551616G", Err(TooLarge)),
            ("18446744074G", Err(TooLarge)),
            ("1.5", Err(NotANumber)),
            ("1.", Err(NotANumber)),
            ("1.k", Err(NotANumber)),
            ("0.0001k", Err(NotANumber)),
            ("", Err(NotANumber)),
            ("k", Err(NotANumber)),
            ("_1", Err(NotANumber)),
            ("1_", Err(NotANumber)),
            ("1x", Err(NotANumber)),
            ("٣", Err(NotANumber)),
        ] {
            assert_eq!(quantity(text), value, "{text}");
        }
    }

    #[test]
    fn percents_are_parts_of_the_whole() {
        for (text, value) in [
            ("0", Ok(0)),
            ("50", Ok(50_000_000)),
            ("12.5", Ok(12_500_000)),
            ("99.999999", Ok(99_999_999)),
            ("100", Ok(TimePoint::WHOLE)),
            ("100.000001", Err(TooLarge)),
            ("0.0000001", Err(NotANumber)),
            ("1e3", Err(NotANumber)),
        ] {
            assert_eq!(percent(text), value, "{text}");
        }
    }

    #[test]
    fn only_groups_of_three_are_one_number() {
        for (text, length) in [
            ("1,234,567", Some(9)),
            ("12,345 x", Some(6)),
            ("1234", None),
            ("1234,567", None),
            ("1,23", None),
            ("1,2345", None),
            ("1,234,5", Some(5)),
            ("x", None),
        ] {
            assert_eq!(grouped_length(text), length, "{text}");
        }
    }

    #[test]
    fn counts_may_be_ordinals() {
        for (text, value) in [
            ("2", Some(Ok(2))),
            ("2nd", Some(Ok(2))),
            ("11th", Some(Ok(11))),
            ("1k", Some(Ok(1000))),
            ("99999999999999999999", Some(Err(TooLarge))),
            ("0x10", None),
            ("2x", None),
            ("th", None),
        ] {
            assert_eq!(count(text), value, "{text}");
        }
    }

    #[test]
    fn literals_that_c_reads_differently_are_left_to_it() {
        for (text, value) in [
            ("0", Some(0)),
            ("42", Some(42)),
            ("0x1F", Some(31)),
            ("010", None),
            ("3u", None),
            ("1.5", None),
            ("18446744073709551616", None),
        ] {
            assert_eq!(literal(text), value, "{text}");
        }
    }
}
