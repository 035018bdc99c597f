//! The bytes of a section, read from the file as far as they are looked at.
//!
//! Debug information takes hundreds of megabytes, of which most questions need little: the headers of units and one of
//! them. So a section is read in chunks, each when the first of its bytes is wanted, and kept.
//!
//! Files are never mapped: a mapped file that somebody shortens ends the process that looks at it. Here a chunk that
//! cannot be read is as if the section ended before it.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, OnceLock};

use gimli::{Error, LittleEndian, Reader, ReaderOffsetId};
use memchr::memchr;
use retro_recording::Share;

use crate::elf::ElfSource;
use crate::lock;

/// Bytes that are read at once. Units are some ten thousand bytes, and of most only the header is wanted.
const CHUNK: usize = 1 << 13;

struct Section {
    /// The file, and where the section begins in it; None if all is there.
    file: Option<(File, u64)>,
    size: usize,
    /// Bytes of a chunk.
    chunk: usize,
    /// What was read; empty if that failed.
    chunks: Box<[OnceLock<Box<[u8]>>]>,
    /// The memory for what is there.
    share: Mutex<Option<Share>>,
}

impl Section {
    fn chunk(&self, number: usize) -> &[u8] {
        let Some(chunk) = self.chunks.get(number) else { return &[] };
        chunk.get_or_init(|| self.read_chunk(number).unwrap_or_default())
    }

    fn read_chunk(&self, number: usize) -> Option<Box<[u8]>> {
        let start = number * self.chunk;
        let length = self.chunk.min(self.size - start);
        if let Some(share) = &mut *lock(&self.share) {
            share.grow(length as u64).ok()?;
        }
        let mut bytes = vec![0; length];
        let (file, offset) = self.file.as_ref()?;
        file.read_exact_at(&mut bytes, offset + start as u64).ok()?;
        Some(bytes.into())
    }

    /// What is there from a place to the end of its chunk.
    fn rest_of_chunk(&self, at: usize) -> &[u8] {
        self.chunk(at / self.chunk).get(at % self.chunk..).unwrap_or_default()
    }
}

/// A part of a section. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SectionBytes {
    section: Arc<Section>,
    start: usize,
    end: usize,
}

impl SectionBytes {
    /// Of a section that lies in a file as it is, where the file has so many bytes.
    pub(crate) fn in_file(file: &ElfSource, offset: u64, size: u64) -> Option<SectionBytes> {
        let budget = file.budget();
        let (file, size) = (file.try_clone().ok()?, usize::try_from(size).ok()?);
        let count = size.div_ceil(CHUNK);
        let share = budget.take((count * size_of::<OnceLock<Box<[u8]>>>()) as u64).ok()?;
        let chunks = (0..count).map(|_| OnceLock::new()).collect();
        let share = Mutex::new(Some(share));
        let section = Section { file: Some((file, offset)), size, chunk: CHUNK, chunks, share };
        Some(SectionBytes { section: Arc::new(section), start: 0, end: size })
    }

    /// Of a section that was read, with the memory that it takes.
    pub(crate) fn whole(bytes: Vec<u8>, share: Share) -> SectionBytes {
        SectionBytes::of_bytes(bytes, Some(share))
    }

    fn of_bytes(bytes: Vec<u8>, share: Option<Share>) -> SectionBytes {
        let size = bytes.len();
        let chunks = Box::new([OnceLock::from(bytes.into_boxed_slice())]);
        let share = Mutex::new(share);
        let section = Section { file: None, size, chunk: size.max(1), chunks, share };
        SectionBytes { section: Arc::new(section), start: 0, end: size }
    }

    /// These bytes one behind the other, for those who go through all of them once: nothing is kept.
    pub(crate) fn copy_to(&self, buffer: &mut Vec<u8>) -> Option<()> {
        buffer.resize(self.len(), 0);
        match &self.section.file {
            Some((file, offset)) => file.read_exact_at(buffer, offset + self.start as u64).ok(),
            None => self.clone().read_slice(buffer).ok(),
        }
    }

    /// The text from a place up to a zero.
    pub(crate) fn text_at(&self, offset: usize) -> Option<Cow<'_, [u8]>> {
        let at = self.start.checked_add(offset).filter(|&at| at < self.end)?;
        let rest = self.section.rest_of_chunk(at);
        let rest = &rest[..rest.len().min(self.end - at)];
        if let Some(length) = memchr(0, rest) {
            return Some(Cow::Borrowed(&rest[..length]));
        }
        let mut text = SectionBytes { start: at, ..self.clone() };
        text.end = at + text.find(0).ok()?;
        Some(Cow::Owned(text.to_slice().ok()?.into_owned()))
    }

    fn ended(&self) -> Error {
        Error::UnexpectedEof(self.offset_id())
    }

    /// Where so many bytes from here on end.
    fn end_of(&self, length: usize) -> gimli::Result<usize> {
        let end = self.start.checked_add(length).filter(|&end| end <= self.end);
        end.ok_or_else(|| self.ended())
    }

    /// As [`Reader::read_slice`], over the ends of chunks.
    #[cold]
    fn read_pieces(&mut self, mut buffer: &mut [u8]) -> gimli::Result<()> {
        while !buffer.is_empty() {
            let piece = self.section.rest_of_chunk(self.start);
            let length = piece.len().min(buffer.len());
            if length == 0 {
                return Err(self.ended());
            }
            let (first, rest) = buffer.split_at_mut(length);
            first.copy_from_slice(&piece[..length]);
            buffer = rest;
            self.start += length;
        }
        Ok(())
    }
}

impl Default for SectionBytes {
    fn default() -> SectionBytes {
        SectionBytes::of_bytes(Vec::new(), None)
    }
}

impl fmt::Debug for SectionBytes {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "SectionBytes({:#x}..{:#x})", self.start, self.end)
    }
}

impl Reader for SectionBytes {
    type Endian = LittleEndian;
    type Offset = usize;

    fn endian(&self) -> LittleEndian {
        LittleEndian
    }

    #[inline]
    fn len(&self) -> usize {
        self.end - self.start
    }

    fn empty(&mut self) {
        self.end = self.start;
    }

    fn truncate(&mut self, length: usize) -> gimli::Result<()> {
        self.end = self.end_of(length)?;
        Ok(())
    }

    fn offset_from(&self, base: &SectionBytes) -> usize {
        self.start.saturating_sub(base.start)
    }

    fn offset_id(&self) -> ReaderOffsetId {
        ReaderOffsetId(self.start as u64)
    }

    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        let at = usize::try_from(id.0).ok()?.checked_sub(self.start)?;
        (at <= self.len()).then_some(at)
    }

    fn find(&self, byte: u8) -> gimli::Result<usize> {
        let mut at = self.start;
        while at < self.end {
            let rest = self.section.rest_of_chunk(at);
            let rest = &rest[..rest.len().min(self.end - at)];
            match memchr(byte, rest) {
                Some(found) => return Ok(at + found - self.start),
                None if rest.is_empty() => break,
                None => at += rest.len(),
            }
        }
        Err(self.ended())
    }

    #[inline]
    fn skip(&mut self, length: usize) -> gimli::Result<()> {
        self.start = self.end_of(length)?;
        Ok(())
    }

    fn split(&mut self, length: usize) -> gimli::Result<SectionBytes> {
        let end = self.end_of(length)?;
        let first = SectionBytes { end, ..self.clone() };
        self.start = end;
        Ok(first)
    }

    fn to_slice(&self) -> gimli::Result<Cow<'_, [u8]>> {
        match self.section.rest_of_chunk(self.start).get(..self.len()) {
            Some(bytes) => Ok(Cow::Borrowed(bytes)),
            None => {
                let mut bytes = vec![0; self.len()];
                self.clone().read_pieces(&mut bytes)?;
                Ok(Cow::Owned(bytes))
            }
        }
    }

    fn to_string(&self) -> gimli::Result<Cow<'_, str>> {
        match self.to_slice()? {
            Cow::Borrowed(bytes) => {
                str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| Error::BadUtf8)
            }
            Cow::Owned(bytes) => {
                String::from_utf8(bytes).map(Cow::Owned).map_err(|_| Error::BadUtf8)
            }
        }
    }

    fn to_string_lossy(&self) -> gimli::Result<Cow<'_, str>> {
        Ok(match self.to_slice()? {
            Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        })
    }

    #[inline]
    fn read_slice(&mut self, buffer: &mut [u8]) -> gimli::Result<()> {
        let end = self.end_of(buffer.len())?;
        match self.section.rest_of_chunk(self.start).get(..buffer.len()) {
            Some(bytes) => {
                buffer.copy_from_slice(bytes);
                self.start = end;
                Ok(())
            }
            None => self.read_pieces(buffer),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn contents() -> Vec<u8> {
        (0..3 * CHUNK + 100).map(|at| (at % 251) as u8).collect()
    }

    /// The contents in a file, behind some other bytes.
    fn file() -> ElfSource {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[9; 7]).unwrap();
        file.write_all(&contents()).unwrap();
        ElfSource::new(file, &retro_recording::Budget::new(u64::MAX))
    }

    #[track_caller]
    fn check(bytes: &SectionBytes) {
        let contents = contents();
        assert_eq!(&*bytes.to_slice().unwrap(), contents);
        let mut copy = Vec::new();
        bytes.copy_to(&mut copy).unwrap();
        assert_eq!(copy, contents);
        for at in (0..contents.len()).step_by(61).chain(CHUNK - 9..CHUNK + 2) {
            let mut from = bytes.clone();
            from.skip(at).unwrap();
            let zero = contents[at..].iter().position(|&byte| byte == 0);
            assert_eq!(from.find(0).ok(), zero);
            let text = zero.map(|zero| &contents[at..at + zero]);
            assert_eq!(bytes.text_at(at).as_deref(), text);
            assert_eq!(from.offset_from(bytes), at);
            let expected = contents.get(at..at + 8);
            let expected = expected.map(|found| u64::from_le_bytes(found.try_into().unwrap()));
            assert_eq!(from.read_u64().ok(), expected);
        }
    }

    #[test]
    fn chunks_are_one_behind_the_other() {
        let size = contents().len() as u64;
        check(&SectionBytes::in_file(&file(), 7, size).unwrap());
        check(&SectionBytes::of_bytes(contents(), None));
    }

    #[test]
    fn a_shortened_file_ends_early() {
        let (file, size) = (file(), contents().len() as u64);
        let mut bytes = SectionBytes::in_file(&file, 7, size).unwrap();
        assert_eq!(bytes.read_u8(), Ok(0));
        file.set_len(7 + CHUNK as u64 + 5).unwrap();
        bytes.skip(CHUNK - 1).unwrap();
        assert!(bytes.read_u64().is_err());
        assert!(bytes.find(0).is_err());
        assert!(bytes.to_slice().is_err());
        assert!(bytes.copy_to(&mut Vec::new()).is_none());
        assert!(bytes.text_at(0).is_none());
    }

    #[test]
    fn parts_have_bounds() {
        let mut bytes = SectionBytes::of_bytes(contents(), None);
        let mut first = bytes.split(10).unwrap();
        assert_eq!((first.len(), bytes.offset_from(&first)), (10, 10));
        assert!(first.skip(11).is_err());
        assert!(first.skip(usize::MAX).is_err());
        assert!(first.text_at(1).is_none());
        first.truncate(3).unwrap();
        assert!(first.read_u32().is_err());
        assert_eq!(first.read_u16(), Ok(0x100));
    }
}
