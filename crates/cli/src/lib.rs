//! The `retro` command, as a library so that its parts can be tested.
//!
//! Strategy: [`arguments`] defines the command line, one module per subcommand does the work, and
//! whatever fails becomes one line on stderr and an exit status in [`message`].
//!
//! Invariants:
//! - No thread is ever started and no handler installed before the guest is executed, so that a
//!   guest that takes over this process finds it as a shell would have left it.
//! - Every descriptor opened here is close-on-exec, except those handed to the engine on purpose.

#![warn(missing_docs)]

pub mod arguments;
pub mod counters;
pub mod descriptors;
pub mod documents;
pub mod engine_file;
pub mod launch;
pub mod message;
pub mod report;
pub mod resolve;
pub mod run;
pub mod supervise;

use std::ffi::OsString;

use clap::Parser;

use arguments::{Arguments, Command};

/// Runs `retro` with its full argument vector and returns the exit status.
pub fn main(arguments: Vec<OsString>) -> i32 {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Nothing is left to tell the user when the message itself cannot be written.
            let _ = error.print();
            return error.exit_code();
        }
    };
    let outcome = match arguments.command {
        Command::Run(options) => run::run(&options),
        Command::Completions { shell } => documents::completions(shell),
        Command::Man => documents::manual(),
    };
    match outcome {
        Ok(()) => 0,
        Err(error) => message::report(&error),
    }
}
