//! Moving through time: steps, and the language of `goto`.

use retro_query::language::{self, Query};
use retro_query::{Calls, Found, FoundEvent, Goto, GotoContext, Moment, Run, Unit, Writer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Answer;
use super::calls::ThreadMoment;
use super::failure::{at_most, invalid};
use super::state::WriterKind;
use super::wire::{
    Address, Direction, Place, ProcessNumber, SyscallName, Time, hex, moment, thread_at,
};
use crate::methods::Methods;
use crate::paging::{Page, PageRequest};
use crate::service::{CallContext, MethodError};

/// Steps that are made at once.
const STEPS_LIMIT: u32 = 10_000;

/// Events that may come before a page.
const SKIPPED_LIMIT: u64 = 1_000_000;

/// Bytes of values that are shown.
const VALUE_LIMIT: usize = 256;

pub(super) fn add(methods: Methods<Run>) -> Methods<Run> {
    methods
        .add(
            "step",
            "Steps of a thread, by instructions or lines, into, over or out of calls.",
            step,
        )
        .add("goto", "Where a query in the language of `goto` leads to.", goto)
}

/// Parameters of `step`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StepParams {
    process: ProcessNumber,
    time: Time,
    /// The thread; the one that runs unless given.
    thread: Option<u32>,
    /// How far a step goes; `line` unless given.
    #[serde(default)]
    unit: StepUnit,
    /// What it does with calls; `over` unless given.
    #[serde(default)]
    calls: StepCalls,
    /// Which way; `forward` unless given.
    #[serde(default)]
    direction: Direction,
    /// How many steps: 1 unless given, at most 10,000.
    #[schemars(range(min = 1, max = 10_000))]
    count: Option<u32>,
}

/// How far a step goes.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum StepUnit {
    /// One instruction.
    Instruction,
    /// To another source line.
    #[default]
    Line,
}

/// What a step does with calls.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum StepCalls {
    /// Goes into them.
    Into,
    /// Passes over them.
    #[default]
    Over,
    /// Goes out of the function: to its caller, or backwards to its call.
    Out,
}

/// Where steps lead to.
#[derive(Debug, Serialize, JsonSchema)]
struct Stepped {
    #[serde(flatten)]
    moment: ThreadMoment,
    /// How many steps there were: fewer than asked for where the run ends, or begins.
    steps: u32,
}

fn step(run: &Run, params: StepParams, context: &CallContext) -> Answer<Stepped> {
    let count = params.count.unwrap_or(1);
    at_most("count", count.into(), STEPS_LIMIT.into())?;
    let unit = match params.unit {
        StepUnit::Instruction => Unit::Instruction,
        StepUnit::Line => Unit::Line,
    };
    let calls = match params.calls {
        StepCalls::Into => Calls::Into,
        StepCalls::Over => Calls::Over,
        StepCalls::Out => Calls::Out,
    };
    let mut moment = moment(params.process, params.time);
    let thread = thread_at(run, moment, params.thread)?;
    let mut steps = 0;
    while steps < count {
        context.cancel().check()?;
        context.progress(steps.into(), Some(count.into()));
        let flag = context.cancel().flag();
        match run.step(moment, thread, unit, calls, params.direction.into(), flag)? {
            Some(next) => moment = next,
            None => break,
        }
        steps += 1;
    }
    Ok(Stepped { moment: ThreadMoment::of(run, moment, thread)?, steps })
}

/// Parameters of `goto`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GotoParams {
    process: ProcessNumber,
    /// What `now` means.
    time: Time,
    /// The query, as docs/query-language.md describes it.
    query: String,
    /// What `last` means.
    last: Option<Time>,
    /// The thread that variables of a search from `now` are those of; the one that runs unless given.
    thread: Option<u32>,
    /// Its frame, 0 for the innermost.
    #[serde(default)]
    frame: u32,
    /// Of a query for `all`, items of a page: 100 unless given, at most 10,000.
    limit: Option<u32>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// A moment that a query leads to.
#[derive(Debug, Serialize, JsonSchema)]
struct FoundMoment {
    /// The moment: right before the instruction.
    time: Time,
    /// The thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<u32>,
    /// The instruction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pc: Option<Place>,
    /// What happens there.
    event: EventInfo,
}

/// What happens at a moment.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum EventInfo {
    /// Whatever: the query asked for a time.
    Moment,
    /// A function is entered.
    FuncEnter,
    /// A function is about to return.
    FuncExit {
        /// What it returns, if that is a number.
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<String>,
    },
    /// A basic block begins.
    BlockEntry,
    /// An instruction is next.
    Instruction,
    /// A line begins.
    Line,
    /// Memory is about to be written.
    Store {
        /// Where.
        address: Address,
        /// How many bytes.
        length: u64,
        /// The bytes before, in hexadecimal; the first 256.
        old: String,
        /// The bytes after.
        new: String,
        /// The value before, as a number of the variable's type.
        #[serde(skip_serializing_if = "Option::is_none")]
        old_value: Option<String>,
        /// The value after.
        #[serde(skip_serializing_if = "Option::is_none")]
        new_value: Option<String>,
        /// Who writes.
        by: WriterKind,
    },
    /// Memory is about to be read.
    Load {
        /// Where.
        address: Address,
        /// How many bytes.
        length: u64,
    },
    /// A system call is about to be made.
    Syscall {
        #[serde(flatten)]
        syscall: SyscallName,
        /// The registers that arguments are in.
        arguments: [Address; 6],
        /// What it returns, if it does.
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<String>,
    },
    /// A signal arrives.
    Signal {
        /// Its number.
        number: u32,
        /// Its name.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'static str>,
        /// Whether an instruction caused it.
        is_synchronous: bool,
        /// Its handler; 0 if it ends the process.
        handler: Address,
    },
    /// The address space is about to change.
    Map {
        /// The first address.
        start: Address,
        /// The address behind it.
        end: Address,
    },
    /// The thread begins.
    ThreadStart,
    /// The thread ends.
    ThreadEnd {
        /// With this status.
        status: u32,
    },
}

fn goto(run: &Run, params: GotoParams, context: &CallContext) -> Answer<Page<FoundMoment>> {
    at_most("frame", params.frame.into(), retro_query::FRAMES_LIMIT as u64)?;
    let pager = context.pager(&PageRequest { limit: params.limit, cursor: params.cursor })?;
    let skipped: u64 = pager.start.unwrap_or(0);
    if skipped > SKIPPED_LIMIT {
        return Err(invalid("there are too many to list: begin a new query where this page ends"));
    }
    let Moment { log, time } = moment(params.process, params.time);
    run.process(log)?.volume_of(time)?;
    let query: Query = params.query.parse().map_err(|error: language::ParseError| {
        MethodError::Failed { kind: "bad_query", message: error.to_string() }
    })?;
    let place = GotoContext {
        log,
        now: time,
        last: params.last.map(|last| last.0),
        thread: params.thread,
        frame: params.frame as usize,
    };
    match run.goto(&query, &place, context.cancel().flag())? {
        Goto::Moment(moment) => {
            let only = FoundMoment {
                time: Time(moment.time),
                thread: None,
                pc: None,
                event: EventInfo::Moment,
            };
            Ok(pager.page(vec![only], None))
        }
        Goto::Found(found) => {
            Ok(pager.page(found.map(|found| describe(run, log, found)).into_iter().collect(), None))
        }
        Goto::All(matches) => {
            let mut items = Vec::new();
            for (number, found) in (0..).zip(matches) {
                let found = found?;
                context.progress(found.time.abs_diff(time), None);
                if number >= skipped {
                    items.push(describe(run, log, found));
                }
                if items.len() == pager.limit {
                    let next = skipped + items.len() as u64;
                    return Ok(pager.page(items, Some(&next)));
                }
            }
            Ok(pager.page(items, None))
        }
    }
}

fn describe(run: &Run, log: u64, found: Found) -> FoundMoment {
    let moment = Moment { log, time: found.time };
    FoundMoment {
        time: Time(found.time),
        thread: Some(found.thread),
        pc: (found.pc != 0).then(|| Place::of(run.symbols(), moment, found.pc)),
        event: EventInfo::from(found.event),
    }
}

impl From<FoundEvent> for EventInfo {
    fn from(event: FoundEvent) -> EventInfo {
        match event {
            FoundEvent::FunctionEnter => EventInfo::FuncEnter,
            FoundEvent::FunctionExit { result } => {
                EventInfo::FuncExit { result: result.map(text_of) }
            }
            FoundEvent::BlockEntry => EventInfo::BlockEntry,
            FoundEvent::Instruction => EventInfo::Instruction,
            FoundEvent::Line => EventInfo::Line,
            FoundEvent::Store { memory, old, new, by, old_value, new_value } => EventInfo::Store {
                address: Address(memory.start),
                length: memory.end - memory.start,
                old: shown(&old),
                new: shown(&new),
                old_value: old_value.map(text_of),
                new_value: new_value.map(text_of),
                by: match by {
                    Writer::Instruction => WriterKind::Instruction,
                    Writer::Kernel => WriterKind::Kernel,
                },
            },
            FoundEvent::Load { address, len } => {
                EventInfo::Load { address: Address(address), length: len }
            }
            FoundEvent::Syscall { number, args, result } => EventInfo::Syscall {
                syscall: SyscallName::of(number),
                arguments: args.map(Address),
                result: result.map(|result| result.to_string()),
            },
            FoundEvent::Signal { number, synchronous, handler } => EventInfo::Signal {
                number,
                name: retro_abi::signal_names::name(number),
                is_synchronous: synchronous,
                handler: Address(handler),
            },
            FoundEvent::Map(change) => EventInfo::Map {
                start: Address(change.start),
                end: Address(change.start.saturating_add(change.len)),
            },
            FoundEvent::ThreadStart => EventInfo::ThreadStart,
            FoundEvent::ThreadEnd { code } => EventInfo::ThreadEnd { status: code },
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    hex(&bytes[..bytes.len().min(VALUE_LIMIT)])
}

fn text_of(value: language::Value) -> String {
    match value {
        language::Value::Integer(number) => number.to_string(),
        language::Value::Float(number) => number.to_string(),
        language::Value::Text(text) => text,
    }
}
