//! Strings of recorded programs on a screen: what a shell would take back, and nothing that a terminal
//! would obey. A recording may come from a stranger.

use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

/// A command line, quoted so that a shell reads the same words.
pub fn command_line<S: AsRef<OsStr>>(words: &[S]) -> String {
    let words: Vec<String> =
        words.iter().map(|word| shell_word(word.as_ref().as_bytes())).collect();
    words.join(" ")
}

/// One word, quoted only where a shell needs it.
pub fn shell_word(bytes: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./,:=+@%^".contains(byte);
    match std::str::from_utf8(bytes) {
        Ok(text) if !bytes.is_empty() && bytes.iter().all(is_plain) => text.to_string(),
        Ok(text) if !text.chars().any(is_unprintable) => {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
        _ => format!("$'{}'", escaped(bytes, b"'\\")),
    }
}

/// Text as it is, except for bytes that a terminal might obey and those that are no text.
pub fn printable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(is_unprintable) => text.to_string(),
        _ => escaped(bytes, b"\\"),
    }
}

/// Control characters, and those that reorder or hide the text around them.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn escaped(bytes: &[u8], also: &[u8]) -> String {
    let mut text = String::new();
    for &byte in bytes {
        match byte {
            b'\n' => text.push_str("\\n"),
            b'\t' => text.push_str("\\t"),
            b'\r' => text.push_str("\\r"),
            _ if also.contains(&byte) => text.extend(['\\', char::from(byte)]),
            b' '..=b'~' => text.push(byte.into()),
            _ => write!(text, "\\x{byte:02x}").expect("writing to a string succeeds"),
        }
    }
    text
}

/// The first characters of a text, with a mark if that is not all of it.
pub fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_string();
    }
    let kept: String = text.chars().take(width.saturating_sub(3)).collect();
    kept + "..."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        for (word, quoted) in [
            (&b"ls"[..], "ls"),
            (b"--colour=auto", "--colour=auto"),
            (b"", "''"),
            (b"two words", "'two words'"),
            (b"it's", r"'it'\''s'"),
            (b"$HOME", "'$HOME'"),
            ("caf\u{e9}".as_bytes(), "'caf\u{e9}'"),
            (b"line\nbreak", r"$'line\nbreak'"),
            (b"\x1b[31m'\\", r"$'\x1b[31m\'\\'"),
            (b"\xff", r"$'\xff'"),
            ("\u{202e}x".as_bytes(), r"$'\xe2\x80\xaex'"),
        ] {
            assert_eq!(shell_word(word), quoted);
        }
        assert_eq!(command_line(&["sh", "-c", "exit 3"]), "sh -c 'exit 3'");
    }

    #[test]
    fn bash_reads_the_same_words() {
        for word in [&b"a b"[..], b"'\\\"$`", b"\x01\x7f\xff\n", b"", b"~", b"#x", b"!x"] {
            let script = format!("printf %s {}", shell_word(word));
            let output = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
            assert_eq!(output.stdout, word);
        }
    }

    #[test]
    fn nothing_reaches_the_terminal_as_a_command() {
        assert_eq!(printable(b"plain \xc3\xa9"), "plain é");
        assert_eq!(printable(b"\x1b]0;title\x07"), r"\x1b]0;title\x07");
        assert_eq!(shortened("abcdef", 6), "abcdef");
        assert_eq!(shortened("abcdefg", 6), "abc...");
    }
}
