//! The socket between a replay process and its owner (see [`retro_abi::replay`]).

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recv,
    recvmsg, sendmsg, setsockopt, socketpair, sockopt,
};
use nix::sys::time::TimeVal;
use nix::unistd::Pid;
use retro_abi::replay::{HEADER_SIZE, Header, MAX_PAYLOAD};

use crate::warden::Watched;

/// A process that says nothing for so long is given up. Whatever it is asked to do takes a fraction of that. A fuzzer has said
/// everything before.
const PATIENCE: Duration =
    if cfg!(feature = "fuzzing") { Duration::from_millis(20) } else { Duration::from_secs(120) };

/// How long an answer is looked for before waiting for it: falling asleep and being woken takes about as long.
const AT_ONCE: Duration = Duration::from_micros(250);

/// Our end of a socket.
#[derive(Debug)]
pub(crate) struct Link {
    socket: OwnedFd,
    /// One byte more than the longest message, to notice one that is too long.
    buffer: Box<[u8]>,
    /// The process at the other end.
    process: Option<Arc<Watched>>,
}

/// Why nothing sensible came.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The other end is closed.
    Closed,
    /// Nothing came for a long time.
    Silent,
    /// What came is no message.
    Nonsense(&'static str),
    /// The socket failed.
    Io(io::Error),
}

impl Link {
    /// Makes a pair: our end, and the one for a replay process.
    pub(crate) fn pair() -> io::Result<(Link, OwnedFd)> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?;
        let patience = TimeVal::new(PATIENCE.as_secs() as _, PATIENCE.subsec_micros().into());
        setsockopt(&ours, sockopt::ReceiveTimeout, &patience)?;
        setsockopt(&ours, sockopt::SendTimeout, &patience)?;
        let buffer = vec![0; HEADER_SIZE + MAX_PAYLOAD + 1].into_boxed_slice();
        Ok((Link { socket: ours, buffer, process: None }, theirs))
    }

    /// From now on it is known who is at the other end.
    pub(crate) fn belongs_to(&mut self, process: Option<&Arc<Watched>>) {
        self.process = process.cloned();
    }

    /// Sends a message.
    pub(crate) fn send(&self, header: &Header, payload: &[u8]) -> Result<(), Broken> {
        self.send_all(header, payload, &[])
    }

    /// Sends a message along with a file.
    pub(crate) fn send_file(&self, header: &Header, file: &File) -> Result<(), Broken> {
        self.send_all(header, &[], &[file.as_raw_fd()])
    }

    /// Sends a message along with a socket.
    pub(crate) fn send_socket(&self, header: &Header, socket: BorrowedFd) -> Result<(), Broken> {
        self.send_all(header, &[], &[socket.as_raw_fd()])
    }

    fn send_all(&self, header: &Header, payload: &[u8], files: &[i32]) -> Result<(), Broken> {
        let header = header.to_bytes();
        let parts = [IoSlice::new(&header), IoSlice::new(payload)];
        let rights = [ControlMessage::ScmRights(files)];
        let control = if files.is_empty() { &rights[..0] } else { &rights[..] };
        let flags = MsgFlags::MSG_NOSIGNAL;
        let socket = self.socket.as_raw_fd();
        retry(|| sendmsg::<()>(socket, &parts, control, flags, None)).map(drop)
    }

    /// Receives a message: its header and the length of its payload.
    pub(crate) fn receive(&mut self) -> Result<(Header, usize), Broken> {
        let _awaited = self.process.as_ref().map(|process| process.awaited());
        let (socket, buffer) = (self.socket.as_raw_fd(), &mut self.buffer);
        // Without room for descriptors: whatever the process tries to hand over is dropped by the kernel.
        let len = retry(|| recv(socket, buffer, MsgFlags::empty()))?;
        header(&self.buffer, len)
    }

    /// The same, for a message that is about to come.
    pub(crate) fn receive_soon(&mut self) -> Result<(Header, usize), Broken> {
        let start = Instant::now();
        let (socket, buffer) = (self.socket.as_raw_fd(), &mut self.buffer);
        loop {
            match recv(socket, buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(len) => {
                    drop(self.process.as_ref().map(|process| process.awaited()));
                    return header(buffer, len);
                }
                Err(Errno::EAGAIN) if start.elapsed() < AT_ONCE => std::thread::yield_now(),
                // Whatever else it is comes again.
                Err(_) => return self.receive(),
            }
        }
    }

    /// The payload of the last message.
    pub(crate) fn payload(&self, len: usize) -> &[u8] {
        &self.buffer[HEADER_SIZE..HEADER_SIZE + len]
    }

    /// Receives the first message of a process, and has the kernel tell which process that is.
    pub(crate) fn receive_with_sender(&mut self) -> Result<(Header, Pid), Broken> {
        let socket = self.socket.as_raw_fd();
        let mut control = nix::cmsg_space!(nix::sys::socket::UnixCredentials);
        let (len, sender) = retry(|| {
            let mut parts = [IoSliceMut::new(&mut self.buffer)];
            let received =
                recvmsg::<()>(socket, &mut parts, Some(&mut control), MsgFlags::empty())?;
            let sender = received.cmsgs()?.find_map(|message| match message {
                ControlMessageOwned::ScmCredentials(sender) => Some(Pid::from_raw(sender.pid())),
                _ => None,
            });
            Ok((received.bytes, sender))
        })?;
        let (header, _) = header(&self.buffer, len)?;
        let sender = sender.ok_or(Broken::Nonsense("a message from nobody"))?;
        Ok((header, sender))
    }

    /// From now on messages come with their sender.
    pub(crate) fn ask_for_senders(&self, wanted: bool) -> io::Result<()> {
        Ok(setsockopt(&self.socket, sockopt::PassCred, &wanted)?)
    }
}

fn retry<T>(mut action: impl FnMut() -> nix::Result<T>) -> Result<T, Broken> {
    loop {
        match action() {
            Ok(done) => return Ok(done),
            Err(Errno::EINTR) => {}
            Err(Errno::EPIPE | Errno::ECONNRESET) => return Err(Broken::Closed),
            Err(Errno::EAGAIN) => return Err(Broken::Silent),
            Err(error) => return Err(Broken::Io(error.into())),
        }
    }
}

/// The header of a message of `len` bytes, and how many of these come behind it.
fn header(buffer: &[u8], len: usize) -> Result<(Header, usize), Broken> {
    match (buffer.first_chunk(), len.checked_sub(HEADER_SIZE)) {
        _ if len == 0 => Err(Broken::Closed),
        (Some(header), Some(payload)) if payload <= MAX_PAYLOAD => {
            Ok((Header::from_bytes(header), payload))
        }
        (_, Some(_)) => Err(Broken::Nonsense("a message is too long")),
        _ => Err(Broken::Nonsense("a message is too short")),
    }
}
