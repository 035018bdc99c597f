//! A window, or a part of one, looked at wherever some instructions were executed, for those who try something at each of these
//! moments.
//!
//! A state costs a dialogue with a replay for each thing that is asked of it. Here one replay of the window leaves the registers at
//! all executions; memory is that of the first moment, page by page as it is asked for, with what the window's trace
//! says was written since. So a moment costs no more than looking at it, and a window little more than its replay.
//!
//! Invariants: the address space does not change in between; there are no vector registers.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;

use retro_replayer::{PAGE_SIZE, Sample, Session};

use crate::run::{Process, Run, WindowRef, discard, lock};
use crate::state::State;
use crate::templates::Kind;
use crate::trace::Trace;
use crate::{Error, Moment};

/// A session with breakpoints, kept for the next window that is looked at in the same way.
pub(crate) type Sampler = Option<(Vec<u64>, Session)>;

/// A window, as far as its address space stays the same, with the registers at all executions of some instructions.
pub struct SampledWindow {
    base: State,
    times: Range<u64>,
    trace: Arc<Trace>,
    samples: Vec<Sample>,
    pages: RefCell<HashMap<u64, Page>>,
}

/// A page, as it was at some time of the window.
struct Page {
    first: Vec<u8>,
    now: Vec<u8>,
    writes: Vec<PageWrite>,
    /// How many of these it has seen.
    applied: usize,
}

struct PageWrite {
    time: u64,
    at: usize,
    bytes: Vec<u8>,
}

impl Run {
    /// Looks at the window with a time, around that time.
    pub fn sampled_window(
        &self,
        process: &Process,
        time: u64,
        addresses: &[u64],
    ) -> Result<SampledWindow, Error> {
        let place = process.window_of(time)?;
        let trace = self.trace(process, place)?;
        let timeline = self.timeline(process)?;
        let Range { start, end } = trace.range;
        let first = timeline.last_change(start..time + 1).unwrap_or(start);
        // A change at a time is seen at that time.
        let behind = timeline.first_change(time + 1..end).unwrap_or(end);
        let times = first..behind;
        let mut session = self.sampler(process, place, addresses)?;
        let mut samples = Vec::new();
        session.sample_to(times.end, |sample| samples.push(sample))?;
        *lock(&self.shared.sampler) = Some((addresses.to_vec(), session));
        let base = self.state(Moment { log: process.log, time: times.start })?;
        Ok(SampledWindow { base, times, trace, samples, pages: RefCell::default() })
    }

    /// A session with breakpoints at the start of a window.
    fn sampler(
        &self,
        process: &Process,
        place: WindowRef<'_>,
        addresses: &[u64],
    ) -> Result<Session, Error> {
        if let Some((known, mut session)) = lock(&self.shared.sampler).take() {
            let start = place.volume.start_of(place.window)?;
            if known == addresses
                && session.log() == process.log
                && session.go_to_start(self.replayer(), place.volume.interval, start).is_ok()
            {
                return Ok(session);
            }
            discard(session);
        }
        let mut session = self.shared.templates.session(self, process, place, Kind::Plain)?;
        session.set_breakpoints(addresses)?;
        Ok(session)
    }
}

impl SampledWindow {
    /// From when to when.
    pub fn times(&self) -> Range<u64> {
        self.times.clone()
    }

    /// What the registers are at a moment. None if no instruction that was asked for is executed then.
    pub fn sample(&self, time: u64) -> Option<&Sample> {
        let found = self.samples.binary_search_by_key(&time, |sample| sample.time).ok()?;
        Some(&self.samples[found])
    }

    /// Memory at one of its times. False if some of it is not there.
    pub fn read(&self, time: u64, address: u64, buffer: &mut [u8]) -> Result<bool, Error> {
        let mut done = 0;
        while done < buffer.len() {
            let Some(at) = address.checked_add(done as u64) else { return Ok(false) };
            let page = at & !(PAGE_SIZE as u64 - 1);
            let from = (at - page) as usize;
            let want = (PAGE_SIZE - from).min(buffer.len() - done);
            let mut pages = self.pages.borrow_mut();
            let seen = match pages.entry(page) {
                Entry::Occupied(seen) => seen.into_mut(),
                Entry::Vacant(unseen) => unseen.insert(self.page(page)?),
            };
            seen.go_to(time);
            let Some(bytes) = seen.now.get(from..from + want) else { return Ok(false) };
            buffer[done..done + want].copy_from_slice(bytes);
            done += want;
        }
        Ok(true)
    }

    fn page(&self, page: u64) -> Result<Page, Error> {
        let first = self.base.read(page, PAGE_SIZE as u64)?;
        let memory = page..page.saturating_add(first.len() as u64);
        let writes = self.trace.writes(memory.clone(), self.times());
        let writes = writes.map(|write| {
            let start = write.address.max(memory.start);
            let end = write.address.saturating_add(write.value.len() as u64).min(memory.end);
            let from = (start - write.address) as usize;
            let bytes = write.value[from..from + end.saturating_sub(start) as usize].to_vec();
            PageWrite { time: write.time, at: (start - page) as usize, bytes }
        });
        Ok(Page { now: first.clone(), first, writes: writes.collect(), applied: 0 })
    }
}

impl Page {
    /// Makes it what it is at a time.
    fn go_to(&mut self, time: u64) {
        if self.applied.checked_sub(1).is_some_and(|last| self.writes[last].time >= time) {
            self.now.copy_from_slice(&self.first);
            self.applied = 0;
        }
        while let Some(write) = self.writes.get(self.applied).filter(|write| write.time < time) {
            self.now[write.at..write.at + write.bytes.len()].copy_from_slice(&write.bytes);
            self.applied += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_go_both_ways() {
        let writes = [(5, 1, 7u8), (5, 2, 8), (9, 1, 3)];
        let writes =
            writes.map(|(time, at, byte)| PageWrite { time, at, bytes: vec![byte] }).into();
        let mut page = Page { first: vec![0; 4], now: vec![0; 4], writes, applied: 0 };
        for (time, expected) in
            [(5, [0; 4]), (6, [0, 7, 8, 0]), (10, [0, 3, 8, 0]), (9, [0, 7, 8, 0]), (0, [0; 4])]
        {
            page.go_to(time);
            assert_eq!(page.now, expected, "at {time}");
        }
    }
}
