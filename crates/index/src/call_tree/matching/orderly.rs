//! The way that nearly all calls and returns go, a word of parentheses at a time.
//!
//! A program calls a hundred million times in a second that it runs, and nearly every call only adds a frame a little below
//! the newest, nearly every return only ends the newest. Such a *run* changes one stack and gives a parenthesis
//! for each event, so nothing is looked up or handed over in between. Which of the two an event is cannot be predicted; that
//! it is one of the two can. So there is one branch for an event, which leaves the run.
//!
//! Whatever ends a run is for [`Matcher::call`] and [`Matcher::returned`]. They treat the events of a run in the same way: where
//! a run ends makes no difference.

use super::{Frame, MAX_FRAMES, Matcher, REACH, Stack};
use crate::call_tree::parentheses::Run;

/// A call or a return in one word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CallOrReturn(u64);

impl CallOrReturn {
    /// A call that stored its return address at `slot`.
    pub const fn call(slot: u64) -> CallOrReturn {
        CallOrReturn(slot << 1 | 1)
    }

    /// A return that took its address from `slot`.
    pub const fn returned(slot: u64) -> CallOrReturn {
        CallOrReturn(slot << 1)
    }

    /// Whether it is a call.
    pub const fn is_call(self) -> bool {
        self.0 & 1 == 1
    }

    /// Where the return address is. Addresses are far from the limit of 63 bits.
    pub const fn slot(self) -> u64 {
        self.0 >> 1
    }
}

impl std::fmt::Debug for CallOrReturn {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = if self.is_call() { "Call" } else { "Return" };
        write!(formatter, "{name}({:#x})", self.slot())
    }
}

impl Matcher {
    /// Takes the run that some events begin with. Calls go to target 0.
    pub(in crate::call_tree) fn take_run(&mut self, events: &[CallOrReturn]) -> Run {
        let clear = self.clear;
        let Some(stack) = self.nested.last_mut() else { return Run::default() };
        let events = events.get(..Run::LONGEST).unwrap_or(events);
        if stack.frames.len() + events.len() > MAX_FRAMES {
            return Run::default();
        }
        stack.take_run(events, clear)
    }
}

impl Stack {
    fn take_run(&mut self, events: &[CallOrReturn], (floor, ceiling): (u64, u64)) -> Run {
        let mut open = self.frames.len();
        // Room for all events to be calls. It is cut off in the end.
        self.frames.resize(open + events.len(), Frame { slot: 0, target: 0 });
        let frames = &mut self.frames[..];
        let (mut cursor, mut least_open) = (self.cursor, open);
        let mut run = Run::default();
        for event in events {
            let (slot, is_call) = (event.slot(), u64::from(event.is_call()));
            let above = match frames.get(open.wrapping_sub(1)) {
                Some(newest) => newest.slot,
                // Any place in the known part of an empty stack is below all of its frames.
                None if event.is_call() && slot <= self.highest => {
                    slot.max(cursor).saturating_add(1)
                }
                None => break,
            };
            // The slot of a call is below the newest frame, by up to `REACH`; that of a return is the same.
            let is_far = above.wrapping_sub(slot).wrapping_sub(is_call) > is_call * (REACH - 1);
            if is_far | (slot <= floor) | (slot >= ceiling) {
                break;
            }
            // What a return ends is overwritten with itself.
            let place = open + is_call as usize - 1;
            frames[place] = Frame { slot, target: 0 };
            open = place + is_call as usize;
            cursor = if event.is_call() { cursor } else { slot };
            least_open = least_open.min(open);
            run.bits |= is_call << run.length;
            run.length += 1;
        }
        self.frames.truncate(open);
        self.cursor = cursor;
        self.unchanged = self.unchanged.min(least_open);
        run
    }
}
