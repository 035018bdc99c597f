//! Sessions with a process that says what a fuzzer wants.
//!
//! There is no process: what it would say lies in the socket already, and what it would stream in the file. Whoever fuzzes
//! asks sessions as usual, and nothing may come of it but answers and errors.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use nix::sys::socket::{MsgFlags, Shutdown, send, shutdown};
use retro_abi::replay::Header;
use retro_recording::Recording;

use crate::Replayer;
use crate::link::Link;

/// What a process says.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Its messages, in order: the words of the header, and the payload.
    pub messages: Vec<([u64; 8], Vec<u8>)>,
    /// What is in the file that it streams to.
    pub stream: Vec<u8>,
}

/// A replayer all of whose sessions say the same.
pub fn replayer(recording: Arc<Recording>, script: Script) -> Replayer {
    Replayer::with_script(recording, Arc::new(script))
}

/// A link to nobody, with all that a process says in it. The other end has to stay open.
pub(crate) fn link(script: &Script) -> std::io::Result<(Link, OwnedFd)> {
    let (link, theirs) = Link::pair()?;
    for (words, payload) in &script.messages {
        let message = [&Header(*words).to_bytes()[..], payload].concat();
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        // What does not fit any more is not said.
        if send(theirs.as_raw_fd(), &message, flags).is_err() {
            break;
        }
    }
    shutdown(theirs.as_raw_fd(), Shutdown::Write)?;
    Ok((link, theirs))
}
