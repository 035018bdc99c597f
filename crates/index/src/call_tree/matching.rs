//! From calls and returns as they happened to parentheses that nest.
//!
//! Programs do not pair their calls and returns: `longjmp` and exceptions leave frames without a return, a lazily
//! bound or hand-made jump is a `ret` without a call, signal handlers are entered by the kernel, coroutines change
//! stacks, and a volume begins while frames are open that nobody has seen. What tells frames apart is where on the
//! stack the return address lies, its *slot*. Stacks grow downwards, so:
//!
//! - frames with a slot *below* that of a return, or at or below that of a call, are dead: they are closed first;
//! - a return whose slot is that of an open frame closes it, whatever is closed with it;
//! - a return above everything that was seen on the thread's first stack ends a frame from before the volume: all
//!   frames are closed and it is a close of its own, so that excess becomes negative and stepping out finds it;
//! - any other return is a jump, or the end of a signal handler: it is counted and gives no parenthesis. Tail calls
//!   need nothing: the last function returns with the slot of the first.
//!
//! *Several stacks.* A slot far from a stack (more than [`REACH`]) does not belong to it: it is on another one that is
//! known to be near, or on a new one. The stacks in use are nested: frames of a new stack are open within those
//! of the one that was left, as a handler on an alternate stack interrupts, or a generator is resumed. Going back to
//! a stack closes what was entered from it; the frames of the stacks that are left this way are remembered, and if the
//! thread comes back to them they are opened again ([`Parenthesis::Open`] with `resumed`), those above the slot
//! that gave the switch away. So the depth is right at every moment, a call that switches stacks ends when it
//! returns, and a frame of a coroutine ends when the coroutine is left. A large frame (an array of a megabyte) also
//! looks like another stack, and nesting makes that harmless. Where the heuristic is wrong, say for tiny stacks side
//! by side, frames of coroutines are closed too early or their returns are not seen, until the stack they
//! run on is left; nothing worse happens.
//!
//! On stacks other than the first, returns from frames that were open before the volume cannot be told from the
//! end of a handler or the start of a coroutine, and give no parenthesis.
//!
//! Invariants:
//! 1. The slots of the frames of a stack fall strictly from the oldest to the newest: memory is bounded by the
//!    guest's stack, and by [`MAX_FRAMES`].
//! 2. The ranges of slots of different stacks do not overlap.
//! 3. The same events from the same state give the same parentheses: the state at the start of a window, with the
//!    calls and returns of the window, gives the positions of these calls.

mod orderly;
mod state;

use std::collections::VecDeque;

pub use orderly::CallOrReturn;

/// How far a slot may be from what was seen on a stack to belong to it. Most frames are much smaller, and most
/// coroutines have stacks that are at least as large.
pub const REACH: u64 = 64 << 10;

/// How far above the first stack's known part a return may end a frame from before the volume: such a frame may be as
/// large as a default stack.
pub const RETURN_REACH: u64 = 8 << 20;

/// Open frames that are remembered on one stack. Older ones are treated as frames from before the volume.
pub const MAX_FRAMES: usize = 1 << 21;

/// Stacks within stacks. A thread that gets there changes stacks in a circle, and starts over from the first.
const MAX_NESTED: usize = 16;

/// Stacks that were left with frames on them, and frames on these.
const MAX_SUSPENDED: usize = 256;
const MAX_SUSPENDED_FRAMES: usize = 1 << 20;

/// An element of the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parenthesis {
    /// A frame begins.
    Open {
        /// The address that was called.
        target: u64,
        /// Not a call: the thread came back to a stack on which the frame was open.
        resumed: bool,
    },
    /// A frame ends.
    Close,
}

/// Matches the calls and returns of one thread.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    /// Stacks with frames that are open in the sequence, each entered from the one before it. The last is in use.
    nested: Vec<Stack>,
    /// Stacks that were left, the most recent last.
    suspended: VecDeque<Stack>,
    /// Between these addresses there is no stack but the one in use.
    clear: (u64, u64),
    next_identity: u64,
    unmatched: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Stack {
    /// Tells stacks apart when the state is saved.
    identity: u64,
    frames: Vec<Frame>,
    /// The last slot, for a stack without frames.
    cursor: u64,
    /// The highest slot that was seen.
    highest: u64,
    /// How many frames are as they were when the state was last saved.
    unchanged: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    slot: u64,
    target: u64,
}

/// Where a stack is kept.
#[derive(Clone, Copy)]
enum Place {
    Nested(usize),
    Suspended(usize),
}

impl Matcher {
    /// A call stored its return address at `slot` and went to `target`.
    pub fn call(&mut self, slot: u64, target: u64, mut emit: impl FnMut(Parenthesis)) {
        if !self.is_on_stack_in_use(slot) {
            self.enter_stack_of_call(slot, &mut emit);
        }
        let stack = self.nested.last_mut().expect("a stack was entered");
        stack.close(|frame| frame.slot <= slot, &mut emit);
        stack.push(Frame { slot, target });
        emit(Parenthesis::Open { target, resumed: false });
    }

    /// A return took its address from `slot`.
    pub fn returned(&mut self, slot: u64, mut emit: impl FnMut(Parenthesis)) {
        if let Some(stack) = self.nested.last_mut()
            && stack.frames.last().is_some_and(|frame| frame.slot == slot)
        {
            return stack.close(|frame| frame.slot == slot, &mut emit);
        }
        match self.holder(slot) {
            Some(Place::Nested(index)) => {
                self.unwind_to(index, &mut emit);
                self.nested[index].close(|frame| frame.slot <= slot, &mut emit);
            }
            Some(Place::Suspended(index)) => self.resume(index, slot, &mut emit),
            None if self.ends_earlier_frame(slot) => self.end_earlier_frame(slot, &mut emit),
            None => self.ignore_return(slot, &mut emit),
        }
    }

    /// Frames that are open in the sequence and were opened by it.
    pub fn open_frames(&self) -> usize {
        self.nested.iter().map(|stack| stack.frames.len()).sum()
    }

    /// Returns that gave no parenthesis.
    pub fn unmatched_returns(&self) -> u64 {
        self.unmatched
    }

    /// Forgets about half of all frames.
    pub(super) fn forget_half(&mut self) {
        self.suspended.clear();
        self.nested.iter_mut().for_each(Stack::forget_half);
        self.look_around();
    }

    fn is_on_stack_in_use(&self, slot: u64) -> bool {
        let (floor, ceiling) = self.clear;
        floor < slot
            && slot < ceiling
            && self.nested.last().is_some_and(|stack| stack.distance(slot) <= REACH)
    }

    fn enter_stack_of_call(&mut self, slot: u64, emit: &mut impl FnMut(Parenthesis)) {
        match self.nearest(slot) {
            Some(Place::Nested(index)) => self.unwind_to(index, emit),
            Some(Place::Suspended(index)) => self.resume(index, slot, emit),
            None => {
                let identity = self.next_identity;
                self.next_identity = identity.wrapping_add(1);
                self.nest(
                    Stack {
                        identity,
                        frames: Vec::new(),
                        cursor: slot,
                        highest: slot,
                        unchanged: 0,
                    },
                    emit,
                );
            }
        }
    }

    /// All stacks, the one in use first, then those most recently used.
    fn places(&self) -> impl Iterator<Item = (Place, &Stack)> {
        let nested = self
            .nested
            .iter()
            .enumerate()
            .rev()
            .map(|(index, stack)| (Place::Nested(index), stack));
        let suspended = self
            .suspended
            .iter()
            .enumerate()
            .rev()
            .map(|(index, stack)| (Place::Suspended(index), stack));
        nested.chain(suspended)
    }

    /// The nearest stack, if there is one in reach.
    fn nearest(&self, slot: u64) -> Option<Place> {
        self.places()
            .map(|(place, stack)| (stack.distance(slot), place))
            .min_by_key(|(distance, _)| *distance)
            .filter(|(distance, _)| *distance <= REACH)
            .map(|(_, place)| place)
    }

    /// The stack with a frame of exactly this slot.
    fn holder(&self, slot: u64) -> Option<Place> {
        self.places().find(|(_, stack)| stack.holds(slot)).map(|(place, _)| place)
    }

    /// Whether a return with a slot that no frame has ends a frame from before the volume.
    fn ends_earlier_frame(&self, slot: u64) -> bool {
        let Some(first) = self.nested.first() else { return true };
        slot > first.highest
            && slot - first.highest <= RETURN_REACH
            && self.places().all(|(_, stack)| stack.distance(slot) > 0)
    }

    fn end_earlier_frame(&mut self, slot: u64, emit: &mut impl FnMut(Parenthesis)) {
        if self.nested.is_empty() {
            self.enter_stack_of_call(slot, emit);
        }
        self.unwind_to(0, emit);
        let stack = &mut self.nested[0];
        stack.close(|_| true, emit);
        stack.cursor = slot;
        stack.highest = slot;
        emit(Parenthesis::Close);
        self.look_around();
    }

    fn ignore_return(&mut self, slot: u64, emit: &mut impl FnMut(Parenthesis)) {
        self.unmatched = self.unmatched.wrapping_add(1);
        if let Some(stack) = self.nested.last_mut()
            && stack.distance(slot) == 0
        {
            stack.close(|frame| frame.slot < slot, emit);
        }
    }

    /// Goes back to a stack that others were entered from.
    fn unwind_to(&mut self, index: usize, emit: &mut impl FnMut(Parenthesis)) {
        if self.nested.len() <= index + 1 {
            return;
        }
        for stack in self.nested.drain(index + 1..).rev() {
            stack.frames.iter().for_each(|_| emit(Parenthesis::Close));
            if !stack.frames.is_empty() {
                self.suspended.push_back(stack);
            }
        }
        self.forget_oldest_suspended();
        self.look_around();
    }

    /// Goes back to a stack that was left: its frames above the slot are open again.
    fn resume(&mut self, index: usize, slot: u64, emit: &mut impl FnMut(Parenthesis)) {
        let Some(mut stack) = self.suspended.remove(index) else { return };
        stack.close(|frame| frame.slot <= slot, &mut |_| ());
        self.nest(stack, emit);
    }

    /// Enters a stack, and opens the frames on it.
    fn nest(&mut self, stack: Stack, emit: &mut impl FnMut(Parenthesis)) {
        if self.nested.len() >= MAX_NESTED {
            self.unwind_to(0, emit);
        }
        for frame in &stack.frames {
            emit(Parenthesis::Open { target: frame.target, resumed: true });
        }
        self.nested.push(stack);
        self.look_around();
    }

    fn forget_oldest_suspended(&mut self) {
        let mut frames: usize = self.suspended.iter().map(|stack| stack.frames.len()).sum();
        while self.suspended.len() > MAX_SUSPENDED || frames > MAX_SUSPENDED_FRAMES {
            let Some(oldest) = self.suspended.pop_front() else { break };
            frames -= oldest.frames.len();
        }
    }

    /// Finds the neighbours of the stack in use, after a change of stacks.
    fn look_around(&mut self) {
        let Some(current) = self.nested.last() else { return };
        let mut clear = (0, u64::MAX);
        for (_, stack) in self.places().skip(1) {
            if stack.highest < current.lowest() {
                clear.0 = clear.0.max(stack.highest);
            } else {
                clear.1 = clear.1.min(stack.lowest());
            }
        }
        self.clear = clear;
    }
}

/// States are the same if they treat all events alike. When they were saved does not matter.
impl PartialEq for Matcher {
    fn eq(&self, other: &Matcher) -> bool {
        let alike = |one: &Stack, other: &Stack| {
            (one.identity, one.cursor, one.highest, &one.frames)
                == (other.identity, other.cursor, other.highest, &other.frames)
        };
        self.next_identity == other.next_identity
            && self.unmatched == other.unmatched
            && self.nested.len() == other.nested.len()
            && self.suspended.len() == other.suspended.len()
            && self.nested.iter().zip(&other.nested).all(|(one, other)| alike(one, other))
            && self.suspended.iter().zip(&other.suspended).all(|(one, other)| alike(one, other))
    }
}

impl Stack {
    fn lowest(&self) -> u64 {
        self.frames.last().map_or(self.cursor, |frame| frame.slot)
    }

    /// How far a slot is from the part of the stack that was seen and is alive.
    fn distance(&self, slot: u64) -> u64 {
        self.lowest().saturating_sub(slot).max(slot.saturating_sub(self.highest))
    }

    fn holds(&self, slot: u64) -> bool {
        self.frames.binary_search_by(|frame| slot.cmp(&frame.slot)).is_ok()
    }

    fn push(&mut self, frame: Frame) {
        if self.frames.len() >= MAX_FRAMES {
            self.forget_half();
        }
        self.frames.push(frame);
        self.highest = self.highest.max(frame.slot);
    }

    /// Forgets the older half of the frames: they are as from before the volume from now on.
    fn forget_half(&mut self) {
        self.frames.drain(..self.frames.len() / 2);
        self.unchanged = 0;
        self.highest = self.frames.first().map_or(self.highest, |frame| frame.slot);
    }

    /// Closes the newest frames, as long as they are `dead`.
    fn close(&mut self, dead: impl Fn(&Frame) -> bool, emit: &mut impl FnMut(Parenthesis)) {
        while let Some(frame) = self.frames.last().copied()
            && dead(&frame)
        {
            self.frames.pop();
            self.cursor = frame.slot;
            emit(Parenthesis::Close);
        }
        self.unchanged = self.unchanged.min(self.frames.len());
    }
}

#[cfg(test)]
mod tests;
