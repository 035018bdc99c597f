//! `retro gdb` and `retro gdbserver`: gdb on a recording.
//!
//! ```text
//! opened    the recording, the process, the moment to begin at
//! sysroot   the files of the run where gdb finds them
//! script    what gdb is told first
//! ```
//!
//! Strategy: the server is in this process and gdb is its child, with a socket between them in a directory of their own; so
//! nothing is left when gdb ends, however it ends, and a client that lost its connection can come back. A server for others
//! has a socket that only this user can open, in a directory that only this user can enter, unless it is told otherwise.
//!
//! Invariants: nothing of a recording is changed; its index is built if it is not there. Whatever the terminal sends while gdb
//! runs is gdb's business.

mod opened;
mod script;
mod socket_place;
mod sysroot;

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::thread;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{SigHandler, Signal, signal};
use retro_gdbserver::{Address, Failure, Listener};

use crate::Completeness;
use crate::arguments::{GdbOptions, GdbServerOptions};
use crate::message::{complain, notify};
use crate::output::Output;
use crate::query::question::told;
use crate::quoting::printable;
use opened::Opened;
use socket_place::SocketPlace;
use sysroot::Sysroot;

/// Starts gdb and serves it. Returns gdb's exit status.
pub fn gdb(options: &GdbOptions) -> Result<i32> {
    let opened = Opened::open(&options.debugged)?;
    let place = socket_place::private_directory("retro-gdb-")?;
    let sysroot = Sysroot::make(&opened.debuggee, place.path())?;
    let socket = place.path().join("socket");
    let (bound, _file) = retro_server::listen_privately(&socket)?;
    let listener = Listener::unix(bound, socket.clone());
    let script = script::write(options, &sysroot, &socket, place.path())?;
    let mut command = Command::new(&options.gdb);
    command.arg("-x").arg(script).args(&options.options);
    let child = command.spawn().map_err(|error| cannot_start(options, &error))?;
    // From here on: replay processes that are started later must not die when the user interrupts gdb.
    ignore_terminal();
    let time = opened.time;
    let debuggee = opened.debuggee.clone();
    thread::spawn(move || {
        // While gdb starts. What fails here fails again when somebody asks, and is told then.
        let _ = debuggee.get_ready(time);
        listener.serve(&debuggee, time, tell)
    });
    wait(child)
}

/// Serves clients until a signal ends it.
pub fn server(options: &GdbServerOptions) -> Result<Completeness> {
    if let Some(address) = options.listen
        && !address.ip().is_loopback()
        && !options.allow_remote
    {
        bail!(
            "other machines can reach {address}, and the protocol has no passwords: forward a port of this machine with \
             ssh, or say --allow-remote"
        );
    }
    let opened = Opened::open(&options.debugged)?;
    if options.stdio {
        // The client may interrupt its process group; that is a byte on the connection for us, too.
        ignore_terminal();
        retro_gdbserver::serve(&opened.debuggee, opened.time, io::stdin(), io::stdout())?;
        return Ok(Completeness::Whole);
    }
    let (listener, _place) = match options.listen {
        Some(address) => {
            notify(&format!(
                "every user of this machine can reach {address}, and so read the recording and the files that it names: the \
                 protocol has no passwords; without --listen there is a socket that only you can open"
            ));
            let listener = Listener::tcp(address);
            (listener.with_context(|| format!("cannot listen on {address}"))?, None)
        }
        None => {
            let (bound, place) = SocketPlace::listen(options.socket.as_deref())?;
            (Listener::unix(bound, place.path().to_owned()), Some(place))
        }
    };
    // gdb waits two seconds for an answer, so whoever connects should find everything ready.
    opened.debuggee.get_ready(opened.time).map_err(told)?;
    announce(&listener.address()?)?;
    listener.serve(&opened.debuggee, opened.time, tell)?;
    Ok(Completeness::Whole)
}

/// Says where to connect, for people and for programs that start a server.
fn announce(address: &Address) -> Result<()> {
    let mut output = Output::new();
    let place = match address {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(path) => printable(path.as_os_str().as_encoded_bytes()),
    };
    output.line(&format!("listening: {place}"))?;
    output.line(&format!("in gdb: target remote {place}"))?;
    Ok(output.flush()?)
}

/// A connection that broke ends nothing but itself.
fn tell(failure: &Failure) {
    if !matches!(failure, Failure::Connection(_)) {
        complain(&printable(failure.to_string().as_bytes()));
    }
}

fn cannot_start(options: &GdbOptions, error: &io::Error) -> anyhow::Error {
    let gdb = printable(options.gdb.as_encoded_bytes());
    match error.kind() {
        io::ErrorKind::NotFound => anyhow::anyhow!(
            "there is no {gdb} on this machine: install the package gdb, or name one with --gdb PATH"
        ),
        _ => anyhow::anyhow!("{gdb} cannot be started: {error}"),
    }
}

/// What a terminal sends to all of its processes is for gdb.
fn ignore_terminal() {
    for sent in [Signal::SIGINT, Signal::SIGQUIT] {
        // SAFETY: ignoring a signal runs no code. If it fails, an interrupt ends this process as it would otherwise.
        let _ = unsafe { signal(sent, SigHandler::SigIgn) };
    }
}

fn wait(mut child: Child) -> Result<i32> {
    /// What shells add to the number of the signal that ended a program.
    const SIGNALLED: i32 = 128;
    let status = child.wait().context("cannot wait for gdb")?;
    let signalled = status.signal().map(|number| SIGNALLED + number);
    Ok(status.code().or(signalled).unwrap_or(SIGNALLED))
}
