//! Which objects are passed and returned by address however small they are: those that C++ has to construct and destroy.
//!
//! Some compilers say it. Of others only the members tell: a destructor, a constructor that copies or moves, or a virtual
//! function that somebody has written, in the class or in a part of it.

use crate::types::{Die, Kind, Language, Spot, Type};

/// What types say of themselves.
const PASSED_BY_REFERENCE: u64 = 4;
const PASSED_BY_VALUE: u64 = 5;
/// A function that the compiler makes, where the class says so: it does what those of the parts do.
const DEFAULTED_IN_CLASS: u64 = 1;
/// How deep objects are within each other.
const DEPTH: usize = 8;
/// Most classes that are looked into for one: debug information may have circles of any kind.
const CLASSES: usize = 256;

/// Whether the address of an object is passed instead of the object.
pub(super) fn is_passed_by_address(ty: &Type) -> bool {
    let ty = ty.strip();
    if !matches!(ty.kind(), Kind::Record(_)) {
        return false;
    }
    if ty.language() == Language::Rust {
        return ty.size().unwrap_or(0) > 16;
    }
    let class = ty.spot().and_then(|spot| spot.read());
    class.is_some_and(|class| is_passed_by_reference(&class, DEPTH, &mut Vec::new()))
}

/// `seen` are the classes that were looked into.
fn is_passed_by_reference(class: &Die, depth: usize, seen: &mut Vec<Spot>) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    let spot = class.spot();
    if seen.len() >= CLASSES || seen.iter().any(|other| other.is(&spot)) {
        return false;
    }
    seen.push(spot);
    match number(class, gimli::DW_AT_calling_convention) {
        Some(PASSED_BY_REFERENCE) => return true,
        Some(PASSED_BY_VALUE) => return false,
        _ => {}
    }
    let class_name = class.name();
    let class_name = class_name.as_deref().and_then(|name| name.split('<').next());
    class.children().iter().any(|child| match child.tag() {
        gimli::DW_TAG_subprogram => {
            number(child, gimli::DW_AT_virtuality).is_some_and(|how| how != 0)
                || is_written(child) && (is_destructor(child) || copies(child, class, class_name))
        }
        gimli::DW_TAG_inheritance if number(child, gimli::DW_AT_virtuality) == Some(1) => true,
        gimli::DW_TAG_inheritance | gimli::DW_TAG_member => {
            let part = class_of(child, depth);
            part.is_some_and(|part| is_passed_by_reference(&part, depth, seen))
        }
        _ => false,
    })
}

fn number(die: &Die, attribute: gimli::DwAt) -> Option<u64> {
    match die.value(attribute)? {
        gimli::AttributeValue::CallingConvention(convention) => Some(convention.0.into()),
        gimli::AttributeValue::Virtuality(how) => Some(how.0.into()),
        value => value.udata_value(),
    }
}

/// Whether somebody has written a function, rather than having it made or forbidden.
fn is_written(function: &Die) -> bool {
    !function.flag(gimli::DW_AT_artificial)
        && !function.flag(gimli::DW_AT_deleted)
        && number(function, gimli::DW_AT_defaulted) != Some(DEFAULTED_IN_CLASS)
}

fn is_destructor(function: &Die) -> bool {
    function.name().is_some_and(|name| name.starts_with('~'))
}

/// Whether a function constructs an object of a class from another one.
fn copies(function: &Die, class: &Die, class_name: Option<&str>) -> bool {
    let name = function.name();
    let name = name.as_deref().and_then(|name| name.split('<').next());
    if name.is_none() || name != class_name {
        return false;
    }
    let is_given = |die: &&Die| {
        die.tag() == gimli::DW_TAG_formal_parameter && !die.flag(gimli::DW_AT_artificial)
    };
    let children = function.children();
    let source = children.iter().find(is_given).and_then(referred);
    let reference = source.filter(|source| {
        matches!(source.tag(), gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type)
    });
    let object = reference.and_then(|reference| unqualified(referred(&reference)?));
    object.is_some_and(|object| object.spot().is(&class.spot()))
}

/// The class of a part of an object, also of those of an array.
fn class_of(part: &Die, depth: usize) -> Option<Die> {
    let mut ty = unqualified(referred(part)?)?;
    for _ in 0..depth {
        match ty.tag() {
            gimli::DW_TAG_array_type => ty = unqualified(referred(&ty)?)?,
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type => return Some(ty),
            _ => return None,
        }
    }
    None
}

/// A type without names for it and without `const`.
fn unqualified(ty: Die) -> Option<Die> {
    let mut ty = ty;
    for _ in 0..DEPTH {
        match ty.tag() {
            gimli::DW_TAG_const_type | gimli::DW_TAG_volatile_type | gimli::DW_TAG_typedef => {
                ty = referred(&ty)?;
            }
            _ => return Some(ty),
        }
    }
    None
}

/// The type that an entry has, or that its type is made of.
fn referred(die: &Die) -> Option<Die> {
    die.reference(gimli::DW_AT_type)?.read()
}
