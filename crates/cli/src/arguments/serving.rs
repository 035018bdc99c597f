//! The options of `retro serve` and `retro ui`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

const SERVE_EXAMPLES: &str = "\
Examples:
  retro serve                               serve the latest recording on a free port of this machine
  retro serve gzip-3 --listen 127.0.0.1:7777
  retro serve --socket retro.sock           only for this user
  echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"run.info\"}' | socat -t 10 - UNIX-CONNECT:retro.sock

Questions are asked in JSON-RPC 2.0, over the socket, the port, HTTP or WebSocket; docs/protocol.md describes them, \
and so does the method system.describe. Nothing that is asked changes anything, and many can ask at once.

A port can be reached by every user of this machine: who asks there needs the token, which is printed. Nothing is \
encrypted: from another machine, forward the port or the socket with ssh rather than using --allow-remote.

The recording is indexed first if it is not yet. SIGINT or SIGTERM stops the server; its exit status is then 0.";

/// Options of `retro serve`.
#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub struct ServeOptions {
    /// The recording: a path, or a name from `retro ls`; the latest if left out
    #[arg(value_name = "REC")]
    pub recording: Option<OsString>,

    /// Listen on a socket file, which only this user can open
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Listen on a TCP address; port 0 takes one that is free [default: 127.0.0.1:0, without --socket]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,

    /// Let everybody ask who can reach the TCP port
    #[arg(long)]
    pub no_token: bool,

    /// Allow a TCP address that other machines can reach; everything goes unencrypted
    #[arg(long, conflicts_with = "no_token")]
    pub allow_remote: bool,

    /// Where sources are now: paths that begin with OLD begin with NEW here; may be given several times
    #[arg(long, value_name = "OLD=NEW")]
    pub source_map: Vec<String>,

    /// Look for source files here, by the last parts of their paths; may be given several times
    #[arg(long, value_name = "DIR")]
    pub source_dir: Vec<PathBuf>,
}

const UI_EXAMPLES: &str = "\
Examples:
  retro ui                                  look at the latest recording in a browser
  retro ui gzip-3 --source-dir ~/src/gzip   another one, with sources that have moved
  retro ui --no-browser --listen 127.0.0.1:7777
                                            only print the address; from elsewhere: ssh -L 7777:127.0.0.1:7777 HOST

The page opens where the run crashed or ended. Its address, which is printed, has a token in it that opens the recording to \
whoever knows it: give it to nobody. The page is part of this program and loads nothing from elsewhere.

What is noted in the page is saved beside the recording, in notebook.json; the recording itself is never changed. \
SIGINT or SIGTERM stops it; the exit status is then 0.";

/// Options of `retro ui`.
#[derive(Debug, Args)]
#[command(after_help = UI_EXAMPLES)]
pub struct UiOptions {
    /// The recording: a path, or a name from `retro ls`; the latest if left out
    #[arg(value_name = "REC")]
    pub recording: Option<OsString>,

    /// The address of the page; port 0 takes one that is free [default: 127.0.0.1:0]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,

    /// Print the address, and start no browser
    #[arg(long)]
    pub no_browser: bool,

    /// Where sources are now: paths that begin with OLD begin with NEW here; may be given several times
    #[arg(long, value_name = "OLD=NEW")]
    pub source_map: Vec<String>,

    /// Look for source files here, by the last parts of their paths; may be given several times
    #[arg(long, value_name = "DIR")]
    pub source_dir: Vec<PathBuf>,
}

impl UiOptions {
    /// The same for `retro serve`.
    pub fn as_serve_options(&self) -> ServeOptions {
        ServeOptions {
            recording: self.recording.clone(),
            socket: None,
            listen: self.listen,
            no_token: false,
            allow_remote: false,
            source_map: self.source_map.clone(),
            source_dir: self.source_dir.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn serve(arguments: &[&str]) -> Option<ServeOptions> {
        let all = ["retro", "serve"].iter().chain(arguments);
        match Arguments::try_parse_from(all).ok()?.command {
            Command::Serve(options) => Some(options),
            other => panic!("not `serve`: {other:?}"),
        }
    }

    #[test]
    fn remote_clients_always_need_the_token() {
        assert!(serve(&["--allow-remote", "--listen", "0.0.0.0:0"]).is_some());
        assert!(serve(&["--no-token"]).is_some());
        assert!(serve(&["--allow-remote", "--no-token"]).is_none());
    }

    #[test]
    fn addresses_have_ports() {
        assert!(serve(&["--listen", "[::1]:7777"]).is_some());
        assert!(serve(&["--listen", "127.0.0.1"]).is_none());
        assert!(serve(&["--listen", "localhost:80"]).is_none());
    }
}
