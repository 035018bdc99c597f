//! The options of `retro gdb` and `retro gdbserver`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use retro_query::language::TimePoint;

use super::querying::parse_time;

const GDB_EXAMPLES: &str = "\
Examples:
  retro gdb                                 debug the latest recording, from its end or crash
  retro gdb gzip-3 --at 50%                 another one, from the middle
  retro gdb --process 2                     a child process, by the number of its log or its id
  retro gdb -- -tui                         options behind -- are gdb's
  retro gdb -- -batch -ex bt                print the call stack of the crash and leave

In gdb, everything works both ways: reverse-continue, reverse-step, reverse-next, reverse-finish go back. Breakpoints and \
watchpoints are found in the index, however far away they are. Nothing can be changed and no function called, since the \
run is over. `help retro` lists commands that gdb does not have: retro seek, retro last-write, retro history …";

const GDBSERVER_EXAMPLES: &str = "\
Examples:
  retro gdbserver                           says what to tell gdb: target remote /tmp/retro-gdbserver-…/socket
  retro gdbserver gzip-3 --socket gdb.sock  at a place of your choice; in gdb: target remote gdb.sock
  retro gdbserver --listen 127.0.0.1:7777   for clients that need a port: target remote :7777
  gdb -ex 'target remote | retro gdbserver --stdio gzip-3'

Any number of clients can debug at once, each with a view of its own. Executables and libraries are served as they were \
recorded, so that gdb finds them with its usual setting, `set sysroot target:`.

The protocol has no passwords and no encryption. Only you (and root) can open the socket; who can reach a port can read the \
recording and the files that it names, and that is every user of this machine. From another machine, forward the socket or \
the port with ssh rather than using --allow-remote.

The recording is indexed first if it is not yet. SIGINT or SIGTERM stops the server.";

/// Which process of which recording, and when.
#[derive(Debug, Args)]
pub struct Debugged {
    /// The recording: a path, or a name from `retro ls`; the latest if left out
    #[arg(value_name = "REC")]
    pub recording: Option<OsString>,

    /// The number of a log, as `retro info` shows it, or else a process id; if left out, the last process that crashed,
    /// or else the first
    #[arg(long, value_name = "LOG|PID")]
    pub process: Option<u64>,

    /// Where to begin: a number of instructions with k, M or G, a part of the run such as 50%, `start`, `end`, or `last`
    /// for where the last goto, step or last-write has led to [default: end]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub at: Option<TimePoint>,
}

/// Options of `retro gdb`.
#[derive(Debug, Args)]
#[command(after_help = GDB_EXAMPLES)]
pub struct GdbOptions {
    /// What is debugged
    #[command(flatten)]
    pub debugged: Debugged,

    /// The gdb to start
    #[arg(long, value_name = "PATH", default_value = "gdb")]
    pub gdb: OsString,

    /// Where sources are now: paths that begin with OLD begin with NEW here; may be given several times
    #[arg(long, value_name = "OLD=NEW")]
    pub source_map: Vec<String>,

    /// Look for source files here; may be given several times
    #[arg(long, value_name = "DIR")]
    pub source_dir: Vec<PathBuf>,

    /// Options for gdb
    #[arg(last = true, value_name = "GDB OPTIONS")]
    pub options: Vec<OsString>,
}

/// Options of `retro gdbserver`.
#[derive(Debug, Args)]
#[command(after_help = GDBSERVER_EXAMPLES)]
pub struct GdbServerOptions {
    /// What is debugged
    #[command(flatten)]
    pub debugged: Debugged,

    /// Listen on a TCP address, which every user of this machine can reach; port 0 takes one that is free
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["socket", "stdio"])]
    pub listen: Option<SocketAddr>,

    /// Listen on a socket file at this path, which only this user can open [default: a new one, in a directory of its own]
    #[arg(long, value_name = "PATH", conflicts_with = "stdio")]
    pub socket: Option<PathBuf>,

    /// Serve one client on standard input and output, as gdb's `target remote |` wants it
    #[arg(long)]
    pub stdio: bool,

    /// Allow a TCP address that other machines can reach; everything goes unencrypted, to whoever asks
    #[arg(long)]
    pub allow_remote: bool,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::arguments::{Arguments, Command};

    #[test]
    fn options_behind_two_dashes_are_gdb_s() {
        let line = ["retro", "gdb", "gzip-3", "--at", "50%", "--", "-batch", "-ex", "bt"];
        let parsed = Arguments::try_parse_from(line).unwrap();
        let Command::Gdb(options) = parsed.command else { panic!("not `gdb`") };
        assert_eq!(options.debugged.recording, Some("gzip-3".into()));
        assert_eq!(options.options, ["-batch", "-ex", "bt"]);
    }

    #[test]
    fn a_server_listens_in_one_place() {
        let parse = |rest: &[&str]| {
            Arguments::try_parse_from(["retro", "gdbserver"].iter().chain(rest)).is_ok()
        };
        assert!(parse(&["--stdio"]));
        assert!(parse(&["--listen", "127.0.0.1:0"]));
        assert!(!parse(&["--listen", "127.0.0.1:0", "--stdio"]));
        assert!(!parse(&["--socket", "s", "--stdio"]));
    }
}
