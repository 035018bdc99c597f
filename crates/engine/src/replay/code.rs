//! The code that was executed, as of the current time.
//!
//! Nearly all code is the same throughout a run. So everything that the log has is taken in at once; only pages that ever
//! hold two versions of a byte are *volatile*: their code is taken in as time goes on, and blocks made of bytes that
//! change are thrown away.

use super::log::Chunks;
use crate::code_map::{CodeMap, News};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use retro_abi::layout::PAGE;
use retro_abi::log::{Decoder, Event};

/// Some code and the time from which on it is executed.
#[derive(Clone, Copy)]
struct Version {
    time: u64,
    address: u64,
    bytes: &'static [u8],
}

impl Version {
    fn pages(&self) -> impl Iterator<Item = u64> + use<> {
        self.address / PAGE..=(self.address + self.bytes.len() as u64 - 1) / PAGE
    }
}

/// All code.
pub struct Code {
    lasting: CodeMap,
    volatile: CodeMap,
    volatile_pages: BTreeSet<u64>,
    /// Code that touches volatile pages, in the order of time.
    to_come: Vec<Version>,
    /// How many of these have come.
    come: usize,
    /// Ranges that took other bytes than they had.
    changed: Vec<(u64, u64)>,
}

fn versions(bytes: &'static [u8]) -> impl Iterator<Item = Version> {
    let events = Chunks::new(bytes).flat_map(|(base, chunk)| Decoder::new(chunk, base));
    events.map_while(|event| event.ok()).filter_map(|(time, event)| match event {
        Event::Code { address, bytes }
            if !bytes.is_empty() && address.checked_add(bytes.len() as u64).is_some() =>
        {
            Some(Version { time, address, bytes })
        }
        _ => None,
    })
}

impl Code {
    /// From the code stream.
    pub fn new(bytes: &'static [u8]) -> Code {
        let mut lasting = CodeMap::default();
        let mut volatile_pages = BTreeSet::new();
        for version in versions(bytes) {
            if lasting.put(version.address, version.bytes) == News::Change {
                volatile_pages.extend(version.pages());
            }
        }
        let mut to_come = Vec::new();
        if !volatile_pages.is_empty() {
            let touched = |version: &Version| version.pages().any(|p| volatile_pages.contains(&p));
            to_come.extend(versions(bytes).filter(touched));
        }
        let volatile = CodeMap::default();
        Code { lasting, volatile, volatile_pages, to_come, come: 0, changed: Vec::new() }
    }

    /// Goes back to the start.
    pub fn restart(&mut self) {
        self.come = 0;
        self.volatile = CodeMap::default();
        let changed = self.volatile_pages.iter().map(|page| (page * PAGE, (page + 1) * PAGE));
        self.changed.extend(changed);
    }

    /// Applies what was logged up to now.
    pub fn advance(&mut self, now: u64) {
        while let Some(&Version { time, address, bytes }) = self.to_come.get(self.come)
            && time <= now
        {
            self.come += 1;
            if self.volatile.put(address, bytes) == News::Change {
                self.changed.push((address, address + bytes.len() as u64));
            }
        }
    }

    /// When code changes next: blocks that are out of date must not run on.
    pub fn next_time(&self) -> Option<u64> {
        self.to_come.get(self.come).map(|version| version.time)
    }

    /// Ranges whose blocks are out of date.
    pub fn take_changes(&mut self) -> Vec<(u64, u64)> {
        core::mem::take(&mut self.changed)
    }

    /// Copies code as far as it is known; says how much.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        self.read_from(address, bytes, |page| {
            if self.volatile_pages.contains(&page) {
                Some(&self.volatile)
            } else {
                Some(&self.lasting)
            }
        })
    }

    /// The same for code that never changes.
    pub fn read_lasting(&self, address: u64, bytes: &mut [u8]) -> usize {
        self.read_from(address, bytes, |page| {
            (!self.volatile_pages.contains(&page)).then_some(&self.lasting)
        })
    }

    fn read_from<'a>(
        &'a self,
        address: u64,
        bytes: &mut [u8],
        map_of: impl Fn(u64) -> Option<&'a CodeMap>,
    ) -> usize {
        let mut done = 0;
        while done < bytes.len() {
            let Some(at) = address.checked_add(done as u64) else { break };
            let Some(map) = map_of(at / PAGE) else { break };
            let len = (bytes.len() - done).min((PAGE - at % PAGE) as usize);
            let got = map.read(at, &mut bytes[done..done + len]);
            done += got;
            if got < len {
                break;
            }
        }
        done
    }
}
