//! A gdb that looks at core files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Deserialize;

/// What gdb sees in a core file. `observe.py` has the words for it.
#[derive(Debug, Deserialize)]
pub struct Observed {
    pub threads: Vec<ObservedThread>,
}

#[derive(Debug, Deserialize)]
pub struct ObservedThread {
    pub thread: u32,
    pub frames: Vec<ObservedFrame>,
}

#[derive(Debug, Deserialize)]
pub struct ObservedFrame {
    pub kind: String,
    /// Where the frame is that it has called.
    pub callee: Option<u64>,
    pub pc: u64,
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: u64,
    /// The lines of all rows where this one begins, and right before that.
    pub lines: Vec<u64>,
    pub registers: BTreeMap<String, Option<u64>>,
    pub variables: Option<Vec<(String, ObservedValue)>>,
    pub expressions: Vec<(String, ObservedValue)>,
}

#[derive(Debug, Default, Deserialize)]
pub struct ObservedValue {
    pub text: Option<String>,
    pub error: Option<String>,
    /// The compiler has not kept it, or not all of it; whatever gdb makes of the rest.
    pub lost: bool,
    pub r#trait: Option<Trait>,
    /// It has an address.
    pub in_memory: bool,
    /// Where its variable is, in gdb's words.
    pub r#where: Option<String>,
    /// The variable that an expression is made of.
    pub of: Option<String>,
}

/// What makes it hard to know a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trait {
    /// It depends on what a parameter was when its function was called.
    Entry,
    /// It was in a register that a called function may have changed.
    Clobbered,
    /// Values of its type take no memory.
    Empty,
    /// Debug information does not say of all its bytes where they are.
    Uncovered,
    /// It is an enumeration of Rust in several places.
    Variant,
    /// It is a parameter that the compiler has removed, whose value callers know.
    Removed,
}

/// A gdb that is at work.
pub struct Gdb {
    process: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    complaints: PathBuf,
}

impl Gdb {
    /// Starts one in a directory.
    pub fn start(place: &Path, program: &Path) -> Gdb {
        let complaints = place.join("gdb-complaints");
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/gdb_agreement/observe.py");
        let mut process = Command::new("gdb")
            .args([
                "-nx",
                "-q",
                "-batch",
                "-iex",
                "set auto-load no",
                "-iex",
                "set debuginfod enabled off",
                // Threads are those of the core file, not those that libpthread has in its lists already.
                "-iex",
                "set libthread-db-search-path /nonexistent",
                // Where it fails, it says so.
                "-iex",
                "maint set internal-error corefile no",
            ])
            .current_dir(place)
            .arg("-x")
            .arg(script)
            .arg(program)
            // Texts are as UTF-8 has them.
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&complaints).unwrap())
            .spawn()
            .expect("gdb, with Python, is what this test compares with: install it");
        let questions = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Gdb { process, questions, answers, complaints }
    }

    /// What it sees in a core file; its complaints, if that is the end of it: gdb 13 fails at slices of enumerations of Rust.
    pub fn look_at(&mut self, core: &Path) -> Result<Observed, String> {
        writeln!(self.questions.as_ref().unwrap(), "{}", core.display()).unwrap();
        loop {
            let mut line = String::new();
            if self.answers.read_line(&mut line).unwrap() == 0 {
                return Err(fs::read_to_string(&self.complaints).unwrap_or_default());
            }
            // Whatever else gdb says is no JSON.
            if line.starts_with("{\"threads\"") {
                return Ok(
                    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
                );
            }
        }
    }
}

impl Drop for Gdb {
    fn drop(&mut self) {
        // No more questions end it.
        self.questions = None;
        let _ = self.process.wait();
    }
}
