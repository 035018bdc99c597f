//! Reading ELF files of this machine, section by section.
//!
//! Invariants: no bytes make this module panic; what it allocates is bounded by the size of the file, and for
//! compressed sections by [`SECTION_LIMIT`].

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use object::elf::{FileHeader64, SHF_COMPRESSED, SHT_NOBITS};
use object::read::ReadCache;
use object::read::elf::{ElfFile, SectionHeader};
use object::{LittleEndian, Object, ObjectSection};

use crate::section_bytes::SectionBytes;

/// Bytes that are read of one file, all sections together.
const READ_LIMIT: u64 = 8 << 30;

/// Bytes of a section that was compressed.
const SECTION_LIMIT: u64 = 2 << 30;

/// An ELF file that is read while sections are wanted.
pub(crate) type Elf<'data> = ElfFile<'data, FileHeader64<LittleEndian>, Source64<'data>>;
type Source64<'data> = &'data ReadCache<Budget>;

/// Looks at a file as ELF for this machine.
pub(crate) fn with_elf<T>(file: &File, look: impl FnOnce(&Elf) -> T) -> Option<T> {
    let cache = ReadCache::new(Budget { file: file.try_clone().ok()?, left: READ_LIMIT });
    let elf = Elf::parse(&cache).ok()?;
    Some(look(&elf))
}

/// The contents of a section that is there and not empty.
pub(crate) fn section(elf: &Elf, name: &str) -> Option<Vec<u8>> {
    let data = elf.section_by_name(name)?.compressed_data().ok()?;
    if data.uncompressed_size > SECTION_LIMIT && data.uncompressed_size > data.data.len() as u64 {
        return None;
    }
    let bytes = data.decompress().ok()?;
    (!bytes.is_empty()).then(|| bytes.into_owned())
}

/// As [`section`], read as far as it is looked at unless it is compressed: those with debug information are large.
pub(crate) fn large_section(file: &File, elf: &Elf, name: &str) -> Option<SectionBytes> {
    let found = elf.section_by_name(name)?;
    let header = found.elf_section_header();
    let endian = LittleEndian;
    let is_plain = header.sh_flags(endian) & u64::from(SHF_COMPRESSED) == 0;
    if !is_plain || header.sh_type(endian) == SHT_NOBITS {
        return section(elf, name).map(SectionBytes::whole);
    }
    let (offset, size) = (header.sh_offset(endian), header.sh_size(endian));
    let length = file.metadata().ok()?.len();
    if size == 0 || offset.checked_add(size)? > length || size > READ_LIMIT {
        return None;
    }
    SectionBytes::in_file(file, offset, size)
}

/// All sections of a name, one behind the other: what is not linked yet has one for each of its parts.
pub(crate) fn joined_sections(file: &File, elf: &Elf, name: &str) -> Option<SectionBytes> {
    let parts: Vec<_> = elf.sections().filter(|section| section.name() == Ok(name)).collect();
    if parts.len() < 2 {
        return large_section(file, elf, name);
    }
    let mut joined = Vec::new();
    for part in parts {
        let data = part.compressed_data().ok()?;
        if data.uncompressed_size.saturating_add(joined.len() as u64) > SECTION_LIMIT {
            return None;
        }
        joined.extend_from_slice(&data.decompress().ok()?);
    }
    Some(SectionBytes::whole(joined))
}

/// A string of a table.
pub(crate) fn string_at(names: &[u8], offset: u32) -> Option<&[u8]> {
    let rest = names.get(offset as usize..)?;
    let end = rest.iter().position(|&byte| byte == 0)?;
    Some(&rest[..end])
}

/// A file of which only so much can be read: tables of a damaged file may overlap, and each is read anew.
pub(crate) struct Budget {
    file: File,
    left: u64,
}

impl Read for Budget {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.left = (self.left.checked_sub(buffer.len() as u64))
            .ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))?;
        self.file.read(buffer)
    }
}

impl Seek for Budget {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.file.seek(position)
    }
}
