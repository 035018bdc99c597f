//! The intervals of a log: where they begin and end.

use retro_abi::channel::Stream;
use retro_recording::{Recording, SegmentRef};

use crate::Error;

/// A stretch of a log that can be replayed alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Its number within the log.
    pub number: u64,
    /// Time of its first event.
    pub start: u64,
    /// Time at which the next one begins, or of the log's last event. What a process did after that, before it was killed,
    /// nobody knows.
    pub end: u64,
}

impl Interval {
    /// Instructions in it.
    pub fn instructions(&self) -> u64 {
        self.end - self.start
    }
}

/// The intervals of a log. Times never go back, whatever a hostile recording says.
pub(crate) fn intervals(recording: &Recording, log: u64) -> Result<Vec<Interval>, Error> {
    let process = recording.process(log).ok_or(Error::NoLog(log))?;
    let segments = recording.segments(log, Stream::Main);
    let mut found: Vec<Interval> = Vec::new();
    for group in segments.chunk_by(|a, b| a.interval == b.interval) {
        let (number, start) = (group[0].interval, group[0].base_time);
        if let Some(before) = found.last_mut() {
            before.end = start.max(before.start);
        }
        found.push(Interval { number, start, end: start });
    }
    if let (Some(last), Some(segment)) = (found.last_mut(), segments.last()) {
        let end = last_time(recording, segment).unwrap_or(process.summary.time);
        last.end = end.max(last.start);
    }
    Ok(found)
}

/// Whether recording stopped before the run ended: the disk was full, or the recorder was killed. Logs end where their last
/// events are then, whatever their processes did afterwards.
pub(crate) fn stops_early(recording: &Recording) -> bool {
    recording.end().is_none_or(|end| end.stopped.is_some())
}

/// Time of the last event of a chunk, if it can be read; if not, whoever needs the chunk is told why.
fn last_time(recording: &Recording, segment: &SegmentRef) -> Option<u64> {
    let chunk = recording.read_chunk(segment).ok()?;
    let times = chunk.events().flatten().map(|(time, _)| time);
    Some(times.last().unwrap_or(chunk.base_time))
}

/// The chunks of an interval.
pub(crate) fn chunks_of(recording: &Recording, log: u64, number: u64) -> &[SegmentRef] {
    let segments = recording.segments(log, Stream::Main);
    let mut groups = segments.chunk_by(|a, b| a.interval == b.interval);
    groups.find(|group| group[0].interval == number).unwrap_or_default()
}

/// The interval that a time lies in. Where one interval ends and the next begins, it is the next.
pub(crate) fn at_time(all: &[Interval], log: u64, time: u64) -> Result<Interval, Error> {
    let started = all.partition_point(|interval| interval.start <= time);
    let found = started.checked_sub(1).map(|index| all[index]);
    found.filter(|interval| time <= interval.end).ok_or_else(|| {
        let start = all.first().map_or(0, |interval| interval.start);
        let end = all.last().map_or(0, |interval| interval.end);
        Error::NoTime { log, time, start, end }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_the_interval_that_begins_there() {
        let interval = |number, start, end| Interval { number, start, end };
        let all = [interval(0, 10, 20), interval(1, 20, 20), interval(2, 20, 35)];
        let number = |time| at_time(&all, 0, time).map(|interval| interval.number).ok();
        assert_eq!(
            [9, 10, 19, 20, 35, 36].map(number),
            [None, Some(0), Some(0), Some(2), Some(2), None]
        );
        assert!(at_time(&[], 0, 0).is_err());
    }
}
