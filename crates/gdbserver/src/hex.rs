//! Numbers and bytes as the protocol spells them: in hexadecimal, without a prefix.
//!
//! Invariant: no text makes a function here panic; what is no number is `None`.

/// A number; empty texts and signs are none.
pub fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 16 {
        return None;
    }
    text.iter().try_fold(0, |value: u64, &digit| Some(value << 4 | u64::from(nibble(digit)?)))
}

/// Bytes, two digits each.
pub fn bytes(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.chunks(2).map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?)).collect()
}

/// A text that came as bytes.
pub fn text(digits: &[u8]) -> Option<String> {
    Some(String::from_utf8_lossy(&bytes(digits)?).into_owned())
}

/// Appends bytes, two digits each.
pub fn put(to: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for &byte in bytes {
        to.push(DIGITS[usize::from(byte >> 4)]);
        to.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// Bytes, two digits each.
pub fn encoded(bytes: &[u8]) -> Vec<u8> {
    let mut digits = Vec::with_capacity(bytes.len() * 2);
    put(&mut digits, bytes);
    digits
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_digits_and_nothing_else() {
        assert_eq!(number(b"1f"), Some(0x1f));
        assert_eq!(number(b"ffffffffffffffff"), Some(u64::MAX));
        for wrong in [&b""[..], b"+1", b"-1", b"0x1", b"1g", b"10000000000000000"] {
            assert_eq!(number(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn bytes_come_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(bytes(&encoded(&all)), Some(all));
        assert_eq!(bytes(b"123"), None);
    }
}
