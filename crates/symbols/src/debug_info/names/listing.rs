//! The definitions of one unit.
//!
//! Everything is gone through, so that speed counts: the bytes of a unit are copied to one place, abbreviations tell
//! beforehand which entries can define something, all others are passed over without a look at their attributes, and
//! names are read of those alone that define something.

use std::sync::Arc;

use gimli::{
    Abbreviation, AttributeSpecification, AttributeValue, EndianSlice, EntriesRaw, LittleEndian,
    Reader as _, Section as _, UnitOffset,
};

use super::{EntryKind, REFERENCES, ROWS_LIMIT, Row, ScopeRow, UnitNames, base_of, sum_of};
use crate::debug_info::scopes::is_namespace_or_type;
use crate::debug_info::units::DebugUnit;
use crate::debug_info::{Bytes, DebugInfo};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Abbreviations that are known by their code; compilers number them from 1 on.
const CODES_LIMIT: usize = 1 << 14;

/// What an abbreviation says of all entries that have it.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// What they can define.
    defines: Option<EntryKind>,
    /// They do so only if they are at one place always.
    must_be_fixed: bool,
    /// What is within them has their name before its own.
    is_scope: bool,
    has_children: bool,
    /// Bytes of their attributes, if that is the same for all.
    size: Option<usize>,
    /// Where among them is told where the next entry begins that is not within, of entries within which nothing is defined.
    sibling: Option<usize>,
}

impl Plan {
    fn new(abbreviation: &Abbreviation, encoding: gimli::Encoding) -> Plan {
        let attributes = abbreviation.attributes();
        let has = |name| attributes.iter().any(|attribute| attribute.name() == name);
        let has_code = has(gimli::DW_AT_low_pc) || has(gimli::DW_AT_ranges);
        let is_definition = !has(gimli::DW_AT_declaration);
        let tag = abbreviation.tag();
        let has_constant = has(gimli::DW_AT_const_value);
        let is_located = has(gimli::DW_AT_location);
        let defines = match tag {
            // Of what was compiled as one with others, the entry says nothing about its code.
            gimli::DW_TAG_subprogram => {
                let is_defined = has_code || has(gimli::DW_AT_inline) || is_definition;
                is_defined.then_some(EntryKind::Function)
            }
            gimli::DW_TAG_variable | gimli::DW_TAG_member => {
                (has_constant || is_located).then_some(EntryKind::Variable)
            }
            gimli::DW_TAG_enumerator => Some(EntryKind::Enumerator),
            gimli::DW_TAG_namespace | gimli::DW_TAG_module => None,
            gimli::DW_TAG_base_type | gimli::DW_TAG_typedef | gimli::DW_TAG_unspecified_type => {
                (is_definition && has(gimli::DW_AT_name)).then_some(EntryKind::Type)
            }
            tag if is_namespace_or_type(tag) => {
                (is_definition && has(gimli::DW_AT_name)).then_some(EntryKind::Type)
            }
            _ => None,
        };
        let is_scope = tag == gimli::DW_TAG_subprogram || is_namespace_or_type(tag);
        let is_barren = match tag {
            gimli::DW_TAG_subprogram => defines.is_none(),
            tag => matches!(
                tag,
                gimli::DW_TAG_subroutine_type
                    | gimli::DW_TAG_array_type
                    | gimli::DW_TAG_call_site
                    | gimli::DW_TAG_GNU_call_site
            ),
        };
        let size_of = |attributes: &[AttributeSpecification]| {
            attributes
                .iter()
                .map(|attribute| fixed_size(attribute, encoding))
                .sum::<Option<usize>>()
        };
        let sibling = (attributes.iter())
            .position(|attribute| {
                attribute.name() == gimli::DW_AT_sibling && attribute.form() == gimli::DW_FORM_ref4
            })
            .filter(|_| is_barren)
            .and_then(|at| size_of(&attributes[..at]));
        Plan {
            defines,
            must_be_fixed: defines == Some(EntryKind::Variable) && !has_constant,
            is_scope,
            has_children: abbreviation.has_children(),
            size: size_of(attributes),
            sibling,
        }
    }
}

/// Bytes of an attribute, if its form has no other length.
fn fixed_size(attribute: &AttributeSpecification, encoding: gimli::Encoding) -> Option<usize> {
    let word = usize::from(encoding.format.word_size());
    Some(match attribute.form() {
        gimli::DW_FORM_flag_present | gimli::DW_FORM_implicit_const => 0,
        gimli::DW_FORM_data1
        | gimli::DW_FORM_flag
        | gimli::DW_FORM_ref1
        | gimli::DW_FORM_strx1
        | gimli::DW_FORM_addrx1 => 1,
        gimli::DW_FORM_data2
        | gimli::DW_FORM_ref2
        | gimli::DW_FORM_strx2
        | gimli::DW_FORM_addrx2 => 2,
        gimli::DW_FORM_data4
        | gimli::DW_FORM_ref4
        | gimli::DW_FORM_strx4
        | gimli::DW_FORM_addrx4 => 4,
        gimli::DW_FORM_data8 | gimli::DW_FORM_ref8 | gimli::DW_FORM_ref_sig8 => 8,
        gimli::DW_FORM_data16 => 16,
        gimli::DW_FORM_addr => encoding.address_size.into(),
        gimli::DW_FORM_strp | gimli::DW_FORM_line_strp | gimli::DW_FORM_sec_offset => word,
        _ => return None,
    })
}

/// A unit whose entries are gone through.
struct Walk<'a> {
    info: &'a DebugInfo,
    unit: &'a Arc<DebugUnit>,
    entries: Slice<'a>,
    /// Where they begin in the unit.
    first: usize,
    /// By code.
    plans: Vec<Option<Plan>>,
}

impl UnitNames {
    /// Lists a unit. The buffer is for its bytes.
    pub(super) fn list(info: &DebugInfo, unit: &Arc<DebugUnit>, buffer: &mut Vec<u8>) -> UnitNames {
        let mut names = UnitNames::default();
        let header = &unit.unit().header;
        let first = header.root_offset();
        let bytes = header.range_from(first..).ok();
        if bytes.and_then(|bytes| bytes.copy_to(buffer)).is_some() {
            let entries = EndianSlice::new(buffer, LittleEndian);
            let mut walk = Walk { info, unit, entries, first: first.0, plans: Vec::new() };
            // Damage ends the list.
            let _ = walk.gather(&mut names);
        }
        names.rows.sort_unstable_by_key(|row| (row.sum, row.offset));
        names.rows.shrink_to_fit();
        names
    }
}

impl<'a> Walk<'a> {
    fn gather(&mut self, names: &mut UnitNames) -> gimli::Result<()> {
        let unit = self.unit.unit();
        let (encoding, abbreviations) = (unit.encoding(), &unit.abbreviations);
        let mut input = self.entries;
        let mut depth = 0;
        // Depths and rows of what the next entry is in.
        let mut around: Vec<(usize, u32)> = Vec::new();
        while !input.is_empty() && names.rows.len() < ROWS_LIMIT {
            let offset = self.first + input.offset_from(self.entries);
            let code = input.read_uleb128()?;
            if code == 0 {
                depth = usize::saturating_sub(depth, 1);
                continue;
            }
            let abbreviation =
                abbreviations.get(code).ok_or(gimli::Error::InvalidAbbreviationCode(code))?;
            let plan = self.plan_of(abbreviation);
            let attributes = input;
            match plan.size {
                Some(size) => input.skip(size)?,
                None => {
                    let mut entries =
                        EntriesRaw::new(input, encoding, abbreviations, UnitOffset(0));
                    entries.skip_attributes(abbreviation.attributes())?;
                    input.skip(entries.next_offset().0)?;
                }
            }
            if plan.defines.is_some() || plan.is_scope && plan.has_children {
                around.truncate(around.partition_point(|(outer, _)| *outer < depth));
            }
            let scope = around.last().map_or(0, |(_, row)| *row);
            let Ok(at) = u32::try_from(offset) else { return Ok(()) };
            if let Some(kind) = plan.defines
                && let Some(sum) = self.sum(abbreviation, plan, attributes)?
            {
                names.rows.push(Row { sum, offset: at, scope, kind });
            }
            if !plan.has_children {
                continue;
            }
            if let Some(next) = self.sibling(plan, attributes)
                && next > self.first + input.offset_from(self.entries)
            {
                input = self.entries;
                input.skip(next - self.first)?;
                continue;
            }
            if plan.is_scope && names.scopes.len() < ROWS_LIMIT {
                names.scopes.push(ScopeRow { offset: at, parent: scope });
                around.push((depth, names.scopes.len() as u32));
            }
            depth += 1;
        }
        Ok(())
    }

    fn plan_of(&mut self, abbreviation: &Abbreviation) -> Plan {
        let encoding = self.unit.unit().encoding();
        let code = usize::try_from(abbreviation.code()).ok().filter(|&code| code < CODES_LIMIT);
        let Some(code) = code else { return Plan::new(abbreviation, encoding) };
        if self.plans.len() <= code {
            self.plans.resize(code + 1, None);
        }
        *self.plans[code].get_or_insert_with(|| Plan::new(abbreviation, encoding))
    }

    /// Where the next entry begins that is not within this one, if nothing is defined within.
    fn sibling(&self, plan: Plan, mut attributes: Slice) -> Option<usize> {
        attributes.skip(plan.sibling?).ok()?;
        let next = attributes.read_u32().ok()? as usize;
        (next < self.first + self.entries.len()).then_some(next)
    }

    /// The sum of the name of an entry that defines something.
    fn sum(
        &self,
        abbreviation: &Abbreviation,
        plan: Plan,
        attributes: Slice<'a>,
    ) -> gimli::Result<Option<u32>> {
        let summary = self.summary(abbreviation, attributes)?;
        if plan.must_be_fixed && !summary.is_fixed {
            return Ok(None);
        }
        self.sum_of_name(summary)
    }

    fn sum_of_name(&self, mut summary: Summary<'a>) -> gimli::Result<Option<u32>> {
        for _ in 0..REFERENCES {
            match (summary.name, summary.refers_to) {
                (Some(name), _) => return self.sum_of_text(name),
                (None, Some(AttributeValue::UnitRef(offset))) => {
                    let Some(next) = self.summary_at(offset)? else { return Ok(None) };
                    summary = next;
                }
                (None, reference) => {
                    let entry = reference.and_then(elsewhere);
                    let entry = entry.and_then(|value| self.info.resolve(self.unit, value));
                    let name = entry.and_then(|entry| self.info.name_of(&entry));
                    return Ok(name.map(|name| sum_of(base_of(name.as_bytes()))));
                }
            }
        }
        Ok(None)
    }

    fn summary_at(&self, offset: UnitOffset) -> gimli::Result<Option<Summary<'a>>> {
        let Some(at) = offset.0.checked_sub(self.first) else { return Ok(None) };
        let mut input = self.entries;
        if input.skip(at).is_err() {
            return Ok(None);
        }
        let code = input.read_uleb128()?;
        let Some(abbreviation) = self.unit.unit().abbreviations.get(code) else { return Ok(None) };
        self.summary(abbreviation, input).map(Some)
    }

    fn summary(
        &self,
        abbreviation: &Abbreviation,
        attributes: Slice<'a>,
    ) -> gimli::Result<Summary<'a>> {
        let unit = self.unit.unit();
        let mut entries =
            EntriesRaw::new(attributes, unit.encoding(), &unit.abbreviations, UnitOffset(0));
        let mut summary = Summary::default();
        for &specification in abbreviation.attributes() {
            match specification.name() {
                gimli::DW_AT_name => {
                    summary.name = Some(entries.read_attribute(specification)?.value());
                }
                gimli::DW_AT_specification | gimli::DW_AT_abstract_origin => {
                    summary.refers_to = Some(entries.read_attribute(specification)?.value());
                }
                gimli::DW_AT_location => {
                    let value = entries.read_attribute(specification)?.value();
                    summary.is_fixed = is_fixed(&value);
                }
                _ => entries.skip_attributes(&[specification])?,
            }
        }
        Ok(summary)
    }

    fn sum_of_text(&self, value: AttributeValue<Slice<'a>>) -> gimli::Result<Option<u32>> {
        let unit = self.unit.unit_ref();
        Ok(match value {
            AttributeValue::String(text) => Some(sum_of(base_of(text.slice()))),
            AttributeValue::DebugStrRef(offset) => {
                let text = unit.dwarf.debug_str.reader().text_at(offset.0);
                text.map(|text| sum_of(base_of(&text)))
            }
            value => match elsewhere(value) {
                Some(value) => Some(sum_of(base_of(&unit.attr_string(value)?.to_slice()?))),
                None => None,
            },
        })
    }
}

/// What counts of an entry that may define something.
#[derive(Default)]
struct Summary<'a> {
    name: Option<AttributeValue<Slice<'a>>>,
    refers_to: Option<AttributeValue<Slice<'a>>>,
    is_fixed: bool,
}

/// A value that refers to something that is not in the entry.
fn elsewhere(value: AttributeValue<Slice>) -> Option<AttributeValue<Bytes>> {
    Some(match value {
        AttributeValue::UnitRef(offset) => AttributeValue::UnitRef(offset),
        AttributeValue::DebugInfoRef(offset) => AttributeValue::DebugInfoRef(offset),
        AttributeValue::DebugInfoRefSup(offset) => AttributeValue::DebugInfoRefSup(offset),
        AttributeValue::DebugTypesRef(signature) => AttributeValue::DebugTypesRef(signature),
        AttributeValue::DebugStrRef(offset) => AttributeValue::DebugStrRef(offset),
        AttributeValue::DebugStrRefSup(offset) => AttributeValue::DebugStrRefSup(offset),
        AttributeValue::DebugStrOffsetsIndex(index) => AttributeValue::DebugStrOffsetsIndex(index),
        AttributeValue::DebugLineStrRef(offset) => AttributeValue::DebugLineStrRef(offset),
        _ => return None,
    })
}

/// Whether a variable is at one address, or at one place of each thread, always: locals that come and go do not
/// count.
fn is_fixed(location: &AttributeValue<Slice>) -> bool {
    let AttributeValue::Exprloc(expression) = location else { return false };
    let bytes = expression.0.slice();
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
