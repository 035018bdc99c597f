//! An ELF file: how it is laid out in memory, what it names, where its code comes from.
//!
//! Files are read section by section into memory of our own and never mapped: a mapped file that somebody shortens
//! ends the process that looks at it.
//!
//! Invariants: no bytes make this module panic; what it allocates is bounded by the size of the file, and for
//! compressed sections by [`SECTION_LIMIT`].

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use gimli::{Dwarf, SectionId};
use object::elf::{
    FileHeader64, PF_W, PF_X, PT_LOAD, SHF_ALLOC, SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB, STB_LOCAL,
    STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, STT_OBJECT,
};
use object::read::ReadCache;
use object::read::elf::{ElfFile, FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{LittleEndian, Object, ObjectSection, SectionIndex};

use crate::functions::{Functions, RawSymbol};
use crate::lines::{Bytes, Lines, Source, is_wanted};
use crate::linkage;

/// Bytes that are read of one file, all sections together.
const READ_LIMIT: u64 = 8 << 30;

/// Bytes of a section that was compressed.
const SECTION_LIMIT: u64 = 2 << 30;

const SEGMENTS_LIMIT: usize = 1 << 12;

/// Memory is mapped in pieces of this size.
const PAGE: u64 = 4096;

/// An ELF file that is read while sections are wanted.
pub(crate) type Elf<'data> = ElfFile<'data, FileHeader64<LittleEndian>, Source64<'data>>;
type Source64<'data> = &'data ReadCache<Budget>;

/// What may be done with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    pub(crate) write: bool,
    pub(crate) execute: bool,
}

/// What a program header says of a part of the file that is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) offset: u64,
    pub(crate) file_size: u64,
    pub(crate) address: u64,
    pub(crate) memory_size: u64,
    pub(crate) rights: Rights,
}

/// What is known of a file.
#[derive(Debug, Default)]
pub(crate) struct ObjectFile {
    segments: Vec<Segment>,
    functions: Functions,
    /// Stubs through which functions of other files are called.
    stubs: Functions,
    /// The files that may have line tables, until they are wanted.
    sources: Vec<File>,
    lines: Option<Lines>,
}

/// What an ELF file says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) build_id: Vec<u8>,
    /// Name and checksum of the file with its debug information.
    pub(crate) debug_link: Option<(Vec<u8>, u32)>,
}

impl Identity {
    /// Of a file; one that is not ELF has none.
    pub(crate) fn of(file: &File) -> Identity {
        with_elf(file, |elf| Identity {
            build_id: elf.build_id().ok().flatten().unwrap_or_default().to_vec(),
            debug_link: (elf.gnu_debuglink().ok().flatten())
                .map(|(name, checksum)| (name.to_vec(), checksum)),
        })
        .unwrap_or_default()
    }
}

impl ObjectFile {
    /// Reads a file, and the one with its debug information if that is separate. None if it is not ELF.
    pub(crate) fn read(file: File, debug: Option<File>) -> Option<ObjectFile> {
        let mut object = with_elf(&file, |elf| ObjectFile {
            segments: segments(elf),
            functions: symbols(elf, SHT_SYMTAB),
            stubs: linkage::stubs(elf),
            ..ObjectFile::default()
        })?;
        if object.functions.is_empty()
            && let Some(debug) = &debug
        {
            object.functions = with_elf(debug, |elf| symbols(elf, SHT_SYMTAB)).unwrap_or_default();
        }
        if object.functions.is_empty() {
            object.functions = with_elf(&file, |elf| symbols(elf, SHT_DYNSYM)).unwrap_or_default();
        }
        object.sources = [Some(file), debug].into_iter().flatten().collect();
        Some(object)
    }

    /// How far the file's addresses are from those of a process that maps it with these rights from `offset` on to
    /// `start`.
    pub(crate) fn bias(&self, start: u64, offset: u64, rights: Rights) -> Option<u64> {
        let page_of = |segment: &Segment| segment.offset & !(PAGE - 1);
        let begins = |segment: &&Segment| page_of(segment) == offset;
        // Two segments can share a page of the file, and differ in their rights then.
        let segment = (self.segments.iter())
            .filter(begins)
            .find(|segment| segment.rights == rights)
            .or_else(|| self.segments.iter().find(begins))
            .or_else(|| {
                self.segments.iter().find(|segment| {
                    let end = segment.offset.saturating_add(segment.file_size);
                    (page_of(segment)..end).contains(&offset)
                })
            })?;
        let address = segment.address.wrapping_sub(segment.offset).wrapping_add(offset);
        Some(start.wrapping_sub(address))
    }

    /// Whether an address of the file is in memory when it is loaded, zeroes at the end of segments included.
    pub(crate) fn covers(&self, address: u64) -> bool {
        self.segments.iter().any(|segment| {
            let end = segment.address.saturating_add(segment.memory_size);
            (segment.address..end).contains(&address)
        })
    }

    /// The function or variable at an address of the file: its start and its name.
    pub(crate) fn function(&mut self, address: u64) -> Option<(u64, Arc<str>)> {
        self.functions.find(address).or_else(|| self.stubs.find(address))
    }

    /// The source line at an address of the file.
    pub(crate) fn line(&mut self, address: u64) -> Option<Source> {
        while self.lines.is_none() {
            let file = self.sources.pop()?;
            self.lines = with_elf(&file, dwarf).flatten().map(Lines::new);
        }
        self.lines.as_mut()?.find(address)
    }
}

/// Looks at a file as ELF for this machine.
fn with_elf<T>(file: &File, look: impl FnOnce(&Elf) -> T) -> Option<T> {
    let cache = ReadCache::new(Budget { file: file.try_clone().ok()?, left: READ_LIMIT });
    let elf = Elf::parse(&cache).ok()?;
    Some(look(&elf))
}

fn segments(elf: &Elf) -> Vec<Segment> {
    let endian = LittleEndian;
    let Ok(headers) = elf.elf_header().program_headers(endian, elf.data()) else {
        return Vec::new();
    };
    (headers.iter())
        .filter(|header| header.p_type(endian) == PT_LOAD)
        .take(SEGMENTS_LIMIT)
        .map(|header| Segment {
            offset: header.p_offset(endian),
            file_size: header.p_filesz(endian),
            address: header.p_vaddr(endian),
            memory_size: header.p_memsz(endian),
            rights: Rights {
                write: header.p_flags(endian) & PF_W != 0,
                execute: header.p_flags(endian) & PF_X != 0,
            },
        })
        .collect()
}

/// The symbols of a table. Names are looked up in the whole table of strings at once: one by one each would be a
/// read of its own.
fn symbols(elf: &Elf, table: u32) -> Functions {
    let endian = LittleEndian;
    let sections = elf.elf_section_table();
    let Ok(symbols) = sections.symbols(endian, elf.data(), table) else {
        return Functions::default();
    };
    let names = (sections.section(symbols.string_section()).ok())
        .and_then(|section| section.data(endian, elf.data()).ok())
        .unwrap_or_default();
    let limit_of = |index: u16| {
        let section = sections.section(SectionIndex(index.into())).ok()?;
        let is_loaded = section.sh_flags(endian) & u64::from(SHF_ALLOC) != 0;
        is_loaded.then(|| section.sh_addr(endian).saturating_add(section.sh_size(endian)))
    };
    Functions::new(symbols.iter().filter_map(|symbol| {
        let kind = symbol.st_type();
        let is_typed = matches!(kind, STT_FUNC | STT_GNU_IFUNC | STT_OBJECT);
        let section = symbol.st_shndx(endian);
        if !is_typed && kind != STT_NOTYPE || section == SHN_UNDEF {
            return None;
        }
        Some(RawSymbol {
            address: symbol.st_value(endian),
            size: symbol.st_size(endian),
            limit: limit_of(section)?,
            name: string_at(names, symbol.st_name(endian))?,
            is_global: symbol.st_bind() != STB_LOCAL,
            is_typed,
        })
    }))
}

/// A string of a table.
pub(crate) fn string_at(names: &[u8], offset: u32) -> Option<&[u8]> {
    let rest = names.get(offset as usize..)?;
    let end = rest.iter().position(|&byte| byte == 0)?;
    Some(&rest[..end])
}

/// The sections with line tables, if the file has any.
fn dwarf(elf: &Elf) -> Option<Dwarf<Bytes>> {
    let load = |id: SectionId| -> Result<Bytes, gimli::Error> {
        let bytes = if is_wanted(id) { section(elf, id.name()) } else { None };
        Ok(Bytes::new(bytes.unwrap_or_else(|| Arc::from([])), gimli::LittleEndian))
    };
    section(elf, SectionId::DebugLine.name())?;
    Dwarf::load(load).ok()
}

/// The contents of a section that is there and not empty.
pub(crate) fn section(elf: &Elf, name: &str) -> Option<Arc<[u8]>> {
    let data = elf.section_by_name(name)?.compressed_data().ok()?;
    if data.uncompressed_size > SECTION_LIMIT && data.uncompressed_size > data.data.len() as u64 {
        return None;
    }
    let bytes = data.decompress().ok()?;
    (!bytes.is_empty()).then(|| Arc::from(&*bytes))
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
