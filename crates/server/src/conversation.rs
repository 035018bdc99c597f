//! From the messages of one client to jobs, and from their outcomes to answers.
//!
//! Every transport has one of these per connection (HTTP: per request). Answers come as they are ready, not in the
//! order of the requests; those to a batch come together when the last is ready. Notifications are not run, since
//! nobody sees the outcome of a question without an answer; `$/cancel` is the exception.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::cancel::Cancel;
use crate::limits::Limits;
use crate::message::{
    Entry, ErrorCode, Failure, Id, Incoming, Request, answer_too_large, encode_answer,
    encode_failure, parse,
};
use crate::outbox::Outbox;
use crate::schedule::{Fate, Job, Membership, Schedule};
use crate::schema::{AUTHENTICATE, CANCEL, CancelParams, DESCRIBE, schema_document};
use crate::service::{CallContext, Service};

/// What all conversations of a server share.
pub(crate) struct Core {
    pub service: Arc<dyn Service>,
    pub schedule: Arc<Schedule>,
    pub limits: Limits,
    description: Value,
}

impl Core {
    pub fn new(service: Arc<dyn Service>, schedule: Arc<Schedule>, limits: Limits) -> Core {
        let description = schema_document(&*service);
        Core { service, schedule, limits, description }
    }

    fn run(&self, method: &str, params: Value, context: &CallContext) -> Result<Value, Failure> {
        if method == DESCRIBE {
            return Ok(self.description.clone());
        }
        // A bug in one question must not take the others down.
        let call = AssertUnwindSafe(|| self.service.call(method, params, context));
        match catch_unwind(call) {
            Ok(outcome) => outcome.map_err(Failure::from),
            Err(_) => Err(Failure::new(
                ErrorCode::Internal,
                format!("{method} failed in a way it should not; please report this"),
            )),
        }
    }
}

/// Whether the client can be told anything but answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    Wanted,
    Impossible,
}

/// Whether a message will be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Answer,
    Nothing,
}

/// One client.
pub(crate) struct Conversation {
    core: Arc<Core>,
    membership: Membership,
    outbox: Outbox,
    news: News,
}

impl Conversation {
    pub fn new(core: &Arc<Core>, outbox: Outbox, news: News) -> Conversation {
        let membership = core.schedule.join(outbox.backlog().clone());
        Conversation { core: core.clone(), membership, outbox, news }
    }

    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Ends it for lack of further messages; what is outstanding goes on for as long as the membership is kept.
    pub fn finish(self) -> Membership {
        self.membership
    }

    /// To be called when the client has fetched answers.
    pub fn look_again(&self) {
        self.membership.look_again();
    }

    /// Takes one message from the client.
    pub fn receive(&self, text: &[u8]) -> Expected {
        match parse(text, &self.core.limits) {
            Err(failure) => {
                self.outbox.send(encode_failure(&Id::Null, &failure));
                Expected::Answer
            }
            Ok(Incoming::Single(entry)) => self.receive_single(entry, text.len()),
            Ok(Incoming::Batch(entries)) => self.receive_batch(entries, text.len()),
        }
    }

    fn receive_single(&self, entry: Entry, bytes: usize) -> Expected {
        if is_notification(&entry) {
            self.notice(entry);
            return Expected::Nothing;
        }
        let destination = Destination::Alone(self.outbox.clone());
        self.membership.submit(self.start(entry, bytes, destination).into_iter().collect());
        Expected::Answer
    }

    fn receive_batch(&self, entries: Vec<Entry>, bytes: usize) -> Expected {
        let bytes_each = bytes / entries.len();
        let (notifications, calls): (Vec<Entry>, Vec<Entry>) =
            entries.into_iter().partition(is_notification);
        let expected = if calls.is_empty() { Expected::Nothing } else { Expected::Answer };
        let batch = Arc::new(Batch::new(calls.len(), self.outbox.clone()));
        let jobs = calls
            .into_iter()
            .filter_map(|entry| self.start(entry, bytes_each, Destination::Batch(batch.clone())));
        self.membership.submit(jobs.collect());
        // Last, so that a batch can cancel its own requests.
        notifications.into_iter().for_each(|entry| self.notice(entry));
        expected
    }

    fn notice(&self, notification: Entry) {
        if let Ok(request) = notification
            && request.method == CANCEL
        {
            // A notification has nobody to tell that it is wrong.
            let _ = self.cancel(request.params);
        }
    }

    fn cancel(&self, params: Value) -> Result<Value, Failure> {
        let CancelParams { id } = serde_json::from_value(params).map_err(|error| {
            Failure::new(
                ErrorCode::InvalidParams,
                format!("\"id\" must be that of a request: {error}"),
            )
        })?;
        self.membership.cancel(&id);
        Ok(Value::Null)
    }

    /// Answers at once what needs no worker, makes a job of the rest.
    fn start(&self, entry: Entry, bytes: usize, destination: Destination) -> Option<Job> {
        let limit = self.core.limits.answer_bytes;
        let (id, outcome) = match entry {
            Err((id, failure)) => (id, Err(failure)),
            Ok(Request { id, method, params }) => {
                let id = id.unwrap_or(Id::Null);
                match method.as_str() {
                    CANCEL => (id, self.cancel(params)),
                    // Who had to authenticate has done so before this conversation began.
                    AUTHENTICATE => (id, Ok(Value::Null)),
                    _ => return Some(self.job(id, method, params, bytes, destination)),
                }
            }
        };
        destination.answer(&id, &outcome, limit);
        None
    }

    fn job(
        &self,
        id: Id,
        method: String,
        mut params: Value,
        bytes: usize,
        destination: Destination,
    ) -> Job {
        let core = self.core.clone();
        let cancel = Cancel::default();
        let pause = core.limits.progress;
        let news = (self.news == News::Wanted).then(|| (self.outbox.clone(), pause));
        let (cancel_of_call, id_of_call) = (cancel.clone(), id.clone());
        let finish = move |fate| {
            let outcome = match fate {
                Fate::Refuse(failure) => Err(failure),
                Fate::Run => {
                    let context = CallContext::new(&method, &mut params, cancel_of_call, news);
                    core.run(&method, params, &context)
                }
            };
            destination.answer(&id_of_call, &outcome, core.limits.answer_bytes);
        };
        Job { id, bytes, cancel, finish: Box::new(finish) }
    }
}

fn is_notification(entry: &Entry) -> bool {
    matches!(entry, Ok(Request { id: None, .. }))
}

/// Where the answer to a request goes.
enum Destination {
    Alone(Outbox),
    Batch(Arc<Batch>),
}

impl Destination {
    fn answer(&self, id: &Id, outcome: &Result<Value, Failure>, limit: usize) {
        match self {
            Destination::Alone(outbox) => outbox.send(encode_answer(id, outcome, limit)),
            Destination::Batch(batch) => batch.add(id, outcome, limit),
        }
    }
}

/// The answers to a batch, until all are there.
struct Batch {
    outbox: Outbox,
    gathered: Mutex<Gathered>,
}

struct Gathered {
    missing: usize,
    /// The answers so far: `[…,…`.
    text: String,
}

impl Batch {
    fn new(missing: usize, outbox: Outbox) -> Batch {
        Batch { outbox, gathered: Mutex::new(Gathered { missing, text: String::new() }) }
    }

    fn add(&self, id: &Id, outcome: &Result<Value, Failure>, limit: usize) {
        let answer = encode_answer(id, outcome, limit);
        let mut gathered = self.gathered.lock().unwrap_or_else(|poison| poison.into_inner());
        let separator = if gathered.text.is_empty() { '[' } else { ',' };
        gathered.text.push(separator);
        if gathered.text.len() + answer.len() > limit {
            gathered.text.push_str(&encode_failure(id, &answer_too_large(limit)));
        } else {
            gathered.text.push_str(&answer);
        }
        gathered.missing -= 1;
        if gathered.missing == 0 {
            let mut text = std::mem::take(&mut gathered.text);
            text.push(']');
            self.outbox.send(text);
        }
    }
}
