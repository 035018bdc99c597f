//! The language of `goto`: which moment of a run to go to.
//!
//! ```text
//! goto <from> <direction> <type> <operand> <count> where <context>
//! goto end backward store account.balance 2 where newval < 0 and stack = <**, audit, *>
//! ```
//!
//! *Problem:* one line of text has four languages in it: words of our own, patterns of function and file names, times,
//! and C expressions, which another crate understands. Whoever types it needs to be told what is wrong with it, and
//! where; whoever answers it wants to know what the index can be asked before anything is replayed.
//!
//! *Strategy:*
//!
//! ```text
//! lexer      tokens of C, of which only the extent matters, read when they are asked for
//! number     times, counts and literals
//! parser     text to syntax tree: the parts of a query in order, then
//!   operand    what stands behind a type,
//!   context    what stands behind `where`
//! syntax     the syntax tree, with all defaults filled in;  print  the way back
//! pattern    names with `*` and `?`;  stack  call stacks with `**`
//! error      what is wrong, where, and what was meant
//! evaluate   whether a context holds at a moment, cheap conditions first
//! plan       what the index can be asked
//! ```
//!
//! C expressions stay text. Their end is found by brackets, quotes and the few words that cannot be part of them; see
//! `parser/context.rs` for the rules.
//!
//! Invariants:
//! 1. No text makes a parser panic. Longer texts than [`LENGTH_LIMIT`] and deeper nesting than [`NESTING_LIMIT`] are
//!    refused, so that no recursion over a parsed query is deep, and time and memory are in proportion to the text.
//! 2. What is printed parses to what was printed.
//! 3. No matcher takes more than the product of the lengths of pattern and subject.
//!
//! The language is described for its users in `docs/query-language.md`.

mod error;
mod evaluate;
mod lexer;
mod number;
mod parser;
mod pattern;
mod plan;
mod print;
mod stack;
mod syntax;

pub use error::{ParseError, Problem};
pub use evaluate::{Cost, Moment, SourceLine, Value};
pub use pattern::Pattern;
pub use plan::{Occurrences, Plan, TimeBound};
pub use stack::{StackElement, StackPattern};
pub use syntax::{
    Bytes, Callee, Clock, Comparison, Condition, Context, Count, Direction, Event, EventKind,
    Expression, Lines, Location, Mapping, Operand, Place, Query, Search, Source, TimePoint, Word,
    WordUse,
};

/// Bytes of a query. People type a line; programs that generate queries rarely need a page.
pub const LENGTH_LIMIT: usize = 64 << 10;

/// Brackets and negations within each other.
pub const NESTING_LIMIT: usize = 64;
