//! Text to tokens.

use super::{Problem, Span};

/// A word of the language.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Integer {
        value: u128,
        suffix: Suffix,
        is_decimal: bool,
    },
    Float {
        value: f64,
        suffix: Suffix,
    },
    Character {
        code: u32,
        prefix: Prefix,
    },
    Text(Vec<u8>),
    /// A name or a keyword.
    Word(String),
    /// What stands between single quotes before `::`.
    Quoted(String),
    /// What stands behind `$`.
    Register(String),
    Mark(&'static str),
    End,
}

/// What stands behind a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Suffix {
    #[default]
    None,
    Unsigned,
    Long,
    UnsignedLong,
    Float,
    LongDouble,
    /// Rust's, with sign and bytes.
    Sized(bool, u8),
    SizedFloat(u8),
}

/// What stands before a character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Prefix {
    #[default]
    None,
    Wide,
    Utf16,
    Utf32,
}

/// Longer ones first.
const MARKS: &[&str] = &[
    "<<=", ">>=", "...", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=",
    "-=", "*=", "/=", "%=", "&=", "|=", "^=", "::", "(", ")", "[", "]", "{", "}", ".", ",", "?",
    ":", "&", "*", "+", "-", "~", "!", "/", "%", "<", ">", "=", "^", "|", "@", ";",
];

/// The tokens of a text, the last of which is the end.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, Span)>, Problem> {
    let mut lexer = Lexer { text, at: 0, tokens: Vec::new() };
    loop {
        lexer.skip_space();
        let start = lexer.at;
        let token = lexer.next()?;
        let is_end = token == Token::End;
        lexer.tokens.push((token, start..lexer.at));
        if is_end {
            return Ok(lexer.tokens);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    tokens: Vec<(Token, Span)>,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> String {
        let rest = self.rest();
        let length = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        let taken = rest[..length].to_string();
        self.at += length;
        taken
    }

    fn next(&mut self) -> Result<Token, Problem> {
        let Some(first) = self.peek() else { return Ok(Token::End) };
        let second = self.rest()[first.len_utf8()..].chars().next();
        match first {
            '0'..='9' => self.number(),
            '.' if second.is_some_and(|c| c.is_ascii_digit()) && !self.follows_operand() => {
                self.number()
            }
            '\'' => self.character(Prefix::None),
            'L' | 'u' | 'U' if second == Some('\'') => {
                self.at += 1;
                let prefix = match first {
                    'L' => Prefix::Wide,
                    'u' => Prefix::Utf16,
                    _ => Prefix::Utf32,
                };
                self.character(prefix)
            }
            '"' => self.string(),
            '$' => {
                self.at += 1;
                let name = self.take_while(is_word);
                match name.is_empty() {
                    true => {
                        Err(Problem::new(self.at, "the name of a register is missing behind `$`"))
                    }
                    false => Ok(Token::Register(name)),
                }
            }
            _ if first.is_alphabetic() || first == '_' => Ok(Token::Word(self.take_while(is_word))),
            _ => self.mark(),
        }
    }

    fn mark(&mut self) -> Result<Token, Problem> {
        let rest = self.rest();
        match MARKS.iter().find(|mark| rest.starts_with(**mark)) {
            Some(mark) => {
                self.at += mark.len();
                Ok(Token::Mark(mark))
            }
            None => Err(Problem::new(self.at, "this character means nothing in an expression")),
        }
    }

    /// Behind an operand a point is not the beginning of a number.
    fn follows_operand(&self) -> bool {
        let Some((token, span)) = self.tokens.last() else { return false };
        let is_operand = matches!(
            token,
            Token::Word(_)
                | Token::Register(_)
                | Token::Mark(")" | "]")
                | Token::Integer { .. }
                | Token::Character { .. }
                | Token::Text(_)
        );
        is_operand && span.end <= self.at
    }

    fn number(&mut self) -> Result<Token, Problem> {
        let start = self.at;
        // The number of a tuple's field has no point and no suffix.
        if let Some((Token::Mark("." | "->"), _)) = self.tokens.last() {
            let digits = self.take_while(|c| c.is_ascii_digit());
            return integer(start, &digits, 10, Suffix::None);
        }
        let radix = match self.rest().get(..2) {
            Some("0x" | "0X") => 16,
            Some("0b" | "0B") => 2,
            Some("0o") => 8,
            _ => 10,
        };
        if radix != 10 {
            self.at += 2;
            // `b` and the like are digits of it; only these letters are not.
            let digits = self.take_while(|c| c.is_digit(radix) || c == '_');
            let suffix = self.suffix(start, false)?;
            return integer(start, &digits, radix, suffix);
        }
        let digits = self.take_while(|c| c.is_ascii_digit() || c == '_');
        let has_point = self.peek() == Some('.')
            && !self.rest()[1..].starts_with(|c: char| {
                c.is_alphabetic() && !matches!(c, 'e' | 'E' | 'f' | 'F' | 'l' | 'L')
            });
        let has_exponent = |rest: &str| {
            let behind = rest.strip_prefix(['e', 'E']);
            behind.is_some_and(|rest| {
                rest.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit())
            })
        };
        if !has_point && !has_exponent(self.rest()) {
            let suffix = self.suffix(start, false)?;
            if matches!(suffix, Suffix::SizedFloat(_)) {
                return float(start, &digits, suffix);
            }
            let is_octal = digits.len() > 1 && digits.starts_with('0');
            return integer(start, &digits, if is_octal { 8 } else { 10 }, suffix);
        }
        let mut text = digits;
        if has_point {
            self.at += 1;
            text.push('.');
            text.push_str(&self.take_while(|c| c.is_ascii_digit() || c == '_'));
        }
        if has_exponent(self.rest()) {
            text.push('e');
            self.at += 1;
            if let Some(sign) = self.peek().filter(|c| matches!(c, '+' | '-')) {
                text.push(sign);
                self.at += 1;
            }
            text.push_str(&self.take_while(|c| c.is_ascii_digit()));
        }
        let suffix = self.suffix(start, true)?;
        float(start, &text, suffix)
    }

    fn suffix(&mut self, start: usize, is_float: bool) -> Result<Suffix, Problem> {
        let word = self.take_while(is_word);
        Ok(match (word.to_ascii_lowercase().as_str(), is_float) {
            ("", _) => Suffix::None,
            ("f", true) => Suffix::Float,
            ("l", true) => Suffix::LongDouble,
            ("f32", _) => Suffix::SizedFloat(4),
            ("f64", _) => Suffix::SizedFloat(8),
            ("u", false) => Suffix::Unsigned,
            ("l" | "ll" | "z", false) => Suffix::Long,
            ("ul" | "lu" | "ull" | "llu" | "uz" | "zu", false) => Suffix::UnsignedLong,
            ("u8", false) => Suffix::Sized(false, 1),
            ("u16", false) => Suffix::Sized(false, 2),
            ("u32", false) => Suffix::Sized(false, 4),
            ("u64" | "usize", false) => Suffix::Sized(false, 8),
            ("u128", false) => Suffix::Sized(false, 16),
            ("i8", false) => Suffix::Sized(true, 1),
            ("i16", false) => Suffix::Sized(true, 2),
            ("i32", false) => Suffix::Sized(true, 4),
            ("i64" | "isize", false) => Suffix::Sized(true, 8),
            ("i128", false) => Suffix::Sized(true, 16),
            _ => return Err(Problem::new(start, format!("`{word}` is no suffix of a number"))),
        })
    }

    /// A character constant, or the name of a file or function before `::`.
    fn character(&mut self, prefix: Prefix) -> Result<Token, Problem> {
        let start = self.at;
        self.at += 1;
        let mut codes = Vec::new();
        let mut raw = String::new();
        loop {
            let before = self.at;
            match self.peek() {
                None => return Err(Problem::new(start, "this quote is not closed")),
                Some('\'') => break,
                _ => codes.push(self.escaped(prefix == Prefix::None)?),
            }
            raw.push_str(&self.text[before..self.at]);
        }
        self.at += 1;
        if self.rest().starts_with("::") && prefix == Prefix::None {
            return Ok(Token::Quoted(raw));
        }
        match codes.as_slice() {
            [code] => Ok(Token::Character { code: *code, prefix }),
            _ => Err(Problem::new(
                start,
                "a character constant holds one character; strings have double quotes",
            )),
        }
    }

    fn string(&mut self) -> Result<Token, Problem> {
        let start = self.at;
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            match self.peek() {
                None => return Err(Problem::new(start, "this quote is not closed")),
                Some('"') => break,
                Some('\\') => bytes.push(self.escaped(true)? as u8),
                Some(character) => {
                    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                    self.at += character.len_utf8();
                }
            }
        }
        self.at += 1;
        Ok(Token::Text(bytes))
    }

    /// One character, written out or escaped.
    fn escaped(&mut self, is_byte: bool) -> Result<u32, Problem> {
        let start = self.at;
        let Some(first) = self.peek() else {
            return Err(Problem::new(start, "this quote is not closed"));
        };
        self.at += first.len_utf8();
        if first != '\\' {
            return Ok(first as u32);
        }
        let Some(escape) = self.peek() else {
            return Err(Problem::new(start, "this quote is not closed"));
        };
        let digits = |this: &mut Self, radix: u32, most: usize| {
            let rest = this.rest();
            let length = rest
                .bytes()
                .take(most)
                .take_while(|byte| char::from(*byte).is_digit(radix))
                .count();
            let value = u32::from_str_radix(&rest[..length], radix).ok();
            this.at += length;
            value.filter(|&value| !is_byte || value <= 0xff)
        };
        if escape.is_digit(8) {
            return digits(self, 8, 3).ok_or_else(|| Problem::new(start, "this escape is no byte"));
        }
        self.at += escape.len_utf8();
        Ok(match escape {
            'n' => 10,
            't' => 9,
            'r' => 13,
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'v' => 11,
            'e' => 27,
            '\\' | '\'' | '"' | '?' => escape as u32,
            'x' => digits(self, 16, 8)
                .ok_or_else(|| Problem::new(start, "`\\x` needs the digits of one character"))?,
            _ => {
                return Err(Problem::new(
                    start,
                    format!("`\\{}` is no escape", escape.escape_debug()),
                ));
            }
        })
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn integer(start: usize, digits: &str, radix: u32, suffix: Suffix) -> Result<Token, Problem> {
    let plain = digits.replace('_', "");
    let value = u128::from_str_radix(&plain, radix);
    let value = value.map_err(|_| match plain.is_empty() {
        true => Problem::new(start, "the digits of this number are missing"),
        false if radix == 8 => {
            Problem::new(start, "this number is no octal number of 128 bits: it begins with `0`")
        }
        false => Problem::new(start, "this number has more than 128 bits"),
    })?;
    Ok(Token::Integer { value, suffix, is_decimal: radix == 10 })
}

fn float(start: usize, text: &str, suffix: Suffix) -> Result<Token, Problem> {
    let value = text.replace('_', "").parse::<f64>();
    let value = value.map_err(|_| Problem::new(start, "this is no floating-point number"))?;
    Ok(Token::Float { value, suffix })
}
