//! An ELF file: how it is laid out in memory, what it names, where its code comes from.
//!
//! Segments and symbols are read at once; debug information and tables for unwinding when they are wanted.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use object::elf::{
    PF_W, PF_X, PT_LOAD, SHF_ALLOC, SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB, STB_LOCAL, STT_FUNC,
    STT_GNU_IFUNC, STT_NOTYPE, STT_OBJECT,
};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{LittleEndian, SectionIndex};

use crate::debug_info::DebugInfo;
use crate::elf::{Elf, ElfSource, string_at, with_elf};
use crate::files::DebugFile;
use crate::functions::{Functions, RawSymbol};
use crate::lines::{Lines, Source};
use crate::linkage;
use crate::lookup::{FileNames, SymbolNames};
use crate::unwind::{CodeFrames, FrameTable};

const SEGMENTS_LIMIT: usize = 1 << 12;

/// Memory is mapped in pieces of this size.
const PAGE: u64 = 4096;

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
#[derive(Debug)]
pub struct ObjectFile {
    path: PathBuf,
    segments: Vec<Segment>,
    functions: Functions,
    /// Stubs through which functions of other files are called.
    stubs: Functions,
    file: ElfSource,
    debug: Option<DebugFile>,
    /// Debug information that several files share.
    shared: Option<ElfSource>,
    debug_info: OnceLock<Option<Arc<DebugInfo>>>,
    lines: Lines,
    frame_table: OnceLock<FrameTable>,
    code_frames: CodeFrames,
    symbol_names: OnceLock<SymbolNames>,
    file_names: OnceLock<FileNames>,
}

impl ObjectFile {
    /// Reads the file that was at `path`, and those with its debug information if that is separate. None if it is not
    /// ELF.
    pub(crate) fn read(
        path: &Path,
        file: ElfSource,
        debug: Option<DebugFile>,
        shared: Option<ElfSource>,
    ) -> Option<ObjectFile> {
        let (segments, mut functions, stubs) = with_elf(&file, |elf| {
            (segments(elf), symbols(elf, SHT_SYMTAB), linkage::stubs(&file, elf))
        })?;
        if functions.is_empty()
            && let Some(debug) = &debug
        {
            functions = with_elf(&debug.file, |elf| symbols(elf, SHT_SYMTAB)).unwrap_or_default();
        }
        if functions.is_empty() {
            functions = with_elf(&file, |elf| symbols(elf, SHT_DYNSYM)).unwrap_or_default();
        }
        Some(ObjectFile {
            path: path.to_path_buf(),
            segments,
            functions,
            stubs,
            file,
            debug,
            shared,
            debug_info: OnceLock::new(),
            lines: Lines::default(),
            frame_table: OnceLock::new(),
            code_frames: CodeFrames::default(),
            symbol_names: OnceLock::new(),
            file_names: OnceLock::new(),
        })
    }

    /// Where the run found it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The debug information of the file, from it or from where it is kept apart.
    pub(crate) fn debug_info(&self) -> Option<&Arc<DebugInfo>> {
        let load = || {
            let shared = self.shared.as_ref();
            let apart = self.debug.as_ref();
            apart
                .and_then(|debug| DebugInfo::load(&debug.file, &debug.path, &self.path, shared))
                .or_else(|| DebugInfo::load(&self.file, &self.path, &self.path, shared))
                .map(Arc::new)
        };
        self.debug_info.get_or_init(load).as_ref()
    }

    /// Its line tables.
    pub(crate) fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Its symbols.
    pub(crate) fn functions(&self) -> &Functions {
        &self.functions
    }

    /// How to find the callers of its code.
    pub(crate) fn frame_table(&self) -> &FrameTable {
        self.frame_table.get_or_init(|| FrameTable::read(self.files()))
    }

    /// Its symbols by name.
    pub(crate) fn symbol_names(&self) -> &SymbolNames {
        self.symbol_names.get_or_init(|| SymbolNames::read(self.files()))
    }

    /// Which units have lines of which source files.
    pub(crate) fn file_names(&self) -> &FileNames {
        self.file_names.get_or_init(|| {
            self.debug_info().map_or_else(FileNames::default, |i| FileNames::list(i))
        })
    }

    /// The file itself, then the one with its debug information.
    fn files(&self) -> impl Iterator<Item = &ElfSource> {
        [Some(&self.file), self.debug.as_ref().map(|debug| &debug.file)].into_iter().flatten()
    }

    /// Fills the buffer with what the file has for an address.
    pub(crate) fn read_code(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        let segment = self.segments.iter().find(|segment| {
            let end = segment.address.saturating_add(segment.file_size);
            (segment.address..end).contains(&address)
        })?;
        let offset = segment.offset.checked_add(address - segment.address)?;
        self.file.read_exact_at(buffer, offset).ok()
    }

    pub(crate) fn kept_code_frames(&self) -> &CodeFrames {
        &self.code_frames
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

    /// The addresses of the file that its segments lie between.
    pub(crate) fn extent(&self) -> (u64, u64) {
        let starts = self.segments.iter().map(|segment| segment.address & !(PAGE - 1));
        let ends = self.segments.iter().map(|segment| {
            let end = segment.address.saturating_add(segment.memory_size);
            end.checked_next_multiple_of(PAGE).unwrap_or(end)
        });
        (starts.min().unwrap_or(0), ends.max().unwrap_or(0))
    }

    /// Whether an address of the file is in memory when it is loaded, zeroes at the end of segments included.
    pub(crate) fn covers(&self, address: u64) -> bool {
        self.segments.iter().any(|segment| {
            let end = segment.address.saturating_add(segment.memory_size);
            (segment.address..end).contains(&address)
        })
    }

    /// The function or variable at an address of the file: its start and its name.
    pub(crate) fn function(&self, address: u64) -> Option<(u64, Arc<str>)> {
        self.functions.find(address).or_else(|| self.stubs.find(address))
    }

    /// Where the stub for a function of another file begins that an address is in.
    pub(crate) fn stub_start(&self, address: u64) -> Option<u64> {
        self.stubs.bounds(address).map(|(start, _)| start)
    }

    /// Whether there can be code at an address of the file.
    pub(crate) fn is_code(&self, address: u64) -> bool {
        self.segments.iter().any(|segment| {
            let end = segment.address.saturating_add(segment.file_size);
            segment.rights.execute && (segment.address..end).contains(&address)
        })
    }

    /// The source line at an address of the file.
    pub(crate) fn line(&self, address: u64) -> Option<Source> {
        self.lines.find(self.debug_info()?, address)
    }
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
