//! Recordings and stores that are not this user's own.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use retro_testkit::compare::{Ending, Outcome, run};

use crate::forged::{Forged, LOOP};
use crate::place::{Place, TIMEOUT, assert_refused, is_root, printed, retro_path, said};

/// The user that nobody is.
const NOBODY: u32 = 65534;

fn give_to_nobody(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        for entry in fs::read_dir(path).unwrap() {
            give_to_nobody(&entry.unwrap().path());
        }
    }
}

/// The same without following links.
fn give_to_nobody_itself(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        std::os::unix::fs::lchown(entry.unwrap().path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    chown(directory, Some(NOBODY), Some(NOBODY)).unwrap();
}

/// Runs retro as another user, whose home is `home`.
fn as_nobody(place: &Place, home: &Path, arguments: &[&str]) -> Outcome {
    let mut command = place.command("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    command.arg(retro_path()).args(arguments).env("HOME", home);
    run(&mut command, TIMEOUT)
}

/// A home of the other user's, which he can get to.
fn home_of_nobody(place: &Place) -> PathBuf {
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let home = place.path().join("nobody");
    fs::create_dir(&home).unwrap();
    give_to_nobody(&home);
    home
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// What was unpacked is only read: its index is in the store, and goes with the recording.
#[test]
fn a_received_recording_is_only_read() {
    let place = Place::new("received");
    place.honest();
    assert_eq!(place.retro(&["pack", "recording", "-o", "p.retro"]).status, Ending::Exited(0));
    assert_eq!(place.retro(&["unpack", "p.retro"]).status, Ending::Exited(0));
    let received = place.store().join("p");
    assert_eq!(names(&received), ["files", "log", "received"]);
    for command in [&["index", "p"][..], &["goto", "end", "-r", "p"], &["info", "p", "--check"]] {
        let outcome = place.retro(command);
        assert_eq!(outcome.status, Ending::Exited(0), "{command:?}: {}", said(&outcome));
        assert_eq!(names(&received), ["files", "log", "received"], "{command:?}");
    }
    let annexes = place.store().join(".annex");
    assert_eq!(names(&annexes).len(), 1);
    let status = place.retro(&["index", "--status", "--json", "p"]);
    assert!(printed(&status).contains("\"complete\":true"), "{}", printed(&status));
    assert!(!printed(&place.retro(&["ls"])).contains(".annex"));
    assert_eq!(place.retro(&["rm", "p"]).status, Ending::Exited(0));
    assert!(names(&annexes).is_empty());
}

/// An index that a stranger has sent along is not believed.
#[test]
fn an_index_in_a_received_recording_is_not_used() {
    let place = Place::new("sent-index");
    place.honest();
    assert_eq!(place.retro(&["index", "recording"]).status, Ending::Exited(0));
    fs::write(place.recording().join("received"), "").unwrap();
    let status = place.retro(&["index", "--status", "--json", "recording"]);
    assert!(printed(&status).contains("\"indexed_intervals\":0"), "{}", printed(&status));
}

/// `retro import` copies a recording, and nothing else that lies beside it.
#[test]
fn importing_takes_what_a_recording_has() {
    let place = Place::new("import");
    place.honest();
    fs::create_dir(place.recording().join("index")).unwrap();
    symlink(place.victim(), place.recording().join("index/lock")).unwrap();
    fs::write(place.recording().join("run-me.sh"), "exit 1").unwrap();
    let outcome = place.retro(&["import", "recording"]);
    assert_eq!(outcome.status, Ending::Exited(0), "{}", said(&outcome));
    let imported = place.store().join("recording");
    assert_eq!(names(&imported), ["log", "received"]);
    assert_eq!(place.retro(&["bt", "-r", "recording"]).status, Ending::Exited(1));
    assert_eq!(place.retro(&["verify", imported.to_str().unwrap()]).status, Ending::Exited(0));
    assert_refused(&place.retro(&["import", "home"]), &["is not a recording"]);
    place.assert_unharmed();
}

/// The directory of another user's recording is not written to, also not by root.
#[test]
fn a_recording_of_another_user_is_only_read() {
    if !is_root("a recording of another user") {
        return;
    }
    let place = Place::new("foreign");
    place.honest();
    give_to_nobody(&place.recording());
    for command in [&["index", "recording"][..], &["goto", "end", "-r", "recording"]] {
        let outcome = place.retro(command);
        assert_eq!(outcome.status, Ending::Exited(0), "{command:?}: {}", said(&outcome));
    }
    assert_eq!(names(&place.recording()), ["log"]);
    assert_eq!(names(&place.store().join(".annex")).len(), 1);
}

/// The same the other way round: who may only read asks all the same, and has an index of his own.
#[test]
fn a_recording_that_cannot_be_written_to_can_be_asked() {
    if !is_root("a recording that another user reads") {
        return;
    }
    let place = Place::new("read-only");
    let home = home_of_nobody(&place);
    place.honest();
    for (path, mode) in [(place.recording(), 0o755), (place.recording().join("log"), 0o644)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let outcome = as_nobody(&place, &home, &["index", "recording"]);
    assert_eq!(outcome.status, Ending::Exited(0), "{}", said(&outcome));
    assert_eq!(names(&place.recording()), ["log"]);
    assert_eq!(names(&home.join(".local/share/retro/.annex")).len(), 1);
}

/// In a directory that others can write to, what is ours could become theirs.
#[test]
fn a_recording_that_others_can_write_to_is_only_read() {
    let place = Place::new("shared");
    place.honest();
    for mode in [0o777, 0o770, 0o1777] {
        fs::set_permissions(place.recording(), fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(place.retro(&["index", "recording"]).status, Ending::Exited(0));
        assert_eq!(names(&place.recording()), ["log"], "{mode:o}");
    }
}

fn with_store(place: &Place, store: &Path, arguments: &[&str]) -> Outcome {
    run(place.command(retro_path()).args(arguments).env("RETRO_DIR", store), TIMEOUT)
}

/// `$RETRO_DIR` of another user: nothing is put there.
#[test]
fn nothing_is_put_into_a_store_of_another_user() {
    if !is_root("a store of another user") {
        return;
    }
    let place = Place::new("foreign-store");
    let store = place.path().join("store");
    fs::create_dir(&store).unwrap();
    give_to_nobody(&store);
    let words = ["belongs to another user", "RETRO_DIR"];
    let recorded = with_store(&place, &store, &["record", "--", "true"]);
    assert_eq!(recorded.status, Ending::Exited(125), "{}", said(&recorded));
    assert!(words.iter().all(|word| said(&recorded).contains(word)), "{}", said(&recorded));
    place.honest();
    place.retro(&["pack", "recording", "-o", "p.retro"]);
    assert_refused(&with_store(&place, &store, &["unpack", "p.retro"]), &words);
    assert_refused(&with_store(&place, &store, &["import", "recording"]), &words);
    assert!(names(&store).is_empty());
}

/// In a directory that everybody can write to, another user can put his own recording in the place of ours. It is only read.
#[test]
fn a_recording_that_another_user_has_exchanged_is_only_read() {
    if !is_root("a directory of everybody's") {
        return;
    }
    let place = Place::new("exchanged");
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let recorded = place.retro(&["record", "--quiet", "-o", "recording", "--", "true"]);
    assert_eq!(recorded.status, Ending::Exited(0), "{}", said(&recorded));
    let forged = place.path().join("forged");
    Forged::new(LOOP, 1000).write(&forged);
    symlink(place.home(), forged.join("index")).unwrap();
    symlink(place.victim(), forged.join("notebook.json")).unwrap();
    give_to_nobody_itself(&forged);
    let exchange = ["--reuid=65534", "--clear-groups", "sh", "-c"];
    let mut command = place.command("setpriv");
    command.args(exchange).arg("mv recording aside && mv forged recording");
    assert_eq!(run(&mut command, TIMEOUT).status, Ending::Exited(0));
    for command in [&["index", "recording"][..], &["goto", "end", "-r", "recording"], &["info"]] {
        let outcome = place.retro(command);
        assert_eq!(outcome.status, Ending::Exited(0), "{command:?}: {}", said(&outcome));
        place.assert_unharmed();
    }
    assert_eq!(names(&place.recording()), ["index", "log", "notebook.json"]);
    assert_eq!(names(&place.store().join(".annex")).len(), 1);
}

/// The same for a store: what stands in its place belongs to another, and nothing is put there.
#[test]
fn a_store_that_another_user_has_exchanged_gets_nothing() {
    if !is_root("a directory of everybody's") {
        return;
    }
    let place = Place::new("exchanged-store");
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let store = place.path().join("store");
    let record = ["record", "--quiet", "--", "true"];
    assert_eq!(with_store(&place, &store, &record).status, Ending::Exited(0));
    let mut command = place.command("setpriv");
    command.args(["--reuid=65534", "--clear-groups", "sh", "-c"]);
    command.arg("mv store aside && mkdir -m 777 store && ln -s ../home store/.annex");
    assert_eq!(run(&mut command, TIMEOUT).status, Ending::Exited(0));
    let outcome = with_store(&place, &store, &record);
    assert_eq!(outcome.status, Ending::Exited(125), "{}", said(&outcome));
    assert!(said(&outcome).contains("belongs to another user"), "{}", said(&outcome));
    assert_eq!(names(&store), [".annex"]);
    place.assert_unharmed();
}

/// A store that everybody can write to.
#[test]
fn nothing_is_put_into_a_store_that_others_can_write_to() {
    let place = Place::new("shared-store");
    let store = place.path().join("store");
    fs::create_dir(&store).unwrap();
    for (mode, is_refused) in [(0o777, true), (0o770, true), (0o1777, false), (0o755, false)] {
        fs::set_permissions(&store, fs::Permissions::from_mode(mode)).unwrap();
        let outcome = with_store(&place, &store, &["record", "--quiet", "--", "true"]);
        assert_eq!(
            outcome.status == Ending::Exited(125),
            is_refused,
            "{mode:o}: {}",
            said(&outcome)
        );
        if is_refused {
            assert!(said(&outcome).contains("other users can write to"), "{}", said(&outcome));
            assert!(names(&store).is_empty());
        }
    }
}

/// `latest` is a link that this user has made, or it is not followed.
#[test]
fn a_link_of_another_user_is_not_the_latest_recording() {
    if !is_root("a link of another user") {
        return;
    }
    let place = Place::new("latest");
    place.honest();
    let store = place.path().join("store");
    fs::create_dir(&store).unwrap();
    fs::set_permissions(&store, fs::Permissions::from_mode(0o1777)).unwrap();
    let link = store.join("latest");
    symlink(place.recording(), &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(NOBODY), Some(NOBODY)).unwrap();
    for command in [&["info"][..], &["info", "latest"], &["verify"]] {
        let outcome = with_store(&place, &store, command);
        assert_refused(&outcome, &["`latest`", "belongs to another user"]);
    }
    assert_eq!(with_store(&place, &store, &["info", "./recording"]).status, Ending::Exited(0));
}

/// `latest` may lead to what is no recording, or to nothing.
#[test]
fn a_link_to_something_else_is_no_recording() {
    let place = Place::new("latest-elsewhere");
    fs::create_dir_all(place.store()).unwrap();
    let link = place.store().join("latest");
    for target in [place.home(), place.victim(), PathBuf::from("/proc/self"), "nothing".into()] {
        let _ = fs::remove_file(&link);
        symlink(target, &link).unwrap();
        assert_refused(&place.retro(&["info"]), &["there is no latest recording"]);
    }
    // A directory that was made for it, with a log that is a link.
    let evil = place.path().join("evil");
    fs::create_dir(&evil).unwrap();
    symlink(place.victim(), evil.join("log")).unwrap();
    fs::remove_file(&link).unwrap();
    symlink(evil, &link).unwrap();
    assert_refused(&place.retro(&["info"]), &["a symbolic link"]);
    place.assert_unharmed();
}

/// Recordings hold what a program has read: nobody else sees them.
#[test]
fn another_user_reads_nothing() {
    if !is_root("reading as another user") {
        return;
    }
    let place = Place::new("private");
    let home = home_of_nobody(&place);
    let recorded = place.retro(&["record", "--quiet", "-o", "recording", "--", "true"]);
    assert_eq!(recorded.status, Ending::Exited(0));
    let outcome = as_nobody(&place, &home, &["info", "recording"]);
    assert_eq!(outcome.status, Ending::Exited(1), "{}", printed(&outcome));
    // It does not even see that there is a log.
    assert!(said(&outcome).contains("recording"), "{}", said(&outcome));
    let reading = place
        .command("setpriv")
        .args(["--reuid=65534", "--clear-groups", "cat", "recording/log"])
        .output();
    assert!(!reading.unwrap().status.success());
}

/// A recording of another user that takes over its replay is as harmless as any other.
#[test]
fn a_hostile_recording_of_another_user_is_harmless_to_root() {
    if !is_root("replaying as root") {
        return;
    }
    let place = Place::new("to-root");
    place.hostile("one_call", &["CALL=NR_madvise", "A=0x20000000", "B=4096", "C=101", "D=0"]);
    give_to_nobody(&place.recording());
    assert_refused(&place.retro(&["verify", "recording"]), &["taken over", "signal 31"]);
    Forged::new(LOOP, 1000).write(&place.recording());
    place.assert_unharmed();
}
