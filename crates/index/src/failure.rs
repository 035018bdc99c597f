//! Why an interval cannot be replayed, as far as it is kept in the index.
//!
//! What a replay process says is said by the code of the recording: it is shown, made harmless, to whoever replays it, but
//! never stored. The note in the index has a word of ours for what happened, and numbers for where.

use std::fmt;

use retro_replayer::{Divergence, Error as ReplayError};

/// First word of a note.
const FORMAT: &str = "retro-failure-1";

/// Longer than any note.
pub(crate) const NOTE_LIMIT: u64 = 256;

/// Why an interval could not be replayed when it was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The replay is not what was recorded.
    Diverged {
        /// The time.
        time: u64,
        /// The thread that ran.
        thread: u32,
        /// Where it was.
        pc: u64,
    },
    /// The replay process said that it cannot go on.
    Failed,
    /// The replay process died, or said something that makes no sense.
    Crashed,
    /// The processor lacks something.
    Unfit,
    /// A part of the log is missing.
    Incomplete,
    /// The recording cannot be read.
    Unreadable,
    /// There was no process to replay it.
    NoProcess,
}

impl Cause {
    pub(crate) fn of(error: &ReplayError) -> Cause {
        match error {
            ReplayError::Diverged(divergence) => {
                let Divergence { time, thread, pc, .. } = **divergence;
                Cause::Diverged { time, thread, pc }
            }
            ReplayError::Failed(_) => Cause::Failed,
            ReplayError::Unfit(_) => Cause::Unfit,
            ReplayError::Incomplete { .. } => Cause::Incomplete,
            ReplayError::Recording(_) => Cause::Unreadable,
            ReplayError::Start(_) => Cause::NoProcess,
            _ => Cause::Crashed,
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Cause::Diverged { .. } => "diverged",
            Cause::Failed => "failed",
            Cause::Crashed => "crashed",
            Cause::Unfit => "unfit",
            Cause::Incomplete => "incomplete",
            Cause::Unreadable => "unreadable",
            Cause::NoProcess => "no-process",
        }
    }

    pub(crate) fn to_note(self) -> String {
        let (time, thread, pc) = match self {
            Cause::Diverged { time, thread, pc } => (time, thread, pc),
            _ => (0, 0, 0),
        };
        format!("{FORMAT} {} {time} {thread} {pc}\n", self.word())
    }

    /// None for what was not written by us.
    pub(crate) fn from_note(note: &[u8]) -> Option<Cause> {
        let mut words = std::str::from_utf8(note).ok()?.trim_end().split(' ');
        let mut next = || words.next();
        if next()? != FORMAT {
            return None;
        }
        let word = next()?;
        let (time, thread, pc) =
            (next()?.parse().ok()?, next()?.parse().ok()?, next()?.parse().ok()?);
        let all = [
            Cause::Diverged { time, thread, pc },
            Cause::Failed,
            Cause::Crashed,
            Cause::Unfit,
            Cause::Incomplete,
            Cause::Unreadable,
            Cause::NoProcess,
        ];
        all.into_iter().find(|cause| cause.word() == word && next().is_none())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Diverged { time, thread, pc } => write!(
                f,
                "the replay is not what was recorded at time {time}, thread {thread}, pc {pc:#x}"
            ),
            Cause::Failed => f.write_str("the replay cannot go on"),
            Cause::Crashed => f.write_str("the replay process crashed"),
            Cause::Unfit => f.write_str("this processor cannot execute what the run executed"),
            Cause::Incomplete => f.write_str("a part of the log is missing"),
            Cause::Unreadable => f.write_str("the recording cannot be read"),
            Cause::NoProcess => f.write_str("no replay process could be started"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_has_no_words_of_others() {
        let (time, thread, pc) = (u64::MAX, 7, 0x1000);
        let text = "rm -rf ~".to_owned();
        let divergence = Divergence { time, thread, pc, events: 3, text: text.clone() };
        for (error, expected) in [
            (ReplayError::Diverged(Box::new(divergence)), Cause::Diverged { time, thread, pc }),
            (ReplayError::Failed(text.clone()), Cause::Failed),
            (ReplayError::Crashed(text.clone()), Cause::Crashed),
        ] {
            let cause = Cause::of(&error);
            assert_eq!(cause, expected);
            let note = cause.to_note();
            assert!(!note.contains("rm") && note.len() as u64 <= NOTE_LIMIT, "{note}");
            assert_eq!(Cause::from_note(note.as_bytes()), Some(cause));
        }
    }

    #[test]
    fn other_notes_are_none() {
        for note in [
            "",
            "rm -rf ~",
            "retro-failure-1",
            "retro-failure-1 exploded 0 0 0",
            "retro-failure-1 crashed 0 0",
            "retro-failure-1 crashed 0 0 0 more",
            "retro-failure-1 diverged x 0 0",
            "retro-failure-1 diverged 1 4294967296 0",
        ] {
            assert_eq!(Cause::from_note(note.as_bytes()), None, "{note}");
        }
        assert_eq!(Cause::from_note(&[0xff, 0xfe]), None);
    }
}
