//! What a condition asks of an event.
//!
//! Everything is looked up when it is asked for, and kept while the event is tried. The state, a replay that stands at the
//! event, is made when the first condition needs it.

use std::cell::OnceCell;
use std::ops::Range;

use retro_index::events::{Row, RowClass};
use retro_symbols::{Expression, Frame, Scope, StackEnd};

use super::called::parameters_at_entry;
use super::complaints::Complaints;
use super::entry_scope::EntryScope;
use super::names::Names;
use super::object::{number, untyped};
use super::sought::{Candidate, Happening, Sought};
use super::{Found, FoundEvent, no_last_result};
use crate::frames::FRAMES_LIMIT;
use crate::language::{Clock, EventKind, Moment as Asked, SourceLine, TimePoint, Value};
use crate::locate::RowFilter;
use crate::run::{Process, Run};
use crate::state::State;
use crate::{Cancel, Direction, Error, Moment};

/// Frames that are unwound first; then four times as many, again and again.
const FIRST_FRAMES: usize = 4;

/// Bytes of a store that are told.
const STORED_LIMIT: u64 = 64 << 10;

/// What all events of a search share.
pub(super) struct Trial<'a> {
    pub(super) run: &'a Run,
    pub(super) process: &'a Process,
    pub(super) clock: &'a Clock,
    pub(super) sought: &'a Sought,
    pub(super) names: &'a mut Names,
    pub(super) complaints: &'a mut Complaints,
    pub(super) cancel: &'a Cancel,
}

/// An event that is looked at.
pub(super) struct Look<'t, 'a> {
    pub(super) trial: &'t mut Trial<'a>,
    pub(super) candidate: &'t Candidate,
    state: OnceCell<State>,
    /// Names of frames, innermost first, and whether there are more.
    frames: Vec<String>,
    is_unwound: bool,
    stored: Option<Stored>,
    /// What a function was called with.
    arguments: Option<Vec<Option<Value>>>,
}

/// A store in bytes.
#[derive(Clone, Debug)]
struct Stored {
    memory: Range<u64>,
    old: Vec<u8>,
    new: Vec<u8>,
}

impl<'t, 'a> Look<'t, 'a> {
    pub(super) fn new(trial: &'t mut Trial<'a>, candidate: &'t Candidate) -> Look<'t, 'a> {
        Look {
            trial,
            candidate,
            state: OnceCell::new(),
            frames: Vec::new(),
            is_unwound: false,
            stored: None,
            arguments: None,
        }
    }

    pub(super) fn moment(&self) -> Moment {
        Moment { log: self.trial.process.log, time: self.candidate.time }
    }

    pub(super) fn state(&self) -> Result<&State, Error> {
        if let Some(state) = self.state.get() {
            return Ok(state);
        }
        let made = self.trial.run.state(self.moment())?;
        Ok(self.state.get_or_init(|| made))
    }

    /// Finds names of so many frames.
    fn unwind(&mut self, limit: usize) -> Result<(), Error> {
        if self.is_unwound {
            return Ok(());
        }
        let state = self.state()?;
        let stack = if_thread_lives(state.stack(Some(self.candidate.thread), limit))?;
        let name = |frame: &Frame| frame.function.as_deref().unwrap_or_default().to_owned();
        let (frames, is_unwound) = match stack {
            Some(stack) => {
                let is_cut = stack.end() == StackEnd::Cut && limit < FRAMES_LIMIT;
                (stack.frames().iter().map(name).collect(), !is_cut)
            }
            None => (Vec::new(), true),
        };
        (self.frames, self.is_unwound) = (frames, is_unwound);
        Ok(())
    }

    /// Everything that an answer tells.
    pub(super) fn found(mut self) -> Result<Found, Error> {
        let event = match &self.candidate.event {
            Happening::Executed if self.trial.sought.kind == EventKind::FunctionExit => {
                FoundEvent::FunctionExit { result: self.result()? }
            }
            Happening::Executed => self.trial.sought.executed_event(),
            Happening::Stored { by, .. } => {
                let by = *by;
                let Stored { memory, old, new } = self.stored()?.clone();
                let (old_value, new_value) = (self.meaning(&old), self.meaning(&new));
                FoundEvent::Store { memory, old, new, by, old_value, new_value }
            }
            Happening::Loaded { address, len } => FoundEvent::Load { address: *address, len: *len },
            Happening::Syscall { number, args } => {
                let (number, args) = (*number, *args);
                FoundEvent::Syscall { number, args, result: self.syscall_result()? }
            }
            Happening::Signal { number, synchronous, handler } => {
                FoundEvent::Signal { number: *number, synchronous: *synchronous, handler: *handler }
            }
            Happening::Mapped(change) => FoundEvent::Map(change.clone()),
            Happening::ThreadStart => FoundEvent::ThreadStart,
            Happening::ThreadEnd { code } => FoundEvent::ThreadEnd { code: *code },
        };
        let pc = self.pc()?;
        Ok(Found { time: self.candidate.time, thread: self.candidate.thread, pc, event })
    }

    /// What bytes of the stored-to object mean.
    fn meaning(&self, bytes: &[u8]) -> Option<Value> {
        match &self.trial.sought.object {
            Some(object) if object.is_whole() => object.value(bytes),
            _ => untyped(bytes),
        }
    }

    /// The same, for a comparison, which nothing else than a number can pass.
    fn number_of(&mut self, bytes: &[u8]) -> Option<Value> {
        let value = self.meaning(bytes);
        if let (None, Some(object)) = (&value, &self.trial.sought.object) {
            self.trial.complaints.is_no_number(object.type_name());
        }
        value
    }

    /// The memory that a store is about.
    fn stored_memory(&self, writes: &[(u64, Vec<u8>)]) -> Range<u64> {
        let object = self.trial.sought.object.as_ref();
        if let Some(object) = object.filter(|object| object.is_whole()) {
            return object.memory.clone();
        }
        let all = object.map_or(0..u64::MAX, |object| object.memory.clone());
        let end_of = |(address, value): &(u64, Vec<u8>)| address.saturating_add(value.len() as u64);
        let start = writes.iter().map(|write| write.0).min().unwrap_or(0).max(all.start);
        let end = writes.iter().map(end_of).max().unwrap_or(0).min(all.end);
        start..end.min(start.saturating_add(STORED_LIMIT))
    }

    /// What the memory of a store holds after it, if nothing else has to be known for that.
    fn written_over(&self) -> Option<Vec<u8>> {
        let Happening::Stored { writes, .. } = &self.candidate.event else { return None };
        let memory = self.stored_memory(writes);
        let is_covered = |(address, value): &(u64, Vec<u8>)| {
            *address <= memory.start && memory.end <= address.saturating_add(value.len() as u64)
        };
        let last = writes.last().filter(|last| is_covered(last))?;
        let from = (memory.start - last.0) as usize;
        Some(last.1[from..from + (memory.end - memory.start) as usize].to_vec())
    }

    fn stored(&mut self) -> Result<&Stored, Error> {
        if self.stored.is_none() {
            let Happening::Stored { writes, .. } = &self.candidate.event else {
                return Err(Error::Question("only a store has old and new values".to_owned()));
            };
            let memory = self.stored_memory(writes);
            let old = self.state()?.read(memory.start, memory.end - memory.start)?;
            let mut new = old.clone();
            for (address, value) in writes {
                overlay(&mut new, memory.start, *address, value);
            }
            self.stored = Some(Stored { memory, old, new });
        }
        // It was just made, if it was not there.
        self.stored.as_ref().ok_or(Error::Cancelled)
    }

    /// What a system call returns: the next thing that the log tells of its thread.
    fn syscall_result(&self) -> Result<Option<i64>, Error> {
        let Trial { run, process, cancel, .. } = &*self.trial;
        let (thread, time) = (self.candidate.thread, self.candidate.time);
        let entered = time + 1;
        let exit_in = |time: u64| -> Result<Option<i64>, Error> {
            let place = process.window_of(time)?;
            let rows = place.volume.rows.rows(place.window)?;
            Ok(rows.iter().find_map(|row| match row.row {
                Row::SyscallExit { result } if row.thread == thread && row.time >= entered => {
                    Some(result as i64)
                }
                _ => None,
            }))
        };
        if let Some(result) = exit_in(time)? {
            return Ok(Some(result));
        }
        // Others run meanwhile; it goes on when there is a switch to it.
        let back = RowFilter::Number(RowClass::ThreadSwitch, thread.into());
        for row in run.rows(self.moment(), Direction::Forward, back, cancel)? {
            let row = row?;
            if let Some(result) = exit_in(row.time.saturating_sub(1).max(process.start))? {
                return Ok(Some(result));
            }
            if row.time > entered {
                break;
            }
        }
        Ok(None)
    }
}

/// Puts what is written at an address over bytes that begin at another.
fn overlay(bytes: &mut [u8], start: u64, address: u64, value: &[u8]) {
    for (index, byte) in value.iter().enumerate() {
        let at = address.wrapping_add(index as u64).wrapping_sub(start);
        if let Some(slot) = usize::try_from(at).ok().and_then(|at| bytes.get_mut(at)) {
            *slot = *byte;
        }
    }
}

/// Nothing, if the thread is not there: it has not begun, or it is over.
pub(super) fn if_thread_lives<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Err(Error::NoThread { .. }) => Ok(None),
        other => other.map(Some),
    }
}

impl Asked for Look<'_, '_> {
    type Error = Error;

    fn time(&mut self) -> Result<u64, Error> {
        Ok(self.candidate.time)
    }

    fn time_of(&mut self, point: TimePoint) -> Result<u64, Error> {
        point.on(self.trial.clock).ok_or_else(no_last_result)
    }

    fn thread(&mut self) -> Result<u32, Error> {
        Ok(self.candidate.thread)
    }

    fn pc(&mut self) -> Result<u64, Error> {
        if let Some(pc) = self.candidate.pc {
            return Ok(pc);
        }
        let registers = self.state()?.registers(Some(self.candidate.thread));
        Ok(if_thread_lives(registers)?.map_or(0, |registers| registers.pc()))
    }

    fn function(&mut self) -> Result<Option<String>, Error> {
        let pc = self.pc()?;
        let Moment { log, time } = self.moment();
        let name = self.trial.names.at(self.trial.run.symbols(), log, time, pc);
        Ok(name.function().map(|name| name.to_string()))
    }

    fn source(&mut self) -> Result<Option<SourceLine>, Error> {
        let pc = self.pc()?;
        let Moment { log, time } = self.moment();
        Ok(self.trial.names.at(self.trial.run.symbols(), log, time, pc).source.clone())
    }

    fn depth(&mut self) -> Result<u64, Error> {
        self.unwind(FRAMES_LIMIT)?;
        Ok(self.frames.len() as u64)
    }

    fn frame(&mut self, level: usize) -> Result<Option<String>, Error> {
        while level >= self.frames.len() && !self.is_unwound {
            let more = (4 * self.frames.len()).max(FIRST_FRAMES);
            self.unwind(more.min(FRAMES_LIMIT))?;
        }
        Ok(self.frames.get(level).cloned())
    }

    fn old_value(&mut self) -> Result<Option<Value>, Error> {
        let old = self.stored()?.old.clone();
        Ok(self.number_of(&old))
    }

    fn new_value(&mut self) -> Result<Option<Value>, Error> {
        let new = match self.written_over() {
            Some(new) => new,
            None => self.stored()?.new.clone(),
        };
        Ok(self.number_of(&new))
    }

    fn result(&mut self) -> Result<Option<Value>, Error> {
        match self.candidate.event {
            Happening::Syscall { .. } => {
                Ok(self.syscall_result()?.map(|result| Value::Integer(result.into())))
            }
            _ => self.function_result(),
        }
    }

    fn argument(&mut self, number: u8) -> Result<Option<Value>, Error> {
        let number = usize::from(number);
        if let Happening::Syscall { args, .. } = &self.candidate.event {
            return Ok(args.get(number).map(|&value| Value::Integer((value as i64).into())));
        }
        if self.arguments.is_none() {
            self.arguments = Some(self.function_arguments()?);
        }
        let all = self.arguments.as_deref().unwrap_or_default();
        Ok(all.get(number).cloned().flatten())
    }

    fn expression(&mut self, text: &str) -> Result<Option<Value>, Error> {
        let parsed =
            Expression::parse(text).map_err(|error| Error::Expression(error.to_string()))?;
        let state = self.state()?;
        let Some(stack) = if_thread_lives(state.stack(Some(self.candidate.thread), 1))? else {
            return Ok(None);
        };
        let is_entry = self.trial.sought.kind == EventKind::FunctionEnter;
        let parameters = if is_entry { parameters_at_entry(state, &stack) } else { Vec::new() };
        let value = stack.with_scope(0, |scope| {
            let value = match is_entry {
                true => parsed.evaluate(&EntryScope { inner: scope, parameters })?,
                false => parsed.evaluate(scope)?,
            };
            Ok(number(&value, scope.machine()))
        });
        match value? {
            Ok(value) => {
                self.trial.complaints.had_value(text);
                Ok(value)
            }
            Err(error) => self.trial.complaints.had_none(error).map(|()| None),
        }
    }
}
