//! The windows that the index leaves, in the direction of a search, in slices.
//!
//! Where every instruction counts, a window has millions of events: they are looked for in slices of a window, so that
//! what is found in the first is not paid for with the last.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use retro_index::Volume;
use retro_index::set_tree::Keys;

use super::code::Code;
use crate::run::{Process, WindowRef};
use crate::{Cancel, Direction, Error};

/// Instructions of a slice.
const SLICE: u64 = 1 << 16;

/// Which windows may have what is looked for.
#[derive(Clone, Debug)]
pub(super) enum Hint {
    /// Any.
    None,
    /// Those that execute this code.
    Code(Code),
    /// Those that write these words.
    Words(Keys),
    /// Those that read these words, where the index knows.
    Reads(Keys),
    /// Those with such rows.
    Rows(Keys),
}

/// A part of a window.
#[derive(Clone, Debug)]
pub(super) struct Slice {
    volume: usize,
    window: u32,
    /// Numbers of its instructions.
    pub(super) times: Range<u64>,
}

impl Slice {
    /// The window that it is a part of.
    pub(super) fn window<'a>(&self, process: &'a Process) -> WindowRef<'a> {
        WindowRef { volume: &process.volumes[self.volume], window: self.window }
    }
}

/// Goes from slice to slice.
pub(super) struct Walk {
    process: Arc<Process>,
    direction: Direction,
    /// Numbers of instructions.
    bounds: RangeInclusive<u64>,
    hint: Hint,
    is_sliced: bool,
    /// Volume, and the window where to go on looking: the first that may be next, or one behind the last.
    next: Option<(usize, u32)>,
    /// What is left of a window.
    rest: Option<Slice>,
    /// The pieces of the code that is looked for, in this volume.
    pieces: Option<(usize, Keys)>,
    /// Everything between the start of the walk and this time is behind it.
    reached: u64,
}

impl Walk {
    pub(super) fn new(
        process: &Arc<Process>,
        direction: Direction,
        bounds: RangeInclusive<u64>,
        hint: Hint,
        is_sliced: bool,
    ) -> Walk {
        let volumes = &process.volumes;
        let next = match direction {
            Direction::Forward => {
                let index = volumes.partition_point(|volume| volume.end <= *bounds.start());
                let window =
                    |volume: &Volume| volume.window_of((*bounds.start()).max(volume.start));
                volumes.get(index).map(|volume| (index, window(volume)))
            }
            Direction::Backward => {
                let after = volumes.partition_point(|volume| volume.start <= *bounds.end());
                after
                    .checked_sub(1)
                    .map(|index| (index, volumes[index].window_of(*bounds.end()).saturating_add(1)))
            }
        };
        let process = Arc::clone(process);
        let reached = match direction {
            Direction::Forward => (*bounds.start()).max(process.start),
            Direction::Backward => (*bounds.end()).min(process.end),
        };
        let (rest, pieces) = (None, None);
        Walk { process, direction, bounds, hint, is_sliced, next, rest, pieces, reached }
    }

    /// Goes on to a volume, or to the end: what lies between has to be indexed, or nobody knows what is there.
    fn arrive_at(&mut self, volume: Option<usize>) -> Result<(), Error> {
        let (start, end) = (*self.bounds.start(), *self.bounds.end());
        let found = volume.map(|volume| &self.process.volumes[volume]);
        match self.direction {
            Direction::Forward => {
                let until = found.map_or(self.process.end, |volume| volume.start).min(end);
                self.process.check_indexed(self.reached, until)?;
                self.reached = self.reached.max(found.map_or(until, |volume| volume.end));
            }
            Direction::Backward => {
                let since = found.map_or(self.process.start, |volume| volume.end).max(start);
                self.process.check_indexed(since, self.reached)?;
                self.reached = self.reached.min(found.map_or(since, |volume| volume.start));
            }
        }
        Ok(())
    }

    /// The next slice.
    pub(super) fn next(&mut self, cancel: &Cancel) -> Result<Option<Slice>, Error> {
        loop {
            cancel.check()?;
            if let Some(slice) = self.cut_rest() {
                return Ok(Some(slice));
            }
            self.arrive_at(self.next.map(|(volume, _)| volume))?;
            let Some((volume, window)) = self.next else { return Ok(None) };
            let Some(found) = self.find(volume, window)? else {
                self.next = match self.direction {
                    Direction::Forward => {
                        (volume + 1 < self.process.volumes.len()).then_some((volume + 1, 0))
                    }
                    Direction::Backward => volume
                        .checked_sub(1)
                        .map(|volume| (volume, self.process.volumes[volume].windows.len())),
                };
                continue;
            };
            let range = self.process.volumes[volume].window_range(found);
            let is_outside = match self.direction {
                Direction::Forward => range.start > *self.bounds.end(),
                Direction::Backward => range.end <= *self.bounds.start() && !range.is_empty(),
            };
            if is_outside {
                self.next = None;
                return Ok(None);
            }
            self.next = Some(match self.direction {
                Direction::Forward => (volume, found + 1),
                Direction::Backward => (volume, found),
            });
            let end = range.end.min(self.bounds.end().saturating_add(1));
            let times = range.start.max(*self.bounds.start())..end;
            self.rest = Some(Slice { volume, window: found, times });
        }
    }

    /// The next slice of what is left of a window.
    fn cut_rest(&mut self) -> Option<Slice> {
        let rest = self.rest.as_mut()?;
        if !self.is_sliced {
            return self.rest.take();
        }
        if rest.times.is_empty() {
            self.rest = None;
            return None;
        }
        let times = match self.direction {
            Direction::Forward => {
                let end = rest.times.end.min(rest.times.start.saturating_add(SLICE));
                let times = rest.times.start..end;
                rest.times.start = end;
                times
            }
            Direction::Backward => {
                let start = rest.times.start.max(rest.times.end.saturating_sub(SLICE));
                let times = start..rest.times.end;
                rest.times.end = start;
                times
            }
        };
        Some(Slice { times, ..rest.clone() })
    }

    /// The nearest window of a volume that may have something.
    fn find(&mut self, index: usize, window: u32) -> Result<Option<u32>, Error> {
        let volume = &self.process.volumes[index];
        let (tree, keys) = match &self.hint {
            Hint::Code(code) => {
                if self.pieces.as_ref().is_none_or(|(of, _)| *of != index) {
                    self.pieces = Some((index, code.pieces(volume)));
                }
                let keys = self.pieces.as_ref().map(|(_, keys)| keys.clone());
                (Some(&volume.code), keys)
            }
            Hint::Words(keys) => (Some(&volume.words), Some(keys.clone())),
            Hint::Reads(keys) => (volume.reads.as_ref(), Some(keys.clone())),
            Hint::Rows(keys) => (Some(&volume.row_kinds), Some(keys.clone())),
            Hint::None => (None, None),
        };
        let Some((tree, keys)) = tree.zip(keys) else {
            return Ok(match self.direction {
                Direction::Forward => (window < volume.windows.len()).then_some(window),
                Direction::Backward => window.checked_sub(1),
            });
        };
        Ok(match self.direction {
            Direction::Forward => tree.first_from(window, keys)?,
            Direction::Backward => tree.last_before(window, keys)?,
        })
    }
}
