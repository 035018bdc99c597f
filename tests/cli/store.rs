//! A place for the recordings of one test.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use retro_testkit::compare::{Ending, Outcome, run};
use retro_testkit::programs::scratch::Scratch;
use serde_json::Value;

use crate::{TIMEOUT, retro_path, text};

/// A store of its own, in an otherwise empty directory that commands run in.
pub struct Store(Scratch);

impl Store {
    pub fn new(name: &str) -> Store {
        Store(Scratch::new(name))
    }

    /// Where commands run.
    pub fn directory(&self) -> &Path {
        self.0.path()
    }

    /// Where recordings are.
    pub fn root(&self) -> PathBuf {
        self.0.path().join("retro")
    }

    /// A program that has this store, not started yet. Another variable than RETRO_DIR, since variables of
    /// that form steer the tests. Nothing is indexed in the background.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.directory()).env("XDG_DATA_HOME", self.directory());
        command.env_remove("RETRO_DIR").env("RETRO_NO_INDEX", "1");
        command
    }

    /// `retro ARGUMENTS...`, run to its end.
    pub fn retro<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Outcome {
        run(self.command(retro_path()).args(arguments), TIMEOUT)
    }

    /// The output of a command that succeeds and has nothing to complain of.
    #[track_caller]
    pub fn output<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> String {
        let outcome = self.retro(arguments);
        let stderr = text(&outcome.stderr);
        assert_eq!((outcome.status, stderr), (Ending::Exited(0), String::new()));
        String::from_utf8(outcome.stdout).expect("the output is text")
    }

    /// The same as JSON.
    #[track_caller]
    pub fn json<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Value {
        let output = self.output(arguments);
        serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}"))
    }

    /// Records a command without a summary.
    #[track_caller]
    pub fn record(&self, command: &[&str]) -> Outcome {
        self.retro(["record", "--quiet", "--"].iter().chain(command))
    }

    /// `bash -c SCRIPT` with `$retro` for the command.
    pub fn bash(&self, script: &str) -> Outcome {
        let mut command = self.command("bash");
        command.args(["-c", script]).env("retro", retro_path());
        run(&mut command, TIMEOUT)
    }

    /// Compiles a C program into the directory and returns its path.
    pub fn compile(&self, name: &str, source: &str) -> String {
        let path = self.directory().join(name);
        std::fs::write(path.with_extension("c"), source).unwrap();
        let mut compiler = self.command("cc");
        compiler.args(["-pthread", "-o", name, &format!("{name}.c")]);
        let compiled = run(&mut compiler, TIMEOUT);
        assert_eq!(compiled.status, Ending::Exited(0), "{}", text(&compiled.stderr));
        path.to_str().expect("temporary directories are text").to_string()
    }
}
