//! What is known of a process and of the whole run without reading the log.
//!
//! The recorder copies an engine's counts when the process ends, so that `retro info` costs the same for an
//! hour as for a second.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use retro_abi::channel::{self, Origin, Unrecorded, ended};
use retro_abi::log::Kind;

use crate::fields::{BadField, FieldReader, FieldWriter};

/// How a process ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcessEnd {
    /// Without a word: killed, or still running.
    #[default]
    Unknown,
    /// By itself, with this status.
    Exited(u32),
    /// By this signal.
    Signalled(u32),
    /// It executed another program, which has its own log.
    Executed,
    /// Recording stopped before the process ended.
    Stopped,
}

impl ProcessEnd {
    /// From the numbers of [`retro_abi::channel::ended`]; what is not known there is `Unknown`.
    pub fn from_numbers(how: u32, code: u32) -> ProcessEnd {
        match how {
            ended::EXITED => ProcessEnd::Exited(code),
            ended::SIGNALLED => ProcessEnd::Signalled(code),
            ended::EXECUTED => ProcessEnd::Executed,
            ended::STOPPED => ProcessEnd::Stopped,
            _ => ProcessEnd::Unknown,
        }
    }

    /// As numbers of [`retro_abi::channel::ended`] and a code.
    pub fn to_numbers(self) -> (u32, u32) {
        match self {
            ProcessEnd::Unknown => (ended::UNKNOWN, 0),
            ProcessEnd::Exited(status) => (ended::EXITED, status),
            ProcessEnd::Signalled(signal) => (ended::SIGNALLED, signal),
            ProcessEnd::Executed => (ended::EXECUTED, 0),
            ProcessEnd::Stopped => (ended::STOPPED, 0),
        }
    }
}

/// Events of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindCount {
    /// How many.
    pub events: u64,
    /// Their bytes in the log, before compression.
    pub bytes: u64,
}

/// What a process counted. What is zero has no entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events by the number of their [`Kind`].
    pub events: BTreeMap<u32, KindCount>,
    /// System calls by number; everything beyond 510 is 511.
    pub syscalls: BTreeMap<u32, u64>,
    /// Signals by number.
    pub signals: BTreeMap<u32, u64>,
    /// Threads that ever were.
    pub threads: u64,
    /// Intervals begun.
    pub intervals: u64,
}

impl Counts {
    /// Copies what an engine counted in shared memory.
    pub fn from_channel(counts: &channel::Counts) -> Counts {
        fn present<V>(
            values: impl Iterator<Item = V>,
            is_present: impl Fn(&V) -> bool,
        ) -> BTreeMap<u32, V> {
            (0..).zip(values).filter(|(_, value)| is_present(value)).collect()
        }
        let kinds = counts.events.iter().zip(&counts.bytes).map(|(events, bytes)| KindCount {
            events: events.load(Relaxed),
            bytes: bytes.load(Relaxed),
        });
        Counts {
            events: present(kinds, |count| *count != KindCount::default()),
            syscalls: present(
                counts.syscalls.iter().map(|count| u64::from(count.load(Relaxed))),
                |&count| count != 0,
            ),
            signals: present(
                counts.signals.iter().map(|count| u64::from(count.load(Relaxed))),
                |&count| count != 0,
            ),
            threads: u64::from(counts.threads.load(Relaxed)),
            intervals: counts.intervals.load(Relaxed),
        }
    }

    /// Events of one kind.
    pub fn of_kind(&self, kind: Kind) -> KindCount {
        self.events.get(&(kind as u32)).copied().unwrap_or_default()
    }

    /// Adds another process's counts, for a total. Hostile counts saturate.
    pub fn add(&mut self, other: &Counts) {
        fn add_one(sum: &mut u64, value: u64) {
            *sum = sum.saturating_add(value);
        }
        for (&kind, count) in &other.events {
            let sum = self.events.entry(kind).or_default();
            add_one(&mut sum.events, count.events);
            add_one(&mut sum.bytes, count.bytes);
        }
        for (&number, &count) in &other.syscalls {
            add_one(self.syscalls.entry(number).or_default(), count);
        }
        for (&number, &count) in &other.signals {
            add_one(self.signals.entry(number).or_default(), count);
        }
        add_one(&mut self.threads, other.threads);
        add_one(&mut self.intervals, other.intervals);
    }
}

/// What the recorder knows of a process when it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSummary {
    /// Number of its log.
    pub log: u64,
    /// Log of the parent, or of the program before; none for the first.
    pub parent: Option<u64>,
    /// How the log began, if that is known.
    pub origin: Option<Origin>,
    /// Process id, 0 if unknown.
    pub pid: u32,
    /// Instructions that it executed: the time at its end.
    pub time: u64,
    /// How it ended.
    pub end: ProcessEnd,
    /// What it counted.
    pub counts: Counts,
}

impl ProcessSummary {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = FieldWriter::default();
        out.number(self.log);
        out.optional(self.parent);
        out.optional(self.origin.map(|origin| origin as u64));
        out.number(self.pid.into());
        out.number(self.time);
        let (how, code) = self.end.to_numbers();
        out.number(how.into());
        out.number(code.into());
        out.number(self.counts.threads);
        out.number(self.counts.intervals);
        out.number(self.counts.events.len() as u64);
        for (&kind, count) in &self.counts.events {
            out.number(kind.into());
            out.number(count.events);
            out.number(count.bytes);
        }
        for counts in [&self.counts.syscalls, &self.counts.signals] {
            out.number(counts.len() as u64);
            for (&number, &count) in counts {
                out.number(number.into());
                out.number(count);
            }
        }
        out.finish()
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<ProcessSummary, BadField> {
        fn counts(fields: &mut FieldReader) -> Result<BTreeMap<u32, u64>, BadField> {
            let count = fields.count(2)?;
            (0..count).map(|_| Ok((fields.number32()?, fields.number()?))).collect()
        }
        let fields = &mut FieldReader::new(payload);
        let log = fields.number()?;
        let parent = fields.optional()?;
        let origin = fields.optional()?.and_then(Origin::from_number);
        let pid = fields.number32()?;
        let time = fields.number()?;
        let end = ProcessEnd::from_numbers(fields.number32()?, fields.number32()?);
        let threads = fields.number()?;
        let intervals = fields.number()?;
        let kinds = fields.count(3)?;
        let events = (0..kinds)
            .map(|_| {
                let kind = fields.number32()?;
                Ok((kind, KindCount { events: fields.number()?, bytes: fields.number()? }))
            })
            .collect::<Result<_, BadField>>()?;
        let syscalls = counts(fields)?;
        let signals = counts(fields)?;
        let counts = Counts { events, syscalls, signals, threads, intervals };
        Ok(ProcessSummary { log, parent, origin, pid, time, end, counts })
    }
}

/// How the first process ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunOutcome {
    /// The recorder does not know.
    #[default]
    Unknown,
    /// By itself, with this status.
    Exited(u32),
    /// By this signal.
    Signalled(u32),
}

/// How the whole recording ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunEnd {
    /// How the first process ended.
    pub outcome: RunOutcome,
    /// Real time from the start to the end, in nanoseconds.
    pub wall_nanoseconds: u64,
    /// Why recording stopped before the run ended, if it did.
    pub stopped: Option<String>,
    /// Processes that ran unrecorded, by reason. Recordings that do not tell reasons have all of them under the first.
    pub unrecorded: UnrecordedCounts,
}

/// Processes that ran unrecorded, by the number of the reason ([`Unrecorded`]).
pub type UnrecordedCounts = [u64; Unrecorded::ALL.len()];

impl RunEnd {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = FieldWriter::default();
        let (how, code) = match self.outcome {
            RunOutcome::Unknown => (ended::UNKNOWN, 0),
            RunOutcome::Exited(status) => (ended::EXITED, status),
            RunOutcome::Signalled(signal) => (ended::SIGNALLED, signal),
        };
        out.number(how.into());
        out.number(code.into());
        out.number(self.wall_nanoseconds);
        out.number(self.unrecorded.iter().fold(0, |sum: u64, &count| sum.saturating_add(count)));
        out.number(self.stopped.is_some().into());
        let reason = self.stopped.as_deref().unwrap_or_default();
        out.bytes(&reason.as_bytes()[..reason.floor_char_boundary(REASON_LIMIT)]);
        // That of the first reason is what is left.
        self.unrecorded[1..].iter().for_each(|&count| out.number(count));
        out.finish()
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<RunEnd, BadField> {
        let fields = &mut FieldReader::new(payload);
        let (how, code) = (fields.number32()?, fields.number32()?);
        let outcome = match how {
            ended::EXITED => RunOutcome::Exited(code),
            ended::SIGNALLED => RunOutcome::Signalled(code),
            _ => RunOutcome::Unknown,
        };
        let wall_nanoseconds = fields.number()?;
        let all = fields.number()?;
        let has_stopped = fields.number()? != 0;
        let reason = fields.text()?;
        let mut unrecorded = [0; Unrecorded::ALL.len()];
        for count in &mut unrecorded[1..] {
            *count = if fields.is_empty() { 0 } else { fields.number()? };
        }
        unrecorded[0] = unrecorded[1..].iter().fold(all, |left, &count| left.saturating_sub(count));
        Ok(RunEnd { outcome, wall_nanoseconds, stopped: has_stopped.then_some(reason), unrecorded })
    }
}

/// Longest reason for stopping, in bytes; longer ones are cut.
const REASON_LIMIT: usize = 4096;
