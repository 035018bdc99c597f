//! Saving the state of a matcher, whole or as what has changed since it was last saved.
//!
//! Most frames outlive many windows, so a saved state says for every stack how many of its oldest frames are those
//! of the state before, and lists the others. A whole state keeps none. Whoever reads states starts from a whole one.

use std::collections::{HashMap, VecDeque};

use super::{Frame, Matcher, Stack};
use crate::call_tree::signed::{put_difference, take_difference};
use crate::frames::fields::{BadField, Fields, put_number};

impl Matcher {
    /// Appends the state, as changes to that of the last call if `whole` is false.
    pub(in crate::call_tree) fn save(&mut self, bytes: &mut Vec<u8>, whole: bool) {
        for number in [
            self.next_identity,
            self.unmatched,
            self.nested.len() as u64,
            self.suspended.len() as u64,
        ] {
            put_number(bytes, number);
        }
        for stack in self.nested.iter_mut().chain(&mut self.suspended) {
            stack.save(bytes, if whole { 0 } else { stack.unchanged });
            stack.unchanged = stack.frames.len();
        }
    }

    /// About how many bytes a whole state takes.
    pub(in crate::call_tree) fn whole_size(&self) -> usize {
        let stacks = self.nested.iter().chain(&self.suspended);
        stacks.map(|stack| 20 + 4 * stack.frames.len()).sum()
    }

    /// The state that follows this one. For a whole state this may be any, such as an empty one.
    pub(in crate::call_tree) fn load(self, fields: &mut Fields<'_>) -> Result<Matcher, BadField> {
        let before = self.nested.into_iter().chain(self.suspended);
        let mut before: HashMap<u64, Stack> = before.map(|stack| (stack.identity, stack)).collect();
        let next_identity = fields.number()?;
        let unmatched = fields.number()?;
        let nested_count = fields.count()?;
        let suspended_count = fields.count()?;
        let mut stacks = VecDeque::new();
        for _ in 0..nested_count.saturating_add(suspended_count) {
            stacks.push_back(Stack::load(fields, &mut before)?);
        }
        let nested = stacks.drain(..nested_count).collect();
        let mut matcher =
            Matcher { nested, suspended: stacks, clear: (0, 0), next_identity, unmatched };
        matcher.look_around();
        Ok(matcher)
    }
}

impl Stack {
    fn save(&self, bytes: &mut Vec<u8>, kept: usize) {
        put_number(bytes, self.identity);
        put_number(bytes, self.highest);
        put_difference(bytes, self.cursor, self.highest);
        put_number(bytes, kept as u64);
        put_number(bytes, (self.frames.len() - kept) as u64);
        let mut last = last_of(&self.frames[..kept]);
        for &frame in &self.frames[kept..] {
            // Slots are multiples of eight: the three low bits of a difference go where they cost nothing.
            put_number(bytes, last.slot.wrapping_sub(frame.slot).rotate_right(3));
            put_difference(bytes, frame.target, last.target);
            last = frame;
        }
    }

    fn load(fields: &mut Fields<'_>, before: &mut HashMap<u64, Stack>) -> Result<Stack, BadField> {
        let identity = fields.number()?;
        let highest = fields.number()?;
        let cursor = take_difference(fields, highest)?;
        let mut frames = before.remove(&identity).map_or_else(Vec::new, |stack| stack.frames);
        let kept = fields.number()?;
        if kept > frames.len() as u64 {
            return Err("a stack keeps frames that it does not have");
        }
        frames.truncate(kept as usize);
        let mut last = last_of(&frames);
        for _ in 0..fields.count()? {
            let slot = last.slot.wrapping_sub(fields.number()?.rotate_left(3));
            let target = take_difference(fields, last.target)?;
            if slot >= last.slot && !frames.is_empty() {
                return Err("the frames of a stack are out of order");
            }
            last = Frame { slot, target };
            frames.push(last);
        }
        let unchanged = frames.len();
        Ok(Stack { identity, frames, cursor, highest, unchanged })
    }
}

fn last_of(frames: &[Frame]) -> Frame {
    frames.last().copied().unwrap_or(Frame { slot: 0, target: 0 })
}
