//! Expressions over the variables, registers and memory of a frame.
//!
//! The language is C's, as far as it looks at things and changes nothing, with what gdb adds to it: `$rax`, `*p@10`,
//! `{type} address`, `'file.c'::name`, `function::name`; and what it takes to look at Rust: `x as u64`, `tuple.0`,
//! members of references.
//!
//! ```text
//! lexer       text to tokens
//! syntax      the tree, and its text again
//! parser      tokens to the tree, by binding powers
//! type_names  types as they are written in casts
//! arithmetic  C's conversions and operators
//! evaluate    the tree to a value
//! registers   what `$name` means
//! ```
//!
//! Invariants: no text makes the parser panic or recurse beyond [`HEIGHT_LIMIT`]; evaluating writes nothing; a parsed
//! expression written out parses to itself.

mod arithmetic;
mod evaluate;
mod lexer;
mod parser;
mod registers;
mod syntax;
mod type_names;

use std::fmt;
use std::ops::Range;

use thiserror::Error;

use crate::value::{Absent, Value};
use crate::variables::Scope;
use syntax::Node;

/// How high the tree of an expression may be.
pub(crate) const HEIGHT_LIMIT: usize = 128;

/// Bytes of an expression.
const LENGTH_LIMIT: usize = 16 << 10;

/// An expression that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    root: Node,
    text: String,
}

/// Why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}\n{}", caret(text, *position))]
pub struct ParseError {
    /// What is wrong.
    pub message: String,
    /// Where, in bytes.
    pub position: usize,
    /// The text of the expression.
    pub text: String,
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EvaluationError {
    /// The text is no expression.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// A name means nothing here.
    #[error(
        "no variable `{0}` is visible here; check the frame, or write its namespace, `'file.c'::{0}` or `function::{0}`"
    )]
    UnknownName(String),
    /// The type of a cast is not known.
    #[error("no type `{0}` is known; C needs `struct`, `union` or `enum` before a tag")]
    UnknownType(String),
    /// A register is not known.
    #[error(
        "no register `${0}`; there are the general registers, `$pc`, `$sp`, `$eflags`, `$fs_base` and `$xmm0` to `$xmm15`"
    )]
    UnknownRegister(String),
    /// A register is not known in this frame.
    #[error("the value of `${0}` is not known in this frame")]
    RegisterLost(String),
    /// A structure has no such member.
    #[error("`{type_name}` has no member `{member}`")]
    NoMember {
        /// The structure.
        type_name: String,
        /// The member.
        member: String,
    },
    /// Something cannot be done with values of a type.
    #[error("{0}")]
    Unsuitable(String),
    /// A value is needed that is not there.
    #[error("`{expression}` cannot be read: {absent}")]
    Absent {
        /// The part of the expression.
        expression: String,
        /// Why it is not there.
        absent: Absent,
    },
    /// A division by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// It has no address.
    #[error("`{0}` is not in memory: it has no address")]
    NotInMemory(String),
    /// It is in memory that is not part of the file, and cannot be found.
    #[error("the thread-local variable `{0}` cannot be found: {1}")]
    ThreadLocal(String, &'static str),
}

impl Expression {
    /// Reads an expression.
    pub fn parse(text: &str) -> Result<Expression, ParseError> {
        let fail =
            |message: String, position| ParseError { message, position, text: text.to_string() };
        if text.len() > LENGTH_LIMIT {
            return Err(ParseError {
                message: format!("an expression has at most {LENGTH_LIMIT} bytes"),
                position: 0,
                text: String::new(),
            });
        }
        let root =
            parser::parse(text).map_err(|problem| fail(problem.message, problem.position))?;
        Ok(Expression { root, text: text.to_string() })
    }

    /// Its text, as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value that it has in a scope.
    pub fn evaluate(&self, scope: &dyn Scope) -> Result<Value, EvaluationError> {
        evaluate::evaluate(&self.root, scope)
    }

    /// The memory that it names in a scope: address and length.
    pub fn memory_range(&self, scope: &dyn Scope) -> Result<(u64, u64), EvaluationError> {
        let value = self.evaluate(scope)?;
        value.memory_range().ok_or_else(|| EvaluationError::NotInMemory(self.text.clone()))
    }
}

/// Written with all its parentheses.
impl fmt::Display for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "{}", self.root)
    }
}

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Problem {
    message: String,
    position: usize,
}

impl Problem {
    fn new(position: usize, message: impl Into<String>) -> Problem {
        Problem { message: message.into(), position }
    }
}

/// Bytes of the text from one position to another.
type Span = Range<usize>;

/// The line of a text with a position, and a mark below it.
fn caret(text: &str, position: usize) -> String {
    let position = text.floor_char_boundary(position.min(text.len()));
    let start = text[..position].rfind('\n').map_or(0, |newline| newline + 1);
    let end = text[position..].find('\n').map_or(text.len(), |newline| position + newline);
    let before = text[start..position].chars();
    let shown: String =
        text[start..end].chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("  {shown}\n  {}^", " ".repeat(before.count()))
}
