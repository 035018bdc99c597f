//! The memory that an expression, or an address and a length, stands for.

use std::ops::Range;

use anyhow::{Result, bail};
use retro_query::symbols::{EvaluationError, Expression, FormatOptions, NamedSymbol, Scope, Value};
use retro_query::{Moment, State, ThreadStack};

use super::question::{safe, told};
use crate::dump::bytes::described;

/// Bytes that a line shows of memory without a type.
const BYTES_SHOWN: usize = 32;

/// What an address without a length stands for.
const WORD: u64 = 8;

/// Some memory.
#[derive(Debug)]
pub struct Watched {
    /// What it was called.
    pub text: String,
    /// Where it is.
    pub memory: Range<u64>,
    /// The value that it holds, if it was an expression.
    value: Option<Value>,
}

impl Watched {
    /// What a text stands for in a frame.
    pub fn find(
        state: &State,
        stack: &ThreadStack<'_>,
        frame: usize,
        text: &str,
    ) -> Result<Watched> {
        let text = text.trim();
        if is_address(text) {
            return Watched::bytes(state, stack, frame, text, text, WORD);
        }
        if let Some((address, length)) = text.rsplit_once(',')
            && let Some(length) = number(length.trim())
            && Expression::parse(address).is_ok()
        {
            return Watched::bytes(state, stack, frame, text, address, length);
        }
        let parsed = Expression::parse(text).map_err(|error| safe(&error.to_string()))?;
        let found = stack.with_scope(frame, |scope| {
            let value = parsed.evaluate(scope)?;
            let memory = parsed.memory_range(scope)?;
            Ok((value, memory))
        });
        let evaluated: Result<_, EvaluationError> = found.map_err(told)?;
        let (value, (address, length)) = match evaluated {
            Ok(evaluated) => evaluated,
            Err(error) => {
                let symbol = symbol(state, text, &error)?;
                let memory = range(symbol.address, symbol.size.max(1), text)?;
                return Ok(Watched { text: text.to_string(), memory, value: None });
            }
        };
        let memory = range(address, length, text)?;
        Ok(Watched { text: text.to_string(), memory, value: Some(value) })
    }

    fn bytes(
        state: &State,
        stack: &ThreadStack<'_>,
        frame: usize,
        text: &str,
        address: &str,
        length: u64,
    ) -> Result<Watched> {
        let address = address_of(state, stack, frame, address)?;
        Ok(Watched { text: text.to_string(), memory: range(address, length, text)?, value: None })
    }

    /// What it holds in a scope that has other memory.
    pub fn shown(&self, scope: &dyn Scope, bytes: &[u8]) -> String {
        match &self.value {
            Some(value) => value.format(scope, &FormatOptions::default()),
            None => described(bytes, BYTES_SHOWN),
        }
    }

    /// Its type, if it has one.
    pub fn type_name(&self) -> Option<String> {
        self.value.as_ref().map(|value| value.ty.name().to_string())
    }
}

/// The address that an expression has, or is.
pub fn address_of(state: &State, stack: &ThreadStack<'_>, frame: usize, text: &str) -> Result<u64> {
    let parsed = Expression::parse(text).map_err(|error| safe(&error.to_string()))?;
    let found = stack.with_scope(frame, |scope| {
        let value = parsed.evaluate(scope)?;
        let number = value.number(scope.machine());
        Ok((value, number))
    });
    let evaluated: Result<_, EvaluationError> = found.map_err(told)?;
    let (value, number) = match evaluated {
        Ok(evaluated) => evaluated,
        Err(error) => return Ok(symbol(state, text, &error)?.address),
    };
    match (number, value.address()) {
        (Ok(Some(number)), _) => Ok(number.to_integer() as u64),
        // An array or a structure is where it is.
        (Ok(None), Some(address)) => Ok(address),
        (Ok(None), None) => bail!("{}", safe(&format!("`{text}` is no address"))),
        (Err(absent), _) => bail!("{}", safe(&format!("`{text}` cannot be read: {absent}"))),
    }
}

/// What the linker knows by a name, where debug information knows nothing.
fn symbol(state: &State, text: &str, error: &EvaluationError) -> Result<NamedSymbol> {
    let unknown = || safe(&error.to_string());
    if !matches!(error, EvaluationError::UnknownName(_)) {
        return Err(unknown());
    }
    let name = text.trim().trim_start_matches('&').trim();
    let Moment { log, time } = state.moment();
    let found = state.run().symbols().symbol_named(log, time, name);
    found.into_iter().find(|symbol| !symbol.is_code).ok_or_else(unknown)
}

fn range(address: u64, length: u64, text: &str) -> Result<Range<u64>> {
    match address.checked_add(length) {
        Some(end) if length > 0 => Ok(address..end),
        Some(_) => bail!("{}", safe(&format!("`{text}` takes no memory"))),
        None => bail!("{}", safe(&format!("`{text}` goes beyond the end of the address space"))),
    }
}

fn is_address(text: &str) -> bool {
    text.strip_prefix("0x").is_some_and(|digits| u64::from_str_radix(digits, 16).is_ok())
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_lengths_are_numbers() {
        assert!(
            is_address("0x7fff12")
                && !is_address("12")
                && !is_address("0x")
                && !is_address("0x1,8")
        );
        assert_eq!(
            (number("16"), number("0x10"), number("x"), number("-1")),
            (Some(16), Some(16), None, None)
        );
        assert!(range(8, 0, "x").is_err() && range(u64::MAX, 2, "x").is_err());
        assert_eq!(range(8, 4, "x").unwrap(), 8..12);
    }
}
