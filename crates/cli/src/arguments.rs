//! The command line: what can be asked, and the help text for it.

mod debugging;
mod indexing;
mod querying;
mod recordings;
mod replaying;
mod serving;

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

pub use debugging::{Debugged, GdbOptions, GdbServerOptions};
pub use indexing::IndexOptions;
pub use querying::{
    BacktraceOptions, CallsOptions, CoreOptions, ExamineOptions, ExecutionsOptions, Extent,
    GotoOptions, HistoryOptions, LastWriteOptions, Limit, MapsOptions, PrintOptions,
    RegistersOptions, SignalsOptions, SourceOptions, StepOptions, Subject, SyscallsOptions,
    ThreadsOptions, View,
};
pub use recordings::{
    DumpOptions, ImportOptions, InfoOptions, KindGroup, LsOptions, PackOptions, RecordOptions,
    RmOptions, UnpackOptions, VerifyOptions,
};
pub use replaying::{Moment, ReplayOptions, TraceKind};
pub use serving::{ServeOptions, UiOptions};

const EXAMPLES: &str = "\
Examples:
  retro record -- ./a.out          record a run of a program
  retro ls                         list the recordings
  retro info                       what happened in the latest one, in numbers
  retro dump | less                its log as text
  retro index                      build its index, for fast answers
  retro verify                     replay it and compare
  retro replay                     its output again
  retro replay --trace=calls       which function called which
  retro bt                         the call stack where it crashed, or ended
  retro last-write 'x->size'       who wrote that, and from where
  retro ui                         look at it in a browser
  retro gdb                        debug it with gdb, forwards and backwards
  retro serve                      answer questions of other programs about it
  retro run -- ls -l               run a program under the engine without recording
  retro run --stats -- make -j2    and print what the engine counted
  retro completions bash           print a completion script for bash
  retro man | man -l -             read the manual page";

const RUN_EXAMPLES: &str = "\
Examples:
  retro run -- ls -l /usr/share
  retro run -- bash -c 'sort < words | uniq -c'
  retro run --stats -- python3 script.py
  retro run --stats=json -- ./a.out 2> counters.json

Exit status: that of COMMAND; if a signal killed COMMAND, the same signal kills retro. \
127 if COMMAND was not found, 126 if it cannot be executed, 125 if retro itself failed.";

/// Time-travel debugging for native Linux x86-64 programs.
#[derive(Debug, Parser)]
#[command(name = "retro", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program under the engine
    ///
    /// The program, and every program it starts, is translated block by block and executed from a
    /// code cache. Standard input and output, environment, working directory and signals are the
    /// program's own.
    Run(RunOptions),
    /// Record a run of a program
    ///
    /// The program, and every program it starts, runs under the engine, and what replay needs is logged.
    /// Standard input and output, environment, working directory and signals are the program's own. One
    /// line on stderr says at the end what was recorded.
    Record(RecordOptions),
    /// List the recordings
    Ls(LsOptions),
    /// Show what a recording holds: commands, processes, counts, sizes
    Info(InfoOptions),
    /// Build the index of a recording, which makes questions about it fast
    ///
    /// The recording is replayed once, and what is needed to find any moment of it again is stored beside its log.
    /// Recording does so in the background; this command completes what is missing.
    Index(IndexOptions),
    /// Replay a recording and compare it with its log
    ///
    /// Every interval is replayed alone, in a sandboxed process that needs nothing but the recording. All that
    /// the log tells about registers is compared; the first difference is reported with its position.
    Verify(VerifyOptions),
    /// Replay a recording: its output again, or a trace of what happened
    ///
    /// Writes to stdout and stderr, byte for byte, what the recorded program wrote there, and what its children
    /// wrote. With --trace, prints calls, system calls, blocks or changes of memory with the names of functions
    /// instead.
    Replay(ReplayOptions),
    /// Find the write that made some memory what it is, with the writer's call stack
    LastWrite(LastWriteOptions),
    /// List the writes to some memory, with the values before and after
    History(HistoryOptions),
    /// List the calls of a function: arguments, caller, result
    Calls(CallsOptions),
    /// List when a line, a function or an instruction was executed
    Executions(ExecutionsOptions),
    /// Print the value of an expression at a moment of the run
    Print(PrintOptions),
    /// Print the call stack at a moment of the run
    #[command(visible_alias = "backtrace")]
    Bt(BacktraceOptions),
    /// Print the registers at a moment of the run
    Regs(RegistersOptions),
    /// Print memory at a moment of the run
    X(ExamineOptions),
    /// Print the address space at a moment of the run
    Maps(MapsOptions),
    /// Print the threads at a moment of the run, and what they do
    Threads(ThreadsOptions),
    /// List the system calls
    Syscalls(SyscallsOptions),
    /// List the signals that arrived
    Signals(SignalsOptions),
    /// Write a moment of the run as a core file, for gdb and whatever else reads those
    Core(CoreOptions),
    /// Print the source around a moment of the run
    Source(SourceOptions),
    /// Go to a moment of the run that a query describes
    Goto(GotoOptions),
    /// Go to the next or the previous line or instruction
    Step(StepOptions),
    /// Debug a recording with gdb, forwards and backwards
    Gdb(GdbOptions),
    /// Serve a recording to gdb, or to anything that speaks its remote protocol
    #[command(name = "gdbserver")]
    GdbServer(GdbServerOptions),
    /// Look at a recording in a browser: see a run, click a value, find its cause
    Ui(UiOptions),
    /// Answer questions about a recording: JSON-RPC over sockets, HTTP and WebSocket
    Serve(ServeOptions),
    /// Remove recordings
    Rm(RmOptions),
    /// Print the log of a recording as text
    Dump(DumpOptions),
    /// Pack a recording and the files it needs into one file
    Pack(PackOptions),
    /// Turn a packed recording into a recording again
    ///
    /// What is in it was chosen by whoever packed it. The recording is marked as received: it is only read, its index goes to
    /// your own store, and replaying it is confined to a sandbox.
    Unpack(UnpackOptions),
    /// Take in a recording that somebody sent as a directory
    ///
    /// Its log and the copies of files that belong to it are checked and copied, and nothing else that lies there. As with
    /// unpack, the recording is marked as received.
    Import(ImportOptions),
    /// Print a shell completion script
    Completions {
        /// The shell to complete for
        shell: Shell,
    },
    /// Print the manual page (in roff)
    Man,
}

/// Options of `retro run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunOptions {
    /// Print what the engine counted to stderr when the program has ended
    #[arg(
        long,
        value_name = "FORMAT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "text"
    )]
    pub stats: Option<StatsFormat>,

    /// Memory for translated code in KiB; when it is full, code is translated anew
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u32).range(256..=786_432))]
    pub code_cache: Option<u32>,

    /// The program and its arguments; the program is looked up in PATH as a shell does
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// How `--stats` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StatsFormat {
    /// An aligned table
    Text,
    /// One JSON object on one line
    Json,
}

impl Arguments {
    /// Reads the words of a command line.
    pub fn read(words: Vec<OsString>) -> Result<Arguments, clap::Error> {
        let command = words.get(1).cloned().unwrap_or_default();
        Arguments::try_parse_from(words)
            .map_err(|error| with_hint(error, &command.to_string_lossy()))
    }
}

/// Some commands take a recording by its name alone; to others, which take something else, it is an option.
fn with_hint(mut error: clap::Error, command: &str) -> clap::Error {
    let word = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) if !word.starts_with('-') => word.clone(),
        _ => return error,
    };
    let takes_option = Arguments::command().find_subcommand(command).is_some_and(|command| {
        command.get_arguments().any(|argument| argument.get_long() == Some("recording"))
    });
    if takes_option && error.kind() == ErrorKind::UnknownArgument {
        let hint = format!("if that is the name of a recording, write `-r {word}`");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_options(arguments: &[&str]) -> RunOptions {
        match Arguments::try_parse_from(arguments).expect("valid arguments").command {
            Command::Run(options) => options,
            other => panic!("not `run`: {other:?}"),
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn everything_from_the_program_on_is_the_program_s() {
        for line in [
            &["retro", "run", "--", "ls", "--stats", "--", "-l"][..],
            &["retro", "run", "ls", "--stats", "--", "-l"],
        ] {
            let options = run_options(line);
            assert_eq!(options.stats, None);
            assert_eq!(options.command, ["ls", "--stats", "--", "-l"]);
        }
    }

    #[test]
    fn stats_takes_its_format_after_an_equals_sign_only() {
        let text = run_options(&["retro", "run", "--stats", "json"]);
        assert_eq!((text.stats, text.command), (Some(StatsFormat::Text), vec!["json".into()]));
        let json = run_options(&["retro", "run", "--stats=json", "true"]);
        assert_eq!((json.stats, json.command), (Some(StatsFormat::Json), vec!["true".into()]));
    }

    #[test]
    fn an_unknown_option_is_no_program() {
        assert!(Arguments::try_parse_from(["retro", "run", "--stat", "true"]).is_err());
        assert_eq!(run_options(&["retro", "run", "--", "--stat"]).command, ["--stat"]);
    }

    #[test]
    fn a_program_is_required() {
        assert!(Arguments::try_parse_from(["retro", "run"]).is_err());
        assert!(Arguments::try_parse_from(["retro", "run", "--"]).is_err());
    }

    #[test]
    fn whoever_names_a_recording_is_told_how() {
        let told = |line: &[&str]| {
            let words = line.iter().map(Into::into).collect();
            Arguments::read(words).expect_err("that is wrong").to_string()
        };
        let hint = "if that is the name of a recording, write `-r sort-3`";
        assert!(told(&["retro", "bt", "sort-3"]).contains(hint));
        assert!(!told(&["retro", "bt", "--sort-3"]).contains("recording, write"));
        assert!(!told(&["retro", "ls", "sort-3", "more"]).contains(hint));
    }
}
