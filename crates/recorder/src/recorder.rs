//! The recorder process: takes what engines log, has it written, and ends when nobody logs any more.
//!
//! Strategy: this thread sleeps on the doorbell, which engines ring when they claim a slot, publish a chunk
//! or end; the [watcher](crate::watch) rings it for deaths and for the supervisor, the
//! [pipeline](crate::pipeline) when it has room again. Each time it looks at the slots in use, and for new ones.
//!
//! Invariants:
//! 1. It waits for nobody but the disk: an engine that waits for room always gets it, or is told that recording
//!    has stopped.
//! 2. It ends when the first process has ended (or the supervisor is gone) and no slot is in use.
//! 3. When writing fails, recording stops for good: engines are told, and what they still say is dropped.
//!
//! Complexity: a ring costs a look at the slots in use.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use retro_abi::channel::{Control, Origin, Unrecorded};
use retro_recording::{
    ProcessEnd, RunEnd, RunOutcome, UnrecordedCounts, Writer, encode_process_summary, new_directory,
};

use crate::channel::Channel;
use crate::dialogue::{Heard, Line, Order, Report};
use crate::pipeline::Pipeline;
use crate::process::{Identity, Recorded, Step};
use crate::watch::{LINE, Watcher};
use crate::{Ending, Options, Summary, isolation};

/// Longest sleep: how late a change is noticed that nobody rang for.
const TICK: Duration = Duration::from_millis(100);

/// How often processes that do something are made to look whether a new interval is due.
const REMINDER: Duration = Duration::from_millis(20);

/// How often processes are looked at that may not be the ones that log.
const SWEEP: Duration = Duration::from_secs(1);

/// How long a process may take to begin a log whose number its parent has given it.
const PATIENCE_WITH_CHILDREN: Duration = Duration::from_millis(300);

/// How long the summary of the first process waits for the supervisor to say what killed it.
const PATIENCE_WITH_SUPERVISOR: Duration = Duration::from_secs(2);

/// How long the summary of a process that was killed waits for its parent to be told by what.
const PATIENCE_WITH_PARENTS: Duration = Duration::from_secs(1);

/// Runs the recorder in this process, which was forked for it, and returns its exit status.
pub fn run(line: Line, options: &Options) -> i32 {
    let recorder = match Recorder::prepare(line.as_fd(), options) {
        Ok(prepared) => prepared,
        Err(reason) => {
            line.send(&Report::Refused(reason));
            return 1;
        }
    };
    line.send(&Report::Ready(recorder.channel.descriptor()));
    match recorder.record(&line) {
        Some(summary) => line.send(&Report::Done(summary)),
        None => return 1,
    }
    0
}

struct Recorder {
    channel: Arc<Channel>,
    watcher: Watcher,
    pipeline: Pipeline,
    started: Instant,
    /// Slots in use, by index.
    slots: BTreeMap<usize, Recorded>,
    next_token: u64,
    last_tick: Instant,
    last_reminder: Instant,
    /// Whether a process has done anything between the last two reminders.
    active: bool,
    last_sweep: Instant,
    /// The logs seen so far, by number.
    logs: HashMap<u64, Identity>,
    /// By which signals processes were killed, as their parents were told: by the ids of both.
    killed: HashMap<(i32, i32), u32>,
    /// Those whose process has executed another program, which has begun a log.
    replaced: HashSet<u64>,
    first_pid: Option<i32>,
    guest: Guest,
    closed: bool,
    summary: Summary,
}

/// What is known of the first process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guest {
    Runs,
    Ended(Ending),
    /// The supervisor is gone without a word.
    Unknown,
    /// There is none.
    Cancelled,
}

impl Recorder {
    fn prepare(line: BorrowedFd, options: &Options) -> Result<Recorder, String> {
        isolation::isolate(line).map_err(|error| format!("cannot start the recorder: {error}"))?;
        // From here on it is reached by its descriptor: the program that is recorded may put something else in its place.
        let directory = new_directory(&options.directory).map_err(|e| e.to_string())?;
        let writer = Writer::create_in(&directory, &options.head).map_err(|e| e.to_string())?;
        let channel = Channel::create(&options.settings()).map_err(|error| {
            format!("cannot make the memory for logs: {error}{}", advice(&error))
        })?;
        let channel = Arc::new(channel);
        let threads = |error| format!("cannot start a thread of the recorder: {error}");
        let bell = channel.clone();
        let watcher = Watcher::start(line, move || bell.ring()).map_err(threads)?;
        let bell = channel.clone();
        let pipeline = Pipeline::start(writer, &directory, options.level, move || bell.ring())
            .map_err(threads)?;
        isolation::leave_directory();
        let now = Instant::now();
        Ok(Recorder {
            channel,
            watcher,
            pipeline,
            started: now,
            slots: BTreeMap::new(),
            next_token: 0,
            last_tick: now,
            last_reminder: now,
            active: true,
            last_sweep: now,
            logs: HashMap::new(),
            killed: HashMap::new(),
            replaced: HashSet::new(),
            first_pid: None,
            guest: Guest::Runs,
            closed: false,
            summary: Summary::default(),
        })
    }

    /// Records until everything is over. Returns nothing if the recording was called off.
    fn record(mut self, line: &Line) -> Option<Summary> {
        let mut quiet_since = None;
        // What the supervisor was told last.
        let mut told = None;
        loop {
            let seen = self.channel.doorbell();
            self.hear(line);
            if self.guest == Guest::Cancelled {
                return None;
            }
            if self.pipeline.failure().is_some() && !self.closed {
                self.close();
            }
            let sleep = self.tick();
            self.discover();
            let busy = self.drain();
            let over = self.guest != Guest::Runs;
            if over && told != Some(self.living()) {
                told = Some(self.living());
                line.mention(&Report::Remaining(self.living()));
            }
            let quiet = over && self.slots.is_empty();
            if !quiet {
                quiet_since = None;
            } else if !self.expects_children()
                || quiet_since.get_or_insert_with(Instant::now).elapsed() > PATIENCE_WITH_CHILDREN
            {
                self.sweep();
                if self.slots.is_empty() {
                    line.mention(&Report::Remaining(0));
                    return Some(self.finish());
                }
            }
            if !busy {
                self.channel.sleep(seen, sleep);
            }
        }
    }

    /// Processes that still run. Of others there is only something left to be written.
    fn living(&self) -> u64 {
        self.slots.values().filter(|process| process.is_alive()).count() as u64
    }

    /// Whether numbers of logs were given out that nobody uses yet. A parent may end before its child begins.
    fn expects_children(&self) -> bool {
        let control = self.channel.control();
        let unrecorded = unrecorded(control).iter().fold(0, |sum: u64, &n| sum.saturating_add(n));
        let accounted = unrecorded.saturating_add(self.logs.len() as u64);
        control.next_log.load(Ordering::SeqCst) > accounted
    }

    /// Takes what the watcher noticed.
    fn hear(&mut self, line: &Line) {
        while let Some(event) = self.watcher.next() {
            if event == LINE {
                self.hear_supervisor(line);
            } else if let Some(process) = self.slots.values_mut().find(|p| p.token == event) {
                process.has_died();
            }
        }
    }

    fn hear_supervisor(&mut self, line: &Line) {
        loop {
            match line.receive(Some(Instant::now())) {
                Heard::Message(Order::Ended(ending)) => self.guest = Guest::Ended(ending),
                Heard::Message(Order::Cancel) => self.guest = Guest::Cancelled,
                Heard::Nothing => return self.watcher.listen(line.as_fd()),
                Heard::Gone => {
                    if self.guest == Guest::Runs {
                        self.guest = Guest::Unknown;
                    }
                    return;
                }
            }
        }
    }

    /// Does what need not be done at every ring. Returns how long it may sleep afterwards.
    fn tick(&mut self) -> Duration {
        if self.last_reminder.elapsed() >= REMINDER {
            self.last_reminder = Instant::now();
            // Each is reminded, whatever the others did.
            let active = self.slots.values_mut().map(Recorded::remind);
            self.active = active.filter(|&active| active).count() > 0;
        }
        self.ask_and_sweep();
        if self.active { REMINDER } else { TICK }
    }

    fn ask_and_sweep(&mut self) {
        if self.last_tick.elapsed() < TICK {
            return;
        }
        self.last_tick = Instant::now();
        self.slots.values_mut().for_each(Recorded::ask);
        if self.last_sweep.elapsed() >= SWEEP {
            self.sweep();
        }
    }

    fn sweep(&mut self) {
        self.last_sweep = Instant::now();
        // Nobody is waited for in vain.
        if self.guest != Guest::Runs
            && let Some(inode) = self.channel.inode()
        {
            self.slots.values_mut().for_each(|process| process.check_it_is_recorded(inode));
        }
    }

    /// Finds slots that were claimed.
    fn discover(&mut self) {
        for index in self.channel.control().claims.taken() {
            if self.slots.contains_key(&index) {
                continue;
            }
            // Without memory for a mapping now, there may be some later.
            let Ok(slot) = self.channel.slot(index) else { continue };
            self.slots.insert(index, Recorded::new(index, self.next_token, slot));
            self.next_token += 1;
        }
    }

    /// Reads who writes the logs that have begun.
    fn identify(&mut self) {
        for process in self.slots.values_mut() {
            let Some(identity) = process.look(&self.watcher) else { continue };
            if self.logs.contains_key(&identity.log) {
                process.refused = true;
                self.summary.damaged += 1;
                continue;
            }
            self.logs.insert(identity.log, identity);
            match identity.origin {
                Some(Origin::First) => {
                    self.first_pid.get_or_insert(identity.pid);
                }
                Some(Origin::Exec) => {
                    self.replaced.insert(identity.parent);
                }
                Some(Origin::Fork) | None => {}
            }
        }
    }

    /// Takes the code of processes that others were forked from. Of one that is gone, everything is taken already.
    fn take_inherited_code(&mut self) {
        let heirs = self.slots.iter().filter_map(|(&index, heir)| Some((index, heir.heir_of?)));
        for (index, parent) in heirs.collect::<Vec<(usize, u64)>>() {
            let is_parent = |process: &&mut Recorded| {
                process.identity().is_some_and(|identity| identity.log == parent)
            };
            let parent = self.slots.values_mut().find(is_parent);
            let is_taken = parent
                .is_none_or(|parent| parent.take_code(&self.channel, &self.pipeline, self.closed));
            if let Some(heir) = self.slots.get_mut(&index).filter(|_| is_taken) {
                heir.heir_of = None;
            }
        }
    }

    /// Takes a round of what there is to take. Returns whether there may be more.
    fn drain(&mut self) -> bool {
        self.identify();
        self.take_inherited_code();
        let mut busy = false;
        let (mut over, mut returned) = (Vec::new(), Vec::new());
        for process in self.slots.values_mut() {
            match process.step(&self.channel, &self.pipeline, self.closed) {
                Step::Idle | Step::Starved => {}
                Step::Took => busy = true,
                Step::Over => over.push(process.index),
                Step::Returned => returned.push(process.index),
            }
        }
        self.hear_parents();
        for index in returned {
            // It may be another's by now: then it is found again.
            self.slots.remove(&index);
        }
        if over.iter().any(|index| self.slots[index].ended_silently()) {
            // Whatever the dead have begun must be known before it is said how they ended.
            self.sweep();
            self.identify();
        }
        for index in over {
            self.end_process(index);
        }
        busy
    }

    /// Takes note of what parents were told of children whose logs are not ended yet.
    fn hear_parents(&mut self) {
        let mut told = Vec::new();
        for process in self.slots.values_mut() {
            let children = process.killed_children();
            if let Some(parent) = process.identity() {
                told.extend(children.into_iter().map(|(child, by)| ((parent.pid, child), by)));
            }
        }
        told.retain(|((_, child), _)| {
            let pids = self.slots.values().filter_map(Recorded::identity).map(|known| known.pid);
            pids.into_iter().any(|pid| pid == *child)
        });
        self.killed.extend(told);
    }

    /// Ends the log of a process of which everything is taken.
    fn end_process(&mut self, index: usize) {
        let Some(process) = self.slots.remove(&index) else { return };
        let silent = process.ended_silently();
        // Killed right after it had executed another program, which had no time to end the log of the one before.
        let replaced = silent && process.identity().is_some_and(|i| self.replaced.contains(&i.log));
        // Killed later, as another program that cannot reach the recorder.
        let left = silent && !replaced && process.was_executing();
        let silent = silent && !replaced && !left;
        let is_guest = process.identity().is_some_and(|i| Some(i.pid) == self.first_pid);
        let silent_guest = silent && is_guest;
        if silent_guest
            && self.guest == Guest::Runs
            && process.dead_for() < PATIENCE_WITH_SUPERVISOR
        {
            self.slots.insert(index, process);
            return;
        }
        let told = if silent && !is_guest { self.ending_of(&process) } else { None };
        if silent && told.is_none() && !is_guest && self.may_be_told(&process) {
            self.slots.insert(index, process);
            return;
        }
        if let Some(identity) = process.identity()
            && let Some(parent) = self.parent_of(identity)
        {
            self.killed.remove(&(parent, identity.pid));
        }
        self.summary.log_bytes += process.taken_bytes;
        if let Some(mut summary) = process.summary().filter(|_| !process.refused) {
            if replaced {
                summary.end = ProcessEnd::Executed;
            } else if left {
                summary.end = ProcessEnd::Stopped;
                let unrecorded = &self.channel.control().unrecorded;
                unrecorded[Unrecorded::Unreachable as usize].fetch_add(1, Ordering::Relaxed);
            } else if let (true, Guest::Ended(ending)) = (silent_guest, self.guest) {
                summary.end = process_end(ending);
            } else if let Some(ending) = told {
                summary.end = process_end(ending);
            }
            self.summary.processes += 1;
            let sum = self.summary.instructions.saturating_add(process.instructions());
            self.summary.instructions = sum;
            self.pipeline.note(encode_process_summary(&summary));
        }
        self.channel.release(index, process.into_slot());
    }

    /// How a process ended that could not say so itself.
    fn ending_of(&self, process: &Recorded) -> Option<Ending> {
        let told_parent = || {
            let identity = process.identity()?;
            let signal = self.killed.get(&(self.parent_of(identity)?, identity.pid))?;
            Some(Ending::Killed(*signal as i32))
        };
        process.ending().or_else(told_parent)
    }

    /// Whether the parent of a process that was killed lives and may be about to wait for it.
    fn may_be_told(&self, process: &Recorded) -> bool {
        let parent = process.identity().and_then(|identity| self.parent_of(identity));
        let is_parent = |other: &Recorded| {
            other.is_alive() && other.identity().map(|identity| identity.pid) == parent
        };
        process.dead_for() < PATIENCE_WITH_PARENTS
            && parent.is_some()
            && self.slots.values().any(is_parent)
    }

    /// The process id of the process that made this one.
    fn parent_of(&self, identity: &Identity) -> Option<i32> {
        let mut identity = identity;
        // Its own programs before this one come first. Parents have lower numbers, unless somebody has scribbled.
        while identity.origin == Some(Origin::Exec) {
            identity =
                self.logs.get(&identity.parent).filter(|before| before.log < identity.log)?;
        }
        Some(self.logs.get(&identity.parent)?.pid)
    }

    /// Tells engines that nothing is recorded any more.
    fn close(&mut self) {
        self.closed = true;
        self.channel.control().closed.store(1, Ordering::SeqCst);
        self.slots.values().for_each(Recorded::wake);
    }

    fn finish(self) -> Summary {
        // A process that starts now is too late.
        let control = self.channel.control();
        control.closed.store(1, Ordering::SeqCst);
        let unrecorded = unrecorded(control);
        let end = RunEnd {
            outcome: match self.guest {
                Guest::Ended(Ending::Exited(status)) => RunOutcome::Exited(status as u32),
                Guest::Ended(Ending::Killed(signal)) => RunOutcome::Signalled(signal as u32),
                Guest::Runs | Guest::Unknown | Guest::Cancelled => RunOutcome::Unknown,
            },
            wall_nanoseconds: self.started.elapsed().as_nanos().try_into().unwrap_or(u64::MAX),
            stopped: None,
            unrecorded,
        };
        let (file_bytes, failure) = self.pipeline.finish(end);
        Summary { file_bytes, unrecorded, failure, ..self.summary }
    }
}

/// Processes that ran on unrecorded, by reason.
fn unrecorded(control: &Control) -> UnrecordedCounts {
    control.unrecorded.each_ref().map(|count| count.load(Ordering::Relaxed))
}

fn process_end(ending: Ending) -> ProcessEnd {
    match ending {
        Ending::Exited(status) => ProcessEnd::Exited(status as u32),
        Ending::Killed(signal) => ProcessEnd::Signalled(signal as u32),
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EFBIG) => "; allow larger files with `ulimit -f unlimited`",
        _ => "",
    }
}
