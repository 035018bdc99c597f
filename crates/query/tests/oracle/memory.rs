//! Memory and mappings as the oracle knows them.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::path::PathBuf;

use retro_abi::channel::Stream;
use retro_abi::log::{Event, MapKind};
use retro_query::{Mapping, Row};
use retro_replayer::{PAGE_SIZE, Replayer};

use crate::oracle::{EffectKind, Oracle};

pub const PAGE: u64 = PAGE_SIZE as u64;

/// Memory at a time: each byte that anything is known of.
#[derive(Default)]
pub struct Memory(pub BTreeMap<u64, Page>);

/// A page; bytes that nobody knows are none.
pub type Page = Box<[Option<u8>; PAGE_SIZE]>;

impl Memory {
    /// All that was told up to a time.
    pub fn at(oracle: &Oracle, time: u64) -> Memory {
        let mut memory = Memory::default();
        for effect in oracle.effects.iter().take_while(|effect| effect.seen <= time) {
            match effect.kind {
                EffectKind::Write(_) | EffectKind::Load => {
                    memory.write(effect.address, oracle.value(effect));
                }
                EffectKind::Map { kind, is_anonymous, from } => {
                    memory.map(kind, effect.address, effect.len, is_anonymous, from);
                }
            }
        }
        memory
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        for (at, &byte) in (address..).zip(bytes) {
            let page =
                self.0.entry(at / PAGE * PAGE).or_insert_with(|| Box::new([None; PAGE_SIZE]));
            page[(at % PAGE) as usize] = Some(byte);
        }
    }

    fn map(&mut self, kind: MapKind, start: u64, len: u64, is_anonymous: bool, from: u64) {
        let pages = start / PAGE * PAGE..(start + len).next_multiple_of(PAGE);
        match kind {
            MapKind::Protect => {}
            MapKind::Map | MapKind::Unmap | MapKind::Discard => {
                let gone: Vec<u64> = self.0.range(pages).map(|(&page, _)| page).collect();
                let is_zero = kind == MapKind::Map && is_anonymous;
                for page in gone {
                    match is_zero {
                        true => self.0.insert(page, Box::new([Some(0); PAGE_SIZE])),
                        false => self.0.remove(&page),
                    };
                }
            }
            MapKind::Move => {
                for page in pages.step_by(PAGE_SIZE) {
                    match self.0.remove(&(page - start + from)) {
                        Some(moved) => self.0.insert(page, moved),
                        None => self.0.remove(&page),
                    };
                }
            }
        }
    }
}

/// What a page of the address space is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedPage {
    prot: u32,
    flags: u32,
    file: Option<PathBuf>,
    offset: u64,
    since: u64,
}

/// Pages of the address space, by address.
pub type Mapped = BTreeMap<u64, MappedPage>;

/// The address space at a time, page by page. A forked process says at its start which of its parent's pages it has.
pub fn mapped_at(
    replayer: &Replayer,
    oracles: &HashMap<u64, Oracle>,
    log: u64,
    time: u64,
) -> Mapped {
    let (mut files, mut parent) = (HashMap::new(), None);
    let visit = |_, event: &Event<'_>| {
        match *event {
            Event::File { number, path, .. } => {
                files.insert(number + 1, PathBuf::from(String::from_utf8_lossy(path).into_owned()));
            }
            Event::Inherit { log, time } => parent = Some((log, time)),
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    };
    let _ = replayer.recording().for_each_event(log, Stream::Code, visit).unwrap();
    let parents = match parent {
        // A parent that is not indexed that far cannot be asked.
        Some((log, time)) if oracles.get(&log).is_some_and(|parent| time <= parent.end) => {
            mapped_at(replayer, oracles, log, time)
        }
        _ => Mapped::new(),
    };
    let start_of_process = replayer.intervals(log).unwrap()[0].start;
    let mut mapped = Mapped::new();
    for (_, row) in oracles[&log].rows.iter().take_while(|(_, row)| row.time <= time) {
        let Row::Map { kind, start, len, prot, flags, file, offset } = row.row else { continue };
        let pages = (start / PAGE * PAGE..(start + len).next_multiple_of(PAGE)).step_by(PAGE_SIZE);
        for page in pages {
            match kind {
                MapKind::Discard => {}
                MapKind::Unmap => drop(mapped.remove(&page)),
                MapKind::Protect => {
                    if let Some(known) = mapped.get_mut(&page) {
                        known.prot = prot;
                    }
                }
                MapKind::Map => {
                    let (file, since) = (files.get(&file).cloned(), row.time);
                    let offset = offset + (page - start);
                    let told = MappedPage { prot, flags, file, offset, since };
                    let inherited = parents.get(&page).filter(|_| since == start_of_process);
                    mapped.insert(
                        page,
                        match inherited {
                            Some(inherited) => MappedPage { since, ..inherited.clone() },
                            None => told,
                        },
                    );
                }
                MapKind::Move => {
                    mapped.remove(&page);
                    if let Some(moved) = mapped.remove(&(page - start + offset)) {
                        mapped.insert(page, MappedPage { since: row.time, ..moved });
                    }
                }
            }
        }
    }
    mapped
}

/// The same of an answer.
pub fn pages_of(mappings: &[Mapping]) -> Mapped {
    let mut mapped = Mapped::new();
    for mapping in mappings {
        for page in (mapping.start..mapping.end).step_by(PAGE_SIZE) {
            let known = MappedPage {
                prot: mapping.prot,
                flags: mapping.flags,
                file: mapping.file.as_ref().map(|path| PathBuf::clone(path)),
                offset: mapping.offset + (page - mapping.start),
                since: mapping.since,
            };
            assert!(mapped.insert(page, known).is_none(), "mappings overlap: {mappings:x?}");
        }
    }
    mapped
}
