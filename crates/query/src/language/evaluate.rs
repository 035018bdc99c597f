//! Whether a context holds at a moment.
//!
//! Whoever has a moment at hand implements [`Moment`]; it is asked for what a condition needs and for nothing else.
//! Conditions that are joined are tried in the order of their [`Cost`], and no more of them than it takes.
//!
//! Logic has three values, since a condition may be neither true nor false: a variable is not in scope everywhere, and
//! a pointer may lead nowhere. Such a condition does not hold, and its negation does not hold either.

use std::cmp::Ordering;

use super::{Comparison, Condition, Context, Expression, Operand, TimePoint, Word};

/// A moment of the run: one at which the event of a query happens.
///
/// A moment is just before the instruction that it is about: the storing instruction of a store, the first one of a
/// function that is entered, the return of one that is left. Place, call stack and variables are those that this
/// instruction finds; only [`Moment::new_value`] and the [`Moment::result`] of a system call are from after it.
///
/// An error ends the search. What merely has no value at this moment is `None`.
pub trait Moment {
    /// Why a question could not be answered.
    type Error;

    /// The time, in instructions from the start.
    fn time(&mut self) -> Result<u64, Self::Error>;

    /// The time that somebody else's words stand for; see [`TimePoint::on`].
    fn time_of(&mut self, point: TimePoint) -> Result<u64, Self::Error>;

    /// The number of the thread.
    fn thread(&mut self) -> Result<u32, Self::Error>;

    /// The address of the instruction.
    fn pc(&mut self) -> Result<u64, Self::Error>;

    /// The name of the function that the instruction is in.
    fn function(&mut self) -> Result<Option<String>, Self::Error>;

    /// The source line that the instruction is from.
    fn source(&mut self) -> Result<Option<SourceLine>, Self::Error>;

    /// How many frames are on the call stack.
    fn depth(&mut self) -> Result<u64, Self::Error>;

    /// The name of the function so many frames out from the innermost, which is 0; empty for one without a name, `None`
    /// behind the outermost. Asked for in order.
    fn frame(&mut self, level: usize) -> Result<Option<String>, Self::Error>;

    /// What the stored-to object held before the store.
    fn old_value(&mut self) -> Result<Option<Value>, Self::Error>;

    /// What it holds after.
    fn new_value(&mut self) -> Result<Option<Value>, Self::Error>;

    /// What the function or system call returns.
    fn result(&mut self) -> Result<Option<Value>, Self::Error>;

    /// What the function or system call was given, from 0 on, as it was at the call.
    fn argument(&mut self, number: u8) -> Result<Option<Value>, Self::Error>;

    /// The value of an expression of the program. Words of ours have been replaced by their values. `None` if it has no
    /// value here and now; an error if it never has, because it is no expression or names nothing that exists.
    fn expression(&mut self, text: &str) -> Result<Option<Value>, Self::Error>;
}

/// A place in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// The path of the file.
    pub path: String,
    /// The line, from 1 on.
    pub line: u32,
}

/// The value of a word or an expression. Comparisons in expressions have the value 0 or 1; an address is a number.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number of any integer type.
    Integer(i128),
    /// A number of any other type.
    Float(f64),
    /// A text.
    Text(String),
}

/// What it takes to look at a condition, from the cheapest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// It is known of every event that is found: time, thread, address.
    Event,
    /// Names are looked up.
    Names,
    /// The index is asked once more: depth, and values that belong to the event.
    Index,
    /// Registers and memory of the moment are needed.
    State,
    /// The call stack is unwound.
    Stack,
}

impl Context {
    /// Whether it holds.
    pub fn holds<E>(&self, moment: &mut dyn Moment<Error = E>) -> Result<bool, E> {
        Ok(self.truth(moment)? == Some(true))
    }

    /// What the dearest of its conditions takes.
    pub fn cost(&self) -> Cost {
        match self {
            Context::All(parts) | Context::Any(parts) => {
                parts.iter().map(Context::cost).max().unwrap_or(Cost::Event)
            }
            Context::Not(part) => part.cost(),
            Context::Condition(condition) => condition.cost(),
        }
    }

    fn truth<E>(&self, moment: &mut dyn Moment<Error = E>) -> Result<Option<bool>, E> {
        match self {
            Context::All(parts) => joint_truth(parts, false, moment),
            Context::Any(parts) => joint_truth(parts, true, moment),
            Context::Not(part) => Ok(part.truth(moment)?.map(|truth| !truth)),
            Context::Condition(condition) => condition.truth(moment),
        }
    }
}

/// The truth of parts of which one decides, if it is `decisive`; if none does, one that is unknown.
fn joint_truth<E>(
    parts: &[Context],
    decisive: bool,
    moment: &mut dyn Moment<Error = E>,
) -> Result<Option<bool>, E> {
    let mut ordered: Vec<&Context> = parts.iter().collect();
    ordered.sort_by_cached_key(|part| part.cost());
    let mut joint = Some(!decisive);
    for part in ordered {
        match part.truth(moment)? {
            Some(truth) if truth == decisive => return Ok(Some(decisive)),
            Some(_) => {}
            None => joint = None,
        }
    }
    Ok(joint)
}

impl Condition {
    /// What it takes to look at it.
    pub fn cost(&self) -> Cost {
        match self {
            Condition::Time(..) => Cost::Event,
            Condition::Source(_) | Condition::Function(_) => Cost::Names,
            Condition::Compare(word, _, operand) => word.cost().max(operand.cost()),
            Condition::Expression(_) => Cost::State,
            Condition::Stack(_) => Cost::Stack,
        }
    }

    fn truth<E>(&self, moment: &mut dyn Moment<Error = E>) -> Result<Option<bool>, E> {
        match self {
            Condition::Stack(pattern) => {
                let mut levels = 0..;
                let next = || levels.next().map_or(Ok(None), |level| moment.frame(level));
                pattern.matches_frames(next).map(Some)
            }
            // What has no name has none that matches.
            Condition::Source(source) => {
                let line = moment.source()?;
                Ok(Some(line.is_some_and(|at| source.contains(&at.path, at.line))))
            }
            Condition::Function(pattern) => {
                let name = moment.function()?;
                Ok(Some(name.is_some_and(|name| pattern.matches_function(&name))))
            }
            Condition::Time(comparison, point) => {
                let (time, bound) = (moment.time()?, moment.time_of(*point)?);
                Ok(Some(comparison.accepts(time.cmp(&bound))))
            }
            Condition::Compare(word, comparison, operand) => {
                let Some(left) = word.value(moment)? else { return Ok(None) };
                let Some(right) = operand.value(moment)? else { return Ok(None) };
                Ok(left.compared(*comparison, &right))
            }
            Condition::Expression(expression) => {
                Ok(expression.value(moment)?.map(|value| value.is_true()))
            }
        }
    }
}

impl Word {
    fn cost(self) -> Cost {
        match self {
            Word::Thread | Word::Pc => Cost::Event,
            Word::Depth | Word::OldValue | Word::NewValue => Cost::Index,
            Word::Result | Word::Argument(_) => Cost::State,
        }
    }

    fn value<E>(self, moment: &mut dyn Moment<Error = E>) -> Result<Option<Value>, E> {
        let known = |value: u64| Some(Value::Integer(value.into()));
        match self {
            Word::Thread => moment.thread().map(|thread| known(thread.into())),
            Word::Depth => moment.depth().map(known),
            Word::Pc => moment.pc().map(known),
            Word::OldValue => moment.old_value(),
            Word::NewValue => moment.new_value(),
            Word::Result => moment.result(),
            Word::Argument(number) => moment.argument(number),
        }
    }
}

impl Operand {
    fn cost(&self) -> Cost {
        match self {
            Operand::Integer(_) => Cost::Event,
            Operand::Word(word) => word.cost(),
            Operand::Expression(_) => Cost::State,
        }
    }

    fn value<E>(&self, moment: &mut dyn Moment<Error = E>) -> Result<Option<Value>, E> {
        match self {
            Operand::Integer(value) => Ok(Some(Value::Integer(*value))),
            Operand::Word(word) => word.value(moment),
            Operand::Expression(expression) => expression.value(moment),
        }
    }
}

impl Expression {
    fn value<E>(&self, moment: &mut dyn Moment<Error = E>) -> Result<Option<Value>, E> {
        if self.words.is_empty() {
            return moment.expression(&self.text);
        }
        let mut text = String::new();
        let mut end = 0;
        for used in &self.words {
            let Some(value) = used.word.value(moment)? else { return Ok(None) };
            text.push_str(&self.text[end..used.range.start]);
            text.push_str(&value.literal());
            end = used.range.end;
        }
        text.push_str(&self.text[end..]);
        moment.expression(&text)
    }
}

impl Value {
    /// Whether it counts as true: a number that is not 0, and every text, as C has it.
    pub fn is_true(&self) -> bool {
        match self {
            Value::Integer(value) => *value != 0,
            Value::Float(value) => *value != 0.0,
            Value::Text(_) => true,
        }
    }

    /// Whether it compares like this with another; `None` if the two cannot be compared.
    pub fn compared(&self, comparison: Comparison, other: &Value) -> Option<bool> {
        match self.order(other) {
            Some(order) => Some(comparison.accepts(order)),
            // What is not a number differs from everything.
            None if self.is_number() && other.is_number() => {
                Some(comparison == Comparison::NotEqual)
            }
            None => None,
        }
    }

    fn order(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Integer(left), Value::Integer(right)) => Some(left.cmp(right)),
            (Value::Text(left), Value::Text(right)) => Some(left.cmp(right)),
            (left, right) => left.as_float()?.partial_cmp(&right.as_float()?),
        }
    }

    fn is_number(&self) -> bool {
        self.as_float().is_some()
    }

    fn as_float(&self) -> Option<f64> {
        match self {
            Value::Integer(value) => Some(*value as f64),
            Value::Float(value) => Some(*value),
            Value::Text(_) => None,
        }
    }

    /// As it stands in an expression of C.
    fn literal(&self) -> String {
        match self {
            Value::Integer(value) => format!("({value})"),
            Value::Float(value) if value.is_finite() => format!("({value:e})"),
            // C has no literals for these.
            Value::Float(value) if value.is_nan() => "(0.0/0.0)".to_string(),
            Value::Float(value) => format!("({}1.0/0.0)", if *value < 0.0 { "-" } else { "" }),
            Value::Text(text) => {
                let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
                format!("\"{escaped}\"")
            }
        }
    }
}
