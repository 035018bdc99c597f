//! Records and events in the order of time.

use std::ops::Range;

use retro_abi::log::Event;
use retro_abi::replay::{LOOSE, MOST_BLOCKS};
use retro_recording::Share;

use super::access::loose_length;
use super::descriptions::Descriptions;
use super::{Block, Visitor};
use crate::Error;
use crate::log_file::Events;

/// Records that make no sense.
const NONSENSE: &str = "its stream makes no sense";

/// Merges records and events and tells `visit`, which is known at compile time: items are hardly ever put together in
/// memory then.
pub(crate) struct Merger<'a, V> {
    events: Events<'a>,
    next: Option<(u64, Event<'a>)>,
    /// When that is.
    next_time: u64,
    thread: u32,
    /// The time after the last block.
    time: u64,
    /// How far the process was sent.
    limit: u64,
    /// The last block's record and what belongs to it, when the buffer ended there.
    kept: Vec<u8>,
    /// The memory for that.
    share: Share,
    visit: V,
    /// Whether `visit` wants no more.
    pub(crate) is_done: bool,
}

impl<'a, V: Visitor> Merger<'a, V> {
    pub(crate) fn new(
        events: Events<'a>,
        times: Range<u64>,
        thread: u32,
        share: Share,
        visit: V,
    ) -> Result<Merger<'a, V>, Error> {
        let mut merger = Merger {
            events,
            next: None,
            next_time: 0,
            thread,
            time: times.start,
            limit: times.end,
            kept: Vec::new(),
            share,
            visit,
            is_done: false,
        };
        merger.read_event()?;
        Ok(merger)
    }

    /// Takes records whose first block begins at `time`. An error says what is wrong with them.
    pub(crate) fn records(
        &mut self,
        blocks: &Descriptions,
        mut bytes: &[u8],
        time: u64,
    ) -> Result<(), Error> {
        let mut continues = false;
        if !self.kept.is_empty() {
            let loose = loose_length(bytes)?;
            continues = loose > 0;
            // All that one instruction has accessed belongs together, however much it is.
            self.share.grow(2 * loose as u64)?;
            self.kept.extend_from_slice(&bytes[..loose]);
            bytes = &bytes[loose..];
            if bytes.is_empty() {
                return Ok(());
            }
            self.tell_kept(blocks)?;
        }
        if time != self.time && !continues {
            return Err(nonsense());
        }
        let last = self.blocks(blocks, bytes, false)?;
        self.kept.extend_from_slice(last);
        // Otherwise there would be no end to it.
        if self.time > self.limit { Err(nonsense()) } else { Ok(()) }
    }

    /// Tells all blocks, or all but the last, which is returned. The one place where blocks are told: what `visit` does
    /// with them becomes part of this loop.
    fn blocks<'b>(
        &mut self,
        blocks: &Descriptions,
        mut bytes: &'b [u8],
        with_last: bool,
    ) -> Result<&'b [u8], Error> {
        let mut time = self.time;
        let all = bytes;
        while let Some(first) = bytes.first_chunk() {
            let word = u32::from_le_bytes(*first);
            let (description, len) = blocks.of_record(word).ok_or_else(nonsense)?;
            let (record, rest) = bytes.split_at_checked(len).ok_or_else(nonsense)?;
            let has_loose = rest.first_chunk() == Some(&LOOSE.to_le_bytes());
            let loose = if has_loose { loose_length(rest)? } else { 0 };
            if rest.len() == loose && !with_last {
                break;
            }
            if self.next_time <= time {
                self.events_until(time)?;
            }
            let (loose, rest) = rest.split_at(loose);
            let thread = self.thread;
            let number = word & MOST_BLOCKS;
            let offset = all.len() - bytes.len();
            let block = Block { time, thread, number, description, blocks, record, loose, offset };
            time += u64::from(description.instructions);
            self.time = time;
            bytes = rest;
            if !self.is_done {
                self.is_done = self.visit.block(&block).is_break();
            }
        }
        if bytes.len() < size_of::<u32>() && !bytes.is_empty() {
            return Err(nonsense());
        }
        if !self.is_done {
            self.visit.records(&all[..all.len() - bytes.len()]);
        }
        Ok(bytes)
    }

    /// Nothing more comes: the process has stopped at a time, and every instruction before it was in a block.
    pub(crate) fn finish(&mut self, blocks: &Descriptions, time: u64) -> Result<(), Error> {
        self.tell_kept(blocks)?;
        if self.time != time && !self.is_done {
            return Err(nonsense());
        }
        self.events_until(time)
    }

    /// Tells the last block: nothing more belongs to it.
    pub(crate) fn tell_kept(&mut self, blocks: &Descriptions) -> Result<(), Error> {
        let mut kept = std::mem::take(&mut self.kept);
        self.blocks(blocks, &kept, true)?;
        kept.clear();
        self.kept = kept;
        self.share.clear();
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn events_until(&mut self, time: u64) -> Result<(), Error> {
        while let Some((at, event)) = self.next
            && at <= time
        {
            self.thread = thread_after(&event).unwrap_or(self.thread);
            let thread = self.thread;
            if !self.is_done {
                self.is_done = self.visit.event(at, thread, &event).is_break();
            }
            self.read_event()?;
        }
        Ok(())
    }

    fn read_event(&mut self) -> Result<(), Error> {
        self.next = self.events.next().transpose()?;
        self.next_time = self.next.as_ref().map_or(u64::MAX, |(time, _)| *time);
        Ok(())
    }
}

/// The thread that runs after an event, if the event says so.
pub(crate) fn thread_after(event: &Event) -> Option<u32> {
    match *event {
        Event::ThreadSwitch { thread, .. } | Event::ThreadStart { thread } => Some(thread),
        Event::Interval { running, .. } => Some(running),
        _ => None,
    }
}

pub(super) fn nonsense() -> Error {
    Error::Crashed(NONSENSE.to_owned())
}
