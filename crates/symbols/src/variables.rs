//! Variables of a frame: what is in scope at an address, and where it is at that moment.
//!
//! Problem: the debug information says for every address where a variable lies, in a small language of its own; what it
//! says depends on registers, on the frame, on the thread, and sometimes on what the caller did.
//!
//! Strategy: a [`FrameContext`] is what has to be known of a frame. A [`FrameScope`] finds the scopes around its address
//! once, and then answers for names, types and locations.
//!
//! ```text
//! location      where a variable is: DWARF expressions and location lists
//! lookup        names: locals, statics, globals, functions, enumerators, types
//! globals       those of the file that a function is from
//! arguments     parameters at the entry of a function, by the calling convention
//! by_address    objects that are passed and returned by address
//! results       what a function returns, by the calling convention
//! thread_local  where the variables of a thread are
//! entry_values  what the caller says about the registers at the call
//! ```
//!
//! Invariants: nothing here reads a file; what cannot be found is optimized out rather than guessed.

mod arguments;
mod by_address;
mod entry_values;
mod globals;
mod location;
mod lookup;
mod results;
mod thread_local;

use std::sync::Arc;

use crate::debug_info::{DebugInfo, EntryRef, ScopeKind};
use crate::expression::{EvaluationError, Expression};
use crate::machine::Machine;
use crate::symbols::{LoadedModule, Symbols};
use crate::types::{Die, Language, Spot, Type};
use crate::value::{SyntheticPointer, Value};

pub use entry_values::CallSite;
pub use globals::Global;
pub(crate) use lookup::entry_address;
pub use results::returned_value;

/// How deep blocks are nested in one another.
const NESTING_LIMIT: usize = 8;

/// Variables of one scope.
const VARIABLES_LIMIT: usize = 1 << 12;

/// The registers of a frame's function when it was called.
pub trait EntryRegisters {
    /// A general register by its DWARF number, if it is known.
    fn entry_register(&self, number: u16) -> Option<u64>;
}

/// Nothing is known about the call.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnknownEntry;

impl EntryRegisters for UnknownEntry {
    fn entry_register(&self, _: u16) -> Option<u64> {
        None
    }
}

/// A frame, as far as its variables depend on it.
#[derive(Clone, Copy)]
pub struct FrameContext<'a> {
    /// The log of the process.
    pub log: u64,
    /// The time.
    pub time: u64,
    /// An address within the instruction that runs: for a caller that is one less than where it is returned to.
    pub pc: u64,
    /// Registers of the frame, and memory.
    pub machine: &'a dyn Machine,
    /// The canonical frame address.
    pub cfa: Option<u64>,
    /// The registers at the call.
    pub entry: &'a dyn EntryRegisters,
    /// Of the functions that are inlined around the address, the one that is meant, counted from the innermost; None
    /// for all of them together.
    pub level: Option<usize>,
}

/// A variable of a frame.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name.
    pub name: Arc<str>,
    /// What it is.
    pub kind: VariableKind,
    /// Its value.
    pub value: Value,
    /// One further in has the same name.
    pub is_shadowed: bool,
    /// The compiler made it.
    pub is_artificial: bool,
    /// The line that it was declared in.
    pub line: Option<u32>,
    /// How many inlined functions further out than the innermost.
    pub level: usize,
}

/// What a variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableKind {
    /// A parameter of the function.
    Parameter,
    /// A variable of the function or of a block in it.
    Local,
}

/// Where names, types and memory are looked up.
pub trait Scope {
    /// Registers and memory.
    fn machine(&self) -> &dyn Machine;

    /// The language that is spoken here.
    fn language(&self) -> Language {
        Language::C
    }

    /// The symbol of an address, and how far behind its start the address is.
    fn symbol(&self, _address: u64) -> Option<(Arc<str>, u64)> {
        None
    }

    /// What a name stands for: a variable, a function, a constant. `within` is a file or a function.
    fn variable(
        &self,
        _within: Option<&str>,
        _path: &str,
    ) -> Result<Option<Value>, EvaluationError> {
        Ok(None)
    }

    /// A type by its name; C has tags, too.
    fn type_named(&self, _tag: Option<&str>, _name: &str) -> Option<Type> {
        None
    }

    /// The variable of an entry of the debug information.
    fn value_at(&self, _spot: &Spot) -> Option<Value> {
        None
    }

    /// The whole variable that a pointer into no memory points into.
    fn value_behind(&self, _pointer: &SyntheticPointer) -> Option<Value> {
        None
    }

    /// Where a virtual base of an object is.
    fn member_address(&self, _spot: &Spot, _object: u64) -> Option<u64> {
        None
    }

    /// A type with the sizes that it has here.
    fn sized(&self, ty: Type) -> Type {
        ty
    }
}

/// The scopes around the address of a frame.
pub struct FrameScope<'a> {
    symbols: &'a Symbols,
    frame: FrameContext<'a>,
    module: Option<LoadedModule>,
    /// The function with code of its own around the address.
    function: Option<Die>,
    /// From the outermost in.
    scopes: Vec<(Die, ScopeKind)>,
    language: Language,
}

impl Symbols {
    /// The scopes around the address of a frame, for evaluating and formatting.
    pub fn scope<'a>(&'a self, frame: &FrameContext<'a>) -> FrameScope<'a> {
        FrameScope::new(self, *frame)
    }

    /// The parameters and locals that are visible in a frame, innermost first.
    pub fn locals(&self, frame: &FrameContext) -> Vec<Variable> {
        self.scope(frame).locals()
    }

    /// The value of an expression in a frame.
    pub fn evaluate(&self, frame: &FrameContext, text: &str) -> Result<Value, EvaluationError> {
        Expression::parse(text)?.evaluate(&self.scope(frame))
    }

    /// The parameters of the function that a frame is in. In its first instruction they are where the caller put them.
    pub fn arguments(&self, frame: &FrameContext) -> Vec<Variable> {
        self.scope(frame).arguments()
    }
}

impl<'a> FrameScope<'a> {
    fn new(symbols: &'a Symbols, frame: FrameContext<'a>) -> FrameScope<'a> {
        let module = symbols.module_at(frame.log, frame.time, frame.pc);
        let mut scopes = Vec::new();
        let mut language = Language::C;
        if let Some(module) = &module
            && let Some(info) = module.debug_info()
        {
            let address = module.file_address(frame.pc);
            if let Some(unit) = info.unit_of(address) {
                let at = |offset| Spot::new(info, &EntryRef { unit: Arc::clone(&unit), offset });
                let root = at(unit.unit().header.root_offset());
                language = root.language();
                let found = unit.scopes_at(address);
                scopes = found
                    .iter()
                    .filter_map(|scope| Some((at(scope.offset).read()?, scope.kind)))
                    .collect();
            }
        }
        let function = scopes.first().map(|(die, _)| die.clone());
        if let Some(level) = frame.level {
            cut_to_level(&mut scopes, level);
        }
        FrameScope { symbols, frame, module, function, scopes, language }
    }

    /// The frame that it is of.
    pub fn frame(&self) -> &FrameContext<'a> {
        &self.frame
    }

    fn function(&self) -> Option<&Die> {
        self.function.as_ref()
    }

    /// The parameters and locals that are visible, innermost first.
    pub fn locals(&self) -> Vec<Variable> {
        let mut variables: Vec<Variable> = Vec::new();
        for (die, kind, level) in self.visible_entries() {
            let Some(name) = die.name() else { continue };
            let is_shadowed = variables.iter().any(|inner| inner.name == name);
            variables.push(self.variable_of(&die, name, kind, level, is_shadowed));
            if variables.len() >= VARIABLES_LIMIT {
                break;
            }
        }
        variables
    }

    fn variable_of(
        &self,
        die: &Die,
        name: Arc<str>,
        kind: VariableKind,
        level: usize,
        is_shadowed: bool,
    ) -> Variable {
        let line = die
            .origin_with(gimli::DW_AT_decl_line)
            .and_then(|die| die.number(gimli::DW_AT_decl_line));
        Variable {
            name,
            kind,
            value: self.value_of(die),
            is_shadowed,
            is_artificial: die.origin_with(gimli::DW_AT_artificial).is_some(),
            line: line.and_then(|line| line.try_into().ok()),
            level,
        }
    }

    /// The entries of visible variables, innermost first; within a scope in the order of the source.
    fn visible_entries(&self) -> Vec<(Die, VariableKind, usize)> {
        let mut entries = Vec::new();
        let mut level = 0;
        for (scope, kind) in self.scopes.iter().rev() {
            for die in scope_children(scope) {
                let variable_kind = match die.tag() {
                    gimli::DW_TAG_formal_parameter => VariableKind::Parameter,
                    gimli::DW_TAG_variable if !die.flag(gimli::DW_AT_declaration) => {
                        VariableKind::Local
                    }
                    _ => continue,
                };
                entries.push((die, variable_kind, level));
            }
            if *kind == ScopeKind::Inlined {
                level += 1;
            }
        }
        entries
    }

    /// The debug information of the frame's own file.
    fn own_info(&self) -> Option<&Arc<DebugInfo>> {
        self.module.as_ref()?.debug_info()
    }

    /// The module that an entry is of.
    fn module_of(&self, spot: &Spot) -> Option<LoadedModule> {
        let is_of =
            |module: &LoadedModule| module.debug_info().is_some_and(|info| spot.is_in(info));
        if let Some(module) = self.module.as_ref().filter(|module| is_of(module)) {
            return Some(module.clone());
        }
        self.symbols.modules_at(self.frame.log, self.frame.time).into_iter().find(is_of)
    }
}

/// Tables that the compiler makes, as everybody calls them.
fn readable(name: &Arc<str>) -> Arc<str> {
    for (mark, word) in [
        ("{vtable(", "vtable"),
        ("{vtt(", "VTT"),
        ("{typeinfo(", "typeinfo"),
        ("{typeinfo name(", "typeinfo name"),
    ] {
        if let Some(class) = name.strip_prefix(mark).and_then(|rest| rest.strip_suffix(")}")) {
            return Arc::from(format!("{word} for {class}"));
        }
    }
    Arc::clone(name)
}

/// The children of a scope, and those of the function that it is an instance of which the instance leaves out because
/// nothing remained of them.
fn scope_children(scope: &Die) -> Vec<Die> {
    let mut children = scope.children();
    let Some(origin) = scope.reference(gimli::DW_AT_abstract_origin).and_then(|spot| spot.read())
    else {
        return children;
    };
    let present = instances(&children, NESTING_LIMIT);
    let is_variable =
        |die: &Die| matches!(die.tag(), gimli::DW_TAG_formal_parameter | gimli::DW_TAG_variable);
    let mut left_out: Vec<Die> = (origin.children().into_iter())
        .filter(is_variable)
        .filter(|die| !present.iter().any(|spot| spot.is(&die.spot())))
        .collect();
    // Without a counterpart at all the instance was written in full.
    if !present.is_empty() || !children.iter().any(is_variable) {
        children.append(&mut left_out);
    }
    children
}

/// What the variables among these entries, and in the blocks among them, are instances of.
fn instances(entries: &[Die], depth: usize) -> Vec<Spot> {
    let Some(depth) = depth.checked_sub(1) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries {
        found.extend(entry.reference(gimli::DW_AT_abstract_origin));
        if entry.tag() == gimli::DW_TAG_lexical_block {
            found.extend(instances(&entry.children(), depth));
        }
    }
    found
}

/// Keeps the scopes of one of the functions that are inlined into each other.
fn cut_to_level(scopes: &mut Vec<(Die, ScopeKind)>, level: usize) {
    for _ in 0..level {
        let Some(inlined) = scopes.iter().rposition(|(_, kind)| *kind == ScopeKind::Inlined) else {
            return;
        };
        scopes.truncate(inlined);
    }
    if let Some(inlined) = scopes.iter().rposition(|(_, kind)| *kind == ScopeKind::Inlined) {
        scopes.drain(..inlined);
    }
}

impl Scope for FrameScope<'_> {
    fn machine(&self) -> &dyn Machine {
        self.frame.machine
    }

    fn language(&self) -> Language {
        self.language
    }

    fn symbol(&self, address: u64) -> Option<(Arc<str>, u64)> {
        let place = self.symbols.place(self.frame.log, self.frame.time, address);
        place.function.map(|function| (readable(&function.name), function.offset))
    }

    fn variable(&self, within: Option<&str>, path: &str) -> Result<Option<Value>, EvaluationError> {
        self.look_up(within, path)
    }

    fn type_named(&self, tag: Option<&str>, name: &str) -> Option<Type> {
        self.find_type(tag, name)
    }

    fn value_at(&self, spot: &Spot) -> Option<Value> {
        spot.read().map(|die| self.value_of(&die))
    }

    fn value_behind(&self, pointer: &SyntheticPointer) -> Option<Value> {
        self.value_at(&pointer.target)
    }

    fn member_address(&self, spot: &Spot, object: u64) -> Option<u64> {
        self.address_of_member(spot, object)
    }

    fn sized(&self, ty: Type) -> Type {
        self.sized_type(ty)
    }
}
