//! Whether a log is what its recording claims: neither more than can be, nor more than there is.
//!
//! The problem: checksums only tell that chunks are what somebody wrote. A recording that claims 2^60 instructions, and
//! code that loops, keep a replay busy for years; one whose last chunks are gone replays without a divergence, as if
//! nothing had been there.
//!
//! The strategy: compare the parts of a recording with each other.
//! - An engine cuts an interval as soon as its instructions outweigh its log (the rule is in the engine's
//!   `record::intervals`: some ten thousand instructions for each byte), unless the user wants intervals of a certain
//!   length, which the head tells. So an interval with much to execute has much in its log. What is allowed here is many
//!   times of what an engine does.
//! - No log goes on after its process has ended, and none goes back.
//! - A process counts the bytes that it writes, after it has written them; the summary of its log has the counts.

use retro_abi::channel::Stream;
use retro_abi::log::Kind;
use retro_recording::{Recording, SegmentRef};

use crate::{Error, Interval};

/// Instructions that any interval may have: a second or two of replay.
const ALWAYS: u64 = 1 << 32;

/// Instructions that an interval may have for each byte of its log.
const FOR_A_BYTE: u64 = 1 << 17;

/// Kinds of events that are in the code stream.
const CODE_KINDS: [Kind; 3] = [Kind::Code, Kind::File, Kind::Inherit];

/// Refuses an interval of a log that goes back, or that claims too many instructions.
pub(crate) fn check(
    recording: &Recording,
    log: u64,
    interval: Interval,
    segments: &[SegmentRef],
) -> Result<(), Error> {
    let refusal = |what| Err(Error::Incomplete { log, interval: interval.number, what });
    for stream in Stream::ALL {
        let mut neighbours = recording.segments(log, stream).windows(2);
        if let Some(pair) = neighbours.find(|pair| !follows(&pair[0], &pair[1])) {
            let [before, after] = [&pair[0], &pair[1]].map(|s| (s.base_time, s.interval));
            return refusal(format!(
                "its log is out of order: after a chunk of time {} and interval {} comes one of time {} and interval {}",
                before.0, before.1, after.0, after.1
            ));
        }
    }
    let bytes = length_of(segments);
    if interval.instructions() > allowed(bytes, recording.head().options.interval) {
        return refusal(format!(
            "it would end at time {}, which is too far for a log of {bytes} bytes",
            interval.end
        ));
    }
    match recording.process(log).filter(|process| !process.derived) {
        Some(process) if interval.end > process.summary.time => refusal(format!(
            "its log goes on to time {}, but its process ended at time {}",
            interval.end, process.summary.time
        )),
        _ => Ok(()),
    }
}

/// Whether a chunk can be the one after another in its stream.
fn follows(before: &SegmentRef, after: &SegmentRef) -> bool {
    // Every interval has a chunk of its own in the main stream; one of the code stream may begin many intervals later.
    let last = match after.stream {
        Stream::Main => before.interval.saturating_add(1),
        Stream::Code => u64::MAX,
    };
    before.base_time <= after.base_time && (before.interval..=last).contains(&after.interval)
}

/// Bytes that the process of a log has written, as its summary has it, and that are not there.
pub(crate) fn missing_bytes(recording: &Recording, log: u64) -> u64 {
    let Some(process) = recording.process(log).filter(|process| !process.derived) else { return 0 };
    let mut missing = 0u64;
    for stream in Stream::ALL {
        let counts = process.summary.counts.events.iter();
        let counted = counts
            .filter(|(kind, _)| stream == stream_of(**kind))
            .fold(0u64, |sum, (_, count)| sum.saturating_add(count.bytes));
        let present = length_of(recording.segments(log, stream));
        missing = missing.saturating_add(counted.saturating_sub(present));
    }
    missing
}

fn stream_of(kind: u32) -> Stream {
    if CODE_KINDS.iter().any(|known| *known as u32 == kind) { Stream::Code } else { Stream::Main }
}

/// Bytes of chunks. No sum of lengths of a file's chunks overflows.
fn length_of(segments: &[SegmentRef]) -> u64 {
    segments.iter().map(|segment| u64::from(segment.raw_length)).sum()
}

/// Instructions that an interval may have, with so many bytes of log and the length that the user wants, or 0.
fn allowed(bytes: u64, wanted: u64) -> u64 {
    let by_log = bytes.saturating_mul(FOR_A_BYTE);
    ALWAYS.saturating_add(by_log).saturating_add(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_intervals_need_long_logs() {
        // What the engine's own rule allows at most: ten thousand for a byte, after fifty million.
        assert!(allowed(1_000_000, 0) > 50_000_000 + 10_000 * 1_000_000);
        assert!(allowed(1_000, 0) < 1 << 33);
        assert!(allowed(0, 1 << 40) > 1 << 40);
        assert_eq!(allowed(u64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn kinds_have_their_streams() {
        let code = Kind::ALL.iter().filter(|kind| stream_of(**kind as u32) == Stream::Code);
        assert_eq!(code.count(), 3);
        assert_eq!(stream_of(u32::MAX), Stream::Main);
    }
}
