//! Which units mention a name.
//!
//! Listing all units of a large program takes seconds, and most names are those of few. A unit can define a name only
//! if it has its text, or the place of its text among the strings of the file. Looking for these among the bytes of the
//! unit, whatever they mean, takes a fraction of listing it.
//!
//! Invariant: a unit that defines the name is never left out. Where a name can come from elsewhere (another unit,
//! another file), or is too short or too frequent to look for, the unit counts as one that mentions it.

use std::collections::HashMap;
use std::sync::Mutex;

use gimli::{
    DebugAbbrevOffset, DwAt, DwForm, DwTag, Dwarf, Format, Reader as _, Section as _, UnitHeader,
};
use memchr::memmem;

use crate::debug_info::units::UnitTable;
use crate::debug_info::{Bytes, DebugInfo};
use crate::lock;

/// Places of a text that are looked for; of more frequent texts all units are listed.
const PLACES_LIMIT: usize = 1 << 12;

/// Bytes of the strings that are searched at once.
const WINDOW: usize = 1 << 20;

/// Attributes of a table of abbreviations that are looked at.
const ATTRIBUTES_LIMIT: usize = 1 << 20;

/// What is looked for is compared in words of this many bytes.
const WORD: usize = 4;

/// How the entries of a unit come by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naming {
    /// By text in the entry, or by its place.
    Direct,
    /// By a number in the unit's table of places.
    Numbered,
    /// By something else, or through another unit.
    Elsewhere,
}

/// A name that is looked for.
pub(super) struct Mentions {
    text: Vec<u8>,
    /// Where it stands among the strings, sorted.
    places: Vec<u32>,
    /// One bit for each sum of a word that is looked for.
    words: Box<[u64; 1 << 10]>,
    /// By the offsets of tables of abbreviations.
    namings: Mutex<HashMap<usize, Naming>>,
}

impl Mentions {
    /// For a name without template arguments. None if it cannot be looked for.
    pub(super) fn of(text: &[u8], units: &UnitTable) -> Option<Mentions> {
        let first = text.first_chunk::<WORD>()?;
        let mut mentions = Mentions {
            text: text.to_vec(),
            places: places(units.dwarf().debug_str.reader(), text)?,
            words: Box::new([0; 1 << 10]),
            namings: Mutex::default(),
        };
        for word in mentions.places.iter().copied().chain([u32::from_le_bytes(*first)]) {
            let (index, bit) = bit_of(word);
            mentions.words[index] |= bit;
        }
        Some(mentions)
    }

    /// Whether a unit may define the name. The buffer is for its bytes.
    pub(super) fn are_in(
        &self,
        info: &DebugInfo,
        units: &UnitTable,
        number: usize,
        buffer: &mut Vec<u8>,
    ) -> bool {
        let Some(header) = units.header(number) else { return true };
        let bytes = match self.naming(units.dwarf(), header) {
            Naming::Direct => header.range_from(header.root_offset()..).ok(),
            Naming::Numbered => table_of_places(info, number),
            Naming::Elsewhere => None,
        };
        let is_read = bytes.and_then(|bytes| bytes.copy_to(buffer)).is_some();
        !is_read || self.are_among(buffer)
    }

    fn are_among(&self, bytes: &[u8]) -> bool {
        bytes.windows(WORD).enumerate().any(|(at, window)| {
            let word = window.first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
            let (index, bit) = bit_of(word);
            self.words[index] & bit != 0
                && (self.places.binary_search(&word).is_ok() || begins(&bytes[at..], &self.text))
        })
    }

    fn naming(&self, dwarf: &Dwarf<Bytes>, header: &UnitHeader<Bytes>) -> Naming {
        let offset = header.debug_abbrev_offset();
        if let Some(known) = lock(&self.namings).get(&offset.0) {
            return *known;
        }
        let naming = read_naming(dwarf, offset).unwrap_or(Naming::Elsewhere);
        lock(&self.namings).insert(offset.0, naming);
        naming
    }
}

/// Which bit stands for a word.
fn bit_of(word: u32) -> (usize, u64) {
    let sum = word.wrapping_mul(0x9e37_79b1) >> 16;
    ((sum >> 6) as usize, 1 << (sum & 63))
}

/// Whether bytes begin with a name, with or without template arguments.
fn begins(bytes: &[u8], name: &[u8]) -> bool {
    bytes.strip_prefix(name).is_some_and(|rest| matches!(rest.first(), Some(0 | b'<')))
}

/// Where a name stands among strings, also as the end of a longer one: linkers let strings share their ends.
fn places(strings: &Bytes, name: &[u8]) -> Option<Vec<u32>> {
    let finder = memmem::Finder::new(name);
    let mut found = Vec::new();
    let mut window = Vec::new();
    let mut from = 0;
    while from < strings.len() {
        let mut part = strings.clone();
        part.skip(from).ok()?;
        part.truncate(part.len().min(WINDOW + name.len())).ok()?;
        part.copy_to(&mut window)?;
        let mut start = 0;
        // What begins behind the window is found in the next one.
        while let Some(at) = finder.find(&window[start..]).map(|at| start + at)
            && at < WINDOW
        {
            if begins(&window[at..], name) {
                found.push(u32::try_from(from + at).ok()?);
            }
            start = at + 1;
        }
        if found.len() > PLACES_LIMIT {
            return None;
        }
        from += WINDOW;
    }
    Some(found)
}

/// The places of the strings that a unit has numbers for.
fn table_of_places(info: &DebugInfo, number: usize) -> Option<Bytes> {
    /// A length, a version and two bytes that mean nothing come before.
    const HEAD: usize = 8;
    let unit = info.unit_once(number)?;
    let unit = unit.unit_ref();
    (unit.unit.encoding().format == Format::Dwarf32).then_some(())?;
    let mut table = unit.dwarf.debug_str_offsets.reader().clone();
    table.skip(unit.unit.str_offsets_base.0.checked_sub(HEAD)?).ok()?;
    let length = usize::try_from(table.read_u32().ok()?).ok()?;
    table.truncate(length).ok()?;
    Some(table)
}

/// How those come by their names whose abbreviations are at an offset.
fn read_naming(dwarf: &Dwarf<Bytes>, offset: DebugAbbrevOffset) -> gimli::Result<Naming> {
    let mut table = dwarf.debug_abbrev.reader().clone();
    table.skip(offset.0)?;
    let mut naming = None;
    let mut left = ATTRIBUTES_LIMIT;
    let mut attributes = Vec::new();
    while table.read_uleb128()? != 0 {
        let tag = DwTag(table.read_uleb128_u16()?);
        table.read_u8()?;
        attributes.clear();
        loop {
            let (name, form) = (table.read_uleb128_u16()?, table.read_uleb128_u16()?);
            if (name, form) == (0, 0) {
                break;
            }
            if form == gimli::DW_FORM_implicit_const.0 {
                table.skip_leb128()?;
            }
            attributes.push((DwAt(name), DwForm(form)));
        }
        left = usize::saturating_sub(left, attributes.len());
        let found = naming_by(tag, &attributes).or(naming);
        // Who names in several ways is not looked at closely.
        let is_mixed = naming.is_some() && naming != found;
        if found == Some(Naming::Elsewhere) || is_mixed || left == 0 {
            return Ok(Naming::Elsewhere);
        }
        naming = found;
    }
    Ok(naming.unwrap_or(Naming::Direct))
}

/// What an abbreviation says about it.
fn naming_by(tag: DwTag, attributes: &[(DwAt, DwForm)]) -> Option<Naming> {
    let form_of =
        |wanted| attributes.iter().find(|(name, _)| *name == wanted).map(|(_, form)| *form);
    let is_foreign = |name| {
        form_of(name).is_some_and(|form| {
            !matches!(
                form,
                gimli::DW_FORM_ref1
                    | gimli::DW_FORM_ref2
                    | gimli::DW_FORM_ref4
                    | gimli::DW_FORM_ref8
                    | gimli::DW_FORM_ref_udata
            )
        })
    };
    // What has a list of places has none that is fixed.
    let is_listed = |form| matches!(form, gimli::DW_FORM_sec_offset | gimli::DW_FORM_loclistx);
    let defines = match tag {
        gimli::DW_TAG_compile_unit
        | gimli::DW_TAG_partial_unit
        | gimli::DW_TAG_type_unit
        | gimli::DW_TAG_skeleton_unit => {
            // The contents are in another file.
            let is_split = [gimli::DW_AT_dwo_name, gimli::DW_AT_GNU_dwo_name];
            let is_split = is_split.into_iter().any(|name| form_of(name).is_some());
            return is_split.then_some(Naming::Elsewhere);
        }
        gimli::DW_TAG_subprogram => true,
        gimli::DW_TAG_variable | gimli::DW_TAG_member => {
            form_of(gimli::DW_AT_const_value).is_some()
                || form_of(gimli::DW_AT_location).is_some_and(|form| !is_listed(form))
        }
        _ => false,
    };
    if defines
        && (is_foreign(gimli::DW_AT_specification) || is_foreign(gimli::DW_AT_abstract_origin))
    {
        return Some(Naming::Elsewhere);
    }
    form_of(gimli::DW_AT_name).map(|form| match form {
        gimli::DW_FORM_string | gimli::DW_FORM_strp => Naming::Direct,
        gimli::DW_FORM_strx
        | gimli::DW_FORM_strx1
        | gimli::DW_FORM_strx2
        | gimli::DW_FORM_strx3
        | gimli::DW_FORM_strx4 => Naming::Numbered,
        _ => Naming::Elsewhere,
    })
}
