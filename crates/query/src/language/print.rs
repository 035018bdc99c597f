//! The way back: a query in its full form, every part written out.

use std::fmt::{Display, Formatter, Result, Write};

use super::lexer::is_word_character;
use super::pattern::Element;
use super::{
    Bytes, Callee, Comparison, Condition, Context, Count, Direction, Event, EventKind, Expression,
    Lines, Location, Mapping, Operand, Pattern, Place, Query, Search, Source, StackElement,
    StackPattern, TimePoint, Word,
};

/// Characters that, besides those of words, need no quotes wherever a name may stand.
const BARE: &str = ":~./+-@#";

impl Display for Query {
    fn fmt(&self, out: &mut Formatter) -> Result {
        match self {
            Query::Moment(moment) => write!(out, "goto {moment}"),
            Query::Search(search) => search.fmt(out),
        }
    }
}

impl Display for Search {
    fn fmt(&self, out: &mut Formatter) -> Result {
        let Search { from, direction, event, count, context } = self;
        write!(out, "goto {from} {direction} {event} {count}")?;
        match context {
            Some(context) => write!(out, " where {context}"),
            None => Ok(()),
        }
    }
}

impl Display for TimePoint {
    fn fmt(&self, out: &mut Formatter) -> Result {
        match self {
            TimePoint::Now => out.write_str("now"),
            TimePoint::Start => out.write_str("start"),
            TimePoint::End => out.write_str("end"),
            TimePoint::Last => out.write_str("last"),
            TimePoint::Instructions(time) => write!(out, "{time}"),
            TimePoint::Part(part) => {
                let percent = TimePoint::WHOLE / 100;
                let digits = format!("{}.{:06}", part / percent, part % percent);
                write!(out, "{}%", digits.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }
}

impl Display for Direction {
    fn fmt(&self, out: &mut Formatter) -> Result {
        out.write_str(match self {
            Direction::Forward => "forward",
            Direction::Backward => "backward",
        })
    }
}

impl Display for Count {
    fn fmt(&self, out: &mut Formatter) -> Result {
        match self {
            Count::Nth(count) => count.fmt(out),
            Count::All => out.write_str("all"),
        }
    }
}

impl Display for EventKind {
    fn fmt(&self, out: &mut Formatter) -> Result {
        out.write_str(match self {
            EventKind::FunctionEnter => "func_enter",
            EventKind::FunctionExit => "func_exit",
            EventKind::BlockEntry => "block_entry",
            EventKind::Instruction => "instruction",
            EventKind::Line => "line",
            EventKind::Store => "store",
            EventKind::Load => "load",
            EventKind::Syscall => "syscall",
            EventKind::Signal => "signal",
            EventKind::Map => "map",
            EventKind::ThreadStart => "thread_start",
            EventKind::ThreadEnd => "thread_end",
        })
    }
}

impl Display for Event {
    fn fmt(&self, out: &mut Formatter) -> Result {
        self.kind().fmt(out)?;
        let operand: Option<&dyn Display> = match self {
            Event::FunctionEnter(operand) | Event::FunctionExit(operand) => shown(operand),
            Event::BlockEntry(operand) | Event::Instruction(operand) => shown(operand),
            Event::Line(operand) => shown(operand),
            Event::Store(operand) | Event::Load(operand) => shown(operand),
            Event::Syscall(operand) | Event::Signal(operand) => shown(operand),
            Event::Map(operand) => shown(operand),
            Event::ThreadStart | Event::ThreadEnd => None,
        };
        operand.map_or(Ok(()), |operand| write!(out, " {operand}"))
    }
}

fn shown<T: Display>(operand: &Option<T>) -> Option<&dyn Display> {
    operand.as_ref().map(|operand| operand as &dyn Display)
}

impl Display for Callee {
    fn fmt(&self, out: &mut Formatter) -> Result {
        match self {
            Callee::Address(address) => write!(out, "{address:#x}"),
            Callee::Named(name) => name.fmt(out),
        }
    }
}

impl Display for Place {
    fn fmt(&self, out: &mut Formatter) -> Result {
        match self {
            Place::Address(address) => write!(out, "{address:#x}"),
            Place::Source(source) => source.fmt(out),
            Place::Function(name) => name.fmt(out),
        }
    }
}

/// As `FILE:LINES`.
impl Display for Source {
    fn fmt(&self, out: &mut Formatter) -> Result {
        self.file.fmt(out)?;
        self.lines.map_or(Ok(()), |lines| write!(out, ":{lines}"))
    }
}

impl Display for Lines {
    fn fmt(&self, out: &mut Formatter) -> Result {
        match self {
            Lines { first, last } if first == last => first.fmt(out),
            Lines { first, last } => write!(out, "{first}-{last}"),
        }
    }
}

impl Display for Location {
    fn fmt(&self, out: &mut Formatter) -> Result {
        match self {
            Location::Bytes(bytes) => bytes.fmt(out),
            Location::Expression(expression) => expression.fmt(out),
        }
    }
}

impl Display for Bytes {
    fn fmt(&self, out: &mut Formatter) -> Result {
        write!(out, "{:#x},{}", self.address, self.length)
    }
}

impl Display for Mapping {
    fn fmt(&self, out: &mut Formatter) -> Result {
        match self {
            Mapping::Bytes(bytes) => bytes.fmt(out),
            Mapping::File(name) => name.fmt(out),
        }
    }
}

impl Display for Expression {
    fn fmt(&self, out: &mut Formatter) -> Result {
        out.write_str(&self.text)
    }
}

/// Bare if it cannot be taken for anything else, and quoted otherwise.
impl Display for Pattern {
    fn fmt(&self, out: &mut Formatter) -> Result {
        let is_bare = |element: &Element| match element {
            Element::Character(character) => {
                is_word_character(*character) || BARE.contains(*character)
            }
            Element::One | Element::Many => true,
        };
        let text = written(self.elements());
        if self.elements().iter().all(is_bare) && !looks_different(&text) {
            out.write_str(&text)
        } else {
            write!(out, "\"{text}\"")
        }
    }
}

/// Whether a name without quotes would be taken for a count, a word of the language or the line of a file.
fn looks_different(text: &str) -> bool {
    let first_word = text.split(|character| !is_word_character(character)).next();
    let has_line = text.as_bytes().windows(3).any(
        |found| matches!(found, [before, b':', digit] if *before != b':' && digit.is_ascii_digit()),
    );
    // A colon at either end would be taken for one before a line number, ours or its own.
    let is_open = text.starts_with(':') || text.ends_with(':');
    let is_number = text.is_empty() || text.starts_with(|first: char| first.is_ascii_digit());
    is_number || text == "all" || first_word == Some("where") || has_line || is_open
}

fn written(elements: &[Element]) -> String {
    let mut text = String::new();
    for element in elements {
        match element {
            Element::Many => text.push('*'),
            Element::One => text.push('?'),
            Element::Character(character) => {
                if matches!(character, '*' | '?' | '\\' | '"') {
                    text.push('\\');
                }
                text.push(*character);
            }
        }
    }
    text
}

impl Display for StackPattern {
    fn fmt(&self, out: &mut Formatter) -> Result {
        out.write_char('<')?;
        for (index, element) in self.elements.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            match element {
                StackElement::Frames => write!(out, "{comma}**")?,
                StackElement::Frame(name) => write!(out, "{comma}{name}")?,
            }
        }
        out.write_char('>')
    }
}

impl Display for Context {
    fn fmt(&self, out: &mut Formatter) -> Result {
        match self {
            Context::Any(parts) => joined(out, parts, " or ", |_| false),
            Context::All(parts) => {
                joined(out, parts, " and ", |part| matches!(part, Context::Any(_)))
            }
            Context::Not(part) => {
                let needs_brackets = matches!(**part, Context::Any(_) | Context::All(_));
                out.write_str("not ")?;
                bracketed(out, part, needs_brackets)
            }
            Context::Condition(condition) => condition.fmt(out),
        }
    }
}

fn joined(
    out: &mut Formatter,
    parts: &[Context],
    join: &str,
    needs_brackets: impl Fn(&Context) -> bool,
) -> Result {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            out.write_str(join)?;
        }
        bracketed(out, part, needs_brackets(part))?;
    }
    Ok(())
}

fn bracketed(out: &mut Formatter, part: &Context, needs_brackets: bool) -> Result {
    if needs_brackets { write!(out, "({part})") } else { part.fmt(out) }
}

impl Display for Condition {
    fn fmt(&self, out: &mut Formatter) -> Result {
        match self {
            Condition::Stack(pattern) => write!(out, "stack = {pattern}"),
            Condition::Source(Source { file, lines: None }) => write!(out, "src = <{file}>"),
            Condition::Source(Source { file, lines: Some(lines) }) => {
                write!(out, "src = <{file}, {lines}>")
            }
            Condition::Function(name) => write!(out, "func = {name}"),
            Condition::Time(comparison, point) => write!(out, "time {comparison} {point}"),
            Condition::Compare(word, comparison, operand) => {
                write!(out, "{word} {comparison} ")?;
                match (word, operand) {
                    (Word::Pc, Operand::Integer(address)) if *address >= 0 => {
                        write!(out, "{address:#x}")
                    }
                    _ => operand.fmt(out),
                }
            }
            Condition::Expression(expression) => expression.fmt(out),
        }
    }
}

impl Display for Comparison {
    fn fmt(&self, out: &mut Formatter) -> Result {
        out.write_str(match self {
            Comparison::Equal => "==",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        })
    }
}

impl Display for Word {
    fn fmt(&self, out: &mut Formatter) -> Result {
        match self {
            Word::Thread => out.write_str("thread"),
            Word::Depth => out.write_str("depth"),
            Word::Pc => out.write_str("pc"),
            Word::OldValue => out.write_str("oldval"),
            Word::NewValue => out.write_str("newval"),
            Word::Result => out.write_str("result"),
            Word::Argument(number) => write!(out, "arg{number}"),
        }
    }
}

impl Display for Operand {
    fn fmt(&self, out: &mut Formatter) -> Result {
        match self {
            Operand::Integer(value) => value.fmt(out),
            Operand::Word(word) => word.fmt(out),
            Operand::Expression(expression) => expression.fmt(out),
        }
    }
}
