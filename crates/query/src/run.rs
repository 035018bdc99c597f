//! A recorded run, open for questions.
//!
//! It has the index of each process ([`Process`]), processes to replay windows in ([`crate::templates`]), and what was
//! found out lately: traces of windows, within a limit of memory. Questions are in the other modules, as methods of
//! [`Run`]. Nothing changes anything: all of them can be asked at once, from many threads.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use retro_index::{Place, Volume};
use retro_recording::Recording;
use retro_replayer::{Replayer, Session};
use retro_symbols::{SourceFiles, Symbols};

use crate::address_space::Timeline;
use crate::known_calls::KnownCalls;
use crate::recent::Recent;
use crate::sampled_window::Sampler;
use crate::templates::{Kind, Templates};
use crate::trace::Trace;
use crate::{Direction, Error, Moment};

/// Bytes that are kept of what was read of the index. Each volume has its share of it, as long as it is.
const INDEX_MEMORY: u64 = 1 << 30;

/// But no less than this.
const VOLUME_MEMORY: u64 = 1 << 20;

/// Bytes of traces that are kept, if nobody says otherwise.
const TRACES: usize = 512 << 20;

/// Sessions that are kept where questions were asked lately.
const SESSIONS: usize = 16;

/// How a run is opened.
#[derive(Debug)]
pub struct Options {
    /// Bytes of traces of windows that are kept.
    pub trace_memory: usize,
    /// Where source files are.
    pub sources: SourceFiles,
    /// Whether code is translated in the background before questions need it: worth it for those who stay.
    pub warm_up: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { trace_memory: TRACES, sources: SourceFiles::new(), warm_up: false }
    }
}

/// A recorded run. Clones share everything.
#[derive(Clone)]
pub struct Run {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) replayer: Replayer,
    pub(crate) index: Place,
    pub(crate) symbols: Symbols,
    pub(crate) sources: SourceFiles,
    processes: Mutex<HashMap<u64, Arc<Process>>>,
    traces: Mutex<Recent<TraceKey, TraceCell>>,
    /// The memory of one that was forgotten.
    spare_trace: Mutex<Option<Trace>>,
    /// Sessions that stand somewhere.
    sessions: Mutex<Vec<Session>>,
    pub(crate) sampler: Mutex<Sampler>,
    pub(crate) templates: Templates,
}

/// Log, interval, window.
type TraceKey = (u64, u64, u32);

/// Whoever comes first makes it; others wait for that.
type TraceCell = Arc<Mutex<Option<Arc<Trace>>>>;

/// The index of a process.
#[derive(Debug)]
pub struct Process {
    /// Its log.
    pub log: u64,
    /// Its first and its last time.
    pub start: u64,
    /// The last time.
    pub end: u64,
    /// Its intervals that are indexed, in order.
    pub volumes: Vec<Volume>,
    /// How its address space changed, once somebody has asked.
    pub(crate) timeline: Mutex<Option<Arc<Timeline>>>,
    /// What was found out about its calls.
    pub(crate) known_calls: KnownCalls,
}

/// A window of a process.
#[derive(Clone, Copy, Debug)]
pub struct WindowRef<'a> {
    /// Its volume.
    pub volume: &'a Volume,
    /// Its number there.
    pub window: u32,
}

impl Process {
    /// An error unless the process has such a time.
    pub fn check_time(&self, time: u64) -> Result<(), Error> {
        let Process { log, start, end, .. } = *self;
        let has_time = (start..=end).contains(&time);
        if has_time { Ok(()) } else { Err(Error::OutOfRange { log, time, start, end }) }
    }

    /// The volume that the instruction with a number is in, or the state at a time. Where one interval ends and the next
    /// begins, it is the next.
    pub fn volume_of(&self, time: u64) -> Result<(usize, &Volume), Error> {
        self.check_time(time)?;
        let after = self.volumes.partition_point(|volume| volume.start <= time);
        let found = after.checked_sub(1).map(|index| (index, &self.volumes[index]));
        found
            .filter(|(_, volume)| time < volume.end || time == self.end)
            .ok_or(Error::NotIndexed { log: self.log, from: time })
    }

    /// An error unless all intervals from one time to another are indexed.
    pub fn check_indexed(&self, from: u64, to: u64) -> Result<(), Error> {
        let mut reached = from;
        for volume in self.volumes.iter().skip_while(|volume| volume.end <= from) {
            if reached >= to || volume.start > reached {
                break;
            }
            reached = volume.end;
        }
        if reached < to { Err(Error::NotIndexed { log: self.log, from: reached }) } else { Ok(()) }
    }

    /// An error unless a volume begins where the one before ends: the first, where the process begins, and the process ends
    /// where the last does.
    pub(crate) fn check_adjacent(&self, volume: usize) -> Result<(), Error> {
        let before = volume.checked_sub(1).and_then(|before| self.volumes.get(before));
        let from = before.map_or(self.start, |before| before.end);
        self.check_indexed(from, self.volumes.get(volume).map_or(self.end, |volume| volume.start))
    }

    /// Whether all intervals are indexed.
    pub fn is_indexed(&self) -> bool {
        self.check_indexed(self.start, self.end).is_ok()
    }

    /// How far the index reaches from a time without a gap, in a direction.
    pub fn indexed_reach(&self, from: u64, direction: Direction) -> u64 {
        let touches = |volume: &&Volume, time: u64| (volume.start..=volume.end).contains(&time);
        match direction {
            Direction::Forward => {
                let mut reached = from;
                for volume in &self.volumes {
                    if touches(&volume, reached) {
                        reached = volume.end;
                    }
                }
                // What is behind the last instruction is in the next interval, unless there is none.
                if reached < self.end { reached.saturating_sub(1).max(from) } else { reached }
            }
            Direction::Backward => {
                let mut reached = from;
                for volume in self.volumes.iter().rev() {
                    if touches(&volume, reached) {
                        reached = volume.start;
                    }
                }
                reached
            }
        }
    }

    /// Whether the index knows which memory was read.
    pub fn has_reads(&self) -> bool {
        self.volumes.iter().all(|volume| volume.reads.is_some())
    }

    /// The window that the instruction with a number is in.
    pub fn window_of(&self, time: u64) -> Result<WindowRef<'_>, Error> {
        let (_, volume) = self.volume_of(time)?;
        Ok(WindowRef { volume, window: volume.window_of(time) })
    }
}

impl Run {
    /// Opens a recording with its index, and an engine in a file, which must stay there.
    pub fn open(
        recording: impl Into<Arc<Recording>>,
        engine: PathBuf,
        options: Options,
    ) -> Result<Run, Error> {
        let recording: Arc<Recording> = recording.into();
        let index = Place::of(&recording)?;
        let replayer = Replayer::open(Arc::clone(&recording), engine);
        let templates = Templates::new(options.warm_up);
        Ok(Run {
            shared: Arc::new(Shared {
                replayer,
                index,
                symbols: Symbols::new(recording),
                sources: options.sources,
                processes: Mutex::default(),
                traces: Mutex::new(Recent::new(options.trace_memory)),
                spare_trace: Mutex::default(),
                sessions: Mutex::default(),
                sampler: Mutex::default(),
                templates,
            }),
        })
    }

    /// The recording.
    pub fn recording(&self) -> &Recording {
        self.shared.replayer.recording()
    }

    /// Where its index is.
    pub fn index(&self) -> &Place {
        &self.shared.index
    }

    /// The recording's replayer.
    pub fn replayer(&self) -> &Replayer {
        &self.shared.replayer
    }

    /// Names, types and lines.
    pub fn symbols(&self) -> &Symbols {
        &self.shared.symbols
    }

    /// Source files.
    pub fn sources(&self) -> &SourceFiles {
        &self.shared.sources
    }

    /// The index of a process.
    pub fn process(&self, log: u64) -> Result<Arc<Process>, Error> {
        if let Some(known) = lock(&self.shared.processes).get(&log) {
            return Ok(Arc::clone(known));
        }
        self.newest_process(log)
    }

    /// The index of a process as it is on disk by now: it may have grown since somebody asked first.
    pub fn newest_process(&self, log: u64) -> Result<Arc<Process>, Error> {
        if self.recording().process(log).is_none() {
            return Err(Error::NoLog(log));
        }
        let intervals = self.replayer().intervals(log)?;
        let (Some(first), Some(last)) = (intervals.first(), intervals.last()) else {
            return Err(Error::NoLog(log));
        };
        let (start, end) = (first.start, last.end);
        let mut volumes = Vec::with_capacity(intervals.len());
        let processes = self.recording().processes().iter();
        let instructions: u64 = processes.map(|process| process.summary.time).sum();
        let Some(index) = self.shared.index.existing()? else {
            return Err(Error::NotIndexed { log, from: start });
        };
        for interval in &intervals {
            let part = (interval.end - interval.start) as f64 / instructions.max(1) as f64;
            let memory = ((INDEX_MEMORY as f64 * part.min(1.0)) as u64).max(VOLUME_MEMORY);
            match Volume::open(&index, log, interval.number, memory as usize)? {
                // What grew since it was indexed is not indexed.
                Some(volume) if (volume.start, volume.end) == (interval.start, interval.end) => {
                    volumes.push(volume);
                }
                _ => {}
            }
        }
        if volumes.is_empty() {
            return Err(Error::NotIndexed { log, from: start });
        }
        let (timeline, known_calls) = (Mutex::default(), KnownCalls::default());
        let process = Arc::new(Process { log, start, end, volumes, timeline, known_calls });
        lock(&self.shared.processes).insert(log, Arc::clone(&process));
        Ok(process)
    }

    /// Everything that a window did.
    pub fn trace(&self, process: &Process, place: WindowRef<'_>) -> Result<Arc<Trace>, Error> {
        self.trace_before(process, place, u64::MAX)
    }

    /// Everything that a window did before a time. What came later may be there or not.
    pub(crate) fn trace_before(
        &self,
        process: &Process,
        place: WindowRef<'_>,
        time: u64,
    ) -> Result<Arc<Trace>, Error> {
        let window = place.volume.window_range(place.window);
        let wanted = time.clamp(window.start, window.end);
        let key = (process.log, place.volume.interval, place.window);
        let cell = {
            let mut traces = lock(&self.shared.traces);
            match traces.get(key) {
                Some(known) => Arc::clone(known),
                None => {
                    let new = TraceCell::default();
                    // Its size is told when it is known.
                    let forgotten = traces.insert(key, Arc::clone(&new), 0);
                    self.recycle(forgotten);
                    new
                }
            }
        };
        let mut made = lock(&cell);
        let end = match &*made {
            Some(trace) if trace.range.end >= wanted => return Ok(Arc::clone(trace)),
            // Whoever comes back for more may do so again.
            Some(_) => window.end,
            None if wanted - window.start > (window.end - window.start) / 4 * 3 => window.end,
            None => wanted,
        };
        let templates = &self.shared.templates;
        let mut session = templates.session(self, process, place, Kind::Streaming)?;
        let spare = lock(&self.shared.spare_trace).take();
        let trace = Arc::new(Trace::gather(self.recording(), &mut session, place, end, spare)?);
        templates.give_back(Kind::Streaming, session);
        *made = Some(Arc::clone(&trace));
        drop(made);
        let forgotten = lock(&self.shared.traces).insert(key, cell, trace.memory_size());
        self.recycle(forgotten);
        Ok(trace)
    }

    /// Keeps the memory of a trace that was forgotten, unless somebody still looks at it.
    fn recycle(&self, forgotten: Vec<TraceCell>) {
        for cell in forgotten {
            let Some(cell) = Arc::into_inner(cell) else { continue };
            let trace = cell.into_inner().unwrap_or_else(PoisonError::into_inner);
            if let Some(trace) = trace.and_then(Arc::into_inner) {
                *lock(&self.shared.spare_trace) = Some(trace);
            }
        }
    }

    /// A session at a moment.
    pub(crate) fn session(&self, moment: Moment) -> Result<Session, Error> {
        let process = self.process(moment.log)?;
        let (_, volume) = process.volume_of(moment.time)?;
        let window = volume.window_of(moment.time);
        let window_start = volume.window_range(window).start;
        if let Some(near) = self.take_near(moment, volume.interval, window_start) {
            return Ok(near);
        }
        let place = WindowRef { volume, window };
        let mut session = self.shared.templates.session(self, &process, place, Kind::Plain)?;
        session.run_to(moment.time)?;
        Ok(session)
    }

    /// A session that stands right there.
    fn take_near(&self, moment: Moment, interval: u64, window_start: u64) -> Option<Session> {
        let mut sessions = lock(&self.shared.sessions);
        let usable = |session: &Session| {
            session.log() == moment.log
                && session.interval().number == interval
                && (window_start..=moment.time).contains(&session.time())
        };
        let nearest = (0..sessions.len())
            .filter(|&index| usable(&sessions[index]))
            .max_by_key(|&index| sessions[index].time())?;
        let mut session = sessions.swap_remove(nearest);
        drop(sessions);
        session.run_to(moment.time).ok().map(|_| session)
    }

    /// A session that nobody needs now, but maybe soon.
    pub(crate) fn keep(&self, session: Session) {
        let mut sessions = lock(&self.shared.sessions);
        sessions.push(session);
        if sessions.len() > SESSIONS {
            let oldest = sessions.remove(0);
            drop(sessions);
            self.shared.templates.give_back(Kind::Plain, oldest);
        }
    }
}

/// Ending a process takes a while, and nobody needs to wait for it.
pub(crate) fn discard(session: Session) {
    std::thread::spawn(move || drop(session));
}

/// Locks; a thread that panicked has left nothing half done behind the locks of this crate.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
