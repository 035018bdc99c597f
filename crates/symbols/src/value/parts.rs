//! What a value is made of: elements, members, bases.
//!
//! Everything that looks into values goes through here, so that text, trees and expressions agree.

use std::sync::Arc;

use crate::types::{
    Count, Kind, Language, Member, MemberKind, NESTING_LIMIT, Record, Type, VISITS_LIMIT, Variant,
    visit,
};
use crate::value::{SyntheticPointer, Value, scalar};
use crate::variables::Scope;

/// A part of a record.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) label: Label,
    /// None if it cannot be found.
    pub(crate) value: Option<Value>,
}

/// What a part is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Label {
    Member(Arc<str>),
    Static(Arc<str>),
    Base(Arc<str>),
    /// A union or structure without a name.
    Anonymous,
}

impl Label {
    pub(crate) fn text(&self) -> &str {
        match self {
            Label::Member(name) | Label::Static(name) | Label::Base(name) => name,
            Label::Anonymous => "",
        }
    }
}

impl Value {
    /// The parts of a record in order; of other values none.
    pub(crate) fn record_parts(&self, scope: &dyn Scope) -> Vec<Part> {
        let ty = self.ty.strip();
        let Some(record) = ty.record() else { return Vec::new() };
        let variant = self.variant(record, scope).map_or(&[][..], |variant| &variant.members);
        record.members.iter().chain(variant).map(|member| self.part_of(member, scope)).collect()
    }

    fn part_of(&self, member: &Member, scope: &dyn Scope) -> Part {
        let label = match (&member.kind, &member.name) {
            (MemberKind::Base(_) | MemberKind::VirtualBase(_), _) => {
                Label::Base(member.ty.follow().name())
            }
            (MemberKind::Static(_), Some(name)) => Label::Static(Arc::clone(name)),
            (_, Some(name)) => Label::Member(Arc::clone(name)),
            (_, None) => Label::Anonymous,
        };
        Part { label, value: self.member_value(member, scope) }
    }

    /// A member of this record.
    pub(crate) fn member_value(&self, member: &Member, scope: &dyn Scope) -> Option<Value> {
        let ty = member.ty.follow();
        match &member.kind {
            MemberKind::At(offset) if self.is_beyond(*offset, &ty) => {
                Some(Value::optimized_out(ty))
            }
            MemberKind::At(offset) | MemberKind::Base(offset) => {
                Some(self.part(*offset, scope.sized(ty)))
            }
            MemberKind::Bits(bits) => Some(self.bit_part(*bits, ty)),
            MemberKind::VirtualBase(spot) => {
                let address = scope.member_address(spot, self.address()?)?;
                Some(Value::in_memory(ty, address))
            }
            MemberKind::Static(spot) => scope.value_at(spot),
        }
    }

    /// Whether a member lies behind the end of this record. rustc says of functions in records that they are pointers, but
    /// they take no room.
    fn is_beyond(&self, offset: u64, member: &Type) -> bool {
        let end = member.size().map_or(Some(0), |size| offset.checked_add(size));
        self.ty.language() == Language::Rust
            && self.ty.size().is_some_and(|size| end.is_none_or(|end| end > size))
    }

    /// A member by name, also of bases and of members without a name.
    pub(crate) fn member(&self, name: &str, scope: &dyn Scope) -> Option<Value> {
        self.member_within(name, scope, NESTING_LIMIT, &mut { VISITS_LIMIT })
    }

    fn member_within(
        &self,
        name: &str,
        scope: &dyn Scope,
        depth: usize,
        left: &mut usize,
    ) -> Option<Value> {
        let depth = depth.checked_sub(1)?;
        let ty = self.ty.strip();
        let record = ty.record()?;
        let variant = self.variant(record, scope).map_or(&[][..], |variant| &variant.members);
        let members = || record.members.iter().chain(variant);
        let own = |member: &&Member| {
            member.name.as_deref().is_some_and(|own| own == name || is_tuple_field(own, name))
        };
        if let Some(member) = members().find(own) {
            return self.member_value(member, scope);
        }
        let unnamed = |member: &&Member| member.name.is_none();
        // The members of a Rust variant are seen through its name.
        let is_seen_through = |member: &&Member| unnamed(member) || record.variants.is_some();
        (members().filter(is_seen_through))
            .filter(|member| !matches!(member.kind, MemberKind::Static(_)))
            .find_map(|member| {
                visit(left).then_some(())?;
                self.member_value(member, scope)?.member_within(name, scope, depth, left)
            })
    }

    /// The variant that a Rust enumeration is.
    pub(crate) fn variant<'r>(&self, record: &'r Record, scope: &dyn Scope) -> Option<&'r Variant> {
        let variants = record.variants.as_ref()?;
        let Some(discriminant) = &variants.discriminant else { return variants.variants.first() };
        let value = self.member_value(discriminant, scope)?;
        let size = value.ty.size().unwrap_or(8);
        let number = value.number(scope.machine()).ok()??.to_integer() as u128;
        let number = scalar::zero_extend(number, size);
        let is_meant = |variant: &&Variant| {
            variant.values.as_ref().is_some_and(|values| {
                values.iter().any(|&(low, high)| {
                    (scalar::zero_extend(low, size)..=scalar::zero_extend(high, size))
                        .contains(&number)
                })
            })
        };
        let variants = &variants.variants;
        (variants.iter().find(is_meant))
            .or_else(|| variants.iter().find(|variant| variant.values.is_none()))
    }

    /// The element type and the count of an array.
    pub(crate) fn elements(&self) -> Option<(Type, u64)> {
        match self.ty.strip().kind() {
            Kind::Array { element, count, .. } => {
                let count = match count {
                    Count::Known(count) => *count,
                    _ => 0,
                };
                Some((element.follow(), count))
            }
            _ => None,
        }
    }
}

impl SyntheticPointer {
    /// What it points to: the type is the pointer's, not that of the variable there.
    pub(crate) fn target_as(&self, ty: Type, scope: &dyn Scope) -> Option<Value> {
        let variable = scope.value_behind(self)?;
        let offset = u64::try_from(self.offset).ok()?;
        match ty.size() {
            Some(1..) => Some(variable.part(offset, ty)),
            // What has no size is what is there.
            _ => (offset == 0).then_some(variable),
        }
    }
}

/// Rust's debug information calls the first field of a tuple `__0`.
fn is_tuple_field(own: &str, name: &str) -> bool {
    own.strip_prefix("__").is_some_and(|number| number == name)
}
