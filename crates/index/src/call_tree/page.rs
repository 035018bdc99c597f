//! Pages: a stretch of a thread's parentheses, with what places them in time.
//!
//! ```text
//! page   length  bits, packed  time...  count of marks  mark...
//! time   of the first parenthesis of each block: less that of the block before
//! mark   window, start, state: less those of the mark before; the first start less that of the page
//! ```

use super::parentheses::{Parentheses, Run};
use super::signed::{put_difference, take_difference};
use super::{BLOCK, PAGE};
use crate::frames::fields::{BadField, Fields, put_number};
use crate::frames::packing::{Packer, unpack};

/// A page, whole or at the end of a thread and still growing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) parentheses: Parentheses,
    /// The time of the first parenthesis of each block.
    pub(super) times: Vec<u64>,
    /// The window that was going on when the page began, and those that began in it.
    pub(super) marks: Vec<Mark>,
}

/// A window in which something happened in the thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) window: u64,
    /// Parentheses of the thread before the window.
    pub(super) start: u64,
    /// Where the state of the matcher is that it starts with: 0 if nothing was known of the thread.
    pub(super) state: u64,
}

impl Page {
    /// Adds a run that does not go beyond the end of a block.
    pub(super) fn append(&mut self, run: Run, time: u64) {
        if self.parentheses.len().is_multiple_of(BLOCK) {
            self.times.push(time);
        }
        self.parentheses.append(run);
    }

    /// Parentheses up to the end of the block.
    pub(super) fn room_in_block(&self) -> usize {
        BLOCK - self.parentheses.len() % BLOCK
    }

    pub(super) fn is_full(&self) -> bool {
        self.parentheses.len() == PAGE
    }

    /// The page that follows: the window goes on in it.
    pub(super) fn successor(&self) -> Page {
        Page { marks: self.marks.last().copied().into_iter().collect(), ..Page::default() }
    }

    pub(super) fn encode(&self, bytes: &mut Vec<u8>, start: u64, packer: &mut Packer) {
        put_number(bytes, self.parentheses.len() as u64);
        packer.put(bytes, self.parentheses.bits());
        let mut last = 0;
        for &time in &self.times {
            put_difference(bytes, time, last);
            last = time;
        }
        put_number(bytes, self.marks.len() as u64);
        let mut last = Mark { window: 0, start, state: 0 };
        for &mark in &self.marks {
            put_difference(bytes, mark.window, last.window);
            put_difference(bytes, mark.start, last.start);
            put_difference(bytes, mark.state, last.state);
            last = mark;
        }
    }

    pub(super) fn decode(fields: &mut Fields<'_>, start: u64) -> Result<Page, BadField> {
        let length = fields.number()?;
        if length > PAGE as u64 {
            return Err("a page is too long");
        }
        let length = length as usize;
        let bits = unpack(fields, PAGE / 8, 0)?;
        let parentheses = Parentheses::from_bits(bits, length)
            .ok_or("a page has too few or too many parentheses")?;
        let mut times = Vec::new();
        let mut last = 0;
        for _ in 0..length.div_ceil(BLOCK) {
            last = take_difference(fields, last)?;
            times.push(last);
        }
        let mut marks = Vec::new();
        let mut last = Mark { window: 0, start, state: 0 };
        for _ in 0..fields.count()? {
            last = Mark {
                window: take_difference(fields, last.window)?,
                start: take_difference(fields, last.start)?,
                state: take_difference(fields, last.state)?,
            };
            marks.push(last);
        }
        Ok(Page { parentheses, times, marks })
    }
}
