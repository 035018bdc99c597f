//! The logs of a recording against each other: parents and children, programs and their successors, and what
//! the kernel told parents about the ends of their children.

use std::collections::BTreeMap;

use retro_abi::channel::Origin;
use retro_recording::{Process, ProcessEnd, Recording, State};

use super::{Examined, Story};
use crate::compare::Ending;

/// How a child ended, as its parent was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStatus {
    /// With this status.
    Exited(u32),
    /// By this signal.
    Signalled(u32),
}

impl WaitStatus {
    /// From the status of `wait4`; none if the child has not ended.
    pub(super) fn from_wait(status: i32) -> Option<WaitStatus> {
        if libc::WIFEXITED(status) {
            Some(WaitStatus::Exited(libc::WEXITSTATUS(status).cast_unsigned()))
        } else if libc::WIFSIGNALED(status) {
            Some(WaitStatus::Signalled(libc::WTERMSIG(status).cast_unsigned()))
        } else {
            None
        }
    }

    /// From `si_code` and `si_status` of `waitid`.
    pub(super) fn from_siginfo(code: i32, status: i32) -> Option<WaitStatus> {
        match code {
            libc::CLD_EXITED => Some(WaitStatus::Exited(status.cast_unsigned())),
            libc::CLD_KILLED | libc::CLD_DUMPED => {
                Some(WaitStatus::Signalled(status.cast_unsigned()))
            }
            _ => None,
        }
    }

    /// Whether a log that ends like this is the log of a process that ended like this. SIGKILL may come after a process has
    /// said that it exits, and a log that stops says nothing of the end.
    fn agrees_with(self, end: ProcessEnd) -> bool {
        const KILL: u32 = libc::SIGKILL as u32;
        match self {
            _ if end == ProcessEnd::Stopped => true,
            WaitStatus::Exited(status) => end == ProcessEnd::Exited(status),
            WaitStatus::Signalled(KILL) if matches!(end, ProcessEnd::Exited(_)) => true,
            // It had no time to say so, but the recorder hears it from the parent.
            WaitStatus::Signalled(signal) => end == ProcessEnd::Signalled(signal),
        }
    }
}

/// What contradicts itself between logs. In a recording without an end, logs may be missing.
pub(super) fn problems(recording: &Recording, stories: &[Story]) -> Vec<String> {
    let mut problems = Vec::new();
    if recording.state() != State::Finished {
        return problems;
    }
    for process in recording.processes() {
        let summary = &process.summary;
        let parent = summary.parent.and_then(|parent| recording.process(parent));
        if summary.parent.is_some() && parent.is_none() {
            problems
                .push(format!("log {}: its parent {:?} is missing", summary.log, summary.parent));
        }
        let followers = successors(recording, summary.log).count();
        let due = usize::from(summary.end == ProcessEnd::Executed);
        if followers != due {
            let text = format!("ended as {:?} and has {followers} successors", summary.end);
            problems.push(format!("log {}: {text}", summary.log));
        }
    }
    for story in stories {
        for &(pid, log) in &story.children {
            let Some(log) = log else { continue };
            // Killed before it could begin its log.
            let was_killed = story.reaped.iter().any(|&(reaped, status)| {
                reaped == pid && matches!(status, WaitStatus::Signalled(_))
            });
            if was_killed && recording.process(log).is_none() {
                continue;
            }
            let found =
                recording.process(log).map(|child| (child.summary.pid, child.summary.parent));
            if found != Some((pid, Some(story.log))) {
                let text = format!("its child {pid} is said to have log {log}, which is {found:?}");
                problems.push(format!("log {}: {text}", story.log));
            }
        }
        problems.extend(wait_problems(recording, story));
    }
    problems
}

/// What the kernel told a process of its children that their own logs tell differently.
fn wait_problems(recording: &Recording, story: &Story) -> Vec<String> {
    // A number of a process may come back within a long run: then nothing can be said.
    let mut ends: BTreeMap<u32, Vec<ProcessEnd>> = BTreeMap::new();
    for process in recording.processes() {
        if process.summary.end != ProcessEnd::Executed {
            ends.entry(process.summary.pid).or_default().push(process.summary.end);
        }
    }
    let mut problems = Vec::new();
    for &(pid, status) in &story.reaped {
        if let Some(&[end]) = ends.get(&pid).map(Vec::as_slice)
            && !status.agrees_with(end)
        {
            let text = format!("its child {pid} ended as {status:?}, the log as {end:?}");
            problems.push(format!("log {}: {text}", story.log));
        }
    }
    problems
}

fn successors(recording: &Recording, log: u64) -> impl Iterator<Item = &Process> {
    recording.processes().iter().filter(move |process| {
        process.summary.parent == Some(log) && process.summary.origin == Some(Origin::Exec)
    })
}

/// Whether the first process, through all the programs that it executed, ended otherwise.
pub(super) fn first_process_problem(examined: &Examined, ending: Ending) -> Option<String> {
    let recording = &examined.recording;
    let mut log = 0;
    while let Some(next) = successors(recording, log).next() {
        log = next.summary.log;
    }
    let end = recording.process(log).map(|process| process.summary.end);
    let due = match ending {
        Ending::Exited(status) => ProcessEnd::Exited(status.cast_unsigned()),
        Ending::Signaled(signal) => ProcessEnd::Signalled(signal.cast_unsigned()),
        Ending::TimedOut => ProcessEnd::Unknown,
    };
    (end != Some(due)).then(|| format!("log {log}: ended as {end:?}, the run as {due:?}"))
}
