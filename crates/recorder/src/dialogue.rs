//! What the supervisor and the recorder say to each other.
//!
//! They share a socket that keeps the borders of messages. Either may be killed at any time: then the other
//! reads an end of file. A message is a tag, numbers and a text:
//!
//! ```text
//! tag (1 byte)  count (1 byte)  count numbers (8 bytes each)  text (the rest)
//! ```
//!
//! Invariant: the recorder waits for the supervisor only when it starts; afterwards it never needs it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair};

use crate::{Ending, Summary};

/// From the supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// The first process has ended.
    Ended(Ending),
    /// There will be no first process: forget the recording.
    Cancel,
}

/// From the recorder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// Engines may start; the channel has this descriptor in the recorder.
    Ready(i32),
    /// It cannot record, for this reason.
    Refused(String),
    /// The first process has ended; so many processes are still recorded.
    Remaining(u64),
    /// The recording is finished.
    Done(Summary),
}

/// Longest message; longer texts are cut.
const LONGEST: usize = 4096;

struct Message {
    tag: u8,
    numbers: Vec<u64>,
    text: String,
}

impl Message {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![self.tag, self.numbers.len() as u8];
        self.numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.extend(self.text.as_bytes());
        bytes.truncate(LONGEST);
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Message> {
        let (&[tag, count], rest) = bytes.split_first_chunk()?;
        let (numbers, text) = rest.split_at_checked(8 * count as usize)?;
        let (numbers, _) = numbers.as_chunks::<8>();
        let numbers = numbers.iter().map(|&number| u64::from_le_bytes(number)).collect();
        Some(Message { tag, numbers, text: String::from_utf8_lossy(text).into_owned() })
    }
}

/// What can be sent.
pub trait Speech: Sized {
    /// As bytes.
    fn to_bytes(&self) -> Vec<u8>;
    /// From bytes, if they make sense.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

impl Speech for Order {
    fn to_bytes(&self) -> Vec<u8> {
        let (tag, numbers) = match *self {
            Order::Cancel => (0, vec![]),
            Order::Ended(Ending::Exited(status)) => (1, vec![status as u64]),
            Order::Ended(Ending::Killed(signal)) => (2, vec![signal as u64]),
        };
        Message { tag, numbers, text: String::new() }.to_bytes()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Order> {
        let message = Message::from_bytes(bytes)?;
        Some(match (message.tag, message.numbers.as_slice()) {
            (0, []) => Order::Cancel,
            (1, &[status]) => Order::Ended(Ending::Exited(status as i32)),
            (2, &[signal]) => Order::Ended(Ending::Killed(signal as i32)),
            _ => return None,
        })
    }
}

impl Speech for Report {
    fn to_bytes(&self) -> Vec<u8> {
        let (tag, numbers, text) = match self {
            Report::Ready(descriptor) => (0, vec![*descriptor as u64], ""),
            Report::Refused(reason) => (1, vec![], reason.as_str()),
            Report::Remaining(processes) => (2, vec![*processes], ""),
            Report::Done(summary) => {
                let mut numbers = vec![
                    summary.instructions,
                    summary.log_bytes,
                    summary.file_bytes,
                    summary.processes,
                    summary.damaged,
                    summary.failure.is_some() as u64,
                ];
                numbers.extend(summary.unrecorded);
                (3, numbers, summary.failure.as_deref().unwrap_or(""))
            }
        };
        Message { tag, numbers, text: text.to_owned() }.to_bytes()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Report> {
        let message = Message::from_bytes(bytes)?;
        Some(match (message.tag, message.numbers.as_slice()) {
            (0, &[descriptor]) => Report::Ready(descriptor as i32),
            (1, []) => Report::Refused(message.text),
            (2, &[processes]) => Report::Remaining(processes),
            (
                3,
                &[instructions, log_bytes, file_bytes, processes, damaged, failed, ref rest @ ..],
            ) => Report::Done(Summary {
                instructions,
                log_bytes,
                file_bytes,
                processes,
                unrecorded: rest.try_into().ok()?,
                damaged,
                failure: (failed != 0).then_some(message.text),
            }),
            _ => return None,
        })
    }
}

/// What came, if anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard<T> {
    /// A message.
    Message(T),
    /// Nothing in time.
    Nothing,
    /// The other side is gone.
    Gone,
}

/// One end of the socket.
#[derive(Debug)]
pub struct Line {
    socket: OwnedFd,
}

impl Line {
    /// Two ends, close-on-exec and with numbers above the standard descriptors.
    pub fn pair() -> io::Result<(Line, Line)> {
        let (one, other) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
        Ok((Line { socket: above_standard(one)? }, Line { socket: above_standard(other)? }))
    }

    /// Sends a message. The other side may be gone, which receiving tells.
    pub fn send(&self, message: &impl Speech) {
        let bytes = message.to_bytes();
        while send(self.socket.as_raw_fd(), &bytes, MsgFlags::MSG_NOSIGNAL) == Err(Errno::EINTR) {}
    }

    /// Sends a message if that needs no waiting.
    pub fn mention(&self, message: &impl Speech) {
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        let _ = send(self.socket.as_raw_fd(), &message.to_bytes(), flags);
    }

    /// Takes the next message, or waits for one: until `deadline`, or as long as it takes.
    pub fn receive<T: Speech>(&self, deadline: Option<Instant>) -> Heard<T> {
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if !self.readable(left) {
                return Heard::Nothing;
            }
            let mut bytes = [0; LONGEST];
            match recv(self.socket.as_raw_fd(), &mut bytes, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => return Heard::Gone,
                Ok(len) => {
                    // Both ends are of one build; what is not understood was meant for nobody.
                    if let Some(message) = T::from_bytes(&bytes[..len]) {
                        return Heard::Message(message);
                    }
                }
                Err(Errno::EINTR | Errno::EAGAIN) => {}
                Err(_) => return Heard::Gone,
            }
        }
    }

    fn readable(&self, left: Option<Duration>) -> bool {
        let timeout = match left {
            None => PollTimeout::NONE,
            // Rounded up, so that a wait never ends early and spins.
            Some(left) => {
                let milliseconds = left.as_nanos().div_ceil(1_000_000);
                PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX)
            }
        };
        let mut polled = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, timeout) {
            Ok(count) => count > 0,
            Err(Errno::EINTR) => true,
            Err(_) => true,
        }
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// `retro` may have been started with a standard descriptor closed, which the guest is to find closed too.
fn above_standard(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    use std::os::fd::FromRawFd;
    let duplicate = fcntl(&fd, FcntlArg::F_DUPFD_CLOEXEC(3))?;
    // SAFETY: `duplicate` was just created and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(duplicate) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let (supervisor, recorder) = Line::pair().unwrap();
        for order in
            [Order::Cancel, Order::Ended(Ending::Exited(3)), Order::Ended(Ending::Killed(11))]
        {
            supervisor.send(&order);
            assert_eq!(recorder.receive(None), Heard::Message(order));
        }
        let summary = Summary {
            instructions: 1,
            log_bytes: 2,
            file_bytes: 3,
            processes: 4,
            unrecorded: [5, 7, 8, 9],
            damaged: 6,
            failure: Some("no space".into()),
        };
        for report in [
            Report::Ready(7),
            Report::Refused("because".into()),
            Report::Remaining(2),
            Report::Done(Summary { failure: None, ..summary.clone() }),
            Report::Done(summary),
        ] {
            recorder.send(&report);
            assert_eq!(supervisor.receive(None), Heard::Message(report));
        }
    }

    #[test]
    fn silence_and_death_are_told_apart() {
        let (supervisor, recorder) = Line::pair().unwrap();
        assert_eq!(recorder.receive::<Order>(Some(Instant::now())), Heard::Nothing);
        supervisor.send(&Order::Cancel);
        drop(supervisor);
        assert_eq!(recorder.receive(None), Heard::Message(Order::Cancel));
        assert_eq!(recorder.receive::<Order>(None), Heard::Gone);
        recorder.send(&Report::Ready(1));
    }

    #[test]
    fn bytes_that_make_no_sense_are_no_message() {
        for bytes in [&[][..], &[3], &[3, 200], &[9, 0], &[0, 1, 0], &[3, 255, 1, 2]] {
            assert_eq!(Report::from_bytes(bytes), None, "{bytes:?}");
            assert_eq!(Order::from_bytes(bytes), None, "{bytes:?}");
        }
    }
}
