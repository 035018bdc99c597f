//! What a name means may change between two looks at it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use retro_testkit::compare::Ending;

use crate::place::{PRECIOUS, Place, said};

/// How long each race is run.
const DURATION: Duration = Duration::from_secs(3);

/// Exchanges two names all the time while retro works on a recording, again and again.
fn race(place: &Place, one: &Path, other: &Path, commands: &[&[&str]]) -> u32 {
    let is_over = AtomicBool::new(false);
    let mut rounds = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let flags = RenameFlags::RENAME_EXCHANGE;
                let _ = renameat2(AT_FDCWD, one, AT_FDCWD, other, flags);
            }
        });
        let begun = Instant::now();
        while begun.elapsed() < DURATION {
            for command in commands {
                let outcome = place.retro(command);
                let is_orderly = matches!(outcome.status, Ending::Exited(0 | 1));
                assert!(is_orderly && !said(&outcome).contains("panicked"), "{}", said(&outcome));
            }
            rounds += 1;
        }
        is_over.store(true, Ordering::Relaxed);
    });
    rounds
}

/// The index is now a directory, now a link to the home directory.
#[test]
fn an_index_that_becomes_a_link() {
    let place = Place::new("race-index");
    place.honest();
    let (index, link) = (place.recording().join("index"), place.path().join("link"));
    fs::create_dir(&index).unwrap();
    symlink(place.home(), &link).unwrap();
    let rounds = race(
        &place,
        &index,
        &link,
        &[&["index", "recording"], &["index", "--rebuild", "recording"]],
    );
    assert!(rounds > 0);
    place.assert_unharmed();
}

/// A volume.
#[test]
fn a_volume_that_becomes_a_link() {
    let place = Place::new("race-volume");
    place.hostile("words", &["KIND=TELL_FAILED", r#"WORDS="owned""#]);
    let (volume, link) = (place.recording().join("index/0-0"), place.path().join("link"));
    fs::create_dir_all(&volume).unwrap();
    symlink(place.home(), &link).unwrap();
    race(&place, &volume, &link, &[&["index", "recording"]]);
    place.assert_unharmed();
}

/// The lock of a volume.
#[test]
fn a_lock_that_becomes_a_link() {
    let place = Place::new("race-lock");
    place.honest();
    let (lock, link) = (place.recording().join("index/0-0/lock"), place.path().join("link"));
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    fs::write(&lock, "").unwrap();
    symlink(place.victim(), &link).unwrap();
    race(&place, &lock, &link, &[&["index", "recording"], &["bt", "-r", "recording"]]);
    place.assert_unharmed();
}

/// The whole recording: what was opened stays what it is.
#[test]
fn a_recording_that_becomes_another_directory() {
    let place = Place::new("race-directory");
    place.honest();
    let other = place.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("log"), PRECIOUS).unwrap();
    fs::write(other.join("index"), PRECIOUS).unwrap();
    race(
        &place,
        &place.recording(),
        &other,
        &[&["index", "recording"], &["rm", "./recording/nothing"]],
    );
    let mine = if other.join("log").metadata().unwrap().len() == PRECIOUS.len() as u64 {
        other
    } else {
        place.recording()
    };
    for name in ["log", "index"] {
        assert_eq!(fs::read_to_string(mine.join(name)).unwrap(), PRECIOUS, "{name}");
    }
    assert_eq!(fs::read_dir(&mine).unwrap().count(), 2);
}
