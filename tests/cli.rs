//! The `retro` command as its user meets it: texts, errors, exit statuses, and how little of it a
//! program that runs under it can notice.

#[path = "cli/counters.rs"]
mod counters;
#[path = "cli/damage.rs"]
mod damage;
#[path = "cli/dumps.rs"]
mod dumps;
#[path = "cli/endings.rs"]
mod endings;
#[path = "cli/errors.rs"]
mod errors;
#[path = "cli/flushing.rs"]
mod flushing;
#[path = "cli/hostile.rs"]
mod hostile;
#[path = "cli/index.rs"]
mod index;
#[path = "cli/passing.rs"]
mod passing;
#[path = "cli/query.rs"]
mod query;
#[path = "cli/query_errors.rs"]
mod query_errors;
#[path = "cli/query_programs.rs"]
mod query_programs;
#[path = "cli/query_steps.rs"]
mod query_steps;
#[path = "cli/recordings.rs"]
mod recordings;
#[path = "cli/replay.rs"]
mod replay;
#[path = "cli/serve.rs"]
mod serve;
#[path = "cli/session.rs"]
mod session;
#[path = "cli/signals.rs"]
mod signals;
#[path = "cli/store.rs"]
mod store;
#[path = "cli/terminal.rs"]
mod terminal;
#[path = "cli/texts.rs"]
mod texts;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::OnceLock;
use std::time::Duration;
use std::{env, fs};

use retro_testkit::compare::{Outcome, run};

const TIMEOUT: Duration = Duration::from_secs(60);

/// The ways a program is started: `retro` becomes it, supervises it, or records it.
const MODES: [&[&str]; 3] =
    [&["run"], &["run", "--stats=json"], &["record", "--quiet", "--no-index"]];

/// `RETRO_BINARY=path` tests another `retro`. From here on recordings go to a place of this process.
fn retro_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        // SAFETY: nothing in this process reads the environment but through Rust's own functions, which
        // take turns.
        unsafe { env::set_var("XDG_DATA_HOME", place_for_recordings()) };
        env::var_os("RETRO_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_retro").into()).into()
    })
}

/// A directory for recordings that nobody looks at. Nothing runs when a test process ends, so that each removes
/// what ended ones have left.
fn place_for_recordings() -> PathBuf {
    let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recordings");
    for place in fs::read_dir(&all).into_iter().flatten().flatten() {
        if !Path::new("/proc").join(place.file_name()).exists() {
            // Another process may be doing the same.
            let _ = fs::remove_dir_all(place.path());
        }
    }
    all.join(process::id().to_string())
}

/// `retro ARGUMENTS...`, run to its end. Nothing is indexed in the background.
fn retro<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Outcome {
    run(Command::new(retro_path()).args(arguments).env("RETRO_NO_INDEX", "1"), TIMEOUT)
}

/// `retro run ... -- bash -c SCRIPT`, not started yet.
fn bash(mode: &[&str], script: &str) -> Command {
    let mut command = Command::new(retro_path());
    command.args(mode).args(["--", "bash", "-c", script]);
    command
}

/// The same for perl, unbuffered. For signals: bash forgets one that arrives while it handles
/// another of the same number or is about to execute a program.
fn perl(mode: &[&str], script: &str) -> Command {
    let mut command = Command::new(retro_path());
    command.args(mode).args(["--", "perl", "-e", &format!("$| = 1; {script}")]);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
