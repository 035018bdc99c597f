//! The options of `retro replay`.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

use crate::quantity::parse_count;

const REPLAY_EXAMPLES: &str = "\
Examples:
  retro replay                              the output of the latest recording, again
  retro replay gzip-3 2> /dev/null          only what went to stdout
  retro replay --process 2 --to 50%         of one process, up to the middle of its run
  retro replay --trace=calls | less         which function called which
  retro replay --trace=syscalls,calls       the same, with the system calls among them
  retro replay --trace=writes --from 1.5M --to 1.6M
  retro replay --trace=blocks --json | jq .function

Nothing of the program is executed but its own computations: the replay makes no system call, opens no file and \
needs none but the recording. What it wrote is found in its memory, which the replay restores. The files that \
were mapped, or the copies in an unpacked recording, serve for the names of functions.

Each process has a log, as `retro info` shows them, and its own time: the number of instructions that it has \
executed. The output of a child comes before that of a parent which has waited for it.

Lines of a trace show the time, the thread and what happened there:
  calls     -> for a call and <- for a return, indented by depth
  syscalls  system calls with their results, and signals, like strace
  blocks    every run of instructions without a branch, with its address and length
  writes    every change of memory: who, where, how many bytes, and the new value

Exit status: 0 if the replay was what was recorded, whatever the status of the program; 1 if it was not, or if \
something of the recording is damaged.";

/// What `--trace` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TraceKind {
    /// Calls of functions and returns from them
    Calls,
    /// System calls and signals
    Syscalls,
    /// Runs of instructions without a branch
    Blocks,
    /// Changes of memory
    Writes,
}

/// Options of `retro replay`.
#[derive(Debug, Args)]
#[command(after_help = REPLAY_EXAMPLES)]
pub struct ReplayOptions {
    /// The recording: a path, or a name from `retro ls`; the latest if left out
    #[arg(value_name = "REC")]
    pub recording: Option<OsString>,

    /// Only this process: the number of a log, as `retro info` shows it, or else a process id
    #[arg(long, value_name = "LOG|PID")]
    pub process: Option<u64>,

    /// Only what happened at this time or later: a number of instructions with k, M or G, a part of the run
    /// such as 50%, `start` or `end`
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub from: Option<Moment>,

    /// Only what happened at this time or earlier
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub to: Option<Moment>,

    /// Print what happens instead of the program's output
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',', value_enum)]
    pub trace: Vec<TraceKind>,

    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// A time in a run, before it is known how long the run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// So many instructions from the start.
    Time(u64),
    /// So many millionths of the run from the start.
    Part(u64),
}

/// Millionths in the whole.
const WHOLE: u64 = 1_000_000;

impl Moment {
    /// The time in a run of so many instructions.
    pub fn in_run(self, length: u64) -> u64 {
        match self {
            Moment::Time(time) => time,
            Moment::Part(part) => {
                (u128::from(length) * u128::from(part) / u128::from(WHOLE)) as u64
            }
        }
    }
}

fn parse_moment(text: &str) -> Result<Moment, String> {
    match text {
        "start" => return Ok(Moment::Part(0)),
        "end" => return Ok(Moment::Part(WHOLE)),
        _ => {}
    }
    let Some(percent) = text.strip_suffix('%') else { return parse_count(text).map(Moment::Time) };
    let expected = || "expected a part of the run from 0% to 100%".to_string();
    // A ten-thousandth of a percent is a millionth; the number is read as if there were `M` behind it.
    if percent.ends_with(|last: char| !last.is_ascii_digit()) {
        return Err(expected());
    }
    let millions = parse_count(&format!("{percent}M")).map_err(|_| expected())?;
    let part = millions / 100;
    if part > WHOLE { Err(expected()) } else { Ok(Moment::Part(part)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Command};
    use clap::Parser;

    fn replay(line: &[&str]) -> Result<ReplayOptions, clap::Error> {
        let line = ["retro", "replay"].iter().chain(line);
        match Arguments::try_parse_from(line)?.command {
            Command::Replay(options) => Ok(options),
            other => panic!("not `replay`: {other:?}"),
        }
    }

    #[test]
    fn moments_are_times_or_parts_of_the_run() {
        for (text, time) in [
            ("0", 0),
            ("1.5k", 1500),
            ("start", 0),
            ("end", 2000),
            ("0%", 0),
            ("50%", 1000),
            ("12.5%", 250),
            ("100%", 2000),
        ] {
            assert_eq!(parse_moment(text).map(|moment| moment.in_run(2000)), Ok(time), "{text}");
        }
        assert_eq!(Moment::Part(WHOLE).in_run(u64::MAX), u64::MAX);
        for text in ["", "%", "101%", "-1", "-1%", "1e3", "1k%", "half", "99999999999999999999%"] {
            assert!(parse_moment(text).is_err(), "{text}");
        }
    }

    #[test]
    fn traces_can_be_combined() {
        let options = replay(&["--trace=calls,syscalls", "--trace", "writes"]).unwrap();
        assert_eq!(options.trace, [TraceKind::Calls, TraceKind::Syscalls, TraceKind::Writes]);
        assert!(replay(&["--trace=everything"]).is_err());
        assert!(replay(&["--trace="]).is_err());
        assert!(replay(&["--process", "pid"]).is_err());
    }
}
