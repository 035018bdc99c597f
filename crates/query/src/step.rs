//! Stepping: to the next or the previous instruction or source line of a thread, into, over or out of calls.
//!
//! Steps are of one thread: what others do in between is passed over. A moment of a thread is in front of one of its
//! instructions. Over a call means to where it returns to, which the call tree knows without looking at what lies between.
//!
//! Steps by lines are in [`lines`].

mod lines;

use std::sync::Arc;

use retro_index::events::RowClass;
use retro_replayer::Ending;

use crate::run::{Process, Run, WindowRef};
use crate::trace::Trace;
use crate::{Cancel, Direction, Error, Moment, RowFilter};

/// How far a step goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// One instruction.
    Instruction,
    /// To another source line.
    Line,
}

/// What a step does with calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// Goes into them.
    Into,
    /// Passes over them.
    Over,
    /// Goes out of the function.
    Out,
}

impl Run {
    /// One step of a thread. None if the run has no such moment.
    pub fn step(
        &self,
        from: Moment,
        thread: u32,
        unit: Unit,
        calls: Calls,
        direction: Direction,
        cancel: &Cancel,
    ) -> Result<Option<Moment>, Error> {
        let process = self.process(from.log)?;
        process.volume_of(from.time)?;
        let found = match (calls, unit) {
            (Calls::Out, _) => self.step_out(&process, from, thread, direction)?,
            (_, Unit::Instruction) => {
                let cursor = Cursor::at(self, &process, thread, from.time)?;
                self.step_instruction(cursor, from.time, calls, direction)?
                    .map(|cursor| cursor.time)
            }
            (_, Unit::Line) => {
                lines::LineStep::new(self, &process, thread, calls, cancel).step(from, direction)?
            }
        };
        Ok(found.map(|time| Moment { time, ..from }))
    }

    fn step_out(
        &self,
        process: &Process,
        from: Moment,
        thread: u32,
        direction: Direction,
    ) -> Result<Option<u64>, Error> {
        match direction {
            Direction::Backward => Ok(self.enclosing_call(from, thread)?.map(|moment| moment.time)),
            Direction::Forward => match self.end_of_frame(from, thread)? {
                Some(end) => self.next_of_thread(process, thread, end.time + 1),
                None => Ok(None),
            },
        }
    }

    /// One instruction on, or back, from a cursor, which may stand at `from` or at the thread's next instruction behind it.
    fn step_instruction<'a>(
        &self,
        cursor: Option<Cursor<'a>>,
        from: u64,
        calls: Calls,
        direction: Direction,
    ) -> Result<Option<Cursor<'a>>, Error> {
        match direction {
            Direction::Forward => {
                let Some(mut cursor) = cursor else { return Ok(None) };
                // A thread that waits goes to its next instruction first.
                if cursor.time > from {
                    return Ok(Some(cursor));
                }
                let over = calls == Calls::Over && cursor.ending() == Some(Ending::Call);
                let next = match over {
                    true => self.return_of_call(cursor.moment(), cursor.thread)?,
                    false => Some(cursor.moment()),
                };
                let Some(next) = next else { return Ok(None) };
                Ok(cursor.move_to_next(next.time + 1)?.then_some(cursor))
            }
            Direction::Backward => {
                let mut cursor = match cursor {
                    Some(cursor) => cursor,
                    None => return Ok(None),
                };
                if !cursor.move_before(from)? {
                    return Ok(None);
                }
                if calls == Calls::Over
                    && cursor.ending() == Some(Ending::Return)
                    && let Some(call) = self.call_of_return(cursor.moment(), cursor.thread)?
                {
                    return Ok(cursor.move_to_next(call.time)?.then_some(cursor));
                }
                Ok(Some(cursor))
            }
        }
    }

    /// The first instruction of a thread with a number or a greater one.
    pub fn next_of_thread(
        &self,
        process: &Process,
        thread: u32,
        from: u64,
    ) -> Result<Option<u64>, Error> {
        let first = process.volumes.partition_point(|volume| volume.end <= from);
        for (index, volume) in process.volumes.iter().enumerate().skip(first) {
            if from < volume.start {
                process.check_indexed(from.max(process.start), volume.start)?;
            }
            let mut window =
                if index == first { volume.window_of(from.max(volume.start)) } else { 0 };
            loop {
                // A switch may come at the very end of a window: then the thread runs in the next.
                for window in [window, window + 1] {
                    if window >= volume.windows.len() {
                        continue;
                    }
                    let trace = self.trace(process, WindowRef { volume, window })?;
                    let range = trace.range.start.max(from)..trace.range.end;
                    if let Some(stretch) = trace.stretches_of(thread, range).first() {
                        return Ok(Some(stretch.start));
                    }
                }
                let keys: Vec<_> =
                    [RowClass::ThreadSwitch.key(thread.into()), RowClass::ThreadStart.key(0)]
                        .map(|key| key..key + 1)
                        .into();
                match volume.row_kinds.first_from(window + 1, keys)? {
                    Some(next) => window = next,
                    None => break,
                }
            }
        }
        let last = process.volumes.last().map_or(process.start, |last| last.end);
        process.check_indexed(last.max(from), process.end)?;
        Ok(None)
    }

    /// The last instruction of a thread with a smaller number.
    pub fn previous_of_thread(
        &self,
        process: &Process,
        thread: u32,
        before: u64,
    ) -> Result<Option<u64>, Error> {
        if before <= process.start {
            return Ok(None);
        }
        let place = process.window_of(before - 1)?;
        let trace = self.trace(process, place)?;
        if let Some(stretch) = trace.stretches_of(thread, trace.range.start..before).last() {
            return Ok(Some(stretch.end - 1));
        }
        // It ran from its last switch on to the next switch of any thread.
        let cancel = Cancel::new();
        let from = Moment { log: process.log, time: before };
        let to_it = RowFilter::Number(RowClass::ThreadSwitch, thread.into());
        let last = self.rows(from, Direction::Backward, to_it, &cancel)?.next().transpose()?;
        let since = last.map_or(process.start, |row| row.time);
        let since = Moment { log: process.log, time: since };
        let away = RowFilter::Class(RowClass::ThreadSwitch);
        for row in self.rows(since, Direction::Forward, away, &cancel)? {
            let row = row?;
            if row.thread != thread {
                let last = row.time.min(before).checked_sub(1);
                let ran = last.filter(|&last| last >= since.time);
                let Some(last) = ran else { return Ok(None) };
                let trace = self.trace(process, process.window_of(last)?)?;
                return Ok((trace.thread_at(last) == thread).then_some(last));
            }
        }
        Ok(None)
    }
}

/// An instruction of a thread.
#[derive(Clone)]
struct Cursor<'a> {
    run: &'a Run,
    process: &'a Process,
    thread: u32,
    time: u64,
    trace: Arc<Trace>,
    /// The instruction that is next at the end of the run, if it begins there. No trace has it: it was not executed.
    pc_at_end: Option<u64>,
}

impl<'a> Cursor<'a> {
    /// At the first instruction of a thread from a time on; at the end of the run if it has none.
    fn at(
        run: &'a Run,
        process: &'a Process,
        thread: u32,
        time: u64,
    ) -> Result<Option<Cursor<'a>>, Error> {
        let next = run.next_of_thread(process, thread, time)?;
        let found = next.unwrap_or(process.end);
        let trace =
            run.trace(process, process.window_of(found.min(process.end.saturating_sub(1)))?)?;
        let end = Moment { log: process.log, time: process.end };
        let pc_at_end = match next {
            Some(_) => None,
            None => run.registers(end, Some(thread)).ok().map(|registers| registers.pc()),
        };
        Ok(Some(Cursor { run, process, thread, time: found, trace, pc_at_end }))
    }

    fn moment(&self) -> Moment {
        Moment { log: self.process.log, time: self.time }
    }

    fn pc(&self) -> Option<u64> {
        match self.trace.block_with(self.time) {
            Some(block) => Some(block.pc_at(self.time)),
            None => self.pc_at_end.filter(|_| self.time == self.process.end),
        }
    }

    /// How the instruction ends its block, if it does.
    fn ending(&self) -> Option<Ending> {
        let block = self.trace.block_with(self.time)?;
        (block.end() == self.time + 1).then_some(block.ending)
    }

    /// To the thread's next instruction with this number or a greater one. False if there is none.
    fn move_to_next(&mut self, from: u64) -> Result<bool, Error> {
        if self.trace.range.contains(&from) && self.trace.thread_at(from) == self.thread {
            self.time = from;
            return Ok(true);
        }
        match self.run.next_of_thread(self.process, self.thread, from)? {
            Some(time) => self.move_to(time).map(|()| true),
            None => Ok(false),
        }
    }

    /// To the thread's last instruction with a smaller number. False if there is none.
    fn move_before(&mut self, before: u64) -> Result<bool, Error> {
        let Some(last) = before.checked_sub(1) else { return Ok(false) };
        if self.trace.range.contains(&last) && self.trace.thread_at(last) == self.thread {
            self.time = last;
            return Ok(true);
        }
        match self.run.previous_of_thread(self.process, self.thread, before)? {
            Some(time) => self.move_to(time).map(|()| true),
            None => Ok(false),
        }
    }

    fn move_to(&mut self, time: u64) -> Result<(), Error> {
        if !self.trace.range.contains(&time) {
            self.trace = self.run.trace(self.process, self.process.window_of(time)?)?;
        }
        self.time = time;
        Ok(())
    }
}
