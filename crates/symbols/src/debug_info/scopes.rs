//! Functions, blocks and inlined calls around an address.
//!
//! A unit's functions are listed once, by address; what is within a function is walked when an address of it is asked
//! for.

use std::collections::HashMap;

use gimli::{AttributeValue, DebuggingInformationEntry, DwTag, UnitOffset};

use super::Bytes;
use super::units::DebugUnit;

/// Ranges of functions of a unit that are kept.
const RANGES_LIMIT: usize = 1 << 20;

/// Ranges of one scope that are looked at.
const SCOPE_RANGES_LIMIT: usize = 1 << 12;

/// Entries and ranges of one function that are looked at for an address.
const WORK_LIMIT: usize = 1 << 18;

/// Functions before an address that are asked whether they reach it: with several ranges they interleave.
const NEIGHBOURS: usize = 16;

/// What a scope is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScopeKind {
    /// A function with code of its own.
    Function,
    /// A function whose code stands where it is called.
    Inlined,
    /// A block.
    Block,
}

/// A scope around an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    pub(crate) offset: UnitOffset,
    pub(crate) kind: ScopeKind,
}

/// Where an inlined function is called, as the unit numbers files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InlinedCall {
    pub(crate) file: u64,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

#[derive(Clone, Copy, Debug)]
struct FunctionRange {
    start: u64,
    end: u64,
    offset: UnitOffset,
}

/// The functions of a unit.
#[derive(Debug, Default)]
pub(crate) struct FunctionRanges {
    /// Sorted by start.
    ranges: Vec<FunctionRange>,
    /// What functions, namespaces and types are in, by offset.
    parents: HashMap<usize, UnitOffset>,
}

impl DebugUnit {
    /// The function around an address.
    pub(crate) fn function_at(&self, address: u64) -> Option<UnitOffset> {
        let ranges = &self.functions.get_or_init(|| self.list_functions()).ranges;
        let after = ranges.partition_point(|range| range.start <= address);
        let near = ranges[after.saturating_sub(NEIGHBOURS)..after].iter().rev();
        near.filter(|range| address < range.end)
            .min_by_key(|range| range.end - range.start)
            .map(|range| range.offset)
    }

    /// What is around an address, outermost first: the function, then blocks and inlined functions in it.
    pub(crate) fn scopes_at(&self, address: u64) -> Vec<Scope> {
        let Some(function) = self.function_at(address) else { return Vec::new() };
        let mut scopes = vec![Scope { offset: function, kind: ScopeKind::Function }];
        // Damage ends the walk; what was found until there is right.
        let _ = self.gather_scopes(function, address, &mut scopes);
        scopes
    }

    /// Walks through a function; what is in a scope that does not have the address is passed over.
    fn gather_scopes(
        &self,
        function: UnitOffset,
        address: u64,
        scopes: &mut Vec<Scope>,
    ) -> gimli::Result<()> {
        let mut entries = self.unit().entries_raw(Some(function))?;
        let mut entry = DebuggingInformationEntry::null();
        entries.read_entry(&mut entry)?;
        let mut passed: Option<isize> = None;
        let mut work = 0;
        while !entries.is_empty() && entries.next_depth() > 0 && work < WORK_LIMIT {
            work += 1;
            let depth = entries.next_depth();
            passed = passed.filter(|over| depth > *over);
            if passed.is_some() {
                skip_entry(&mut entries)?;
                continue;
            }
            if !entries.read_entry(&mut entry)? {
                continue;
            }
            let Some(kind) = kind_of(entry.tag()) else { continue };
            // What has no code of its own may have something in it that has.
            if !entry.has_attr(gimli::DW_AT_low_pc) && !entry.has_attr(gimli::DW_AT_ranges) {
                continue;
            }
            let mut ranges = self.ranges_of(&entry).inspect(|_| work += 1);
            if ranges.any(|range| (range.begin..range.end).contains(&address)) {
                scopes.push(Scope { offset: entry.offset(), kind });
            } else {
                passed = Some(depth);
            }
        }
        Ok(())
    }

    /// Where the function of a scope that is inlined is called.
    pub(crate) fn inlined_call(&self, scope: UnitOffset) -> Option<InlinedCall> {
        let entry = self.unit().entry(scope).ok()?;
        let number = |name| entry.attr_value(name).and_then(|value| value.udata_value());
        let file = match entry.attr_value(gimli::DW_AT_call_file) {
            Some(AttributeValue::FileIndex(file)) => file,
            other => other.and_then(|value| value.udata_value()).unwrap_or(0),
        };
        Some(InlinedCall {
            file,
            line: number(gimli::DW_AT_call_line).and_then(|line| line.try_into().ok()).unwrap_or(0),
            column: number(gimli::DW_AT_call_column)
                .and_then(|line| line.try_into().ok())
                .unwrap_or(0),
        })
    }

    /// The code of an entry.
    pub(crate) fn ranges_of(
        &self,
        entry: &DebuggingInformationEntry<Bytes>,
    ) -> impl Iterator<Item = gimli::Range> + use<> {
        let unit = self.unit_ref();
        // gimli adds the size to the address without looking.
        let start = entry.attr_value(gimli::DW_AT_low_pc);
        let start = start.and_then(|start| unit.attr_address(start).ok().flatten());
        let size = entry.attr_value(gimli::DW_AT_high_pc).and_then(|size| size.udata_value());
        let is_possible = start.unwrap_or(0).checked_add(size.unwrap_or(0)).is_some();
        let mut ranges = is_possible.then(|| unit.die_ranges(entry).ok()).flatten();
        std::iter::from_fn(move || ranges.as_mut()?.next().ok().flatten())
            .take(SCOPE_RANGES_LIMIT)
            // Code that the linker dropped is left at address 0.
            .filter(|range| range.begin != 0 && range.begin < range.end)
    }

    /// The namespace or type that a function, a namespace or a type is in.
    pub(crate) fn parent_of(&self, offset: UnitOffset) -> Option<UnitOffset> {
        self.functions.get_or_init(|| self.list_functions()).parents.get(&offset.0).copied()
    }

    fn list_functions(&self) -> FunctionRanges {
        let mut functions = FunctionRanges::default();
        // Damage ends the list.
        let _ = self.gather_functions(&mut functions);
        functions.ranges.sort_by_key(|range| range.start);
        functions
    }

    fn gather_functions(&self, functions: &mut FunctionRanges) -> gimli::Result<()> {
        let FunctionRanges { ranges, parents } = functions;
        let mut entries = self.unit().entries_raw(None)?;
        let mut entry = DebuggingInformationEntry::null();
        // Depths and offsets of what the next entry is in.
        let mut around: Vec<(isize, UnitOffset)> = Vec::new();
        while !entries.is_empty() && ranges.len() < RANGES_LIMIT {
            let (offset, depth) = (entries.next_offset(), entries.next_depth());
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            let attributes = abbreviation.attributes();
            let opens_names = is_namespace_or_type(abbreviation.tag());
            if opens_names || abbreviation.tag() == gimli::DW_TAG_subprogram {
                around.truncate(around.partition_point(|(outer, _)| *outer < depth));
                if let Some((_, parent)) = around.last()
                    && parents.len() < RANGES_LIMIT
                {
                    parents.insert(offset.0, *parent);
                }
                if opens_names && abbreviation.has_children() {
                    around.push((depth, offset));
                }
            }
            let has_code = attributes.iter().any(|attribute| {
                matches!(
                    attribute.name(),
                    gimli::DW_AT_low_pc | gimli::DW_AT_high_pc | gimli::DW_AT_ranges
                )
            });
            entries.skip_attributes(attributes)?;
            if abbreviation.tag() != gimli::DW_TAG_subprogram || !has_code {
                continue;
            }
            self.unit().entries_raw(Some(offset))?.read_entry(&mut entry)?;
            let found = self.ranges_of(&entry);
            ranges.extend(found.map(|range| FunctionRange {
                start: range.begin,
                end: range.end,
                offset,
            }));
        }
        Ok(())
    }
}

/// What gives names to what is in it.
pub(super) fn is_namespace_or_type(tag: DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_namespace
            | gimli::DW_TAG_module
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_interface_type
            | gimli::DW_TAG_enumeration_type
    )
}

fn skip_entry(entries: &mut gimli::EntriesRaw<Bytes>) -> gimli::Result<()> {
    if let Some(abbreviation) = entries.read_abbreviation()? {
        entries.skip_attributes(abbreviation.attributes())?;
    }
    Ok(())
}

/// What opens a scope within a function. A function in a function has its own address, and is no part of the outer.
fn kind_of(tag: DwTag) -> Option<ScopeKind> {
    match tag {
        gimli::DW_TAG_inlined_subroutine => Some(ScopeKind::Inlined),
        gimli::DW_TAG_lexical_block | gimli::DW_TAG_try_block | gimli::DW_TAG_catch_block => {
            Some(ScopeKind::Block)
        }
        _ => None,
    }
}
