//! The instructions that functions, lines and addresses stand for.
//!
//! A name without wildcards is looked up in the debug information of everything that the process ever had mapped. With
//! wildcards, or for all lines of a file, it goes the other way: of the code that was executed, which the index knows, each
//! piece is asked for its name.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use retro_abi::log::MapKind;
use retro_index::Volume;
use retro_index::events::{Row, RowClass};
use retro_index::pieces::Piece;
use retro_index::set_tree::Keys;
use retro_symbols::FunctionCode;

use super::names::{CodeName, Names};
use crate::language::{Callee, Lines, Pattern, Place, Source};
use crate::locate::RowFilter;
use crate::run::{Process, Run};
use crate::{Cancel, Direction, Error, Moment};

/// `PROT_EXEC` of `mmap`.
const EXECUTABLE: u32 = 4;

/// Instructions, by ranges of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Code {
    /// In order, apart from each other.
    ranges: Vec<Range<u64>>,
}

impl Code {
    fn new(mut ranges: Vec<Range<u64>>) -> Code {
        ranges.retain(|range| range.start < range.end);
        ranges.sort_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        Code { ranges: joined }
    }

    fn of_addresses(addresses: impl IntoIterator<Item = u64>) -> Code {
        Code::new(addresses.into_iter().map(|at| at..at.saturating_add(1)).collect())
    }

    /// Whether an instruction is one of them.
    pub(super) fn contains(&self, pc: u64) -> bool {
        self.touches(pc, pc.saturating_add(1))
    }

    /// Whether one of them may be in a range.
    pub(super) fn touches(&self, start: u64, end: u64) -> bool {
        let after = self.ranges.partition_point(|range| range.end <= start);
        self.ranges.get(after).is_some_and(|range| range.start < end)
    }

    /// Numbers of the pieces of code with one of them.
    pub(super) fn pieces(&self, volume: &Volume) -> Keys {
        let pieces = &volume.pieces;
        let touching = self.ranges.iter().flat_map(|range| pieces.touching(range.start, range.end));
        let numbers: HashSet<u64> = touching.collect();
        numbers.into_iter().map(|number| number..number + 1).collect::<Vec<_>>().into()
    }

    /// The address, if there is only one.
    pub(super) fn single_address(&self) -> Option<u64> {
        match self.ranges.as_slice() {
            [only] if only.end - only.start == 1 => Some(only.start),
            _ => None,
        }
    }
}

/// Finds code of a process by its names.
pub(super) struct CodeFinder<'a> {
    run: &'a Run,
    process: &'a Process,
    cancel: &'a Cancel,
    /// Times at which, together, all is mapped that ever was.
    times: Vec<u64>,
    names: Names,
}

impl<'a> CodeFinder<'a> {
    pub(super) fn new(
        run: &'a Run,
        process: &'a Process,
        cancel: &'a Cancel,
    ) -> Result<CodeFinder<'a>, Error> {
        let times = times_of_code(run, process, cancel)?;
        Ok(CodeFinder { run, process, cancel, times, names: Names::default() })
    }

    /// The first instructions of functions.
    pub(super) fn entries(&mut self, callees: &[Callee]) -> Result<Code, Error> {
        let mut entries = Vec::new();
        for callee in callees {
            match callee {
                Callee::Address(address) => entries.push(*address),
                Callee::Named(pattern) => match pattern.literal() {
                    Some(name) => {
                        entries
                            .extend(self.functions(&name)?.iter().map(|function| function.entry));
                    }
                    None => entries.extend(self.executed_entries(pattern)?),
                },
            }
        }
        Ok(Code::of_addresses(entries))
    }

    /// All code of functions that have code of their own.
    pub(super) fn bodies(&mut self, callees: &[Callee]) -> Result<Code, Error> {
        let mut ranges = Vec::new();
        for callee in callees {
            match callee {
                Callee::Address(address) => ranges.extend(self.body_at(*address)?),
                Callee::Named(pattern) => match pattern.literal() {
                    Some(name) => ranges.extend(self.own_bodies(&name)?),
                    None => ranges.extend(self.executed_within(pattern)?),
                },
            }
        }
        Ok(Code::new(ranges))
    }

    /// The code at some places.
    pub(super) fn places(&mut self, places: &[Place]) -> Result<Code, Error> {
        let mut ranges = Vec::new();
        for place in places {
            match place {
                Place::Address(address) => ranges.push(*address..address.saturating_add(1)),
                Place::Source(source) => ranges.extend(self.lines(source, false)?),
                Place::Function(pattern) => match pattern.literal() {
                    Some(name) => {
                        let functions = self.functions(&name)?;
                        ranges.extend(functions.into_iter().flat_map(|function| function.ranges));
                    }
                    None => ranges.extend(self.executed_within(pattern)?),
                },
            }
        }
        Ok(Code::new(ranges))
    }

    /// The first instructions of lines.
    pub(super) fn line_starts(&mut self, source: &Source) -> Result<Code, Error> {
        Ok(Code::new(self.lines(source, true)?))
    }

    fn functions(&self, name: &str) -> Result<Vec<FunctionCode>, Error> {
        let mut found: Vec<FunctionCode> = Vec::new();
        for &time in &self.times {
            self.cancel.check()?;
            let moment = Moment { log: self.process.log, time };
            for function in self.run.functions_named(moment, name, self.cancel)? {
                let is_known = |known: &FunctionCode| {
                    (known.entry, &known.inlined_in) == (function.entry, &function.inlined_in)
                };
                if !found.iter().any(is_known) {
                    found.push(function);
                }
            }
        }
        if found.is_empty() {
            return Err(Error::Unknown(format!(
                "no function `{name}` is known in this process: check its name, or use an address"
            )));
        }
        Ok(found)
    }

    fn own_bodies(&self, name: &str) -> Result<Vec<Range<u64>>, Error> {
        let mut functions = self.functions(name)?;
        functions.retain(|function| function.inlined_in.is_none());
        if functions.is_empty() {
            return Err(Error::Question(format!(
                "`{name}` is inlined everywhere and never returns: look for one of its lines"
            )));
        }
        Ok(functions.into_iter().flat_map(|function| function.ranges).collect())
    }

    /// The code of the function that begins at an address.
    fn body_at(&self, address: u64) -> Result<Vec<Range<u64>>, Error> {
        let symbols = self.run.symbols();
        for &time in &self.times {
            let place = symbols.place(self.process.log, time, address);
            let Some(function) = place.function.filter(|function| function.offset == 0) else {
                continue;
            };
            let named = symbols.functions_named(self.process.log, time, &function.name);
            if let Some(body) = named.into_iter().find(|function| function.entry == address) {
                return Ok(body.ranges);
            }
        }
        Err(Error::Unknown(format!("no function is known to begin at {address:#x}")))
    }

    /// The code of lines, or its first instructions.
    fn lines(&mut self, source: &Source, only_starts: bool) -> Result<Vec<Range<u64>>, Error> {
        let name = source.file.literal();
        if let (Some(name), Some(lines)) = (&name, source.lines) {
            return self.known_lines(name, lines, only_starts);
        }
        if let Some(name) = &name {
            self.check_file(name)?;
        }
        self.executed_where(|code| {
            let is_in = code.source.as_ref().is_some_and(|at| source.contains(&at.path, at.line));
            is_in && (!only_starts || code.starts_line)
        })
    }

    fn known_lines(
        &self,
        file: &str,
        lines: Lines,
        only_starts: bool,
    ) -> Result<Vec<Range<u64>>, Error> {
        let mut found = Vec::new();
        let mut next_line: Option<u32> = None;
        for &time in &self.times {
            let mut line = lines.first;
            // Asked for a line without code, the next one that has some is told.
            loop {
                self.cancel.check()?;
                let codes = self.run.symbols().code_of_line(self.process.log, time, file, line);
                let Some(at) = codes.first().map(|code| code.source.line) else { break };
                if at > lines.last {
                    next_line = Some(next_line.map_or(at, |next| next.min(at)));
                    break;
                }
                for code in codes {
                    match only_starts {
                        true => found.extend(code.entries.iter().map(|&entry| entry..entry + 1)),
                        false => found.extend(code.ranges),
                    }
                }
                let Some(next) = at.checked_add(1) else { break };
                line = next;
            }
        }
        if !found.is_empty() {
            return Ok(found);
        }
        let Lines { first, last } = lines;
        let asked =
            if first == last { format!("line {first}") } else { format!("lines {first}-{last}") };
        match next_line {
            Some(next) => Err(Error::Unknown(format!(
                "{asked} of `{file}` has no code: the next line with code is {next}"
            ))),
            None => {
                self.check_file(file)?;
                Err(Error::Unknown(format!(
                    "{asked} of `{file}` has no code, and no later line has"
                )))
            }
        }
    }

    fn check_file(&self, file: &str) -> Result<(), Error> {
        let (symbols, log) = (self.run.symbols(), self.process.log);
        let is_known = |&time: &u64| !symbols.code_of_line(log, time, file, 1).is_empty();
        if self.times.iter().any(is_known) {
            return Ok(());
        }
        Err(Error::Unknown(format!(
            "no source file `{file}` is known in this process: it needs debug information"
        )))
    }

    /// The first instructions of executed functions with such names.
    fn executed_entries(&mut self, pattern: &Pattern) -> Result<Vec<u64>, Error> {
        let mut found = HashSet::new();
        self.for_each_piece(|finder, piece| {
            let code = finder.name(piece.pc);
            let is_named = |name: &Arc<str>| pattern.matches_function(name);
            if code.starts_function && code.functions.last().is_some_and(is_named) {
                found.insert(piece.pc);
            }
        })?;
        Ok(found.into_iter().collect())
    }

    /// Executed instructions of functions with such names, and of what is inlined in them.
    fn executed_within(&mut self, pattern: &Pattern) -> Result<Vec<Range<u64>>, Error> {
        self.executed_where(|code| code.functions.iter().any(|name| pattern.matches_function(name)))
    }

    fn executed_where(
        &mut self,
        fits: impl Fn(&CodeName) -> bool,
    ) -> Result<Vec<Range<u64>>, Error> {
        let mut found = Vec::new();
        self.for_each_piece(|finder, piece| {
            let mut pc = piece.pc;
            for &len in &*piece.lengths {
                if fits(&finder.name(pc)) {
                    found.push(pc..pc + 1);
                }
                pc += u64::from(len);
            }
        })?;
        Ok(found)
    }

    /// What an address is called, at the first of the times that knows.
    fn name(&mut self, pc: u64) -> Arc<CodeName> {
        let (symbols, log) = (self.run.symbols(), self.process.log);
        let is_mapped = |&&time: &&u64| symbols.module_at(log, time, pc).is_some();
        let time = self.times.iter().find(is_mapped).copied().unwrap_or(self.process.end);
        self.names.at(symbols, log, time, pc)
    }

    fn for_each_piece(
        &mut self,
        mut visit: impl FnMut(&mut CodeFinder<'a>, &Piece),
    ) -> Result<(), Error> {
        let process = self.process;
        let mut seen = HashSet::new();
        for volume in &process.volumes {
            let pieces =
                (0..volume.pieces.len() as u64).filter_map(|number| volume.pieces.get(number));
            for piece in pieces {
                self.cancel.check()?;
                if seen.insert((piece.pc, piece.lengths.len())) {
                    visit(self, piece);
                }
            }
        }
        Ok(())
    }
}

/// Times at which, together, every executable file is mapped that ever was: the end, and before one goes away. A file
/// that comes and goes again and again at one place counts once.
fn times_of_code(run: &Run, process: &Process, cancel: &Cancel) -> Result<Vec<u64>, Error> {
    let start = Moment { log: process.log, time: process.start };
    let mut mapped: Vec<MappedCode> = Vec::new();
    for mapping in run.maps(start)? {
        if mapping.file.is_some() && mapping.prot & EXECUTABLE != 0 {
            mapped.push(MappedCode {
                memory: mapping.start..mapping.end,
                file: 0,
                offset: mapping.offset,
            });
        }
    }
    let mut times = vec![process.end];
    let mut gone = HashSet::new();
    for row in run.rows(start, Direction::Forward, RowFilter::Class(RowClass::Map), cancel)? {
        let row = row?;
        let Row::Map { kind, start, len, prot, file, offset, .. } = row.row else { continue };
        let memory = start..start.saturating_add(len);
        let hidden = match kind {
            MapKind::Map | MapKind::Unmap => memory.clone(),
            MapKind::Move => offset..offset.saturating_add(len),
            MapKind::Protect | MapKind::Discard => continue,
        };
        let goes = |code: &mut MappedCode| {
            code.memory.start < hidden.end && hidden.start < code.memory.end
        };
        let new = mapped.extract_if(.., goes).filter(|code| gone.insert(code.clone())).count();
        if new > 0 {
            times.push(row.time.saturating_sub(1).max(process.start));
        }
        if kind == MapKind::Map && file != 0 && prot & EXECUTABLE != 0 {
            mapped.push(MappedCode { memory, file, offset });
        }
    }
    times.dedup();
    Ok(times)
}

/// A file's code in memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct MappedCode {
    memory: Range<u64>,
    /// Its number; 0 for what was there from the start.
    file: u64,
    offset: u64,
}
