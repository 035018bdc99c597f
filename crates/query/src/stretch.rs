//! Moments that follow each other closely, looked at in any order.
//!
//! Going back by single instructions asks for one moment after the other, each before the last, and replay goes forwards only: each
//! would be replayed from the start of its window. A stretch is replayed once, instruction by instruction, and keeps the registers
//! at each; memory is that of its first moment, with what the window's trace says was written since.
//!
//! Invariants: a stretch lies in one window, and the address space does not change in it.

use std::ops::Range;
use std::sync::Arc;

use retro_replayer::Registers;

use crate::run::Run;
use crate::state::State;
use crate::trace::Trace;
use crate::{Error, Moment};

/// Some moments in a row.
pub struct Stretch {
    base: State,
    /// Of the thread that runs, at each moment.
    registers: Vec<Registers>,
    trace: Arc<Trace>,
}

impl Run {
    /// The moments up to one, so many at most: fewer if the window begins or the address space changes in between.
    pub fn stretch(&self, last: Moment, moments: u64) -> Result<Stretch, Error> {
        let process = self.process(last.log)?;
        let place = process.window_of(last.time)?;
        let trace = self.trace(&process, place)?;
        let timeline = self.timeline(&process)?;
        let reach = last.time.saturating_sub(moments.saturating_sub(1)).max(trace.range.start);
        let first = timeline.last_change(reach..last.time + 1).unwrap_or(reach);
        let from = Moment { time: first, ..last };
        let base = self.state(from)?;
        let mut session = self.session(from)?;
        let mut registers = Vec::with_capacity((last.time - first) as usize + 1);
        registers.push(session.registers(None)?);
        while session.time() < last.time {
            session.step()?;
            registers.push(session.registers(None)?);
        }
        self.keep(session);
        Ok(Stretch { base, registers, trace })
    }
}

impl Stretch {
    /// Its moments.
    pub fn times(&self) -> Range<u64> {
        let first = self.base.moment().time;
        first..first + self.registers.len() as u64
    }

    /// The registers of the thread that runs at a time; none outside.
    pub fn registers(&self, time: u64) -> Option<&Registers> {
        let index = time.checked_sub(self.times().start)?;
        self.registers.get(usize::try_from(index).ok()?)
    }

    /// Memory at a time, as far as it is mapped.
    pub fn read(&self, time: u64, address: u64, len: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = self.base.read(address, len)?;
        let memory = address..address.saturating_add(bytes.len() as u64);
        for write in self.trace.writes(memory, self.times().start..time) {
            for (byte, at) in bytes.iter_mut().zip(address..) {
                let index = at.checked_sub(write.address).and_then(|at| usize::try_from(at).ok());
                if let Some(&written) = index.and_then(|index| write.value.get(index)) {
                    *byte = written;
                }
            }
        }
        Ok(bytes)
    }
}
