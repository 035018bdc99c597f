//! Building volumes: an interval is replayed once, window by window, and everything it tells is stored.
//!
//! Two threads: one talks to the replay process, which marks and counts while it runs; the other stores what a window
//! has told while the next one runs. Several intervals are built at once if there are processors for it.
//!
//! Every so many windows all files are committed and the manifest is replaced. A build that was killed goes on from there: the
//! replay starts from the state that was stored last.

use std::collections::BTreeMap;
use std::fs;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use retro_abi::channel::Stream;
use retro_abi::log::Event;
use retro_replayer::{
    AccessKind, Detail, Interval, Item, PAGE_SIZE, Replayer, Session, Snapshot, StopReason,
    Summary, Transfer, WrittenPage,
};

use crate::call_tree::{CallOrReturn, CallTreeWriter, Columns};
use crate::claim::create_directory;
use crate::events::{Row, RowTable, RowWriter, TimedRow};
use crate::manifest::Manifest;
use crate::page_versions::{KNOWN_SIZE, PageVersions, PageVersionsWriter};
use crate::pieces::PieceWriter;
use crate::set_tree::{FANOUT, SetKind, SetTreeWriter};
use crate::windows::{WindowTable, WindowWriter};
use crate::{Error, coverage, volume};

/// Instructions of a window, if nobody says otherwise: what is streamed in a few milliseconds.
pub const DEFAULT_WINDOW: u64 = 2_000_000;

/// Windows on their way to be stored.
const WAITING: usize = 4;

/// A commit at least so often, at the next multiple of [`FANOUT`] windows.
const COMMIT_EVERY: Duration = Duration::from_secs(5);

/// What to build.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Instructions of a window.
    pub window_size: u64,
    /// Whether to store which words are read, too.
    pub reads: bool,
    /// Intervals that are built at once.
    pub workers: usize,
}

impl Default for Options {
    fn default() -> Options {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        Options { window_size: DEFAULT_WINDOW, reads: false, workers }
    }
}

/// An interval that is to be indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its log.
    pub log: u64,
    /// The interval.
    pub interval: Interval,
}

/// What a builder is told by those who wait for it, and tells them. Shared by all threads.
pub trait Watch: Sync {
    /// So many more instructions are indexed.
    fn advanced(&self, instructions: u64);
    /// Whether to stop at the next window. What is done stays done.
    fn is_cancelled(&self) -> bool;
}

/// Nobody waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn advanced(&self, _: u64) {}
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// The intervals of a recording that lack an index. The last interval of a log is left out while it may still grow.
pub fn jobs(replayer: &Replayer, index: &Path, options: &Options) -> Result<Vec<Job>, Error> {
    let mut jobs = coverage::closed_intervals(replayer);
    jobs.retain(|job| coverage::is_missing(index, job, options.reads));
    Ok(jobs)
}

/// Builds all that is missing. Intervals that cannot be replayed are reported in the end; the others are built
/// nevertheless.
pub fn build(
    replayer: &Replayer,
    index: &Path,
    jobs: &[Job],
    options: &Options,
    watch: &impl Watch,
) -> Result<(), Error> {
    create_directory(index)?;
    // The longest first: whoever comes to it last would be waited for by all others.
    let mut jobs = jobs.to_vec();
    jobs.sort_by_key(|job| std::cmp::Reverse(job.interval.end - job.interval.start));
    let queue = Mutex::new(jobs.iter());
    let failed = Mutex::new(None);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..options.workers.clamp(1, jobs.len().max(1)) {
            scope.spawn(|| {
                let mut kept = None;
                while !stop.load(Ordering::Relaxed) && !watch.is_cancelled() {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(job) = next else { break };
                    let built = build_volume(replayer, index, *job, options, watch, &mut kept);
                    if let Err(error) = built {
                        let is_replay = matches!(error, Error::Replay { .. });
                        if is_replay && !watch.is_cancelled() {
                            coverage::note_failure(index, job, &error);
                        }
                        // Where nothing can be stored, nothing else can.
                        stop.fetch_or(!is_replay, Ordering::Relaxed);
                        let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                        failed.get_or_insert(error);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    match failed {
        Some(error) => Err(error),
        None if watch.is_cancelled() => Err(Error::Cancelled),
        None => Ok(()),
    }
}

/// Builds or completes one volume. `kept` is a session of the volume before: code that it has translated need not be
/// translated again.
fn build_volume(
    replayer: &Replayer,
    index: &Path,
    job: Job,
    options: &Options,
    watch: &impl Watch,
    kept: &mut Option<Session>,
) -> Result<(), Error> {
    let directory = volume::directory(index, job.log, job.interval.number);
    create_directory(&directory)?;
    let _lock = Lock::take(&directory)?;
    let Interval { start, end, .. } = job.interval;
    let usable = |manifest: &Manifest| (manifest.start, manifest.end) == (start, end);
    let manifest = Manifest::load(&directory).ok().flatten().filter(usable);
    let replay = |source| Error::Replay { log: job.log, source: Box::new(source) };
    let mut manifest = match manifest {
        Some(manifest) if manifest.has_all_windows => manifest,
        manifest => {
            let window_size = options.window_size;
            let manifest = manifest.unwrap_or(Manifest::empty(start, end, window_size));
            let writers = Writers::open(&directory, manifest)?;
            summarise(replayer, job, writers, watch, kept)?
        }
    };
    if manifest.rows == 0 {
        (manifest.rows, manifest.row_kinds) = store_rows(replayer, job, &directory, &manifest)?;
    }
    if options.reads && manifest.reads == 0 {
        manifest.reads = store_reads(replayer, job, &directory, &manifest, watch, replay)?;
    }
    manifest.is_complete = true;
    coverage::forget_failure(&directory);
    manifest.store(&directory)
}

/// Only one build works on a volume.
struct Lock(fs::File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a process that is being started may have the file for a moment.
        let _ = self.0.unlock();
    }
}

impl Lock {
    fn take(directory: &Path) -> Result<Lock, Error> {
        let path = directory.join("lock");
        let file = fs::File::create(&path).map_err(|source| Error::io("create", &path, source))?;
        match file.try_lock() {
            Ok(()) => Ok(Lock(file)),
            Err(fs::TryLockError::WouldBlock) => Err(Error::Busy),
            Err(fs::TryLockError::Error(source)) => Err(Error::io("lock", &path, source)),
        }
    }
}

/// What a window has told.
#[derive(Default)]
struct WindowData {
    /// The state at its end, unless it is the last.
    next: Option<Snapshot>,
    executed: Vec<Executed>,
    /// Lengths of instructions.
    lengths: Vec<u8>,
    written: Vec<Written>,
    replaced: Vec<Replaced>,
    calls: Vec<CallOrReturn>,
    /// How many calls and returns there were before other threads went on, and which.
    switches: Vec<(usize, u32)>,
    instructions: u64,
    /// The time at its start.
    time: u64,
}

/// What happens to whole pages.
#[derive(Clone, Copy)]
enum Replaced {
    Cleared { start: u64, end: u64 },
    Moved { from: u64, to: u64, len: u64 },
}

struct Executed {
    pc: u64,
    /// Where the lengths of its instructions are, among those of all.
    lengths: Range<usize>,
    times: u32,
    enters: bool,
}

struct Written {
    address: u64,
    bytes: [u8; PAGE_SIZE],
    words: [u8; PAGE_SIZE / 64],
    known: [u8; KNOWN_SIZE],
}

impl WindowData {
    /// A window that begins at a time, in the memory of one that was stored: what is there need not be found again.
    fn begin(spare: Option<WindowData>, time: u64) -> WindowData {
        let mut data = spare.unwrap_or_default();
        data.next = None;
        data.executed.clear();
        data.lengths.clear();
        data.written.clear();
        data.replaced.clear();
        data.calls.clear();
        data.switches.clear();
        WindowData { instructions: 0, time, ..data }
    }
}

impl Summary for WindowData {
    #[inline]
    fn transfer(&mut self, transfer: Transfer) {
        let event = match transfer {
            Transfer::Call { slot } => CallOrReturn::call(slot),
            Transfer::Return { slot } => CallOrReturn::returned(slot),
            Transfer::Switch { thread } => return self.switches.push((self.calls.len(), thread)),
        };
        self.calls.push(event);
    }

    fn executed(&mut self, pc: u64, lengths: &[u8], times: u32, enters: bool) {
        let from = self.lengths.len();
        self.lengths.extend_from_slice(lengths);
        self.executed.push(Executed { pc, lengths: from..self.lengths.len(), times, enters });
    }

    fn cleared(&mut self, start: u64, end: u64) -> Result<(), retro_replayer::Error> {
        self.replaced.push(Replaced::Cleared { start, end });
        Ok(())
    }

    fn moved(&mut self, from: u64, to: u64, len: u64) -> Result<(), retro_replayer::Error> {
        self.replaced.push(Replaced::Moved { from, to, len });
        Ok(())
    }

    fn written(&mut self, page: WrittenPage<'_>) -> Result<(), retro_replayer::Error> {
        self.written.push(Written {
            address: page.address,
            bytes: *page.bytes,
            words: *page.words,
            known: *page.bytes_known,
        });
        Ok(())
    }
}

fn summarise(
    replayer: &Replayer,
    job: Job,
    writers: Writers,
    watch: &impl Watch,
    kept: &mut Option<Session>,
) -> Result<Manifest, Error> {
    let replay = |source| Error::Replay { log: job.log, source: Box::new(source) };
    let start = writers.resume_at()?;
    let size = writers.manifest.window_size.max(1);
    let mut session = match kept.take() {
        Some(mut session) if session.log() == job.log && start.is_none() => {
            session.go_to_interval(replayer, job.interval.number).map_err(replay)?;
            session
        }
        _ => {
            replayer.summary_session(job.log, job.interval.number, start.clone()).map_err(replay)?
        }
    };
    if start.is_some() {
        watch.advanced(session.time() - job.interval.start);
    }
    let (sender, receiver) = sync_channel::<WindowData>(WAITING);
    let (give_back, spares) = sync_channel::<WindowData>(WAITING);
    let running = session.thread();
    thread::scope(|scope| {
        let storing = scope.spawn(move || writers.store_all(receiver, &give_back, running));
        let told = tell_windows(&mut session, start.is_none(), size, &sender, &spares, watch);
        drop(sender);
        let stored = match storing.join() {
            Ok(stored) => stored,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        // What could not be stored is the reason if nobody took the windows.
        let manifest = stored?;
        match told {
            Ok(ControlFlow::Continue(())) => {
                *kept = Some(session);
                Ok(manifest)
            }
            Ok(ControlFlow::Break(())) => Err(Error::Cancelled),
            Err(error) => Err(replay(error)),
        }
    })
}

/// Replays windows and sends what they tell. Breaks when it is cancelled, or nobody takes them.
fn tell_windows(
    session: &mut Session,
    is_first: bool,
    size: u64,
    sender: &SyncSender<WindowData>,
    spares: &Receiver<WindowData>,
    watch: &impl Watch,
) -> Result<ControlFlow<()>, retro_replayer::Error> {
    let end = session.interval().end;
    let mut last = Snapshot::take(session, None)?;
    if is_first {
        // What the log has at the very start has happened already.
        let mut data = WindowData::begin(None, session.time());
        session.summarise(session.time(), &mut data)?;
        data.next = Some(last.clone());
        if sender.send(data).is_err() {
            return Ok(ControlFlow::Break(()));
        }
    }
    loop {
        let mut data = WindowData::begin(spares.try_recv().ok(), session.time());
        let until = session.time().saturating_add(size).min(end);
        let stop = session.summarise(until, &mut data)?;
        let is_over = stop.time >= end || stop.reason == StopReason::End;
        data.instructions = stop.time - data.time;
        watch.advanced(data.instructions);
        if !is_over {
            last = Snapshot::take(session, Some(&last))?;
            data.next = Some(last.clone());
        }
        if sender.send(data).is_err() {
            return Ok(ControlFlow::Break(()));
        }
        if is_over {
            return Ok(ControlFlow::Continue(()));
        }
        if watch.is_cancelled() {
            return Ok(ControlFlow::Break(()));
        }
    }
}

/// All files of a volume.
struct Writers {
    directory: PathBuf,
    manifest: Manifest,
    windows: WindowWriter,
    pages: PageVersionsWriter,
    words: SetTreeWriter,
    code: SetTreeWriter,
    pieces: PieceWriter,
    calls: CallTreeWriter,
    known: Known,
    /// Words and code of what happened at the very start, which count for the first window.
    first: Option<WindowData>,
}

impl Writers {
    fn open(directory: &Path, manifest: Manifest) -> Result<Writers, Error> {
        let path = |name: &str| directory.join(name);
        let columns = Columns::default();
        let (known, first) = (Known::default(), None);
        if manifest.windows == 0 {
            return Ok(Writers {
                directory: directory.to_owned(),
                manifest,
                windows: WindowWriter::create(&path("windows"))?,
                pages: PageVersionsWriter::create(directory)?,
                words: SetTreeWriter::create(&path("words"), SetKind::Plain)?,
                code: SetTreeWriter::create(&path("code"), SetKind::Counted)?,
                pieces: PieceWriter::create(&path("pieces"))?,
                calls: CallTreeWriter::create(&path("calls"), columns)?,
                known,
                first,
            });
        }
        let writers = Writers {
            directory: directory.to_owned(),
            manifest,
            windows: WindowWriter::resume(&path("windows"), manifest.window_table)?,
            pages: PageVersionsWriter::resume(directory, manifest.pages)?,
            words: SetTreeWriter::resume(&path("words"), SetKind::Plain, manifest.words)?,
            code: SetTreeWriter::resume(&path("code"), SetKind::Counted, manifest.code)?,
            pieces: PieceWriter::resume(&path("pieces"), manifest.pieces)?,
            calls: CallTreeWriter::reopen(&path("calls"), manifest.calls, columns)?,
            known,
            first,
        };
        Ok(writers)
    }

    /// Where to go on, if windows are there already.
    fn resume_at(&self) -> Result<Option<retro_replayer::Start>, Error> {
        let window = self.manifest.windows;
        if window == 0 {
            return Ok(None);
        }
        let table =
            WindowTable::open(&self.directory.join("windows"), self.manifest.window_table, 0)?;
        let snapshot = table.snapshot(window)?.ok_or(Error::NoWindow(window))?;
        let pages = PageVersions::open(&self.directory, self.manifest.pages, 16 << 20)?;
        Ok(Some(volume::start(snapshot, &Arc::new(pages), window)))
    }

    fn store_all(
        mut self,
        receiver: Receiver<WindowData>,
        give_back: &SyncSender<WindowData>,
        mut running: u32,
    ) -> Result<Manifest, Error> {
        if self.manifest.windows > 0 {
            let pages = PageVersions::open(&self.directory, self.manifest.pages, 16 << 20)?;
            self.known.before = Some((pages, self.manifest.windows));
        }
        let mut committed = Instant::now();
        let mut is_complete = false;
        for data in receiver {
            is_complete = data.next.is_none();
            if let Some(stored) = self.store(data, &mut running)? {
                // Whoever has enough of them does not take it.
                let _ = give_back.try_send(stored);
            }
            let due = self.manifest.windows.is_multiple_of(FANOUT);
            if due && !is_complete && committed.elapsed() > COMMIT_EVERY {
                self.commit(false)?;
                committed = Instant::now();
            }
        }
        self.commit(is_complete)?;
        Ok(self.manifest)
    }

    /// Stores what a window has told, and gives it back if it is needed no more.
    fn store(
        &mut self,
        mut data: WindowData,
        running: &mut u32,
    ) -> Result<Option<WindowData>, Error> {
        let is_start = self.windows.count() == 0;
        // Version 0 is of the start, which is no window.
        let version = if is_start { 0 } else { self.manifest.windows + 1 };
        for replaced in &data.replaced {
            match *replaced {
                Replaced::Cleared { start, end } => self.clear(version, start, end)?,
                Replaced::Moved { from, to, len } => self.move_known(version, from, to, len)?,
            }
        }
        for page in &data.written {
            let known = self.known.add(page.address, &page.known)?;
            self.pages.add(version, page.address, &page.bytes, &known)?;
        }
        if let Some(next) = &data.next {
            self.windows.append(next)?;
        }
        if is_start {
            self.first = Some(data);
            return Ok(None);
        }
        if let Some(first) = self.first.take() {
            self.store_calls(&first, running)?;
            data.written.extend(first.written);
        }
        self.store_words(&data.written)?;
        self.store_code(&data)?;
        self.store_calls(&data, running)?;
        self.calls.end_window()?;
        self.manifest.windows += 1;
        Ok(Some(data))
    }

    fn store_calls(&mut self, data: &WindowData, running: &mut u32) -> Result<(), Error> {
        let mut stored = 0;
        for &(before, thread) in &data.switches {
            self.calls.append(*running, data.time, &data.calls[stored..before])?;
            stored = before;
            *running = thread;
        }
        Ok(self.calls.append(*running, data.time, &data.calls[stored..])?)
    }

    /// Pages have become zero as far as the interval knows; a file may show there.
    fn clear(&mut self, version: u32, start: u64, end: u64) -> Result<(), Error> {
        for address in self.known.pages_in(start, end)? {
            self.replace(version, address, [0; KNOWN_SIZE])?;
        }
        Ok(())
    }

    /// Pages have moved to where others were cleared. Their contents come with what was written.
    fn move_known(&mut self, version: u32, from: u64, to: u64, len: u64) -> Result<(), Error> {
        let mut offsets = self.known.pages_in(to, to.saturating_add(len))?;
        offsets.iter_mut().for_each(|page| *page -= to);
        let moved = self.known.pages_in(from, from.saturating_add(len))?;
        offsets.extend(moved.into_iter().map(|page| page - from));
        offsets.sort_unstable();
        offsets.dedup();
        for offset in offsets {
            let known = self.known.add(from + offset, &[0; KNOWN_SIZE])?;
            self.replace(version, to + offset, known)?;
        }
        Ok(())
    }

    fn replace(
        &mut self,
        version: u32,
        address: u64,
        known: [u8; KNOWN_SIZE],
    ) -> Result<(), Error> {
        self.known.set(address, known);
        Ok(self.pages.add(version, address, &[0; PAGE_SIZE], &known)?)
    }

    fn store_words(&mut self, written: &[Written]) -> Result<(), Error> {
        let mut words: Vec<u64> = Vec::new();
        for page in written.iter() {
            let first = page.address / 8;
            for (index, &bits) in page.words.iter().enumerate().filter(|(_, bits)| **bits != 0) {
                let word = first + 8 * index as u64;
                words.extend((0..8).filter(|bit| bits >> bit & 1 != 0).map(|bit| word + bit));
            }
        }
        words.sort_unstable();
        words.dedup();
        let runs = words.chunk_by(|a, b| a + 1 == *b).map(|run| run[0]..run[run.len() - 1] + 1);
        Ok(self.words.append_runs(runs)?)
    }

    fn store_code(&mut self, data: &WindowData) -> Result<(), Error> {
        let mut counts: Vec<(u64, u32)> = data
            .executed
            .iter()
            .map(|piece| {
                let lengths = &data.lengths[piece.lengths.clone()];
                let number = self.pieces.number(piece.pc, lengths, piece.enters);
                (number.into(), piece.times)
            })
            .collect();
        counts.sort_unstable();
        counts.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                earlier.1 = earlier.1.saturating_add(later.1);
            }
            same
        });
        Ok(self.code.append_counted(counts)?)
    }

    fn commit(&mut self, is_complete: bool) -> Result<(), Error> {
        let versions = self.manifest.windows + 1;
        self.manifest.window_table = self.windows.commit()?;
        self.manifest.pieces = self.pieces.commit()?;
        self.manifest.calls = self.calls.commit()?;
        if is_complete {
            self.manifest.pages = self.pages.finish(versions)?;
            self.manifest.words = self.words.finish()?;
            self.manifest.code = self.code.finish()?;
            self.manifest.has_all_windows = true;
        } else {
            self.manifest.pages = self.pages.commit(versions)?;
            self.manifest.words = self.words.commit()?;
            self.manifest.code = self.code.commit()?;
        }
        if self.manifest.is_worth_syncing() {
            self.windows.sync()?;
            self.pages.sync()?;
            self.words.sync()?;
            self.code.sync()?;
            self.pieces.sync()?;
            self.calls.sync()?;
        }
        self.manifest.store(&self.directory)
    }
}

/// Which bytes of memory are known by now: those that the interval has read or written.
#[derive(Default)]
struct Known {
    /// By address of the page; none if all of it is known.
    pages: BTreeMap<u64, Option<Box<[u8; KNOWN_SIZE]>>>,
    /// What was known when a build went on, and from which window.
    before: Option<(PageVersions, u32)>,
}

impl Known {
    fn add(&mut self, page: u64, more: &[u8; KNOWN_SIZE]) -> Result<[u8; KNOWN_SIZE], Error> {
        const ALL: [u8; KNOWN_SIZE] = [0xff; KNOWN_SIZE];
        if !self.pages.contains_key(&page) {
            let before = match &self.before {
                Some((versions, window)) => versions.page(page, *window)?,
                None => None,
            };
            let known = before.map_or(Box::new([0; KNOWN_SIZE]), |version| version.known.clone());
            self.pages.insert(page, Some(known));
        }
        let Some(Some(known)) = self.pages.get_mut(&page) else { return Ok(ALL) };
        for (known, more) in known.iter_mut().zip(more) {
            *known |= more;
        }
        let known = **known;
        if known == ALL {
            self.pages.insert(page, None);
        }
        Ok(known)
    }

    /// A page has become another.
    fn set(&mut self, page: u64, known: [u8; KNOWN_SIZE]) {
        self.pages.insert(page, Some(Box::new(known)));
    }

    /// Pages of a range of which anything is known.
    fn pages_in(&self, start: u64, end: u64) -> Result<Vec<u64>, Error> {
        if start >= end {
            return Ok(Vec::new());
        }
        let mut found: Vec<u64> = self.pages.range(start..end).map(|(&page, _)| page).collect();
        if let Some((versions, window)) = &self.before {
            for run in versions.changed(0..window + 1)? {
                let run = run.start.max(start)..run.end.min(end);
                found.extend(run.step_by(PAGE_SIZE));
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }
}

/// Goes through the log for what it tells besides memory.
fn store_rows(
    replayer: &Replayer,
    job: Job,
    directory: &Path,
    manifest: &Manifest,
) -> Result<(u64, u64), Error> {
    let table = WindowTable::open(&directory.join("windows"), manifest.window_table, 0)?;
    let mut rows = RowWriter::create(&directory.join("rows"))?;
    let mut kinds = SetTreeWriter::create(&directory.join("row-kinds"), SetKind::Counted)?;
    let mut gathered: Vec<TimedRow> = Vec::new();
    // The first interval of a log has rows before it is said to begin: what the program was loaded as.
    let intervals = replayer.intervals(job.log);
    let intervals =
        intervals.map_err(|source| Error::Replay { log: job.log, source: Box::new(source) })?;
    let mut begun = intervals.first().is_some_and(|first| first.number == job.interval.number);
    let (mut window, mut thread) = (0u32, 0u32);
    let mut flush = |gathered: &mut Vec<TimedRow>| -> Result<(), Error> {
        rows.append(gathered)?;
        let mut keys: Vec<u64> = gathered.iter().filter_map(|row| row.row.key()).collect();
        keys.sort_unstable();
        let counts = keys.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u32));
        kinds.append_counted(counts)?;
        gathered.clear();
        Ok(())
    };
    let end_of = |window: u32| table.start(window + 1).unwrap_or(u64::MAX);
    let visit = |time: u64, event: &Event<'_>| {
        if let Event::Interval { number, running, .. } = *event {
            if number > job.interval.number {
                return ControlFlow::Break(None);
            }
            begun |= number == job.interval.number;
            thread = running;
            for row in gathered.iter_mut().filter(|row| row.thread == 0) {
                row.thread = running;
            }
        }
        if !begun {
            return ControlFlow::Continue(());
        }
        if let Event::ThreadSwitch { thread: next, .. } | Event::ThreadStart { thread: next } =
            event
        {
            thread = *next;
        }
        while time > end_of(window) {
            if let Err(error) = flush(&mut gathered) {
                return ControlFlow::Break(Some(error));
            }
            window += 1;
        }
        gathered.extend(Row::of(event).map(|row| TimedRow { time, thread, row }));
        ControlFlow::Continue(())
    };
    let start = job.interval.start;
    let visited = replayer.recording().for_each_event_from(job.log, Stream::Main, start, visit)?;
    if let ControlFlow::Break(Some(error)) = visited {
        return Err(error);
    }
    while window < table.len() {
        flush(&mut gathered)?;
        window += 1;
    }
    let committed = (rows.commit()?, kinds.finish()?);
    if manifest.is_worth_syncing() {
        rows.sync()?;
        kinds.sync()?;
    }
    debug_assert_eq!(
        RowTable::open(&directory.join("rows"), committed.0).map_or(0, |rows| rows.windows()),
        table.len()
    );
    Ok(committed)
}

/// Streams the interval for the words that its windows read.
fn store_reads(
    replayer: &Replayer,
    job: Job,
    directory: &Path,
    manifest: &Manifest,
    watch: &impl Watch,
    replay: impl Fn(retro_replayer::Error) -> Error + Copy,
) -> Result<u64, Error> {
    let table = WindowTable::open(&directory.join("windows"), manifest.window_table, 0)?;
    let mut reads = SetTreeWriter::create(&directory.join("reads"), SetKind::Plain)?;
    let mut session = replayer.session(job.log, job.interval.number).map_err(replay)?;
    for window in 0..table.len() {
        if watch.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let end = table.start(window + 1).unwrap_or(job.interval.end);
        let mut words = std::collections::BTreeSet::new();
        let visit = |item: &Item<'_>| {
            if let Item::Block(block) = item {
                for access in block.accesses() {
                    let is_read = matches!(access.kind, AccessKind::Read | AccessKind::Return);
                    if is_read && access.len > 0 {
                        let last = access.address.saturating_add(access.len - 1);
                        words.extend(access.address / 8..=last / 8);
                    }
                }
            }
            ControlFlow::Continue(())
        };
        session.stream(end, Detail::READS | Detail::CALLS, visit).map_err(replay)?;
        reads.append(words.into_iter().filter(|&word| word < crate::set_tree::KEY_LIMIT))?;
    }
    let committed = reads.finish()?;
    reads.sync()?;
    Ok(committed)
}
