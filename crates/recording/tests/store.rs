//! Names of recordings: making, finding, listing and removing them.

mod sample;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use retro_recording::{Error, Store, Writer};
use tempfile::tempdir;

fn record(store: &Store, name: &str, created_seconds: u64) -> String {
    let path = store.create(name).unwrap();
    let head = retro_recording::Head { created_seconds, ..sample::head() };
    Writer::create(&path, &head).unwrap();
    store.mark_latest(&path).unwrap();
    path.file_name().unwrap().to_str().unwrap().to_string()
}

fn names(store: &Store) -> Vec<(String, bool)> {
    let entries = store.list().unwrap();
    entries.into_iter().map(|entry| (entry.name, entry.latest)).collect()
}

#[test]
fn names_are_numbered_and_the_latest_is_known() {
    let place = tempdir().unwrap();
    let store = Store::at(place.path().join("deep/store"));
    assert_eq!(names(&store), []);
    assert_eq!(record(&store, "ls", 10), "ls-1");
    assert_eq!(record(&store, "ls", 20), "ls-2");
    assert_eq!(record(&store, "ls-2", 30), "ls-2-1");
    assert_eq!(record(&store, "a b", 5), "a_b-1");
    let expected = [("a_b-1", true), ("ls-1", false), ("ls-2", false), ("ls-2-1", false)];
    assert_eq!(names(&store), expected.map(|(name, latest)| (name.to_string(), latest)));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(store.root()), 0o700);
    assert_eq!(mode(&store.root().join("ls-1")), 0o700);
    let entry = &store.list().unwrap()[1];
    assert_eq!(entry.created.unwrap().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs(), 10);
    assert_eq!(entry.log_bytes, fs::metadata(entry.path.join("log")).unwrap().len());
}

#[test]
fn numbers_are_unique_among_recorders_that_start_together() {
    let place = tempdir().unwrap();
    let store = Store::at(place.path().join("store"));
    let mut paths: Vec<_> = std::thread::scope(|scope| {
        let make = || {
            (0..25)
                .map(|_| {
                    let path = store.create("ls").unwrap();
                    store.mark_latest(&path).unwrap();
                    path
                })
                .collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), 100);
    let leftovers = fs::read_dir(store.root())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'))
        .count();
    assert_eq!(leftovers, 0);
}

#[test]
fn recordings_are_found_by_path_by_name_and_as_the_latest() {
    let place = tempdir().unwrap();
    let store = Store::at(place.path().join("store"));
    let real = |path: &Path| fs::canonicalize(path).unwrap();
    record(&store, "ls", 10);
    record(&store, "ls", 20);
    assert_eq!(store.resolve(None).unwrap(), real(&store.root().join("ls-2")));
    assert_eq!(store.resolve(Some("latest")).unwrap(), real(&store.root().join("ls-2")));
    assert_eq!(store.resolve(Some("ls-1")).unwrap(), real(&store.root().join("ls-1")));

    let elsewhere = place.path().join("elsewhere");
    Writer::create(&elsewhere, &sample::head()).unwrap();
    assert_eq!(store.resolve(elsewhere.to_str()).unwrap(), elsewhere);
    store.mark_latest(&elsewhere).unwrap();
    assert_eq!(store.resolve(None).unwrap(), real(&elsewhere));
    assert!(store.list().unwrap().iter().all(|entry| !entry.latest));

    let error = store.resolve(Some("cat-1")).unwrap_err().to_string();
    assert!(error.contains("\"cat-1\"") && error.contains("ls-1, ls-2"), "{error}");
    let error = store.resolve(place.path().to_str()).unwrap_err();
    assert!(matches!(error, Error::NotARecording { .. }), "{error}");
    // A name does not lead out of the store.
    assert!(matches!(store.resolve(Some("../elsewhere")), Err(Error::Unknown { .. })));
}

#[test]
fn an_empty_store_says_so() {
    let place = tempdir().unwrap();
    let store = Store::at(place.path().join("store"));
    let error = store.resolve(None).unwrap_err().to_string();
    assert!(error.contains("no latest recording") && error.contains("retro record"), "{error}");
    assert!(matches!(store.remove("ls-1"), Err(Error::Unknown { .. })));
}

#[test]
fn removing_the_latest_makes_the_one_before_the_latest() {
    let place = tempdir().unwrap();
    let store = Store::at(place.path().join("store"));
    record(&store, "ls", 10);
    record(&store, "cat", 30);
    record(&store, "ls", 20);
    store.mark_latest(&store.root().join("cat-1")).unwrap();
    store.remove("ls-1").unwrap();
    assert!(store.resolve(None).unwrap().ends_with("cat-1"));
    store.remove("latest").unwrap();
    assert!(store.resolve(None).unwrap().ends_with("ls-2"));
    assert_eq!(names(&store), [("ls-2".to_string(), true)]);
    store.remove("ls-2").unwrap();
    assert!(fs::symlink_metadata(store.root().join("latest")).is_err());
    assert_eq!(names(&store), []);
}

#[test]
fn only_recordings_are_removed() {
    let place = tempdir().unwrap();
    let store = Store::at(place.path().join("store"));
    record(&store, "ls", 10);
    let root = store.root();

    let notes = root.join("ls-1/notes");
    fs::write(&notes, "mine").unwrap();
    let error = store.remove("ls-1").unwrap_err().to_string();
    assert!(error.contains("\"notes\""), "{error}");
    fs::remove_file(&notes).unwrap();

    let other = root.join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("log"), "a log of something else").unwrap();
    assert!(matches!(store.remove("other"), Err(Error::NotARecording { .. })));
    assert!(other.join("log").exists());

    let running = store.create("ls").unwrap();
    let writer = Writer::create(&running, &sample::head()).unwrap();
    assert!(matches!(store.remove("ls-2"), Err(Error::StillRunning(_))));
    drop(writer);
    store.remove("ls-2").unwrap();

    // What recorders that died early leave behind can go.
    store.create("early").unwrap();
    store.remove("early-1").unwrap();
    let path = store.create("early").unwrap();
    fs::write(path.join("log"), b"").unwrap();
    store.remove("early-1").unwrap();
    let path = store.create("early").unwrap();
    fs::write(path.join("log"), b"retro").unwrap();
    store.remove(path.to_str().unwrap()).unwrap();
    assert!(!path.exists());

    assert_eq!(names(&store).len(), 2);
    store.remove("ls-1").unwrap();
    assert!(!root.join("ls-1").exists());
}
