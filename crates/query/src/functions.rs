//! Functions by their names.
//!
//! Debug information and symbols know most of them. Some names stand for whichever of several functions suits the
//! processor best, as `memcpy` does: their code only tells the dynamic linker which. What it told is in the recording.

use retro_symbols::FunctionCode;

use crate::run::Run;
use crate::{Cancel, Direction, Error, Moment};

impl Run {
    /// The functions of a name in all files that are mapped at a moment (see
    /// [`functions_named`](retro_symbols::Symbols::functions_named)). Of a name that stands for a function that is chosen when
    /// the program runs, it is the chosen one.
    pub fn functions_named(
        &self,
        moment: Moment,
        name: &str,
        cancel: &Cancel,
    ) -> Result<Vec<FunctionCode>, Error> {
        let mut found = self.symbols().functions_named(moment.log, moment.time, name);
        for function in found.iter_mut().filter(|function| function.is_resolver) {
            let chosen = match self.chosen_by(moment.log, function.entry, cancel) {
                // As far as the index goes nothing was chosen.
                Err(Error::NotIndexed { .. }) => None,
                chosen => chosen?,
            };
            if let Some(entry) = chosen {
                *function = self.chosen_function(moment, function, entry);
            }
        }
        found.sort_by_key(|function| (function.inlined_in.is_some(), function.entry));
        found.dedup_by(|second, first| {
            (second.entry, &second.name, &second.inlined_in)
                == (first.entry, &first.name, &first.inlined_in)
        });
        Ok(found)
    }

    /// What a resolver has returned, in this process or in one that it was forked from.
    fn chosen_by(&self, log: u64, resolver: u64, cancel: &Cancel) -> Result<Option<u64>, Error> {
        let process = self.process(log)?;
        let start = Moment { log, time: process.start };
        let ran = self.executions(start, Direction::Forward, &[resolver], cancel)?.next();
        let Some(entered) = ran.transpose()? else {
            // Parents come before their children.
            let parent = self.timeline(&process)?.parent.filter(|parent| parent.log < log);
            return match parent {
                Some(parent) => self.chosen_by(parent.log, resolver, cancel),
                None => Ok(None),
            };
        };
        let entry = Moment { log, time: entered.time };
        let Some(end) = self.end_of_frame(entry, entered.thread)? else { return Ok(None) };
        /// Where functions return integers.
        const RAX: usize = 0;
        Ok(Some(self.registers(end, Some(entered.thread))?.general[RAX]))
    }

    /// The code at an address, under the name that it was chosen for.
    fn chosen_function(&self, moment: Moment, resolver: &FunctionCode, entry: u64) -> FunctionCode {
        let symbols = self.symbols();
        let place = symbols.place(moment.log, moment.time, entry);
        let own_name = place.function.map(|function| function.name);
        let named = own_name.map(|name| symbols.functions_named(moment.log, moment.time, &name));
        let known = named.into_iter().flatten().find(|function| function.entry == entry);
        let code = known.unwrap_or_else(|| FunctionCode {
            entry,
            ranges: std::iter::once(entry..entry + 1).collect(),
            body: entry,
            source: None,
            ..resolver.clone()
        });
        FunctionCode { name: resolver.name.clone(), is_resolver: false, inlined_in: None, ..code }
    }
}
