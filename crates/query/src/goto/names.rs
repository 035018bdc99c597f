//! Functions and lines of instructions, remembered: a search asks for the same few thousand addresses again and
//! again.
//!
//! What is remembered of an address holds for the file that it is from; where another file is mapped later, that one is
//! asked.

use std::collections::HashMap;
use std::sync::Arc;

use retro_symbols::{LoadedModule, Machine, Module, Symbols};

use crate::language::SourceLine;

/// Answers that are kept.
const KEPT: usize = 1 << 20;

/// What is known of an address.
#[derive(Clone, Debug, Default)]
pub(super) struct CodeName {
    /// The functions that stand for it, innermost first: those that are inlined, and the one they are inlined in.
    pub(super) functions: Vec<Arc<str>>,
    /// The innermost function has a name; the others may be all that is known.
    pub(super) has_innermost: bool,
    /// The line.
    pub(super) source: Option<SourceLine>,
    /// A statement begins there, and the code of its line.
    pub(super) starts_line: bool,
    /// A function with code of its own begins there.
    pub(super) starts_function: bool,
}

impl CodeName {
    /// The innermost function.
    pub(super) fn function(&self) -> Option<&Arc<str>> {
        self.functions.first().filter(|_| self.has_innermost)
    }
}

/// Names of a process.
#[derive(Default)]
pub(super) struct Names {
    /// By module and address in it. The module is kept, so that no other one can come to lie where it does.
    known: HashMap<(usize, u64), (Arc<Module>, Arc<CodeName>)>,
}

impl Names {
    /// What is known of an address at a time.
    pub(super) fn at(&mut self, symbols: &Symbols, log: u64, time: u64, pc: u64) -> Arc<CodeName> {
        let Some(module) = symbols.module_at(log, time, pc) else { return Arc::default() };
        let key = (Arc::as_ptr(&module.module) as usize, module.file_address(pc));
        if let Some((_, known)) = self.known.get(&key) {
            return Arc::clone(known);
        }
        let found = Arc::new(look_up(symbols, &module, log, time, pc));
        if self.known.len() >= KEPT {
            self.known.clear();
        }
        self.known.insert(key, (module.module, Arc::clone(&found)));
        found
    }
}

fn look_up(symbols: &Symbols, module: &LoadedModule, log: u64, time: u64, pc: u64) -> CodeName {
    if module.file.is_none() {
        return CodeName::default();
    }
    // Without memory there is nothing to unwind: what is left are the functions of the address itself.
    let stack = symbols.unwind(log, time, &OnlyPc(pc), usize::MAX);
    let here = stack.frames.iter().take_while(|frame| frame.depth == 0);
    let functions: Vec<Option<Arc<str>>> = here.map(|frame| frame.function.clone()).collect();
    let place = symbols.place(log, time, pc);
    let line = symbols.line_ranges_around(log, time, pc);
    CodeName {
        has_innermost: functions.first().is_some_and(Option::is_some),
        functions: functions.into_iter().flatten().collect(),
        source: place.source.map(|at| SourceLine { path: at.path.to_string(), line: at.line }),
        starts_line: line.is_some_and(|line| line.is_statement && line.range.start == pc),
        starts_function: place.function.is_some_and(|function| function.offset == 0),
    }
}

/// An address and nothing else.
struct OnlyPc(u64);

impl Machine for OnlyPc {
    fn register(&self, number: u16) -> Option<u64> {
        /// DWARF's number of the instruction pointer.
        const RIP: u16 = 16;
        (number == RIP).then_some(self.0)
    }

    fn vector(&self, _: u16) -> Option<[u8; 16]> {
        None
    }

    fn fs_base(&self) -> Option<u64> {
        None
    }

    fn read(&self, _: u64, _: &mut [u8]) -> bool {
        false
    }
}
