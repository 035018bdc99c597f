//! How a failure reaches the user: one line on stderr and an exit status.

use std::env;
use std::io::{self, IsTerminal, Write};

use anyhow::Error;

use crate::resolve::ResolveError;

/// Exit status when `retro` itself failed, as `env` and `timeout` have it: a status that a
/// program under `retro` is unlikely to use.
pub const FAILED: i32 = 125;

/// Exit status when the program exists and cannot be executed.
pub const CANNOT_EXECUTE: i32 = 126;

/// Exit status when the program does not exist.
pub const NOT_FOUND: i32 = 127;

/// Prints `error` and returns the exit status that belongs to it.
pub fn report(error: &Error) -> i32 {
    let prefix = if colours() { "\x1b[1;31mretro:\x1b[0m" } else { "retro:" };
    // One `write`, so that lines of several processes do not mix. A closed stderr leaves nobody
    // to tell, and the exit status still says that something failed.
    let _ = io::stderr().write_all(format!("{prefix} {error:#}\n").as_bytes());
    error.downcast_ref::<ResolveError>().map_or(FAILED, ResolveError::exit_status)
}

fn colours() -> bool {
    let plain = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || env::var_os("TERM").is_none_or(|term| term == "dumb");
    !plain && io::stderr().is_terminal()
}
