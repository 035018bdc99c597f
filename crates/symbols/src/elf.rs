//! Reading ELF files of this machine, section by section.
//!
//! Invariants: no bytes make this module panic; what it reads and what compressed sections become is paid for from the
//! recording's budget before memory is allocated for it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Deref;

use object::elf::{FileHeader64, SHF_COMPRESSED, SHT_NOBITS};
use object::read::ReadCache;
use object::read::elf::{ElfFile, SectionHeader};
use object::{LittleEndian, Object, ObjectSection};

use retro_recording::{Budget, Share};

use crate::section_bytes::SectionBytes;

/// Bytes that are read of one file, all sections together.
const READ_LIMIT: u64 = 8 << 30;

/// A byte of a compressed section becomes so many at most, besides the first million: debug information, as compilers make
/// it, becomes some ten times smaller.
const EXPANSION: u64 = 100;
const FREE_EXPANSION: u64 = 1 << 20;

/// A file that names are taken from, and the memory that may be used for it.
#[derive(Debug)]
pub(crate) struct ElfSource {
    file: File,
    budget: Budget,
}

impl ElfSource {
    pub(crate) fn new(file: File, budget: &Budget) -> ElfSource {
        ElfSource { file, budget: budget.clone() }
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }
}

impl Deref for ElfSource {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

/// An ELF file that is read while sections are wanted.
pub(crate) type Elf<'data> = ElfFile<'data, FileHeader64<LittleEndian>, Source64<'data>>;
type Source64<'data> = &'data ReadCache<PaidFile>;

/// Looks at a file as ELF for this machine.
pub(crate) fn with_elf<T>(file: &ElfSource, look: impl FnOnce(&Elf) -> T) -> Option<T> {
    let paid = file.budget.share();
    let cache = ReadCache::new(PaidFile { file: file.try_clone().ok()?, left: READ_LIMIT, paid });
    let elf = Elf::parse(&cache).ok()?;
    Some(look(&elf))
}

/// The contents of a section that is there and not empty.
pub(crate) fn section(file: &ElfSource, elf: &Elf, name: &str) -> Option<SectionBytes> {
    let data = elf.section_by_name(name)?.compressed_data().ok()?;
    let share = pay_for(file, data.data.len(), data.uncompressed_size)?;
    let bytes = data.decompress().ok()?;
    (!bytes.is_empty()).then(|| SectionBytes::whole(bytes.into_owned(), share))
}

/// Memory for a section that becomes so large, if that can be.
fn pay_for(file: &ElfSource, stored: usize, size: u64) -> Option<Share> {
    let most = (stored as u64).saturating_mul(EXPANSION).saturating_add(FREE_EXPANSION);
    if size > most {
        file.budget.refuse();
        return None;
    }
    file.budget.take(size).ok()
}

/// As [`section`], read as far as it is looked at unless it is compressed: those with debug information are large.
pub(crate) fn large_section(file: &ElfSource, elf: &Elf, name: &str) -> Option<SectionBytes> {
    let found = elf.section_by_name(name)?;
    let header = found.elf_section_header();
    let endian = LittleEndian;
    let is_plain = header.sh_flags(endian) & u64::from(SHF_COMPRESSED) == 0;
    if !is_plain || header.sh_type(endian) == SHT_NOBITS {
        return section(file, elf, name);
    }
    let (offset, size) = (header.sh_offset(endian), header.sh_size(endian));
    let length = file.metadata().ok()?.len();
    if size == 0 || offset.checked_add(size)? > length || size > READ_LIMIT {
        return None;
    }
    SectionBytes::in_file(file, offset, size)
}

/// All sections of a name, one behind the other: what is not linked yet has one for each of its parts.
pub(crate) fn joined_sections(file: &ElfSource, elf: &Elf, name: &str) -> Option<SectionBytes> {
    let parts: Vec<_> = elf.sections().filter(|section| section.name() == Ok(name)).collect();
    if parts.len() < 2 {
        return large_section(file, elf, name);
    }
    let mut joined = Vec::new();
    let mut share = file.budget.share();
    for part in parts {
        let data = part.compressed_data().ok()?;
        let _piece = pay_for(file, data.data.len(), data.uncompressed_size)?;
        // Vectors grow by doubling.
        share.grow(data.uncompressed_size.saturating_mul(2)).ok()?;
        joined.extend_from_slice(&data.decompress().ok()?);
    }
    Some(SectionBytes::whole(joined, share))
}

/// A string of a table.
pub(crate) fn string_at(names: &[u8], offset: u32) -> Option<&[u8]> {
    let rest = names.get(offset as usize..)?;
    let end = rest.iter().position(|&byte| byte == 0)?;
    Some(&rest[..end])
}

/// A file of which only so much can be read: tables of a damaged file may overlap, and each is read anew, and all that was
/// read is kept meanwhile.
pub(crate) struct PaidFile {
    file: File,
    left: u64,
    paid: Share,
}

impl Read for PaidFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let too_large = || io::Error::from(io::ErrorKind::FileTooLarge);
        self.left = self.left.checked_sub(buffer.len() as u64).ok_or_else(too_large)?;
        self.paid.grow(buffer.len() as u64).map_err(|_| too_large())?;
        self.file.read(buffer)
    }
}

impl Seek for PaidFile {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.file.seek(position)
    }
}
