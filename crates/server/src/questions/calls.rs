//! Calls of functions with what they were given and what they returned, and how calls and returns belong together.

use std::collections::BTreeSet;
use std::ops::Range;

use retro_query::symbols::{FrameScope, Kind, Scope, returned_value};
use retro_query::{Execution, Moment, Run, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Answer;
use super::search::{Search, search_params};
use super::stack::{Argument, argument_format};
use super::target::{Target, few_enough, functions_named};
use super::wire::{Address, Place, ProcessNumber, Time, moment, thread_at};
use crate::methods::Methods;
use crate::paging::Page;
use crate::service::CallContext;

/// General registers by the numbers of the log.
const RAX: usize = 0;

pub(super) fn add(methods: Methods<Run>) -> Methods<Run> {
    methods
        .add("locate.calls", "Calls of a function, with arguments and results.", calls)
        .add("locate.returns", "Returns from a function, with results.", returns)
        .add("call.return_of", "Where the call at a moment returns.", return_of)
        .add("call.call_of", "The call that the return at a moment belongs to.", call_of)
        .add("call.enclosing", "The call that a moment is within.", enclosing)
        .add("call.end", "Where the function of a moment returns.", end)
        .add("call.depth", "How many calls a moment is within.", depth)
}

search_params! {
    /// Parameters of `locate.calls`.
    struct CallsParams {
        /// The function, as for `symbols.functions`.
        function: Option<String>,
        /// Its first instruction, instead of a name.
        address: Option<Address>,
        /// Whether arguments are wanted; yes unless given.
        #[serde(default = "yes")]
        arguments: bool,
        /// Whether results are wanted.
        #[serde(default)]
        results: bool,
    }
}

fn yes() -> bool {
    true
}

/// A call.
#[derive(Debug, Serialize, JsonSchema)]
struct FoundCall {
    /// The moment in front of the function's first instruction.
    time: Time,
    /// The thread.
    thread: u32,
    /// The function's first instruction.
    pc: Place,
    /// The arguments, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<Vec<Argument>>,
    /// How it ended, if that was asked for and it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<CallEnd>,
}

/// The end of a call.
#[derive(Debug, Serialize, JsonSchema)]
struct CallEnd {
    /// The moment in front of the instruction that returns.
    time: Time,
    /// The result; absent if the function was left in another way than by returning.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<CallResult>,
}

/// What a function returned.
#[derive(Debug, Serialize, JsonSchema)]
struct CallResult {
    /// The register that most results are in.
    rax: Address,
    /// The type of the result, if it is known and the function returns something.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    type_name: Option<String>,
    /// The result, if the type is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
}

fn calls(run: &Run, params: CallsParams, context: &CallContext) -> Answer<Page<FoundCall>> {
    let search = params.search(run, context)?;
    let addresses = match (&params.function, params.address) {
        (Some(name), None) => {
            let mut functions = functions_named(run, search.asked(), name, search.context)?;
            functions.retain(|(function, _)| function.inlined_in.is_none());
            let mut entries: Vec<u64> =
                functions.iter().map(|(function, _)| function.entry).collect();
            entries.sort_unstable();
            entries.dedup();
            few_enough(entries.len())?;
            entries
        }
        (None, address) => Target { address, ..Target::default() }.addresses(
            run,
            search.asked(),
            search.context,
        )?,
        _ => return Err(super::failure::invalid("give \"function\" or \"address\"")),
    };
    let describe = |execution: Execution| {
        let Execution { time, thread, pc } = execution;
        let entry = Moment { log: search.asked().log, time };
        let arguments = match params.arguments {
            true => Some(run.arguments_at(entry, thread, &argument_format())?),
            false => None,
        };
        let end = match params.results {
            true => run.end_of_frame(entry, thread)?,
            false => None,
        };
        Ok(FoundCall {
            time: Time(time),
            thread,
            pc: Place::of(run.symbols(), entry, pc),
            arguments: arguments.map(|all| all.into_iter().map(Argument::from).collect()),
            end: end.map(|end| call_end(run, entry, end, thread)).transpose()?,
        })
    };
    if let (Some(nth), [address]) = (search.nth_of_all(), &addresses[..]) {
        let found =
            run.nth_execution(search.asked(), search.way(), *address, nth, search.cancel())?;
        return Ok(search.only(found.map(describe).transpose()?));
    }
    let found = run.executions(search.from(), search.way(), &addresses, search.cancel())?;
    search.page(found, describe)
}

/// What happens at the end of a frame.
fn call_end(run: &Run, entry: Moment, end: Moment, thread: u32) -> Answer<CallEnd> {
    let result = match run.returns_to_caller(entry, end, thread)? {
        true => Some(result(&run.state(end)?, thread)?),
        false => None,
    };
    Ok(CallEnd { time: Time(end.time), result })
}

/// What the function returns whose last instruction is next.
fn result(state: &State, thread: u32) -> Answer<CallResult> {
    let registers = state.registers(Some(thread))?;
    let rax = registers.general[RAX];
    let typed = state.stack(Some(thread), 1)?.with_scope(0, typed_result)?;
    let (type_name, value) = typed.unzip();
    Ok(CallResult { rax: Address(rax), type_name, value: value.flatten() })
}

/// The type of what a function returns, and the value as text if it can be told.
fn typed_result(scope: &FrameScope<'_>) -> Option<(String, Option<String>)> {
    let ty = scope.result_type()?;
    if matches!(ty.strip().kind(), Kind::Void) {
        return None;
    }
    let value = returned_value(&ty, scope.machine());
    let text = value.map(|value| value.format(scope, &argument_format()));
    Some((ty.name().to_string(), text))
}

search_params! {
    /// Parameters of `locate.returns`.
    struct ReturnsParams {
        /// The function, as for `symbols.functions`.
        function: String,
        /// Whether the moments of the calls are wanted.
        #[serde(default)]
        calls: bool,
    }
}

/// A return.
#[derive(Debug, Serialize, JsonSchema)]
struct FoundReturn {
    /// The moment in front of the instruction that returns.
    time: Time,
    /// The thread.
    thread: u32,
    /// The instruction.
    pc: Place,
    /// What is returned.
    result: CallResult,
    /// The moment in front of the call, if that was asked for and the run has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<Time>,
}

fn returns(run: &Run, params: ReturnsParams, context: &CallContext) -> Answer<Page<FoundReturn>> {
    let search = params.search(run, context)?;
    let addresses = return_instructions(&search, &params.function)?;
    let found = run.executions(search.from(), search.way(), &addresses, search.cancel())?;
    search.page(found, |Execution { time, thread, pc }| {
        let moment = Moment { log: search.asked().log, time };
        let state = run.state(moment)?;
        let call = match params.calls {
            true => run.call_of_return(moment, thread)?,
            false => None,
        };
        Ok(FoundReturn {
            time: Time(time),
            thread,
            pc: Place::of(run.symbols(), moment, pc),
            result: result(&state, thread)?,
            call: call.map(|call| Time(call.time)),
        })
    })
}

/// The instructions of a function that return, of those that were ever executed.
fn return_instructions(search: &Search<'_>, name: &str) -> Answer<Vec<u64>> {
    let run = search.run;
    let functions = functions_named(run, search.asked(), name, search.context)?;
    let functions = functions.iter().filter(|(function, _)| function.inlined_in.is_none());
    let mut addresses = Vec::new();
    for (function, mapped) in functions {
        let state = run.state(*mapped)?;
        for address in function.ranges.iter().flat_map(|range| ends_of_pieces(search, range)) {
            search.context.cancel().check()?;
            if !addresses.contains(&address) && state.is_return(address)? {
                addresses.push(address);
                few_enough(addresses.len())?;
            }
        }
    }
    Ok(addresses)
}

/// The last instructions of pieces of code that were executed within a range.
fn ends_of_pieces(search: &Search<'_>, range: &Range<u64>) -> BTreeSet<u64> {
    let mut ends = BTreeSet::new();
    for volume in &search.process.volumes {
        let numbers = volume.pieces.touching(range.start, range.end);
        for piece in numbers.into_iter().filter_map(|number| volume.pieces.get(number)) {
            ends.insert(piece.end() - u64::from(piece.lengths.last().copied().unwrap_or(0)));
        }
    }
    ends.retain(|end| range.contains(end));
    ends
}

/// Parameters of the methods about calls.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CallParams {
    process: ProcessNumber,
    time: Time,
    /// The thread; the one that runs unless given.
    thread: Option<u32>,
}

/// A moment of a thread.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ThreadMoment {
    /// The moment.
    pub time: Time,
    /// The thread.
    pub thread: u32,
    /// Its next instruction.
    pub pc: Place,
}

impl ThreadMoment {
    /// The moment as a thread sees it.
    pub fn of(run: &Run, moment: Moment, thread: u32) -> Answer<ThreadMoment> {
        let pc = run.registers(moment, Some(thread))?.pc();
        let pc = Place::of(run.symbols(), moment, pc);
        Ok(ThreadMoment { time: Time(moment.time), thread, pc })
    }
}

/// A moment that belongs to another, if the run has it.
type Belonging = Option<ThreadMoment>;

fn belonging(
    run: &Run,
    params: &CallParams,
    find: impl FnOnce(Moment, u32) -> Result<Option<Moment>, retro_query::Error>,
) -> Answer<Belonging> {
    let moment = moment(params.process, params.time);
    let thread = thread_at(run, moment, params.thread)?;
    let found = find(moment, thread)?;
    found.map(|moment| ThreadMoment::of(run, moment, thread)).transpose()
}

fn return_of(run: &Run, params: CallParams, _: &CallContext) -> Answer<Belonging> {
    belonging(run, &params, |moment, thread| run.return_of_call(moment, thread))
}

fn call_of(run: &Run, params: CallParams, _: &CallContext) -> Answer<Belonging> {
    belonging(run, &params, |moment, thread| run.call_of_return(moment, thread))
}

fn enclosing(run: &Run, params: CallParams, _: &CallContext) -> Answer<Belonging> {
    belonging(run, &params, |moment, thread| run.enclosing_call(moment, thread))
}

fn end(run: &Run, params: CallParams, _: &CallContext) -> Answer<Belonging> {
    belonging(run, &params, |moment, thread| run.end_of_frame(moment, thread))
}

/// How deep a moment is.
#[derive(Debug, Serialize, JsonSchema)]
struct Depth {
    /// The thread.
    thread: u32,
    /// Calls that have not returned, of those that the run has seen.
    depth: u64,
}

fn depth(run: &Run, params: CallParams, _: &CallContext) -> Answer<Depth> {
    let moment = moment(params.process, params.time);
    let thread = thread_at(run, moment, params.thread)?;
    Ok(Depth { thread, depth: run.depth(moment, thread)? })
}
