//! The run as a whole: which thread ran when, and what threads are called.

use std::collections::BTreeMap;

use retro_query::{Direction, Moment, Row, RowClass, RowFilter, Run};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Answer;
use super::failure::{at_most, invalid};
use super::wire::{ProcessNumber, Time};
use crate::methods::Methods;
use crate::service::CallContext;

/// Parts that a stretch of time can be divided into.
const PARTS_LIMIT: u32 = 4096;

/// Threads and names that are told; a run may have had any number.
const THREADS_LIMIT: usize = 1000;

pub(super) fn add(methods: Methods<Run>) -> Methods<Run> {
    methods
        .add(
            "run.activity",
            "Which threads ran when, and how many system calls they made.",
            activity,
        )
        .add("thread.names", "What threads called themselves, and when.", names)
}

/// Parameters of `run.activity`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ActivityParams {
    process: ProcessNumber,
    /// Where to begin; at the start of the process unless given.
    from: Option<Time>,
    /// Where to end; at the end of the process unless given.
    to: Option<Time>,
    /// Into how many parts of equal length the time is divided: 200 unless given, at most 4096.
    #[schemars(range(min = 1, max = 4096))]
    parts: Option<u32>,
}

/// Which threads ran when.
#[derive(Debug, Serialize, JsonSchema)]
struct Activity {
    /// Where it begins.
    from: Time,
    /// Where it ends.
    to: Time,
    /// The threads, in the order in which they ran first.
    threads: Vec<ThreadActivity>,
    /// Whether there are more threads than are told.
    is_cut: bool,
}

/// What a thread did.
#[derive(Debug, Serialize, JsonSchema)]
struct ThreadActivity {
    /// The thread.
    thread: u32,
    /// The instructions that it executed in each part.
    instructions: Vec<u64>,
    /// The system calls that it made in each part.
    syscalls: Vec<u64>,
}

fn activity(run: &Run, params: ActivityParams, context: &CallContext) -> Answer<Activity> {
    let parts = params.parts.unwrap_or(200);
    at_most("parts", parts.into(), PARTS_LIMIT.into())?;
    let log = params.process.0;
    let process = run.process(log)?;
    let from = params.from.map_or(process.start, |time| time.0);
    let to = params.to.map_or(process.end, |time| time.0);
    process.check_time(from)?;
    process.check_time(to)?;
    if parts == 0 || from >= to {
        return Err(invalid("there must be at least one part, and \"from\" before \"to\""));
    }
    let mut table =
        Table { from, to, parts: parts as usize, order: Vec::new(), rows: BTreeMap::new() };
    let start = Moment { log, time: from };
    let cancel = context.cancel().flag();
    let mut thread = run.running_thread(start)?;
    let mut since = from;
    let switches = RowFilter::Class(RowClass::ThreadSwitch);
    for row in run.rows(start, Direction::Forward, switches, cancel)?.until(to) {
        let row = row?;
        let Row::ThreadSwitch { thread: next } = row.row else { continue };
        let time = row.time.clamp(from, to);
        table.ran(thread, since, time);
        (thread, since) = (next, time);
        context.progress(time - from, Some(to - from));
        if time == to {
            break;
        }
    }
    table.ran(thread, since, to);
    let syscalls = RowFilter::Class(RowClass::Syscall);
    for row in run.rows(start, Direction::Forward, syscalls, cancel)?.until(to) {
        let row = row?;
        if row.time > to {
            break;
        }
        table.called(row.thread, row.time.clamp(from, to - 1));
    }
    let is_cut = table.order.len() > THREADS_LIMIT;
    let threads = table.order.iter().take(THREADS_LIMIT).filter_map(|thread| {
        let (instructions, syscalls) = table.rows.remove(thread)?;
        Some(ThreadActivity { thread: *thread, instructions, syscalls })
    });
    Ok(Activity { from: Time(from), to: Time(to), threads: threads.collect(), is_cut })
}

/// Instructions and system calls of each thread, part by part.
struct Table {
    from: u64,
    to: u64,
    parts: usize,
    order: Vec<u32>,
    rows: BTreeMap<u32, (Vec<u64>, Vec<u64>)>,
}

impl Table {
    /// The part that a time is in.
    fn part(&self, time: u64) -> usize {
        let scaled =
            u128::from(time - self.from) * self.parts as u128 / u128::from(self.to - self.from);
        (scaled as usize).min(self.parts - 1)
    }

    /// Where a part begins: the first time that is in it.
    fn start(&self, part: usize) -> u64 {
        let length = u128::from(self.to - self.from);
        self.from + (part as u128 * length).div_ceil(self.parts as u128) as u64
    }

    fn row(&mut self, thread: u32) -> Option<&mut (Vec<u64>, Vec<u64>)> {
        if !self.rows.contains_key(&thread) {
            if self.order.len() > THREADS_LIMIT {
                return None;
            }
            self.order.push(thread);
        }
        let empty = || (vec![0; self.parts], vec![0; self.parts]);
        Some(self.rows.entry(thread).or_insert_with(empty))
    }

    fn ran(&mut self, thread: u32, since: u64, until: u64) {
        let mut at = since;
        while at < until {
            let part = self.part(at);
            let next = until.min(self.start(part + 1)).max(at + 1);
            let Some((instructions, _)) = self.row(thread) else { return };
            instructions[part] += next - at;
            at = next;
        }
    }

    fn called(&mut self, thread: u32, time: u64) {
        let part = self.part(time);
        if let Some((_, syscalls)) = self.row(thread) {
            syscalls[part] += 1;
        }
    }
}

/// Parameters of `thread.names`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NamesParams {
    process: ProcessNumber,
}

/// A name that a thread gave itself.
#[derive(Debug, Serialize, JsonSchema)]
struct ThreadName {
    /// The thread.
    thread: u32,
    /// From when on.
    since: Time,
    /// The name; bytes that are no text are replaced.
    name: String,
}

fn names(run: &Run, params: NamesParams, context: &CallContext) -> Answer<Vec<ThreadName>> {
    const PRCTL: u64 = 157;
    const SET_NAME: u64 = 15;
    /// Bytes of a name.
    const LONGEST: u64 = 15;
    let process = run.process(params.process.0)?;
    let start = Moment { log: process.log, time: process.start };
    let filter = RowFilter::Number(RowClass::Syscall, PRCTL);
    let mut names = Vec::new();
    for row in run.rows(start, Direction::Forward, filter, context.cancel().flag())? {
        let row = row?;
        let Row::SyscallEnter { args: [SET_NAME, at, ..], .. } = row.row else { continue };
        let moment = Moment { log: process.log, time: row.time };
        let bytes = run.memory(moment, at, LONGEST)?;
        let name = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        names.push(ThreadName { thread: row.thread, since: Time(row.time), name });
        if names.len() >= THREADS_LIMIT {
            break;
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_parts_of_equal_length() {
        let mut table =
            Table { from: 10, to: 20, parts: 4, order: Vec::new(), rows: BTreeMap::new() };
        table.ran(1, 10, 14);
        table.ran(2, 14, 20);
        table.called(1, 12);
        table.called(1, 19);
        assert_eq!(table.order, [1, 2]);
        assert_eq!(table.rows[&1], (vec![3, 1, 0, 0], vec![1, 0, 0, 1]));
        assert_eq!(table.rows[&2], (vec![0, 1, 3, 2], vec![0; 4]));
    }

    #[test]
    fn more_parts_than_instructions_lose_none() {
        let mut table =
            Table { from: 0, to: 3, parts: 10, order: Vec::new(), rows: BTreeMap::new() };
        table.ran(1, 0, 3);
        assert_eq!(table.rows[&1].0.iter().sum::<u64>(), 3);
    }
}
