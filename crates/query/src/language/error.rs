//! What is wrong with a query, shown where it is:
//!
//! ```text
//! expected a type of event, found `stroe`
//!   goto backward stroe x
//!                 ^^^^^ did you mean `store`?
//! ```

use std::fmt;
use std::ops::Range;

use super::{LENGTH_LIMIT, NESTING_LIMIT};

/// Characters of a query that are shown around a mistake.
const SHOWN: usize = 100;

/// Characters of those that are shown before it.
const SHOWN_BEFORE: usize = 60;

/// Characters of a word that are repeated in a message.
const REPEATED: usize = 40;

/// The longest word that similar words are looked up for.
const SIMILAR_LIMIT: usize = 32;

/// What is wrong with a query.
///
/// As text: the problem, the line with the place marked, and what can be done about it. Queries may come from
/// anywhere; what is repeated of them has no control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// What is wrong.
    pub problem: Problem,
    /// Where, in bytes of the query.
    pub span: Range<usize>,
    /// What can be done about it.
    pub advice: Option<String>,
    excerpt: Option<Box<Excerpt>>,
}

/// What can be wrong with a query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It is too long to be looked at.
    #[error("the query is longer than {LENGTH_LIMIT} bytes")]
    TooLong,
    /// Brackets or negations are too deep within each other.
    #[error("more than {NESTING_LIMIT} brackets or negations within each other")]
    TooDeep,
    /// Something else stands where this was expected.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// What could stand there.
        expected: &'static str,
        /// What does.
        found: String,
    },
    /// A number is too large for what it stands for.
    #[error("{what} is larger than {largest}")]
    TooLarge {
        /// What it stands for.
        what: &'static str,
        /// How large that can be.
        largest: &'static str,
    },
    /// Counts begin with the first.
    #[error("a count of 0 leads nowhere")]
    CountOfZero,
    /// No kernel has such a call.
    #[error("there is no system call {0}")]
    UnknownSyscall(String),
    /// There is no such signal.
    #[error("there is no signal {0}")]
    UnknownSignal(String),
    /// A part of memory has no bytes.
    #[error("0 bytes of memory can be neither read nor written")]
    NoBytes,
    /// A part of memory is longer than the memory behind its start.
    #[error("this goes past the end of the address space")]
    PastTheEnd,
    /// The last line is before the first, or there is a line 0.
    #[error("there are no such lines")]
    NoLines,
    /// A bracket is open at the end, or at a closing bracket of another kind.
    #[error("this `{0}` is never closed")]
    Unclosed(char),
    /// A text has no second quote.
    #[error("this text has no end")]
    OpenText,
    /// Something would be assigned.
    #[error("`{0}` would change the program")]
    Assignment(String),
    /// An operator lacks an operand.
    #[error("a value is missing {side} `{sign}`")]
    MissingValue {
        /// Before or behind it.
        side: &'static str,
        /// The operator.
        sign: String,
    },
    /// A word of ours is part of more than one comparison.
    #[error("`{0}` can be compared with one thing at a time")]
    Chain(String),
    /// A word of ours is compared with something that C would not compare it with.
    #[error("`{operator}` binds less tightly than the comparison of `{word}`")]
    LooseOperator {
        /// The word.
        word: String,
        /// The operator.
        operator: String,
    },
    /// `time` on the wrong side.
    #[error("`time` stands on the left of a comparison")]
    TimeBehind,
    /// `!` before a word of ours.
    #[error("`!` before `{0}` does not mean the whole comparison")]
    NegatedWord(String),
    /// A word that joins conditions stands within an expression.
    #[error("`{0}` joins conditions and cannot be part of an expression")]
    JoinInExpression(String),
    /// `a ? b : c` is open to both sides.
    #[error("`?` can be used only within parentheses")]
    Conditional,
}

/// The line of a query that something is wrong with, or a part of it, and what to mark, in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Excerpt {
    line: String,
    mark: Range<usize>,
}

impl ParseError {
    pub(super) fn new(query: &str, span: Range<usize>, problem: Problem) -> ParseError {
        let excerpt = (problem != Problem::TooLong).then(|| Box::new(Excerpt::new(query, &span)));
        ParseError { problem, span, advice: None, excerpt }
    }

    pub(super) fn advise(mut self, advice: impl Into<String>) -> ParseError {
        self.advice.get_or_insert(advice.into());
        self
    }

    /// Advises the most similar word, if one is similar at all.
    pub(super) fn suggest<'a>(
        self,
        written: &str,
        words: impl IntoIterator<Item = &'a str>,
    ) -> ParseError {
        match most_similar(written, words) {
            Some(word) => self.advise(format!("did you mean `{word}`?")),
            None => self,
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}", self.problem)?;
        let advice = self.advice.as_deref().unwrap_or("");
        if let Some(Excerpt { line, mark }) = self.excerpt.as_deref() {
            let marked = format!("{}{}", " ".repeat(mark.start), "^".repeat(mark.len()));
            write!(out, "\n  {line}\n  {marked}")?;
            if !advice.is_empty() {
                write!(out, " {advice}")?;
            }
        } else if !advice.is_empty() {
            write!(out, "; {advice}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ParseError {}

impl Excerpt {
    fn new(query: &str, span: &Range<usize>) -> Excerpt {
        let start = query[..span.start].rfind('\n').map_or(0, |at| at + 1);
        let end = query[span.start..].find('\n').map_or(query.len(), |at| span.start + at);
        let before = query[start..span.start].chars().count();
        let marked = query[span.start..span.end.min(end)].chars().count().max(1);
        let total = query[start..end].chars().count();

        let skipped = if total > SHOWN { before.saturating_sub(SHOWN_BEFORE) } else { 0 };
        let cut = if skipped > 0 { "…" } else { "" };
        let shown: String = query[start..end].chars().skip(skipped).take(SHOWN).collect();
        let more = if total > skipped + SHOWN { "…" } else { "" };
        let mark_start = before - skipped + cut.chars().count();
        // The mark of what is missing at the end stands one behind the line.
        let mark_end = mark_start + marked.min(SHOWN + 1 - (before - skipped));
        Excerpt { line: format!("{cut}{}{more}", printable(&shown)), mark: mark_start..mark_end }
    }
}

/// Without characters that would do something to a terminal.
fn printable(text: &str) -> String {
    let replace = |character: char| match character {
        '\t' => ' ',
        control if control.is_control() => '\u{fffd}',
        // Directions and invisible characters make a text look like another.
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        other => other,
    };
    text.chars().map(replace).collect()
}

/// A piece of a query as it is repeated in a message.
pub(super) fn quoted(text: &str) -> String {
    let text = printable(text);
    match text.char_indices().nth(REPEATED) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

/// The word that takes the fewest changes, and not more than one for three letters.
fn most_similar<'a>(written: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if written.len() > SIMILAR_LIMIT {
        return None;
    }
    let written = written.to_lowercase();
    let distance = |word: &str| strsim::damerau_levenshtein(&written, &word.to_lowercase());
    let allowed = (written.chars().count() / 3).max(1);
    let ranked = words.into_iter().map(|word| (distance(word), word));
    // A word of one letter is one change away from every other.
    let similar = ranked.filter(|(distance, word)| *distance <= allowed && *distance < word.len());
    similar.min_by_key(|(distance, _)| *distance).map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_words_are_found() {
        let words = ["store", "func_enter", "func_exit", "load", "b"];
        for (written, expected) in [
            ("stroe", Some("store")),
            ("Store", Some("store")),
            ("func_entry", Some("func_enter")),
            ("funcexit", Some("func_exit")),
            ("laod", Some("load")),
            ("x", None),
            ("main", None),
            ("", None),
        ] {
            assert_eq!(most_similar(written, words), expected, "{written}");
        }
    }

    #[test]
    fn long_lines_are_cut_around_the_mistake() {
        let query = format!("{} here {}", "a".repeat(500), "b".repeat(500));
        let Excerpt { line, mark } = Excerpt::new(&query, &(501..505));
        let marked: String = line.chars().skip(mark.start).take(mark.len()).collect();
        assert_eq!(marked, "here");
        assert_eq!(line.chars().count(), SHOWN + 2);
    }

    #[test]
    fn only_the_line_with_the_mistake_is_shown() {
        let Excerpt { line, mark } = Excerpt::new("goto\n\tstöre\nx", &(6..12));
        assert_eq!((line.as_str(), mark), (" störe", 1..6));
    }

    #[test]
    fn what_is_missing_is_marked_behind_the_line() {
        for length in [0, 10, SHOWN, 5 * SHOWN] {
            let query = "a".repeat(length);
            let Excerpt { line, mark } = Excerpt::new(&query, &(length..length));
            assert_eq!(mark.end, line.chars().count() + 1, "{length}");
            assert_eq!(mark.len(), 1);
        }
    }

    #[test]
    fn nothing_reaches_the_terminal_but_text() {
        let error =
            ParseError::new("a\x1b[31m\u{202e}", 1..2, Problem::UnknownSignal(quoted("\x07")));
        assert!(error.to_string().chars().all(|shown| shown == '\n' || !shown.is_control()));
    }
}
