//! The entry point of `retro`, in place of the one that Rust's runtime brings.
//!
//! A program started by `retro run` must inherit exactly what `retro` inherited. The runtime's
//! own `main` ignores SIGPIPE, installs SIGSEGV and SIGBUS handlers and opens /dev/null on closed
//! standard descriptors before any code of ours runs, and what it found there is then lost. So C's
//! `main` is defined here and the runtime's start-up never happens.

#![no_main]

use std::ffi::{CStr, OsString, c_char, c_int};
use std::os::unix::ffi::OsStringExt;

/// Called by the C library.
#[unsafe(no_mangle)]
extern "C" fn main(argc: c_int, argv: *const *const c_char) -> c_int {
    let arguments = (0..argc as usize)
        .map(|index| {
            // SAFETY: the C library passes `argc` valid NUL-terminated strings in `argv`.
            let argument = unsafe { CStr::from_ptr(*argv.add(index)) };
            OsString::from_vec(argument.to_bytes().to_vec())
        })
        .collect();
    // `exit`, unlike returning from here, flushes Rust's standard output.
    std::process::exit(retro_cli::main(arguments))
}
