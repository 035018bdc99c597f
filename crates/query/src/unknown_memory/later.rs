//! What the run found in memory later.
//!
//! The first thing that happens to a byte after a moment tells what it held, if that is a load whose value is in the log. If it is
//! a write, nothing does. The index knows which words each window writes, and which bytes are known when it begins; what happened
//! first within a window is in its part of the log and in its trace.
//!
//! Complexity: a page costs a look at its last version in every interval that follows, until all of it is known. Looking into
//! windows costs a replay of each, so it is the last resort, for no more than [`WINDOWS_LIMIT`] windows, and not for memory that
//! begins as zeroes: that may be written word by word, in as many windows as it has words.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

use retro_abi::channel::Stream;
use retro_abi::log::Event;
use retro_index::Volume;
use retro_replayer::PAGE_SIZE;

use super::{Gaps, Sight, is_known};
use crate::Error;
use crate::run::{Run, WindowRef};

/// Windows that are looked into for one page, the nearest first.
const WINDOWS_LIMIT: usize = 16;

/// Bytes of a page by the window that writes their words next.
type ByWindow = BTreeMap<u32, Vec<usize>>;

/// What happens to a byte first in a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    /// Neither of the others.
    Nothing,
    /// The log has what a load found there.
    Found(u8),
    /// It is written.
    Written,
}

impl Run {
    /// Takes what the process finds in a page after a moment, also where the same window writes over it.
    pub(super) fn take_from_windows(
        &self,
        sight: &Sight<'_>,
        gaps: &mut Gaps<'_>,
    ) -> Result<(), Error> {
        if gaps.missing.is_empty() || sight.timeline.begins_empty(gaps.page, sight.time) {
            return Ok(());
        }
        self.take_from_later(sight, gaps, WINDOWS_LIMIT)
    }

    /// Takes what the process finds in a page after a moment, and may look into so many windows for it.
    pub(super) fn take_from_later(
        &self,
        sight: &Sight<'_>,
        gaps: &mut Gaps<'_>,
        windows_left: usize,
    ) -> Result<(), Error> {
        let until = sight.timeline.next_contents(gaps.page, sight.time);
        let open = gaps.missing.clone();
        let found = vec![false; PAGE_SIZE];
        let mut search = Search { run: self, sight, gaps, open, until, windows_left, found };
        let mut reached = sight.volume.start;
        for (index, volume) in sight.process.volumes.iter().enumerate().skip(sight.index) {
            // Nobody knows what an interval without index did to it.
            let follows = volume.start == reached;
            if search.open.is_empty() || !follows || until.is_some_and(|until| until <= reached) {
                break;
            }
            let from = if index == sight.index { sight.window } else { 0 };
            search.interval(volume, from)?;
            reached = volume.end;
        }
        let Search { gaps, found, .. } = search;
        gaps.missing.retain(|&index| !found[index]);
        Ok(())
    }
}

struct Search<'a, 'b> {
    run: &'a Run,
    sight: &'a Sight<'a>,
    gaps: &'a mut Gaps<'b>,
    /// Missing bytes that nothing was written to so far.
    open: Vec<usize>,
    /// When other contents take the place of these.
    until: Option<u64>,
    windows_left: usize,
    found: Vec<bool>,
}

impl Search<'_, '_> {
    /// What becomes known of the page in an interval, from one of its windows on.
    fn interval(&mut self, volume: &Volume, from: u32) -> Result<(), Error> {
        let end = match self.until.filter(|&until| until < volume.end) {
            Some(until) => volume.window_of(until),
            None => u32::MAX,
        };
        let Some(last) = volume.page(self.gaps.page, end)? else { return Ok(()) };
        // What is not known in the end was not touched.
        let touched = self.open.extract_if(.., |index| is_known(&last.known, *index)).collect();
        let mut next = ByWindow::new();
        self.sort_by_window(volume, from..end, touched, &mut next)?;
        while let Some((window, bytes)) = next.pop_first() {
            let untouched = self.look_into(volume, window, bytes)?;
            self.sort_by_window(volume, window + 1..end, untouched, &mut next)?;
        }
        Ok(())
    }

    /// Takes bytes that are known before a window writes their words, and puts the others to that window.
    fn sort_by_window(
        &mut self,
        volume: &Volume,
        windows: Range<u32>,
        bytes: Vec<usize>,
        next: &mut ByWindow,
    ) -> Result<(), Error> {
        for group in bytes.chunk_by(|one, other| one / 8 == other / 8) {
            let word = (self.gaps.page + group[0] as u64) / 8;
            let written = volume.words.first_from(windows.start, word..word + 1)?;
            let written = written.filter(|&window| window < windows.end);
            let version = volume.page(self.gaps.page, written.unwrap_or(windows.end))?;
            for &index in group {
                let known = version.as_ref().filter(|version| is_known(&version.known, index));
                match (known, written) {
                    (Some(version), _) => self.found(index, version.bytes[index]),
                    (None, Some(window)) => next.entry(window).or_default().push(index),
                    (None, None) => {}
                }
            }
        }
        Ok(())
    }

    fn found(&mut self, index: usize, value: u8) {
        self.gaps.bytes[index] = value;
        self.found[index] = true;
    }

    /// Takes bytes that a window finds before it writes them. Returns those that it does not touch.
    fn look_into(
        &mut self,
        volume: &Volume,
        window: u32,
        bytes: Vec<usize>,
    ) -> Result<Vec<usize>, Error> {
        let Some(left) = self.windows_left.checked_sub(1) else { return Ok(Vec::new()) };
        self.windows_left = left;
        let first = self.first_in(volume, window)?;
        let mut untouched = Vec::new();
        for index in bytes {
            match first[index] {
                First::Nothing => untouched.push(index),
                First::Found(value) => self.found(index, value),
                First::Written => {}
            }
        }
        Ok(untouched)
    }

    /// What happens first to each byte of the page in a window, after the moment.
    fn first_in(&self, volume: &Volume, window: u32) -> Result<Vec<First>, Error> {
        let page = self.gaps.page..self.gaps.page.saturating_add(PAGE_SIZE as u64);
        let Range { start, end } = volume.window_range(window);
        let start = start.max(self.sight.time);
        let trace = self.run.trace(self.sight.process, WindowRef { volume, window })?;
        let mut writes = trace.writes(page.clone(), start..end).peekable();
        let mut first = FirstTouches { page, bytes: vec![First::Nothing; PAGE_SIZE] };
        let visit = |time: u64, event: &Event<'_>| {
            if time >= end {
                return ControlFlow::Break(());
            }
            // What the log has for the moment itself has happened.
            if let Event::Load { address, bytes } = *event
                && time > self.sight.time
            {
                // An instruction finds what is there before it writes.
                while let Some(write) = writes.next_if(|write| write.time < time) {
                    first.written(write.address, write.value.len() as u64);
                }
                first.found(address, bytes);
            }
            ControlFlow::Continue(())
        };
        let recording = self.run.recording();
        let _ = recording.for_each_event_from(volume.log, Stream::Main, start, visit)?;
        writes.for_each(|write| first.written(write.address, write.value.len() as u64));
        Ok(first.bytes)
    }
}

/// What happens first to the bytes of a page, as far as it is told.
struct FirstTouches {
    page: Range<u64>,
    bytes: Vec<First>,
}

impl FirstTouches {
    fn written(&mut self, address: u64, len: u64) {
        self.touch(address, len, |_| First::Written);
    }

    fn found(&mut self, address: u64, bytes: &[u8]) {
        self.touch(address, bytes.len() as u64, |at| First::Found(bytes[at]));
    }

    fn touch(&mut self, address: u64, len: u64, what: impl Fn(usize) -> First) {
        let end = address.saturating_add(len).min(self.page.end);
        for at in address.max(self.page.start)..end {
            let first = &mut self.bytes[(at - self.page.start) as usize];
            if *first == First::Nothing {
                *first = what((at - address) as usize);
            }
        }
    }
}
