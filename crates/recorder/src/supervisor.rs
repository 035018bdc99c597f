//! The side of `retro record` that outlives the program: starts the recorder and waits for it.
//!
//! A shell that starts a program waits for that program, not for what it leaves in the background. So does
//! this: when the first process has ended, the recorder gets a little time to see everything else end. If
//! other processes are still running then, the caller returns and the recorder stays with them.
//! When only the disk is slow, it is waited for, until a signal asks this process to end.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{self, Path};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use retro_abi::config::SharedFile;
use retro_recording::{Directory, LOG_NAME};

use crate::dialogue::{Heard, Line, Order, Report};
use crate::{Ending, Error, Fate, Options, Outcome, Session, recorder};

/// How long other processes may outlive the first before the caller stops waiting for them.
const PATIENCE_WITH_BACKGROUND: Duration = Duration::from_secs(2);

/// How often a wait for the disk looks for signals.
const GLANCE: Duration = Duration::from_millis(100);

/// Records a program: starts the recorder, calls `launch`, which starts the program and waits for its end, and
/// reports how both went.
///
/// Must be called while this process has one thread. If it fails, nothing is left of the recording. What
/// `launch` fails with is handed on; it must not fail once the program has started.
pub fn record<E>(
    options: &Options,
    launch: impl FnOnce(&Session) -> Result<Ending, E>,
) -> Result<Outcome, Error<E>> {
    if fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() > 1) {
        return Err(Error::Threads);
    }
    // The recorder changes its directory.
    let directory = path::absolute(&options.directory).map_err(Error::Start)?;
    let options = Options { directory, ..options.clone() };
    let cleanup = Cleanup::of(&options.directory);
    let started = start(&options);
    let (session, line) = match started {
        Ok(started) => started,
        Err(error) => {
            cleanup.run();
            return Err(error);
        }
    };
    let recorder = Pid::from_raw(session.recorder);
    match launch(&session) {
        Ok(ending) => {
            line.send(&Order::Ended(ending));
            Ok(Outcome { ending, fate: wait(&line, recorder) })
        }
        Err(error) => {
            line.send(&Order::Cancel);
            while line.receive::<Report>(None) != Heard::Gone {}
            let _ = waitpid(recorder, None);
            cleanup.run();
            Err(Error::Launch(error))
        }
    }
}

fn start<E>(options: &Options) -> Result<(Session, Line), Error<E>> {
    let (line, recorders_line) = Line::pair().map_err(Error::Start)?;
    // SAFETY: this process has one thread, so the child may do whatever the parent could.
    let pid = match unsafe { fork() }.map_err(|errno| Error::Start(errno.into()))? {
        ForkResult::Child => become_recorder(recorders_line, options),
        ForkResult::Parent { child } => child,
    };
    drop(recorders_line);
    match line.receive(None) {
        Heard::Message(Report::Ready(fd)) => {
            let channel = SharedFile { pid: pid.as_raw(), fd };
            Ok((Session { channel, recorder: pid.as_raw() }, line))
        }
        heard => {
            let _ = waitpid(pid, None);
            Err(match heard {
                Heard::Message(Report::Refused(reason)) => Error::Refused(reason),
                _ => Error::Gone,
            })
        }
    }
}

/// Never returns, not even by a panic: this stack belongs to the supervisor.
fn become_recorder(line: Line, options: &Options) -> ! {
    let run = AssertUnwindSafe(|| recorder::run(line, options));
    let status = catch_unwind(run).unwrap_or(101);
    // SAFETY: ends the process without running what the supervisor registered for its own exit.
    unsafe { libc::_exit(status) }
}

/// Waits for the recorder as long as that is reasonable.
fn wait(line: &Line, recorder: Pid) -> Fate {
    let patience_ends = Instant::now() + PATIENCE_WITH_BACKGROUND;
    let mut processes = None;
    loop {
        let only_disk = processes == Some(0);
        let deadline = if only_disk { Instant::now() + GLANCE } else { patience_ends };
        match line.receive(Some(deadline)) {
            Heard::Message(Report::Done(summary)) => {
                let _ = waitpid(recorder, None);
                return Fate::Finished(summary);
            }
            Heard::Message(Report::Remaining(count)) => processes = Some(count),
            Heard::Message(Report::Ready(_) | Report::Refused(_)) => {}
            Heard::Nothing if only_disk && !asked_to_end() => {}
            Heard::Nothing => return Fate::Continues { processes: processes.unwrap_or(0) },
            Heard::Gone => return Fate::Lost { signal: killer(recorder) },
        }
    }
}

/// What killed the recorder, unless somebody else has reaped it.
fn killer(recorder: Pid) -> Option<i32> {
    loop {
        match waitpid(recorder, Some(WaitPidFlag::empty())) {
            Err(Errno::EINTR) => {}
            Ok(WaitStatus::Signaled(_, signal, _)) => return Some(signal as i32),
            _ => return None,
        }
    }
}

/// Whether a signal that ends processes waits, blocked, for this one.
fn asked_to_end() -> bool {
    let mut pending = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the pointer is valid for the call, which fills in the set when it succeeds.
    let pending = unsafe {
        if libc::sigpending(pending.as_mut_ptr()) != 0 {
            return false;
        }
        pending.assume_init()
    };
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT]
        .into_iter()
        // SAFETY: the set is initialised.
        .any(|signal| unsafe { libc::sigismember(&pending, signal) } == 1)
}

/// Removes what a recording that never began left behind, and nothing that was there before.
struct Cleanup<'a> {
    directory: &'a Path,
    before: Before,
}

enum Before {
    Missing,
    Empty,
    InUse,
}

impl Cleanup<'_> {
    fn of(directory: &Path) -> Cleanup<'_> {
        let before = match Directory::open(directory).and_then(|found| found.names()) {
            Ok(names) if names.is_empty() => Before::Empty,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Before::Missing,
            _ => Before::InUse,
        };
        Cleanup { directory, before }
    }

    fn run(&self) {
        if !matches!(self.before, Before::InUse) {
            let _ = Directory::open(self.directory).and_then(|found| found.remove_file(LOG_NAME));
        }
        if matches!(self.before, Before::Missing) {
            let _ = fs::remove_dir(self.directory);
        }
    }
}
