//! All questions, about trees of all shapes and sizes.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use retro_index::call_tree::{CallTree, CallTreeWriter, Columns, PAGE};
use retro_recording::NamedFile;
use tempfile::tempdir;

use crate::oracle::Oracle;
use crate::runs::{Chance, Deed, Happening, SHAPES, Shape, interleaved, messy, orderly, write};

/// Writes a run, with a commit now and then, and asks about each of its threads.
fn check(
    run: &[Happening],
    columns: Columns,
    questions: u64,
    chance: &mut Chance,
) -> Result<(), TestCaseError> {
    let place = tempdir().unwrap();
    let named = NamedFile::at(&place.path().join("calls")).unwrap();
    let mut writer = CallTreeWriter::create(&named, columns).unwrap();
    for piece in run.chunk_by(|one, next| one.window == next.window) {
        write(&mut writer, piece).unwrap();
        writer.end_window().unwrap();
        if chance.below(10) == 0 {
            writer.commit().unwrap();
        }
    }
    let committed = writer.commit().unwrap();
    let tree = CallTree::open_with_cache(&named, committed, 200_000).unwrap();
    prop_assert_eq!(tree.windows(), run.last().map_or(0, |last| last.window + 1));
    prop_assert_eq!(tree.columns(), columns);
    for thread in 0..4 {
        let oracle = Oracle::new(run, thread);
        oracle.check(&tree, questions, chance)?;
        if columns.callees {
            oracle.check_callees(&tree, chance)?;
        }
    }
    Ok(())
}

fn one_thread(deeds: Vec<Deed>, window_length: u64, chance: &mut Chance) -> Vec<Happening> {
    interleaved(&[(1, deeds)], window_length, chance)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn orderly_threads(
        seed in any::<u64>(),
        shape in 0usize..5,
        length in 0u64..3000,
        window_length in 1u64..2000,
        callees: bool,
    ) {
        let chance = &mut Chance::new(seed);
        let mut threads = Vec::new();
        for thread in 0..3u32 {
            let shape = SHAPES[(shape + thread as usize) % SHAPES.len()];
            threads.push((thread, orderly(shape, length / u64::from(1 + thread), chance)));
        }
        let run = interleaved(&threads, window_length, chance);
        check(&run, Columns { callees }, 30, chance)?;
    }

    #[test]
    fn messy_threads(seed in any::<u64>(), length in 0u64..3000, window_length in 1u64..300, callees: bool) {
        let chance = &mut Chance::new(seed);
        let threads = [(0, messy(length, chance)), (2, messy(length / 3, chance))];
        let run = interleaved(&threads, window_length, chance);
        check(&run, Columns { callees }, 30, chance)?;
    }

    #[test]
    fn several_pages(seed in any::<u64>(), shape in 0usize..5, window_length in 1u64..20_000) {
        let chance = &mut Chance::new(seed);
        let length = PAGE as u64 * chance.below(4) + chance.below(3);
        let run = one_thread(orderly(SHAPES[shape], length, chance), window_length, chance);
        check(&run, Columns { callees: true }, 10, chance)?;
    }
}

#[test]
fn orderly_deeds_are_one_parenthesis_each() {
    let chance = &mut Chance::new(3);
    for shape in SHAPES {
        let deeds = orderly(shape, 10_001, chance);
        let run = one_thread(deeds, 100, chance);
        assert_eq!(Oracle::new(&run, 1).len(), 10_001, "{shape:?}");
    }
}

#[test]
fn several_levels() {
    let chance = &mut Chance::new(4);
    for shape in [Shape::Wandering, Shape::Flat] {
        // Two full nodes of pages, some pages, and a part of one.
        let length = 2 * 64 * PAGE as u64 + 5 * PAGE as u64 + 1234;
        let run = one_thread(orderly(shape, length, chance), 100_000, chance);
        check(&run, Columns::default(), 20, chance).unwrap();
    }
}

#[test]
fn deep_recursion() {
    let chance = &mut Chance::new(5);
    let run = one_thread(orderly(Shape::Recursion, 2_000_000, chance), 50_000, chance);
    check(&run, Columns::default(), 10, chance).unwrap();
}

#[test]
fn many_ask_at_once() {
    let chance = &mut Chance::new(7);
    let run = one_thread(orderly(Shape::Wandering, 5 * PAGE as u64, chance), 10_000, chance);
    let place = tempdir().unwrap();
    let named = NamedFile::at(&place.path().join("calls")).unwrap();
    let mut writer = CallTreeWriter::create(&named, Columns::default()).unwrap();
    write(&mut writer, &run).unwrap();
    writer.end_window().unwrap();
    let tree = CallTree::open_with_cache(&named, writer.commit().unwrap(), 10_000).unwrap();
    let oracle = Oracle::new(&run, 1);
    std::thread::scope(|scope| {
        for seed in 0..8 {
            let (tree, oracle) = (&tree, &oracle);
            scope.spawn(move || oracle.check(tree, 20, &mut Chance::new(seed)).unwrap());
        }
    });
}

#[test]
fn many_threads_are_not_all_kept_in_memory() {
    let chance = &mut Chance::new(6);
    let place = tempdir().unwrap();
    let named = NamedFile::at(&place.path().join("calls")).unwrap();
    let mut writer = CallTreeWriter::create(&named, Columns { callees: true }).unwrap();
    let deeds = orderly(Shape::Wandering, 60, chance);
    let mut run = Vec::new();
    for (window, deeds) in deeds.chunks(20).enumerate() {
        for thread in 0..1000 {
            let happening =
                |&deed| Happening { window: window as u64, thread, time: window as u64, deed };
            run.extend(deeds.iter().map(happening));
        }
    }
    for window in run.chunk_by(|one, next| one.window == next.window) {
        for thread in window.chunks(2000) {
            write(&mut writer, thread).unwrap();
        }
        writer.end_window().unwrap();
        writer.commit().unwrap();
        // Commits without windows in between change nothing.
        writer.commit().unwrap();
    }
    let committed = writer.commit().unwrap();
    let tree = CallTree::open(&named, committed).unwrap();
    assert!(tree.threads().eq(0..1000));
    for thread in [0, 500, 999] {
        let oracle = Oracle::new(&run, thread);
        assert_eq!(tree.thread(thread).unwrap().unwrap().len(), oracle.len());
        assert_eq!(oracle.len(), 60);
    }
}

#[test]
fn times_and_windows_are_in_order() {
    let place = tempdir().unwrap();
    let mut writer = CallTreeWriter::create(
        &NamedFile::at(&place.path().join("calls")).unwrap(),
        Columns::default(),
    )
    .unwrap();
    writer.call(1, 10, 0x1000, 0).unwrap();
    assert!(writer.returned(1, 9, 0x1000).unwrap_err().to_string().contains("time 9"));
    assert!(writer.commit().unwrap_err().to_string().contains("window 0"));
    writer.end_window().unwrap();
    writer.commit().unwrap();
}
