//! Memory that a replay does not know.
//!
//! A replay of an interval begins with empty memory and learns what the run read and wrote there. A byte that was not
//! touched since the interval began reads as zero, whatever it held. The index remembers which bytes are known when; for
//! the others, in this order:
//!
//! 1. what earlier intervals knew last, unless the memory was mapped anew since;
//! 2. what the run found there later, if nothing was written there in between;
//! 3. what the file holds that is mapped there.
//!
//! What nobody has ever looked at reads as zero.

use retro_index::Volume;
use retro_index::page_versions::PageVersion;
use retro_replayer::PAGE_SIZE;

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

impl Run {
    /// The bytes of a page that the interval of a moment knows for sure then.
    pub(crate) fn known_bytes(&self, moment: Moment, page: u64) -> Result<Box<Known>, Error> {
        let process = self.process(moment.log)?;
        let (_, volume) = process.volume_of(moment.time)?;
        let version = volume.page(page, volume.window_of(moment.time))?;
        Ok(version.map_or_else(|| Box::new([0; PAGE_SIZE / 8]), |version| version.known))
    }

    /// Completes a page that a replay shows at a moment.
    pub(crate) fn fill_in(
        &self,
        moment: Moment,
        page: u64,
        known: &Known,
        bytes: &mut Page,
    ) -> Result<(), Error> {
        let process = self.process(moment.log)?;
        let (index, volume) = process.volume_of(moment.time)?;
        let window = volume.window_of(moment.time);
        let missing = (0..PAGE_SIZE).filter(|&index| bytes[index] == 0 && !is_known(known, index));
        let missing: Vec<usize> = missing.collect();
        let mut gaps = Gaps { page, bytes, missing };
        self.skip_touched(&process, volume, window, moment.time, &mut gaps)?;
        let cleared = self.cleared_at(&process, page, moment.time)?;
        take_from_earlier(&process, index, cleared, &mut gaps)?;
        // Only of memory that is not mapped anew before.
        if self.cleared_at(&process, page, volume.end)? == cleared {
            take_from_later(volume, window, &mut gaps)?;
        }
        self.take_from_file(moment, &mut gaps);
        Ok(())
    }

    /// What the window itself has written or learned before the moment is known: it is zero.
    fn skip_touched(
        &self,
        process: &Process,
        volume: &Volume,
        window: u32,
        time: u64,
        gaps: &mut Gaps<'_>,
    ) -> Result<(), Error> {
        // Most windows touch none of it.
        let at_end = volume.page(gaps.page, window.saturating_add(1))?;
        let is_touched = |version: &PageVersion| {
            gaps.missing.iter().any(|&index| is_known(&version.known, index))
        };
        if time == volume.window_range(window).start || !at_end.is_some_and(|end| is_touched(&end))
        {
            return Ok(());
        }
        let trace = self.trace(process, WindowRef { volume, window })?;
        let mut touched = [false; PAGE_SIZE];
        for range in trace.touched(gaps.page..gaps.page + PAGE_SIZE as u64, time) {
            let (from, to) = (range.start - gaps.page, range.end - gaps.page);
            touched[from as usize..to as usize].fill(true);
        }
        gaps.missing.retain(|&index| !touched[index]);
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

fn take_from_earlier(
    process: &Process,
    before: usize,
    cleared: Option<u64>,
    gaps: &mut Gaps<'_>,
) -> Result<(), Error> {
    for (index, volume) in process.volumes[..before].iter().enumerate().rev() {
        // Nobody knows what an interval without index did to it.
        if volume.end != process.volumes[index + 1].start {
            return Ok(());
        }
        // What was there before memory was mapped anew is gone.
        if gaps.missing.is_empty() || cleared.is_some_and(|cleared| cleared >= volume.end) {
            return Ok(());
        }
        let Some(version) = volume.page(gaps.page, u32::MAX)? else { continue };
        let written_at = volume.windows.start(version.window).unwrap_or(volume.end);
        if cleared.is_some_and(|cleared| cleared > written_at) {
            return Ok(());
        }
        gaps.take(&version.known, &version.bytes);
    }
    Ok(())
}

/// What the interval learns later: of words that are never written again, what it knows in the end; of the
/// others, what it knows when the window begins that writes them.
fn take_from_later(volume: &Volume, window: u32, gaps: &mut Gaps<'_>) -> Result<(), Error> {
    if gaps.missing.is_empty() {
        return Ok(());
    }
    let Some(last) = volume.page(gaps.page, u32::MAX)? else { return Ok(()) };
    let word = |index: usize| (gaps.page + index as u64) / 8;
    let candidates: Vec<usize> =
        gaps.missing.iter().copied().filter(|&index| is_known(&last.known, index)).collect();
    let mut found = [false; PAGE_SIZE];
    for group in candidates.chunk_by(|&one, &other| word(one) == word(other)) {
        let key = word(group[0]);
        let version = match volume.words.first_from(window, key..key + 1)? {
            None => Some((last.known.clone(), last.bytes.clone())),
            Some(written) => {
                volume.page(gaps.page, written)?.map(|version| (version.known, version.bytes))
            }
        };
        if let Some((known, bytes)) = version {
            for &index in group.iter().filter(|&&index| is_known(&known, index)) {
                gaps.bytes[index] = bytes[index];
                found[index] = true;
            }
        }
    }
    gaps.missing.retain(|&index| !found[index]);
    Ok(())
}
