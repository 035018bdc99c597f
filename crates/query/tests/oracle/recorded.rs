//! Recordings, and their indexes.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use retro_engine_image::ENGINE_IMAGE;
use retro_index::Place;
use retro_index::build::{self, Unwatched, Watch};
use retro_query::{Options, Run};
use retro_recording::Recording;
use retro_replayer::{Interval, Replayer};
use retro_testkit::corpus::Guest;
use retro_testkit::programs::scratch::Scratch;
use retro_testkit::{compare, recordings};

/// Intervals that begin later are left alone: the oracle is slow.
const MOST: u64 = 3_000_000;

/// A recorded run. The recording goes when this is dropped, unless it is somebody else's.
pub struct Recorded {
    pub replayer: Replayer,
    pub directory: PathBuf,
    _scratch: Option<Scratch>,
}

impl Recorded {
    /// Records a guest of the corpus, with options for `retro record`.
    pub fn guest(name: &str, options: &[&str]) -> Recorded {
        let guest = Guest::load(name).unwrap();
        let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guests");
        Recorded::command(name, guest.build(&output).unwrap(), options)
    }

    /// Records a command.
    pub fn command(name: &str, mut command: Command, options: &[&str]) -> Recorded {
        let scratch = Scratch::new(name);
        let directory = scratch.path().join("recording");
        command.current_dir(scratch.path()).env("XDG_DATA_HOME", scratch.path());
        let mut record = compare::recorded(&retro(), &directory, options, &command);
        record.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        record.status().unwrap();
        let recording = recordings::wait_for(&directory, Duration::from_secs(60));
        let replayer = Replayer::open(recording, engine());
        Recorded { replayer, directory, _scratch: Some(scratch) }
    }

    /// A recording that somebody else has made, and keeps.
    pub fn existing(directory: PathBuf) -> Recorded {
        let recording = Recording::open(&directory).unwrap();
        Recorded { replayer: Replayer::open(recording, engine()), directory, _scratch: None }
    }

    /// The directory of its index.
    pub fn index(&self) -> PathBuf {
        self.place().path()
    }

    /// Where its index is.
    pub fn place(&self) -> Place {
        Place::of(self.replayer.recording()).unwrap()
    }

    /// Builds what is missing of the index.
    pub fn build(&self, options: &build::Options) -> Result<(), retro_index::Error> {
        self.build_watched(options, &Unwatched)
    }

    /// The same, for somebody who watches.
    pub fn build_watched(
        &self,
        options: &build::Options,
        watch: &impl Watch,
    ) -> Result<(), retro_index::Error> {
        let mut jobs = build::jobs(&self.replayer, &self.place(), options)?;
        jobs.retain(|job| job.interval.start < MOST);
        build::build(&self.replayer, &self.place().made()?, &jobs, options, watch)
    }

    /// Throws the index away.
    pub fn discard_index(&self) {
        if let Err(error) = fs::remove_dir_all(self.index()) {
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
        }
    }

    /// Opens the recording with the index that there is.
    pub fn open(&self) -> Run {
        let recording = Recording::open(&self.directory).unwrap();
        Run::open(recording, engine(), Options::default()).unwrap()
    }

    /// The intervals of a log that are looked at, and whether these are all.
    pub fn intervals(&self, log: u64) -> (Vec<Interval>, bool) {
        let all = self.replayer.intervals(log).unwrap();
        let some: Vec<_> = all.iter().copied().filter(|interval| interval.start < MOST).collect();
        let are_all = some.len() == all.len();
        (some, are_all)
    }

    /// All logs.
    pub fn logs(&self) -> Vec<u64> {
        self.replayer.recording().processes().iter().map(|process| process.summary.log).collect()
    }

    /// Sums of the recording's own files, by path.
    pub fn own_files(&self) -> BTreeMap<PathBuf, u32> {
        let mut sums = BTreeMap::new();
        let mut left = vec![self.directory.clone()];
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path == self.index() {
                    continue;
                }
                if path.is_dir() {
                    left.push(path);
                } else {
                    let sum = crc32fast::hash(&fs::read(&path).unwrap());
                    sums.insert(path, sum);
                }
            }
        }
        assert!(!sums.is_empty());
        sums
    }
}

/// An index with windows of this size.
pub fn windows_of(size: u64) -> build::Options {
    build::Options { window_size: size, ..build::Options::default() }
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
