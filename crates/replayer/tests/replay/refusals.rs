//! What cannot be replayed is refused before anything is started.

use std::fs;
use std::path::Path;

use retro_abi::channel::Stream;
use retro_recording::{Recording, SegmentRef};
use retro_replayer::{Error, Replayer};

use crate::recorded::Recorded;

/// The recording once more, after something was done to its log.
fn reopened(recorded: &Recorded) -> Replayer {
    // An engine that does not exist: nothing may come so far as to start it.
    Replayer::open(Recording::open(&recorded.directory).unwrap(), "/nonexistent".into())
}

fn all_segments(recording: &Recording) -> Vec<SegmentRef> {
    let logs = recording.processes().iter().map(|process| process.summary.log);
    let mut all: Vec<SegmentRef> = logs
        .flat_map(|log| Stream::ALL.map(|stream| recording.segments(log, stream).to_vec()))
        .flatten()
        .collect();
    all.sort_by_key(|segment| segment.offset);
    all
}

fn log_path(recorded: &Recorded) -> std::path::PathBuf {
    recorded.directory.join(retro_recording::LOG_NAME)
}

/// Removes a segment from the file. All segments have headers of the same size.
fn remove(path: &Path, segment: &SegmentRef) {
    const HEADER: usize = 64;
    let mut bytes = fs::read(path).unwrap();
    let start = segment.offset as usize;
    bytes.drain(start..start + HEADER + segment.stored_length as usize);
    fs::write(path, bytes).unwrap();
}

#[test]
fn what_is_not_there() {
    let recorded = Recorded::guest("insn_stack", &[]);
    let replayer = reopened(&recorded);
    assert!(matches!(replayer.intervals(77), Err(Error::NoLog(77))));
    assert!(matches!(replayer.session(77, 0), Err(Error::NoLog(77))));
    let none = replayer.session(0, 99);
    assert!(matches!(none, Err(Error::NoInterval { log: 0, interval: 99 })), "{none:?}");
    let late = replayer.interval_of(0, u64::MAX);
    assert!(matches!(late, Err(Error::NoTime { log: 0, .. })), "{late:?}");
    assert!(matches!(replayer.session(0, 0), Err(Error::Start(_))), "there is no such engine");
}

#[test]
fn flipped_bits() {
    let recorded = Recorded::guest("insn_stack", &[]);
    let segment = recorded.replayer.recording().segments(0, Stream::Main)[0];
    let mut bytes = fs::read(log_path(&recorded)).unwrap();
    let middle = segment.offset as usize + 64 + segment.stored_length as usize / 2;
    bytes[middle] ^= 0x10;
    fs::write(log_path(&recorded), bytes).unwrap();
    let refused = reopened(&recorded).session(0, 0);
    assert!(matches!(refused, Err(Error::Recording(_))), "{refused:?}");
}

/// A log that lacks its last chunk has nothing that follows it; it is noticed all the same.
#[test]
fn a_missing_end() {
    let recorded = Recorded::guest("insn_stack", &["--interval", "20k"]);
    let segments = recorded.replayer.recording().segments(0, Stream::Main).to_vec();
    remove(&log_path(&recorded), segments.last().unwrap());
    let replayer = reopened(&recorded);
    let last = *replayer.intervals(0).unwrap().last().unwrap();
    let refused = replayer.session(0, last.number);
    assert!(matches!(refused, Err(Error::Incomplete { .. })), "{refused:?}");
}

/// What comes after a hole is not there for a reader, and what is left is not taken for all.
#[test]
fn a_missing_middle() {
    let recorded = Recorded::guest("insn_stack", &["--interval", "20k"]);
    let all = all_segments(recorded.replayer.recording());
    let mains: Vec<_> = all.iter().filter(|segment| segment.stream == Stream::Main).collect();
    remove(&log_path(&recorded), mains[mains.len() / 2]);
    let replayer = reopened(&recorded);
    assert!(replayer.recording().damage().is_some());
    let intervals = replayer.intervals(0).unwrap();
    assert!(intervals.last().unwrap().number < mains.last().unwrap().interval);
}
