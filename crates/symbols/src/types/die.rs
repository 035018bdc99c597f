//! Entries of the debug information, read one at a time.
//!
//! A [`Spot`] says where an entry is; a [`Die`] is what was read there, and holds on to the file that it is from. A spot
//! does not: types have many, and the debug information keeps types.
//!
//! Invariant: whatever the bytes, reading yields less rather than failing, and lists of children are bounded.

use std::sync::{Arc, Weak};

use gimli::{AttributeValue, DwAt, DwTag, Reader as _, UnitOffset};

use crate::debug_info::{Bytes, DebugInfo, DebugUnit, EntryRef};
use crate::types::Language;

/// Children of one entry that are looked at.
const CHILDREN_LIMIT: usize = 1 << 16;

/// Bytes of a name.
const NAME_LIMIT: usize = 4096;

/// How many entries stand behind another one by `DW_AT_specification` and `DW_AT_abstract_origin`.
const ORIGINS_LIMIT: usize = 8;

/// How deep entries are nested within each other.
const NESTING_LIMIT: usize = 64;

/// Where an entry is.
#[derive(Clone)]
pub struct Spot {
    info: Weak<DebugInfo>,
    unit: Arc<DebugUnit>,
    offset: UnitOffset,
}

impl std::fmt::Debug for Spot {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(formatter, "Spot({}+{:#x})", self.unit.number(), self.offset.0)
    }
}

impl Spot {
    pub(crate) fn new(info: &Arc<DebugInfo>, entry: &EntryRef) -> Spot {
        Spot { info: Arc::downgrade(info), unit: Arc::clone(&entry.unit), offset: entry.offset }
    }

    /// Reads the entry.
    pub(crate) fn read(&self) -> Option<Die> {
        let entry = self.unit.unit().entry(self.offset).ok()?;
        Some(Die { info: self.info()?, unit: Arc::clone(&self.unit), entry })
    }

    /// The debug information that it is in, as long as somebody has that.
    pub(crate) fn info(&self) -> Option<Arc<DebugInfo>> {
        self.info.upgrade()
    }

    pub(crate) fn is(&self, other: &Spot) -> bool {
        self.key() == other.key() && Weak::ptr_eq(&self.info, &other.info)
    }

    pub(crate) fn is_in(&self, info: &Arc<DebugInfo>) -> bool {
        std::ptr::eq(self.info.as_ptr(), Arc::as_ptr(info))
    }

    /// What no other entry of the debug information has: the number of its unit, and its offset.
    pub(super) fn key(&self) -> (u32, usize) {
        (self.unit.number(), self.offset.0)
    }

    /// The entries that this one is within, outermost first, without the unit itself.
    pub(crate) fn ancestors(&self) -> Vec<Die> {
        let mut found = Vec::new();
        let Ok(mut cursor) = self.unit.unit().entries_at_offset(self.root_offset()) else {
            return found;
        };
        if !matches!(cursor.next_entry(), Ok(true)) {
            return found;
        }
        while found.len() < NESTING_LIMIT {
            // The last one on this level that begins before is the one around.
            let mut around = None;
            if !matches!(cursor.next_entry(), Ok(true)) {
                break;
            }
            while let Some(entry) = cursor.current().filter(|entry| !entry.is_null()) {
                if entry.offset() == self.offset {
                    return found;
                }
                if entry.offset() > self.offset {
                    break;
                }
                around = Some(entry.offset());
                if !matches!(cursor.next_sibling(), Ok(Some(_))) {
                    break;
                }
            }
            let Some(around) = around else { break };
            let spot = Spot { offset: around, ..self.clone() };
            let Some(die) = spot.read() else { break };
            let has_children = die.entry.has_children();
            found.push(die);
            let Ok(next) = self.unit.unit().entries_at_offset(around) else { break };
            cursor = next;
            if !has_children || !matches!(cursor.next_entry(), Ok(true)) {
                break;
            }
        }
        found
    }

    fn root_offset(&self) -> UnitOffset {
        self.unit.unit().header.root_offset()
    }

    /// The language of its unit.
    pub(crate) fn language(&self) -> Language {
        let root = Spot { offset: self.root_offset(), ..self.clone() };
        let language = root.read().and_then(|die| match die.value(gimli::DW_AT_language) {
            Some(AttributeValue::Language(language)) => Some(language),
            _ => None,
        });
        match language {
            Some(gimli::DW_LANG_Rust) => Language::Rust,
            Some(
                gimli::DW_LANG_C_plus_plus
                | gimli::DW_LANG_C_plus_plus_03
                | gimli::DW_LANG_C_plus_plus_11
                | gimli::DW_LANG_C_plus_plus_14
                | gimli::DW_LANG_C_plus_plus_17
                | gimli::DW_LANG_C_plus_plus_20,
            ) => Language::Cpp,
            _ => Language::C,
        }
    }
}

/// An entry.
#[derive(Clone)]
pub(crate) struct Die {
    pub(crate) info: Arc<DebugInfo>,
    pub(crate) unit: Arc<DebugUnit>,
    entry: gimli::DebuggingInformationEntry<Bytes>,
}

impl Die {
    pub(crate) fn tag(&self) -> DwTag {
        self.entry.tag()
    }

    pub(crate) fn entry(&self) -> &gimli::DebuggingInformationEntry<Bytes> {
        &self.entry
    }

    pub(crate) fn spot(&self) -> Spot {
        let (info, unit) = (Arc::downgrade(&self.info), Arc::clone(&self.unit));
        Spot { info, unit, offset: self.entry.offset() }
    }

    pub(crate) fn value(&self, attribute: DwAt) -> Option<AttributeValue<Bytes>> {
        self.entry.attr_value(attribute)
    }

    pub(crate) fn has(&self, attribute: DwAt) -> bool {
        self.entry.has_attr(attribute)
    }

    pub(crate) fn number(&self, attribute: DwAt) -> Option<u64> {
        self.value(attribute)?.udata_value()
    }

    pub(crate) fn flag(&self, attribute: DwAt) -> bool {
        matches!(self.value(attribute), Some(AttributeValue::Flag(true)))
    }

    pub(crate) fn text(&self, attribute: DwAt) -> Option<Arc<str>> {
        let mut bytes = self.unit.unit_ref().attr_string(self.value(attribute)?).ok()?;
        if bytes.len() > NAME_LIMIT {
            bytes.truncate(NAME_LIMIT).ok()?;
        }
        Some(Arc::from(bytes.to_string_lossy().ok()?))
    }

    pub(crate) fn reference(&self, attribute: DwAt) -> Option<Spot> {
        let found = self.info.resolve(&self.unit, self.value(attribute)?)?;
        Some(Spot::new(&self.info, &found))
    }

    /// The entry itself, and those that it completes or is an instance of.
    pub(crate) fn origins(&self) -> impl Iterator<Item = Die> {
        std::iter::successors(Some(self.clone()), |die| {
            let origin = die.reference(gimli::DW_AT_abstract_origin);
            origin.or_else(|| die.reference(gimli::DW_AT_specification))?.read()
        })
        .take(ORIGINS_LIMIT)
    }

    /// The first of the entries behind this one that has an attribute.
    pub(crate) fn origin_with(&self, attribute: DwAt) -> Option<Die> {
        self.origins().find(|die| die.has(attribute))
    }

    /// Its name, or that of what it completes.
    pub(crate) fn name(&self) -> Option<Arc<str>> {
        self.origin_with(gimli::DW_AT_name)?.text(gimli::DW_AT_name)
    }

    pub(crate) fn children(&self) -> Vec<Die> {
        let mut children = Vec::new();
        if !self.entry.has_children() {
            return children;
        }
        let Ok(mut cursor) = self.unit.unit().entries_at_offset(self.entry.offset()) else {
            return children;
        };
        if !matches!(cursor.next_entry(), Ok(true)) || !matches!(cursor.next_entry(), Ok(true)) {
            return children;
        }
        while let Some(entry) = cursor.current().filter(|entry| !entry.is_null()) {
            let (info, unit) = (Arc::clone(&self.info), Arc::clone(&self.unit));
            children.push(Die { info, unit, entry: entry.clone() });
            if children.len() >= CHILDREN_LIMIT || !matches!(cursor.next_sibling(), Ok(Some(_))) {
                break;
            }
        }
        children
    }
}
