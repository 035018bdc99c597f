//! The files that a process mapped, and where they are now: for whoever reads them himself, as other debuggers do.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use retro_abi::channel::Stream;
use retro_abi::log::Event;
use retro_recording::Copied;

use crate::files::{self, FileState, Location};
use crate::modules::{MappedFile, inherited_from};
use crate::symbols::Symbols;

/// A file that a process mapped at some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedFile {
    /// Its path when it was mapped.
    pub path: PathBuf,
    /// Its build id; empty if it has none.
    pub build_id: Vec<u8>,
    /// Where the very same file is now, or why it cannot be looked at.
    pub location: Result<Location, FileState>,
    /// Its separate debug information, if the recording has it with it.
    pub debug: Option<Copied>,
    /// What that shares with others, if the recording has it with it.
    pub shared_debug: Option<Copied>,
}

impl Symbols {
    /// All files that a process, or the one that it is a copy of, mapped at any time.
    pub fn recorded_files(&self, log: u64) -> Vec<RecordedFile> {
        let mut seen = HashSet::new();
        let mut all = Vec::new();
        let mut next = Some(log);
        while let Some(log) = next {
            // Damage is for those to tell who are asked for the log itself; here it costs files.
            let _ = self.recording().for_each_event(log, Stream::Code, |_, event| {
                if let Some(mapped) = mapped_file(event)
                    && seen.insert(mapped.clone())
                {
                    all.push(self.recorded_file(mapped));
                }
                ControlFlow::<()>::Continue(())
            });
            next = inherited_from(self.recording(), log).map(|(parent, _)| parent);
        }
        all
    }

    fn recorded_file(&self, mapped: MappedFile) -> RecordedFile {
        let recording = self.recording();
        let location = files::find(recording, &mapped).map(|(location, ..)| location);
        let MappedFile { path, build_id, .. } = mapped;
        let debug = recording.debug_file_for(&path, &build_id);
        let shared_debug = recording.shared_debug_file_for(&path, &build_id);
        RecordedFile { path, build_id, location, debug, shared_debug }
    }
}

fn mapped_file(event: &Event<'_>) -> Option<MappedFile> {
    match *event {
        Event::File { size, modified_seconds, modified_nanoseconds, build_id, path, .. } => {
            Some(MappedFile {
                path: PathBuf::from(OsStr::from_bytes(path)),
                build_id: build_id.to_vec(),
                size,
                modified: (modified_seconds, modified_nanoseconds),
            })
        }
        _ => None,
    }
}
