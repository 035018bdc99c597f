//! One timed run of one command.
//!
//! Standard output and standard error go to anonymous memory files: no reader competes with the
//! program for a core, no disk is involved, and the whole output can be compared afterwards.
//! Wall-clock time runs from before the process exists until it is gone; CPU time and peak memory
//! come from `wait4` and cover the descendants that were waited for.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::interrupt;
use crate::recording::LogSize;

/// The cost of a run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sample {
    pub wall_ms: f64,
    /// User and system time together.
    pub cpu_ms: f64,
    pub peak_memory_kib: u64,
    /// Of a run that was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<LogSize>,
}

/// Seconds after which a run need not be repeated.
pub const LONG_RUN: u32 = 10;

impl Sample {
    /// Whether the run took so long that it need not be repeated.
    pub fn is_long(&self) -> bool {
        self.wall_ms > f64::from(LONG_RUN) * 1e3
    }
}

/// What a run did, which must not depend on the mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
}

/// A run that ended by itself.
#[derive(Debug)]
pub struct Run {
    pub sample: Sample,
    pub answer: Answer,
    pub stderr: Vec<u8>,
}

/// Runs `words` in `directory` to its end. Nothing is returned if it had to be killed after
/// `timeout`.
///
/// The environment is fixed, so that neither the locale nor a user's settings change the work; only
/// `RETRO_*` variables, which steer the debugger under test, are passed on, save the one that names the place
/// of the user's own recordings.
pub fn run(words: &[OsString], directory: &Path, timeout: Duration) -> Result<Option<Run>> {
    let (program, arguments) = words.split_first().context("empty command")?;
    let stdout = memory_file()?;
    let stderr = memory_file()?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(directory)
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("RETRO_")))
        .envs([
            ("PATH", "/usr/bin:/bin"),
            ("LC_ALL", "C"),
            ("PYTHONHASHSEED", "0"),
            ("PERL_HASH_SEED", "0"),
        ])
        .env("HOME", directory)
        .env("RETRO_DIR", directory.join("recordings"))
        .env("TMPDIR", directory)
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?)
        .process_group(0);

    let start = Instant::now();
    let child = command.spawn().with_context(|| format!("starting {}", program.display()))?;
    let id = child.id() as libc::pid_t;
    let exited = wait_for_exit(id, start + timeout);
    let wall = start.elapsed();
    // Also after an orderly exit: what the program left running would disturb the next measurement.
    kill_group(id);
    let (status, usage) = wait(id)?;
    if !exited? {
        return Ok(None);
    }

    let cpu = milliseconds(usage.ru_utime) + milliseconds(usage.ru_stime);
    Ok(Some(Run {
        sample: Sample {
            wall_ms: wall.as_secs_f64() * 1e3,
            cpu_ms: cpu,
            peak_memory_kib: u64::try_from(usage.ru_maxrss).unwrap_or(0),
            log: None,
        },
        answer: Answer { status, stdout: contents(&stdout)? },
        stderr: contents(&stderr)?,
    }))
}

fn memory_file() -> Result<File> {
    // SAFETY: the name is a terminated string; the call touches no other memory.
    let descriptor = unsafe { libc::memfd_create(c"retro-bench".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error()).context("creating a memory file");
    }
    // SAFETY: a new descriptor that nothing else owns.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// Reads by position: the file offset is shared with the program.
fn contents(file: &File) -> Result<Vec<u8>> {
    let length = usize::try_from(file.metadata()?.len())?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Waits until the child `id` has exited (true) or `deadline` has passed (false), without reaping it.
fn wait_for_exit(id: libc::pid_t, deadline: Instant) -> Result<bool> {
    // SAFETY: takes two integers, touches no memory of ours.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, id, 0) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error()).context("pidfd_open");
    }
    // SAFETY: a new descriptor that nothing else owns; descriptors fit a C int.
    let process = unsafe { OwnedFd::from_raw_fd(descriptor as libc::c_int) };
    loop {
        if interrupt::requested() {
            bail!("interrupted");
        }
        let left = deadline.saturating_duration_since(Instant::now());
        // Bounded, so that an interrupt just before the call is seen soon enough.
        let timeout = libc::c_int::try_from(left.as_millis()).unwrap_or(libc::c_int::MAX).min(500);
        let mut poll = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one initialised `pollfd`, and the count says one.
        match unsafe { libc::poll(&mut poll, 1, timeout) } {
            0 if left.is_zero() => return Ok(false),
            0 => {}
            1.. => return Ok(true),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error).context("poll");
                }
            }
        }
    }
}

/// Kills what is left of the group that the child `id` leads. The child must not have been reaped,
/// or the id could by now be another's.
fn kill_group(id: libc::pid_t) {
    // SAFETY: sends a signal; touches no memory of ours. The group is the child's own, as set by
    // `process_group(0)`; that none is left is not an error.
    unsafe { libc::kill(-id, libc::SIGKILL) };
}

fn wait(id: libc::pid_t) -> Result<(ExitStatus, libc::rusage)> {
    let mut status = 0;
    // SAFETY: `rusage` consists of integers, for which zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live, writable values of the right types.
        if unsafe { libc::wait4(id, &mut status, 0, &mut usage) } == id {
            return Ok((ExitStatus::from_raw(status), usage));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error).context("wait4");
        }
    }
}

fn milliseconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 * 1e3 + time.tv_usec as f64 / 1e3
}

impl Answer {
    /// How this answer differs from native's, or nothing if it is the same.
    pub fn difference(&self, native: &Self) -> Option<String> {
        if self.status != native.status {
            return Some(format!("{}, natively {}", self.status, native.status));
        }
        if self.stdout == native.stdout {
            return None;
        }
        let same = self
            .stdout
            .iter()
            .zip(&native.stdout)
            .take_while(|(left, right)| left == right)
            .count();
        Some(format!(
            "wrong output: {} bytes, natively {}; first difference at byte {same}: {:?}, natively {:?}",
            self.stdout.len(),
            native.stdout.len(),
            excerpt(&self.stdout, same),
            excerpt(&native.stdout, same),
        ))
    }
}

fn excerpt(bytes: &[u8], from: usize) -> String {
    let end = bytes.len().min(from + 24);
    String::from_utf8_lossy(&bytes[from..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, timeout: Duration) -> Option<Run> {
        let words = ["/bin/sh".into(), "-c".into(), script.into()];
        run(&words, Path::new("/"), timeout).expect("runs")
    }

    fn answer(script: &str) -> Answer {
        shell(script, Duration::from_secs(20)).expect("in time").answer
    }

    #[test]
    fn captures_output_status_and_cost() {
        let run =
            shell("echo out; echo err >&2; exit 3", Duration::from_secs(20)).expect("in time");
        assert_eq!(run.answer.stdout, b"out\n");
        assert_eq!(run.stderr, b"err\n");
        assert_eq!(run.answer.status.code(), Some(3));
        assert!(run.sample.wall_ms > 0.0 && run.sample.peak_memory_kib > 0);
    }

    #[test]
    fn kills_the_whole_group_after_the_timeout() {
        let start = Instant::now();
        assert!(shell("sleep 30 & sleep 30", Duration::from_millis(100)).is_none());
        assert!(start.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn differences_are_described() {
        let native = answer("echo hello");
        assert_eq!(native.difference(&native), None);
        let wrong = answer("echo help").difference(&native).expect("differs");
        assert!(wrong.contains("byte 3"), "{wrong}");
        let failed = answer("echo hello; exit 1").difference(&native).expect("differs");
        assert!(failed.contains("exit status: 1"), "{failed}");
        let crashed = answer("kill -SEGV $$").difference(&native).expect("differs");
        assert!(crashed.contains("signal: 11"), "{crashed}");
    }
}
