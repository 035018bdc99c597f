//! What `$name` means.

use super::EvaluationError;
use super::arithmetic::Class;
use crate::machine::Machine;
use crate::machine::register::{FS_BASE, GS_BASE, RFLAGS};
use crate::types::{Encoding, Type};
use crate::value::{Origin, Value};

/// The names of the general registers in DWARF's order, with their halves, quarters and lowest bytes.
const GENERAL: [[&str; 4]; 16] = [
    ["rax", "eax", "ax", "al"],
    ["rdx", "edx", "dx", "dl"],
    ["rcx", "ecx", "cx", "cl"],
    ["rbx", "ebx", "bx", "bl"],
    ["rsi", "esi", "si", "sil"],
    ["rdi", "edi", "di", "dil"],
    ["rbp", "ebp", "bp", "bpl"],
    ["rsp", "esp", "", "spl"],
    ["r8", "r8d", "r8w", "r8l"],
    ["r9", "r9d", "r9w", "r9l"],
    ["r10", "r10d", "r10w", "r10l"],
    ["r11", "r11d", "r11w", "r11l"],
    ["r12", "r12d", "r12w", "r12l"],
    ["r13", "r13d", "r13w", "r13l"],
    ["r14", "r14d", "r14w", "r14l"],
    ["r15", "r15d", "r15w", "r15l"],
];

const RBP: u16 = 6;
const RSP: u16 = 7;
const RIP: u16 = 16;
const FIRST_VECTOR: u16 = 17;

/// The value of a register.
pub(super) fn read(name: &str, machine: &dyn Machine) -> Result<Value, EvaluationError> {
    let lost = || EvaluationError::RegisterLost(name.to_string());
    let whole = |number: u16, ty: Type| {
        let value = machine.register(number).ok_or_else(lost)?;
        let size = ty.size().unwrap_or(8).min(8) as usize;
        Ok(Value::held(ty, &value.to_le_bytes()[..size], Origin::Register(number)))
    };
    let pointer = || Type::void().pointer();
    match name {
        "pc" | "rip" => return whole(RIP, Type::void().function().pointer()),
        "sp" | "rsp" => return whole(RSP, pointer()),
        "fp" | "rbp" => return whole(RBP, pointer()),
        "eflags" | "rflags" => return whole(RFLAGS, integer(4)),
        "gs_base" => return whole(GS_BASE, integer(8)),
        "fs_base" => {
            let value = machine.fs_base().ok_or_else(lost)?;
            return Ok(Value::held(integer(8), &value.to_le_bytes(), Origin::Register(FS_BASE)));
        }
        _ => {}
    }
    for (number, names) in (0..).zip(GENERAL) {
        if let Some(width) = names.iter().position(|own| *own == name && !own.is_empty()) {
            return whole(number, integer(8 >> width));
        }
    }
    if let Some(number) = name.strip_prefix("xmm").and_then(|number| number.parse::<u16>().ok())
        && number < 16
    {
        let bytes = machine.vector(number).ok_or_else(lost)?;
        return Ok(Value::held(vector(), &bytes, Origin::Register(FIRST_VECTOR + number)));
    }
    Err(EvaluationError::UnknownRegister(name.to_string()))
}

fn integer(size: u64) -> Type {
    let is_signed = true;
    match size {
        // A byte of a register is a number, not a character.
        1 => Type::base("int8_t", Encoding::Signed, 1),
        _ => Class::Integer { size, is_signed }.ty(),
    }
}

/// The ways to look at 16 bytes.
fn vector() -> Type {
    let float = |size| Class::Float { size }.ty();
    Type::union_of(
        "vec128",
        &[
            ("v4_float", float(4).array(4)),
            ("v2_double", float(8).array(2)),
            ("v16_int8", integer(1).array(16)),
            ("v8_int16", integer(2).array(8)),
            ("v4_int32", integer(4).array(4)),
            ("v2_int64", integer(8).array(2)),
            ("uint128", Class::Integer { size: 16, is_signed: false }.ty()),
        ],
    )
}
