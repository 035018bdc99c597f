//! Cancelling a request.
//!
//! Methods are ordinary blocking code, so that nobody can stop them from outside: whoever wants the answer no more
//! raises a flag, and the method looks at it wherever it may take long. The flag is that of the query engine, which does
//! most of what takes long.

/// Says whether anybody still wants an answer.
#[derive(Clone, Debug, Default)]
pub struct Cancel(retro_query::Cancel);

/// The request was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request was cancelled")]
pub struct Cancelled;

impl Cancel {
    /// Whether the method should give up.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// An error when the method should give up: `cancel.check()?`.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.is_cancelled() { Err(Cancelled) } else { Ok(()) }
    }

    /// The flag itself, for questions to the query engine.
    pub fn flag(&self) -> &retro_query::Cancel {
        &self.0
    }

    /// Asks the method to give up.
    pub fn cancel(&self) {
        self.0.cancel();
    }
}
