//! Replaying under bad conditions: recordings that are damaged, that a stranger has made to do harm, or that were made
//! by another processor, and machines on which there is nothing but the recording.
//!
//! What is demanded is always the same: `retro` says what is wrong and where, or the replay is right. It never crashes,
//! never waits for ever, and never takes one thing for another. `RETRO_BINARY=path` tests another `retro`.

#[path = "replay/another_processor.rs"]
mod another_processor;
#[path = "replay/damage.rs"]
mod damage;
#[path = "replay/empty_root.rs"]
mod empty_root;
#[path = "replay/forged.rs"]
mod forged;
#[path = "replay/hostile.rs"]
mod hostile;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use retro_testkit::compare::{Outcome, run};
use retro_testkit::programs::scratch::Scratch;

/// Far more than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(60);

fn retro_path() -> PathBuf {
    std::env::var_os("RETRO_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_retro").into()).into()
}

/// A directory of one test, with a store of its own.
struct Place(Scratch);

impl Place {
    fn new(name: &str) -> Place {
        Place(Scratch::new(name))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Where the recording of this test is.
    fn recording(&self) -> PathBuf {
        self.path().join("recording")
    }

    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path()).env("XDG_DATA_HOME", self.path()).env_remove("RETRO_DIR");
        // Most recordings here are damaged afterwards.
        command.env("RETRO_NO_INDEX", "1");
        command
    }

    /// `retro ARGUMENTS...`, run to its end.
    fn retro(&self, arguments: &[&str]) -> Outcome {
        run(self.command(retro_path()).args(arguments), TIMEOUT)
    }

    /// Records a command, which succeeds.
    #[track_caller]
    fn record(&self, options: &[&str], command: &[&str]) -> Outcome {
        let all = [&["record", "--quiet", "-o", "recording"], options, &["--"], command].concat();
        let outcome = self.retro(&all);
        assert!(self.recording().join("log").exists(), "{}", text(&outcome.stderr));
        outcome
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
