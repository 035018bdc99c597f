//! Builds that were cut short, and files that are not what was written.

use std::fs;

use proptest::prelude::*;
use retro_index::call_tree::{CallTree, CallTreeWriter, Columns, Error, PAGE, ThreadCalls};
use retro_index::frames::HEAD_SIZE;
use retro_recording::NamedFile;
use tempfile::tempdir;

use crate::oracle::Oracle;
use crate::runs::{Chance, Happening, Shape, interleaved, messy, orderly, write};

fn mixed_run(chance: &mut Chance) -> Vec<Happening> {
    let threads = [
        (0, messy(2000, chance)),
        (1, orderly(Shape::Wandering, 3000 + PAGE as u64, chance)),
        (2, orderly(Shape::Recursion, 5000, chance)),
    ];
    interleaved(&threads, 1500, chance)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The writer is lost at random moments, in the middle of windows, and each time goes on from its last commit.
    #[test]
    fn builds_go_on(seed in any::<u64>(), callees: bool) {
        let chance = &mut Chance::new(seed);
        let run = mixed_run(chance);
        let place = tempdir().unwrap();
        let named = NamedFile::at(&place.path().join("calls")).unwrap();
        let columns = Columns { callees };
        let mut writer = CallTreeWriter::create(&named, columns).unwrap();
        let mut committed = HEAD_SIZE;
        let last = run.last().map_or(0, |last| last.window);
        while writer.windows() <= last {
            let window = writer.windows();
            let start = run.partition_point(|happening| happening.window < window);
            let end = run.partition_point(|happening| happening.window <= window);
            if chance.below(8) == 0 {
                write(&mut writer, &run[start..start + chance.below((end - start) as u64) as usize]).unwrap();
                drop(writer);
                writer = CallTreeWriter::reopen(&named, committed, columns).unwrap();
                continue;
            }
            write(&mut writer, &run[start..end]).unwrap();
            writer.end_window().unwrap();
            if chance.below(4) == 0 {
                committed = writer.commit().unwrap();
            }
        }
        let committed = writer.commit().unwrap();
        let tree = CallTree::open(&named, committed).unwrap();
        for thread in 0..4 {
            Oracle::new(&run, thread).check(&tree, 20, chance)?;
        }
    }

    /// A reader sees what was complete at its commit, whatever is written after it.
    #[test]
    fn earlier_commits_stay_readable(seed in any::<u64>()) {
        let chance = &mut Chance::new(seed);
        let run = mixed_run(chance);
        let place = tempdir().unwrap();
        let named = NamedFile::at(&place.path().join("calls")).unwrap();
        let mut writer = CallTreeWriter::create(&named, Columns::default()).unwrap();
        let middle = run.partition_point(|happening| happening.window < run[run.len() / 2].window);
        write(&mut writer, &run[..middle]).unwrap();
        writer.end_window().unwrap();
        let committed = writer.commit().unwrap();
        write(&mut writer, &run[middle..]).unwrap();
        writer.end_window().unwrap();
        writer.commit().unwrap();
        let tree = CallTree::open(&named, committed).unwrap();
        for thread in 0..3 {
            Oracle::new(&run[..middle], thread).check(&tree, 10, chance)?;
        }
    }
}

#[test]
fn other_columns_are_refused() {
    let place = tempdir().unwrap();
    let named = NamedFile::at(&place.path().join("calls")).unwrap();
    let mut writer = CallTreeWriter::create(&named, Columns::default()).unwrap();
    writer.end_window().unwrap();
    let committed = writer.commit().unwrap();
    let reopened = CallTreeWriter::reopen(&named, committed, Columns { callees: true });
    assert!(matches!(reopened, Err(Error::OtherColumns)));
}

#[test]
fn a_file_without_commits_is_empty() {
    let place = tempdir().unwrap();
    let named = NamedFile::at(&place.path().join("calls")).unwrap();
    drop(CallTreeWriter::create(&named, Columns::default()).unwrap());
    let tree = CallTree::open(&named, HEAD_SIZE).unwrap();
    assert_eq!((tree.windows(), tree.threads().count()), (0, 0));
    assert!(tree.thread(1).unwrap().is_none());
    CallTreeWriter::reopen(&named, HEAD_SIZE, Columns { callees: true }).unwrap();
}

/// A small file with nodes, and its committed length.
fn small_file(named: &NamedFile) -> u64 {
    let chance = &mut Chance::new(8);
    let mut writer = CallTreeWriter::create(named, Columns { callees: true }).unwrap();
    let threads = [
        (0, messy(3000, chance)),
        (1, orderly(Shape::Flat, 66 * PAGE as u64 + 77, chance)),
        (2, orderly(Shape::Rising, 3 * PAGE as u64, chance)),
    ];
    let run = interleaved(&threads, 50_000, chance);
    write(&mut writer, &run).unwrap();
    writer.end_window().unwrap();
    writer.commit().unwrap()
}

/// Asks everything, and does not care for the answers.
fn ask_all(named: &NamedFile, committed: u64, chance: &mut Chance) -> Result<(), Error> {
    let tree = CallTree::open(named, committed)?;
    let threads: Vec<u32> = tree.threads().take(10).collect();
    for thread in threads {
        if let Ok(Some(calls)) = tree.thread(thread) {
            for _ in 0..3 {
                let any = chance.below(calls.len().saturating_add(1));
                ask(&calls, any, chance);
            }
            ask(&calls, calls.len(), chance);
        }
    }
    Ok(())
}

fn ask(calls: &ThreadCalls, position: u64, chance: &mut Chance) {
    let window = chance.below(100);
    let limit = chance.below(100) as i64 - 50;
    let _ = calls.is_open(position);
    let _ = calls.excess(position);
    let _ = calls.depth(position);
    let _ = calls.excess_bounds(position / 2..position);
    let _ = calls.find_close(position);
    let _ = calls.find_open(position);
    let _ = calls.enclosing_calls(position).take(10).count();
    let _ = calls.next_at_or_below(position, limit);
    let _ = calls.previous_at_or_below(position, limit);
    let _ = calls.children(position);
    let _ = calls.child(position, window);
    let _ = calls.rank_open(position);
    let _ = calls.select_open(position / 2);
    let _ = calls.time_bounds(position);
    let _ = calls.positions_before(position);
    let _ = calls.parentheses_before(window);
    let _ = calls.window_of(position);
    let _ = calls.matcher_at(window);
    let _ = calls.callee(position);
    let _ = calls.find_call_of(0x40_0010, position / 2..position, 3);
}

#[test]
fn flipped_bytes_are_harmless() {
    let place = tempdir().unwrap();
    let named = NamedFile::at(&place.path().join("calls")).unwrap();
    let committed = small_file(&named);
    let good = fs::read(named.path()).unwrap();
    let chance = &mut Chance::new(9);
    for _ in 0..300 {
        let mut bad = good.clone();
        let place = if chance.below(2) == 0 {
            chance.below(committed)
        } else {
            committed - 1 - chance.below(3000)
        };
        bad[place as usize] ^= 1 << chance.below(8);
        fs::write(named.path(), &bad).unwrap();
        let _ = ask_all(&named, committed, chance);
        let _ = CallTreeWriter::reopen(&named, committed, Columns { callees: true }).map(
            |mut writer| {
                let _ = writer.call(1, u64::MAX, 0x1000, 0);
            },
        );
    }
}

#[test]
fn torn_files_are_refused() {
    let place = tempdir().unwrap();
    let named = NamedFile::at(&place.path().join("calls")).unwrap();
    let committed = small_file(&named);
    let good = fs::read(named.path()).unwrap();
    let chance = &mut Chance::new(10);
    for _ in 0..100 {
        let length = chance.below(committed);
        fs::write(named.path(), &good[..length as usize]).unwrap();
        assert!(ask_all(&named, committed, chance).is_err());
        // A length that was never committed.
        let _ = ask_all(&named, length, chance);
    }
}

/// Frames with nonsense in them that pass their checksums.
#[test]
fn nonsense_is_harmless() {
    let place = tempdir().unwrap();
    let named = NamedFile::at(&place.path().join("calls")).unwrap();
    let committed = small_file(&named);
    let good = fs::read(named.path()).unwrap();
    let frames = frames_of(&good);
    assert!(frames.len() > 70);
    let chance = &mut Chance::new(11);
    for round in 0..1500u64 {
        let mut bad = good.clone();
        for _ in 0..=chance.below(3) {
            // Mostly heads and directories, at the end.
            let back =
                if round % 2 == 0 { chance.below(8) } else { chance.below(frames.len() as u64) };
            let (start, length) = frames[frames.len() - 1 - back as usize];
            if length > 0 {
                // Fields are at both ends, bits in between.
                let place = if chance.below(2) == 0 {
                    chance.below(length.min(30) as u64)
                } else {
                    chance.below(length as u64)
                };
                bad[start + 9 + place as usize] = chance.below(256) as u8;
                sign(&mut bad, start, length);
            }
        }
        fs::write(named.path(), &bad).unwrap();
        let _ = ask_all(&named, committed, chance);
        if let Ok(mut writer) = CallTreeWriter::reopen(&named, committed, Columns { callees: true })
        {
            let _ = writer.call(1, u64::MAX, 0x1000, 0);
            let _ = writer.end_window();
            let _ = writer.commit();
        }
    }
}

/// Where the frames of a file begin, and how long their contents are.
fn frames_of(file: &[u8]) -> Vec<(usize, usize)> {
    let mut frames = Vec::new();
    let mut start = HEAD_SIZE as usize;
    while let Some(length) = file.get(start..).and_then(|rest| rest.first_chunk::<4>()) {
        let length = u32::from_le_bytes(*length) as usize;
        frames.push((start, length));
        start += 9 + length;
    }
    frames
}

fn sign(file: &mut [u8], start: usize, length: usize) {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&(start as u64).to_le_bytes());
    hasher.update(&file[start..start + 5]);
    hasher.update(&file[start + 9..start + 9 + length]);
    file[start + 5..start + 9].copy_from_slice(&hasher.finalize().to_le_bytes());
}
