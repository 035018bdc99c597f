//! Names with wildcards in a query: bare up to a space, or in double quotes.
//!
//! A bare name may hold brackets, and spaces and commas within them, as names of C++ and Rust do:
//! `std::map<int, *>::find`, `<T as Trait>::run`. What else would end it has to be quoted: `"operator=="`.

use std::ops::Range;

use super::super::lexer::TokenKind;
use super::super::{Lines, NESTING_LIMIT, Pattern, Problem, Source};
use super::{LINE, ParseError, Parser, Result, number};

const QUOTE_IT: &str = "names with other characters are written in double quotes";

impl<'a> Parser<'a> {
    /// A name, with wildcards or without.
    pub(super) fn pattern(&mut self, expected: &'static str) -> Result<Pattern> {
        let (text, _) = self.name(expected)?;
        Ok(Pattern::new(text))
    }

    /// A name as it is written, without its quotes, and where it is.
    pub(super) fn name(&mut self, expected: &'static str) -> Result<(&'a str, Range<usize>)> {
        self.cursor.skip_space();
        let token = self.cursor.peek();
        let (name, end) = match token.kind {
            TokenKind::Text => {
                let inside = token.start + 1..token.end() - 1;
                (inside, token.end())
            }
            TokenKind::OpenText => return Err(self.error(token.span(), Problem::OpenText)),
            _ => {
                let end = self.bare_name_end()?;
                (token.start..end, end)
            }
        };
        if name.is_empty() {
            return Err(self.unexpected(expected));
        }
        while self.cursor.at() < end {
            self.cursor.next_character();
        }
        Ok((&self.cursor.text()[name], token.start..end))
    }

    /// Where a bare name that begins here ends.
    fn bare_name_end(&self) -> Result<usize> {
        let mut cursor = self.cursor;
        let mut open: Vec<(char, usize)> = Vec::new();
        let mut before = None;
        while let Some(character) = cursor.peek_character() {
            let at = cursor.at();
            if open.is_empty() && ends_bare_name(before, character, cursor.rest()) {
                break;
            }
            cursor.next_character();
            match character {
                '\\' => {
                    cursor.next_character();
                }
                '(' | '<' | '[' | '{' => open.push((character, at)),
                // The end of an arrow closes nothing.
                '>' if before == Some('-') => {}
                ')' | '>' | ']' | '}' => match open.pop() {
                    Some((opening, _)) if closing(opening) == character => {}
                    Some((opening, at)) => return Err(self.unclosed(opening, at).advise(QUOTE_IT)),
                    None => break,
                },
                _ => {}
            }
            if open.len() > NESTING_LIMIT {
                return Err(self.error(at..at + 1, Problem::TooDeep).advise(QUOTE_IT));
            }
            before = Some(character);
        }
        match open.pop() {
            Some((opening, at)) => Err(self.unclosed(opening, at).advise(QUOTE_IT)),
            None => Ok(cursor.at()),
        }
    }

    pub(super) fn unclosed(&self, opening: char, at: usize) -> ParseError {
        self.error(at..at + opening.len_utf8(), Problem::Unclosed(opening))
    }

    /// `FILE` or `FILE:LINES`.
    pub(super) fn source(&mut self, expected: &'static str) -> Result<Source> {
        let file = self.pattern(expected)?;
        let lines = match self.cursor.peek_character() {
            Some(':') => {
                self.cursor.next_character();
                Some(self.lines()?)
            }
            _ => None,
        };
        Ok(Source { file, lines })
    }

    /// `7` or `7-12`.
    pub(super) fn lines(&mut self) -> Result<Lines> {
        self.cursor.skip_space();
        let start = self.cursor.at();
        let first = self.line()?;
        let last = if self.take_sign("-") { self.line()? } else { first };
        if first == 0 || last < first {
            let error = self.error(start..self.cursor.at(), Problem::NoLines);
            return Err(error.advise("lines count from 1, the smaller one first"));
        }
        Ok(Lines { first, last })
    }

    fn line(&mut self) -> Result<u32> {
        let token = self.cursor.peek();
        let line = number::decimal(token.text)
            .and_then(|line| u32::try_from(line).map_err(|_| number::NumberProblem::TooLarge))
            .map_err(|problem| match problem {
                number::NumberProblem::NotANumber => self.unexpected("the number of a line"),
                too_large => self.number(token.span(), too_large, LINE),
            })?;
        self.cursor.go_behind(&token);
        Ok(line)
    }
}

/// Whether a character that is not within brackets cannot be part of a bare name.
fn ends_bare_name(before: Option<char>, character: char, rest: &str) -> bool {
    match character {
        // A line number follows the name of a file; two colons are part of a name.
        ':' if before == Some(':') => false,
        ':' => rest[1..]
            .chars()
            .next()
            .is_none_or(|next| next.is_ascii_digit() || next.is_whitespace()),
        ',' | '>' | ')' | ']' | '}' | '&' | '|' | ';' | '=' | '!' | '"' => true,
        other => other.is_whitespace(),
    }
}

/// The bracket that closes another.
pub(super) fn closing(opening: char) -> char {
    match opening {
        '(' => ')',
        '<' => '>',
        '[' => ']',
        _ => '}',
    }
}
