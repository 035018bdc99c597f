//! Source lines by address, from DWARF's line tables.
//!
//! Tables of large programs take seconds to read as a whole. So only the address ranges of units are gathered at
//! first; the table of a unit is read when an address of it is asked for.
//!
//! A hostile file can let many units share one long list of ranges or abbreviations, which is quadratic. Gathering is
//! therefore bounded in ranges and in time; units beyond have no lines.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimli::{Dwarf, EndianArcSlice, LineProgramHeader, LittleEndian, Reader as _, SectionId, Unit};

/// How the bytes of sections are held.
pub(crate) type Bytes = EndianArcSlice<LittleEndian>;

const RANGES_LIMIT: usize = 1 << 22;
const GATHERING_LIMIT: Duration = Duration::from_secs(5);
/// Units that are asked about one address. Ranges of units do not overlap but in broken files.
const UNITS_ASKED: usize = 8;
/// Rows of all tables that are kept.
const ROWS_LIMIT: usize = 1 << 24;
/// Bytes of a path.
const PATH_LIMIT: usize = 4096;

/// A place in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file, as the compiler was told.
    pub path: Arc<str>,
    /// The line, from 1 on.
    pub line: u32,
}

/// Where a unit has code.
#[derive(Clone, Copy, Debug)]
struct UnitRange {
    start: u64,
    end: u64,
    /// The largest end of this and all before it in order.
    reach: u64,
    unit: usize,
}

/// Code of one line.
#[derive(Clone, Copy, Debug)]
struct Row {
    start: u64,
    end: u64,
    file: u32,
    line: u32,
}

#[derive(Debug, Default)]
struct Table {
    /// Sorted by `start`.
    rows: Vec<Row>,
    files: HashMap<u32, Arc<str>>,
}

/// The line tables of a file.
#[derive(Debug)]
pub(crate) struct Lines {
    dwarf: Dwarf<Bytes>,
    units: Vec<Unit<Bytes>>,
    /// Sorted by `start`.
    ranges: Vec<UnitRange>,
    tables: HashMap<usize, Table>,
    rows_held: usize,
}

/// The sections that tell about lines.
pub(crate) fn is_wanted(section: SectionId) -> bool {
    use SectionId::*;
    matches!(
        section,
        DebugAbbrev
            | DebugAddr
            | DebugInfo
            | DebugLine
            | DebugLineStr
            | DebugRanges
            | DebugRngLists
            | DebugStr
            | DebugStrOffsets
    )
}

impl Lines {
    /// Gathers the units. What cannot be read is left out.
    pub(crate) fn new(dwarf: Dwarf<Bytes>) -> Lines {
        let mut lines = Lines {
            dwarf,
            units: Vec::new(),
            ranges: Vec::new(),
            tables: HashMap::new(),
            rows_held: 0,
        };
        lines.gather(Instant::now() + GATHERING_LIMIT);
        lines.ranges.sort_by_key(|range| range.start);
        let mut reach = 0;
        for range in &mut lines.ranges {
            reach = range.end.max(reach);
            range.reach = reach;
        }
        lines
    }

    fn gather(&mut self, deadline: Instant) {
        let mut headers = self.dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            if Instant::now() > deadline {
                return;
            }
            let Ok(unit) = self.dwarf.unit(header) else { continue };
            if unit.line_program.is_none() {
                continue;
            }
            let number = self.units.len();
            let Ok(mut ranges) = self.dwarf.unit_ranges(&unit) else { continue };
            while let Ok(Some(range)) = ranges.next() {
                if self.ranges.len() == RANGES_LIMIT {
                    return;
                }
                // Functions that the linker dropped are left at address 0.
                if range.begin != 0 && range.begin < range.end {
                    let (start, end) = (range.begin, range.end);
                    self.ranges.push(UnitRange { start, end, reach: 0, unit: number });
                }
            }
            self.units.push(unit);
        }
    }

    /// The line of an address.
    pub(crate) fn find(&mut self, address: u64) -> Option<Source> {
        let after = self.ranges.partition_point(|range| range.start <= address);
        let asked: Vec<usize> = self.ranges[..after]
            .iter()
            .rev()
            .take_while(|range| address < range.reach)
            .take(UNITS_ASKED)
            .filter(|range| address < range.end)
            .map(|range| range.unit)
            .collect();
        asked.into_iter().find_map(|unit| self.find_in(unit, address))
    }

    fn find_in(&mut self, number: usize, address: u64) -> Option<Source> {
        if !self.tables.contains_key(&number) {
            if self.rows_held > ROWS_LIMIT {
                self.tables.clear();
                self.rows_held = 0;
            }
            let table = read_table(&self.units[number]).unwrap_or_default();
            self.rows_held += table.rows.len();
            self.tables.insert(number, table);
        }
        let table = self.tables.get_mut(&number)?;
        let after = table.rows.partition_point(|row| row.start <= address);
        let row = *table.rows[..after].last().filter(|row| address < row.end && row.line != 0)?;
        let (dwarf, unit) = (&self.dwarf, &self.units[number]);
        let path = table.files.entry(row.file).or_insert_with(|| path_of(dwarf, unit, row.file));
        Some(Source { path: Arc::clone(path), line: row.line })
    }
}

fn read_table(unit: &Unit<Bytes>) -> gimli::Result<Table> {
    let Some(program) = unit.line_program.clone() else { return Ok(Table::default()) };
    let mut table = Table::default();
    let mut rows = program.rows();
    let mut open: Option<Row> = None;
    while let Some((_, row)) = rows.next_row()? {
        let address = row.address();
        if let Some(mut last) = open.take()
            && last.start < address
        {
            last.end = address;
            if table.rows.len() == ROWS_LIMIT {
                break;
            }
            table.rows.push(last);
        }
        if !row.end_sequence() {
            let line = row.line().and_then(|line| u32::try_from(line.get()).ok()).unwrap_or(0);
            let file = u32::try_from(row.file_index()).unwrap_or(u32::MAX);
            open = Some(Row { start: address, end: address, file, line });
        }
    }
    table.rows.sort_by_key(|row| row.start);
    Ok(table)
}

/// The path of a file of a line table: directory of the compilation, directory, name.
fn path_of(dwarf: &Dwarf<Bytes>, unit: &Unit<Bytes>, file: u32) -> Arc<str> {
    let text = |value| {
        let bytes = dwarf.attr_string(unit, value).ok()?;
        let bytes = bytes.to_slice().ok()?;
        Some(String::from_utf8_lossy(&bytes[..bytes.len().min(PATH_LIMIT)]).into_owned())
    };
    let header: Option<&LineProgramHeader<Bytes>> =
        unit.line_program.as_ref().map(|program| program.header());
    let Some((header, entry)) =
        header.and_then(|header| Some((header, header.file(u64::from(file))?)))
    else {
        return "?".into();
    };
    let mut path = text(entry.path_name()).unwrap_or_default();
    if let Some(directory) = entry.directory(header).and_then(text) {
        path = joined(&directory, &path);
    }
    if let Some(directory) = &unit.comp_dir
        && let Ok(directory) = directory.to_string_lossy()
    {
        path = joined(&directory[..directory.floor_char_boundary(PATH_LIMIT)], &path);
    }
    path.into()
}

fn joined(directory: &str, path: &str) -> String {
    if path.starts_with('/') || directory.is_empty() || directory == "." {
        return path.to_string();
    }
    format!("{}/{path}", directory.trim_end_matches('/'))
}
