//! Numbers and characters as they are written.

use super::super::arithmetic::{Class, value_of};
use super::super::lexer::{Prefix, Suffix};
use super::super::type_names;
use crate::types::{Encoding, Type};
use crate::value::{Number, Value};

/// A number has the first type that it fits; only those not in decimal are taken without sign.
pub(super) fn integer(value: u128, suffix: Suffix, is_decimal: bool) -> Value {
    let fits = |size: u64, is_signed: bool| value >> (8 * size as u32 - u32::from(is_signed)) == 0;
    let candidates: &[(u64, bool)] = match suffix {
        Suffix::Unsigned => &[(4, false), (8, false)],
        Suffix::Long if is_decimal => &[(8, true)],
        Suffix::Long => &[(8, true), (8, false)],
        Suffix::UnsignedLong => &[(8, false)],
        Suffix::Sized(is_signed, size) => {
            return Class::Integer { size: size.into(), is_signed }.value(Number::Unsigned(value));
        }
        _ if is_decimal => &[(4, true), (8, true), (8, false)],
        _ => &[(4, true), (4, false), (8, true), (8, false)],
    };
    let found = candidates.iter().find(|(size, is_signed)| fits(*size, *is_signed));
    let (size, is_signed) = found.copied().unwrap_or((16, false));
    Class::Integer { size, is_signed }.value(Number::Unsigned(value))
}

/// A character has the type that its prefix says.
pub(super) fn character(code: u32, prefix: Prefix) -> Value {
    let ty = match prefix {
        Prefix::None if code <= 0xff => type_names::character(),
        Prefix::None | Prefix::Utf32 => Type::base("char32_t", Encoding::Unicode, 4),
        Prefix::Wide => Type::base("wchar_t", Encoding::Unicode, 4),
        Prefix::Utf16 => Type::base("char16_t", Encoding::Unicode, 2),
    };
    value_of(ty, Number::Unsigned(code.into()))
}
