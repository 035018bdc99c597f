//! Recordings of guests, ready to be replayed.

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use retro_engine_image::ENGINE_IMAGE;
use retro_replayer::{Interval, Replayer};
use retro_testkit::corpus::Guest;
use retro_testkit::programs::scratch::Scratch;
use retro_testkit::recordings;

/// A recorded guest. The recording goes when this is dropped.
pub struct Recorded {
    pub replayer: Replayer,
    pub directory: PathBuf,
    _scratch: Scratch,
}

/// An interval with its log.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub log: u64,
    pub interval: Interval,
}

impl Recorded {
    /// Records a guest, with options for `retro record`.
    pub fn guest(name: &str, options: &[&str]) -> Recorded {
        let guest = Guest::load(name).unwrap();
        let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guests");
        let command = guest.build(&output).unwrap();
        let scratch = Scratch::new(name);
        let directory = scratch.path().join("recording");
        let mut record = Command::new(retro());
        record
            .args(["record", "--quiet", "--no-index", "-o"])
            .arg(&directory)
            .args(options)
            .arg("--");
        record.arg(command.get_program()).args(command.get_args());
        record.current_dir(scratch.path()).stdout(Stdio::null()).stderr(Stdio::null());
        record.status().unwrap();
        let recording = recordings::wait_for(&directory, Duration::from_secs(60));
        let replayer = Replayer::open(recording, engine());
        Recorded { replayer, directory, _scratch: scratch }
    }

    /// All intervals of all logs.
    pub fn places(&self) -> Vec<Place> {
        let mut places = Vec::new();
        for process in self.replayer.recording().processes() {
            let log = process.summary.log;
            let intervals = self.replayer.intervals(log).unwrap();
            places.extend(intervals.into_iter().map(|interval| Place { log, interval }));
        }
        places
    }

    /// The interval with most instructions.
    pub fn longest(&self) -> Place {
        let places = self.places().into_iter();
        places.max_by_key(|place| place.interval.instructions()).expect("there are intervals")
    }
}

fn retro() -> PathBuf {
    if let Some(path) = env::var_os("RETRO_BINARY") {
        return path.into();
    }
    // Tests lie one below the programs of the same build.
    let tests = env::current_exe().unwrap();
    let retro = tests.ancestors().nth(2).unwrap().join("retro");
    assert!(retro.exists(), "no {}: build it with `cargo build -p retro-cli`", retro.display());
    retro
}

/// A file with the engine, which all tests of this process share.
fn engine() -> PathBuf {
    static ENGINE: OnceLock<PathBuf> = OnceLock::new();
    let made = ENGINE.get_or_init(|| {
        let name = format!("engine-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let unfinished = path.with_extension("unfinished");
        let mut file: File = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o700)
            .open(&unfinished)
            .unwrap();
        file.write_all(ENGINE_IMAGE).unwrap();
        drop(file);
        fs::rename(unfinished, &path).unwrap();
        path
    });
    made.clone()
}

/// Numbers below `count` in an order that has nothing to do with theirs, always the same.
pub fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for index in (1..count).rev() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(index, (state >> 33) as usize % (index + 1));
    }
    order
}
