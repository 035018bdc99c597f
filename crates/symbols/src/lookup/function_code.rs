//! The code of functions, also where it is inlined.

use std::collections::{BTreeMap, HashMap};
use std::iter;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimli::{AttributeValue, DebuggingInformationEntry, UnitOffset};

use super::name_pattern::NamePattern;
use super::prologue;
use crate::debug_info::{Bytes, DebugInfo, DebugUnit, EntryKind, EntryRef, NamedEntry};
use crate::demangle::demangle_with_parameters;
use crate::lines::Source;
use crate::object_file::ObjectFile;
use crate::place::Module;
use crate::symbols::Symbols;

/// Functions and inlined instances that one name leads to.
const FOUND_LIMIT: usize = 1 << 14;

/// How long inlined instances are searched for.
const SEARCH_LIMIT: Duration = Duration::from_secs(10);

/// The code of a function.
#[derive(Clone, Debug)]
pub struct FunctionCode {
    /// Its full name.
    pub name: Arc<str>,
    /// The file that has it.
    pub module: Arc<Module>,
    /// Where it is entered.
    pub entry: u64,
    /// All its code.
    pub ranges: Vec<Range<u64>>,
    /// Where its body begins: a good place to stop at, arguments are there.
    pub body: u64,
    /// The line of that.
    pub source: Option<Source>,
    /// The function that its code stands in, if it is inlined there.
    pub inlined_in: Option<Arc<str>>,
    /// Calls of this name never lead here: this code is run once, to choose the function that they lead to.
    pub is_resolver: bool,
}

impl Symbols {
    /// The functions of a name in all files that are mapped at a time. A name is enough if it is that of the
    /// function alone, or with some of what is around it; parameters may follow. All that fit are given, each place
    /// where one is inlined as well.
    pub fn functions_named(&self, log: u64, time: u64, name: &str) -> Vec<FunctionCode> {
        let pattern = NamePattern::new(name);
        let mut found = Vec::new();
        for loaded in self.modules_at(log, time) {
            let Some(file) = &loaded.file else { continue };
            for mut function in file.functions_that_fit(&loaded.module, &pattern) {
                function.shift(loaded.bias);
                found.push(function);
            }
        }
        found
    }
}

impl FunctionCode {
    fn shift(&mut self, bias: u64) {
        self.entry = self.entry.wrapping_add(bias);
        self.body = self.body.wrapping_add(bias);
        for range in &mut self.ranges {
            *range = range.start.wrapping_add(bias)..range.end.wrapping_add(bias);
        }
    }
}

impl ObjectFile {
    fn functions_that_fit(&self, module: &Arc<Module>, pattern: &NamePattern) -> Vec<FunctionCode> {
        let mut found = Vec::new();
        if let Some(info) = self.debug_info() {
            self.take_described(info, module, pattern, &mut found);
        }
        let described = found.len();
        for symbol in self.symbol_names().find(pattern).into_iter().filter(|found| found.is_code) {
            let is_known = |known: &FunctionCode| {
                known.inlined_in.is_none()
                    && known.ranges.iter().any(|range| range.contains(&symbol.address))
            };
            let end = symbol.address.saturating_add(symbol.size.max(1));
            if !found[..described].iter().any(is_known) {
                let ranges = iter::once(symbol.address..end).collect();
                found.push(self.function_code(symbol.name, module, symbol.address, ranges));
            }
            if symbol.is_resolver {
                let its = found.iter_mut().filter(|function| function.entry == symbol.address);
                its.for_each(|function| function.is_resolver = true);
            }
        }
        found.sort_by_key(|function| (function.inlined_in.is_some(), function.entry));
        found.dedup_by(|second, first| {
            (second.entry, &second.name, &second.inlined_in)
                == (first.entry, &first.name, &first.inlined_in)
        });
        found.truncate(FOUND_LIMIT);
        found
    }

    fn take_described(
        &self,
        info: &DebugInfo,
        module: &Arc<Module>,
        pattern: &NamePattern,
        found: &mut Vec<FunctionCode>,
    ) {
        let mut inlined = InlinedFunctions::default();
        for named in info.named(pattern.last()).iter() {
            let Some(name) = name_that_fits(info, named, pattern) else { continue };
            let EntryRef { unit, offset } = &named.entry;
            let Ok(entry) = unit.unit().entry(*offset) else { continue };
            match code_of(unit, &entry) {
                Some((at, ranges)) => found.push(self.function_code(name, module, at, ranges)),
                None => inlined.add(unit, *offset, name),
            }
        }
        for instance in inlined.find(info) {
            let function = self.function_code(instance.name, module, instance.at, instance.ranges);
            let inlined_in = Some(instance.caller);
            found.push(FunctionCode { body: instance.at, inlined_in, ..function });
        }
    }

    fn function_code(
        &self,
        name: Arc<str>,
        module: &Arc<Module>,
        entry: u64,
        ranges: Vec<Range<u64>>,
    ) -> FunctionCode {
        let around = ranges.iter().find(|range| range.contains(&entry));
        let end = around.map_or(entry, |range| range.end);
        let body = prologue::body(self, entry, end);
        FunctionCode {
            name,
            module: Arc::clone(module),
            entry,
            ranges,
            body,
            source: self.line(body),
            inlined_in: None,
            is_resolver: false,
        }
    }
}

/// The full name of a function, if it is meant.
fn name_that_fits(info: &DebugInfo, named: &NamedEntry, pattern: &NamePattern) -> Option<Arc<str>> {
    if named.kind != EntryKind::Function {
        return None;
    }
    let name = info.qualified_name(named);
    let fits_parameters = !pattern.has_parameters()
        || info.linkage_name_of(&named.entry).is_none_or(|linkage| {
            pattern.fits_parameters(&demangle_with_parameters(linkage.as_bytes()))
        });
    (pattern.fits(&name) && fits_parameters).then(|| name.into())
}

/// Functions without code of their own, of which the places are wanted where they are inlined.
#[derive(Default)]
struct InlinedFunctions {
    /// By the number of their unit and their offset.
    names: HashMap<(u32, usize), Arc<str>>,
    /// The units that may have their code.
    units: BTreeMap<u32, Arc<DebugUnit>>,
    /// One of the units has no code: it describes what others, that were compiled as one, have.
    is_anywhere: bool,
}

/// A place where a function is inlined.
struct Instance {
    name: Arc<str>,
    at: u64,
    ranges: Vec<Range<u64>>,
    /// The function with a frame of its own around it.
    caller: Arc<str>,
}

impl InlinedFunctions {
    fn add(&mut self, unit: &Arc<DebugUnit>, offset: UnitOffset, name: Arc<str>) {
        self.names.insert((unit.number(), offset.0), name);
        if !self.units.contains_key(&unit.number()) {
            self.is_anywhere |= unit.has_no_code();
            self.units.insert(unit.number(), Arc::clone(unit));
        }
    }

    /// All places, each unit looked through once.
    fn find(&self, info: &DebugInfo) -> Vec<Instance> {
        let deadline = Instant::now() + SEARCH_LIMIT;
        let mut found = Vec::new();
        let others = if self.is_anywhere { info.unit_count() } else { 0 };
        let others = (0..others).filter_map(|number| {
            let is_new = u32::try_from(number).is_ok_and(|n| !self.units.contains_key(&n));
            is_new.then(|| info.unit_once(number))?
        });
        for unit in self.units.values().cloned().chain(others) {
            // Damage ends the search in a unit.
            let _ = self.gather(info, &unit, &mut found);
            if found.len() >= FOUND_LIMIT || Instant::now() > deadline {
                break;
            }
        }
        found
    }

    fn gather(
        &self,
        info: &DebugInfo,
        unit: &Arc<DebugUnit>,
        found: &mut Vec<Instance>,
    ) -> gimli::Result<()> {
        let mut entries = unit.unit().entries_raw(None)?;
        let mut entry = DebuggingInformationEntry::null();
        let mut caller = unit.unit().header.root_offset();
        while !entries.is_empty() && found.len() < FOUND_LIMIT {
            let offset = entries.next_offset();
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            if abbreviation.tag() == gimli::DW_TAG_subprogram {
                caller = offset;
            }
            entries.skip_attributes(abbreviation.attributes())?;
            if abbreviation.tag() != gimli::DW_TAG_inlined_subroutine {
                continue;
            }
            unit.unit().entries_raw(Some(offset))?.read_entry(&mut entry)?;
            if let Some(name) = self.name_of(info, unit, &entry)
                && let Some((at, ranges)) = code_of(unit, &entry)
            {
                let caller = EntryRef { unit: Arc::clone(unit), offset: caller };
                let caller = info.function_name(&caller).unwrap_or_default().into();
                found.push(Instance { name, at, ranges, caller });
            }
        }
        Ok(())
    }

    /// The function of which this is an instance, if it is one of these.
    fn name_of(
        &self,
        info: &DebugInfo,
        unit: &Arc<DebugUnit>,
        instance: &DebuggingInformationEntry<Bytes>,
    ) -> Option<Arc<str>> {
        let key = match instance.attr_value(gimli::DW_AT_abstract_origin)? {
            // Most are of the same unit, and need not be followed.
            AttributeValue::UnitRef(offset) => (unit.number(), offset.0),
            origin => {
                let origin = info.resolve(unit, origin)?;
                (origin.unit.number(), origin.offset.0)
            }
        };
        self.names.get(&key).cloned()
    }
}

/// Where the code of an entry is entered, and all of it.
fn code_of(
    unit: &DebugUnit,
    entry: &DebuggingInformationEntry<Bytes>,
) -> Option<(u64, Vec<Range<u64>>)> {
    let ranges: Vec<Range<u64>> =
        unit.ranges_of(entry).map(|range| range.begin..range.end).collect();
    let first = ranges.first()?.start;
    let entry =
        entry.attr_value(gimli::DW_AT_entry_pc).and_then(|value| match value.udata_value() {
            Some(distance) => first.checked_add(distance),
            None => unit.unit_ref().attr_address(value).ok().flatten(),
        });
    let entry = entry.filter(|at| ranges.iter().any(|range| range.contains(at)));
    Some((entry.unwrap_or(first), ranges))
}
