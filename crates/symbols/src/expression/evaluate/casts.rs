//! Values of one type taken for another.

use super::super::EvaluationError;
use super::super::arithmetic::{Class, value_of};
use super::super::syntax::Node;
use super::{Evaluation, Outcome};
use crate::types::{Encoding, Kind, MemberKind, Type, VISITS_LIMIT, visit};
use crate::value::{Number, Value};

/// How deep bases are looked for.
const BASES: usize = 16;

impl Evaluation<'_> {
    pub(super) fn cast(&self, ty: Type, node: &Node) -> Outcome {
        let value = self.operand(node)?;
        let target = ty.strip();
        if let Kind::Reference(link, _) = target.kind() {
            let address =
                value.address().ok_or_else(|| EvaluationError::NotInMemory(node.to_string()))?;
            return Ok(Value::in_memory(self.scope.sized(link.follow()), address));
        }
        if matches!(target.kind(), Kind::Record(_) | Kind::Array { .. }) {
            let is_same = value.ty.is_like(&ty)
                || value.ty.strip().size() == target.size() && target.size().is_some();
            return match is_same {
                true => Ok(value.with_type(ty)),
                false => Err(EvaluationError::Unsuitable(format!(
                    "a `{}` cannot be taken for a `{}`; write `*({} *) &...` to look at its memory",
                    value.ty.name(),
                    ty.name(),
                    ty.name()
                ))),
            };
        }
        if matches!(target.kind(), Kind::Void) {
            return Ok(Value::computed(ty, &[0]));
        }
        let number = self.plain_number(&value, node)?;
        if let Kind::Base(Encoding::Boolean) = target.kind() {
            return Ok(value_of(ty, Number::Unsigned(number.is_true().into())));
        }
        if let (Some(to), Some(from)) = (target.target(), self.decayed(&value).ty.target()) {
            let address =
                (number.to_integer() as u64).wrapping_add(base_distance(&from, &to) as u64);
            return Ok(value_of(ty, Number::Unsigned(address.into())));
        }
        let number = match Class::of(&target) {
            Some(class) => class.convert(number),
            None => number,
        };
        Ok(value_of(ty, number))
    }
}

/// How far a base is from the class that has it, or the other way round.
fn base_distance(from: &Type, to: &Type) -> i64 {
    let up = base_offset(&from.strip(), &to.strip().name(), BASES, &mut { VISITS_LIMIT });
    let down = || {
        base_offset(&to.strip(), &from.strip().name(), BASES, &mut { VISITS_LIMIT })
            .map(|offset| -offset)
    };
    up.or_else(down).unwrap_or(0)
}

fn base_offset(class: &Type, base: &str, depth: usize, left: &mut usize) -> Option<i64> {
    let depth = depth.checked_sub(1).filter(|_| visit(left))?;
    class.record()?.members.iter().find_map(|member| {
        let MemberKind::Base(offset) = member.kind else { return None };
        let own = member.ty.follow().strip();
        let inner = if &*own.name() == base { 0 } else { base_offset(&own, base, depth, left)? };
        Some((offset as i64).wrapping_add(inner))
    })
}
