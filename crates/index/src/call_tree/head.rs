//! The head of a thread: all of its tree that is not yet in pages and nodes.
//!
//! ```text
//! head   last time  length  opens  last state  page  0 or 1: callees of the page  spine
//! ```
//!
//! Heads are written at commits, for the threads in which something happened since the last.

use super::callees::{Callee, Callees};
use super::node::{Entry, IN_HEAD, Spine};
use super::output::Output;
use super::page::Page;
use super::parentheses::Run;
use super::{Kind, PAGE};
use crate::frames::fields::{BadField, Fields, put_number};
use crate::frames::{FrameError, FrameFile};

/// The end of a thread's tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// Time of the last call or return.
    pub(super) last_time: u64,
    pub(super) length: u64,
    pub(super) opens: u64,
    /// Where the last state of the matcher is.
    pub(super) last_state: u64,
    /// The last page, never full.
    pub(super) page: Page,
    /// What the opens of the last page entered, if that is recorded.
    pub(super) callees: Option<Vec<Callee>>,
    pub(super) spine: Spine,
}

impl Head {
    /// The position at which the last page starts.
    pub(super) fn page_start(&self) -> u64 {
        self.length - self.page.parentheses.len() as u64
    }

    /// The entry of the last page.
    pub(super) fn page_entry(&self, position: u64, callees: u64) -> Entry {
        let summary = self.page.parentheses.summary();
        Entry {
            position,
            callees,
            time: self.page.times.first().copied().unwrap_or(self.last_time),
            window: self.page.marks.first().map_or(0, |mark| mark.window),
            opens_before: self.opens.wrapping_sub(summary.opens),
            summary,
        }
    }

    /// Adds a parenthesis, and writes the page that it fills.
    pub(super) fn push(
        &mut self,
        open: Option<Callee>,
        time: u64,
        output: &mut Output,
    ) -> Result<(), FrameError> {
        if let (Some(callees), Some(callee)) = (&mut self.callees, open) {
            callees.push(callee);
        }
        self.append(Run::of_one(open.is_some()), time, output)
    }

    /// Adds parentheses of one time to a thread whose callees are not recorded, and writes the page that they fill.
    pub(super) fn append(
        &mut self,
        run: Run,
        time: u64,
        output: &mut Output,
    ) -> Result<(), FrameError> {
        let mut rest = run;
        while rest.length > 0 {
            let (now, later) = rest.split_at(self.page.room_in_block());
            self.page.append(now, time);
            self.length += now.length as u64;
            self.opens += u64::from(now.bits.count_ones());
            if self.page.is_full() {
                self.write_page(output)?;
            }
            rest = later;
        }
        Ok(())
    }

    fn write_page(&mut self, output: &mut Output) -> Result<(), FrameError> {
        let mut bytes = Vec::new();
        self.page.encode(&mut bytes, self.page_start(), &mut output.packer);
        let position = output.append(Kind::Page, &bytes)?;
        let mut callees_position = IN_HEAD;
        if let Some(callees) = &mut self.callees {
            bytes.clear();
            Callees::new(callees).encode(&mut bytes, &mut output.packer);
            callees_position = output.append(Kind::Callees, &bytes)?;
            callees.clear();
        }
        let entry = self.page_entry(position, callees_position);
        self.page = self.page.successor();
        self.spine.push(entry, output)
    }

    pub(super) fn write(&self, output: &mut Output) -> Result<u64, FrameError> {
        let mut bytes = Vec::new();
        for number in [self.last_time, self.length, self.opens, self.last_state] {
            put_number(&mut bytes, number);
        }
        self.page.encode(&mut bytes, self.page_start(), &mut output.packer);
        bytes.push(u8::from(self.callees.is_some()));
        if let Some(callees) = &self.callees {
            Callees::new(callees).encode(&mut bytes, &mut output.packer);
        }
        self.spine.encode(&mut bytes);
        output.append(Kind::Head, &bytes)
    }

    pub(super) fn read(file: &FrameFile, position: u64) -> Result<Head, FrameError> {
        let bytes = file.read_kind(position, Kind::Head as u8)?;
        Head::decode(&mut Fields::new(&bytes)).map_err(|reason| file.damaged(position, reason))
    }

    fn decode(fields: &mut Fields<'_>) -> Result<Head, BadField> {
        let [last_time, length, opens, last_state] =
            [fields.number()?, fields.number()?, fields.number()?, fields.number()?];
        let page_start = length - length % PAGE as u64;
        let page = Page::decode(fields, page_start)?;
        let has_callees = fields.byte()? != 0;
        let callees =
            if has_callees { Some(Callees::decode(fields)?.iter().collect()) } else { None };
        let spine = Spine::decode(fields)?;
        let head = Head { last_time, length, opens, last_state, page, callees, spine };
        if head.page.parentheses.len() as u64 != length - page_start || !head.has_right_spine() {
            return Err("a tree has another length than its parts");
        }
        if opens > length || opens < head.page.parentheses.summary().opens {
            return Err("a tree has another number of calls than its parts");
        }
        Ok(head)
    }

    /// Whether the unfinished nodes have as many entries as the length asks for.
    fn has_right_spine(&self) -> bool {
        let mut pages = self.length / PAGE as u64;
        let fits = self.spine.levels().iter().all(|entries| {
            let expected = pages % super::FANOUT as u64;
            pages /= super::FANOUT as u64;
            entries.len() as u64 == expected
        });
        fits && pages == 0
    }
}
