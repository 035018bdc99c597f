//! The options of the commands that ask a recording.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use retro_query::language::{Query, TimePoint};

use crate::quantity::parse_count;

/// Which moment of which process is asked about.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which moment")]
pub struct Subject {
    /// The recording: a path, or a name from `retro ls`; the latest if left out
    #[arg(short, long, value_name = "REC")]
    pub recording: Option<OsString>,

    /// The number of a log, as `retro info` shows it, or else a process id; if left out, the last process that crashed,
    /// or else the first
    #[arg(long, value_name = "LOG|PID")]
    pub process: Option<u64>,

    /// The time: a number of instructions with k, M or G, a part of the run such as 50%, `start`, `end`, or `last` for
    /// where the last goto, step or last-write has led to [default: end]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub at: Option<TimePoint>,

    /// Source files whose paths begin with OLD begin with NEW here
    #[arg(long, value_name = "OLD=NEW")]
    pub source_map: Vec<String>,

    /// Look for source files here, by the last parts of their paths
    #[arg(long, value_name = "DIR")]
    pub source_dir: Vec<PathBuf>,

    /// Print JSON: an object, or one for each line of a list
    #[arg(long)]
    pub json: bool,
}

/// Which thread's view, and which frame's.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which moment")]
pub struct View {
    /// The thread; the one that runs if left out
    #[arg(long, value_name = "TID")]
    pub thread: Option<u32>,

    /// The frame of the call stack, as `retro bt` numbers them
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub frame: usize,
}

/// How much of a list is shown.
#[derive(Debug, Args)]
#[command(next_help_heading = "How much")]
pub struct Extent {
    /// Nothing before this time; nothing after --at is shown anyway
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub since: Option<TimePoint>,

    /// So many at most, the latest ones; `all` for every one [default: 100]
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    pub limit: Option<Limit>,

    /// The latest first
    #[arg(long)]
    pub reverse: bool,
}

/// How many of a list are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// All.
    All,
    /// The latest ones.
    Latest(usize),
}

impl Limit {
    /// What is shown if nobody says otherwise.
    pub const USUAL: usize = 100;

    /// How many are shown at most.
    pub fn most(limit: Option<Limit>) -> usize {
        match limit {
            None => Limit::USUAL,
            Some(Limit::All) => usize::MAX,
            Some(Limit::Latest(most)) => most,
        }
    }
}

const LAST_WRITE_EXAMPLES: &str = "\
Examples:
  retro last-write account->cents              as the innermost frame at the end of the run sees it
  retro last-write 'table[7]' --frame 2        as another frame does
  retro last-write 0x7ffff7d01010,16           sixteen bytes at an address
  retro last-write '*p' --at 1.5M              the last write before that time

Shows who wrote, the value before and after, and the writer's call stack. `--at last` then stands for the moment right before \
the write: `retro last-write x --at last` finds the write before it.

Exit status: 1 if nothing has written there.";

/// Options of `retro last-write`.
#[derive(Debug, Args)]
#[command(after_help = LAST_WRITE_EXAMPLES)]
pub struct LastWriteOptions {
    /// An expression that names memory, or an address and a length
    #[arg(value_name = "EXPR|ADDR,LEN")]
    pub what: String,

    /// Frames of the writer's call stack
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub frames: usize,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub view: View,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub subject: Subject,
}

const HISTORY_EXAMPLES: &str = "\
Examples:
  retro history account->cents                 how the variable got its value: the latest writes, in order
  retro history counter --limit all            every write of the run
  retro history counter --reverse --limit 3    the last three, the latest first
  retro history 0x7ffff7d01010,16 --at 50%     what was written there in the first half of the run

The expression stands for the memory that it names at --at.";

/// Options of `retro history`.
#[derive(Debug, Args)]
#[command(after_help = HISTORY_EXAMPLES)]
pub struct HistoryOptions {
    /// An expression that names memory, or an address and a length
    #[arg(value_name = "EXPR|ADDR,LEN")]
    pub what: String,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub extent: Extent,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub view: View,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub subject: Subject,
}

const CALLS_EXAMPLES: &str = "\
Examples:
  retro calls transfer                         the latest calls: arguments, caller, result
  retro calls malloc --limit all | less        every one of them
  retro calls 'Shape::area' --since 50%        C++ and Rust functions by name, with or without what is around it
  retro calls transfer --json | jq .arguments";

/// Options of `retro calls`.
#[derive(Debug, Args)]
#[command(after_help = CALLS_EXAMPLES)]
pub struct CallsOptions {
    /// The function, or the address of its first instruction
    #[arg(value_name = "FUNC")]
    pub function: String,

    /// Only calls in this thread
    #[arg(long, value_name = "TID")]
    pub thread: Option<u32>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub extent: Extent,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub subject: Subject,
}

const EXECUTIONS_EXAMPLES: &str = "\
Examples:
  retro executions ledger.c:36                 when a line was executed
  retro executions set_owner                   when a function was entered, inlined or not
  retro executions 0x401136 --count            how often an instruction was executed
  retro executions ledger.c:36 --limit 1       the last time before the end";

/// Options of `retro executions`.
#[derive(Debug, Args)]
#[command(after_help = EXECUTIONS_EXAMPLES)]
pub struct ExecutionsOptions {
    /// A source line, a function, or an address
    #[arg(value_name = "FILE:LINE|FUNC|ADDR")]
    pub code: String,

    /// Only those in this thread
    #[arg(long, value_name = "TID")]
    pub thread: Option<u32>,

    /// Print only how many there are
    #[arg(long, conflicts_with_all = ["limit", "reverse"])]
    pub count: bool,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub extent: Extent,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub subject: Subject,
}

const PRINT_EXAMPLES: &str = "\
Examples:
  retro print account                          a variable of the innermost frame, at the end of the run
  retro print /x account->cents --at 1.5M      in hexadecimal, at another time
  retro print 'names[2]' --frame 1
  retro print '*list->head@3' --at last        three elements from there on
  retro print '(struct node *) $rdi'

Expressions are C's, with what gdb adds: registers as $rax, *p@n, 'file.c'::name, function::name; and Rust's `as` and \
tuple.0. /FMT is one of gdb's letters: x hexadecimal, z padded, d decimal, u unsigned, o octal, t binary, c character, \
f floating point, s string, a address.";

/// Options of `retro print`.
#[derive(Debug, Args)]
#[command(after_help = PRINT_EXAMPLES)]
pub struct PrintOptions {
    /// An expression, after a format if one is wanted
    #[arg(value_name = "[/FMT] EXPR", required = true)]
    pub words: Vec<String>,

    /// Members of structures as they are, rather than what containers hold
    #[arg(long)]
    pub raw: bool,

    /// Elements of an array and characters of a string
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub elements: usize,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub view: View,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub subject: Subject,
}

const BACKTRACE_EXAMPLES: &str = "\
Examples:
  retro bt                      where it crashed, or ended
  retro bt --args               with the arguments as they were when each function was called
  retro bt --locals --limit 3   with the variables of the three innermost frames
  retro bt --at last            where the last goto, step or last-write has led to
  retro bt --all-threads";

/// Options of `retro bt`.
#[derive(Debug, Args)]
#[command(after_help = BACKTRACE_EXAMPLES)]
pub struct BacktraceOptions {
    /// Arguments as they were when each function was called
    #[arg(long)]
    pub args: bool,

    /// Variables of each frame
    #[arg(long)]
    pub locals: bool,

    /// So many frames at most
    #[arg(long, value_name = "N", default_value_t = retro_query::FRAMES_LIMIT)]
    pub limit: usize,

    /// The thread; the one that runs if left out
    #[arg(long, value_name = "TID", conflicts_with = "all_threads")]
    pub thread: Option<u32>,

    /// The call stacks of all threads
    #[arg(long)]
    pub all_threads: bool,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub subject: Subject,
}

const REGISTERS_EXAMPLES: &str = "\
Examples:
  retro regs                  general registers at the end of the run
  retro regs --all --at 50%   vector, mask and floating-point registers, too
  retro regs --frame 2        as the third frame of the call stack will find them again";

/// Options of `retro regs`.
#[derive(Debug, Args)]
#[command(after_help = REGISTERS_EXAMPLES)]
pub struct RegistersOptions {
    /// Vector, mask and floating-point registers, too
    #[arg(long, conflicts_with = "frame")]
    pub all: bool,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub view: View,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub subject: Subject,
}

const EXAMINE_EXAMPLES: &str = "\
Examples:
  retro x '$rsp'                       eight bytes at the top of the stack
  retro x /16xb 0x7ffff7d01010         sixteen bytes in hexadecimal
  retro x /4dw '&table[3]' --at 1.5M   four numbers of four bytes
  retro x /s name                      a string
  retro x /8xg '$rsp' --last-writes    with the time at which each was last written
  retro x /10i '$pc'                   the next instructions

/NFU as in gdb: how many; a format (x z d u o t c f a, s for strings, or i for instructions); a unit (b 1 byte, h 2, w 4, g 8 bytes).";

/// Options of `retro x`.
#[derive(Debug, Args)]
#[command(after_help = EXAMINE_EXAMPLES)]
pub struct ExamineOptions {
    /// An address, or an expression that has or is one, after a format if one is wanted
    #[arg(value_name = "[/NFU] ADDR", required = true)]
    pub words: Vec<String>,

    /// Show when each unit was last written
    #[arg(long)]
    pub last_writes: bool,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub view: View,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub subject: Subject,
}

const MAPS_EXAMPLES: &str = "\
Examples:
  retro maps                  the address space at the end of the run
  retro maps --at start";

/// Options of `retro maps`.
#[derive(Debug, Args)]
#[command(after_help = MAPS_EXAMPLES)]
pub struct MapsOptions {
    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub subject: Subject,
}

const THREADS_EXAMPLES: &str = "\
Examples:
  retro threads               what each thread was doing at the end of the run
  retro threads --at 50%

A star marks the thread that runs.";

/// Options of `retro threads`.
#[derive(Debug, Args)]
#[command(after_help = THREADS_EXAMPLES)]
pub struct ThreadsOptions {
    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub subject: Subject,
}

const SYSCALLS_EXAMPLES: &str = "\
Examples:
  retro syscalls --limit 10                    the last ten before the end
  retro syscalls --name openat,read            only these
  retro syscalls --limit all --json | jq .name";

/// Options of `retro syscalls`.
#[derive(Debug, Args)]
#[command(after_help = SYSCALLS_EXAMPLES)]
pub struct SyscallsOptions {
    /// Only calls of these names
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub name: Vec<String>,

    /// Only those of this thread
    #[arg(long, value_name = "TID")]
    pub thread: Option<u32>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub extent: Extent,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub subject: Subject,
}

const SIGNALS_EXAMPLES: &str = "\
Examples:
  retro signals                                which signals arrived, and what handled them
  retro signals --reverse --limit 1            the last one";

/// Options of `retro signals`.
#[derive(Debug, Args)]
#[command(after_help = SIGNALS_EXAMPLES)]
pub struct SignalsOptions {
    /// Only those that arrived in this thread
    #[arg(long, value_name = "TID")]
    pub thread: Option<u32>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub extent: Extent,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub subject: Subject,
}

const CORE_EXAMPLES: &str = "\
Examples:
  retro core -o core                           the end of the run, or where it crashed
  retro core -o core --at last                 where the last goto, step or last-write has led to
  gdb ./a.out core                             what gdb makes of it

Any moment of the run can be looked at with any tool that reads core files. The file holds the registers of all threads and \
all memory that the run knows, passwords and keys in it included: it is readable for its owner only.";

/// Options of `retro core`.
#[derive(Debug, Args)]
#[command(after_help = CORE_EXAMPLES)]
pub struct CoreOptions {
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub subject: Subject,
}

const SOURCE_EXAMPLES: &str = "\
Examples:
  retro source                                 the lines around where it crashed, or ended
  retro source --frame 2 --lines 20
  retro source --source-map /build/src=./src   if the sources are elsewhere now";

/// Options of `retro source`.
#[derive(Debug, Args)]
#[command(after_help = SOURCE_EXAMPLES)]
pub struct SourceOptions {
    /// Lines to show
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub lines: u32,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub view: View,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub subject: Subject,
}

const GOTO_EXAMPLES: &str = "\
Examples:
  retro goto 'end backward store account->cents where newval < 0'
  retro goto 'start func_enter transfer 3'
  retro goto 'last backward line ledger.c:36'
  retro goto 'func_exit parse all where result = 0'

`--at last` then stands for where it has led to. `now` in a query is the time of --at. docs/query-language.md describes the \
language.

Exit status: 1 if there is no such moment.";

/// Options of `retro goto`.
#[derive(Debug, Args)]
#[command(after_help = GOTO_EXAMPLES)]
pub struct GotoOptions {
    /// A query: [FROM] [forward|backward] [TYPE [OPERAND]] [COUNT] [where CONTEXT]
    #[arg(value_name = "QUERY", required = true)]
    pub words: Vec<String>,

    /// So many of `all` at most; `all` for every one [default: 100]
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    pub limit: Option<Limit>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub view: View,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub subject: Subject,
}

const STEP_EXAMPLES: &str = "\
Examples:
  retro step                        to the next source line, from where the last command has led to
  retro step --reverse              to the one before
  retro step --over -n 3            three lines, passing over calls
  retro step --out --reverse        to the call of this function
  retro step --instruction --at 1M

Steps are those of one thread. Without --at they go on from the last result; if there is none, from the start, or the end with \
--reverse. In a function without line numbers a step goes to where it returns to.

Exit status: 1 if the run has no such moment.";

/// Options of `retro step`.
#[derive(Debug, Args)]
#[command(after_help = STEP_EXAMPLES)]
pub struct StepOptions {
    /// Pass over calls
    #[arg(long, conflicts_with = "out")]
    pub over: bool,

    /// To where the function returns to; with --reverse, to where it was called
    #[arg(long, conflicts_with = "instruction")]
    pub out: bool,

    /// Backwards
    #[arg(long)]
    pub reverse: bool,

    /// By instructions rather than source lines
    #[arg(long)]
    pub instruction: bool,

    /// So many times
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub count: u64,

    /// The thread; the one that runs if left out
    #[arg(long, value_name = "TID")]
    pub thread: Option<u32>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub subject: Subject,
}

/// A time, as the query language has them.
pub fn parse_time(text: &str) -> Result<TimePoint, String> {
    match text.parse::<Query>() {
        Ok(Query::Moment(point)) => Ok(point),
        _ => Err("expected a number of instructions such as 250, 10k, 1.5M or 2G, a part of the run such as 50%, \
                  `start`, `end` or `last`"
            .to_string()),
    }
}

fn parse_limit(text: &str) -> Result<Limit, String> {
    if text == "all" {
        return Ok(Limit::All);
    }
    let count = parse_count(text).map_err(|_| "expected a whole number or `all`".to_string())?;
    match usize::try_from(count) {
        Ok(0) | Err(_) => Err("at least one must be shown".to_string()),
        Ok(count) => Ok(Limit::Latest(count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Command};
    use clap::Parser;

    fn print(line: &[&str]) -> Result<PrintOptions, clap::Error> {
        match Arguments::try_parse_from(["retro", "print"].iter().chain(line))?.command {
            Command::Print(options) => Ok(options),
            other => panic!("not `print`: {other:?}"),
        }
    }

    #[test]
    fn times_are_those_of_the_query_language() {
        for (text, point) in [
            ("0", TimePoint::Instructions(0)),
            ("1_500_000", TimePoint::Instructions(1_500_000)),
            ("1.5M", TimePoint::Instructions(1_500_000)),
            ("start", TimePoint::Start),
            ("end", TimePoint::End),
            ("last", TimePoint::Last),
            ("now", TimePoint::Now),
            ("50%", TimePoint::Part(TimePoint::WHOLE / 2)),
        ] {
            assert_eq!(parse_time(text), Ok(point), "{text}");
        }
        for text in ["", "-1", "101%", "half", "end backward", "goto", "99999999999999999999"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn limits_are_counts_or_all() {
        assert_eq!(parse_limit("all"), Ok(Limit::All));
        assert_eq!(parse_limit("2k"), Ok(Limit::Latest(2000)));
        for text in ["0", "", "-1", "some"] {
            assert!(parse_limit(text).is_err(), "{text}");
        }
    }

    #[test]
    fn expressions_may_have_spaces() {
        assert_eq!(
            print(&["/x", "a", "+", "b", "--at", "end"]).unwrap().words,
            ["/x", "a", "+", "b"]
        );
        assert_eq!(print(&["--", "-a"]).unwrap().words, ["-a"]);
        assert!(print(&[]).is_err());
        assert!(print(&["a", "--at", "never"]).is_err());
    }
}
