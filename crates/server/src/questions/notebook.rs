//! The notebook: moments that somebody noted, in a file beside the log of the recording.
//!
//! It is the one thing that a client can change. Nothing of what was recorded is touched. The file is replaced as a whole, so that a
//! crash leaves the old one or the new one; who wants to replace it says which one it has seen, so that two pages do not
//! undo each other's work.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Mutex;

use retro_query::Run;
use retro_recording::NOTEBOOK_NAME;
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
    let path = path(run);
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Notebook::default()),
        opened => opened.map_err(|error| failed("read", run, &error))?,
    };
    let mut text = String::new();
    file.take(FILE_LIMIT).read_to_string(&mut text).map_err(|error| failed("read", run, &error))?;
    serde_json::from_str(&text).map_err(|error| failed("read", run, &io::Error::from(error)))
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
    let mut text = serde_json::to_vec_pretty(&notebook)
        .map_err(|error| failed("write", run, &io::Error::from(error)))?;
    text.push(b'\n');
    if text.len() as u64 > FILE_LIMIT {
        return Err(invalid("the notebook is too large"));
    }
    replace(run, &text).map_err(|error| failed("write", run, &error))?;
    Ok(Written { revision })
}

fn path(run: &Run) -> PathBuf {
    run.recording().directory().join(NOTEBOOK_NAME)
}

/// Only its owner can read it, as the recording.
fn replace(run: &Run, text: &[u8]) -> io::Result<()> {
    // Outside of the directory, where a file that a crash leaves would be in the way of removing the recording.
    let directory = fs::canonicalize(run.recording().directory())?;
    let beside = directory.parent().unwrap_or(&directory);
    let mut file = match tempfile::Builder::new().prefix(".retro-notebook-").tempfile_in(beside) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            tempfile::Builder::new().prefix(".retro-notebook-").tempfile_in(&directory)?
        }
        made => made?,
    };
    file.write_all(text)?;
    file.as_file().sync_all()?;
    file.persist(path(run)).map_err(|error| error.error)?;
    Ok(())
}

fn failed(what: &str, run: &Run, error: &io::Error) -> MethodError {
    MethodError::Failed {
        kind: "notebook_unavailable",
        message: format!("cannot {what} {}: {error}", path(run).display()),
    }
}
