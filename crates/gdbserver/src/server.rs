//! Sockets, and a thread for each client.
//!
//! The protocol has no passwords, so who may ask is decided here: a socket file takes clients of this user (and root) alone,
//! as the kernel tells who they are. A TCP port takes whoever can reach it, and is for those who ask for it.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::geteuid;

use crate::connection::{self, Failure};
use crate::debuggee::Debuggee;

/// Clients that are served at once. Each has threads and a view of the run.
const MOST_CLIENTS: usize = 64;

/// How long a client of a TCP port may be silent before its first packet.
const PATIENCE: Duration = Duration::from_secs(30);

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

    /// Listens on a socket file that was made for this user alone.
    pub fn unix(bound: UnixListener, path: PathBuf) -> Listener {
        Listener::Unix(bound, path)
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
        let clients = Arc::new(AtomicUsize::new(0));
        loop {
            let client = match self {
                Listener::Tcp(listener) => Client::Tcp(listener.accept()?.0),
                Listener::Unix(listener, _) => Client::Unix(listener.accept()?.0),
            };
            let place = Place::take(&clients);
            if !client.is_allowed() {
                continue;
            }
            let Some(place) = place else { continue };
            let (debuggee, report) = (debuggee.clone(), report.clone());
            thread::spawn(move || {
                if let Err(failure) = client.serve(&debuggee, time) {
                    report(&failure);
                }
                drop(place);
            });
        }
    }
}

/// One of the places that there are for clients.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(clients: &Arc<AtomicUsize>) -> Option<Place> {
        let place = Place(Arc::clone(clients));
        let before = clients.fetch_add(1, Ordering::Relaxed);
        (before < MOST_CLIENTS).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

enum Client {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Client {
    /// Whether it is this user's, or root's, who can do everything anyway.
    fn is_allowed(&self) -> bool {
        const ROOT: u32 = 0;
        match self {
            Client::Tcp(_) => true,
            Client::Unix(stream) => getsockopt(stream, sockopt::PeerCredentials)
                .is_ok_and(|peer| [ROOT, geteuid().as_raw()].contains(&peer.uid())),
        }
    }

    fn serve(&self, debuggee: &Debuggee, time: u64) -> Result<(), Failure> {
        match self {
            Client::Tcp(to) => {
                // Packets are small, and whoever sent one waits for the answer.
                to.set_nodelay(true)?;
                let from = Patient { stream: to.try_clone()?, has_spoken: false };
                from.stream.set_read_timeout(Some(PATIENCE))?;
                let served = connection::serve(debuggee, time, from, to);
                // Whoever reads on the other thread is done.
                let _ = to.shutdown(Shutdown::Both);
                served
            }
            Client::Unix(to) => {
                let from = to.try_clone()?;
                let served = connection::serve(debuggee, time, from, to);
                let _ = to.shutdown(Shutdown::Both);
                served
            }
        }
    }
}

/// A client that is waited for as long as it takes, once it has said something.
struct Patient {
    stream: TcpStream,
    has_spoken: bool,
}

impl io::Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        if !self.has_spoken {
            self.has_spoken = true;
            self.stream.set_read_timeout(None)?;
        }
        Ok(read)
    }
}
