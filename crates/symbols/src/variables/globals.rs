//! The global variables of the file that a frame's function was compiled from.

use std::sync::Arc;

use super::FrameScope;
use super::lookup::names_of;
use crate::types::Spot;

/// A global variable.
#[derive(Clone, Debug)]
pub struct Global {
    /// Its name, with the namespaces around it.
    pub name: String,
    /// The line that it was declared in.
    pub line: Option<u32>,
    /// Its entry: [`super::Scope::value_at`] tells its value.
    pub spot: Spot,
}

impl FrameScope<'_> {
    /// The global variables that were compiled together with the frame's function, in the order of the source. Those
    /// within functions are not among them, and no tables of the compiler.
    pub fn globals(&self) -> impl Iterator<Item = Global> {
        let function = self.function();
        let unit = function.map(|die| (Arc::clone(&die.info), Arc::clone(&die.unit)));
        unit.into_iter().flat_map(|(info, unit)| {
            let named = info.variables_of(&unit);
            named.into_iter().filter_map(move |named| {
                let spot = Spot::new(&info, &named.entry);
                let is_local = |spot: &Spot| {
                    spot.ancestors().iter().any(|around| around.tag() == gimli::DW_TAG_subprogram)
                };
                let name = names_of(&info, &named).into_iter().next()?;
                let is_global = !name.contains('{') && !is_local(&spot);
                let line = spot.read()?.origin_with(gimli::DW_AT_decl_line);
                let line = line.and_then(|die| die.number(gimli::DW_AT_decl_line));
                let line = line.and_then(|line| line.try_into().ok());
                is_global.then_some(Global { name, line, spot })
            })
        })
    }
}
