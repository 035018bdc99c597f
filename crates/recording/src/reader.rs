//! Reading a recording, whatever state its recorder left it in.
//!
//! Opening walks over the headers of all segments and builds an index of where the chunks are; chunks are
//! read when asked for. A recording with an end was written to the end in order, so that only a failing disk
//! can have damaged it since: its chunks are checked when they are read. One without an end may have lost any
//! of its pages with the machine's power, and is checked as a whole when it is opened.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

use retro_abi::channel::{Origin, Stream};
use retro_abi::log::{BadEvent, Decoder, Event};

use crate::catalogue::{CATALOGUE_NAME, Catalogue, Copied, Role, StoredFile};
use crate::header::{BadFileHeader, FileHeader, HEADER_SIZE};
use crate::scan::{self, Payloads, Scan};
use crate::{
    Annex, Budget, Damage, Directory, Error, FILES_NAME, FORMAT_VERSION, Flaw, Head, LOG_NAME,
    ProcessEnd, ProcessSummary, RunEnd, annex,
};

/// Whether a recording is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The recorder wrote its end.
    Finished,
    /// The recorder is still at work.
    Running,
    /// The recorder was killed, or the end is damaged.
    Interrupted,
}

/// A process of the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// What is known of it.
    pub summary: ProcessSummary,
    /// True when the recorder wrote no summary, so that this one was gathered from the chunks: the time of the
    /// last event, how it ended, and how it began if the first chunk tells; no counts, and no parent.
    pub derived: bool,
}

/// Where a chunk is, and what its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentRef {
    /// Offset of the segment in the file.
    pub offset: u64,
    /// Number of the log.
    pub log: u64,
    /// The stream of the log.
    pub stream: Stream,
    /// Number of the chunk within its stream.
    pub sequence: u64,
    /// Time that its first event's difference counts from.
    pub base_time: u64,
    /// Number of the interval that it begins in.
    pub interval: u64,
    /// Bytes of the chunk.
    pub raw_length: u32,
    /// Bytes of the chunk in the file, after the header.
    pub stored_length: u32,
}

/// A chunk as the engine wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its events.
    pub bytes: Vec<u8>,
    /// Time that the first event's difference counts from.
    pub base_time: u64,
    /// Number of the interval that it belongs to.
    pub interval: u64,
}

impl Chunk {
    /// Decodes the events.
    pub fn events(&self) -> Events<'_> {
        let decoder = Decoder::new(&self.bytes, self.base_time);
        Events { decoder, interval: self.interval }
    }
}

/// The events of a chunk. An interval that begins in the chunk of another is an error: it was put there.
#[derive(Clone, Debug)]
pub struct Events<'a> {
    decoder: Decoder<'a>,
    interval: u64,
}

impl Events<'_> {
    /// Where in the chunk the next event begins.
    pub fn offset(&self) -> usize {
        self.decoder.offset()
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Result<(u64, Event<'a>), BadEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        const REASON: &str = "an interval begins in the chunk of another one";
        Some(match self.decoder.next()? {
            Ok((_, Event::Interval { number, .. })) if number != self.interval => {
                Err(BadEvent { offset: 0, reason: REASON })
            }
            event => event,
        })
    }
}

/// An open recording, as it was when it was opened.
#[derive(Debug)]
pub struct Recording {
    root: Directory,
    log: File,
    /// Length of the log when it was opened.
    length: u64,
    /// Where the first segment begins.
    segments_start: u64,
    head: Head,
    state: State,
    chunks: BTreeMap<(u64, Stream), Vec<SegmentRef>>,
    processes: Vec<Process>,
    end: Option<RunEnd>,
    damage: Option<Damage>,
    catalogue: Option<Catalogue>,
    budget: Budget,
}

impl Recording {
    /// Opens the recording in a directory. Damage beyond the header is no error: see [`Recording::damage`].
    pub fn open(directory: &Path) -> Result<Recording, Error> {
        Recording::open_in(open_directory(directory)?)
    }

    /// Opens the recording in a directory that is open already.
    pub fn open_in(root: Directory) -> Result<Recording, Error> {
        let path = root.path_of(LOG_NAME);
        let log = open_log(&root)?;
        // Asked first: when nobody writes, the length below is final.
        let is_written = is_locked(&log);
        let length = log.metadata().map_err(Error::io("read", &path))?.len();
        let (head, segments_start) = read_head(&log, &path, length)?;

        let mut scan = Scan::run(&log, segments_start, length, Payloads::Skip);
        if scan.end.is_none() {
            scan = Scan::run(&log, segments_start, length, Payloads::Check);
        }
        let state = match (&scan.end, is_written) {
            (Some(_), _) => State::Finished,
            (None, true) => State::Running,
            (None, false) => State::Interrupted,
        };
        if state == State::Running
            && scan.damage.as_ref().is_some_and(|damage| damage.flaw == Flaw::CutShort)
        {
            scan.damage = None;
        }
        let (catalogue, catalogue_damage) = match load_catalogue(&root)? {
            Ok(catalogue) => (catalogue, None),
            Err(reason) => (None, Some(Damage { offset: 0, flaw: Flaw::Catalogue(reason) })),
        };
        let mut recording = Recording {
            root,
            log,
            length,
            segments_start,
            head,
            state,
            chunks: scan.chunks,
            processes: Vec::new(),
            end: scan.end,
            damage: scan.damage.or(catalogue_damage),
            catalogue,
            budget: Budget::of_this_machine(),
        };
        recording.processes = recording.gather_processes(scan.summaries);
        Ok(recording)
    }

    /// Where it was when it was opened.
    pub fn directory(&self) -> &Path {
        self.root.path()
    }

    /// Its directory, by which its files are reached.
    pub fn root(&self) -> &Directory {
        &self.root
    }

    /// The memory that may be used for it.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Where this user's index of it and notes about it are.
    pub fn annex(&self) -> Result<Annex, Error> {
        Annex::of(&self.root)
    }

    /// Whether it is this user's own: made here, and not received from somebody else.
    pub fn is_ours(&self) -> bool {
        annex::is_ours(&self.root)
    }

    /// What was known when it began.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// How it ended, if it is finished.
    pub fn end(&self) -> Option<&RunEnd> {
        self.end.as_ref()
    }

    /// Whether it is finished.
    pub fn state(&self) -> State {
        self.state
    }

    /// Where the log stops being good, if it does. What is there to be read is before that. In a finished
    /// recording, contents of chunks are only checked by reading them and by [`Recording::verify`].
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    /// All processes, by the number of their log.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// The process that wrote a log.
    pub fn process(&self, log: u64) -> Option<&Process> {
        let index = self.processes.binary_search_by_key(&log, |process| process.summary.log);
        index.ok().map(|index| &self.processes[index])
    }

    /// The chunks of a stream, in order.
    pub fn segments(&self, log: u64, stream: Stream) -> &[SegmentRef] {
        self.chunks.get(&(log, stream)).map_or(&[], Vec::as_slice)
    }

    /// Bytes of the log on disk.
    pub fn log_bytes(&self) -> u64 {
        self.length
    }

    /// Bytes on disk that the chunks of one process take.
    pub fn log_bytes_of(&self, log: u64) -> u64 {
        Stream::ALL
            .into_iter()
            .flat_map(|stream| self.segments(log, stream))
            .map(|segment| HEADER_SIZE as u64 + u64::from(segment.stored_length))
            .sum()
    }

    /// Reads and checks a chunk.
    pub fn read_chunk(&self, segment: &SegmentRef) -> Result<Chunk, Error> {
        let bytes = scan::read_chunk(&self.log, segment)
            .map_err(|flaw| self.damaged(Damage { offset: segment.offset, flaw }))?;
        Ok(Chunk { bytes, base_time: segment.base_time, interval: segment.interval })
    }

    /// Visits the events of a stream in order, until the visitor breaks.
    pub fn for_each_event<B>(
        &self,
        log: u64,
        stream: Stream,
        visit: impl FnMut(u64, &Event<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, Error> {
        self.for_each_event_from(log, stream, 0, visit)
    }

    /// Visits the events of a stream from a time on, in order, until the visitor breaks. Chunks that end
    /// before that time are not read.
    pub fn for_each_event_from<B>(
        &self,
        log: u64,
        stream: Stream,
        from: u64,
        mut visit: impl FnMut(u64, &Event<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, Error> {
        let segments = self.segments(log, stream);
        // A chunk may begin at the very time at which the one before has its last events.
        let first = segments.partition_point(|segment| segment.base_time < from).saturating_sub(1);
        for segment in &segments[first..] {
            let chunk = self.read_chunk(segment)?;
            for event in chunk.events() {
                let (time, event) = event.map_err(|bad| {
                    self.damaged(Damage { offset: segment.offset, flaw: Flaw::Event(bad) })
                })?;
                if time < from {
                    continue;
                }
                if let ControlFlow::Break(value) = visit(time, &event) {
                    return Ok(ControlFlow::Break(value));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Reads everything and compares it with its checksums. An error tells the first damage.
    pub fn verify(&self) -> Result<(), Error> {
        if let Some(damage) = &self.damage {
            return Err(self.damaged(damage.clone()));
        }
        let scan = Scan::run(&self.log, self.segments_start, self.length, Payloads::Check);
        match scan.damage {
            // What a running recorder is about to complete.
            Some(damage) if self.state != State::Running || damage.flaw != Flaw::CutShort => {
                Err(self.damaged(damage))
            }
            _ => Ok(()),
        }
    }

    /// The copy of a file that the run mapped, in a recording that was unpacked. The build id decides where
    /// there is one; it may be empty.
    pub fn file_for(&self, path: &Path, build_id: &[u8]) -> Option<Copied> {
        let (catalogue, file) = self.stored_file(path, build_id)?;
        Some(catalogue.copy(file))
    }

    /// The copy of the separate debug information of a file that the run mapped.
    pub fn debug_file_for(&self, path: &Path, build_id: &[u8]) -> Option<Copied> {
        self.companion(path, build_id, Role::Debug)
    }

    /// The copy of the debug information that several files share (`.gnu_debugaltlink`, made by `dwz`).
    pub fn shared_debug_file_for(&self, path: &Path, build_id: &[u8]) -> Option<Copied> {
        self.companion(path, build_id, Role::SharedDebug)
    }

    pub(crate) fn catalogue(&self) -> Option<&Catalogue> {
        self.catalogue.as_ref()
    }

    fn stored_file(&self, path: &Path, build_id: &[u8]) -> Option<(&Catalogue, &StoredFile)> {
        let catalogue = self.catalogue.as_ref()?;
        Some((catalogue, catalogue.find(path, build_id)?))
    }

    fn companion(&self, path: &Path, build_id: &[u8], role: Role) -> Option<Copied> {
        let (catalogue, file) = self.stored_file(path, build_id)?;
        Some(catalogue.copy(catalogue.companion(file, role)?))
    }

    fn damaged(&self, damage: Damage) -> Error {
        Error::Damaged { path: self.root.path_of(LOG_NAME), damage }
    }

    fn gather_processes(&self, mut summaries: BTreeMap<u64, ProcessSummary>) -> Vec<Process> {
        let mut without: Vec<u64> = self.chunks.keys().map(|&(log, _)| log).collect();
        without.dedup();
        without.retain(|log| !summaries.contains_key(log));
        for &log in &without {
            summaries.insert(log, self.derive_summary(log));
        }
        summaries
            .into_iter()
            .map(|(log, summary)| Process { summary, derived: without.binary_search(&log).is_ok() })
            .collect()
    }

    /// What the first and the last chunk of a log tell about it. Chunks that make no sense tell less.
    fn derive_summary(&self, log: u64) -> ProcessSummary {
        let mut summary = ProcessSummary { log, ..ProcessSummary::default() };
        let segments = self.segments(log, Stream::Main);
        if let Some(Ok(chunk)) = segments.first().map(|first| self.read_chunk(first)) {
            let start = chunk.events().flatten().find_map(|(_, event)| match event {
                Event::Start { pid, origin, .. } => Some((pid, origin)),
                _ => None,
            });
            if let Some((pid, origin)) = start {
                summary.pid = pid;
                summary.origin = Origin::from_number(origin.into());
            }
        }
        if let Some(last) = segments.last() {
            summary.time = last.base_time;
            if let Ok(chunk) = self.read_chunk(last) {
                for (time, event) in chunk.events().flatten() {
                    summary.time = time;
                    if let Event::End { how, code } = event {
                        summary.end = ProcessEnd::from_numbers(how, code);
                    }
                }
            }
        }
        summary
    }
}

/// Opens the directory of a recording.
fn open_directory(path: &Path) -> Result<Directory, Error> {
    let not_a_recording = |reason| Error::NotARecording { path: path.to_path_buf(), reason };
    Directory::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => not_a_recording("there is no such directory"),
        io::ErrorKind::NotADirectory => not_a_recording("it is not a directory"),
        _ => Error::io("open", path)(error),
    })
}

/// Opens a log for reading, and nothing else that may lie in its place.
pub(crate) fn open_log(directory: &Directory) -> Result<File, Error> {
    directory.file(LOG_NAME).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::NotARecording {
            path: directory.path().to_path_buf(),
            reason: "there is no log in it",
        },
        _ => Error::io("open", directory.path_of(LOG_NAME))(error),
    })
}

/// The list of copied files, or what is wrong with it. What is no list at all is not looked at.
fn load_catalogue(directory: &Directory) -> Result<Result<Option<Catalogue>, &'static str>, Error> {
    match directory.directory(FILES_NAME) {
        Ok(files) => {
            let path = files.path_of(CATALOGUE_NAME);
            Catalogue::load(files).map_err(Error::io("open", path))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Ok(None)),
        Err(error) => Err(Error::io("open", directory.path_of(FILES_NAME))(error)),
    }
}

/// Whether a recorder holds the log.
pub(crate) fn is_locked(log: &File) -> bool {
    match log.try_lock_shared() {
        Err(TryLockError::WouldBlock) => true,
        Ok(()) => {
            // Closing the file would do it too, but a recording stays open for long.
            let _ = log.unlock();
            false
        }
        Err(TryLockError::Error(_)) => false,
    }
}

/// Reads the header of a log; returns the head and where the segments begin.
pub(crate) fn read_head(log: &File, path: &Path, length: u64) -> Result<(Head, u64), Error> {
    let damaged = |reason| Error::HeaderDamaged { path: path.to_path_buf(), reason };
    if length < HEADER_SIZE as u64 {
        return Err(damaged("the file is too short"));
    }
    let mut bytes = [0; HEADER_SIZE];
    log.read_exact_at(&mut bytes, 0).map_err(Error::io("read", path))?;
    let header = FileHeader::decode(&bytes).map_err(|bad| match bad {
        BadFileHeader::NotALog => {
            Error::NotARecording { path: path.to_path_buf(), reason: "it begins otherwise" }
        }
        BadFileHeader::Version(found) => {
            Error::Version { path: path.to_path_buf(), found, supported: FORMAT_VERSION }
        }
        BadFileHeader::Damaged(reason) => damaged(reason),
    })?;
    let end = HEADER_SIZE as u64 + u64::from(header.head_length);
    if end > length {
        return Err(damaged("the file is too short"));
    }
    let mut payload = vec![0; header.head_length as usize];
    log.read_exact_at(&mut payload, HEADER_SIZE as u64).map_err(Error::io("read", path))?;
    if crc32fast::hash(&payload) != header.head_checksum {
        return Err(damaged("it fails its checksum"));
    }
    let head = Head::decode(&payload).map_err(damaged)?;
    let head = Head {
        id: header.id,
        created_seconds: header.created_seconds,
        created_nanoseconds: header.created_nanoseconds,
        ..head
    };
    Ok((head, end))
}
