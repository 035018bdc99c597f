//! The functions that stand for one address.
//!
//! Code of a function may stand in that of another. For an address there are then several frames: the innermost
//! function with the line of the address itself, and each of the others with the line of the call that it is in.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::debug_info::{DebugInfo, DebugUnit, EntryRef, Scope, ScopeKind};
use crate::lines::Source;
use crate::lock;
use crate::object_file::ObjectFile;

/// Addresses that are kept.
const KEPT_LIMIT: usize = 1 << 16;

/// Functions in each other.
const NESTING: usize = 256;

/// A function that stands for an address.
#[derive(Clone, Debug)]
pub(crate) struct CodeFrame {
    pub(crate) function: Option<Arc<str>>,
    pub(crate) source: Option<Source>,
    /// Its code stands in that of the next.
    pub(crate) is_inlined: bool,
}

/// Answers that were given.
#[derive(Debug, Default)]
pub(crate) struct CodeFrames {
    kept: Mutex<HashMap<u64, Arc<[CodeFrame]>>>,
}

impl ObjectFile {
    /// The functions that stand for an address of the file, innermost first: one at least.
    pub(crate) fn code_frames(&self, address: u64) -> Arc<[CodeFrame]> {
        let frames = self.kept_code_frames();
        if let Some(known) = lock(&frames.kept).get(&address) {
            return Arc::clone(known);
        }
        let found: Arc<[CodeFrame]> = self.find_code_frames(address).into();
        let mut kept = lock(&frames.kept);
        if kept.len() > KEPT_LIMIT {
            kept.clear();
        }
        kept.insert(address, Arc::clone(&found));
        found
    }

    fn find_code_frames(&self, address: u64) -> Vec<CodeFrame> {
        let described = self.debug_info().and_then(|info| {
            let units = info.units_at(address);
            units.iter().map(|unit| self.described(info, unit, address)).find(|all| !all.is_empty())
        });
        described.unwrap_or_else(|| {
            let function = self.function(address).map(|(_, name)| name);
            let source = self.line(address);
            vec![CodeFrame { function, source, is_inlined: false }]
        })
    }

    fn described(&self, info: &DebugInfo, unit: &Arc<DebugUnit>, address: u64) -> Vec<CodeFrame> {
        let table = self.lines().table(unit);
        let mut source =
            (table.row_at(address)).filter(|row| row.line != 0).map(|row| table.source(unit, row));
        let mut frames = Vec::new();
        let scopes = unit.scopes_at(address);
        let functions = scopes.iter().rev().filter(|scope| scope.kind != ScopeKind::Block);
        for &Scope { offset, kind } in functions.take(NESTING) {
            let scope = EntryRef { unit: Arc::clone(unit), offset };
            let name = info.function_name(&scope).map(Arc::from);
            let is_inlined = kind == ScopeKind::Inlined;
            frames.push(CodeFrame {
                function: name.or_else(|| self.function(address).map(|(_, name)| name)),
                source: source.take(),
                is_inlined,
            });
            let call = is_inlined.then(|| unit.inlined_call(offset)).flatten();
            source = call.filter(|call| call.line != 0).map(|call| Source {
                path: table.path(unit, u32::try_from(call.file).unwrap_or(u32::MAX)),
                line: call.line,
                column: call.column,
            });
        }
        frames
    }
}
