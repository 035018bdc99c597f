//! Replay processes: making them, and making sure that they are gone.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::hearsay::printable;
use crate::warden::{Warden, Watched, offer_to_the_system};

/// What a process may say on stderr.
const COMPLAINT_SIZE: u64 = 16 << 10;

/// The usual limit of a stack.
const STACK: u64 = 8 << 20;

/// For the little that is known of some ends.
const ENDED: &str = "it has ended";

/// A replay process. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct ReplayProcess {
    /// None when it is gone: its number may be another's by now.
    life: Option<Life>,
    /// Who looks after it; None for sessions that talk to something else.
    watched: Option<Arc<Watched>>,
    /// As long as there is a process there is a warden.
    warden: Option<Arc<Warden>>,
    /// What it and its copies say on stderr.
    complaints: Arc<File>,
}

#[derive(Debug)]
enum Life {
    /// Started by us.
    Started(Child),
    /// A copy that another one made; the kernel has told that this is its number, and that it is our child.
    Copied(Pid),
}

impl ReplayProcess {
    /// Executes the engine, with a socket as its standard input.
    pub(crate) fn start(
        engine: &Path,
        warden: &Arc<Warden>,
        socket: OwnedFd,
    ) -> io::Result<ReplayProcess> {
        limit_stack();
        let complaints = complaints_file()?;
        let mut command = Command::new(engine);
        command.env_clear().env("RETRO_ENGINE", "policy=replay;path=");
        // Not /dev/null: there may be none.
        command.stdin(socket).stdout(complaints.try_clone()?).stderr(complaints.try_clone()?);
        let child = warden.spawn(command)?;
        let pid = Pid::from_raw(child.id() as i32);
        // When a stranger's recording uses up the memory.
        offer_to_the_system(pid);
        Ok(ReplayProcess {
            life: Some(Life::Started(child)),
            watched: Some(warden.watch(pid)),
            warden: Some(Arc::clone(warden)),
            complaints: Arc::new(complaints),
        })
    }

    /// A copy that this one has made. An error if it is no living child of ours.
    pub(crate) fn copied(&self, pid: Pid) -> io::Result<ReplayProcess> {
        match waitpid(pid, Some(WaitPidFlag::WNOHANG | WaitPidFlag::__WALL))? {
            WaitStatus::StillAlive => Ok(ReplayProcess {
                life: Some(Life::Copied(pid)),
                watched: self.warden.as_ref().map(|warden| warden.watch(pid)),
                warden: self.warden.clone(),
                complaints: Arc::clone(&self.complaints),
            }),
            _ => Err(io::Error::other("the copy of a replay process died at once")),
        }
    }

    /// Its number, while it is there.
    pub(crate) fn id(&self) -> Option<u32> {
        match self.life.as_ref()? {
            Life::Started(child) => Some(child.id()),
            Life::Copied(pid) => u32::try_from(pid.as_raw()).ok(),
        }
    }

    /// Ends the process and tells what has become of it.
    pub(crate) fn obituary(&mut self) -> String {
        let ended = self.end();
        let said = self.complaint();
        if said.is_empty() { ended } else { format!("{ended}; it said: {said}") }
    }

    /// Who looks after it.
    pub(crate) fn watched(&self) -> Option<&Arc<Watched>> {
        self.watched.as_ref()
    }

    fn end(&mut self) -> String {
        let life = self.life.take();
        let end = || match life {
            Some(Life::Started(child)) => end_child(child),
            Some(Life::Copied(pid)) => end_copy(pid),
            None => ENDED.to_owned(),
        };
        match &self.watched {
            None => end(),
            Some(watched) => {
                let ended = watched.bury(end);
                watched.reason().map_or(ended, |reason| format!("it was ended: {reason}"))
            }
        }
    }

    fn complaint(&self) -> String {
        let mut bytes = vec![0; COMPLAINT_SIZE as usize];
        let len = self.complaints.read_at(&mut bytes, 0).unwrap_or(0);
        printable(&bytes[..len])
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl ReplayProcess {
    /// None at all, for sessions that talk to something else.
    pub(crate) fn absent() -> ReplayProcess {
        let complaints = Arc::new(complaints_file().expect("a file of memory"));
        ReplayProcess { life: None, watched: None, warden: None, complaints }
    }
}

impl Drop for ReplayProcess {
    fn drop(&mut self) {
        self.end();
    }
}

/// Without a limit of the stack the kernel lays out address spaces from below, where the guest has its memory. Processes
/// inherit the limit, and only their own makers can set it before they begin.
fn limit_stack() {
    if let Ok((RLIM_INFINITY, most)) = getrlimit(Resource::RLIMIT_STACK) {
        let _ = setrlimit(Resource::RLIMIT_STACK, STACK.min(most), most);
    }
}

/// A file of fixed size, so that a process that never stops complaining fills nothing.
pub(crate) fn complaints_file() -> io::Result<File> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let file = File::from(memfd_create(c"retro-complaints", flags)?);
    file.set_len(COMPLAINT_SIZE)?;
    let seals = SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file)
}

fn end_child(mut child: Child) -> String {
    // What is dead already cannot be killed; its end is known all the same.
    let _ = child.kill();
    match child.wait().map(|status| (status.code(), status.signal())) {
        Ok((Some(code), _)) => exited(code),
        Ok((_, Some(signal))) => killed(signal),
        _ => ENDED.to_owned(),
    }
}

fn end_copy(pid: Pid) -> String {
    // A child that nobody has waited for keeps its number, so this hits nobody else.
    let _ = kill(pid, Signal::SIGKILL);
    match waitpid(pid, Some(WaitPidFlag::__WALL)) {
        Ok(WaitStatus::Exited(_, code)) => exited(code),
        Ok(WaitStatus::Signaled(_, signal, _)) => killed(signal as i32),
        _ => ENDED.to_owned(),
    }
}

fn exited(code: i32) -> String {
    format!("it exited with status {code}")
}

fn killed(signal: i32) -> String {
    format!("it was ended by signal {signal}")
}
