//! Where an attack happens: a directory of one test, with a store, a home and somebody to be harmed.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use retro_testkit::compare::{Ending, Outcome, run};
use retro_testkit::programs::scratch::Scratch;

use crate::forged::{Forged, LOOP};
use crate::takeover;

/// Far more than anything here takes.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// What no attack may change.
pub const PRECIOUS: &str = "precious\n";

/// The `retro` that is attacked.
pub fn retro_path() -> PathBuf {
    std::env::var_os("RETRO_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_retro").into()).into()
}

/// A directory of one test.
pub struct Place(Scratch);

impl Place {
    pub fn new(name: &str) -> Place {
        let place = Place(Scratch::new(&format!("attack-{name}")));
        fs::create_dir(place.home()).unwrap();
        fs::set_permissions(place.home(), fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(place.victim(), PRECIOUS).unwrap();
        place
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The home directory of whoever is attacked.
    pub fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    /// A file that an attack would like to change.
    pub fn victim(&self) -> PathBuf {
        self.home().join(".bashrc")
    }

    /// Where the recording of this test is.
    pub fn recording(&self) -> PathBuf {
        self.path().join("recording")
    }

    /// Where the store is.
    pub fn store(&self) -> PathBuf {
        self.home().join(".local/share/retro")
    }

    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path()).env("HOME", self.home()).env("RETRO_NO_INDEX", "1");
        command.env_remove("RETRO_DIR").env_remove("XDG_DATA_HOME").env_remove("XDG_RUNTIME_DIR");
        command
    }

    /// `retro ARGUMENTS...`, run to its end.
    pub fn retro(&self, arguments: &[&str]) -> Outcome {
        run(self.command(retro_path()).args(arguments), TIMEOUT)
    }

    /// An honest recording of a loop.
    pub fn honest(&self) {
        Forged::new(LOOP, 1000).write(&self.recording());
    }

    /// A recording that takes over its replay and runs a payload.
    pub fn hostile(&self, payload: &str, macros: &[&str]) {
        let macros: Vec<String> = macros.iter().map(|text| text.to_string()).collect();
        takeover::write(&self.recording(), &takeover::compile(payload, &macros, self.path()));
    }

    /// Asserts that what is dear to the user is what it was.
    #[track_caller]
    pub fn assert_unharmed(&self) {
        assert_eq!(fs::read_to_string(self.victim()).unwrap(), PRECIOUS, "the victim has changed");
        let names: Vec<_> =
            fs::read_dir(self.home()).unwrap().map(|e| e.unwrap().file_name()).collect();
        let expected = |name: &OsStr| [".bashrc", ".local"].iter().any(|known| name == *known);
        assert!(names.iter().all(|name| expected(name)), "something new at home: {names:?}");
    }
}

/// What a command has said on stderr.
pub fn said(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&outcome.stderr).into_owned()
}

/// What a command has printed.
pub fn printed(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&outcome.stdout).into_owned()
}

/// Asserts that a command has failed in an orderly way, and that its message has some words.
#[track_caller]
pub fn assert_refused(outcome: &Outcome, words: &[&str]) {
    let said = said(outcome);
    assert!(matches!(outcome.status, Ending::Exited(1 | 2)), "{:?}: {said}", outcome.status);
    assert!(said.starts_with("retro: "), "{said}");
    assert!(!said.contains("panicked") && !said.contains("internal error"), "{said}");
    for word in words {
        assert!(said.contains(word), "no {word:?} in: {said}");
    }
}

/// Waits until something is so.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Processes that are alive and in whose command line or name a text is.
pub fn processes(matches: impl Fn(i32) -> bool) -> Vec<i32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|&pid| is_alive(pid) && matches(pid)).collect()
}

/// Whether a process is there and no zombie.
pub fn is_alive(pid: i32) -> bool {
    stat(pid).is_some_and(|fields| !matches!(fields[0].as_str(), "Z" | "X"))
}

/// The fields of `/proc/PID/stat` from the state on.
pub fn stat(pid: i32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_ascii_whitespace().map(str::to_owned).collect())
}

/// A command in a session of its own, which nothing that it starts can leave: `setsid` is what the sandbox does not allow, and
/// nothing else of retro's that replays calls it.
pub struct Session {
    child: std::process::Child,
}

impl Session {
    pub fn start(command: &mut Command) -> Session {
        use std::os::unix::process::CommandExt;
        // SAFETY: `setsid` may be called between fork and exec.
        unsafe { command.pre_exec(|| Ok(nix::unistd::setsid().map(drop)?)) };
        Session { child: command.spawn().unwrap() }
    }

    /// The number of the command's process, and of its session.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// What is alive of it.
    pub fn members(&self) -> Vec<i32> {
        let session = self.pid().to_string();
        processes(|pid| stat(pid).is_some_and(|fields| fields[3] == session))
    }

    /// Sends a signal to the command itself.
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Waits for the command itself.
    pub fn wait(&mut self) -> std::process::ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < TIMEOUT, "the command does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Asserts that nothing of it is alive, or is in a moment.
    #[track_caller]
    pub fn assert_gone(&self) {
        wait_until("processes are left", || self.members().is_empty());
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for pid in self.members() {
            let _ = nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(pid),
                nix::sys::signal::Signal::SIGKILL,
            );
        }
        let _ = self.child.wait();
    }
}

/// The most memory, in bytes, that a process took that this one has waited for, or one of those.
pub fn most_memory() -> u64 {
    use nix::sys::resource::{UsageWho, getrusage};
    (getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss() as u64) << 10
}

/// Whether this process is root's: tests with two users need that.
pub fn is_root(test: &str) -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED: {test} needs root");
    }
    is_root
}
