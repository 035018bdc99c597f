//! A pool: sessions that are where one wants them, quickly.
//!
//! Getting to a time means to begin at the nearest place before it. Those places are the starts of windows, which are
//! cut when an interval is used for the first time, and the sessions that were handed out lately, of which the
//! pool keeps copies: a copy of a process that stands close by is made in less time than any other is started, and has
//! its code translated and its memory there.

use std::sync::{Arc, Mutex};
use std::thread;

use crate::recent::Recent;
use crate::{DEFAULT_WINDOW, Error, Interval, Replayer, Session, Windows, lock};

/// Processes that are kept, if nobody says otherwise.
const DEFAULT_PROCESSES: usize = 16;

/// Intervals whose windows are kept. Each has a file with all that its windows changed.
const KEPT_INTERVALS: usize = 64;

/// Number of a log and of an interval of it.
type Key = (u64, u64);

/// The windows of an interval, once they are cut; whoever comes first does it, others wait.
type Cut = Arc<Mutex<Option<Windows>>>;

/// Sessions at any time of a recording. Threads can share one.
#[derive(Debug)]
pub struct Pool {
    replayer: Replayer,
    window_size: u64,
    cuts: Mutex<Recent<Key, Cut>>,
    warm: Mutex<Recent<Key, Session>>,
}

impl Pool {
    /// For a recording.
    pub fn new(replayer: Replayer) -> Pool {
        Pool::with_limits(replayer, DEFAULT_PROCESSES, DEFAULT_WINDOW)
    }

    /// With at most so many processes besides those that are handed out, and windows of so many instructions.
    pub fn with_limits(replayer: Replayer, processes: usize, window_size: u64) -> Pool {
        Pool {
            replayer,
            window_size,
            cuts: Mutex::new(Recent::new(KEPT_INTERVALS)),
            warm: Mutex::new(Recent::new(processes)),
        }
    }

    /// The recording and its engine.
    pub fn replayer(&self) -> &Replayer {
        &self.replayer
    }

    /// A session at a time of a log.
    pub fn at(&self, log: u64, time: u64) -> Result<Session, Error> {
        let interval = self.replayer.interval_of(log, time)?;
        let key = (log, interval.number);
        let windows = self.windows(log, interval)?;
        let window = windows.window_of(time);
        let window_start = windows.snapshot(window)?.time;
        let near = lock(&self.warm).take_best(|known, session| {
            let usable = *known == key && (window_start..=time).contains(&session.time());
            usable.then(|| session.time())
        });
        // One that cannot be copied is of no use any more.
        let copied = near.and_then(|(_, mut near)| {
            let copy = near.fork().ok()?;
            self.keep(key, near);
            Some(copy)
        });
        let (mut session, is_new) = match copied {
            Some(copy) => (copy, false),
            None => (windows.session_at(window)?, true),
        };
        if is_new || session.time() < time {
            session.run_to(time)?;
            let copy = session.fork()?;
            self.keep(key, copy);
        }
        Ok(session)
    }

    /// The windows of an interval, which are cut if they are not yet.
    pub fn windows(&self, log: u64, interval: Interval) -> Result<Windows, Error> {
        let key = (log, interval.number);
        let cut = {
            let mut cuts = lock(&self.cuts);
            match cuts.get(&key) {
                Some(known) => Arc::clone(known),
                None => {
                    let new = Cut::default();
                    let dropped = cuts.insert(key, Arc::clone(&new));
                    drop(cuts);
                    drop(dropped);
                    new
                }
            }
        };
        let mut cut = lock(&cut);
        if let Some(windows) = &*cut {
            return Ok(windows.clone());
        }
        let windows = self.replayer.cut(log, interval.number, self.window_size, |_| {})?;
        Ok(cut.insert(windows).clone())
    }

    fn keep(&self, key: Key, session: Session) {
        let dropped = lock(&self.warm).insert(key, session);
        if let Some(dropped) = dropped {
            // Ending a process takes milliseconds, and nobody needs to wait for it.
            thread::spawn(move || drop(dropped));
        }
    }
}
