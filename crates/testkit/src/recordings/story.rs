//! One log, read from its first event to its last.
//!
//! The walk keeps what a replay would have to know at each event (which threads there are, which one runs, which
//! are in a system call) and notes where an event contradicts it.

use std::collections::{BTreeMap, BTreeSet};

use retro_abi::channel::{Origin, Stream};
use retro_abi::log::{Event, Kind};
use retro_recording::{Process, ProcessEnd, Recording};

use super::family::WaitStatus;

/// More than this many problems of one log say nothing new.
const MOST_PROBLEMS: usize = 8;

/// What a log tells.
#[derive(Debug)]
pub struct Story {
    /// Number of the log.
    pub log: u64,
    /// Time of the last event.
    pub last_time: u64,
    /// What the last event of the main stream says, if it is an end.
    pub end: Option<ProcessEnd>,
    /// Children: process id, and the number of the log if there is one.
    pub children: Vec<(u32, Option<u64>)>,
    /// Children whose end was waited for, with the status as the kernel told it.
    pub reaped: Vec<(u32, WaitStatus)>,
    /// Threads that ever were.
    pub threads: BTreeSet<u32>,
    /// Changes of the running thread.
    pub switches: u64,
    /// Events by kind.
    pub events: BTreeMap<Kind, u64>,
    /// Contradictions.
    pub problems: Vec<String>,
}

impl Story {
    /// Reads a log.
    pub(super) fn read(recording: &Recording, process: &Process) -> Story {
        let story = Story {
            log: process.summary.log,
            last_time: 0,
            end: None,
            children: Vec::new(),
            reaped: Vec::new(),
            threads: BTreeSet::new(),
            switches: 0,
            events: BTreeMap::new(),
            problems: Vec::new(),
        };
        let mut reader = Reader {
            story,
            process,
            syscalls: BTreeMap::new(),
            signals: BTreeMap::new(),
            live: BTreeMap::new(),
            running: 0,
            finished_wait: None,
            intervals: 0,
            states_due: 0,
            returns_from_fork: false,
            start_due: None,
            raw_bytes: 0,
        };
        for stream in Stream::ALL {
            reader.read_stream(recording, stream);
        }
        reader.compare_with_summary();
        reader.story
    }

    fn problem(&mut self, text: String) {
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(text);
        }
    }
}

/// A system call that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Call {
    number: u64,
    args: [u64; 6],
}

/// A wait that has returned, while its effects are being read.
#[derive(Clone, Copy, Debug)]
struct FinishedWait {
    pid: u32,
    /// Where the kernel wrote the status.
    status_at: u64,
    /// Whether it is a `siginfo_t`, as `waitid` has it.
    as_siginfo: bool,
}

struct Reader<'a> {
    story: Story,
    process: &'a Process,
    syscalls: BTreeMap<u32, u64>,
    signals: BTreeMap<u32, u64>,
    /// Threads that exist, with the call each is in.
    live: BTreeMap<u32, Option<Call>>,
    running: u32,
    finished_wait: Option<FinishedWait>,
    intervals: u64,
    /// States of threads that an interval has still to tell.
    states_due: u32,
    /// Whether the log begins in the child's side of a call that made it, whose return is told without its start.
    returns_from_fork: bool,
    /// A thread that runs for the first time and has still to be told as started.
    start_due: Option<u32>,
    raw_bytes: u64,
}

impl Reader<'_> {
    fn read_stream(&mut self, recording: &Recording, stream: Stream) {
        let mut time = 0;
        let mut is_first = true;
        for segment in recording.segments(self.story.log, stream) {
            self.raw_bytes += u64::from(segment.raw_length);
            if segment.base_time < time {
                let base = segment.base_time;
                self.story.problem(format!("a chunk of {stream:?} begins at {base}, after {time}"));
            }
            let chunk = match recording.read_chunk(segment) {
                Ok(chunk) => chunk,
                Err(error) => return self.story.problem(error.to_string()),
            };
            time = segment.base_time;
            for event in chunk.events() {
                let (at, event) = match event {
                    Ok(event) => event,
                    Err(bad) => {
                        let sequence = segment.sequence;
                        return self
                            .story
                            .problem(format!("chunk {sequence} of {stream:?}, {time}: {bad:?}"));
                    }
                };
                if at < time {
                    let kind = event.kind();
                    self.story.problem(format!("{kind:?} goes back from {time} to {at}"));
                }
                time = at;
                self.take(stream, time, &event, is_first);
                is_first = false;
            }
        }
        self.story.last_time = self.story.last_time.max(time);
    }

    fn take(&mut self, stream: Stream, time: u64, event: &Event, is_first: bool) {
        let kind = event.kind();
        *self.story.events.entry(kind).or_default() += 1;
        let belongs = match kind {
            Kind::Code | Kind::File | Kind::Inherit => Stream::Code,
            _ => Stream::Main,
        };
        if belongs != stream {
            self.story.problem(format!("{time}: {kind:?} is in {stream:?}"));
        }
        if belongs == Stream::Main {
            if is_first != (kind == Kind::Start) {
                self.story.problem(format!("{time}: {kind:?} where a log begins or goes on"));
            }
            if self.story.end.is_some() {
                self.story.problem(format!("{time}: {kind:?} after the end"));
            }
        }
        if self.states_due > 0 && kind != Kind::ThreadState {
            self.story.problem(format!("{time}: {kind:?} where a thread's state is due"));
            self.states_due = 0;
        }
        if let Some(thread) = self.start_due.take()
            && *event != (Event::ThreadStart { thread })
        {
            self.story.problem(format!("{time}: a switch to {thread}, which does not exist"));
        }
        self.take_main(time, event);
    }

    fn take_main(&mut self, time: u64, event: &Event) {
        match *event {
            Event::Start { pid, origin, .. } => self.start(pid, origin),
            Event::Load { bytes, .. } | Event::Write { bytes, .. } if bytes.is_empty() => {
                self.story.problem(format!("{time}: {:?} of no bytes", event.kind()));
            }
            Event::Write { address, bytes } => self.finish_wait(address, bytes),
            Event::SyscallEnter { number, args, .. } => {
                *self.syscalls.entry(number.min(511) as u32).or_default() += 1;
                self.finished_wait = None;
                let replaced = self.live.insert(self.running, Some(Call { number, args }));
                if let Some(Some(call)) = replaced {
                    let thread = self.running;
                    self.story.problem(format!("{time}: {thread} calls {number} within {call:?}"));
                }
            }
            Event::SyscallExit { result } => {
                self.finished_wait = None;
                match self.live.get_mut(&self.running).map(Option::take) {
                    Some(Some(call)) => self.finished_wait = finished_wait(&call, result),
                    _ if self.returns_from_fork => self.returns_from_fork = false,
                    _ => {
                        let thread = self.running;
                        self.story.problem(format!("{time}: {thread} returns from no system call"));
                    }
                }
            }
            Event::Signal { number, .. } => *self.signals.entry(number).or_default() += 1,
            Event::ThreadStart { thread } => {
                self.story.threads.insert(thread);
                if self.live.insert(thread, None).is_some() {
                    self.story.problem(format!("{time}: thread {thread} starts twice"));
                }
            }
            Event::ThreadSwitch { thread, .. } => self.switch(time, thread),
            Event::ThreadEnd { thread, .. } => self.end_thread(time, thread),
            Event::Interval { number, running, threads } => {
                if number != self.intervals {
                    let due = self.intervals;
                    self.story.problem(format!("{time}: interval {number} where {due} is due"));
                }
                self.intervals = number + 1;
                self.states_due = threads;
                if number == 0 {
                    self.story.threads.insert(running);
                    self.live.insert(running, None);
                }
                self.running = running;
            }
            Event::ThreadState { thread, in_syscall, .. } => self.state(time, thread, in_syscall),
            Event::Fork { pid, log } => self.story.children.push((pid, log.checked_sub(1))),
            Event::End { how, code } => {
                self.story.end = Some(ProcessEnd::from_numbers(how, code));
            }
            _ => {}
        }
    }

    fn start(&mut self, pid: u32, origin: u8) {
        let summary = &self.process.summary;
        let told = (summary.pid, summary.origin);
        let read = (pid, Origin::from_number(origin.into()));
        self.returns_from_fork = read.1 == Some(Origin::Fork);
        // The first process of a PID namespace knows itself by another number than the recorder does.
        let pid_agrees = told.0 == read.0 || pid == 1;
        if !pid_agrees || told.1 != read.1 {
            self.story.problem(format!("its start says {read:?}, its summary {told:?}"));
        }
    }

    fn switch(&mut self, time: u64, thread: u32) {
        self.finished_wait = None;
        self.story.switches += 1;
        if !self.live.contains_key(&thread) {
            self.start_due = Some(thread);
        }
        if thread == self.running {
            self.story.problem(format!("{time}: a switch to {thread}, which runs already"));
        }
        self.running = thread;
    }

    fn end_thread(&mut self, time: u64, thread: u32) {
        if self.live.remove(&thread).is_none() {
            self.story.problem(format!("{time}: thread {thread} ends without having begun"));
        }
    }

    /// States follow an interval, or the start of the one thread that they are about.
    fn state(&mut self, time: u64, thread: u32, in_syscall: u32) {
        self.states_due = self.states_due.saturating_sub(1);
        let known = self.live.get(&thread).copied();
        let Some(call) = known else {
            return self
                .story
                .problem(format!("{time}: the state of {thread}, which does not exist"));
        };
        let number = call.map(|call| call.number as u32);
        if self.intervals > 1 && number != in_syscall.checked_sub(1) {
            self.story
                .problem(format!("{time}: {thread} is said to be in {in_syscall}: {number:?}"));
        }
    }

    fn finish_wait(&mut self, address: u64, bytes: &[u8]) {
        let Some(wait) = self.finished_wait else { return };
        let number_at = |offset: u64| {
            let start = wait.status_at.checked_add(offset)?.checked_sub(address)? as usize;
            let field = bytes.get(start..)?.first_chunk::<4>()?;
            Some(i32::from_le_bytes(*field))
        };
        let reaped = if wait.as_siginfo {
            let fields = (number_at(16), number_at(8), number_at(24));
            let (Some(pid), Some(code), Some(status)) = fields else { return };
            (pid.cast_unsigned(), WaitStatus::from_siginfo(code, status))
        } else {
            let Some(status) = number_at(0) else { return };
            (wait.pid, WaitStatus::from_wait(status))
        };
        if let (pid, Some(status)) = reaped {
            self.story.reaped.push((pid, status));
        }
        self.finished_wait = None;
    }

    /// A process that could say how it ended has also counted everything that it logged.
    fn compare_with_summary(&mut self) {
        let summary = &self.process.summary;
        let last = self.story.last_time;
        // A derived summary knows the main stream only.
        if last > summary.time && !self.process.derived {
            self.story.problem(format!("its last event is at {last}, its end at {}", summary.time));
        }
        let Some(end) = self.story.end else { return };
        if end != summary.end {
            self.story.problem(format!("its last event is {end:?}, its summary {:?}", summary.end));
        }
        if self.process.derived {
            return;
        }
        let counts = &summary.counts;
        for kind in Kind::ALL {
            let (told, read) = (counts.of_kind(kind).events, self.story.events.get(&kind));
            let read = read.copied().unwrap_or(0);
            if told != read {
                self.story.problem(format!("it has {read} of {kind:?} and counted {told}"));
            }
        }
        let told: u64 = counts.events.values().map(|count| count.bytes).sum();
        if told != self.raw_bytes {
            let read = self.raw_bytes;
            self.story.problem(format!("it has {read} bytes and counted {told}"));
        }
        for (what, told, read) in [
            ("system calls", &counts.syscalls, &self.syscalls),
            ("signals", &counts.signals, &self.signals),
        ] {
            if told != read {
                self.story.problem(format!("its {what} are {read:?}, it counted {told:?}"));
            }
        }
        // Children that borrow the memory until they execute a program run here, too, but are no threads.
        let read = self.story.threads.len() as u64;
        if counts.threads == 0 || counts.threads > read || counts.intervals != self.intervals {
            let (told, intervals) = ((counts.threads, counts.intervals), self.intervals);
            let read = (read, intervals);
            self.story.problem(format!("threads and intervals are {read:?}, it counted {told:?}"));
        }
    }
}

/// What to look for after a call that waited for a child, if it was one that found one.
fn finished_wait(call: &Call, result: u64) -> Option<FinishedWait> {
    let result = result.cast_signed();
    match call.number as i64 {
        libc::SYS_wait4 if result > 0 => {
            Some(FinishedWait { pid: result as u32, status_at: call.args[1], as_siginfo: false })
        }
        libc::SYS_waitid if result == 0 => {
            Some(FinishedWait { pid: 0, status_at: call.args[2], as_siginfo: true })
        }
        _ => None,
    }
}
