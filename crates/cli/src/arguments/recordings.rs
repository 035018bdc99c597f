//! The options of the commands that make recordings and look at them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use retro_abi::log::Kind;

use crate::quantity::parse_count;

const RECORD_EXAMPLES: &str = "\
Examples:
  retro record -- ./a.out --verbose
  retro record -o crash -- bash -c 'make check'
  retro record --chaos -- ./racy          vary the order of threads
  retro record --chaos 42 -- ./racy       vary it in the same way again
  retro record --interval 100M -- ./a.out

Recordings go to $RETRO_DIR, else $XDG_DATA_HOME/retro, else ~/.local/share/retro. They hold everything \
that the program read, passwords included, and only their owner can read them.

While the program runs, a process of low priority indexes what is recorded (see `retro index`), unless there \
is --no-index, or RETRO_NO_INDEX is set to something else than 0.

Exit status: that of COMMAND; if a signal killed COMMAND, the same signal kills retro. \
127 if COMMAND was not found, 126 if it cannot be executed, 125 if retro itself failed.";

const LS_EXAMPLES: &str = "\
Examples:
  retro ls
  retro ls --json | jq '.[].name'

A star marks the latest recording, which other commands take if none is named.";

const INFO_EXAMPLES: &str = "\
Examples:
  retro info                the latest recording
  retro info gzip-3         by name
  retro info ./crash        by path
  retro info --check        and read all of it to find damage
  retro info --json | jq .syscalls

Exit status: 1 if the recording is damaged or cannot be read.";

const RM_EXAMPLES: &str = "\
Examples:
  retro rm gzip-3 gzip-4
  retro rm ./crash
  retro rm --all --force

Nothing is asked, and nothing is removed that is not a recording.";

const DUMP_EXAMPLES: &str = "\
Examples:
  retro dump | less
  retro dump --kind syscall,signal        like strace
  retro dump --from 1.5M --to 1.6M        a stretch of the run
  retro dump gzip-3 --kind load --hex 64 --limit 100
  retro dump --code --kind file           the files that were mapped
  retro dump --json | jq 'select(.kind == \"signal\")'

Times are numbers of instructions that the process has executed. Each line shows the time, the thread and \
what happened.

Exit status: 1 if the recording is damaged; what is whole is printed.";

const PACK_EXAMPLES: &str = "\
Examples:
  retro pack                         the latest recording, as NAME.retro
  retro pack gzip-3 -o bug-17.retro

The result holds the log and the programs, libraries and debug information that the run used, so that \
somebody else can look at the recording. It also holds everything that the program read, passwords \
included.";

const UNPACK_EXAMPLES: &str = "\
Examples:
  retro unpack bug-17.retro            as the recording bug-17
  retro unpack bug-17.retro -o here    into a new directory";

const IMPORT_EXAMPLES: &str = "\
Examples:
  retro import ~/Downloads/bug-17      as the recording bug-17
  retro import /media/usb/bug -o here  into a new directory";

/// What a positional argument that names a recording says of itself.
const WHICH: &str = "The recording: a path, or a name from `retro ls`; the latest if left out";

/// Options of `retro record`.
#[derive(Debug, Args)]
#[command(after_help = RECORD_EXAMPLES)]
pub struct RecordOptions {
    /// Directory for the recording; it must be empty or not exist yet
    #[arg(short, long, value_name = "DIR", conflicts_with = "name")]
    pub output: Option<PathBuf>,

    /// Name of the recording, to which a number is added; the program's name if left out
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Instructions after which a stretch begins that can be replayed by itself, such as 100M; retro decides
    /// if left out
    #[arg(long, value_name = "N", value_parser = parse_interval)]
    pub interval: Option<u64>,

    /// Vary how threads take turns, to provoke races; the same seed varies in the same way
    #[arg(long, value_name = "SEED")]
    pub chaos: Option<Option<u64>>,

    /// Do not record the processes that the program makes
    #[arg(long)]
    pub no_follow: bool,

    /// Level of compression, from 1 (fast) to 22 (small)
    #[arg(
        long,
        value_name = "N",
        default_value_t = retro_recording::DEFAULT_LEVEL,
        value_parser = clap::value_parser!(i32).range(1..=22)
    )]
    pub level: i32,

    /// Memory for translated code in KiB; when it is full, code is translated anew
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u32).range(256..=786_432))]
    pub code_cache: Option<u32>,

    /// Do not index the recording in the background; `retro index` does it later
    #[arg(long)]
    pub no_index: bool,

    /// Print no summary at the end; errors are still printed
    #[arg(short, long)]
    pub quiet: bool,

    /// The program and its arguments; the program is looked up in PATH as a shell does
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Options of `retro ls`.
#[derive(Debug, Args)]
#[command(after_help = LS_EXAMPLES)]
pub struct LsOptions {
    /// Print a JSON array with an object for each recording
    #[arg(long)]
    pub json: bool,
}

/// Options of `retro info`.
#[derive(Debug, Args)]
#[command(after_help = INFO_EXAMPLES)]
pub struct InfoOptions {
    #[arg(value_name = "REC", help = WHICH)]
    #[allow(missing_docs, reason = "the help text says it")]
    pub recording: Option<OsString>,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    /// Read the whole recording and compare it with its checksums
    #[arg(long)]
    pub check: bool,

    /// Show all processes and system calls, however many
    #[arg(long)]
    pub all: bool,
}

const VERIFY_EXAMPLES: &str = "\
Examples:
  retro verify                  replay the latest recording
  retro verify gzip-3 --json    another one, as JSON

Exit status: 0 if the replay is what was recorded, 1 if not.";

/// Options of `retro verify`.
#[derive(Debug, Args)]
#[command(after_help = VERIFY_EXAMPLES)]
pub struct VerifyOptions {
    /// The recording: a path, or a name from `retro ls`; the latest if there is none
    #[arg(value_name = "REC")]
    pub recording: Option<OsString>,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Options of `retro rm`.
#[derive(Debug, Args)]
#[command(after_help = RM_EXAMPLES)]
pub struct RmOptions {
    /// The recordings: paths, or names from `retro ls`
    #[arg(value_name = "REC", required_unless_present = "all", conflicts_with = "all")]
    pub recordings: Vec<OsString>,

    /// Remove every recording that `retro ls` shows
    #[arg(long, requires = "force")]
    pub all: bool,

    /// Confirm --all
    #[arg(long)]
    pub force: bool,
}

/// Options of `retro dump`.
#[derive(Debug, Args)]
#[command(after_help = DUMP_EXAMPLES)]
pub struct DumpOptions {
    #[arg(value_name = "REC", help = WHICH)]
    #[allow(missing_docs, reason = "the help text says it")]
    pub recording: Option<OsString>,

    /// Only the log with this number, as `retro info` shows it
    #[arg(long, value_name = "N", conflicts_with = "pid")]
    pub log: Option<u64>,

    /// Only the logs of the process with this id
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,

    /// Only what happened at this time or later; k, M and G stand for thousands, millions, billions
    #[arg(long, value_name = "TIME", value_parser = parse_count)]
    pub from: Option<u64>,

    /// Only what happened at this time or earlier
    #[arg(long, value_name = "TIME", value_parser = parse_count)]
    pub to: Option<u64>,

    /// Only these kinds of events
    #[arg(long, value_name = "KIND,...", value_delimiter = ',', value_parser = kinds_parser())]
    pub kind: Vec<KindGroup>,

    /// Only what happened in this thread
    #[arg(long, value_name = "TID")]
    pub thread: Option<u32>,

    /// Stop after so many lines
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub limit: Option<u64>,

    /// Show the code and the files of each process instead of what happened
    #[arg(long)]
    pub code: bool,

    /// Print one JSON object per event and line
    #[arg(long)]
    pub json: bool,

    /// Show so many bytes of memory at most [default: 16, with --json all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=1 << 20))]
    pub hex: Option<u64>,
}

/// Options of `retro pack`.
#[derive(Debug, Args)]
#[command(after_help = PACK_EXAMPLES)]
pub struct PackOptions {
    #[arg(value_name = "REC", help = WHICH)]
    #[allow(missing_docs, reason = "the help text says it")]
    pub recording: Option<OsString>,

    /// The file to make, which must not exist yet; NAME.retro in this directory if left out
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Options of `retro unpack`.
#[derive(Debug, Args)]
#[command(after_help = UNPACK_EXAMPLES)]
pub struct UnpackOptions {
    /// What `retro pack` made
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Directory for the recording, which must not exist yet; among the other recordings if left out
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// Options of `retro import`.
#[derive(Debug, Args)]
#[command(after_help = IMPORT_EXAMPLES)]
pub struct ImportOptions {
    /// The directory that was sent
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// Directory for the recording, which must not exist yet; among the other recordings if left out
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// What `--kind` can name: a kind of event, or several that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindGroup(pub Vec<Kind>);

impl KindGroup {
    fn named(name: &str) -> KindGroup {
        let belongs = |kind: &Kind| {
            let full = kind.name();
            full == name || full.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'))
        };
        KindGroup(Kind::ALL.into_iter().filter(belongs).collect())
    }
}

/// Names of several kinds, which are the first parts of theirs.
const GROUPS: [&str; 2] = ["syscall", "thread"];

fn kinds_parser() -> impl TypedValueParser<Value = KindGroup> {
    let names = GROUPS.into_iter().chain(Kind::ALL.into_iter().map(Kind::name));
    PossibleValuesParser::new(names).map(|name| KindGroup::named(&name))
}

fn parse_interval(text: &str) -> Result<u64, String> {
    match parse_count(text)? {
        0 => Err("an interval has at least one instruction".to_string()),
        interval => Ok(interval),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Command};
    use clap::Parser;

    fn record(line: &[&str]) -> Result<RecordOptions, clap::Error> {
        let line = ["retro", "record"].iter().chain(line);
        match Arguments::try_parse_from(line)?.command {
            Command::Record(options) => Ok(options),
            other => panic!("not `record`: {other:?}"),
        }
    }

    fn dump(line: &[&str]) -> Result<DumpOptions, clap::Error> {
        let line = ["retro", "dump"].iter().chain(line);
        match Arguments::try_parse_from(line)?.command {
            Command::Dump(options) => Ok(options),
            other => panic!("not `dump`: {other:?}"),
        }
    }

    #[test]
    fn a_seed_may_be_left_out() {
        assert_eq!(record(&["--", "ls"]).unwrap().chaos, None);
        assert_eq!(record(&["--chaos", "--", "ls"]).unwrap().chaos, Some(None));
        assert_eq!(record(&["--chaos", "7", "--", "ls"]).unwrap().chaos, Some(Some(7)));
        assert_eq!(record(&["--chaos=7", "ls"]).unwrap().chaos, Some(Some(7)));
        assert!(record(&["--chaos", "ls"]).is_err());
    }

    #[test]
    fn everything_from_the_program_on_is_the_program_s() {
        let options = record(&["ls", "--quiet", "--", "-o"]).unwrap();
        assert!(!options.quiet && options.output.is_none());
        assert_eq!(options.command, ["ls", "--quiet", "--", "-o"]);
        assert!(record(&[]).is_err());
    }

    #[test]
    fn intervals_and_levels_have_bounds() {
        assert_eq!(record(&["--interval", "1.5M", "ls"]).unwrap().interval, Some(1_500_000));
        assert!(record(&["--interval", "0", "ls"]).is_err());
        assert_eq!(record(&["ls"]).unwrap().level, retro_recording::DEFAULT_LEVEL);
        assert!(record(&["--level", "23", "ls"]).is_err());
        assert!(record(&["-o", "x", "--name", "y", "ls"]).is_err());
    }

    #[test]
    fn kinds_can_be_named_together() {
        let kinds: Vec<KindGroup> = dump(&["--kind", "syscall,load"]).unwrap().kind;
        assert_eq!(
            kinds,
            [KindGroup(vec![Kind::SyscallEnter, Kind::SyscallExit]), KindGroup(vec![Kind::Load])]
        );
        assert!(dump(&["--kind", "sys"]).is_err());
        assert!(dump(&["--log", "0", "--pid", "1"]).is_err());
    }

    #[test]
    fn removing_everything_needs_force() {
        let parse = |line: &[&str]| Arguments::try_parse_from(line).is_ok();
        assert!(parse(&["retro", "rm", "a", "b"]));
        assert!(parse(&["retro", "rm", "--all", "--force"]));
        assert!(!parse(&["retro", "rm", "--all"]));
        assert!(!parse(&["retro", "rm"]));
        assert!(!parse(&["retro", "rm", "--all", "--force", "a"]));
    }
}
