//! `retro maps`: the address space.

use anyhow::Result;
use retro_query::Mapping;
use serde_json::json;

use super::frame::hex;
use super::question::{Question, told};
use crate::Completeness;
use crate::arguments::MapsOptions;
use crate::quoting::printable;
use crate::table::{Align, Table};

/// Prints the mappings.
pub fn maps(options: &MapsOptions) -> Result<Completeness> {
    let mut question = Question::new(&options.subject)?;
    let maps = question.run.maps(question.moment).map_err(told)?;
    if question.is_json {
        for mapping in &maps {
            let object = json!({
                "start": hex(mapping.start),
                "end": hex(mapping.end),
                "rights": rights(mapping),
                "offset": hex(mapping.offset),
                "file": mapping.file.as_ref().map(|file| file.to_string_lossy()),
                "since": mapping.since,
            });
            question.object(&object)?;
        }
        question.output.flush()?;
        return Ok(Completeness::Whole);
    }
    let mut table =
        Table::new(&[Align::Left, Align::Left, Align::Right, Align::Right, Align::Left]);
    table.row(["ADDRESSES", "RIGHTS", "OFFSET", "SINCE", "FILE"]);
    for mapping in &maps {
        let file = mapping.file.as_ref();
        table.row([
            format!("{:#x}-{:#x}", mapping.start, mapping.end),
            rights(mapping),
            hex(mapping.offset),
            mapping.since.to_string(),
            file.map_or_else(String::new, |file| printable(file.as_os_str().as_encoded_bytes())),
        ]);
    }
    for line in table.lines() {
        question.output.line(&line)?;
    }
    question.output.flush()?;
    Ok(Completeness::Whole)
}

/// `rw-p`, as in `/proc/PID/maps`.
fn rights(mapping: &Mapping) -> String {
    let bits = [(libc::PROT_READ, 'r'), (libc::PROT_WRITE, 'w'), (libc::PROT_EXEC, 'x')];
    let has = |bit: i32| mapping.prot.cast_signed() & bit != 0;
    let mut text: String =
        bits.iter().map(|&(bit, letter)| if has(bit) { letter } else { '-' }).collect();
    let shared = mapping.flags.cast_signed() & libc::MAP_TYPE & libc::MAP_SHARED != 0;
    text.push(if shared { 's' } else { 'p' });
    text
}
