//! What `retro record` says at the end: one line of facts, which can be silenced, and what went wrong, which
//! cannot.

use std::fmt::Write;
use std::time::Duration;

use retro_abi::channel::Unrecorded;
use retro_recorder::{Fate, Summary};

use crate::message::{complain, notify};
use crate::supervise::Finale;
use crate::{quantity, quoting, wording};

/// A recorded run.
pub struct Report {
    /// What the recording is called.
    pub name: String,
    /// How the program ended.
    pub finale: Finale,
    /// How long it ran.
    pub duration: Duration,
    /// The seed of the chaos scheduler.
    pub chaos: Option<u64>,
    /// Whether an indexer is at work.
    pub is_indexed: bool,
}

impl Report {
    /// Prints everything, or only what went wrong.
    pub fn print(&self, fate: &Fate, quiet: bool) {
        for trouble in self.troubles(fate) {
            complain(&trouble);
        }
        if let Some(facts) = self.facts(fate)
            && !quiet
        {
            notify(&facts);
        }
    }

    fn facts(&self, fate: &Fate) -> Option<String> {
        let name = quoting::shell_word(self.name.as_bytes());
        let duration = quantity::duration(self.duration);
        let ending = wording::ending(self.finale.ending, self.finale.core_dumped);
        let mut text = match fate {
            Fate::Finished(summary) => {
                format!("recorded {name}: {}, {ending}", what_was_recorded(summary, &duration))
            }
            Fate::Continues { processes: 0 } => format!(
                "recorded {name}: ran {duration}, {ending}; the recorder is still writing to the disk"
            ),
            Fate::Continues { processes } => {
                let verb = if *processes == 1 { "is" } else { "are" };
                let processes =
                    quantity::counted(*processes, "background process", "background processes");
                format!(
                    "recording {name}: ran {duration}, {ending}; {processes} {verb} still being recorded"
                )
            }
            // What went wrong tells it already.
            Fate::Lost { .. } => return None,
        };
        if let Some(seed) = self.chaos {
            let _ = write!(text, ", chaos seed {seed}");
        }
        if self.is_indexed {
            text += "; indexing goes on in the background";
        }
        Some(text)
    }

    fn troubles(&self, fate: &Fate) -> Vec<String> {
        let name = quoting::shell_word(self.name.as_bytes());
        let mut troubles = Vec::new();
        match fate {
            Fate::Continues { .. } => {}
            Fate::Lost { signal } => {
                let how = match signal {
                    Some(signal) => {
                        format!("was killed by {}", wording::signal(signal.cast_unsigned()))
                    }
                    None => "ended before its time".to_string(),
                };
                let ending = wording::ending(self.finale.ending, self.finale.core_dumped);
                troubles.push(format!(
                    "the recorder {how}: {name} holds what it had written until then; the program {ending}"
                ));
            }
            Fate::Finished(summary) => {
                if let Some(reason) = &summary.failure {
                    troubles.push(format!(
                        "{name} is not complete, recording stopped before the end: {}",
                        quoting::printable(reason.as_bytes())
                    ));
                }
                let reasons = Unrecorded::ALL.into_iter().zip(summary.unrecorded);
                for (why, count) in reasons.filter(|(_, count)| *count > 0) {
                    let processes = quantity::counted(count, "process", "processes");
                    let why = wording::unrecorded(why);
                    troubles.push(format!("{processes} ran unrecorded: {why}"));
                }
                if summary.damaged > 0 {
                    let logs = quantity::counted(summary.damaged, "log", "logs");
                    troubles.push(format!(
                        "{logs} had to be dropped: the program overwrote memory that it shares with the recorder"
                    ));
                }
            }
        }
        troubles
    }
}

fn what_was_recorded(summary: &Summary, duration: &str) -> String {
    // Programs, since a process that executes another program counts again.
    let processes = match summary.processes {
        1 => "1 process".to_string(),
        many => quantity::counted(many, "program", "programs"),
    };
    let bits = match summary.bits_per_instruction() {
        Some(bits) => format!(", {} bits/instruction", significant(bits)),
        None => String::new(),
    };
    format!(
        "{} instructions in {duration} ({processes}), log {}{bits}",
        quantity::scaled(summary.instructions),
        quantity::bytes(summary.file_bytes)
    )
}

/// Two digits that matter, for small numbers.
fn significant(value: f64) -> String {
    match value {
        ..0.001 => format!("{value:.5}"),
        ..0.1 => format!("{value:.3}"),
        ..10.0 => format!("{value:.2}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use retro_recorder::Ending;

    fn report(ending: Ending, core_dumped: bool) -> Report {
        let finale = Finale { ending, core_dumped };
        let duration = Duration::from_millis(2_900);
        Report { name: "gzip-3".into(), finale, duration, chaos: None, is_indexed: false }
    }

    fn summary() -> Summary {
        Summary {
            instructions: 3_210_000_000,
            log_bytes: 9_000_000,
            file_bytes: 4_100_000,
            processes: 1,
            ..Summary::default()
        }
    }

    #[test]
    fn one_line_tells_the_facts() {
        let plain = report(Ending::Exited(0), false);
        assert_eq!(
            plain.facts(&Fate::Finished(summary())).unwrap(),
            "recorded gzip-3: 3.21 G instructions in 2.9 s (1 process), log 4.10 MB, \
             0.010 bits/instruction, exited with status 0"
        );
        let crash = Report { chaos: Some(42), ..report(Ending::Killed(11), true) };
        let many = Summary { processes: 12, ..summary() };
        let text = crash.facts(&Fate::Finished(many)).unwrap();
        assert!(
            text.contains("(12 programs)")
                && text.ends_with("killed by SIGSEGV (core dumped), chaos seed 42"),
            "{text}"
        );
        let indexed = Report { is_indexed: true, ..report(Ending::Exited(0), false) };
        let text = indexed.facts(&Fate::Finished(summary())).unwrap();
        assert!(text.ends_with("status 0; indexing goes on in the background"), "{text}");
        let text = plain.facts(&Fate::Continues { processes: 1 }).unwrap();
        assert!(text.ends_with("1 background process is still being recorded"), "{text}");
    }

    #[test]
    fn what_went_wrong_is_told_apart() {
        let report = report(Ending::Exited(3), false);
        assert!(report.troubles(&Fate::Finished(summary())).is_empty());
        let lost = Fate::Lost { signal: Some(9) };
        assert!(report.facts(&lost).is_none());
        let text = report.troubles(&lost).concat();
        assert!(
            text.contains("the recorder was killed by SIGKILL")
                && text.ends_with("exited with status 3"),
            "{text}"
        );
        let trouble = Summary {
            failure: Some("cannot write the log: No space left on device".into()),
            unrecorded: [0, 2, 0, 1],
            damaged: 1,
            ..summary()
        };
        let troubles = report.troubles(&Fate::Finished(trouble));
        assert_eq!(troubles.len(), 4);
        assert!(troubles[0].contains("No space left"), "{troubles:?}");
        assert_eq!(troubles[1], "2 processes ran unrecorded: recording had stopped before");
        assert!(troubles[2].starts_with("1 process ran unrecorded: no access"), "{troubles:?}");
    }
}
