//! What clients see of numbers, addresses and places.
//!
//! JavaScript's numbers are exact below 2⁵³ only. Times stay far below that and are numbers. Addresses and contents
//! of registers do not, and are strings such as `"0x401000"`; in parameters a number will do as well.

use std::fmt;

use retro_query::symbols::{self, Symbols};
use retro_query::{Moment, Run};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::Answer;

/// A process of the run, by the number of its log; `process.list` has all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct ProcessNumber(pub u64);

/// A moment of a process: so many instructions have been executed, and everything up to there has happened.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub(super) struct Time(pub u64);

/// The moment that the parameters name.
pub(super) fn moment(process: ProcessNumber, time: Time) -> Moment {
    Moment { log: process.0, time: time.0 }
}

/// The thread that was asked for, if there is one then; or else the one that runs.
pub(super) fn thread_at(run: &Run, moment: Moment, thread: Option<u32>) -> Answer<u32> {
    Ok(match thread {
        Some(_) => run.registers(moment, thread)?.thread,
        None => run.running_thread(moment)?,
    })
}

/// An address or another number of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Address(pub u64);

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Address, D::Error> {
        deserializer.deserialize_any(AddressVisitor)
    }
}

struct AddressVisitor;

impl Visitor<'_> for AddressVisitor {
    type Value = Address;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an address such as \"0x401000\"")
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Address, E> {
        Ok(Address(value))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Address, E> {
        let parsed = match text.strip_prefix("0x") {
            // `from_str_radix` would take a sign, too.
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                u64::from_str_radix(digits, 16).ok()
            }
            _ => None,
        };
        parsed.map(Address).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

impl JsonSchema for Address {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Address".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An address or another number of 64 bits, in hexadecimal; in parameters also as a number.",
            "anyOf": [
                { "type": "string", "pattern": "^0x[0-9a-fA-F]{1,16}$" },
                { "type": "integer", "minimum": 0 },
            ],
        })
    }
}

/// Addresses from `start` to right before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct AddressRange {
    pub start: Address,
    pub end: Address,
}

impl From<&std::ops::Range<u64>> for AddressRange {
    fn from(range: &std::ops::Range<u64>) -> AddressRange {
        AddressRange { start: Address(range.start), end: Address(range.end) }
    }
}

/// Which way to look in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Direction {
    /// To later times.
    #[default]
    Forward,
    /// To earlier times.
    Backward,
}

impl From<Direction> for retro_query::Direction {
    fn from(direction: Direction) -> retro_query::Direction {
        match direction {
            Direction::Forward => retro_query::Direction::Forward,
            Direction::Backward => retro_query::Direction::Backward,
        }
    }
}

/// A line of the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct SourceLine {
    /// The file, as the compiler was told; `source.read` takes it.
    pub path: String,
    /// From 1 on.
    pub line: u32,
    /// From 1 on; absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
}

impl From<&symbols::Source> for SourceLine {
    fn from(source: &symbols::Source) -> SourceLine {
        let column = (source.column != 0).then_some(source.column);
        SourceLine { path: source.path.to_string(), line: source.line, column }
    }
}

/// What is known of an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Place {
    /// The address.
    pub address: Address,
    /// The function or variable there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Bytes from its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The file that is mapped there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// The source line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceLine>,
}

impl Place {
    /// What an address is called at a moment.
    pub fn of(symbols: &Symbols, moment: Moment, address: u64) -> Place {
        let place = symbols.place(moment.log, moment.time, address);
        Place {
            address: Address(address),
            offset: place.function.as_ref().map(|function| function.offset),
            function: place.function.map(|function| function.name.to_string()),
            module: place.module.map(|module| module.path.to_string_lossy().into_owned()),
            source: place.source.as_ref().map(SourceLine::from),
        }
    }
}

/// A system call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct SyscallName {
    /// Its number.
    pub number: u64,
    /// Its name, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'static str>,
}

impl SyscallName {
    pub fn of(number: u64) -> SyscallName {
        SyscallName { number, name: retro_abi::syscall_names::name(number) }
    }
}

/// Bytes in hexadecimal, two digits each, the lowest address first.
pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn addresses_are_text_and_may_be_numbers() {
        let read = |value: Value| serde_json::from_value::<Address>(value).ok();
        assert_eq!(read(json!("0xffffffffffffffff")), Some(Address(u64::MAX)));
        assert_eq!(read(json!(4096)), Some(Address(4096)));
        for wrong in [json!("0x"), json!("10"), json!("0x+1"), json!(-1), json!(1.5), json!(null)] {
            assert_eq!(read(wrong.clone()), None, "{wrong}");
        }
        assert_eq!(read(json!("0x10000000000000000")), None);
        assert_eq!(json!(Address(u64::MAX)), json!("0xffffffffffffffff"));
    }

    #[test]
    fn bytes_are_two_digits_each() {
        assert_eq!(hex(&[0, 0x7f, 0xff]), "007fff");
    }
}
