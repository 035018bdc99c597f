//! Builds that are stopped, killed and resumed, and what they leave.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use std::{env, iter};

use retro_index::Error;
use retro_index::build::{self, Watch};
use retro_index::set_tree::KEY_LIMIT;

use crate::questions::{Scene, oracles};
use crate::recorded::{Recorded, windows_of};

/// Says where the recording is whose index a child builds.
const RECORDING: &str = "RETRO_ORACLE_RECORDING";

const WINDOW: u64 = 2_000;

/// Stops a build after some windows.
struct StopAfter {
    left: AtomicU64,
}

impl StopAfter {
    fn windows(count: u64) -> StopAfter {
        StopAfter { left: AtomicU64::new(count) }
    }
}

impl Watch for StopAfter {
    fn advanced(&self, _: u64) {
        let less = |left: u64| Some(left.saturating_sub(1));
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    fn is_cancelled(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}

/// Numbers of windows after which to stop, always the same and without a pattern.
fn stops() -> impl Iterator<Item = u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        1 + (state >> 33) % 60
    })
}

#[test]
fn a_stopped_build_goes_on() {
    let recorded = Recorded::guest("code_jit_many", &["--interval", "200k"]);
    let oracles = oracles(&recorded);
    let before = recorded.own_files();
    let mut stopped = 0;
    for windows in stops() {
        match recorded.build_watched(&windows_of(WINDOW), &StopAfter::windows(windows)) {
            Err(Error::Cancelled) => stopped += 1,
            built => {
                built.unwrap();
                break;
            }
        }
    }
    assert!(stopped > 10, "{stopped}");
    assert_eq!(recorded.own_files(), before);
    Scene::open(&recorded, &oracles).ask(60);
}

/// Kills processes that build, with and without something to go on from.
#[test]
fn a_killed_build_goes_on() {
    let recorded = Recorded::guest("thread_cond_queue", &[]);
    let oracles = oracles(&recorded);
    let before = recorded.own_files();
    for (attempt, windows) in (0..6).zip(stops()) {
        if attempt % 2 == 1 {
            let stopped = recorded.build_watched(&windows_of(WINDOW), &StopAfter::windows(windows));
            assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
        }
        let mut child = building_child(&recorded).spawn().unwrap();
        thread::sleep(Duration::from_millis(30 + 60 * attempt));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(recorded.own_files(), before);
    recorded.build(&windows_of(WINDOW)).unwrap();
    Scene::open(&recorded, &oracles).ask(60);
}

fn building_child(recorded: &Recorded) -> Command {
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", "building::builds_for_its_parent", "--ignored"]);
    child.env(RECORDING, &recorded.directory).stdout(Stdio::null()).stderr(Stdio::null());
    child
}

#[test]
#[ignore = "started by another test, which kills it"]
fn builds_for_its_parent() {
    let directory = env::var_os(RECORDING).expect("the parent says where the recording is");
    Recorded::existing(directory.into()).build(&windows_of(WINDOW)).unwrap();
}

#[test]
fn reads_are_those_of_the_oracle_whenever_they_are_built() {
    let recorded = Recorded::guest("insn_strings", &["--interval", "40k"]);
    let oracles = oracles(&recorded);
    let with_reads = build::Options { reads: true, ..windows_of(WINDOW) };
    for first in [windows_of(WINDOW), with_reads] {
        recorded.discard_index();
        recorded.build(&first).unwrap();
        assert!(build::jobs(&recorded.replayer, &recorded.place(), &first).unwrap().is_empty());
        recorded.build(&with_reads).unwrap();
        let run = recorded.open();
        for oracle in oracles.values() {
            for volume in &run.process(oracle.log).unwrap().volumes {
                let reads = volume.reads.as_ref().unwrap();
                for window in 0..volume.windows.len() {
                    let times = volume.window_range(window);
                    let found = reads.keys_of(window, 0..KEY_LIMIT).unwrap();
                    let found: BTreeSet<u64> = found.into_iter().map(|(word, _)| word).collect();
                    let in_window = oracle.reads.iter().filter(|(time, ..)| times.contains(time));
                    let expected = in_window.flat_map(|&(_, first, last)| first..=last).collect();
                    assert!(found == expected, "log {}, window {window}", oracle.log);
                }
            }
        }
    }
}
