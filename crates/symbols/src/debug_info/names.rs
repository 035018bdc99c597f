//! Definitions by name.
//!
//! Compilers write tables for this, each of them its own, and each leaves something out: functions that are only
//! inlined, variables within functions, names without template arguments. So the entries themselves are listed, once
//! and by all processors together: for each the sum of its name, and where it is. Names are compared in the entries
//! that the sum leads to.
//!
//! A row takes 16 bytes; a program with 500 MB of debug information has a few million.

mod search;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use gimli::{AttributeValue, DwTag, EntriesRaw, Reader as _, UnitOffset};

use super::scopes::is_namespace_or_type;
use super::units::DebugUnit;
use super::{Bytes, DebugInfo, EntryRef};
use crate::demangle::demangle;
use crate::lock;

/// How long listing may take. What comes later is not found by name.
const LISTING_LIMIT: Duration = Duration::from_secs(20);

/// Rows of a unit.
const ROWS_LIMIT: usize = 1 << 22;

/// References from entry to entry that are followed for a name.
const REFERENCES: usize = 8;

/// Names around a name.
const NESTING: usize = 64;

/// Bytes of one component of a name.
const COMPONENT_LIMIT: usize = 4 << 10;

/// Entries that one name leads to.
const FOUND_LIMIT: usize = 1 << 14;

/// What an entry defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// A function with code, or one that is inlined.
    Function,
    /// A variable that lives as long as the program or its thread.
    Variable,
    /// A type.
    Type,
    /// A constant of an enumeration.
    Enumerator,
}

/// A definition that was found by its name.
#[derive(Clone, Debug)]
pub(crate) struct NamedEntry {
    pub(crate) entry: EntryRef,
    pub(crate) kind: EntryKind,
    /// The row of what is around it, plus one.
    scope: u32,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    sum: u32,
    offset: u32,
    scope: u32,
    kind: EntryKind,
}

/// What can be around a definition.
#[derive(Clone, Copy, Debug)]
struct ScopeRow {
    offset: u32,
    /// The row of what is around it, plus one.
    parent: u32,
}

#[derive(Debug, Default)]
struct UnitNames {
    /// Sorted by sum.
    rows: Vec<Row>,
    scopes: Vec<ScopeRow>,
}

/// The definitions of all units.
#[derive(Debug)]
pub(super) struct Names {
    units: Vec<UnitNames>,
    /// Those of units with types in files of split units, by their numbers.
    types: BTreeMap<u32, (Arc<DebugUnit>, UnitNames)>,
}

impl Names {
    pub(super) fn new(info: &DebugInfo) -> Names {
        let deadline = Instant::now() + LISTING_LIMIT;
        let slots: Vec<OnceLock<UnitNames>> =
            (0..info.unit_count()).map(|_| OnceLock::new()).collect();
        let types = Mutex::new(BTreeMap::new());
        let next = AtomicUsize::new(0);
        let list = || loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = slots.get(number) else { return };
            if Instant::now() > deadline {
                return;
            }
            if let Some(unit) = info.unit_once(number) {
                let _ = slot.set(UnitNames::list(info, &unit));
                for unit in info.type_units_beside(&unit) {
                    let is_listed = lock(&types).contains_key(&unit.number());
                    if !is_listed {
                        let names = UnitNames::list(info, &unit);
                        lock(&types).insert(unit.number(), (unit, names));
                    }
                }
            }
        };
        thread::scope(|scope| {
            let threads = thread::available_parallelism().map_or(1, usize::from);
            for _ in 1..threads.min(slots.len()) {
                scope.spawn(list);
            }
            list();
        });
        let units = slots.into_iter().map(|slot| slot.into_inner().unwrap_or_default()).collect();
        let types = types.into_inner().unwrap_or_else(PoisonError::into_inner);
        Names { units, types }
    }

    /// The definitions with a name, which may lack template arguments.
    pub(super) fn find(&self, info: &DebugInfo, name: &str) -> Vec<NamedEntry> {
        let sum = sum_of(base_of(name.as_bytes()));
        let mut found = Vec::new();
        let units = self.units.iter().enumerate().flat_map(|(number, names)| {
            names.with_sum(sum).iter().map_while(move |row| Some((info.unit(number)?, row)))
        });
        let types = self.types.values().flat_map(|(unit, names)| {
            names.with_sum(sum).iter().map(|row| (Arc::clone(unit), row))
        });
        for (unit, row) in units.chain(types) {
            if found.len() == FOUND_LIMIT {
                return found;
            }
            let entry = EntryRef { unit, offset: UnitOffset(row.offset as usize) };
            let is_it = info
                .name_of(&entry)
                .is_some_and(|known| known == name || base_of(known.as_bytes()) == name.as_bytes());
            if is_it {
                found.push(NamedEntry { entry, kind: row.kind, scope: row.scope });
            }
        }
        found
    }

    pub(super) fn qualified(&self, info: &DebugInfo, named: &NamedEntry) -> String {
        if named.kind == EntryKind::Function
            && let Some(name) = info.function_name(&named.entry)
        {
            return name;
        }
        let mut components = vec![info.name_of(&named.entry).unwrap_or_default()];
        let number = named.entry.unit.number();
        let names = self
            .units
            .get(number as usize)
            .or_else(|| self.types.get(&number).map(|(_, names)| names));
        let mut scope = named.scope;
        while components.len() < NESTING
            && let Some(row) = (scope as usize).checked_sub(1)
            && let Some(row) = names.and_then(|names| names.scopes.get(row))
        {
            let unit = Arc::clone(&named.entry.unit);
            components
                .push(info.component(&EntryRef { unit, offset: UnitOffset(row.offset as usize) }));
            // Towards smaller rows only, so that it comes to an end.
            scope = row.parent.min(scope - 1);
        }
        components.reverse();
        components.join("::")
    }
}

impl DebugInfo {
    /// The name of an entry alone, which may stand in the one that it completes.
    pub(crate) fn name_of(&self, entry: &EntryRef) -> Option<String> {
        self.text_of(entry, |name| name == gimli::DW_AT_name)
    }

    /// The name of a function as the linker knows it.
    pub(crate) fn linkage_name_of(&self, entry: &EntryRef) -> Option<String> {
        self.text_of(entry, |name| {
            name == gimli::DW_AT_linkage_name || name == gimli::DW_AT_MIPS_linkage_name
        })
    }

    /// The name of a function with all that is around it.
    pub(crate) fn function_name(&self, entry: &EntryRef) -> Option<String> {
        if let Some(linkage) = self.linkage_name_of(entry) {
            let name = demangle(linkage.as_bytes());
            // Some names of C++ cannot be read; what is around the function tells its name, too.
            if name != linkage || !linkage.starts_with("_Z") {
                return Some(name);
            }
        }
        let mut components = vec![self.name_of(entry)?];
        // What is around it is around the first that was said of it.
        let mut at = entry.clone();
        for _ in 0..REFERENCES {
            let Some(first) = self.completed_by(&at) else { break };
            at = first;
        }
        while components.len() < NESTING
            && let Some(parent) = at.unit.parent_of(at.offset)
        {
            at.offset = parent;
            components.push(self.component(&at));
        }
        components.reverse();
        Some(components.join("::"))
    }

    /// A namespace or a type as a part of a name.
    fn component(&self, entry: &EntryRef) -> String {
        self.name_of(entry).unwrap_or_else(|| {
            let read = entry.unit.unit().entry(entry.offset);
            let is_namespace = read.is_ok_and(|read| read.tag() == gimli::DW_TAG_namespace);
            if is_namespace { "(anonymous namespace)" } else { "(anonymous)" }.to_string()
        })
    }

    /// The entry that another one completes.
    fn completed_by(&self, entry: &EntryRef) -> Option<EntryRef> {
        let read = entry.unit.unit().entry(entry.offset).ok()?;
        let next = read
            .attr_value(gimli::DW_AT_specification)
            .or_else(|| read.attr_value(gimli::DW_AT_abstract_origin))?;
        self.resolve(&entry.unit, next)
    }

    fn text_of(&self, entry: &EntryRef, is_wanted: impl Fn(gimli::DwAt) -> bool) -> Option<String> {
        let mut at = entry.clone();
        for _ in 0..REFERENCES {
            let read = at.unit.unit().entry(at.offset).ok()?;
            if let Some(found) = read.attrs().iter().find(|found| is_wanted(found.name())) {
                return text(&at.unit, found.value());
            }
            at = self.completed_by(&at)?;
        }
        None
    }
}

fn text(unit: &DebugUnit, value: AttributeValue<Bytes>) -> Option<String> {
    let bytes = unit.unit_ref().attr_string(value).ok()?;
    let bytes = bytes.to_slice().ok()?;
    Some(String::from_utf8_lossy(&bytes[..bytes.len().min(COMPONENT_LIMIT)]).into_owned())
}

impl UnitNames {
    fn list(info: &DebugInfo, unit: &Arc<DebugUnit>) -> UnitNames {
        let mut names = UnitNames::default();
        // Damage ends the list.
        let _ = names.gather(info, unit);
        names.rows.sort_by_key(|row| row.sum);
        names.rows.shrink_to_fit();
        names
    }

    fn with_sum(&self, sum: u32) -> &[Row] {
        let from = self.rows.partition_point(|row| row.sum < sum);
        let to = self.rows.partition_point(|row| row.sum <= sum);
        &self.rows[from..to]
    }

    fn gather(&mut self, info: &DebugInfo, unit: &Arc<DebugUnit>) -> gimli::Result<()> {
        let mut entries = unit.unit().entries_raw(None)?;
        // Depths and rows of what the next entry is in.
        let mut around: Vec<(isize, u32)> = Vec::new();
        while !entries.is_empty() && self.rows.len() < ROWS_LIMIT {
            let (offset, depth) = (entries.next_offset(), entries.next_depth());
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            let attributes = abbreviation.attributes();
            let tag = abbreviation.tag();
            if !is_listed(tag) && !is_scope(tag) {
                entries.skip_attributes(attributes)?;
                continue;
            }
            around.truncate(around.partition_point(|(outer, _)| *outer < depth));
            let scope = around.last().map_or(0, |(_, row)| *row);
            let Ok(at) = u32::try_from(offset.0) else { return Ok(()) };
            let summary = Summary::read(&mut entries, attributes, unit)?;
            if let Some(kind) = summary.kind(tag)
                && let Some(sum) = summary.sum(info, unit)
            {
                self.rows.push(Row { sum, offset: at, scope, kind });
            }
            if is_scope(tag) && abbreviation.has_children() && self.scopes.len() < ROWS_LIMIT {
                self.scopes.push(ScopeRow { offset: at, parent: scope });
                around.push((depth, self.scopes.len() as u32));
            }
        }
        Ok(())
    }
}

/// What an entry has.
#[derive(Default)]
struct Summary {
    name: Option<u32>,
    refers_to: Option<AttributeValue<Bytes>>,
    is_declaration: bool,
    is_inline: bool,
    has_code: bool,
    has_constant: bool,
    is_fixed: bool,
}

impl Summary {
    fn read(
        entries: &mut EntriesRaw<Bytes>,
        attributes: &[gimli::AttributeSpecification],
        unit: &DebugUnit,
    ) -> gimli::Result<Summary> {
        let mut summary = Summary::default();
        for &specification in attributes {
            match specification.name() {
                gimli::DW_AT_name => {
                    let value = entries.read_attribute(specification)?.value();
                    let name = unit.unit_ref().attr_string(value)?;
                    summary.name = Some(sum_of(base_of(&name.to_slice()?)));
                }
                gimli::DW_AT_specification | gimli::DW_AT_abstract_origin => {
                    summary.refers_to = Some(entries.read_attribute(specification)?.value());
                }
                gimli::DW_AT_location => {
                    let value = entries.read_attribute(specification)?.value();
                    summary.is_fixed = is_fixed(&value);
                }
                name => {
                    summary.is_declaration |= name == gimli::DW_AT_declaration;
                    summary.is_inline |= name == gimli::DW_AT_inline;
                    summary.has_code |= name == gimli::DW_AT_low_pc || name == gimli::DW_AT_ranges;
                    summary.has_constant |= name == gimli::DW_AT_const_value;
                    entries.skip_attributes(&[specification])?;
                }
            }
        }
        Ok(summary)
    }

    fn kind(&self, tag: DwTag) -> Option<EntryKind> {
        match tag {
            // Of what was compiled as one with others, the entry says nothing about its code.
            gimli::DW_TAG_subprogram => {
                let is_defined = self.has_code || self.is_inline || !self.is_declaration;
                is_defined.then_some(EntryKind::Function)
            }
            gimli::DW_TAG_variable | gimli::DW_TAG_member => {
                (self.is_fixed || self.has_constant).then_some(EntryKind::Variable)
            }
            gimli::DW_TAG_enumerator => Some(EntryKind::Enumerator),
            gimli::DW_TAG_namespace | gimli::DW_TAG_module => None,
            _ => (!self.is_declaration && self.name.is_some()).then_some(EntryKind::Type),
        }
    }

    fn sum(self, info: &DebugInfo, unit: &Arc<DebugUnit>) -> Option<u32> {
        if self.name.is_some() {
            return self.name;
        }
        let entry = info.resolve(unit, self.refers_to?)?;
        Some(sum_of(base_of(info.name_of(&entry)?.as_bytes())))
    }
}

/// Whether a variable is at one address, or at one place of each thread, always: locals that come and go do not
/// count.
fn is_fixed(location: &AttributeValue<Bytes>) -> bool {
    let AttributeValue::Exprloc(expression) = location else { return false };
    let Ok(bytes) = expression.0.to_slice() else { return false };
    let is_address = |code: u8| {
        [gimli::DW_OP_addr.0, gimli::DW_OP_addrx.0, gimli::DW_OP_GNU_addr_index.0].contains(&code)
    };
    match bytes.first() {
        Some(&code) if is_address(code) => true,
        // A constant, then its meaning as an offset for the thread.
        Some(_) => bytes.last().is_some_and(|&last| {
            last == gimli::DW_OP_form_tls_address.0 || last == gimli::DW_OP_GNU_push_tls_address.0
        }),
        None => false,
    }
}

fn is_listed(tag: DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_variable
            | gimli::DW_TAG_member
            | gimli::DW_TAG_enumerator
            | gimli::DW_TAG_base_type
            | gimli::DW_TAG_typedef
            | gimli::DW_TAG_unspecified_type
    )
}

fn is_scope(tag: DwTag) -> bool {
    tag == gimli::DW_TAG_subprogram || is_namespace_or_type(tag)
}

/// A name without its template arguments.
pub(crate) fn base_of(name: &[u8]) -> &[u8] {
    if name.starts_with(b"operator") {
        return name;
    }
    match name.iter().position(|&byte| byte == b'<') {
        None | Some(0) => name,
        Some(end) => &name[..end],
    }
}

fn sum_of(name: &[u8]) -> u32 {
    crc32fast::hash(name)
}
