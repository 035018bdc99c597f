//! Windows: starting in the middle of an interval.
//!
//! An interval is replayed once from its start. After every so many instructions a snapshot is taken: registers of
//! all threads, and the pages that have changed. From then on a session can begin at any of these snapshots;
//! it asks for its memory when it touches it.

use std::fmt::Debug;
use std::io;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use retro_abi::log::{Encoder, Event, MAX_FIXED, RegisterSet, Relative, register};
use retro_abi::replay::MAX_PAYLOAD;

use crate::pages::{PageStore, PageWriter, Piece};
use crate::session::Tracking;
use crate::{Error, Interval, PAGE_SIZE, Page, Registers, Replayer, Session, StopReason, lock};

/// Instructions of a window, if nobody says otherwise: a few milliseconds of replay.
pub const DEFAULT_WINDOW: u64 = 4_000_000;

/// The state at the start of a window, but for memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The time.
    pub time: u64,
    /// The thread that runs.
    pub running: u32,
    /// The registers of all threads, the running one first. Threads that did not run share theirs with the snapshot
    /// before.
    pub threads: Vec<Arc<Registers>>,
}

/// The windows of an interval. Clones share everything.
#[derive(Clone, Debug)]
pub struct Windows {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    replayer: Replayer,
    log: u64,
    interval: Interval,
    snapshots: Vec<Arc<Snapshot>>,
    pages: PageStore,
    /// The process that has replayed the interval, and has translated its code. Sessions are copies of it.
    template: Mutex<Option<Session>>,
}

impl Windows {
    /// How many there are: at least one.
    pub fn count(&self) -> usize {
        self.shared.snapshots.len()
    }

    /// The interval that is cut.
    pub fn interval(&self) -> Interval {
        self.shared.interval
    }

    /// The state at the start of a window.
    pub fn snapshot(&self, window: usize) -> Result<&Snapshot, Error> {
        self.shared.snapshots.get(window).map(|known| &**known).ok_or(Error::NoWindow(window))
    }

    /// Time at which a window ends: the next one begins there, if there is one.
    pub fn end(&self, window: usize) -> u64 {
        self.shared.snapshots.get(window + 1).map_or(self.interval().end, |next| next.time)
    }

    /// The window that a time lies in: the last that begins at it or before.
    pub fn window_of(&self, time: u64) -> usize {
        self.shared.snapshots.partition_point(|snapshot| snapshot.time <= time).saturating_sub(1)
    }

    /// Bytes that the versions of pages take on disk.
    pub fn stored_bytes(&self) -> u64 {
        self.shared.pages.stored_bytes()
    }

    /// Starts a session at the start of a window.
    pub fn session_at(&self, window: usize) -> Result<Session, Error> {
        let start = self.start(window)?;
        if let Some(mut session) = self.copy_of_template() {
            session.restart_at(start)?;
            return Ok(session);
        }
        let shared = &self.shared;
        let (log, interval) = (shared.log, shared.interval.number);
        Session::start_at(&shared.replayer, log, interval, start, Tracking::Off)
    }

    fn copy_of_template(&self) -> Option<Session> {
        let mut template = lock(&self.shared.template);
        let copy = template.as_mut()?.fork();
        if copy.is_err() {
            // Something has happened to it; the others do without.
            *template = None;
        }
        copy.ok()
    }
}

/// Memory at the start of a window.
pub trait Memory: Debug + Send + Sync {
    /// The piece at an address.
    fn piece(&self, address: u64) -> io::Result<Piece>;
}

/// What a session in the middle of an interval starts from.
#[derive(Clone, Debug)]
pub struct Start {
    /// The threads.
    pub snapshot: Arc<Snapshot>,
    /// The memory.
    pub memory: Arc<dyn Memory>,
}

/// Memory of a window that was cut.
#[derive(Debug)]
struct CutMemory {
    windows: Windows,
    window: u32,
}

impl Memory for CutMemory {
    fn piece(&self, address: u64) -> io::Result<Piece> {
        self.windows.shared.pages.piece(address, self.window)
    }
}

impl Windows {
    fn start(&self, window: usize) -> Result<Start, Error> {
        let snapshot = self.shared.snapshots.get(window).ok_or(Error::NoWindow(window))?;
        let memory = CutMemory { windows: self.clone(), window: window as u32 };
        Ok(Start { snapshot: Arc::clone(snapshot), memory: Arc::new(memory) })
    }
}

impl Snapshot {
    /// Of a session where it stands. Threads that are as they were before share their registers with that.
    pub fn take(session: &mut Session, before: Option<&Snapshot>) -> Result<Snapshot, Error> {
        let mut threads = Vec::new();
        for info in session.threads()? {
            let now = session.registers(Some(info.thread))?;
            let same =
                before.and_then(|snapshot| snapshot.threads.iter().find(|old| ***old == now));
            threads.push(same.map_or_else(|| Arc::new(now), Arc::clone));
        }
        Ok(Snapshot { time: session.time(), running: session.thread(), threads })
    }

    /// As payloads of [`retro_abi::replay::ask::STATE`].
    pub(crate) fn to_messages(&self, interval: u64) -> Vec<Vec<u8>> {
        let count = self.threads.len() as u32;
        let mut messages = vec![Vec::new()];
        let mut relative = Relative::at(self.time);
        let mut add = |event: Event, image: usize| {
            let mut bytes = vec![0; MAX_FIXED + image];
            let is_full = |message: &Vec<u8>| message.len() + bytes.len() > MAX_PAYLOAD;
            if messages.last().is_none_or(is_full) {
                messages.push(Vec::new());
            }
            let len = Encoder::new(&mut bytes).event(self.time, &event, &mut relative);
            if let Some(message) = messages.last_mut() {
                message.extend_from_slice(&bytes[..len]);
            }
        };
        add(Event::Interval { number: interval, running: self.running, threads: count }, 0);
        for thread in &self.threads {
            let mask = (1 << register::COUNT) - 1;
            let state = Event::ThreadState {
                thread: thread.thread,
                in_syscall: thread.in_syscall.map_or(0, |number| number.wrapping_add(1)),
                registers: RegisterSet { mask, values: thread.general },
                image: &thread.vectors,
            };
            add(state, thread.vectors.len());
        }
        messages
    }
}

/// Pages that wait to be stored while the replay goes on.
const WAITING_PAGES: usize = 1024;

/// A page on its way to the store, with its window and address.
type ChangedPage = (u32, u64, Box<[u8; PAGE_SIZE]>);

/// Replays an interval and takes a snapshot every `size` instructions.
pub(crate) fn cut(
    replayer: &Replayer,
    log: u64,
    interval: u64,
    size: u64,
    progress: impl FnMut(u64),
) -> Result<Windows, Error> {
    let mut session = Session::start(replayer, log, interval, Tracking::On)?;
    let interval = session.interval();
    let mut writer = PageWriter::new().map_err(Error::Pages)?;
    let (sender, receiver) = mpsc::sync_channel::<ChangedPage>(WAITING_PAGES);
    // Storing pages takes as long as the replay itself, so it has a thread of its own.
    let (snapshots, pages) = thread::scope(|scope| {
        let storing = scope.spawn(move || {
            for (window, address, bytes) in receiver {
                writer.add(window, Page { address, bytes: &bytes })?;
            }
            writer.finish()
        });
        let snapshots = take_snapshots(&mut session, size, sender, progress);
        (snapshots, storing.join())
    });
    let pages = match pages {
        Ok(pages) => pages.map_err(Error::Pages)?,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    let (replayer, snapshots) = (replayer.clone(), snapshots?);
    let template = Mutex::new(None);
    let windows = Windows {
        shared: Arc::new(Shared { replayer, log, interval, snapshots, pages, template }),
    };
    // The template keeps no memory, so that copies of it are made at once.
    if session.restart_at(windows.start(0)?).is_ok() {
        session.forget_start();
        *lock(&windows.shared.template) = Some(session);
    }
    Ok(windows)
}

fn take_snapshots(
    session: &mut Session,
    size: u64,
    pages: SyncSender<ChangedPage>,
    mut progress: impl FnMut(u64),
) -> Result<Vec<Arc<Snapshot>>, Error> {
    let end = session.interval().end;
    let mut snapshots: Vec<Arc<Snapshot>> = Vec::new();
    loop {
        let window = snapshots.len() as u32;
        session.changes(|page| {
            // Nobody takes it when storing has failed; the reason comes to light in the end.
            let _ = pages.send((window, page.address, Box::new(*page.bytes)));
            Ok(())
        })?;
        let before = snapshots.last().map(|last| &**last);
        snapshots.push(Arc::new(Snapshot::take(session, before)?));
        let next = session.time().saturating_add(size.max(1));
        let stop = session.run_to(next.min(end))?;
        progress(stop.time);
        if stop.time >= end || stop.reason == StopReason::End {
            return Ok(snapshots);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use retro_abi::log::Decoder;

    /// More threads than one message holds.
    #[test]
    fn a_snapshot_is_told_in_messages_that_fit() {
        let thread = |number: u32| {
            Arc::new(Registers {
                thread: number,
                running: number == 1,
                in_syscall: (number == 7).then_some(202),
                general: [u64::from(number); register::COUNT],
                vectors: vec![number as u8; 2696],
            })
        };
        let threads: Vec<_> = (1..100).map(thread).collect();
        let snapshot = Snapshot { time: 1 << 40, running: 1, threads };
        let messages = snapshot.to_messages(3);
        assert!(messages.len() > 4 && messages.iter().all(|bytes| bytes.len() <= MAX_PAYLOAD));
        let events: Vec<_> = messages
            .iter()
            .flat_map(|bytes| Decoder::new(bytes, snapshot.time))
            .map(Result::unwrap)
            .collect();
        assert_eq!(events[0], (1 << 40, Event::Interval { number: 3, running: 1, threads: 99 }));
        for ((time, event), expected) in events[1..].iter().zip(&snapshot.threads) {
            let Event::ThreadState { thread, in_syscall, registers, image } = *event else {
                panic!("{event:?}")
            };
            assert_eq!((*time, thread), (1 << 40, expected.thread));
            assert_eq!(in_syscall, if thread == 7 { 203 } else { 0 });
            assert_eq!(registers.values, expected.general);
            assert_eq!(image, expected.vectors);
        }
        assert_eq!(events.len(), 100);
    }
}
