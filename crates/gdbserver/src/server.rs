//! Sockets, and a thread for each client.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;

use crate::connection::{self, Failure};
use crate::debuggee::Debuggee;

/// Where clients come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP address.
    Tcp(SocketAddr),
    /// A socket file.
    Unix(PathBuf),
}

/// A socket that clients come to.
#[derive(Debug)]
pub enum Listener {
    /// A TCP address.
    Tcp(TcpListener),
    /// A socket file.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Listens on a TCP address.
    pub fn tcp(address: SocketAddr) -> io::Result<Listener> {
        TcpListener::bind(address).map(Listener::Tcp)
    }

    /// Listens on a socket file, which must not be there yet.
    pub fn unix(path: &Path) -> io::Result<Listener> {
        Ok(Listener::Unix(UnixListener::bind(path)?, path.to_owned()))
    }

    /// Where clients come to; of a port that was left open, which one it is.
    pub fn address(&self) -> io::Result<Address> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().map(Address::Tcp),
            Listener::Unix(_, path) => Ok(Address::Unix(path.clone())),
        }
    }

    /// Takes clients, each with a view of its own that begins at a time, until the socket fails. What a connection fails with
    /// is told to `report`.
    pub fn serve(
        &self,
        debuggee: &Debuggee,
        time: u64,
        report: impl Fn(&Failure) + Clone + Send + 'static,
    ) -> io::Result<()> {
        loop {
            let (debuggee, report) = (debuggee.clone(), report.clone());
            match self {
                Listener::Tcp(listener) => {
                    let (to, _) = listener.accept()?;
                    // Packets are small, and whoever sent one waits for the answer.
                    to.set_nodelay(true)?;
                    let from = to.try_clone()?;
                    thread::spawn(move || {
                        if let Err(failure) = connection::serve(&debuggee, time, from, &to) {
                            report(&failure);
                        }
                        // Whoever reads on the other thread is done.
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
                Listener::Unix(listener, _) => {
                    let (to, _) = listener.accept()?;
                    let from = to.try_clone()?;
                    thread::spawn(move || {
                        if let Err(failure) = connection::serve(&debuggee, time, from, &to) {
                            report(&failure);
                        }
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        }
    }
}
