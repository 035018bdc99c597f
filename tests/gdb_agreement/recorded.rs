//! Programs that are recorded and indexed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use retro_cli::engine_file::EngineFile;
use retro_index::build::{self, Unwatched};
use retro_query::{Cancel, Direction, Moment, Options, Run};
use retro_recording::Recording;
use retro_testkit::{compare, recordings};

/// Small windows, so that moments are far from the starts of their windows in few cases only.
const WINDOW: u64 = 200_000;

/// A recorded and indexed program.
pub struct Recorded {
    pub run: Run,
    _engine: EngineFile,
}

impl Recorded {
    /// Records a command in a directory.
    pub fn new(place: &Path, mut command: Command) -> Recorded {
        let retro =
            std::env::var_os("RETRO_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_retro").into());
        let directory = place.join("recording");
        command.current_dir(place).env("XDG_DATA_HOME", place).env("RUST_BACKTRACE", "0");
        let mut record = compare::recorded(Path::new(&retro), &directory, &[], &command);
        record.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = record.status().unwrap();
        assert!(status.success(), "{command:?}: {status}");
        let recording = recordings::wait_for(&directory, Duration::from_secs(60));
        let engine = EngineFile::new(&[place]).unwrap();
        let run = open(&directory, &engine);
        drop(recording);
        let options = build::Options { window_size: WINDOW, ..build::Options::default() };
        let jobs = build::jobs(run.replayer(), run.index(), &options).unwrap();
        let index = run.index().made().unwrap();
        build::build(run.replayer(), &index, &jobs, &options, &Unwatched).unwrap();
        Recorded { run, _engine: engine }
    }

    /// When a function is called, the first times.
    pub fn calls(&self, function: &str) -> Vec<u64> {
        let process = self.run.process(0).unwrap();
        let start = Moment { log: 0, time: process.start };
        let found = self.run.symbols().functions_named(0, process.end, function);
        let entries: Vec<u64> = found.iter().map(|code| code.entry).collect();
        let executions = self.run.executions(start, Direction::Forward, &entries, &Cancel::new());
        let calls: Vec<u64> =
            executions.unwrap().take(10_000).map(|call| call.unwrap().time).collect();
        assert!(!calls.is_empty(), "{function} is never called");
        calls
    }

    /// When the program begins, after the dynamic linker has prepared everything.
    pub fn program_start(&self) -> u64 {
        let process = self.run.process(0).unwrap();
        let start = Moment { log: 0, time: process.start };
        let program =
            self.run.maps(start).unwrap().into_iter().find(|mapping| mapping.file.is_some());
        let base = program.expect("a program is mapped at the start").start;
        let header = self.run.memory(start, base, 64).unwrap();
        let is_position_independent = header[16] == 3;
        let entry = u64::from_le_bytes(*header[24..].first_chunk().unwrap());
        let entry = if is_position_independent { base + entry } else { entry };
        let mut executions =
            self.run.executions(start, Direction::Forward, &[entry], &Cancel::new()).unwrap();
        executions.next().expect("the program begins").unwrap().time
    }
}

fn open(directory: &Path, engine: &EngineFile) -> Run {
    let recording = Recording::open(directory).unwrap();
    Run::open(recording, engine.path().to_owned(), Options::default()).unwrap()
}
