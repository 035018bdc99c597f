//! The notebook: moments that somebody noted, in a file beside the log of the recording, or in the store if the recording is
//! somebody else's. Until something is noted there, what its owner has noted is shown.
//!
//! It is the one thing that a client can change. Nothing of what was recorded is touched. The file is replaced as a whole, so that a
//! crash leaves the old one or the new one; who wants to replace it says which one it has seen, so that two pages do not
//! undo each other's work.

use std::io;
use std::sync::Mutex;

use retro_query::Run;
use retro_recording::{Directory, NOTEBOOK_NAME};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Answer;
use super::failure::{at_most, invalid};
use super::wire::{ProcessNumber, Time};
use crate::methods::Methods;
use crate::service::{CallContext, MethodError};

/// Notes of a notebook.
const NOTES_LIMIT: u64 = 10_000;

/// Bytes of the file: what a request can hold, written out with spaces.
const FILE_LIMIT: u64 = 8 << 20;

/// Comparing and replacing are one step, also for two clients of this server.
static REPLACING: Mutex<()> = Mutex::new(());

pub(super) fn add(methods: Methods<Run>) -> Methods<Run> {
    methods.add("notebook.read", "The moments that were noted.", read).add(
        "notebook.write",
        "Replaces the notebook. The only method that changes something, and nothing of the recording.",
        write,
    )
}

/// No parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadParams {}

/// The notebook.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
struct Notebook {
    /// How often it was replaced; 0 if there is none yet.
    revision: u64,
    /// What was noted.
    notes: Vec<Note>,
}

/// A moment that was noted.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Note {
    process: ProcessNumber,
    time: Time,
    /// The thread that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thread: Option<u32>,
    /// What led there, or what there is to see.
    title: String,
    /// Where it is: a function and a line, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    place: String,
    /// What somebody wrote about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    text: String,
    /// Whether it was noted by somebody, not along the way.
    #[serde(default)]
    is_kept: bool,
}

/// Parameters of `notebook.write`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteParams {
    /// The revision that is replaced.
    revision: u64,
    /// All notes, at most 10,000.
    notes: Vec<Note>,
}

/// The new notebook.
#[derive(Debug, Serialize, JsonSchema)]
struct Written {
    /// Its revision.
    revision: u64,
}

fn read(run: &Run, _: ReadParams, _: &CallContext) -> Answer<Notebook> {
    let own = run.index().annex().existing().map_err(retro_query::Error::from)?;
    let places = own.iter().chain([run.recording().root()]);
    for place in places {
        match place.read(NOTEBOOK_NAME, FILE_LIMIT) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed("read", place, &error)),
            Ok(text) => {
                return serde_json::from_slice(&text)
                    .map_err(|error| failed("read", place, &io::Error::from(error)));
            }
        }
    }
    Ok(Notebook::default())
}

fn write(run: &Run, params: WriteParams, context: &CallContext) -> Answer<Written> {
    at_most("notes", params.notes.len() as u64, NOTES_LIMIT)?;
    let _replacing = REPLACING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let known = read(run, ReadParams {}, context)?;
    if known.revision != params.revision {
        return Err(MethodError::Failed {
            kind: "notebook_changed",
            message: "the notebook was changed by somebody else: read it again".to_owned(),
        });
    }
    let revision = known.revision + 1;
    let notebook = Notebook { revision, notes: params.notes };
    let place = run.index().annex().directory().map_err(retro_query::Error::from)?;
    let mut text = serde_json::to_vec_pretty(&notebook)
        .map_err(|error| failed("write", &place, &io::Error::from(error)))?;
    text.push(b'\n');
    if text.len() as u64 > FILE_LIMIT {
        return Err(invalid("the notebook is too large"));
    }
    // Only its owner can read it, as the recording.
    place.replace(NOTEBOOK_NAME, &text, true).map_err(|error| failed("write", &place, &error))?;
    Ok(Written { revision })
}

fn failed(what: &str, place: &Directory, error: &io::Error) -> MethodError {
    let path = place.path_of(NOTEBOOK_NAME);
    MethodError::Failed {
        kind: "notebook_unavailable",
        message: format!("cannot {what} {}: {error}", path.display()),
    }
}
