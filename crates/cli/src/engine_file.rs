//! The engine's image as a file that can be executed.
//!
//! The image is part of the `retro` binary and never lies in the file system where something
//! could replace or remove it: it is copied into anonymous memory, sealed, and executed from its
//! descriptor. Where the kernel forbids that (`vm.memfd_noexec=2`, or a seccomp filter) a private
//! file is used, which loses its name before it is executed.
//!
//! Who executes it again and again, as a replay does, needs a path. `/proc` gives one to the descriptor; where there
//! is no `/proc`, the image is a file with a name, in the first directory that takes it, until nobody needs it. What is
//! executed by its name must be ours: directories in which others could replace it are left out.
//!
//! Invariants: the descriptor is close-on-exec and above the standard ones. A file with a name is removed when its
//! [`EngineFile`] is dropped, whatever came before.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use retro_engine_image::ENGINE_IMAGE;
use retro_recording::Directory;
use tempfile::TempPath;

use crate::descriptors::above_standard;

/// Opens a file that holds the engine's image, ready to be executed.
pub fn open() -> Result<OwnedFd> {
    let file = match in_memory(ENGINE_IMAGE) {
        Ok(file) => file,
        Err(memory_error) => in_directory(ENGINE_IMAGE).with_context(|| {
            format!(
                "cannot make a file for the engine: no memory file ({memory_error}), \
                 and no directory works (set TMPDIR to one that is not mounted noexec)"
            )
        })?,
    };
    above_standard(file).context("cannot duplicate the engine's descriptor")
}

/// The engine's image under a path.
#[derive(Debug)]
pub struct EngineFile {
    path: PathBuf,
    _held: Held,
}

/// What makes the path of an [`EngineFile`] valid while it lives.
#[derive(Debug)]
enum Held {
    Descriptor(#[expect(dead_code, reason = "it is open, and nothing else")] OwnedFd),
    Name(#[expect(dead_code, reason = "it is removed in the end")] TempPath),
}

impl EngineFile {
    /// Makes one. Directories of the caller's are tried after the usual ones if the image needs a name.
    pub fn new(other_directories: &[&Path]) -> Result<EngineFile> {
        let descriptor = open()?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
        if path.exists() {
            return Ok(EngineFile { path, _held: Held::Descriptor(descriptor) });
        }
        EngineFile::named(other_directories)
    }

    fn named(other_directories: &[&Path]) -> Result<EngineFile> {
        let mut failures = String::new();
        for directory in
            directories().iter().map(PathBuf::as_path).chain(other_directories.iter().copied())
        {
            match named_in(directory, ENGINE_IMAGE) {
                Ok(name) => {
                    return Ok(EngineFile { path: name.to_path_buf(), _held: Held::Name(name) });
                }
                Err(error) => failures.push_str(&format!("; {}: {error}", directory.display())),
            }
        }
        bail!(
            "cannot make a file for the engine: there is no /proc, and no directory works (set TMPDIR to one that can \
             be written to and is not mounted noexec){failures}"
        )
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Creates a file that keeps its name until the result is dropped.
fn named_in(directory: &Path, image: &[u8]) -> io::Result<TempPath> {
    // Absolute, so that it is found and removed from wherever that happens.
    let directory = std::path::absolute(directory)?;
    check_safe(&directory)?;
    let mut file = tempfile::Builder::new()
        .prefix(".retro-engine-")
        .permissions(fs::Permissions::from_mode(0o700))
        .tempfile_in(directory)?;
    file.write_all(image)?;
    executable(file.as_file())?;
    // A file that is open for writing cannot be executed.
    Ok(file.into_temp_path())
}

fn in_memory(image: &[u8]) -> io::Result<OwnedFd> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    // Kernels since 6.3 want to be told that the file will be executed; older ones refuse the
    // unknown flag.
    let executable = MFdFlags::from_bits_retain(libc::MFD_EXEC);
    let fd = match memfd_create(c"retro-engine", flags | executable) {
        Err(Errno::EINVAL) => memfd_create(c"retro-engine", flags)?,
        other => other?,
    };
    let mut file = File::from(fd);
    file.write_all(image)?;
    let seals = SealFlag::F_SEAL_WRITE
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file.into())
}

fn in_directory(image: &[u8]) -> io::Result<OwnedFd> {
    let mut last = io::Error::from(Errno::ENOENT);
    for directory in directories() {
        match unnamed_in(&directory, image) {
            Ok(file) => return Ok(file),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn directories() -> Vec<PathBuf> {
    let chosen = ["TMPDIR", "XDG_RUNTIME_DIR"].into_iter().filter_map(env::var_os);
    let usual = ["/tmp", "/var/tmp", "/dev/shm"].into_iter().map(Into::into);
    chosen.chain(usual).map(PathBuf::from).collect()
}

/// Creates a file in `directory` and removes its name, so that only the descriptor is left.
fn unnamed_in(directory: &Path, image: &[u8]) -> io::Result<OwnedFd> {
    check_safe(directory)?;
    let path = directory.join(format!(".retro-engine-{}", process::id()));
    let mut writer = OpenOptions::new().write(true).create_new(true).mode(0o700).open(&path)?;
    // A file that is open for writing cannot be executed: open it again before the name goes.
    let reader = writer.write_all(image).and_then(|()| File::open(&path));
    fs::remove_file(&path)?;
    let reader = reader?;
    executable(&reader)?;
    Ok(reader.into())
}

/// Fails where somebody else could put another file in the place of ours.
fn check_safe(directory: &Path) -> io::Result<()> {
    const ROOT: u32 = 0;
    let status = Directory::open(directory)?.own_status()?;
    let is_trusted = status.is_own() || status.owner == ROOT;
    if is_trusted && (!status.is_shared() || status.is_sticky()) {
        return Ok(());
    }
    Err(io::Error::other("others could replace files there"))
}

/// Fails if the file lies on a file system that is mounted noexec.
fn executable(file: &File) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH;
    // SAFETY: the descriptor is open and the path is a NUL-terminated string.
    let result = unsafe {
        libc::syscall(libc::SYS_faccessat2, file.as_raw_fd(), c"".as_ptr(), libc::X_OK, flags)
    };
    match Errno::result(result) {
        // A kernel without faccessat2 leaves it to the execution itself to fail.
        Ok(_) | Err(Errno::ENOSYS) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::MetadataExt;

    fn contents(fd: &OwnedFd) -> Vec<u8> {
        let mut bytes = Vec::new();
        File::open(format!("/proc/self/fd/{}", fd.as_raw_fd()))
            .and_then(|mut file| file.read_to_end(&mut bytes))
            .unwrap();
        bytes
    }

    #[test]
    fn both_ways_give_the_image_and_close_on_exec() {
        for file in [in_memory(b"image").unwrap(), in_directory(b"image").unwrap()] {
            assert_eq!(contents(&file), b"image");
            let flags = fcntl(&file, FcntlArg::F_GETFD).unwrap();
            assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
        }
    }

    #[test]
    fn a_file_with_a_name_is_executable_and_goes_away() {
        let own = tempfile::tempdir().unwrap();
        let name = named_in(own.path(), b"#!/bin/sh\nexit 7\n").unwrap();
        let status = process::Command::new(&name).status().unwrap();
        assert_eq!(status.code(), Some(7));
        drop(name);
        assert_eq!(fs::read_dir(own.path()).unwrap().count(), 0);
        let nowhere = own.path().join("nowhere");
        assert!(named_in(&nowhere, b"image").is_err());
    }

    #[test]
    fn the_engine_has_a_path_either_way() {
        for file in [EngineFile::new(&[]).unwrap(), EngineFile::named(&[]).unwrap()] {
            assert_eq!(fs::read(file.path()).unwrap(), ENGINE_IMAGE);
        }
    }

    #[test]
    fn the_file_has_no_name_and_cannot_change() {
        let file = File::from(in_directory(b"image").unwrap());
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        let mut memory = File::from(in_memory(b"image").unwrap());
        assert!(memory.write_all(b"more").is_err());
    }
}
