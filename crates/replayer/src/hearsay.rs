//! What a replay process says, as text for people.
//!
//! Code from a stranger's recording may have taken the process over, and what it says may end on a terminal, which obeys
//! control characters. So none gets through.

/// The text in some bytes, on one line, with control characters in a form that does nothing.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut printable = String::with_capacity(text.len());
    for character in text.trim_end_matches('\0').trim().chars() {
        match character {
            '\n' => printable.push_str("; "),
            _ if is_harmless(character) => printable.push(character),
            _ => printable.extend(character.escape_default()),
        }
    }
    printable
}

/// Controls move the cursor and worse; some characters of formatting turn the text around.
fn is_harmless(character: char) -> bool {
    !character.is_control()
        && !matches!(character, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_obey_nothing_of_it() {
        assert_eq!(printable(b"it is \"so\"\n"), "it is \"so\"");
        assert_eq!(printable("größer\0\0".as_bytes()), "größer");
        assert_eq!(printable(b"one\ntwo\n"), "one; two");
        let commands = b"\x1b]0;owned\x07\x1b[2J\r\xff\xc2\x9b1m\xe2\x80\xae";
        let said = printable(commands);
        assert!(said.contains(r"\u{1b}]0;owned\u{7}"), "{said}");
        assert!(said.chars().all(is_harmless), "{said}");
    }
}
