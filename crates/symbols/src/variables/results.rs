//! What a function returns, where the calling convention (System V, x86-64) puts it.
//!
//! As for [parameters](super::arguments): each eight bytes of a small value in the next register of its class, larger
//! values in memory that the caller has named and the function names again.

use super::FrameScope;
use super::arguments::{Class, classes, is_vector, vector_value};
use super::by_address::is_passed_by_address;
use crate::machine::Machine;
use crate::types::{Kind, Language, Link, Type};
use crate::value::{Value, scalar};

/// The DWARF numbers of the registers for integers: rax, rdx.
const INTEGER_REGISTERS: [u16; 2] = [0, 1];
/// Those for everything else are the first two vector registers.
const VECTOR_REGISTERS: [u16; 2] = [0, 1];
/// Bytes that they have room for.
const IN_REGISTERS: usize = 16;

impl FrameScope<'_> {
    /// The type of what the function with code of its own around the address returns, if debug information has the function.
    pub fn result_type(&self) -> Option<Type> {
        let typed = self.function()?.origin_with(gimli::DW_AT_type);
        let result = typed.and_then(|die| die.reference(gimli::DW_AT_type));
        Some(self.sized_type(Link::at(result).follow()))
    }
}

/// What the function returns whose last instruction is next; none if nothing says where it is.
pub fn returned_value(result: &Type, machine: &dyn Machine) -> Option<Value> {
    let stripped = result.strip();
    let is_made_of_parts = matches!(stripped.kind(), Kind::Record(_) | Kind::Array { .. });
    if matches!(stripped.kind(), Kind::Void) {
        return Some(Value::computed(result.clone(), &[]));
    }
    if is_vector(result) {
        return Some(vector_value(result, machine.vector(0)?, 0));
    }
    let [first, _] = INTEGER_REGISTERS;
    let in_memory = || Some(Value::in_memory(result.clone(), machine.register(first)?));
    let size = usize::try_from(result.size()?).ok()?;
    let classes = classes(result);
    if is_passed_by_address(result) {
        return in_memory();
    }
    if classes.contains(&Class::Memory) {
        // Extended numbers, alone and in small records, are in registers of the x87.
        return if is_made_of_parts && size > IN_REGISTERS { in_memory() } else { None };
    }
    // Rust does as it likes with pairs.
    if is_made_of_parts && stripped.language() == Language::Rust {
        return None;
    }
    let mut integers = INTEGER_REGISTERS.iter();
    let mut vectors = VECTOR_REGISTERS.iter();
    let mut bytes = Vec::with_capacity(IN_REGISTERS);
    for class in classes {
        let part = match class {
            Class::Integer => machine.register(*integers.next()?)?,
            Class::Vector => scalar::bits_of(&machine.vector(*vectors.next()?)?) as u64,
            Class::None | Class::Memory => 0,
        };
        bytes.extend_from_slice(&part.to_le_bytes());
    }
    Some(Value::computed(result.clone(), bytes.get(..size)?))
}
