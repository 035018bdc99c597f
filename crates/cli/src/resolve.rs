//! Finds the file that a command name stands for, as `execvp` does.
//!
//! A name with a slash is a path. Any other name is looked for in the directories of PATH, in
//! order: the first regular file that this user may execute wins. What the file contains is the
//! engine's business; only what the file system alone can answer is answered here.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat};

use crate::message::{CANNOT_EXECUTE, NOT_FOUND};

/// Where `execvp` looks when PATH is not set.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Why a command name stands for nothing that can be executed. The wording is the shell's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// No directory of PATH holds the name.
    #[error("{0}: command not found")]
    CommandNotFound(String),
    /// The path does not exist.
    #[error("{0}: No such file or directory")]
    NoSuchFile(String),
    /// The path is a directory.
    #[error("{0}: Is a directory")]
    IsDirectory(String),
    /// The file has no execute permission at all.
    #[error("{0}: Permission denied (to make it executable: chmod +x {0})")]
    NotExecutable(String),
    /// The file is executable, but not for this user or not here.
    #[error("{0}: Permission denied")]
    PermissionDenied(String),
    /// The file system refused in another way.
    #[error("{0}: {1}")]
    Unreachable(String, &'static str),
}

impl ResolveError {
    /// The exit status a shell gives for this error.
    pub fn exit_status(&self) -> i32 {
        match self {
            Self::CommandNotFound(_) | Self::NoSuchFile(_) => NOT_FOUND,
            _ => CANNOT_EXECUTE,
        }
    }
}

/// Resolves `name`, searching `path` (the value of PATH, if it is set).
pub fn resolve(name: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, ResolveError> {
    if name.as_bytes().contains(&b'/') {
        return check(Path::new(name)).map(|()| PathBuf::from(name));
    }
    let mut refused = None;
    if !name.is_empty() {
        let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
        for directory in path.as_bytes().split(|&byte| byte == b':') {
            let candidate = join(directory, name);
            match check(&candidate) {
                Ok(()) => return Ok(candidate),
                // A directory of that name is no command, nor a reason to mention it.
                Err(ResolveError::IsDirectory(_)) => {}
                Err(error) if error.exit_status() == CANNOT_EXECUTE => {
                    refused.get_or_insert(error);
                }
                Err(_) => {}
            }
        }
    }
    Err(refused.unwrap_or_else(|| ResolveError::CommandNotFound(printable(name))))
}

/// An empty element of PATH is the working directory, and adds no slash.
fn join(directory: &[u8], name: &OsStr) -> PathBuf {
    let mut path = directory.to_vec();
    if !directory.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name.as_bytes());
    PathBuf::from(OsString::from_vec(path))
}

/// Whether `path` is a regular file that this process may execute.
fn check(path: &Path) -> Result<(), ResolveError> {
    let shown = printable(path.as_os_str());
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) => return Err(unreachable(shown, &error)),
    };
    if metadata.is_dir() {
        return Err(ResolveError::IsDirectory(shown));
    }
    if !metadata.is_file() {
        return Err(ResolveError::PermissionDenied(shown));
    }
    match faccessat(AT_FDCWD, path, AccessFlags::X_OK, AtFlags::AT_EACCESS) {
        Ok(()) => Ok(()),
        Err(Errno::EACCES) if metadata.permissions().mode() & 0o111 == 0 => {
            Err(ResolveError::NotExecutable(shown))
        }
        Err(errno) => Err(unreachable(shown, &errno.into())),
    }
}

fn unreachable(shown: String, error: &io::Error) -> ResolveError {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT) => ResolveError::NoSuchFile(shown),
        Some(Errno::EACCES) => ResolveError::PermissionDenied(shown),
        Some(errno) => ResolveError::Unreachable(shown, errno.desc()),
        // Only a NUL byte fails without an errno, and an argument cannot hold one.
        None => ResolveError::Unreachable(shown, "Invalid name"),
    }
}

fn printable(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::process;

    /// A fresh directory with `bin1` and `bin2`, removed when dropped.
    struct Directories(PathBuf);

    impl Directories {
        fn new(test: &str) -> Self {
            let root = std::env::temp_dir().join(format!("retro-resolve-{test}-{}", process::id()));
            for part in ["bin1", "bin2"] {
                fs::create_dir_all(root.join(part)).unwrap();
            }
            Self(root)
        }

        fn file(&self, name: &str, mode: u32) -> PathBuf {
            let path = self.0.join(name);
            File::create(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        }

        fn find(&self, name: &str) -> Result<PathBuf, ResolveError> {
            let path = format!("/nowhere:{0}/bin1:{0}/bin2", self.0.display());
            resolve(OsStr::new(name), Some(OsStr::new(&path)))
        }
    }

    impl Drop for Directories {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_first_executable_file_of_path_wins() {
        let dirs = Directories::new("first");
        dirs.file("bin1/both", 0o755);
        dirs.file("bin2/both", 0o755);
        dirs.file("bin1/second", 0o644);
        let second = dirs.file("bin2/second", 0o755);
        fs::create_dir(dirs.0.join("bin1/third")).unwrap();
        let third = dirs.file("bin2/third", 0o755);
        assert_eq!(dirs.find("both").unwrap(), dirs.0.join("bin1/both"));
        assert_eq!(dirs.find("second").unwrap(), second);
        assert_eq!(dirs.find("third").unwrap(), third);
    }

    #[test]
    fn a_name_that_is_refused_everywhere_says_why() {
        let dirs = Directories::new("refused");
        let plain = dirs.file("bin2/plain", 0o644).display().to_string();
        assert_eq!(dirs.find("plain"), Err(ResolveError::NotExecutable(plain)));
        assert_eq!(dirs.find("absent"), Err(ResolveError::CommandNotFound("absent".into())));
        assert_eq!(dirs.find(""), Err(ResolveError::CommandNotFound(String::new())));
    }

    #[test]
    fn a_name_with_a_slash_is_a_path() {
        let dirs = Directories::new("slash");
        let root = dirs.0.display();
        let file = dirs.file("bin1/tool", 0o755);
        assert_eq!(dirs.find(&file.display().to_string()), Ok(file.clone()));
        assert_eq!(
            dirs.find(&format!("{root}/bin1")),
            Err(ResolveError::IsDirectory(format!("{root}/bin1")))
        );
        assert_eq!(dirs.find("./absent"), Err(ResolveError::NoSuchFile("./absent".into())));
        let below_file = format!("{root}/bin1/tool/x");
        let error = dirs.find(&below_file).unwrap_err();
        assert_eq!(error.to_string(), format!("{below_file}: Not a directory"));
        assert_eq!(error.exit_status(), CANNOT_EXECUTE);
    }

    #[test]
    fn an_unset_path_means_the_system_s_directories() {
        assert_eq!(resolve(OsStr::new("sh"), None), Ok(PathBuf::from("/bin/sh")));
        assert_eq!(join(b"", OsStr::new("tool")), PathBuf::from("tool"));
    }
}
