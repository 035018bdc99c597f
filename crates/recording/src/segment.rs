//! Making segments: compression and checksums, away from the file.
//!
//! Compressing costs far more than writing, so it happens in free functions that worker threads call at the
//! same time; the [`Writer`](crate::Writer) only appends finished bytes.

use std::cell::RefCell;

use retro_abi::channel::Stream;
use zstd::bulk::Compressor;

use crate::header::{Compression, HEADER_SIZE, SegmentHeader, SegmentKind};
use crate::{Error, ProcessSummary, RunEnd, chunk_limit};

/// Level of compression that keeps up with an engine.
pub const DEFAULT_LEVEL: i32 = 3;

/// What is known of a chunk besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHead {
    /// Number of the log.
    pub log: u64,
    /// The stream of the log.
    pub stream: Stream,
    /// Number of the chunk within its stream, from 0 and without gaps.
    pub sequence: u64,
    /// Time that its first event's difference counts from.
    pub base_time: u64,
    /// Number of the interval that it begins in.
    pub interval: u64,
}

/// A segment as it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedSegment {
    header: SegmentHeader,
    bytes: Vec<u8>,
}

impl EncodedSegment {
    fn new(header: SegmentHeader, payload: Payload) -> EncodedSegment {
        let mut bytes = payload.bytes;
        let stored = &bytes[HEADER_SIZE..];
        // Both lengths are within the limits of the kind, far below 4 GiB.
        let header = SegmentHeader {
            compression: payload.compression,
            raw_length: payload.raw_length as u32,
            stored_length: stored.len() as u32,
            payload_checksum: crc32fast::hash(stored),
            ..header
        };
        bytes[..HEADER_SIZE].copy_from_slice(&header.encode());
        EncodedSegment { header, bytes }
    }

    /// Bytes that it takes in the file.
    pub fn stored_length(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn header(&self) -> &SegmentHeader {
        &self.header
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Makes a segment of an engine's chunk, which is made of whole events. Levels are those of zstd.
pub fn encode_chunk(head: ChunkHead, chunk: &[u8], level: i32) -> Result<EncodedSegment, Error> {
    let limit = chunk_limit(head.stream);
    if chunk.len() > limit {
        return Err(Error::ChunkTooLarge { length: chunk.len(), limit });
    }
    let header = SegmentHeader {
        log: head.log,
        sequence: head.sequence,
        base_time: head.base_time,
        interval: head.interval,
        ..blank(SegmentKind::Chunk(head.stream))
    };
    Ok(EncodedSegment::new(header, compress(chunk, level)))
}

/// Makes the segment that is appended when a process has ended and its chunks are written.
pub fn encode_process_summary(summary: &ProcessSummary) -> EncodedSegment {
    let header = SegmentHeader {
        log: summary.log,
        base_time: summary.time,
        ..blank(SegmentKind::ProcessSummary)
    };
    EncodedSegment::new(header, compress(&summary.encode(), DEFAULT_LEVEL))
}

/// Makes the last segment of a recording.
pub fn encode_end(end: &RunEnd) -> EncodedSegment {
    EncodedSegment::new(blank(SegmentKind::End), compress(&end.encode(), DEFAULT_LEVEL))
}

fn blank(kind: SegmentKind) -> SegmentHeader {
    SegmentHeader {
        kind,
        compression: Compression::None,
        log: 0,
        sequence: 0,
        base_time: 0,
        interval: 0,
        raw_length: 0,
        stored_length: 0,
        payload_checksum: 0,
    }
}

/// A payload behind room for its header.
struct Payload {
    bytes: Vec<u8>,
    compression: Compression,
    raw_length: usize,
}

thread_local! {
    /// Setting up a compressor costs as much as compressing a small chunk, so each thread keeps one.
    static COMPRESSOR: RefCell<Option<(i32, Compressor<'static>)>> = const { RefCell::new(None) };
}

/// Compresses where that makes it smaller. What zstd cannot do, for want of memory, stays uncompressed.
fn compress(raw: &[u8], level: i32) -> Payload {
    let compressed = COMPRESSOR.with_borrow_mut(|kept| {
        if !matches!(kept, Some((kept_level, _)) if *kept_level == level) {
            *kept = Compressor::new(level).ok().map(|new| (level, new));
        }
        let (_, compressor) = kept.as_mut()?;
        let mut room = vec![0; HEADER_SIZE + raw.len()];
        // Room for less than the raw bytes: whatever does not fit is not worth storing.
        let end = raw.len().checked_sub(1)? + HEADER_SIZE;
        let length = compressor.compress_to_buffer(raw, &mut room[HEADER_SIZE..end]).ok()?;
        room.truncate(HEADER_SIZE + length);
        Some(room)
    });
    match compressed {
        Some(bytes) => Payload { bytes, compression: Compression::Zstd, raw_length: raw.len() },
        None => {
            let mut bytes = vec![0; HEADER_SIZE];
            bytes.extend_from_slice(raw);
            Payload { bytes, compression: Compression::None, raw_length: raw.len() }
        }
    }
}
