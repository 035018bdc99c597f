//! Source lines by address, and the other way round, from DWARF's line tables.
//!
//! The table of a unit is read when an address of it is asked for. To find the code of a line, the names of files are
//! read in all tables, and rows only in those that have the file.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use gimli::{LineProgramHeader, Reader as _, UnitRef};

use crate::debug_info::{Bytes, DebugInfo, DebugUnit};
use crate::lock;

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
    /// The column, from 1 on; 0 if it is not known.
    pub column: u32,
}

/// Code of one line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) file: u32,
    /// 0 for code that comes from nowhere.
    pub(crate) line: u32,
    pub(crate) column: u32,
    /// A good place to stop at.
    pub(crate) is_statement: bool,
    /// What sets up the function ends before it.
    pub(crate) is_prologue_end: bool,
}

/// The line table of a unit.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// Sorted by `start`.
    rows: Vec<Row>,
    /// Statements whose code is that of another row for the same address, sorted by `start`.
    empty_rows: Vec<Row>,
    files: Mutex<HashMap<u32, Arc<str>>>,
}

/// The line tables of a file that were read.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    by_unit: HashMap<u32, Arc<Table>>,
    rows: usize,
}

impl Lines {
    /// The line of an address.
    pub(crate) fn find(&self, info: &DebugInfo, address: u64) -> Option<Source> {
        info.units_at(address).into_iter().find_map(|unit| {
            let table = self.table(&unit);
            let row = table.row_at(address).filter(|row| row.line != 0)?;
            Some(table.source(&unit, row))
        })
    }

    /// The table of a unit.
    pub(crate) fn table(&self, unit: &DebugUnit) -> Arc<Table> {
        if let Some(known) = lock(&self.tables).by_unit.get(&unit.number()) {
            return Arc::clone(known);
        }
        let table = Arc::new(read_table(unit).unwrap_or_default());
        let mut tables = lock(&self.tables);
        if tables.rows > ROWS_LIMIT {
            *tables = Tables::default();
        }
        tables.rows += table.rows.len() + table.empty_rows.len();
        tables.by_unit.insert(unit.number(), Arc::clone(&table));
        table
    }
}

impl Table {
    /// All rows, sorted by their start.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Statements without code of their own: their first instruction is that of another row.
    pub(crate) fn empty_rows(&self) -> &[Row] {
        &self.empty_rows
    }

    /// The row around an address.
    pub(crate) fn row_at(&self, address: u64) -> Option<&Row> {
        let after = self.rows.partition_point(|row| row.start <= address);
        self.rows[..after].last().filter(|row| address < row.end)
    }

    /// What a row of this table stands for.
    pub(crate) fn source(&self, unit: &DebugUnit, row: &Row) -> Source {
        Source { path: self.path(unit, row.file), line: row.line, column: row.column }
    }

    /// The path of a file by its number.
    pub(crate) fn path(&self, unit: &DebugUnit, file: u32) -> Arc<str> {
        let mut files = lock(&self.files);
        Arc::clone(files.entry(file).or_insert_with(|| path_of(unit, file).into()))
    }
}

fn read_table(unit: &DebugUnit) -> gimli::Result<Table> {
    let Some(program) = unit.line_unit().unit.line_program.clone() else {
        return Ok(Table::default());
    };
    let mut table = Table::default();
    let mut rows = program.rows();
    let mut open: Option<Row> = None;
    while let Some((_, row)) = rows.next_row()? {
        let address = row.address();
        if let Some(mut last) = open
            && last.start < address
        {
            last.end = address;
            if table.rows.len() == ROWS_LIMIT {
                break;
            }
            table.rows.push(last);
            open = None;
        }
        // Of several rows for one address the last counts, but not over one at which a statement begins.
        open = match open {
            _ if row.end_sequence() => None,
            Some(last) if last.is_statement && !row.is_stmt() => open,
            Some(last) => {
                if last.is_statement && table.empty_rows.len() < ROWS_LIMIT {
                    table.empty_rows.push(last);
                }
                Some(row_of(row))
            }
            None => Some(row_of(row)),
        };
    }
    table.rows.sort_by_key(|row| row.start);
    table.empty_rows.sort_by_key(|row| row.start);
    Ok(table)
}

fn row_of(row: &gimli::LineRow) -> Row {
    Row {
        start: row.address(),
        end: row.address(),
        file: u32::try_from(row.file_index()).unwrap_or(u32::MAX),
        line: row.line().and_then(|line| u32::try_from(line.get()).ok()).unwrap_or(0),
        column: match row.column() {
            gimli::ColumnType::LeftEdge => 0,
            gimli::ColumnType::Column(column) => column.get().try_into().unwrap_or(0),
        },
        is_statement: row.is_stmt(),
        is_prologue_end: row.prologue_end(),
    }
}

/// The files of a unit: their numbers and the last parts of their names.
pub(crate) fn files_of(unit: &DebugUnit) -> Vec<(u32, String)> {
    let unit = unit.line_unit();
    let Some(program) = &unit.unit.line_program else { return Vec::new() };
    let header = program.header();
    // Numbers begin with 1 before DWARF 5.
    let first = u32::from(header.version() < 5);
    let names = header.file_names().iter().zip(first..);
    names
        .filter_map(|(entry, number)| {
            let name = text(&unit, entry.path_name())?;
            Some((number, name.rsplit('/').next().unwrap_or_default().to_string()))
        })
        .collect()
}

fn text(unit: &UnitRef<Bytes>, value: gimli::AttributeValue<Bytes>) -> Option<String> {
    let bytes = unit.attr_string(value).ok()?;
    let bytes = bytes.to_slice().ok()?;
    Some(String::from_utf8_lossy(&bytes[..bytes.len().min(PATH_LIMIT)]).into_owned())
}

/// The path of a file of a line table: directory of the compilation, directory, name.
pub(crate) fn path_of(unit: &DebugUnit, file: u32) -> String {
    let unit = unit.line_unit();
    let header: Option<&LineProgramHeader<Bytes>> =
        unit.unit.line_program.as_ref().map(|program| program.header());
    let Some((header, entry)) =
        header.and_then(|header| Some((header, header.file(u64::from(file))?)))
    else {
        return "?".into();
    };
    let mut path = text(&unit, entry.path_name()).unwrap_or_default();
    if let Some(directory) = entry.directory(header).and_then(|directory| text(&unit, directory)) {
        path = joined(&directory, &path);
    }
    if let Some(directory) = &unit.unit.comp_dir
        && let Ok(directory) = directory.to_string_lossy()
    {
        path = joined(&directory[..directory.floor_char_boundary(PATH_LIMIT)], &path);
    }
    path
}

fn joined(directory: &str, path: &str) -> String {
    if path.starts_with('/') || directory.is_empty() || directory == "." {
        return path.to_string();
    }
    format!("{}/{path}", directory.trim_end_matches('/'))
}
