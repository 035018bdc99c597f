//! The optional column: which function each open of a page entered.
//!
//! Pages are self-contained: the functions that are called in a page are listed in it, and calls refer to them by
//! number. A page of sixteen thousand calls has room for the list, and a search for a function skips the pages that
//! do not list it.
//!
//! ```text
//! column   count of calls  count of functions  function: less the one before ...  codes, packed
//! codes    the low bytes of all, then the high bytes if there are more than 256 functions
//! ```

use super::PAGE;
use crate::frames::fields::{BadField, Fields, put_number};
use crate::frames::packing::{Packer, unpack};

/// What an open entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Callee {
    /// The address that was called.
    pub target: u64,
    /// Not a call: the thread came back to a stack on which the frame was open.
    pub resumed: bool,
}

/// The functions that the opens of a page entered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Callees {
    /// In ascending order.
    functions: Vec<Callee>,
    /// For each open, which of them.
    codes: Vec<u16>,
}

impl Callees {
    pub(super) fn new(entered: &[Callee]) -> Callees {
        let mut functions = entered.to_vec();
        functions.sort_unstable();
        functions.dedup();
        // There are at most as many functions as calls in a page, and these fit a code.
        let code = |callee| functions.binary_search(callee).unwrap_or_default() as u16;
        let codes = entered.iter().map(code).collect();
        Callees { functions, codes }
    }

    pub(super) fn get(&self, open: usize) -> Option<Callee> {
        self.functions.get(usize::from(*self.codes.get(open)?)).copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Callee> {
        self.codes.iter().filter_map(|&code| self.functions.get(usize::from(code)).copied())
    }

    /// The opens of the page that are calls of a function.
    pub(super) fn calls_of(&self, target: u64) -> impl Iterator<Item = usize> {
        let code = self.functions.binary_search(&Callee { target, resumed: false }).ok();
        let codes = if code.is_some() { &self.codes[..] } else { &[] };
        codes
            .iter()
            .enumerate()
            .filter(move |(_, found)| Some(usize::from(**found)) == code)
            .map(|(open, _)| open)
    }

    /// About how many bytes it takes in memory.
    pub(super) fn size(&self) -> usize {
        size_of::<Callees>() + size_of_val(&self.functions[..]) + size_of_val(&self.codes[..])
    }

    pub(super) fn encode(&self, bytes: &mut Vec<u8>, packer: &mut Packer) {
        put_number(bytes, self.codes.len() as u64);
        put_number(bytes, self.functions.len() as u64);
        let mut last = 0;
        for function in &self.functions {
            let value = number_of(function);
            put_number(bytes, value.wrapping_sub(last));
            last = value;
        }
        let mut codes: Vec<u8> = self.codes.iter().map(|&code| code as u8).collect();
        if self.functions.len() > 256 {
            codes.extend(self.codes.iter().map(|&code| (code >> 8) as u8));
        }
        packer.put(bytes, &codes);
    }

    pub(super) fn decode(fields: &mut Fields<'_>) -> Result<Callees, BadField> {
        let count = fields.number()?;
        if count > PAGE as u64 {
            return Err("a page has too many calls");
        }
        let count = count as usize;
        let mut functions = Vec::new();
        let mut last = 0u64;
        for _ in 0..fields.count()? {
            last = last.wrapping_add(fields.number()?);
            functions.push(Callee { target: last >> 1, resumed: last & 1 == 1 });
        }
        let has_high = functions.len() > 256;
        let bytes = unpack(fields, 2 * PAGE, 0)?;
        if bytes.len() != count * (1 + usize::from(has_high)) {
            return Err("the calls of a page are too few or too many");
        }
        let (low, high) = bytes.split_at(count);
        let mut codes: Vec<u16> = low.iter().map(|&byte| u16::from(byte)).collect();
        codes.iter_mut().zip(high).for_each(|(code, &byte)| *code |= u16::from(byte) << 8);
        Ok(Callees { functions, codes })
    }
}

/// Addresses are far from the limit of 63 bits.
fn number_of(function: &Callee) -> u64 {
    function.target << 1 | u64::from(function.resumed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn columns_come_back(
            targets in proptest::collection::vec((0u64..1 << 40, any::<bool>()), 0..600),
            variety in 1u64..2000,
        ) {
            let callee = |(target, resumed)| Callee { target: (target % variety) << 4, resumed };
            let entered: Vec<Callee> = targets.into_iter().map(callee).collect();
            let callees = Callees::new(&entered);
            let mut bytes = Vec::new();
            callees.encode(&mut bytes, &mut Packer::new());
            let mut fields = Fields::new(&bytes);
            let decoded = Callees::decode(&mut fields).expect("what was encoded is decoded");
            prop_assert!(fields.is_empty());
            prop_assert_eq!(&decoded, &callees);
            prop_assert_eq!(decoded.iter().collect::<Vec<_>>(), entered.clone());
            let target = entered.first().map_or(5, |callee| callee.target);
            let calls: Vec<usize> = decoded.calls_of(target).collect();
            let expected: Vec<usize> =
                (0..entered.len()).filter(|&open| entered[open] == Callee { target, resumed: false }).collect();
            prop_assert_eq!(calls, expected);
        }

        #[test]
        fn hostile_columns_are_refused_or_harmless(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(callees) = Callees::decode(&mut Fields::new(&bytes)) {
                callees.get(0);
                callees.iter().count();
                callees.calls_of(0).count();
            }
        }
    }
}
