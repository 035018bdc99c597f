//! Calls and their returns, however far apart.
//!
//! The index has the calls and returns of each thread as parentheses, volume by volume, without their times. A window's
//! trace has the times: fed to the matcher that the index remembers for the start of the window, it tells the
//! position of each of its calls and returns. So "where does this call return" is: position, search, time; two windows are
//! looked at, whatever lies between.
//!
//! Frames may be open across volumes: depths are then carried from one to the next.

use retro_index::call_tree::ThreadCalls;
use retro_index::call_tree::matching::Matcher;

use crate::run::{Process, Run, WindowRef};
use crate::trace::TracedTransfer;
use crate::{Error, Moment};

/// A parenthesis.
#[derive(Clone, Copy, Debug)]
struct Place {
    volume: usize,
    position: u64,
}

/// How many parentheses a call or return is, and the state after it.
fn feed(matcher: &mut Matcher, transfer: &TracedTransfer) -> u64 {
    let mut emitted = 0;
    if transfer.is_call {
        matcher.call(transfer.slot, 0, |_| emitted += 1);
    } else {
        matcher.returned(transfer.slot, |_| emitted += 1);
    }
    emitted
}

impl Run {
    /// When the call at a moment returns: the moment in front of the instruction that returns from it, or leaves its
    /// frame otherwise. None if it never does, or if it is no call.
    pub fn return_of_call(&self, call: Moment, thread: u32) -> Result<Option<Moment>, Error> {
        let process = self.process(call.log)?;
        let Some(open) = self.last_parenthesis_of(&process, call.time, thread, u64::MAX)? else {
            return Ok(None);
        };
        let Some(calls) = calls_of(&process, open.volume, thread)? else { return Ok(None) };
        if !calls.is_open(open.position)? {
            return Ok(None);
        }
        if let Some(close) = calls.find_close(open.position)? {
            return self.time_of(&process, Place { position: close, ..open }, thread, u64::MAX);
        }
        let wanted = calls.excess(open.position)? - calls.excess(calls.len())?;
        self.close_in_later_volume(&process, open.volume + 1, thread, wanted)
    }

    /// When the frame that returns at a moment was called: the moment in front of the call. None if nobody has seen that, or if
    /// it is no return.
    pub fn call_of_return(&self, returned: Moment, thread: u32) -> Result<Option<Moment>, Error> {
        let process = self.process(returned.log)?;
        let Some(close) =
            self.last_parenthesis_of(&process, returned.time, thread, returned.time)?
        else {
            return Ok(None);
        };
        let Some(calls) = calls_of(&process, close.volume, thread)? else { return Ok(None) };
        if calls.is_open(close.position)? {
            return Ok(None);
        }
        if let Some(open) = calls.find_open(close.position)? {
            return self.time_of(
                &process,
                Place { position: open, ..close },
                thread,
                returned.time,
            );
        }
        let wanted = calls.excess(close.position)? - 1;
        self.open_in_earlier_volume(&process, close.volume, thread, wanted)
    }

    /// The call around a moment of a thread: the moment in front of it. None if nobody has seen it.
    pub fn enclosing_call(&self, moment: Moment, thread: u32) -> Result<Option<Moment>, Error> {
        let process = self.process(moment.log)?;
        let (volume, _) = process.volume_of(moment.time)?;
        let mut wanted = -1;
        if let Some(calls) = calls_of(&process, volume, thread)? {
            let position =
                self.position(&process, volume, &calls, thread, moment.time, moment.time)?;
            if let Some(open) = calls.enclosing(position)? {
                return self.time_of(
                    &process,
                    Place { volume, position: open },
                    thread,
                    moment.time,
                );
            }
            wanted = calls.excess(position)? - 1;
        }
        self.open_in_earlier_volume(&process, volume, thread, wanted)
    }

    /// When the frame of a moment ends: the moment in front of the instruction that returns from it. None if it never does.
    pub fn end_of_frame(&self, moment: Moment, thread: u32) -> Result<Option<Moment>, Error> {
        let process = self.process(moment.log)?;
        let (volume, _) = process.volume_of(moment.time)?;
        let mut wanted = -1;
        if let Some(calls) = calls_of(&process, volume, thread)? {
            let position =
                self.position(&process, volume, &calls, thread, moment.time, u64::MAX)?;
            let excess = calls.excess(position)?;
            if let Some(after) = calls.next_at_or_below(position, excess - 1)? {
                return self.time_of(
                    &process,
                    Place { volume, position: after - 1 },
                    thread,
                    u64::MAX,
                );
            }
            wanted = excess - 1 - calls.excess(calls.len())?;
        }
        self.close_in_later_volume(&process, volume + 1, thread, wanted)
    }

    /// How many calls are open at a moment, of those that the index has seen.
    pub fn depth(&self, moment: Moment, thread: u32) -> Result<u64, Error> {
        let process = self.process(moment.log)?;
        let (volume, _) = process.volume_of(moment.time)?;
        let mut excess = 0;
        let mut lowest = 0;
        process.check_indexed(process.start, moment.time)?;
        for before in 0..volume {
            if let Some(calls) = calls_of(&process, before, thread)? {
                lowest = lowest.min(excess + calls.excess_bounds(0..calls.len())?.0);
                excess += calls.excess(calls.len())?;
            }
        }
        if let Some(calls) = calls_of(&process, volume, thread)? {
            let position =
                self.position(&process, volume, &calls, thread, moment.time, moment.time)?;
            lowest = lowest.min(excess + calls.excess_bounds(0..position)?.0);
            excess += calls.excess(position)?;
        }
        Ok((excess - lowest).max(0) as u64)
    }

    /// How many parentheses of a thread come before a time of a volume. The answer is sought up to
    /// `until`: what a window did is asked for once.
    fn position(
        &self,
        process: &Process,
        volume: usize,
        calls: &ThreadCalls,
        thread: u32,
        time: u64,
        until: u64,
    ) -> Result<u64, Error> {
        let index = &process.volumes[volume];
        let window = index.window_of(time);
        let mut position = calls.parentheses_before(window.into())?;
        let start = index.window_range(window).start;
        if time > start {
            let place = WindowRef { volume: index, window };
            let trace = self.trace_before(process, place, until.max(time))?;
            let mut matcher = calls.matcher_at(window.into())?;
            let own = trace.transfers(start..time).filter(|transfer| transfer.thread == thread);
            position += own.map(|transfer| feed(&mut matcher, &transfer)).sum::<u64>();
        }
        Ok(position)
    }

    /// The last parenthesis of the call or return at a time: that of its own frame. `until` as above.
    fn last_parenthesis_of(
        &self,
        process: &Process,
        time: u64,
        thread: u32,
        until: u64,
    ) -> Result<Option<Place>, Error> {
        let (volume, index) = process.volume_of(time)?;
        let Some(calls) = calls_of(process, volume, thread)? else { return Ok(None) };
        let window = index.window_of(time);
        let place = WindowRef { volume: index, window };
        let trace = self.trace_before(process, place, until.max(time + 1))?;
        let mut matcher = calls.matcher_at(window.into())?;
        let mut position = calls.parentheses_before(window.into())?;
        for transfer in trace.transfers(trace.range.start..time + 1) {
            if transfer.thread == thread {
                let emitted = feed(&mut matcher, &transfer);
                position += emitted;
                if transfer.time == time {
                    let last = position.checked_sub(1).filter(|_| emitted > 0);
                    return Ok(last.map(|position| Place { volume, position }));
                }
            }
        }
        Ok(None)
    }

    /// The moment of the call or return that a parenthesis is of, which is before a time.
    fn time_of(
        &self,
        process: &Process,
        place: Place,
        thread: u32,
        until: u64,
    ) -> Result<Option<Moment>, Error> {
        let volume = &process.volumes[place.volume];
        let Some(calls) = calls_of(process, place.volume, thread)? else { return Ok(None) };
        let window = calls.window_of(place.position)?;
        let mut position = calls.parentheses_before(window)?;
        let mut matcher = calls.matcher_at(window)?;
        let place_of = WindowRef { volume, window: window as u32 };
        let trace = self.trace_before(process, place_of, until)?;
        for transfer in trace.transfers(trace.range.clone()) {
            if transfer.thread == thread {
                position += feed(&mut matcher, &transfer);
                if position > place.position {
                    return Ok(Some(Moment { log: process.log, time: transfer.time }));
                }
            }
        }
        Ok(None)
    }

    /// The close that takes the excess, counted from the start of a volume, to `wanted`.
    fn close_in_later_volume(
        &self,
        process: &Process,
        first: usize,
        thread: u32,
        mut wanted: i64,
    ) -> Result<Option<Moment>, Error> {
        for volume in first..process.volumes.len() {
            process.check_adjacent(volume)?;
            let Some(calls) = calls_of(process, volume, thread)? else { continue };
            if let Some(after) = calls.next_at_or_below(0, wanted)?
                && let Some(position) = after.checked_sub(1)
            {
                return self.time_of(process, Place { volume, position }, thread, u64::MAX);
            }
            wanted -= calls.excess(calls.len())?;
        }
        process.check_adjacent(process.volumes.len())?;
        Ok(None)
    }

    /// The open that takes the excess from `wanted` up, counted from the start of the volume behind.
    fn open_in_earlier_volume(
        &self,
        process: &Process,
        behind: usize,
        thread: u32,
        mut wanted: i64,
    ) -> Result<Option<Moment>, Error> {
        for volume in (0..behind).rev() {
            process.check_adjacent(volume + 1)?;
            let Some(calls) = calls_of(process, volume, thread)? else { continue };
            wanted += calls.excess(calls.len())?;
            if let Some(position) = calls.previous_at_or_below(calls.len(), wanted)?
                && position < calls.len()
            {
                return self.time_of(process, Place { volume, position }, thread, u64::MAX);
            }
        }
        process.check_adjacent(0)?;
        Ok(None)
    }
}

fn calls_of(process: &Process, volume: usize, thread: u32) -> Result<Option<ThreadCalls>, Error> {
    Ok(process.volumes[volume].calls.thread(thread)?)
}
