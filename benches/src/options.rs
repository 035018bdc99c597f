//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::modes::Mode;
use crate::programs::{self, Group, Program};

/// Questions of each kind that the mode `query` asks, if nobody says otherwise.
const DEFAULT_QUESTIONS: u32 = 200;

const EXAMPLES: &str = "\
Examples:
  retro-bench                                     everything, in every mode
  retro-bench --modes run,record --group cpu      the CPU-bound programs, without the peer
  retro-bench --modes replay,index,query          what looking at a recording costs
  retro-bench --only gzip,sh-loop --runs 7        two programs, seven rounds each
  retro-bench --modes run,record --group short,string,process,syscall,cold    short programs
  retro-bench --json --out results.json           every sample, for another program to read
  retro-bench --update-results                    rewrite the measured part of benches/RESULTS.md
  retro-bench --retro target/debug/retro --only true

Exit status: 0 if every run gave native's answer and every replay was what was recorded, 1 if one did not or the benchmark could not run.";

/// Measure what running programs under Retrospect costs, as ratios to native.
///
/// Runs each program natively, under `retro run`, under `retro record` and under `valgrind --tool=none` in
/// turn, compares their output, and prints the median wall-clock time of each mode divided by the native one's,
/// and the size of the logs in bits per instruction. Replays a recording of each program in the same way: plainly,
/// with everything streamed, and under `retro verify`; and indexes it. About recordings of a few programs it asks random
/// questions and prints how long the answers take.
#[derive(Parser, Debug)]
#[command(name = "retro-bench", version, after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct Options {
    #[command(subcommand)]
    pub task: Option<Task>,

    /// Measure only these programs (see --list)
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = program_name)]
    pub only: Vec<String>,

    /// Measure only these groups of programs
    #[arg(long, value_name = "GROUP,…", value_delimiter = ',', value_enum)]
    pub group: Vec<Group>,

    /// Ways to run each program; native always takes part, an absent valgrind is left out
    #[arg(long, value_name = "MODE,…", value_delimiter = ',', value_enum, default_values_t = Mode::DEFAULT)]
    pub modes: Vec<Mode>,

    /// Rounds per program; the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,

    /// Rounds per program of the cold group, whose runs are short
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    pub cold_runs: u32,

    /// Random questions of each kind that mode query asks about each recording
    #[arg(long, value_name = "N", default_value_t = DEFAULT_QUESTIONS, value_parser = clap::value_parser!(u32).range(1..))]
    pub questions: u32,

    /// Give up on a run after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: u64,

    /// The retro executable [default: the one next to this program, else target/release/retro]
    #[arg(long, value_name = "PATH")]
    pub retro: Option<PathBuf>,

    /// Report as JSON, with every sample and the CPU-time ratios
    #[arg(long)]
    pub json: bool,

    /// Write the report to FILE instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Rewrite the measured section of the results document
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = "benches/RESULTS.md")]
    pub update_results: Option<PathBuf>,

    /// List the programs and exit
    #[arg(long)]
    pub list: bool,
}

/// What the benchmark does in a process of its own that it times.
#[derive(Subcommand, Debug)]
pub enum Task {
    /// Replay a recording
    #[command(hide = true)]
    Replay { recording: PathBuf },
    /// Replay a recording and look at everything that it does
    #[command(hide = true)]
    Stream { recording: PathBuf },
    /// Ask random questions about a recording
    #[command(hide = true)]
    Query {
        recording: PathBuf,
        #[arg(long, default_value_t = DEFAULT_QUESTIONS)]
        questions: u32,
    },
    /// Drive gdb's server on a recording as gdb does, and print how long it takes, as JSON
    Gdb {
        recording: PathBuf,
        /// Requests of each kind
        #[arg(long, default_value_t = DEFAULT_QUESTIONS)]
        requests: u32,
    },
}

impl Options {
    /// The programs asked for, in table order.
    pub fn selected_programs(&self) -> Vec<&'static Program> {
        programs::all()
            .filter(|program| {
                self.only.is_empty() || self.only.iter().any(|name| name == program.name)
            })
            .filter(|program| self.group.is_empty() || self.group.contains(&program.group))
            .collect()
    }

    /// How many rounds a program of this group is run.
    pub fn rounds(&self, group: Group) -> u32 {
        if group == Group::Cold { self.cold_runs } else { self.runs }
    }

    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }
}

fn program_name(name: &str) -> Result<String, String> {
    if programs::all().any(|program| program.name == name) {
        Ok(name.to_owned())
    } else {
        Err("no such program; --list shows them".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn names(arguments: &[&str]) -> Vec<&'static str> {
        let options = Options::try_parse_from(["retro-bench"].iter().chain(arguments))
            .expect("valid arguments");
        options.selected_programs().iter().map(|program| program.name).collect()
    }

    #[test]
    fn definition_is_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn selection_combines_names_and_groups() {
        assert_eq!(names(&["--only", "queens,gzip"]), ["gzip", "queens"]);
        assert_eq!(names(&["--only", "queens,true", "--group", "cold"]), ["true"]);
        assert_eq!(names(&[]).len(), programs::all().count());
    }

    #[test]
    fn unknown_program_is_refused() {
        assert!(Options::try_parse_from(["retro-bench", "--only", "nonsense"]).is_err());
    }

    #[test]
    fn update_results_takes_an_optional_file() {
        let parse = |argument: &str| {
            let options =
                Options::try_parse_from(["retro-bench", argument]).expect("valid arguments");
            options.update_results.expect("given")
        };
        assert_eq!(parse("--update-results"), PathBuf::from("benches/RESULTS.md"));
        assert_eq!(parse("--update-results=other.md"), PathBuf::from("other.md"));
    }
}
