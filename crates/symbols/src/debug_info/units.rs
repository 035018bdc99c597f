//! The units of a section, parsed one by one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use gimli::{
    Abbreviations, DebugInfoOffset, DebugTypeSignature, Dwarf, Unit, UnitHeader, UnitRef, UnitType,
};

use super::Bytes;
use super::scopes::FunctionRanges;
use super::split::{SplitFiles, SplitUnit};
use crate::lock;

/// Units of a file; the largest programs have some ten thousand.
const UNITS_LIMIT: usize = 1 << 20;

/// Tables of abbreviations that are kept for the next unit.
const ABBREVIATIONS_KEPT: usize = 64;

/// Which sections the offsets of a unit are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// Those of the file itself.
    Main,
    /// Those of the file that it shares with others.
    Supplementary,
    /// Those of a file with split units.
    Split,
}

/// A unit, together with the sections that it refers to.
#[derive(Debug)]
pub(crate) struct DebugUnit {
    number: u32,
    home: Home,
    dwarf: Arc<Dwarf<Bytes>>,
    unit: Unit<Bytes>,
    /// What the file itself has of a split unit, with the sections of that.
    skeleton: Option<(Arc<Dwarf<Bytes>>, Unit<Bytes>)>,
    pub(super) functions: OnceLock<FunctionRanges>,
}

impl DebugUnit {
    /// One that needs no other.
    pub(super) fn new(
        number: u32,
        home: Home,
        dwarf: Arc<Dwarf<Bytes>>,
        unit: Unit<Bytes>,
    ) -> DebugUnit {
        DebugUnit { number, home, dwarf, unit, skeleton: None, functions: OnceLock::new() }
    }

    /// The unit with its entries.
    pub(crate) fn unit(&self) -> &Unit<Bytes> {
        &self.unit
    }

    /// Both together.
    pub(crate) fn unit_ref(&self) -> UnitRef<'_, Bytes> {
        self.unit.unit_ref(&self.dwarf)
    }

    /// What no other unit of the file has.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Whether it only describes.
    pub(crate) fn has_no_code(&self) -> bool {
        self.line_unit().unit_ranges().is_ok_and(|mut ranges| matches!(ranges.next(), Ok(None)))
    }

    pub(super) fn shared_dwarf(&self) -> &Arc<Dwarf<Bytes>> {
        &self.dwarf
    }

    pub(super) fn home(&self) -> Home {
        self.home
    }

    /// The unit as the file itself has it.
    pub(super) fn skeleton_or_unit(&self) -> &Unit<Bytes> {
        self.skeleton.as_ref().map_or(&self.unit, |(_, skeleton)| skeleton)
    }

    /// The unit that has the line table and the directory, and its sections.
    pub(crate) fn line_unit(&self) -> UnitRef<'_, Bytes> {
        match &self.skeleton {
            Some((dwarf, skeleton)) => skeleton.unit_ref(dwarf),
            None => self.unit_ref(),
        }
    }
}

/// The units of `.debug_info`, then those of `.debug_types`.
#[derive(Debug)]
pub(crate) struct UnitTable {
    dwarf: Arc<Dwarf<Bytes>>,
    home: Home,
    /// The number of the first.
    first: usize,
    headers: Vec<UnitHeader<Bytes>>,
    /// How many are in `.debug_info`.
    in_info: usize,
    parsed: Vec<OnceLock<Option<Arc<DebugUnit>>>>,
    /// By offset: units next to each other often share them.
    abbreviations: Mutex<HashMap<usize, Arc<Abbreviations>>>,
}

impl UnitTable {
    /// Reads the headers. What cannot be read ends the list.
    pub(super) fn new(dwarf: Arc<Dwarf<Bytes>>, home: Home, first: usize) -> UnitTable {
        let mut headers = Vec::new();
        let mut units = dwarf.units();
        while headers.len() < UNITS_LIMIT
            && let Ok(Some(header)) = units.next()
        {
            headers.push(header);
        }
        let in_info = headers.len();
        let mut units = dwarf.type_units();
        while headers.len() < UNITS_LIMIT
            && let Ok(Some(header)) = units.next()
        {
            headers.push(header);
        }
        let parsed = headers.iter().map(|_| OnceLock::new()).collect();
        let abbreviations = Mutex::default();
        UnitTable { dwarf, home, first, headers, in_info, parsed, abbreviations }
    }

    pub(super) fn len(&self) -> usize {
        self.headers.len()
    }

    pub(super) fn dwarf(&self) -> &Arc<Dwarf<Bytes>> {
        &self.dwarf
    }

    /// The header of a unit.
    pub(super) fn header(&self, number: usize) -> Option<&UnitHeader<Bytes>> {
        self.headers.get(number)
    }

    /// The unit that an offset in `.debug_info` lies in.
    pub(super) fn number_at(&self, offset: DebugInfoOffset) -> Option<usize> {
        let begins = |header: &UnitHeader<Bytes>| header.offset().0 <= offset.0;
        self.headers[..self.in_info].partition_point(begins).checked_sub(1)
    }

    /// The unit that begins at an offset in `.debug_info`.
    pub(super) fn number_of(&self, offset: DebugInfoOffset) -> Option<usize> {
        self.number_at(offset).filter(|&number| self.headers[number].offset().0 == offset.0)
    }

    /// The numbers of type units by their signatures.
    pub(super) fn type_units(&self) -> HashMap<u64, usize> {
        let numbered = self.headers.iter().enumerate();
        numbered.filter_map(|(number, header)| Some((signature_of(header)?.0, number))).collect()
    }

    /// A unit, kept for the next who asks.
    pub(super) fn unit(&self, number: usize, split: &SplitFiles) -> Option<Arc<DebugUnit>> {
        self.parsed.get(number)?.get_or_init(|| self.parse(number, split).map(Arc::new)).clone()
    }

    /// A unit, not kept.
    pub(super) fn unit_once(&self, number: usize, split: &SplitFiles) -> Option<Arc<DebugUnit>> {
        match self.parsed.get(number)?.get() {
            Some(known) => known.clone(),
            None => self.parse(number, split).map(Arc::new),
        }
    }

    /// What the file itself has of a unit.
    pub(super) fn skeleton(&self, number: usize) -> Option<Unit<Bytes>> {
        let header = self.headers.get(number)?.clone();
        let abbreviations = self.abbreviations_of(&header)?;
        Unit::new_with_abbreviations(&self.dwarf, header, abbreviations).ok()
    }

    fn abbreviations_of(&self, header: &UnitHeader<Bytes>) -> Option<Arc<Abbreviations>> {
        let offset = header.debug_abbrev_offset().0;
        if let Some(known) = lock(&self.abbreviations).get(&offset) {
            return Some(Arc::clone(known));
        }
        let read = self.dwarf.abbreviations(header).ok()?;
        let mut known = lock(&self.abbreviations);
        if known.len() > ABBREVIATIONS_KEPT {
            known.clear();
        }
        known.insert(offset, Arc::clone(&read));
        Some(read)
    }

    fn parse(&self, number: usize, split: &SplitFiles) -> Option<DebugUnit> {
        let unit = self.skeleton(number)?;
        let name = u32::try_from(self.first + number).ok()?;
        let Some(SplitUnit { dwarf, unit: full }) = split.unit_of(&unit, &self.dwarf) else {
            return Some(DebugUnit::new(name, self.home, Arc::clone(&self.dwarf), unit));
        };
        let skeleton = Some((Arc::clone(&self.dwarf), unit));
        Some(DebugUnit { skeleton, ..DebugUnit::new(name, Home::Split, dwarf, full) })
    }
}

/// What the type of a type unit is referred to by.
pub(super) fn signature_of(header: &UnitHeader<Bytes>) -> Option<DebugTypeSignature> {
    match header.type_() {
        UnitType::Type { type_signature, .. } | UnitType::SplitType { type_signature, .. } => {
            Some(type_signature)
        }
        _ => None,
    }
}
