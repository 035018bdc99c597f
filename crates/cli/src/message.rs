//! How a failure reaches the user: one line on stderr and an exit status.

use std::io::{self, Write};

use anyhow::Error;

use crate::output::OutputError;
use crate::resolve::ResolveError;
use crate::style::Style;

/// Exit status when `retro` itself failed, as `env` and `timeout` have it: a status that a
/// program under `retro` is unlikely to use.
pub const FAILED: i32 = 125;

/// Exit status when the program exists and cannot be executed.
pub const CANNOT_EXECUTE: i32 = 126;

/// Exit status when the program does not exist.
pub const NOT_FOUND: i32 = 127;

/// Exit status when a command that starts no program failed.
pub const COMMAND_FAILED: i32 = 1;

/// Prints `error` and returns the exit status that belongs to it when a program was to be started.
pub fn report(error: &Error) -> i32 {
    complain(&describe(error));
    error.downcast_ref::<ResolveError>().map_or(FAILED, ResolveError::exit_status)
}

/// Prints `error` and returns the exit status of a command that starts no program. A reader that went away is
/// no error.
pub fn report_failure(error: &Error) -> i32 {
    if let Some(OutputError::Closed) = error.downcast_ref() {
        return 0;
    }
    complain(&describe(error));
    COMMAND_FAILED
}

/// Prints one line about something that went wrong.
pub fn complain(text: &str) {
    say(&Style::stderr().alarming("retro:"), text);
}

/// Prints one line for the user that is no error.
pub fn notify(text: &str) {
    say("retro:", text);
}

fn say(prefix: &str, text: &str) {
    // One `write`, so that lines of several processes do not mix. A closed stderr leaves nobody
    // to tell, and the exit status still says that something failed.
    let _ = io::stderr().write_all(format!("{prefix} {text}\n").as_bytes());
}

/// The error and its causes. Some texts end with that of their cause, which is not repeated.
pub fn describe(error: &Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn causes_are_told_once() {
        assert_eq!(describe(&anyhow!("no room").context("cannot write")), "cannot write: no room");
        assert_eq!(
            describe(&anyhow!("no room").context("cannot write: no room")),
            "cannot write: no room"
        );
    }
}
