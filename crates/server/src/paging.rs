//! Long answers in pages.
//!
//! The server remembers nothing between requests, so that a cursor holds all that is needed to go on: a position, in the
//! method's own type. It also holds a fingerprint of the question, so that a cursor that is sent with another question
//! is refused and not misunderstood. It is opaque but not secret, and a client can make one up: a method must treat the
//! position like any other parameter.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::service::MethodError;

/// Items of a page when the client does not say.
const DEFAULT_LIMIT: u32 = 100;

/// Items that a page has at most.
const HIGHEST_LIMIT: u32 = 10_000;

/// Parameters of every method with a long answer; flatten it into the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageRequest {
    /// How many items to return at most: 100 unless given, never more than 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub limit: Option<u32>,
    /// The `next` of the page before, together with otherwise the same parameters; absent for the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A part of a long answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Page<T> {
    /// The items of this page; may be fewer than asked for, even none, though there are more.
    pub items: Vec<T>,
    /// The cursor of the next page; absent if this is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Where a page begins, in whatever form suits the method.
pub trait Position: Serialize + DeserializeOwned {}

impl<P: Serialize + DeserializeOwned> Position for P {}

/// One page to be filled.
#[derive(Debug)]
pub struct Pager<P> {
    /// Where to go on; none at the beginning. As trustworthy as a parameter.
    pub start: Option<P>,
    /// How many items the page may get; at least 1.
    pub limit: usize,
    question: u32,
}

impl<P: Position> Pager<P> {
    pub(crate) fn new(question: u32, page: &PageRequest) -> Result<Pager<P>, MethodError> {
        let limit = page.limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=HIGHEST_LIMIT).contains(&limit) {
            let message = format!("\"limit\" must be from 1 to {HIGHEST_LIMIT}");
            return Err(MethodError::InvalidParams(message));
        }
        let start = page.cursor.as_deref().map(|cursor| decode(cursor, question)).transpose()?;
        Ok(Pager { start, limit: limit as usize, question })
    }

    /// The page, with a cursor if there is a position to go on from.
    pub fn page<T>(&self, items: Vec<T>, next: Option<&P>) -> Page<T> {
        Page { items, next: next.map(|position| encode(position, self.question)) }
    }
}

/// A number for a question, the same for all its pages.
pub(crate) fn fingerprint(method: &str, params: &Value) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(method.as_bytes());
    let mut add = |part: &str| {
        sum.update(&[0]);
        sum.update(part.as_bytes());
    };
    match params {
        Value::Object(members) => {
            for (name, value) in members.iter().filter(|(name, _)| !is_of_page(name)) {
                add(name);
                add(&value.to_string());
            }
        }
        other => add(&other.to_string()),
    }
    sum.finalize()
}

fn is_of_page(parameter: &str) -> bool {
    matches!(parameter, "limit" | "cursor")
}

fn encode(position: &impl Serialize, question: u32) -> String {
    let text = serde_json::to_string(position).unwrap_or_default();
    text.bytes().fold(format!("{question:08x}"), |cursor, byte| cursor + &format!("{byte:02x}"))
}

fn decode<P: Position>(cursor: &str, question: u32) -> Result<P, MethodError> {
    let of_another = || {
        MethodError::InvalidParams(
            "\"cursor\" is not one of this question: pass the \"next\" of the page before and \
             leave the other parameters as they were"
                .to_owned(),
        )
    };
    let bytes = bytes_of_hex(cursor).ok_or_else(of_another)?;
    let (of, position) = bytes.split_at_checked(4).ok_or_else(of_another)?;
    if of != question.to_be_bytes() {
        return Err(of_another());
    }
    serde_json::from_slice(position).map_err(|_| of_another())
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn pager(params: &Value, cursor: Option<String>) -> Result<Pager<(u64, String)>, MethodError> {
        Pager::new(fingerprint("m", params), &PageRequest { limit: None, cursor })
    }

    #[test]
    fn a_cursor_leads_to_its_position() {
        let params = json!({ "from": 1 });
        let first = pager(&params, None).unwrap();
        assert_eq!(first.start, None);
        let position = (u64::MAX, "ä".to_owned());
        let next = first.page(vec![0], Some(&position)).next;
        let with_cursor = json!({ "from": 1, "cursor": next, "limit": 3 });
        assert_eq!(pager(&with_cursor, next).unwrap().start, Some(position));
    }

    #[test]
    fn a_cursor_of_another_question_is_refused() {
        let next =
            pager(&json!({ "from": 1 }), None).unwrap().page(vec![0], Some(&(1, String::new())));
        assert!(pager(&json!({ "from": 2 }), next.next).is_err());
    }

    #[test]
    fn limits_are_checked() {
        for (limit, good) in [(0, false), (1, true), (10_000, true), (10_001, false)] {
            let page = PageRequest { limit: Some(limit), cursor: None };
            assert_eq!(Pager::<u64>::new(0, &page).is_ok(), good, "{limit}");
        }
    }

    proptest! {
        #[test]
        fn made_up_cursors_do_no_harm(cursor in ".{0,40}|[0-9a-f]{0,60}|00000000[0-9a-f]{0,60}") {
            let _ = Pager::<(u64, String)>::new(0, &PageRequest { limit: None, cursor: Some(cursor) });
        }
    }
}
