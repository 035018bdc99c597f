//! Replaying an interval: one thread talks to the process, the other stores.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use retro_recording::Budget;
use retro_replayer::{Replayer, Session, Snapshot, StopReason};

use super::window::WindowData;
use super::writers::Writers;
use super::{Job, Watch};
use crate::Error;
use crate::manifest::Manifest;

/// Windows on their way to be stored.
const WAITING: usize = 4;

/// Replays an interval and stores what its windows tell.
pub(super) fn summarise(
    replayer: &Replayer,
    job: Job,
    writers: Writers,
    watch: &impl Watch,
    kept: &mut Option<Session>,
) -> Result<Manifest, Error> {
    let replay = |source| Error::replay(job.log, source);
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
        let budget = replayer.recording().budget();
        let channels = (&sender, &spares);
        let told = tell_windows(&mut session, start.is_none(), size, channels, budget, watch);
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
    (sender, spares): (&SyncSender<WindowData>, &Receiver<WindowData>),
    budget: &Budget,
    watch: &impl Watch,
) -> Result<ControlFlow<()>, retro_replayer::Error> {
    let end = session.interval().end;
    let mut last = Snapshot::take(session, None)?;
    if is_first {
        // What the log has at the very start has happened already.
        let mut data = WindowData::begin(None, session.time(), budget);
        session.summarise(session.time(), &mut data)?;
        data.next = Some(last.clone());
        if sender.send(data).is_err() {
            return Ok(ControlFlow::Break(()));
        }
    }
    loop {
        let mut data = WindowData::begin(spares.try_recv().ok(), session.time(), budget);
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
