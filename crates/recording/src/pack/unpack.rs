//! From a pack to a recording.
//!
//! A pack comes from somebody else. Nothing in it is a file name, members come in one fixed order, sizes are
//! compared with what the pack itself can hold and with the room on the disk before anything is written, and
//! the recording gets its name only when everything was good.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;

use super::container::{
    BLOCK_HEADER_SIZE, BLOCK_LIMIT, BadPack, Item, Member, MemberKind, PackHeader, PackReader,
};
use super::debug_info::open_regular;
use crate::catalogue::{CATALOGUE_LIMIT, CATALOGUE_NAME, Catalogue};
use crate::{Error, FILES_NAME, LOG_NAME, Recording};

/// Unpacks into a new directory, which appears only when everything was good.
pub fn unpack(pack: &Path, directory: &Path) -> Result<(), Error> {
    if fs::symlink_metadata(directory).is_ok() {
        return Err(Error::Exists(directory.to_path_buf()));
    }
    let file = open_regular(pack).map_err(Error::io("open", pack))?;
    let size = file.metadata().map_err(Error::io("read", pack))?.len();
    let at_start = |bad| pack_error(pack, 0, bad);
    let (reader, header) = PackReader::begin(BufReader::new(file)).map_err(at_start)?;
    let name = directory.file_name().ok_or_else(|| Error::Exists(directory.to_path_buf()))?;
    let parent = match directory.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    check_size(pack, size, &header, parent)?;

    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".unpacking-{}", std::process::id()));
    let unfinished = Unfinished::create(parent.join(hidden))?;
    Unpacking { pack, reader, header, directory: &unfinished.0 }.run()?;
    fs::rename(&unfinished.0, directory).map_err(Error::io("create", directory))?;
    Ok(())
}

/// Refuses what cannot be true or cannot fit, before anything is written.
fn check_size(pack: &Path, size: u64, header: &PackHeader, parent: &Path) -> Result<(), Error> {
    let most = (size / BLOCK_HEADER_SIZE as u64).saturating_mul(BLOCK_LIMIT as u64);
    if header.total > most || u64::from(header.members) > size / BLOCK_HEADER_SIZE as u64 {
        let bad = BadPack::Content("it declares more than it can hold");
        return Err(pack_error(pack, 0, bad));
    }
    let room = statvfs(parent).map_err(|errno| Error::io("read", parent)(errno.into()))?;
    let available = room.blocks_available().saturating_mul(room.fragment_size());
    if header.total > available {
        return Err(Error::NoRoom { needed: header.total, available });
    }
    Ok(())
}

fn pack_error(path: &Path, offset: u64, bad: BadPack) -> Error {
    match bad {
        BadPack::Content(reason) => Error::BadPack { path: path.to_path_buf(), offset, reason },
        BadPack::Io(error) => Error::io("read", path)(error),
    }
}

/// A directory that goes away unless it was renamed.
struct Unfinished(PathBuf);

impl Unfinished {
    fn create(path: PathBuf) -> Result<Unfinished, Error> {
        DirBuilder::new().mode(0o700).create(&path).map_err(Error::io("create", &path))?;
        Ok(Unfinished(path))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After the renaming there is nothing, and there is nobody to tell about anything else.
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Unpacking<'a> {
    pack: &'a Path,
    reader: PackReader<BufReader<File>>,
    header: PackHeader,
    directory: &'a Path,
}

impl Unpacking<'_> {
    fn run(mut self) -> Result<(), Error> {
        let files = self.directory.join(FILES_NAME);
        DirBuilder::new().mode(0o700).create(&files).map_err(Error::io("create", &files))?;
        let mut left = self.header.total;
        for index in 0..self.header.members {
            let (expected, path) = match index {
                0 => (MemberKind::Log, self.directory.join(LOG_NAME)),
                1 => (MemberKind::Catalogue, files.join(CATALOGUE_NAME)),
                _ => (MemberKind::File(index - 2), files.join((index - 2).to_string())),
            };
            let member = match self.next()? {
                Item::Member(member) if member.kind == expected => member,
                _ => return Err(self.bad("another member was due")),
            };
            let catalogue_limit = CATALOGUE_LIMIT as u64;
            if expected == MemberKind::Catalogue && member.length > catalogue_limit {
                return Err(self.bad("the list of files is absurdly long"));
            }
            left = left
                .checked_sub(member.length)
                .ok_or_else(|| self.bad("its members are larger than it declares"))?;
            self.write_member(&member, &path)?;
        }
        if self.next()? != Item::End || left != 0 {
            return Err(self.bad("its members are not what it declares"));
        }
        if let Err(bad) = self.reader.expect_end_of_file() {
            return Err(pack_error(self.pack, self.reader.offset(), bad));
        }
        self.check_recording()
    }

    fn write_member(&mut self, member: &Member, path: &Path) -> Result<(), Error> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(Error::io("create", path))?;
        let mut left = member.length;
        while left > 0 {
            let Item::Data(bytes) = self.next()? else {
                return Err(self.bad("a member is cut short"));
            };
            // An empty block would bring the end no nearer.
            left = match left.checked_sub(bytes.len() as u64) {
                Some(left) if !bytes.is_empty() => left,
                _ => return Err(self.bad("a member's contents have the wrong length")),
            };
            file.write_all(&bytes).map_err(Error::io("write", path))?;
        }
        Ok(())
    }

    /// What was unpacked must be a recording, of the id that the pack names, and have the files it lists.
    fn check_recording(&self) -> Result<(), Error> {
        let recording = match Recording::open(self.directory) {
            Ok(recording) => recording,
            Err(error @ Error::Io { .. }) => return Err(error),
            Err(_) => return Err(self.bad("the log in it is not a recording")),
        };
        if recording.head().id != self.header.id {
            return Err(self.bad("the log in it is another one than it declares"));
        }
        let catalogue: &Catalogue =
            recording.catalogue().ok_or_else(|| self.bad("the list of files is damaged"))?;
        for file in &catalogue.files {
            let copy = fs::metadata(catalogue.path_of(file));
            if !copy.is_ok_and(|copy| copy.len() == file.size) {
                return Err(self.bad("a file that it lists is missing"));
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Item, Error> {
        let offset = self.reader.offset();
        self.reader.next().map_err(|bad| pack_error(self.pack, offset, bad))
    }

    fn bad(&self, reason: &'static str) -> Error {
        pack_error(self.pack, self.reader.offset(), BadPack::Content(reason))
    }
}
