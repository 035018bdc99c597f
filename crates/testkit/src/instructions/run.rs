//! Running a guest, natively or under `retro`, with a time limit.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek};
use std::os::fd::FromRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::programs::scratch::Scratch;

/// Longer than any guest takes; a translated guest that loops must not stop the tests.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// What executes a guest.
#[derive(Clone, Copy, Debug)]
pub enum Runner<'a> {
    /// The processor.
    Native,
    /// `retro run --`.
    Translated(&'a Path),
    /// `retro record --`.
    Recorded(&'a Path),
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Standard output.
    pub output: Vec<u8>,
    /// Exit status; `None` after the time limit.
    pub status: Option<ExitStatus>,
    /// The end of standard error.
    pub complaint: String,
}

impl Outcome {
    /// Whether the time limit ended it.
    pub fn timed_out(&self) -> bool {
        self.status.is_none()
    }

    /// The status in words.
    pub fn describe_end(&self) -> String {
        match self.status {
            None => "did not end in time".into(),
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exited with {code}"),
                (_, Some(signal)) => format!("was killed by signal {signal}"),
                _ => format!("ended with {status}"),
            },
        }
    }
}

/// An executable on disk, removed when dropped unless kept.
#[derive(Debug)]
pub struct Executable {
    path: PathBuf,
    kept: bool,
}

impl Executable {
    /// Writes `bytes` to a file called `name` in a directory of this process.
    ///
    /// # Errors
    /// When the temporary directory is not writable.
    pub fn create(name: &str, bytes: &[u8]) -> Result<Executable> {
        let directory = std::env::temp_dir().join("retro-instructions");
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("creating {}", directory.display()))?;
        let path = directory.join(format!("{name}-{}", std::process::id()));
        std::fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        Ok(Executable { path, kept: false })
    }

    /// Leaves the file in place and says where.
    pub fn keep(mut self) -> PathBuf {
        self.kept = true;
        self.path.clone()
    }

    /// Runs it.
    ///
    /// # Errors
    /// When the process cannot be started or its output not be read.
    pub fn run(&self, runner: Runner) -> Result<Outcome> {
        let recordings = Scratch::new("instructions");
        let mut command = match runner {
            Runner::Native => Command::new(&self.path),
            Runner::Recorded(retro) => {
                let mut command = Command::new(retro);
                command.args(["record", "--quiet", "--no-index", "-o"]);
                command.arg(recordings.path().join("recording"));
                command.arg("--").arg(&self.path).env("XDG_DATA_HOME", recordings.path());
                command
            }
            Runner::Translated(retro) => {
                let mut command = Command::new(retro);
                command.args(["run", "--"]).arg(&self.path);
                command
            }
        };
        let mut output = memory_file()?;
        let mut errors = memory_file()?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(errors.try_clone()?);
        let mut child = spawn(&mut command).with_context(|| format!("starting {command:?}"))?;
        let start = Instant::now();
        let mut pause = Duration::from_micros(500);
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
            if start.elapsed() > TIME_LIMIT {
                child.kill()?;
                child.wait()?;
                break None;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        };
        let complaint = String::from_utf8_lossy(&contents(&mut errors)?).into_owned();
        Ok(Outcome { output: contents(&mut output)?, status, complaint })
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        if !self.kept {
            // A leftover in the temporary directory is no reason to fail a test.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Starts `command`, again while its file counts as open for writing: a child that another thread
/// has forked holds a copy of the descriptor until it executes its own program.
fn spawn(command: &mut Command) -> std::io::Result<Child> {
    let mut attempts = 200;
    loop {
        match command.spawn() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy && attempts > 0 => {
                attempts -= 1;
                std::thread::sleep(Duration::from_millis(5));
            }
            result => return result,
        }
    }
}

/// A file in memory: no pipe to drain, and all of it readable after a crash.
fn memory_file() -> Result<File> {
    // SAFETY: the name is a nul-terminated string.
    let descriptor = unsafe { libc::memfd_create(c"record".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(std::io::Error::last_os_error()).context("memfd_create");
    }
    // SAFETY: memfd_create just returned this descriptor, and nothing else owns it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

fn contents(file: &mut File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
