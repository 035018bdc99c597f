//! The socket file: private from the first moment, never taken from a living server, gone at the end.
//!
//! A socket that is bound in place has, for a moment, the permissions that the umask leaves it. So it is bound in a new
//! directory that only we can enter, closed to others there, and then linked to its place, which fails if there is
//! something. A stale socket is first moved into our directory and tested again there: should another server have
//! taken the place since the first test, its socket is put back.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::error::ServerError;

/// Bytes of a path in a socket address, without the final zero.
const LONGEST_PATH: usize = 107;

/// How often a place that others take and leave is tried.
const ATTEMPTS: usize = 8;

/// A socket file of ours, removed when dropped.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_ours =
            |found: &fs::Metadata| found.dev() == self.device && found.ino() == self.inode;
        if fs::symlink_metadata(&self.path).is_ok_and(|found| is_ours(&found)) {
            // Nothing can be done about a directory that became read-only.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens at the path, for this user alone.
pub fn listen(path: &Path) -> Result<(UnixListener, SocketFile), ServerError> {
    if path.as_os_str().as_bytes().len() > LONGEST_PATH {
        return Err(ServerError::SocketPathTooLong(path.to_owned()));
    }
    let failed = |error| ServerError::Socket { path: path.to_owned(), error };
    let private = PrivateDirectory::beside(path).map_err(failed)?;
    let bound = private.entry("socket");
    let listener = UnixListener::bind(&bound).map_err(failed)?;
    fs::set_permissions(&bound, fs::Permissions::from_mode(0o600)).map_err(failed)?;
    let found = fs::symlink_metadata(&bound).map_err(failed)?;
    for _ in 0..ATTEMPTS {
        match fs::hard_link(&bound, path) {
            Ok(()) => {
                let file =
                    SocketFile { path: path.to_owned(), device: found.dev(), inode: found.ino() };
                return Ok((listener, file));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => clear(path, &private)?,
            Err(error) => return Err(failed(error)),
        }
    }
    Err(ServerError::SocketInUse(path.to_owned()))
}

/// A directory that only we can enter, removed when dropped.
struct PrivateDirectory {
    opened: File,
    _directory: TempDir,
}

impl PrivateDirectory {
    fn beside(path: &Path) -> io::Result<PrivateDirectory> {
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let directory = tempfile::Builder::new()
            .prefix(".retro-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(parent)?;
        Ok(PrivateDirectory { opened: File::open(directory.path())?, _directory: directory })
    }

    /// By the directory's descriptor: its path may be too long for a socket address.
    fn entry(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.opened.as_raw_fd()))
    }
}

/// Removes a stale socket.
fn clear(path: &Path, private: &PrivateDirectory) -> Result<(), ServerError> {
    let failed = |error| ServerError::Socket { path: path.to_owned(), error };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(ServerError::NotASocket(path.to_owned()));
        }
        Ok(_) => {}
    }
    if !is_stale(path) {
        return Err(ServerError::SocketInUse(path.to_owned()));
    }
    let aside = private.entry("stale");
    match fs::rename(path, &aside) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    }
    if is_stale(&aside) {
        return fs::remove_file(&aside).map_err(failed);
    }
    fs::hard_link(&aside, path).map_err(failed)?;
    Err(ServerError::SocketInUse(path.to_owned()))
}

/// Whether nobody listens. In doubt, for example without permission, somebody does.
fn is_stale(path: &Path) -> bool {
    match UnixStream::connect(path) {
        Ok(_) => false,
        Err(error) => error.kind() == io::ErrorKind::ConnectionRefused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_private_and_goes_away() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let (listener, file) = listen(&path).unwrap();
        let mode = fs::symlink_metadata(&path).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(UnixStream::connect(&path).is_ok());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing else is left");
        drop((listener, file));
        assert!(!path.exists());
    }

    #[test]
    fn a_living_server_keeps_its_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let kept = listen(&path).unwrap();
        assert!(matches!(listen(&path), Err(ServerError::SocketInUse(_))));
        assert!(UnixStream::connect(&path).is_ok());
        drop(kept);
    }

    #[test]
    fn a_dead_server_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let kept = listen(&path).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        drop(kept);
    }

    #[test]
    fn other_files_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(listen(&path), Err(ServerError::NotASocket(_))));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_successor_keeps_its_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let (listener, file) = listen(&path).unwrap();
        drop(listener);
        let successor = listen(&path).unwrap();
        drop(file);
        assert!(UnixStream::connect(&path).is_ok());
        drop(successor);
    }

    #[test]
    fn long_paths_are_refused_and_almost_too_long_ones_work() {
        let directory = tempfile::tempdir().unwrap();
        let length = directory.path().as_os_str().len();
        let longest = directory.path().join("x".repeat(LONGEST_PATH - length - 1));
        assert!(listen(&longest).is_ok());
        let longer = directory.path().join("x".repeat(LONGEST_PATH - length));
        assert!(matches!(listen(&longer), Err(ServerError::SocketPathTooLong(_))));
    }
}
