//! The calls that a thread is in.
//!
//! A call is known by its *slot*: the address on the stack of its return address. Calls and returns need not come
//! in pairs: `longjmp` and exceptions leave calls without returning, and a return can be used as a jump. But a
//! stack grows downwards, so that a call's slot lies below those of all calls that it is made from; what lies below a
//! new call is over. Coroutines and handlers of signals may have stacks of their own, far away, which say nothing
//! about each other.

use std::sync::Arc;

/// Calls that are remembered. Beyond, the outermost are forgotten.
const CALLS_LIMIT: usize = 1 << 16;

/// Addresses that are closer to each other lie on the same stack.
const NEAR: u64 = 8 << 20;

/// How many calls are looked through for one that returns out of order.
const SEARCHED: usize = 1 << 12;

#[derive(Debug)]
struct Frame {
    slot: u64,
    name: Arc<str>,
}

/// The calls of a thread, outermost first.
#[derive(Debug, Default)]
pub struct CallTree {
    frames: Vec<Frame>,
}

impl CallTree {
    /// A call with its slot; returns how many calls it is made from.
    pub fn call(&mut self, slot: u64, name: Arc<str>) -> usize {
        self.leave(|frame| frame <= slot && slot - frame < NEAR);
        if self.frames.len() == CALLS_LIMIT {
            self.frames.drain(..CALLS_LIMIT / 2);
        }
        self.frames.push(Frame { slot, name });
        self.frames.len() - 1
    }

    /// A return that takes its address from a slot; returns the depth and the name of the call that is over, if it
    /// was seen.
    pub fn ret(&mut self, slot: u64) -> Option<(usize, Arc<str>)> {
        let searched = self.frames.iter().enumerate().rev().take(SEARCHED);
        let found = searched.map(|(depth, frame)| (depth, frame.slot)).find(|&(_, s)| s == slot);
        let Some((depth, _)) = found else {
            self.leave(|frame| frame < slot && slot - frame < NEAR);
            return None;
        };
        let frame = self.frames.drain(depth..).next()?;
        Some((depth, frame.name))
    }

    /// Forgets the innermost calls that are over.
    fn leave(&mut self, is_over: impl Fn(u64) -> bool) {
        while self.frames.last().is_some_and(|frame| is_over(frame.slot)) {
            self.frames.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOP: u64 = 0x17ff_ffff_0000;

    fn call(tree: &mut CallTree, slot: u64, name: &str) -> usize {
        tree.call(slot, name.into())
    }

    fn ret(tree: &mut CallTree, slot: u64) -> Option<(usize, String)> {
        tree.ret(slot).map(|(depth, name)| (depth, name.to_string()))
    }

    #[test]
    fn calls_nest() {
        let mut tree = CallTree::default();
        assert_eq!(call(&mut tree, TOP, "main"), 0);
        assert_eq!(call(&mut tree, TOP - 0x20, "f"), 1);
        assert_eq!(ret(&mut tree, TOP - 0x20), Some((1, "f".into())));
        assert_eq!(call(&mut tree, TOP - 0x20, "g"), 1);
        assert_eq!(call(&mut tree, TOP - 0x40, "h"), 2);
        assert_eq!(ret(&mut tree, TOP - 0x40), Some((2, "h".into())));
        assert_eq!(ret(&mut tree, TOP - 0x20), Some((1, "g".into())));
        assert_eq!(ret(&mut tree, TOP), Some((0, "main".into())));
        assert_eq!(ret(&mut tree, TOP + 0x100), None);
    }

    #[test]
    fn a_jump_leaves_several_calls() {
        let mut tree = CallTree::default();
        call(&mut tree, TOP, "main");
        call(&mut tree, TOP - 0x20, "setjmp's caller");
        call(&mut tree, TOP - 0x40, "deep");
        call(&mut tree, TOP - 0x60, "longjmp");
        // Back in the second, which calls on.
        assert_eq!(call(&mut tree, TOP - 0x38, "next"), 2);
        // A return that skips calls.
        call(&mut tree, TOP - 0x60, "deeper");
        assert_eq!(ret(&mut tree, TOP - 0x20), Some((1, "setjmp's caller".into())));
        assert_eq!(call(&mut tree, TOP - 0x20, "again"), 1);
    }

    #[test]
    fn other_stacks_are_not_mixed_up() {
        let mut tree = CallTree::default();
        let other = 0x1100_0000_0000;
        call(&mut tree, other, "on a small stack");
        assert_eq!(call(&mut tree, TOP, "on a higher one"), 1);
        assert_eq!(call(&mut tree, other - 0x20, "and on the first again"), 2);
        assert_eq!(ret(&mut tree, TOP), Some((1, "on a higher one".into())));
        assert_eq!(ret(&mut tree, other), Some((0, "on a small stack".into())));
    }

    #[test]
    fn endless_recursion_is_bounded() {
        let mut tree = CallTree::default();
        for depth in 0..10 * CALLS_LIMIT as u64 {
            call(&mut tree, TOP - 16 * depth, "f");
        }
        assert!(tree.frames.len() <= CALLS_LIMIT);
    }
}
