//! A directory of recordings, of a recording, or inside of one, held by its descriptor.
//!
//! The problem: recordings come from others, and lie where others can write. A name in one may be a link to any file of
//! this user, a pipe that nobody writes to, or a device; and what a path meant when it was checked it need not mean when it
//! is used.
//!
//! The strategy: a path is looked up once, when a [`Directory`] is opened. From then on only names count, one component
//! each, relative to the descriptor: by `openat2` with `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS`, or by `openat` with
//! `O_NOFOLLOW` where the kernel or a filter does not have that, which means the same for a single component.
//!
//! Invariants:
//! 1. Nothing here follows a link, waits for a pipe, or leaves the directory.
//! 2. Only regular files are opened, and what is written to is this user's own and has one name.
//! 3. Files are made anew with mode 0600 and directories with 0700; a file is replaced by renaming a new one over it.
//! 4. This is the only way by which files of recordings are opened, made, renamed, listed and removed.

mod access;
mod named_file;
mod removal;
mod room;
mod status;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{self, OFlag};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use access::open_component;
pub use named_file::NamedFile;
pub use status::{Kind, Status, Unfit};

/// For files and directories: their owner's alone, whatever the umask would leave to others.
const OWN_FILE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);
const OWN_DIRECTORY: Mode = Mode::S_IRWXU;

/// How the name of a file begins that is going to replace another.
const NEW_PREFIX: &str = ".new-";

/// How often a lock file is tried that others make and remove.
const LOCK_ATTEMPTS: u32 = 100;

/// An open directory. Clones share the descriptor.
#[derive(Clone, Debug)]
pub struct Directory {
    descriptor: Arc<OwnedFd>,
    /// What it was called when it was opened: for messages.
    path: Arc<Path>,
}

impl Directory {
    /// Opens a directory that the user has named. Links in the path are the user's own business.
    pub fn open(path: &Path) -> io::Result<Directory> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let descriptor = fcntl::open(path, flags, Mode::empty())?;
        Ok(Directory { descriptor: Arc::new(descriptor), path: path.into() })
    }

    /// Makes a directory that was not there, and opens it.
    pub fn create(path: &Path) -> io::Result<Directory> {
        let name = path.file_name().ok_or(io::ErrorKind::AlreadyExists)?;
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let made = Directory::open(parent)?.new_directory(name)?;
        Ok(Directory { path: path.into(), ..made })
    }

    /// What it was called when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What a name in it is called, for messages.
    pub fn path_of(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.path.join(name.as_ref())
    }

    /// What is known of the directory itself.
    pub fn own_status(&self) -> io::Result<Status> {
        Status::of_descriptor(&self.descriptor)
    }

    /// What is known of a name in it. A link is told of as what it is.
    pub fn status(&self, name: impl AsRef<OsStr>) -> io::Result<Status> {
        Status::of_name(&self.descriptor, component(name.as_ref())?)
    }

    /// Whether there is something of that name.
    pub fn has(&self, name: impl AsRef<OsStr>) -> bool {
        self.status(name).is_ok()
    }

    /// Opens a directory in it.
    pub fn directory(&self, name: impl AsRef<OsStr>) -> io::Result<Directory> {
        let name = component(name.as_ref())?;
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NONBLOCK;
        let descriptor = match open_component(&self.descriptor, name, flags, Mode::empty()) {
            // The kernel says the same of a file and, on the way without openat2, of a link.
            Err(Errno::ENOTDIR | Errno::ELOOP) => return Err(self.unfit_directory(name)),
            opened => opened?,
        };
        Ok(Directory { descriptor: Arc::new(descriptor), path: self.path.join(name).into() })
    }

    /// Makes a directory in it that was not there, and opens it.
    pub fn new_directory(&self, name: impl AsRef<OsStr>) -> io::Result<Directory> {
        mkdirat(&self.descriptor, component(name.as_ref())?, OWN_DIRECTORY)?;
        self.directory(name)
    }

    /// Opens a directory in it, which is made if there is none.
    pub fn made_directory(&self, name: impl AsRef<OsStr>) -> io::Result<Directory> {
        match mkdirat(&self.descriptor, component(name.as_ref())?, OWN_DIRECTORY) {
            Ok(()) | Err(Errno::EEXIST) => self.directory(name),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Opens a file for reading.
    pub fn file(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.regular(name.as_ref(), OFlag::O_RDONLY)
    }

    /// Opens a file for reading and writing. It has to be this user's own, and to have no other name.
    pub fn file_to_change(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let file = self.regular(name.as_ref(), OFlag::O_RDWR)?;
        Status::of_descriptor(&file)?.check_ours()?;
        Ok(file)
    }

    /// Makes a file that was not there, for reading and writing.
    pub fn new_file(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.make(component(name.as_ref())?, OFlag::O_RDWR)
    }

    /// Makes a log that was not there: what is written to it goes to its end.
    pub fn new_log(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.make(component(name.as_ref())?, OFlag::O_RDWR | OFlag::O_APPEND)
    }

    /// Opens a file to be locked, which is made if there is none. Its contents do not matter and are left alone.
    pub fn lock_file(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let name = name.as_ref();
        for _ in 0..LOCK_ATTEMPTS {
            match self.file_to_change(name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => return opened,
            }
            match self.new_file(name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made,
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// A file without a name, which nothing of is left when it is closed.
    pub fn unnamed_file(&self) -> io::Result<File> {
        let flags = OFlag::O_TMPFILE | OFlag::O_RDWR;
        let opened = open_component(&self.descriptor, OsStr::new("."), flags, OWN_FILE)?;
        Ok(File::from(opened))
    }

    /// All of a file, which may have so many bytes at most.
    pub fn read(&self, name: impl AsRef<OsStr>, limit: u64) -> io::Result<Vec<u8>> {
        let file = self.file(name)?;
        if file.metadata()?.len() > limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Replaces a file, or makes it, so that whoever looks finds the old one or the new one. With `durable` the new one is
    /// on the disk before the old one goes.
    pub fn replace(
        &self,
        name: impl AsRef<OsStr>,
        contents: &[u8],
        durable: bool,
    ) -> io::Result<()> {
        let name = component(name.as_ref())?;
        let new = Directory::new_name();
        // Left behind by a process of the same number that was killed.
        self.remove_file_if_there(&new)?;
        let written = self.new_file(&new).and_then(|mut file| {
            file.write_all(contents)?;
            if durable { file.sync_all() } else { Ok(()) }
        });
        let replaced = written.and_then(|()| self.rename(&new, name));
        if replaced.is_err() {
            let _ = self.remove_file(&new);
        }
        replaced
    }

    /// A name for a file that gets its own when it has contents.
    pub fn new_name() -> OsString {
        /// Tells the files apart that several threads are making.
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        OsString::from(format!("{NEW_PREFIX}{}-{count}", std::process::id()))
    }

    /// Renames something in it; what has the new name gives way if it is a file, or an empty directory.
    pub fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        let (from, to) = (component(from.as_ref())?, component(to.as_ref())?);
        Ok(fcntl::renameat(&self.descriptor, from, &self.descriptor, to)?)
    }

    /// Moves something in it to another directory of the same file system.
    pub fn move_to(
        &self,
        name: impl AsRef<OsStr>,
        target: &Directory,
        new_name: impl AsRef<OsStr>,
    ) -> io::Result<()> {
        let (from, to) = (component(name.as_ref())?, component(new_name.as_ref())?);
        Ok(fcntl::renameat(&self.descriptor, from, &target.descriptor, to)?)
    }

    /// Removes a name that is not that of a directory. What a link leads to stays.
    pub fn remove_file(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(unlinkat(&self.descriptor, component(name.as_ref())?, UnlinkatFlags::NoRemoveDir)?)
    }

    /// The same, if there is one.
    pub fn remove_file_if_there(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        match self.remove_file(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Removes an empty directory in it.
    pub fn remove_directory(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(unlinkat(&self.descriptor, component(name.as_ref())?, UnlinkatFlags::RemoveDir)?)
    }

    /// The names in it, in no order.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        Ok(self.entries()?.into_iter().map(|(name, _)| name).collect())
    }

    /// The names in it with what they are, in no order.
    pub fn entries(&self) -> io::Result<Vec<(OsString, Kind)>> {
        // A descriptor of its own: the place in a listing belongs to the descriptor.
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        let listed = open_component(&self.descriptor, OsStr::new("."), flags, Mode::empty())?;
        let mut entries = Vec::new();
        for entry in Dir::from_fd(listed)?.iter() {
            let entry = entry?;
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                Some(kind) => Kind::from(kind),
                None => match self.status(&name) {
                    Ok(status) => status.kind,
                    // Removed meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                },
            };
            entries.push((name, kind));
        }
        Ok(entries)
    }

    /// Whether a name is that of a file that was going to replace another when its maker was killed.
    pub fn is_leftover(name: &OsStr) -> bool {
        name.as_bytes().starts_with(NEW_PREFIX.as_bytes())
    }

    /// Opens a regular file that is there.
    fn regular(&self, name: &OsStr, access: OFlag) -> io::Result<File> {
        let name = component(name)?;
        // To open a device may already do something to it, so it is looked at before, too.
        Status::of_name(&self.descriptor, name)?.check_regular()?;
        // Not to wait for anybody if it has become a pipe since.
        let opened =
            open_component(&self.descriptor, name, access | OFlag::O_NONBLOCK, Mode::empty())?;
        let file = File::from(opened);
        Status::of_descriptor(&file)?.check_regular()?;
        Ok(file)
    }

    fn make(&self, name: &OsStr, access: OFlag) -> io::Result<File> {
        let flags = access | OFlag::O_CREAT | OFlag::O_EXCL;
        Ok(File::from(open_component(&self.descriptor, name, flags, OWN_FILE)?))
    }

    /// Why a name cannot be opened as a directory.
    fn unfit_directory(&self, name: &OsStr) -> io::Error {
        match Status::of_name(&self.descriptor, name) {
            Ok(status) => Unfit::NoDirectory(status.kind).into(),
            Err(error) => error,
        }
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// A name that stays in its directory.
fn component(name: &OsStr) -> io::Result<&OsStr> {
    let bytes = name.as_bytes();
    let leaves = matches!(bytes, b"" | b"." | b"..") || bytes.contains(&b'/');
    if leaves { Err(Unfit::Path.into()) } else { Ok(name) }
}

#[cfg(test)]
mod tests;
