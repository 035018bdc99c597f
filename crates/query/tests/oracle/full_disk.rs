//! A disk that is full while an index is built.

use std::env;
use std::process::Command;

use crate::questions::{Scene, oracles};
use crate::recorded::{Recorded, windows_of};

/// Says where the recording is whose index a child builds.
const RECORDING: &str = "RETRO_ORACLE_RECORDING";

const WINDOW: u64 = 2_000;

/// A file system of its own for the index is mounted where nobody else sees it.
#[test]
fn a_full_disk_costs_nothing_that_was_there() {
    let Some(mut child) = [&["--mount"][..], &["--mount", "--map-root-user"]]
        .into_iter()
        .map(unshared)
        .find(can_mount)
    else {
        eprintln!("skipped: file systems cannot be mounted here");
        return;
    };
    let recorded = Recorded::guest("thread_cond_queue", &[]);
    let before = recorded.own_files();
    child.arg(env::current_exe().unwrap());
    child.args(["--exact", "full_disk::builds_on_a_small_disk", "--ignored", "--nocapture"]);
    let output = child.env(RECORDING, &recorded.directory).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{said}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(recorded.own_files(), before);
}

fn unshared(options: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(options);
    command
}

fn can_mount(command: &Command) -> bool {
    let mut trial = Command::new(command.get_program());
    trial.args(command.get_args()).args(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]);
    trial.output().is_ok_and(|output| output.status.success())
}

#[test]
#[ignore = "started by another test, in a place where it can mount"]
fn builds_on_a_small_disk() {
    let directory = env::var_os(RECORDING).expect("the parent says where the recording is");
    let recorded = Recorded::existing(directory.into());
    std::fs::create_dir(recorded.index()).unwrap();
    for (size, options) in [(64, ""), (300, "remount,"), (700, "remount,")] {
        mount(&recorded, &format!("{options}size={size}k"));
        let error = recorded.build(&windows_of(WINDOW)).unwrap_err().to_string();
        let index = recorded.index();
        assert!(error.contains(index.to_str().unwrap()), "says where: {error}");
        let is_told = error.contains("No space left") || error.contains("are free on the disk");
        assert!(is_told, "says why: {error}");
        assert!(
            recorded.open().process(recorded.logs()[0]).is_err(),
            "what is not whole is not used"
        );
    }
    mount(&recorded, "remount,size=500m");
    recorded.build(&windows_of(WINDOW)).unwrap();
    let oracles = oracles(&recorded);
    Scene::open(&recorded, &oracles).ask(40);
}

fn mount(recorded: &Recorded, options: &str) {
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(recorded.index());
    assert!(command.status().unwrap().success(), "{command:?}");
}
