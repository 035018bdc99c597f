//! Intervals: stretches of the log that replay alone.
//!
//! An interval starts with the shadow all zero, so that whatever the guest reads from then on is logged again. That
//! costs time and log. Whatever has been logged since the last reset bounds what the next one will cost, so a reset is due
//! when the instructions since then outweigh it: at most a few percent of time and a hundredth of a bit per instruction
//! go into refilling. A program that reads ever new memory never gets there; for it a reset is due when
//! the log has grown to many times of what it took to fill the shadow at the interval's start.

use super::{Recorder, all_registers, image_of_vectors, schedule, shadow};
use crate::context::Context;
use crate::maps::AddressSpace;
use crate::vectors::{self, Image};
use core::sync::atomic::Ordering;
use retro_abi::log::{Event, Kind};

/// Filling is over after so many instructions.
const FILLING: u64 = 20_000_000;
/// No interval is shorter, unless the user says so.
const SHORTEST: u64 = 50_000_000;
/// A logged load takes the time of so many instructions; one in thirty may go into refilling.
const REFILL_TIME: u64 = 300 * 30;
/// Instructions per bit of refilling: a hundredth of a bit per instruction.
const REFILL_BITS: u64 = 100;

/// A log of so many bytes is worth a reset that costs one part in so many of it.
const LONG_LOG: u64 = 32 << 20;
const LONG_LOG_RATIO: u64 = 8;

/// What decides about the next reset.
#[derive(Clone, Copy, Debug, Default)]
pub struct Intervals {
    /// Instructions per interval as the user wants it; 0 for the rule.
    pub wanted: u64,
    start: u64,
    loads_at_start: u64,
    bytes_at_start: u64,
    refill: Option<(u64, u64)>,
}

impl Intervals {
    /// With so many instructions per interval; 0 for the rule.
    pub fn new(wanted: u64) -> Intervals {
        Intervals { wanted, ..Intervals::default() }
    }
}

impl Recorder {
    fn loads(&self) -> (u64, u64) {
        let counts = &self.writer.header().counts;
        let read = |array: &[core::sync::atomic::AtomicU64; 32]| {
            array[Kind::Load as usize].load(Ordering::Relaxed)
        };
        (read(&counts.events), read(&counts.bytes))
    }

    /// Whether it is time for a reset.
    pub(super) fn interval_is_over(&mut self) -> bool {
        let since = self.time() - self.intervals.start;
        if self.intervals.wanted != 0 {
            return since >= self.intervals.wanted;
        }
        let (loads, bytes) = self.loads();
        let intervals = &mut self.intervals;
        let spent = (loads - intervals.loads_at_start, bytes - intervals.bytes_at_start);
        if since < FILLING {
            return false;
        }
        let filled = *intervals.refill.get_or_insert(spent);
        let outweighs = |(loads, bytes): (u64, u64)| {
            since >= SHORTEST.max(loads * REFILL_TIME).max(bytes * 8 * REFILL_BITS)
        };
        let long_log = spent.1 >= LONG_LOG && spent.1 >= LONG_LOG_RATIO * filled.1;
        outweighs(spent) || long_log && outweighs((filled.0, 0))
    }

    /// What was logged since the interval began is no part of what the next one will cost.
    pub(super) fn leave_out_of_refill(&mut self) {
        let (loads, bytes) = self.loads();
        (self.intervals.loads_at_start, self.intervals.bytes_at_start) = (loads, bytes);
    }

    /// Instructions until the question comes up again.
    pub(super) fn until_next_look(&self) -> u64 {
        match self.intervals.wanted {
            0 => FILLING,
            wanted => (self.intervals.start + wanted).saturating_sub(self.time()).max(1),
        }
    }

    /// Begins an interval: the shadow must be zero.
    pub(super) fn begin_interval(&mut self, context: &Context, number: u64) {
        let time = self.time();
        self.writer.interval = number;
        self.writer.cut(time);
        let (loads_at_start, bytes_at_start) = self.loads();
        let wanted = self.intervals.wanted;
        self.intervals =
            Intervals { wanted, start: time, loads_at_start, bytes_at_start, refill: None };
        let counts = &self.writer.header().counts;
        counts.intervals.store(number + 1, Ordering::Relaxed);
        let others = schedule::others(context);
        let running = context.tid();
        self.event(Event::Interval { number, running, threads: others.len() as u32 + 1 });
        let mut image = Image::new();
        let state = Event::ThreadState {
            thread: running,
            in_syscall: context.in_syscall,
            registers: all_registers(context),
            image: image_of_vectors(&mut image),
        };
        self.event(state);
        for other in others {
            // SAFETY: a thread that does not run the guest keeps its context as it left it.
            let (other, image) = unsafe { (&*other.context, &*other.image) };
            let state = Event::ThreadState {
                thread: other.tid(),
                in_syscall: other.in_syscall,
                registers: all_registers(other),
                image: &image.0[..vectors::area_size()],
            };
            self.event(state);
        }
    }

    /// Cuts an interval here.
    pub(super) fn reset(&mut self, context: &Context, space: &AddressSpace) {
        self.log_memory_sums(space);
        for mapping in space.mappings() {
            if shadow::covers(mapping.start, mapping.end) {
                shadow::clear(mapping.start, mapping.end);
            }
        }
        let number = self.writer.interval + 1;
        self.begin_interval(context, number);
    }
}
