//! Why and where a client's view of the run stands still, and how that is told.

use crate::request::PointKind;
use crate::signal_numbers;

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A step is done.
    Step,
    /// A breakpoint.
    Breakpoint,
    /// A watchpoint of some kind, at an address that the client gave.
    Watchpoint(PointKind, u64),
    /// A signal that ends the process, by Linux's number.
    Signal(u32),
    /// A signal that a handler is about to take.
    HandledSignal(u32),
    /// A system call is about to be made.
    SyscallEntry(u64),
    /// A system call is over.
    SyscallReturn(u64),
    /// There is nothing earlier.
    HistoryBegin,
    /// There is nothing later.
    HistoryEnd,
    /// The client asked for this moment.
    Sought,
    /// The client wants no more.
    Interrupted,
}

/// Where the view stands still, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The time: instructions with smaller numbers have been executed.
    pub time: u64,
    /// The thread that the reason is about.
    pub thread: u32,
    /// Why.
    pub reason: Reason,
}

impl Stop {
    /// Whether it is in front of a signal's handler, whose first instruction has the same time.
    pub fn is_before_handler(&self) -> bool {
        matches!(self.reason, Reason::HandledSignal(_))
    }

    /// Its place in the order of moments: the time, and at one time, in front of a handler before in it.
    pub fn place(&self) -> (u64, bool) {
        (self.time, !self.is_before_handler())
    }
}

impl Reason {
    /// gdb's number of the signal that stands for it.
    pub fn signal(self) -> u8 {
        const NONE: u8 = 0;
        const INTERRUPT: u8 = 2;
        const TRAP: u8 = 5;
        match self {
            Reason::Signal(signal) | Reason::HandledSignal(signal) => {
                signal_numbers::of_gdb(signal)
            }
            Reason::Interrupted => INTERRUPT,
            Reason::Sought => NONE,
            _ => TRAP,
        }
    }

    /// What a stop says besides the signal: `name:value;`, or nothing.
    pub fn words(self) -> String {
        match self {
            Reason::Step
            | Reason::Signal(_)
            | Reason::HandledSignal(_)
            | Reason::Sought
            | Reason::Interrupted => String::new(),
            Reason::Breakpoint => "swbreak:;".to_owned(),
            Reason::Watchpoint(kind, address) => {
                let name = match kind {
                    PointKind::Read => "rwatch",
                    PointKind::Access => "awatch",
                    PointKind::Write | PointKind::Execute => "watch",
                };
                format!("{name}:{address:x};")
            }
            Reason::SyscallEntry(number) => format!("syscall_entry:{number:x};"),
            Reason::SyscallReturn(number) => format!("syscall_return:{number:x};"),
            Reason::HistoryBegin => "replaylog:begin;".to_owned(),
            Reason::HistoryEnd => "replaylog:end;".to_owned(),
        }
    }
}
