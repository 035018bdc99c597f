//! Definitions by other than their names: all variables of a unit, types by parts of their names.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use gimli::UnitOffset;

use crate::lock;

use super::{
    DebugInfo, DebugUnit, EntryKind, EntryRef, NamedEntry, Names, Row, UnitNames, base_of,
};

impl Names {
    /// The variables of a unit that live as long as the program or its thread, in the order of the source.
    pub(in crate::debug_info) fn variables_of(
        &self,
        info: &DebugInfo,
        unit: &Arc<DebugUnit>,
    ) -> Vec<NamedEntry> {
        let Some(slot) = self.units.get(unit.number() as usize) else { return Vec::new() };
        let names = slot.get_or_init(|| UnitNames::list(info, unit, &mut Vec::new()));
        let mut found: Vec<NamedEntry> =
            rows_of(names, EntryKind::Variable).map(|row| named(Arc::clone(unit), row)).collect();
        found.sort_by_key(|named| named.entry.offset.0);
        found
    }

    /// Types with a text in their names, whatever the case: one of each name, at most so many.
    pub(in crate::debug_info) fn types_with(
        &self,
        info: &DebugInfo,
        text: &str,
        limit: usize,
        deadline: Instant,
    ) -> Vec<NamedEntry> {
        self.list(info, None);
        let text = text.to_lowercase();
        let base = String::from_utf8_lossy(base_of(text.as_bytes())).into_owned();
        // Units have the same types again and again: a name is read once for its sum.
        let mut fits: HashMap<u32, bool> = HashMap::new();
        let mut found: HashMap<String, NamedEntry> = HashMap::new();
        let units = self.units.iter().enumerate();
        let units = units.filter_map(|(number, slot)| Some((None, number, slot.get()?)));
        let types: Vec<_> = lock(&self.types).values().cloned().collect();
        let types = types.iter().map(|(unit, names)| (Some(unit), 0, &**names));
        for (unit, number, names) in units.chain(types) {
            if found.len() >= limit || Instant::now() > deadline {
                break;
            }
            for row in rows_of(names, EntryKind::Type) {
                if fits.get(&row.sum) == Some(&false) {
                    continue;
                }
                let Some(unit) = unit.cloned().or_else(|| info.unit(number)) else { break };
                let named = named(unit, row);
                let Some(name) = info.name_of(&named.entry) else { continue };
                let lower = name.to_lowercase();
                let is_near = String::from_utf8_lossy(base_of(lower.as_bytes())).contains(&base);
                fits.insert(row.sum, is_near);
                if is_near && lower.contains(&text) {
                    found.entry(name).or_insert(named);
                }
            }
        }
        found.into_values().collect()
    }
}

fn rows_of(names: &UnitNames, kind: EntryKind) -> impl Iterator<Item = &Row> {
    names.rows.iter().filter(move |row| row.kind == kind)
}

fn named(unit: Arc<DebugUnit>, row: &Row) -> NamedEntry {
    let entry = EntryRef { unit, offset: UnitOffset(row.offset as usize) };
    NamedEntry { entry, kind: row.kind, scope: row.scope }
}
