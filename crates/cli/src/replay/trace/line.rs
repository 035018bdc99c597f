//! One thing that happened, as a line for people or as a JSON object.

use std::sync::Arc;

use retro_symbols::Place;
use serde_json::{Map, Value, json};

use crate::dump::bytes::hexadecimal;
use crate::dump::calls;
use crate::dump::signals::SignalInfo;
use crate::quoting::printable;
use crate::style::Style;
use crate::{place, wording};

/// Bytes of a value that a line shows; JSON has all of them.
const VALUE_SHOWN: usize = 32;

/// Levels of calls that are indented; deeper ones are shown at that column, with their depth.
const INDENTED: usize = 40;

/// How lines are written.
#[derive(Clone, Copy, Debug)]
pub enum Format {
    /// For people.
    Text(Style),
    /// For programs.
    Json,
}

/// Something that happened in a thread.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// The log of the process.
    pub log: u64,
    /// Instructions executed before.
    pub time: u64,
    /// The thread.
    pub thread: u32,
    /// What happened.
    pub what: What<'a>,
}

/// What happened.
#[derive(Clone, Copy, Debug)]
pub enum What<'a> {
    /// A function was called.
    Call {
        /// The function.
        place: &'a Place,
        /// Calls around it.
        depth: usize,
        /// The signal that it handles, if it was not called by anybody.
        signal: Option<u32>,
    },
    /// A function returned.
    Return {
        /// The function, if its call was seen.
        name: Option<&'a str>,
        /// Calls around it.
        depth: usize,
    },
    /// A system call was made.
    Syscall {
        /// Its number.
        number: u64,
        /// Its arguments.
        args: &'a [u64; 6],
        /// What it returned, if that followed at once.
        result: Option<u64>,
        /// The block that made it.
        place: Option<&'a Place>,
    },
    /// A system call returned later.
    SyscallReturn {
        /// Its number, if it was seen.
        number: Option<u64>,
        /// What it returned.
        result: u64,
    },
    /// A signal arrived.
    Signal {
        /// Its number.
        number: u32,
        /// Whether an instruction caused it.
        synchronous: bool,
        /// Its handler; without one it ends the process.
        handler: Option<&'a Place>,
        /// Its `siginfo_t`.
        info: &'a [u8],
    },
    /// Instructions were executed.
    Block {
        /// The first one.
        place: &'a Place,
        /// How many.
        instructions: u32,
    },
    /// Memory was written.
    Write {
        /// The block that wrote, unless it was the kernel.
        by: Option<&'a Place>,
        /// Where.
        target: &'a Place,
        /// Bytes.
        length: u64,
        /// What is there now; empty if it is not known.
        value: &'a [u8],
        /// It is the return address of a call.
        is_return_address: bool,
    },
}

/// The name of a function for its return.
pub fn name_of(place: &Place) -> Arc<str> {
    match &place.function {
        Some(function) if function.offset == 0 => printable(function.name.as_bytes()).into(),
        _ => place::text(place).into(),
    }
}

impl Line<'_> {
    /// In a format.
    pub fn shown(&self, format: Format) -> String {
        match format {
            Format::Text(style) => {
                let place = style.dim(&format!("{:>14} {:>7}", self.time, self.thread));
                format!("{place}  {}", self.text(style))
            }
            Format::Json => self.object(),
        }
    }

    fn text(&self, style: Style) -> String {
        let indented = |depth: usize| match depth {
            0..=INDENTED => "  ".repeat(depth),
            _ => format!("{}({depth}) ", "  ".repeat(INDENTED)),
        };
        match self.what {
            What::Call { place, depth, signal } => {
                let cause = signal.map(|number| format!(" for {}", wording::signal(number)));
                format!("{}-> {}{}", indented(depth), place::text(place), cause.unwrap_or_default())
            }
            What::Return { name, depth } => {
                format!("{}<- {}", indented(depth), name.unwrap_or("a call before the trace"))
            }
            What::Syscall { number, args, result, place } => {
                let call = calls::call(number, args);
                let result = match result {
                    Some(result) => format!("= {}", calls::result(Some(number), result)),
                    None => "...".to_string(),
                };
                let place = place.map(|place| style.dim(&format!("  in {}", place::text(place))));
                format!("{call} {result}{}", place.unwrap_or_default())
            }
            What::SyscallReturn { number, result } => {
                let name = number.map_or_else(|| "syscall".to_string(), calls::name);
                format!("... {name} = {}", calls::result(number, result))
            }
            What::Signal { number, synchronous, handler, info } => {
                let kind = if synchronous { ", synchronous" } else { "" };
                let info = SignalInfo::new(info).described(number);
                let action = match handler {
                    Some(handler) => format!("handled by {}", place::text(handler)),
                    None => "ends the process".to_string(),
                };
                format!("{} ({info}{kind}) {action}", wording::signal(number))
            }
            What::Block { place, instructions } => {
                let unit = if instructions == 1 { "instruction" } else { "instructions" };
                format!("{:#014x}  {}  {instructions} {unit}", place.address, place::text(place))
            }
            What::Write { by, target, length, value, is_return_address } => {
                let by = by.map_or_else(|| "kernel".to_string(), place::text);
                let name = match target.module {
                    Some(_) => format!(" {}", place::text(target)),
                    None => String::new(),
                };
                let unit = if length == 1 { "byte" } else { "bytes" };
                let value = match (is_return_address, value) {
                    (true, _) => "return address".to_string(),
                    (false, []) => "?".to_string(),
                    (false, value) => shown_value(value),
                };
                format!(
                    "{:#014x}{name}  {length} {unit} = {value}  {}",
                    target.address,
                    style.dim(&format!("by {by}"))
                )
            }
        }
    }

    fn object(&self) -> String {
        let mut object = Map::new();
        object.insert("log".into(), self.log.into());
        object.insert("time".into(), self.time.into());
        object.insert("thread".into(), self.thread.into());
        let (kind, fields) = self.fields();
        object.insert("kind".into(), kind.into());
        if let Value::Object(fields) = fields {
            object.extend(fields);
        }
        Value::Object(object).to_string()
    }

    fn fields(&self) -> (&'static str, Value) {
        match self.what {
            What::Call { place, depth, signal } => {
                let mut fields = place_fields(Some(place));
                fields.insert("depth".into(), depth.into());
                fields.insert("signal".into(), signal.map(wording::signal).into());
                ("call", Value::Object(fields))
            }
            What::Return { name, depth } => ("return", json!({ "function": name, "depth": depth })),
            What::Syscall { number, args, result, place } => {
                let mut fields = place_fields(place);
                fields.insert("number".into(), number.into());
                fields.insert("name".into(), calls::name(number).into());
                let arguments: Vec<String> = args.iter().map(|&value| hex(value)).collect();
                fields.insert("arguments".into(), arguments.into());
                fields.insert("result".into(), result.map(u64::cast_signed).into());
                ("syscall", Value::Object(fields))
            }
            What::SyscallReturn { number, result } => {
                let name = number.map(calls::name);
                ("syscall-return", json!({ "name": name, "result": result.cast_signed() }))
            }
            What::Signal { number, synchronous, handler, info } => {
                let details = SignalInfo::new(info);
                let fields = json!({
                    "number": number,
                    "name": wording::signal(number),
                    "synchronous": synchronous,
                    "handler": handler.map(|place| Value::Object(place_fields(Some(place)))),
                    "code": details.code(),
                    "fault_address": details.address(number).map(hex),
                    "sender": details.sender(number),
                });
                ("signal", fields)
            }
            What::Block { place, instructions } => {
                let mut fields = place_fields(Some(place));
                fields.insert("instructions".into(), instructions.into());
                ("block", Value::Object(fields))
            }
            What::Write { by, target, length, value, is_return_address } => {
                let fields = json!({
                    "by": by.map(|place| Value::Object(place_fields(Some(place)))),
                    "kernel": by.is_none(),
                    "target": place_fields(Some(target)),
                    "length": length,
                    "bytes": (!value.is_empty()).then(|| hexadecimal(value, usize::MAX)),
                    "return_address": is_return_address,
                });
                ("write", fields)
            }
        }
    }
}

/// A place as fields of an object. Addresses are strings: many readers of JSON keep numbers as floating point.
fn place_fields(place: Option<&Place>) -> Map<String, Value> {
    let mut fields = Map::new();
    let Some(place) = place else { return fields };
    fields.insert("address".into(), hex(place.address).into());
    if let Some(module) = &place.module {
        fields.insert("module".into(), module.path.to_string_lossy().into());
        fields.insert("module_offset".into(), hex(place.offset).into());
    }
    if let Some(function) = &place.function {
        fields.insert("function".into(), (*function.name).into());
        fields.insert("function_offset".into(), function.offset.into());
    }
    if let Some(source) = &place.source {
        fields.insert("source".into(), (*source.path).into());
        fields.insert("line".into(), source.line.into());
    }
    fields
}

fn hex(value: u64) -> String {
    format!("{value:#x}")
}

/// A value of a size that registers have as a number, anything else as bytes in order.
fn shown_value(value: &[u8]) -> String {
    if value.len().is_power_of_two() && value.len() <= 8 {
        let mut bytes = [0; 8];
        bytes[..value.len()].copy_from_slice(value);
        return hex(u64::from_le_bytes(bytes));
    }
    let more = if value.len() > VALUE_SHOWN { "..." } else { "" };
    format!("{}{more}", hexadecimal(value, VALUE_SHOWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbers_where_they_fit() {
        assert_eq!(shown_value(&[0x34, 0x12]), "0x1234");
        assert_eq!(shown_value(&[1, 2, 3]), "010203");
        assert_eq!(shown_value(&[0xaa; 33]), format!("{}...", "aa".repeat(32)));
    }
}
