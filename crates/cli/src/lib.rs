//! The `retro` command, as a library so that its parts can be tested.
//!
//! Strategy: [`arguments`] defines the command line, one module per subcommand does the work, and
//! whatever fails becomes one line on stderr and an exit status in [`message`].
//!
//! Invariants:
//! - No thread is ever started and no handler installed before the guest is executed, so that a
//!   guest that takes over this process finds it as a shell would have left it.
//! - Every descriptor opened here is close-on-exec, except those handed to the engine on purpose.
//! - No string of a recording reaches a terminal but through [`quoting`]: recordings come from strangers, too.

#![warn(missing_docs)]

pub mod arguments;
pub mod counters;
pub mod descriptors;
pub mod documents;
pub mod dump;
pub mod engine_file;
pub mod gdb;
pub mod index;
pub mod info;
pub mod launch;
pub mod listing;
pub mod logs;
pub mod message;
pub mod output;
pub mod packing;
pub mod place;
pub mod quantity;
pub mod query;
pub mod quoting;
pub mod record;
pub mod removal;
pub mod replay;
pub mod report;
pub mod resolve;
pub mod run;
pub mod selection;
pub mod serve;
pub mod style;
pub mod supervise;
pub mod table;
pub mod timestamp;
mod verify;
pub mod wording;

use std::ffi::OsString;

use anyhow::Result;

use arguments::{Arguments, Command};

/// Runs `retro` with its full argument vector and returns the exit status.
pub fn main(arguments: Vec<OsString>) -> i32 {
    let arguments = match Arguments::read(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Nothing is left to tell the user when the message itself cannot be written.
            let _ = error.print();
            return error.exit_code();
        }
    };
    match arguments.command {
        Command::Run(options) => started(run::run(&options)),
        Command::Record(options) => started(record::record(&options)),
        Command::Ls(options) => looked(listing::list(&options)),
        Command::Info(options) => looked(info::info(&options)),
        Command::Index(options) => looked(index::index(&options)),
        Command::Verify(options) => looked(verify::verify(&options)),
        Command::Replay(options) => looked(replay::replay(&options)),
        Command::LastWrite(options) => looked(query::last_write(&options)),
        Command::History(options) => looked(query::history(&options)),
        Command::Calls(options) => looked(query::calls(&options)),
        Command::Executions(options) => looked(query::executions(&options)),
        Command::Print(options) => looked(query::print(&options)),
        Command::Bt(options) => looked(query::backtrace(&options)),
        Command::Regs(options) => looked(query::registers(&options)),
        Command::X(options) => looked(query::examine(&options)),
        Command::Maps(options) => looked(query::maps(&options)),
        Command::Threads(options) => looked(query::threads(&options)),
        Command::Syscalls(options) => looked(query::syscalls(&options)),
        Command::Signals(options) => looked(query::signals(&options)),
        Command::Core(options) => looked(query::core_file(&options)),
        Command::Source(options) => looked(query::source(&options)),
        Command::Goto(options) => looked(query::goto(&options)),
        Command::Step(options) => looked(query::step(&options)),
        Command::Gdb(options) => match gdb::gdb(&options) {
            Ok(status) => status,
            Err(error) => message::report_failure(&error),
        },
        Command::GdbServer(options) => looked(gdb::server(&options)),
        Command::Ui(options) => looked(serve::ui(&options)),
        Command::Serve(options) => looked(serve::serve(&options)),
        Command::Rm(options) => looked(removal::remove(&options)),
        Command::Dump(options) => looked(dump::dump(&options)),
        Command::Pack(options) => looked(packing::pack(&options)),
        Command::Unpack(options) => looked(packing::unpack(&options)),
        Command::Import(options) => looked(packing::import(&options)),
        Command::Completions { shell } => started(documents::completions(shell)),
        Command::Man => started(documents::manual()),
    }
}

/// The exit status of a command that starts a program.
fn started(outcome: Result<()>) -> i32 {
    match outcome {
        Ok(()) => 0,
        Err(error) => message::report(&error),
    }
}

/// The exit status of a command that looks at recordings; part of it may have failed and be reported already.
fn looked(outcome: Result<Completeness>) -> i32 {
    match outcome {
        Ok(Completeness::Whole) => 0,
        Ok(Completeness::Partial) => message::COMMAND_FAILED,
        Err(error) => message::report_failure(&error),
    }
}

/// Whether a command could do all that it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Completeness {
    /// It could.
    Whole,
    /// Something is damaged or failed, and the user was told.
    Partial,
}
