//! The DWARF of one file: its units, found by address, by offset and by name.
//!
//! Debug information of large programs takes hundreds of megabytes and seconds to read as a whole. Opening it
//! therefore reads the headers of units, nothing within; units are read and parsed when they are asked for, and kept.
//!
//! ```text
//! units    the units of a section, parsed one by one
//! ranges   which unit has the code at an address
//! scopes   functions, blocks and inlined calls around an address
//! names    definitions by name
//! split    units whose contents lie in a file of their own (.dwo, .dwp)
//! ```
//!
//! What is said in one unit may continue elsewhere: in another unit, in one of the type units, in the file that
//! several packages share (`dwz`), or in a split file. [`DebugInfo::resolve`] follows all of these, so that an
//! [`EntryRef`] is all that others need to know.
//!
//! Invariants: no bytes make this module panic or hang; nothing is followed more than a bounded number of times;
//! everything is shared between threads, and no lock is held while something is parsed but that of the very thing.

mod names;
mod ranges;
mod scopes;
mod split;
mod units;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use gimli::{
    AttributeValue, DebugInfoOffset, DebugTypeSignature, Dwarf, SectionId, UnitOffset,
    UnitSectionOffset, UnitType,
};

use object::Object as _;

use crate::elf::{ElfSource, large_section, with_elf};
use crate::section_bytes::SectionBytes;
use crate::types::KnownTypes;

pub(crate) use names::{EntryKind, NamedEntry};
pub(crate) use scopes::{Scope, ScopeKind};
pub(crate) use units::DebugUnit;

use names::Names;
use ranges::UnitRanges;
use split::SplitFiles;
use units::{Home, UnitTable};

/// How the bytes of sections are held.
pub(crate) type Bytes = SectionBytes;

/// An entry of a unit.
#[derive(Clone, Debug)]
pub(crate) struct EntryRef {
    pub(crate) unit: Arc<DebugUnit>,
    pub(crate) offset: UnitOffset,
}

/// The debug information of a file.
#[derive(Debug)]
pub(crate) struct DebugInfo {
    main: UnitTable,
    /// What the file shares with others.
    supplementary: Option<UnitTable>,
    split: SplitFiles,
    ranges: OnceLock<UnitRanges>,
    /// Numbers of type units by their signature.
    type_units: OnceLock<HashMap<u64, usize>>,
    names: OnceLock<Names>,
    types: KnownTypes,
}

impl DebugInfo {
    /// Reads the sections of a file that was found at `path`, for a program at another, and of the one that it shares
    /// with others. None if it has no debug information.
    pub(crate) fn load(
        file: &ElfSource,
        path: &Path,
        program: &Path,
        shared: Option<&ElfSource>,
    ) -> Option<DebugInfo> {
        let mut dwarf = with_elf(file, |elf| {
            elf.section_by_name(SectionId::DebugInfo.name())?;
            Some(read_sections(|id| large_section(file, elf, id.name())))
        })??;
        let supplementary = shared.and_then(|shared| {
            with_elf(shared, |elf| read_sections(|id| large_section(shared, elf, id.name())))
        });
        let supplementary = supplementary.map(Arc::new);
        dwarf.sup.clone_from(&supplementary);
        let main = UnitTable::new(Arc::new(dwarf), Home::Main, 0);
        let supplementary =
            supplementary.map(|dwarf| UnitTable::new(dwarf, Home::Supplementary, main.len()));
        Some(DebugInfo {
            main,
            supplementary,
            split: SplitFiles::new(&[program, path], file.budget()),
            ranges: OnceLock::new(),
            type_units: OnceLock::new(),
            names: OnceLock::new(),
            types: KnownTypes::default(),
        })
    }

    /// How many units there are, those of the shared file included.
    pub(crate) fn unit_count(&self) -> usize {
        self.main.len() + self.supplementary.as_ref().map_or(0, UnitTable::len)
    }

    /// A unit by its number.
    pub(crate) fn unit(&self, number: usize) -> Option<Arc<DebugUnit>> {
        match number.checked_sub(self.main.len()) {
            None => self.main.unit(number, &self.split),
            Some(number) => self.supplementary.as_ref()?.unit(number, &self.split),
        }
    }

    /// A unit by its number, parsed for this caller alone: for those who look at all and need none of them again.
    pub(crate) fn unit_once(&self, number: usize) -> Option<Arc<DebugUnit>> {
        match number.checked_sub(self.main.len()) {
            None => self.main.unit_once(number, &self.split),
            Some(number) => self.supplementary.as_ref()?.unit_once(number, &self.split),
        }
    }

    /// The units with types that lie in the same file as a split unit.
    fn type_units_beside(&self, unit: &DebugUnit) -> Vec<Arc<DebugUnit>> {
        match unit.home() {
            Home::Split => self.split.type_units_beside(unit),
            _ => Vec::new(),
        }
    }

    /// The unit with the code at an address.
    pub(crate) fn unit_of(&self, address: u64) -> Option<Arc<DebugUnit>> {
        self.units_at(address).into_iter().next()
    }

    /// All units that say they have the code at an address: more than one in broken files only.
    pub(crate) fn units_at(&self, address: u64) -> Vec<Arc<DebugUnit>> {
        let ranges = self.ranges.get_or_init(|| UnitRanges::gather(&self.main));
        ranges.units_at(address).filter_map(|number| self.unit(number)).collect()
    }

    fn entry_in(&self, table: &UnitTable, offset: DebugInfoOffset) -> Option<EntryRef> {
        let unit = table.unit(table.number_at(offset)?, &self.split)?;
        // The contents of a split unit are elsewhere; offsets are those of what is here.
        let offset = offset.to_unit_offset(&unit.skeleton_or_unit().header)?;
        Some(EntryRef { unit, offset })
    }

    /// The entry that an attribute of an entry in `from` refers to.
    pub(crate) fn resolve(
        &self,
        from: &Arc<DebugUnit>,
        value: AttributeValue<Bytes>,
    ) -> Option<EntryRef> {
        match value {
            AttributeValue::UnitRef(offset) => Some(EntryRef { unit: Arc::clone(from), offset })
                .filter(|_| offset.is_in_bounds(&from.unit().header)),
            AttributeValue::DebugInfoRef(offset) => match from.home() {
                Home::Main => self.entry_in(&self.main, offset),
                Home::Supplementary => self.entry_in(self.supplementary.as_ref()?, offset),
                Home::Split => {
                    let offset = UnitSectionOffset(offset.0).to_unit_offset(&from.unit().header)?;
                    Some(EntryRef { unit: Arc::clone(from), offset })
                }
            },
            AttributeValue::DebugInfoRefSup(offset) => {
                self.entry_in(self.supplementary.as_ref()?, offset)
            }
            AttributeValue::DebugTypesRef(signature) => self.type_entry(from, signature),
            _ => None,
        }
    }

    /// The type that a signature stands for.
    fn type_entry(&self, from: &DebugUnit, signature: DebugTypeSignature) -> Option<EntryRef> {
        let unit = match from.home() {
            Home::Split => self.split.type_unit(from, signature, &self.main)?,
            _ => {
                let known = self.type_units.get_or_init(|| self.main.type_units());
                self.main.unit(*known.get(&signature.0)?, &self.split)?
            }
        };
        let offset = match unit.unit().header.type_() {
            UnitType::Type { type_offset, .. } | UnitType::SplitType { type_offset, .. } => {
                type_offset
            }
            _ => return None,
        };
        Some(EntryRef { unit, offset })
    }

    /// Definitions by the last component of their name, template arguments or not.
    pub(crate) fn named(&self, name: &str) -> Arc<[NamedEntry]> {
        self.names().find(self, name)
    }

    /// The name of a found entry with those of namespaces and types around it.
    pub(crate) fn qualified_name(&self, entry: &NamedEntry) -> String {
        self.names().qualified(self, entry)
    }

    /// Types that were read.
    pub(crate) fn types(&self) -> &KnownTypes {
        &self.types
    }

    /// The global variables of a unit, and those within functions that stay, in the order of the source.
    pub(crate) fn variables_of(&self, unit: &Arc<DebugUnit>) -> Vec<NamedEntry> {
        self.names().variables_of(self, unit)
    }

    /// Types with a text in their names, whatever the case: one of each name, at most so many.
    pub(crate) fn types_with(
        &self,
        text: &str,
        limit: usize,
        deadline: Instant,
    ) -> Vec<NamedEntry> {
        self.names().types_with(self, text, limit, deadline)
    }

    fn names(&self) -> &Names {
        self.names.get_or_init(|| Names::new(self))
    }
}

/// The sections that are looked at. What `load` does not have is empty.
fn read_sections(load: impl Fn(SectionId) -> Option<Bytes>) -> Dwarf<Bytes> {
    let wanted = |id| match id {
        SectionId::DebugMacinfo | SectionId::DebugMacro => None,
        id => load(id),
    };
    let dwarf = Dwarf::load(|id| -> Result<_, std::convert::Infallible> {
        Ok(wanted(id).unwrap_or_default())
    });
    match dwarf {
        Ok(dwarf) => dwarf,
    }
}
