//! C's conversions and operators on numbers.
//!
//! Two operands become one type first: the wider floating-point type if there is one, otherwise integers no smaller than
//! `int`, of which the wider wins and among equals the one without sign. Results wrap, as they do in the machine.

use super::EvaluationError;
use super::syntax::{Binary, Unary};
use crate::types::{Encoding, Kind, Type};
use crate::value::scalar::{is_signed, sign_extend, zero_extend};
use crate::value::{Number, Value};

/// What an operator works on: how wide, and how it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Integer { size: u64, is_signed: bool },
    Float { size: u64 },
}

impl Class {
    /// Of a type of numbers.
    pub(super) fn of(ty: &Type) -> Option<Class> {
        let stripped = ty.strip();
        let size = stripped.size()?;
        match stripped.kind() {
            Kind::Base(Encoding::Float) => Some(Class::Float { size }),
            Kind::Base(Encoding::ComplexFloat) => None,
            Kind::Base(_) | Kind::Enumeration(_) if size <= 16 => {
                Some(Class::Integer { size, is_signed: is_signed(&stripped) })
            }
            _ => None,
        }
    }

    /// As an operand: small integers become `int`.
    pub(super) fn promoted(self) -> Class {
        match self {
            Class::Integer { size, .. } if size < 4 => Class::Integer { size: 4, is_signed: true },
            other => other,
        }
    }

    /// What two operands become.
    pub(super) fn common(self, other: Class) -> Class {
        match (self.promoted(), other.promoted()) {
            (Class::Float { size }, Class::Float { size: other }) => {
                Class::Float { size: size.max(other) }
            }
            (float @ Class::Float { .. }, _) | (_, float @ Class::Float { .. }) => float,
            (
                Class::Integer { size: left, is_signed: left_signed },
                Class::Integer { size: right, is_signed: right_signed },
            ) => {
                let is_signed = match left.cmp(&right) {
                    std::cmp::Ordering::Equal => left_signed && right_signed,
                    std::cmp::Ordering::Less => right_signed,
                    std::cmp::Ordering::Greater => left_signed,
                };
                Class::Integer { size: left.max(right), is_signed }
            }
        }
    }

    /// A type of this class.
    pub(super) fn ty(self) -> Type {
        let (name, encoding, size) = match self {
            Class::Float { size: 2 } => ("_Float16", Encoding::Float, 2),
            Class::Float { size: 4 } => ("float", Encoding::Float, 4),
            Class::Float { size: 8 } => ("double", Encoding::Float, 8),
            Class::Float { size } => ("long double", Encoding::Float, size),
            Class::Integer { size: 1, is_signed: true } => ("signed char", Encoding::SignedChar, 1),
            Class::Integer { size: 1, is_signed: false } => {
                ("unsigned char", Encoding::UnsignedChar, 1)
            }
            Class::Integer { size: 2, is_signed: true } => ("short", Encoding::Signed, 2),
            Class::Integer { size: 2, is_signed: false } => {
                ("unsigned short", Encoding::Unsigned, 2)
            }
            Class::Integer { size: 4, is_signed: true } => ("int", Encoding::Signed, 4),
            Class::Integer { size: 4, is_signed: false } => ("unsigned int", Encoding::Unsigned, 4),
            Class::Integer { size: 16, is_signed: true } => ("__int128", Encoding::Signed, 16),
            Class::Integer { size: 16, is_signed: false } => {
                ("unsigned __int128", Encoding::Unsigned, 16)
            }
            Class::Integer { is_signed: true, .. } => ("long", Encoding::Signed, 8),
            Class::Integer { is_signed: false, .. } => ("unsigned long", Encoding::Unsigned, 8),
        };
        Type::base(name, encoding, size)
    }

    /// A number as this class has it.
    pub(super) fn convert(self, number: Number) -> Number {
        match self {
            Class::Float { size: 4 } => Number::Float(f64::from(number.to_float() as f32)),
            Class::Float { .. } => Number::Float(number.to_float()),
            Class::Integer { size, is_signed } => {
                let bits = match number {
                    // Beyond the largest signed number there are unsigned ones.
                    Number::Float(float) if !is_signed && float > 0.0 => float as u128,
                    _ => number.to_integer() as u128,
                };
                match is_signed {
                    true => Number::Signed(sign_extend(bits, size)),
                    false => Number::Unsigned(zero_extend(bits, size)),
                }
            }
        }
    }

    /// A number of this class as a value.
    pub(super) fn value(self, number: Number) -> Value {
        value_of(self.ty(), number)
    }
}

/// A number as a value of a type, which must be one of numbers or pointers.
pub(super) fn value_of(ty: Type, number: Number) -> Value {
    let size = ty.size().unwrap_or(8).min(16) as usize;
    let is_float = matches!(ty.strip().kind(), Kind::Base(Encoding::Float));
    let bytes = match number {
        _ if is_float => float_bytes(number.to_float(), &ty, size),
        Number::Float(float) if float > 0.0 => (float as u128).to_le_bytes().to_vec(),
        _ => (number.to_integer() as u128).to_le_bytes().to_vec(),
    };
    Value::computed(ty, &bytes[..size])
}

fn float_bytes(number: f64, ty: &Type, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; 16];
    match size {
        4 => bytes[..4].copy_from_slice(&(number as f32).to_le_bytes()),
        8 => bytes[..8].copy_from_slice(&number.to_le_bytes()),
        _ if ty.name().contains("128") => bytes = wide(number, 112, false).to_le_bytes().to_vec(),
        _ => bytes = wide(number, 63, true).to_le_bytes().to_vec(),
    }
    bytes
}

/// A number in a wider format with 15 bits of exponent.
fn wide(number: f64, fraction: u32, explicit: bool) -> u128 {
    let stored = fraction + u32::from(explicit);
    let sign = u128::from(number.is_sign_negative()) << (stored + 15);
    let leading = if explicit { 1u128 << fraction } else { 0 };
    let with = |exponent: u128, mantissa: u128| sign | exponent << stored | mantissa;
    if number == 0.0 {
        return sign;
    }
    let bits = number.to_bits();
    let small = u128::from(bits & ((1 << 52) - 1));
    let exponent = (bits >> 52 & 0x7ff) as i32;
    if exponent == 0x7ff {
        return with(0x7fff, leading | small << (fraction - 52));
    }
    // What has no leading bit gets one: the wider exponent reaches that far.
    let (small, exponent) = match exponent {
        0 => {
            let shift = small.leading_zeros() - (128 - 53);
            (small << shift & ((1 << 52) - 1), 1 - shift as i32)
        }
        _ => (small, exponent),
    };
    with((exponent - 1023 + 16383) as u128, leading | small << (fraction - 52))
}

/// An operator on two numbers of one class.
pub(super) fn binary(
    operator: Binary,
    class: Class,
    left: Number,
    right: Number,
) -> Result<Value, EvaluationError> {
    let (left, right) = (class.convert(left), class.convert(right));
    if operator.is_comparison() {
        return Ok(truth(compare(operator, left, right)));
    }
    let result = match (left, right) {
        (Number::Float(left), Number::Float(right)) => Number::Float(float(operator, left, right)?),
        (Number::Signed(left), Number::Signed(right)) => {
            Number::Signed(signed(operator, left, right)?)
        }
        (left, right) => {
            let (left, right) = (left.to_integer() as u128, right.to_integer() as u128);
            Number::Unsigned(unsigned(operator, left, right)?)
        }
    };
    Ok(class.value(class.convert(result)))
}

/// A shift: the type is that of the left operand alone.
pub(super) fn shift(
    operator: Binary,
    class: Class,
    left: Number,
    right: Number,
) -> Result<Value, EvaluationError> {
    let Class::Integer { size, .. } = class.promoted() else {
        return Err(EvaluationError::Unsuitable("only integers can be shifted".into()));
    };
    let class = class.promoted();
    let count = right.to_integer();
    let bits = size * 8;
    if matches!(right, Number::Float(_)) || count < 0 {
        return Err(EvaluationError::Unsuitable(
            "a shift is by an integer that is not negative".into(),
        ));
    }
    let is_beyond = count >= i128::from(bits);
    let result = match (class.convert(left), operator) {
        (_, Binary::ShiftLeft) if is_beyond => Number::Signed(0),
        (Number::Signed(left), Binary::ShiftLeft) => {
            Number::Signed(left.wrapping_shl(count as u32))
        }
        (Number::Unsigned(left), Binary::ShiftLeft) => {
            Number::Unsigned(left.wrapping_shl(count as u32))
        }
        (Number::Signed(left), _) => Number::Signed(left >> count.min(127)),
        (_, _) if is_beyond => Number::Unsigned(0),
        (left, _) => Number::Unsigned(left.to_integer() as u128 >> count),
    };
    Ok(class.value(class.convert(result)))
}

/// An operator on one number.
pub(super) fn unary(
    operator: Unary,
    class: Class,
    operand: Number,
) -> Result<Value, EvaluationError> {
    let class = class.promoted();
    let result = match (operator, class.convert(operand)) {
        (Unary::Plus, number) => number,
        (Unary::Minus, Number::Float(number)) => Number::Float(-number),
        (Unary::Minus, number) => Number::Signed(number.to_integer().wrapping_neg()),
        (Unary::Complement, Number::Float(_)) => {
            return Err(EvaluationError::Unsuitable("`~` takes an integer".into()));
        }
        (_, number) => Number::Signed(!number.to_integer()),
    };
    Ok(class.value(class.convert(result)))
}

/// A truth value.
pub(super) fn truth(is_true: bool) -> Value {
    Value::computed(Type::base("bool", Encoding::Boolean, 1), &[u8::from(is_true)])
}

fn compare(operator: Binary, left: Number, right: Number) -> bool {
    let ordering = match (left, right) {
        (Number::Float(left), Number::Float(right)) => left.partial_cmp(&right),
        (Number::Signed(left), Number::Signed(right)) => Some(left.cmp(&right)),
        (left, right) => Some((left.to_integer() as u128).cmp(&(right.to_integer() as u128))),
    };
    match operator {
        Binary::Equal => ordering.is_some_and(|order| order.is_eq()),
        Binary::Unequal => ordering.is_none_or(|order| order.is_ne()),
        Binary::Less => ordering.is_some_and(|order| order.is_lt()),
        Binary::Greater => ordering.is_some_and(|order| order.is_gt()),
        Binary::LessOrEqual => ordering.is_some_and(|order| order.is_le()),
        _ => ordering.is_some_and(|order| order.is_ge()),
    }
}

fn float(operator: Binary, left: f64, right: f64) -> Result<f64, EvaluationError> {
    Ok(match operator {
        Binary::Add => left + right,
        Binary::Subtract => left - right,
        Binary::Multiply => left * right,
        Binary::Divide => left / right,
        _ => {
            return Err(EvaluationError::Unsuitable(format!(
                "`{}` takes integers",
                operator.mark()
            )));
        }
    })
}

fn signed(operator: Binary, left: i128, right: i128) -> Result<i128, EvaluationError> {
    let by_zero = right == 0 && matches!(operator, Binary::Divide | Binary::Remainder);
    if by_zero {
        return Err(EvaluationError::DivisionByZero);
    }
    Ok(match operator {
        Binary::Add => left.wrapping_add(right),
        Binary::Subtract => left.wrapping_sub(right),
        Binary::Multiply => left.wrapping_mul(right),
        Binary::Divide => left.wrapping_div(right),
        Binary::Remainder => left.wrapping_rem(right),
        Binary::BitAnd => left & right,
        Binary::BitXor => left ^ right,
        _ => left | right,
    })
}

fn unsigned(operator: Binary, left: u128, right: u128) -> Result<u128, EvaluationError> {
    let by_zero = right == 0 && matches!(operator, Binary::Divide | Binary::Remainder);
    if by_zero {
        return Err(EvaluationError::DivisionByZero);
    }
    Ok(match operator {
        Binary::Add => left.wrapping_add(right),
        Binary::Subtract => left.wrapping_sub(right),
        Binary::Multiply => left.wrapping_mul(right),
        Binary::Divide => left / right,
        Binary::Remainder => left % right,
        Binary::BitAnd => left & right,
        Binary::BitXor => left ^ right,
        _ => left | right,
    })
}
