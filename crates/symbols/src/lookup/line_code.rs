//! The code of lines.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{mem, thread};

use crate::debug_info::{DebugInfo, DebugUnit, ScopeKind};
use crate::lines::{Row, Source, Table, files_of, path_of};
use crate::object_file::ObjectFile;
use crate::place::Module;
use crate::symbols::Symbols;

/// How long reading the names of files may take. What comes later is not found.
const LISTING_LIMIT: Duration = Duration::from_secs(20);

/// Rows of one line that are looked at.
const ROWS_LIMIT: usize = 1 << 14;

/// Rows of one line without a gap.
const NEIGHBOURS: usize = 256;

/// How long files may be searched for by parts of their names.
const FILES_LIMIT: Duration = Duration::from_secs(3);

/// How long the functions may be searched for that a line is in.
const SEARCH_LIMIT: Duration = Duration::from_secs(5);

/// The code of a line in one function.
#[derive(Clone, Debug)]
pub struct LineCode {
    /// The line that has the code: the one that was asked for, or the next one that has any.
    pub source: Source,
    /// Whether it is the one that was asked for.
    pub is_exact: bool,
    /// The file that has it.
    pub module: Arc<Module>,
    /// The function that it is in; where that is inlined, each place is one of its own.
    pub function: Option<Arc<str>>,
    /// The first instructions of the line's statements, the lowest first.
    pub entries: Vec<u64>,
    /// All code of the line.
    pub ranges: Vec<Range<u64>>,
}

/// How far a line reaches around an address.
#[derive(Clone, Debug)]
pub struct LineRange {
    /// The line.
    pub source: Source,
    /// The code of the line without a gap, in one function.
    pub range: Range<u64>,
    /// Whether a statement begins at the address itself.
    pub is_statement: bool,
    /// The function; where it is inlined, that.
    pub function: Option<Arc<str>>,
}

impl Symbols {
    /// The code of a line of a file, which is given by the last parts of its path, in all that is mapped at a time.
    pub fn code_of_line(&self, log: u64, time: u64, file: &str, line: u32) -> Vec<LineCode> {
        let mut found = self
            .code_in_modules(log, time, |object, module| object.code_of_line(module, file, line));
        // The nearest line counts, whichever module has it.
        let nearest = found.iter().map(|code| code.source.line).min();
        found.retain(|code| Some(code.source.line) == nearest);
        found
    }

    /// The code of some lines of a file, of those that have any.
    pub fn code_of_lines(
        &self,
        log: u64,
        time: u64,
        file: &str,
        lines: Range<u32>,
    ) -> Vec<LineCode> {
        self.code_in_modules(log, time, |object, module| object.code_of_lines(module, file, &lines))
    }

    fn code_in_modules(
        &self,
        log: u64,
        time: u64,
        find: impl Fn(&ObjectFile, &Arc<Module>) -> Vec<LineCode>,
    ) -> Vec<LineCode> {
        let mut found: Vec<LineCode> = Vec::new();
        for loaded in self.modules_at(log, time) {
            let Some(object) = &loaded.file else { continue };
            for mut code in find(object, &loaded.module) {
                let shift = |address: &mut u64| *address = address.wrapping_add(loaded.bias);
                code.entries.iter_mut().for_each(shift);
                for range in &mut code.ranges {
                    shift(&mut range.start);
                    shift(&mut range.end);
                }
                found.push(code);
            }
        }
        found
    }

    /// Paths of source files with a text in their last part, whatever the case, in all that is mapped at a time: at most
    /// so many, sorted.
    pub fn source_files(&self, log: u64, time: u64, text: &str, limit: usize) -> Vec<String> {
        let deadline = Instant::now() + FILES_LIMIT;
        let text = text.to_lowercase();
        let mut found = BTreeSet::new();
        for loaded in self.modules_at(log, time) {
            let Some(info) = loaded.file.as_ref().and_then(|file| file.debug_info()) else {
                continue;
            };
            for number in 0..info.unit_count() {
                if found.len() >= limit || Instant::now() > deadline {
                    break;
                }
                let Some(unit) = info.unit_once(number) else { continue };
                let names = files_of(&unit).into_iter();
                let fit = names.filter(|(_, name)| name.to_lowercase().contains(&text));
                found.extend(fit.map(|(file, _)| path_of(&unit, file)));
            }
        }
        found.into_iter().take(limit).collect()
    }

    /// The source line of an address at a time.
    pub fn source_of(&self, log: u64, time: u64, address: u64) -> Option<Source> {
        let loaded = self.module_at(log, time, address)?;
        loaded.file.as_ref()?.line(loaded.file_address(address))
    }

    /// How far the line of an address reaches, for stepping from line to line.
    pub fn line_ranges_around(&self, log: u64, time: u64, address: u64) -> Option<LineRange> {
        let loaded = self.module_at(log, time, address)?;
        let mut found = loaded.file.as_ref()?.line_around(loaded.file_address(address))?;
        found.range.start = found.range.start.wrapping_add(loaded.bias);
        found.range.end = found.range.end.wrapping_add(loaded.bias);
        Some(found)
    }
}

impl ObjectFile {
    fn code_of_line(&self, module: &Arc<Module>, file: &str, line: u32) -> Vec<LineCode> {
        let near = self.rows_of_file(file, &(line..u32::MAX));
        let statements = near.iter().flat_map(|(.., rows)| rows).filter(|row| row.is_statement);
        let Some(nearest) = statements.map(|row| row.line).min() else { return Vec::new() };
        let mut found = Vec::new();
        for (unit, table, mut rows) in near {
            rows.retain(|row| row.line == nearest);
            rows.truncate(ROWS_LIMIT);
            self.group_by_function(&unit, &table, &rows, module, nearest == line, &mut found);
        }
        found
    }

    fn code_of_lines(&self, module: &Arc<Module>, file: &str, lines: &Range<u32>) -> Vec<LineCode> {
        let mut found = Vec::new();
        for (unit, table, rows) in self.rows_of_file(file, lines) {
            let mut by_line: BTreeMap<u32, Vec<Row>> = BTreeMap::new();
            for row in rows {
                by_line.entry(row.line).or_default().push(row);
            }
            for mut rows in by_line.into_values() {
                rows.truncate(ROWS_LIMIT);
                self.group_by_function(&unit, &table, &rows, module, true, &mut found);
            }
        }
        found
    }

    /// The rows of some lines of a file, unit by unit.
    fn rows_of_file(
        &self,
        file: &str,
        lines: &Range<u32>,
    ) -> Vec<(Arc<DebugUnit>, Arc<Table>, Vec<Row>)> {
        let Some(info) = self.debug_info() else { return Vec::new() };
        let wanted = path_components(file);
        let Some(name) = wanted.last() else { return Vec::new() };
        let mut found = Vec::new();
        for (unit, numbers) in self.file_names().units_with(info, name) {
            let table = self.lines().table(&unit);
            let is_file = |number: &u32| is_path(&table.path(&unit, *number), file, &wanted);
            let numbers: Vec<u32> = numbers.into_iter().filter(is_file).collect();
            let is_wanted = |row: &&Row| {
                row.line != 0 && lines.contains(&row.line) && numbers.contains(&row.file)
            };
            let all = table.rows().iter().chain(table.empty_rows());
            let rows: Vec<Row> = all.filter(is_wanted).copied().collect();
            found.push((unit, table, rows));
        }
        found
    }

    fn group_by_function(
        &self,
        unit: &Arc<DebugUnit>,
        table: &Table,
        rows: &[Row],
        module: &Arc<Module>,
        is_exact: bool,
        found: &mut Vec<LineCode>,
    ) {
        let mut by_function: BTreeMap<Option<usize>, LineCode> = BTreeMap::new();
        let deadline = Instant::now() + SEARCH_LIMIT;
        for row in rows.iter().take_while(|_| Instant::now() < deadline) {
            let code = by_function.entry(innermost(unit, row.start)).or_insert_with(|| LineCode {
                source: table.source(unit, row),
                is_exact,
                module: Arc::clone(module),
                function: self.code_frames(row.start).first().and_then(|f| f.function.clone()),
                entries: Vec::new(),
                ranges: Vec::new(),
            });
            if row.is_statement {
                code.entries.push(row.start);
            }
            match code.ranges.last_mut().filter(|last| last.end == row.start) {
                Some(last) => last.end = row.end,
                None => code.ranges.extend((row.start < row.end).then_some(row.start..row.end)),
            }
        }
        for mut code in by_function.into_values() {
            code.entries.sort_unstable();
            // Statements that go on without a gap are one to whoever stops at it.
            let is_within = |entry: u64| {
                code.ranges.iter().any(|range| range.start < entry && entry < range.end)
            };
            let begins: Vec<u64> =
                code.entries.iter().copied().filter(|entry| !is_within(*entry)).collect();
            code.entries = if begins.is_empty() { code.entries } else { begins };
            code.entries.dedup();
            found.extend((!code.entries.is_empty()).then_some(code));
        }
    }

    fn line_around(&self, address: u64) -> Option<LineRange> {
        let info = self.debug_info()?;
        info.units_at(address).into_iter().find_map(|unit| {
            let table = self.lines().table(&unit);
            let rows = table.rows();
            let at = rows.partition_point(|row| row.start <= address).checked_sub(1)?;
            let row = rows.get(at).filter(|row| address < row.end && row.line != 0)?;
            let function = innermost(&unit, address);
            let belongs = |other: &Row| {
                (other.file, other.line) == (row.file, row.line)
                    && innermost(&unit, other.start) == function
            };
            let mut range = row.start..row.end;
            for before in rows[..at].iter().rev().take(NEIGHBOURS) {
                if before.end != range.start || !belongs(before) {
                    break;
                }
                range.start = before.start;
            }
            for after in rows[at + 1..].iter().take(NEIGHBOURS) {
                if after.start != range.end || !belongs(after) {
                    break;
                }
                range.end = after.end;
            }
            Some(LineRange {
                source: table.source(&unit, row),
                range,
                is_statement: row.is_statement && row.start == address,
                function: self.code_frames(address).first().and_then(|f| f.function.clone()),
            })
        })
    }
}

/// What tells functions of a unit apart, each place where one is inlined for itself.
fn innermost(unit: &DebugUnit, address: u64) -> Option<usize> {
    let scopes = unit.scopes_at(address);
    scopes.iter().rev().find(|scope| scope.kind != ScopeKind::Block).map(|scope| scope.offset.0)
}

/// Which units have a file of some name.
#[derive(Debug, Default)]
pub(crate) struct FileNames {
    /// Sum of the name, number of the unit, number of the file in it; sorted.
    rows: Vec<(u32, u32, u32)>,
}

impl FileNames {
    pub(crate) fn list(info: &DebugInfo) -> FileNames {
        let deadline = Instant::now() + LISTING_LIMIT;
        let next = AtomicUsize::new(0);
        let list = || {
            let mut rows = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= info.unit_count() || Instant::now() > deadline {
                    return rows;
                }
                let Some(unit) = info.unit_once(number) else { continue };
                let names = files_of(&unit).into_iter();
                rows.extend(names.map(|(file, name)| (sum_of(&name), unit.number(), file)));
            }
        };
        let mut rows = thread::scope(|scope| {
            let threads = thread::available_parallelism().map_or(1, usize::from);
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(list)).collect();
            let mut rows = list();
            for other in others {
                rows.append(&mut other.join().unwrap_or_default());
            }
            rows
        });
        rows.sort_unstable();
        rows.dedup();
        FileNames { rows }
    }

    /// The units that have files of this name, and their numbers there.
    fn units_with(&self, info: &DebugInfo, name: &str) -> Vec<(Arc<DebugUnit>, Vec<u32>)> {
        let sum = sum_of(name);
        let from = self.rows.partition_point(|row| row.0 < sum);
        let rows = self.rows[from..].iter().take_while(|row| row.0 == sum);
        let mut by_unit: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (_, unit, file) in rows {
            by_unit.entry(*unit).or_default().push(*file);
        }
        let units = by_unit.iter_mut();
        units
            .filter_map(|(unit, files)| Some((info.unit(*unit as usize)?, mem::take(files))))
            .collect()
    }
}

fn sum_of(name: &str) -> u32 {
    crc32fast::hash(name.as_bytes())
}

/// The parts of a path, without those that go nowhere.
fn path_components(path: &str) -> Vec<&str> {
    let mut components: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if components.last().is_some_and(|last| *last != "..") => {
                components.pop();
            }
            part => components.push(part),
        }
    }
    components
}

/// Whether a path is, or ends with, one that was given.
fn is_path(path: &str, given: &str, components: &[&str]) -> bool {
    let known = path_components(path);
    match given.starts_with('/') {
        true => known == components,
        false => known.ends_with(components),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_given_by_their_last_parts() {
        for (path, given, expected) in [
            ("/home/a/src/main.c", "main.c", true),
            ("/home/a/src/main.c", "src/main.c", true),
            ("/home/a/src/main.c", "rc/main.c", false),
            ("/home/a/src/main.c", "/src/main.c", false),
            ("/home/a/src/main.c", "/home/a/src/main.c", true),
            ("/home/a/build/../src/./main.c", "a/src/main.c", true),
            ("./csu/../csu/libc-start.c", "csu/libc-start.c", true),
            ("main.c", "./main.c", true),
        ] {
            assert_eq!(is_path(path, given, &path_components(given)), expected, "{given}");
        }
    }
}
