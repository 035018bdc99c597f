//! Types by parts of their names.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::place::Module;
use crate::symbols::Symbols;
use crate::types::{Spot, Type};

/// How long types may be searched for.
const SEARCH_LIMIT: Duration = Duration::from_secs(3);

/// A type that was found by a part of its name.
#[derive(Clone, Debug)]
pub struct FoundType {
    /// The type.
    pub ty: Type,
    /// The file whose debug information has it.
    pub module: Arc<Module>,
}

impl Symbols {
    /// Types with a text in their names, whatever the case, in all that is mapped at a time: each name once, at most so many
    /// of a file.
    pub fn types_with(&self, log: u64, time: u64, text: &str, limit: usize) -> Vec<FoundType> {
        let deadline = Instant::now() + SEARCH_LIMIT;
        let mut found: Vec<FoundType> = Vec::new();
        for loaded in self.modules_at(log, time) {
            let Some(info) = loaded.debug_info() else { continue };
            for named in info.types_with(text, limit, deadline) {
                let spot = Spot::new(info, &named.entry);
                let Some(ty) = spot.read().map(|die| Type::of(&die)) else { continue };
                if !found.iter().any(|known| known.ty.name() == ty.name()) {
                    found.push(FoundType { ty, module: Arc::clone(&loaded.module) });
                }
            }
        }
        found
    }
}
