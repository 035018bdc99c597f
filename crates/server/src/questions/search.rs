//! What all searches have in common: where they begin, which way they go, how far, and pages of what they find.
//!
//! A search is an iterator of the query engine, the nearest first. A page goes on where the one before ended: at the
//! number of an instruction, behind as many things that happened with it as were given already.

use std::sync::Arc;

use retro_query::{Error, Execution, Moment, Process, Run, TimedRow, Write};
use serde::{Deserialize, Serialize};

use super::Answer;
use super::failure::at_most;
use super::wire::{Direction, ProcessNumber, Time};
use crate::paging::{Page, PageRequest, Pager};
use crate::service::CallContext;

/// The n-th of something that is found by going through those before it.
const NTH_LIMIT: u64 = 1_000_000;

/// Defines the parameters of a search: those of all, and its own.
macro_rules! search_params {
    ($(#[$meta:meta])* struct $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        struct $name {
            process: $crate::questions::wire::ProcessNumber,
            /// Where the search begins. Backwards it finds what has happened at this moment, forwards what has not yet.
            time: $crate::questions::wire::Time,
            /// Which way; `forward` unless given.
            #[serde(default)]
            direction: $crate::questions::wire::Direction,
            $($(#[$field_meta])* $field: $type,)*
            /// Only what this thread does.
            thread: Option<u32>,
            /// Where the search ends; at the end of the run, or at its start, unless given.
            until: Option<$crate::questions::wire::Time>,
            /// Only the n-th, from 1 on: at most 1,000,000.
            nth: Option<u64>,
            /// Items of a page: 100 unless given, at most 10,000.
            limit: Option<u32>,
            /// The `next` of the page before.
            cursor: Option<String>,
        }

        impl $name {
            fn search<'a>(
                &self,
                run: &'a retro_query::Run,
                context: &'a $crate::service::CallContext,
            ) -> $crate::questions::Answer<$crate::questions::search::Search<'a>> {
                $crate::questions::search::Search::new(run, context, $crate::questions::search::Bounds {
                    process: self.process,
                    time: self.time,
                    direction: self.direction,
                    thread: self.thread,
                    until: self.until,
                    nth: self.nth,
                    page: $crate::paging::PageRequest {
                        limit: self.limit,
                        cursor: self.cursor.clone(),
                    },
                })
            }
        }
    };
}
pub(super) use search_params;

/// What a client says about any search.
pub(super) struct Bounds {
    pub process: ProcessNumber,
    pub time: Time,
    pub direction: Direction,
    pub thread: Option<u32>,
    pub until: Option<Time>,
    pub nth: Option<u64>,
    pub page: PageRequest,
}

/// Where a page begins.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Position {
    /// The number of an instruction.
    number: u64,
    /// How much of what happened with it was given already.
    given: u64,
}

/// Something that a search finds.
pub(super) trait Find {
    /// The number of the instruction that it happened with.
    fn number(&self) -> u64;
    fn thread(&self) -> u32;
}

impl Find for Write {
    fn number(&self) -> u64 {
        self.time
    }

    fn thread(&self) -> u32 {
        self.thread
    }
}

impl Find for Execution {
    fn number(&self) -> u64 {
        self.time
    }

    fn thread(&self) -> u32 {
        self.thread
    }
}

impl Find for TimedRow {
    /// A row belongs to the instruction before its time.
    fn number(&self) -> u64 {
        self.time.saturating_sub(1)
    }

    fn thread(&self) -> u32 {
        self.thread
    }
}

/// One page of a search.
pub(super) struct Search<'a> {
    pub run: &'a Run,
    pub context: &'a CallContext,
    pub process: Arc<Process>,
    pub direction: Direction,
    asked: Moment,
    thread: Option<u32>,
    until: Option<u64>,
    nth: Option<u64>,
    pager: Pager<Position>,
}

impl<'a> Search<'a> {
    pub fn new(run: &'a Run, context: &'a CallContext, bounds: Bounds) -> Answer<Search<'a>> {
        let asked = Moment { log: bounds.process.0, time: bounds.time.0 };
        let process = run.process(asked.log)?;
        process.volume_of(asked.time)?;
        Ok(Search {
            run,
            context,
            process,
            direction: bounds.direction,
            asked,
            thread: bounds.thread,
            until: bounds.until.map(|until| until.0),
            nth: bounds.nth,
            pager: context.pager(&bounds.page)?,
        })
    }

    /// The moment that the client has named.
    pub fn asked(&self) -> Moment {
        self.asked
    }

    /// Where this page's search begins.
    pub fn from(&self) -> Moment {
        let time = match (self.pager.start, self.direction) {
            (None, _) => self.asked.time,
            (Some(position), Direction::Forward) => position.number.max(self.process.start),
            (Some(position), Direction::Backward) => position.number.saturating_add(1),
        };
        Moment { time, ..self.asked }
    }

    pub fn way(&self) -> retro_query::Direction {
        self.direction.into()
    }

    pub fn cancel(&self) -> &retro_query::Cancel {
        self.context.cancel().flag()
    }

    /// Which one is wanted, if the index alone can tell where it is.
    pub fn nth_of_all(&self) -> Option<u64> {
        self.nth.filter(|nth| *nth > 0 && self.thread.is_none() && self.until.is_none())
    }

    /// The page, of what a search that began at [`Search::from`] finds.
    pub fn page<T: Find, R>(
        &self,
        found: impl Iterator<Item = Result<T, Error>>,
        mut describe: impl FnMut(T) -> Answer<R>,
    ) -> Answer<Page<R>> {
        let mut skip = match self.nth {
            Some(0) => return Err(super::failure::invalid("\"nth\" counts from 1 on")),
            Some(nth) => {
                at_most("nth", nth, NTH_LIMIT)?;
                nth - 1
            }
            None => 0,
        };
        let limit = if self.nth.is_some() { 1 } else { self.pager.limit };
        let mut items = Vec::new();
        let mut last: Option<Position> = None;
        for found in found {
            let found = found?;
            if self.is_beyond(found.number()) {
                return Ok(self.pager.page(items, None));
            }
            let position = follow(last, found.number());
            last = Some(position);
            let is_given = self.pager.start.is_some_and(|start| {
                start.number == position.number && position.given <= start.given
            });
            if is_given || self.thread.is_some_and(|thread| thread != found.thread()) {
                continue;
            }
            if let Some(less) = skip.checked_sub(1) {
                skip = less;
                continue;
            }
            self.report(found.number());
            items.push(describe(found)?);
            if items.len() == limit {
                let next = if self.nth.is_some() { None } else { last.as_ref() };
                return Ok(self.pager.page(items, next));
            }
        }
        Ok(self.pager.page(items, None))
    }

    /// A page of one item or none, of which there is no next.
    pub fn only<R>(&self, found: Option<R>) -> Page<R> {
        self.pager.page(found.into_iter().collect(), None)
    }

    fn is_beyond(&self, number: u64) -> bool {
        self.until.is_some_and(|until| match self.direction {
            Direction::Forward => number >= until,
            Direction::Backward => number < until,
        })
    }

    fn report(&self, number: u64) {
        let (start, end) = (self.process.start, self.process.end);
        let (done, all) = match self.direction {
            Direction::Forward => (number.abs_diff(self.asked.time), end.abs_diff(self.asked.time)),
            Direction::Backward => {
                (self.asked.time.abs_diff(number), self.asked.time.abs_diff(start))
            }
        };
        self.context.progress(done, Some(all));
    }
}

/// The position behind something that was found after another.
fn follow(last: Option<Position>, number: u64) -> Position {
    match last {
        Some(last) if last.number == number => {
            Position { number, given: last.given.saturating_add(1) }
        }
        _ => Position { number, given: 1 },
    }
}
