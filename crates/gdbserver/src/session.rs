//! The debugger's side of one client: where its view stands, which threads it looks at, what it waits for.
//!
//! *Strategy.* A request goes in, a [`Reply`] comes out; nothing here knows of sockets. The state at the moment is kept until
//! the view moves, since clients ask for many small parts of it.
//!
//! Invariants: sessions share nothing but the run, which nobody changes, so that clients do not notice each other; nothing that
//! a client asks changes anything but its own view.

mod moves;

use std::collections::HashSet;

use retro_query::{Cancel, Direction, Error, Registers, Row, RowClass, RowFilter, State, Stretch};

pub(crate) use self::moves::Sought;
use crate::debuggee::Debuggee;
use crate::files::Files;
use crate::hex;
use crate::moment_view::layout;
use crate::points::Points;
use crate::registers::EXPEDITED;
use crate::request::{Motion, Point, PointKind, Request, ThreadChoice, Transfer};
use crate::resume::Course;
use crate::stop::{Reason, Stop};
use crate::thread_names::{self, ThreadNames};
use crate::{documents, monitor, packet, signal_frame, signal_numbers, thread_local};

/// Why nothing can be changed.
const READ_ONLY: &str = "this is a recording of a run that is over: nothing in it can be changed, and no function called";

/// Why watchpoints for reads are slow.
const SLOW_READS: &str = "retro: which memory was read is not in the index, so that the run is replayed to find out \
     (Ctrl-C stops that); `retro index --reads` makes it fast\n";

/// What a request is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A packet.
    Packet(Vec<u8>),
    /// Text for the client's user, then a packet.
    Told(Vec<String>, Vec<u8>),
    /// A packet, after which packets are not acknowledged any more.
    NoAcknowledgements,
    /// A packet, after which the connection ends.
    End(Vec<u8>),
}

/// One client's view.
pub struct Session {
    pub(crate) debuggee: Debuggee,
    /// Where the view stands, and why.
    pub(crate) stop: Stop,
    /// The state there, once somebody has asked.
    state: Option<State>,
    /// Moments around, for those who go back step by step.
    stretch: Option<Stretch>,
    /// How many steps back came one after the other.
    steps_back: u32,
    general_thread: Option<u32>,
    running_thread: Option<u32>,
    pub(crate) points: Points,
    files: Files,
    /// Whether threads are named with their process.
    names_process: bool,
    /// Where the next resumption leads to, whatever it is.
    pub(crate) sought: Option<Sought>,
    /// The result of the last command that had one.
    pub(crate) last: Option<u64>,
    /// What is read piece by piece at the moment.
    document: Option<(String, String, Vec<u8>)>,
    was_warned_of_reads: bool,
    /// What is to be told with the next stop.
    remarks: Vec<String>,
}

impl Session {
    /// A view that stands at a time.
    pub fn new(debuggee: &Debuggee, time: u64) -> Result<Session, Error> {
        let mut debuggee = debuggee.clone();
        debuggee.look_for_more();
        let state = debuggee.run.state(debuggee.at(time))?;
        let thread = state.thread()?;
        let death = debuggee.run.death_at(debuggee.at(time), &Cancel::new())?;
        let reason = death.map_or(Reason::Step, |death| Reason::Signal(death.signal));
        Ok(Session {
            files: Files::new(debuggee.clone()),
            debuggee,
            stop: Stop { time, thread, reason },
            state: Some(state),
            stretch: None,
            steps_back: 0,
            general_thread: None,
            running_thread: None,
            points: Points::default(),
            names_process: false,
            sought: None,
            last: None,
            document: None,
            was_warned_of_reads: false,
            remarks: Vec::new(),
        })
    }

    /// Answers a request.
    pub fn answer(&mut self, request: Request, cancel: &Cancel) -> Reply {
        match request {
            Request::StartNoAcknowledgements => Reply::NoAcknowledgements,
            Request::Detach => Reply::End(b"OK".to_vec()),
            Request::Kill => Reply::End(b"OK".to_vec()),
            Request::Resume(actions) => self.resume(&actions, cancel),
            Request::ResumeBackward(motion) => {
                let step = match motion {
                    Motion::Continue => None,
                    _ => Some((self.running_thread.unwrap_or(self.stop.thread), motion)),
                };
                let course = Course { direction: Direction::Backward, step, only: None };
                self.go(course, cancel)
            }
            Request::Monitor(command) => {
                let text = monitor::answer(self, &command, cancel);
                Reply::Told(vec![text], b"OK".to_vec())
            }
            other => {
                let packet = self.ask(other);
                Reply::Packet(packet.unwrap_or_else(|error| format!("E.{error}").into_bytes()))
            }
        }
    }

    /// Answers what takes one packet and does not move.
    fn ask(&mut self, request: Request) -> Result<Vec<u8>, Error> {
        const OK: &[u8] = b"OK";
        const FAILED: &[u8] = b"E01";
        Ok(match request {
            Request::Supported(theirs) => self.supported(&theirs).into_bytes(),
            Request::StopReason => self.stop_text()?,
            Request::ReadRegisters => {
                let registers = self.registers_of(self.general_thread)?;
                hex::encoded(&layout().values(&registers))
            }
            Request::ReadRegister(number) => {
                let registers = self.registers_of(self.general_thread)?;
                let value = layout().value(number, &registers);
                value.map_or(FAILED.to_vec(), |value| hex::encoded(&value))
            }
            Request::ReadMemory(address, len) => {
                // A piece that fits a packet; the client asks for the rest.
                let len = len.min(packet::LONGEST as u64 / 2 - 16);
                let bytes = self.read(address, len).unwrap_or_default();
                match bytes.is_empty() && len > 0 {
                    true => FAILED.to_vec(),
                    false => hex::encoded(&bytes),
                }
            }
            Request::WriteRegisters | Request::WriteMemory => format!("E.{READ_ONLY}").into_bytes(),
            Request::SetGeneralThread(thread) => {
                self.general_thread = self.chosen(thread);
                OK.to_vec()
            }
            Request::SetRunningThread(thread) => {
                self.running_thread = self.chosen(thread);
                OK.to_vec()
            }
            Request::IsThreadAlive(thread) => {
                let lives = match thread {
                    ThreadChoice::One(wanted) => self.threads()?.contains(&wanted),
                    _ => true,
                };
                if lives { OK.to_vec() } else { FAILED.to_vec() }
            }
            Request::WhichMotions => b"vCont;c;C;s;S;r".to_vec(),
            Request::Insert(point) => {
                self.warn_of_reads(&point);
                self.points.insert(point);
                OK.to_vec()
            }
            Request::Remove(point) => {
                self.points.remove(&point);
                OK.to_vec()
            }
            Request::Transfer(transfer) => self.transfer(&transfer)?,
            Request::WasAttached => b"1".to_vec(),
            Request::CurrentThread => format!("QC{}", self.name(self.stop.thread)).into_bytes(),
            Request::FirstThreads => {
                let threads = self.threads()?;
                let names: Vec<String> = threads.iter().map(|&thread| self.name(thread)).collect();
                format!("m{}", names.join(",")).into_bytes()
            }
            Request::NextThreads => b"l".to_vec(),
            Request::ThreadDescription(thread) => {
                let names = self.thread_names()?;
                let name = self.chosen(thread).and_then(|thread| names.get(&thread).cloned());
                hex::encoded(name.unwrap_or_default().as_bytes())
            }
            Request::ThreadLocal(thread, offset, link_map) => {
                let thread = self.chosen(thread);
                let registers = self.registers_of(thread)?;
                match thread_local::address(self.state()?, &registers, offset, link_map)? {
                    Some(address) => format!("{address:x}").into_bytes(),
                    None => {
                        b"E.this thread has not used the variable yet, so it has no memory".to_vec()
                    }
                }
            }
            Request::PassSignals(numbers) => {
                self.points.passed_signals =
                    numbers.into_iter().filter_map(signal_numbers::of_linux).collect();
                OK.to_vec()
            }
            Request::CatchSyscalls(numbers) => {
                self.points.caught_syscalls = numbers;
                OK.to_vec()
            }
            Request::File(question) => {
                let time = self.stop.time;
                self.files.answer(question, time)
            }
            Request::OfferSymbols => OK.to_vec(),
            Request::Malformed => FAILED.to_vec(),
            _ => Vec::new(),
        })
    }

    fn supported(&mut self, theirs: &str) -> String {
        self.names_process = theirs.split(';').any(|feature| feature == "multiprocess+");
        let process = if self.names_process { "multiprocess+;" } else { "" };
        format!(
            "PacketSize={:x};{process}QStartNoAckMode+;swbreak+;hwbreak+;vContSupported+;\
             ReverseStep+;ReverseContinue+;ConditionalBreakpoints+;QPassSignals+;QCatchSyscalls+;\
             qXfer:features:read+;qXfer:libraries-svr4:read+;qXfer:auxv:read+;qXfer:exec-file:read+;\
             qXfer:siginfo:read+;qXfer:threads:read+;qXfer:memory-map:read+",
            packet::LONGEST
        )
    }

    /// Says once why a watchpoint for reads takes long, if it does.
    fn warn_of_reads(&mut self, point: &Point) {
        let is_slow = matches!(point.kind, PointKind::Read | PointKind::Access)
            && !self.debuggee.process.has_reads();
        if is_slow && !self.was_warned_of_reads {
            self.was_warned_of_reads = true;
            self.remarks.push(SLOW_READS.to_owned());
        }
    }

    /// The state where the view stands.
    pub(crate) fn state(&mut self) -> Result<&State, Error> {
        let state = match self.state.take() {
            Some(state) => state,
            None => self.debuggee.run.state(self.debuggee.at(self.stop.time))?,
        };
        Ok(self.state.insert(state))
    }

    /// The threads that live, in the order of their numbers.
    pub(crate) fn threads(&mut self) -> Result<Vec<u32>, Error> {
        let now = self.stop.time;
        let Debuggee { run, process, .. } = &self.debuggee;
        let begin = self.debuggee.at(process.start);
        let filter = RowFilter::Class(RowClass::ThreadEnd);
        let ends = run.rows(begin, Direction::Forward, filter, &Cancel::new())?;
        let mut ended = HashSet::new();
        for row in ends.until(now) {
            let row = match row {
                // Where not everything is indexed, some may be over.
                Err(Error::NotIndexed { .. }) => break,
                row => row?,
            };
            if let Row::ThreadEnd { thread, .. } = row.row
                && row.time <= now
            {
                ended.insert(thread);
            }
        }
        ended.remove(&self.stop.thread);
        let mut all: Vec<u32> = self.state()?.threads()?.iter().map(|info| info.thread).collect();
        all.retain(|thread| !ended.contains(thread));
        all.sort_unstable();
        Ok(all)
    }

    /// What the threads are called.
    pub(crate) fn thread_names(&mut self) -> Result<ThreadNames, Error> {
        let threads: Vec<u32> = self.state()?.threads()?.iter().map(|info| info.thread).collect();
        thread_names::names(&self.debuggee, &threads, self.stop.time)
    }

    /// Memory where the view stands.
    fn read(&mut self, address: u64, len: u64) -> Result<Vec<u8>, Error> {
        let time = self.stop.time;
        match &self.stretch {
            Some(stretch) if self.state.is_none() && stretch.times().contains(&time) => {
                stretch.read(time, address, len)
            }
            _ => self.state()?.read(address, len),
        }
    }

    /// The registers of a thread, or of the one that the last stop is about.
    fn registers_of(&mut self, thread: Option<u32>) -> Result<Registers, Error> {
        let stop = self.stop;
        let thread = thread.unwrap_or(stop.thread);
        let near = self.stretch.as_ref().and_then(|stretch| stretch.registers(stop.time));
        if let Some(near) = near
            && near.thread == thread
            && !stop.is_before_handler()
        {
            return Ok(near.clone());
        }
        let state = self.state()?;
        let registers = state.registers(Some(thread))?;
        match stop.is_before_handler() && thread == stop.thread {
            true => signal_frame::interrupted(state, registers),
            false => Ok(registers),
        }
    }

    /// Whether the thread that is looked at is not the one that the last stop is about.
    pub(crate) fn looks_at_another_thread(&self) -> bool {
        self.general_thread.is_some_and(|thread| thread != self.stop.thread)
    }

    /// A thread that was named; none for all and any.
    fn chosen(&self, thread: ThreadChoice) -> Option<u32> {
        match thread {
            ThreadChoice::One(thread) => Some(thread),
            ThreadChoice::All | ThreadChoice::Any => None,
        }
    }

    /// A thread as the client names it.
    pub(crate) fn name(&self, thread: u32) -> String {
        match self.names_process {
            true => format!("p{:x}.{thread:x}", self.debuggee.pid()),
            false => format!("{thread:x}"),
        }
    }

    /// Why the view stands where it stands, as a packet.
    fn stop_text(&mut self) -> Result<Vec<u8>, Error> {
        let Stop { thread, reason, .. } = self.stop;
        let registers = self.registers_of(Some(thread))?;
        let mut text = format!("T{:02x}{}", reason.signal(), reason.words()).into_bytes();
        for number in EXPEDITED {
            if let Some(value) = layout().value(number, &registers) {
                text.extend(format!("{number:x}:").into_bytes());
                hex::put(&mut text, &value);
                text.push(b';');
            }
        }
        text.extend(format!("thread:{};", self.name(thread)).into_bytes());
        Ok(text)
    }

    /// A piece of a document: `m` and the bytes if there are more, `l` for the last.
    fn transfer(&mut self, transfer: &Transfer) -> Result<Vec<u8>, Error> {
        let Transfer { object, annex, offset, len } = transfer;
        let is_known =
            self.document.as_ref().is_some_and(|(known, of, _)| known == object && of == annex);
        if *offset == 0 || !is_known {
            let Some(made) = documents::make(self, object, annex)? else { return Ok(Vec::new()) };
            self.document = Some((object.clone(), annex.clone(), made));
        }
        let whole = self.document.as_ref().map_or(&[][..], |(.., bytes)| bytes);
        let start = usize::try_from(*offset).unwrap_or(usize::MAX).min(whole.len());
        // Escapes may double the size.
        let most = usize::try_from(*len).unwrap_or(usize::MAX).min(packet::LONGEST / 2 - 16);
        let end = start.saturating_add(most).min(whole.len());
        let mark = if end < whole.len() { b'm' } else { b'l' };
        Ok([&[mark][..], &whole[start..end]].concat())
    }
}
