//! JSON-RPC 2.0 messages: requests as they are read, answers as they are written.

use std::io::{self, Write};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value, json};

use crate::limits::Limits;
use crate::service::MethodError;
use crate::shape;

/// The codes of errors. Those of JSON-RPC keep their meaning; -32000 and below are ours; -32800 is what editors use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorCode {
    Parse,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    Internal,
    Failed,
    Busy,
    AnswerTooLarge,
    NotAuthenticated,
    ShuttingDown,
    Cancelled,
}

impl ErrorCode {
    /// All of them, for the published description.
    pub const ALL: [ErrorCode; 11] = [
        ErrorCode::Parse,
        ErrorCode::InvalidRequest,
        ErrorCode::MethodNotFound,
        ErrorCode::InvalidParams,
        ErrorCode::Internal,
        ErrorCode::Failed,
        ErrorCode::Busy,
        ErrorCode::AnswerTooLarge,
        ErrorCode::NotAuthenticated,
        ErrorCode::ShuttingDown,
        ErrorCode::Cancelled,
    ];

    /// The number that is sent.
    pub fn number(self) -> i32 {
        match self {
            ErrorCode::Parse => -32700,
            ErrorCode::InvalidRequest => -32600,
            ErrorCode::MethodNotFound => -32601,
            ErrorCode::InvalidParams => -32602,
            ErrorCode::Internal => -32603,
            ErrorCode::Failed => -32000,
            ErrorCode::Busy => -32001,
            ErrorCode::AnswerTooLarge => -32002,
            ErrorCode::NotAuthenticated => -32003,
            ErrorCode::ShuttingDown => -32004,
            ErrorCode::Cancelled => -32800,
        }
    }

    /// What it means to a client.
    pub fn meaning(self) -> &'static str {
        match self {
            ErrorCode::Parse => "The message is not JSON.",
            ErrorCode::InvalidRequest => "The message is not a request, or is larger than allowed.",
            ErrorCode::MethodNotFound => "There is no such method.",
            ErrorCode::InvalidParams => "The parameters are not those of the method.",
            ErrorCode::Internal => "The server has a bug.",
            ErrorCode::Failed => "The question has no answer; data.kind says why.",
            ErrorCode::Busy => "Too much is outstanding: wait for answers, then ask again.",
            ErrorCode::AnswerTooLarge => "The answer is larger than allowed: ask for less.",
            ErrorCode::NotAuthenticated => "The token is missing or wrong.",
            ErrorCode::ShuttingDown => "The server stops.",
            ErrorCode::Cancelled => "The request was cancelled.",
        }
    }
}

/// An error as it is sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub code: ErrorCode,
    pub message: String,
    pub data: Option<Value>,
}

impl Failure {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), data: None }
    }
}

impl From<MethodError> for Failure {
    fn from(error: MethodError) -> Failure {
        let message = error.to_string();
        match error {
            MethodError::UnknownMethod(_) => Failure::new(ErrorCode::MethodNotFound, message),
            MethodError::InvalidParams(_) => Failure::new(ErrorCode::InvalidParams, message),
            MethodError::Cancelled => Failure::new(ErrorCode::Cancelled, message),
            MethodError::Failed { kind, .. } => {
                Failure { code: ErrorCode::Failed, message, data: Some(json!({ "kind": kind })) }
            }
        }
    }
}

/// What the client calls a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "RequestId")]
pub(crate) enum Id {
    /// A number.
    Number(Number),
    /// A string.
    String(String),
    /// Null, which is also the id of answers to what has no readable one.
    Null,
}

/// A call of a method.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    /// None for a notification, which gets no answer.
    pub id: Option<Id>,
    pub method: String,
    /// An object or an array.
    pub params: Value,
}

/// A request or what is wrong with it.
pub(crate) type Entry = Result<Request, (Id, Failure)>;

/// What a client sent at once.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Incoming {
    Single(Entry),
    /// Never empty.
    Batch(Vec<Entry>),
}

/// Reads one message. What is wrong with it as a whole has no id.
pub(crate) fn parse(text: &[u8], limits: &Limits) -> Result<Incoming, Failure> {
    if text.len() > limits.request_bytes {
        return Err(too_large(limits));
    }
    shape::check(text, limits.request_depth, limits.request_values)
        .map_err(|error| Failure::new(ErrorCode::InvalidRequest, error.to_string()))?;
    let message = serde_json::from_slice(text)
        .map_err(|error| Failure::new(ErrorCode::Parse, format!("this is not JSON: {error}")))?;
    match message {
        Value::Array(entries) if entries.is_empty() => {
            Err(Failure::new(ErrorCode::InvalidRequest, "the batch is empty"))
        }
        Value::Array(entries) if entries.len() > limits.outstanding => Err(Failure::new(
            ErrorCode::InvalidRequest,
            format!("the batch has more than {} requests: send several", limits.outstanding),
        )),
        Value::Array(entries) => {
            Ok(Incoming::Batch(entries.into_iter().map(request_from_value).collect()))
        }
        single => Ok(Incoming::Single(request_from_value(single))),
    }
}

/// For requests that were not even read.
pub(crate) fn too_large(limits: &Limits) -> Failure {
    Failure::new(
        ErrorCode::InvalidRequest,
        format!("the request is larger than {} bytes", limits.request_bytes),
    )
}

fn request_from_value(value: Value) -> Entry {
    let invalid = |id: Id, message: &str| (id, Failure::new(ErrorCode::InvalidRequest, message));
    let Value::Object(mut members) = value else {
        return Err(invalid(Id::Null, "a request is an object"));
    };
    let id = match members.remove("id").map(serde_json::from_value) {
        None => None,
        Some(Ok(id)) => Some(id),
        Some(Err(_)) => return Err(invalid(Id::Null, "\"id\" must be a string, a number or null")),
    };
    let known_id = id.clone().unwrap_or(Id::Null);
    if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(invalid(known_id, "\"jsonrpc\" must be \"2.0\""));
    }
    let Some(Value::String(method)) = members.remove("method") else {
        return Err(invalid(known_id, "\"method\" must be a string"));
    };
    let params = match members.remove("params") {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(params @ (Value::Object(_) | Value::Array(_))) => params,
        Some(_) => return Err(invalid(known_id, "\"params\" must be an object or an array")),
    };
    Ok(Request { id, method, params })
}

/// The text of an answer; one that gets larger than `limit` becomes an error.
pub(crate) fn encode_answer(id: &Id, outcome: &Result<Value, Failure>, limit: usize) -> String {
    match outcome {
        Ok(result) => encode_result(id, result, limit)
            .unwrap_or_else(|| encode_failure(id, &answer_too_large(limit))),
        Err(failure) => encode_failure(id, failure),
    }
}

/// The error in place of an answer that does not fit.
pub(crate) fn answer_too_large(limit: usize) -> Failure {
    Failure::new(
        ErrorCode::AnswerTooLarge,
        format!("the answer is larger than {limit} bytes: ask for less at a time"),
    )
}

/// The text of an error.
pub(crate) fn encode_failure(id: &Id, failure: &Failure) -> String {
    let mut error = json!({ "code": failure.code.number(), "message": failure.message });
    if let Some(data) = &failure.data {
        error["data"] = data.clone();
    }
    json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string()
}

/// The text of a notification to the client.
pub(crate) fn encode_notification(method: &str, params: &impl Serialize) -> String {
    json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()
}

fn encode_result(id: &Id, result: &Value, limit: usize) -> Option<String> {
    #[derive(Serialize)]
    struct Answer<'a> {
        jsonrpc: &'static str,
        id: &'a Id,
        result: &'a Value,
    }
    let mut text = BoundedText { bytes: Vec::new(), limit };
    serde_json::to_writer(&mut text, &Answer { jsonrpc: "2.0", id, result }).ok()?;
    String::from_utf8(text.bytes).ok()
}

/// Refuses to grow beyond its limit.
struct BoundedText {
    bytes: Vec<u8>,
    limit: usize,
}

impl Write for BoundedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn code_of(text: &str) -> Option<ErrorCode> {
        match parse(text.as_bytes(), &Limits::default()) {
            Err(failure) | Ok(Incoming::Single(Err((_, failure)))) => Some(failure.code),
            Ok(_) => None,
        }
    }

    #[test]
    fn requests_are_told_from_what_is_none() {
        for (text, code) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#, None),
            (r#"{"jsonrpc":"2.0","id":"x","method":"m","params":[1]}"#, None),
            (r#"{"jsonrpc":"2.0","id":null,"method":"m","params":null}"#, None),
            (r#" {"jsonrpc":"2.0","method":"m"} "#, None),
            (r#"[{"jsonrpc":"2.0","method":"m"}]"#, None),
            ("", Some(ErrorCode::Parse)),
            ("{", Some(ErrorCode::Parse)),
            (r#"{"jsonrpc":"2.0","method":"m"} x"#, Some(ErrorCode::Parse)),
            ("[]", Some(ErrorCode::InvalidRequest)),
            ("1", Some(ErrorCode::InvalidRequest)),
            ("{}", Some(ErrorCode::InvalidRequest)),
            (r#"{"id":1,"method":"m"}"#, Some(ErrorCode::InvalidRequest)),
            (r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#, Some(ErrorCode::InvalidRequest)),
            (r#"{"jsonrpc":"2.0","id":[],"method":"m"}"#, Some(ErrorCode::InvalidRequest)),
            (r#"{"jsonrpc":"2.0","id":1,"method":2}"#, Some(ErrorCode::InvalidRequest)),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","params":3}"#,
                Some(ErrorCode::InvalidRequest),
            ),
        ] {
            assert_eq!(code_of(text), code, "{text}");
        }
    }

    #[test]
    fn an_invalid_request_keeps_its_id() {
        let parsed = parse(br#"{"jsonrpc":"2.0","id":7,"method":2}"#, &Limits::default()).unwrap();
        let Incoming::Single(Err((id, _))) = parsed else { panic!("{parsed:?}") };
        assert_eq!(id, Id::Number(7.into()));
    }

    #[test]
    fn a_batch_keeps_good_requests_beside_bad_ones() {
        let text = br#"[1, {"jsonrpc":"2.0","id":1,"method":"m"}]"#;
        let Ok(Incoming::Batch(entries)) = parse(text, &Limits::default()) else { panic!() };
        assert!(entries[0].is_err() && entries[1].is_ok());
    }

    #[test]
    fn answers_that_do_not_fit_become_errors() {
        let id = Id::Number(1.into());
        let fits = encode_answer(&id, &Ok(json!("x".repeat(10))), 100);
        assert_eq!(fits, r#"{"jsonrpc":"2.0","id":1,"result":"xxxxxxxxxx"}"#);
        let large = encode_answer(&id, &Ok(json!("x".repeat(100))), 100);
        let error: Value = serde_json::from_str(&large).unwrap();
        assert_eq!(error["error"]["code"], ErrorCode::AnswerTooLarge.number());
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes, &Limits::default());
        }

        #[test]
        fn no_text_near_a_request_is_too_odd(text in r#"[\[{]?\{("jsonrpc"|"id"|"method"|"params"|:|,|"2\.0"|[0-9eE.+-]|\[|\]|\{|\}|null){0,20}"#) {
            let _ = parse(text.as_bytes(), &Limits::default());
        }
    }
}
