//! What waits to be sent to a client.
//!
//! Workers must not wait for a client that reads slowly, so that they put answers into a queue without an end. It is
//! bounded all the same: while more than a limit waits in it ([`Backlog::is_full`]), the connection reads no requests
//! and the schedule starts none for this client. Only what runs already can still add to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, mpsc};

/// How much waits to be sent.
pub(crate) struct Backlog {
    bytes: AtomicUsize,
    limit: usize,
    drained: Notify,
}

impl Backlog {
    pub fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Acquire) > self.limit
    }

    /// Waits until there is room. Only one task may wait.
    pub async fn has_room(&self) {
        while self.is_full() {
            self.drained.notified().await;
        }
    }
}

/// Takes messages to a client; the connection ends its sending when all clones are gone.
#[derive(Clone)]
pub(crate) struct Outbox {
    sender: mpsc::UnboundedSender<String>,
    backlog: Arc<Backlog>,
}

impl Outbox {
    /// Both ends of a new queue.
    pub fn new(limit: usize) -> (Outbox, Outgoing) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let backlog =
            Arc::new(Backlog { bytes: AtomicUsize::new(0), limit, drained: Notify::new() });
        (Outbox { sender, backlog: backlog.clone() }, Outgoing { receiver, backlog })
    }

    pub fn backlog(&self) -> &Arc<Backlog> {
        &self.backlog
    }

    /// Queues a message; one for a client that is gone vanishes.
    pub fn send(&self, message: String) {
        self.backlog.bytes.fetch_add(message.len(), Ordering::AcqRel);
        let _ = self.sender.send(message);
    }
}

/// The connection's end of the queue.
pub(crate) struct Outgoing {
    receiver: mpsc::UnboundedReceiver<String>,
    backlog: Arc<Backlog>,
}

impl Outgoing {
    /// The next message, or none when there will not be any.
    pub async fn next(&mut self) -> Option<String> {
        self.receiver.recv().await
    }

    /// To be called when a message has been sent. Says whether this made room in a full queue.
    pub fn sent(&self, bytes: usize) -> bool {
        let before = self.backlog.bytes.fetch_sub(bytes, Ordering::AcqRel);
        let made_room = before > self.backlog.limit && before - bytes <= self.backlog.limit;
        if made_room {
            self.backlog.drained.notify_one();
        }
        made_room
    }
}
