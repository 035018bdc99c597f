//! Trees of sets against plain maps, one for each window.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;

use proptest::prelude::*;
use retro_index::frames::FrameError;
use retro_index::set_tree::{KEY_LIMIT, Nth, SetKind, SetTree, SetTreeError, SetTreeWriter};
use retro_recording::NamedFile;
use tempfile::tempdir;

const CACHE: usize = 1 << 20;

/// Numbers that look random and are the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 ^ self.0 >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 32
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

type Window = BTreeMap<u64, u32>;

/// Keys that are hot, keys that are filled in rows, rare keys anywhere; now and then none at all.
fn windows(count: u32, random: &mut Random) -> Vec<Window> {
    let mut fill = 5_000;
    (0..count)
        .map(|_| {
            let mut window = Window::new();
            if random.below(8) == 0 {
                return window;
            }
            for _ in 0..random.below(12) {
                window.insert(1_000 + random.below(20), 1 + random.below(1_000_000) as u32);
            }
            for _ in 0..random.below(30) {
                window.insert(fill, 3);
                fill = 5_000 + (fill - 4_999) % 700;
            }
            for _ in 0..random.below(3) {
                let limit = KEY_LIMIT >> random.below(50);
                window.insert(random.below(limit), u32::MAX);
            }
            window
        })
        .collect()
}

fn append(writer: &mut SetTreeWriter, kind: SetKind, window: &Window) {
    match kind {
        SetKind::Plain => writer.append(window.keys().copied()).unwrap(),
        SetKind::Counted => {
            writer.append_counted(window.iter().map(|(&key, &count)| (key, count))).unwrap();
        }
    }
}

fn write(named: &NamedFile, kind: SetKind, windows: &[Window]) -> u64 {
    let mut writer = SetTreeWriter::create(named, kind).unwrap();
    for window in windows {
        append(&mut writer, kind, window);
    }
    writer.finish().unwrap()
}

/// Ranges that are likely to hit something, wholly or in part.
fn ranges(windows: &[Window], random: &mut Random) -> Vec<Range<u64>> {
    let mut ranges = Vec::new();
    for _ in 0..1 + random.below(3) {
        let start = match random.below(6) {
            0 => random.below(KEY_LIMIT),
            1 => 0,
            2 => 4_990 + random.below(800),
            3 => 990 + random.below(40),
            _ => {
                let window = &windows[random.below(windows.len() as u64) as usize];
                let keys: Vec<u64> = window.keys().copied().collect();
                if keys.is_empty() { 7 } else { keys[random.below(keys.len() as u64) as usize] }
            }
        };
        let length = match random.below(6) {
            0 => random.below(KEY_LIMIT),
            1 => random.below(50),
            _ => 1,
        };
        ranges.push(start..start + length);
    }
    ranges
}

fn occurrences(window: &Window, ranges: &[Range<u64>]) -> (bool, u64) {
    let counts: Vec<u64> = window
        .iter()
        .filter(|(key, _)| ranges.iter().any(|range| range.contains(key)))
        .map(|(_, &count)| count.into())
        .collect();
    (!counts.is_empty(), counts.iter().sum())
}

/// Asks everything, about some keys and from some window on.
fn check(tree: &SetTree, windows: &[Window], random: &mut Random) {
    let count = windows.len() as u32;
    assert_eq!(tree.windows(), count);
    let ranges = ranges(windows, random);
    let found: Vec<(bool, u64)> =
        windows.iter().map(|window| occurrences(window, &ranges)).collect();
    let at = random.below(u64::from(count) + 3) as u32;
    let cut = at.min(count);
    let hits = |part: Range<u32>| part.filter(|&window| found[window as usize].0);

    let before: Vec<u32> = hits(0..cut).rev().collect();
    let after: Vec<u32> = hits(cut..count).collect();
    let asked = tree.windows_before(at, &ranges[..]).collect::<Result<Vec<u32>, _>>();
    assert_eq!(asked.unwrap(), before, "before {at}: {ranges:?}");
    let asked = tree.windows_from(at, &ranges[..]).collect::<Result<Vec<u32>, _>>();
    assert_eq!(asked.unwrap(), after, "from {at}: {ranges:?}");
    assert_eq!(tree.last_before(at, &ranges[..]).unwrap(), before.first().copied());
    assert_eq!(tree.first_from(at, &ranges[..]).unwrap(), after.first().copied());
    let has = found.get(at as usize).is_some_and(|found| found.0);
    assert_eq!(tree.contains(at, &ranges[..]).unwrap(), has);
    check_keys(tree, windows, at, &ranges[0]);
    match tree.kind() {
        SetKind::Counted => {
            check_counts(tree, &found, at, &ranges, random);
            check_count_of_each(tree, windows, at, &ranges);
        }
        SetKind::Plain => {
            assert!(matches!(tree.count(0..at, 0..1), Err(SetTreeError::NotCounted)));
        }
    }
}

fn check_keys(tree: &SetTree, windows: &[Window], at: u32, range: &Range<u64>) {
    let counted = tree.kind() == SetKind::Counted;
    let keys: Vec<(u64, u32)> = windows
        .get(at as usize)
        .map(|window| window.range(range.clone()))
        .into_iter()
        .flatten()
        .map(|(&key, &count)| (key, if counted { count } else { 0 }))
        .collect();
    assert_eq!(tree.keys_of(at, range.clone()).unwrap(), keys);

    let from = at / 3;
    let some = windows.iter().take(at as usize).skip(from as usize);
    let union: BTreeMap<u64, ()> =
        some.flat_map(|window| window.range(range.clone())).map(|(&key, _)| (key, ())).collect();
    let runs = tree.union(from..at, range.clone()).unwrap();
    assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start), "{runs:?}");
    assert!(runs.into_iter().flatten().eq(union.into_keys()));
}

fn check_count_of_each(tree: &SetTree, windows: &[Window], at: u32, ranges: &[Range<u64>]) {
    let from = at / 3;
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for window in windows.iter().take(at as usize).skip(from as usize) {
        let asked = window.iter().filter(|(key, _)| ranges.iter().any(|range| range.contains(key)));
        for (&key, &count) in asked {
            *counts.entry(key).or_default() += u64::from(count);
        }
    }
    assert_eq!(tree.count_each(from..at, ranges).unwrap(), counts, "{from}..{at}: {ranges:?}");
}

fn check_counts(
    tree: &SetTree,
    found: &[(bool, u64)],
    at: u32,
    ranges: &[Range<u64>],
    random: &mut Random,
) {
    let from = random.below(u64::from(at) + 1) as u32;
    let part = found.iter().take(at as usize).skip(from as usize);
    let total: u64 = part.map(|found| found.1).sum();
    assert_eq!(tree.count(from..at, ranges).unwrap(), total, "{from}..{at}: {ranges:?}");

    let cut = at.min(found.len() as u32);
    let n = random.below(found.iter().map(|found| found.1).sum::<u64>() + 2);
    let asked = tree.nth_from(at, ranges, n).unwrap();
    assert_eq!(asked, nth(found, cut..found.len() as u32, n), "{n} from {at}: {ranges:?}");
    let asked = tree.nth_before(at, ranges, n).unwrap();
    assert_eq!(asked, nth(found, (0..cut).rev(), n), "{n} before {at}: {ranges:?}");
}

fn nth(found: &[(bool, u64)], windows: impl IntoIterator<Item = u32>, n: u64) -> Option<Nth> {
    let mut skipped = 0;
    for window in windows {
        let count = found[window as usize].1;
        if skipped + count > n {
            return Some(Nth { window, skipped });
        }
        skipped += count;
    }
    None
}

fn kind_of(counted: bool) -> SetKind {
    if counted { SetKind::Counted } else { SetKind::Plain }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_finished_tree_answers_like_the_sets(seed: u64, count in 0u32..700, counted: bool) {
        let place = tempdir().unwrap();
        let named = NamedFile::at(&place.path().join("tree")).unwrap();
        let mut random = Random(seed);
        let windows = windows(count, &mut random);
        let committed = write(&named, kind_of(counted), &windows);
        let tree = SetTree::open(&named, kind_of(counted), committed, CACHE).unwrap();
        for _ in 0..40 {
            if count > 0 {
                check(&tree, &windows, &mut random);
            }
        }
    }

    /// Commits anywhere; the process is killed at some of them, with more in the file than was committed.
    #[test]
    fn a_tree_can_be_resumed_at_every_commit(seed: u64, counted: bool) {
        let place = tempdir().unwrap();
        let named = NamedFile::at(&place.path().join("tree")).unwrap();
        let kind = kind_of(counted);
        let mut random = Random(seed);
        let windows = windows(400, &mut random);
        let mut writer = SetTreeWriter::create(&named, kind).unwrap();
        let mut next = 0;
        while next < windows.len() {
            let until = (next + random.below(60) as usize).min(windows.len());
            for window in &windows[next..until] {
                append(&mut writer, kind, window);
            }
            let killed = random.below(2) == 0;
            let finished = random.below(4) == 0;
            let committed = if finished { writer.finish() } else { writer.commit() }.unwrap();
            next = until;
            if next > 0 {
                let tree = SetTree::open(&named, kind, committed, CACHE).unwrap();
                check(&tree, &windows[..next], &mut random);
            }
            if killed {
                for window in &windows[next..windows.len().min(next + 40)] {
                    append(&mut writer, kind, window);
                }
                writer.commit().unwrap();
                writer = SetTreeWriter::resume(&named, kind, committed).unwrap();
                prop_assert_eq!(writer.windows() as usize, next);
            }
        }
        let committed = writer.finish().unwrap();
        let tree = SetTree::open(&named, kind, committed, CACHE).unwrap();
        for _ in 0..10 {
            check(&tree, &windows, &mut random);
        }
    }

    /// A flipped byte is found or does not matter, and a file that was cut cannot be opened.
    #[test]
    fn damage_is_an_error_or_harmless(seed: u64, counted: bool, flip in 1u8..) {
        let place = tempdir().unwrap();
        let named = NamedFile::at(&place.path().join("tree")).unwrap();
        let kind = kind_of(counted);
        let mut random = Random(seed);
        let windows = windows(80, &mut random);
        let committed = write(&named, kind, &windows);
        let good = fs::read(named.path()).unwrap();
        for _ in 0..20 {
            let mut bad = good.clone();
            bad[random.below(good.len() as u64) as usize] ^= flip;
            fs::write(named.path(), &bad).unwrap();
            let Ok(tree) = SetTree::open(&named, kind, committed, CACHE) else { continue };
            for key in [1_003, 5_100] {
                let truth = windows.iter().rposition(|window| window.contains_key(&key));
                match tree.last_before(80, key..key + 1) {
                    Ok(found) => prop_assert_eq!(found.map(|window| window as usize), truth),
                    Err(SetTreeError::Frames(FrameError::Damaged { .. })) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            let _ = SetTreeWriter::resume(&named, kind, committed);
        }
        fs::write(named.path(), &good[..random.below(good.len() as u64) as usize]).unwrap();
        prop_assert!(SetTree::open(&named, kind, committed, CACHE).is_err());
    }
}

/// At such numbers of windows, nodes at the end have a single child.
#[test]
fn a_tree_may_end_anywhere() {
    let place = tempdir().unwrap();
    let named = NamedFile::at(&place.path().join("tree")).unwrap();
    let mut random = Random(4);
    let windows = windows(4_400, &mut random);
    for count in [1, 16, 17, 32, 256, 257, 273, 512, 513, 4_096, 4_097, 4_352, 4_353] {
        let windows = &windows[..count];
        let committed = write(&named, SetKind::Counted, windows);
        let tree = SetTree::open(&named, SetKind::Counted, committed, CACHE).unwrap();
        for _ in 0..5 {
            check(&tree, windows, &mut random);
        }
        let every = tree.windows_from(0, 0..KEY_LIMIT).last().unwrap().unwrap();
        let truth = windows.iter().rposition(|window| !window.is_empty()).unwrap();
        assert_eq!(every, truth as u32);
    }
}

/// Four levels, and leaves that are full.
#[test]
fn a_large_tree_answers_like_the_sets() {
    let place = tempdir().unwrap();
    let named = NamedFile::at(&place.path().join("tree")).unwrap();
    let mut random = Random(3);
    let mut windows = windows(4_500, &mut random);
    for window in windows.iter_mut().step_by(100) {
        window.extend((0..6_000).map(|_| (random.below(1 << 20), 1)));
    }
    for kind in [SetKind::Plain, SetKind::Counted] {
        let committed = write(&named, kind, &windows);
        let tree = SetTree::open(&named, kind, committed, CACHE).unwrap();
        for _ in 0..60 {
            check(&tree, &windows, &mut random);
        }
    }
}

#[test]
fn runs_are_as_good_as_keys() {
    let place = tempdir().unwrap();
    let named = NamedFile::at(&place.path().join("tree")).unwrap();
    let mut writer = SetTreeWriter::create(&named, SetKind::Plain).unwrap();
    writer.append_runs([5..9, 9..12, 1 << 40..1 << 50]).unwrap();
    writer.append([5, 6, 7, 8]).unwrap();
    let committed = writer.finish().unwrap();
    let tree = SetTree::open(&named, SetKind::Plain, committed, CACHE).unwrap();
    assert_eq!(tree.runs_of(0, 0..KEY_LIMIT).unwrap(), [(5..12, 0), (1 << 40..1 << 50, 0)]);
    assert_eq!(tree.runs_of(1, 6..KEY_LIMIT).unwrap(), [(6..9, 0)]);
    assert_eq!(tree.last_before(2, 10..11).unwrap(), Some(0));
    let too_many = tree.keys_of(0, 0..KEY_LIMIT);
    assert!(matches!(too_many, Err(SetTreeError::TooManyKeys { .. })));
}

#[test]
fn bad_keys_leave_the_tree_as_it_was() {
    let place = tempdir().unwrap();
    let named = NamedFile::at(&place.path().join("tree")).unwrap();
    let mut writer = SetTreeWriter::create(&named, SetKind::Plain).unwrap();
    writer.append([1, 2]).unwrap();
    for bad in [vec![5, 3], vec![5, 5], vec![KEY_LIMIT], vec![u64::MAX]] {
        assert!(matches!(writer.append(bad), Err(SetTreeError::KeyOutOfOrder { .. })));
    }
    assert!(matches!(writer.append_counted([(1, 1)]), Err(SetTreeError::WrongKind)));
    writer.append([3]).unwrap();
    let committed = writer.finish().unwrap();
    let tree = SetTree::open(&named, SetKind::Plain, committed, CACHE).unwrap();
    assert_eq!(tree.keys_of(0, 0..KEY_LIMIT).unwrap(), [(1, 0), (2, 0)]);
    assert_eq!(tree.keys_of(1, 0..KEY_LIMIT).unwrap(), [(3, 0)]);
    let other = SetTree::open(&named, SetKind::Counted, committed, CACHE);
    assert!(matches!(other, Err(SetTreeError::Frames(FrameError::NotThisFile { .. }))));
}
