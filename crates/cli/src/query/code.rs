//! Instructions by what people call them: a source line, a function, an address.

use std::ops::Range;

use anyhow::{Result, bail};
use retro_query::symbols::{FunctionCode, LineCode};

use super::question::{Question, safe, told};
use crate::message::notify;
use crate::quantity::grouped;
use crate::quoting::printable;

/// Functions that a message lists.
const LISTED: usize = 5;

/// Some instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code {
    /// Where the instructions are.
    pub addresses: Vec<u64>,
    /// What belongs together: who comes to one of the addresses from here has been there all the time.
    pub ranges: Vec<Range<u64>>,
}

/// How a text names code.
#[derive(Debug, PartialEq, Eq)]
enum Named<'a> {
    Address(u64),
    Line(&'a str, u32),
    Function(&'a str),
}

impl<'a> Named<'a> {
    fn of(text: &'a str) -> Named<'a> {
        let text = text.trim();
        let digits = text.strip_prefix('*').unwrap_or(text).strip_prefix("0x");
        if let Some(address) = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
            return Named::Address(address);
        }
        if let Some((file, line)) = text.rsplit_once(':')
            && let Ok(line) = line.parse()
            && !file.is_empty()
            && !file.ends_with(':')
        {
            return Named::Line(file, line);
        }
        Named::Function(text)
    }
}

impl Code {
    /// What a text stands for at the moment of a question.
    pub fn find(question: &Question, text: &str) -> Result<Code> {
        match Named::of(text) {
            Named::Address(address) => Ok(Code { addresses: vec![address], ranges: Vec::new() }),
            Named::Line(file, line) => Code::of_line(question, file, line),
            Named::Function(name) => {
                let functions = functions(question, name)?;
                Ok(Code {
                    addresses: unique(functions.iter().map(|function| function.entry)),
                    ranges: Vec::new(),
                })
            }
        }
    }

    fn of_line(question: &Question, file: &str, line: u32) -> Result<Code> {
        let moment = question.moment;
        let found = question.run.symbols().code_of_line(moment.log, moment.time, file, line);
        let Some(first) = found.first() else {
            bail!(
                "{}",
                safe(&format!(
                    "no code is known for {file}:{line} at time {}: check the name of the file, whether it was compiled \
                     with -g, and whether it is loaded then (--at)",
                    grouped(moment.time)
                ))
            );
        };
        if !first.is_exact {
            let file = printable(file.as_bytes());
            notify(&format!(
                "{file}:{line} has no code; line {} is the next that has",
                first.source.line
            ));
        }
        Ok(Code {
            addresses: unique(
                found.iter().flat_map(|code: &LineCode| code.entries.iter().copied()),
            ),
            ranges: found.into_iter().flat_map(|code| code.ranges).collect(),
        })
    }

    /// Whether an address belongs to the code.
    pub fn holds(&self, address: u64) -> bool {
        self.ranges.iter().any(|range| range.contains(&address))
    }
}

/// The functions of a name, and the places where they are inlined; or the code at an address.
pub fn functions(question: &Question, name: &str) -> Result<Vec<FunctionCode>> {
    let moment = question.moment;
    let found = question.run.functions_named(moment, name, &question.cancel()).map_err(told)?;
    if found.is_empty() {
        bail!(
            "{}",
            safe(&format!(
                "no function `{name}` is known at time {}: check its name, and whether its file is loaded then (--at)",
                grouped(moment.time)
            ))
        );
    }
    let mut names: Vec<&str> = found.iter().map(|function| &*function.name).collect();
    names.sort_unstable();
    names.dedup();
    if names.len() > 1 {
        let listed: Vec<String> =
            names.iter().take(LISTED).map(|name| printable(name.as_bytes())).collect();
        let more = if names.len() > LISTED { ", ..." } else { "" };
        notify(&format!("{} functions are meant: {}{more}", names.len(), listed.join(", ")));
    }
    Ok(found)
}

/// The addresses at which calls of what a text names begin.
pub fn entries(question: &Question, text: &str) -> Result<Vec<u64>> {
    if let Named::Address(address) = Named::of(text) {
        return Ok(vec![address]);
    }
    let functions = functions(question, text)?;
    let (inlined, own): (Vec<_>, Vec<_>) =
        functions.into_iter().partition(|function| function.inlined_in.is_some());
    if own.is_empty() {
        bail!(
            "{}",
            safe(&format!(
                "every call of `{text}` is inlined: `retro executions {text}` tells when its code was executed"
            ))
        );
    }
    if !inlined.is_empty() {
        notify("it is inlined elsewhere; that is no call, and not shown");
    }
    Ok(unique(own.iter().map(|function| function.entry)))
}

fn unique(addresses: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut all: Vec<u64> = addresses.collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_functions_and_addresses_are_told_apart() {
        for (text, named) in [
            ("0x401136", Named::Address(0x40_1136)),
            ("*0x401136", Named::Address(0x40_1136)),
            ("ledger.c:36", Named::Line("ledger.c", 36)),
            ("src/a b.c:7", Named::Line("src/a b.c", 7)),
            ("main", Named::Function("main")),
            ("ns::f", Named::Function("ns::f")),
            ("ns::7", Named::Function("ns::7")),
            (":7", Named::Function(":7")),
            ("0xyz", Named::Function("0xyz")),
        ] {
            assert_eq!(Named::of(text), named, "{text}");
        }
    }
}
