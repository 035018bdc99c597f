//! Damaged indexes: there may be errors, but neither panics nor wrong answers, and building again helps.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;

use crate::questions::{Scene, config, oracles, question};
use crate::recorded::{Recorded, windows_of};

/// Damages that are tried.
const DAMAGES: u32 = 150;

/// Questions that are asked of each damaged index.
const QUESTIONS: usize = 4;

/// What happens to a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip(Index, u8),
    Zero(Index, u8),
    Truncate(Index),
    Append(u8),
    Remove,
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        6 => (any::<Index>(), 0u8..8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        2 => (any::<Index>(), 1u8..200).prop_map(|(at, len)| Damage::Zero(at, len)),
        3 => any::<Index>().prop_map(Damage::Truncate),
        1 => any::<u8>().prop_map(Damage::Append),
        1 => Just(Damage::Remove),
    ]
}

impl Damage {
    /// None if the file is gone.
    fn apply(self, mut bytes: Vec<u8>) -> Option<Vec<u8>> {
        if bytes.is_empty() {
            return Some(bytes);
        }
        match self {
            Damage::Flip(at, bit) => *at.get_mut(&mut bytes) ^= 1 << bit,
            Damage::Zero(at, len) => {
                let at = at.index(bytes.len());
                let end = bytes.len().min(at + usize::from(len));
                bytes[at..end].fill(0);
            }
            Damage::Truncate(at) => bytes.truncate(at.index(bytes.len())),
            Damage::Append(byte) => bytes.extend([byte; 100]),
            Damage::Remove => return None,
        }
        Some(bytes)
    }
}

fn files_below(directory: PathBuf) -> Vec<PathBuf> {
    let (mut files, mut left) = (Vec::new(), vec![directory]);
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { left.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

#[test]
fn a_damaged_file_is_an_error_or_makes_no_difference() {
    let recorded = Recorded::guest("code_self_modify", &["--interval", "60k"]);
    let oracles = oracles(&recorded);
    let before = recorded.own_files();
    recorded.build(&windows_of(2_000)).unwrap();
    let scene = Scene::open(&recorded, &oracles);
    let files = files_below(recorded.index());
    let case = (any::<Index>(), damage(), prop::collection::vec(question(), QUESTIONS));
    let tried = TestRunner::new(config(DAMAGES)).run(&case, |(file, damage, questions)| {
        let path = file.get(&files);
        let whole = fs::read(path).unwrap();
        match damage.apply(whole.clone()) {
            Some(bytes) => fs::write(path, bytes).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
        let restore = Restore { path, whole };
        let damaged = scene.reopened_with_damage();
        questions.iter().for_each(|question| damaged.answer(question));
        drop(restore);
        Ok(())
    });
    tried.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(recorded.own_files(), before);
}

/// Puts a file back, whatever happens.
struct Restore<'a> {
    path: &'a PathBuf,
    whole: Vec<u8>,
}

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        let _ = fs::write(self.path, &self.whole);
    }
}

#[test]
fn a_damaged_volume_is_thrown_away_and_built_again() {
    let recorded = Recorded::guest("code_self_modify", &["--interval", "60k"]);
    let oracles = oracles(&recorded);
    recorded.build(&windows_of(2_000)).unwrap();
    for path in files_below(recorded.index()) {
        let mut bytes = fs::read(&path).unwrap();
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
        fs::write(path, bytes).unwrap();
    }
    let log = recorded.logs()[0];
    let error = recorded.open().process(log).unwrap_err();
    assert!(error.to_string().contains("build"), "says what to do: {error}");
    let before = recorded.own_files();
    recorded.discard_index();
    recorded.build(&windows_of(2_000)).unwrap();
    Scene::open(&recorded, &oracles).ask(20);
    assert_eq!(recorded.own_files(), before);
}

/// Questions that are asked of an index with a gap.
const GAP_QUESTIONS: u32 = 400;

#[test]
fn an_index_with_a_gap_has_right_answers_or_says_so() {
    for guest in ["code_self_modify", "thread_atomics"] {
        let recorded = Recorded::guest(guest, &["--interval", "60k"]);
        let oracles = oracles(&recorded);
        recorded.build(&windows_of(2_000)).unwrap();
        let scene = Scene::open(&recorded, &oracles);
        let volumes: Vec<PathBuf> = (fs::read_dir(recorded.index()).unwrap())
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_dir())
            .collect();
        assert!(volumes.len() > 2, "{guest} has too few intervals");
        // One in the middle.
        let gap = recorded.index().join(format!("{}-1", recorded.logs()[0]));
        fs::remove_dir_all(&gap).unwrap();
        let damaged = scene.reopened_with_damage();
        damaged.ask(GAP_QUESTIONS);
    }
}
