//! How often code was executed: lines of a file up to a moment, and lines of one invocation of a function.

use std::collections::{BTreeMap, BTreeSet};

use retro_query::symbols::LineCode;
use retro_query::{Moment, Run};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Answer;
use super::failure::{at_most, invalid};
use super::target::{Target, check_name, functions_named};
use super::wire::{Address, ProcessNumber, Time, moment, thread_at};
use crate::methods::Methods;
use crate::service::CallContext;

/// Lines that are counted at once.
const LINES_LIMIT: u32 = 2000;

/// Addresses that are counted at once: a line of a template may be everywhere.
const ADDRESSES_LIMIT: usize = 4000;

pub(super) fn add(methods: Methods<Run>) -> Methods<Run> {
    methods
        .add(
            "executions.count",
            "How often an instruction, a function or a line was executed, without looking for each time.",
            count,
        )
        .add("lines.counts", "How often each line of a file was executed.", line_counts)
        .add(
            "call.lines",
            "The lines that one invocation of a function executed, without what it called.",
            call_lines,
        )
}

/// Parameters of `executions.count`: an address, a function, or a file and a line.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CountParams {
    process: ProcessNumber,
    time: Time,
    /// The instruction.
    address: Option<Address>,
    /// The function, whose first instruction is meant; as for `symbols.functions`.
    function: Option<String>,
    /// The file, by its path or the last parts of it.
    file: Option<String>,
    /// The line, whose first instructions are meant; if it has no code, the next one that has.
    line: Option<u32>,
}

/// How often something was executed.
#[derive(Debug, Serialize, JsonSchema)]
struct ExecutionCount {
    /// Before the moment.
    before: u64,
    /// In the whole run.
    total: u64,
    /// The instructions that are counted.
    addresses: Vec<Address>,
}

fn count(run: &Run, params: CountParams, context: &CallContext) -> Answer<ExecutionCount> {
    let now = moment(params.process, params.time);
    run.process(now.log)?.volume_of(now.time)?;
    let target = Target {
        address: params.address,
        function: params.function.as_deref(),
        file: params.file.as_deref(),
        line: params.line,
    };
    let addresses = target.addresses(run, now, context)?;
    let counts = counts(run, now, &addresses, context)?;
    Ok(ExecutionCount {
        before: counts.iter().map(|(before, _)| before).sum(),
        total: counts.iter().map(|(_, total)| total).sum(),
        addresses: addresses.into_iter().map(Address).collect(),
    })
}

/// How often each address was executed before a moment, and in the whole run.
fn counts(
    run: &Run,
    now: Moment,
    addresses: &[u64],
    context: &CallContext,
) -> Answer<Vec<(u64, u64)>> {
    let process = run.process(now.log)?;
    let end = Moment { time: process.end, ..now };
    let cancel = context.cancel().flag();
    let before = run.counts_before(now, addresses, cancel)?;
    let total = run.counts_before(end, addresses, cancel)?;
    Ok(before.into_iter().zip(total).collect())
}

/// Parameters of `lines.counts`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LineCountsParams {
    process: ProcessNumber,
    time: Time,
    /// The file, by its path or the last parts of it.
    file: String,
    /// The first line, from 1 on.
    first: u32,
    /// How many lines: 200 unless given, at most 2000.
    #[schemars(range(min = 1, max = 2000))]
    count: Option<u32>,
}

/// How often a line was executed: as often as the piece of its code that was executed most, in each function that has it.
#[derive(Debug, Serialize, JsonSchema)]
struct LineCount {
    /// The line.
    line: u32,
    /// Before the moment.
    before: u64,
    /// In the whole run.
    total: u64,
}

fn line_counts(
    run: &Run,
    params: LineCountsParams,
    context: &CallContext,
) -> Answer<Vec<LineCount>> {
    check_name(&params.file)?;
    let lines = params.count.unwrap_or(200);
    at_most("count", lines.into(), LINES_LIMIT.into())?;
    let now = moment(params.process, params.time);
    run.process(now.log)?.volume_of(now.time)?;
    let range = params.first..params.first.saturating_add(lines);
    let code: Vec<LineCode> = run.symbols().code_of_lines(now.log, now.time, &params.file, range);
    let mut of_lines: BTreeMap<u32, BTreeSet<Vec<u64>>> = BTreeMap::new();
    for code in code {
        of_lines.entry(code.source.line).or_default().insert(code.entries);
    }
    let mut addresses: Vec<u64> = of_lines.values().flatten().flatten().copied().collect();
    addresses.sort_unstable();
    addresses.dedup();
    if addresses.len() > ADDRESSES_LIMIT {
        return Err(invalid(format!(
            "these lines have code at {} addresses: ask for fewer lines",
            addresses.len()
        )));
    }
    let counted = counts(run, now, &addresses, context)?;
    let of_address: BTreeMap<u64, (u64, u64)> = addresses.into_iter().zip(counted).collect();
    let counted = of_lines.into_iter().map(|(line, functions)| {
        let of_function = |entries: &Vec<u64>| most_executed(entries, &of_address);
        let counts = functions.iter().map(of_function);
        let (before, total) = counts.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
        LineCount { line, before, total }
    });
    Ok(counted.collect())
}

/// How often a function executed a line whose code may be in several pieces: most often they follow each other, so that all of
/// them together are one execution.
fn most_executed(entries: &[u64], counts: &BTreeMap<u64, (u64, u64)>) -> (u64, u64) {
    let counts = entries.iter().filter_map(|entry| counts.get(entry));
    counts.copied().max_by_key(|(_, total)| *total).unwrap_or_default()
}

/// Parameters of `call.lines`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CallLinesParams {
    process: ProcessNumber,
    time: Time,
    /// The thread; the one that runs unless given.
    thread: Option<u32>,
    /// The frame of its call stack, 0 for the innermost. Where code is inlined, the function that it stands in is meant.
    #[serde(default)]
    frame: u32,
}

/// What an invocation of a function executed.
#[derive(Debug, Serialize, JsonSchema)]
struct InvocationLines {
    /// The moment in front of its first instruction.
    from: Time,
    /// The moment behind its last one; the end of the run if it never ended.
    to: Time,
    /// Whether other invocations of the function, further in, are certainly not counted.
    is_exact: bool,
    /// The lines.
    lines: Vec<InvocationLine>,
}

/// A line that was executed.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct InvocationLine {
    /// The file.
    path: String,
    /// The line.
    line: u32,
    /// How often.
    count: u64,
}

fn call_lines(
    run: &Run,
    params: CallLinesParams,
    context: &CallContext,
) -> Answer<Option<InvocationLines>> {
    at_most("frame", params.frame.into(), retro_query::FRAMES_LIMIT as u64)?;
    let now = moment(params.process, params.time);
    let thread = thread_at(run, now, params.thread)?;
    let state = run.state(now)?;
    let stack = state.stack(Some(thread), params.frame as usize + FRAMES_AROUND)?;
    let real = stack.frames().iter().enumerate().skip(params.frame as usize);
    let mut real = real.filter(|(_, frame)| !frame.is_inlined && !frame.is_signal_frame);
    let Some((index, frame)) = real.next() else { return Ok(None) };
    let entry = stack.entry(index, context.cancel().flag())?;
    // The first function was not called by any.
    let start = Moment { time: run.process(now.log)?.start, ..now };
    let entry = entry.unwrap_or(start);
    let code = match &frame.function {
        Some(name) => functions_named(run, now, name, context).unwrap_or_default(),
        None => Vec::new(),
    };
    let code = code.into_iter().map(|(function, _)| function.ranges);
    let code = code.filter(|ranges| ranges.iter().any(|range| range.contains(&frame.lookup)));
    let code = code.flatten().collect::<Vec<_>>();
    let invocation = run.invocation(entry, thread, &code, context.cancel().flag())?;
    let mut lines: BTreeMap<(String, u32), u64> = BTreeMap::new();
    for (&pc, &count) in &invocation.counts {
        context.cancel().check()?;
        if let Some(source) = run.symbols().source_of(now.log, now.time, pc) {
            let known = lines.entry((source.path.to_string(), source.line)).or_default();
            *known = count.max(*known);
        }
    }
    let lines = lines.into_iter();
    Ok(Some(InvocationLines {
        from: Time(invocation.from),
        to: Time(invocation.to),
        is_exact: invocation.is_exact,
        lines: lines.map(|((path, line), count)| InvocationLine { path, line, count }).collect(),
    }))
}

/// Frames in which the function of an inlined one is looked for.
const FRAMES_AROUND: usize = 64;
