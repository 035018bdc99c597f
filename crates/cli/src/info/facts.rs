//! Everything that `retro info` knows of a recording, as data.

use std::collections::BTreeMap;

use retro_abi::channel::Unrecorded;
use retro_abi::log::Kind;
use retro_abi::syscall_names;
use retro_index::Place;
use retro_index::coverage::Coverage;
use retro_recording::{Counts, Recording, RunEnd, RunOutcome};
use retro_replayer::Replayer;
use serde::Serialize;

use super::processes::{self, ProcessFacts};
use crate::index::facts::IndexFacts;
use crate::timestamp::Timestamp;
use crate::{quantity, selection, wording};

/// Number that stands for all system calls beyond those that are counted one by one.
const OTHER_SYSCALLS: u32 = 511;

/// A recording.
#[derive(Debug, Serialize)]
pub struct Facts {
    pub name: String,
    pub path: String,
    pub id: String,
    pub state: &'static str,
    pub command: Vec<String>,
    /// The file that the first process executed.
    pub program: String,
    pub directory: String,
    pub created_seconds: u64,
    pub created_nanoseconds: u32,
    pub created: Option<String>,
    pub duration_nanoseconds: Option<u64>,
    pub retro_version: String,
    pub machine: MachineFacts,
    pub options: OptionFacts,
    pub ended: String,
    pub exit_status: Option<u32>,
    pub signal: Option<u32>,
    /// Why recording stopped before the run ended, if it did.
    pub stopped: Option<String>,
    /// Instructions that were recorded until then.
    pub recorded_instructions: Option<u64>,
    pub unrecorded_processes: u64,
    /// The same by reason, where it is known.
    pub unrecorded_reasons: BTreeMap<&'static str, u64>,
    pub instructions: u64,
    pub threads: u64,
    pub intervals: u64,
    pub log: LogFacts,
    /// The log and what was unpacked with it.
    pub bytes: u64,
    pub index: IndexFacts,
    pub syscalls: BTreeMap<String, u64>,
    pub signals: BTreeMap<String, u64>,
    pub processes: Vec<ProcessFacts>,
    pub damage: Option<String>,
}

/// Where it was recorded.
#[derive(Debug, Serialize)]
pub struct MachineFacts {
    pub host: String,
    pub kernel: String,
    pub cpu_vendor: String,
    pub cpu_model: String,
    pub cpu_features: Vec<String>,
}

/// How it was recorded.
#[derive(Debug, Serialize)]
pub struct OptionFacts {
    /// None if the engine decided.
    pub interval: Option<u64>,
    pub chaos_seed: Option<u64>,
    pub follow: bool,
}

/// What the log is made of.
#[derive(Debug, Serialize)]
pub struct LogFacts {
    /// On disk.
    pub bytes: u64,
    /// Before compression, as far as it is known.
    pub raw_bytes: u64,
    pub events: u64,
    pub bits_per_instruction: Option<f64>,
    pub kinds: Vec<KindFacts>,
}

/// Events of one kind.
#[derive(Debug, Serialize)]
pub struct KindFacts {
    pub kind: &'static str,
    pub events: u64,
    /// Before compression.
    pub bytes: u64,
}

impl Facts {
    /// Gathers what there is to know.
    pub fn of(replayer: &Replayer, index: &Place) -> Result<Facts, retro_index::Error> {
        let recording = replayer.recording();
        let coverage = Coverage::of(replayer, index)?;
        let (head, end) = (recording.head(), recording.end());
        let (processes, counts) = processes::gather(recording);
        let (exit_status, signal) = match end.map(|end| end.outcome) {
            Some(RunOutcome::Exited(status)) => (Some(status), None),
            Some(RunOutcome::Signalled(signal)) => (None, Some(signal)),
            _ => (None, None),
        };
        let instructions = selection::instructions_of(recording);
        let lossy = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
        Ok(Facts {
            name: selection::name_of(recording.directory()),
            path: lossy(recording.directory().as_os_str()),
            id: head.id.iter().map(|byte| format!("{byte:02x}")).collect(),
            state: wording::state(recording.state()),
            command: head.command.iter().map(|word| lossy(word)).collect(),
            program: processes.first().map(|first| first.program.clone()).unwrap_or_default(),
            directory: lossy(head.directory.as_os_str()),
            created_seconds: head.created_seconds,
            created_nanoseconds: head.created_nanoseconds,
            created: Timestamp::local(head.created_seconds).map(Timestamp::to_rfc3339),
            duration_nanoseconds: end.map(|end| end.wall_nanoseconds),
            retro_version: head.retro_version.clone(),
            machine: MachineFacts {
                host: head.machine.host.clone(),
                kernel: head.machine.kernel.clone(),
                cpu_vendor: head.machine.cpu_vendor.clone(),
                cpu_model: head.machine.cpu_model.clone(),
                cpu_features: head.machine.cpu_features.clone(),
            },
            options: OptionFacts {
                interval: Some(head.options.interval).filter(|&interval| interval != 0),
                chaos_seed: head.options.chaos,
                follow: head.options.follow,
            },
            ended: wording::recording_end(recording),
            exit_status,
            signal,
            stopped: end.and_then(|end| end.stopped.clone()),
            recorded_instructions: end
                .filter(|end| end.stopped.is_some())
                .map(|_| recorded_instructions(replayer)),
            unrecorded_processes: end.map_or(0, |end| {
                end.unrecorded.iter().fold(0, |sum, &count| sum.saturating_add(count))
            }),
            unrecorded_reasons: end.map(unrecorded_reasons).unwrap_or_default(),
            instructions,
            threads: counts.threads,
            intervals: counts.intervals,
            log: LogFacts::of(recording, &counts, instructions),
            bytes: selection::size_of(recording.directory()),
            index: IndexFacts::of(&coverage, index),
            syscalls: by_name(&counts.syscalls, syscall_name),
            signals: by_name(&counts.signals, wording::signal),
            processes,
            damage: recording.damage().map(ToString::to_string),
        })
    }
}

impl LogFacts {
    fn of(recording: &Recording, counts: &Counts, instructions: u64) -> LogFacts {
        let kinds: Vec<KindFacts> = Kind::ALL
            .into_iter()
            .map(|kind| (kind, counts.of_kind(kind)))
            .filter(|(_, count)| count.events != 0)
            .map(|(kind, count)| KindFacts {
                kind: kind.name(),
                events: count.events,
                bytes: count.bytes,
            })
            .collect();
        LogFacts {
            bytes: recording.log_bytes(),
            raw_bytes: kinds.iter().fold(0, |sum, kind| sum.saturating_add(kind.bytes)),
            events: kinds.iter().fold(0, |sum, kind| sum.saturating_add(kind.events)),
            bits_per_instruction: quantity::bits_per_instruction(
                recording.log_bytes(),
                instructions,
            ),
            kinds,
        }
    }
}

/// What logs tell of, up to their last events.
fn recorded_instructions(replayer: &Replayer) -> u64 {
    let logs = replayer.recording().processes().iter().map(|process| process.summary.log);
    let intervals = logs.flat_map(|log| replayer.intervals(log).unwrap_or_default());
    intervals.fold(0, |sum, interval| sum.saturating_add(interval.instructions()))
}

/// Old recordings do not tell reasons and count under the first.
fn unrecorded_reasons(end: &RunEnd) -> BTreeMap<&'static str, u64> {
    let reasons = Unrecorded::ALL.into_iter().zip(end.unrecorded);
    let told = reasons.filter(|(why, count)| *why != Unrecorded::TooMany && *count > 0);
    told.map(|(why, count)| (wording::unrecorded(why), count)).collect()
}

fn by_name(counts: &BTreeMap<u32, u64>, name: impl Fn(u32) -> String) -> BTreeMap<String, u64> {
    counts.iter().map(|(&number, &count)| (name(number), count)).collect()
}

fn syscall_name(number: u32) -> String {
    match syscall_names::name(number.into()) {
        Some(name) => name.to_string(),
        None if number == OTHER_SYSCALLS => "others".to_string(),
        None => format!("syscall {number}"),
    }
}
