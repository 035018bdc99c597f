//! What a person needs to see of a differing case: the code, what it started from, what differs.

use super::check::Comparison;
use super::cpu::Cpu;
use super::guest::Guest;
use super::record::{Field, Record, records};
use super::registers::GENERAL;
use super::run::{Executable, Outcome};
use anyhow::Result;
use iced_x86::{Decoder, DecoderOptions, FastFormatter};
use std::fmt;

/// A case that came out differently, alone in its guest.
#[derive(Clone, Debug)]
pub struct Difference {
    cpu: Cpu,
    keep_pointers: bool,
    guest: Guest,
    native: Outcome,
    translated: Outcome,
}

impl Difference {
    /// The difference between two runs of a guest with one case.
    pub fn new(comparison: &Comparison, guest: Guest, native: Outcome, translated: Outcome) -> Difference {
        let cpu = comparison.cpu.clone();
        Difference { cpu, keep_pointers: comparison.keep_pointers, guest, native, translated }
    }
}

/// The report on `difference`, which was `case` in the guest `name`; leaves the reduced guest in
/// the temporary directory, to be run by hand.
///
/// # Errors
/// When that guest cannot be written.
pub fn report(difference: &Difference, name: &str, case: usize) -> Result<String> {
    let elf = difference.guest.clone().build(&difference.cpu)?;
    let path = Executable::create(&format!("{name}-case-{case}"), &elf)?.keep();
    Ok(format!("{difference}guest: {}\n", path.display()))
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut guest = self.guest.clone();
        if guest.build(&self.cpu).is_err() {
            return writeln!(f, "(the case cannot be assembled)");
        }
        let case = &guest.cases[0];
        let (address, body) = &guest.bodies[0];
        disassemble(f, &self.cpu, *address, &body.bytes)?;
        writeln!(f, "starts with:")?;
        for (row, registers) in GENERAL.chunks(4).enumerate() {
            for (column, register) in registers.iter().enumerate() {
                write!(f, "  {:>3} {:016x}", format!("{register:?}").to_lowercase(), case.registers[4 * row + column])?;
            }
            writeln!(f)?;
        }
        let middle = guest.layout.middle();
        writeln!(f, "  flags {:x}  fs {:x}  gs {:x}  (scratch pages meet at {middle:x})", case.flags, case.fs_base, case.gs_base)?;
        let (native, translated) = (records(&self.native.output), records(&self.translated.output));
        for pass in 0..native.len() {
            let Some(actual) = translated.get(pass) else {
                writeln!(f, "pass {pass}: translated, it {} before the case was done", self.translated.describe_end())?;
                for line in self.translated.complaint.lines().rev().take(4) {
                    writeln!(f, "  stderr: {line}")?;
                }
                break;
            };
            let expected = &native[pass];
            if expected.comparable(&self.cpu, self.keep_pointers) == actual.comparable(&self.cpu, self.keep_pointers) {
                continue;
            }
            writeln!(f, "pass {pass}: native | translated")?;
            list_fields(f, &self.cpu, self.keep_pointers, expected, actual)?;
        }
        Ok(())
    }
}

fn disassemble(f: &mut fmt::Formatter, cpu: &Cpu, address: u64, bytes: &[u8]) -> fmt::Result {
    let options = if cpu.is_amd { DecoderOptions::AMD } else { DecoderOptions::NONE };
    let mut formatter = FastFormatter::new();
    let mut decoder = Decoder::with_ip(64, bytes, address, options);
    while decoder.can_decode() {
        let start = decoder.position();
        let instruction = decoder.decode();
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        let encoding: String = bytes[start..decoder.position()].iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(f, "  {:x}  {encoding:<24}  {text}", instruction.ip())?;
    }
    Ok(())
}

fn list_fields(
    f: &mut fmt::Formatter,
    cpu: &Cpu,
    keep_pointers: bool,
    expected: &Record,
    actual: &Record,
) -> fmt::Result {
    let (expected, actual) = (expected.fields(cpu), actual.fields(cpu));
    let value = |fields: &[Field], name: &str| {
        fields.iter().find(|field| field.name == name).map_or_else(|| "-".to_string(), |field| hexadecimal(&field.bytes))
    };
    let mut names: Vec<&String> = expected.iter().chain(&actual).map(|field| &field.name).collect();
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(*name));
    for name in names {
        let is_pointer = ["fop", "fip", "fdp"].iter().any(|pointer| name.ends_with(pointer));
        let (left, right) = (value(&expected, name), value(&actual, name));
        if left != right && (keep_pointers || !is_pointer) {
            writeln!(f, "  {name:<14} {left} | {right}")?;
        }
    }
    Ok(())
}

/// A number, most significant byte first; longer fields in memory order, by quadword.
fn hexadecimal(bytes: &[u8]) -> String {
    let number = |bytes: &[u8]| bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect::<String>();
    bytes.chunks(8).map(number).collect::<Vec<_>>().join(" ")
}
