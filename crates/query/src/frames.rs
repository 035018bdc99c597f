//! Call stacks, variables and expressions at a moment.
//!
//! Which functions are active, and where their variables are, the debug information says ([`retro_symbols`]). What it cannot say,
//! the run does: *when* a frame was called is when its return address was written, and what its arguments were
//! then is asked of that moment.

use std::cell::OnceCell;
use std::ops::Range;

use retro_replayer::Ending;
use retro_symbols::{
    CallStack, EntryRegisters, EvaluationError, Expression, FormatOptions, Frame, FrameContext,
    FrameMachine, FrameScope, Scope, StackEnd, Tree, TreeOptions, UnknownEntry, Value, Variable,
    VariableKind,
};

use crate::last_writes::LastWrite;
use crate::run::Run;
use crate::state::{State, StateMachine};
use crate::{Cancel, Direction, Error, Moment};

/// Frames of a stack, if nobody says otherwise.
pub const FRAMES_LIMIT: usize = retro_symbols::DEPTH_LIMIT;

/// Entries of a function that are looked at to find the one that a frame began with. It is the first one, unless another
/// function was called and jumped to it.
const ENTRIES_TRIED: usize = 64;

/// Blocks behind a call that are looked through for the function's first instruction: those of stubs that jump to it.
const JUMPS_FOLLOWED: usize = 4;

/// The number of the stack pointer in the log.
const RSP: usize = 4;

/// The call stack of a thread at a moment.
pub struct ThreadStack<'a> {
    state: &'a State,
    machine: StateMachine<'a>,
    stack: CallStack,
    /// The thread.
    pub thread: u32,
}

/// A variable with its value, for people and programs.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Its type.
    pub type_name: String,
    /// Its value, as `print` shows it.
    pub value: String,
    /// Whether it is a parameter.
    pub is_parameter: bool,
    /// Whether one further in has the same name.
    pub is_shadowed: bool,
    /// The memory it takes.
    pub memory: Option<Range<u64>>,
}

/// An expression's value, for people and programs.
#[derive(Clone, Debug)]
pub struct Evaluated {
    /// The value as text.
    pub text: String,
    /// Its type.
    pub type_name: String,
    /// The memory it takes.
    pub memory: Option<Range<u64>>,
    /// The value with its parts.
    pub tree: Tree,
}

impl State {
    /// The call stack of a thread, or of the one that runs.
    pub fn stack(&self, thread: Option<u32>, limit: usize) -> Result<ThreadStack<'_>, Error> {
        let registers = self.registers(thread)?;
        let thread = registers.thread;
        let machine = self.machine(registers);
        let Moment { log, time } = self.moment();
        let stack = self.run().symbols().unwind(log, time, &machine, limit);
        Ok(ThreadStack { state: self, machine, stack, thread })
    }
}

/// The registers of a frame's function when it was called, found when they are needed.
struct CalledWith<'a> {
    stack: &'a ThreadStack<'a>,
    frame: usize,
    found: OnceCell<Option<[u64; 17]>>,
}

impl EntryRegisters for CalledWith<'_> {
    fn entry_register(&self, number: u16) -> Option<u64> {
        let found = self.found.get_or_init(|| {
            let entry = self.stack.entry(self.frame, &Cancel::new()).ok().flatten()?;
            let registers = self.stack.run().registers(entry, Some(self.stack.thread)).ok()?;
            let state = self.stack.state.machine(registers);
            let mut all = [0; 17];
            for (number, value) in all.iter_mut().enumerate() {
                *value = retro_symbols::Machine::register(&state, number as u16)?;
            }
            Some(all)
        });
        found.as_ref()?.get(usize::from(number)).copied()
    }
}

impl<'a> ThreadStack<'a> {
    /// The functions that have not returned, innermost first.
    pub fn frames(&self) -> &[Frame] {
        &self.stack.frames
    }

    /// Why there are no more.
    pub fn end(&self) -> StackEnd {
        self.stack.end
    }

    /// The registers of the thread.
    pub fn machine(&self) -> &StateMachine<'a> {
        &self.machine
    }

    fn run(&self) -> &Run {
        self.state.run()
    }

    fn frame(&self, index: usize) -> Result<&Frame, Error> {
        let frames = self.stack.frames.len();
        self.stack.frames.get(index).ok_or(Error::NoFrame { frame: index, frames })
    }

    /// Of the functions that are inlined in each other, which one a frame is, counted from the innermost.
    fn level(&self, index: usize) -> usize {
        let depth = self.stack.frames[index].depth;
        self.stack.frames[..index].iter().filter(|frame| frame.depth == depth).count()
    }

    /// The frame of the function that was called, and that a frame is inlined in.
    fn called(&self, index: usize) -> usize {
        let frames = &self.stack.frames;
        index + frames[index..].iter().take_while(|frame| frame.is_inlined).count()
    }

    /// Looks names up as a frame sees them.
    pub fn with_scope<T>(
        &self,
        index: usize,
        look: impl FnOnce(&FrameScope<'_>) -> T,
    ) -> Result<T, Error> {
        let frame = self.frame(index)?;
        let machine: FrameMachine<'_> = frame.machine(&self.machine);
        let entry = CalledWith { stack: self, frame: self.called(index), found: OnceCell::new() };
        let Moment { log, time } = self.state.moment();
        let level = Some(self.level(index));
        let (pc, cfa) = (frame.lookup, frame.cfa);
        let context = FrameContext { log, time, pc, machine: &machine, cfa, entry: &entry, level };
        Ok(look(&self.run().symbols().scope(&context)))
    }

    /// The value of an expression in a frame.
    pub fn evaluate(
        &self,
        index: usize,
        expression: &str,
        options: &FormatOptions,
        parts: &TreeOptions,
    ) -> Result<Evaluated, Error> {
        let parsed = Expression::parse(expression).map_err(wrong)?;
        self.with_scope(index, |scope| {
            let value = parsed.evaluate(scope).map_err(wrong)?;
            Ok(evaluated(&value, expression, scope, options, parts))
        })?
    }

    /// The memory that an expression names in a frame.
    pub fn memory_of(&self, index: usize, expression: &str) -> Result<Range<u64>, Error> {
        let parsed = Expression::parse(expression).map_err(wrong)?;
        let range = self.with_scope(index, |scope| parsed.memory_range(scope))?;
        let (address, len) = range.map_err(wrong)?;
        Ok(address..address.saturating_add(len))
    }

    /// The parameters and locals that are visible in a frame, innermost first.
    pub fn locals(&self, index: usize, options: &FormatOptions) -> Result<Vec<Named>, Error> {
        self.with_scope(index, |scope| {
            scope.locals().iter().map(|variable| named(variable, scope, options)).collect()
        })
    }

    /// When a frame's function was called: the moment in front of its first instruction.
    pub fn entry(&self, index: usize, cancel: &Cancel) -> Result<Option<Moment>, Error> {
        self.frame(index)?;
        Ok(self.entries(index..index + 1, cancel)?.pop().flatten())
    }

    /// When the functions of some frames were called: the moments in front of their first instructions.
    pub fn entries(
        &self,
        frames: Range<usize>,
        cancel: &Cancel,
    ) -> Result<Vec<Option<Moment>>, Error> {
        let frames = &self.stack.frames[frames];
        // The return address lies below what the frame begins with.
        let slots = frames.iter().map(|frame| {
            let cfa = frame.cfa.filter(|_| !frame.is_inlined && !frame.is_signal_frame)?;
            cfa.checked_sub(8).map(|start| start..cfa)
        });
        let slots: Vec<Option<Range<u64>>> = slots.collect();
        let asked: Vec<Range<u64>> = slots.iter().flatten().cloned().collect();
        let moment = self.state.moment();
        let calls = self.run().last_writes(moment, &asked, usize::MAX, cancel)?.into_iter();
        let mut calls = calls.map(|call| call.and_then(LastWrite::found));
        let mut entries = Vec::with_capacity(frames.len());
        for (frame, slot) in frames.iter().zip(slots) {
            let call = slot.and_then(|slot| Some((slot.start, calls.next()??)));
            entries.push(match call {
                Some((slot, call)) => Some(self.entry_after(frame, slot, call.time, cancel)?),
                None => None,
            });
        }
        Ok(entries)
    }

    /// The first moment of a frame's function after a call that has written its return address to a slot.
    fn entry_after(
        &self,
        frame: &Frame,
        slot_start: u64,
        call: u64,
        cancel: &Cancel,
    ) -> Result<Moment, Error> {
        let moment = self.state.moment();
        let entry = Moment { time: call + 1, ..moment };
        // Who was called may have jumped on to another function, which has no return address of its own.
        let symbols = self.run().symbols();
        let first = symbols.function_entry(moment.log, moment.time, frame.lookup);
        let Some(first) = first else { return Ok(entry) };
        if let Some(time) = self.run().jumped_to(entry, self.thread, first)?
            && time < moment.time
        {
            return Ok(Moment { time, ..moment });
        }
        let hits = self.run().executions(entry, Direction::Forward, &[first], cancel)?;
        for hit in hits.take(ENTRIES_TRIED) {
            let hit = hit?;
            if hit.time >= moment.time {
                break;
            }
            // The function may also have been called meanwhile, by those that it has called itself.
            let at_hit = Moment { time: hit.time, ..moment };
            let is_this_call = || -> Result<bool, Error> {
                let registers = self.run().registers(at_hit, Some(self.thread))?;
                Ok(registers.general[RSP] == slot_start)
            };
            if hit.thread == self.thread && (hit.time == entry.time || is_this_call()?) {
                return Ok(at_hit);
            }
        }
        Ok(entry)
    }

    /// Looks at some frames with their [entries](ThreadStack::entries), and tells what was found in the frames' order. The
    /// outermost was called first and is looked at first: a replay goes from one call to the next, but never back.
    pub fn by_calls<T, E>(
        frames: Range<usize>,
        entries: Vec<Option<Moment>>,
        look: impl FnMut((usize, Option<Moment>)) -> Result<T, E>,
    ) -> Result<Vec<T>, E> {
        let mut found = frames.zip(entries).rev().map(look).collect::<Result<Vec<T>, E>>()?;
        found.reverse();
        Ok(found)
    }

    /// The arguments of a frame's function as they were when it was called; as they are now, where it is inlined.
    pub fn arguments_since(
        &self,
        index: usize,
        entry: Option<Moment>,
        options: &FormatOptions,
    ) -> Result<Vec<Named>, Error> {
        let Some(entry) = entry else {
            let locals = self.locals(index, options)?;
            return Ok(locals.into_iter().filter(|local| local.is_parameter).collect());
        };
        // A look at another moment takes a while.
        if !self.with_scope(index, |scope| scope.has_parameters())? {
            return Ok(Vec::new());
        }
        self.run().arguments_at(entry, self.thread, options)
    }
}

impl Run {
    /// When a thread comes to an address by jumps alone, a few at most.
    fn jumped_to(&self, from: Moment, thread: u32, address: u64) -> Result<Option<u64>, Error> {
        let process = self.process(from.log)?;
        let place = process.window_of(from.time)?;
        let trace = self.trace_before(&process, place, from.time.saturating_add(1))?;
        for block in trace.blocks_from(from.time).take(JUMPS_FOLLOWED) {
            if trace.thread_at(block.time) != thread {
                break;
            }
            let mut instructions = block.instructions();
            if let Some((time, _)) = instructions.find(|(_, pc)| *pc == address) {
                return Ok(Some(time));
            }
            if !matches!(block.ending, Ending::Next | Ending::Jump) {
                break;
            }
        }
        Ok(None)
    }

    /// The arguments of the function whose first instruction is next.
    pub fn arguments_at(
        &self,
        entry: Moment,
        thread: u32,
        options: &FormatOptions,
    ) -> Result<Vec<Named>, Error> {
        let process = self.process(entry.log)?;
        let call = (thread, entry.time);
        if let Some(known) = process.known_calls.arguments(call, options) {
            return Ok(known);
        }
        let state = self.state(entry)?;
        let registers = state.registers(Some(thread))?;
        let (pc, rsp) = (registers.pc(), registers.general[RSP]);
        let machine = state.machine(registers);
        let context = FrameContext {
            log: entry.log,
            time: entry.time,
            pc,
            machine: &machine,
            cfa: Some(rsp.wrapping_add(8)),
            entry: &UnknownEntry,
            level: None,
        };
        let scope = self.symbols().scope(&context);
        let arguments = self.symbols().arguments(&context);
        let arguments: Vec<Named> =
            arguments.iter().map(|variable| named(variable, &scope, options)).collect();
        process.known_calls.keep_arguments(call, options, &arguments);
        Ok(arguments)
    }
}

fn wrong(error: impl Into<EvaluationError>) -> Error {
    Error::Expression(error.into().to_string())
}

fn memory_of(value: &Value) -> Option<Range<u64>> {
    value.memory_range().map(|(address, len)| address..address.saturating_add(len))
}

fn named(variable: &Variable, scope: &dyn Scope, options: &FormatOptions) -> Named {
    Named {
        name: variable.name.to_string(),
        type_name: variable.value.ty.name().to_string(),
        value: variable.value.format(scope, options),
        is_parameter: variable.kind == VariableKind::Parameter,
        is_shadowed: variable.is_shadowed,
        memory: memory_of(&variable.value),
    }
}

fn evaluated(
    value: &Value,
    name: &str,
    scope: &dyn Scope,
    options: &FormatOptions,
    parts: &TreeOptions,
) -> Evaluated {
    Evaluated {
        text: value.format(scope, options),
        type_name: value.ty.name().to_string(),
        memory: memory_of(value),
        tree: value.tree(name, scope, parts),
    }
}
