//! What a person needs to see of a differing case: the code, what it started from, what differs.

use super::assembly::ENDING;
use super::check::Comparison;
use super::cpu::Cpu;
use super::guest::Guest;
use super::record::{Field, Record, records};
use super::registers::GENERAL;
use super::run::{Executable, Outcome};
use anyhow::Result;
use iced_x86::{Decoder, DecoderOptions, FastFormatter, Register};
use std::collections::{BTreeSet, HashSet};
use std::fmt;

/// A case that came out differently.
#[derive(Clone, Debug)]
pub struct Difference {
    cpu: Cpu,
    keep_pointers: bool,
    guest: Guest,
    case: usize,
    native: Outcome,
    translated: Outcome,
}

impl Difference {
    /// The difference between two runs of a guest, in one of its cases.
    pub fn new(
        comparison: &Comparison,
        guest: Guest,
        case: usize,
        native: Outcome,
        translated: Outcome,
    ) -> Difference {
        let cpu = comparison.cpu.clone();
        let keep_pointers = comparison.keep_pointers;
        Difference { cpu, keep_pointers, guest, case, native, translated }
    }

    /// The native record of each pass, and the translated one if it got there.
    fn passes(&self) -> Vec<(Record<'_>, Option<Record<'_>>)> {
        let (native, translated) = (records(&self.native.output), records(&self.translated.output));
        let indices = (self.case..native.len()).step_by(self.guest.cases.len());
        indices.map(|index| (native[index], translated.get(index).copied())).collect()
    }

    /// Whether the translated run was ended by the time limit.
    pub fn timed_out(&self) -> bool {
        self.translated.timed_out()
    }

    /// Names of what differs.
    pub fn names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for (native, translated) in self.passes() {
            match translated {
                Some(translated) => {
                    names
                        .extend(self.fields(&native, &translated).into_iter().map(|field| field.0));
                }
                None => {
                    names.insert("end".into());
                }
            }
        }
        names
    }

    /// What tells one problem from another: the instructions left and the names of what differs.
    pub fn signature(&self) -> String {
        let pieces = self.guest.cases[self.case].body.iter().filter(|piece| piece.unit != ENDING);
        let codes: Vec<_> = pieces.filter_map(|piece| piece.item.code()).collect();
        let mnemonics: Vec<String> =
            codes.iter().map(|code| format!("{:?}", code.mnemonic()).to_lowercase()).collect();
        let is_general =
            |name: &str| GENERAL.iter().any(|register| name == general_name(*register));
        let kinds: BTreeSet<String> = self
            .names()
            .into_iter()
            .map(|name| match name.as_str() {
                name if name.starts_with("scratch") => "memory".into(),
                name if is_general(name) => "registers".into(),
                _ => name,
            })
            .collect();
        let names: Vec<String> = kinds.into_iter().collect();
        format!("{}: {}", mnemonics.join(", "), names.join(" "))
    }

    /// What differs between two records: its name, the native value, the translated value.
    fn fields(&self, native: &Record, translated: &Record) -> Vec<(String, String, String)> {
        let native = native.fields(&self.cpu, self.keep_pointers);
        let translated = translated.fields(&self.cpu, self.keep_pointers);
        let value = |fields: &[Field], name: &str| {
            let field = fields.iter().find(|field| field.name == name);
            field.map_or_else(|| "-".to_string(), |field| hexadecimal(&field.bytes))
        };
        let mut names: Vec<&String> =
            native.iter().chain(&translated).map(|field| &field.name).collect();
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(*name));
        names
            .into_iter()
            .map(|name| (name.clone(), value(&native, name), value(&translated, name)))
            .filter(|(_, left, right)| left != right)
            .filter(|(name, left, right)| {
                // Of a signal that only one side received, what it was and where is enough.
                let is_context = name.starts_with("uc.") && name != "uc.rip";
                !(is_context && (left == "-" || right == "-"))
            })
            .collect()
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
        let case = &guest.cases[self.case];
        let (address, body) = &guest.bodies[self.case];
        disassemble(f, &self.cpu, *address, &body.bytes)?;
        writeln!(f, "starts with:")?;
        for (row, registers) in GENERAL.chunks(4).enumerate() {
            for (column, register) in registers.iter().enumerate() {
                write!(
                    f,
                    "  {:>3} {:016x}",
                    general_name(*register),
                    case.registers[4 * row + column]
                )?;
            }
            writeln!(f)?;
        }
        let middle = guest.layout.middle();
        writeln!(
            f,
            "  flags {:x}  fs {:x}  gs {:x}  (scratch pages meet at {middle:x})",
            case.flags, case.fs_base, case.gs_base
        )?;
        for (pass, (expected, actual)) in self.passes().into_iter().enumerate() {
            let Some(actual) = actual else {
                let end = self.translated.describe_end();
                writeln!(f, "pass {pass}: translated, it {end} before the case was done")?;
                for line in self.translated.complaint.lines().rev().take(4) {
                    writeln!(f, "  stderr: {line}")?;
                }
                break;
            };
            if expected.comparable(&self.cpu, self.keep_pointers)
                == actual.comparable(&self.cpu, self.keep_pointers)
            {
                continue;
            }
            writeln!(f, "pass {pass}: native | translated")?;
            for (name, left, right) in self.fields(&expected, &actual) {
                writeln!(f, "  {name:<14} {left} | {right}")?;
            }
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
        let encoding: String =
            bytes[start..decoder.position()].iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(f, "  {:x}  {encoding:<24}  {text}", instruction.ip())?;
    }
    Ok(())
}

fn general_name(register: Register) -> String {
    format!("{register:?}").to_lowercase()
}

/// A number, most significant byte first; longer fields in memory order, by quadword.
fn hexadecimal(bytes: &[u8]) -> String {
    let number =
        |bytes: &[u8]| bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect::<String>();
    bytes.chunks(8).map(number).collect::<Vec<_>>().join(" ")
}
