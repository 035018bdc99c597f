//! The functions and variables that a symbol table names, by address.
//!
//! Several symbols often stand for one address; the one that people would type is kept: with a size, with few
//! leading underscores, global. A symbol without a size reaches to the next one.
//!
//! Invariant: sorted by address, one symbol for each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::demangle::demangle;
use crate::lock;

/// Symbols that are kept; the largest programs have a few million.
const SYMBOLS_LIMIT: usize = 1 << 24;

/// Demangled names that are kept.
const SHOWN_LIMIT: usize = 1 << 14;

/// How many symbols before an address are asked whether they reach it: functions may lie within others.
const NESTING: usize = 16;

/// A symbol as a table has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawSymbol<'a> {
    pub(crate) address: u64,
    pub(crate) size: u64,
    /// Where its section ends: what has no size ends there at the latest.
    pub(crate) limit: u64,
    pub(crate) name: &'a [u8],
    pub(crate) is_global: bool,
    /// A function or a variable, not a label.
    pub(crate) is_typed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    end: u64,
    /// Where its name is in `names`.
    name: (u32, u32),
}

/// The symbols of a file.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    entries: Vec<Entry>,
    names: Vec<u8>,
    /// Names as they are shown, by where they are in `names`: demangling is the most expensive part.
    shown: Mutex<HashMap<u32, Arc<str>>>,
}

impl Functions {
    /// From all symbols of a table.
    pub(crate) fn new<'a>(symbols: impl Iterator<Item = RawSymbol<'a>>) -> Functions {
        let mut symbols: Vec<RawSymbol> =
            symbols.filter(|symbol| !symbol.name.is_empty()).take(SYMBOLS_LIMIT).collect();
        symbols.sort_by_key(|symbol| (symbol.address, preference(symbol)));
        symbols.dedup_by_key(|symbol| symbol.address);
        let mut functions = Functions::default();
        for (index, symbol) in symbols.iter().enumerate() {
            let next = symbols.get(index + 1).map_or(u64::MAX, |next| next.address);
            let end = match symbol.size {
                0 => next.min(symbol.limit),
                size => symbol.address.saturating_add(size),
            };
            let Some(name) = functions.keep(symbol.name) else { break };
            functions.entries.push(Entry { start: symbol.address, end, name });
        }
        functions
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What an address lies in: its start and its name.
    pub(crate) fn find(&self, address: u64) -> Option<(u64, Arc<str>)> {
        let entry = self.entry_at(address)?;
        Some((entry.start, self.shown(entry)))
    }

    /// From where to where the symbol around an address reaches.
    pub(crate) fn bounds(&self, address: u64) -> Option<(u64, u64)> {
        self.entry_at(address).map(|entry| (entry.start, entry.end))
    }

    fn entry_at(&self, address: u64) -> Option<&Entry> {
        let after = self.entries.partition_point(|entry| entry.start <= address);
        let near = &self.entries[after.saturating_sub(NESTING)..after];
        near.iter().rev().find(|entry| address < entry.end)
    }

    fn raw_name(&self, entry: &Entry) -> &[u8] {
        &self.names[entry.name.0 as usize..entry.name.1 as usize]
    }

    fn shown(&self, entry: &Entry) -> Arc<str> {
        let mut shown = lock(&self.shown);
        if shown.len() > SHOWN_LIMIT {
            shown.clear();
        }
        let name = shown.entry(entry.name.0);
        Arc::clone(name.or_insert_with(|| demangle(self.raw_name(entry)).into()))
    }

    fn keep(&mut self, name: &[u8]) -> Option<(u32, u32)> {
        let from = u32::try_from(self.names.len()).ok()?;
        let to = u32::try_from(self.names.len() + name.len()).ok()?;
        self.names.extend_from_slice(name);
        Some((from, to))
    }
}

/// Smaller is better.
fn preference(symbol: &RawSymbol) -> impl Ord + use<> {
    let underscores = symbol.name.iter().take_while(|&&byte| byte == b'_').count();
    (!symbol.is_typed, symbol.size == 0, underscores, !symbol.is_global, symbol.name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(address: u64, size: u64, name: &str) -> RawSymbol<'_> {
        let name = name.as_bytes();
        RawSymbol { address, size, limit: 0x1000, name, is_global: true, is_typed: true }
    }

    #[track_caller]
    fn check(functions: &Functions, address: u64, expected: Option<&str>) {
        assert_eq!(functions.find(address).as_ref().map(|(_, name)| &**name), expected);
    }

    #[test]
    fn sizes_bound_symbols_and_gaps_have_no_name() {
        let functions = Functions::new(
            [symbol(0x200, 0, "unsized"), symbol(0x100, 0x10, "sized"), symbol(0x300, 8, "last")]
                .into_iter(),
        );
        check(&functions, 0xff, None);
        check(&functions, 0x100, Some("sized"));
        check(&functions, 0x10f, Some("sized"));
        check(&functions, 0x110, None);
        check(&functions, 0x2ff, Some("unsized"));
        check(&functions, 0x308, None);
    }

    #[test]
    fn the_name_that_people_know_wins() {
        let local = RawSymbol { is_global: false, ..symbol(0x100, 8, "a_local") };
        let label = RawSymbol { is_typed: false, size: 0, ..symbol(0x100, 0, "x") };
        let functions = Functions::new(
            [symbol(0x100, 8, "__libc_write"), label, local, symbol(0x100, 8, "write")].into_iter(),
        );
        check(&functions, 0x104, Some("write"));
    }

    #[test]
    fn what_is_within_another_is_found_first() {
        let functions =
            Functions::new([symbol(0x100, 0x100, "outer"), symbol(0x140, 8, "inner")].into_iter());
        check(&functions, 0x144, Some("inner"));
        check(&functions, 0x150, Some("outer"));
        check(&functions, 0x1ff, Some("outer"));
    }

    #[test]
    fn hostile_addresses_and_sizes_do_no_harm() {
        let functions = Functions::new(
            [symbol(u64::MAX, u64::MAX, "top"), symbol(0, u64::MAX, "all"), symbol(1, 0, "")]
                .into_iter(),
        );
        check(&functions, 5, Some("all"));
        check(&functions, u64::MAX, None);
    }
}
