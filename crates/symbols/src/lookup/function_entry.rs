//! Where the function is entered that an address is in.
//!
//! A compiler may put what it thinks unlikely elsewhere, as `name.cold`, which has a symbol of its own but is never called.

use std::sync::Arc;

use super::name_pattern::NamePattern;
use crate::debug_info::EntryRef;
use crate::symbols::{LoadedModule, Symbols};
use crate::types::Spot;
use crate::variables::entry_address;

/// What follows the name of a function in the symbol of its unlikely part; a number may follow.
const UNLIKELY: &str = ".cold";

impl Symbols {
    /// The address of the first instruction of the function that an address is in. None if no function is known there.
    pub fn function_entry(&self, log: u64, time: u64, address: u64) -> Option<u64> {
        let module = self.module_at(log, time, address)?;
        if let Some(entry) = entry_by_debug_info(&module, address) {
            return Some(entry);
        }
        let function = self.place(log, time, address).function?;
        let likely = function.name.split_once(UNLIKELY).map(|(name, _)| name);
        likely
            .and_then(|name| symbol_of(&module, name))
            .or_else(|| address.checked_sub(function.offset))
    }
}

fn entry_by_debug_info(module: &LoadedModule, address: u64) -> Option<u64> {
    let info = module.debug_info()?;
    let address = module.file_address(address);
    let unit = info.unit_of(address)?;
    let offset = unit.scopes_at(address).first()?.offset;
    let function = Spot::new(info, &EntryRef { unit: Arc::clone(&unit), offset }).read()?;
    Some(entry_address(&function)?.wrapping_add(module.bias))
}

/// The code that a symbol of a file stands for.
fn symbol_of(module: &LoadedModule, name: &str) -> Option<u64> {
    let found = module.file.as_ref()?.symbol_names().find(&NamePattern::new(name));
    let symbol = found.iter().find(|symbol| symbol.is_code && &*symbol.name == name)?;
    Some(symbol.address.wrapping_add(module.bias))
}
