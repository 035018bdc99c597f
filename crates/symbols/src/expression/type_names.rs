//! Types as they are written in casts.

use super::EvaluationError;
use super::arithmetic::Class;
use super::parser::BASE_WORDS;
use super::syntax::{Declarator, TypeName};
use crate::types::{Encoding, Qualifier, Type};
use crate::variables::Scope;

/// The type that is meant.
pub(super) fn find(name: &TypeName, scope: &dyn Scope) -> Result<Type, EvaluationError> {
    let is_base = name.tag.is_none() && name.name.split(' ').all(|word| BASE_WORDS.contains(&word));
    let mut ty = match is_base {
        true => base(&name.name),
        false => named(name.tag.as_deref(), &name.name, scope),
    }
    .ok_or_else(|| {
        let tag = name.tag.as_ref().map_or(String::new(), |tag| format!("{tag} "));
        EvaluationError::UnknownType(format!("{tag}{}", name.name))
    })?;
    if name.is_const {
        ty = ty.qualified(Qualifier::Const);
    }
    if name.is_volatile {
        ty = ty.qualified(Qualifier::Volatile);
    }
    for declarator in &name.declarators {
        ty = match declarator {
            Declarator::Pointer => ty.pointer(),
            Declarator::Reference => ty.reference(),
            Declarator::Const => ty.qualified(Qualifier::Const),
            Declarator::Volatile => ty.qualified(Qualifier::Volatile),
            Declarator::Array(count) => ty.array(*count),
            Declarator::Function => ty.function(),
        };
    }
    Ok(ty)
}

fn named(tag: Option<&str>, name: &str, scope: &dyn Scope) -> Option<Type> {
    let name = name.strip_prefix("::").unwrap_or(name);
    scope.type_named(tag, name).or_else(|| if tag.is_none() { well_known(name) } else { None })
}

/// A base type by its words, in whatever order.
fn base(words: &str) -> Option<Type> {
    let count = |wanted: &str| words.split(' ').filter(|word| *word == wanted).count();
    let has = |wanted: &str| count(wanted) > 0;
    let is_signed = !has("unsigned");
    let class = |size| Some(Class::Integer { size, is_signed }.ty());
    if has("void") {
        Some(Type::void())
    } else if has("bool") || has("_Bool") {
        Some(Type::base("bool", Encoding::Boolean, 1))
    } else if has("wchar_t") {
        Some(Type::base("wchar_t", Encoding::Unicode, 4))
    } else if has("char32_t") {
        Some(Type::base("char32_t", Encoding::Unicode, 4))
    } else if has("char16_t") {
        Some(Type::base("char16_t", Encoding::Unicode, 2))
    } else if has("char8_t") {
        Some(Type::base("char8_t", Encoding::UnsignedChar, 1))
    } else if has("char") && !has("signed") && is_signed {
        Some(character())
    } else if has("char") {
        class(1)
    } else if has("__float128") || has("_Float128") {
        Some(Type::base("_Float128", Encoding::Float, 16))
    } else if has("float") {
        Some(Class::Float { size: 4 }.ty())
    } else if has("double") {
        Some(Class::Float { size: if has("long") { 16 } else { 8 } }.ty())
    } else if has("__int128") {
        class(16)
    } else if has("short") {
        class(2)
    } else if count("long") > 1 {
        let name = if is_signed { "long long" } else { "unsigned long long" };
        let encoding = if is_signed { Encoding::Signed } else { Encoding::Unsigned };
        Some(Type::base(name, encoding, 8))
    } else if has("long") {
        class(8)
    } else {
        class(4)
    }
}

/// C's plain `char`.
pub(super) fn character() -> Type {
    Type::base("char", Encoding::SignedChar, 1)
}

/// Types that everybody has, for programs that do not mention them.
fn well_known(name: &str) -> Option<Type> {
    let (encoding, size) = match name {
        "u8" => (Encoding::Unsigned, 1),
        "u16" => (Encoding::Unsigned, 2),
        "u32" => (Encoding::Unsigned, 4),
        "u64" | "usize" => (Encoding::Unsigned, 8),
        "u128" => (Encoding::Unsigned, 16),
        "i8" => (Encoding::Signed, 1),
        "i16" => (Encoding::Signed, 2),
        "i32" => (Encoding::Signed, 4),
        "i64" | "isize" => (Encoding::Signed, 8),
        "i128" => (Encoding::Signed, 16),
        "f32" => (Encoding::Float, 4),
        "f64" => (Encoding::Float, 8),
        "uint8_t" => (Encoding::UnsignedChar, 1),
        "int8_t" => (Encoding::SignedChar, 1),
        "uint16_t" => (Encoding::Unsigned, 2),
        "int16_t" => (Encoding::Signed, 2),
        "uint32_t" => (Encoding::Unsigned, 4),
        "int32_t" => (Encoding::Signed, 4),
        "uint64_t" | "uintptr_t" | "size_t" => (Encoding::Unsigned, 8),
        "int64_t" | "intptr_t" | "ssize_t" | "ptrdiff_t" => (Encoding::Signed, 8),
        _ => return None,
    };
    Some(Type::base(name, encoding, size))
}
