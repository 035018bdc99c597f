//! Steps by source lines, as gdb has them.
//!
//! A step forwards ends where the code of another line begins, and one backwards ends where the code of the line that was
//! executed before begins. Functions without lines are passed over, but not those that only lead to others: calls into
//! libraries go through stubs, and the first time through the dynamic linker.
//!
//! In code without lines a step goes on to where lines begin again: those of functions that are called from there, if
//! steps go into calls, and else where the function returns to. The index finds them, however far away.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use retro_index::Volume;
use retro_index::set_tree::Keys;
use retro_replayer::Ending;
use retro_symbols::LineRange;

use super::{Calls, Cursor};
use crate::run::{Process, Run, WindowRef};
use crate::{Cancel, Direction, Error, Moment};

/// Instructions from a call to the function that it leads to, at most: the dynamic linker takes some sixty of its own,
/// and one call, to find it.
const STUB: (usize, usize) = (128, 1);

/// The lines of addresses, as far as they were asked for.
struct Lines<'a> {
    run: &'a Run,
    log: u64,
    known: HashMap<u64, Option<Arc<LineRange>>>,
}

impl Lines<'_> {
    fn of(&mut self, time: u64, pc: u64) -> Option<Arc<LineRange>> {
        let (run, log) = (self.run, self.log);
        let known = self.known.entry(pc);
        let line =
            known.or_insert_with(|| run.symbols().line_ranges_around(log, time, pc).map(Arc::new));
        line.clone()
    }
}

/// A step by lines.
pub(super) struct LineStep<'a> {
    run: &'a Run,
    process: &'a Process,
    thread: u32,
    calls: Calls,
    cancel: &'a Cancel,
    lines: Lines<'a>,
}

/// Where one instruction leads to.
struct Moved<'a> {
    cursor: Cursor<'a>,
    /// Whether it is a call, and that is in the function.
    enters: bool,
}

fn is_same_line(one: &LineRange, other: &LineRange) -> bool {
    one.source == other.source
}

impl<'a> LineStep<'a> {
    pub(super) fn new(
        run: &'a Run,
        process: &'a Process,
        thread: u32,
        calls: Calls,
        cancel: &'a Cancel,
    ) -> LineStep<'a> {
        let lines = Lines { run, log: process.log, known: HashMap::new() };
        LineStep { run, process, thread, calls, cancel, lines }
    }

    pub(super) fn step(
        &mut self,
        from: Moment,
        direction: Direction,
    ) -> Result<Option<u64>, Error> {
        let Some(cursor) = Cursor::at(self.run, self.process, self.thread, from.time)? else {
            return Ok(None);
        };
        if cursor.time == from.time && self.line(&cursor).is_none() {
            return self.leave(from, direction);
        }
        match direction {
            Direction::Forward => self.forward(cursor, from.time),
            Direction::Backward => self.backward(cursor, from.time),
        }
    }

    fn line(&mut self, cursor: &Cursor<'_>) -> Option<Arc<LineRange>> {
        self.lines.of(cursor.time, cursor.pc()?)
    }

    /// From code without lines to where there are some.
    fn leave(&mut self, from: Moment, direction: Direction) -> Result<Option<u64>, Error> {
        let mut from = from;
        loop {
            if self.calls == Calls::Into
                && direction == Direction::Forward
                && let Some(found) = self.first_line_in_frame(from)?
            {
                return Ok(Some(found));
            }
            let out = self.run.step_out(self.process, from, self.thread, direction)?;
            let Some(time) = out else { return Ok(None) };
            let cursor = Cursor::at(self.run, self.process, self.thread, time)?;
            if cursor.is_some_and(|cursor| self.line(&cursor).is_some()) {
                return Ok(out);
            }
            from.time = time;
        }
    }

    /// The first moment behind one at which a line begins, before its frame ends.
    fn first_line_in_frame(&mut self, from: Moment) -> Result<Option<u64>, Error> {
        let end = self.run.end_of_frame(from, self.thread)?;
        self.first_line(from.time + 1..end.map_or(self.process.end, |end| end.time))
    }

    /// The first moment of the thread at which a line begins.
    fn first_line(&mut self, times: Range<u64>) -> Result<Option<u64>, Error> {
        let volumes = &self.process.volumes;
        let first = volumes.partition_point(|volume| volume.end <= times.start);
        let mut seen = times.start;
        for volume in volumes[first..].iter().take_while(|volume| volume.start < times.end) {
            self.process.check_indexed(seen, volume.start)?;
            seen = volume.end;
            let keys = self.pieces_with_lines(volume);
            let mut window = volume.window_of(times.start.max(volume.start));
            while let Some(found) = volume.code.first_from(window, keys.clone())? {
                self.cancel.check()?;
                let trace = self.run.trace(self.process, WindowRef { volume, window: found })?;
                let range = trace.range.start.max(times.start)..trace.range.end.min(times.end);
                if range.is_empty() && trace.range.start >= times.end {
                    return Ok(None);
                }
                for stretch in trace.stretches_of(self.thread, range) {
                    let blocks = trace.blocks_from(stretch.start);
                    for block in blocks.take_while(|block| block.time < stretch.end) {
                        let begins = |(time, pc): &(u64, u64)| {
                            let line = self.lines.of(*time, *pc);
                            stretch.contains(time) && line.is_some_and(|it| it.range.start == *pc)
                        };
                        if let Some((time, _)) = block.instructions().find(begins) {
                            return Ok(Some(time));
                        }
                    }
                }
                window = found + 1;
            }
        }
        self.process.check_indexed(seen, times.end.max(seen))?;
        Ok(None)
    }

    /// The code of a volume that has lines. What is loaded or unloaded meanwhile counts, too.
    fn pieces_with_lines(&self, volume: &Volume) -> Keys {
        let symbols = self.run.symbols();
        let has_line = |pc: u64| {
            let at = |time| symbols.line_ranges_around(self.process.log, time, pc).is_some();
            at(volume.end) || at(volume.start)
        };
        let has_lines = |number: &u64| {
            volume.pieces.get(*number).is_some_and(|piece| {
                let addresses = piece.lengths.iter().scan(piece.pc, |next, &len| {
                    let here = *next;
                    *next += u64::from(len);
                    Some(here)
                });
                addresses.into_iter().any(has_line)
            })
        };
        let numbers = (0..volume.pieces.len() as u64).filter(has_lines);
        numbers.map(|number| number..number + 1).collect::<Vec<_>>().into()
    }

    /// One instruction; calls of functions without lines are passed over.
    fn instruction(
        &mut self,
        cursor: Cursor<'a>,
        from: u64,
        direction: Direction,
    ) -> Result<Option<Moved<'a>>, Error> {
        self.cancel.check()?;
        let was = cursor.time;
        let is_call = was == from && cursor.ending() == Some(Ending::Call);
        let stepped = self.run.step_instruction(Some(cursor), from, self.calls, direction)?;
        let Some(mut cursor) = stepped else { return Ok(None) };
        let enters = is_call && direction == Direction::Forward && cursor.time == was + 1;
        if self.calls == Calls::Over || self.line(&cursor).is_some() {
            return Ok(Some(Moved { cursor, enters }));
        }
        // Somewhere without lines: out of it again, if it was called from here.
        match direction {
            Direction::Forward if enters => {
                if let Some(cursor) = self.through_stub(cursor.clone())? {
                    return Ok(Some(Moved { cursor, enters }));
                }
                let call = Moment { log: self.process.log, time: was };
                let Some(end) = self.run.return_of_call(call, self.thread)? else {
                    return Ok(None);
                };
                let goes_on = cursor.move_to_next(end.time + 1)?;
                Ok(goes_on.then_some(Moved { cursor, enters: false }))
            }
            Direction::Backward if cursor.ending() == Some(Ending::Return) => {
                let call = self.run.call_of_return(cursor.moment(), self.thread)?;
                let goes_on = match call {
                    Some(call) => cursor.move_to_next(call.time)?,
                    None => true,
                };
                Ok(goes_on.then_some(Moved { cursor, enters }))
            }
            _ => Ok(Some(Moved { cursor, enters })),
        }
    }

    /// From the start of a function without lines to the one with lines that it jumps to, if it is such a stub.
    fn through_stub(&mut self, start: Cursor<'a>) -> Result<Option<Cursor<'a>>, Error> {
        let (instructions, mut calls) = STUB;
        let mut cursor = start;
        for _ in 0..instructions {
            match cursor.ending() {
                Some(Ending::Return) => return Ok(None),
                Some(Ending::Call) if calls == 0 => return Ok(None),
                Some(Ending::Call) => calls -= 1,
                _ => {}
            }
            let time = cursor.time;
            let next =
                self.run.step_instruction(Some(cursor), time, Calls::Over, Direction::Forward)?;
            let Some(next) = next else { return Ok(None) };
            if self.has_line_outside_linker(&next) {
                return Ok(Some(next));
            }
            cursor = next;
        }
        Ok(None)
    }

    /// Nobody who steps into a function wants to see how it is found, even if the dynamic linker has lines.
    fn has_line_outside_linker(&mut self, cursor: &Cursor<'_>) -> bool {
        let is_linker = |pc| {
            let module = self.run.symbols().module_at(self.process.log, cursor.time, pc);
            let file = module.and_then(|module| Some(module.module.path.file_name()?.to_owned()));
            file.is_some_and(|file| {
                let file = file.to_string_lossy();
                file.starts_with("ld-") && file.contains(".so")
            })
        };
        cursor.pc().is_some_and(|pc| !is_linker(pc)) && self.line(cursor).is_some()
    }

    fn forward(&mut self, cursor: Cursor<'a>, from: u64) -> Result<Option<u64>, Error> {
        let first = self.line(&cursor);
        let (mut cursor, mut from) = (cursor, from);
        let mut depth = 0i64;
        loop {
            let returns = cursor.time == from && cursor.ending() == Some(Ending::Return);
            let Some(moved) = self.instruction(cursor, from, Direction::Forward)? else {
                return Ok(None);
            };
            cursor = moved.cursor;
            depth += i64::from(moved.enters) - i64::from(returns);
            from = cursor.time;
            let Some(line) = self.line(&cursor) else {
                // What was called from code without lines has returned to it.
                if returns
                    && self.calls == Calls::Into
                    && let Some(found) = self.first_line_in_frame(cursor.moment())?
                {
                    return Ok(Some(found));
                }
                continue;
            };
            let begins = cursor.pc() == Some(line.range.start);
            let is_new =
                first.as_ref().is_none_or(|first| !is_same_line(first, &line)) || depth > 0;
            if begins && is_new {
                return Ok(Some(cursor.time));
            }
        }
    }

    fn backward(&mut self, cursor: Cursor<'a>, from: u64) -> Result<Option<u64>, Error> {
        let here = (cursor.time == from).then(|| self.line(&cursor)).flatten();
        let begins = |cursor: &Cursor<'_>, line: &LineRange| cursor.pc() == Some(line.range.start);
        // In the middle of a line, to where it begins; at its beginning, to where the one before begins.
        let mut target = here.filter(|line| !begins(&cursor, line));
        let (mut cursor, mut from) = (cursor, from);
        loop {
            let Some(moved) = self.instruction(cursor, from, Direction::Backward)? else {
                return Ok(None);
            };
            cursor = moved.cursor;
            from = cursor.time;
            let Some(line) = self.line(&cursor) else { continue };
            let is_target = target.as_ref().is_none_or(|target| is_same_line(target, &line));
            if begins(&cursor, &line) && is_target {
                return Ok(Some(cursor.time));
            }
            target = Some(line);
        }
    }
}
