//! The latest of a list, in the order that is wanted.
//!
//! A list that ends at the moment of the question is looked up backwards, so that its latest items cost the same however many
//! came before. Only who wants all of them, the oldest first, looks forwards.

use anyhow::Result;
use retro_query::Direction;

use super::question::{Question, told};
use crate::arguments::{Extent, Limit};
use crate::message::notify;

/// Between which times, and which way, a list is looked up.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// The first time.
    since: u64,
    /// Where it ends.
    until: u64,
}

impl Stretch {
    /// Of a question.
    pub fn new(question: &Question, extent: &Extent) -> Result<Stretch> {
        let since = match extent.since {
            Some(point) => question.time_of(point)?,
            None => question.process.start,
        };
        let until = question.moment.time;
        if since > until {
            anyhow::bail!(
                "nothing lies between time {since} and time {until}: --since is behind --at"
            );
        }
        Ok(Stretch { since, until })
    }

    /// The first time.
    pub fn since(self) -> u64 {
        self.since
    }
}

/// Shows the items that are wanted. `search` looks from a time on, one way; `number` is the number of the instruction
/// that an item belongs to. Returns how many were shown.
pub fn show<T, I: Iterator<Item = Result<T, retro_query::Error>>>(
    question: &mut Question,
    extent: &Extent,
    search: impl FnOnce(&Question, u64, Direction) -> Result<I>,
    number: impl Fn(&T) -> u64,
    mut show: impl FnMut(&mut Question, T) -> Result<()>,
) -> Result<usize> {
    let Stretch { since, until } = Stretch::new(question, extent)?;
    let mut shown = 0;
    let mut take = |question: &mut Question, item: T| {
        shown += 1;
        show(question, item)
    };
    match extent.limit {
        Some(Limit::All) if !extent.reverse => {
            for item in search(question, since, Direction::Forward)? {
                let item = item.map_err(told)?;
                if number(&item) >= until {
                    break;
                }
                take(question, item)?;
            }
        }
        limit => {
            let most = Limit::most(limit);
            let mut held = Vec::new();
            let all = search(question, until, Direction::Backward)?;
            for (found, item) in all.enumerate() {
                let item = item.map_err(told)?;
                if number(&item) < since {
                    break;
                }
                if found == most {
                    // Whoever has said how many knows it.
                    if limit.is_none() {
                        let note = "are shown; `--limit all` shows every one";
                        notify(&format!("only the latest {most} {note}"));
                    }
                    break;
                }
                match extent.reverse {
                    true => take(question, item)?,
                    false => held.push(item),
                }
            }
            while let Some(item) = held.pop() {
                take(question, item)?;
            }
        }
    }
    question.output.flush()?;
    Ok(shown)
}
