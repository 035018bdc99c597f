//! Judging a recording by what a reader finds in it.
//!
//! A recorded run that looks right from outside may still have a log that no replay could use. The checks here
//! read every event of every log and hold them against each other and against the run: times, threads, system
//! calls, counts, the tree of processes, and what parents were told about the ends of their children.
//!
//! ```text
//! wait_for ─► examine ─► story (one log, event by event)
//!                └─────► family (logs against each other)
//! ```
//!
//! Invariant: everything demanded here follows from docs/format.md and the contract of the log; nothing is
//! demanded of a log whose process was killed that a killed process could not have kept.

mod family;
mod memory;
mod story;

use std::path::Path;
use std::time::{Duration, Instant};

use retro_recording::{Recording, RunOutcome, State};

pub use family::WaitStatus;
pub use memory::Memory;
pub use story::Story;

use crate::compare::Ending;

/// A recording and what its logs tell.
#[derive(Debug)]
pub struct Examined {
    /// The recording.
    pub recording: Recording,
    /// The logs, by number.
    pub stories: Vec<Story>,
    /// What is wrong, in words; empty for a sound recording.
    pub problems: Vec<String>,
}

impl Examined {
    /// The story of a log.
    ///
    /// # Panics
    /// When there is no such log.
    pub fn story(&self, log: u64) -> &Story {
        let found = self.stories.iter().find(|story| story.log == log);
        found.unwrap_or_else(|| panic!("the recording has no log {log}"))
    }

    /// Fails the test unless everything that is there makes sense, complete or not.
    ///
    /// # Panics
    /// When something is wrong with the recording.
    #[track_caller]
    pub fn assert_sound(&self) {
        assert!(
            self.problems.is_empty(),
            "the recording in {} is not sound:\n  {}",
            self.recording.directory().display(),
            self.problems.join("\n  ")
        );
    }
}

/// Opens a recording, waiting for its recorder to be done: background processes may outlive the command.
///
/// # Panics
/// When it cannot be opened, or its recorder takes longer than `patience`.
#[track_caller]
pub fn wait_for(directory: &Path, patience: Duration) -> Recording {
    let deadline = Instant::now() + patience;
    loop {
        let recording =
            Recording::open(directory).unwrap_or_else(|error| panic!("cannot open it: {error}"));
        if recording.state() != State::Running {
            return recording;
        }
        assert!(Instant::now() < deadline, "{} is still being written", directory.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reads all of a recording.
pub fn examine(recording: Recording) -> Examined {
    let mut problems = Vec::new();
    let mut stories = Vec::new();
    for process in recording.processes() {
        let story = Story::read(&recording, process);
        problems.extend(story.problems.iter().map(|text| format!("log {}: {text}", story.log)));
        stories.push(story);
    }
    problems.extend(family::problems(&recording, &stories));
    Examined { recording, stories, problems }
}

/// Fails the test unless the recording is complete and sound and tells of a run that ended like this.
///
/// # Panics
/// When it is not.
#[track_caller]
pub fn assert_complete(directory: &Path, ending: Ending) -> Examined {
    let examined = assert_finished(directory, ending);
    let end = examined.recording.end().expect("a finished recording has an end");
    assert_eq!(end.unrecorded, [0; 4], "everything was recorded");
    examined
}

/// As [`assert_complete`], for programs that are known to execute others which cannot be recorded.
///
/// # Panics
/// When it is not.
#[track_caller]
pub fn assert_finished(directory: &Path, ending: Ending) -> Examined {
    let recording = wait_for(directory, Duration::from_secs(30));
    assert_eq!(recording.state(), State::Finished, "the recorder did not finish");
    assert_eq!(recording.damage(), None, "the recording is damaged");
    recording.verify().unwrap_or_else(|error| panic!("{error}"));
    let end = recording.end().expect("a finished recording has an end");
    assert_eq!(end.outcome, outcome(ending), "how the run ended");
    assert_eq!(end.stopped, None, "recording went on to the end");
    let mut examined = examine(recording);
    examined.problems.extend(family::first_process_problem(&examined, ending));
    examined.assert_sound();
    examined
}

fn outcome(ending: Ending) -> RunOutcome {
    match ending {
        Ending::Exited(status) => RunOutcome::Exited(status.cast_unsigned()),
        Ending::Signaled(signal) => RunOutcome::Signalled(signal.cast_unsigned()),
        Ending::TimedOut => RunOutcome::Unknown,
    }
}
