//! Descriptors of our own must not take the numbers of the standard ones.
//!
//! `retro` may be started with one of them closed, which the guest is to find closed, too. The next
//! descriptor that is opened then gets its number, and what is printed would end in that file.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::fcntl::{FcntlArg, fcntl};

/// Moves a descriptor out of 0 to 2. The result is close-on-exec.
pub fn above_standard(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    duplicate_from(&fd, 3)
}

/// A close-on-exec duplicate with the lowest free number from `lowest` on.
pub fn duplicate_from(fd: &OwnedFd, lowest: i32) -> io::Result<OwnedFd> {
    let duplicate = fcntl(fd, FcntlArg::F_DUPFD_CLOEXEC(lowest))?;
    // SAFETY: `duplicate` was just created and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(duplicate) })
}
