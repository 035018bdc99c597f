//! What a server serves: methods that block, read only, and may run many at once.

use std::time::Duration;

use serde_json::Value;

use crate::cancel::{Cancel, Cancelled};
use crate::outbox::Outbox;
use crate::paging::{PageRequest, Pager, Position, fingerprint};
use crate::progress::Progress;
use crate::schema::MethodDescription;

/// The methods of a server. Usually made with [`crate::Methods`].
pub trait Service: Send + Sync + 'static {
    /// Answers one question, on a thread that may block. `params` is an object or an array.
    fn call(
        &self,
        method: &str,
        params: Value,
        context: &CallContext,
    ) -> Result<Value, MethodError>;

    /// What there is to call.
    fn methods(&self) -> Vec<MethodDescription>;
}

/// Why a method has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MethodError {
    /// There is no method of this name.
    #[error("there is no method {0:?}; system.describe lists all")]
    UnknownMethod(String),
    /// The parameters are not those of the method.
    #[error("{0}")]
    InvalidParams(String),
    /// Nobody wants the answer any more.
    #[error("the request was cancelled")]
    Cancelled,
    /// The question is well-formed but has no answer.
    #[error("{message}")]
    Failed {
        /// A word for programs, such as `time_out_of_range`.
        kind: &'static str,
        /// A sentence for people.
        message: String,
    },
}

impl From<Cancelled> for MethodError {
    fn from(_: Cancelled) -> MethodError {
        MethodError::Cancelled
    }
}

/// What a method knows about the request it answers.
pub struct CallContext {
    cancel: Cancel,
    progress: Option<Progress>,
    question: u32,
}

impl CallContext {
    /// For a call that no client made.
    pub fn detached(method: &str, params: &Value) -> CallContext {
        CallContext {
            cancel: Cancel::default(),
            progress: None,
            question: fingerprint(method, params),
        }
    }

    /// For a request. Takes the `progressToken` out of the parameters, so that methods need not know of it.
    pub(crate) fn new(
        method: &str,
        params: &mut Value,
        cancel: Cancel,
        news: Option<(Outbox, Duration)>,
    ) -> CallContext {
        let token = params.as_object_mut().and_then(|params| params.remove("progressToken"));
        let progress = match (token, news) {
            (Some(token), Some((outbox, pause))) => Some(Progress::new(token, outbox, pause)),
            _ => None,
        };
        CallContext { cancel, progress, question: fingerprint(method, params) }
    }

    /// Says whether anybody still wants the answer: look at it wherever the method may take long.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Says how far the method has come, of how much if that is known. Cheap: most calls send nothing.
    pub fn progress(&self, done: u64, total: Option<u64>) {
        if let Some(progress) = &self.progress {
            progress.report(done, total);
        }
    }

    /// Where the page that the client asks for begins, and how long it may get.
    pub fn pager<P: Position>(&self, page: &PageRequest) -> Result<Pager<P>, MethodError> {
        Pager::new(self.question, page)
    }
}
