//! The last writes that a moment shows, to many places at once.
//!
//! Problem: a call stack and a list of variables ask for dozens of places, of which most were written in the same few
//! windows.
//!
//! Strategy: the index tells for each place the last window that may have written it. Windows are looked into from the last
//! to the first, each of them once for all the places that lead there; what was not found goes on to the window before.
//!
//! Complexity trap: the index knows words of eight bytes. Half a word that was written long ago, beside one that is written
//! all the time, leads through every window in between. Who asks for many places can say how much that may take.

use std::collections::BTreeMap;
use std::ops::Range;

use retro_index::set_tree::Keys;

use crate::locate::Write;
use crate::run::{Process, Run, WindowRef};
use crate::{Cancel, Error, Moment};

/// The last write to some memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LastWrite {
    /// This one.
    At(Write),
    /// The process never wrote there.
    Never,
}

impl LastWrite {
    /// The write, if there was one.
    pub fn found(self) -> Option<Write> {
        match self {
            LastWrite::At(write) => Some(write),
            LastWrite::Never => None,
        }
    }
}

/// A volume, by its place in the process, and one of its windows.
type Window = (usize, u32);

impl Run {
    /// The last write to a range that a moment shows.
    pub fn last_write(
        &self,
        moment: Moment,
        memory: Range<u64>,
        cancel: &Cancel,
    ) -> Result<Option<Write>, Error> {
        let found = self.last_writes(moment, &[memory], usize::MAX, cancel)?.remove(0);
        Ok(found.and_then(LastWrite::found))
    }

    /// For each of some ranges of memory the last write to it that a moment shows: None where that was not found in so many
    /// windows, or a quarter of them for a range alone.
    pub fn last_writes(
        &self,
        moment: Moment,
        memory: &[Range<u64>],
        windows: usize,
        cancel: &Cancel,
    ) -> Result<Vec<Option<LastWrite>>, Error> {
        if memory.iter().any(Range::is_empty) {
            return Err(Error::Question("there is no memory to look for".to_owned()));
        }
        let process = self.process(moment.log)?;
        process.check_time(moment.time)?;
        let mut found = vec![Some(LastWrite::Never); memory.len()];
        let mut open: BTreeMap<Window, Vec<usize>> = BTreeMap::new();
        let mut left = windows;
        let mut left_of_each = vec![windows.div_ceil(4); memory.len()];
        let Some(start) = last_window(&process, moment.time)? else { return Ok(found) };
        for (number, range) in memory.iter().enumerate() {
            if let Some(window) = window_before(&process, start, range)? {
                open.entry(window).or_default().push(number);
            }
        }
        while let Some((window, numbers)) = open.pop_last() {
            cancel.check()?;
            let numbers: Vec<usize> = numbers
                .into_iter()
                .filter(|&number| {
                    let may_look = left > 0 && left_of_each[number] > 0;
                    left_of_each[number] = left_of_each[number].saturating_sub(1);
                    if !may_look {
                        found[number] = None;
                    }
                    may_look
                })
                .collect();
            if numbers.is_empty() {
                continue;
            }
            left -= 1;
            let volume = &process.volumes[window.0];
            let range = volume.window_range(window.1);
            // What happens in an interval without instructions counts for the first that there would be.
            let times = range.start..range.end.max(volume.start + 1).min(moment.time);
            let place = WindowRef { volume, window: window.1 };
            let trace = self.trace_before(&process, place, times.end)?;
            let asked: Vec<Range<u64>> =
                numbers.iter().map(|&number| memory[number].clone()).collect();
            for (number, write) in numbers.into_iter().zip(trace.last_writes(&asked, &times)) {
                match write {
                    Some(write) => {
                        found[number] = Some(LastWrite::At(Write::of(&trace, &write)));
                    }
                    None => {
                        if let Some(before) = window_before(&process, window, &memory[number])? {
                            open.entry(before).or_default().push(number);
                        }
                    }
                }
            }
        }
        Ok(found)
    }
}

/// One window behind the last that has an instruction before a time.
fn last_window(process: &Process, time: u64) -> Result<Option<Window>, Error> {
    let after = process.volumes.partition_point(|volume| volume.start < time);
    let last = after.checked_sub(1).map(|index| (index, &process.volumes[index]));
    process.check_indexed(last.map_or(process.start, |(_, last)| last.end), time)?;
    Ok(last.map(|(index, last)| (index, last.window_of(time - 1) + 1)))
}

/// The last window before another that may have written a range of memory.
fn window_before(
    process: &Process,
    (index, window): Window,
    memory: &Range<u64>,
) -> Result<Option<Window>, Error> {
    let words = memory.start / 8..memory.end.div_ceil(8);
    let mut before = Some((index, window));
    while let Some((index, window)) = before {
        let volume = &process.volumes[index];
        if let Some(found) = volume.words.last_before(window, Keys::from(words.clone()))? {
            return Ok(Some((index, found)));
        }
        before = index.checked_sub(1).map(|index| (index, process.volumes[index].windows.len()));
        let reached = before.map_or(process.start, |(index, _)| process.volumes[index].end);
        process.check_indexed(reached, volume.start)?;
    }
    Ok(None)
}
