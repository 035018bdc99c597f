//! Parameters at the entry of a function.
//!
//! Without optimization the debug information says where a parameter is once the first instructions have stored it
//! there, and nothing about the entry. There they are where the calling convention (System V, x86-64) has them: each
//! eight bytes of a small value in the next register of its class, everything else on the stack.
//!
//! Rust promises no convention. What it does for numbers, pointers and pairs of them is the same; larger values it
//! passes by address.

use super::by_address::is_passed_by_address;
use super::lookup::entry_address;
use super::{FrameScope, Variable, VariableKind, scope_children};
use crate::types::{
    Count, Die, Encoding, Kind, Link, Member, MemberKind, Type, VISITS_LIMIT, visit,
};
use crate::value::{Contents, Held, Origin, Value};

/// The DWARF numbers of the registers for integers: rdi, rsi, rdx, rcx, r8, r9.
const INTEGER_REGISTERS: [u16; 6] = [5, 4, 1, 2, 8, 9];
const VECTOR_REGISTERS: u16 = 8;
const FIRST_VECTOR: u16 = 17;
/// Bytes of a vector register that are known.
const VECTOR_BYTES: usize = 16;
/// Bytes of the largest vectors that there are registers for.
const LARGEST_VECTOR: usize = 64;
const DEPTH: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    None,
    Integer,
    Vector,
    Memory,
}

/// What is left for the next parameters.
struct Passing<'s, 'a> {
    scope: &'s FrameScope<'a>,
    integers: usize,
    vectors: u16,
    /// The next place on the stack.
    stack: u64,
}

impl FrameScope<'_> {
    /// Whether anything is known of parameters of the function with code of its own around the address.
    pub fn has_parameters(&self) -> bool {
        let is_parameter = |die: &Die| die.tag() == gimli::DW_TAG_formal_parameter;
        self.function().is_some_and(|function| scope_children(function).iter().any(is_parameter))
    }

    /// The parameters of the function with code of its own around the address.
    pub(super) fn arguments(&self) -> Vec<Variable> {
        let Some(function) = self.function() else { return Vec::new() };
        let is_entry = self.module.as_ref().is_some_and(|module| {
            entry_address(function) == Some(module.file_address(self.frame.pc))
        });
        let parameters = scope_children(function);
        let mut passing = Passing::new(self);
        let mut variables = Vec::new();
        for die in parameters {
            match die.tag() {
                gimli::DW_TAG_formal_parameter => {}
                gimli::DW_TAG_unspecified_parameters => break,
                _ => continue,
            }
            let ty =
                die.origin_with(gimli::DW_AT_type).and_then(|die| die.reference(gimli::DW_AT_type));
            let ty = self.sized_type(Link::at(ty).follow());
            let by_convention = passing.next(&ty);
            let Some(name) = die.name() else { continue };
            let mut variable = self.variable_of(&die, name, VariableKind::Parameter, 0, false);
            if is_entry && self.is_stored_later(&die) {
                variable.value = by_convention;
            }
            variable.is_artificial = die.origin_with(gimli::DW_AT_artificial).is_some();
            variables.push(variable);
        }
        variables
    }
}

impl<'s, 'a> Passing<'s, 'a> {
    fn new(scope: &'s FrameScope<'a>) -> Passing<'s, 'a> {
        // The return address is below them.
        let stack = scope.frame.machine.register(7).unwrap_or(0).wrapping_add(8);
        let mut passing = Passing { scope, integers: 0, vectors: 0, stack };
        // The caller says where a large result goes, in the first register.
        if scope.result_type().is_some_and(|ty| is_returned_by_address(&ty)) {
            passing.integers = 1;
        }
        passing
    }

    /// The next parameter.
    fn next(&mut self, ty: &Type) -> Value {
        let size = ty.size().unwrap_or(8);
        if is_passed_by_address(ty) {
            let address = self.integer();
            return match address {
                Some(address) => Value::in_memory(ty.clone(), address),
                None => Value::optimized_out(ty.clone()),
            };
        }
        if is_vector(ty) && self.vectors < VECTOR_REGISTERS {
            let number = self.vectors;
            self.vectors += 1;
            return match self.scope.frame.machine.vector(number) {
                Some(bytes) => vector_value(ty, bytes, number),
                None => Value::optimized_out(ty.clone()),
            };
        }
        let classes = classes(ty);
        let wanted = |class: Class| classes.iter().filter(|own| **own == class).count();
        let fits = self.integers + wanted(Class::Integer) <= INTEGER_REGISTERS.len()
            && usize::from(self.vectors) + wanted(Class::Vector) <= usize::from(VECTOR_REGISTERS);
        if classes.contains(&Class::Memory) || !fits {
            let alignment = match is_vector(ty) {
                true => size.checked_next_power_of_two().unwrap_or(8).max(8),
                false if is_extended(ty) => 16,
                false => 8,
            };
            // The stack is aligned before the return address is pushed.
            let address = self.stack.checked_next_multiple_of(alignment).unwrap_or(self.stack);
            self.stack = address.wrapping_add(size.checked_next_multiple_of(8).unwrap_or(size));
            return Value::in_memory(ty.clone(), address);
        }
        let mut bytes = Vec::new();
        let mut missing = Vec::new();
        let mut origin = Origin::Pieces;
        for class in &classes {
            let part = match class {
                Class::Integer => {
                    origin = Origin::Register(INTEGER_REGISTERS[self.integers.min(5)]);
                    self.integer()
                }
                Class::Vector => {
                    origin = Origin::Register(FIRST_VECTOR + self.vectors);
                    self.vector()
                }
                _ => Some(0),
            };
            if part.is_none() {
                missing.push(bytes.len()..bytes.len() + 8);
            }
            bytes.extend_from_slice(&part.unwrap_or(0).to_le_bytes());
        }
        bytes.truncate(size as usize);
        if bytes.is_empty() {
            return Value::computed(ty.clone(), &bytes);
        }
        let origin = if classes.len() == 1 { origin } else { Origin::Pieces };
        let held = Held { bytes: bytes.into(), missing, origin };
        Value { ty: ty.clone(), contents: Contents::Held(held), bits: None }
    }

    fn integer(&mut self) -> Option<u64> {
        let number = *INTEGER_REGISTERS.get(self.integers)?;
        self.integers += 1;
        self.scope.frame.machine.register(number)
    }

    fn vector(&mut self) -> Option<u64> {
        let bytes = self.scope.frame.machine.vector(self.vectors)?;
        self.vectors += 1;
        Some(crate::value::scalar::bits_of(&bytes) as u64)
    }
}

/// Whether it is a vector, which one register has all of.
pub(super) fn is_vector(ty: &Type) -> bool {
    matches!(ty.strip().kind(), Kind::Array { is_vector: true, .. })
}

/// A vector in a register, as far as that is known.
pub(super) fn vector_value(ty: &Type, register: [u8; VECTOR_BYTES], number: u16) -> Value {
    let size = usize::try_from(ty.size().unwrap_or(0)).unwrap_or(0).min(LARGEST_VECTOR);
    let mut bytes = register.to_vec();
    bytes.resize(size, 0);
    let missing = (size > VECTOR_BYTES).then_some(VECTOR_BYTES..size).into_iter().collect();
    let origin = Origin::Register(FIRST_VECTOR + number);
    let contents = Contents::Held(Held { bytes: bytes.into(), missing, origin });
    Value { ty: ty.clone(), contents, bits: None }
}

fn is_extended(ty: &Type) -> bool {
    matches!(ty.strip().kind(), Kind::Base(Encoding::Float)) && ty.size() == Some(16)
}

/// Whether the caller says where a result of this type goes.
fn is_returned_by_address(ty: &Type) -> bool {
    let is_in_x87 = is_extended(ty);
    is_passed_by_address(ty) || !is_vector(ty) && !is_in_x87 && classes(ty).contains(&Class::Memory)
}

/// The class of each eight bytes.
pub(super) fn classes(ty: &Type) -> Vec<Class> {
    let size = ty.size().unwrap_or(8);
    let stripped = ty.strip();
    match stripped.kind() {
        Kind::Base(Encoding::Float) if size == 16 => vec![Class::Memory],
        Kind::Base(Encoding::Float) => vec![Class::Vector],
        Kind::Base(Encoding::ComplexFloat) => match size {
            8 => vec![Class::Vector],
            16 => vec![Class::Vector; 2],
            _ => vec![Class::Memory],
        },
        Kind::Base(_) if size == 16 => vec![Class::Integer; 2],
        Kind::Array { is_vector: true, .. } => vec![Class::Memory],
        Kind::Record(_) | Kind::Array { .. } if size > 16 => vec![Class::Memory],
        Kind::Record(_) | Kind::Array { .. } => {
            let mut classes = vec![Class::None; size.div_ceil(8) as usize];
            classify(&stripped, 0, &mut classes, DEPTH, &mut { VISITS_LIMIT });
            match classes.contains(&Class::Memory) {
                true => vec![Class::Memory],
                false => classes,
            }
        }
        _ => vec![Class::Integer],
    }
}

fn merge(classes: &mut [Class], class: Class, from: u64, size: u64) {
    for index in from / 8..(from + size).div_ceil(8) {
        if let Some(own) = classes.get_mut(index as usize) {
            *own = match (*own, class) {
                (Class::Memory, _) | (_, Class::Memory) => Class::Memory,
                (Class::Integer, _) | (_, Class::Integer) => Class::Integer,
                _ => Class::Vector,
            };
        }
    }
}

/// Merges what lies at an offset into the classes: integers win over vectors.
fn classify(ty: &Type, offset: u64, classes: &mut [Class], depth: usize, left: &mut usize) {
    let Some(depth) = depth.checked_sub(1).filter(|_| visit(left)) else { return };
    let stripped = ty.strip();
    let size = stripped.size().unwrap_or(8).min(16);
    match stripped.kind() {
        Kind::Record(record) => {
            let variants = record.variants.iter().flat_map(|variants| {
                let discriminant = variants.discriminant.as_deref();
                discriminant
                    .into_iter()
                    .chain(variants.variants.iter().flat_map(|variant| &variant.members))
            });
            let members: Vec<&Member> = record.members.iter().chain(variants).collect();
            for member in members {
                match member.kind {
                    MemberKind::At(at) | MemberKind::Base(at) if at < 16 => {
                        classify(&member.ty.follow(), offset + at, classes, depth, left);
                    }
                    MemberKind::Bits(bits) if bits.offset < 128 => {
                        let class = Class::Integer;
                        if let Some(own) =
                            classes.get_mut(((offset * 8 + bits.offset) / 64) as usize)
                        {
                            *own = class;
                        }
                    }
                    _ => {}
                }
            }
        }
        Kind::Array { element, count: Count::Known(count), .. } => {
            let element = element.follow();
            let step = element.size().unwrap_or(8).max(1);
            for index in 0..(*count).min(16) {
                classify(&element, offset + index * step, classes, depth, left);
            }
        }
        Kind::Base(Encoding::Float) if size == 16 => merge(classes, Class::Memory, offset, size),
        Kind::Base(Encoding::Float | Encoding::ComplexFloat) => {
            merge(classes, Class::Vector, offset, size)
        }
        _ => merge(classes, Class::Integer, offset, size),
    }
}
