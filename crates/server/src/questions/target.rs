//! Which code a search is about: an address, a function, or a source line.
//!
//! Names mean what is mapped at the moment that a search starts from, and what is mapped at the end: a search from the start
//! of a run is mostly about libraries that are mapped later.

use std::collections::HashSet;

use retro_query::symbols::{FunctionCode, LineCode};
use retro_query::{Moment, Run};

use super::Answer;
use super::failure::{invalid, unknown};
use super::wire::Address;
use crate::service::CallContext;

/// Addresses that one search looks for.
const ADDRESSES_LIMIT: usize = 1000;

/// Bytes of a name.
const NAME_LIMIT: usize = 4096;

/// What a client may give of a target.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Target<'a> {
    pub address: Option<Address>,
    pub function: Option<&'a str>,
    pub file: Option<&'a str>,
    pub line: Option<u32>,
}

impl Target<'_> {
    /// The instructions that are meant.
    pub fn addresses(&self, run: &Run, moment: Moment, context: &CallContext) -> Answer<Vec<u64>> {
        let mut addresses: Vec<u64> = match *self {
            Target { address: Some(address), function: None, file: None, line: None } => {
                vec![address.0]
            }
            Target { address: None, function: Some(name), file: None, line: None } => {
                let functions = functions_named(run, moment, name, context)?;
                functions.iter().map(|(function, _)| function.entry).collect()
            }
            Target { address: None, function: None, file: Some(file), line: Some(line) } => {
                let code = code_of_line(run, moment, file, line)?;
                code.iter().flat_map(|code| code.entries.iter().copied()).collect()
            }
            _ => return Err(invalid("give \"address\", \"function\", or \"file\" and \"line\"")),
        };
        addresses.sort_unstable();
        addresses.dedup();
        few_enough(addresses.len())?;
        Ok(addresses)
    }
}

/// An error if a name means too much.
pub(super) fn few_enough(addresses: usize) -> Answer<()> {
    if addresses > ADDRESSES_LIMIT {
        return Err(invalid(format!(
            "this is the code at {addresses} addresses: be more specific"
        )));
    }
    Ok(())
}

/// The functions of a name, each with a moment at which it is mapped.
pub(super) fn functions_named(
    run: &Run,
    moment: Moment,
    name: &str,
    context: &CallContext,
) -> Answer<Vec<(FunctionCode, Moment)>> {
    check_name(name)?;
    let cancel = context.cancel().flag();
    let mut found = found_at(run, moment, |moment| Ok(run.functions_named(moment, name, cancel)?))?;
    let mut seen = HashSet::new();
    found.retain(|(function, _)| {
        seen.insert((function.entry, function.name.clone(), function.inlined_in.clone()))
    });
    if found.is_empty() {
        return Err(unknown(format!(
            "no function {name:?} is known; symbols.search finds functions by parts of names"
        )));
    }
    Ok(found)
}

/// The code of a line.
pub(super) fn code_of_line(
    run: &Run,
    moment: Moment,
    file: &str,
    line: u32,
) -> Answer<Vec<LineCode>> {
    check_name(file)?;
    let found = found_at(run, moment, |Moment { log, time }| {
        Ok(run.symbols().code_of_line(log, time, file, line))
    })?;
    let mut found: Vec<LineCode> = found.into_iter().map(|(code, _)| code).collect();
    // The nearest line counts, whenever it is mapped.
    let nearest = found.iter().map(|code| code.source.line).min();
    let mut seen = HashSet::new();
    found.retain(|code| {
        Some(code.source.line) == nearest
            && seen.insert((code.source.path.clone(), code.function.clone(), code.entries.clone()))
    });
    if found.is_empty() {
        return Err(unknown(format!(
            "there is no code for line {line} or any behind it in a file {file:?}"
        )));
    }
    Ok(found)
}

/// What is found at a moment, and what is found at the end of the process.
fn found_at<T>(
    run: &Run,
    moment: Moment,
    find: impl Fn(Moment) -> Answer<Vec<T>>,
) -> Answer<Vec<(T, Moment)>> {
    let process = run.process(moment.log)?;
    process.volume_of(moment.time)?;
    let end = Moment { time: process.end, ..moment };
    let mut all = Vec::new();
    for moment in [moment, end] {
        all.extend(find(moment)?.into_iter().map(|found| (found, moment)));
    }
    Ok(all)
}

pub(super) fn check_name(name: &str) -> Answer<()> {
    if name.is_empty() || name.len() > NAME_LIMIT {
        return Err(invalid(format!("a name has 1 to {NAME_LIMIT} bytes")));
    }
    Ok(())
}
