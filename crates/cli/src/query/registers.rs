//! `retro regs`: registers of a thread, or of a frame of its call stack.

use anyhow::Result;
use retro_abi::log::register;
use retro_query::Registers;
use serde_json::{Map, Value};

use super::frame::hex;
use super::question::{Question, stack_of, told};
use super::{landing, vectors};
use crate::arguments::RegistersOptions;
use crate::{Completeness, place};

/// DWARF's numbers of the registers that frames have, in the order in which people list them.
const OF_FRAMES: [(&str, u16); 17] = [
    ("rax", 0),
    ("rbx", 3),
    ("rcx", 2),
    ("rdx", 1),
    ("rsi", 4),
    ("rdi", 5),
    ("rbp", 6),
    ("rsp", 7),
    ("r8", 8),
    ("r9", 9),
    ("r10", 10),
    ("r11", 11),
    ("r12", 12),
    ("r13", 13),
    ("r14", 14),
    ("r15", 15),
    ("rip", 16),
];

/// Prints registers.
pub fn registers(options: &RegistersOptions) -> Result<Completeness> {
    let mut question = Question::new(&options.subject)?;
    let state = question.state()?;
    let registers = state.registers(options.view.thread).map_err(told)?;
    let general: Vec<(&str, Option<u64>)> = match options.view.frame {
        0 => all_of(&registers),
        number => {
            let stack = stack_of(&state, &options.view)?;
            let frame = &stack.frames()[number];
            OF_FRAMES.iter().map(|&(name, number)| (name, frame.registers.get(number))).collect()
        }
    };
    let vectors = if options.all { vectors::registers(&registers.vectors) } else { Vec::new() };
    if question.is_json {
        let mut object = landing::fields(question.moment, registers.thread);
        let mut put = |name: &str, value: Value| object.insert(name.to_string(), value);
        put("frame", options.view.frame.into());
        let general =
            general.iter().map(|&(name, value)| (name.to_string(), value.map(hex).into()));
        put("general", Value::Object(general.collect()));
        if options.all {
            let vectors =
                vectors.iter().map(|vector| (vector.name.clone(), vector.hexadecimal().into()));
            put("vectors", Value::Object(vectors.collect::<Map<_, _>>()));
        }
        question.object(&Value::Object(object))?;
        return Ok(Completeness::Whole);
    }
    for (name, value) in general {
        let text =
            value.map_or_else(|| "not known".to_string(), |value| shown(&question, name, value));
        question.output.line(&format!("{name:<10}{text}"))?;
    }
    for vector in &vectors {
        question.output.line(&format!("{:<10}{}", vector.name, vector.text()))?;
    }
    question.output.flush()?;
    Ok(Completeness::Whole)
}

/// General registers in the order of [`OF_FRAMES`], then the others.
fn all_of(registers: &Registers) -> Vec<(&'static str, Option<u64>)> {
    let others = register::NAMES[register::RFLAGS as usize..].iter().copied();
    let names = OF_FRAMES.iter().map(|&(name, _)| name).chain(others);
    names.map(|name| (name, registers.by_name(name))).collect()
}

/// In hexadecimal, and what else it means.
fn shown(question: &Question, name: &str, value: u64) -> String {
    let meaning = match name {
        "rflags" => flags(value),
        "rip" => {
            let place =
                question.run.symbols().place(question.moment.log, question.moment.time, value);
            place::text(&place)
        }
        _ => value.cast_signed().to_string(),
    };
    format!("{:<20}{meaning}", hex(value)).trim_end().to_string()
}

/// `[ CF ZF IF ]`
fn flags(value: u64) -> String {
    const NAMES: [(u32, &str); 17] = [
        (0, "CF"),
        (2, "PF"),
        (4, "AF"),
        (6, "ZF"),
        (7, "SF"),
        (8, "TF"),
        (9, "IF"),
        (10, "DF"),
        (11, "OF"),
        (14, "NT"),
        (16, "RF"),
        (17, "VM"),
        (18, "AC"),
        (19, "VIF"),
        (20, "VIP"),
        (21, "ID"),
        (15, "MD"),
    ];
    let set: Vec<&str> =
        NAMES.iter().filter(|(bit, _)| value >> bit & 1 != 0).map(|&(_, name)| name).collect();
    format!("[ {} ]", set.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_names() {
        assert_eq!(flags(0x246), "[ PF ZF IF ]");
        assert_eq!(flags(0), "[  ]");
    }
}
