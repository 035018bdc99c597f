//! Where a variable is at an address: constants, DWARF expressions, location lists, and values in pieces.

mod evaluation;

use gimli::{AttributeValue, Expression, Location, Operation, Reader as _};

use super::FrameScope;
use crate::debug_info::{Bytes, EntryKind};
use crate::types::{
    Count, DEPTH_LIMIT, Die, Kind, Link, RecordKind, Spot, Type, scoped, within_scopes,
};
use crate::value::Value;
use evaluation::Evaluation;

/// Entries of a location list.
const LIST_LIMIT: usize = 1 << 16;

/// Bytes of a constant.
const CONSTANT_LIMIT: u64 = 1 << 16;

impl<'a> FrameScope<'a> {
    /// The variable or parameter of an entry.
    pub(super) fn value_of(&self, die: &Die) -> Value {
        let ty =
            die.origin_with(gimli::DW_AT_type).and_then(|die| die.reference(gimli::DW_AT_type));
        self.value_as(die, self.sized_type(Link::at(ty).follow()))
    }

    fn value_as(&self, die: &Die, ty: Type) -> Value {
        self.contents_of(die, &ty).unwrap_or_else(|| Value::optimized_out(ty))
    }

    fn contents_of(&self, die: &Die, ty: &Type) -> Option<Value> {
        if let Some(located) = die.origins().find(|die| die.has(gimli::DW_AT_location)) {
            let expression = self.location(&located, gimli::DW_AT_location)?;
            let evaluation = Evaluation::new(self, &located)?;
            let pieces = evaluation.run(expression, None).ok()?;
            return evaluation.value(ty, pieces);
        }
        if let Some(constant) = die.origin_with(gimli::DW_AT_const_value) {
            return constant_value(&constant.value(gimli::DW_AT_const_value)?, ty);
        }
        // What the compiler has removed has no location either; others may have its name.
        if !die.origins().any(|die| die.flag(gimli::DW_AT_declaration)) {
            return None;
        }
        let definition = self.definition_of(die)?;
        definition.has(gimli::DW_AT_location).then(|| self.contents_of(&definition, ty))?
    }

    /// The definition of a static member or of something that is only declared.
    fn definition_of(&self, die: &Die) -> Option<Die> {
        let name = die.name()?;
        let spot = die.spot();
        let path = scoped(&spot, &name);
        let found = die.info.named(&name);
        (found.iter().filter(|found| matches!(found.kind, EntryKind::Variable)))
            .filter_map(|found| Spot::new(&die.info, &found.entry).read())
            // Where types have units of their own, the definition refers to another copy of the declaration.
            .find(|found| found.has(gimli::DW_AT_location) && scoped(&found.spot(), &name) == path)
    }

    /// The expression of an attribute that holds at the frame's address.
    fn location(&self, die: &Die, attribute: gimli::DwAt) -> Option<Expression<Bytes>> {
        match die.value(attribute)? {
            AttributeValue::Exprloc(expression) => Some(expression),
            AttributeValue::Block(bytes) => Some(Expression(bytes)),
            value => {
                let address = self.module.as_ref()?.file_address(self.frame.pc);
                let mut list = die.unit.unit_ref().attr_locations(value).ok()??;
                for _ in 0..LIST_LIMIT {
                    let entry = list.next().ok()??;
                    if (entry.range.begin..entry.range.end).contains(&address) {
                        return Some(entry.data);
                    }
                }
                None
            }
        }
    }

    /// Whether what is said of a parameter holds only once the first instructions have stored it there. Not if it depends on the
    /// address, and not of what is the same in all calls of this copy of a function.
    pub(super) fn is_stored_later(&self, die: &Die) -> bool {
        let Some(located) = die.origins().find(|die| die.has(gimli::DW_AT_location)) else {
            return die.origin_with(gimli::DW_AT_const_value).is_none();
        };
        let is_list = !matches!(
            located.value(gimli::DW_AT_location),
            Some(AttributeValue::Exprloc(_) | AttributeValue::Block(_))
        );
        !is_list && !self.is_constant(&located)
    }

    /// Whether the location of an entry says its value, not where that is.
    fn is_constant(&self, located: &Die) -> bool {
        let Some(expression) = self.location(located, gimli::DW_AT_location) else { return false };
        let mut operations = expression.operations(located.unit.unit().encoding());
        while let Ok(Some(operation)) = operations.next() {
            use Operation::{ImplicitPointer, ImplicitValue, StackValue};
            if matches!(operation, StackValue | ImplicitValue { .. } | ImplicitPointer { .. }) {
                return true;
            }
        }
        false
    }

    fn frame_base(&self, depth: usize) -> Option<u64> {
        let function = self.function()?;
        let expression = self.location(function, gimli::DW_AT_frame_base)?;
        let evaluation = Evaluation::new(self, function)?.nested(depth);
        evaluation.number(expression)
    }

    /// Where a virtual base of an object is.
    pub(super) fn address_of_member(&self, spot: &Spot, object: u64) -> Option<u64> {
        let die = spot.read()?;
        let AttributeValue::Exprloc(expression) = die.value(gimli::DW_AT_data_member_location)?
        else {
            return None;
        };
        let evaluation = Evaluation::new(self, &die)?.of_object(object);
        let pieces = evaluation.run(expression, Some(object)).ok()?;
        match pieces.first()?.location {
            Location::Address { address } => Some(address),
            _ => None,
        }
    }

    /// A type as it is in this frame: arrays have their counts, and what is only declared its definition.
    pub(super) fn sized_type(&self, ty: Type) -> Type {
        self.sized_within(ty, DEPTH_LIMIT / 4)
    }

    fn sized_within(&self, ty: Type, depth: usize) -> Type {
        let Some(depth) = depth.checked_sub(1) else { return ty };
        match ty.strip().kind() {
            Kind::Array { element, count, .. } => {
                let element = element.follow();
                let inner = self.sized_within(element.clone(), depth);
                match count {
                    // Without its count it has no size either.
                    Count::Computed(computed) => {
                        self.count_of(&computed.subrange).map_or(ty, |count| inner.array(count))
                    }
                    Count::Known(count) if inner.size() != element.size() => inner.array(*count),
                    _ => ty,
                }
            }
            Kind::Record(record) if record.is_declaration => {
                self.defined_elsewhere(&ty.strip(), record.kind).unwrap_or(ty)
            }
            _ => ty,
        }
    }

    /// The definition, in another file, of a type that its own file only declares: `DIR` is defined in the C library alone.
    fn defined_elsewhere(&self, declared: &Type, kind: RecordKind) -> Option<Type> {
        let tag = if kind == RecordKind::Union { "union" } else { "struct" };
        let path = within_scopes(declared);
        self.find_type(Some(tag), &path).filter(|found| within_scopes(found) == path)
    }

    fn count_of(&self, subrange: &Spot) -> Option<u64> {
        let die = subrange.read()?;
        let lower =
            die.value(gimli::DW_AT_lower_bound).and_then(|value| value.sdata_value()).unwrap_or(0);
        if let Some(count) = die.value(gimli::DW_AT_count) {
            return u64::try_from(self.bound(&die, count)?).ok();
        }
        let upper = self.bound(&die, die.value(gimli::DW_AT_upper_bound)?)?;
        let count = i128::from(upper) - i128::from(lower) + 1;
        u64::try_from(count.max(0)).ok()
    }

    /// A bound: an expression for its place or its value, or a variable that holds it.
    fn bound(&self, die: &Die, value: AttributeValue<Bytes>) -> Option<i64> {
        match value {
            AttributeValue::Exprloc(expression) => {
                let evaluation = Evaluation::new(self, die)?;
                let pieces = evaluation.run(expression, None).ok()?;
                match &pieces.first()?.location {
                    // The value is what the expression leaves, and that looks like an address.
                    Location::Address { address } => Some(*address as i64),
                    _ => {
                        let value = evaluation.value(
                            &Type::base("long", crate::types::Encoding::Signed, 8),
                            pieces,
                        )?;
                        Some(value.number(self.frame.machine).ok()??.to_integer() as i64)
                    }
                }
            }
            reference => {
                let found = die.info.resolve(&die.unit, reference)?;
                let variable = Spot::new(&die.info, &found).read()?;
                // A number: its type must not depend on a bound again.
                let ty =
                    Link::at(variable.origin_with(gimli::DW_AT_type)?.reference(gimli::DW_AT_type))
                        .follow();
                let number = self.value_as(&variable, ty).number(self.frame.machine).ok()??;
                i64::try_from(number.to_integer()).ok()
            }
        }
    }

    /// The number that an expression of an entry leaves, in this frame.
    pub(super) fn computed_number(&self, die: &Die, expression: Expression<Bytes>) -> Option<u64> {
        Evaluation::new(self, die)?.number(expression)
    }
}

/// The bytes of a constant.
fn constant_value(value: &AttributeValue<Bytes>, ty: &Type) -> Option<Value> {
    let size = ty.size().filter(|&size| size <= CONSTANT_LIMIT)? as usize;
    if let AttributeValue::Block(block) = value {
        let mut bytes = vec![0; size];
        let mut block = block.clone();
        let length = block.len().min(size);
        block.read_slice(&mut bytes[..length]).ok()?;
        return Some(Value::computed(ty.clone(), &bytes));
    }
    if let AttributeValue::String(text) = value {
        let mut bytes = text.to_slice().ok()?.into_owned();
        bytes.resize(size, 0);
        return Some(Value::computed(ty.clone(), &bytes));
    }
    let number = crate::types::constant(value)?;
    let bytes = number.to_le_bytes();
    Some(Value::computed(ty.clone(), bytes.get(..size)?))
}
