//! Events that fit a search, one after the other.
//!
//! Events come slice by slice ([`super::walk`]) and are tried in batches: one by one forwards, more and more at once backwards,
//! each batch in the order of time.

use std::collections::VecDeque;
use std::iter;

use super::complaints::Complaints;
use super::look::{Look, Trial};
use super::sought::{Candidate, Known, Sought};
use super::walk::Walk;
use super::{Bounds, Found};
use crate::language::{Context, Search};
use crate::run::Run;
use crate::{Cancel, Direction, Error};

/// Events of the largest batch.
const LARGEST_BATCH: usize = 64;

/// How much larger than the last a batch is.
const GROWTH: usize = 4;

/// Events that fit a search, the nearest first. They are looked for as they are asked for.
pub struct Matches {
    run: Run,
    bounds: Bounds,
    sought: Sought,
    context: Option<Context>,
    cancel: Cancel,
    walk: Option<Walk>,
    known: Known,
    complaints: Complaints,
    /// Events to be tried, the nearest first.
    waiting: VecDeque<Candidate>,
    /// Events that fit.
    ready: VecDeque<Result<Found, Error>>,
    batch: usize,
    /// Events that fit which nobody wants to know more about.
    skipped: u64,
    /// Whether any has fitted.
    has_found: bool,
}

impl Matches {
    pub(super) fn new(
        run: &Run,
        search: &Search,
        bounds: Bounds,
        sought: Sought,
        cancel: &Cancel,
    ) -> Matches {
        let walk = bounds.times.clone().map(|times| {
            // What is listed for an instruction may have its moment before or behind it.
            let reach = match sought.is_listed() {
                true => times.start().saturating_sub(1)..=times.end().saturating_add(1),
                false => times,
            };
            let (process, direction) = (&bounds.process, bounds.direction);
            Walk::new(process, direction, reach, sought.hint(), sought.is_sliced())
        });
        Matches {
            run: run.clone(),
            bounds,
            sought,
            context: search.context.clone(),
            cancel: cancel.clone(),
            walk,
            known: Known::default(),
            complaints: Complaints::default(),
            waiting: VecDeque::new(),
            ready: VecDeque::new(),
            batch: 1,
            skipped: 0,
            has_found: false,
        }
    }

    /// Leaves out all that come before the n-th.
    pub(super) fn find_only(&mut self, nth: u64) {
        self.skipped = nth.saturating_sub(1);
    }

    /// Looks for the events of the next slice; false if there is none.
    fn look_on(&mut self) -> Result<bool, Error> {
        let Some(walk) = &mut self.walk else { return Ok(false) };
        let Some(slice) = walk.next(&self.cancel)? else {
            self.walk = None;
            return Ok(false);
        };
        let process = &self.bounds.process;
        let mut found = self.sought.look(&self.run, process, &mut self.known, &slice)?;
        let times = &self.bounds.times;
        found.retain(|candidate| {
            times.as_ref().is_some_and(|times| times.contains(&candidate.time))
        });
        if self.bounds.direction == Direction::Backward {
            found.reverse();
        }
        self.waiting.extend(found);
        Ok(true)
    }

    /// Tries the next batch.
    fn try_batch(&mut self) -> Result<(), Error> {
        self.cancel.check()?;
        let count = self.batch.min(self.waiting.len());
        let candidates: Vec<Candidate> = self.waiting.drain(..count).collect();
        if self.bounds.direction == Direction::Backward {
            self.batch = (self.batch * GROWTH).min(LARGEST_BATCH);
        }
        let order: Vec<usize> = match self.bounds.direction {
            Direction::Forward => (0..count).collect(),
            Direction::Backward => (0..count).rev().collect(),
        };
        let mut verdicts: Vec<Result<bool, Error>> =
            iter::repeat_with(|| Ok(true)).take(count).collect();
        for &index in &order {
            verdicts[index] = self.fits(&candidates[index]);
        }
        let mut wanted: Vec<(usize, Option<Error>)> = Vec::new();
        for (index, verdict) in verdicts.into_iter().enumerate() {
            match verdict {
                Ok(false) => {}
                Ok(true) if self.skipped > 0 => {
                    self.skipped -= 1;
                    self.has_found = true;
                }
                Ok(true) => wanted.push((index, None)),
                Err(error) => {
                    wanted.push((index, Some(error)));
                    break;
                }
            }
        }
        self.has_found |= wanted.iter().any(|(_, error)| error.is_none());
        let mut told: Vec<Result<Found, Error>> = Vec::new();
        let forwards = self.bounds.direction == Direction::Forward;
        if !forwards {
            wanted.reverse();
        }
        for (index, error) in wanted {
            told.push(match error {
                Some(error) => Err(error),
                None => self.found(&candidates[index]),
            });
        }
        if !forwards {
            told.reverse();
        }
        self.ready.extend(told);
        Ok(())
    }

    fn trial(&mut self) -> (Trial<'_>, Option<&Context>) {
        let trial = Trial {
            run: &self.run,
            process: &self.bounds.process,
            clock: &self.bounds.clock,
            sought: &self.sought,
            names: &mut self.known.names,
            complaints: &mut self.complaints,
            cancel: &self.cancel,
        };
        (trial, self.context.as_ref())
    }

    fn fits(&mut self, candidate: &Candidate) -> Result<bool, Error> {
        self.cancel.check()?;
        let (mut trial, context) = self.trial();
        let Some(context) = context else { return Ok(true) };
        context.holds(&mut Look::new(&mut trial, candidate))
    }

    fn found(&mut self, candidate: &Candidate) -> Result<Found, Error> {
        self.cancel.check()?;
        let (mut trial, _) = self.trial();
        Look::new(&mut trial, candidate).found()
    }

    /// There is nothing more to look at.
    fn stop(&mut self) {
        self.walk = None;
        self.waiting.clear();
    }
}

impl Iterator for Matches {
    type Item = Result<Found, Error>;

    fn next(&mut self) -> Option<Result<Found, Error>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                if ready.is_err() {
                    self.stop();
                    self.ready.clear();
                }
                return Some(ready);
            }
            let step = if self.waiting.is_empty() {
                self.look_on()
            } else {
                self.try_batch().map(|()| true)
            };
            match step {
                Ok(true) => {}
                Ok(false) => {
                    let complaints = std::mem::take(&mut self.complaints);
                    let verdict = complaints.verdict().filter(|_| !self.has_found);
                    return verdict.map(Err);
                }
                Err(error) => {
                    self.stop();
                    return Some(Err(error));
                }
            }
        }
    }
}
