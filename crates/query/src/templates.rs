//! Processes that are ready to replay: one of each process and kind, which every session is a copy of.
//!
//! A fresh replay process has to translate all code it meets, which takes longer than to run it. A template has
//! translated the code that the index says was executed, ahead of time and in the background; its copies begin with
//! that. Code is translated differently for plain runs and for streams, so there are two templates of each process.
//!
//! Making a copy and ending it takes longer than to send one that is there somewhere else: copies that nobody needs any more
//! wait for their next place, unless they are older than what the template has by now.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread;

use retro_replayer::{Detail, Session};

use crate::Error;
use crate::run::{Process, Run, Shared, WindowRef, discard, lock};
use crate::trace;

/// Pieces of code that are translated before others get a turn at the template.
const AT_ONCE: usize = 256;

/// Templates that are kept, of all processes together.
const KEPT: usize = 64;

/// Copies that wait, of all processes together.
const IDLE: usize = 16;

/// A process that others are copies of.
#[derive(Default)]
struct Original {
    /// None once something has happened to it.
    session: Option<Session>,
    /// It is being translated for.
    is_warming_up: bool,
}

type Template = Arc<Mutex<Original>>;

/// The templates of a run.
pub(crate) struct Templates {
    warm_up: bool,
    known: Mutex<HashMap<(u64, Kind), Template>>,
    idle: Mutex<Vec<(Kind, Session)>>,
}

/// What the code of a template is translated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// To be run.
    Plain,
    /// To be streamed.
    Streaming,
}

impl Kind {
    fn detail(self) -> Option<Detail> {
        match self {
            Kind::Plain => None,
            Kind::Streaming => Some(trace::DETAIL()),
        }
    }
}

impl Templates {
    pub(crate) fn new(warm_up: bool) -> Templates {
        Templates { warm_up, known: Mutex::default(), idle: Mutex::default() }
    }

    /// A session at the start of a window.
    pub(crate) fn session(
        &self,
        run: &Run,
        process: &Process,
        place: WindowRef<'_>,
        kind: Kind,
    ) -> Result<Session, Error> {
        let start = place.volume.start_of(place.window)?;
        let replayer = run.replayer();
        if let Some(mut idle) = self.take_idle(process.log, kind)
            && idle.go_to_start(replayer, place.volume.interval, start.clone()).is_ok()
        {
            return Ok(idle);
        }
        if let Some(mut copy) = self.copy(run, process, kind)? {
            copy.go_to_start(replayer, place.volume.interval, start)?;
            return Ok(copy);
        }
        Ok(replayer.session_from(process.log, place.volume.interval, start)?)
    }

    /// Takes a session that nobody needs any more.
    pub(crate) fn give_back(&self, kind: Kind, session: Session) {
        let template = lock(&self.known).get(&(session.log(), kind)).cloned();
        if template.is_none_or(|template| lock(&template).is_warming_up) {
            return discard(session);
        }
        let mut idle = lock(&self.idle);
        idle.push((kind, session));
        if idle.len() > IDLE {
            let (_, oldest) = idle.remove(0);
            drop(idle);
            discard(oldest);
        }
    }

    fn take_idle(&self, log: u64, kind: Kind) -> Option<Session> {
        let mut idle = lock(&self.idle);
        let found = idle.iter().rposition(|(its, session)| *its == kind && session.log() == log)?;
        Some(idle.remove(found).1)
    }

    fn copy(&self, run: &Run, process: &Process, kind: Kind) -> Result<Option<Session>, Error> {
        let mut is_new = false;
        let template = {
            let mut known = lock(&self.known);
            if known.len() >= KEPT && !known.contains_key(&(process.log, kind)) {
                known.clear();
            }
            let template = known.entry((process.log, kind)).or_insert_with(|| {
                is_new = true;
                Arc::default()
            });
            Arc::clone(template)
        };
        if is_new {
            let first = &process.volumes[0];
            let start = first.start_of(0)?;
            let session = run.replayer().session_from(process.log, first.interval, start)?;
            *lock(&template) = Original { session: Some(session), is_warming_up: self.warm_up };
            if self.warm_up {
                warm_up(&run.shared, process, kind, &template);
            }
        }
        let mut template = lock(&template);
        let copy = template.session.as_mut().map(Session::fork);
        match copy {
            Some(Ok(copy)) => Ok(Some(copy)),
            _ => {
                // Something has happened to it; the others do without.
                template.session = None;
                Ok(None)
            }
        }
    }
}

/// Translates what was executed, in the background, while the run is open.
fn warm_up(shared: &Arc<Shared>, process: &Process, kind: Kind, template: &Template) {
    let mut pcs: Vec<u64> =
        process.volumes.iter().flat_map(|volume| volume.pieces.entries()).collect();
    pcs.sort_unstable();
    pcs.dedup();
    let (open, template) = (Arc::downgrade(shared), Arc::downgrade(template));
    thread::spawn(move || {
        for some in pcs.chunks(AT_ONCE) {
            let (Some(_), Some(template)) = (open.upgrade(), template.upgrade()) else { return };
            let mut template = lock(&template);
            let Some(session) = template.session.as_mut() else { break };
            if session.translate_ahead(kind.detail(), some).is_err() {
                if let Some(session) = template.session.take() {
                    discard(session);
                }
                break;
            }
        }
        if let Some(template) = template.upgrade() {
            lock(&template).is_warming_up = false;
        }
    });
}
