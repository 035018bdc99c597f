//! Recorded programs to ask about. Each is recorded and indexed once, for all tests of this process.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{env, process};

use retro_engine_image::ENGINE_IMAGE;
use retro_query::symbols::SourceFiles;
use retro_query::{Options, Run};
use retro_server::{CallContext, MethodError, Methods, Service, questions};
use retro_testkit::programs::scratch::Scratch;
use retro_testkit::recordings;
use serde_json::{Value, json};

use crate::fake::{Running, TOKEN, limits, serve};

/// Where the debug information says that the ledger's source is.
const LEDGER_SOURCES: &str = "/home/ada/ledger";

/// A recorded program.
pub struct Recorded {
    pub run: Run,
    service: Arc<Methods<Run>>,
    scratch: Scratch,
}

/// A program of 283 instructions, the same on every machine: it is assembled from a file that the compiler made of
/// `ledger.c`.
pub fn ledger() -> &'static Recorded {
    static LEDGER: OnceLock<Recorded> = OnceLock::new();
    LEDGER.get_or_init(|| {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ledger");
        let assembly = sources.join("ledger.s");
        let options = ["-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none"];
        Recorded::make("ledger", &assembly, &options, 100, Some(&sources))
    })
}

/// A program with threads, and with enough to do for a search to take long.
pub fn workers() -> &'static Recorded {
    static WORKERS: OnceLock<Recorded> = OnceLock::new();
    WORKERS.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ledger/workers.c");
        Recorded::make("workers", &source, &["-g", "-O1", "-pthread"], 200_000, None)
    })
}

/// Parameters with a moment of the first process.
///
/// No closure: rustc up to at least 1.96 gives equal arguments of closures one place, which the first call changes
/// (rust-lang/rust#155241; optimised builds crash).
pub fn at(time: u64, mut others: Value) -> Value {
    others["process"] = json!(0);
    others["time"] = json!(time);
    others
}

impl Recorded {
    fn make(
        name: &str,
        source: &Path,
        compiler_options: &[&str],
        window_size: u64,
        sources: Option<&Path>,
    ) -> Recorded {
        let scratch = Scratch::new(&format!("server-{name}"));
        let mut compiler = Command::new("cc");
        compiler.args(compiler_options).arg(source).arg("-o").arg(name);
        assert!(compiler.current_dir(scratch.path()).status().unwrap().success());
        let directory = scratch.path().join("recording");
        let mut record = Command::new(retro());
        record.env_clear().env("RETRO_NO_INDEX", "1").current_dir(scratch.path());
        record.args(["record", "--quiet", "-o", "recording", "--"]).arg(format!("./{name}"));
        let status = record.stdout(Stdio::null()).status().unwrap();
        assert!(status.success());
        let recording = recordings::wait_for(&directory, Duration::from_secs(60));
        let mut files = SourceFiles::new();
        if let Some(sources) = sources {
            files.add_map(&format!("{LEDGER_SOURCES}={}", sources.display())).unwrap();
        }
        let options = Options { sources: files, ..Options::default() };
        let run = Run::open(recording, engine(), options).unwrap();
        let place = run.index().clone();
        let build = retro_index::build::Options { window_size, ..Default::default() };
        let jobs = retro_index::build::jobs(run.replayer(), &place, &build).unwrap();
        let unwatched = retro_index::build::Unwatched;
        let index = place.made().unwrap();
        retro_index::build::build(run.replayer(), &index, &jobs, &build, &unwatched).unwrap();
        Recorded { service: Arc::new(questions(run.clone())), run, scratch }
    }

    pub fn service(&self) -> &dyn Service {
        &*self.service
    }

    /// Where the program is.
    pub fn directory(&self) -> &Path {
        self.scratch.path()
    }

    /// A question without a server.
    pub fn try_ask(&self, method: &str, params: Value) -> Result<Value, MethodError> {
        let context = CallContext::detached(method, &params);
        self.service.call(method, params, &context)
    }

    /// The same, which has an answer.
    #[track_caller]
    pub fn ask(&self, method: &str, params: Value) -> Value {
        let shown = format!("{method} {params}");
        self.try_ask(method, params).unwrap_or_else(|error| panic!("{shown}: {error}"))
    }

    /// A moment of the first process, as parameters, with others.
    #[track_caller]
    pub fn ask_at(&self, method: &str, time: u64, others: Value) -> Value {
        self.ask(method, at(time, others))
    }

    /// The last time of the first process.
    pub fn end(&self) -> u64 {
        self.run.process(0).unwrap().end
    }

    /// A server for it.
    pub fn serve(&self) -> Running {
        serve(self.service.clone(), Default::default(), limits(), Some(TOKEN))
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
        let name = format!("engine-{}", process::id());
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
