//! What something in a directory is, and what is wrong with it.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::fd::AsFd;

use nix::fcntl::AtFlags;
use nix::sys::stat::{FileStat, SFlag, fstat, fstatat};
use nix::unistd::geteuid;

/// What something in a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A device.
    Device,
}

impl From<nix::dir::Type> for Kind {
    fn from(kind: nix::dir::Type) -> Kind {
        use nix::dir::Type;
        match kind {
            Type::File => Kind::File,
            Type::Directory => Kind::Directory,
            Type::Symlink => Kind::Link,
            Type::Fifo => Kind::Pipe,
            Type::Socket => Kind::Socket,
            Type::CharacterDevice | Type::BlockDevice => Kind::Device,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::File => "a file",
            Kind::Directory => "a directory",
            Kind::Link => "a symbolic link",
            Kind::Pipe => "a named pipe",
            Kind::Socket => "a socket",
            Kind::Device => "a device",
        })
    }
}

/// Why something in a directory is not touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Only regular files are opened.
    #[error("it is {0}, not a file, and recordings have files and directories only")]
    NoFile(Kind),
    /// Only directories are entered.
    #[error("it is {0}, not a directory, and recordings have files and directories only")]
    NoDirectory(Kind),
    /// A file that others own is not written to.
    #[error("it belongs to another user, so it is not written to")]
    Foreign,
    /// A file that has other names is not written to.
    #[error("it has other names (hard links), so it is not written to")]
    Linked,
    /// A name that is a path could lead elsewhere.
    #[error("its name is not that of a file in a directory")]
    Path,
}

impl From<Unfit> for io::Error {
    fn from(unfit: Unfit) -> io::Error {
        io::Error::other(unfit)
    }
}

/// What is known of a file or a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// What it is.
    pub kind: Kind,
    /// Bytes of a file.
    pub length: u64,
    /// Number of its owner.
    pub owner: u32,
    /// Who may do what with it, as `chmod` has it.
    pub permissions: u32,
    /// Device and number there: what it is, whatever it is called.
    pub identity: (u64, u64),
    /// How many names it has.
    links: u64,
}

impl Status {
    pub(super) fn of_descriptor(descriptor: impl AsFd) -> io::Result<Status> {
        Ok(Status::from(fstat(descriptor)?))
    }

    pub(super) fn of_name(directory: impl AsFd, name: &OsStr) -> io::Result<Status> {
        Ok(Status::from(fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)?))
    }

    /// Whether it belongs to this user.
    pub fn is_own(&self) -> bool {
        self.owner == geteuid().as_raw()
    }

    /// Whether others than its owner may write it, or make and remove names in it.
    pub fn is_shared(&self) -> bool {
        const OTHERS_WRITE: u32 = 0o022;
        self.permissions & OTHERS_WRITE != 0
    }

    /// Whether names in a directory can only be removed by those who made them, as in `/tmp`.
    pub fn is_sticky(&self) -> bool {
        const STICKY: u32 = 0o1000;
        self.permissions & STICKY != 0
    }

    pub(super) fn check_regular(&self) -> Result<(), Unfit> {
        if self.kind == Kind::File { Ok(()) } else { Err(Unfit::NoFile(self.kind)) }
    }

    pub(super) fn check_ours(&self) -> Result<(), Unfit> {
        match self {
            _ if !self.is_own() => Err(Unfit::Foreign),
            Status { links: 0 | 1, .. } => Ok(()),
            _ => Err(Unfit::Linked),
        }
    }
}

impl From<FileStat> for Status {
    fn from(found: FileStat) -> Status {
        let format = SFlag::from_bits_truncate(found.st_mode & SFlag::S_IFMT.bits());
        let kind = match format {
            SFlag::S_IFREG => Kind::File,
            SFlag::S_IFDIR => Kind::Directory,
            SFlag::S_IFLNK => Kind::Link,
            SFlag::S_IFIFO => Kind::Pipe,
            SFlag::S_IFSOCK => Kind::Socket,
            _ => Kind::Device,
        };
        Status {
            kind,
            length: found.st_size.try_into().unwrap_or(0),
            owner: found.st_uid,
            permissions: found.st_mode & 0o7777,
            identity: (found.st_dev, found.st_ino),
            links: found.st_nlink,
        }
    }
}
