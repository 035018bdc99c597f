//! Memory as people read it: hexadecimal, then what of it is text.

use std::fmt::Write;

/// `8 bytes: 2f 62 69 6e 00 00 00 00 |/bin....|`, with a mark if there are more than `shown`.
pub fn described(bytes: &[u8], shown: usize) -> String {
    let visible = &bytes[..bytes.len().min(shown)];
    let unit = if bytes.len() == 1 { "byte" } else { "bytes" };
    let mut text = format!("{} {unit}", bytes.len());
    if visible.is_empty() {
        return text;
    }
    text.push(':');
    for byte in visible {
        let _ = write!(text, " {byte:02x}");
    }
    let printable = |&byte: &u8| if (b' '..=b'~').contains(&byte) { char::from(byte) } else { '.' };
    let characters: String = visible.iter().map(printable).collect();
    let more = if visible.len() < bytes.len() { "..." } else { "" };
    let _ = write!(text, "{more} |{characters}|{more}");
    text
}

/// Digits only, for programs.
pub fn hexadecimal(bytes: &[u8], shown: usize) -> String {
    let mut text = String::new();
    for byte in bytes.iter().take(shown) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_up_to_the_limit() {
        assert_eq!(described(b"/bin\0\x1b", 16), "6 bytes: 2f 62 69 6e 00 1b |/bin..|");
        assert_eq!(described(b"abc", 2), "3 bytes: 61 62... |ab|...");
        assert_eq!(described(b"a", 0), "1 byte");
        assert_eq!(described(b"", 4), "0 bytes");
        assert_eq!(hexadecimal(b"\x00\xff\x10", usize::MAX), "00ff10");
    }
}
