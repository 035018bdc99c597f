use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;

use nix::unistd::mkfifo;

use super::*;

fn scene() -> (tempfile::TempDir, Directory) {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("d")).unwrap();
    fs::write(place.path().join("outside"), "precious").unwrap();
    let directory = Directory::open(&place.path().join("d")).unwrap();
    (place, directory)
}

fn unfit(error: io::Error) -> Unfit {
    *error.get_ref().and_then(|inner| inner.downcast_ref::<Unfit>()).unwrap_or_else(|| {
        panic!("{error}");
    })
}

#[test]
fn names_are_one_component() {
    let (_place, directory) = scene();
    for name in ["", ".", "..", "../outside", "/etc/passwd", "a/b", "./x"] {
        assert_eq!(unfit(directory.file(name).unwrap_err()), Unfit::Path, "{name}");
        assert_eq!(unfit(directory.new_file(name).unwrap_err()), Unfit::Path, "{name}");
        assert_eq!(unfit(directory.replace(name, b"", false).unwrap_err()), Unfit::Path, "{name}");
        assert_eq!(unfit(directory.remove_all(name).unwrap_err()), Unfit::Path, "{name}");
        assert_eq!(unfit(directory.directory(name).unwrap_err()), Unfit::Path, "{name}");
    }
}

#[test]
fn nothing_but_files_is_opened() {
    let (place, directory) = scene();
    let here = |name: &str| place.path().join("d").join(name);
    symlink("../outside", here("link")).unwrap();
    symlink("..", here("up")).unwrap();
    mkfifo(&here("pipe"), Mode::S_IRWXU).unwrap();
    let _socket = UnixListener::bind(here("socket")).unwrap();
    fs::create_dir(here("directory")).unwrap();
    for (name, kind) in [
        ("link", Kind::Link),
        ("up", Kind::Link),
        ("pipe", Kind::Pipe),
        ("socket", Kind::Socket),
        ("directory", Kind::Directory),
    ] {
        for opened in
            [directory.file(name), directory.file_to_change(name), directory.lock_file(name)]
        {
            assert_eq!(unfit(opened.unwrap_err()), Unfit::NoFile(kind), "{name}");
        }
        assert!(directory.new_file(name).is_err(), "{name}");
        if kind != Kind::Directory {
            let error = directory.directory(name).unwrap_err();
            assert_eq!(unfit(error), Unfit::NoDirectory(kind), "{name}");
            let error = directory.made_directory(name).unwrap_err();
            assert_eq!(unfit(error), Unfit::NoDirectory(kind), "{name}");
        }
    }
    assert_eq!(fs::read(place.path().join("outside")).unwrap(), b"precious");
}

/// Without `openat2` the same is refused.
#[test]
fn the_other_way_follows_nothing_either() {
    let (place, directory) = scene();
    symlink("../outside", place.path().join("d/link")).unwrap();
    symlink("..", place.path().join("d/up")).unwrap();
    let open = |name: &str, flags| {
        access::open_without_following(&directory, OsStr::new(name), flags, Mode::empty())
    };
    assert_eq!(open("link", OFlag::O_RDWR).unwrap_err(), Errno::ELOOP);
    let error = open("up", OFlag::O_RDONLY | OFlag::O_DIRECTORY).unwrap_err();
    assert!(matches!(error, Errno::ELOOP | Errno::ENOTDIR));
}

#[test]
fn what_has_other_names_is_not_changed() {
    let (place, directory) = scene();
    fs::hard_link(place.path().join("outside"), place.path().join("d/hard")).unwrap();
    assert_eq!(unfit(directory.file_to_change("hard").unwrap_err()), Unfit::Linked);
    assert_eq!(unfit(directory.lock_file("hard").unwrap_err()), Unfit::Linked);
    // Replaced, it is another file.
    directory.replace("hard", b"new", true).unwrap();
    assert_eq!(fs::read(place.path().join("outside")).unwrap(), b"precious");
    assert_eq!(directory.read("hard", 10).unwrap(), b"new");
}

#[test]
fn files_are_made_anew_and_replaced_as_a_whole() {
    let (place, directory) = scene();
    symlink("../outside", place.path().join("d/link")).unwrap();
    directory.replace("link", b"mine", false).unwrap();
    let found = fs::symlink_metadata(place.path().join("d/link")).unwrap();
    assert!(found.is_file());
    assert_eq!(found.mode() & 0o7777, 0o600);
    assert_eq!(fs::read(place.path().join("outside")).unwrap(), b"precious");
    assert_eq!(directory.names().unwrap(), ["link"]);
    assert!(directory.read("link", 3).is_err(), "longer than it may be");
    assert!(directory.new_file("link").is_err());
    let made = directory.made_directory("sub").unwrap();
    assert_eq!(made.own_status().unwrap().permissions, 0o700);
    assert_eq!(made.path(), place.path().join("d/sub"));
    assert!(directory.new_directory("sub").is_err());
}

#[test]
fn a_directory_stays_what_it_was() {
    let (place, directory) = scene();
    fs::rename(place.path().join("d"), place.path().join("moved")).unwrap();
    symlink("/", place.path().join("d")).unwrap();
    directory.new_file("here").unwrap();
    assert!(place.path().join("moved/here").exists());
}

#[test]
fn removing_follows_no_links() {
    let (place, directory) = scene();
    let kept = place.path().join("kept");
    fs::create_dir(&kept).unwrap();
    fs::write(kept.join("file"), "precious").unwrap();
    fs::create_dir_all(place.path().join("d/tree/deep")).unwrap();
    symlink(&kept, place.path().join("d/tree/deep/link")).unwrap();
    symlink(&kept, place.path().join("d/itself")).unwrap();
    fs::write(place.path().join("d/tree/file"), "").unwrap();
    directory.remove_all("tree").unwrap();
    directory.remove_all("itself").unwrap();
    assert!(directory.names().unwrap().is_empty());
    assert_eq!(fs::read(kept.join("file")).unwrap(), b"precious");
    assert!(directory.remove_all("tree").is_err());
    directory.remove_all_if_there("tree").unwrap();
}
