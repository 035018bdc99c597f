//! The gdb remote protocol over a recorded run: gdb, and whatever speaks to gdb, goes through the run both ways.
//!
//! ```text
//! server       sockets, and a thread for each client
//! connection   one client: bytes in, packets out; interrupts
//!   packet       framing, sums, escapes
//!   request      what a packet asks
//!   session      the client's view: where it stands, what it waits for
//!     resume       going on and going back
//!       searches     what comes first;  syscall_stops  of system calls
//!       range_step   steps by lines;  own_frame  over calls
//!       conditions   of breakpoints
//!     documents    threads, signals, the description of registers
//!       registers    as gdb numbers them
//!       libraries    from the linker's own list
//!     signal_frame registers in front of a handler
//!     thread_local variables of threads;  thread_names  what they are called
//!     files        what clients read of the file system;  proc_files  of /proc
//!     monitor      our own commands
//! debuggee     the process that is looked at, shared by all clients
//! ```
//!
//! The packets are taken apart here rather than by a library: conditions in bytecode, signal information, thread-local variables and
//! names of threads are what gdb is best at, and the library that there is does not have them.
//!
//! Invariants: nothing here changes a recording; no bytes from a client make it panic; every client has a view of its own;
//! nothing but this crate knows the protocol.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod conditions;
mod connection;
mod debuggee;
mod documents;
mod files;
mod hex;
mod libraries;
mod moment_view;
mod monitor;
mod own_frame;
mod packet;
mod points;
mod proc_files;
mod range_step;
mod registers;
mod request;
mod resume;
mod searches;
mod server;
mod session;
mod signal_frame;
mod signal_numbers;
mod stop;
mod syscall_stops;
mod thread_local;
mod thread_names;

pub use connection::{Failure, serve};
pub use debuggee::Debuggee;
pub use server::{Address, Listener};

/// Commands for gdb, in Python: the file that `source` loads.
pub const PYTHON: &str = include_str!("../python/retro.py");
