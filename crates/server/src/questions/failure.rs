//! Why a question has no answer, with words for programs that stay the same.

use retro_query::Error;
use retro_query::symbols::SourceError;

use crate::service::MethodError;

impl From<Error> for MethodError {
    fn from(error: Error) -> MethodError {
        let kind = match &error {
            Error::Cancelled => return MethodError::Cancelled,
            Error::Recording(_) => "recording_unreadable",
            Error::Replay(_) => "replay_failed",
            Error::Index(_) => "index_unreadable",
            Error::NotIndexed { .. } => "not_indexed",
            Error::NoLog(_) => "no_such_process",
            Error::OutOfRange { .. } => "time_out_of_range",
            Error::NoThread { .. } => "no_such_thread",
            Error::NoFrame { .. } => "no_such_frame",
            Error::Expression(_) => "bad_expression",
            Error::Unknown(_) => "unknown_name",
            Error::Question(_) => "bad_question",
            Error::NoReads => "reads_not_indexed",
            Error::WindowTooLarge { .. } => "window_too_large",
        };
        MethodError::Failed { kind, message: error.to_string() }
    }
}

impl From<SourceError> for MethodError {
    fn from(error: SourceError) -> MethodError {
        MethodError::Failed { kind: "source_unavailable", message: error.to_string() }
    }
}

/// Nothing has this name.
pub(super) fn unknown(message: String) -> MethodError {
    MethodError::Failed { kind: "unknown_name", message }
}

/// The parameters are of the right type and make no sense.
pub(super) fn invalid(message: impl Into<String>) -> MethodError {
    MethodError::InvalidParams(message.into())
}

/// An error if a number is larger than allowed.
pub(super) fn at_most(name: &str, value: u64, limit: u64) -> Result<(), MethodError> {
    if value > limit {
        return Err(invalid(format!("\"{name}\" must be at most {limit}")));
    }
    Ok(())
}
