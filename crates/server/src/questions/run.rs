//! What was recorded: the command, its processes, how much of it is indexed.

use std::time::Duration;

use retro_abi::channel::Origin;
use retro_index::coverage::Coverage;
use retro_query::Run;
use retro_recording::{ProcessEnd, RunOutcome, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Answer;
use super::wire::{ProcessNumber, Time};
use crate::methods::Methods;
use crate::paging::{Page, PageRequest};
use crate::service::CallContext;

/// Processes that `run.info` lists.
const FIRST_PROCESSES: usize = 100;

pub(super) fn add(methods: Methods<Run>) -> Methods<Run> {
    methods.add("run.info", "What was recorded, and how much of it is indexed.", run_info).add(
        "process.list",
        "The processes of the run.",
        process_list,
    )
}

/// No parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RunInfoParams {}

/// A recording.
#[derive(Debug, Serialize, JsonSchema)]
struct RunInfo {
    /// The command line.
    command: Vec<String>,
    /// The directory it was started in.
    directory: String,
    /// Where the recording is.
    recording: String,
    /// A random number that tells recordings apart.
    id: String,
    /// When it was begun, in seconds since 1970.
    created: f64,
    /// How long the run took, in seconds; absent if its end is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<f64>,
    /// The version that recorded it.
    retro_version: String,
    /// Where it ran.
    machine: MachineInfo,
    /// Whether the recording is complete.
    state: RecordingState,
    /// What is wrong with it, if something is.
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<String>,
    /// How the command ended.
    end: End,
    /// Instructions of all processes.
    instructions: u64,
    /// How many processes there are.
    process_count: u64,
    /// The first 100 of them; `process.list` has all.
    processes: Vec<ProcessInfo>,
    /// How much is indexed.
    index: IndexInfo,
}

/// A machine.
#[derive(Debug, Serialize, JsonSchema)]
struct MachineInfo {
    /// Host name.
    host: String,
    /// Kernel release.
    kernel: String,
    /// Processor.
    cpu: String,
}

/// Whether a recording is complete.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RecordingState {
    /// It is.
    Finished,
    /// It still goes on; what there was when the server started can be asked for.
    Running,
    /// Its recorder was killed; what there is can be asked for.
    Interrupted,
}

/// How something ended.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "how", rename_all = "snake_case")]
enum End {
    /// Nobody knows: it was killed, or still runs.
    Unknown,
    /// By itself.
    Exited {
        /// With this status.
        status: u32,
    },
    /// By a signal.
    Signalled {
        /// The signal's number.
        signal: u32,
        /// Its name.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'static str>,
    },
    /// It executed another program, which is a process of its own here.
    Executed,
    /// It went on unrecorded.
    Stopped,
}

/// How much of a run is indexed.
#[derive(Debug, Serialize, JsonSchema)]
struct IndexInfo {
    /// Whether there is nothing left to be done.
    is_complete: bool,
    /// Instructions that can be indexed.
    instructions: u64,
    /// Instructions that are.
    indexed: u64,
    /// Bytes on disk.
    bytes: u64,
    /// Parts that cannot be replayed; the first 100.
    failures: Vec<IndexFailure>,
}

/// A part of a run that cannot be replayed.
#[derive(Debug, Serialize, JsonSchema)]
struct IndexFailure {
    process: ProcessNumber,
    /// Its first moment.
    start: Time,
    /// Its last moment.
    end: Time,
    /// What happened.
    reason: String,
}

/// A process.
#[derive(Debug, Serialize, JsonSchema)]
struct ProcessInfo {
    process: ProcessNumber,
    /// Its parent; for an executed program the one before it in the same process.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<ProcessNumber>,
    /// How it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<ProcessOrigin>,
    /// Its id; absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// Its first moment; absent if nothing of it can be replayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<Time>,
    /// Its last moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<Time>,
    /// How it ended.
    exit: End,
    /// Threads that it ever had.
    threads: u64,
}

/// How a process began.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ProcessOrigin {
    /// It is the program that was recorded.
    First,
    /// As a copy of its parent.
    Fork,
    /// As a program executed in place of another.
    Exec,
}

impl From<ProcessEnd> for End {
    fn from(end: ProcessEnd) -> End {
        match end {
            ProcessEnd::Unknown => End::Unknown,
            ProcessEnd::Exited(status) => End::Exited { status },
            ProcessEnd::Signalled(signal) => End::signalled(signal),
            ProcessEnd::Executed => End::Executed,
            ProcessEnd::Stopped => End::Stopped,
        }
    }
}

impl End {
    fn signalled(signal: u32) -> End {
        End::Signalled { signal, name: retro_abi::signal_names::name(signal) }
    }
}

fn run_info(run: &Run, _: RunInfoParams, _: &CallContext) -> Answer<RunInfo> {
    let recording = run.recording();
    let head = recording.head();
    let processes = recording.processes();
    let times = processes.iter().map(|process| process.summary.time);
    let created =
        Duration::new(head.created_seconds, 0) + nanoseconds(head.created_nanoseconds.into());
    Ok(RunInfo {
        command: head.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        directory: head.directory.to_string_lossy().into_owned(),
        recording: recording.directory().to_string_lossy().into_owned(),
        id: super::wire::hex(&head.id),
        created: created.as_secs_f64(),
        duration: recording.end().map(|end| nanoseconds(end.wall_nanoseconds).as_secs_f64()),
        retro_version: head.retro_version.clone(),
        machine: MachineInfo {
            host: head.machine.host.clone(),
            kernel: head.machine.kernel.clone(),
            cpu: head.machine.cpu_model.clone(),
        },
        state: match recording.state() {
            State::Finished => RecordingState::Finished,
            State::Running => RecordingState::Running,
            State::Interrupted => RecordingState::Interrupted,
        },
        damage: recording.damage().map(ToString::to_string),
        end: match recording.end().map(|end| end.outcome) {
            None | Some(RunOutcome::Unknown) => End::Unknown,
            Some(RunOutcome::Exited(status)) => End::Exited { status },
            Some(RunOutcome::Signalled(signal)) => End::signalled(signal),
        },
        instructions: times.fold(0, u64::saturating_add),
        process_count: processes.len() as u64,
        processes: describe(run, 0, FIRST_PROCESSES),
        index: index_info(run)?,
    })
}

fn nanoseconds(count: u64) -> Duration {
    Duration::from_nanos(count)
}

fn index_info(run: &Run) -> Answer<IndexInfo> {
    let coverage = Coverage::of(run.replayer(), run.index());
    let coverage = coverage.map_err(retro_query::Error::from)?;
    let failures = coverage.failures.iter().take(FIRST_PROCESSES).map(|failure| IndexFailure {
        process: ProcessNumber(failure.job.log),
        start: Time(failure.job.interval.start),
        end: Time(failure.job.interval.end),
        reason: failure.cause.to_string(),
    });
    Ok(IndexInfo {
        is_complete: coverage.is_complete(),
        instructions: coverage.instructions,
        indexed: coverage.indexed,
        bytes: coverage.bytes,
        failures: failures.collect(),
    })
}

/// Some of the processes, in the order of their beginnings.
fn describe(run: &Run, first: usize, count: usize) -> Vec<ProcessInfo> {
    let processes = run.recording().processes().iter().skip(first).take(count);
    let described = processes.map(|process| {
        let summary = &process.summary;
        let intervals = run.replayer().intervals(summary.log).unwrap_or_default();
        ProcessInfo {
            process: ProcessNumber(summary.log),
            parent: summary.parent.map(ProcessNumber),
            origin: summary.origin.map(|origin| match origin {
                Origin::First => ProcessOrigin::First,
                Origin::Fork => ProcessOrigin::Fork,
                Origin::Exec => ProcessOrigin::Exec,
            }),
            pid: (summary.pid != 0).then_some(summary.pid),
            start: intervals.first().map(|interval| Time(interval.start)),
            end: intervals.last().map(|interval| Time(interval.end)),
            exit: summary.end.into(),
            threads: summary.counts.threads,
        }
    });
    described.collect()
}

/// Parameters of `process.list`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ProcessListParams {
    /// Processes of a page: 100 unless given, at most 10,000.
    limit: Option<u32>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

fn process_list(
    run: &Run,
    params: ProcessListParams,
    context: &CallContext,
) -> Answer<Page<ProcessInfo>> {
    let pager = context.pager(&PageRequest { limit: params.limit, cursor: params.cursor })?;
    let first: usize = pager.start.unwrap_or(0);
    let processes = describe(run, first, pager.limit);
    let next = first.saturating_add(processes.len());
    let is_last = next >= run.recording().processes().len();
    Ok(pager.page(processes, (!is_last).then_some(&next)))
}
