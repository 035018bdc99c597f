//! The memory that a store or load is about, and what its bytes mean.
//!
//! The operand is looked at once, where the search begins. The names of a variable may be those of an outer
//! frame: the innermost one that knows them counts.

use std::ops::Range;

use retro_symbols::{
    Absent, EvaluationError, Expression, Machine, Number, Type, Value as SymbolValue,
};

use super::{Bounds, GotoContext};
use crate::frames::{FRAMES_LIMIT, ThreadStack};
use crate::language::{Bytes, Location, Value};
use crate::run::Run;
use crate::{Error, Moment};

/// Objects up to this size are looked at as a whole; of larger ones, what is written of them.
const WHOLE: u64 = 16;

/// Bytes of memory without a type that are still a number.
const NUMBER: usize = 8;

/// Memory, with its type if that is known.
#[derive(Clone, Debug)]
pub(super) struct Object {
    /// Where it is.
    pub(super) memory: Range<u64>,
    typed: Option<SymbolValue>,
}

impl Object {
    /// What an operand names where a search begins.
    pub(super) fn of(
        run: &Run,
        location: &Location,
        bounds: &Bounds,
        context: &GotoContext,
    ) -> Result<Object, Error> {
        let text = match location {
            Location::Bytes(Bytes { address, length }) => {
                let memory = *address..address.saturating_add(*length);
                return Ok(Object { memory, typed: None });
            }
            Location::Expression(expression) => &expression.text,
        };
        let parsed =
            Expression::parse(text).map_err(|error| Error::Expression(error.to_string()))?;
        let state = run.state(Moment { log: context.log, time: bounds.from })?;
        let (thread, frame) = match bounds.is_from_now {
            true => (context.thread, context.frame),
            false => (None, 0),
        };
        let stack = state.stack(thread, FRAMES_LIMIT)?;
        let value = in_nearest_frame(&stack, frame, &parsed)?;
        let memory = value.memory_range().filter(|(_, len)| *len > 0);
        let Some((address, len)) = memory else {
            let why = EvaluationError::NotInMemory(text.clone());
            return Err(Error::Expression(why.to_string()));
        };
        let memory = address..address.saturating_add(len);
        Ok(Object { memory, typed: Some(value) })
    }

    /// Whether its values are those of all of it, whatever part is written.
    pub(super) fn is_whole(&self) -> bool {
        self.memory.end - self.memory.start <= WHOLE
    }

    /// What it is.
    pub(super) fn type_name(&self) -> Option<String> {
        self.typed.as_ref().map(|value| value.ty.name().to_string())
    }

    /// What its bytes mean, if that is a number.
    pub(super) fn value(&self, bytes: &[u8]) -> Option<Value> {
        let Some(typed) = &self.typed else { return untyped(bytes) };
        let mut value = SymbolValue::computed(typed.ty.clone(), bytes);
        value.bits = typed.bits;
        if let Some(bits) = &mut value.bits {
            // The bytes before those with bits of it are left out.
            bits.offset %= 8;
        }
        number(&value, &Nothing)
    }
}

/// What bytes without a type mean.
pub(super) fn untyped(bytes: &[u8]) -> Option<Value> {
    let mut word = [0; NUMBER];
    word.get_mut(..bytes.len()).filter(|part| !part.is_empty())?.copy_from_slice(bytes);
    Some(Value::Integer(u64::from_le_bytes(word).into()))
}

/// Bytes of registers as a value of a type.
pub(super) fn typed_number(ty: &Type, bytes: &[u8]) -> Option<Value> {
    let size = usize::try_from(ty.size()?).ok()?;
    number(&SymbolValue::computed(ty.clone(), bytes.get(..size)?), &Nothing)
}

/// A value that is a number; of an array, its address.
pub(super) fn number(value: &SymbolValue, machine: &dyn Machine) -> Option<Value> {
    match value.number(machine) {
        Ok(Some(Number::Float(number))) => Some(Value::Float(number)),
        Ok(Some(number)) => Some(Value::Integer(number.to_integer())),
        Ok(None) => match value.ty.strip().kind() {
            retro_symbols::Kind::Array { .. } | retro_symbols::Kind::Function(_) => {
                value.address().map(|address| Value::Integer(address.into()))
            }
            _ => None,
        },
        Err(Absent::OptimizedOut | Absent::Synthetic | Absent::Unreadable(_)) => None,
        Err(Absent::Incomplete | Absent::TooLarge(_)) => None,
    }
}

/// The value of an expression in a frame, or in the nearest one around it that knows its names.
fn in_nearest_frame(
    stack: &ThreadStack<'_>,
    frame: usize,
    parsed: &Expression,
) -> Result<SymbolValue, Error> {
    let mut nearest = None;
    for index in frame..stack.frames().len().max(frame + 1) {
        match stack.with_scope(index, |scope| parsed.evaluate(scope))? {
            Ok(value) => return Ok(value),
            Err(error @ (EvaluationError::UnknownName(_) | EvaluationError::UnknownType(_))) => {
                nearest.get_or_insert(error);
            }
            Err(error) => return Err(Error::Expression(error.to_string())),
        }
    }
    let text = nearest.map(|error| error.to_string()).unwrap_or_default();
    Err(Error::Unknown(text))
}

/// No registers, no memory: for values that hold their bytes.
struct Nothing;

impl Machine for Nothing {
    fn register(&self, _: u16) -> Option<u64> {
        None
    }

    fn vector(&self, _: u16) -> Option<[u8; 16]> {
        None
    }

    fn fs_base(&self) -> Option<u64> {
        None
    }

    fn read(&self, _: u64, _: &mut [u8]) -> bool {
        false
    }
}
