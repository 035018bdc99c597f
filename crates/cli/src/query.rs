//! The commands that ask a recording: one module each, and what they have in common.
//!
//! ```text
//! question      the recording with its index, the process, the moment; what fails in words
//! which_process the process that is meant
//! last_result   where the last command has led to, for `--at last`
//! watched       the memory that an expression, or an address and a length, stands for
//! as_of         values as they were at another moment
//! change        a write: who, the value before and after
//! code          instructions by line, by function, by address
//! frame         frames of call stacks, as text and JSON
//! latest        the latest of a list, in the order that is wanted
//! source_lines  lines of source files
//! landing       where a command has led to, as text and JSON
//! ```
//!
//! Invariants: nothing of a recording is changed; its index is built if it is not there. In JSON, times are numbers and
//! addresses strings (`"0x401136"`), since many readers keep numbers as floating point.

mod as_of;
mod backtrace;
mod calls;
mod change;
mod code;
mod core_file;
mod examine;
mod executions;
mod frame;
mod goto;
mod history;
mod landing;
pub(crate) mod last_result;
mod last_write;
mod latest;
mod maps;
mod print;
pub(crate) mod question;
mod registers;
mod signals;
mod source;
mod source_lines;
mod step;
mod syscalls;
mod threads;
mod vectors;
mod watched;
pub(crate) mod which_process;

pub use backtrace::backtrace;
pub use calls::calls;
pub use core_file::core_file;
pub use examine::examine;
pub use executions::executions;
pub use goto::goto;
pub use history::history;
pub use last_write::last_write;
pub use maps::maps;
pub use print::print;
pub use registers::registers;
pub use signals::signals;
pub use source::source;
pub use step::step;
pub use syscalls::syscalls;
pub use threads::threads;
