//! Why a server does not start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a server cannot listen or run.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address can be reached from other machines.
    #[error(
        "{0} can be reached from other machines: listen on 127.0.0.1 or [::1], or allow remote clients explicitly"
    )]
    NotLoopback(SocketAddr),
    /// The TCP address cannot be had.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// The socket file cannot be made.
    #[error("cannot make the socket {}: {error}", path.display())]
    Socket {
        /// Where it was to be.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// Somebody listens on the socket file.
    #[error("another server listens on {}: stop it or choose another path", .0.display())]
    SocketInUse(PathBuf),
    /// There is something else where the socket file is to be.
    #[error("{} exists and is not a socket: remove it or choose another path", .0.display())]
    NotASocket(PathBuf),
    /// The path of the socket file does not fit into a socket address.
    #[error("{} is too long for a socket, whose path has at most 107 bytes", .0.display())]
    SocketPathTooLong(PathBuf),
    /// A given token is too easy to guess or does not fit into a URL.
    #[error("a token has 16 to 256 characters, all of them letters, digits, '-' or '_'")]
    UnfitToken,
    /// The system gave no thread, event queue, random bytes or signal handler.
    #[error("cannot start the server: {0}")]
    Start(#[source] io::Error),
}
