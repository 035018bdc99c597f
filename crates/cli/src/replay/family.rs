//! The output of all processes of a run, in an order that could have been seen.
//!
//! Each process has a time of its own; what orders them is what they do to each other. A child's output comes
//! after the call that made it and before its parent's wait for it returns; whom nobody waits for comes at the end
//! of its parent. So a process is followed until it reaps a child; then the child is followed to its end.
//!
//! Invariants: every log is followed once, whatever the recording says of parents and children; memory does not grow
//! with the length of logs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem;

use anyhow::{Error, Result};
use retro_abi::channel::Origin;
use retro_recording::{ProcessSummary, Recording};

use super::happenings::{Happenings, Instant};
use super::memory::Memory;
use super::output_calls::Data;
use super::processes::Wanted;
use super::streams::{Descriptors, Stream};
use super::tracker::{Outcome, Tracker, Written};
use crate::output::OutputError;

/// Bytes that are read at once.
const PIECE: u64 = 1 << 20;

/// Replays that are kept while children of their processes are followed.
const RESTING: usize = 16;

/// Children without a log that are remembered.
const WITHOUT_LOG_LIMIT: usize = 1 << 20;

/// Failures that are told.
const FAILURES_LIMIT: usize = 20;

/// Something that a process wrote.
#[derive(Clone, Copy, Debug)]
pub struct OutputPiece<'a> {
    /// The log of the process.
    pub log: u64,
    /// When it called.
    pub time: u64,
    /// The thread.
    pub thread: u32,
    /// Where to.
    pub stream: Stream,
    /// What.
    pub bytes: &'a [u8],
}

impl<'a> OutputPiece<'a> {
    fn new(log: u64, written: &Written, bytes: &'a [u8]) -> OutputPiece<'a> {
        let Written { at: Instant { time, .. }, thread, stream, .. } = *written;
        OutputPiece { log, time, thread, stream, bytes }
    }
}

/// Output that cannot be replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Bytes that were not in memory, or are not in the recording.
    pub bytes: u64,
    /// Calls that may have written anything anywhere.
    pub asynchronous_calls: u64,
    /// Children without a log.
    pub processes: u64,
}

/// How following all processes went.
#[derive(Debug, Default)]
pub struct Followed {
    /// What of the output could not be told.
    pub missing: Missing,
    /// Why processes could not be followed to their end.
    pub failures: Vec<Error>,
}

/// Follows all processes.
pub struct Family<'a> {
    recording: &'a Recording,
    wanted: &'a Wanted,
    memory_of: &'a dyn Fn(u64) -> Box<dyn Memory + 'a>,
    /// Logs that were followed, or are being followed.
    seen: BTreeSet<u64>,
    /// Logs by process id.
    by_pid: HashMap<u32, Vec<u64>>,
    told: Followed,
}

/// A process that is being followed.
struct Member<'a> {
    log: u64,
    pid: u32,
    happenings: Happenings<'a>,
    tracker: Tracker,
    memory: Box<dyn Memory + 'a>,
    /// Children that were not followed yet.
    children: Vec<Child>,
    /// Children that have no log.
    without_log: Vec<u32>,
    /// Data of calls in progress, by thread: memory as it was then.
    captured: BTreeMap<u32, Vec<u8>>,
}

struct Child {
    pid: u32,
    log: u64,
    descriptors: Descriptors,
}

/// What to do next.
enum Next {
    Follow(Child),
    Finished,
}

/// Whoever takes the output.
type Sink<'s> = dyn FnMut(OutputPiece) -> Result<()> + 's;

impl<'a> Family<'a> {
    /// Of a recording. The memory of a log is asked for only when something is wanted of it.
    pub fn new(
        recording: &'a Recording,
        wanted: &'a Wanted,
        memory_of: &'a dyn Fn(u64) -> Box<dyn Memory + 'a>,
    ) -> Family<'a> {
        let mut by_pid: HashMap<u32, Vec<u64>> = HashMap::new();
        for process in recording.processes() {
            by_pid.entry(process.summary.pid).or_default().push(process.summary.log);
        }
        let (seen, told) = (BTreeSet::new(), Followed::default());
        Family { recording, wanted, memory_of, seen, by_pid, told }
    }

    /// Tells all output in order. A process that cannot be replayed ends there, and the others go on; only
    /// that `sink` takes no more ends everything.
    pub fn follow(mut self, sink: &mut Sink) -> Result<Followed> {
        let logs = self.recording.processes().iter().map(|process| process.summary.log);
        let logs: Vec<u64> = logs.collect();
        for log in logs {
            // The first, and after it those whose parents are not in the recording.
            self.follow_from(log, sink)?;
        }
        Ok(self.told)
    }

    fn follow_from(&mut self, log: u64, sink: &mut Sink) -> Result<()> {
        let mut stack: Vec<Member> = Vec::new();
        stack.extend(self.member(log, Descriptors::standard()));
        while let Some(member) = stack.last_mut() {
            match self.advance(member, sink) {
                Err(error) if error.is::<OutputError>() => return Err(error),
                Err(error) => {
                    member.happenings.stop();
                    if self.told.failures.len() < FAILURES_LIMIT {
                        self.told.failures.push(error);
                    }
                }
                Ok(Next::Follow(child)) => {
                    stack.extend(self.member(child.log, child.descriptors));
                    if let Some(rests) = stack.len().checked_sub(RESTING + 1) {
                        stack[rests].memory.rest();
                    }
                }
                Ok(Next::Finished) => {
                    stack.pop();
                }
            }
        }
        Ok(())
    }

    fn member(&mut self, log: u64, descriptors: Descriptors) -> Option<Member<'a>> {
        let process = self.recording.process(log)?;
        self.seen.insert(log).then(|| Member {
            log,
            pid: process.summary.pid,
            happenings: Happenings::new(self.recording, log),
            tracker: Tracker::new(descriptors),
            memory: (self.memory_of)(log),
            children: Vec::new(),
            without_log: Vec::new(),
            captured: BTreeMap::new(),
        })
    }

    /// Goes on until a child is to be followed, or everything is over.
    fn advance(&mut self, member: &mut Member<'a>, sink: &mut Sink) -> Result<Next> {
        loop {
            if let Some(child) = self.advance_program(member, sink)? {
                return Ok(Next::Follow(child));
            }
            let next = self.executed_next(member);
            let descriptors = member.tracker.after_exec();
            let Some(mut next) = next.and_then(|log| self.member(log, descriptors)) else { break };
            // It is the same process, and can wait for children of the program before.
            next.children = mem::take(&mut member.children);
            *member = next;
        }
        if member.children.is_empty() {
            return Ok(Next::Finished);
        }
        Ok(Next::Follow(member.children.remove(0)))
    }

    /// Goes on until a child is to be followed, or the log is over.
    fn advance_program(
        &mut self,
        member: &mut Member<'a>,
        sink: &mut Sink,
    ) -> Result<Option<Child>> {
        while let Some(happening) = member.happenings.next()? {
            match member.tracker.take(happening) {
                Outcome::Nothing => {}
                Outcome::Asynchronous => {
                    if self.wanted.has(member.log, self.wanted.from) {
                        self.told.missing.asynchronous_calls += 1;
                    }
                }
                Outcome::Opened(opened) => {
                    let path = member.memory.read(opened.at, opened.path, opened.length)?;
                    member.tracker.named(&opened, &path);
                }
                Outcome::Child { pid, log, descriptors } => {
                    let most = self.recording.processes().len();
                    match log.or_else(|| self.executed_by_child(member.log, pid)) {
                        Some(log) if member.children.len() < most => {
                            member.children.push(Child { pid, log, descriptors });
                        }
                        None if member.without_log.len() < WITHOUT_LOG_LIMIT => {
                            member.without_log.push(pid);
                        }
                        // More than there are: such a log tells nothing.
                        _ => {}
                    }
                }
                Outcome::Written(written) => {
                    if self.wanted.has(member.log, written.at.time) {
                        self.tell(member, &written, sink)?;
                    }
                    member.captured.remove(&written.thread);
                }
                Outcome::Reaped(pid) => {
                    if let Some(index) = member.children.iter().position(|c| c.pid == pid) {
                        return Ok(Some(member.children.remove(index)));
                    }
                }
            }
        }
        // Children that shared their parent's memory until they ended are in its log.
        let Member { without_log, tracker, .. } = member;
        let unknown = without_log.drain(..).filter(|&pid| !tracker.has_run(pid));
        self.told.missing.processes += unknown.count() as u64;
        Ok(None)
    }

    fn tell(&mut self, member: &mut Member, written: &Written, sink: &mut Sink) -> Result<()> {
        if written.data == Data::Elsewhere {
            self.told.missing.bytes = self.told.missing.bytes.saturating_add(written.amount);
            return Ok(());
        }
        if let Some(captured) = member.captured.get(&written.thread)
            && !matches!(written.data, Data::Messages(..))
            && let Ok(amount) = usize::try_from(written.amount)
            && amount <= captured.len()
        {
            return sink(OutputPiece::new(member.log, written, &captured[..amount]));
        }
        self.capture_others(member, written)?;
        let log = member.log;
        let mut missing = 0;
        read_pieces(&mut *member.memory, written, |asked, bytes| {
            missing += asked - bytes.len() as u64;
            sink(OutputPiece::new(log, written, bytes))
        })?;
        self.told.missing.bytes = self.told.missing.bytes.saturating_add(missing);
        Ok(())
    }

    /// A replay does not go back. So before it passes calls of other threads that are still in progress, their data
    /// is kept, as far as it is likely to be written at once.
    fn capture_others(&self, member: &mut Member, written: &Written) -> Result<()> {
        for other in member.tracker.in_progress(written.at.time) {
            if other.thread == written.thread
                || member.captured.contains_key(&other.thread)
                || !self.wanted.has(member.log, other.at.time)
            {
                continue;
            }
            let mut data = Vec::new();
            let amount = other.amount.min(PIECE);
            read_pieces(&mut *member.memory, &Written { amount, ..other }, |_, bytes| {
                data.extend_from_slice(bytes);
                Ok(())
            })?;
            member.captured.insert(other.thread, data);
        }
        Ok(())
    }

    /// The log of the program that a child has executed which borrowed its parent's memory until then.
    fn executed_by_child(&self, parent: u64, pid: u32) -> Option<u64> {
        self.find(pid, |summary| {
            summary.log > parent && summary.parent.is_none_or(|known| known == parent)
        })
    }

    /// The log of the program that was executed in place of a process's last one.
    fn executed_next(&self, member: &Member) -> Option<u64> {
        self.find(member.pid, |summary| {
            summary.log > member.log
                && summary.origin == Some(Origin::Exec)
                && summary.parent.is_none_or(|parent| parent == member.log)
        })
    }

    /// The first log of a process id that is not followed yet and fits.
    fn find(&self, pid: u32, fits: impl Fn(&ProcessSummary) -> bool) -> Option<u64> {
        let logs = self.by_pid.get(&pid)?.iter().copied();
        logs.filter(|log| !self.seen.contains(log))
            .find(|&log| self.recording.process(log).is_some_and(|process| fits(&process.summary)))
    }
}

/// Reads data piece by piece; `take` is told how much was asked for and what was there.
fn read_pieces(
    memory: &mut dyn Memory,
    written: &Written,
    mut take: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let at = written.at;
    let ranges =
        written.data.ranges(written.amount, &mut |address, len| memory.read(at, address, len))?;
    for (start, length) in ranges {
        let mut done = 0;
        while done < length {
            let asked = (length - done).min(PIECE);
            let bytes = memory.read(at, start.wrapping_add(done), asked)?;
            let bytes = &bytes[..bytes.len().min(asked as usize)];
            take(asked, bytes)?;
            done += asked;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
