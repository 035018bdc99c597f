//! Many events at once give the same file as one after the other.

use std::fs;

use proptest::prelude::*;
use retro_index::call_tree::matching::REACH;
use retro_index::call_tree::{CallOrReturn, CallTreeWriter, Columns, PAGE};
use retro_recording::NamedFile;
use tempfile::tempdir;

use crate::runs::{Chance, Deed, Happening, SHAPES, interleaved, messy, orderly, write};

/// Events of one thread in one window that are reported with one time.
type Batch<'a> = &'a [Happening];

fn batches(run: &[Happening]) -> impl Iterator<Item = Batch<'_>> {
    run.chunk_by(|one, next| {
        (one.window, one.thread, one.time) == (next.window, next.thread, next.time)
    })
}

/// Gives all events of a thread in a window that follow each other one time, and calls no targets.
fn in_batches(run: &mut [Happening], chance: &mut Chance) {
    let mut last = run[0];
    for happening in run {
        let goes_on = (last.window, last.thread) == (happening.window, happening.thread);
        if goes_on && chance.below(300) > 0 {
            happening.time = last.time;
        }
        if let Deed::Call { target, .. } = &mut happening.deed {
            *target = 0;
        }
        last = *happening;
    }
}

fn event(happening: &Happening) -> CallOrReturn {
    match happening.deed {
        Deed::Call { slot, .. } => CallOrReturn::call(slot),
        Deed::Return { slot } => CallOrReturn::returned(slot),
    }
}

fn write_in_batches(writer: &mut CallTreeWriter, run: &[Happening]) {
    for batch in batches(run) {
        while writer.windows() < batch[0].window {
            writer.end_window().unwrap();
        }
        let events: Vec<CallOrReturn> = batch.iter().map(event).collect();
        writer.append(batch[0].thread, batch[0].time, &events).unwrap();
    }
}

/// The file that a run gives, with a commit in the middle.
fn file(
    named: &NamedFile,
    columns: Columns,
    run: &[Happening],
    write: impl Fn(&mut CallTreeWriter, &[Happening]),
) -> Vec<u8> {
    let middle = run.partition_point(|happening| happening.window < run[run.len() / 2].window);
    let mut writer = CallTreeWriter::create(named, columns).unwrap();
    for half in [&run[..middle], &run[middle..]] {
        write(&mut writer, half);
        writer.end_window().unwrap();
        writer.commit().unwrap();
    }
    drop(writer);
    fs::read(named.path()).unwrap()
}

/// A thread that is orderly for a while, then leaves frames, changes stacks, and has frames of all sizes.
fn mostly_orderly(length: u64, chance: &mut Chance) -> Vec<Deed> {
    let mut deeds = Vec::new();
    while (deeds.len() as u64) < length {
        let shape = SHAPES[chance.below(5) as usize];
        deeds.extend(orderly(shape, chance.below(2000), chance));
        deeds.extend(messy(chance.below(20), chance));
        deeds.extend(large_frames(chance.below(200), chance));
    }
    deeds
}

/// Frames at the limit of what belongs to a stack, and returns that miss them by little.
fn large_frames(length: u64, chance: &mut Chance) -> Vec<Deed> {
    let mut slots = vec![0x7100_0000_0000];
    let mut deeds = Vec::new();
    for _ in 0..length {
        let newest = slots[slots.len() - 1];
        let size = [0, 1, 8, 64, REACH - 8, REACH - 1, REACH, REACH + 1][chance.below(8) as usize];
        if chance.below(2) == 0 {
            slots.push(newest - size);
            deeds.push(Deed::Call { slot: newest - size, target: 0 });
        } else {
            deeds.push(Deed::Return { slot: newest + chance.below(20).saturating_sub(17) });
            if slots.len() > 1 {
                slots.pop();
            }
        }
    }
    deeds
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn batches_are_the_same_as_single_events(
        seed in any::<u64>(),
        length in 1u64..3 * PAGE as u64,
        window_length in 1u64..20_000,
        callees: bool,
    ) {
        let chance = &mut Chance::new(seed);
        let threads =
            [(0, mostly_orderly(length, chance)), (2, mostly_orderly(length / 10 + 1, chance))];
        let mut run = interleaved(&threads, window_length, chance);
        in_batches(&mut run, chance);
        let place = tempdir().unwrap();
        let columns = Columns { callees };
        let single = file(&NamedFile::at(&place.path().join("single")).unwrap(), columns, &run, |writer, run| {
            write(writer, run).unwrap()
        });
        let batched = file(&NamedFile::at(&place.path().join("batched")).unwrap(), columns, &run, write_in_batches);
        prop_assert!(single == batched);
    }
}

#[test]
fn no_events_change_nothing() {
    let place = tempdir().unwrap();
    let mut writer = CallTreeWriter::create(
        &NamedFile::at(&place.path().join("calls")).unwrap(),
        Columns::default(),
    )
    .unwrap();
    writer.append(1, 10, &[]).unwrap();
    // Not in the middle of a window.
    writer.commit().unwrap();
}
