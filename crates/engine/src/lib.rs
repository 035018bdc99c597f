//! The engine: a same-ISA binary translator for Linux x86-64, as a `no_std` library.
//!
//! It is linked into a freestanding executable (the `retro-engine` binary, embedded by the crate
//! `engine-image`) that loads a guest program into its own process and runs it from a code cache.
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`start`], [`loader`], [`elf`], [`exec`] | from `execve` to the first guest instruction |
//! | [`translate`], [`policy`] | guest code to cache code, with instrumentation |
//! | [`cache`] | translated blocks, links, tables, changing code, state recovery |
//! | [`entry`], [`context`], [`dispatch`] | the border between guest and engine, and the main loop |
//! | [`emulate`] | instructions the engine executes itself |
//! | [`syscalls`], [`maps`] | what the guest asks of the kernel, and its address space |
//! | [`signals`], [`threads`] | signals at exact boundaries, threads and their memory |
//! | [`clock`] | counting retired instructions |
//! | [`vectors`] | vector and x87 state as the guest may see it |
//! | [`sys`], [`lock`], [`memory`], [`arena`], [`table`], [`guest_memory`], [`code_map`] | foundations |
//!
//! Invariants: no libc, no thread-local storage through FS, no vector registers; nothing of the engine lies
//! below `GUEST_LIMIT`, nothing of the guest above it.

#![no_std]
#![warn(missing_docs)]

extern crate alloc;

pub mod arena;
pub mod cache;
pub mod clock;
pub mod code_map;
pub mod context;
pub mod dispatch;
pub mod elf;
pub mod emulate;
pub mod entry;
pub mod exec;
pub mod guest_memory;
pub mod loader;
pub mod lock;
pub mod maps;
pub mod memory;
pub mod policy;
pub mod ptrace;
pub mod record;
pub mod replay;
pub mod signals;
pub mod start;
pub mod sys;
pub mod syscalls;
pub mod table;
pub mod threads;
pub mod translate;
pub mod vectors;
