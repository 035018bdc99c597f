//! Types shared by the engine and everything outside it.
//!
//! Invariants: `no_std`, no dependencies, no I/O, no `unsafe`. What stands here is a contract
//! between two separately built programs, the freestanding engine and the `retro` command, so
//! every layout is `repr(C)` and every text form is parsed and printed in this crate alone.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod channel;
pub mod config;
pub mod kick;
pub mod layout;
pub mod log;
pub mod memory_sum;
pub mod replay;
pub mod signal_names;
pub mod stats;
pub mod syscall_names;
