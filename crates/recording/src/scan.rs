//! Walking over a log, from segment to segment, up to its end or to the first one that is not whole.
//!
//! Headers are read one by one; payloads of chunks are skipped unless they are to be checked. Nothing here
//! fails: what cannot be believed, or read, ends the walk as [`Damage`].

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use retro_abi::channel::Stream;

use crate::header::{Compression, HEADER_SIZE, SegmentHeader, SegmentKind};
use crate::{Damage, Flaw, ProcessSummary, RunEnd, SegmentRef};

/// Whether the payloads of chunks are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payloads {
    /// Only their headers are.
    Skip,
    /// They are read and compared with their checksums.
    Check,
}

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) chunks: BTreeMap<(u64, Stream), Vec<SegmentRef>>,
    pub(crate) summaries: BTreeMap<u64, ProcessSummary>,
    pub(crate) end: Option<RunEnd>,
    pub(crate) damage: Option<Damage>,
}

impl Scan {
    /// Walks from the first segment to the length that the file had when it was opened.
    pub(crate) fn run(file: &File, start: u64, length: u64, payloads: Payloads) -> Scan {
        let mut scan = Scan::default();
        let mut offset = start;
        while offset < length {
            match scan.take_segment(file, offset, length, payloads) {
                Ok(next) => offset = next,
                Err(flaw) => {
                    scan.damage = Some(Damage { offset, flaw });
                    break;
                }
            }
        }
        scan
    }

    /// Takes the segment at an offset; returns where the next one begins.
    fn take_segment(
        &mut self,
        file: &File,
        offset: u64,
        length: u64,
        payloads: Payloads,
    ) -> Result<u64, Flaw> {
        if self.end.is_some() {
            return Err(Flaw::AfterEnd);
        }
        let header = read_header(file, offset)?;
        let next = (offset + HEADER_SIZE as u64)
            .checked_add(header.stored_length.into())
            .filter(|&next| next <= length)
            .ok_or(Flaw::CutShort)?;
        match header.kind {
            SegmentKind::Chunk(stream) => {
                if payloads == Payloads::Check {
                    read_stored(file, offset, &header)?;
                }
                let segment = segment_ref(offset, stream, &header);
                let known = self.chunks.entry((header.log, stream)).or_default();
                if header.sequence != known.len() as u64 {
                    return Err(Flaw::MissingChunk);
                }
                known.push(segment);
            }
            SegmentKind::ProcessSummary => {
                let payload = read_payload(file, offset, &header)?;
                let summary = ProcessSummary::decode(&payload).map_err(Flaw::Payload)?;
                self.summaries.insert(summary.log, summary);
            }
            SegmentKind::End => {
                let payload = read_payload(file, offset, &header)?;
                self.end = Some(RunEnd::decode(&payload).map_err(Flaw::Payload)?);
            }
            SegmentKind::Other(_) => {}
        }
        Ok(next)
    }
}

fn segment_ref(offset: u64, stream: Stream, header: &SegmentHeader) -> SegmentRef {
    SegmentRef {
        offset,
        log: header.log,
        stream,
        sequence: header.sequence,
        base_time: header.base_time,
        interval: header.interval,
        raw_length: header.raw_length,
        stored_length: header.stored_length,
    }
}

/// Reads the chunk that a walk found before; the file may have changed since.
pub(crate) fn read_chunk(file: &File, segment: &SegmentRef) -> Result<Vec<u8>, Flaw> {
    let header = read_header(file, segment.offset)?;
    if header.kind != SegmentKind::Chunk(segment.stream)
        || segment_ref(segment.offset, segment.stream, &header) != *segment
    {
        return Err(Flaw::HeaderField("another segment was here before"));
    }
    read_payload(file, segment.offset, &header)
}

fn read_header(file: &File, offset: u64) -> Result<SegmentHeader, Flaw> {
    let mut bytes = [0; HEADER_SIZE];
    file.read_exact_at(&mut bytes, offset).map_err(unreadable)?;
    SegmentHeader::decode(&bytes)
}

/// Reads a payload as it is stored. Its length is within the limits of its kind, see
/// [`SegmentHeader::decode`].
fn read_stored(file: &File, offset: u64, header: &SegmentHeader) -> Result<Vec<u8>, Flaw> {
    let mut stored = vec![0; header.stored_length as usize];
    file.read_exact_at(&mut stored, offset + HEADER_SIZE as u64).map_err(unreadable)?;
    if crc32fast::hash(&stored) != header.payload_checksum {
        return Err(Flaw::PayloadChecksum);
    }
    Ok(stored)
}

fn read_payload(file: &File, offset: u64, header: &SegmentHeader) -> Result<Vec<u8>, Flaw> {
    let stored = read_stored(file, offset, header)?;
    match header.compression {
        Compression::None => Ok(stored),
        Compression::Zstd => {
            decompress(&stored, header.raw_length as usize).ok_or(Flaw::Decompression)
        }
    }
}

/// Decompresses to exactly the declared length, into a buffer of that size.
pub(crate) fn decompress(stored: &[u8], raw_length: usize) -> Option<Vec<u8>> {
    let raw = zstd::bulk::decompress(stored, raw_length).ok()?;
    (raw.len() == raw_length).then_some(raw)
}

fn unreadable(error: io::Error) -> Flaw {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Flaw::CutShort,
        _ => Flaw::Unreadable(error.to_string()),
    }
}
