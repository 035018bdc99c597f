//! From an entry of the debug information to a type.

use std::sync::Arc;

use gimli::{AttributeValue, DwAte, Reader as _};

use super::{
    Bits, ComputedCount, Count, Die, Encoding, Enumeration, Kind, Language, Link, Member,
    MemberKind, Node, Qualifier, Record, RecordKind, Signature, Type, Variant, Variants,
};
use crate::debug_info::EntryKind;
use crate::types::Spot;

/// Dimensions of an array.
const DIMENSIONS_LIMIT: usize = 16;

/// Variants of a discriminant list.
const VALUES_LIMIT: usize = 1 << 10;

impl Node {
    /// Reads a type; of an array what is within so many of its dimensions. An entry that is none is `void`.
    pub(super) fn read(die: &Die, dimension: usize) -> Node {
        // Declarations of types that are in units of their own say so by a number.
        if let Some(defined) = die.reference(gimli::DW_AT_signature).and_then(|spot| spot.read())
            && !defined.has(gimli::DW_AT_signature)
        {
            return Node::read(&defined, dimension);
        }
        let spot = die.spot();
        let language = spot.language();
        let name = die.text(gimli::DW_AT_name);
        let size = die.number(gimli::DW_AT_byte_size);
        let target = || Link::at(die.reference(gimli::DW_AT_type));
        let kind = match die.tag() {
            gimli::DW_TAG_base_type => Kind::Base(encoding(die, name.as_deref(), size)),
            gimli::DW_TAG_unspecified_type => return unspecified(name, language),
            gimli::DW_TAG_pointer_type => Kind::Pointer(target()),
            gimli::DW_TAG_reference_type => Kind::Reference(target(), false),
            gimli::DW_TAG_rvalue_reference_type => Kind::Reference(target(), true),
            gimli::DW_TAG_ptr_to_member_type => Kind::MemberPointer {
                class: Link::at(die.reference(gimli::DW_AT_containing_type)),
                target: target(),
            },
            gimli::DW_TAG_array_type => return array(die, dimension, language, size),
            gimli::DW_TAG_structure_type => Kind::Record(record(die, RecordKind::Struct)),
            gimli::DW_TAG_class_type | gimli::DW_TAG_interface_type => {
                Kind::Record(record(die, RecordKind::Class))
            }
            gimli::DW_TAG_union_type => Kind::Record(record(die, RecordKind::Union)),
            gimli::DW_TAG_enumeration_type => Kind::Enumeration(enumeration(die, &spot, language)),
            gimli::DW_TAG_typedef | gimli::DW_TAG_template_alias => Kind::Typedef(target()),
            gimli::DW_TAG_const_type => Kind::Qualified(Qualifier::Const, target()),
            gimli::DW_TAG_volatile_type => Kind::Qualified(Qualifier::Volatile, target()),
            gimli::DW_TAG_restrict_type => Kind::Qualified(Qualifier::Restrict, target()),
            gimli::DW_TAG_atomic_type => Kind::Qualified(Qualifier::Atomic, target()),
            gimli::DW_TAG_subroutine_type
            | gimli::DW_TAG_subprogram
            | gimli::DW_TAG_inlined_subroutine => Kind::Function(signature(die)),
            _ => return Node::new(Kind::Void, None, Some(1), Language::C, None),
        };
        let size = match kind {
            Kind::Pointer(_) | Kind::Reference(..) => Some(size.unwrap_or(8)),
            Kind::Function(_) => Some(1),
            _ => size,
        };
        Node::new(kind, name, size, language, Some(spot))
    }
}

fn unspecified(name: Option<Arc<str>>, language: Language) -> Node {
    match name.as_deref() {
        Some("decltype(nullptr)") => {
            Node::new(Kind::Base(Encoding::Unsigned), name, Some(8), language, None)
        }
        _ => Node::new(Kind::Void, name, Some(1), language, None),
    }
}

fn encoding(die: &Die, name: Option<&str>, size: Option<u64>) -> Encoding {
    let encoding = match die.value(gimli::DW_AT_encoding) {
        Some(AttributeValue::Encoding(encoding)) => encoding,
        Some(value) => DwAte(value.u8_value().unwrap_or(0)),
        None => DwAte(0),
    };
    match encoding {
        gimli::DW_ATE_boolean => Encoding::Boolean,
        // In C++ this one is a type of its own, which C knows as another name for a number.
        gimli::DW_ATE_unsigned if name == Some("char8_t") => Encoding::UnsignedChar,
        gimli::DW_ATE_signed if name == Some("wchar_t") => Encoding::Unicode,
        gimli::DW_ATE_signed | gimli::DW_ATE_signed_fixed => Encoding::Signed,
        gimli::DW_ATE_unsigned | gimli::DW_ATE_unsigned_fixed | gimli::DW_ATE_address => {
            Encoding::Unsigned
        }
        gimli::DW_ATE_signed_char => Encoding::SignedChar,
        gimli::DW_ATE_unsigned_char => Encoding::UnsignedChar,
        gimli::DW_ATE_UTF if size == Some(1) => Encoding::UnsignedChar,
        gimli::DW_ATE_UTF | gimli::DW_ATE_UCS | gimli::DW_ATE_ASCII => Encoding::Unicode,
        gimli::DW_ATE_float => Encoding::Float,
        gimli::DW_ATE_complex_float => Encoding::ComplexFloat,
        _ => Encoding::Other,
    }
}

fn array(die: &Die, dimension: usize, language: Language, size: Option<u64>) -> Node {
    let is_vector = die.flag(gimli::DW_AT_GNU_vector);
    let subranges: Vec<Die> = (die.children().into_iter())
        .filter(|child| {
            matches!(child.tag(), gimli::DW_TAG_subrange_type | gimli::DW_TAG_enumeration_type)
        })
        .take(DIMENSIONS_LIMIT)
        .collect();
    let is_last = dimension + 1 >= subranges.len();
    let element = if is_last {
        Link::at(die.reference(gimli::DW_AT_type))
    } else {
        Link::within(die.spot(), dimension + 1)
    };
    let count = subranges.get(dimension).map_or(Count::Unknown, count_of);
    let kind = Kind::Array { element, count, is_vector };
    // A size stands for all dimensions.
    let size = size.filter(|_| subranges.len() <= 1);
    Node::new(kind, None, size, language, Some(die.spot()))
}

fn count_of(subrange: &Die) -> Count {
    let lower =
        subrange.value(gimli::DW_AT_lower_bound).and_then(|value| value.sdata_value()).unwrap_or(0);
    if let Some(count) = subrange.value(gimli::DW_AT_count) {
        return match count.udata_value() {
            Some(count) => Count::Known(count),
            None if count.sdata_value().is_some() => Count::Unknown,
            None => Count::Computed(ComputedCount { subrange: subrange.spot() }),
        };
    }
    match subrange.value(gimli::DW_AT_upper_bound) {
        None => Count::Unknown,
        Some(upper) => match upper_bound(&upper) {
            Some(upper) => Count::Known(elements(lower, upper)),
            None => Count::Computed(ComputedCount { subrange: subrange.spot() }),
        },
    }
}

/// A bound that is a number. An array of no elements has the bound -1, in whatever width.
fn upper_bound(value: &AttributeValue<crate::debug_info::Bytes>) -> Option<i64> {
    match *value {
        AttributeValue::Data8(number) | AttributeValue::Udata(number) => Some(number as i64),
        AttributeValue::Data4(u32::MAX) => Some(-1),
        _ => value.udata_value().map(|number| number as i64).or_else(|| value.sdata_value()),
    }
}

pub(crate) fn elements(lower: i64, upper: i64) -> u64 {
    let count = i128::from(upper) - i128::from(lower) + 1;
    u64::try_from(count.max(0)).unwrap_or(0)
}

fn record(die: &Die, kind: RecordKind) -> Record {
    let mut record = Record {
        kind,
        is_declaration: die.flag(gimli::DW_AT_declaration),
        members: Vec::new(),
        variants: None,
        parameters: Vec::new(),
    };
    for child in die.children() {
        match child.tag() {
            gimli::DW_TAG_member | gimli::DW_TAG_variable | gimli::DW_TAG_inheritance => {
                record.members.extend(member(&child));
            }
            gimli::DW_TAG_template_type_parameter => {
                let name = child.text(gimli::DW_AT_name).unwrap_or_default();
                record.parameters.push((name, Link::at(child.reference(gimli::DW_AT_type))));
            }
            gimli::DW_TAG_variant_part => record.variants = Some(variants(&child)),
            _ => {}
        }
    }
    record
}

fn member(die: &Die) -> Option<Member> {
    let ty = Link::at(die.reference(gimli::DW_AT_type));
    let is_static = die.tag() == gimli::DW_TAG_variable
        || die.flag(gimli::DW_AT_external)
        || die.flag(gimli::DW_AT_declaration);
    let kind = if die.tag() == gimli::DW_TAG_inheritance {
        match die.value(gimli::DW_AT_data_member_location) {
            Some(AttributeValue::Exprloc(_)) => MemberKind::VirtualBase(die.spot()),
            _ => MemberKind::Base(member_offset(die)),
        }
    } else if is_static {
        MemberKind::Static(die.spot())
    } else if let Some(size) = die.number(gimli::DW_AT_bit_size) {
        MemberKind::Bits(Bits { offset: bit_offset(die, size)?, size: size.min(128) })
    } else {
        MemberKind::At(member_offset(die))
    };
    let name = die.text(gimli::DW_AT_name).filter(|_| die.tag() != gimli::DW_TAG_inheritance);
    Some(Member { name, ty, kind, is_artificial: die.flag(gimli::DW_AT_artificial) })
}

fn member_offset(die: &Die) -> u64 {
    match die.value(gimli::DW_AT_data_member_location) {
        // Old compilers write `DW_OP_plus_uconst offset`.
        Some(AttributeValue::Exprloc(expression)) => {
            let mut bytes = expression.0;
            match bytes.read_u8() {
                Ok(0x23) => bytes.read_uleb128().unwrap_or(0),
                _ => 0,
            }
        }
        Some(value) => value.udata_value().unwrap_or(0),
        None => 0,
    }
}

/// From the lowest bit of the record on. The old form counts from the highest bit of the storage unit.
fn bit_offset(die: &Die, size: u64) -> Option<u64> {
    if let Some(offset) = die.number(gimli::DW_AT_data_bit_offset) {
        return Some(offset);
    }
    let start = member_offset(die).checked_mul(8)?;
    let Some(from_top) = die.value(gimli::DW_AT_bit_offset).and_then(|value| value.sdata_value())
    else {
        return Some(start);
    };
    let base_size = || base_behind(die)?.number(gimli::DW_AT_byte_size);
    let storage = die.number(gimli::DW_AT_byte_size).or_else(base_size)?.checked_mul(8)?;
    let from_bottom = i128::from(storage) - i128::from(from_top) - i128::from(size);
    u64::try_from(i128::from(start) + from_bottom).ok()
}

/// The base type or enumeration behind the names that the type of an entry has. Entries are followed rather than
/// types: a type that is being read must not ask for itself.
fn base_behind(die: &Die) -> Option<Die> {
    let next = |die: &Die| die.reference(gimli::DW_AT_type)?.read();
    std::iter::successors(next(die), next)
        .take(DIMENSIONS_LIMIT)
        .find(|die| matches!(die.tag(), gimli::DW_TAG_base_type | gimli::DW_TAG_enumeration_type))
}

fn variants(part: &Die) -> Variants {
    let discriminant = part
        .reference(gimli::DW_AT_discr)
        .and_then(|spot| spot.read())
        .and_then(|die| member(&die));
    let variants = (part.children().iter())
        .filter(|child| child.tag() == gimli::DW_TAG_variant)
        .map(|variant| Variant {
            values: discriminant_values(variant),
            members: variant
                .children()
                .iter()
                .filter(|die| die.tag() == gimli::DW_TAG_member)
                .filter_map(member)
                .collect(),
        })
        .collect();
    Variants { discriminant: discriminant.map(Box::new), variants }
}

fn discriminant_values(variant: &Die) -> Option<Vec<(u128, u128)>> {
    if let Some(value) = variant.value(gimli::DW_AT_discr_value) {
        let value = whole_number(&value)? as u128;
        return Some(vec![(value, value)]);
    }
    let AttributeValue::Block(mut block) = variant.value(gimli::DW_AT_discr_list)? else {
        return None;
    };
    let mut values = Vec::new();
    while !block.is_empty() && values.len() < VALUES_LIMIT {
        let is_range = block.read_u8().ok()? == gimli::DW_DSC_range.0;
        let low = u128::from(block.read_uleb128().ok()?);
        let high = if is_range { u128::from(block.read_uleb128().ok()?) } else { low };
        values.push((low, high));
    }
    Some(values)
}

/// A constant of up to 16 bytes.
pub(crate) fn whole_number(value: &AttributeValue<crate::debug_info::Bytes>) -> Option<i128> {
    match value {
        AttributeValue::Data1(number) => Some((*number).into()),
        AttributeValue::Data2(number) => Some((*number).into()),
        AttributeValue::Data4(number) => Some((*number).into()),
        AttributeValue::Data8(number) | AttributeValue::Udata(number) => Some((*number).into()),
        AttributeValue::Sdata(number) => Some((*number).into()),
        AttributeValue::Data16(number) => Some(*number as i128),
        AttributeValue::Block(bytes) if bytes.len() <= 16 => {
            let mut room = [0; 16];
            let mut bytes = bytes.clone();
            let length = bytes.len();
            bytes.read_slice(&mut room[..length]).ok()?;
            Some(u128::from_le_bytes(room) as i128)
        }
        _ => None,
    }
}

fn enumeration(die: &Die, spot: &Spot, language: Language) -> Enumeration {
    let is_scoped = die.flag(gimli::DW_AT_enum_class) || language == Language::Rust;
    let declared_signed = base_behind(die)
        .map(|base| matches!(encoding(&base, None, None), Encoding::Signed | Encoding::SignedChar));
    let bits = die.number(gimli::DW_AT_byte_size).unwrap_or(4).min(16) * 8;
    let enumerators: Vec<(Arc<str>, i128)> = (die.children().iter())
        .filter(|child| child.tag() == gimli::DW_TAG_enumerator)
        .filter_map(|child| {
            let value = child.value(gimli::DW_AT_const_value)?;
            // Data of the very size of the type can be meant with sign.
            let number = match value {
                AttributeValue::Sdata(number) => number.into(),
                _ if declared_signed == Some(true) => sign_extended(whole_number(&value)?, bits),
                _ => whole_number(&value)?,
            };
            Some((child.text(gimli::DW_AT_name)?, number))
        })
        .collect();
    let is_signed =
        declared_signed.unwrap_or(false) || enumerators.iter().any(|(_, value)| *value < 0);
    // As for gdb: with one that takes the bit of the sign they are numbers.
    let is_flag =
        |value: i128| (0..=i128::from(i64::MAX)).contains(&value) && value.count_ones() <= 1;
    let is_flags = enumerators.iter().all(|(_, value)| is_flag(*value));
    let enumerators = qualified(enumerators, is_scoped, die, spot, language);
    Enumeration {
        enumerators,
        is_scoped,
        is_flags,
        is_signed,
        is_declaration: die.flag(gimli::DW_AT_declaration),
    }
}

/// Enumerators with what they are within, as C++ and Rust name them.
fn qualified(
    enumerators: Vec<(Arc<str>, i128)>,
    is_scoped: bool,
    die: &Die,
    spot: &Spot,
    language: Language,
) -> Vec<(Arc<str>, i128)> {
    if language == Language::C {
        return enumerators;
    }
    let own =
        if is_scoped { die.text(gimli::DW_AT_name).unwrap_or_default() } else { Arc::from("") };
    let mut around = super::names::scoped(spot, &own);
    if !own.is_empty() {
        around.push_str("::");
    }
    enumerators.into_iter().map(|(name, value)| (format!("{around}{name}").into(), value)).collect()
}

fn sign_extended(value: i128, bits: u64) -> i128 {
    let unused = 128u32.saturating_sub(bits as u32).min(127);
    value << unused >> unused
}

fn signature(die: &Die) -> Signature {
    let die = die.origins().last().unwrap_or_else(|| die.clone());
    let children = die.children();
    Signature {
        result: Link::at(die.reference(gimli::DW_AT_type)),
        parameters: (children.iter())
            .filter(|child| child.tag() == gimli::DW_TAG_formal_parameter)
            .map(|child| Link::at(child.reference(gimli::DW_AT_type)))
            .collect(),
        is_variadic: children
            .iter()
            .any(|child| child.tag() == gimli::DW_TAG_unspecified_parameters),
        is_prototyped: die.flag(gimli::DW_AT_prototyped) || die.spot().language() != Language::C,
    }
}

/// The definition of what is only declared, in any unit of the file.
pub(super) fn definition_of(declared: &Type) -> Option<Spot> {
    let info = declared.info()?;
    let name = declared.own_name()?;
    let path = super::names::within_scopes(declared);
    let wanted = std::mem::discriminant(declared.kind());
    (info.named(name).iter())
        .filter(|found| matches!(found.kind, EntryKind::Type))
        .filter(|found| declared.language() == Language::C || info.qualified_name(found) == path)
        .filter_map(|found| Spot::new(info, &found.entry).read())
        .filter(|die| !die.flag(gimli::DW_AT_declaration))
        .find(|die| std::mem::discriminant(Type::of(die).kind()) == wanted)
        .map(|die| die.spot())
}
