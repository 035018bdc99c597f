//! What names stand for: first what is nearest, then what is anywhere.

use std::sync::Arc;

use super::FrameScope;
use crate::debug_info::{DebugInfo, EntryKind, EntryRef, NamedEntry};
use crate::expression::EvaluationError;
use crate::symbols::LoadedModule;
use crate::types::{Die, Kind, Language, RecordKind, Spot, Type, scoped};
use crate::value::Value;

/// Entries of a function that are searched for a variable.
const SEARCHED_LIMIT: usize = 1 << 14;

/// How well a definition fits a name; less is better.
type Fit = (bool, bool, u8);

impl FrameScope<'_> {
    pub(super) fn look_up(
        &self,
        within: Option<&str>,
        path: &str,
    ) -> Result<Option<Value>, EvaluationError> {
        if let Some(within) = within {
            return self.look_up_within(within, path);
        }
        if !path.contains("::") {
            if let Some(die) = self.visible(path) {
                return Ok(Some(self.value_of(&die)));
            }
            if let Some(member) = self.member_of_this(path) {
                return Ok(Some(member));
            }
        }
        if let Some((function, variable)) = path.rsplit_once("::")
            && let Some(die) = self.variable_of_function(function, variable)
        {
            return Ok(Some(self.value_of(&die)));
        }
        self.global(path, None)
    }

    fn visible(&self, name: &str) -> Option<Die> {
        self.visible_entries()
            .into_iter()
            .map(|(die, ..)| die)
            .find(|die| die.name().as_deref() == Some(name))
    }

    /// Within a method of C++ the members of its object are visible.
    fn member_of_this(&self, name: &str) -> Option<Value> {
        let this = (self.language == Language::Cpp).then(|| self.visible("this"))??;
        let this = self.value_of(&this);
        let object = this.ty.target()?;
        let address = this.number(self.frame.machine).ok()??.to_integer() as u64;
        Value::in_memory(object, address).member(name, self)
    }

    /// A variable of a file or of a function.
    fn look_up_within(&self, within: &str, path: &str) -> Result<Option<Value>, EvaluationError> {
        if let Some(die) = self.variable_of_function(within, path) {
            return Ok(Some(self.value_of(&die)));
        }
        self.global(path, Some(within))
    }

    /// Modules, that of the frame first.
    fn modules(&self) -> Vec<LoadedModule> {
        let mut modules = self.symbols.modules_at(self.frame.log, self.frame.time);
        let own = self.module.as_ref().map(|module| module.start);
        modules.sort_by_key(|module| Some(module.start) != own);
        modules
    }

    /// The best definition of a path that is accepted, in the nearest module that has one.
    fn best<T>(
        &self,
        path: &str,
        file: Option<&str>,
        mut accept: impl FnMut(&LoadedModule, &Die, EntryKind) -> Option<T>,
    ) -> Option<T> {
        let last = last_component(path);
        for module in self.modules() {
            let Some(info) = module.debug_info() else { continue };
            let named = info.named(last);
            let mut found: Vec<(Fit, &NamedEntry)> = (named.iter())
                .filter(|named| file.is_none_or(|file| is_of_file(info, named, file)))
                .filter_map(|named| Some((self.fit(info, named, path)?, named)))
                .collect();
            found.sort_by_key(|(fit, _)| *fit);
            for (_, named) in found {
                let die = Spot::new(info, &named.entry).read();
                if let Some(accepted) = die.and_then(|die| accept(&module, &die, named.kind)) {
                    return Some(accepted);
                }
            }
        }
        None
    }

    fn fit(&self, info: &Arc<DebugInfo>, named: &NamedEntry, path: &str) -> Option<Fit> {
        let (is_exact, is_near) =
            names_of(info, named).iter().fold((false, false), |(exact, near), name| {
                let (is_exact, is_near) =
                    (name == path, is_suffix(name, path) || is_suffix(&general(name), path));
                (exact || is_exact, near || is_near)
            });
        if !is_exact && !is_near {
            return None;
        }
        let own_unit = self.function.as_ref().map(|die| die.unit.number());
        let is_own = own_unit == Some(named.entry.unit.number())
            && self.own_info().is_some_and(|own| Arc::ptr_eq(own, info));
        let kind = match named.kind {
            EntryKind::Variable => 0,
            EntryKind::Enumerator => 1,
            EntryKind::Function => 2,
            EntryKind::Type => 3,
        };
        Some((!is_exact, !is_own, kind))
    }

    fn global(&self, path: &str, file: Option<&str>) -> Result<Option<Value>, EvaluationError> {
        let mut thread_local = None;
        let found = self.best(path, file, |module, die, kind| match kind {
            EntryKind::Variable => {
                let is_there = die
                    .origins()
                    .any(|die| die.has(gimli::DW_AT_location) || die.has(gimli::DW_AT_const_value));
                let value = is_there.then(|| self.value_of(die))?;
                if matches!(value.contents, crate::value::Contents::OptimizedOut) {
                    thread_local = thread_local.or_else(|| self.why_not_thread_local(die));
                }
                Some(Some(value))
            }
            EntryKind::Function => function_value(module, die).map(Some),
            EntryKind::Enumerator => self.enumerator(die).map(Some),
            // A type hides what has its name further away. Tags of C have a space of names of their own.
            EntryKind::Type => {
                let is_tag =
                    die.tag() != gimli::DW_TAG_typedef && die.spot().language() == Language::C;
                (!is_tag).then_some(None)
            }
        });
        match thread_local {
            Some(reason) => Err(EvaluationError::ThreadLocal(path.to_string(), reason)),
            None => Ok(found.flatten()),
        }
    }

    /// An enumerator has the type that it is within.
    fn enumerator(&self, die: &Die) -> Option<Value> {
        let number = crate::types::constant(&die.value(gimli::DW_AT_const_value)?)?;
        let parent = die.spot().ancestors().pop()?;
        let ty = Type::of(&parent);
        let size = ty.size()?.min(16) as usize;
        Some(Value::computed(ty, &number.to_le_bytes()[..size]))
    }

    /// A variable within a function that need not run.
    fn variable_of_function(&self, function: &str, variable: &str) -> Option<Die> {
        self.best(function, None, |_, die, kind| {
            (kind == EntryKind::Function).then_some(())?;
            find_variable(die, variable)
        })
    }

    pub(super) fn find_type(&self, tag: Option<&str>, name: &str) -> Option<Type> {
        let accepts = |ty: &Type| match (tag, ty.kind()) {
            (None, _) => true,
            (Some("union"), Kind::Record(record)) => record.kind == RecordKind::Union,
            (Some("struct" | "class"), Kind::Record(record)) => record.kind != RecordKind::Union,
            (Some("enum"), Kind::Enumeration(_)) => true,
            _ => false,
        };
        // Without a tag a typedef goes before the tag of the same name.
        let mut second = None;
        let found = self.best(name, None, |_, die, kind| {
            if kind != EntryKind::Type || die.flag(gimli::DW_AT_declaration) {
                return None;
            }
            let ty = Some(Type::of(die)).filter(accepts)?;
            if tag.is_none() && die.tag() != gimli::DW_TAG_typedef && ty.language() == Language::C {
                second.get_or_insert(ty);
                return None;
            }
            Some(ty)
        });
        found.or(second)
    }
}

/// The names that a definition goes by: those within an enumeration may do without its name.
pub(super) fn names_of(info: &Arc<DebugInfo>, named: &NamedEntry) -> Vec<String> {
    if named.kind == EntryKind::Function {
        return vec![info.qualified_name(named)];
    }
    let spot = Spot::new(info, &named.entry);
    let Some(die) = spot.read() else { return Vec::new() };
    let Some(own) = die.name() else { return Vec::new() };
    if spot.language() == Language::C {
        return vec![own.to_string()];
    }
    if named.kind == EntryKind::Type && !die.has(gimli::DW_AT_specification) {
        return vec![info.qualified_name(named)];
    }
    let full = scoped(&spot, &own);
    let mut names = vec![full];
    if named.kind == EntryKind::Enumerator
        && let Some(parent) = spot.ancestors().pop()
    {
        let parent_name = parent.name().unwrap_or_default();
        let around = scoped(&parent.spot(), &parent_name);
        let around = around.strip_suffix(&*parent_name).unwrap_or_default();
        names.push(format!("{around}{own}"));
    }
    names
}

/// Whether a path names the last parts of a name.
fn is_suffix(name: &str, path: &str) -> bool {
    name.strip_suffix(path).is_some_and(|around| around.is_empty() || around.ends_with("::"))
}

/// A name without its template arguments.
fn general(name: &str) -> String {
    let mut open = 0usize;
    let mut general = String::new();
    for character in name.chars() {
        match character {
            '<' => open += 1,
            '>' => open = open.saturating_sub(1),
            _ if open == 0 => general.push(character),
            _ => {}
        }
    }
    general
}

fn last_component(path: &str) -> &str {
    // Not within template arguments.
    let general = path.split('<').next().unwrap_or(path);
    let start = general.rfind("::").map_or(0, |at| at + 2);
    let after = &path[general.len()..];
    match after.rfind(">::") {
        Some(at) => &after[at + 3..],
        None => &path[start..],
    }
}

fn is_of_file(info: &Arc<DebugInfo>, named: &NamedEntry, file: &str) -> bool {
    let unit = Arc::clone(&named.entry.unit);
    let offset = unit.unit().header.root_offset();
    let root = Spot::new(info, &EntryRef { unit, offset });
    let name = root.read().and_then(|die| die.text(gimli::DW_AT_name));
    name.is_some_and(|name| {
        &*name == file || name.ends_with(file) && name[..name.len() - file.len()].ends_with('/')
    })
}

/// A function is the memory of its code.
fn function_value(module: &LoadedModule, die: &Die) -> Option<Value> {
    let address = entry_address(die)?;
    Some(Value::in_memory(Type::of(die), address.wrapping_add(module.bias)))
}

/// The first address of a function in its file.
pub(crate) fn entry_address(die: &Die) -> Option<u64> {
    let unit = die.unit.unit_ref();
    for attribute in [gimli::DW_AT_low_pc, gimli::DW_AT_entry_pc] {
        if let Some(value) = die.value(attribute)
            && let Ok(Some(address)) = unit.attr_address(value)
        {
            return Some(address);
        }
    }
    die.value(gimli::DW_AT_ranges)?;
    die.unit.ranges_of(die.entry()).next().map(|range| range.begin)
}

/// A variable of a function by its name, wherever in it. Statics first: they are there without a frame.
fn find_variable(function: &Die, name: &str) -> Option<Die> {
    let mut left = SEARCHED_LIMIT;
    let mut open = vec![function.clone()];
    let mut second = None;
    while let Some(scope) = open.pop() {
        for child in scope.children() {
            left = left.checked_sub(1)?;
            match child.tag() {
                gimli::DW_TAG_variable if child.name().as_deref() == Some(name) => {
                    let is_static = child.flag(gimli::DW_AT_external) || is_at_an_address(&child);
                    if is_static {
                        return Some(child);
                    }
                    second.get_or_insert(child);
                }
                gimli::DW_TAG_lexical_block
                | gimli::DW_TAG_inlined_subroutine
                | gimli::DW_TAG_subprogram => open.push(child),
                _ => {}
            }
        }
    }
    second
}

/// Whether a variable is at the same place for the whole run.
fn is_at_an_address(die: &Die) -> bool {
    match die.value(gimli::DW_AT_location) {
        Some(gimli::AttributeValue::Exprloc(expression)) => {
            let first = expression.operations(die.unit.unit().encoding()).next();
            matches!(
                first,
                Ok(Some(gimli::Operation::Address { .. } | gimli::Operation::AddressIndex { .. }))
            )
        }
        _ => false,
    }
}
