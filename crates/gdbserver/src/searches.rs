//! The searches behind going on and going back: one for each kind of thing that a client waits for.
//!
//! Each looks from where the view stands to the nearest stop that is known so far, and says what it found before that.

use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};

use retro_query::{Direction, Error, Row, RowClass, RowFilter, SampledWindow, Write};

use crate::conditions;
use crate::moment_view::{MomentView, SampleView};
use crate::own_frame::FrameBound;
use crate::request::{Point, PointKind};
use crate::resume::{Course, Resume};
use crate::stop::{Reason, Stop};

/// Hits of breakpoints with conditions, and writes, that are tried together at most.
const LARGEST_BATCH: usize = 4096;

/// So many hits of breakpoints with conditions are enough to look at a window as a whole.
const MANY: usize = 32;

/// What is looked for, and from where.
pub struct Searches<'a> {
    /// Where the view stands, and what counts.
    pub resume: &'a Resume<'a>,
    /// Which way it goes.
    pub course: Course,
    /// The bound of a frame that the client waits for.
    bound: Option<FrameBound>,
    /// Where many conditions are tried at the moment.
    window: RefCell<Option<SampledWindow>>,
}

/// An execution of an instruction with a breakpoint.
#[derive(Clone, Copy, Debug)]
struct Hit {
    time: u64,
    thread: u32,
    pc: u64,
}

impl Hit {
    fn stop(&self) -> Stop {
        Stop { time: self.time, thread: self.thread, reason: Reason::Breakpoint }
    }
}

impl<'a> Searches<'a> {
    /// From where the view stands, on a course.
    pub fn new(resume: &'a Resume<'a>, course: Course, bound: Option<FrameBound>) -> Searches<'a> {
        Searches { resume, course, bound, window: RefCell::default() }
    }
}

impl Searches<'_> {
    fn from(&self) -> u64 {
        self.resume.from.time
    }

    fn is_forward(&self) -> bool {
        self.course.direction == Direction::Forward
    }

    pub(super) fn counts(&self, thread: u32) -> bool {
        self.course.only.is_none_or(|only| only == thread)
    }

    /// Whether the way leads to one stop before the other, or at the same time to one that says more.
    pub(super) fn comes_first(&self, stop: &Stop, nearest: &Stop) -> bool {
        let says_little =
            matches!(nearest.reason, Reason::Step | Reason::HistoryBegin | Reason::HistoryEnd);
        self.is_before(stop, nearest) || (stop.place() == nearest.place() && says_little)
    }

    /// Whether the way leads to one stop before the other.
    fn is_before(&self, stop: &Stop, other: &Stop) -> bool {
        match self.course.direction {
            Direction::Forward => stop.place() < other.place(),
            Direction::Backward => stop.place() > other.place(),
        }
    }

    /// Whether the way leads past a stop at all, or the view stands there already.
    fn is_ahead(&self, stop: &Stop) -> bool {
        self.is_before(&self.resume.from, stop)
    }

    /// The nearest execution of a breakpoint's instruction, if its condition holds.
    pub fn breakpoint(&self, nearest: &Stop) -> Result<Option<Stop>, Error> {
        let mut addresses = self.resume.points.breakpoint_addresses();
        let bound = self.bound.filter(|bound| bound.end.is_none());
        let Some(FrameBound { address, from, .. }) = bound else {
            return self.breakpoint_of(&addresses, self.from(), nearest);
        };
        addresses.retain(|&other| other != address);
        let found = self.breakpoint_of(&addresses, self.from(), nearest)?;
        let nearer = match from {
            Some(from) => {
                self.breakpoint_of(&[address], from, found.as_ref().unwrap_or(nearest))?
            }
            None => None,
        };
        Ok(nearer.or(found))
    }

    /// The nearest execution of some breakpoints' instructions from a time on, if its condition holds.
    fn breakpoint_of(
        &self,
        addresses: &[u64],
        from: u64,
        nearest: &Stop,
    ) -> Result<Option<Stop>, Error> {
        if addresses.is_empty() {
            return Ok(None);
        }
        let Resume { run, cancel, points, .. } = *self.resume;
        let from = self.resume.at(from);
        let executions = run.executions(from, self.course.direction, addresses, cancel)?;
        let mut batch = Vec::new();
        let mut batch_size = 1;
        for execution in executions.until(nearest.time) {
            let execution = execution?;
            let hit = Hit { time: execution.time, thread: execution.thread, pc: execution.pc };
            if !self.comes_first(&hit.stop(), nearest) {
                break;
            }
            if !self.counts(hit.thread) || self.was_told(&hit) {
                continue;
            }
            let has_condition =
                points.breakpoint_at(hit.pc).is_some_and(|point| !point.conditions.is_empty());
            batch.push(hit);
            // Without a condition there is nothing to try: those before it are tried, then it counts.
            if !has_condition || batch.len() >= batch_size {
                if let Some(found) = self.first_that_holds(&mut batch)? {
                    return Ok(Some(found));
                }
                batch_size = (batch_size * 2).min(LARGEST_BATCH);
            }
        }
        self.first_that_holds(&mut batch)
    }

    /// Whether the client knows of a hit already, because the view stands right there.
    fn was_told(&self, hit: &Hit) -> bool {
        let from = &self.resume.from;
        hit.stop().place() == from.place() && hit.thread == from.thread
    }

    /// The nearest of some hits whose condition holds. They are tried in the order of time, whichever way the search goes,
    /// since that is how replay goes; going forward the first one ends it.
    fn first_that_holds(&self, batch: &mut Vec<Hit>) -> Result<Option<Stop>, Error> {
        if !self.is_forward() {
            batch.reverse();
        }
        let mut found = None;
        let are_many = batch.len() >= MANY;
        for hit in batch.drain(..) {
            self.resume.cancel.check()?;
            if self.holds(&hit, are_many)? {
                found = Some(hit.stop());
                if self.is_forward() {
                    break;
                }
            }
        }
        Ok(found)
    }

    fn holds(&self, hit: &Hit, is_one_of_many: bool) -> Result<bool, Error> {
        let Some(point) = self.resume.points.breakpoint_at(hit.pc) else { return Ok(false) };
        if point.conditions.is_empty() {
            return Ok(true);
        }
        let is_near = |window: &SampledWindow| window.times().contains(&hit.time);
        if is_one_of_many && !self.window.borrow().as_ref().is_some_and(is_near) {
            let Resume { run, process, points, .. } = *self.resume;
            let addresses = points.breakpoint_addresses();
            let window = run.sampled_window(process, hit.time, &addresses)?;
            *self.window.borrow_mut() = Some(window);
        }
        if let Some(window) = &*self.window.borrow()
            && is_near(window)
            && let Some(sample) = window.sample(hit.time)
        {
            let view = SampleView { window, sample };
            let hold = point.conditions.iter().map(|code| conditions::holds(code, &view));
            // What needs more than is known of a window is asked of the moment.
            if let Ok(hold) = hold.collect::<Result<Vec<bool>, _>>() {
                return Ok(hold.contains(&true));
            }
        }
        let state = self.resume.run.state(self.resume.at(hit.time))?;
        let view = MomentView::new(&state, hit.thread)?;
        // What cannot be evaluated here is for the client to find out.
        Ok(point.conditions.iter().any(|code| conditions::holds(code, &view).unwrap_or(true)))
    }

    /// The nearest write that changes watched memory.
    pub fn watchpoint(&self, nearest: &Stop) -> Result<Option<Stop>, Error> {
        let mut found: Option<Stop> = None;
        for point in self.resume.points.watched_writes() {
            let nearest = found.as_ref().unwrap_or(nearest);
            if let Some(nearer) = self.change(point, nearest)? {
                found = Some(nearer);
            }
        }
        Ok(found)
    }

    fn change(&self, point: &Point, nearest: &Stop) -> Result<Option<Stop>, Error> {
        let memory = point.address..point.address.saturating_add(point.len.max(1));
        let Resume { run, cancel, .. } = *self.resume;
        let from = self.resume.at(self.from());
        let mut batch = Vec::new();
        let mut batch_size = 1;
        for write in run.writes(from, self.course.direction, memory, cancel)?.until(nearest.time) {
            let write = write?;
            let Some(stop) = self.stop_at(point, write.time, write.thread, nearest) else { break };
            if point.kind == PointKind::Access {
                if self.counts(write.thread) {
                    return Ok(Some(stop));
                }
                continue;
            }
            batch.push(write);
            if batch.len() >= batch_size {
                if let Some(found) = self.first_change(point, &mut batch, nearest)? {
                    return Ok(Some(found));
                }
                batch_size = (batch_size * 2).min(LARGEST_BATCH);
            }
        }
        self.first_change(point, &mut batch, nearest)
    }

    /// The nearest of some writes that makes watched memory another than it was. They are applied in the order of time, so
    /// that memory is read once for many writes, of which most may leave what they find.
    fn first_change(
        &self,
        point: &Point,
        batch: &mut Vec<Write>,
        nearest: &Stop,
    ) -> Result<Option<Stop>, Error> {
        if !self.is_forward() {
            batch.reverse();
        }
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else { return Ok(None) };
        let len = point.len.max(1);
        let mapped = self.mapped_anew(
            point.address..point.address.saturating_add(len),
            first.time..=last.time,
        )?;
        let mut found = None;
        // What the memory is, and since when.
        let mut known: Option<(u64, Vec<u8>)> = None;
        for write in batch.drain(..) {
            let is_stale = |since: u64| mapped.iter().any(|&at| since <= at && at <= write.time);
            let before = match known.take().filter(|&(since, _)| !is_stale(since)) {
                Some((_, bytes)) => bytes,
                None => {
                    self.resume.cancel.check()?;
                    self.resume.run.memory(self.resume.at(write.time), point.address, len)?
                }
            };
            // Where there was no memory before, it is new.
            let is_whole = before.len() as u64 == len;
            let after = write.applied_to(point.address, &before);
            if (!is_whole || before != after) && self.counts(write.thread) {
                found = self.stop_at(point, write.time, write.thread, nearest);
                if self.is_forward() {
                    break;
                }
            }
            known = is_whole.then_some((write.time, after));
        }
        Ok(found)
    }

    /// When memory was mapped or unmapped, within some time: it changes by that without being written.
    fn mapped_anew(
        &self,
        memory: Range<u64>,
        times: RangeInclusive<u64>,
    ) -> Result<Vec<u64>, Error> {
        let Resume { run, cancel, .. } = *self.resume;
        let from = self.resume.at(*times.start());
        let maps = run.rows(from, Direction::Forward, RowFilter::Class(RowClass::Map), cancel)?;
        let mut found = Vec::new();
        for row in maps.until(*times.end()) {
            let row = row?;
            if let Row::Map { start, len, .. } = row.row
                && start < memory.end
                && memory.start < start.saturating_add(len)
            {
                found.push(row.time);
            }
        }
        Ok(found)
    }

    /// Where the instruction with a number stops that touches watched memory; none if something else stops before.
    fn stop_at(&self, point: &Point, number: u64, thread: u32, nearest: &Stop) -> Option<Stop> {
        let time = if self.is_forward() { number + 1 } else { number };
        let stop = Stop { time, thread, reason: Reason::Watchpoint(point.kind, point.address) };
        self.comes_first(&stop, nearest).then_some(stop)
    }

    /// The nearest signal that the client wants to know of.
    pub fn signal(&self, nearest: &Stop) -> Result<Option<Stop>, Error> {
        let Resume { run, cancel, .. } = *self.resume;
        let from = self.resume.at(self.from());
        let filter = RowFilter::Class(RowClass::Signal);
        for row in run.rows(from, self.course.direction, filter, cancel)?.until(nearest.time) {
            let row = row?;
            let Row::Signal { number, handler, .. } = row.row else { continue };
            let reason = match handler {
                0 => Reason::Signal(number),
                _ => Reason::HandledSignal(number),
            };
            let stop = Stop { time: row.time, thread: row.thread, reason };
            if !self.is_ahead(&stop) {
                continue;
            }
            if !self.comes_first(&stop, nearest) {
                break;
            }
            if !self.resume.points.passed_signals.contains(&number) && self.counts(row.thread) {
                return Ok(Some(stop));
            }
        }
        Ok(None)
    }

    /// The nearest read of memory that is watched for reads.
    pub fn read(&self, nearest: &Stop) -> Result<Option<Stop>, Error> {
        let Resume { run, cancel, .. } = *self.resume;
        let from = self.resume.at(self.from());
        let mut found: Option<Stop> = None;
        for point in self.resume.points.watched_reads() {
            let nearest = found.as_ref().unwrap_or(nearest);
            let memory = point.address..point.address.saturating_add(point.len.max(1));
            let reads = run.reads(from, self.course.direction, memory, cancel)?;
            for read in reads.until(nearest.time) {
                let read = read?;
                let Some(stop) = self.stop_at(point, read.time, read.thread, nearest) else {
                    break;
                };
                if self.counts(read.thread) {
                    found = Some(stop);
                    break;
                }
            }
        }
        Ok(found)
    }
}
