//! What stands behind `where`: conditions joined by `or`, `and` and `not`, in this order of binding.
//!
//! A condition is about a word of ours, or an expression of the program. What begins with a bracket may be either:
//! `(a > 1 or b) and c` joins conditions in brackets, `(a + 1) * 2 > c` is an expression. It is the former if something
//! that ends a condition follows the closing bracket. `!` follows the same rule: it belongs to an expression, where it
//! binds tightly as in C, unless conditions in brackets or a pattern follow it.

use super::super::lexer::{Cursor, Token, TokenKind};
use super::super::{
    Comparison, Condition, Context, NESTING_LIMIT, Operand, Pattern, Problem, Source, StackElement,
    StackPattern, Word,
};
use super::expression::Scanned;
use super::{ParseError, Parser, Result, number};

/// Words that are compared with patterns.
const PATTERN_WORDS: [&str; 3] = ["stack", "src", "func"];

/// Operators that C binds less tightly than comparisons.
const LOOSE: [&str; 3] = ["&", "|", "^"];

const A_CONDITION: &str = "a condition";
const A_FRAME: &str = "a function, `*` for any one or `**` for any number";
const THE_STACK_ENDS: &str = "`,` or `>`";

impl<'a> Parser<'a> {
    pub(super) fn context(&mut self) -> Result<Context> {
        self.joined(["or", "||"], Context::any_of, |parser| {
            parser.joined(["and", "&&"], Context::all_of, |parser| parser.negation())
        })
    }

    /// Some parts with a word or sign between them.
    fn joined(
        &mut self,
        [word, sign]: [&str; 2],
        join: fn(Vec<Context>) -> Context,
        part: impl Fn(&mut Self) -> Result<Context>,
    ) -> Result<Context> {
        let mut parts = vec![part(self)?];
        while self.take_word(word) || self.take_sign(sign) {
            parts.push(part(self)?);
        }
        Ok(join(parts))
    }

    fn negation(&mut self) -> Result<Context> {
        let token = self.cursor.peek();
        if token.is_word("not") || token.is_sign("!") && self.negates_conditions(&token)? {
            self.cursor.go_behind(&token);
            let inner = self.nested(token.span(), Self::negation)?;
            return Ok(Context::Not(Box::new(inner)));
        }
        if token.is_sign("(") && self.joins_conditions(self.cursor) {
            self.cursor.go_behind(&token);
            let inner = self.nested(token.span(), Self::context)?;
            if !self.take_sign(")") {
                return Err(self.unexpected("`and`, `or` or `)`"));
            }
            return Ok(inner);
        }
        self.condition()
    }

    /// Whether a `!`, maybe with others behind it, stands before conditions in brackets or a pattern.
    fn negates_conditions(&self, first: &Token) -> Result<bool> {
        let mut cursor = self.cursor;
        for _ in 0..=NESTING_LIMIT {
            let token = cursor.peek();
            if !token.is_sign("!") {
                return Ok(self.pattern_word(cursor).is_some()
                    || token.is_sign("(") && self.joins_conditions(cursor));
            }
            cursor.go_behind(&token);
        }
        Err(self.error(first.span(), Problem::TooDeep).advise("fewer are needed"))
    }

    /// Whether the bracket ahead holds conditions, and is not a part of an expression.
    fn joins_conditions(&self, mut cursor: Cursor<'a>) -> bool {
        let mut depth = 0usize;
        let mut within: Vec<Token> = Vec::new();
        let (mut has_conditional, mut has_pattern) = (false, false);
        loop {
            has_pattern |= self.pattern_word(cursor).is_some();
            let token = cursor.next_token();
            match (token.kind, token.text) {
                (TokenKind::End | TokenKind::OpenText, _) => return false,
                (TokenKind::Sign, "(") => depth += 1,
                (TokenKind::Sign, ")") => depth -= 1,
                (TokenKind::Sign, "?") if depth == 1 => has_conditional = true,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            if within.len() < 3 {
                within.push(token);
            }
        }
        // Alone in brackets, a word of ours is a variable of the program.
        let is_shielded = matches!(&within[..], [_, only] if self.word(only).is_some());
        // `a ? b : c` needs its brackets; in a pattern, `?` is something else.
        let is_conditional = has_conditional && !has_pattern;
        ends_condition(&cursor.peek()) && !is_shielded && !is_conditional
    }

    fn condition(&mut self) -> Result<Context> {
        if let Some((word, comparison, behind)) = self.pattern_word(self.cursor) {
            self.cursor = behind;
            let condition = Context::Condition(self.pattern_condition(word)?);
            return Ok(match comparison {
                Comparison::Equal => condition,
                _ => Context::Not(Box::new(condition)),
            });
        }
        if let Some((comparison, behind)) = self.time_word() {
            self.cursor = behind;
            let point = self.time_point().map_err(|error| error.advise(shield("time")))?;
            self.end_of_condition()?;
            return Ok(Context::Condition(Condition::Time(comparison, point)));
        }
        let scanned = self.scan_condition()?;
        if scanned.is_empty() {
            return Err(self.unexpected(A_CONDITION));
        }
        self.compared(&scanned).map(Context::Condition)
    }

    /// `stack`, `src` or `func` and how it is compared, if that is ahead, and what is behind.
    fn pattern_word(&self, mut cursor: Cursor<'a>) -> Option<(&'a str, Comparison, Cursor<'a>)> {
        let word = cursor.next_token();
        let comparison = match cursor.next_token().text {
            "=" | "==" => Comparison::Equal,
            "!=" => Comparison::NotEqual,
            _ => return None,
        };
        let is_ours = PATTERN_WORDS.iter().any(|name| word.is_word(name));
        is_ours.then_some((word.text, comparison, cursor))
    }

    fn time_word(&self) -> Option<(Comparison, Cursor<'a>)> {
        let mut cursor = self.cursor;
        let word = cursor.next_token();
        let comparison = comparison(&cursor.next_token())?;
        word.is_word("time").then_some((comparison, cursor))
    }

    fn pattern_condition(&mut self, word: &str) -> Result<Condition> {
        let condition = match word {
            "stack" => Condition::Stack(self.stack_pattern()?),
            "src" => Condition::Source(self.source_pattern()?),
            _ => {
                let expected = "the name of a function";
                let shielded = |error: ParseError| error.advise(shield("func"));
                let name = self.pattern(expected).map_err(shielded)?;
                Condition::Function(name)
            }
        };
        self.end_of_condition()?;
        Ok(condition)
    }

    /// Nothing but an end of the condition may be ahead.
    fn end_of_condition(&self) -> Result<()> {
        let token = self.cursor.peek();
        if ends_condition(&token) {
            return Ok(());
        }
        let error = self.unexpected("`and`, `or` or the end of the query");
        Err(error.suggest(token.text, ["and", "or"]))
    }

    /// `<**, a, b>`
    fn stack_pattern(&mut self) -> Result<StackPattern> {
        let opening = self.cursor.peek();
        if !self.take_opening_angle() {
            let error = self.unexpected("`<`, as in `stack = <**, caller, callee>`");
            return Err(error.advise(shield("stack")));
        }
        let mut elements = vec![self.stack_element()?];
        while self.take_sign(",") {
            elements.push(self.stack_element()?);
        }
        self.closing_angle(opening)?;
        Ok(StackPattern { elements })
    }

    fn stack_element(&mut self) -> Result<StackElement> {
        let (text, span) = self.name(A_FRAME)?;
        // In quotes, `**` is a name like any other.
        let is_bare = text.len() == span.len();
        match text {
            "**" if is_bare => Ok(StackElement::Frames),
            name => Ok(StackElement::Frame(Pattern::new(name))),
        }
    }

    /// `<file, 7>`, `<file, 7-12>`, `<file>`, or the same as `file:7-12`.
    fn source_pattern(&mut self) -> Result<Source> {
        const A_FILE: &str = "the name of a file";
        let opening = self.cursor.peek();
        if !self.take_opening_angle() {
            return self.source(A_FILE).map_err(|error| error.advise(shield("src")));
        }
        let file = self.pattern(A_FILE)?;
        let lines = if self.take_sign(",") { Some(self.lines()?) } else { None };
        self.closing_angle(opening)?;
        Ok(Source { file, lines })
    }

    /// Tokens are those of C, in which `<<` and `>>` are one: angles are looked for as characters.
    fn take_opening_angle(&mut self) -> bool {
        self.cursor.skip_space();
        let is_ahead = self.cursor.peek_character() == Some('<');
        if is_ahead {
            self.cursor.next_character();
        }
        is_ahead
    }

    fn closing_angle(&mut self, opening: Token) -> Result<()> {
        self.cursor.skip_space();
        match self.cursor.peek_character() {
            Some('>') => {
                self.cursor.next_character();
                Ok(())
            }
            None => Err(self.unclosed('<', opening.start)),
            Some(_) => Err(self.unexpected(THE_STACK_ENDS)),
        }
    }

    /// A comparison of a word of ours, or an expression.
    fn compared(&self, scanned: &[Scanned<'a>]) -> Result<Condition> {
        let comparisons: Vec<(usize, Comparison)> = (0..scanned.len())
            .filter(|index| scanned[*index].depth == 0)
            .filter_map(|index| Some((index, comparison(&scanned[index].token)?)))
            .collect();
        let sides: Vec<&[Scanned]> =
            scanned.split(|part| part.depth == 0 && comparison(&part.token).is_some()).collect();
        self.check_negated_words(&sides)?;
        self.check_time(&sides)?;

        let lone = sides.iter().find_map(|side| self.lone_word(side));
        let Some((word_token, _)) = lone.filter(|_| !comparisons.is_empty()) else {
            self.check_changes(scanned, |_| false)?;
            self.check_sides(scanned, &comparisons, &sides)?;
            return Ok(Condition::Expression(self.expression(scanned)?));
        };
        let name = word_token.text.to_string();
        self.check_changes(scanned, |index| scanned[index].depth == 0)?;
        let ([(_, comparison)], [left, right]) = (&comparisons[..], &sides[..]) else {
            let error = self.error(word_token.span(), Problem::Chain(name));
            return Err(error.advise("join two comparisons with `and`"));
        };
        self.check_sides(scanned, &comparisons, &sides)?;
        if let Some(operator) = loose_operator(scanned) {
            let operator_text = operator.text.to_string();
            let problem = Problem::LooseOperator { word: name, operator: operator_text };
            let error = self.error(operator.span(), problem);
            return Err(error.advise("put its operands in parentheses"));
        }
        match (self.lone_word(left), self.lone_word(right)) {
            (Some((_, word)), _) => Ok(Condition::Compare(word, *comparison, self.operand(right)?)),
            (None, Some((_, word))) => {
                Ok(Condition::Compare(word, comparison.mirrored(), self.operand(left)?))
            }
            (None, None) => Ok(Condition::Expression(self.expression(scanned)?)),
        }
    }

    /// Comparisons have something on both sides.
    fn check_sides(
        &self,
        scanned: &[Scanned<'a>],
        comparisons: &[(usize, Comparison)],
        sides: &[&[Scanned<'a>]],
    ) -> Result<()> {
        for ((at, _), pair) in comparisons.iter().zip(sides.windows(2)) {
            let missing = match pair {
                [[], _] => "before",
                [_, []] => "behind",
                _ => continue,
            };
            return Err(self.missing_value(missing, &scanned[*at].token));
        }
        Ok(())
    }

    /// In C, `!depth == 3` compares `!depth`; with a word of ours nobody means that.
    fn check_negated_words(&self, sides: &[&[Scanned<'a>]]) -> Result<()> {
        let [side, _, ..] = sides else { return Ok(()) };
        let [Scanned { token: first, .. }, .., word] = side else { return Ok(()) };
        let is_negated = side[..side.len() - 1].iter().all(|part| part.token.is_sign("!"));
        if is_negated && self.word(&word.token).is_some() {
            let name = word.token.text.to_string();
            let error = self.error(first.span(), Problem::NegatedWord(name));
            return Err(error.advise("write `not`, or put the comparison in parentheses"));
        }
        Ok(())
    }

    /// `time` is compared with times, which are not expressions, so that it has to come first.
    fn check_time(&self, sides: &[&[Scanned<'a>]]) -> Result<()> {
        let is_time = |side: &&[Scanned<'a>]| matches!(side, [only] if only.token.is_word("time"));
        match sides.iter().skip(1).copied().find(is_time) {
            Some(side) => {
                let error = self.error(side[0].token.span(), Problem::TimeBehind);
                Err(error.advise("write `time < 50%`, or `(time)` for a variable of the program"))
            }
            None => Ok(()),
        }
    }

    /// The word of ours that a side of a comparison is, if it is nothing else.
    fn lone_word(&self, side: &[Scanned<'a>]) -> Option<(Token<'a>, Word)> {
        match side {
            [Scanned { token, .. }] => Some((*token, self.word(token)?)),
            _ => None,
        }
    }

    fn operand(&self, side: &[Scanned<'a>]) -> Result<Operand> {
        if let Some((_, word)) = self.lone_word(side) {
            return Ok(Operand::Word(word));
        }
        let literal = match side {
            [digits] => number::literal(digits.token.text),
            [minus, digits] if minus.token.is_sign("-") => {
                number::literal(digits.token.text).map(|value| -value)
            }
            _ => None,
        };
        match literal {
            Some(value) => Ok(Operand::Integer(value)),
            None => Ok(Operand::Expression(self.expression(side)?)),
        }
    }
}

/// How to write a variable that has the name of a word.
fn shield(word: &str) -> String {
    format!("a variable called `{word}` is written `({word})`")
}

/// Whether a condition may end before this token.
fn ends_condition(token: &Token) -> bool {
    match token.kind {
        TokenKind::End => true,
        TokenKind::Word => matches!(token.text, "and" | "or"),
        TokenKind::Sign => matches!(token.text, ")" | "&&" | "||"),
        _ => false,
    }
}

fn comparison(token: &Token) -> Option<Comparison> {
    if token.kind != TokenKind::Sign {
        return None;
    }
    Some(match token.text {
        "=" | "==" => Comparison::Equal,
        "!=" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

/// An operator with two operands that binds less tightly than a comparison.
fn loose_operator<'a>(scanned: &[Scanned<'a>]) -> Option<Token<'a>> {
    let is_loose = |pair: &[Scanned<'a>]| {
        let [before, operator] = pair else { return false };
        operator.depth == 0
            && LOOSE.iter().any(|sign| operator.token.is_sign(sign))
            && before.token.ends_value()
    };
    scanned.windows(2).find(|pair| is_loose(pair)).map(|pair| pair[1].token)
}
