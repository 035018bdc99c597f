//! The counters of `--stats`: memory that the engine adds to and `retro` reads.

use std::ffi::c_void;
use std::fs::File;
use std::num::NonZeroUsize;
use std::os::fd::{IntoRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;

use anyhow::{Context, Result};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::sys::resource::{Resource, getrlimit};
use retro_abi::stats::Stats;

use crate::descriptors::{above_standard, duplicate_from};

const SIZE: usize = size_of::<Stats>();

/// Descriptor numbers from here on are out of the way of what programs and shells use.
const PREFERRED_FD: u64 = 900;

/// Shared memory that holds one [`Stats`].
#[derive(Debug)]
pub struct Counters {
    fd: OwnedFd,
    memory: NonNull<c_void>,
}

impl Counters {
    /// Creates a block of zeroes.
    pub fn new() -> Result<Self> {
        let fd = memfd_create(c"retro-stats", MFdFlags::MFD_CLOEXEC)
            .context("cannot create memory for the counters")?;
        let file = File::from(above_standard(fd).context("no descriptor is left")?);
        file.set_len(SIZE as u64).context("cannot size the memory for the counters")?;
        let fd = OwnedFd::from(file);
        let length = NonZeroUsize::new(SIZE).expect("there are counters");
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let memory = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, &fd, 0) }
            .context("cannot map the counters")?;
        Ok(Self { fd, memory })
    }

    /// Makes a descriptor for the engine that stays open across `execve`. To be called in the
    /// child: only the guest's process is to have it.
    pub fn inheritable_fd(&self) -> Result<RawFd> {
        let (limit, _) = getrlimit(Resource::RLIMIT_NOFILE).context("cannot read RLIMIT_NOFILE")?;
        let lowest = PREFERRED_FD.min(limit.saturating_sub(16)).max(3);
        let fd = duplicate_from(&self.fd, lowest as RawFd)
            .context("no descriptor is left for the counters (raise the limit with `ulimit -n`)")?;
        fcntl(&fd, FcntlArg::F_SETFD(FdFlag::empty())).context("cannot keep the counters open")?;
        Ok(fd.into_raw_fd())
    }

    /// The counters as they are now.
    pub fn get(&self) -> &Stats {
        // SAFETY: the mapping is `SIZE` bytes long, page-aligned, and lives as long as `self`;
        // all-zero bytes and whatever atomic additions make of them are a valid `Stats`; the
        // fields are atomics, so that other processes may change them meanwhile.
        unsafe { self.memory.cast().as_ref() }
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        // SAFETY: `memory` is a mapping of `SIZE` bytes made by `new`, and no reference into it
        // outlives `self`. Failure would leave the mapping in place, which harms nobody.
        let _ = unsafe { munmap(self.memory, SIZE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::FromRawFd;
    use std::os::unix::fs::FileExt;

    #[test]
    fn what_is_written_through_the_descriptor_is_read() {
        let counters = Counters::new().unwrap();
        assert!(counters.get().values().iter().all(|&(_, value)| value == 0));
        let fd = counters.inheritable_fd().unwrap();
        assert!(fd > 2);
        // SAFETY: `inheritable_fd` gave the descriptor away.
        let file = unsafe { File::from_raw_fd(fd) };
        file.write_all_at(&7u64.to_ne_bytes(), 8).unwrap();
        assert_eq!(counters.get().values()[1].1, 7);
    }
}
