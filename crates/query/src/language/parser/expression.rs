//! Expressions of the program in a query. They are not parsed, only delimited, by these rules:
//!
//! - Brackets and quotes are balanced; nothing within them ends an expression.
//! - Outside of brackets, a condition ends at `and`, `or`, `&&`, `||` and at a closing bracket; an operand ends at
//!   `where`. `?`, which would bind less tightly than these, has to be within brackets.
//! - The words that join conditions are not allowed anywhere in an expression, so that forgotten brackets are noticed.
//! - Nothing is assigned, so that `=` for `==` is noticed.

use super::super::lexer::{Token, TokenKind};
use super::super::{Expression, NESTING_LIMIT, Problem, Word, WordUse};
use super::name::closing;
use super::{ParseError, Parser, Result};

/// Words that join conditions.
const JOINS: [&str; 3] = ["and", "or", "not"];

/// Words that are operators, behind which an operand follows.
const OPERATOR_WORDS: [&str; 4] = ["sizeof", "alignof", "_Alignof", "as"];

/// Words of the language and what they stand for; arguments apart.
const WORDS: [(&str, Word); 6] = [
    ("thread", Word::Thread),
    ("depth", Word::Depth),
    ("pc", Word::Pc),
    ("oldval", Word::OldValue),
    ("newval", Word::NewValue),
    ("result", Word::Result),
];

/// A token of an expression.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scanned<'a> {
    pub token: Token<'a>,
    /// Brackets around it; those that are brackets themselves are not within them.
    pub depth: usize,
}

impl<'a> Parser<'a> {
    /// Goes behind the operand of a type, and returns its tokens.
    pub(super) fn scan_operand(&mut self) -> Result<Vec<Scanned<'a>>> {
        let scanned = self.scan(|token| token.is_word("where"))?;
        let token = self.cursor.peek();
        if token.kind == TokenKind::Sign {
            return Err(self.unexpected("a variable, a count, `where` or the end of the query"));
        }
        for found in &scanned {
            let is_join = JOINS.iter().any(|join| found.token.is_word(join));
            if is_join || matches!(found.token.text, "&&" | "||") && found.depth == 0 {
                let expected = "a count, `where` or the end of the query";
                let error = self.unexpected_at(found.token.span(), expected);
                return Err(error.advise("conditions stand behind `where`"));
            }
        }
        self.check_changes(&scanned, |_| false)?;
        Ok(scanned)
    }

    /// Goes behind a condition, and returns its tokens.
    pub(super) fn scan_condition(&mut self) -> Result<Vec<Scanned<'a>>> {
        let is_end = |token: &Token| {
            token.is_word("and")
                || token.is_word("or")
                || token.is_sign("&&")
                || token.is_sign("||")
        };
        let scanned = self.scan(is_end)?;
        const EXPECTED: &str = "`and`, `or` or the end of the query";
        for Scanned { token, depth } in &scanned {
            let is_join = JOINS.iter().any(|join| token.is_word(join));
            if is_join && *depth > 0 {
                let error =
                    self.error(token.span(), Problem::JoinInExpression(token.text.to_string()));
                return Err(error.advise("write `&&`, `||` and `!` within an expression"));
            }
            if *depth > 0 {
                continue;
            }
            if is_join || token.is_word("where") || token.is_sign(",") {
                return Err(self.unexpected_at(token.span(), EXPECTED));
            }
            if token.is_sign("?") {
                let error = self.error(token.span(), Problem::Conditional);
                return Err(error.advise("put the whole `a ? b : c` in parentheses"));
            }
        }
        self.check_apart(&scanned, EXPECTED, &["and", "or"])?;
        Ok(scanned)
    }

    /// Refuses a value right behind another, as in `x > 3 adn y`: a word before it is missing or misspelt.
    pub(super) fn check_apart(
        &self,
        scanned: &[Scanned],
        expected: &'static str,
        words: &[&'static str],
    ) -> Result<()> {
        let at_top: Vec<&Token> =
            scanned.iter().filter(|part| part.depth == 0).map(|part| &part.token).collect();
        let is_apart = |pair: &&[&Token]| ends_plain_value(pair[0]) && begins_value(pair[1]);
        match at_top.windows(2).find(is_apart) {
            Some(pair) => {
                let error = self.unexpected_at(pair[1].span(), expected);
                Err(error.suggest(pair[1].text, words.iter().copied()))
            }
            None => Ok(()),
        }
    }

    /// Goes on to a token that ends the expression, outside of brackets, and returns those before it.
    fn scan(&mut self, is_end: impl Fn(&Token) -> bool) -> Result<Vec<Scanned<'a>>> {
        let mut scanned = Vec::new();
        let mut open: Vec<(char, usize)> = Vec::new();
        loop {
            let token = self.cursor.peek();
            match token.kind {
                TokenKind::End => break,
                TokenKind::OpenText => return Err(self.error(token.span(), Problem::OpenText)),
                _ if open.is_empty() && is_end(&token) => break,
                _ => {}
            }
            let opening = opening(&token);
            if let Some(closed) = closed(&token) {
                match open.pop() {
                    Some((opening, _)) if closing(opening) == closed => {}
                    Some((opening, at)) => return Err(self.unclosed(opening, at)),
                    // Somebody else's.
                    None => break,
                }
            }
            scanned.push(Scanned { token, depth: open.len() });
            if let Some(opening) = opening {
                open.push((opening, token.start));
            }
            if self.nesting + open.len() > NESTING_LIMIT {
                return Err(self.error(token.span(), Problem::TooDeep).advise("fewer are needed"));
            }
            self.cursor.go_behind(&token);
        }
        match open.pop() {
            Some((opening, at)) => Err(self.unclosed(opening, at)),
            None => Ok(scanned),
        }
    }

    /// Refuses assignments, but for those at places that are allowed.
    pub(super) fn check_changes(
        &self,
        scanned: &[Scanned],
        is_allowed: impl Fn(usize) -> bool,
    ) -> Result<()> {
        for (index, Scanned { token, .. }) in scanned.iter().enumerate() {
            let changes = match token.text {
                "=" => !is_allowed(index),
                "++" | "--" => true,
                "==" | "!=" | "<=" | ">=" => false,
                text => text.ends_with('='),
            };
            if token.kind == TokenKind::Sign && changes {
                let error = self.error(token.span(), Problem::Assignment(token.text.to_string()));
                return Err(match token.text {
                    "=" => error.advise("write `==` to compare"),
                    _ => error.advise("only values can be looked at"),
                });
            }
        }
        Ok(())
    }

    /// The expression that tokens are, of which there must be some, with words of ours in it.
    pub(super) fn expression(&self, scanned: &[Scanned]) -> Result<Expression> {
        let mut expression = self.foreign_expression(scanned)?;
        let start = expression.span.start;
        for (index, Scanned { token, .. }) in scanned.iter().enumerate() {
            let Some(word) = self.word(token).filter(|_| self.is_word_use(scanned, index)) else {
                continue;
            };
            let range = token.start - start..token.end() - start;
            expression.words.push(WordUse { range, word });
        }
        Ok(expression)
    }

    /// The expression that tokens are, in which all names are the program's.
    pub(super) fn foreign_expression(&self, scanned: &[Scanned]) -> Result<Expression> {
        let (Some(first), Some(last)) = (scanned.first(), scanned.last()) else {
            return Err(self.unexpected("an expression"));
        };
        if !last.token.ends_value() {
            return Err(self.missing_value("behind", &last.token));
        }
        let span = first.token.start..last.token.end();
        let text = self.cursor.text()[span.clone()].to_string();
        Ok(Expression { text, span, words: Vec::new() })
    }

    pub(super) fn missing_value(&self, side: &'static str, token: &Token) -> ParseError {
        let sign = token.text.to_string();
        self.error(token.span(), Problem::MissingValue { side, sign })
    }

    /// Whether a token within an expression is a word of ours, and not a name of the program.
    fn is_word_use(&self, scanned: &[Scanned], index: usize) -> bool {
        let word = self.word(&scanned[index].token);
        let text = |index: Option<usize>| {
            index.and_then(|index| scanned.get(index)).map_or("", |scanned| scanned.token.text)
        };
        let (before, behind) = (text(index.checked_sub(1)), text(index.checked_add(1)));
        let is_member = matches!(before, "." | "->" | "::");
        let is_other = matches!(behind, "::" | "(");
        let is_shielded = before == "(" && behind == ")";
        word.is_some_and(Word::tells_of_event) && !(is_member || is_other || is_shielded)
    }

    /// What a word means in this query; `None` if it is a name of the program.
    pub(super) fn word(&self, token: &Token) -> Option<Word> {
        if token.kind != TokenKind::Word {
            return None;
        }
        let named = WORDS.iter().find(|(name, _)| *name == token.text).map(|(_, word)| *word);
        let word = named.or_else(|| argument(token.text))?;
        word.belongs_to(self.kind).then_some(word)
    }
}

/// `arg0`, `arg1` and so on.
fn argument(text: &str) -> Option<Word> {
    let digits = text.strip_prefix("arg")?;
    let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
    let is_canonical = digits == "0" || !digits.starts_with('0');
    (is_number && is_canonical).then(|| digits.parse().ok().map(Word::Argument))?
}

/// Whether a value ends here, so that none can follow. Behind `)` one can: it may be a cast.
fn ends_plain_value(token: &Token) -> bool {
    match token.kind {
        TokenKind::Word => !OPERATOR_WORDS.contains(&token.text),
        TokenKind::Number | TokenKind::Character => true,
        _ => token.is_sign("]"),
    }
}

fn begins_value(token: &Token) -> bool {
    let is_value = matches!(token.kind, TokenKind::Word | TokenKind::Number | TokenKind::Text);
    is_value && !token.is_word("as")
}

fn opening(token: &Token) -> Option<char> {
    let bracket = token.text.chars().next()?;
    (token.kind == TokenKind::Sign && "([{".contains(bracket)).then_some(bracket)
}

/// The bracket that a token closes with.
fn closed(token: &Token) -> Option<char> {
    let bracket = token.text.chars().next()?;
    (token.kind == TokenKind::Sign && ")]}".contains(bracket)).then_some(bracket)
}
