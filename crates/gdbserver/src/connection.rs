//! One client, from its first byte to its last.
//!
//! *Strategy.* A thread of its own takes bytes apart, so that an interrupt is seen while a request is at work: every packet comes
//! with a [`Cancel`], and an interrupt cancels the latest. When the client goes away the latest is cancelled, too.
//!
//! What a client asks wrongly is answered, and it goes on; only what the connection itself fails with ends it.

use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use retro_query::{Cancel, Error};

use crate::debuggee::Debuggee;
use crate::hex;
use crate::packet::{self, Decoder, Incoming};
use crate::request::Request;
use crate::session::{Reply, Session};

/// Packets that wait to be answered. Clients wait for answers, so that there is rarely more than one.
const WAITING: usize = 64;

/// Bytes that are read at once.
const PIECE: usize = 1 << 14;

/// Why a connection ended before its client wanted.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It broke.
    #[error("the connection to the client broke: {0}")]
    Connection(#[from] io::Error),
    /// The moment that it was to begin at cannot be looked at.
    #[error(transparent)]
    Query(#[from] Error),
}

/// Serves a client until it goes. Its view begins at a time.
pub fn serve(
    debuggee: &Debuggee,
    time: u64,
    from: impl Read + Send + 'static,
    to: impl Write,
) -> Result<(), Failure> {
    let session = Session::new(debuggee, time)?;
    let (sender, receiver) = sync_channel(WAITING);
    thread::spawn(move || take_apart(from, &sender));
    let client = Client { session, to, acknowledges: true, last: Vec::new() };
    client.run(&receiver)
}

/// Reads until the client goes, or nobody wants to know any more.
fn take_apart(mut from: impl Read, to: &SyncSender<(Incoming, Cancel)>) {
    let mut decoder = Decoder::default();
    let mut latest = Cancel::new();
    let mut bytes = vec![0; PIECE];
    loop {
        let count = match from.read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        for incoming in bytes[..count].iter().filter_map(|&byte| decoder.take(byte)) {
            if incoming == Incoming::Interrupt {
                latest.cancel();
                continue;
            }
            if matches!(incoming, Incoming::Packet(_)) {
                latest = Cancel::new();
            }
            if to.send((incoming, latest.clone())).is_err() {
                return;
            }
        }
    }
    latest.cancel();
}

struct Client<W> {
    session: Session,
    to: W,
    /// Whether packets are acknowledged.
    acknowledges: bool,
    /// What was sent last, in case it did not arrive.
    last: Vec<u8>,
}

impl<W: Write> Client<W> {
    fn run(mut self, from: &Receiver<(Incoming, Cancel)>) -> Result<(), Failure> {
        while let Ok((incoming, cancel)) = from.recv() {
            match incoming {
                Incoming::Packet(packet) => {
                    self.acknowledge(b"+")?;
                    let reply = self.session.answer(Request::parse(&packet), &cancel);
                    if self.send_reply(reply)? {
                        return Ok(());
                    }
                }
                Incoming::Damaged => self.acknowledge(b"-")?,
                Incoming::Refused if self.acknowledges => {
                    self.to.write_all(&self.last)?;
                    self.to.flush()?;
                }
                Incoming::Refused | Incoming::Acknowledged | Incoming::Interrupt => {}
            }
        }
        Ok(())
    }

    fn acknowledge(&mut self, mark: &[u8]) -> io::Result<()> {
        if self.acknowledges {
            self.to.write_all(mark)?;
            self.to.flush()?;
        }
        Ok(())
    }

    /// Sends what a request is answered with. Says whether that is the end.
    fn send_reply(&mut self, reply: Reply) -> io::Result<bool> {
        match reply {
            Reply::Packet(data) => self.send(&data)?,
            Reply::Told(texts, data) => {
                for text in texts.iter().filter(|text| !text.is_empty()) {
                    // Long texts go in pieces.
                    for piece in text.as_bytes().chunks(packet::LONGEST / 4) {
                        self.send(&[b"O", &hex::encoded(piece)[..]].concat())?;
                    }
                }
                self.send(&data)?;
            }
            Reply::NoAcknowledgements => {
                self.send(b"OK")?;
                self.acknowledges = false;
            }
            Reply::End(data) => {
                self.send(&data)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn send(&mut self, data: &[u8]) -> io::Result<()> {
        self.last = packet::frame(data);
        self.to.write_all(&self.last)?;
        self.to.flush()
    }
}
