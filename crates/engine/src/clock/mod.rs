//! The clock of a recorded or replayed process: counts its retired guest instructions.
//!
//! It is time minus deadline. While guest code runs it is in a register (see [`weave`]), which every block adds its length to
//! before anything else; where there is a deadline, a block that would make it positive leaves for the engine. While the
//! engine runs it is in a word of the page below the branch table, next to the deadline. For a recorded process that page is the
//! recorder's, so that the time is known even of a process that was killed.
//!
//! Invariant: at every exit of guest code and on every way back the clock is in its register, and the guest's own value in a slot:
//! [`take`] and [`give`] change places.

pub mod weave;

use crate::context::{CLOCK, Context, Gpr, Registers, slot};
use crate::replay::stream::{self, weave::CURSOR_REGISTER};
use core::sync::atomic::{AtomicU64, Ordering};
use retro_abi::layout::SHADOW_DISTANCE;

/// Where guest code keeps the clock: the register that compilers use least.
pub const CLOCK_REGISTER: Gpr = Gpr::R11;

/// GS displacement of the clock's word.
pub const CLOCK_WORD: i32 = CLOCK;

/// GS displacement of the place of a stream's next record.
pub const CURSOR_WORD: i32 = CLOCK + 16;

/// Whether guest code of this process counts.
pub fn active() -> bool {
    crate::record::watching() || crate::replay::active()
}

/// The clock, its deadline, and the place of the next record of a stream.
fn words() -> &'static [AtomicU64; 3] {
    let at = SHADOW_DISTANCE.wrapping_add_signed(CLOCK_WORD as i64);
    // SAFETY: the window's first page, mapped before anything asks.
    unsafe { &*(at as *const [AtomicU64; 3]) }
}

/// Where the next record of a stream goes.
pub fn cursor() -> u64 {
    words()[2].load(Ordering::Relaxed)
}

/// Moves on to another place.
pub fn set_cursor(cursor: u64) {
    words()[2].store(cursor, Ordering::Relaxed);
}

/// Retired guest instructions.
pub fn time() -> u64 {
    let [clock, deadline, _] = words();
    deadline.load(Ordering::Relaxed).wrapping_add(clock.load(Ordering::Relaxed))
}

/// Blocks run as long as they end by then.
pub fn set_deadline(now: u64, deadline: u64) {
    // The clock is compared as a signed number, and all its highest byte is sign.
    let deadline = deadline.min(now.saturating_add(1 << 55));
    words()[1].store(deadline, Ordering::Relaxed);
    words()[0].store(now.wrapping_sub(deadline), Ordering::Relaxed);
}

/// Up to when blocks run.
pub fn deadline() -> u64 {
    words()[1].load(Ordering::Relaxed)
}

/// Puts the clock right when a block was left in the middle.
pub fn move_by(by: i64) {
    let clock = &words()[0];
    clock.store(clock.load(Ordering::Relaxed).wrapping_add_signed(by), Ordering::Relaxed);
}

/// Guest code has left for the engine: takes the clock out of its register, and puts the guest's value there.
pub fn take(context: &mut Context) {
    words()[0].store(context.registers.get(CLOCK_REGISTER), Ordering::Relaxed);
    context.registers.set(CLOCK_REGISTER, context.spill[slot::CLOCK as usize]);
    if stream::active() {
        set_cursor(context.registers.get(CURSOR_REGISTER));
        context.registers.set(CURSOR_REGISTER, context.spill[slot::CURSOR as usize]);
    }
}

/// Guest code goes on: the other way round.
pub fn give(context: &mut Context) {
    context.spill[slot::CLOCK as usize] = context.registers.get(CLOCK_REGISTER);
    context.registers.set(CLOCK_REGISTER, words()[0].load(Ordering::Relaxed));
    if stream::active() {
        context.spill[slot::CURSOR as usize] = context.registers.get(CURSOR_REGISTER);
        context.registers.set(CURSOR_REGISTER, cursor());
    }
}

/// A thread is about to start: its context looks as at an exit.
pub fn ready(context: &mut Context) {
    if active() {
        give(context);
    }
}

/// Guest code was stopped in the middle of a block, as `held` shows the registers. Makes the context, which has the
/// guest's registers, look as at an exit.
pub fn interrupted(context: &mut Context, held: &Registers, in_register: bool) {
    if !active() {
        return;
    }
    if in_register {
        words()[0].store(held.get(CLOCK_REGISTER), Ordering::Relaxed);
        if stream::active() {
            set_cursor(held.get(CURSOR_REGISTER));
            context.registers.set(CURSOR_REGISTER, context.spill[slot::CURSOR as usize]);
        }
    }
    give(context);
}
