//! Questions about the calls of a thread.
//!
//! Positions are numbers of parentheses: position `p` is the moment before parenthesis `p`, and the end of the
//! sequence is a position, too. The excess at a position is the depth relative to the start of the volume.

use std::ops::Range;
use std::sync::Arc;

use super::callees::Callee;
use super::descent::{Descent, PageAt, Tree};
use super::matching::Matcher;
use super::page::Mark;
use super::reader::Store;
use super::{BLOCK, Error, PAGE, state_chain};

/// The calls and returns of one thread, as parentheses. Clones share everything.
#[derive(Clone, Debug)]
pub struct ThreadCalls {
    store: Arc<Store>,
    tree: Arc<Tree>,
}

impl ThreadCalls {
    pub(super) fn new(store: Arc<Store>, tree: Arc<Tree>) -> ThreadCalls {
        ThreadCalls { store, tree }
    }

    /// How many parentheses there are.
    pub fn len(&self) -> u64 {
        self.tree.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tree.length == 0
    }

    /// How many of them are opens.
    pub fn opens(&self) -> u64 {
        self.tree.opens
    }

    /// Time of the last call or return.
    pub fn last_time(&self) -> u64 {
        self.tree.last_time
    }

    /// Whether a parenthesis is an open.
    pub fn is_open(&self, position: u64) -> Result<bool, Error> {
        let page = self.page_with(position)?;
        Ok(page.page.parentheses.is_open((position - page.start) as usize))
    }

    /// Opens before a position, less closes before it: the depth relative to the start of the volume.
    pub fn excess(&self, position: u64) -> Result<i64, Error> {
        let page = self.page_with_or_end(position)?;
        Ok(page
            .excess()
            .wrapping_add(page.page.parentheses.excess((position - page.start) as usize)))
    }

    /// How many calls of the volume are open at a position.
    pub fn depth(&self, position: u64) -> Result<u64, Error> {
        let excess = self.excess(position)?;
        let before = self.descent().summary_of(0..position)?;
        Ok(excess.saturating_sub(before.lowest.min(0)).max(0) as u64)
    }

    /// The lowest and the highest excess at the positions of a range, both ends included.
    pub fn excess_bounds(&self, range: Range<u64>) -> Result<(i64, i64), Error> {
        self.page_with_or_end(range.end)?;
        let start = self.excess(range.start)?;
        let within = self.descent().summary_of(range)?;
        Ok((
            start.saturating_add(within.lowest.min(0)),
            start.saturating_add(within.highest.max(0)),
        ))
    }

    /// The close of an open, if it was closed. A close has none.
    pub fn find_close(&self, open: u64) -> Result<Option<u64>, Error> {
        if !self.is_open(open)? {
            return Ok(None);
        }
        let excess = self.excess(open)?;
        Ok(self.descent().first_at_or_below(open, excess)?)
    }

    /// The open of a close, unless it ends a frame from before the volume. An open has none.
    pub fn find_open(&self, close: u64) -> Result<Option<u64>, Error> {
        if self.is_open(close)? {
            return Ok(None);
        }
        let excess = self.excess(close)?;
        self.previous_at_or_below(close, excess.saturating_sub(1))
    }

    /// The innermost call of the volume that is open at a position.
    pub fn enclosing(&self, position: u64) -> Result<Option<u64>, Error> {
        let excess = self.excess(position)?;
        self.previous_at_or_below(position, excess.saturating_sub(1))
    }

    /// The calls that are open at a position, the innermost first: the skeleton of the call stack.
    pub fn enclosing_calls(&self, position: u64) -> Enclosing<'_> {
        Enclosing { calls: self, position: Some(position) }
    }

    /// The first position, this one or a later one, with an excess of at most `excess`: where a step over or out
    /// ends.
    pub fn next_at_or_below(&self, position: u64, excess: i64) -> Result<Option<u64>, Error> {
        if self.excess(position)? <= excess {
            return Ok(Some(position));
        }
        Ok(self.descent().first_at_or_below(position, excess)?.map(|found| found + 1))
    }

    /// The last position, this one or an earlier one, with an excess of at most `excess`: where a step over or out
    /// ends that goes backwards.
    pub fn previous_at_or_below(&self, position: u64, excess: i64) -> Result<Option<u64>, Error> {
        self.page_with_or_end(position)?;
        let found = self.descent().last_at_or_below(position, excess)?.map(|found| found + 1);
        Ok(found.or((excess >= 0).then_some(0)))
    }

    /// How many calls an open made itself.
    pub fn children(&self, open: u64) -> Result<u64, Error> {
        if !self.is_open(open)? {
            return Ok(0);
        }
        // Each child begins where the excess is that after the open. One more such moment is the end of the call, or
        // the end of the sequence if no child is open there.
        let end = self.find_close(open)?.unwrap_or(self.len());
        let own = self.excess(open)?.saturating_add(1);
        let within = self.descent().summary_of(open..end)?;
        let last_is_end = self.excess(end)? == own;
        Ok(within.lowest_count.saturating_sub(u64::from(last_is_end)))
    }

    /// The child of an open that has so many before it.
    pub fn child(&self, open: u64, number: u64) -> Result<Option<u64>, Error> {
        if !self.is_open(open)? {
            return Ok(None);
        }
        let own = self.excess(open)?.saturating_add(1);
        let Some(before) = self.descent().select_lowest(open, own, number)? else {
            return Ok(None);
        };
        let child = before + 1;
        Ok(if child < self.len() && self.is_open(child)? { Some(child) } else { None })
    }

    /// How many opens there are before a position.
    pub fn rank_open(&self, position: u64) -> Result<u64, Error> {
        let page = self.page_with_or_end(position)?;
        let within = page.page.parentheses.rank_open((position - page.start) as usize);
        Ok(page.entry.opens_before.wrapping_add(within as u64))
    }

    /// The open that has so many before it.
    pub fn select_open(&self, rank: u64) -> Result<Option<u64>, Error> {
        if rank >= self.opens() {
            return Ok(None);
        }
        let page = self.descent().last_page_where(|entry| entry.opens_before <= rank)?;
        let within = rank.saturating_sub(page.entry.opens_before);
        Ok(page.page.parentheses.select_open(within).map(|found| page.start + found as u64))
    }

    /// Times between which a parenthesis lies, both included.
    pub fn time_bounds(&self, position: u64) -> Result<(u64, u64), Error> {
        let page = self.page_with(position)?;
        let block = (position - page.start) as usize / BLOCK;
        let from = page.page.times.get(block).copied().unwrap_or(page.entry.time);
        let to = match page.page.times.get(block + 1) {
            Some(&next) => next,
            None if page.start + PAGE as u64 > self.len() => self.last_time(),
            None => self.page_with_or_end(page.start + PAGE as u64)?.entry.time,
        };
        Ok((from, to))
    }

    /// Positions between which the moment before a time lies, both included: how many parentheses have an earlier
    /// time, as well as blocks can tell.
    pub fn positions_before(&self, time: u64) -> Result<(u64, u64), Error> {
        if time > self.last_time() {
            return Ok((self.len(), self.len()));
        }
        let page = self.descent().last_page_where(|entry| entry.time < time)?;
        let blocks = page.page.times.partition_point(|&first| first < time);
        let Some(block) = blocks.checked_sub(1) else { return Ok((page.start, page.start)) };
        let start = page.start + (block * BLOCK) as u64;
        Ok((start + 1, (start + BLOCK as u64).min(self.len())))
    }

    /// How many parentheses there are before a window.
    pub fn parentheses_before(&self, window: u64) -> Result<u64, Error> {
        Ok(self.first_mark_from(window)?.map_or(self.len(), |mark| mark.start))
    }

    /// The window that a parenthesis is in.
    pub fn window_of(&self, position: u64) -> Result<u64, Error> {
        let page = self.page_with(position)?;
        let marks = &page.page.marks;
        let after = marks.partition_point(|mark| mark.start <= position);
        Ok(after
            .checked_sub(1)
            .and_then(|index| marks.get(index))
            .map_or(page.entry.window, |mark| mark.window))
    }

    /// The state with which the calls and returns of a window are to be matched. From position
    /// [`ThreadCalls::parentheses_before`] on they give the parentheses of the sequence.
    pub fn matcher_at(&self, window: u64) -> Result<Matcher, Error> {
        let state = self.first_mark_from(window)?.map_or(self.tree.last_state, |mark| mark.state);
        Ok(state_chain::load(self.store.file(), state)?)
    }

    /// What an open entered, if that was recorded. A close enters nothing.
    pub fn callee(&self, open: u64) -> Result<Option<Callee>, Error> {
        let page = self.page_with(open)?;
        let within = (open - page.start) as usize;
        if !page.page.parentheses.is_open(within) {
            return Ok(None);
        }
        let callees = self.descent().callees_of(&page)?;
        Ok(callees.and_then(|callees| callees.get(page.page.parentheses.rank_open(within))))
    }

    /// The call of a function that has so many before it within a range, if callees were recorded. Reads all pages of
    /// callees up to it.
    pub fn find_call_of(
        &self,
        target: u64,
        range: Range<u64>,
        before: u64,
    ) -> Result<Option<u64>, Error> {
        let mut left = before;
        let mut position = range.start;
        while position < range.end.min(self.len()) {
            let page = self.page_with(position)?;
            let Some(callees) = self.descent().callees_of(&page)? else { return Ok(None) };
            let parentheses = &page.page.parentheses;
            let first = parentheses.rank_open((position - page.start) as usize);
            let end = parentheses.rank_open((range.end - page.start).min(PAGE as u64) as usize);
            for open in callees
                .calls_of(target)
                .skip_while(|&open| open < first)
                .take_while(|&open| open < end)
            {
                if left == 0 {
                    return Ok(parentheses
                        .select_open(open as u64)
                        .map(|found| page.start + found as u64));
                }
                left -= 1;
            }
            position = page.start + PAGE as u64;
        }
        Ok(None)
    }

    fn descent(&self) -> Descent<'_> {
        Descent { tree: &self.tree, store: &self.store }
    }

    /// The page of a parenthesis.
    fn page_with(&self, position: u64) -> Result<PageAt, Error> {
        self.check(position < self.len(), position)?;
        self.page_with_or_end(position)
    }

    /// The page of a position.
    fn page_with_or_end(&self, position: u64) -> Result<PageAt, Error> {
        self.check(position <= self.len(), position)?;
        Ok(self.descent().page_with(position)?)
    }

    fn check(&self, is_there: bool, position: u64) -> Result<(), Error> {
        if is_there { Ok(()) } else { Err(Error::NoPosition { position, length: self.len() }) }
    }

    /// The first window, this one or a later one, in which something happened.
    fn first_mark_from(&self, window: u64) -> Result<Option<Mark>, Error> {
        let page = self.descent().last_page_where(|entry| entry.window < window)?;
        let marks = &page.page.marks;
        Ok(marks.get(marks.partition_point(|mark| mark.window < window)).copied())
    }
}

/// The calls that are open at a position, from the inside out.
#[derive(Clone, Debug)]
pub struct Enclosing<'a> {
    calls: &'a ThreadCalls,
    position: Option<u64>,
}

impl Iterator for Enclosing<'_> {
    type Item = Result<u64, Error>;

    fn next(&mut self) -> Option<Result<u64, Error>> {
        let outer = self.calls.enclosing(self.position.take()?);
        self.position = outer.as_ref().ok().copied().flatten();
        outer.transpose()
    }
}
