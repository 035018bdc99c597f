//! The tree of an expression, and its text.

use std::fmt;

use super::lexer::{Prefix, Suffix};

/// A part of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Integer {
        value: u128,
        suffix: Suffix,
        is_decimal: bool,
    },
    Float {
        value: f64,
        suffix: Suffix,
    },
    Character {
        code: u32,
        prefix: Prefix,
    },
    Text(Vec<u8>),
    Truth(bool),
    Name(Name),
    Register(String),
    Unary(Unary, Box<Node>),
    Binary(Binary, Box<Node>, Box<Node>),
    Choice(Box<Node>, Box<Node>, Box<Node>),
    /// `a.b`, or with `true` `a->b`.
    Member(Box<Node>, String, bool),
    Index(Box<Node>, Box<Node>),
    Cast(TypeName, Box<Node>),
    /// `{type} address`
    At(TypeName, Box<Node>),
    SizeOf(Box<Node>),
    SizeOfType(TypeName),
}

/// A name with what it is within.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// A file or function in quotes.
    pub(super) within: Option<String>,
    /// `a::b`, template arguments included.
    pub(super) path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unary {
    Plus,
    Minus,
    Complement,
    Not,
    Dereference,
    Address,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Multiply,
    Divide,
    Remainder,
    Add,
    Subtract,
    /// gdb's `@`.
    Repeat,
    ShiftLeft,
    ShiftRight,
    Less,
    Greater,
    LessOrEqual,
    GreaterOrEqual,
    Equal,
    Unequal,
    BitAnd,
    BitXor,
    BitOr,
    And,
    Or,
}

impl Binary {
    /// The operator of a mark, and how tightly it binds.
    pub(super) fn of(mark: &str) -> Option<(Binary, u8)> {
        Some(match mark {
            "*" => (Binary::Multiply, 22),
            "/" => (Binary::Divide, 22),
            "%" => (Binary::Remainder, 22),
            "+" => (Binary::Add, 20),
            "-" => (Binary::Subtract, 20),
            "@" => (Binary::Repeat, 18),
            "<<" => (Binary::ShiftLeft, 16),
            ">>" => (Binary::ShiftRight, 16),
            "<" => (Binary::Less, 14),
            ">" => (Binary::Greater, 14),
            "<=" => (Binary::LessOrEqual, 14),
            ">=" => (Binary::GreaterOrEqual, 14),
            "==" => (Binary::Equal, 12),
            "!=" => (Binary::Unequal, 12),
            "&" => (Binary::BitAnd, 10),
            "^" => (Binary::BitXor, 8),
            "|" => (Binary::BitOr, 6),
            "&&" => (Binary::And, 4),
            "||" => (Binary::Or, 2),
            _ => return None,
        })
    }

    pub(super) fn mark(self) -> &'static str {
        match self {
            Binary::Multiply => "*",
            Binary::Divide => "/",
            Binary::Remainder => "%",
            Binary::Add => "+",
            Binary::Subtract => "-",
            Binary::Repeat => "@",
            Binary::ShiftLeft => "<<",
            Binary::ShiftRight => ">>",
            Binary::Less => "<",
            Binary::Greater => ">",
            Binary::LessOrEqual => "<=",
            Binary::GreaterOrEqual => ">=",
            Binary::Equal => "==",
            Binary::Unequal => "!=",
            Binary::BitAnd => "&",
            Binary::BitXor => "^",
            Binary::BitOr => "|",
            Binary::And => "&&",
            Binary::Or => "||",
        }
    }

    pub(super) fn is_comparison(self) -> bool {
        use Binary::*;
        matches!(self, Less | Greater | LessOrEqual | GreaterOrEqual | Equal | Unequal)
    }
}

impl Unary {
    pub(super) fn of(mark: &str) -> Option<Unary> {
        Some(match mark {
            "+" => Unary::Plus,
            "-" => Unary::Minus,
            "~" => Unary::Complement,
            "!" => Unary::Not,
            "*" => Unary::Dereference,
            "&" => Unary::Address,
            _ => return None,
        })
    }

    pub(super) fn mark(self) -> &'static str {
        match self {
            Unary::Plus => "+",
            Unary::Minus => "-",
            Unary::Complement => "~",
            Unary::Not => "!",
            Unary::Dereference => "*",
            Unary::Address => "&",
        }
    }
}

/// A type as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TypeName {
    /// `struct`, `union`, `enum` or `class`.
    pub(super) tag: Option<String>,
    /// The words of a base type in order, or a path.
    pub(super) name: String,
    pub(super) is_const: bool,
    pub(super) is_volatile: bool,
    /// From the inside out.
    pub(super) declarators: Vec<Declarator>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Declarator {
    Pointer,
    Const,
    Volatile,
    Reference,
    Array(u64),
    Function,
}

impl Node {
    /// Whether it needs parentheses as an operand.
    fn is_compound(&self) -> bool {
        use Node::*;
        matches!(
            self,
            Unary(..) | Binary(..) | Choice(..) | Cast(..) | At(..) | SizeOf(_) | SizeOfType(_)
        )
    }

    /// As an operand.
    pub(super) fn operand(&self) -> String {
        if self.is_compound() { format!("({self})") } else { self.to_string() }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Node::Integer { value, suffix, is_decimal } => {
                let number = if *is_decimal { value.to_string() } else { format!("{value:#x}") };
                write!(formatter, "{number}{suffix}")
            }
            Node::Float { value, suffix } => {
                // What is too large stays so.
                let number = match value.is_infinite() {
                    true => "1e999".to_string(),
                    false => format!("{value:e}"),
                };
                write!(formatter, "{number}{suffix}")
            }
            Node::Character { code, prefix } => {
                let prefix = match prefix {
                    Prefix::None => "",
                    Prefix::Wide => "L",
                    Prefix::Utf16 => "u",
                    Prefix::Utf32 => "U",
                };
                match char::from_u32(*code).filter(|c| !c.is_control() && !matches!(c, '\'' | '\\'))
                {
                    Some(character) if *code < 0x80 || *code > 0xff => {
                        write!(formatter, "{prefix}'{character}'")
                    }
                    _ => write!(formatter, "{prefix}'\\x{code:x}'"),
                }
            }
            Node::Text(bytes) => {
                formatter.write_str("\"")?;
                for byte in bytes {
                    match byte {
                        b' '..=b'~' if !matches!(byte, b'"' | b'\\') => {
                            write!(formatter, "{}", char::from(*byte))?
                        }
                        _ => write!(formatter, "\\{byte:03o}")?,
                    }
                }
                formatter.write_str("\"")
            }
            Node::Truth(truth) => write!(formatter, "{truth}"),
            Node::Name(name) => write!(formatter, "{name}"),
            Node::Register(name) => write!(formatter, "${name}"),
            Node::Unary(operator, operand) => {
                write!(formatter, "{}{}", operator.mark(), operand.operand())
            }
            Node::Binary(operator, left, right) => {
                write!(formatter, "{} {} {}", left.operand(), operator.mark(), right.operand())
            }
            Node::Choice(condition, yes, no) => {
                write!(formatter, "{} ? {} : {}", condition.operand(), yes.operand(), no.operand())
            }
            Node::Member(object, name, is_arrow) => {
                let object = match **object {
                    // A number would swallow the point.
                    Node::Integer { .. } | Node::Float { .. } => format!("({object})"),
                    _ => object.operand(),
                };
                write!(formatter, "{object}{}{name}", if *is_arrow { "->" } else { "." })
            }
            Node::Index(object, index) => write!(formatter, "{}[{index}]", object.operand()),
            Node::Cast(ty, operand) => write!(formatter, "({ty}) {}", operand.operand()),
            Node::At(ty, operand) => write!(formatter, "{{{ty}}} {}", operand.operand()),
            Node::SizeOf(operand) => write!(formatter, "sizeof ({operand})"),
            Node::SizeOfType(ty) => write!(formatter, "sizeof ({ty})"),
        }
    }
}

impl fmt::Display for Suffix {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Suffix::None => Ok(()),
            Suffix::Unsigned => formatter.write_str("u"),
            Suffix::Long => formatter.write_str("l"),
            Suffix::UnsignedLong => formatter.write_str("ul"),
            Suffix::Float => formatter.write_str("f"),
            Suffix::LongDouble => formatter.write_str("l"),
            Suffix::Sized(is_signed, bytes) => {
                write!(formatter, "{}{}", if *is_signed { 'i' } else { 'u' }, u32::from(*bytes) * 8)
            }
            Suffix::SizedFloat(bytes) => write!(formatter, "f{}", u32::from(*bytes) * 8),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match &self.within {
            Some(within) => write!(formatter, "'{within}'::{}", self.path),
            None => formatter.write_str(&self.path),
        }
    }
}

impl fmt::Display for TypeName {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        if self.is_const {
            formatter.write_str("const ")?;
        }
        if self.is_volatile {
            formatter.write_str("volatile ")?;
        }
        if let Some(tag) = &self.tag {
            write!(formatter, "{tag} ")?;
        }
        formatter.write_str(&self.name)?;
        let mut inner = String::new();
        for declarator in self.declarators.iter().rev() {
            inner = match declarator {
                Declarator::Pointer => format!("*{inner}"),
                Declarator::Reference => format!("&{inner}"),
                Declarator::Const => format!(" const {inner}"),
                Declarator::Volatile => format!(" volatile {inner}"),
                Declarator::Array(count) => format!("{}[{count}]", wrapped(&inner)),
                Declarator::Function => format!("{}()", wrapped(&inner)),
            };
        }
        match inner.is_empty() {
            true => Ok(()),
            false => write!(formatter, " {inner}"),
        }
    }
}

/// Pointers to arrays and functions stand in parentheses.
fn wrapped(inner: &str) -> String {
    if inner.trim_start().starts_with(['*', '&', 'c', 'v']) {
        format!("({inner})")
    } else {
        inner.to_string()
    }
}
