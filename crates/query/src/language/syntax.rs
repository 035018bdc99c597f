//! What a query says, as plain data.
//!
//! Defaults are filled in when a query is parsed: a tree says everything, and printing it shows what was understood.
//! Lists of conditions are flat: no [`Context::All`] holds another one directly, and neither does [`Context::Any`].

use std::num::NonZeroU64;
use std::ops::Range;
use std::str::FromStr;

use super::{ParseError, Pattern, StackPattern, parser};

/// All of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// Go to this moment, whatever happens there.
    Moment(TimePoint),
    /// Go to where something happens.
    Search(Search),
}

impl FromStr for Query {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Query, ParseError> {
        parser::parse(text)
    }
}

/// Something that happens, counted from a moment on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// Where to begin. What happens at this very moment does not count.
    pub from: TimePoint,
    /// Which way to go.
    pub direction: Direction,
    /// What to look for.
    pub event: Event,
    /// The how manieth of those that fit.
    pub count: Count,
    /// Which ones fit; all, if there is none.
    pub context: Option<Context>,
}

/// A moment of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimePoint {
    /// Where whoever asks is.
    Now,
    /// Before the first instruction.
    Start,
    /// After the last instruction.
    End,
    /// Where the query before this one has led to.
    Last,
    /// So many instructions from the start.
    Instructions(u64),
    /// So many parts of the run, of which there are [`TimePoint::WHOLE`].
    Part(u32),
}

impl TimePoint {
    /// The parts of a run: a percent is a million of them.
    pub const WHOLE: u32 = 100_000_000;

    /// The time on this clock; `None` for the last result if there was none.
    pub fn on(self, clock: &Clock) -> Option<u64> {
        match self {
            TimePoint::Now => Some(clock.now),
            TimePoint::Start => Some(0),
            TimePoint::End => Some(clock.end),
            TimePoint::Last => clock.last,
            TimePoint::Instructions(time) => Some(time),
            TimePoint::Part(part) => {
                let time = u128::from(clock.end) * u128::from(part) / u128::from(Self::WHOLE);
                Some(u64::try_from(time).unwrap_or(u64::MAX))
            }
        }
    }
}

/// What a [`TimePoint`] may refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// The time whoever asks is at.
    pub now: u64,
    /// The time of the result before.
    pub last: Option<u64>,
    /// The length of the run.
    pub end: u64,
}

/// Which way to go through time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Towards the end of the run.
    Forward,
    /// Towards its start.
    Backward,
}

/// Which of the occurrences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// The n-th that is met, from 1 on.
    Nth(NonZeroU64),
    /// A list of all of them.
    All,
}

/// What to look for. Without an operand, everything of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first instruction of a function is about to be executed after a call.
    FunctionEnter(Option<Callee>),
    /// A function is about to return.
    FunctionExit(Option<Callee>),
    /// The first instruction of a basic block is about to be executed.
    BlockEntry(Option<Place>),
    /// An instruction is about to be executed.
    Instruction(Option<Place>),
    /// The first instruction of a source line is about to be executed.
    Line(Option<Source>),
    /// Memory is about to be written.
    Store(Option<Location>),
    /// Memory is about to be read.
    Load(Option<Location>),
    /// A system call is about to be made; the pattern is for its name.
    Syscall(Option<Pattern>),
    /// A signal arrives; the pattern is for its name, which begins with `SIG`.
    Signal(Option<Pattern>),
    /// The address space changes.
    Map(Option<Mapping>),
    /// A thread begins.
    ThreadStart,
    /// A thread ends.
    ThreadEnd,
}

/// An [`Event`] without its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is described at `Event`")]
pub enum EventKind {
    FunctionEnter,
    FunctionExit,
    BlockEntry,
    Instruction,
    Line,
    Store,
    Load,
    Syscall,
    Signal,
    Map,
    ThreadStart,
    ThreadEnd,
}

impl Event {
    /// What kind of event it is.
    pub fn kind(&self) -> EventKind {
        match self {
            Event::FunctionEnter(_) => EventKind::FunctionEnter,
            Event::FunctionExit(_) => EventKind::FunctionExit,
            Event::BlockEntry(_) => EventKind::BlockEntry,
            Event::Instruction(_) => EventKind::Instruction,
            Event::Line(_) => EventKind::Line,
            Event::Store(_) => EventKind::Store,
            Event::Load(_) => EventKind::Load,
            Event::Syscall(_) => EventKind::Syscall,
            Event::Signal(_) => EventKind::Signal,
            Event::Map(_) => EventKind::Map,
            Event::ThreadStart => EventKind::ThreadStart,
            Event::ThreadEnd => EventKind::ThreadEnd,
        }
    }
}

/// A function that is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Callee {
    /// The one that begins here.
    Address(u64),
    /// Those with such names.
    Named(Pattern),
}

/// Where an instruction is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// At this address.
    Address(u64),
    /// In one of these lines.
    Source(Source),
    /// In a function with such a name.
    Function(Pattern),
}

/// Lines of source files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The files.
    pub file: Pattern,
    /// The lines of them; all, if there are none.
    pub lines: Option<Lines>,
}

impl Source {
    /// Whether this line is one of them.
    pub fn contains(&self, path: &str, line: u32) -> bool {
        self.lines.is_none_or(|lines| lines.first <= line && line <= lines.last)
            && self.file.matches_path(path)
    }
}

/// Some lines, from 1 on, the last one included; `first` is not larger than `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    /// The first of them.
    pub first: u32,
    /// The last of them.
    pub last: u32,
}

/// What is written or read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// Memory at a fixed place.
    Bytes(Bytes),
    /// The object that an expression names.
    Expression(Expression),
}

/// A part of memory that is not empty and does not go past the end of the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// Where it begins.
    pub address: u64,
    /// Its length.
    pub length: u64,
}

/// What is mapped, unmapped or protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Anything of this memory.
    Bytes(Bytes),
    /// A file with such a name.
    File(Pattern),
}

/// A condition made of conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Context {
    /// All of two or more.
    All(Vec<Context>),
    /// At least one of two or more.
    Any(Vec<Context>),
    /// Not this one.
    Not(Box<Context>),
    /// A single condition.
    Condition(Condition),
}

impl Context {
    /// All of these, of which there is at least one.
    pub fn all_of(parts: Vec<Context>) -> Context {
        let flat = parts.into_iter().flat_map(|part| match part {
            Context::All(inner) => inner,
            other => vec![other],
        });
        Context::only_or(flat.collect(), Context::All)
    }

    /// At least one of these, of which there is at least one.
    pub fn any_of(parts: Vec<Context>) -> Context {
        let flat = parts.into_iter().flat_map(|part| match part {
            Context::Any(inner) => inner,
            other => vec![other],
        });
        Context::only_or(flat.collect(), Context::Any)
    }

    fn only_or(mut parts: Vec<Context>, join: fn(Vec<Context>) -> Context) -> Context {
        match parts.pop() {
            Some(only) if parts.is_empty() => only,
            last => {
                parts.extend(last);
                join(parts)
            }
        }
    }
}

/// A single condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The call stack looks like this.
    Stack(StackPattern),
    /// The instruction is in one of these lines.
    Source(Source),
    /// The instruction is in a function with such a name.
    Function(Pattern),
    /// The time compares like this.
    Time(Comparison, TimePoint),
    /// A word compares like this.
    Compare(Word, Comparison, Operand),
    /// An expression is true.
    Expression(Expression),
}

/// How two values compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// The same with both sides exchanged.
    pub fn mirrored(self) -> Comparison {
        match self {
            Comparison::Equal | Comparison::NotEqual => self,
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        }
    }

    /// Whether it holds for values in this order.
    pub fn accepts(self, order: std::cmp::Ordering) -> bool {
        match self {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// A number that the language has a word for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// The number of the thread.
    Thread,
    /// How many frames the call stack has.
    Depth,
    /// The address of the instruction.
    Pc,
    /// What the memory held before a store.
    OldValue,
    /// What it holds after.
    NewValue,
    /// What a function or system call returns.
    Result,
    /// What a function or system call was given, from 0 on.
    Argument(u8),
}

impl Word {
    /// Whether the word means this in queries for such an event. Where it does not, it is a name of the program.
    pub fn belongs_to(self, event: EventKind) -> bool {
        use EventKind::{FunctionEnter, FunctionExit, Store, Syscall};
        match self {
            Word::Thread | Word::Depth | Word::Pc => true,
            Word::OldValue | Word::NewValue => event == Store,
            Word::Result => matches!(event, FunctionExit | Syscall),
            Word::Argument(_) => matches!(event, FunctionEnter | FunctionExit | Syscall),
        }
    }

    /// Whether it tells something of the event itself; such words also stand within expressions.
    pub fn tells_of_event(self) -> bool {
        !matches!(self, Word::Thread | Word::Depth | Word::Pc)
    }
}

/// What a word is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A number from −2⁶⁴ + 1 to 2⁶⁴ − 1.
    Integer(i128),
    /// Another word.
    Word(Word),
    /// The value of an expression.
    Expression(Expression),
}

/// An expression in the language of the program. Only its extent is known here.
#[derive(Clone, Debug, Eq)]
pub struct Expression {
    /// As it was written, without space around it.
    pub text: String,
    /// Where it was in the query, in bytes; for messages, so that expressions which differ in this alone are equal.
    pub span: Range<usize>,
    /// Words of ours in it, in order.
    pub words: Vec<WordUse>,
}

impl PartialEq for Expression {
    fn eq(&self, other: &Expression) -> bool {
        self.text == other.text && self.words == other.words
    }
}

/// Where in the text of an [`Expression`] a word of ours stands for its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordUse {
    /// Which bytes of the text.
    pub range: Range<usize>,
    /// The word.
    pub word: Word,
}
