//! Why expressions had no value.
//!
//! A name may mean nothing at one event and something at the next, so that a search goes on. If it ends without a
//! result, a name that never meant anything is told: it is likely to be misspelled.

use std::collections::HashMap;

use retro_symbols::EvaluationError;

use crate::Error;

/// Why expressions had no value. If nothing was found, one that never had one may be the reason.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    /// Names that meant nothing, and how often.
    unknown: HashMap<String, u64>,
    /// What else was wrong at the first event for which something was.
    other: Option<String>,
    /// Expressions that had a value.
    evaluated: Vec<String>,
    has_value: bool,
}

/// Texts of expressions that are remembered.
const TEXTS: usize = 64;

impl Complaints {
    /// An expression had a value.
    pub(super) fn had_value(&mut self, text: &str) {
        self.has_value = true;
        if self.evaluated.len() < TEXTS && !self.evaluated.iter().any(|known| known == text) {
            self.evaluated.push(text.to_owned());
        }
    }

    /// Remembers why there was no value; an error if there never will be one.
    pub(super) fn had_none(&mut self, error: EvaluationError) -> Result<(), Error> {
        match error {
            EvaluationError::Parse(_) | EvaluationError::UnknownRegister(_) => {
                return Err(Error::Expression(error.to_string()));
            }
            EvaluationError::UnknownName(name) | EvaluationError::UnknownType(name) => {
                if self.unknown.len() < TEXTS {
                    *self.unknown.entry(name).or_default() += 1;
                }
            }
            EvaluationError::NoMember { .. } | EvaluationError::Unsuitable(_) => {
                self.other.get_or_insert_with(|| error.to_string());
            }
            // Another time there may be a value.
            EvaluationError::RegisterLost(_)
            | EvaluationError::Absent { .. }
            | EvaluationError::DivisionByZero
            | EvaluationError::NotInMemory(_)
            | EvaluationError::ThreadLocal(..) => self.has_value = true,
        }
        Ok(())
    }

    /// What is stored to is of a type whose values are no numbers, or too large for one.
    pub(super) fn is_no_number(&mut self, type_name: Option<String>) {
        self.other.get_or_insert_with(|| {
            let what = type_name.map_or("such memory".to_owned(), |name| format!("a `{name}`"));
            format!("`oldval` and `newval` are numbers, and {what} is none: name a member or a part of it")
        });
    }

    /// What was wrong at every event.
    pub(super) fn verdict(&self) -> Option<Error> {
        let is_part = |name: &str| self.evaluated.iter().any(|text| has_word(text, name));
        let never = self.unknown.iter().find(|(name, _)| !is_part(name));
        if let Some((name, times)) = never {
            return Some(Error::Unknown(format!(
                "`{name}` means nothing at any of the {times} events that were tried: check its name, or write \
                 `'file.c'::{name}` or `function::{name}`"
            )));
        }
        let other = self.other.as_ref().filter(|_| !self.has_value);
        other.map(|text| Error::Expression(text.clone()))
    }
}

/// Whether a name is a word of a text.
fn has_word(text: &str, name: &str) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(name).any(|(at, _)| {
        !text[..at].ends_with(is_word) && !text[at + name.len()..].starts_with(is_word)
    })
}
