//! What stands between a type and `where`: an operand, which differs from type to type, and a count.
//!
//! A lone decimal number is always a count, so that addresses are hexadecimal, unless a length follows them.

use retro_abi::{signal_names, syscall_names};

use super::super::lexer::{Token, TokenKind};
use super::super::{
    Bytes, Callee, Count, Event, EventKind, Location, Mapping, Pattern, Place, Problem,
};
use super::expression::Scanned;
use super::{ADDRESS, LENGTH, Parser, Result, number};

/// The length of memory that an address alone stands for: a word.
const WORD_LENGTH: u64 = 8;

const A_FUNCTION: &str = "the name or the address of a function";
const A_PLACE: &str = "a function, FILE:LINE or an address";
const A_SOURCE: &str = "FILE:LINE";
const A_SYSCALL: &str = "the name of a system call";
const A_SIGNAL: &str = "the name of a signal";
const A_MAPPING: &str = "the name of a file or ADDRESS,LENGTH";
const AN_EXPRESSION: &str = "a variable or ADDRESS,LENGTH";

/// More than any system call's number.
const SYSCALLS_LIMIT: u64 = 1024;

/// More than any signal's number.
const SIGNALS_LIMIT: u32 = 65;

impl<'a> Parser<'a> {
    pub(super) fn operand_and_count(&mut self, kind: EventKind) -> Result<(Event, Option<Count>)> {
        if matches!(kind, EventKind::Store | EventKind::Load) {
            let (location, count) = self.location_and_count()?;
            let event = match kind {
                EventKind::Store => Event::Store(location),
                _ => Event::Load(location),
            };
            return Ok((event, count));
        }
        if let Some(count) = self.count()? {
            return Ok((without_operand(kind), Some(count)));
        }
        let token = self.cursor.peek();
        let event = if token.kind == TokenKind::End || token.is_word("where") {
            without_operand(kind)
        } else {
            self.with_operand(kind)?
        };
        Ok((event, self.count()?))
    }

    fn with_operand(&mut self, kind: EventKind) -> Result<Event> {
        Ok(match kind {
            EventKind::FunctionEnter => Event::FunctionEnter(Some(self.callee()?)),
            EventKind::FunctionExit => Event::FunctionExit(Some(self.callee()?)),
            EventKind::BlockEntry => Event::BlockEntry(Some(self.place()?)),
            EventKind::Instruction => Event::Instruction(Some(self.place()?)),
            EventKind::Line => Event::Line(Some(self.source(A_SOURCE)?)),
            EventKind::Syscall => Event::Syscall(Some(self.syscall()?)),
            EventKind::Signal => Event::Signal(Some(self.signal()?)),
            EventKind::Map => Event::Map(Some(self.mapping()?)),
            // These have none: what stands here is not theirs.
            EventKind::Store | EventKind::Load => without_operand(kind),
            EventKind::ThreadStart | EventKind::ThreadEnd => without_operand(kind),
        })
    }

    fn callee(&mut self) -> Result<Callee> {
        match self.lone_address()? {
            Some(address) => Ok(Callee::Address(address)),
            None => Ok(Callee::Named(self.pattern(A_FUNCTION)?)),
        }
    }

    fn place(&mut self) -> Result<Place> {
        if let Some(address) = self.lone_address()? {
            return Ok(Place::Address(address));
        }
        let source = self.source(A_PLACE)?;
        Ok(match source.lines {
            Some(_) => Place::Source(source),
            None => Place::Function(source.file),
        })
    }

    /// An address in hexadecimal, if there is one.
    fn lone_address(&mut self) -> Result<Option<u64>> {
        let token = self.cursor.peek();
        if !is_hexadecimal(&token) {
            return Ok(None);
        }
        let address = self.address_of(&token)?;
        self.cursor.go_behind(&token);
        Ok(Some(address))
    }

    fn syscall(&mut self) -> Result<Pattern> {
        let (text, span) = self.name(A_SYSCALL)?;
        let pattern = Pattern::new(text);
        let names = || (0..SYSCALLS_LIMIT).filter_map(syscall_names::name);
        if names().any(|name| pattern.matches(name)) {
            return Ok(pattern);
        }
        let problem = Problem::UnknownSyscall(super::quoted(text));
        Err(self.error(span, problem).suggest(text, names()).advise("`retro syscalls` lists them"))
    }

    /// Signals may be written as `SIGSEGV`, `SEGV` or `segv`.
    fn signal(&mut self) -> Result<Pattern> {
        let (text, span) = self.name(A_SIGNAL)?;
        let text = text.to_ascii_uppercase();
        let names = || (0..SIGNALS_LIMIT).filter_map(signal_names::name);
        for written in [text.clone(), format!("SIG{text}")] {
            let pattern = Pattern::new(&written);
            if names().any(|name| pattern.matches(name)) {
                return Ok(pattern);
            }
        }
        let problem = Problem::UnknownSignal(super::quoted(&text));
        let short = names().filter_map(|name| name.strip_prefix("SIG"));
        let error = self.error(span, problem);
        Err(error.suggest(&text, names().chain(short)).advise("`kill -l` lists them"))
    }

    fn mapping(&mut self) -> Result<Mapping> {
        let address = self.cursor.peek();
        if !is_hexadecimal(&address) {
            return Ok(Mapping::File(self.pattern(A_MAPPING)?));
        }
        self.cursor.go_behind(&address);
        let length = if self.take_sign(",") { Some(self.cursor.next_token()) } else { None };
        Ok(Mapping::Bytes(self.bytes(&address, length.as_ref())?))
    }

    /// What is stored or loaded may be an expression, which ends where a count, `where` or nothing follows.
    fn location_and_count(&mut self) -> Result<(Option<Location>, Option<Count>)> {
        let mut scanned = self.scan_operand()?;
        let count = self.trailing_count(&scanned)?;
        if count.is_some() {
            scanned.pop();
        }
        let tokens: Vec<Token> = scanned.iter().map(|scanned| scanned.token).collect();
        let location = match &tokens[..] {
            [] => None,
            [address] if is_hexadecimal(address) => {
                Some(Location::Bytes(self.bytes(address, None)?))
            }
            [address, comma, length] if comma.is_sign(",") && address.kind == TokenKind::Number => {
                Some(Location::Bytes(self.bytes(address, Some(length))?))
            }
            _ => {
                if let Some(comma) = tokens_at_top(&scanned).find(|token| token.is_sign(",")) {
                    let error = self.unexpected_at(comma.span(), AN_EXPRESSION);
                    return Err(error.advise("a length follows only an address that is a number"));
                }
                self.check_apart(&scanned, "a count, `where` or the end of the query", &["where"])?;
                Some(Location::Expression(self.foreign_expression(&scanned)?))
            }
        };
        Ok((location, count))
    }

    /// The count that scanned tokens end with. A number behind an operator belongs to the expression.
    fn trailing_count(&self, scanned: &[Scanned<'a>]) -> Result<Option<Count>> {
        let Some((last, before)) = scanned.split_last() else { return Ok(None) };
        let is_apart = match before.last() {
            Some(before) => before.token.ends_value() && before.token.end() < last.token.start,
            None => true,
        };
        if is_apart { self.count_of(&last.token) } else { Ok(None) }
    }

    fn bytes(&self, address: &Token, length: Option<&Token>) -> Result<Bytes> {
        let start = self.address_of(address)?;
        let Some(token) = length else {
            // The last word of the address space may be a short one.
            let length = (u64::MAX - start).saturating_add(1).min(WORD_LENGTH);
            return Ok(Bytes { address: start, length });
        };
        let length = number::address(token.text)
            .map_err(|problem| self.number(token.span(), problem, LENGTH))?;
        let Some(reach) = length.checked_sub(1) else {
            return Err(self.error(token.span(), Problem::NoBytes).advise("1 or more"));
        };
        if start.checked_add(reach).is_none() {
            let span = address.start..token.end();
            return Err(self.error(span, Problem::PastTheEnd).advise("a shorter length is needed"));
        }
        Ok(Bytes { address: start, length })
    }

    fn address_of(&self, token: &Token) -> Result<u64> {
        number::address(token.text).map_err(|problem| self.number(token.span(), problem, ADDRESS))
    }
}

fn without_operand(kind: EventKind) -> Event {
    match kind {
        EventKind::FunctionEnter => Event::FunctionEnter(None),
        EventKind::FunctionExit => Event::FunctionExit(None),
        EventKind::BlockEntry => Event::BlockEntry(None),
        EventKind::Instruction => Event::Instruction(None),
        EventKind::Line => Event::Line(None),
        EventKind::Store => Event::Store(None),
        EventKind::Load => Event::Load(None),
        EventKind::Syscall => Event::Syscall(None),
        EventKind::Signal => Event::Signal(None),
        EventKind::Map => Event::Map(None),
        EventKind::ThreadStart => Event::ThreadStart,
        EventKind::ThreadEnd => Event::ThreadEnd,
    }
}

fn is_hexadecimal(token: &Token) -> bool {
    token.kind == TokenKind::Number && number::is_hexadecimal(token.text)
}

fn tokens_at_top<'s, 'a>(scanned: &'s [Scanned<'a>]) -> impl Iterator<Item = &'s Token<'a>> {
    scanned.iter().filter(|scanned| scanned.depth == 0).map(|scanned| &scanned.token)
}
