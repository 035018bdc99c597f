//! A gdb that looks at core files.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
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
    pub pc: u64,
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: u64,
    pub registers: BTreeMap<String, Option<u64>>,
    pub variables: Option<Vec<(String, ObservedValue)>>,
    pub expressions: Vec<(String, ObservedValue)>,
}

#[derive(Debug, Deserialize)]
pub struct ObservedValue {
    pub text: Option<String>,
    pub error: Option<String>,
    /// Whether it depends on what a parameter was when its function was called.
    #[serde(default)]
    pub entry: bool,
}

/// A gdb that is at work.
pub struct Gdb {
    process: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Gdb {
    pub fn start(program: &Path) -> Gdb {
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
            ])
            .arg("-x")
            .arg(script)
            .arg(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("gdb, with Python, is what this test compares with: install it");
        let questions = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Gdb { process, questions, answers }
    }

    pub fn look_at(&mut self, core: &Path) -> Observed {
        writeln!(self.questions.as_ref().unwrap(), "{}", core.display()).unwrap();
        loop {
            let mut line = String::new();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "gdb has ended");
            // Whatever else gdb says is no JSON.
            if line.starts_with("{\"threads\"") {
                return serde_json::from_str(&line)
                    .unwrap_or_else(|error| panic!("{error}: {line}"));
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
