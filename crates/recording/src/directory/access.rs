//! Opening one component of a path, and nothing that it may lead to.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::Mode;

/// Whether `openat2` was found missing: kernels before 5.6, and filters that do not know it.
static WITHOUT_OPENAT2: AtomicBool = AtomicBool::new(false);

/// How often a lookup is repeated that a change elsewhere made uncertain.
const ATTEMPTS: u32 = 16;

/// Opens a name in a directory.
pub(super) fn open_component(
    directory: impl AsFd,
    name: &OsStr,
    flags: OFlag,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    if !WITHOUT_OPENAT2.load(Ordering::Relaxed) {
        match open_beneath(&directory, name, flags, mode) {
            Err(Errno::ENOSYS | Errno::EPERM) => {}
            opened => return opened,
        }
        // EPERM may also be what the file system says of the file.
        let opened = open_without_following(&directory, name, flags, mode);
        WITHOUT_OPENAT2.fetch_or(opened.is_ok(), Ordering::Relaxed);
        return opened;
    }
    open_without_following(&directory, name, flags, mode)
}

fn open_beneath(
    directory: &impl AsFd,
    name: &OsStr,
    flags: OFlag,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlag::RESOLVE_BENEATH
        | ResolveFlag::RESOLVE_NO_SYMLINKS
        | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let mut attempts = 0;
    loop {
        let how = OpenHow::new().flags(flags | OFlag::O_CLOEXEC).mode(mode).resolve(resolve);
        match openat2(directory, name, how) {
            Err(Errno::EAGAIN) if attempts < ATTEMPTS => attempts += 1,
            opened => return opened,
        }
    }
}

/// The same for a single component: there is nothing before it that could be a link, and it leads nowhere itself.
pub(super) fn open_without_following(
    directory: &impl AsFd,
    name: &OsStr,
    flags: OFlag,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    openat(directory, name, flags | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW, mode)
}
