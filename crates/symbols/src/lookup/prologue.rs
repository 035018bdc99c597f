//! Where the body of a function begins: what comes before only sets up its frame, and arguments are not yet where
//! debug information says.
//!
//! The rules are those of gdb, so that both stop at the same instruction. Compilers on LLVM mark the place. GCC tells
//! where variables are at every instruction when it optimises, and nothing needs to be passed over; else, the body
//! begins with the first row of the line table behind `push %rbp; mov %rsp, %rbp`.

use gimli::Reader as _;

use crate::debug_info::DebugUnit;
use crate::lines::Row;
use crate::object_file::ObjectFile;

const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
const PUSH_RBP: u8 = 0x55;
const MOVE_RSP_TO_RBP: [[u8; 3]; 2] = [[0x48, 0x89, 0xe5], [0x48, 0x8b, 0xec]];

/// Bytes of code that are looked at.
const LOOKED_AT: usize = 8;

/// Kinds of entries of a unit that are looked through.
const ABBREVIATIONS_LIMIT: u64 = 1 << 16;

/// Where the body of a function begins that is at `start..end` in the file.
pub(super) fn body(file: &ObjectFile, start: u64, end: u64) -> u64 {
    let frame_end = frame_end(file, start).filter(|at| *at < end);
    let unit = file.debug_info().and_then(|info| info.unit_of(start));
    let Some(unit) = unit else { return frame_end.unwrap_or(start) };
    let table = file.lines().table(&unit);
    let rows = table.rows();
    let first = rows.partition_point(|row| row.start < start);
    let behind = rows.partition_point(|row| row.start < end);
    let rows = rows.get(first..behind).unwrap_or_default();
    if is_of_llvm(&unit) {
        return marked(rows).or_else(|| second_line(rows)).unwrap_or(start);
    }
    if tells_all_locations(&unit) {
        return start;
    }
    match frame_end {
        Some(at) => rows.iter().map(|row| row.start).find(|row| *row >= at).unwrap_or(at),
        None => start,
    }
}

fn marked(rows: &[Row]) -> Option<u64> {
    rows.iter().find(|row| row.is_prologue_end).map(|row| row.start)
}

fn second_line(rows: &[Row]) -> Option<u64> {
    let first = rows.first()?;
    rows.iter().find(|row| row.line >= first.line && row.start > first.start).map(|row| row.start)
}

/// The address behind what sets up the frame pointer, if that is how the function begins.
fn frame_end(file: &ObjectFile, start: u64) -> Option<u64> {
    let mut code = [0; LOOKED_AT];
    file.read_code(start, &mut code)?;
    let skipped = if code[..4] == ENDBR64 { 4 } else { 0 };
    let [push, moves @ ..] = &code[skipped..skipped + 4] else { return None };
    let is_frame = *push == PUSH_RBP && MOVE_RSP_TO_RBP.iter().any(|known| known == moves);
    is_frame.then(|| start.wrapping_add(skipped as u64 + 4))
}

fn is_of_llvm(unit: &DebugUnit) -> bool {
    let root = unit.unit().entry(unit.unit().header.root_offset()).ok();
    let producer = root.and_then(|root| root.attr_value(gimli::DW_AT_producer));
    let text = producer.and_then(|producer| unit.unit_ref().attr_string(producer).ok());
    text.and_then(|text| text.to_slice().ok().map(|bytes| bytes.into_owned()))
        .is_some_and(|text| text.windows(5).any(|part| part == b"clang" || part == b"rustc"))
}

/// Whether the unit has lists that say where variables are, instruction by instruction.
fn tells_all_locations(unit: &DebugUnit) -> bool {
    let abbreviations = &unit.unit().abbreviations;
    let all = (1..ABBREVIATIONS_LIMIT).map_while(|code| abbreviations.get(code));
    all.filter(|kind| matches!(kind.tag(), gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter))
        .flat_map(|kind| kind.attributes())
        .any(|attribute| {
            attribute.name() == gimli::DW_AT_location
                && matches!(attribute.form(), gimli::DW_FORM_sec_offset | gimli::DW_FORM_loclistx)
        })
}
