//! A session: one replay process and the questions that it answers.

use std::fs::File;
use std::io;
use std::ops::{ControlFlow, Range};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use nix::sys::memfd::{MFdFlags, memfd_create};
use retro_abi::log::register;
use retro_abi::replay::{HEADER_SIZE, Header, MAX_PAYLOAD, SAMPLE_SIZE, ask, begin, tell, why};

use crate::hearsay::printable;
use crate::link::{Broken, Link};
use crate::log_file::LogFile;
use crate::process::ReplayProcess;
use crate::read_ahead::ReadAhead;
use crate::start::Start;
use crate::stream::{Descriptions, Detail, Item, Merger, STREAM_FILE_SIZE, Visitor};
use crate::{Divergence, Error, Interval, PAGE_SIZE, Replayer};

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

/// Registers of a thread.
///
/// Two are equal when they hold the same values. The processor may or may not say of a vector that is zero that it
/// was never used, which depends on what else it had to do; that makes no difference.
#[derive(Clone, Debug)]
pub struct Registers {
    /// The thread.
    pub thread: u32,
    /// Whether it is the one that runs.
    pub running: bool,
    /// The system call that it waits in.
    pub in_syscall: Option<u32>,
    /// General registers, by the numbers of [`retro_abi::log::register`].
    pub general: [u64; register::COUNT],
    /// Vector and x87 state: an image of `xsave` in standard form.
    pub vectors: Vec<u8>,
}

/// The word of an image of `xsave` that says which parts were used. Those that were not are zero in it.
const USED_PARTS: Range<usize> = 512..520;

impl PartialEq for Registers {
    fn eq(&self, other: &Registers) -> bool {
        fn values(image: &[u8]) -> (&[u8], &[u8]) {
            let (legacy, rest) = image.split_at(USED_PARTS.start.min(image.len()));
            (legacy, rest.get(USED_PARTS.len()..).unwrap_or_default())
        }
        self.thread == other.thread
            && self.running == other.running
            && self.in_syscall == other.in_syscall
            && self.general == other.general
            && values(&self.vectors) == values(&other.vectors)
    }
}

impl Eq for Registers {}

impl Registers {
    /// The instruction pointer.
    pub fn pc(&self) -> u64 {
        self.general[register::RIP as usize]
    }

    /// A general register by its name, as in [`register::NAMES`].
    pub fn by_name(&self, name: &str) -> Option<u64> {
        let index = register::NAMES.iter().position(|known| *known == name)?;
        Some(self.general[index])
    }
}

/// The registers of the thread that runs, without vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub time: u64,
    /// The thread.
    pub thread: u32,
    /// General registers, by the numbers of [`retro_abi::log::register`].
    pub general: [u64; register::COUNT],
}

impl Sample {
    fn parse(bytes: &[u8; SAMPLE_SIZE]) -> Sample {
        let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let mut next = || words.next().unwrap_or_default();
        let (time, thread) = (next(), next() as u32);
        let mut general = [0; register::COUNT];
        general.fill_with(next);
        Sample { time, thread, general }
    }
}

/// A thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadInfo {
    /// Its number.
    pub thread: u32,
    /// The system call that it waits in.
    pub in_syscall: Option<u32>,
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
    breakpoints: Vec<u64>,
    tracking: Tracking,
    /// Where memory comes from, if the session began in the middle.
    start: Option<Start>,
    /// What it was sent of that.
    read_ahead: ReadAhead,
    /// The blocks that the process has described. Copies have the same.
    descriptions: Arc<Descriptions>,
    /// A copy of a process shares this with it, and gets its own before it streams.
    stream: Option<StreamFile>,
}

/// The file that a process streams into, and what was read of it last.
#[derive(Debug)]
struct StreamFile {
    file: File,
    buffer: Box<[u8]>,
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

    /// Translates code before it is needed, as for a stream with this detail or for no stream: copies of this session have
    /// it already. Code that changes is left out.
    pub fn translate_ahead(&mut self, detail: Option<Detail>, pcs: &[u64]) -> Result<(), Error> {
        let bits = detail.map_or(0, |detail| (detail | Detail::BLOCKS).bits());
        if bits != 0 {
            self.prepare_stream()?;
        }
        for some in pcs.chunks(MAX_PAYLOAD / 8) {
            let payload: Vec<u8> = some.iter().flat_map(|pc| pc.to_le_bytes()).collect();
            self.send(&Header::new(ask::TRANSLATE, [bits]), &payload)?;
            loop {
                let (header, len) = self.answer_length()?;
                match header.kind() {
                    tell::BLOCK => self.define_blocks(len, |_| Ok(()))?,
                    tell::DONE => break,
                    kind => return Err(self.unexpected(kind)),
                }
            }
        }
        Ok(())
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
        let (link, socket) = Link::pair().map_err(Error::Start)?;
        let process = ReplayProcess::start(replayer.engine(), socket).map_err(Error::Start)?;
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
            breakpoints: Vec::new(),
            tracking,
            start: None,
            read_ahead: ReadAhead::default(),
            descriptions: Arc::default(),
            stream: None,
        })
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
            loop {
                let (header, len) = self.answer_length()?;
                if header.kind() != tell::SAMPLES {
                    self.take_stop(&header)?;
                    break;
                }
                let (samples, rest) = self.link.payload(len).as_chunks::<SAMPLE_SIZE>();
                if !rest.is_empty() {
                    return Err(self.nonsense("a sample is cut off"));
                }
                samples.iter().map(Sample::parse).for_each(&mut visit);
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

    /// Goes on to a time as [`Session::run_to`] does, and tells `visit` everything that happens, in the order of
    /// time: what blocks are executed and what they access, as far as `detail` says, and the events of the
    /// log after now and up to `until`. An event comes after the block whose last instruction retires at its time.
    ///
    /// When `visit` breaks, it is told nothing more; the session goes on to `until` all the same.
    pub fn stream(
        &mut self,
        until: u64,
        detail: Detail,
        visit: impl FnMut(&Item<'_>) -> ControlFlow<()>,
    ) -> Result<Stop, Error> {
        self.stream_to(until, detail, visit)
    }

    /// The same for a visitor with methods.
    pub fn stream_to(
        &mut self,
        until: u64,
        detail: Detail,
        visit: impl Visitor,
    ) -> Result<Stop, Error> {
        self.check_forward(until)?;
        let file = Arc::clone(&self.log_file);
        let events = file.chunks_between(self.time(), until.min(self.interval.end))?;
        let bits = (detail | Detail::BLOCKS).bits();
        let mut merger = Merger::new(events.events(), self.time(), self.thread(), visit)?;
        self.prepare_stream()?;
        let stop = self.run_in_stretches(until, |session, stretch_end| {
            session.send(&Header::new(ask::RUN, [stretch_end, bits]), &[])?;
            session.await_stop_merging(&mut merger)
        })?;
        merger.finish(&self.descriptions, stop.time)?;
        Ok(stop)
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

    /// The registers of a thread, or of the one that runs.
    pub fn registers(&mut self, thread: Option<u32>) -> Result<Registers, Error> {
        let number = thread.unwrap_or(0);
        self.send(&Header::new(ask::REGISTERS, [number.into()]), &[])?;
        let (header, payload) = self.answer()?;
        match header.kind() {
            tell::REGISTERS => {
                let parsed = Registers::parse(&header, payload);
                parsed.ok_or_else(|| self.nonsense("its registers make no sense"))
            }
            tell::DONE => Err(Error::NoThread(number)),
            kind => Err(self.unexpected(kind)),
        }
    }

    /// All threads; the one that runs comes first.
    pub fn threads(&mut self) -> Result<Vec<ThreadInfo>, Error> {
        self.send(&Header::new(ask::THREADS, []), &[])?;
        let (header, payload) = self.answer()?;
        if header.kind() != tell::THREADS {
            return Err(self.unexpected(header.kind()));
        }
        let (pairs, _) = payload.as_chunks::<8>();
        let thread = |pair: &[u8; 8]| {
            let [a, b, c, d, e, f, g, h] = *pair;
            let in_syscall = u32::from_le_bytes([e, f, g, h]).checked_sub(1);
            ThreadInfo { thread: u32::from_le_bytes([a, b, c, d]), in_syscall }
        };
        Ok(pairs.iter().map(thread).collect())
    }

    /// Reads memory. What cannot be the guest's is not there, so that the answer may be shorter; what was
    /// never touched reads as zero.
    pub fn read(&mut self, address: u64, len: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let Some(at) = address.checked_add(bytes.len() as u64) else { break };
            // Not across a page where the guest's memory may end.
            let to_page = PAGE_SIZE - at as usize % PAGE_SIZE;
            let want = (len - bytes.len()).min(MAX_PAYLOAD - PAGE_SIZE + to_page);
            let got = self.read_once(at, want)?;
            bytes.extend_from_slice(got);
            let got = got.len();
            if got < want {
                break;
            }
        }
        Ok(bytes)
    }

    fn read_once(&mut self, address: u64, want: usize) -> Result<&[u8], Error> {
        self.send(&Header::new(ask::READ, [address, want as u64]), &[])?;
        let (header, len) = self.answer_length()?;
        if header.kind() != tell::MEMORY || header.0[1] != address || len > want {
            return Err(self.unexpected(header.kind()));
        }
        Ok(self.link.payload(len))
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

    /// Makes a copy of the session, with its own process, at the same place.
    pub fn fork(&mut self) -> Result<Session, Error> {
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
        Ok(Session {
            log: self.log,
            interval: self.interval,
            log_file: Arc::clone(&self.log_file),
            link,
            process,
            stop: self.stop,
            breakpoints: self.breakpoints.clone(),
            tracking: self.tracking,
            start: self.start.clone(),
            read_ahead: self.read_ahead.clone(),
            descriptions: Arc::clone(&self.descriptions),
            stream: None,
        })
    }

    pub(crate) fn send(&mut self, header: &Header, payload: &[u8]) -> Result<(), Error> {
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

    /// Answers a question for a piece of memory. What will be asked for soon comes before the answer: the process takes
    /// what comes until it has that.
    fn supply(&mut self, address: u64) -> Result<(), Error> {
        for other in self.read_ahead.others(address) {
            self.send_piece(other)?;
        }
        self.send_piece(address)
    }

    fn send_piece(&mut self, address: u64) -> Result<(), Error> {
        let Some(start) = &self.start else {
            return Err(self.nonsense("it asks for memory that it has"));
        };
        let piece = start.memory.piece(address).map_err(Error::Pages)?;
        self.send(&Header::new(ask::PAGES, [address, piece.mask]), &piece.bytes)
    }

    /// Sends pieces of memory that will be asked for.
    fn supply_ahead(&mut self) -> Result<(), Error> {
        let Some(start) = &self.start else { return Ok(()) };
        for address in start.memory.needed_soon().map_err(Error::Pages)? {
            self.read_ahead.sent(address);
            self.send_piece(address)?;
        }
        Ok(())
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

    /// Takes everything that is streamed until the process stops.
    fn await_stop_merging<V: Visitor>(&mut self, merger: &mut Merger<'_, V>) -> Result<(), Error> {
        loop {
            let (header, len) = self.answer_length()?;
            match header.kind() {
                tell::BLOCK => {
                    // What is described so far may be forgotten then.
                    self.define_blocks(len, |known| merger.tell_kept(known))?;
                }
                tell::STREAM => {
                    let [_, offset, len, time, ..] = header.0;
                    if !merger.is_done {
                        self.read_stream(offset, len)?;
                    }
                    // The process fills the file again while this is looked at.
                    self.send(&Header::new(ask::GO_ON, []), &[])?;
                    if let Some(stream) = &self.stream
                        && !merger.is_done
                    {
                        let records = &stream.buffer[..len as usize];
                        merger.records(&self.descriptions, records, time)?;
                    }
                }
                _ => return self.take_stop(&header),
            }
        }
    }

    /// Takes in descriptions of blocks. Before those that there are so far are forgotten, `forget` sees them.
    pub(crate) fn define_blocks(
        &mut self,
        len: usize,
        mut forget: impl FnMut(&Descriptions) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut payload = self.link.payload(len);
        let mut defined = Ok(());
        while let Some((head, rest)) = payload.split_first_chunk::<HEADER_SIZE>()
            && defined.is_ok()
        {
            let header = Header::from_bytes(head);
            let Some((body, rest)) = rest.split_at_checked(header.0[0] as usize) else {
                defined = Err("a description of a block is cut short");
                break;
            };
            payload = rest;
            if header.0[1] == 0 {
                forget(&self.descriptions)?;
            }
            defined = Arc::make_mut(&mut self.descriptions).define(&header, body);
        }
        defined.map_err(|what| self.nonsense(what))
    }

    pub(crate) fn descriptions(&self) -> &Descriptions {
        &self.descriptions
    }

    /// What came with the last message.
    pub(crate) fn payload(&self, len: usize) -> &[u8] {
        self.link.payload(len)
    }

    /// What [`Session::read_stream`] has read.
    pub(crate) fn streamed(&self, len: u64) -> &[u8] {
        let buffer = self.stream.as_ref().map_or(&[][..], |stream| &stream.buffer);
        &buffer[..(len as usize).min(buffer.len())]
    }

    pub(crate) fn read_stream(&mut self, offset: u64, len: u64) -> Result<(), Error> {
        let Some(stream) = &mut self.stream else {
            return Err(self.nonsense("it streams unasked"));
        };
        let end = offset.checked_add(len);
        if end.is_none_or(|end| end > STREAM_FILE_SIZE as u64) {
            return Err(self.nonsense("its stream is longer than the file"));
        }
        let bytes = &mut stream.buffer[..len as usize];
        stream.file.read_exact_at(bytes, offset).map_err(Error::Start)
    }

    /// Gives the process a file to stream into.
    pub(crate) fn prepare_stream(&mut self) -> Result<(), Error> {
        if self.stream.is_some() {
            return Ok(());
        }
        let file = memfd_create(c"retro-stream", MFdFlags::MFD_CLOEXEC).map_err(io::Error::from);
        let file = File::from(file.map_err(Error::Start)?);
        file.set_len(STREAM_FILE_SIZE as u64).map_err(Error::Start)?;
        let sent =
            self.link.send_file(&Header::new(ask::STREAM_FILE, [STREAM_FILE_SIZE as u64]), &file);
        sent.map_err(|broken| self.broken(broken))?;
        self.await_done()?;
        self.stream =
            Some(StreamFile { file, buffer: vec![0; STREAM_FILE_SIZE].into_boxed_slice() });
        Ok(())
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

impl Registers {
    fn parse(header: &Header, payload: &[u8]) -> Option<Registers> {
        let [_, thread, in_syscall, running, ..] = header.0;
        let (general, vectors) = payload.split_at_checked(8 * register::COUNT)?;
        let mut words = [0; register::COUNT];
        for (word, bytes) in words.iter_mut().zip(general.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Some(Registers {
            thread: u32::try_from(thread).ok()?,
            running: running != 0,
            in_syscall: u32::try_from(in_syscall).ok()?.checked_sub(1),
            general: words,
            vectors: vectors.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests;
