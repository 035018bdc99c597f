//! Recordings under bad conditions: programs and recorders that die, disks that are full, and memory that
//! changes from outside the recorded processes.
//!
//! What is demanded is always the same: whoever runs `retro record` sees of the program what a native run shows,
//! and the recording opens and is complete as far as it could be. `RETRO_BINARY=path` tests another `retro`.

#[path = "recording/crashes.rs"]
mod crashes;
#[path = "recording/disks.rs"]
mod disks;
#[path = "recording/kills.rs"]
mod kills;
#[path = "recording/outside.rs"]
mod outside;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use retro_testkit::compare::{self, Outcome};
use retro_testkit::corpus::Guest;
use retro_testkit::programs::scratch::Scratch;

const TIMEOUT: Duration = Duration::from_secs(60);

fn retro_path() -> PathBuf {
    std::env::var_os("RETRO_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_retro").into()).into()
}

/// A guest of `tests/recording` with arguments, a directory to run it in, and one for its recording.
struct Case {
    program: Command,
    place: Scratch,
    recordings: Scratch,
}

impl Case {
    fn new(guest: &str, arguments: &[&str]) -> Case {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recording");
        let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recording-guests");
        let built = Guest::load_from(&sources, guest).and_then(|guest| guest.build(&output));
        let mut program = built.unwrap_or_else(|error| panic!("{error:?}"));
        program.args(arguments);
        Case::of(program, guest)
    }

    /// A script for `sh`.
    fn script(script: &str) -> Case {
        let mut program = Command::new("sh");
        program.arg("-c").arg(script);
        Case::of(program, "script")
    }

    fn of(mut program: Command, name: &str) -> Case {
        let place = Scratch::new(name);
        let recordings = Scratch::new(&format!("{name}-recordings"));
        program.current_dir(place.path()).env("XDG_DATA_HOME", recordings.path());
        Case { program, place, recordings }
    }

    /// Where the recording is.
    fn directory(&self) -> PathBuf {
        self.recordings.path().join("recording")
    }

    fn native(&mut self) -> Outcome {
        compare::run(&mut self.program, TIMEOUT)
    }

    fn command(&self, directory: &Path) -> Command {
        compare::recorded(&retro_path(), directory, &[], &self.program)
    }

    fn record(&self) -> Outcome {
        compare::run(&mut self.command(&self.directory()), TIMEOUT)
    }

    /// Starts recording, with output that goes to files.
    fn start(&self) -> Live {
        let open = |name: &str| File::create(self.place.path().join(name)).expect("a new file");
        let mut command = self.command(&self.directory());
        command.stdout(open("stdout")).stderr(open("stderr")).stdin(Stdio::null());
        Live { child: command.spawn().expect("retro starts"), place: self.place.path().into() }
    }
}

/// A recorded run that is under way.
struct Live {
    child: Child,
    place: PathBuf,
}

/// A process that `retro record` started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Recorder,
    Program,
}

impl Live {
    /// The process id of a part, if it is there.
    fn pid_of(&self, part: Part) -> Option<u32> {
        let retro = self.child.id();
        let children = fs::read_to_string(format!("/proc/{retro}/task/{retro}/children")).ok()?;
        // A process that has just been forked has the name of the one that forked it, and is nothing yet.
        let name_of = |pid: u32| fs::read_to_string(format!("/proc/{pid}/comm"));
        let unnamed = name_of(retro).ok()?;
        children.split_whitespace().filter_map(|pid| pid.parse().ok()).find(|&pid| {
            let name = name_of(pid).unwrap_or_else(|_| unnamed.clone());
            match part {
                Part::Recorder => name == "retro-recorder\n",
                Part::Program => name != "retro-recorder\n" && name != unnamed,
            }
        })
    }

    /// Waits for the end of `retro record`.
    ///
    /// # Panics
    /// When that takes too long.
    fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return status;
            }
            if Instant::now() > deadline {
                let _ = self.child.kill();
                panic!("`retro record` does not end; so far: {}", self.stderr());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn stdout(&self) -> String {
        fs::read_to_string(self.place.join("stdout")).expect("output in UTF-8")
    }

    fn stderr(&self) -> String {
        fs::read_to_string(self.place.join("stderr")).expect("output in UTF-8")
    }
}

/// A program that is talked to while it runs, natively or recorded.
struct Dialogue {
    child: Child,
    input: ChildStdin,
    output: std::io::BufReader<ChildStdout>,
}

impl Dialogue {
    fn start(mut command: Command) -> Dialogue {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let input = child.stdin.take().expect("its input is a pipe");
        let output = std::io::BufReader::new(child.stdout.take().expect("its output is a pipe"));
        Dialogue { child, input, output }
    }
}

fn signal(pid: u32, number: i32) {
    // SAFETY: `kill` touches no memory. The process is one that this test started.
    unsafe { libc::kill(pid.cast_signed(), number) };
}
