//! `record::effects` against the kernel: real system calls are made with all their output in an arena filled with
//! a pattern, and every byte that changed must lie in a range that was reported. Each check runs with two
//! patterns, so that a byte that happens to be written as it was does not hide a hole.

mod arena;
mod files;
mod ipc;
mod processes;
mod requests;
mod sockets;
mod table;
mod waiting;
