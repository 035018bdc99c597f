//! What was found out about calls.
//!
//! Problem: the stacks of neighbouring moments have most of their frames in common. What a function was given, and which
//! code it executed, takes a replay of windows that may lie billions of instructions away.
//!
//! Strategy: a recording never changes, and neither do these answers. Each process keeps the latest, within a limit of
//! memory. Where the index has grown it may know more memory than before: its process is a new one then, which has none of them.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use retro_symbols::FormatOptions;

use crate::executed::Invocation;
use crate::frames::Named;
use crate::recent::Recent;
use crate::run::lock;

/// Bytes of arguments that are kept for a process.
const ARGUMENTS: usize = 4 << 20;

/// Bytes of invocations that are kept for a process.
const INVOCATIONS: usize = 16 << 20;

/// An entry of a tree takes about this much more than what is in it.
const TREE_ENTRY: usize = 16;

/// A thread, and the time in front of a function's first instruction.
type Call = (u32, u64);

/// Arguments, and how they were asked for.
type Arguments = (FormatOptions, Vec<Named>);

/// The code that was asked for, and what was executed of it.
type Executed = (Vec<Range<u64>>, Arc<Invocation>);

/// What is known of the calls of a process.
#[derive(Debug)]
pub(crate) struct KnownCalls {
    arguments: Mutex<Recent<Call, Arguments>>,
    invocations: Mutex<Recent<Call, Executed>>,
}

impl Default for KnownCalls {
    fn default() -> KnownCalls {
        KnownCalls {
            arguments: Mutex::new(Recent::new(ARGUMENTS)),
            invocations: Mutex::new(Recent::new(INVOCATIONS)),
        }
    }
}

impl KnownCalls {
    pub(crate) fn arguments(&self, call: Call, options: &FormatOptions) -> Option<Vec<Named>> {
        let mut known = lock(&self.arguments);
        known.get(call).filter(|(asked, _)| asked == options).map(|(_, all)| all.clone())
    }

    pub(crate) fn keep_arguments(&self, call: Call, options: &FormatOptions, all: &[Named]) {
        let text = |named: &Named| named.name.len() + named.type_name.len() + named.value.len();
        let bytes = all.iter().map(|named| size_of::<Named>() + text(named)).sum::<usize>();
        let bytes = bytes + size_of::<Arguments>();
        lock(&self.arguments).insert(call, (options.clone(), all.to_vec()), bytes);
    }

    pub(crate) fn invocation(&self, call: Call, code: &[Range<u64>]) -> Option<Arc<Invocation>> {
        let mut known = lock(&self.invocations);
        known.get(call).filter(|(asked, _)| asked == code).map(|(_, found)| Arc::clone(found))
    }

    pub(crate) fn keep_invocation(&self, call: Call, code: &[Range<u64>], found: &Arc<Invocation>) {
        let counts = found.counts.len() * (size_of::<(u64, u64)>() + TREE_ENTRY);
        let bytes = counts + size_of_val(code) + size_of::<(Executed, Invocation)>();
        lock(&self.invocations).insert(call, (code.to_vec(), Arc::clone(found)), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_known_as_they_were_asked_for() {
        let named = |value: &str| Named {
            name: "count".to_owned(),
            type_name: "int".to_owned(),
            value: value.to_owned(),
            is_parameter: true,
            is_shadowed: false,
            memory: None,
        };
        let (usual, raw) =
            (FormatOptions::default(), FormatOptions { raw: true, ..FormatOptions::default() });
        let known = KnownCalls::default();
        known.keep_arguments((1, 10), &usual, &[named("5")]);
        assert_eq!(known.arguments((1, 10), &usual), Some(vec![named("5")]));
        assert_eq!(known.arguments((1, 10), &raw), None);
        assert_eq!(known.arguments((2, 10), &usual), None);
        assert_eq!(known.arguments((1, 11), &usual), None);
        // Long ones make those that nobody asks for go.
        let long = "5".repeat(ARGUMENTS / 2);
        for time in 11..14 {
            known.keep_arguments((1, time), &usual, &[named(&long)]);
        }
        assert_eq!(known.arguments((1, 10), &usual), None);
        assert!(known.arguments((1, 13), &usual).is_some());
    }

    #[test]
    fn an_invocation_is_known_for_its_code() {
        let found = Invocation { from: 1, to: 9, is_exact: true, counts: [(4, 2)].into() };
        let found = Arc::new(found);
        let known = KnownCalls::default();
        known.keep_invocation((1, 1), &[4..8, 9..10], &found);
        assert_eq!(known.invocation((1, 1), &[4..8, 9..10]), Some(found));
        assert_eq!(known.invocation((1, 1), &[4..8, 9..11]), None);
    }
}
