//! Definitions by name.
//!
//! Compilers write tables for this, each of them its own, and each leaves something out: functions that are only
//! inlined, variables within functions, names without template arguments. So the entries themselves are listed, each
//! unit once and all processors together: for each the sum of its name, and where it is. Names are compared in the
//! entries that the sum leads to.
//!
//! Whoever asks for one name and goes away should not wait for that of a large program: for the first names only those
//! units are listed that mention them. Who asks more often gets all.
//!
//! A row takes 16 bytes; a program with 500 MB of debug information has a few million.

mod listing;
mod mentions;
mod search;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use gimli::{AttributeValue, Reader as _, UnitOffset};

use super::units::DebugUnit;
use super::{Bytes, DebugInfo, EntryRef};
use crate::demangle::demangle;
use crate::lock;

use mentions::Mentions;

/// Names for which only those units are listed that mention them.
const SEARCHES: usize = 4;

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

/// Names that are kept with what they lead to, and entries of each.
const NAMES_KEPT: usize = 256;
const FOUND_KEPT: usize = 64;

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

/// A unit with types, and its definitions.
type ListedTypes = (Arc<DebugUnit>, Arc<UnitNames>);

/// The definitions of all units that were asked for.
#[derive(Debug)]
pub(super) struct Names {
    units: Vec<OnceLock<UnitNames>>,
    /// Those of units with types in files of split units, by their numbers.
    types: Mutex<BTreeMap<u32, ListedTypes>>,
    /// Names that were looked for.
    searches: AtomicUsize,
    /// Whether all units are listed.
    is_complete: AtomicBool,
    /// What was found lately, when all were: conditions ask for the same names again and again.
    found: Mutex<HashMap<String, Arc<[NamedEntry]>>>,
}

impl Names {
    pub(super) fn new(info: &DebugInfo) -> Names {
        let units = (0..info.unit_count()).map(|_| OnceLock::new()).collect();
        Names {
            units,
            types: Mutex::default(),
            searches: AtomicUsize::new(0),
            is_complete: AtomicBool::new(false),
            found: Mutex::default(),
        }
    }

    /// Lists the units that may define a name.
    fn list_for(&self, info: &DebugInfo, name: &[u8]) {
        let is_one_of_few = self.searches.fetch_add(1, Ordering::Relaxed) < SEARCHES;
        self.list(info, if is_one_of_few { Mentions::of(name, &info.main) } else { None });
    }

    /// Lists the units that mention something, or all, by all processors together.
    fn list(&self, info: &DebugInfo, mentions: Option<Mentions>) {
        if self.is_complete.load(Ordering::Acquire) {
            return;
        }
        let deadline = Instant::now() + LISTING_LIMIT;
        let next = AtomicUsize::new(0);
        let list = || {
            let mut buffer = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(slot) = self.units.get(number).filter(|_| Instant::now() < deadline)
                else {
                    return;
                };
                let is_wanted = slot.get().is_none()
                    && mentions.as_ref().is_none_or(|mentions| {
                        mentions.are_in(info, &info.main, number, &mut buffer)
                    });
                if is_wanted && let Some(unit) = info.unit_once(number) {
                    slot.get_or_init(|| UnitNames::list(info, &unit, &mut buffer));
                    self.list_types(info, &unit, &mut buffer);
                }
            }
        };
        thread::scope(|scope| {
            let threads = thread::available_parallelism().map_or(1, usize::from);
            for _ in 1..threads.min(self.units.len()) {
                scope.spawn(list);
            }
            list();
        });
        if mentions.is_none() && Instant::now() < deadline {
            self.is_complete.store(true, Ordering::Release);
        }
    }

    fn list_types(&self, info: &DebugInfo, unit: &DebugUnit, buffer: &mut Vec<u8>) {
        for unit in info.type_units_beside(unit) {
            let is_listed = lock(&self.types).contains_key(&unit.number());
            if !is_listed {
                let names = Arc::new(UnitNames::list(info, &unit, buffer));
                lock(&self.types).insert(unit.number(), (unit, names));
            }
        }
    }

    /// The definitions with a name, which may lack template arguments.
    pub(super) fn find(&self, info: &DebugInfo, name: &str) -> Arc<[NamedEntry]> {
        if let Some(known) = lock(&self.found).get(name) {
            return Arc::clone(known);
        }
        let found: Arc<[NamedEntry]> = self.search(info, name).into();
        if self.is_complete.load(Ordering::Acquire) && found.len() <= FOUND_KEPT {
            let mut kept = lock(&self.found);
            if kept.len() >= NAMES_KEPT {
                kept.clear();
            }
            kept.insert(name.to_owned(), Arc::clone(&found));
        }
        found
    }

    fn search(&self, info: &DebugInfo, name: &str) -> Vec<NamedEntry> {
        let base = base_of(name.as_bytes());
        self.list_for(info, base);
        let sum = sum_of(base);
        let mut found = Vec::new();
        let units = self.units.iter().enumerate().flat_map(|(number, slot)| {
            let rows = slot.get().map_or(&[][..], |names| names.with_sum(sum));
            rows.iter().map_while(move |row| Some((info.unit(number)?, *row)))
        });
        let types: Vec<_> = lock(&self.types).values().cloned().collect();
        let types = types.iter().flat_map(|(unit, names)| {
            names.with_sum(sum).iter().map(|row| (Arc::clone(unit), *row))
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
        let types = lock(&self.types).get(&number).map(|(_, names)| Arc::clone(names));
        let names = self.units.get(number as usize).and_then(OnceLock::get).or(types.as_deref());
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
    fn with_sum(&self, sum: u32) -> &[Row] {
        let from = self.rows.partition_point(|row| row.sum < sum);
        let to = self.rows.partition_point(|row| row.sum <= sum);
        &self.rows[from..to]
    }
}

/// A name without its template arguments.
pub(crate) fn base_of(name: &[u8]) -> &[u8] {
    if name.starts_with(b"operator") {
        return name;
    }
    match memchr::memchr(b'<', name) {
        None | Some(0) => name,
        Some(end) => &name[..end],
    }
}

fn sum_of(name: &[u8]) -> u32 {
    crc32fast::hash(name)
}
