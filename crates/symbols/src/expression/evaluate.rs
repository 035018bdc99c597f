//! From the tree of an expression to its value.

mod casts;
mod literals;
mod texts;

use super::arithmetic::{self, Class, value_of};
use super::lexer::Suffix;
use super::syntax::{Binary, Name, Node, Unary};
use super::{EvaluationError, registers, type_names};
use crate::types::{Encoding, Kind, Language, Type};
use crate::value::containers::{self, Container};
use crate::value::{Contents, Number, Value};
use crate::variables::Scope;

/// The value of a tree.
pub(super) fn evaluate(node: &Node, scope: &dyn Scope) -> Result<Value, EvaluationError> {
    Evaluation { scope }.evaluate(node)
}

struct Evaluation<'a> {
    scope: &'a dyn Scope,
}

type Outcome = Result<Value, EvaluationError>;

impl Evaluation<'_> {
    fn evaluate(&self, node: &Node) -> Outcome {
        match node {
            Node::Integer { value, suffix, is_decimal } => {
                Ok(literals::integer(*value, *suffix, *is_decimal))
            }
            Node::Float { value, suffix } => {
                let size = match suffix {
                    Suffix::Float => 4,
                    Suffix::LongDouble => 16,
                    Suffix::SizedFloat(size) => u64::from(*size),
                    _ => 8,
                };
                Ok(Class::Float { size }.value(Number::Float(*value)))
            }
            Node::Character { code, prefix } => Ok(literals::character(*code, *prefix)),
            Node::Text(bytes) => {
                let bytes: Vec<u8> = bytes.iter().copied().chain([0]).collect();
                Ok(Value::computed(type_names::character().array(bytes.len() as u64), &bytes))
            }
            Node::Truth(truth) => Ok(arithmetic::truth(*truth)),
            Node::Name(name) => self.name(name),
            Node::Register(name) => registers::read(name, self.scope.machine()),
            Node::Unary(Unary::Dereference, operand) => {
                let value = self.operand(operand)?;
                self.dereference(&value, operand)
            }
            Node::Unary(Unary::Address, operand) => self.address_of(operand),
            Node::Unary(Unary::Not, operand) => Ok(self.truth(!self.is_true(operand)?)),
            Node::Unary(operator, operand) => {
                let (class, number) = self.number(operand)?;
                arithmetic::unary(*operator, class, number)
            }
            Node::Binary(operator, left, right) => self.binary(*operator, left, right),
            Node::Choice(condition, yes, no) => {
                let is_true = self.is_true(condition)?;
                let (chosen, other) = if is_true { (yes, no) } else { (no, yes) };
                self.choice(chosen, other)
            }
            Node::Member(object, name, _) => self.member(object, name),
            Node::Index(object, index) => self.index(object, index),
            Node::Cast(name, operand) => {
                let ty = type_names::find(name, self.scope)?;
                self.cast(ty, operand)
            }
            Node::At(name, operand) => {
                let ty = type_names::find(name, self.scope)?;
                let address = self.operand(operand)?;
                let address = self.plain_number(&address, operand)?.to_integer() as u64;
                Ok(Value::in_memory(self.scope.sized(ty), address))
            }
            Node::SizeOfType(name) => self.size_of(&type_names::find(name, self.scope)?),
            Node::SizeOf(operand) => self.size_of_operand(operand),
        }
    }

    /// One of two values, as what both would become. The other one may lack a value, and then has no say.
    fn choice(&self, chosen: &Node, other: &Node) -> Outcome {
        let value = self.evaluate(chosen)?;
        let other = self.operand(other).ok().and_then(|other| Class::of(&other.ty));
        match (Class::of(&value.ty), other) {
            (Some(own), Some(other)) => {
                let class = own.common(other);
                Ok(class.value(class.convert(self.plain_number(&value, chosen)?)))
            }
            _ => Ok(value),
        }
    }

    fn name(&self, name: &Name) -> Outcome {
        let path = name.path.strip_prefix("::").unwrap_or(&name.path);
        if let Some(value) = self.scope.variable(name.within.as_deref(), path)? {
            return Ok(value);
        }
        if super::parser::BASE_WORDS.contains(&path) {
            let message = format!("`{path}` is a type: casts are written `(type) value`");
            return Err(EvaluationError::Unsuitable(message));
        }
        Err(EvaluationError::UnknownName(name.path.clone()))
    }

    /// The value of an operand: references are what they refer to.
    fn operand(&self, node: &Node) -> Outcome {
        let value = self.evaluate(node)?;
        self.referred(value, node)
    }

    fn referred(&self, value: Value, node: &Node) -> Outcome {
        match value.ty.strip().kind() {
            Kind::Reference(target, _) => {
                let target = self.scope.sized(target.follow());
                if let Contents::Synthetic(pointer) = &value.contents {
                    return pointer.target_as(target, self.scope).ok_or_else(|| lost(node));
                }
                let address = self.plain_number(&value, node)?.to_integer() as u64;
                Ok(Value::in_memory(target, address))
            }
            _ => Ok(value),
        }
    }

    fn plain_number(&self, value: &Value, node: &Node) -> Result<Number, EvaluationError> {
        let value = self.decayed(value);
        let number = value.number(self.scope.machine());
        let number = number
            .map_err(|absent| EvaluationError::Absent { expression: node.to_string(), absent })?;
        number.ok_or_else(|| {
            EvaluationError::Unsuitable(format!(
                "`{node}` is a `{}`, not a number",
                value.ty.name()
            ))
        })
    }

    /// Arrays and functions are their addresses where numbers are wanted.
    fn decayed(&self, value: &Value) -> Value {
        let target = match value.ty.strip().kind() {
            Kind::Array { element, .. } => element.follow(),
            Kind::Function(_) => value.ty.clone(),
            _ => return value.clone(),
        };
        match value.contents {
            Contents::Memory(address) => {
                value_of(target.pointer(), Number::Unsigned(address.into()))
            }
            _ => value.clone(),
        }
    }

    fn number(&self, node: &Node) -> Result<(Class, Number), EvaluationError> {
        let value = self.operand(node)?;
        let class = Class::of(&value.ty).ok_or_else(|| {
            EvaluationError::Unsuitable(format!(
                "`{node}` is a `{}`, not a number",
                value.ty.name()
            ))
        })?;
        Ok((class, self.plain_number(&value, node)?))
    }

    fn is_true(&self, node: &Node) -> Result<bool, EvaluationError> {
        let value = self.operand(node)?;
        Ok(self.plain_number(&value, node)?.is_true())
    }

    /// A truth value, which in C is a number.
    fn truth(&self, is_true: bool) -> Value {
        match self.scope.language() {
            Language::C => {
                Class::Integer { size: 4, is_signed: true }.value(Number::Signed(is_true.into()))
            }
            _ => arithmetic::truth(is_true),
        }
    }

    fn dereference(&self, value: &Value, node: &Node) -> Outcome {
        if let Some(container) = containers::recognize(value, self.scope) {
            match container {
                Container::Pointer { pointer, .. } => return self.dereference(&pointer, node),
                Container::Boxed(value) => return Ok(value),
                _ => {}
            }
        }
        match value.ty.strip().kind() {
            Kind::Pointer(target) | Kind::Reference(target, _) => {
                let target = target.follow();
                if let Contents::Synthetic(pointer) = &value.contents {
                    let target = self.scope.sized(target);
                    return pointer.target_as(target, self.scope).ok_or_else(|| lost(node));
                }
                if matches!(target.strip().kind(), Kind::Void) {
                    let message = format!(
                        "`{node}` is a `{}`: cast it to say what it points to",
                        value.ty.name()
                    );
                    return Err(EvaluationError::Unsuitable(message));
                }
                let address = self.plain_number(value, node)?.to_integer() as u64;
                Ok(Value::in_memory(self.scope.sized(target), address))
            }
            Kind::Array { element, .. } => Ok(value.part(0, self.scope.sized(element.follow()))),
            Kind::Function(_) => Ok(value.clone()),
            // gdb takes an integer for the address of one.
            Kind::Base(Encoding::Signed | Encoding::Unsigned) => {
                let address = self.plain_number(value, node)?.to_integer() as u64;
                Ok(Value::in_memory(Class::Integer { size: 8, is_signed: true }.ty(), address))
            }
            _ => Err(EvaluationError::Unsuitable(format!(
                "`{node}` is a `{}`, not a pointer",
                value.ty.name()
            ))),
        }
    }

    fn address_of(&self, node: &Node) -> Outcome {
        let value = self.operand(node)?;
        if value.bits.is_some() {
            return Err(EvaluationError::Unsuitable(format!(
                "`{node}` is a field of bits: it has no address"
            )));
        }
        match value.contents {
            Contents::Memory(address) => {
                Ok(value_of(value.ty.pointer(), Number::Unsigned(address.into())))
            }
            _ => Err(EvaluationError::NotInMemory(node.to_string())),
        }
    }

    fn member(&self, node: &Node, name: &str) -> Outcome {
        let mut object = self.operand(node)?;
        // As many pointers as Rust would follow by itself.
        for _ in 0..4 {
            let is_record = matches!(object.ty.strip().kind(), Kind::Record(_));
            if is_record && object.ty.strip().has_member(name) {
                break;
            }
            match (is_record, containers::recognize(&object, self.scope)) {
                (_, Some(Container::Pointer { .. } | Container::Boxed(_))) => {}
                (true, _) => break,
                (false, _) if object.ty.target().is_none() => {
                    let message =
                        format!("`{node}` is a `{}`: it has no members", object.ty.name());
                    return Err(EvaluationError::Unsuitable(message));
                }
                (false, _) => {}
            }
            object = self.dereference(&object, node)?;
        }
        // `object.Base::member` names the class, too.
        let name = name.rsplit("::").next().unwrap_or(name);
        object.member(name, self.scope).ok_or_else(|| EvaluationError::NoMember {
            type_name: object.ty.name().to_string(),
            member: name.to_string(),
        })
    }

    fn index(&self, node: &Node, index: &Node) -> Outcome {
        let (_, number) = self.number(index)?;
        let index = number.to_integer();
        let mut object = self.operand(node)?;
        if let Some(Container::Sequence { elements, .. }) =
            containers::recognize(&object, self.scope)
        {
            object = elements;
        }
        if let Some((element, _)) = object.elements() {
            let element = self.scope.sized(element);
            let size = element.size().ok_or_else(|| incomplete(&element))?;
            return match object.contents {
                Contents::Memory(address) => {
                    let offset = (index as u64).wrapping_mul(size);
                    Ok(Value::in_memory(element, address.wrapping_add(offset)))
                }
                _ => Ok(object
                    .part(u64::try_from(index).unwrap_or(u64::MAX).saturating_mul(size), element)),
            };
        }
        let Some(target) = object.ty.target() else {
            let message = format!("`{node}` is a `{}`: it has no elements", object.ty.name());
            return Err(EvaluationError::Unsuitable(message));
        };
        let pointer = self.moved(&object, &target, index, node)?;
        self.dereference(&pointer, node)
    }

    /// A pointer so many elements on.
    fn moved(&self, pointer: &Value, target: &Type, by: i128, node: &Node) -> Outcome {
        let target = self.scope.sized(target.clone());
        let size = target.size().ok_or_else(|| incomplete(&target))?;
        let address = self.plain_number(pointer, node)?.to_integer() as u64;
        let address = address.wrapping_add((by as u64).wrapping_mul(size));
        Ok(value_of(pointer.ty.clone(), Number::Unsigned(address.into())))
    }

    fn binary(&self, operator: Binary, left_node: &Node, right_node: &Node) -> Outcome {
        match operator {
            Binary::And => {
                return Ok(self.truth(self.is_true(left_node)? && self.is_true(right_node)?));
            }
            Binary::Or => {
                return Ok(self.truth(self.is_true(left_node)? || self.is_true(right_node)?));
            }
            Binary::Repeat => return self.repeat(left_node, right_node),
            Binary::Equal | Binary::Unequal
                if matches!(left_node, Node::Text(_)) || matches!(right_node, Node::Text(_)) =>
            {
                let is_equal = self.text(left_node)? == self.text(right_node)?;
                return Ok(self.truth(is_equal == (operator == Binary::Equal)));
            }
            _ => {}
        }
        let left = self.decayed(&self.operand(left_node)?);
        let right = self.decayed(&self.operand(right_node)?);
        let (left_number, right_number) =
            (self.plain_number(&left, left_node)?, self.plain_number(&right, right_node)?);
        let (left_class, right_class) = (Class::of(&left.ty), Class::of(&right.ty));
        match (left_class, right_class) {
            (Some(left), Some(_)) if matches!(operator, Binary::ShiftLeft | Binary::ShiftRight) => {
                arithmetic::shift(operator, left, left_number, right_number)
            }
            (Some(left), Some(right)) => {
                let value =
                    arithmetic::binary(operator, left.common(right), left_number, right_number)?;
                match operator.is_comparison() {
                    true => {
                        let is_true = value
                            .number(self.scope.machine())
                            .ok()
                            .flatten()
                            .is_some_and(Number::is_true);
                        Ok(self.truth(is_true))
                    }
                    false => Ok(value),
                }
            }
            _ => self.pointers(operator, (&left, left_number), (&right, right_number), left_node),
        }
    }

    /// Arithmetic with at least one pointer.
    fn pointers(
        &self,
        operator: Binary,
        (left, left_number): (&Value, Number),
        (right, right_number): (&Value, Number),
        node: &Node,
    ) -> Outcome {
        let address = Class::Integer { size: 8, is_signed: false };
        if operator.is_comparison() {
            let value = arithmetic::binary(operator, address, left_number, right_number)?;
            let is_true =
                value.number(self.scope.machine()).ok().flatten().is_some_and(Number::is_true);
            return Ok(self.truth(is_true));
        }
        match (operator, left.ty.target(), right.ty.target()) {
            (Binary::Add, Some(target), None) => {
                self.moved(left, &target, right_number.to_integer(), node)
            }
            (Binary::Add, None, Some(target)) => {
                self.moved(right, &target, left_number.to_integer(), node)
            }
            (Binary::Subtract, Some(target), None) => {
                self.moved(left, &target, right_number.to_integer().wrapping_neg(), node)
            }
            (Binary::Subtract, Some(target), Some(_)) => {
                let size =
                    target.size().filter(|&size| size > 0).ok_or_else(|| incomplete(&target))?;
                let bytes = (left_number.to_integer() as u64)
                    .wrapping_sub(right_number.to_integer() as u64)
                    as i64;
                let count = i128::from(bytes) / i128::from(size);
                Ok(Class::Integer { size: 8, is_signed: true }.value(Number::Signed(count)))
            }
            // Masks are common enough to be worth taking an address for a number.
            (
                Binary::BitAnd
                | Binary::BitOr
                | Binary::BitXor
                | Binary::Remainder
                | Binary::ShiftRight,
                ..,
            ) => match operator {
                Binary::ShiftRight => {
                    arithmetic::shift(operator, address, left_number, right_number)
                }
                _ => arithmetic::binary(operator, address, left_number, right_number),
            },
            _ => Err(EvaluationError::Unsuitable(format!(
                "`{}` cannot be done with `{}` and `{}`",
                operator.mark(),
                left.ty.name(),
                right.ty.name()
            ))),
        }
    }

    fn repeat(&self, left: &Node, right: &Node) -> Outcome {
        let (_, count) = self.number(right)?;
        let count = u64::try_from(count.to_integer()).ok().filter(|&count| count > 0);
        let count = count.ok_or_else(|| {
            EvaluationError::Unsuitable("`@` needs a positive number of elements".into())
        })?;
        let first = self.operand(left)?;
        match first.contents {
            Contents::Memory(address) => {
                let array = first.ty.array(count);
                array.size().ok_or_else(|| incomplete(&array))?;
                Ok(Value::in_memory(array, address))
            }
            _ => Err(EvaluationError::NotInMemory(left.to_string())),
        }
    }

    fn size_of(&self, ty: &Type) -> Outcome {
        let size = self.scope.sized(ty.clone()).size().ok_or_else(|| incomplete(ty))?;
        Ok(Class::Integer { size: 8, is_signed: false }.value(Number::Unsigned(size.into())))
    }

    /// `sizeof (name)` may be meant of a type.
    fn size_of_operand(&self, node: &Node) -> Outcome {
        match self.operand(node) {
            Ok(value) => self.size_of(&value.ty),
            Err(error) => match node {
                Node::Name(name) if name.within.is_none() => {
                    match self.scope.type_named(None, &name.path) {
                        Some(ty) => self.size_of(&ty),
                        None => Err(error),
                    }
                }
                _ => Err(error),
            },
        }
    }
}

fn lost(node: &Node) -> EvaluationError {
    EvaluationError::Absent {
        expression: node.to_string(),
        absent: crate::value::Absent::OptimizedOut,
    }
}

fn incomplete(ty: &Type) -> EvaluationError {
    EvaluationError::Unsuitable(format!("the size of `{}` is not known", ty.name()))
}
