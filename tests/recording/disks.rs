//! Disks that are full and directories that cannot be written.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

use retro_recording::State;
use retro_testkit::compare::{self, Ending, Outcome};
use retro_testkit::programs::scratch::Scratch;
use retro_testkit::recordings;

use super::{Case, TIMEOUT};

/// A small file system in memory.
struct SmallDisk(Scratch);

impl SmallDisk {
    /// Mounts one of so many KiB; says loudly if this user may not.
    fn mount(kib: u32) -> Option<SmallDisk> {
        let place = Scratch::new("small-disk");
        let target = CString::new(place.path().as_os_str().as_bytes()).expect("a path without NUL");
        let options = CString::new(format!("size={kib}k")).expect("text without NUL");
        // SAFETY: all strings end in NUL and outlive the call.
        let result = unsafe {
            libc::mount(
                c"none".as_ptr(),
                target.as_ptr(),
                c"tmpfs".as_ptr(),
                0,
                options.as_ptr().cast(),
            )
        };
        if result != 0 {
            let error = std::io::Error::last_os_error();
            eprintln!("SKIPPED: mounting a small disk takes privileges: {error}");
            return None;
        }
        Some(SmallDisk(place))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let target = CString::new(self.path().as_os_str().as_bytes()).expect("a path without NUL");
        // SAFETY: the string ends in NUL and outlives the call. What was mounted here is this test's.
        unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) };
    }
}

/// A program that logs much more than fits.
fn large_case() -> (Case, Outcome) {
    let mut case = Case::new("busy", &["1000", "3"]);
    let native = case.native();
    assert_eq!(native.status, Ending::Exited(3), "the guest itself");
    (case, native)
}

#[test]
fn a_disk_that_fills_up_ends_the_recording_and_not_the_program() {
    for kib in [64, 1024, 3000] {
        let Some(disk) = SmallDisk::mount(kib) else { return };
        let (case, native) = large_case();
        let directory = disk.path().join("recording");
        let outcome = compare::run(&mut case.command(&directory), TIMEOUT);
        let stderr = String::from_utf8_lossy(&outcome.stderr);
        assert_eq!((outcome.status, &outcome.stdout), (native.status, &native.stdout), "{stderr}");
        assert!(
            stderr.contains("is not complete") && stderr.contains("No space left on device"),
            "with {kib} KiB: {stderr}"
        );
        let recording = recordings::wait_for(&directory, TIMEOUT);
        assert_eq!(recording.damage(), None, "with {kib} KiB");
        recording.verify().unwrap_or_else(|error| panic!("with {kib} KiB: {error}"));
        // The end may not have had room either.
        if recording.state() == State::Finished {
            let end = recording.end().expect("a finished recording has an end");
            assert!(end.stopped.as_ref().is_some_and(|why| why.contains("No space")), "{end:?}");
        }
        // All of what is there can be replayed, that of the interval in which the disk was full, too.
        let verified = compare::run(
            std::process::Command::new(super::retro_path()).arg("verify").arg(&directory),
            TIMEOUT,
        );
        let said = String::from_utf8_lossy(&verified.stderr);
        assert_eq!(verified.status, Ending::Exited(0), "with {kib} KiB: {said}");
        assert!(String::from_utf8_lossy(&verified.stdout).ends_with("OK\n"), "with {kib} KiB");
        if recording.state() == State::Finished {
            assert!(said.contains("recording stopped before the end"), "{said}");
        }
        let used = recording.log_bytes();
        assert!(used > u64::from(kib) << 9, "{used} of {kib} KiB were used");
        recordings::examine(recording).assert_sound();
    }
}

#[test]
fn nothing_is_started_for_a_disk_that_is_full() {
    let Some(disk) = SmallDisk::mount(64) else { return };
    let filler = disk.path().join("filler");
    // Until nothing more fits.
    assert!(fs::write(filler, vec![1; 1 << 20]).is_err(), "the disk is not small");
    let (case, _) = large_case();
    let outcome = compare::run(&mut case.command(&disk.path().join("recording")), TIMEOUT);
    refused(&outcome, "No space left on device");
    assert!(!disk.path().join("recording").exists(), "something was left behind");
}

/// `retro` failed, said why, and the program never ran.
fn refused(outcome: &Outcome, why: &str) {
    let stderr = String::from_utf8_lossy(&outcome.stderr);
    assert_eq!(outcome.status, Ending::Exited(125), "{stderr}");
    assert!(stderr.contains(why), "{stderr:?} does not say {why:?}");
    assert!(outcome.stdout.is_empty(), "the program ran");
}

#[test]
fn nothing_is_started_for_a_place_that_cannot_be_written() {
    let (case, _) = large_case();
    let file = case.place.path().join("file");
    fs::write(&file, "").expect("a new file");
    let full = case.place.path().join("full");
    fs::create_dir(&full).expect("a new directory");
    fs::write(full.join("thing"), "").expect("a new file");
    for (place, why) in [
        (file.join("recording"), "Not a directory"),
        (file.clone(), "file"),
        (full.clone(), "full"),
        (Path::new("/proc/recording").into(), "/proc/recording"),
        (case.place.path().join("missing/recording"), "No such file or directory"),
    ] {
        refused(&compare::run(&mut case.command(&place), TIMEOUT), why);
    }
    assert_eq!(fs::read_dir(&full).expect("it is still there").count(), 1);
}

#[test]
fn nothing_is_started_in_a_directory_that_denies_access() {
    const NOBODY: u32 = 65534;
    let mut case = Case::new("ends", &["exit", "1"]);
    let closed = case.place.path().join("closed");
    fs::create_dir(&closed).expect("a new directory");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).expect("own directory");
    let mut command = case.command(&closed.join("recording"));
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } == 0 {
        // Nothing denies access to root. Others must be able to get at everything here.
        for path in [case.place.path(), case.recordings.path()] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("own directory");
        }
        command.uid(NOBODY).gid(NOBODY);
        case.program.uid(NOBODY).gid(NOBODY);
        let reachable = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case.native()));
        if reachable.is_err() {
            eprintln!("SKIPPED: the guest lies where other users have no access");
            return;
        }
    }
    refused(&compare::run(&mut command, TIMEOUT), "Permission denied");
    assert_eq!(fs::read_dir(&closed).expect("it is still there").count(), 0);
}

#[test]
fn a_limit_on_files_is_told_with_what_to_do() {
    let (case, _) = large_case();
    let mut command = case.command(&case.directory());
    // SAFETY: only sets a limit of the child, between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit { rlim_cur: 64 << 20, rlim_max: 64 << 20 };
            match libc::setrlimit(libc::RLIMIT_FSIZE, &limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    refused(&compare::run(&mut command, TIMEOUT), "ulimit -f unlimited");
}
