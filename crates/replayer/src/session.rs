//! A session: one replay process and the questions that it answers.

mod looking;
mod registers;
mod streaming;
mod supply;

use std::os::fd::AsFd;
use std::sync::Arc;

use retro_abi::replay::{Header, MAX_PAYLOAD, SAMPLE_SIZE, ask, begin, tell, why};
use retro_recording::Budget;

use crate::hearsay::printable;
use crate::link::{Broken, Link};
use crate::log_file::LogFile;
use crate::process::ReplayProcess;
use crate::read_ahead::ReadAhead;
use crate::start::Start;
use crate::stream::Descriptions;
use crate::{Divergence, Error, Interval, Replayer};

pub use registers::{Registers, Sample, ThreadInfo};
use streaming::StreamFile;

/// A process is sent on its way for so many instructions at most, so that its silence means something.
const LONGEST_RUN: u64 = 64_000_000;

/// Whether a session notes what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracking {
    Off,
    Marked,
}

impl Tracking {
    fn flags(self) -> u64 {
        match self {
            Tracking::Off => 0,
            Tracking::Marked => begin::MARK,
        }
    }
}

/// Why a session has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The time has come.
    Time,
    /// It is in front of an instruction with a breakpoint.
    Breakpoint,
    /// The interval is over.
    End,
}

/// Where a session has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Why.
    pub reason: StopReason,
    /// The time.
    pub time: u64,
    /// The thread that runs.
    pub thread: u32,
    /// Its next instruction.
    pub pc: u64,
    /// Events of the log that this process has applied.
    pub events: u64,
}

/// One replay process, somewhere in one interval. It only goes forward; [`Session::fork`] keeps a place to come back
/// to.
///
/// After an error that the process causes ([`Error::Diverged`], [`Error::Failed`], [`Error::Crashed`]) it is gone, and
/// every further question is answered by [`Error::Crashed`].
#[derive(Debug)]
pub struct Session {
    log: u64,
    interval: Interval,
    log_file: Arc<LogFile>,
    link: Link,
    process: ReplayProcess,
    stop: Stop,
    /// Whether it has executed anything of the recording.
    has_run: bool,
    breakpoints: Vec<u64>,
    tracking: Tracking,
    /// Where memory comes from, if the session began in the middle.
    start: Option<Start>,
    /// What it was sent of that.
    read_ahead: ReadAhead,
    /// The memory that may be used for the recording.
    budget: Budget,
    /// The blocks that the process has described. Copies have the same.
    descriptions: Arc<Descriptions>,
    /// A copy of a process shares this with it, and gets its own before it streams.
    stream: Option<StreamFile>,
    /// What is streamed, and the other end of the socket, if there is no process.
    #[cfg(feature = "fuzzing")]
    script: Option<(Arc<crate::fuzzing::Script>, Arc<std::os::fd::OwnedFd>)>,
}

impl Session {
    /// Starts at the beginning of an interval.
    pub(crate) fn start(
        replayer: &Replayer,
        log: u64,
        interval: u64,
        tracking: Tracking,
    ) -> Result<Session, Error> {
        let mut session = Session::idle(replayer, log, interval, tracking)?;
        let from = session.interval.start;
        session.begin(from, 0, tracking.flags())?;
        Ok(session)
    }

    /// Starts in the middle of an interval, from a snapshot; memory is taken from there, too.
    pub(crate) fn start_at(
        replayer: &Replayer,
        log: u64,
        interval: u64,
        start: Start,
        tracking: Tracking,
    ) -> Result<Session, Error> {
        let mut session = Session::idle(replayer, log, interval, tracking)?;
        let time = session.tell_state(start)?;
        session.begin(time, time, begin::LAZY | tracking.flags())?;
        session.supply_ahead()?;
        Ok(session)
    }

    /// Goes to a snapshot of any interval of the same log. What the process has translated stays.
    pub fn go_to_start(
        &mut self,
        replayer: &Replayer,
        interval: u64,
        start: Start,
    ) -> Result<(), Error> {
        // Also if it is the same: what the process was given may begin later.
        self.take_log_file(replayer, interval)?;
        let time = self.tell_state(start)?;
        self.restart_with_file(time, begin::LAZY | self.tracking.flags())?;
        self.supply_ahead()
    }

    fn take_log_file(&mut self, replayer: &Replayer, interval: u64) -> Result<(), Error> {
        self.log_file = replayer.log_file(self.log, interval)?;
        self.interval = self.log_file.interval();
        Ok(())
    }

    fn restart_with_file(&mut self, from: u64, flags: u64) -> Result<(), Error> {
        let file = Arc::clone(&self.log_file);
        self.stop.time = from.max(self.interval.start);
        let (main, _) = file.ranges_from(self.stop.time);
        let words = [from, flags, main.start, main.end - main.start];
        let sent = self.link.send_file(&Header::new(ask::RESTART, words), file.file());
        sent.map_err(|broken| self.broken(broken))?;
        self.await_stop()
    }

    /// Goes to the start of another interval of the same log. What the process has translated stays.
    pub fn go_to_interval(&mut self, replayer: &Replayer, interval: u64) -> Result<(), Error> {
        self.take_log_file(replayer, interval)?;
        self.start = None;
        self.restart_with_file(0, self.tracking.flags())
    }

    /// Goes back to where it began. What the process has translated stays.
    pub(crate) fn begin_again(&mut self) -> Result<(), Error> {
        match self.start.clone() {
            None => self.restart_with_file(0, self.tracking.flags()),
            Some(start) => {
                let time = self.tell_state(start)?;
                self.restart_with_file(time, begin::LAZY | self.tracking.flags())?;
                self.supply_ahead()
            }
        }
    }

    /// Tells the process what it will start from; says from when.
    fn tell_state(&mut self, start: Start) -> Result<u64, Error> {
        let snapshot = Arc::clone(&start.snapshot);
        let time = snapshot.time;
        for payload in snapshot.to_messages(self.interval.number) {
            self.send(&Header::new(ask::STATE, [time]), &payload)?;
        }
        self.start = Some(start);
        self.read_ahead = ReadAhead::default();
        Ok(time)
    }

    fn idle(
        replayer: &Replayer,
        log: u64,
        interval: u64,
        tracking: Tracking,
    ) -> Result<Session, Error> {
        let log_file = replayer.log_file(log, interval)?;
        #[cfg(feature = "fuzzing")]
        let script = replayer.shared.script.clone();
        #[cfg(feature = "fuzzing")]
        let (link, process, script) = match script {
            Some(script) => {
                let (link, other) = crate::fuzzing::link(&script).map_err(Error::Start)?;
                (link, ReplayProcess::absent(), Some((script, Arc::new(other))))
            }
            None => {
                let (link, process) = Session::start_process(replayer)?;
                (link, process, None)
            }
        };
        #[cfg(not(feature = "fuzzing"))]
        let (link, process) = Session::start_process(replayer)?;
        let interval = log_file.interval();
        let time = interval.start;
        let stop = Stop { reason: StopReason::Time, time, thread: 0, pc: 0, events: 0 };
        Ok(Session {
            log,
            interval,
            log_file,
            link,
            process,
            stop,
            has_run: false,
            breakpoints: Vec::new(),
            tracking,
            start: None,
            read_ahead: ReadAhead::default(),
            budget: replayer.recording().budget().clone(),
            descriptions: Arc::new(Descriptions::within(replayer.recording().budget())),
            stream: None,
            #[cfg(feature = "fuzzing")]
            script,
        })
    }

    fn start_process(replayer: &Replayer) -> Result<(Link, ReplayProcess), Error> {
        let (mut link, socket) = Link::pair().map_err(Error::Start)?;
        let process = ReplayProcess::start(replayer.engine(), replayer.warden(), socket)
            .map_err(Error::Start)?;
        link.belongs_to(process.watched());
        Ok((link, process))
    }

    fn begin(&mut self, time: u64, from: u64, flags: u64) -> Result<(), Error> {
        let (main, code) = self.log_file.ranges_from(time);
        let words =
            [main.start, main.end - main.start, code.start, code.end - code.start, from, flags];
        let file = Arc::clone(&self.log_file);
        let sent = self.link.send_file(&Header::new(ask::BEGIN, words), file.file());
        sent.map_err(|broken| self.broken(broken))?;
        self.await_stop()
    }

    /// The log that this replays.
    pub fn log(&self) -> u64 {
        self.log
    }

    /// The interval that this replays.
    pub fn interval(&self) -> Interval {
        self.interval
    }

    /// The number of its process, for those who look after the system.
    pub fn process_id(&self) -> Option<u32> {
        self.process.id()
    }

    /// The time: so many instructions have retired.
    pub fn time(&self) -> u64 {
        self.stop.time
    }

    /// The thread that runs.
    pub fn thread(&self) -> u32 {
        self.stop.thread
    }

    /// Its next instruction.
    pub fn pc(&self) -> u64 {
        self.stop.pc
    }

    pub(crate) fn log_file(&self) -> &LogFile {
        &self.log_file
    }

    pub(crate) fn breakpoints(&self) -> &[u64] {
        &self.breakpoints
    }

    /// Where and why it has stopped last.
    pub fn last_stop(&self) -> Stop {
        self.stop
    }

    /// Goes on to a time, to the next breakpoint before that, or to the end of the interval. At `time` itself
    /// breakpoints do not matter.
    pub fn run_to(&mut self, time: u64) -> Result<Stop, Error> {
        self.check_forward(time)?;
        self.run_in_stretches(time, |session, stretch_end| {
            session.send(&Header::new(ask::RUN, [stretch_end, 0]), &[])?;
            session.await_stop()
        })
    }

    /// Goes on to a time, or to the end of the interval, and tells of every breakpoint on the way what the registers are there.
    pub fn sample_to(&mut self, time: u64, visit: impl FnMut(Sample)) -> Result<Stop, Error> {
        self.check_forward(time)?;
        let mut visit = visit;
        // It goes on where it stands, so that this one is not among what comes.
        let target = time.min(self.interval.end);
        while self.time() < target {
            let stretch_end = self.time().saturating_add(LONGEST_RUN).min(target);
            self.send(&Header::new(ask::RUN, [stretch_end, 0, 1]), &[])?;
            let mut last = None;
            loop {
                let (header, len) = self.answer_length()?;
                if header.kind() != tell::SAMPLES {
                    self.take_stop(&header)?;
                    break;
                }
                let (samples, rest) = self.link.payload(len).as_chunks::<SAMPLE_SIZE>();
                let mut makes_sense = rest.is_empty();
                for sample in samples.iter().map(Sample::parse) {
                    // One for an instruction at most, so that there is an end to them.
                    makes_sense &= last < Some(sample.time) && sample.time <= stretch_end;
                    last = Some(sample.time);
                    if makes_sense {
                        visit(sample);
                    }
                }
                if !makes_sense {
                    return Err(self.nonsense("its samples make no sense"));
                }
            }
            if self.stop.reason == StopReason::End {
                break;
            }
        }
        Ok(self.stop)
    }

    /// Executes one instruction of the thread that runs, and whatever the log has after it.
    pub fn step(&mut self) -> Result<Stop, Error> {
        self.run_to(self.time().saturating_add(1))
    }

    /// Sends the process on its way again and again until it is where it should be.
    pub(crate) fn run_in_stretches(
        &mut self,
        until: u64,
        mut run: impl FnMut(&mut Session, u64) -> Result<(), Error>,
    ) -> Result<Stop, Error> {
        let target = until.min(self.interval.end);
        while self.time() < target {
            let stretch_end = self.time().saturating_add(LONGEST_RUN).min(target);
            run(self, stretch_end)?;
            if self.stop.reason != StopReason::Time {
                return Ok(self.stop);
            }
            if self.time() < stretch_end {
                return Err(self.nonsense("it stops before its time"));
            }
            // A run does not stop where it starts.
            if self.time() < target && self.breakpoints.contains(&self.pc()) {
                self.stop.reason = StopReason::Breakpoint;
                return Ok(self.stop);
            }
        }
        let over = until > self.interval.end || self.stop.reason == StopReason::End;
        self.stop.reason = if over { StopReason::End } else { StopReason::Time };
        Ok(self.stop)
    }

    pub(crate) fn check_forward(&self, wanted: u64) -> Result<(), Error> {
        let now = self.time();
        if wanted < now { Err(Error::Backwards { now, wanted }) } else { Ok(()) }
    }

    /// From now on [`Session::run_to`] stops in front of these instructions. Replaces those set before.
    pub fn set_breakpoints(&mut self, addresses: &[u64]) -> Result<(), Error> {
        let payload: Vec<u8> = addresses.iter().flat_map(|address| address.to_le_bytes()).collect();
        if payload.len() > MAX_PAYLOAD {
            return Err(Error::TooManyBreakpoints { most: MAX_PAYLOAD / 8 });
        }
        self.send(&Header::new(ask::BREAKPOINTS, []), &payload)?;
        self.await_done()?;
        self.breakpoints = addresses.to_vec();
        Ok(())
    }

    /// Makes a copy of the session, with its own process, at the same place. Only before it has executed anything: what has
    /// may be under the control of the recording, and is not given the right to multiply.
    pub fn fork(&mut self) -> Result<Session, Error> {
        if self.has_run {
            return Err(Error::HasRun);
        }
        let (mut link, socket) = Link::pair().map_err(Error::Start)?;
        link.ask_for_senders(true).map_err(Error::Start)?;
        let sent = self.link.send_socket(&Header::new(ask::FORK, []), socket.as_fd());
        sent.map_err(|broken| self.broken(broken))?;
        drop(socket);
        self.await_done()?;
        let pid = match link.receive_with_sender() {
            Ok((header, pid)) if header.kind() == tell::DONE => pid,
            _ => return Err(Error::Crashed("its copy does not answer".to_owned())),
        };
        let process = self.process.copied(pid).map_err(Error::Start)?;
        link.ask_for_senders(false).map_err(Error::Start)?;
        link.belongs_to(process.watched());
        Ok(Session {
            log: self.log,
            interval: self.interval,
            log_file: Arc::clone(&self.log_file),
            link,
            process,
            stop: self.stop,
            has_run: false,
            breakpoints: self.breakpoints.clone(),
            tracking: self.tracking,
            start: self.start.clone(),
            read_ahead: self.read_ahead.clone(),
            budget: self.budget.clone(),
            descriptions: Arc::clone(&self.descriptions),
            stream: None,
            #[cfg(feature = "fuzzing")]
            script: None,
        })
    }

    pub(crate) fn send(&mut self, header: &Header, payload: &[u8]) -> Result<(), Error> {
        self.has_run |= header.kind() == ask::RUN;
        self.link.send(header, payload).map_err(|broken| self.broken(broken))
    }

    /// The next message that is not a question of the process for pages.
    fn answer(&mut self) -> Result<(Header, &[u8]), Error> {
        let (header, len) = self.answer_length()?;
        Ok((header, self.link.payload(len)))
    }

    pub(crate) fn answer_length(&mut self) -> Result<(Header, usize), Error> {
        loop {
            // A process without its memory asks for it again and again.
            let received = match self.start {
                Some(_) => self.link.receive_soon(),
                None => self.link.receive(),
            };
            let (header, len) = received.map_err(|broken| self.broken(broken))?;
            match header.kind() {
                tell::NEED => self.supply(header.0[1])?,
                tell::DIVERGED => return Err(self.diverged(&header, len)),
                tell::FAILED => return Err(Error::Failed(self.text(len))),
                _ => return Ok((header, len)),
            }
        }
    }

    fn text(&self, len: usize) -> String {
        printable(self.link.payload(len))
    }

    fn diverged(&self, header: &Header, len: usize) -> Error {
        let [_, time, thread, pc, events, ..] = header.0;
        let text = self.text(len);
        Error::Diverged(Box::new(Divergence { time, thread: thread as u32, pc, events, text }))
    }

    fn await_done(&mut self) -> Result<(), Error> {
        let (header, _) = self.answer()?;
        match header.kind() {
            tell::DONE => Ok(()),
            kind => Err(self.unexpected(kind)),
        }
    }

    fn await_stop(&mut self) -> Result<(), Error> {
        let (header, _) = self.answer()?;
        self.take_stop(&header)
    }

    pub(crate) fn take_stop(&mut self, header: &Header) -> Result<(), Error> {
        let [kind, reason, time, thread, pc, events, ..] = header.0;
        if kind != tell::STOPPED {
            return Err(self.unexpected(kind));
        }
        let reason = match reason {
            why::TIME => StopReason::Time,
            why::BREAKPOINT => StopReason::Breakpoint,
            why::END => StopReason::End,
            _ => return Err(self.nonsense("it stops for no known reason")),
        };
        if time < self.stop.time || time > self.interval.end {
            return Err(self.nonsense("it stops at an impossible time"));
        }
        self.stop = Stop { reason, time, thread: thread as u32, pc, events };
        Ok(())
    }

    /// What came with the last message.
    pub(crate) fn payload(&self, len: usize) -> &[u8] {
        self.link.payload(len)
    }

    pub(crate) fn unexpected(&mut self, kind: u64) -> Error {
        self.nonsense(&format!("it gives an answer of kind {kind}, which nobody asked for"))
    }

    pub(crate) fn nonsense(&mut self, what: &str) -> Error {
        Error::Crashed(format!("{what} ({})", self.process.obituary()))
    }

    fn broken(&mut self, broken: Broken) -> Error {
        match broken {
            Broken::Closed => Error::Crashed(self.process.obituary()),
            Broken::Silent => self.nonsense("it has not answered for two minutes"),
            Broken::Nonsense(what) => self.nonsense(what),
            Broken::Io(error) => self.nonsense(&error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
