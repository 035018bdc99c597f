//! Telling a client how far its request has come.
//!
//! A client that wants to know sends a `progressToken` with the parameters and gets `$/progress` notifications that
//! carry it. They are news, not answers: at most one in a while, and none while the client has answers to fetch.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::encode_notification;
use crate::outbox::Outbox;

/// The notification's name.
pub(crate) const PROGRESS: &str = "$/progress";

/// The parameters of `$/progress`, which the server sends.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ProgressParams {
    /// The `progressToken` of the request.
    token: Value,
    /// How much is done.
    done: u64,
    /// How much there is, if that is known.
    total: Option<u64>,
}

/// Where the progress of one request goes.
pub(crate) struct Progress {
    token: Value,
    outbox: Outbox,
    pause: Duration,
    last: Mutex<Option<Instant>>,
}

impl Progress {
    pub fn new(token: Value, outbox: Outbox, pause: Duration) -> Progress {
        Progress { token, outbox, pause, last: Mutex::new(None) }
    }

    pub fn report(&self, done: u64, total: Option<u64>) {
        if self.is_due() && !self.outbox.backlog().is_full() {
            let params = ProgressParams { token: self.token.clone(), done, total };
            self.outbox.send(encode_notification(PROGRESS, &params));
        }
    }

    fn is_due(&self) -> bool {
        let mut last = self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let now = Instant::now();
        let due = last.is_none_or(|last| now.duration_since(last) >= self.pause);
        if due {
            *last = Some(now);
        }
        due
    }
}
