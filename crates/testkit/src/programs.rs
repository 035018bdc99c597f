//! Real programs, run natively and under `retro`.
//!
//! A test is a shell script in `tests/programs/`. The whole process tree of the script runs under
//! the engine, so every command in it is a test subject, and the shell, too. Comments at the start
//! of the script say what it needs:
//!
//! ```text
//! # needs: sqlite3 xz      programs without which it cannot run
//! # optional: go           the same, but nobody is expected to install them
//! # seconds: 120           how long it may take under the engine (60 if not said)
//! # shell: dash            what runs it (bash if not said)
//! # stderr: varies         only stdout and the ending are compared
//! # slow                   runs only when RETRO_FULL=1 is set
//! # slow recorded          the same, but only its recorded run
//! ```
//!
//! `NAME.prepare.sh`, where it exists, runs natively before each of the two runs.
//!
//! Invariants:
//! 1. Both runs have the same directory, emptied in between, and the same small environment, so
//!    that nothing but the engine can make a difference. Recordings go elsewhere.
//! 2. A script prints nothing that depends on time, process ids or addresses.

pub mod scratch;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::compare::{self, Ending, Outcome, assert_same, difference, run, under_retro};
use crate::recordings;

use scratch::Scratch;

/// Where programs are looked for, whatever the environment of the tests says.
const PATH: &str = "/usr/bin:/bin:/usr/sbin:/sbin";

/// A script of `tests/programs/` with what its header says.
#[derive(Debug)]
pub struct Program {
    name: String,
    script: PathBuf,
    needs: Vec<String>,
    optional: Vec<String>,
    seconds: u64,
    shell: String,
    stderr_varies: bool,
    slow: bool,
    slow_recorded: bool,
}

/// What the second of the two runs goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `retro run`.
    Translated,
    /// `retro record`; the recording must be sound and complete.
    Recorded,
}

/// Recording takes longer, and is tested on machines that are busy with other tests.
const RECORDING_FACTOR: u32 = 3;

/// The directory of the scripts.
pub fn directory() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.join("../../tests/programs").canonicalize().expect("the scripts' directory exists")
}

/// The names of all scripts, sorted.
pub fn names() -> Vec<String> {
    let entries = fs::read_dir(directory()).expect("the scripts' directory can be read");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("the directory can be read").file_name())
        .filter_map(|name| Some(name.to_str()?.strip_suffix(".sh")?.to_owned()))
        .filter(|name| !name.ends_with(".prepare"))
        .collect();
    names.sort();
    names
}

impl Program {
    /// Reads the header of a script.
    ///
    /// # Panics
    /// When there is no such script or its header has an unknown entry.
    pub fn load(name: &str) -> Self {
        let script = directory().join(format!("{name}.sh"));
        let text = fs::read_to_string(&script)
            .unwrap_or_else(|error| panic!("{}: {error}", script.display()));
        let mut program = Self {
            name: name.to_owned(),
            script,
            needs: Vec::new(),
            optional: Vec::new(),
            seconds: 60,
            shell: "bash".to_owned(),
            stderr_varies: false,
            slow: false,
            slow_recorded: false,
        };
        for line in text.lines().map_while(|line| line.strip_prefix("# ")) {
            program.read_header(line);
        }
        program
    }

    /// A header entry; any other comment is for people.
    fn read_header(&mut self, line: &str) {
        let words = |list: &str| list.split_whitespace().map(str::to_owned).collect();
        match line.split_once(": ") {
            Some(("needs", list)) => self.needs = words(list),
            Some(("optional", list)) => self.optional = words(list),
            Some(("seconds", number)) => self.seconds = number.parse().expect("a number"),
            Some(("shell", shell)) => self.shell = shell.to_owned(),
            Some(("stderr", "varies")) => self.stderr_varies = true,
            Some(("stderr", other)) => panic!("{}: stderr cannot be {other}", self.name),
            _ if line == "slow" => self.slow = true,
            _ if line == "slow recorded" => self.slow_recorded = true,
            _ => {}
        }
    }

    /// Runs the script natively and under `retro`, and fails the test if anything differs.
    ///
    /// # Panics
    /// When the runs differ, when the native run fails, when the recording is not as it should be, or when a
    /// program is missing that REQUIRE_TEST_PROGRAMS=1 asks for.
    pub fn check(&self, retro: &Path, way: Way) {
        if self.is_left_out(way) {
            return;
        }
        let place = Place::new(&self.name);
        let native = self.run_in(&place, None);
        assert!(
            native.status == Ending::Exited(0),
            "{} fails natively: {:?}\n{}{}",
            self.name,
            native.status,
            String::from_utf8_lossy(&native.stdout),
            String::from_utf8_lossy(&native.stderr),
        );
        let translated = self.run_in(&place, Some((retro, way)));
        assert_same(&native, &translated);
        if way == Way::Recorded {
            recordings::assert_complete(&place.recording(), native.status);
        }
    }

    fn is_left_out(&self, way: Way) -> bool {
        let slow = self.slow || self.slow_recorded && way == Way::Recorded;
        if slow && env::var_os("RETRO_FULL").is_none_or(|value| value != "1") {
            eprintln!("skipped: {} is slow (RETRO_FULL=1 runs it)", self.name);
            return true;
        }
        let missing = |list: &[String]| list.iter().find(|name| !is_installed(name)).cloned();
        if let Some(name) = missing(&self.optional) {
            eprintln!("skipped: {} needs {name}, which is not installed", self.name);
            return true;
        }
        let Some(name) = missing(&self.needs) else { return false };
        assert!(
            env::var_os("REQUIRE_TEST_PROGRAMS").is_none_or(|value| value != "1"),
            "{} needs {name}, which is not installed",
            self.name
        );
        eprintln!("skipped: {} needs {name}, which is not installed", self.name);
        true
    }

    fn run_in(&self, place: &Place, retro: Option<(&Path, Way)>) -> Outcome {
        place.scratch.empty();
        let timeout = Duration::from_secs(self.seconds);
        let prepare = self.script.with_extension("prepare.sh");
        if prepare.exists() {
            let outcome = run(&mut place.command("bash", &prepare), timeout);
            let stderr = String::from_utf8_lossy(&outcome.stderr);
            assert!(outcome.status == Ending::Exited(0), "{}: {stderr}", prepare.display());
        }
        let mut outcome = place.run(place.command(&self.shell, &self.script), retro, timeout);
        if self.stderr_varies {
            outcome.stderr.clear();
        }
        outcome
    }
}

/// A module of Python's own test suite, natively and under `retro`: as many tests run, skipped and
/// failed on both sides.
///
/// # Panics
/// When the summaries differ, the native run never got that far, or the recording is not as it should be.
pub fn check_python_module(retro: &Path, way: Way, module: &str, timeout: Duration) {
    if !Path::new("/usr/lib/python3.11/test/test_json").exists() {
        assert!(
            env::var_os("REQUIRE_TEST_PROGRAMS").is_none_or(|value| value != "1"),
            "Python's test suite is not installed"
        );
        eprintln!("skipped: {module} needs Python's test suite, which is not installed");
        return;
    }
    let places = [Place::new(&format!("{module}-native")), Place::new(module)];
    let run_one = |place: &Place, retro| {
        let mut native = place.command("/usr/bin/python3", Path::new("-m"));
        native.args(["test", "-v", module]);
        place.run(native, retro, timeout)
    };
    // Most of these tests sleep most of the time: both sides at once take half as long.
    let (native, translated) = std::thread::scope(|scope| {
        let native = scope.spawn(|| run_one(&places[0], None));
        let translated = run_one(&places[1], Some((retro, way)));
        (native.join().expect("the native run returns"), translated)
    });
    let summaries = (python_summary(&native), python_summary(&translated));
    assert!(!summaries.0.is_empty(), "no summary: {}", String::from_utf8_lossy(&native.stdout));
    if summaries.0 != summaries.1 || native.status != translated.status {
        let details = difference(&native, &translated).unwrap_or_default();
        panic!("native {:#?}\ntranslated {:#?}\n{details}", summaries.0, summaries.1);
    }
    if way == Way::Recorded {
        // Some tests execute programs as another user, who has no access to the recorder.
        recordings::assert_finished(&places[1].recording(), translated.status);
    }
}

/// The directory that a program runs in, and another one for recordings of it.
struct Place {
    scratch: Scratch,
    recordings: Scratch,
}

impl Place {
    fn new(name: &str) -> Place {
        Place {
            scratch: Scratch::new(name),
            recordings: Scratch::new(&format!("{name}-recordings")),
        }
    }

    fn recording(&self) -> PathBuf {
        self.recordings.path().join("recording")
    }

    /// A command in the directory with the environment of all these tests.
    fn command(&self, program: &str, argument: &Path) -> Command {
        let mut command = Command::new(program);
        command.arg(argument);
        self.prepare(&mut command);
        command
    }

    fn prepare(&self, command: &mut Command) {
        let directory = self.scratch.path();
        command.current_dir(directory).env_clear().envs([
            ("PATH", Path::new(PATH)),
            ("HOME", directory),
            ("TMPDIR", directory),
            ("XDG_DATA_HOME", self.recordings.path()),
            ("PROGRAMS", &self::directory()),
            ("RUSTC", &rustc()),
            ("LC_ALL", Path::new("C.UTF-8")),
            ("TZ", Path::new("UTC")),
            ("TERM", Path::new("dumb")),
        ]);
    }

    fn run(&self, mut native: Command, retro: Option<(&Path, Way)>, timeout: Duration) -> Outcome {
        let (mut command, timeout) = match retro {
            None => return run(&mut native, timeout),
            Some((retro, Way::Translated)) => (under_retro(retro, &native), timeout),
            Some((retro, Way::Recorded)) => (
                compare::recorded(retro, &self.recording(), &[], &native),
                timeout * RECORDING_FACTOR,
            ),
        };
        // Which variables a command clears cannot be asked of it.
        self.prepare(&mut command);
        run(&mut command, timeout)
    }
}

/// `Ran 12 tests` and `OK (skipped=1)`, without times.
fn python_summary(outcome: &Outcome) -> Vec<String> {
    let text = [outcome.stdout.as_slice(), outcome.stderr.as_slice()].concat();
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().filter_map(|line| {
        let ran = line.starts_with("Ran ").then(|| line.split(" in ").next()).flatten();
        let result = ["OK", "FAILED ("].iter().any(|start| line.starts_with(start)).then_some(line);
        let failure = ["FAIL: ", "ERROR: "].iter().any(|start| line.starts_with(start));
        ran.or(result).or(failure.then_some(line)).map(str::to_owned)
    });
    lines.collect()
}

/// The compiler next to the cargo that runs the tests: the one in PATH may be a proxy that finds
/// the real one through the environment, which these tests do not pass on.
fn rustc() -> PathBuf {
    let cargo = env::var_os("CARGO").map(PathBuf::from).unwrap_or_default();
    cargo.with_file_name("rustc")
}

fn is_installed(program: &str) -> bool {
    env::split_paths(PATH).any(|directory| directory.join(program).is_file())
}
