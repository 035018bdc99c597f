//! The indexer that follows a recording in the background: `retro index --follow`, started before the program is.
//!
//! Invariants: it is no child of this process nor of the program, in a session of its own, with nothing open that this
//! process was started with; so nobody waits for it, and no terminal or pipe reaches it. It has no more priority than
//! is left over.

use std::os::unix::process::CommandExt;
use std::path::{self, Path};
use std::process::{Command, Stdio};
use std::{env, fs, io};

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, signal, sigprocmask};
use nix::unistd::{ForkResult, fork, setsid};

/// Says no if it is set.
const VARIABLE: &str = "RETRO_NO_INDEX";

/// This very program, even if its file was replaced since.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// Added to the niceness.
const NICENESS: libc::c_int = 10;

/// Arguments of `ioprio_set`: this process, and the class of those that get what nobody else wants.
const IO_OF_PROCESS: libc::c_int = 1;
const IO_CLASS_IDLE: libc::c_int = 3 << 13;

/// Whether the user wants one.
pub fn is_wanted(no_index: bool) -> bool {
    let says_no = env::var_os(VARIABLE).is_some_and(|value| !value.is_empty() && value != "0");
    !no_index && !says_no
}

/// Starts an indexer for the recording in a directory. Must be called while this process has one thread.
pub fn start(recording: &Path) -> io::Result<()> {
    let recording = path::absolute(recording)?;
    let mut command = Command::new(THIS_PROGRAM);
    command.arg0("retro").args(["index", "--follow", "--"]).arg(recording);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Lets the directory that this process was started in be removed or unmounted.
    command.current_dir("/");
    // SAFETY: this process has one thread, so the child may do whatever the parent could.
    unsafe { command.pre_exec(detach) };
    // What is waited for is the first of two processes, which is gone at once.
    command.spawn()?.wait()?;
    Ok(())
}

/// Goes on in a child of this child, which nobody knows.
fn detach() -> io::Result<()> {
    setsid()?;
    // SAFETY: this process has one thread.
    if let ForkResult::Parent { .. } = unsafe { fork() }? {
        // SAFETY: ends the process without running what its parent registered for its own exit.
        unsafe { libc::_exit(0) };
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
    // SAFETY: installs no handler. Ignored, it would hide how replay processes end.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }?;
    close_all_on_exec()?;
    raise_limits();
    lower_priority();
    Ok(())
}

/// Keeps nothing open but the standard descriptors, which lead nowhere.
fn close_all_on_exec() -> io::Result<()> {
    // SAFETY: sets a flag of descriptors; none is closed before this process executes another program.
    let result = unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    match Errno::result(result) {
        Ok(_) => Ok(()),
        // Kernels before 5.11.
        Err(Errno::ENOSYS | Errno::EINVAL | Errno::EPERM) => close_listed_on_exec(),
        Err(errno) => Err(errno.into()),
    }
}

fn close_listed_on_exec() -> io::Result<()> {
    for entry in fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        if let Some(number) = number.filter(|&number| number > 2) {
            // SAFETY: as above.
            unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
    Ok(())
}

/// Limits are meant for the program.
fn raise_limits() {
    for limit in [
        Resource::RLIMIT_FSIZE,
        Resource::RLIMIT_NOFILE,
        Resource::RLIMIT_CPU,
        Resource::RLIMIT_AS,
        Resource::RLIMIT_DATA,
    ] {
        if let Ok((_, most)) = getrlimit(limit) {
            let _ = setrlimit(limit, most, most);
        }
    }
}

/// If it cannot be lowered, so be it.
fn lower_priority() {
    // SAFETY: both calls take integers and concern this process alone.
    unsafe {
        libc::nice(NICENESS);
        libc::syscall(libc::SYS_ioprio_set, IO_OF_PROCESS, 0, IO_CLASS_IDLE);
    }
}
