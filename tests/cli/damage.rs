//! Recordings that are not what they were: cut short, changed, or something else altogether. Whatever is in
//! the file, commands say what is wrong and show what is whole.

use std::fs;
use std::path::PathBuf;

use retro_testkit::compare::{Ending, assert_orderly};

use crate::store::Store;
use crate::text;

/// A store with one recording, and the bytes of its log.
fn recorded(name: &str) -> (Store, PathBuf, Vec<u8>) {
    let store = Store::new(name);
    let outcome = store.record(&["sh", "-c", "/bin/true; echo done"]);
    assert_eq!(outcome.status, Ending::Exited(0), "{}", text(&outcome.stderr));
    let log = store.root().join("sh-1/log");
    let bytes = fs::read(&log).unwrap();
    (store, log, bytes)
}

#[test]
fn a_log_that_is_cut_shows_what_is_left() {
    let (store, log, bytes) = recorded("damage-cut");
    let whole = store.output(["dump", "--json"]);
    let lengths = [0, 1, 7, 8, 63, 64, 65, 200, bytes.len() / 3, bytes.len() / 2, bytes.len() - 1];
    let mut shown_before = 0;
    for length in lengths {
        fs::write(&log, &bytes[..length]).unwrap();
        let what = format!("cut to {length}");
        for command in ["info", "dump", "pack"] {
            let outcome = store.retro([command, "sh-1"]);
            assert_orderly(&outcome, &what);
            assert_eq!(outcome.status, Ending::Exited(1), "{command} {what}");
        }
        let _ = fs::remove_file(store.directory().join("sh-1.retro"));
        let listed = store.json(["ls", "--json"]);
        assert!(listed[0]["damage"].is_string(), "{what}: {listed}");
        assert_ne!(listed[0]["state"], "finished", "{what}");
        let shown = text(&store.retro(["dump", "--json", "sh-1"]).stdout);
        assert!(shown.lines().all(|line| whole.lines().any(|known| known == line)), "{what}");
        assert!(shown.lines().count() >= shown_before, "{what}");
        shown_before = shown.lines().count();
    }
    assert!(shown_before > 100, "most is there when only the end is gone");
    fs::write(&log, &bytes).unwrap();
    assert_eq!(whole, store.output(["dump", "--json"]));
}

#[test]
fn a_changed_bit_is_found_wherever_it_is() {
    let (store, log, bytes) = recorded("damage-bits");
    assert_eq!(store.json(["info", "--check", "--json"])["damage"], serde_json::Value::Null);
    let positions = (0..64).chain((64..bytes.len()).step_by(bytes.len() / 40));
    for (index, position) in positions.enumerate() {
        let mut changed = bytes.clone();
        changed[position] ^= 1 << (index % 8);
        fs::write(&log, &changed).unwrap();
        let what = format!("bit {} of byte {position}", index % 8);
        let checked = store.retro(["info", "--check", "sh-1"]);
        assert_orderly(&checked, &what);
        assert_eq!(checked.status, Ending::Exited(1), "{what} was not noticed");
        // Only what is read is checked, and nothing wrong is shown.
        for options in [&["info", "sh-1"][..], &["dump", "sh-1"], &["dump", "sh-1", "--code"]] {
            assert_orderly(&store.retro(options), &what);
        }
        assert_orderly(&store.retro(["ls"]), &what);
    }
}

#[test]
fn what_follows_a_damaged_chunk_is_still_shown() {
    let store = Store::new("damage-middle");
    // Enough for several chunks.
    let script = "for i in $(seq 1 300); do read -r line < /proc/version; done; echo end";
    assert_eq!(store.record(&["bash", "-c", script]).status, Ending::Exited(0));
    let log = store.root().join("bash-1/log");
    let whole = store.output(["dump", "--json", "--log", "0"]);
    let mut bytes = fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&log, &bytes).unwrap();
    let both = [&["--log", "0"][..], &["--log", "0", "--code"]];
    let outcomes = both.map(|options| store.retro(["dump", "--json"].iter().chain(options)));
    let damaged = outcomes.iter().filter(|outcome| outcome.status == Ending::Exited(1)).count();
    if damaged == 0 {
        // It was in another process's log, or in a summary; `info --check` finds it all the same.
        assert_eq!(store.retro(["info", "--check"]).status, Ending::Exited(1));
        return;
    }
    for outcome in &outcomes {
        assert_orderly(outcome, "a bit in the middle");
    }
    let shown = text(&outcomes[0].stdout);
    assert!(shown.lines().count() <= whole.lines().count());
    assert_eq!(shown.lines().last(), whole.lines().last(), "the end is not damaged");
}

#[test]
fn a_damaged_pack_leaves_nothing_behind() {
    let (store, _, _) = recorded("damage-pack");
    assert_eq!(store.retro(["pack"]).status, Ending::Exited(0));
    let pack = store.directory().join("sh-1.retro");
    let bytes = fs::read(&pack).unwrap();
    let attempt = |changed: &[u8], what: &str| {
        fs::write(&pack, changed).unwrap();
        let outcome = store.retro(["unpack", "sh-1.retro", "-o", "unpacked"]);
        assert_orderly(&outcome, what);
        assert_eq!(outcome.status, Ending::Exited(1), "{what}");
        let into_store = store.retro(["unpack", "sh-1.retro"]);
        assert_eq!(into_store.status, Ending::Exited(1), "{what}");
        let left: Vec<_> =
            fs::read_dir(store.directory()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "{what}: {left:?}");
        assert_eq!(fs::read_dir(store.root()).unwrap().count(), 2, "{what}");
    };
    for length in [0, 1, 47, 48, 100, bytes.len() / 2, bytes.len() - 1] {
        attempt(&bytes[..length], &format!("cut to {length}"));
    }
    for position in (0..48).step_by(5).chain((48..bytes.len()).step_by(bytes.len() / 12)) {
        let mut changed = bytes.clone();
        changed[position] ^= 0x04;
        attempt(&changed, &format!("byte {position}"));
    }
    attempt(&[&bytes[..], b"more"].concat(), "bytes at the end");
    attempt(b"#!/bin/sh\necho no pack at all\n", "a script");
    let absent = store.retro(["unpack", "absent.retro"]);
    assert_eq!(absent.status, Ending::Exited(1));
    assert!(
        text(&absent.stderr).contains("absent.retro: No such file"),
        "{}",
        text(&absent.stderr)
    );
}

#[test]
fn what_is_no_recording_is_refused() {
    let (store, log, bytes) = recorded("damage-other");
    for (contents, what) in [
        (&b""[..], "nothing"),
        (
            b"a diary of mine, which is long enough to have room for a header of any kind you like",
            "text",
        ),
        (&[0xff; 4096], "ones"),
        (&[0; 4096], "zeroes"),
    ] {
        fs::write(&log, contents).unwrap();
        for command in ["info", "dump", "pack"] {
            let outcome = store.retro([command, "sh-1"]);
            assert_orderly(&outcome, what);
            assert_eq!(outcome.status, Ending::Exited(1), "{command}: {what}");
        }
        assert_eq!(store.json(["ls", "--json"])[0]["state"], "unreadable", "{what}");
    }
    // Another version: a recording all the same, which is not to be removed as something else.
    let mut other = bytes.clone();
    other[8] ^= 0x40;
    fs::write(&log, &other).unwrap();
    assert_eq!(store.retro(["info", "sh-1"]).status, Ending::Exited(1));
    assert_eq!(store.retro(["rm", "sh-1"]).status, Ending::Exited(0));
}
