//! From text to syntax tree: the parts of a query in their order, each of them optional.
//!
//! The words of the parts differ, so that the first token of a part tells which one it is.

mod context;
mod expression;
mod name;
mod operand;

use std::num::NonZeroU64;
use std::ops::Range;

use super::error::quoted;
use super::lexer::{Cursor, Token, TokenKind};
use super::number::{self, NumberProblem};
use super::{
    Count, Direction, Event, EventKind, LENGTH_LIMIT, NESTING_LIMIT, ParseError, Problem, Query,
    Search, TimePoint,
};

/// Words for moments.
const MOMENTS: [(&str, TimePoint); 6] = [
    ("now", TimePoint::Now),
    ("current", TimePoint::Now),
    ("start", TimePoint::Start),
    ("first", TimePoint::Start),
    ("end", TimePoint::End),
    ("last", TimePoint::Last),
];

/// Words for directions.
const DIRECTIONS: [(&str, Direction); 8] = [
    ("forward", Direction::Forward),
    ("forwards", Direction::Forward),
    ("fwd", Direction::Forward),
    ("f", Direction::Forward),
    ("backward", Direction::Backward),
    ("backwards", Direction::Backward),
    ("back", Direction::Backward),
    ("b", Direction::Backward),
];

/// Words for types of events.
const EVENTS: [(&str, EventKind); 19] = [
    ("func_enter", EventKind::FunctionEnter),
    ("call", EventKind::FunctionEnter),
    ("func_exit", EventKind::FunctionExit),
    ("return", EventKind::FunctionExit),
    ("block_entry", EventKind::BlockEntry),
    ("block", EventKind::BlockEntry),
    ("instruction", EventKind::Instruction),
    ("insn", EventKind::Instruction),
    ("line", EventKind::Line),
    ("store", EventKind::Store),
    ("write", EventKind::Store),
    ("load", EventKind::Load),
    ("read", EventKind::Load),
    ("syscall", EventKind::Syscall),
    ("signal", EventKind::Signal),
    ("map", EventKind::Map),
    ("thread_start", EventKind::ThreadStart),
    ("thread_end", EventKind::ThreadEnd),
    ("thread_exit", EventKind::ThreadEnd),
];

const ORDER: &str = "the order is: goto FROM DIRECTION TYPE OPERAND COUNT where CONTEXT";
const A_TIME: &str = "a time such as `start`, `1.5M` or `50%`";

/// What a number stands for, and how large that can be.
#[derive(Clone, Copy)]
struct Bound {
    what: &'static str,
    largest: &'static str,
}

const LARGEST: &str = "18446744073709551615";
const COUNT: Bound = Bound { what: "the count", largest: LARGEST };
const TIME: Bound = Bound { what: "the time", largest: LARGEST };
const PART: Bound = Bound { what: "the part of the run", largest: "100%" };
const LINE: Bound = Bound { what: "the line", largest: "4294967295" };
const ADDRESS: Bound = Bound { what: "the address", largest: "0xffffffffffffffff" };
const LENGTH: Bound = Bound { what: "the length", largest: LARGEST };

type Result<T> = std::result::Result<T, ParseError>;

/// Parses all of a query.
pub fn parse(text: &str) -> Result<Query> {
    let mut parser = Parser { cursor: Cursor::new(text), kind: EventKind::Instruction, nesting: 0 };
    if text.len() > LENGTH_LIMIT {
        return Err(parser.error(0..0, Problem::TooLong).advise("a shorter one is needed"));
    }
    parser.query()
}

/// Which parts of a query have come.
struct Parts {
    from: bool,
    direction: bool,
    kind: bool,
    count: bool,
    context: bool,
}

fn names<T>(list: &'static [(&'static str, T)]) -> impl Iterator<Item = &'static str> {
    list.iter().map(|(name, _)| *name)
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    /// What the query looks for, which decides what words mean.
    kind: EventKind,
    /// Brackets and negations that are open.
    nesting: usize,
}

impl<'a> Parser<'a> {
    fn query(&mut self) -> Result<Query> {
        self.take_word("goto");
        let from = if self.is_at_time() { Some(self.time_point()?) } else { None };
        let direction = self.take_named(&DIRECTIONS);
        let kind = self.take_named(&EVENTS);
        let may_count = direction.is_some() || kind.is_some();
        self.kind = kind.unwrap_or(EventKind::Instruction);

        let (event, count) = match kind {
            Some(kind) => self.operand_and_count(kind)?,
            None if may_count => (Event::Instruction(None), self.count()?),
            None => (Event::Instruction(None), None),
        };
        let context = if self.take_word("where") { Some(self.context()?) } else { None };
        if self.cursor.peek().kind != TokenKind::End {
            let has = Parts {
                from: from.is_some(),
                direction: direction.is_some(),
                kind: kind.is_some(),
                count: count.is_some(),
                context: context.is_some(),
            };
            return Err(self.unexpected_part(has));
        }

        match from {
            None if !may_count && context.is_none() => {
                let problem = self.unexpected("a moment to go to, or a type of event to look for");
                Err(problem.advise("for example: goto end backward store counter"))
            }
            Some(moment) if !may_count && context.is_none() => Ok(Query::Moment(moment)),
            _ => {
                let from = from.unwrap_or(TimePoint::Now);
                let direction = direction.unwrap_or(match from {
                    TimePoint::Start => Direction::Forward,
                    _ => Direction::Backward,
                });
                let count = count.unwrap_or(Count::Nth(NonZeroU64::MIN));
                Ok(Query::Search(Search { from, direction, event, count, context }))
            }
        }
    }

    /// Something stands where only parts that have not come yet may stand.
    fn unexpected_part(&self, has: Parts) -> ParseError {
        const COUNTED: &str = "a count, `where` or the end of the query";
        let expected = match has {
            Parts { context: true, .. } => "`and`, `or` or the end of the query",
            Parts { count: true, .. } => "`where` or the end of the query",
            Parts { kind: true, .. } => COUNTED,
            Parts { direction: true, .. } => "a type of event",
            Parts { from: true, .. } => "a direction or a type of event",
            _ => "a moment, a direction or a type of event",
        };
        let may_have_kind = !(has.kind || has.count || has.context);
        let may_have_direction = may_have_kind && !has.direction;
        let may_have_from = may_have_direction && !has.from;
        let events = names(&EVENTS).filter(|_| may_have_kind);
        let directions = names(&DIRECTIONS).filter(|_| may_have_direction);
        let moments = names(&MOMENTS).filter(|_| may_have_from);
        let words = events.chain(directions).chain(moments).chain(["where"]);
        let token = self.cursor.peek();
        let error = self.unexpected(expected).suggest(token.text, words);
        if has.context { error } else { error.advise(ORDER) }
    }

    /// A count, if there is one: `3`, `3rd` or `all`.
    fn count(&mut self) -> Result<Option<Count>> {
        let token = self.cursor.peek();
        let mut behind = self.cursor;
        behind.go_behind(&token);
        if !behind.is_at_gap() {
            return Ok(None);
        }
        let count = self.count_of(&token)?;
        if count.is_some() {
            self.cursor = behind;
        }
        Ok(count)
    }

    /// The count that a token is, if it is one.
    fn count_of(&self, token: &Token) -> Result<Option<Count>> {
        if token.is_word("all") {
            return Ok(Some(Count::All));
        }
        let value = match number::count(token.text) {
            Some(value) if token.kind == TokenKind::Number => value,
            _ => return Ok(None),
        };
        let value = value.map_err(|problem| self.number(token.span(), problem, COUNT))?;
        let Some(value) = NonZeroU64::new(value) else {
            let error = self.error(token.span(), Problem::CountOfZero);
            return Err(error.advise("1 is the first"));
        };
        Ok(Some(Count::Nth(value)))
    }

    fn is_at_time(&self) -> bool {
        let token = self.cursor.peek();
        let is_moment = |(word, _): &(&str, TimePoint)| token.is_word(word);
        token.kind == TokenKind::Number || MOMENTS.iter().any(is_moment)
    }

    /// A moment: a word, a part of the run, or a number of instructions.
    fn time_point(&mut self) -> Result<TimePoint> {
        if let Some(moment) = self.take_named(&MOMENTS) {
            return Ok(moment);
        }
        let token = self.cursor.peek();
        if token.kind != TokenKind::Number {
            return Err(self.unexpected(A_TIME).suggest(token.text, names(&MOMENTS)));
        }
        let mut end = token.end();
        if let Some(length) = number::grouped_length(&self.cursor.text()[token.start..]) {
            end = end.max(token.start + length);
        }
        let mut behind = self.cursor;
        behind.go_behind(&token);
        while behind.at() < end {
            behind.next_character();
        }
        let digits = &self.cursor.text()[token.start..end];
        let is_percent = behind.peek_character() == Some('%');
        let span = token.start..end + usize::from(is_percent);
        let moment = if is_percent {
            behind.next_character();
            number::percent(digits).map(TimePoint::Part)
        } else {
            number::quantity(digits).map(TimePoint::Instructions)
        };
        let bound = if is_percent { PART } else { TIME };
        let moment = moment.map_err(|problem| match problem {
            NumberProblem::TooLarge => self.number(span, problem, bound),
            NumberProblem::NotANumber => self.unexpected_at(span, A_TIME),
        })?;
        self.cursor = behind;
        Ok(moment)
    }

    /// The word ahead, if it is in the list.
    fn take_named<T: Copy>(&mut self, names: &[(&str, T)]) -> Option<T> {
        let token = self.cursor.peek();
        let (_, value) = names.iter().find(|(name, _)| token.is_word(name))?;
        self.cursor.go_behind(&token);
        Some(*value)
    }

    fn take_word(&mut self, word: &str) -> bool {
        self.take_named(&[(word, ())]).is_some()
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let token = self.cursor.peek();
        let is_it = token.is_sign(sign);
        if is_it {
            self.cursor.go_behind(&token);
        }
        is_it
    }

    /// Parses what is within a bracket or a negation.
    fn nested<T>(
        &mut self,
        span: Range<usize>,
        inner: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if self.nesting == NESTING_LIMIT {
            return Err(self.error(span, Problem::TooDeep).advise("fewer are needed"));
        }
        self.nesting += 1;
        let parsed = inner(self);
        self.nesting -= 1;
        parsed
    }

    fn error(&self, span: Range<usize>, problem: Problem) -> ParseError {
        ParseError::new(self.cursor.text(), span, problem)
    }

    /// The token ahead is not what was expected.
    fn unexpected(&self, expected: &'static str) -> ParseError {
        self.unexpected_at(self.cursor.peek().span(), expected)
    }

    fn unexpected_at(&self, span: Range<usize>, expected: &'static str) -> ParseError {
        let found = match &self.cursor.text()[span.clone()] {
            "" => "the end".to_string(),
            text => quoted(text),
        };
        self.error(span, Problem::Unexpected { expected, found })
    }

    fn number(&self, span: Range<usize>, problem: NumberProblem, bound: Bound) -> ParseError {
        let Bound { what, largest } = bound;
        match problem {
            NumberProblem::NotANumber => self.unexpected_at(span, "a number"),
            NumberProblem::TooLarge => self.error(span, Problem::TooLarge { what, largest }),
        }
    }
}
