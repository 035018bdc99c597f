//! One client, from its first byte to its last.
//!
//! *Strategy.* A thread of its own takes bytes apart, so that an interrupt is seen while a request is at work: every packet comes
//! with a [`Cancel`], and an interrupt cancels the latest. When the client goes away the latest is cancelled, too.
//!
//! What a client asks wrongly is answered, and it goes on. What speaks another protocol, as a browser does, gets no answer: the
//! first byte that is not gdb's ends the connection, and nothing is done for a client before its first packet.
//!
//! *How long an answer may take.* gdb waits for ever after a resumption, but for two seconds (`remotetimeout`) for everything else;
//! then it asks for the answer again, and the third time it takes the next packet for it. So searches belong to resumptions
//! and to commands of our own, during which empty texts are sent as signs of life; and what a client refuses while
//! its request is still at work is nothing that was sent, and is not sent again.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use retro_query::{Cancel, Error};

use crate::debuggee::Debuggee;
use crate::hex;
use crate::packet::{self, Decoder, Incoming};
use crate::request::Request;
use crate::session::{Reply, Session};

/// Packets that wait to be answered. Clients wait for answers, so that there is rarely more than one.
const WAITING: usize = 64;

/// How often a client is told that its command is still at work.
const SIGN_OF_LIFE: Duration = Duration::from_millis(500);

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
    to: impl Write + Send,
) -> Result<(), Failure> {
    let (sender, receiver) = sync_channel(WAITING);
    let answered = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&answered);
    thread::spawn(move || take_apart(from, &sender, &seen));
    let first = receiver.iter().find(|(incoming, _)| {
        matches!(incoming, Incoming::Packet(_) | Incoming::Damaged | Incoming::Foreign)
    });
    let Some(first) = first.filter(|(incoming, _)| *incoming != Incoming::Foreign) else {
        return Ok(());
    };
    let session = Session::new(debuggee, time)?;
    let client = Client { session, to, acknowledges: true, last: Vec::new(), answered };
    client.run(std::iter::once(first).chain(&receiver))
}

/// Reads until the client goes, or nobody wants to know any more.
fn take_apart(mut from: impl Read, to: &SyncSender<(Incoming, Cancel)>, answered: &AtomicU64) {
    let mut packets = 0;
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
                packets += 1;
                latest = Cancel::new();
            }
            if incoming == Incoming::Refused && answered.load(Ordering::Acquire) < packets {
                // It waits for an answer that is not sent yet.
                continue;
            }
            let is_foreign = incoming == Incoming::Foreign;
            if to.send((incoming, latest.clone())).is_err() || is_foreign {
                latest.cancel();
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
    /// How many packets were answered.
    answered: Arc<AtomicU64>,
}

impl<W: Write + Send> Client<W> {
    fn run(mut self, from: impl Iterator<Item = (Incoming, Cancel)>) -> Result<(), Failure> {
        for (incoming, cancel) in from {
            match incoming {
                Incoming::Foreign => return Ok(()),
                Incoming::Packet(packet) => {
                    self.acknowledge(b"+")?;
                    let request = Request::parse(&packet);
                    let reply = match request {
                        Request::Monitor(_) => self.answer_with_signs_of_life(request, &cancel)?,
                        _ => self.session.answer(request, &cancel),
                    };
                    let is_end = self.send_reply(reply)?;
                    self.answered.fetch_add(1, Ordering::Release);
                    if is_end {
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

    /// Answers a command, and sends empty texts while it is at work.
    fn answer_with_signs_of_life(
        &mut self,
        request: Request,
        cancel: &Cancel,
    ) -> io::Result<Reply> {
        let Client { session, to, .. } = self;
        thread::scope(|scope| {
            let (done, is_done) = mpsc::channel::<()>();
            let signs = scope.spawn(move || -> io::Result<()> {
                let sign = packet::frame(b"O");
                while is_done.recv_timeout(SIGN_OF_LIFE) == Err(RecvTimeoutError::Timeout) {
                    to.write_all(&sign)?;
                    to.flush()?;
                }
                Ok(())
            });
            let reply = session.answer(request, cancel);
            drop(done);
            match signs.join() {
                Ok(sent) => sent.map(|()| reply),
                Err(_) => Err(io::Error::other("the thread that sends signs of life failed")),
            }
        })
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
