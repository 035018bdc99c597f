//! Characters and strings, quoted as gdb quotes them: repeated characters are counted, what cannot be printed is
//! escaped.

/// From this many on, gdb counts elements that repeat.
pub(crate) const REPEATS: usize = 10;

/// What is between quotes: a character, or a unit that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Character(char),
    Broken(u32),
}

/// Units of this many bytes, and what stands before their quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Width {
    pub(crate) bytes: usize,
    pub(crate) prefix: &'static str,
}

impl Width {
    pub(crate) const BYTE: Width = Width { bytes: 1, prefix: "" };

    pub(crate) fn of(size: u64, type_name: &str) -> Option<Width> {
        let prefix = match (size, type_name) {
            (1, _) => "",
            (4, "char") => "",
            (2, _) => "u",
            (4, "wchar_t") => "L",
            (4, _) => "U",
            _ => return None,
        };
        Some(Width { bytes: size as usize, prefix })
    }
}

/// A character with its quotes.
pub(crate) fn quoted_character(code: u32, width: Width) -> String {
    let unit = match char::from_u32(code) {
        // A byte of more than seven bits is part of a character, not one.
        Some(character) if width.bytes > 1 || code < 0x80 => Unit::Character(character),
        _ => Unit::Broken(code),
    };
    let mut text = format!("{}'", width.prefix);
    push_escaped(&mut text, unit, '\'', false);
    text.push('\'');
    text
}

/// A string with its quotes. `bytes` is all of it, unless `goes_on`.
pub(crate) fn quoted(bytes: &[u8], width: Width, limit: usize, goes_on: bool) -> String {
    let units = decode(bytes, width);
    let mut runs: Vec<(Unit, usize)> = Vec::new();
    let mut taken = 0;
    let mut rest = units.as_slice();
    while taken < limit
        && let Some(&first) = rest.first()
    {
        let length = rest.iter().take_while(|&&unit| unit == first).count();
        // A run that is not counted as one is cut where the limit is.
        let length = if length > REPEATS { length } else { length.min(limit - taken) };
        runs.push((first, length));
        taken += length;
        rest = &rest[length..];
    }
    let mut text = quote_runs(&runs, width);
    if goes_on || !rest.is_empty() {
        text.push_str("...");
    }
    text
}

/// The prefix says of all runs, at the first of them, how wide the characters are.
fn quote_runs(runs: &[(Unit, usize)], width: Width) -> String {
    let mut text = String::new();
    let mut is_open = false;
    let mut after_escape = false;
    for &(unit, length) in runs {
        if length > REPEATS {
            if is_open {
                text.push('"');
            }
            is_open = false;
            text.push_str(if text.is_empty() { width.prefix } else { ", " });
            text.push('\'');
            push_escaped(&mut text, unit, '\'', false);
            text.push_str(&format!("' <repeats {length} times>"));
            continue;
        }
        if !is_open {
            text.push_str(if text.is_empty() { width.prefix } else { ", " });
            text.push('"');
            is_open = true;
            after_escape = false;
        }
        for _ in 0..length {
            after_escape = push_escaped(&mut text, unit, '"', after_escape);
        }
    }
    if is_open {
        text.push('"');
    } else if text.is_empty() {
        text = format!("{}\"\"", width.prefix);
    }
    text
}

/// True if digits that follow would be taken as part of what was written.
fn push_escaped(text: &mut String, unit: Unit, quote: char, after_escape: bool) -> bool {
    let code = match unit {
        Unit::Character(character) => {
            let short = match character {
                '\u{7}' => Some('a'),
                '\u{8}' => Some('b'),
                '\u{c}' => Some('f'),
                '\n' => Some('n'),
                '\r' => Some('r'),
                '\t' => Some('t'),
                '\u{b}' => Some('v'),
                '\\' => Some('\\'),
                _ if character == quote => Some(quote),
                _ => None,
            };
            if let Some(short) = short {
                text.push('\\');
                text.push(short);
                return false;
            }
            let is_digit_of_it = after_escape && character.is_ascii_digit();
            if is_printable(character) && !is_digit_of_it {
                text.push(character);
                return false;
            }
            character as u32
        }
        Unit::Broken(code) => code,
    };
    if code <= 0o777 {
        text.push_str(&format!("\\{code:03o}"));
        false
    } else {
        text.push_str(&format!("\\x{code:x}"));
        true
    }
}

fn is_printable(character: char) -> bool {
    // What Unicode has given no meaning is not. Marks that combine with what stands before them are.
    let behind_another = [' ', character].iter().collect::<String>();
    "\"'\\".contains(character)
        || behind_another.escape_debug().nth(1) == Some(character)
            && !matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{ffff}' | '\u{e000}'..='\u{f8ff}')
}

fn decode(bytes: &[u8], width: Width) -> Vec<Unit> {
    match width.bytes {
        1 => decode_bytes(bytes),
        2 => {
            let units = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
            char::decode_utf16(units)
                .map(|decoded| match decoded {
                    Ok(character) => Unit::Character(character),
                    Err(broken) => Unit::Broken(broken.unpaired_surrogate().into()),
                })
                .collect()
        }
        _ => (bytes.chunks_exact(4))
            .map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
            .map(|code| char::from_u32(code).map_or(Unit::Broken(code), Unit::Character))
            .collect(),
    }
}

fn decode_bytes(bytes: &[u8]) -> Vec<Unit> {
    let mut units = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        units.extend(chunk.valid().chars().map(Unit::Character));
        units.extend(chunk.invalid().iter().map(|&byte| Unit::Broken(byte.into())));
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], limit: usize, shown: &str) {
        assert_eq!(quoted(bytes, Width::BYTE, limit, false), shown);
    }

    #[test]
    fn strings_are_quoted_as_gdb_does() {
        check(b"", 200, r#""""#);
        check(b"hello\n\"w\" \x011\x1bx", 200, r#""hello\n\"w\" \0011\033x""#);
        check(b"abc\0\0\0\0", 200, r#""abc\000\000\000\000""#);
        check(&[0; 29], 200, r"'\000' <repeats 29 times>");
        check(
            b"xxxxxxxxxxxxyyyyyyyyyyyz",
            200,
            r#"'x' <repeats 12 times>, 'y' <repeats 11 times>, "z""#,
        );
        check(b"abcdef", 3, r#""abc"..."#);
        check(&[0xff, b'a', 0xc3, 0xa9], 200, "\"\\377a\u{e9}\"");
        assert_eq!(quoted_character(200, Width::BYTE), r"'\310'");
        assert_eq!(quoted_character(39, Width::BYTE), r"'\''");
    }
}
