//! The tables by which compilers tell how to find the caller at each instruction.
//!
//! `.eh_frame` is in memory with the program, and has an index (`.eh_frame_hdr`); `.debug_frame` is debug information.
//! Whichever has the address counts. Rows are kept by address: what a program waits in is asked for again and again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, EhFrameHdr, Encoding, EvaluationResult,
    Expression, FrameDescriptionEntry, ParsedEhFrameHdr, Reader as _, Register, RegisterRule,
    UnwindContext, UnwindOffset, UnwindSection, Value,
};
use object::{Object, ObjectSection};

use super::{FrameRegisters, Physical, R12, R15, RBP, RBX, RIP, RSP, Step};
use crate::debug_info::Bytes;
use crate::elf::{Elf, ElfSource, large_section, with_elf};
use crate::lock;
use crate::machine::Machine;

/// Rows that are kept.
const ROWS_LIMIT: usize = 1 << 16;

/// Bytes of one description: it is executed from its start for each row.
const DESCRIPTION_LIMIT: usize = 1 << 20;

/// How long making an index may take. What comes later has no table.
const INDEXING_LIMIT: Duration = Duration::from_secs(5);

/// Operations of an expression.
const OPERATIONS_LIMIT: u32 = 1_000;

const ADDRESS_SIZE: u8 = 8;

/// The tables of a file.
#[derive(Debug, Default)]
pub(crate) struct FrameTable {
    exceptions: Option<ExceptionTable>,
    debug: Option<Indexed<DebugFrame<Bytes>>>,
    /// By address in the file.
    rows: Mutex<HashMap<u64, Option<Arc<FrameRow>>>>,
}

#[derive(Debug)]
enum ExceptionTable {
    /// With the index that the linker made.
    WithHeader {
        section: EhFrame<Bytes>,
        bases: BaseAddresses,
        header: ParsedEhFrameHdr<Bytes>,
    },
    Indexed(Indexed<EhFrame<Bytes>>),
}

/// A section with an index of our own.
#[derive(Debug)]
struct Indexed<S> {
    section: S,
    bases: BaseAddresses,
    /// Start, end and offset of each description, sorted by start.
    index: Vec<(u64, u64, usize)>,
}

/// How to find the caller at an address.
#[derive(Debug)]
pub(crate) struct FrameRow {
    cfa: Cfa,
    rules: Vec<(u16, Rule)>,
    return_register: u16,
    is_signal: bool,
    encoding: Encoding,
}

#[derive(Debug)]
enum Cfa {
    Register(u16, i64),
    Expression(Expression<Bytes>),
}

#[derive(Debug)]
enum Rule {
    Unknown,
    Same,
    /// In memory, so far from the CFA.
    At(i64),
    /// So far from the CFA itself.
    Is(i64),
    Register(u16),
    AtExpression(Expression<Bytes>),
    IsExpression(Expression<Bytes>),
}

impl FrameTable {
    /// Reads the tables of a file, and of the one with its debug information.
    pub(crate) fn read<'a>(files: impl Iterator<Item = &'a ElfSource>) -> FrameTable {
        let mut table = FrameTable::default();
        for file in files {
            // A file with separate debug information has headers of the sections it left, and no contents.
            with_elf(file, |elf| {
                if table.exceptions.is_none() {
                    table.exceptions = ExceptionTable::read(file, elf);
                }
                if table.debug.is_none()
                    && let Some(bytes) = large_section(file, elf, ".debug_frame")
                {
                    let section = DebugFrame::from(bytes);
                    table.debug = Some(Indexed::new(section, BaseAddresses::default()));
                }
            });
        }
        table
    }

    /// The way from a frame to its caller.
    pub(crate) fn step(&self, bias: u64, frame: &Physical, machine: &dyn Machine) -> Option<Step> {
        let row = self.row(frame.lookup().wrapping_sub(bias)).or_else(|| {
            // What calls a handler is never called itself: its first instruction counts.
            self.row(frame.pc.wrapping_sub(bias)).filter(|row| row.is_signal)
        })?;
        row.step(frame, machine)
    }

    fn row(&self, address: u64) -> Option<Arc<FrameRow>> {
        if let Some(known) = lock(&self.rows).get(&address) {
            return known.clone();
        }
        let row = self.find(address).map(Arc::new);
        let mut rows = lock(&self.rows);
        if rows.len() > ROWS_LIMIT {
            rows.clear();
        }
        rows.insert(address, row.clone());
        row
    }

    fn find(&self, address: u64) -> Option<FrameRow> {
        let exceptions = match &self.exceptions {
            Some(ExceptionTable::WithHeader { section, bases, header }) => {
                let table = header.table()?;
                let found =
                    table.fde_for_address(section, bases, address, EhFrame::cie_from_offset);
                found.ok().and_then(|entry| row_of(section, bases, &entry, address))
            }
            Some(ExceptionTable::Indexed(indexed)) => indexed.find(address),
            None => None,
        };
        exceptions.or_else(|| self.debug.as_ref()?.find(address))
    }
}

impl ExceptionTable {
    fn read(file: &ElfSource, elf: &Elf) -> Option<ExceptionTable> {
        let bytes = large_section(file, elf, ".eh_frame")?;
        let address = |name| elf.section_by_name(name).map_or(0, |section| section.address());
        let bases = BaseAddresses::default()
            .set_eh_frame(address(".eh_frame"))
            .set_eh_frame_hdr(address(".eh_frame_hdr"))
            .set_text(address(".text"))
            .set_got(address(".got"));
        let section = EhFrame::from(bytes);
        let header = large_section(file, elf, ".eh_frame_hdr").and_then(|bytes| {
            if !is_whole_index(bytes.clone()) {
                return None;
            }
            let header = EhFrameHdr::from(bytes);
            header.parse(&bases, ADDRESS_SIZE).ok().filter(|header| header.table().is_some())
        });
        Some(match header {
            Some(header) => ExceptionTable::WithHeader { section, bases, header },
            None => ExceptionTable::Indexed(Indexed::new(section, bases)),
        })
    }
}

/// Whether an index is of the kind that linkers make, and has as many entries as it says: the library that searches it does
/// not check that.
fn is_whole_index(mut bytes: Bytes) -> bool {
    /// Version; a pointer relative to itself, a plain count, entries relative to the section, four bytes each.
    const USUAL: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
    const HEAD: usize = 12;
    const ENTRY: u64 = 8;
    let mut head = [0; HEAD];
    if bytes.read_slice(&mut head).is_err() {
        return false;
    }
    let count = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
    head.starts_with(&USUAL) && bytes.len() as u64 >= u64::from(count) * ENTRY
}

impl<S: UnwindSection<Bytes>> Indexed<S>
where
    S::Offset: UnwindOffset<usize> + From<usize>,
{
    fn new(section: S, bases: BaseAddresses) -> Indexed<S> {
        let deadline = Instant::now() + INDEXING_LIMIT;
        let mut index = Vec::new();
        let mut entries = section.entries(&bases);
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            if let Ok(entry) = partial.parse(S::cie_from_offset)
                && entry.initial_address() != 0
            {
                index.push((entry.initial_address(), entry.end_address(), entry.offset()));
            }
            if Instant::now() > deadline {
                break;
            }
        }
        index.sort_unstable();
        Indexed { section, bases, index }
    }

    fn find(&self, address: u64) -> Option<FrameRow> {
        let after = self.index.partition_point(|(start, ..)| *start <= address);
        let (_, end, offset) = self.index[..after].last()?;
        if address >= *end {
            return None;
        }
        let offset = S::Offset::from(*offset);
        let entry = self.section.fde_from_offset(&self.bases, offset, S::cie_from_offset).ok()?;
        row_of(&self.section, &self.bases, &entry, address)
    }
}

fn row_of<S: UnwindSection<Bytes>>(
    section: &S,
    bases: &BaseAddresses,
    entry: &FrameDescriptionEntry<Bytes>,
    address: u64,
) -> Option<FrameRow> {
    if entry.entry_len() > DESCRIPTION_LIMIT || entry.cie().entry_len() > DESCRIPTION_LIMIT {
        return None;
    }
    let mut context = UnwindContext::new();
    let row = entry.unwind_info_for_address(section, bases, &mut context, address).ok()?;
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => Cfa::Register(register.0, *offset),
        CfaRule::Expression(expression) => Cfa::Expression(expression.get(section).ok()?),
    };
    let rules = row.registers().map(|(register, rule)| {
        let rule = match rule {
            RegisterRule::SameValue => Rule::Same,
            RegisterRule::Offset(offset) => Rule::At(*offset),
            RegisterRule::ValOffset(offset) => Rule::Is(*offset),
            RegisterRule::Register(Register(number)) => Rule::Register(*number),
            RegisterRule::Expression(expression) => {
                expression.get(section).map_or(Rule::Unknown, Rule::AtExpression)
            }
            RegisterRule::ValExpression(expression) => {
                expression.get(section).map_or(Rule::Unknown, Rule::IsExpression)
            }
            _ => Rule::Unknown,
        };
        (register.0, rule)
    });
    Some(FrameRow {
        cfa,
        rules: rules.collect(),
        return_register: entry.cie().return_address_register().0,
        is_signal: entry.is_signal_trampoline(),
        encoding: entry.cie().encoding(),
    })
}

impl FrameRow {
    fn step(&self, frame: &Physical, machine: &dyn Machine) -> Option<Step> {
        let registers = &frame.registers;
        let cfa = match &self.cfa {
            Cfa::Register(number, offset) => registers.get(*number)?.wrapping_add_signed(*offset),
            Cfa::Expression(expression) => self.evaluate(expression, None, registers, machine)?,
        };
        let mut caller = FrameRegisters::default();
        for kept in [RBX, RBP].into_iter().chain(R12..=R15) {
            caller.set(kept, registers.get(kept));
        }
        caller.set(RSP, Some(cfa));
        for (number, rule) in &self.rules {
            let value = match rule {
                Rule::Unknown => None,
                Rule::Same => registers.get(*number),
                Rule::At(offset) => word(machine, cfa.wrapping_add_signed(*offset)),
                Rule::Is(offset) => Some(cfa.wrapping_add_signed(*offset)),
                Rule::Register(other) => registers.get(*other),
                Rule::AtExpression(expression) => self
                    .evaluate(expression, Some(cfa), registers, machine)
                    .and_then(|address| word(machine, address)),
                Rule::IsExpression(expression) => {
                    self.evaluate(expression, Some(cfa), registers, machine)
                }
            };
            caller.set(*number, value);
        }
        let return_address = self.rules.iter().find(|(number, _)| *number == self.return_register);
        let caller = match return_address {
            // The one that says so has no caller.
            None | Some((_, Rule::Unknown)) => None,
            Some(_) => {
                // It is there, but it cannot be read: that is another thing than having no caller.
                let pc = caller.get(self.return_register)?;
                caller.set(RIP, Some(pc));
                Some(caller)
            }
        };
        Some(Step { cfa, caller, is_signal_frame: self.is_signal, is_guess: false })
    }

    fn evaluate(
        &self,
        expression: &Expression<Bytes>,
        initial: Option<u64>,
        registers: &FrameRegisters,
        machine: &dyn Machine,
    ) -> Option<u64> {
        let mut evaluation = expression.clone().evaluation(self.encoding);
        evaluation.set_max_iterations(OPERATIONS_LIMIT);
        if let Some(initial) = initial {
            evaluation.set_initial_value(initial);
        }
        let mut state = evaluation.evaluate().ok()?;
        loop {
            state = match state {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = registers.get(register.0)?;
                    evaluation.resume_with_register(Value::Generic(value)).ok()?
                }
                EvaluationResult::RequiresMemory { address, size, space: None, .. } => {
                    let mut bytes = [0; 8];
                    let part = bytes.get_mut(..usize::from(size))?;
                    machine.read(address, part).then_some(())?;
                    let value = Value::Generic(u64::from_le_bytes(bytes));
                    evaluation.resume_with_memory(value).ok()?
                }
                _ => return None,
            };
        }
        match evaluation.as_result() {
            [piece] => match piece.location {
                gimli::Location::Address { address } => Some(address),
                gimli::Location::Value { value } => value.to_u64(u64::MAX).ok(),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Eight bytes of memory.
pub(super) fn word(machine: &dyn Machine, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    machine.read(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
}
