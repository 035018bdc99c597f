//! Where memory was written and code executed.

use std::ops::Range;

use retro_query::{Execution, Moment, Run, Write};
use schemars::JsonSchema;
use serde::Serialize;

use super::Answer;
use super::failure::{at_most, invalid};
use super::search::{Search, search_params};
use super::state::{WriteOrigin, memory_range};
use super::target::Target;
use super::wire::{Address, Place, Time, hex};
use crate::methods::Methods;
use crate::paging::Page;
use crate::service::CallContext;

/// Bytes of a written value that are shown.
const VALUE_LIMIT: usize = 256;

pub(super) fn add(methods: Methods<Run>) -> Methods<Run> {
    methods.add("locate.writes", "Writes to memory, by the program and by the kernel.", writes).add(
        "locate.executions",
        "Executions of an instruction, a function's first one, or a line.",
        executions,
    )
}

search_params! {
    /// Parameters of `locate.writes`: a range of memory, or an expression that names one.
    struct WritesParams {
        /// The first byte.
        address: Option<Address>,
        /// How many bytes; 1 unless given.
        length: Option<u64>,
        /// An expression, instead of an address: the memory that it names at the moment where the search begins.
        expression: Option<String>,
        /// The frame that the expression is evaluated in, 0 for the innermost of `thread`, or of the one that runs.
        #[serde(default)]
        frame: u32,
    }
}

/// A write.
#[derive(Debug, Serialize, JsonSchema)]
struct FoundWrite {
    /// Where it wrote.
    address: Address,
    /// How many bytes.
    length: u64,
    /// What it wrote: the bytes in hexadecimal, the first 256 of them.
    value: String,
    #[serde(flatten)]
    origin: WriteOrigin,
}

fn writes(run: &Run, params: WritesParams, context: &CallContext) -> Answer<Page<FoundWrite>> {
    let search = params.search(run, context)?;
    let memory = memory_of(&search, &params)?;
    let found = run.writes(search.from(), search.way(), memory, search.cancel())?;
    search.page(found, |write: Write| {
        Ok(FoundWrite {
            address: Address(write.address),
            length: write.value.len() as u64,
            value: hex(&write.value[..write.value.len().min(VALUE_LIMIT)]),
            origin: WriteOrigin::of(run, search.asked().log, &write),
        })
    })
}

fn memory_of(search: &Search<'_>, params: &WritesParams) -> Answer<Range<u64>> {
    match (params.address, &params.expression) {
        (Some(address), None) => memory_range(address, params.length.unwrap_or(1)),
        (None, Some(expression)) if params.length.is_none() => {
            at_most("frame", params.frame.into(), retro_query::FRAMES_LIMIT as u64)?;
            let state = search.run.state(search.asked())?;
            let stack = state.stack(params.thread, params.frame as usize + 1)?;
            Ok(stack.memory_of(params.frame as usize, expression)?)
        }
        _ => Err(invalid("give \"address\", with \"length\" if you like, or \"expression\"")),
    }
}

search_params! {
    /// Parameters of `locate.executions`: an address, a function, or a file and a line.
    struct ExecutionsParams {
        /// The instruction.
        address: Option<Address>,
        /// The function, whose first instruction is meant; as for `symbols.functions`.
        function: Option<String>,
        /// The file, by its path or the last parts of it.
        file: Option<String>,
        /// The line, whose first instructions are meant; if it has no code, the next one that has.
        line: Option<u32>,
    }
}

/// An instruction that was executed.
#[derive(Debug, Serialize, JsonSchema)]
struct FoundExecution {
    /// The moment right before it.
    time: Time,
    /// The thread.
    thread: u32,
    /// The instruction.
    pc: Place,
}

fn executions(
    run: &Run,
    params: ExecutionsParams,
    context: &CallContext,
) -> Answer<Page<FoundExecution>> {
    let search = params.search(run, context)?;
    let target = Target {
        address: params.address,
        function: params.function.as_deref(),
        file: params.file.as_deref(),
        line: params.line,
    };
    let addresses = target.addresses(run, search.asked(), search.context)?;
    let describe = |execution: Execution| {
        let moment = Moment { log: search.asked().log, time: execution.time };
        Ok(FoundExecution {
            time: Time(execution.time),
            thread: execution.thread,
            pc: Place::of(run.symbols(), moment, execution.pc),
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
