//! Versions of pages against plain copies of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use proptest::prelude::*;
use retro_index::frames::FrameError;
use retro_index::page_versions::{
    Committed, KNOWN_SIZE, PAGE_SIZE, PageVersions, PageVersionsError, PageVersionsWriter,
};
use retro_index::set_tree::SetTreeError;
use retro_recording::Directory;
use tempfile::tempdir;

fn open(place: &tempfile::TempDir) -> Directory {
    Directory::open(place.path()).unwrap()
}

const CACHE: usize = 1 << 20;
const ALL_KNOWN: [u8; KNOWN_SIZE] = [0xff; KNOWN_SIZE];

/// Numbers that look random and are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 ^ self.0 >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 32) % limit
    }
}

#[derive(Clone, PartialEq)]
struct Page {
    bytes: [u8; PAGE_SIZE],
    known: [u8; KNOWN_SIZE],
}

/// What memory does: pages change, a little or much, become zero, are told though they did not change.
#[derive(Default)]
struct Memory {
    pages: BTreeMap<u64, Page>,
    /// The newest version of each window.
    versions: Vec<BTreeMap<u64, Page>>,
}

impl Memory {
    fn change(&mut self, random: &mut Random) -> (u64, &Page) {
        let number = if random.below(10) == 0 { random.below(1 << 40) } else { random.below(8) };
        let address = number * PAGE_SIZE as u64;
        let page = self.pages.entry(address).or_insert_with(|| {
            let known = if random.below(2) == 0 { 0xff } else { 0 };
            Page { bytes: [0; PAGE_SIZE], known: [known; KNOWN_SIZE] }
        });
        match random.below(12) {
            0 => page.bytes = [0; PAGE_SIZE],
            1 => page.bytes = std::array::from_fn(|_| random.below(256) as u8),
            2 => {}
            _ => {
                for _ in 0..1 + random.below(5) {
                    let at = random.below(PAGE_SIZE as u64) as usize;
                    page.bytes[at] = random.below(256) as u8;
                    page.known[at / 8] |= 1 << (at % 8);
                }
            }
        }
        let last = self.versions.last_mut().unwrap();
        last.insert(address, page.clone());
        (address, page)
    }

    fn add_window(&mut self, writer: &mut PageVersionsWriter, random: &mut Random) {
        let window = self.versions.len() as u32;
        self.versions.push(BTreeMap::new());
        if random.below(6) == 0 {
            return;
        }
        for _ in 0..random.below(9) {
            let (address, page) = self.change(random);
            writer.add(window, address, &page.bytes, &page.known).unwrap();
        }
    }

    fn forget_from(&mut self, window: u32) {
        self.versions.truncate(window as usize);
        self.pages.clear();
        for version in &self.versions {
            self.pages.extend(version.clone());
        }
    }

    fn at(&self, address: u64, window: u32) -> Option<&Page> {
        let until = self.versions.len().min(window as usize + 1);
        self.versions[..until].iter().rev().find_map(|version| version.get(&address))
    }

    fn check(&self, store: &PageVersions, random: &mut Random) {
        assert_eq!(store.windows() as usize, self.versions.len());
        for _ in 0..20 {
            let window = random.below(self.versions.len() as u64 + 2) as u32;
            let count = self.pages.len() as u64 + 1;
            let some = self.pages.keys().nth(random.below(count) as usize);
            let address = some.copied().unwrap_or(0x7_0000_0000);
            let found = store.page(address, window).unwrap();
            let found = found.map(|page| Page { bytes: *page.bytes, known: *page.known });
            assert!(found.as_ref() == self.at(address, window), "{address:#x} as of {window}");
            self.check_changed(store, window / 2, window);
        }
    }

    fn check_changed(&self, store: &PageVersions, from: u32, until: u32) {
        let told = self.versions.iter().take(until as usize).skip(from as usize);
        let told: BTreeSet<u64> = told.flat_map(|version| version.keys().copied()).collect();
        let changed = store.changed(from..until).unwrap();
        let changed: BTreeSet<u64> =
            changed.into_iter().flat_map(|run| run.step_by(PAGE_SIZE)).collect();
        // Pages that were told without having changed need no version.
        assert!(changed.is_subset(&told));
        for address in told.difference(&changed) {
            assert!(from > 0, "{address:#x} has no version");
            assert!(self.at(*address, from - 1) == self.at(*address, until - 1));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Commits anywhere; the process is killed at some of them, with more in the files than was committed.
    #[test]
    fn pages_are_what_they_were(seed: u64) {
        let place = tempdir().unwrap();
        let mut random = Random(seed);
        let mut memory = Memory::default();
        let mut writer = PageVersionsWriter::create(&open(&place)).unwrap();
        writer.limit_memory(if seed % 2 == 0 { 1 << 20 } else { 5 * PAGE_SIZE });
        for _ in 0..8 {
            for _ in 0..random.below(40) {
                memory.add_window(&mut writer, &mut random);
            }
            let windows = memory.versions.len() as u32;
            let committed = if random.below(3) == 0 {
                writer.finish(windows).unwrap()
            } else {
                writer.commit(windows).unwrap()
            };
            if windows == 0 {
                continue;
            }
            let store = PageVersions::open(&open(&place), committed, CACHE).unwrap();
            memory.check(&store, &mut random);
            if random.below(2) == 0 {
                for _ in 0..random.below(40) {
                    memory.add_window(&mut writer, &mut random);
                }
                writer.commit(memory.versions.len() as u32).unwrap();
                memory.forget_from(windows);
                writer = PageVersionsWriter::resume(&open(&place), committed).unwrap();
            }
            // A snapshot stays what it was, whatever is written meanwhile.
            memory.check(&store, &mut random);
        }
    }

    #[test]
    fn damage_is_an_error_or_harmless(seed: u64, flip in 1u8..) {
        let place = tempdir().unwrap();
        let mut random = Random(seed);
        let mut memory = Memory::default();
        let mut writer = PageVersionsWriter::create(&open(&place)).unwrap();
        for _ in 0..60 {
            memory.add_window(&mut writer, &mut random);
        }
        let committed = writer.finish(60).unwrap();
        let path = place.path().join("pages");
        let good = fs::read(&path).unwrap();
        for _ in 0..20 {
            let mut bad = good.clone();
            bad[random.below(good.len() as u64) as usize] ^= flip;
            fs::write(&path, &bad).unwrap();
            let Ok(store) = PageVersions::open(&open(&place), committed, CACHE) else { continue };
            for address in [0, 4096, 8192] {
                let window = random.below(60) as u32;
                match store.page(address, window) {
                    Ok(found) => {
                        let found = found.map(|page| Page { bytes: *page.bytes, known: *page.known });
                        prop_assert!(found.as_ref() == memory.at(address, window));
                    }
                    Err(PageVersionsError::Frames(FrameError::Damaged { .. })) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
        fs::write(&path, &good[..random.below(good.len() as u64) as usize]).unwrap();
        prop_assert!(PageVersions::open(&open(&place), committed, CACHE).is_err());
        prop_assert!(PageVersionsWriter::resume(&open(&place), committed).is_err());
    }
}

/// More pages in a window than fit in a batch, in no order, one of them twice.
#[test]
fn a_window_may_have_many_batches() {
    let place = tempdir().unwrap();
    let mut writer = PageVersionsWriter::create(&open(&place)).unwrap();
    let mut random = Random(9);
    let mut pages = BTreeMap::new();
    for _ in 0..300 {
        let address = random.below(200) * PAGE_SIZE as u64;
        let bytes: [u8; PAGE_SIZE] = std::array::from_fn(|_| random.below(256) as u8);
        writer.add(3, address, &bytes, &ALL_KNOWN).unwrap();
        pages.insert(address, bytes);
    }
    let committed = writer.commit(5).unwrap();
    let store = PageVersions::open(&open(&place), committed, CACHE).unwrap();
    assert_eq!(store.windows(), 5);
    for (address, bytes) in pages {
        assert!(store.page(address, 2).unwrap().is_none());
        let found = store.page(address, u32::MAX).unwrap().unwrap();
        assert_eq!((found.window, &*found.bytes, &*found.known), (3, &bytes, &ALL_KNOWN));
    }
}

#[test]
fn what_does_not_change_costs_next_to_nothing() {
    let place = tempdir().unwrap();
    let mut writer = PageVersionsWriter::create(&open(&place)).unwrap();
    for window in 0..1_000 {
        for page in 0..50 {
            writer.add(window, page * 4096, &[0; PAGE_SIZE], &ALL_KNOWN).unwrap();
            let bytes = &[page as u8; PAGE_SIZE];
            writer.add(window, (page + 100) * 4096, bytes, &ALL_KNOWN).unwrap();
        }
    }
    writer.finish(1_000).unwrap();
    assert!(writer.bytes() < 10_000, "{} bytes", writer.bytes());
}

#[test]
fn mistakes_are_refused() {
    let place = tempdir().unwrap();
    let mut writer = PageVersionsWriter::create(&open(&place)).unwrap();
    let bytes = &[1; PAGE_SIZE];
    writer.add(2, 0, bytes, &ALL_KNOWN).unwrap();
    let early = writer.add(1, 0, bytes, &ALL_KNOWN);
    assert!(matches!(early, Err(PageVersionsError::WindowOutOfOrder { window: 1, next: 2 })));
    let crooked = writer.add(2, 5, bytes, &ALL_KNOWN);
    assert!(matches!(crooked, Err(PageVersionsError::NotAPage(5))));
    let incomplete = writer.commit(2);
    assert!(matches!(incomplete, Err(PageVersionsError::WindowOutOfOrder { .. })));
    let first = writer.commit(3).unwrap();
    writer.add(3, 0, &[2; PAGE_SIZE], &ALL_KNOWN).unwrap();
    let second = writer.commit(4).unwrap();
    let mixed = Committed { contents: first.contents, changed: second.changed };
    let mixed = PageVersions::open(&open(&place), mixed, CACHE);
    assert!(matches!(mixed, Err(PageVersionsError::Inconsistent)));
    fs::write(place.path().join("changed-pages"), b"nonsense").unwrap();
    let nonsense = PageVersions::open(&open(&place), second, CACHE);
    assert!(matches!(nonsense, Err(PageVersionsError::Changed(SetTreeError::Frames(_)))));
}
