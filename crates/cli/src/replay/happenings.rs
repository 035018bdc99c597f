//! What the log of a process tells about its output: calls that write or change descriptors, threads, children.
//!
//! One chunk is decoded at a time, so that memory does not grow with the log.

use std::collections::{BTreeMap, VecDeque};
use std::slice;

use libc::c_long;
use retro_abi::channel::Stream;
use retro_abi::log::Event;
use retro_recording::{Damage, Error, Flaw, LOG_NAME, Recording, SegmentRef};

use super::output_calls::{is_asynchronous, output_call};

/// Calls in progress that are remembered; more would only be in a log that was made to use up memory.
const CALLS_LIMIT: usize = 1 << 16;

/// A moment of a log. At the border of two intervals, the same time is in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instant {
    /// Number of the interval.
    pub interval: u64,
    /// Instructions executed before.
    pub time: u64,
}

/// A system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// When it was made.
    pub at: Instant,
    /// Its number.
    pub number: u64,
    /// Its arguments.
    pub args: [u64; 6],
}

/// Something that matters to the output of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A thread makes a call.
    Called {
        /// The thread.
        thread: u32,
        /// What it calls.
        call: Call,
    },
    /// The call of a thread is over.
    Returned {
        /// The thread.
        thread: u32,
        /// What it returned.
        result: i64,
    },
    /// A thread begins.
    Began {
        /// The thread.
        thread: u32,
        /// The one that ran before it.
        before: u32,
    },
    /// A thread ends.
    Ended {
        /// The thread.
        thread: u32,
    },
    /// A thread has made a child.
    Forked {
        /// The thread.
        thread: u32,
        /// The child's process id.
        pid: u32,
        /// Its log, if it begins with one.
        log: Option<u64>,
    },
    /// A child that has ended was waited for.
    Reaped {
        /// Its process id.
        pid: u32,
    },
}

/// Reads the happenings of a log, in order.
pub struct Happenings<'a> {
    recording: &'a Recording,
    segments: slice::Iter<'a, SegmentRef>,
    queue: VecDeque<Happening>,
    interval: u64,
    thread: u32,
    before: u32,
    /// Calls in progress that matter, by thread.
    calls: BTreeMap<u32, (u64, [u64; 6])>,
    wait: Option<Wait>,
}

impl<'a> Happenings<'a> {
    /// Of a log, from its start.
    pub fn new(recording: &'a Recording, log: u64) -> Happenings<'a> {
        Happenings {
            recording,
            segments: recording.segments(log, Stream::Main).iter(),
            queue: VecDeque::new(),
            interval: 0,
            thread: 0,
            before: 0,
            calls: BTreeMap::new(),
            wait: None,
        }
    }

    /// Nothing more happens.
    pub fn stop(&mut self) {
        self.segments = [].iter();
        self.queue.clear();
        self.wait = None;
    }

    /// The next one; none at the end of the log.
    pub fn next(&mut self) -> Result<Option<Happening>, Error> {
        loop {
            if let Some(happening) = self.queue.pop_front() {
                return Ok(Some(happening));
            }
            let Some(segment) = self.segments.next() else {
                self.finish_wait();
                return Ok(self.queue.pop_front());
            };
            let chunk = self.recording.read_chunk(segment)?;
            for event in chunk.events() {
                let (time, event) = event.map_err(|bad| Error::Damaged {
                    path: self.recording.directory().join(LOG_NAME),
                    damage: Damage { offset: segment.offset, flaw: Flaw::Event(bad) },
                })?;
                self.take(time, &event);
            }
        }
    }

    fn take(&mut self, time: u64, event: &Event) {
        if let Event::Write { address, bytes } = *event {
            if let Some(wait) = &mut self.wait {
                wait.take(address, bytes);
            }
            return;
        }
        self.finish_wait();
        let thread = self.thread;
        match *event {
            // A process begins with its main thread, which has the same number.
            Event::Start { pid, .. } => self.run(pid),
            Event::Interval { number, running, .. } => {
                self.interval = number;
                self.run(running);
            }
            Event::ThreadSwitch { thread, .. } => self.run(thread),
            Event::ThreadStart { thread } => {
                self.run(thread);
                self.queue.push_back(Happening::Began { thread, before: self.before });
            }
            Event::ThreadEnd { thread, .. } => {
                self.calls.remove(&thread);
                self.queue.push_back(Happening::Ended { thread });
            }
            Event::SyscallEnter { number, args, .. }
                if matters(number, &args) && self.calls.len() < CALLS_LIMIT =>
            {
                self.calls.insert(thread, (number, args));
                let at = Instant { interval: self.interval, time };
                let call = Call { at, number, args };
                self.queue.push_back(Happening::Called { thread, call });
            }
            Event::SyscallExit { result } => {
                let Some((number, args)) = self.calls.remove(&thread) else { return };
                let result = result.cast_signed();
                self.wait = Wait::new(number, &args, result);
                self.queue.push_back(Happening::Returned { thread, result });
            }
            Event::Fork { pid, log } => {
                let log = log.checked_sub(1);
                self.queue.push_back(Happening::Forked { thread, pid, log });
            }
            _ => {}
        }
    }

    fn run(&mut self, thread: u32) {
        if self.thread != thread {
            self.before = self.thread;
            self.thread = thread;
        }
    }

    /// What a call wrote is complete when anything else happens.
    fn finish_wait(&mut self) {
        if let Some(pid) = self.wait.take().and_then(|wait| wait.ended()) {
            self.queue.push_back(Happening::Reaped { pid });
        }
    }
}

/// Whether a call has anything to do with output.
fn matters(number: u64, args: &[u64; 6]) -> bool {
    output_call(number, args).is_some()
        || is_asynchronous(number)
        || matches!(
            number as c_long,
            libc::SYS_open
                | libc::SYS_openat
                | libc::SYS_creat
                | libc::SYS_close
                | libc::SYS_close_range
                | libc::SYS_dup
                | libc::SYS_dup2
                | libc::SYS_dup3
                | libc::SYS_fcntl
                | libc::SYS_ioctl
                | libc::SYS_unshare
                | libc::SYS_clone
                | libc::SYS_clone3
                | libc::SYS_fork
                | libc::SYS_vfork
                | libc::SYS_execve
                | libc::SYS_execveat
                | libc::SYS_wait4
                | libc::SYS_waitid
        )
}

/// A wait for a child that has returned: whom for, and whether that one has ended.
#[derive(Debug)]
struct Wait {
    pid: u32,
    ended: bool,
    form: WaitForm,
}

#[derive(Debug)]
enum WaitForm {
    /// `wait4`, with the address of the status.
    Status(u64),
    /// `waitid`, with the address of a `siginfo_t`.
    Info(u64),
}

/// Where in a `siginfo_t` the code and the process id are.
const INFO_CODE: usize = 8;
const INFO_PID: usize = 12;

impl Wait {
    fn new(number: u64, args: &[u64; 6], result: i64) -> Option<Wait> {
        match number as c_long {
            libc::SYS_wait4 if result > 0 => {
                let pid = u32::try_from(result).ok()?;
                Some(Wait { pid, ended: true, form: WaitForm::Status(args[1]) })
            }
            libc::SYS_waitid if result == 0 => {
                let pid = if args[0] == u64::from(libc::P_PID) { args[1] as u32 } else { 0 };
                // Without a `siginfo_t`, that a child has ended can only be told from what was waited for.
                let ended = args[2] == 0 && args[3] & libc::WNOHANG as u64 == 0;
                Some(Wait { pid, ended, form: WaitForm::Info(args[2]) })
            }
            _ => None,
        }
    }

    fn take(&mut self, address: u64, bytes: &[u8]) {
        let number_at = |place: u64| {
            let offset = usize::try_from(place.checked_sub(address)?).ok()?;
            bytes.get(offset..)?.first_chunk().map(|four| i32::from_le_bytes(*four))
        };
        match self.form {
            WaitForm::Status(place) => {
                if let Some(status) = number_at(place) {
                    self.ended = libc::WIFEXITED(status) || libc::WIFSIGNALED(status);
                }
            }
            WaitForm::Info(place) => {
                if let Some(code) = number_at(place.wrapping_add(INFO_CODE as u64)) {
                    let ends = [libc::CLD_EXITED, libc::CLD_KILLED, libc::CLD_DUMPED];
                    self.ended = ends.contains(&code);
                }
                if let Some(pid) = number_at(place.wrapping_add(INFO_PID as u64)) {
                    self.pid = pid.cast_unsigned();
                }
            }
        }
    }

    fn ended(&self) -> Option<u32> {
        (self.ended && self.pid != 0).then_some(self.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waited(number: c_long, args: [u64; 6], result: i64, writes: &[(u64, &[u8])]) -> Option<u32> {
        let mut wait = Wait::new(number as u64, &args, result)?;
        writes.iter().for_each(|(address, bytes)| wait.take(*address, bytes));
        wait.ended()
    }

    #[test]
    fn only_children_that_ended_count() {
        let status = |status: i32| {
            waited(libc::SYS_wait4, [9, 0x100, 0, 0, 0, 0], 7, &[(0x100, &status.to_le_bytes())])
        };
        assert_eq!(status(0x100), Some(7));
        assert_eq!(status(9), Some(7));
        // Stopped, and gone on.
        assert_eq!(status(0x137f), None);
        assert_eq!(status(0xffff), None);
        assert_eq!(waited(libc::SYS_wait4, [9, 0, 0, 0, 0, 0], 7, &[]), Some(7));
        assert_eq!(waited(libc::SYS_wait4, [9, 0, 1, 0, 0, 0], 0, &[]), None);
        assert_eq!(waited(libc::SYS_wait4, [9, 0, 1, 0, 0, 0], -10, &[]), None);
    }

    #[test]
    fn waitid_tells_in_a_structure() {
        let info = |code: i32, pid: i32| {
            let words = [libc::SIGCHLD, 0, code, pid];
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            waited(libc::SYS_waitid, [0, 0, 0x100, 4, 0, 0], 0, &[(0x100, &bytes)])
        };
        assert_eq!(info(libc::CLD_EXITED, 7), Some(7));
        assert_eq!(info(libc::CLD_STOPPED, 7), None);
        assert_eq!(info(0, 0), None);
        let without = [u64::from(libc::P_PID), 7, 0, 4, 0, 0];
        assert_eq!(waited(libc::SYS_waitid, without, 0, &[]), Some(7));
    }
}
