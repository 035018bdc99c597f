//! From a pack to a recording.
//!
//! A pack comes from somebody else. Nothing in it is a file name, members come in one fixed order, sizes are
//! compared with what the pack itself can hold and with the room on the disk before anything is written, and
//! the recording gets its name only when everything was good.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;

use super::container::{
    BLOCK_HEADER_SIZE, BLOCK_LIMIT, BadPack, Item, Member, MemberKind, PackHeader, PackReader,
};
use super::debug_info::open_regular;
use crate::catalogue::{CATALOGUE_LIMIT, CATALOGUE_NAME, Catalogue};
use crate::unfinished::Unfinished;
use crate::{Directory, Error, FILES_NAME, LOG_NAME, Recording};

/// Unpacks into a new directory, which appears only when everything was good, and is marked as received.
pub fn unpack(pack: &Path, directory: &Path) -> Result<(), Error> {
    let file = open_regular(pack).map_err(Error::io("open", pack))?;
    let size = file.metadata().map_err(Error::io("read", pack))?.len();
    let at_start = |bad| pack_error(pack, 0, bad);
    let (reader, header) = PackReader::begin(BufReader::new(file)).map_err(at_start)?;
    check_size(pack, size, &header)?;
    let unfinished = Unfinished::begin(directory, header.total)?;
    Unpacking { pack, reader, header, directory: unfinished.directory() }.run()?;
    unfinished.finish()
}

/// Refuses what cannot be true, before anything is written.
fn check_size(pack: &Path, size: u64, header: &PackHeader) -> Result<(), Error> {
    let most = (size / BLOCK_HEADER_SIZE as u64).saturating_mul(BLOCK_LIMIT as u64);
    if header.total > most || u64::from(header.members) > size / BLOCK_HEADER_SIZE as u64 {
        let bad = BadPack::Content("it declares more than it can hold");
        return Err(pack_error(pack, 0, bad));
    }
    Ok(())
}

fn pack_error(path: &Path, offset: u64, bad: BadPack) -> Error {
    match bad {
        BadPack::Content(reason) => Error::BadPack { path: path.to_path_buf(), offset, reason },
        BadPack::Io(error) => Error::io("read", path)(error),
    }
}

struct Unpacking<'a> {
    pack: &'a Path,
    reader: PackReader<BufReader<File>>,
    header: PackHeader,
    directory: &'a Directory,
}

impl Unpacking<'_> {
    fn run(mut self) -> Result<(), Error> {
        let path = self.directory.path_of(FILES_NAME);
        let files = self.directory.new_directory(FILES_NAME).map_err(Error::io("create", path))?;
        let mut left = self.header.total;
        for index in 0..self.header.members {
            let (expected, directory, name) = match index {
                0 => (MemberKind::Log, self.directory, LOG_NAME.to_string()),
                1 => (MemberKind::Catalogue, &files, CATALOGUE_NAME.to_string()),
                _ => (MemberKind::File(index - 2), &files, (index - 2).to_string()),
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
            self.write_member(&member, directory, &name)?;
        }
        if self.next()? != Item::End || left != 0 {
            return Err(self.bad("its members are not what it declares"));
        }
        if let Err(bad) = self.reader.expect_end_of_file() {
            return Err(pack_error(self.pack, self.reader.offset(), bad));
        }
        self.check_recording()
    }

    fn write_member(
        &mut self,
        member: &Member,
        directory: &Directory,
        name: &str,
    ) -> Result<(), Error> {
        let path = directory.path_of(name);
        let mut file = directory.new_file(name).map_err(Error::io("create", &path))?;
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
            file.write_all(&bytes).map_err(Error::io("write", &path))?;
        }
        Ok(())
    }

    /// What was unpacked must be a recording, of the id that the pack names, and have the files it lists.
    fn check_recording(&self) -> Result<(), Error> {
        let recording = match Recording::open_in(self.directory.clone()) {
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
            let copy = catalogue.copy(file).open().and_then(|copy| copy.metadata());
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
