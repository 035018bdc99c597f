//! Processes that are ready to replay: one of each process and kind, which every session is a copy of.
//!
//! A fresh replay process has to translate all code it meets, which takes longer than to run it. A template has
//! translated the code that the index says was executed, ahead of time and in the background; its copies begin with
//! that. Code is translated differently for plain runs and for streams, so there are two templates of each process.

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

/// A process that others are copies of; none once something has happened to it.
type Template = Arc<Mutex<Option<Session>>>;

/// The templates of a run.
pub(crate) struct Templates {
    warm_up: bool,
    known: Mutex<HashMap<(u64, Kind), Template>>,
}

/// What the code of a template is translated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Plain,
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
        Templates { warm_up, known: Mutex::default() }
    }

    /// A session at the start of a window, to be run.
    pub(crate) fn plain_session(
        &self,
        run: &Run,
        process: &Process,
        place: WindowRef<'_>,
    ) -> Result<Session, Error> {
        self.session(run, process, place, Kind::Plain)
    }

    /// A session at the start of a window, to be streamed.
    pub(crate) fn streaming_session(
        &self,
        run: &Run,
        process: &Process,
        place: WindowRef<'_>,
    ) -> Result<Session, Error> {
        self.session(run, process, place, Kind::Streaming)
    }

    fn session(
        &self,
        run: &Run,
        process: &Process,
        place: WindowRef<'_>,
        kind: Kind,
    ) -> Result<Session, Error> {
        let start = place.volume.start_of(place.window)?;
        let replayer = run.replayer();
        if let Some(mut copy) = self.copy(run, process, kind)? {
            copy.go_to_start(replayer, place.volume.interval, start)?;
            return Ok(copy);
        }
        Ok(replayer.session_from(process.log, place.volume.interval, start)?)
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
            *lock(&template) = Some(session);
            if self.warm_up {
                warm_up(&run.shared, process, kind, &template);
            }
        }
        let mut template = lock(&template);
        let copy = template.as_mut().map(Session::fork);
        match copy {
            Some(Ok(copy)) => Ok(Some(copy)),
            _ => {
                // Something has happened to it; the others do without.
                *template = None;
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
            let Some(session) = template.as_mut() else { return };
            if session.translate_ahead(kind.detail(), some).is_err() {
                if let Some(session) = template.take() {
                    discard(session);
                }
                return;
            }
        }
    });
}
