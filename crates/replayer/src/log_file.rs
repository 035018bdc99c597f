//! The log of an interval as one file that replay processes map.
//!
//! A process needs the chunks of the interval's main stream and all code of the log, with the code that a forked process
//! has from its parents. Everything is read, checked and written once into anonymous memory; all sessions of the
//! interval share it, and none can change it. All intervals of a log have the same code, so that a process can go from
//! one to the other.
//!
//! ```text
//! main: (length, base time, bytes, padding)*      code inherited, at time 0       code
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use retro_abi::channel::Stream;
use retro_abi::log::{Encoder, Event, MAX_FIXED, Relative};
use retro_recording::{Chunk, Damage, Flaw, LOG_NAME, ProcessEnd, Recording, SegmentRef, Share};

use crate::{Error, Interval, claims, intervals};

/// Bytes in front of a chunk.
const CHUNK_HEAD: u64 = 16;

/// The log of an interval.
#[derive(Debug)]
pub(crate) struct LogFile {
    interval: Interval,
    log: u64,
    /// Nobody can change it any more.
    file: File,
    main: Vec<ChunkPlace>,
    /// Where the code begins, which is where the main stream ends.
    code_start: u64,
    end: u64,
    /// The memory that the file takes.
    _share: Option<Share>,
}

/// Where a chunk of the main stream is.
#[derive(Clone, Copy, Debug)]
struct ChunkPlace {
    offset: u64,
    length: usize,
    base_time: u64,
}

impl LogFile {
    /// Reads all that is needed; refuses if something is missing.
    pub(crate) fn make(
        recording: &Recording,
        log: u64,
        interval: Interval,
        code: &[u8],
    ) -> Result<LogFile, Error> {
        let segments = intervals::chunks_of(recording, log, interval.number);
        check_is_whole(recording, log, interval, segments)?;
        claims::check(recording, log, interval, segments)?;
        let lengths = segments.iter().map(|segment| CHUNK_HEAD + u64::from(segment.raw_length));
        let share = recording.budget().take(lengths.sum::<u64>() + code.len() as u64)?;
        let mut out = Out::new().map_err(Error::Start)?;
        let mut main = Vec::with_capacity(segments.len());
        let mut last = None;
        for segment in segments {
            let chunk = recording.read_chunk(segment)?;
            let place = out.chunk(chunk.base_time, &chunk.bytes).map_err(Error::Start)?;
            main.push(place);
            last = Some(chunk);
        }
        check_end(recording, log, interval, last.as_ref())?;
        let code_start = out.len;
        out.writer.write_all(code).map_err(Error::Start)?;
        let end = code_start + code.len() as u64;
        let file = out.finish().map_err(Error::Start)?;
        Ok(LogFile { interval, log, file, main, code_start, end, _share: Some(share) })
    }

    pub(crate) fn interval(&self) -> Interval {
        self.interval
    }

    /// Bytes of it.
    pub(crate) fn length(&self) -> u64 {
        self.end
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Where the main stream is that is needed from a time on, and where the code is.
    pub(crate) fn ranges_from(&self, time: u64) -> (Range<u64>, Range<u64>) {
        let first = self.main.get(self.first_chunk(time));
        let start = first.map_or(self.code_start, |place| place.offset - CHUNK_HEAD);
        (start..self.code_start, self.code_start..self.end)
    }

    /// A chunk may begin at the very time at which the one before has its last events.
    fn first_chunk(&self, time: u64) -> usize {
        self.main.partition_point(|place| place.base_time < time).saturating_sub(1)
    }

    /// The chunks that have the events after one time and up to another.
    pub(crate) fn chunks_between(&self, after: u64, until: u64) -> Result<EventsBetween, Error> {
        let from_first = self.main[self.first_chunk(after)..].iter();
        let mut chunks = Vec::new();
        for place in from_first.take_while(|place| place.base_time <= until) {
            let mut bytes = vec![0; place.length];
            self.file.read_exact_at(&mut bytes, place.offset).map_err(Error::Start)?;
            chunks.push(Chunk {
                bytes,
                base_time: place.base_time,
                interval: self.interval.number,
            });
        }
        let (log, interval) = (self.log, self.interval.number);
        Ok(EventsBetween { log, interval, chunks, after, until })
    }
}

/// Chunks in memory, and which of their events are wanted.
#[derive(Debug)]
pub(crate) struct EventsBetween {
    log: u64,
    interval: u64,
    chunks: Vec<Chunk>,
    after: u64,
    until: u64,
}

impl EventsBetween {
    /// The events, one by one.
    pub(crate) fn events(&self) -> Events<'_> {
        Events { of: self, chunk: 0, decoder: None }
    }
}

/// Goes through events in the order of the log.
#[derive(Debug)]
pub(crate) struct Events<'a> {
    of: &'a EventsBetween,
    chunk: usize,
    decoder: Option<retro_recording::Events<'a>>,
}

impl<'a> Iterator for Events<'a> {
    type Item = Result<(u64, Event<'a>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.decoder.as_mut().and_then(Iterator::next) {
                Some(Ok((time, _))) if time <= self.of.after => {}
                Some(Ok((time, _))) if time > self.of.until => return None,
                Some(Ok(event)) => return Some(Ok(event)),
                Some(Err(bad)) => {
                    return Some(Err(Error::Incomplete {
                        log: self.of.log,
                        interval: self.of.interval,
                        what: format!("its log makes no sense: {bad}"),
                    }));
                }
                None => {
                    self.decoder = Some(self.of.chunks.get(self.chunk)?.events());
                    self.chunk += 1;
                }
            }
        }
    }
}

/// The reader stops at the first missing chunk. What is left to find out is whether a log that the recorder has
/// completed lacks intervals or chunks at its end.
fn check_is_whole(
    recording: &Recording,
    log: u64,
    interval: Interval,
    segments: &[SegmentRef],
) -> Result<(), Error> {
    let incomplete = |what: String| Error::Incomplete { log, interval: interval.number, what };
    let gap = segments.windows(2).find(|pair| pair[0].sequence + 1 != pair[1].sequence);
    if let Some(pair) = gap {
        return Err(incomplete(format!("chunk {} of its log is missing", pair[0].sequence + 1)));
    }
    let Some(first) = segments.first().map(|segment| segment.sequence) else {
        return Err(Error::NoInterval { log, interval: interval.number });
    };
    let follows =
        recording.segments(log, Stream::Main).iter().any(|other| other.sequence + 1 == first);
    if first != 0 && !follows || first == 0 && interval.number != 0 {
        return Err(incomplete("its first chunk is missing".to_owned()));
    }
    let code = recording.segments(log, Stream::Code);
    if let Some((index, _)) = (0..).zip(code).find(|(index, segment)| segment.sequence != *index) {
        return Err(incomplete(format!("chunk {index} of the code is missing")));
    }
    Ok(())
}

/// A log with a summary has all its intervals, and one of a process that exited has an end, unless the recording says that it
/// stopped before: then what there is ends with its last event.
fn check_end(
    recording: &Recording,
    log: u64,
    interval: Interval,
    last: Option<&Chunk>,
) -> Result<(), Error> {
    let Some(process) = recording.process(log).filter(|process| !process.derived) else {
        return Ok(());
    };
    if intervals::stops_early(recording) {
        return Ok(());
    }
    let segments = recording.segments(log, Stream::Main);
    let is_last = segments.last().is_none_or(|segment| segment.interval == interval.number);
    let Some(last) = last.filter(|_| is_last) else { return Ok(()) };
    let incomplete = |what: &str| {
        Err(Error::Incomplete { log, interval: interval.number, what: what.to_owned() })
    };
    let intervals = process.summary.counts.intervals;
    if intervals > interval.number.saturating_add(1) {
        return incomplete("the intervals after it are missing");
    }
    let has_end = || last.events().flatten().any(|(_, event)| matches!(event, Event::End { .. }));
    if matches!(process.summary.end, ProcessEnd::Exited(_)) && !has_end() {
        return incomplete("the end of its log is missing");
    }
    Ok(())
}

/// A log and the time up to which its code is inherited.
struct Ancestor {
    log: u64,
    until: u64,
}

/// All code of a log, as chunks for its files.
#[derive(Debug)]
pub(crate) struct LogCode {
    pub(crate) bytes: Vec<u8>,
    share: Share,
}

impl LogCode {
    /// Reads it, with what the log has inherited.
    pub(crate) fn of(recording: &Recording, log: u64) -> Result<LogCode, Error> {
        let mut code = LogCode { bytes: Vec::new(), share: recording.budget().share() };
        for ancestor in ancestors(recording, log)? {
            code.inherit(recording, ancestor)?;
        }
        for segment in recording.segments(log, Stream::Code) {
            let chunk = code.read(recording, segment)?;
            put_chunk(&mut code.bytes, chunk.base_time, &chunk.bytes).map_err(Error::Start)?;
        }
        Ok(code)
    }

    /// Reads a chunk for which there is memory.
    fn read(&mut self, recording: &Recording, segment: &SegmentRef) -> Result<Chunk, Error> {
        self.share.grow(CHUNK_HEAD + u64::from(segment.raw_length))?;
        Ok(recording.read_chunk(segment)?)
    }
}

/// Writes a chunk with what is in front of it and padding behind; says how long that is.
fn put_chunk(out: &mut impl Write, base_time: u64, bytes: &[u8]) -> io::Result<u64> {
    let padding = bytes.len().next_multiple_of(8) - bytes.len();
    out.write_all(&(bytes.len() as u64).to_le_bytes())?;
    out.write_all(&base_time.to_le_bytes())?;
    out.write_all(bytes)?;
    out.write_all(&[0; 8][..padding])?;
    Ok(CHUNK_HEAD + (bytes.len() + padding) as u64)
}

/// Where a forked process has its code from, the oldest first.
fn ancestors(recording: &Recording, log: u64) -> Result<Vec<Ancestor>, Error> {
    let mut found = Vec::new();
    let mut child = log;
    while let Some(segment) = recording.segments(child, Stream::Code).first() {
        let chunk = recording.read_chunk(segment)?;
        match chunk.events().next() {
            // A log inherits from one with a lower number, so that this comes to an end.
            Some(Ok((_, Event::Inherit { log: parent, time }))) if parent < child => {
                found.push(Ancestor { log: parent, until: time });
                child = parent;
            }
            _ => break,
        }
    }
    found.reverse();
    Ok(found)
}

impl LogCode {
    /// Takes in the code of another log, as if all of it had been there at time 0.
    fn inherit(&mut self, recording: &Recording, ancestor: Ancestor) -> Result<(), Error> {
        for segment in recording.segments(ancestor.log, Stream::Code) {
            if segment.base_time > ancestor.until {
                break;
            }
            let chunk = self.read(recording, segment)?;
            // No event gets longer when its time becomes zero.
            let mut encoded = vec![0; chunk.bytes.len() + MAX_FIXED];
            let mut len = 0;
            let mut relative = Relative::at(0);
            for event in chunk.events() {
                let (time, event) = event.map_err(|bad| retro_recording::Error::Damaged {
                    path: recording.directory().join(LOG_NAME),
                    damage: Damage { offset: segment.offset, flaw: Flaw::Event(bad) },
                })?;
                if time <= ancestor.until && matches!(event, Event::Code { .. }) {
                    len += Encoder::new(&mut encoded[len..]).event(0, &event, &mut relative);
                }
            }
            put_chunk(&mut self.bytes, 0, &encoded[..len]).map_err(Error::Start)?;
        }
        Ok(())
    }
}

/// The file while it is written.
struct Out {
    writer: BufWriter<File>,
    len: u64,
}

impl Out {
    fn new() -> io::Result<Out> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let fd = memfd_create(c"retro-log", flags)?;
        Ok(Out { writer: BufWriter::new(File::from(fd)), len: 0 })
    }

    fn chunk(&mut self, base_time: u64, bytes: &[u8]) -> io::Result<ChunkPlace> {
        let offset = self.len + CHUNK_HEAD;
        self.len += put_chunk(&mut self.writer, base_time, bytes)?;
        Ok(ChunkPlace { offset, length: bytes.len(), base_time })
    }

    /// Gives the file back open for reading only, or sealed where there is no `/proc` to open it by: a process that gets
    /// it cannot change it for others.
    fn finish(self) -> io::Result<File> {
        let file = self.writer.into_inner().map_err(io::IntoInnerError::into_error)?;
        // Not sealed in any case: kernels before 6.7 do not share what is sealed.
        match OpenOptions::new().read(true).open(format!("/proc/self/fd/{}", file.as_raw_fd())) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let contents =
                    SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK;
                fcntl(&file, FcntlArg::F_ADD_SEALS(contents | SealFlag::F_SEAL_SEAL))?;
                Ok(file)
            }
            opened => opened,
        }
    }
}

#[cfg(test)]
impl LogFile {
    /// A log of chunks at these base times, without code.
    pub(crate) fn of_chunks(interval: Interval, chunks: &[(u64, Vec<u8>)]) -> LogFile {
        let mut out = Out::new().unwrap();
        let main = chunks.iter().map(|(time, bytes)| out.chunk(*time, bytes).unwrap()).collect();
        let end = out.len;
        let file = out.finish().unwrap();
        LogFile { interval, log: 0, file, main, code_start: end, end, _share: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(base_time: u64, times: &[u64]) -> (u64, Vec<u8>) {
        let mut bytes = vec![0; MAX_FIXED * times.len()];
        let mut relative = Relative::at(base_time);
        let mut len = 0;
        for &time in times {
            let event = Event::SyscallExit { result: time };
            len += Encoder::new(&mut bytes[len..]).event(time, &event, &mut relative);
        }
        bytes.truncate(len);
        (base_time, bytes)
    }

    fn times(file: &LogFile, after: u64, until: u64) -> Vec<u64> {
        let between = file.chunks_between(after, until).unwrap();
        between.events().map(|event| event.unwrap().0).collect()
    }

    #[test]
    fn events_are_found_by_time() {
        let chunks = [chunk(10, &[10, 10, 15]), chunk(15, &[15, 20]), chunk(20, &[20, 40])];
        let file = LogFile::of_chunks(Interval { number: 0, start: 10, end: 50 }, &chunks);
        assert_eq!(times(&file, 0, 50), [10, 10, 15, 15, 20, 20, 40]);
        assert_eq!(times(&file, 10, 15), [15, 15]);
        assert_eq!(times(&file, 15, 39), [20, 20]);
        assert_eq!(times(&file, 40, 50), []);
    }

    /// Nothing after a time is left out of what is mapped from there on.
    #[test]
    fn the_main_stream_begins_where_it_is_needed() {
        let chunks = [chunk(10, &[10, 15]), chunk(15, &[15, 20]), chunk(20, &[20, 40])];
        let file = LogFile::of_chunks(Interval { number: 0, start: 10, end: 50 }, &chunks);
        let start = |time| file.ranges_from(time).0.start;
        assert_eq!([start(10), start(15)], [0, 0]);
        assert_eq!(start(16), file.main[1].offset - CHUNK_HEAD);
        assert_eq!(start(20), file.main[1].offset - CHUNK_HEAD);
        assert_eq!(start(50), file.main[2].offset - CHUNK_HEAD);
        assert_eq!(file.ranges_from(10).0.end, file.end);
    }

    #[test]
    fn a_file_cannot_be_changed_by_who_gets_it() {
        let file = LogFile::of_chunks(Interval { number: 0, start: 0, end: 9 }, &[chunk(0, &[1])]);
        assert!(file.file().write_at(b"x", 0).is_err());
    }

    #[test]
    fn events_that_make_no_sense_are_an_error() {
        let interval = Interval { number: 0, start: 0, end: 9 };
        let file = LogFile::of_chunks(interval, &[(0, vec![0x7f, 0, 0])]);
        let between = file.chunks_between(0, 9).unwrap();
        assert!(matches!(between.events().next(), Some(Err(Error::Incomplete { .. }))));
    }
}
