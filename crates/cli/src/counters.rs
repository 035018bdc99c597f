//! The counters of `--stats`: memory that the engine adds to and `retro` reads.

use std::ffi::c_void;
use std::fs::File;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;

use anyhow::{Context, Result};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use retro_abi::config::SharedFile;
use retro_abi::stats::Stats;

use crate::descriptors::above_standard;

const SIZE: usize = size_of::<Stats>();

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

    /// Where the engine finds them: in this process, which must live as long as the guest does.
    pub fn shared(&self) -> SharedFile {
        SharedFile { pid: std::process::id() as i32, fd: self.fd.as_raw_fd() }
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
    use std::os::unix::fs::FileExt;

    #[test]
    fn what_is_written_through_the_descriptor_is_read() {
        let counters = Counters::new().unwrap();
        assert!(counters.get().values().iter().all(|&(_, value)| value == 0));
        let SharedFile { pid, fd } = counters.shared();
        assert!(fd > 2);
        let file = File::options().write(true).open(format!("/proc/{pid}/fd/{fd}")).unwrap();
        file.write_all_at(&7u64.to_ne_bytes(), 8).unwrap();
        assert_eq!(counters.get().values()[1].1, 7);
    }
}
