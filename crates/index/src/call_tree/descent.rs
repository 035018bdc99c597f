//! Searches over the pages and nodes of a thread.
//!
//! The end of a thread's tree is in its head. Here it becomes part of the tree: the unfinished node of each level
//! gets a last entry, for the unfinished node below it, and the lowest one an entry for the last page. So there is one
//! root, and each search is a descent from it: into the child in which it starts, and into the first other one
//! whose summary promises the answer.

use std::ops::Range;
use std::sync::Arc;

use super::callees::Callees;
use super::head::Head;
use super::node::{Entry, IN_HEAD, child_length, entry_of};
use super::page::Page;
use super::parentheses::Occurrence;
use super::reader::Store;
use super::summary::Summary;
use crate::frames::{FrameError, FrameFile};

/// A thread's tree, as much of it as its head holds.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) length: u64,
    pub(super) opens: u64,
    pub(super) last_time: u64,
    pub(super) last_state: u64,
    page: Arc<Page>,
    callees: Option<Arc<Callees>>,
    /// The last node of each level, the lowest first. The last is the root; there is always one.
    nodes: Vec<Arc<[Entry]>>,
}

impl Tree {
    pub(super) fn read(file: &FrameFile, position: u64) -> Result<Tree, FrameError> {
        let head = Head::read(file, position)?;
        let mut nodes: Vec<Arc<[Entry]>> = Vec::new();
        let mut last = head.page_entry(IN_HEAD, IN_HEAD);
        for level in 0..head.spine.levels().len().max(1) {
            let mut entries = head.spine.levels().get(level).cloned().unwrap_or_default();
            entries.push(last);
            last = entry_of(&entries, IN_HEAD);
            nodes.push(entries.into());
        }
        let callees = head.callees.as_deref().map(|entered| Arc::new(Callees::new(entered)));
        let Head { length, opens, last_time, last_state, page, .. } = head;
        Ok(Tree { length, opens, last_time, last_state, page: Arc::new(page), callees, nodes })
    }

    /// About how many bytes it takes in memory.
    pub(super) fn size(&self) -> usize {
        let nodes: usize = self.nodes.iter().map(|node| size_of_val(&node[..])).sum();
        let marks = size_of_val(&self.page.marks[..]);
        nodes
            + marks
            + 2 * self.page.parentheses.bits().len()
            + self.callees.as_ref().map_or(0, |callees| callees.size())
    }
}

/// A tree with the file in which the rest of it is.
#[derive(Clone, Copy)]
pub(super) struct Descent<'a> {
    pub(super) tree: &'a Tree,
    pub(super) store: &'a Store,
}

/// A page that a search came to.
pub(super) struct PageAt {
    pub(super) page: Arc<Page>,
    pub(super) entry: Entry,
    /// The position at which it starts.
    pub(super) start: u64,
}

/// A node on the way.
struct NodeAt {
    entries: Arc<[Entry]>,
    /// 1 if its children are pages.
    level: usize,
    start: u64,
}

enum Child {
    Page(PageAt),
    Node(NodeAt),
}

impl NodeAt {
    fn child_start(&self, index: usize) -> u64 {
        self.start.wrapping_add(index as u64 * child_length(self.level))
    }

    /// The child that a position is in. The end of the tree is in the last one.
    fn child_with(&self, position: u64) -> usize {
        let index = position.saturating_sub(self.start) / child_length(self.level);
        index.min(self.entries.len().saturating_sub(1) as u64) as usize
    }
}

impl PageAt {
    pub(super) fn excess(&self) -> i64 {
        self.entry.excess_before(self.start)
    }
}

impl Descent<'_> {
    /// The page that a position is in. The end of the tree is in the last page.
    pub(super) fn page_with(&self, position: u64) -> Result<PageAt, FrameError> {
        self.descend(|node| node.child_with(position))
    }

    /// The last page for which a condition holds that holds for all pages up to some, or the first.
    pub(super) fn last_page_where(
        &self,
        condition: impl Fn(&Entry) -> bool,
    ) -> Result<PageAt, FrameError> {
        self.descend(|node| node.entries.partition_point(&condition).saturating_sub(1))
    }

    pub(super) fn callees_of(&self, page: &PageAt) -> Result<Option<Arc<Callees>>, FrameError> {
        match (page.entry.position, page.entry.callees) {
            (IN_HEAD, _) => Ok(self.tree.callees.clone()),
            (_, IN_HEAD) => Ok(None),
            (_, position) => self.store.callees(position).map(Some),
        }
    }

    /// The first position, at `from` or later, after whose parenthesis the excess is at most `limit`.
    pub(super) fn first_at_or_below(
        &self,
        from: u64,
        limit: i64,
    ) -> Result<Option<u64>, FrameError> {
        self.first_in_node(&self.root(), from, limit)
    }

    /// The last position before `end` after whose parenthesis the excess is at most `limit`.
    pub(super) fn last_at_or_below(&self, end: u64, limit: i64) -> Result<Option<u64>, FrameError> {
        self.last_in_node(&self.root(), end, limit)
    }

    /// The position, at `from` or later, after whose parenthesis the excess is `value` and has been so often before,
    /// if it does not become lower in between.
    pub(super) fn select_lowest(
        &self,
        from: u64,
        value: i64,
        before: u64,
    ) -> Result<Option<u64>, FrameError> {
        let mut before = before;
        let found = self.select_in_node(&self.root(), from, value, &mut before)?;
        Ok(found.flatten())
    }

    /// The summary of the parentheses in a range.
    pub(super) fn summary_of(&self, range: Range<u64>) -> Result<Summary, FrameError> {
        self.summary_in_node(&self.root(), &range)
    }

    fn root(&self) -> NodeAt {
        let level = self.tree.nodes.len();
        NodeAt { entries: self.tree.nodes.last().cloned().unwrap_or_default(), level, start: 0 }
    }

    fn child(&self, node: &NodeAt, index: usize) -> Result<Child, FrameError> {
        let start = node.child_start(index);
        let entry = node.entries.get(index).copied().unwrap_or_default();
        if node.level <= 1 {
            let page = match entry.position {
                IN_HEAD => self.tree.page.clone(),
                position => self.store.page(position, start)?,
            };
            return Ok(Child::Page(PageAt { page, entry, start }));
        }
        let level = node.level - 1;
        let entries = match entry.position {
            IN_HEAD => self.tree.nodes[level - 1].clone(),
            position => self.store.node(position, level)?,
        };
        Ok(Child::Node(NodeAt { entries, level, start }))
    }

    fn descend(&self, choose: impl Fn(&NodeAt) -> usize) -> Result<PageAt, FrameError> {
        let mut node = self.root();
        loop {
            match self.child(&node, choose(&node))? {
                Child::Page(page) => return Ok(page),
                Child::Node(child) => node = child,
            }
        }
    }

    fn first_in_node(
        &self,
        node: &NodeAt,
        from: u64,
        limit: i64,
    ) -> Result<Option<u64>, FrameError> {
        for index in node.child_with(from)..node.entries.len() {
            let (entry, start) = (&node.entries[index], node.child_start(index));
            let is_promised = start >= from;
            let lowest = entry.excess_before(start).saturating_add(entry.summary.lowest);
            if is_promised && (entry.summary.length == 0 || lowest > limit) {
                continue;
            }
            let found = match self.child(node, index)? {
                Child::Page(page) => {
                    let relative = limit.saturating_sub(page.excess());
                    let from = from.saturating_sub(start) as usize;
                    page.page
                        .parentheses
                        .first_at_or_below(from, relative)
                        .map(|found| start + found as u64)
                }
                Child::Node(child) => self.first_in_node(&child, from, limit)?,
            };
            if found.is_some() {
                return Ok(found);
            }
            self.refuse_broken_promise(is_promised, entry)?;
        }
        Ok(None)
    }

    fn last_in_node(&self, node: &NodeAt, end: u64, limit: i64) -> Result<Option<u64>, FrameError> {
        for index in (0..=node.child_with(end)).rev() {
            let (entry, start) = (&node.entries[index], node.child_start(index));
            let is_promised = start.wrapping_add(entry.summary.length) <= end;
            let lowest = entry.excess_before(start).saturating_add(entry.summary.lowest);
            if is_promised && (entry.summary.length == 0 || lowest > limit) {
                continue;
            }
            let found = match self.child(node, index)? {
                Child::Page(page) => {
                    let relative = limit.saturating_sub(page.excess());
                    let end = end.saturating_sub(start) as usize;
                    page.page
                        .parentheses
                        .last_at_or_below(end, relative)
                        .map(|found| start + found as u64)
                }
                Child::Node(child) => self.last_in_node(&child, end, limit)?,
            };
            if found.is_some() {
                return Ok(found);
            }
            self.refuse_broken_promise(is_promised, entry)?;
        }
        Ok(None)
    }

    /// `Some(None)` if the excess becomes lower first, `None` if it does not come to either here.
    fn select_in_node(
        &self,
        node: &NodeAt,
        from: u64,
        value: i64,
        before: &mut u64,
    ) -> Result<Option<Option<u64>>, FrameError> {
        for index in node.child_with(from)..node.entries.len() {
            let (entry, start) = (&node.entries[index], node.child_start(index));
            let is_promised = start >= from;
            let lowest = entry.excess_before(start).saturating_add(entry.summary.lowest);
            if is_promised && (entry.summary.length == 0 || lowest > value) {
                continue;
            }
            if is_promised && lowest == value && entry.summary.lowest_count <= *before {
                *before -= entry.summary.lowest_count;
                continue;
            }
            let found = match self.child(node, index)? {
                Child::Page(page) => {
                    let relative = value.saturating_sub(page.excess());
                    let from = from.saturating_sub(start) as usize;
                    match page.page.parentheses.select_lowest(from, relative, *before) {
                        Occurrence::At(found) => Some(Some(start + found as u64)),
                        Occurrence::Never => Some(None),
                        Occurrence::NotYet { before: left } => {
                            *before = left;
                            None
                        }
                    }
                }
                Child::Node(child) => self.select_in_node(&child, from, value, before)?,
            };
            if found.is_some() {
                return Ok(found);
            }
            self.refuse_broken_promise(is_promised, entry)?;
        }
        Ok(None)
    }

    fn summary_in_node(&self, node: &NodeAt, range: &Range<u64>) -> Result<Summary, FrameError> {
        let mut summary = Summary::default();
        for index in node.child_with(range.start)..node.entries.len() {
            let (entry, start) = (&node.entries[index], node.child_start(index));
            let end = start.wrapping_add(entry.summary.length);
            if start >= range.end {
                break;
            }
            let part = if range.start <= start && end <= range.end {
                entry.summary
            } else {
                match self.child(node, index)? {
                    Child::Page(page) => {
                        let from = range.start.saturating_sub(start) as usize;
                        page.page.parentheses.summary_of(from..(range.end - start) as usize)
                    }
                    Child::Node(child) => self.summary_in_node(&child, range)?,
                }
            };
            summary = summary.then(&part);
        }
        Ok(summary)
    }

    /// Going on where a summary was wrong could take for ever.
    fn refuse_broken_promise(&self, is_promised: bool, entry: &Entry) -> Result<(), FrameError> {
        if is_promised {
            return Err(self
                .store
                .file()
                .damaged(entry.position, "a page does not hold what its summary promises"));
        }
        Ok(())
    }
}
