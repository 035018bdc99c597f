//! Questions about any moment of a recorded run.
//!
//! *Time* is the number of retired instructions of a process. At time `t` the instructions with numbers below `t` have
//! been executed, and everything that the log has up to `t` has happened.
//!
//! ```text
//! run            a recording with its index, open; caches
//!   templates      processes to replay windows in
//!   trace          everything that one window did
//! state          registers, memory, threads at a moment
//! stretch        moments that follow each other closely;  sampled_window  wherever something was executed
//! calls          where calls return, who called;  call_details  with arguments and results
//! step           to the next or previous instruction or line
//! frames         call stacks, variables, expressions
//!   unknown_memory what a replay does not know of memory
//! functions      functions by their names
//! address_space  mappings at a moment
//! program        how a process began, and what ended it
//! core_file      a moment for whatever reads core files
//! executed       how often code was executed
//! last_writes    the last writes to many places at once
//! locate         where memory was written, code executed, a system call made …
//! language       the language of `goto`
//! goto           answers queries of it
//! ```
//!
//! Invariants: nothing here changes a recording or its index; every question can be asked from many threads at once,
//! and stopped ([`Cancel`]); answers are plain data, which know nothing of JSON or terminals.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod address_space;
mod call_details;
mod calls;
mod cancel;
pub mod core_file;
mod disassembly;
mod error;
mod executed;
mod frames;
mod functions;
mod goto;
mod known_calls;
pub mod language;
mod last_writes;
mod locate;
mod program;
mod recent;
mod run;
mod sampled_window;
mod state;
mod step;
mod stretch;
mod templates;
mod trace;
mod unknown_memory;

pub use address_space::{MapChange, Mapping};
pub use call_details::{CallDetails, Returned};
pub use cancel::Cancel;
pub use disassembly::InstructionText;
pub use error::Error;
pub use executed::Invocation;
pub use frames::{Evaluated, FRAMES_LIMIT, Named, ThreadStack};
pub use goto::{Found, FoundEvent, Goto, GotoContext, Matches};
pub use last_writes::LastWrite;
pub use locate::{Execution, Read, RowFilter, Search, Write};
pub use program::{Death, Program, SIGINFO_SIZE};
pub use retro_index::events::{Row, RowClass, TimedRow};
pub use retro_replayer::{Registers, Sample, ThreadInfo};
pub use retro_symbols as symbols;
pub use run::{Options, Process, Run, WindowRef};
pub use sampled_window::SampledWindow;
pub use state::{READ_LIMIT, State, StateMachine};
pub use step::{Calls, Unit};
pub use stretch::Stretch;
pub use trace::{Trace, TracedBlock, TracedTransfer, TracedWrite, Writer};

/// A moment of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moment {
    /// Its log.
    pub log: u64,
    /// The time.
    pub time: u64,
}

/// Which way to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// To later times.
    Forward,
    /// To earlier times.
    Backward,
}
