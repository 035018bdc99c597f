//! The engine as a file that replay processes are started from.
//!
//! It is the engine of this build, in anonymous memory: `retro` has its own inside, and does the same.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::PathBuf;

use anyhow::{Context, Result};
use retro_engine_image::ENGINE_IMAGE;

/// A file that can be executed by its path as long as this is kept.
pub struct Engine(File);

impl Engine {
    pub fn create() -> Result<Self> {
        // Kernels since 6.3 want to be told that the file will be executed; older ones refuse the flag.
        let mut file = memory_file(libc::MFD_CLOEXEC | libc::MFD_EXEC)
            .or_else(|_| memory_file(libc::MFD_CLOEXEC))
            .context("cannot make a memory file for the engine")?;
        file.write_all(ENGINE_IMAGE).context("cannot write the engine to a memory file")?;
        Ok(Self(file))
    }

    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

fn memory_file(flags: libc::c_uint) -> io::Result<File> {
    // SAFETY: the name is a terminated string; the call touches no other memory.
    let descriptor = unsafe { libc::memfd_create(c"retro-engine".as_ptr(), flags) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nothing else owns.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}
