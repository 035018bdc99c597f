//! Tokens of C, as far as it takes to find where an expression ends.
//!
//! Nothing is refused here: what C does not know becomes a [`TokenKind::Sign`] of one character, for somebody else to
//! complain about.

use std::ops::Range;

/// Signs of more than one character, the longest first.
const LONG_SIGNS: [&str; 25] = [
    "<<=", ">>=", "<=>", "...", "->*", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&",
    "||", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "::",
];

/// The longest character with its single quotes, `'\U0001f600'`, with some room.
const CHARACTER_LIMIT: usize = 16;

/// The longest name of a file in single quotes, as in `'ledger.c'::total`.
const FILE_LIMIT: usize = 256;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A name or a word of the language.
    Word,
    /// Something that begins with a digit.
    Number,
    /// Text in double quotes.
    Text,
    /// Text in double quotes of which the second is missing.
    OpenText,
    /// A character in single quotes, or a file that a name is from.
    Character,
    /// Anything else.
    Sign,
    /// Nothing is left.
    End,
}

/// A token and where it is.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    /// What it is.
    pub kind: TokenKind,
    /// Its characters.
    pub text: &'a str,
    /// Where it begins in the query.
    pub start: usize,
}

impl Token<'_> {
    /// Where it is in the query.
    pub fn span(&self) -> Range<usize> {
        self.start..self.end()
    }

    /// Where it ends in the query.
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Whether it is this sign.
    pub fn is_sign(&self, sign: &str) -> bool {
        self.kind == TokenKind::Sign && self.text == sign
    }

    /// Whether it is this word.
    pub fn is_word(&self, word: &str) -> bool {
        self.kind == TokenKind::Word && self.text == word
    }

    /// Whether a value may end with it.
    pub fn ends_value(&self) -> bool {
        match self.kind {
            TokenKind::Sign => matches!(self.text, ")" | "]" | "++" | "--"),
            TokenKind::End | TokenKind::OpenText => false,
            _ => true,
        }
    }
}

/// A place in a text.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The start of a text.
    pub fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, at: 0 }
    }

    /// How many bytes are behind it.
    pub fn at(&self) -> usize {
        self.at
    }

    /// All of the text.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// What is ahead.
    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The character ahead.
    pub fn peek_character(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// The character ahead, and goes behind it.
    pub fn next_character(&mut self) -> Option<char> {
        let next = self.peek_character()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Goes behind white space.
    pub fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Whether white space or the end is ahead.
    pub fn is_at_gap(&self) -> bool {
        self.peek_character().is_none_or(char::is_whitespace)
    }

    /// The token ahead.
    pub fn peek(&self) -> Token<'a> {
        self.clone().next_token()
    }

    /// The token ahead, and goes behind it.
    pub fn next_token(&mut self) -> Token<'a> {
        self.skip_space();
        let (kind, length) = measure(self.rest());
        let token = Token { kind, text: &self.rest()[..length], start: self.at };
        self.at += length;
        token
    }

    /// Goes behind a token.
    pub fn go_behind(&mut self, token: &Token) {
        self.at = token.end();
    }
}

/// Kind and length of the token that a text begins with.
fn measure(text: &str) -> (TokenKind, usize) {
    let Some(first) = text.chars().next() else { return (TokenKind::End, 0) };
    if first.is_ascii_digit() {
        return (TokenKind::Number, number_length(text));
    }
    if is_word_character(first) {
        let length = text.find(|character| !is_word_character(character)).unwrap_or(text.len());
        return (TokenKind::Word, length);
    }
    if first == '"' {
        return match quoted_length(text, '"') {
            Some(length) => (TokenKind::Text, length),
            None => (TokenKind::OpenText, text.len()),
        };
    }
    if first == '\'' {
        // A single quote that is not closed soon is not one of C: lifetimes stand in names of Rust.
        let near = &text[..text.floor_char_boundary(FILE_LIMIT)];
        let is_meant =
            |length: &usize| *length <= CHARACTER_LIMIT || text[*length..].starts_with("::");
        if let Some(length) = quoted_length(near, '\'').filter(is_meant) {
            return (TokenKind::Character, length);
        }
    }
    let long = LONG_SIGNS.iter().find(|sign| text.starts_with(**sign));
    (TokenKind::Sign, long.map_or(first.len_utf8(), |sign| sign.len()))
}

/// Whether it can be part of a name.
pub fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '$')
}

/// Letters and digits, and points between digits.
fn number_length(text: &str) -> usize {
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let goes_on = match character {
            '.' => characters.peek().is_some_and(|(_, next)| next.is_ascii_digit()),
            _ => is_word_character(character),
        };
        if !goes_on {
            return at;
        }
    }
    text.len()
}

/// The length of a text that begins with a quote, up to the next one without a backslash before it.
fn quoted_length(text: &str, quote: char) -> Option<usize> {
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        if character == '\\' {
            characters.next();
        } else if character == quote {
            return Some(at + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_those_of_c() {
        for (text, expected) in [
            ("", vec![]),
            ("a->b[3]", vec!["a", "->", "b", "[", "3", "]"]),
            ("stack=<**,a>", vec!["stack", "=", "<", "*", "*", ",", "a", ">"]),
            ("x>>=1&&y", vec!["x", ">>=", "1", "&&", "y"]),
            (r#""a\"b" 'c' '\'' 'static"#, vec![r#""a\"b""#, "'c'", r"'\''", "'", "static"]),
            ("'a/long/ledger (or).c'::x", vec!["'a/long/ledger (or).c'", "::", "x"]),
            ("1.5M 0x1F 7..9 1.x", vec!["1.5M", "0x1F", "7", ".", ".", "9", "1", ".", "x"]),
            ("größe€$rax", vec!["größe", "€", "$rax"]),
        ] {
            let mut cursor = Cursor::new(text);
            let mut found = Vec::new();
            while cursor.peek().kind != TokenKind::End {
                found.push(cursor.next_token().text);
            }
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_text_without_end_takes_the_rest() {
        let token = Cursor::new(r#" "abc\" d"#).next_token();
        assert_eq!((token.kind, token.span()), (TokenKind::OpenText, 1..9));
    }
}
