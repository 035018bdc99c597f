//! The processes of a recording: what each executed, and which made which.
//!
//! A process's command is in the first event of its log. A forked copy has none of its own and shows the
//! program of its parent. What the recorder did not live to sum up is counted here, one chunk at a time.
//!
//! Invariant: commands take no more than [`COMMANDS_LIMIT`], however many processes a file claims to hold.

use std::collections::BTreeMap;

use retro_abi::channel::{Origin, Stream};
use retro_abi::log::Event;
use retro_recording::{Counts, ProcessEnd, ProcessSummary, Recording};
use serde::Serialize;

use crate::wording;

/// Bytes of command lines that are kept; beyond them processes have none.
const COMMANDS_LIMIT: usize = 64 << 20;

/// Most entries of tables that a log fills.
const TABLE_LIMIT: usize = 1 << 16;

/// A process, or one program of it.
#[derive(Debug, Default, Serialize)]
pub struct ProcessFacts {
    pub log: u64,
    /// Log of the process that made it, or of the program before it.
    pub parent: Option<u64>,
    /// `first`, `fork` or `exec`.
    pub origin: Option<&'static str>,
    /// Whether it is a copy of its parent and has the arguments of that.
    pub copy: bool,
    pub pid: u32,
    /// The file that is executed.
    pub program: String,
    pub arguments: Vec<String>,
    pub directory: String,
    pub instructions: u64,
    pub threads: u64,
    pub intervals: u64,
    pub ended: String,
    pub exit_status: Option<u32>,
    pub signal: Option<u32>,
    /// Bytes of its log on disk.
    pub log_bytes: u64,
    /// Whether the recorder has summed it up; otherwise it may have done more than this.
    pub complete: bool,
}

/// All processes, by the number of their log, and the sum of their counts.
pub fn gather(recording: &Recording) -> (Vec<ProcessFacts>, Counts) {
    let mut total = Counts::default();
    let mut gathered: Vec<ProcessFacts> = Vec::new();
    let mut forks = BTreeMap::new();
    let mut programs = BTreeMap::new();
    let mut room = COMMANDS_LIMIT;
    for process in recording.processes() {
        let summary = &process.summary;
        let counts = if process.derived {
            &count(recording, summary.log, &mut forks)
        } else {
            &summary.counts
        };
        total.add(counts);
        let mut facts = describe(recording, summary, counts, &mut room);
        facts.complete = !process.derived;
        // Where no summary tells, the program before is the last of the same process.
        let is_next_program = summary.origin == Some(Origin::Exec) && summary.pid != 0;
        // A parent's log always has the lower number; anything else would be a circle.
        facts.parent = (summary.parent)
            .or_else(|| forks.get(&summary.log).copied())
            .or_else(|| programs.get(&summary.pid).copied().filter(|_| is_next_program))
            .filter(|&parent| parent < summary.log && summary.origin != Some(Origin::First));
        if facts.program.is_empty()
            && summary.origin == Some(Origin::Fork)
            && let Some(parent) = find(&gathered, facts.parent)
            && let Some(left) = room.checked_sub(parent.program.len())
        {
            room = left;
            facts.program = parent.program.clone();
            facts.copy = true;
        }
        programs.insert(summary.pid, summary.log);
        gathered.push(facts);
    }
    (gathered, total)
}

fn find(gathered: &[ProcessFacts], log: Option<u64>) -> Option<&ProcessFacts> {
    let index = gathered.binary_search_by_key(&log?, |process| process.log).ok()?;
    gathered.get(index)
}

fn describe(
    recording: &Recording,
    summary: &ProcessSummary,
    counts: &Counts,
    room: &mut usize,
) -> ProcessFacts {
    let (exit_status, signal) = match summary.end {
        ProcessEnd::Exited(status) => (Some(status), None),
        ProcessEnd::Signalled(signal) => (None, Some(signal)),
        _ => (None, None),
    };
    let mut facts = ProcessFacts {
        log: summary.log,
        origin: summary.origin.map(|origin| match origin {
            Origin::First => "first",
            Origin::Fork => "fork",
            Origin::Exec => "exec",
        }),
        pid: summary.pid,
        instructions: summary.time,
        threads: counts.threads,
        intervals: counts.intervals,
        ended: wording::process_end(summary.end),
        exit_status,
        signal,
        log_bytes: recording.log_bytes_of(summary.log),
        ..ProcessFacts::default()
    };
    let first = recording.segments(summary.log, Stream::Main).first();
    if let Some(Ok(chunk)) = first.map(|first| recording.read_chunk(first))
        && let Some(Ok((_, Event::Start { path, arguments, directory, .. }))) =
            chunk.events().next()
    {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        // Bytes that are no text become three, and a string of no bytes takes a few all the same.
        let length = 3 * (path.len() + arguments.len() + directory.len());
        let taken = length + strings(arguments).count() * size_of::<String>();
        let Some(left) = room.checked_sub(taken) else { return facts };
        *room = left;
        facts.program = text(path);
        facts.arguments = strings(arguments).map(text).collect();
        facts.directory = text(directory);
    }
    facts
}

/// Strings that end in NUL, one after the other.
pub fn strings(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|&byte| byte == 0).map(|text| text.strip_suffix(b"\0").unwrap_or(text))
}

/// Counts what is in a log, as the engine would have; notes which logs its children have. What is damaged is
/// not counted.
fn count(recording: &Recording, log: u64, forks: &mut BTreeMap<u64, u64>) -> Counts {
    let mut counts = Counts { threads: 1, ..Counts::default() };
    for stream in Stream::ALL {
        for segment in recording.segments(log, stream) {
            let Ok(chunk) = recording.read_chunk(segment) else { continue };
            let mut events = chunk.events();
            let mut offset = 0;
            while let Some(Ok((_, event))) = events.next() {
                let kind = counts.events.entry(event.kind() as u32).or_default();
                kind.events += 1;
                kind.bytes += (events.offset() - offset) as u64;
                offset = events.offset();
                match event {
                    Event::SyscallEnter { number, .. } => {
                        let number = number.min(511) as u32;
                        *counts.syscalls.entry(number).or_default() += 1;
                    }
                    Event::Signal { number, .. } if number <= 64 => {
                        *counts.signals.entry(number).or_default() += 1;
                    }
                    Event::ThreadStart { .. } => counts.threads += 1,
                    Event::Interval { .. } => counts.intervals += 1,
                    Event::Fork { log: child @ 1.., .. } if forks.len() < TABLE_LIMIT => {
                        forks.insert(child - 1, log);
                    }
                    _ => {}
                }
            }
        }
    }
    counts
}
