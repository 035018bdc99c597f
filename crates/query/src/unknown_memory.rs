//! Memory that a replay does not know.
//!
//! A replay of an interval begins with empty memory and learns what the run read and wrote there. A byte that was not
//! touched since the interval began reads as zero, whatever it held. The index remembers which bytes are known when; for
//! the others, in this order:
//!
//! 1. what earlier intervals knew last, wherever it was then, unless the memory was mapped anew since;
//! 2. what the run found there later, in this interval or a following one, if nothing was written there and nothing was
//!    mapped there in between ([`later`]);
//! 3. in a forked process, what its parent had there when it forked, unless the memory was mapped anew since;
//! 4. what the file holds that is mapped there;
//! 5. what the run found there later and wrote over in the same window.
//!
//! What nobody has ever looked at reads as zero.

mod later;

use std::ops::Range;

use retro_index::Volume;
use retro_replayer::PAGE_SIZE;

use crate::address_space::{Lineage, Timeline};
use crate::run::{Process, Run, WindowRef};
use crate::{Error, Moment};

pub(crate) type Page = [u8; PAGE_SIZE];

/// A bit for each byte of a page.
pub(crate) type Known = [u8; PAGE_SIZE / 8];

pub(crate) fn is_known(known: &Known, index: usize) -> bool {
    known[index / 8] >> (index % 8) & 1 != 0
}

/// A page of which some bytes are missing.
struct Gaps<'a> {
    page: u64,
    bytes: &'a mut Page,
    missing: Vec<usize>,
}

impl Gaps<'_> {
    /// Takes what a version of the page knows.
    fn take(&mut self, known: &Known, bytes: &Page) {
        let own = &mut *self.bytes;
        self.missing.retain(|&index| {
            let is_known = is_known(known, index);
            if is_known {
                own[index] = bytes[index];
            }
            !is_known
        });
    }
}

/// A page at a moment.
struct Sight<'a> {
    process: &'a Process,
    timeline: &'a Timeline,
    /// The volume, by its place among those of the process.
    index: usize,
    volume: &'a Volume,
    window: u32,
    time: u64,
}

impl Sight<'_> {
    fn window_start(&self) -> u64 {
        self.volume.window_range(self.window).start
    }

    /// What became of a page from the start of the window on.
    fn lineage_in_window(&self, page: u64) -> Lineage {
        let before = self.timeline.changes_until(self.window_start());
        self.timeline.lineage(page, before..self.timeline.changes_until(self.time))
    }
}

impl Run {
    /// The bytes of a page that the interval of a moment knows for sure then.
    pub(crate) fn known_bytes(&self, moment: Moment, page: u64) -> Result<Box<Known>, Error> {
        self.with_sight(moment, |sight| {
            if !sight.lineage_in_window(page).places.is_empty() {
                return Ok(Box::new([0; PAGE_SIZE / 8]));
            }
            let version = sight.volume.page(page, sight.window)?;
            let nothing = || Box::new([0; PAGE_SIZE / 8]);
            Ok(version.map_or_else(nothing, |version| version.known.clone()))
        })
    }

    /// Completes a page that a replay shows at a moment.
    pub(crate) fn fill_in(
        &self,
        moment: Moment,
        page: u64,
        known: &Known,
        bytes: &mut Page,
    ) -> Result<(), Error> {
        let missing = (0..PAGE_SIZE).filter(|&index| bytes[index] == 0 && !is_known(known, index));
        let missing: Vec<usize> = missing.collect();
        let mut gaps = Gaps { page, bytes, missing };
        self.with_sight(moment, |sight| {
            self.skip_touched(sight, &mut gaps)?;
            take_from_earlier(sight, &mut gaps)?;
            self.take_from_later(sight, &mut gaps, 0)?;
            self.take_from_parent(sight, &mut gaps)
        })?;
        self.take_from_file(moment, &mut gaps);
        self.with_sight(moment, |sight| self.take_from_windows(sight, &mut gaps))
    }

    fn with_sight<T>(
        &self,
        moment: Moment,
        look: impl FnOnce(&Sight<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let process = self.process(moment.log)?;
        let (index, volume) = process.volume_of(moment.time)?;
        let (window, time) = (volume.window_of(moment.time), moment.time);
        let timeline = self.timeline(&process)?;
        let (process, timeline) = (&*process, &*timeline);
        look(&Sight { process, timeline, index, volume, window, time })
    }

    /// What the window itself has written or learned before the moment is known: it is zero.
    fn skip_touched(&self, sight: &Sight<'_>, gaps: &mut Gaps<'_>) -> Result<(), Error> {
        let lineage = sight.lineage_in_window(gaps.page);
        if lineage.places.is_empty() && !is_touched(sight, gaps)? {
            return Ok(());
        }
        let place = WindowRef { volume: sight.volume, window: sight.window };
        let trace = self.trace(sight.process, place)?;
        let mut touched = [false; PAGE_SIZE];
        let mut touch = |page: u64, times: Range<u64>| {
            for range in trace.touched(page..page.saturating_add(PAGE_SIZE as u64), times) {
                let (from, to) = (range.start - page, range.end - page);
                touched[from as usize..to as usize].fill(true);
            }
        };
        let mut until = sight.time;
        for (page, since) in lineage.places {
            touch(page, since..until);
            until = since;
        }
        if let Some(origin) = lineage.origin {
            touch(origin, sight.window_start()..until);
            if let Some(version) = sight.volume.page(origin, sight.window)? {
                gaps.missing.retain(|&index| !is_known(&version.known, index));
            }
        }
        gaps.missing.retain(|&index| !touched[index]);
        Ok(())
    }

    fn take_from_parent(&self, sight: &Sight<'_>, gaps: &mut Gaps<'_>) -> Result<(), Error> {
        let Sight { process, timeline, time, .. } = *sight;
        let Some(parent) = timeline.parent.filter(|_| !gaps.missing.is_empty()) else {
            return Ok(());
        };
        // Nobody knows what an interval without index did to it.
        if process.check_indexed(process.start, time).is_err() {
            return Ok(());
        }
        let changes = 0..timeline.changes_until(time);
        let Some(origin) = timeline.lineage(gaps.page, changes).origin else { return Ok(()) };
        if self.is_mapped(parent, origin)? {
            gaps.take(&[u8::MAX; PAGE_SIZE / 8], &*self.state(parent)?.read_once(origin)?);
        }
        Ok(())
    }

    fn take_from_file(&self, moment: Moment, gaps: &mut Gaps<'_>) {
        if gaps.missing.is_empty() {
            return;
        }
        let mut bytes = [0; PAGE_SIZE];
        let Moment { log, time } = moment;
        let read = self.symbols().mapped_bytes(log, time, gaps.page, &mut bytes);
        let mut known = [0; PAGE_SIZE / 8];
        (0..read).for_each(|index| known[index / 8] |= 1 << (index % 8));
        gaps.take(&known, &bytes);
    }
}

/// Whether the window touches any of what is missing, sooner or later. Most do not.
fn is_touched(sight: &Sight<'_>, gaps: &Gaps<'_>) -> Result<bool, Error> {
    if sight.time == sight.window_start() {
        return Ok(false);
    }
    let at_end = sight.volume.page(gaps.page, sight.window.saturating_add(1))?;
    Ok(at_end
        .is_some_and(|version| gaps.missing.iter().any(|&index| is_known(&version.known, index))))
}

fn take_from_earlier(sight: &Sight<'_>, gaps: &mut Gaps<'_>) -> Result<(), Error> {
    let (volumes, timeline) = (&sight.process.volumes, sight.timeline);
    let mut page = gaps.page;
    let mut changes_until = timeline.changes_until(sight.time);
    for index in (0..sight.index).rev() {
        let changes = timeline.changes_before_volume(index + 1)..changes_until;
        let Some(origin) = timeline.lineage(page, changes.clone()).origin else { return Ok(()) };
        // Nobody knows what an interval without index did to it.
        if gaps.missing.is_empty() || volumes[index].end != volumes[index + 1].start {
            return Ok(());
        }
        if let Some(version) = volumes[index].page(origin, u32::MAX)? {
            gaps.take(&version.known, &version.bytes);
        }
        (page, changes_until) = (origin, changes.start);
    }
    Ok(())
}
