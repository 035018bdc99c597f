//! The states of a thread's matcher at the ends of its windows, each linked to the one before.
//!
//! ```text
//! state   position of the state before, 0 for none   0: changes to it, 1: whole   state of the matcher, packed
//! ```
//!
//! A state is written whole as soon as the changes since the last whole one take as many bytes: reading
//! one thus costs about as much as reading a whole one, and deep recursion is not written again and again.

use super::Kind;
use super::matching::Matcher;
use super::output::Output;
use crate::frames::fields::{BadField, Fields, put_number};
use crate::frames::packing::unpack;
use crate::frames::{FrameError, FrameFile};

/// States between whole ones.
const MAX_CHANGES: u32 = 256;

/// Bytes of a state before it is packed: some millions of frames. Of larger ones the older half is forgotten.
const MAX_STATE: usize = 32 << 20;

/// The end of the chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StateChain {
    /// The last state, 0 if there is none.
    pub(super) last: u64,
    /// How many states were written since the last whole one, and in how many bytes.
    changes: u32,
    bytes: usize,
}

impl StateChain {
    /// A chain that was written earlier and goes on with a whole state.
    pub(super) fn going_on(last: u64) -> StateChain {
        StateChain { last, changes: MAX_CHANGES, bytes: 0 }
    }

    pub(super) fn append(
        &mut self,
        matcher: &mut Matcher,
        output: &mut Output,
    ) -> Result<(), FrameError> {
        let mut is_whole =
            self.last == 0 || self.changes >= MAX_CHANGES || self.bytes >= matcher.whole_size();
        let mut state = Vec::new();
        matcher.save(&mut state, is_whole);
        while state.len() > MAX_STATE {
            is_whole = true;
            matcher.forget_half();
            state.clear();
            matcher.save(&mut state, is_whole);
        }
        let mut bytes = Vec::new();
        put_number(&mut bytes, self.last);
        bytes.push(u8::from(is_whole));
        output.packer.put(&mut bytes, &state);
        let (changes, size) =
            if is_whole { (0, 0) } else { (self.changes + 1, self.bytes + state.len()) };
        *self = StateChain { last: output.append(Kind::State, &bytes)?, changes, bytes: size };
        Ok(())
    }
}

/// The state at a position, which may be 0 for that of a thread of which nothing is known.
pub(super) fn load(file: &FrameFile, position: u64) -> Result<Matcher, FrameError> {
    let mut changes = Vec::new();
    let mut next = position;
    while next != 0 {
        let bytes = file.read_kind(next, Kind::State as u8)?;
        let Link { before, is_whole, .. } =
            Link::read(&bytes).map_err(|reason| file.damaged(next, reason))?;
        // Links lead backwards, so that there is an end to them.
        if before >= next || changes.len() > MAX_CHANGES as usize {
            return Err(file.damaged(next, "states are linked in a circle"));
        }
        changes.push((next, bytes));
        next = if is_whole { 0 } else { before };
    }
    let mut matcher = Matcher::default();
    for (position, bytes) in changes.into_iter().rev() {
        let follow = |matcher: Matcher| {
            let state = unpack(&mut Link::read(&bytes)?.state, MAX_STATE, 0)?;
            matcher.load(&mut Fields::new(&state))
        };
        matcher = follow(matcher).map_err(|reason| file.damaged(position, reason))?;
    }
    Ok(matcher)
}

struct Link<'a> {
    before: u64,
    is_whole: bool,
    state: Fields<'a>,
}

impl<'a> Link<'a> {
    fn read(bytes: &'a [u8]) -> Result<Link<'a>, BadField> {
        let mut state = Fields::new(bytes);
        let before = state.number()?;
        let is_whole = state.byte()? != 0;
        Ok(Link { before, is_whole, state })
    }
}
