//! What mapped files hold: memory that shows a file has its bytes until somebody writes to it.
//!
//! Programs begin with variables that are zero right behind the last bytes of their file, in the same page. Whoever loads a
//! program clears them, and the kernel does so without a word in the log; what the file has there is something else.

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use object::LittleEndian;
use object::elf::{PT_LOAD, ProgramHeader64};
use object::read::elf::{FileHeader, ProgramHeader};

use crate::elf::{self, Elf, ElfSource};
use crate::modules::Mapped;
use crate::symbols::{Symbols, in_bounds};
use crate::{files, lock};

/// Files are mapped in units of this.
const PAGE: u64 = 4096;

/// Such parts of a file that are known: real ones have one.
const CLEARED_LIMIT: usize = 64;

/// A mapped file that is still there.
#[derive(Debug)]
pub(crate) struct FileBytes {
    file: ElfSource,
    cleared: Vec<Cleared>,
}

/// A part of a file that is cleared in memory when the program is loaded.
#[derive(Debug)]
struct Cleared {
    /// Where the mapping begins that it is in.
    map_offset: u64,
    part: Range<u64>,
}

impl FileBytes {
    fn new(file: ElfSource) -> FileBytes {
        let cleared = elf::with_elf(&file, cleared_parts).unwrap_or_default();
        FileBytes { file, cleared }
    }

    /// Fills the buffer with what a mapping shows from an offset of the file on. Says how many bytes there are.
    fn read(&self, map_offset: u64, offset: u64, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        while done < buffer.len() {
            match self.file.read_at(&mut buffer[done..], offset.saturating_add(done as u64)) {
                Ok(0) | Err(_) => break,
                Ok(read) => done += read,
            }
        }
        for cleared in self.cleared.iter().filter(|cleared| cleared.map_offset == map_offset) {
            let index = |at: u64| at.saturating_sub(offset).min(done as u64) as usize;
            buffer[index(cleared.part.start)..index(cleared.part.end)].fill(0);
        }
        done
    }
}

fn cleared_parts(elf: &Elf) -> Vec<Cleared> {
    let endian = LittleEndian;
    let headers = elf.elf_header().program_headers(endian, elf.data()).unwrap_or_default();
    let part = |header: &ProgramHeader64<LittleEndian>| {
        let (offset, size) = (header.p_offset(endian), header.p_filesz(endian));
        let is_larger = header.p_memsz(endian) > size;
        (header.p_type(endian) == PT_LOAD && is_larger).then_some(())?;
        let end = offset.checked_add(size)?;
        let page_end = end.checked_next_multiple_of(PAGE)?;
        Some(Cleared { map_offset: offset - offset % PAGE, part: end..page_end })
    };
    headers.iter().filter_map(part).take(CLEARED_LIMIT).collect()
}

impl Symbols {
    /// Fills the buffer with what the file holds that is mapped at an address, if it is still the file that the run mapped.
    /// Says how many bytes there are; none behind the end of the mapping or of the file.
    pub fn mapped_bytes(&self, log: u64, time: u64, address: u64, buffer: &mut [u8]) -> usize {
        let time = in_bounds(time);
        let opened = self.open(log);
        let mapped = {
            let mut opened = lock(&opened);
            opened.read_to(time);
            opened.find(time, address)
        };
        let Mapped::File(piece) = mapped else { return 0 };
        let known = lock(&self.bytes).get(&piece.file).cloned();
        let bytes = known.unwrap_or_else(|| {
            let found = files::find(self.recording(), &piece.file).ok();
            let budget = self.recording().budget();
            let source = |file| ElfSource::new(file, budget);
            let bytes = found.map(|(_, file, _)| Arc::new(FileBytes::new(source(file))));
            lock(&self.bytes).insert(Arc::clone(&piece.file), bytes.clone());
            bytes
        });
        let Some(bytes) = bytes else { return 0 };
        let offset = address.wrapping_sub(piece.map_start).wrapping_add(piece.map_offset);
        let len = buffer.len().min(usize::try_from(piece.end - address).unwrap_or(usize::MAX));
        bytes.read(piece.map_offset, offset, &mut buffer[..len])
    }
}
