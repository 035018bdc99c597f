//! `retro replay`: a run again, as output or as a trace.
//!
//! What a program wrote is not in its log: only that it wrote, how much, and from where in memory. So the log is
//! searched for calls that write to standard output or error, and the process is replayed to the time of each to
//! read the memory there. Whatever else the process did is not replayed.
//!
//! ```text
//! processes.rs     which process, from when to when
//! happenings.rs    what the log tells that matters: calls, threads, children
//! streams.rs       which descriptors are stdout and stderr
//! output_calls.rs  which calls write, and where their data lies
//! tracker.rs       descriptors of all threads through all calls
//! family.rs        output of all processes in order
//! memory.rs        memory at a time, by replay
//! printing.rs      the output
//! trace.rs         what happened instead of the output
//! ```

mod family;
mod happenings;
mod memory;
mod output_calls;
mod printing;
mod processes;
mod streams;
mod trace;
mod tracker;

use std::path::Path;

use anyhow::Result;
use retro_recording::State;
use retro_replayer::Replayer;

use crate::arguments::ReplayOptions;
use crate::engine_file::EngineFile;
use crate::message::{complain, describe, notify};
use crate::{Completeness, quantity, quoting, selection};
use family::{Family, Followed, Missing};
use memory::{Memory, ReplayedMemory};
use printing::Printer;
use processes::Wanted;

pub(crate) use trace::line;

/// Replays a recording.
pub fn replay(options: &ReplayOptions) -> Result<Completeness> {
    let recording = selection::open(options.recording.as_deref())?;
    let wanted = Wanted::new(&recording, options)?;
    let engine = EngineFile::new(&[Path::new("."), recording.directory()])?;
    let replayer = Replayer::open(recording, engine.path().to_owned());
    let replayed = if options.trace.is_empty() {
        print_output(&replayer, &wanted, options)?
    } else {
        trace::trace(&replayer, &wanted, &options.trace, options.json)?;
        Completeness::Whole
    };
    match tell_state(&replayer) {
        Completeness::Whole => Ok(replayed),
        Completeness::Partial => Ok(Completeness::Partial),
    }
}

fn print_output(
    replayer: &Replayer,
    wanted: &Wanted,
    options: &ReplayOptions,
) -> Result<Completeness> {
    let mut printer = Printer::new();
    let memory_of = |log| -> Box<dyn Memory + '_> { Box::new(ReplayedMemory::new(replayer, log)) };
    let family = Family::new(replayer.recording(), wanted, &memory_of);
    let followed = family.follow(&mut |piece| {
        if options.json { printer.print_object(piece) } else { printer.print(piece) }
    });
    // What was found before a failure is worth seeing, and comes before the messages.
    printer.flush()?;
    let Followed { missing, failures } = followed?;
    tell_missing(&missing);
    failures.iter().for_each(|failure| complain(&describe(failure)));
    Ok(if failures.is_empty() { Completeness::Whole } else { Completeness::Partial })
}

/// Says what of the output is not there.
fn tell_missing(missing: &Missing) {
    if missing.bytes > 0 {
        notify(&format!(
            "{} bytes of the output are missing: the kernel moved them from elsewhere (sendfile, splice, ...), and \
             they are not in the recording",
            quantity::grouped(missing.bytes)
        ));
    }
    if missing.asynchronous_calls > 0 {
        notify(
            "the program used asynchronous I/O; output that it may have made that way is missing",
        );
    }
    if missing.processes > 0 {
        notify(&format!(
            "{} not recorded; what they wrote is missing",
            match missing.processes {
                1 => "1 child process was".to_string(),
                more => format!("{} child processes were", quantity::grouped(more)),
            }
        ));
    }
}

/// Says whether the recording is whole.
fn tell_state(replayer: &Replayer) -> Completeness {
    let recording = replayer.recording();
    let name = recording.directory().display();
    if let Some(damage) = recording.damage() {
        complain(&format!("{name}: {damage}; what is before that was replayed"));
        return Completeness::Partial;
    }
    if let Some(reason) = recording.end().and_then(|end| end.stopped.as_ref()) {
        let reason = quoting::printable(reason.as_bytes());
        complain(&format!("{name} ends here: recording stopped: {reason}"));
        return Completeness::Whole;
    }
    for process in recording.processes() {
        let log = process.summary.log;
        let bytes = replayer.missing_bytes(log);
        if bytes > 0 {
            complain(&format!("log {log} lacks {bytes} bytes: what it had there is missing"));
            return Completeness::Partial;
        }
    }
    match recording.state() {
        State::Interrupted => complain(&format!("{name} ends here: the recorder was killed")),
        State::Running => notify(&format!("{name} is still being recorded; this is what there is")),
        State::Finished => {}
    }
    Completeness::Whole
}
