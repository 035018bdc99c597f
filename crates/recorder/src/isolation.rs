//! Making a forked process independent of what its parent was started with.
//!
//! The recorder must outlive everything that it records: whatever a terminal sends to its foreground group,
//! and whoever waits for the guest's pipes to close, must not find the recorder there.
//!
//! Invariant: afterwards the process has its own session, all signals blocked, no descriptor of the parent's
//! but those it was told to keep, and limits as high as they may be raised.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::sys::stat::Mode;
use nix::unistd::setsid;

/// Isolates this process, except for one descriptor above the standard ones.
pub fn isolate(keep: BorrowedFd) -> io::Result<()> {
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None)?;
    setsid()?;
    name_this_process();
    raise_limits();
    let keep = keep.as_raw_fd() as u32;
    close_range(0, keep.saturating_sub(1))?;
    close_range(keep + 1, u32::MAX)?;
    // Nothing that is opened later may get the number of a standard descriptor, which a panic prints to.
    for _ in 0..3 {
        let null = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())?;
        let _ = null.into_raw_fd();
    }
    Ok(())
}

/// Lets the directory that this process was started in be removed or unmounted.
pub fn leave_directory() {
    let _ = std::env::set_current_dir("/");
}

/// Tells it from the supervisor in lists of processes.
fn name_this_process() {
    let _ = nix::sys::prctl::set_name(c"retro-recorder");
}

/// A limit that was set for the guest should not end its recording.
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

fn close_range(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: the descriptors belong to objects of the parent's that this process inherited and never uses or
    // drops: it ends by `_exit`.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    match Errno::result(result) {
        Ok(_) => Ok(()),
        // Kernels before 5.9.
        Err(Errno::ENOSYS | Errno::EPERM) => close_listed(first, last),
        Err(errno) => Err(errno.into()),
    }
}

fn close_listed(first: u32, last: u32) -> io::Result<()> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    for number in numbers.into_iter().filter(|number| (first..=last).contains(number)) {
        // SAFETY: as above. The descriptor of the listing itself is closed already, which does no harm.
        unsafe { libc::close(number as i32) };
    }
    Ok(())
}
