//! Which memory an interval knows while it is built.

use std::collections::BTreeMap;

use retro_replayer::PAGE_SIZE;

use crate::Error;
use crate::page_versions::{KNOWN_SIZE, PageVersions};

/// Which bytes of memory are known by now: those that the interval has read or written.
#[derive(Default)]
pub(super) struct Known {
    /// By address of the page; none if all of it is known.
    pub(super) pages: BTreeMap<u64, Option<Box<[u8; KNOWN_SIZE]>>>,
    /// What was known when a build went on, and from which window.
    pub(super) before: Option<(PageVersions, u32)>,
}

impl Known {
    pub(super) fn add(
        &mut self,
        page: u64,
        more: &[u8; KNOWN_SIZE],
    ) -> Result<[u8; KNOWN_SIZE], Error> {
        const ALL: [u8; KNOWN_SIZE] = [0xff; KNOWN_SIZE];
        if !self.pages.contains_key(&page) {
            let before = match &self.before {
                Some((versions, window)) => versions.page(page, *window)?,
                None => None,
            };
            let known = before.map_or(Box::new([0; KNOWN_SIZE]), |version| version.known.clone());
            self.pages.insert(page, Some(known));
        }
        let Some(Some(known)) = self.pages.get_mut(&page) else { return Ok(ALL) };
        for (known, more) in known.iter_mut().zip(more) {
            *known |= more;
        }
        let known = **known;
        if known == ALL {
            self.pages.insert(page, None);
        }
        Ok(known)
    }

    /// A page has become another.
    pub(super) fn set(&mut self, page: u64, known: [u8; KNOWN_SIZE]) {
        self.pages.insert(page, Some(Box::new(known)));
    }

    /// Pages of a range of which anything is known.
    pub(super) fn pages_in(&self, start: u64, end: u64) -> Result<Vec<u64>, Error> {
        if start >= end {
            return Ok(Vec::new());
        }
        let mut found: Vec<u64> = self.pages.range(start..end).map(|(&page, _)| page).collect();
        if let Some((versions, window)) = &self.before {
            for run in versions.changed(0..window + 1)? {
                let run = run.start.max(start)..run.end.min(end);
                found.extend(run.step_by(PAGE_SIZE));
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }
}
