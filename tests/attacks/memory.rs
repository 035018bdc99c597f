//! A few bytes that stand for gigabytes.

use std::fs;

use retro_abi::log::Event;
use retro_testkit::compare::{Ending, Outcome, run};

use crate::forged::{Forged, LOOP, chunk};
use crate::place::{Place, TIMEOUT, assert_refused, most_memory, printed, retro_path, said};

/// What retro may take for a recording in these tests.
const BUDGET: &str = "256M";

/// What it takes besides, and some.
const MOST: u64 = 700 << 20;

fn within_budget(place: &Place, arguments: &[&str]) -> Outcome {
    run(place.command(retro_path()).args(arguments).env("RETRO_MEMORY", BUDGET), TIMEOUT)
}

/// What a process that was taken over says any number of times, while an index is built.
#[track_caller]
fn flood(kind: &str, macros: &[&str], words: &[&str]) {
    let place = Place::new("flood");
    let mut all = vec![format!("FLOOD={kind}"), "LENGTH=64".to_owned()];
    all.extend(macros.iter().map(|text| text.to_string()));
    place.hostile("talk", &all.iter().map(String::as_str).collect::<Vec<_>>());
    let outcome = within_budget(&place, &["index", "recording"]);
    let said = said(&outcome);
    assert!(!said.contains("panicked"), "{said}");
    assert_eq!(outcome.status, Ending::Exited(1), "{said}");
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
    assert!(most_memory() < MOST, "{} MiB", most_memory() >> 20);
    place.assert_unharmed();
}

#[test]
fn descriptions_of_blocks_without_end() {
    flood("TELL_BLOCK", &["WHILE_RUNNING"], &["the replay process crashed"]);
}

#[test]
fn pages_without_end() {
    flood("TELL_WRITTEN", &[], &[]);
}

#[test]
fn cleared_ranges_without_end() {
    flood("TELL_CLEARED", &[], &[]);
}

#[test]
fn counts_without_end() {
    flood("TELL_COUNTS", &["WHILE_RUNNING"], &["the replay process crashed"]);
}

#[test]
fn calls_without_end() {
    flood("TELL_STREAM", &["WHILE_RUNNING"], &["the replay process crashed"]);
}

#[test]
fn samples_that_nobody_asked_for() {
    flood("TELL_SAMPLES", &["WHILE_RUNNING"], &["the replay process crashed"]);
}

#[test]
fn questions_for_memory_that_it_has() {
    flood("TELL_NEED", &["WHILE_RUNNING"], &["the replay process crashed"]);
}

/// A log of zeroes compresses to a thousandth.
#[test]
fn a_log_that_becomes_a_thousand_times_larger() {
    let place = Place::new("log-bomb");
    let zeroes = vec![0u8; 30_000];
    let events: Vec<(u64, Event)> = (0..8)
        .map(|index| (1000, Event::Write { address: 0x2000_0000 + index * 30_000, bytes: &zeroes }))
        .collect();
    let bytes = chunk(1000, &events);
    Forged { more: vec![(1000, bytes); 1500], ..Forged::new(LOOP, 1000) }.write(&place.recording());
    let size = fs::metadata(place.recording().join("log")).unwrap().len();
    assert!(size < 2 << 20, "{size}");
    for command in [&["verify", "recording"][..], &["bt", "-r", "recording"]] {
        let outcome = within_budget(&place, command);
        assert_refused(&outcome, &["more memory than the 256 MiB", "RETRO_MEMORY"]);
    }
    assert!(most_memory() < MOST, "{} MiB", most_memory() >> 20);
    // With more of it, it can be looked at.
    let outcome = run(
        place.command(retro_path()).args(["verify", "recording"]).env("RETRO_MEMORY", "2G"),
        TIMEOUT,
    );
    assert!(!said(&outcome).contains("memory"), "{}", said(&outcome));
}

/// Debug information of some kilobytes that becomes gigabytes.
#[test]
fn debug_information_that_becomes_gigabytes() {
    let place = Place::new("dwarf-bomb");
    fs::write(
        place.path().join("bomb.s"),
        ".globl main\nmain: xor %eax,%eax\nret\n\
         .section .note.GNU-stack,\"\",@progbits\n\
         .section .debug_info,\"\",@progbits\n.zero 0x10000000\n\
         .section .debug_line,\"\",@progbits\n.zero 0x10000000\n",
    )
    .unwrap();
    let compress = "gcc bomb.s -o bomb && objcopy --compress-debug-sections=zlib bomb && \
                    test $(stat -c %s bomb) -lt 1000000 && rm bomb.s";
    let built = run(place.command("sh").args(["-c", compress]), TIMEOUT);
    assert_eq!(built.status, Ending::Exited(0), "{}", said(&built));
    let before = most_memory();
    let recorded = place.retro(&["record", "--quiet", "-o", "recording", "--", "./bomb"]);
    assert_eq!(recorded.status, Ending::Exited(0), "{}", said(&recorded));
    for command in [&["bt", "-r", "recording"][..], &["calls", "main", "-r", "recording"]] {
        let outcome = within_budget(&place, command);
        assert!(!said(&outcome).contains("panicked"), "{}", said(&outcome));
        assert!(
            said(&outcome).contains("takes too much memory"),
            "{command:?}: {} {}",
            said(&outcome),
            printed(&outcome)
        );
    }
    // Building it took more than looking at it may.
    assert!(most_memory() <= before.max(MOST), "{} MiB", most_memory() >> 20);
}
