//! The nodes above the pages, and how they grow.
//!
//! A node of level 1 has an entry for each of up to [`FANOUT`] pages, one of level 2 for nodes of level 1, and so
//! on. Only full pages and full nodes are written, so a position alone tells the way to it. The last, unfinished
//! node of each level is the *spine*; it is part of the thread's head.
//!
//! ```text
//! node    count  opens before it  entry...
//! entry   position  callees  time  window: less those of the entry before  opens  lowest  its count  highest
//! ```

use super::output::Output;
use super::signed::{put_difference, put_signed, take_difference, take_signed};
use super::summary::Summary;
use super::{FANOUT, Kind, PAGE};
use crate::frames::FrameError;
use crate::frames::fields::{BadField, Fields, put_number};

/// More levels than any thread fills, few enough for lengths to be exact.
pub(super) const MAX_LEVELS: usize = 7;

/// The position of what is not in the file but in the head of the thread.
pub(super) const IN_HEAD: u64 = 0;

/// A page or node, as its parent knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Where it is.
    pub(super) position: u64,
    /// Where the callees of a page are, 0 for none.
    pub(super) callees: u64,
    /// Time of the first parenthesis.
    pub(super) time: u64,
    /// The window of the first mark.
    pub(super) window: u64,
    /// Opens of the thread before it.
    pub(super) opens_before: u64,
    pub(super) summary: Summary,
}

impl Entry {
    /// The excess at its start, which is at this position.
    pub(super) fn excess_before(&self, start: u64) -> i64 {
        self.opens_before.wrapping_mul(2).wrapping_sub(start) as i64
    }
}

/// Parentheses in each full child of a node of a level.
pub(super) fn child_length(level: usize) -> u64 {
    PAGE as u64 * (FANOUT as u64).pow(level.saturating_sub(1).min(MAX_LEVELS) as u32)
}

/// The entry for a node of its entries.
pub(super) fn entry_of(entries: &[Entry], position: u64) -> Entry {
    let summary =
        entries.iter().fold(Summary::default(), |summary, entry| summary.then(&entry.summary));
    Entry { position, callees: 0, summary, ..entries.first().copied().unwrap_or_default() }
}

pub(super) fn encode(entries: &[Entry], bytes: &mut Vec<u8>) {
    put_number(bytes, entries.len() as u64);
    let mut last = Entry::default();
    put_number(bytes, entries.first().map_or(0, |entry| entry.opens_before));
    for entry in entries {
        put_difference(bytes, entry.position, last.position);
        put_difference(bytes, entry.callees, last.callees);
        put_difference(bytes, entry.time, last.time);
        put_difference(bytes, entry.window, last.window);
        put_number(bytes, entry.summary.opens);
        put_signed(bytes, entry.summary.lowest);
        put_number(bytes, entry.summary.lowest_count);
        put_signed(bytes, entry.summary.highest);
        last = *entry;
    }
}

/// Entries of full children of a node of a level.
pub(super) fn decode(fields: &mut Fields<'_>, level: usize) -> Result<Vec<Entry>, BadField> {
    let count = fields.count()?;
    if count > FANOUT {
        return Err("a node has too many entries");
    }
    let mut last = Entry { opens_before: fields.number()?, ..Entry::default() };
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let entry = Entry {
            position: take_difference(fields, last.position)?,
            callees: take_difference(fields, last.callees)?,
            time: take_difference(fields, last.time)?,
            window: take_difference(fields, last.window)?,
            opens_before: last.opens_before.wrapping_add(last.summary.opens),
            summary: Summary {
                length: child_length(level),
                opens: fields.number()?,
                lowest: take_signed(fields)?,
                lowest_count: fields.number()?,
                highest: take_signed(fields)?,
            },
        };
        if entry.position == IN_HEAD {
            return Err("a node has a child that is nowhere");
        }
        entries.push(entry);
        last = entry;
    }
    Ok(entries)
}

/// The unfinished nodes of all levels, the lowest first: each has fewer entries than a node may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spine(Vec<Vec<Entry>>);

impl Spine {
    pub(super) fn levels(&self) -> &[Vec<Entry>] {
        &self.0
    }

    /// Adds a full page. Nodes that become full are written.
    pub(super) fn push(&mut self, page: Entry, output: &mut Output) -> Result<(), FrameError> {
        let mut entry = page;
        for entries in &mut self.0 {
            entries.push(entry);
            if entries.len() < FANOUT {
                return Ok(());
            }
            let mut bytes = Vec::new();
            encode(entries, &mut bytes);
            let position = output.append(Kind::Node, &bytes)?;
            entry = entry_of(entries, position);
            entries.clear();
        }
        self.0.push(vec![entry]);
        Ok(())
    }

    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        put_number(bytes, self.0.len() as u64);
        self.0.iter().for_each(|entries| encode(entries, bytes));
    }

    pub(super) fn decode(fields: &mut Fields<'_>) -> Result<Spine, BadField> {
        let levels = fields.count()?;
        if levels > MAX_LEVELS {
            return Err("a tree is too high");
        }
        let mut spine = Vec::new();
        for level in 1..=levels {
            let entries = decode(fields, level)?;
            if entries.len() >= FANOUT {
                return Err("an unfinished node is full");
            }
            spine.push(entries);
        }
        Ok(Spine(spine))
    }
}
