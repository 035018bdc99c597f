//! A moment as a core file, so that whatever reads core files can look at it.
//!
//! The file is an ELF core as the kernel writes them: notes ([`notes`]) with the registers of all threads, the mapped files and
//! how the program was started, then memory. It says what the run knows, so that it holds more than the kernel's:
//!
//! - Anonymous memory has its pages that are not zero; the rest is there without contents, which reads as zero.
//! - Mapped files are there with contents, since readers may not have the same files. Very large ones have only what the run has
//!   seen of them.
//!
//! ```text
//! header │ notes │ pages of memory … │ program headers │ section header, if there are too many of those
//! ```
//!
//! Program headers come last because what is worth storing is known when all memory has been read; so every page is read once
//! and none is kept.
//!
//! Invariants: the time that it takes, and the size of the file, go with the memory that the run has touched, not with what it
//! has mapped.

mod notes;

use std::io::{self, Seek, SeekFrom, Write};
use std::ops::Range;

use retro_replayer::PAGE_SIZE;

use crate::run::Run;
use crate::state::State;
use crate::{Cancel, Error, Mapping, Moment};

const PAGE: u64 = PAGE_SIZE as u64;

/// Pages without contents that are stored nevertheless if there are fewer in a row: program headers have their price.
const GAP: u64 = 16 * PAGE;

/// Mappings of files beyond this size are stored as far as the run has seen them.
const WHOLE_FILE: u64 = 256 << 20;

const HEADER_SIZE: u64 = 64;
const PROGRAM_HEADER_SIZE: u16 = 56;
const SECTION_HEADER_SIZE: u16 = 64;

/// Stands for a number of program headers that is in the first section header.
const MANY_PROGRAM_HEADERS: u16 = 0xffff;

/// Why a core file could not be written.
#[derive(Debug, thiserror::Error)]
pub enum CoreFileError {
    /// The moment could not be looked at.
    #[error(transparent)]
    Query(#[from] Error),
    /// The file could not be written.
    #[error("the core file cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// What a core file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreFile {
    /// Threads.
    pub threads: usize,
    /// Mappings.
    pub mappings: usize,
    /// Bytes of the file.
    pub size: u64,
}

/// Writes a moment as a core file, to a place that is empty.
pub fn write(
    run: &Run,
    moment: Moment,
    to: impl Write + Seek,
    cancel: &Cancel,
) -> Result<CoreFile, CoreFileError> {
    let state = run.state(moment)?;
    let maps = run.maps(moment)?;
    let seen = seen_pages(run, moment)?;
    let (notes, threads) = notes::of(&state, &maps, cancel)?;
    let mut file = Writer { to, at: 0, headers: Vec::new() };
    // The header's place; what it says is known in the end.
    file.put(&[0; HEADER_SIZE as usize])?;
    file.put(&notes)?;
    file.headers.push(ProgramHeader::notes(notes.len() as u64));
    file.pad(PAGE)?;
    for mapping in &maps {
        file.put_mapping(&state, mapping, &seen, cancel)?;
    }
    let size = file.finish()?;
    Ok(CoreFile { threads, mappings: maps.len(), size })
}

/// All pages that the run knows something of, in order.
fn seen_pages(run: &Run, moment: Moment) -> Result<Vec<Range<u64>>, Error> {
    let mut all = Vec::new();
    for volume in &run.process(moment.log)?.volumes {
        all.extend(volume.pages.changed(0..u32::MAX)?);
    }
    all.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in all {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    Ok(merged)
}

/// The pages of a mapping that may have contents.
fn pages_of(mapping: &Mapping, seen: &[Range<u64>]) -> Vec<Range<u64>> {
    let whole = mapping.start..mapping.end;
    if is_whole_file(mapping) {
        return vec![whole];
    }
    let first = seen.partition_point(|range| range.end <= whole.start);
    seen[first..]
        .iter()
        .take_while(|range| range.start < whole.end)
        .map(|range| range.start.max(whole.start)..range.end.min(whole.end))
        .collect()
}

/// Whether all of a mapping is stored. Readers who have the mapped file would take zeroes from there that are none in memory.
fn is_whole_file(mapping: &Mapping) -> bool {
    let size = mapping.end - mapping.start;
    mapping.file.is_some() && mapping.prot != 0 && size <= WHOLE_FILE
}

/// A part of the core file and what it stands for.
struct ProgramHeader {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    file_size: u64,
    memory_size: u64,
    alignment: u64,
}

impl ProgramHeader {
    fn notes(size: u64) -> ProgramHeader {
        const PT_NOTE: u32 = 4;
        ProgramHeader {
            kind: PT_NOTE,
            flags: 0,
            offset: HEADER_SIZE,
            address: 0,
            file_size: size,
            memory_size: 0,
            alignment: 4,
        }
    }

    /// Memory of a mapping that begins at an address and in the file, still empty.
    fn memory(mapping: &Mapping, address: u64, offset: u64) -> ProgramHeader {
        const PT_LOAD: u32 = 1;
        // The same three bits as those of `mmap`, in the other order.
        let flags = (mapping.prot & 1) << 2 | mapping.prot & 2 | (mapping.prot & 4) >> 2;
        ProgramHeader {
            kind: PT_LOAD,
            flags,
            offset,
            address,
            file_size: 0,
            memory_size: 0,
            alignment: PAGE,
        }
    }

    /// The address behind its contents.
    fn stored_end(&self) -> u64 {
        self.address + self.file_size
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = [self.kind.to_le_bytes(), self.flags.to_le_bytes()].concat();
        let (address, physical) = (self.address, 0);
        let numbers =
            [self.offset, address, physical, self.file_size, self.memory_size, self.alignment];
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        bytes
    }
}

/// The file as far as it is written.
struct Writer<W> {
    to: W,
    at: u64,
    headers: Vec<ProgramHeader>,
}

impl<W: Write + Seek> Writer<W> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), io::Error> {
        self.to.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn put_zeroes(&mut self, mut count: u64) -> Result<(), io::Error> {
        while count > 0 {
            let now = count.min(PAGE);
            self.put(&[0; PAGE_SIZE][..now as usize])?;
            count -= now;
        }
        Ok(())
    }

    fn pad(&mut self, alignment: u64) -> Result<(), io::Error> {
        self.put_zeroes(self.at.next_multiple_of(alignment) - self.at)
    }

    /// Stores a mapping: parts that begin with contents and end with zeroes that are not stored.
    fn put_mapping(
        &mut self,
        state: &State,
        mapping: &Mapping,
        seen: &[Range<u64>],
        cancel: &Cancel,
    ) -> Result<(), CoreFileError> {
        let mut part = ProgramHeader::memory(mapping, mapping.start, self.at);
        for range in pages_of(mapping, seen) {
            for page in range.step_by(PAGE_SIZE) {
                cancel.check()?;
                let bytes = state.read_once(page)?;
                if bytes.iter().all(|&byte| byte == 0) && !is_whole_file(mapping) {
                    continue;
                }
                if page - part.stored_end() >= GAP {
                    part.memory_size = page - part.address;
                    self.headers.push(part);
                    part = ProgramHeader::memory(mapping, page, self.at);
                }
                self.put_zeroes(page - part.stored_end())?;
                self.put(&bytes[..])?;
                part.file_size = page + PAGE - part.address;
            }
        }
        part.memory_size = mapping.end - part.address;
        self.headers.push(part);
        Ok(())
    }

    /// Writes what says where everything is. Returns the size of the file.
    fn finish(mut self) -> Result<u64, io::Error> {
        let program_headers = self.at;
        let headers = std::mem::take(&mut self.headers);
        for header in &headers {
            self.put(&header.bytes())?;
        }
        let count = u16::try_from(headers.len()).ok().filter(|&count| count < MANY_PROGRAM_HEADERS);
        let section_headers = match count {
            Some(_) => 0,
            None => {
                let at = self.at;
                self.put(&first_section_header(headers.len()))?;
                at
            }
        };
        let size = self.at;
        self.to.seek(SeekFrom::Start(0))?;
        self.put(&elf_header(
            program_headers,
            count.unwrap_or(MANY_PROGRAM_HEADERS),
            section_headers,
        ))?;
        self.to.flush()?;
        Ok(size)
    }
}

/// The section that says how many program headers there are.
fn first_section_header(program_headers: usize) -> [u8; SECTION_HEADER_SIZE as usize] {
    const INFO: usize = 44;
    let mut bytes = [0; SECTION_HEADER_SIZE as usize];
    let count = u32::try_from(program_headers).unwrap_or(u32::MAX);
    bytes[INFO..INFO + 4].copy_from_slice(&count.to_le_bytes());
    bytes
}

fn elf_header(program_headers: u64, count: u16, section_headers: u64) -> Vec<u8> {
    const CORE: u16 = 4;
    const X86_64: u16 = 62;
    // 64 bits, little-endian, version 1 of ELF, for System V.
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    bytes.extend([CORE, X86_64].iter().flat_map(|number| number.to_le_bytes()));
    bytes.extend(1u32.to_le_bytes());
    let entry = 0;
    let places = [entry, program_headers, section_headers];
    bytes.extend(places.iter().flat_map(|place| place.to_le_bytes()));
    bytes.extend(0u32.to_le_bytes());
    let sections = u16::from(section_headers != 0);
    let sizes = [HEADER_SIZE as u16, PROGRAM_HEADER_SIZE, count, SECTION_HEADER_SIZE, sections, 0];
    bytes.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
    bytes
}
