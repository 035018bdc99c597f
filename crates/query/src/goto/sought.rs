//! What is looked for, and the events of a window that are such.
//!
//! An event is known by little when it is found: its moment, its thread, mostly its instruction. What else a
//! condition or an answer needs is looked up later.

use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use retro_abi::log::MapKind;
use retro_abi::{signal_names, syscall_names};
use retro_index::events::{Row, RowClass, TimedRow};
use retro_index::set_tree::Keys;
use retro_replayer::Ending;

use super::branches::Branches;
use super::code::{Code, CodeFinder};
use super::names::Names;
use super::object::Object;
use super::walk::{Hint, Slice};
use super::{Bounds, FoundEvent, GotoContext};
use crate::address_space::MapChange;
use crate::language::{self, Event, EventKind, Occurrences, Pattern, Plan, Search};
use crate::locate::Read;
use crate::run::{Process, Run};
use crate::trace::{Trace, TracedBlock, Writer};
use crate::{Cancel, Error, Moment};

/// System calls have smaller numbers.
const SYSCALLS: u64 = 1024;

/// Signals have smaller numbers.
const SIGNALS: u32 = 65;

/// An event that may fit.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// The moment.
    pub(super) time: u64,
    pub(super) thread: u32,
    /// The instruction, if it is known already.
    pub(super) pc: Option<u64>,
    pub(super) event: Happening,
}

/// What happens, as far as it is known when it is found.
#[derive(Clone, Debug)]
pub(super) enum Happening {
    Executed,
    Stored { writes: Vec<(u64, Vec<u8>)>, by: Writer },
    Loaded { address: u64, len: u64 },
    Syscall { number: u64, args: [u64; 6] },
    Signal { number: u32, synchronous: bool, handler: u64 },
    Mapped(MapChange),
    ThreadStart,
    ThreadEnd { code: u32 },
}

/// What is known of code.
#[derive(Default)]
pub(super) struct Known {
    pub(super) names: Names,
    branches: Branches,
}

/// Which of the executed instructions count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    All,
    BlockEntries,
    LineStarts,
    FunctionEntries,
    Returns,
}

/// What is looked for.
pub(super) struct Sought {
    pub(super) kind: EventKind,
    what: What,
    /// Only instructions of this code.
    code: Option<Code>,
    /// Only these threads.
    threads: Option<Vec<u32>>,
    /// What a store or load is about, if that is a certain part of memory.
    pub(super) object: Option<Object>,
}

enum What {
    Executions(Rule),
    Writes,
    Reads,
    Rows { keys: Vec<Range<u64>>, mapping: Option<language::Mapping>, files: HashMap<u64, bool> },
}

impl Sought {
    /// What a search looks for.
    pub(super) fn of(
        run: &Run,
        search: &Search,
        bounds: &Bounds,
        context: &GotoContext,
        cancel: &Cancel,
    ) -> Result<Sought, Error> {
        let plan = search.plan();
        let mut sought = Sought {
            kind: search.event.kind(),
            what: what(&search.event),
            code: None,
            threads: plan.threads.clone(),
            object: None,
        };
        if let Event::Store(Some(location)) | Event::Load(Some(location)) = &search.event {
            sought.object = Some(Object::of(run, location, bounds, context)?);
        }
        sought.find_code(run, search, &plan, bounds, cancel)?;
        if let What::Rows { mapping: Some(language::Mapping::File(pattern)), files, .. } =
            &mut sought.what
        {
            *files = files_of(run, &bounds.process, pattern)?;
        }
        Ok(sought)
    }

    /// Finds the code that the operand or the context names.
    fn find_code(
        &mut self,
        run: &Run,
        search: &Search,
        plan: &Plan,
        bounds: &Bounds,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        let finder = || CodeFinder::new(run, &bounds.process, cancel);
        let names_code = match &plan.occurrences {
            Occurrences::Calls(callees) => {
                // What is entered at its first instruction needs no rule.
                self.what = What::Executions(Rule::All);
                Some(finder()?.entries(callees)?)
            }
            Occurrences::Returns(callees) => Some(finder()?.bodies(callees)?),
            Occurrences::Executions(places) => match &search.event {
                Event::Line(Some(source)) => {
                    self.what = What::Executions(Rule::All);
                    Some(finder()?.line_starts(source)?)
                }
                _ => Some(finder()?.places(places)?),
            },
            Occurrences::Writes(_) | Occurrences::Reads(_) => match &plan.within {
                Some(places) => Some(finder()?.places(places)?),
                None => None,
            },
            Occurrences::Listed(_) | Occurrences::Every(_) => None,
        };
        self.code = names_code;
        Ok(())
    }

    /// The address, if all that counts is that it is executed.
    pub(super) fn single_address(&self) -> Option<u64> {
        match self.what {
            What::Executions(Rule::All) => self.code.as_ref()?.single_address(),
            _ => None,
        }
    }

    /// What happens where an instruction is executed.
    pub(super) fn executed_event(&self) -> FoundEvent {
        match self.kind {
            EventKind::FunctionEnter => FoundEvent::FunctionEnter,
            EventKind::FunctionExit => FoundEvent::FunctionExit { result: None },
            EventKind::BlockEntry => FoundEvent::BlockEntry,
            EventKind::Line => FoundEvent::Line,
            _ => FoundEvent::Instruction,
        }
    }

    /// Which windows may have it.
    pub(super) fn hint(&self) -> Hint {
        let words =
            |object: &Object| Keys::from(object.memory.start / 8..object.memory.end.div_ceil(8));
        match (&self.what, &self.object, &self.code) {
            (What::Writes, Some(object), _) => Hint::Words(words(object)),
            (What::Reads, Some(object), _) => Hint::Reads(words(object)),
            (What::Rows { keys, .. }, ..) => Hint::Rows(keys.clone().into()),
            (_, _, Some(code)) => Hint::Code(code.clone()),
            (_, _, None) => Hint::None,
        }
    }

    /// Whether windows are looked at in slices: what needs a replay of its own is not.
    pub(super) fn is_sliced(&self) -> bool {
        matches!(self.what, What::Executions(_) | What::Writes)
    }

    /// Whether moments may be those before or after the instructions of a window.
    pub(super) fn is_listed(&self) -> bool {
        matches!(self.what, What::Rows { .. })
    }

    /// The events of a slice, in the order of time.
    pub(super) fn look(
        &self,
        run: &Run,
        process: &Process,
        known: &mut Known,
        slice: &Slice,
    ) -> Result<Vec<Candidate>, Error> {
        let mut found = match &self.what {
            What::Executions(rule) => {
                let trace = run.trace(process, slice.window(process))?;
                self.executions(*rule, run, process, known, &trace, slice.times.clone())?
            }
            What::Writes => {
                let trace = run.trace(process, slice.window(process))?;
                self.writes(&trace, slice.times.clone())
            }
            What::Reads => self.reads(run, process, slice)?,
            What::Rows { .. } => self.rows(run, process, slice)?,
        };
        if let Some(threads) = &self.threads {
            found.retain(|candidate| threads.contains(&candidate.thread));
        }
        Ok(found)
    }

    fn is_code(&self, pc: u64) -> bool {
        self.code.as_ref().is_none_or(|code| code.contains(pc))
    }

    fn executions(
        &self,
        rule: Rule,
        run: &Run,
        process: &Process,
        known: &mut Known,
        trace: &Trace,
        times: Range<u64>,
    ) -> Result<Vec<Candidate>, Error> {
        let mut found = Vec::new();
        let first = trace.block_with(times.start).map_or(times.start, |block| block.time);
        for block in trace.blocks_from(first).take_while(|block| block.time < times.end) {
            let end = block.pc_at(block.end());
            if self.code.as_ref().is_some_and(|code| !code.touches(block.pc, end)) {
                continue;
            }
            let thread = trace.thread_at(block.time);
            let mut take = |time: u64, pc: u64| {
                found.push(Candidate { time, thread, pc: Some(pc), event: Happening::Executed });
            };
            let is_meant = |time: u64, pc: u64| times.contains(&time) && self.is_code(pc);
            match rule {
                Rule::All | Rule::LineStarts => {
                    for (time, pc) in block.instructions() {
                        let mut starts_line =
                            || known.names.at(run.symbols(), process.log, time, pc).starts_line;
                        if is_meant(time, pc) && (rule == Rule::All || starts_line()) {
                            take(time, pc);
                        }
                    }
                }
                Rule::Returns => {
                    let last = block.end() - 1;
                    let pc = block.pc_at(last);
                    if block.ending == Ending::Return && is_meant(last, pc) {
                        take(last, pc);
                    }
                }
                Rule::BlockEntries => {
                    if is_meant(block.time, block.pc)
                        && !matches!(arrival(run, process, trace, &block, thread)?, Arrival::Next)
                    {
                        take(block.time, block.pc);
                    }
                    let behind_first = || block.instructions().skip(1);
                    if !behind_first().any(|(time, pc)| is_meant(time, pc)) {
                        continue;
                    }
                    let jumps = known.branches.of(run, process, &block)?;
                    for ((time, pc), _) in behind_first().zip(&*jumps).filter(|(_, jumps)| **jumps)
                    {
                        if is_meant(time, pc) {
                            take(time, pc);
                        }
                    }
                }
                Rule::FunctionEntries => {
                    if !is_meant(block.time, block.pc) {
                        continue;
                    }
                    let names = &mut known.names;
                    let enters = match arrival(run, process, trace, &block, thread)? {
                        Arrival::Next => false,
                        Arrival::Call => true,
                        // Functions also end by jumping to others.
                        Arrival::Elsewhere => {
                            let symbols = run.symbols();
                            names.at(symbols, process.log, block.time, block.pc).starts_function
                        }
                    };
                    if enters {
                        take(block.time, block.pc);
                    }
                }
            }
        }
        Ok(found)
    }

    fn writes(&self, trace: &Trace, times: Range<u64>) -> Vec<Candidate> {
        let memory = self.object.as_ref().map_or(0..u64::MAX, |object| object.memory.clone());
        let mut all: Vec<_> = trace.writes(memory, times).collect();
        // What the kernel wrote can come behind what was written after it.
        all.sort_by_key(|write| write.time);
        let same_instruction = all.chunk_by(|first, second| first.time == second.time);
        same_instruction
            .filter_map(|writes| {
                let first = writes.first()?;
                let pc = trace.block_with(first.time).map(|block| block.pc_at(first.time));
                if !pc.is_some_and(|pc| self.is_code(pc)) && self.code.is_some() {
                    return None;
                }
                let stored = writes.iter().map(|write| (write.address, write.value.to_vec()));
                Some(Candidate {
                    time: first.time,
                    thread: trace.thread_at(first.time),
                    pc,
                    event: Happening::Stored { writes: stored.collect(), by: first.by },
                })
            })
            .collect()
    }

    fn reads(&self, run: &Run, process: &Process, slice: &Slice) -> Result<Vec<Candidate>, Error> {
        let memory = self.object.as_ref().map_or(0..u64::MAX, |object| object.memory.clone());
        let reads = run.reads_in(process, slice.window(process), &memory, &slice.times)?;
        let meant = reads.into_iter().filter(|read| self.is_code(read.pc));
        Ok(meant
            .map(|Read { time, thread, pc, address, len }| Candidate {
                time,
                thread,
                pc: Some(pc),
                event: Happening::Loaded { address, len },
            })
            .collect())
    }

    fn rows(&self, run: &Run, process: &Process, slice: &Slice) -> Result<Vec<Candidate>, Error> {
        let mut found = Vec::new();
        let place = slice.window(process);
        for row in place.volume.rows.rows(place.window)? {
            if let Some(candidate) = self.row(run, process, row)? {
                found.push(candidate);
            }
        }
        found.sort_by_key(|candidate| candidate.time);
        Ok(found)
    }

    /// The event that a row tells of, if it is looked for.
    fn row(&self, run: &Run, process: &Process, row: TimedRow) -> Result<Option<Candidate>, Error> {
        let What::Rows { keys, mapping, files } = &self.what else { return Ok(None) };
        let is_kind = |key: u64| keys.iter().any(|range| range.contains(&key));
        if !row.row.key().is_some_and(is_kind) {
            return Ok(None);
        }
        // The kernel's part comes behind the instruction.
        let before = row.time.saturating_sub(1).max(process.start);
        let (time, thread, event) = match row.row {
            Row::SyscallEnter { number, args } => {
                (before, row.thread, Happening::Syscall { number, args })
            }
            Row::Signal { number, synchronous, handler, .. } => {
                (row.time, row.thread, Happening::Signal { number, synchronous, handler })
            }
            Row::ThreadStart { thread } => (row.time, thread, Happening::ThreadStart),
            Row::ThreadEnd { thread, code } => (row.time, thread, Happening::ThreadEnd { code }),
            Row::Map { kind, start, len, prot, flags, file, offset } => {
                let time = row.time;
                let change = MapChange { time, kind, start, len, prot, flags, file, offset };
                if !is_mapping(run, process, mapping.as_ref(), files, &change)? {
                    return Ok(None);
                }
                (before, row.thread, Happening::Mapped(change))
            }
            _ => return Ok(None),
        };
        Ok(Some(Candidate { time, thread, pc: None, event }))
    }
}

fn what(event: &Event) -> What {
    let all = |class: RowClass| vec![class.keys()];
    let rows = |keys: Vec<Range<u64>>| What::Rows { keys, mapping: None, files: HashMap::new() };
    match event {
        Event::FunctionEnter(_) => What::Executions(Rule::FunctionEntries),
        Event::FunctionExit(_) => What::Executions(Rule::Returns),
        Event::BlockEntry(_) => What::Executions(Rule::BlockEntries),
        Event::Instruction(_) => What::Executions(Rule::All),
        Event::Line(_) => What::Executions(Rule::LineStarts),
        Event::Store(_) => What::Writes,
        Event::Load(_) => What::Reads,
        Event::Syscall(None) => rows(all(RowClass::Syscall)),
        Event::Syscall(Some(pattern)) => rows(named(
            RowClass::Syscall,
            (0..SYSCALLS).filter_map(|number| Some((number, syscall_names::name(number)?))),
            pattern,
        )),
        Event::Signal(None) => rows(all(RowClass::Signal)),
        Event::Signal(Some(pattern)) => rows(named(
            RowClass::Signal,
            (0..SIGNALS).filter_map(|number| Some((number.into(), signal_names::name(number)?))),
            pattern,
        )),
        Event::Map(mapping) => {
            What::Rows { keys: all(RowClass::Map), mapping: mapping.clone(), files: HashMap::new() }
        }
        Event::ThreadStart => rows(all(RowClass::ThreadStart)),
        Event::ThreadEnd => rows(all(RowClass::ThreadEnd)),
    }
}

/// Keys of the numbers whose names match.
fn named(
    class: RowClass,
    names: impl Iterator<Item = (u64, &'static str)>,
    pattern: &Pattern,
) -> Vec<Range<u64>> {
    let numbers = names.filter(|(_, name)| pattern.matches(name)).map(|(number, _)| number);
    numbers.map(|number| class.key(number)..class.key(number) + 1).collect()
}

/// How a thread came to the first instruction of a block.
enum Arrival {
    /// It is just the next one.
    Next,
    Call,
    /// Behind a jump, a return or a system call, at the start of a thread or of a handler.
    Elsewhere,
}

fn arrival(
    run: &Run,
    process: &Process,
    trace: &Trace,
    block: &TracedBlock<'_>,
    thread: u32,
) -> Result<Arrival, Error> {
    let of = |before: &TracedBlock<'_>| match before.ending {
        Ending::Call => Arrival::Call,
        Ending::Next if before.pc_at(before.end()) == block.pc => Arrival::Next,
        _ => Arrival::Elsewhere,
    };
    let just_before = trace.blocks_before(block.time).next();
    if let Some(before) = just_before.filter(|before| trace.thread_at(before.time) == thread) {
        return Ok(of(&before));
    }
    let Some(last) = run.previous_of_thread(process, thread, block.time)? else {
        return Ok(Arrival::Elsewhere);
    };
    let earlier: Arc<Trace> = run.trace(process, process.window_of(last)?)?;
    Ok(earlier.block_with(last).map_or(Arrival::Elsewhere, |before| of(&before)))
}

/// Which files of a process have such a name.
fn files_of(run: &Run, process: &Process, pattern: &Pattern) -> Result<HashMap<u64, bool>, Error> {
    let mut files = HashMap::new();
    let visit = |_, event: &retro_abi::log::Event<'_>| {
        if let retro_abi::log::Event::File { number, path, .. } = *event {
            files.insert(number, pattern.matches_path(&String::from_utf8_lossy(path)));
        }
        ControlFlow::<()>::Continue(())
    };
    let stream = retro_abi::channel::Stream::Code;
    let _ = run.recording().for_each_event(process.log, stream, visit)?;
    Ok(files)
}

/// Whether a change of the address space is one that is looked for.
fn is_mapping(
    run: &Run,
    process: &Process,
    wanted: Option<&language::Mapping>,
    files: &HashMap<u64, bool>,
    change: &MapChange,
) -> Result<bool, Error> {
    let end = change.start.saturating_add(change.len);
    match wanted {
        None => Ok(true),
        Some(language::Mapping::Bytes(bytes)) => {
            Ok(bytes.address < end && change.start < bytes.address.saturating_add(bytes.length))
        }
        Some(language::Mapping::File(pattern)) => {
            // Files have numbers from 1 on here.
            let of_file =
                |file: u64| file.checked_sub(1).and_then(|file| files.get(&file).copied());
            if change.kind == MapKind::Map {
                return Ok(of_file(change.file) == Some(true));
            }
            let time = change.time.saturating_sub(1).max(process.start);
            let maps = run.maps(Moment { log: process.log, time })?;
            let from = if change.kind == MapKind::Move { change.offset } else { change.start };
            let until = from.saturating_add(change.len);
            Ok(maps.iter().any(|mapping| {
                let file = mapping.file.as_ref().map(|path| path.to_string_lossy());
                mapping.start < until
                    && from < mapping.end
                    && file.is_some_and(|path| pattern.matches_path(&path))
            }))
        }
    }
}
