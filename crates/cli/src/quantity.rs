//! Numbers as people read them: grouped, scaled, or with a unit; and as they type them.

use std::time::Duration;

/// 1234567 as `1,234,567`.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with three significant digits: `3.21 G`, `45.6 M`, `7.89 k`, `123`.
pub fn scaled(value: u64) -> String {
    match with_prefix(value, &["", " k", " M", " G", " T", " P", " E"]) {
        (_, "") => value.to_string(),
        (mantissa, prefix) => format!("{mantissa}{prefix}"),
    }
}

/// Bytes with three significant digits: `4.10 MB`, `512 B`.
pub fn bytes(value: u64) -> String {
    match with_prefix(value, &["", " kB", " MB", " GB", " TB", " PB", " EB"]) {
        (_, "") => format!("{value} B"),
        (mantissa, unit) => format!("{mantissa}{unit}"),
    }
}

/// The number to write before one of the prefixes, each a thousand times the one before.
fn with_prefix(value: u64, prefixes: &[&'static str]) -> (String, &'static str) {
    let mut rest = value as f64;
    let mut index = 0;
    // What would be rounded to 1000 belongs to the next prefix.
    while rest >= 999.5 && index + 1 < prefixes.len() {
        rest /= 1000.0;
        index += 1;
    }
    let decimals = match rest {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    (format!("{rest:.decimals$}"), prefixes[index])
}

/// A length of time: `12 ms`, `2.9 s`, `3 min 5 s`, `2 h 7 min`.
pub fn duration(length: Duration) -> String {
    let seconds = length.as_secs_f64().round() as u64;
    match length.as_secs_f64() {
        ..0.0995 => format!("{:.1} ms", length.as_secs_f64() * 1e3),
        ..0.9995 => format!("{:.0} ms", length.as_secs_f64() * 1e3),
        ..59.95 => format!("{:.1} s", length.as_secs_f64()),
        ..3599.5 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", grouped(seconds / 3600), seconds / 60 % 60),
    }
}

/// `1 process`, `2 processes`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
}

/// Size of a log for each instruction.
pub fn bits_per_instruction(bytes: u64, instructions: u64) -> Option<f64> {
    (instructions > 0).then(|| bytes as f64 * 8.0 / instructions as f64)
}

/// Parses a count such as `250`, `10k`, `1.5M` or `2G`.
pub fn parse_count(text: &str) -> Result<u64, String> {
    const EXPECTED: &str =
        "expected a whole number, with k, M or G for thousands, millions, billions";
    let (digits, factor) = match text.char_indices().last() {
        Some((end, 'k' | 'K')) => (&text[..end], 1_000),
        Some((end, 'm' | 'M')) => (&text[..end], 1_000_000),
        Some((end, 'g' | 'G')) => (&text[..end], 1_000_000_000),
        _ => (text, 1u64),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) || digits.ends_with('.') {
        return Err(EXPECTED.to_string());
    }
    let too_large = || "the number is too large".to_string();
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let mut value = whole.checked_mul(factor).ok_or_else(too_large)?;
    let mut unit = factor;
    for digit in fraction.bytes() {
        if !unit.is_multiple_of(10) {
            return Err(EXPECTED.to_string());
        }
        unit /= 10;
        value = value.checked_add(u64::from(digit - b'0') * unit).ok_or_else(too_large)?;
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (value, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(grouped(value), text);
        }
    }

    #[test]
    fn three_digits_are_kept() {
        for (value, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1.00 k"),
            (9_994, "9.99 k"),
            (9_996, "10.0 k"),
            (999_499, "999 k"),
            (999_500, "1.00 M"),
            (3_210_000_000, "3.21 G"),
            (u64::MAX, "18.4 E"),
        ] {
            assert_eq!(scaled(value), text);
        }
        assert_eq!(bytes(7), "7 B");
        assert_eq!(bytes(4_123_456), "4.12 MB");
    }

    #[test]
    fn durations_have_the_unit_that_fits() {
        for (milliseconds, text) in [
            (3, "3.0 ms"),
            (250, "250 ms"),
            (999, "999 ms"),
            (1_000, "1.0 s"),
            (2_940, "2.9 s"),
            (59_960, "1 min 0 s"),
            (185_000, "3 min 5 s"),
            (7_620_000, "2 h 7 min"),
        ] {
            assert_eq!(duration(Duration::from_millis(milliseconds)), text);
        }
    }

    #[test]
    fn counts_take_suffixes_and_fractions_of_them() {
        for (text, value) in [
            ("0", 0),
            ("250", 250),
            ("10k", 10_000),
            ("1.5M", 1_500_000),
            ("2G", 2_000_000_000),
            ("0.000000001G", 1),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_count(text), Ok(value), "{text}");
        }
        for text in ["", "k", "-1", "+1", "1.", ".5k", "1.5", "1.0001k", "1e6", "1 k", "ten", "1é"]
        {
            assert!(parse_count(text).is_err(), "{text}");
        }
        for text in ["18446744073709551616", "99999999999G"] {
            assert_eq!(parse_count(text), Err("the number is too large".into()));
        }
    }
}
