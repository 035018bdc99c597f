//! The socket of a server, gone when the server is.
//!
//! A server is ended by a signal, which runs no destructors. So the handler of such a signal removes the socket, with the
//! directory that was made for it, before the signal has its usual effect.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context, Result};
use libc::c_int;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use retro_server::SocketFile;
use tempfile::TempDir;

/// Signals that end a server.
const SIGNALS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// The socket, and the directory that was made for it, for the handler.
static LEFT: OnceLock<(CString, Option<CString>)> = OnceLock::new();

/// A socket that only this user can open.
pub struct SocketPlace {
    file: SocketFile,
    _directory: Option<TempDir>,
}

impl SocketPlace {
    /// Listens on a path, or somewhere if there is none.
    pub fn listen(path: Option<&Path>) -> Result<(UnixListener, SocketPlace)> {
        let directory = match path {
            Some(_) => None,
            None => Some(private_directory("retro-gdbserver-")?),
        };
        let somewhere = directory.as_ref().map(|directory| directory.path().join("socket"));
        let path = path.or(somewhere.as_deref()).context("there is no path for a socket")?;
        let (listener, file) = retro_server::listen_privately(path)?;
        remove_on_signals(path, directory.as_ref().map(TempDir::path))?;
        Ok((listener, SocketPlace { file, _directory: directory }))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.file.path()
    }
}

/// A directory that only this user can enter, whatever the umask is.
pub fn private_directory(prefix: &str) -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix(prefix)
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir()
        .context("cannot make a directory for a socket (set TMPDIR)")
}

fn remove_on_signals(socket: &Path, directory: Option<&Path>) -> Result<()> {
    let absolute = |path: &Path| -> Result<CString> {
        Ok(CString::new(std::path::absolute(path)?.as_os_str().as_bytes())?)
    };
    let left = (absolute(socket)?, directory.map(absolute).transpose()?);
    if LEFT.set(left).is_err() {
        return Ok(());
    }
    let action =
        SigAction::new(SigHandler::Handler(remove), SaFlags::SA_RESETHAND, SigSet::empty());
    for signal in SIGNALS {
        // SAFETY: the handler makes system calls that a handler may make, and looks at what does not change any more.
        let before = unsafe { sigaction(signal, &action) }?;
        if before.handler() == SigHandler::SigIgn {
            // SAFETY: puts back what was there.
            unsafe { sigaction(signal, &before) }?;
        }
    }
    Ok(())
}

extern "C" fn remove(signal: c_int) {
    if let Some((socket, directory)) = LEFT.get() {
        // SAFETY: the paths end in NUL and stay where they are.
        unsafe {
            libc::unlink(socket.as_ptr());
            if let Some(directory) = directory {
                libc::rmdir(directory.as_ptr());
            }
        }
    }
    // SAFETY: the handler is not installed any more, so that this ends the process as it would have ended.
    unsafe { libc::raise(signal) };
}
