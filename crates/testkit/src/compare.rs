//! Running a program to its end and comparing two runs of it.
//!
//! A translated run is right when nobody outside the process can tell it from a native one, so
//! the comparison is of what a shell sees: the bytes on both output streams and the way the
//! process ended.
//!
//! Invariants:
//! 1. [`run`] returns within its timeout plus a short grace period, whatever the program does:
//!    it never waits for a descendant that escaped and still holds a pipe.
//! 2. Every run has its own process group, and that group is killed before the leader is reaped;
//!    its number cannot have been reused by then.
//! 3. Both output streams are drained while the program runs; a full pipe cannot block it.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Once;
use std::time::{Duration, Instant};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It called `exit` with this code.
    Exited(i32),
    /// This signal killed it. The core flag is left out: it depends on the host's limits.
    Signaled(i32),
    /// It, or a descendant holding its output open, still ran when the time was over.
    TimedOut,
}

/// What a user sees of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub status: Ending,
}

/// Runs `command` to its end in its own process group and collects what it shows.
///
/// Standard input is empty unless the command sets its own. Both output streams are captured,
/// whatever the command says about them. Variables that begin with `RETRO_` steer the tests, not
/// the program, and are left out of its environment unless the command sets them. When `timeout` passes, the whole group is killed and
/// the output so far is returned with [`Ending::TimedOut`].
///
/// # Panics
/// When the program cannot be started, with its name and the reason.
pub fn run(command: &mut Command, timeout: Duration) -> Outcome {
    prepare_this_process();
    for (name, _) in std::env::vars_os() {
        let is_set = command.get_envs().any(|(set, value)| set == name && value.is_some());
        if name.as_encoded_bytes().starts_with(b"RETRO_") && !is_set {
            command.env_remove(name);
        }
    }
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {:?}: {error}", command.get_program()));
    let watched = watch(&mut child, Instant::now() + timeout);

    // Also after a normal end: what the program left running in its group must not outlive the
    // test. The leader is not reaped yet, so the group's number is still its own.
    kill_group(&child);
    let exit_status = child.wait().expect("a child of this process can be waited for");
    let (collected, timed_out) = watched.expect("poll and read on own pipes succeed");
    let status = if timed_out { Ending::TimedOut } else { ending(exit_status) };
    Outcome { stdout: collected.stdout, stderr: collected.stderr, status }
}

/// The same program, arguments, environment and directory, to be run as `retro run -- …`.
///
/// A standard input set on `program` cannot be carried over: set it on the result again.
pub fn under_retro(retro: &Path, program: &Command) -> Command {
    under_retro_with(retro, &[], program)
}

/// As [`under_retro`], with options of `retro run`.
pub fn under_retro_with(retro: &Path, options: &[&str], program: &Command) -> Command {
    let mut translated = Command::new(retro);
    translated.arg("run").args(options);
    running(translated, program)
}

/// As [`under_retro`], to be recorded as `retro record --quiet --no-index -o DIRECTORY OPTIONS -- …`.
///
/// The recording also becomes the latest of the user's: set `XDG_DATA_HOME` on `program`, natively as well, to a
/// place where that disturbs nobody.
pub fn recorded(retro: &Path, directory: &Path, options: &[&str], program: &Command) -> Command {
    let mut recorded = Command::new(retro);
    recorded.args(["record", "--quiet", "--no-index", "-o"]).arg(directory).args(options);
    running(recorded, program)
}

/// Completes a command of `retro` with the program that it runs.
fn running(mut retro: Command, program: &Command) -> Command {
    retro.arg("--").arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => retro.env(name, value),
            None => retro.env_remove(name),
        };
    }
    if let Some(directory) = program.get_current_dir() {
        retro.current_dir(directory);
    }
    retro
}

/// Fails the test, saying where they differ, unless both runs look the same.
///
/// # Panics
/// When they differ.
#[track_caller]
pub fn assert_same(native: &Outcome, translated: &Outcome) {
    if let Some(difference) = difference(native, translated) {
        panic!("the translated run differs from the native one\n{difference}");
    }
}

/// Fails the test unless a command of `retro` has ended by itself with one of the statuses that it uses, has said what
/// failed if something did, and has neither panicked nor written anything that a terminal obeys.
///
/// # Panics
/// When it has not.
#[track_caller]
pub fn assert_orderly(outcome: &Outcome, what: &str) {
    let (status, stderr) = (outcome.status, String::from_utf8_lossy(&outcome.stderr));
    assert!(matches!(status, Ending::Exited(0 | 1)), "{what}: {status:?}: {stderr}");
    assert!(!stderr.contains("panicked"), "{what}: {stderr}");
    let failed = status == Ending::Exited(1);
    assert!(!failed || stderr.starts_with("retro: "), "{what}: {stderr}");
    let obeyed = stderr.chars().find(|&c| c != '\n' && c.is_control());
    assert_eq!(obeyed, None, "{what}: {stderr:?}");
}

/// Says in words where two runs differ; `None` when they do not.
pub fn difference(native: &Outcome, translated: &Outcome) -> Option<String> {
    if native == translated {
        return None;
    }
    let mut text = String::new();
    if native.status != translated.status {
        let _ = writeln!(
            text,
            "ending: native {}, translated {}",
            describe(native.status),
            describe(translated.status)
        );
    }
    compare_stream(&mut text, "stdout", &native.stdout, &translated.stdout);
    compare_stream(&mut text, "stderr", &native.stderr, &translated.stderr);
    Some(text)
}

/// An ending as a person would say it.
pub fn describe(ending: Ending) -> String {
    match ending {
        Ending::Exited(code) => format!("exited with {code}"),
        Ending::Signaled(signal) => format!("was killed by signal {signal}"),
        Ending::TimedOut => "did not end in time".to_owned(),
    }
}

struct Collected {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// One of the program's output pipes while it is being drained.
struct Stream<P> {
    pipe: Option<P>,
    bytes: Vec<u8>,
}

impl<P: Read + AsRawFd> Stream<P> {
    fn new(pipe: Option<P>) -> io::Result<Self> {
        if let Some(pipe) = &pipe {
            set_nonblocking(pipe.as_raw_fd())?;
        }
        Ok(Stream { pipe, bytes: Vec::new() })
    }

    /// A descriptor for `poll`; negative ones are ignored there.
    fn descriptor(&self) -> RawFd {
        self.pipe.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    fn drain(&mut self) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else {
            return Ok(());
        };
        match pipe.read_to_end(&mut self.bytes) {
            Ok(_) => self.pipe = None,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Drains both pipes until the program has ended and both are closed, or the deadline passes.
fn watch(child: &mut Child, deadline: Instant) -> io::Result<(Collected, bool)> {
    /// After the kill, what is already in the pipes is still wanted.
    const GRACE: Duration = Duration::from_millis(500);

    let mut stdout = Stream::new(child.stdout.take())?;
    let mut stderr = Stream::new(child.stderr.take())?;
    let process = open_process(child.id())?;
    let mut ended = false;
    let mut deadline = deadline;
    let mut timed_out = false;
    while !ended || stdout.pipe.is_some() || stderr.pipe.is_some() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            if timed_out {
                break;
            }
            timed_out = true;
            kill_group(child);
            deadline = Instant::now() + GRACE;
            continue;
        }
        let process_descriptor = if ended { -1 } else { process.as_raw_fd() };
        let descriptors = [stdout.descriptor(), stderr.descriptor(), process_descriptor];
        let ready = wait_readable(descriptors, left)?;
        if ready[0] {
            stdout.drain()?;
        }
        if ready[1] {
            stderr.drain()?;
        }
        ended |= ready[2];
    }
    Ok((Collected { stdout: stdout.bytes, stderr: stderr.bytes }, timed_out))
}

fn ending(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, Some(signal)) => Ending::Signaled(signal),
        (None, None) => unreachable!("wait returns only ended processes"),
    }
}

/// Gives every child of this test process an empty standard input and no core files.
///
/// `Command` does not tell whether its standard input was set, so the default it falls back to,
/// which is this process's own, is made empty instead.
fn prepare_this_process() {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| {
        let null = std::fs::File::open("/dev/null").expect("/dev/null can be opened");
        // SAFETY: dup2 replaces descriptor 0 atomically; nothing in a test reads it.
        unsafe { libc::dup2(null.as_raw_fd(), 0) };
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is valid for both calls, and only the soft limit is lowered.
        unsafe {
            if libc::getrlimit(libc::RLIMIT_CORE, &mut limit) == 0 {
                limit.rlim_cur = 0;
                libc::setrlimit(libc::RLIMIT_CORE, &limit);
            }
        }
    });
}

fn kill_group(child: &Child) {
    // SAFETY: kill has no memory effects; the group's leader is our child, not yet reaped.
    // Its failure means that the group is empty.
    unsafe { libc::kill(-child.id().cast_signed(), libc::SIGKILL) };
}

fn open_process(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes two integers and returns a new descriptor or an error.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.cast_signed(), 0) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and owned by nothing else; descriptors fit in an int.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as RawFd) })
}

fn set_nonblocking(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: fcntl on a descriptor that the caller borrows; integers only. The flag is set on
    // the reading end, which the child does not share.
    let result = unsafe { libc::fcntl(descriptor, libc::F_SETFL, libc::O_NONBLOCK) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn wait_readable(descriptors: [RawFd; 3], timeout: Duration) -> io::Result<[bool; 3]> {
    let mut polled = descriptors.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    // Rounded up, so that the last fraction of a millisecond is not spent spinning.
    let milliseconds = i32::try_from(timeout.as_millis() + 1).unwrap_or(i32::MAX);
    // SAFETY: `polled` has the length that is passed and outlives the call.
    let result = unsafe { libc::poll(polled.as_mut_ptr(), 3, milliseconds) };
    if result < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == ErrorKind::Interrupted { Ok([false; 3]) } else { Err(error) };
    }
    Ok(polled.map(|entry| entry.revents != 0))
}

fn compare_stream(text: &mut String, name: &str, native: &[u8], translated: &[u8]) {
    if native == translated {
        // Also when equal: an assertion's message often explains a different ending.
        if !native.is_empty() {
            let _ = writeln!(text, "{name}: the same, {} bytes", native.len());
        }
        return;
    }
    let _ = writeln!(
        text,
        "{name}: native {} bytes, translated {} bytes",
        native.len(),
        translated.len()
    );
    write_line_difference(text, &lines(native), &lines(translated));
}

fn lines(bytes: &[u8]) -> Vec<String> {
    bytes
        .split_inclusive(|&byte| byte == b'\n')
        .map(|line| line.escape_ascii().to_string())
        .collect()
}

/// Shows what lies between the common beginning and the common end, with a little around it.
fn write_line_difference(text: &mut String, native: &[String], translated: &[String]) {
    const AROUND: usize = 3;
    const SHOWN: usize = 40;

    let same_start = native.iter().zip(translated).take_while(|(a, b)| a == b).count();
    let (native_rest, translated_rest) = (&native[same_start..], &translated[same_start..]);
    let same_end = native_rest
        .iter()
        .rev()
        .zip(translated_rest.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();

    let first_shown = same_start.saturating_sub(AROUND);
    if first_shown > 0 {
        let _ = writeln!(text, "    … {first_shown} equal lines");
    }
    for line in &native[first_shown..same_start] {
        let _ = writeln!(text, "    {line}");
    }
    for (mark, rest) in [('-', native_rest), ('+', translated_rest)] {
        let different = &rest[..rest.len() - same_end];
        for line in different.iter().take(SHOWN) {
            let _ = writeln!(text, "  {mark} {line}");
        }
        if different.len() > SHOWN {
            let _ = writeln!(text, "  {mark} … {} more lines", different.len() - SHOWN);
        }
    }
    for line in native_rest[native_rest.len() - same_end..].iter().take(AROUND) {
        let _ = writeln!(text, "    {line}");
    }
    if same_end > AROUND {
        let _ = writeln!(text, "    … {} equal lines", same_end - AROUND);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, timeout: Duration) -> Outcome {
        run(Command::new("sh").arg("-c").arg(script), timeout)
    }

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn collects_both_streams_and_the_exit_code() {
        let outcome = shell("echo out; echo err >&2; exit 3", LONG);
        assert_eq!(outcome.stdout, b"out\n");
        assert_eq!(outcome.stderr, b"err\n");
        assert_eq!(outcome.status, Ending::Exited(3));
    }

    #[test]
    fn tells_a_killing_signal_from_an_exit_code() {
        assert_eq!(shell("kill -TERM $$", LONG).status, Ending::Signaled(libc::SIGTERM));
    }

    #[test]
    fn drains_more_than_a_pipe_holds_on_both_streams() {
        let outcome = shell("head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2", LONG);
        assert_eq!((outcome.stdout.len(), outcome.stderr.len()), (3_000_000, 3_000_000));
    }

    #[test]
    fn kills_the_whole_group_when_time_is_over() {
        let started = Instant::now();
        let outcome = shell("echo before; sleep 60 & sleep 60", Duration::from_millis(300));
        assert_eq!(outcome.status, Ending::TimedOut);
        assert_eq!(outcome.stdout, b"before\n");
        assert!(started.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn does_not_wait_for_a_descendant_that_left_the_group() {
        let started = Instant::now();
        let outcome = shell("setsid sleep 5 & exit 0", Duration::from_millis(300));
        assert_eq!(outcome.status, Ending::TimedOut);
        assert!(started.elapsed() < Duration::from_secs(4));
    }

    #[test]
    fn standard_input_is_empty_unless_set() {
        assert_eq!(shell("cat", LONG).stdout, b"");
        let mut command = Command::new("cat");
        command.stdin(std::fs::File::open("/proc/version").unwrap());
        assert!(run(&mut command, LONG).stdout.starts_with(b"Linux"));
    }

    #[test]
    fn shows_the_differing_lines_and_their_surroundings() {
        let native = shell("seq 1 20", LONG);
        let translated = shell("seq 1 9; echo ten; seq 11 20; exit 1", LONG);
        let text = difference(&native, &translated).unwrap();
        assert!(text.contains("native exited with 0, translated exited with 1"), "{text}");
        assert!(text.contains("- 10\\n") && text.contains("+ ten\\n"), "{text}");
        assert!(text.contains("… 6 equal lines"), "{text}");
        assert_eq!(difference(&native, &native), None);
    }
}
