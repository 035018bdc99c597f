//! Programs that are compiled and recorded, once for all tests of this process.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use retro_testkit::programs::scratch::Scratch;
use retro_testkit::recordings;

/// The command that is tested.
pub fn retro() -> PathBuf {
    let named = std::env::var_os("RETRO_BINARY");
    named.map_or_else(|| env!("CARGO_BIN_EXE_retro").into(), PathBuf::from)
}

/// Whether there is a gdb.
pub fn has_gdb() -> bool {
    let found = Command::new("gdb").arg("--version").stdout(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

/// A recorded program.
pub struct Recorded {
    scratch: Scratch,
}

impl Recorded {
    /// The recording's directory.
    pub fn directory(&self) -> PathBuf {
        self.scratch.path().join("recording")
    }

    /// The program that was recorded.
    pub fn program(&self) -> PathBuf {
        self.scratch.path().join("program")
    }

    /// Compiles and records a guest for one test alone, with options for `retro record`.
    pub fn anew(guest: &str, options: &[&str], recording: &[&str]) -> Recorded {
        record(guest, options, recording)
    }

    /// Compiles a guest, which the test records itself.
    pub fn compiled(guest: &str, options: &[&str]) -> Recorded {
        let recorded = Recorded { scratch: Scratch::new("gdb") };
        compile(&guests().join(guest), options, &recorded.program());
        recorded
    }

    /// Compiles and records a guest; another test's recording of the same serves as well.
    pub fn of(guest: &str, options: &[&str]) -> Arc<Recorded> {
        Recorded::indexed(guest, options, &[])
    }

    /// The same, with options for its index.
    pub fn indexed(guest: &str, options: &[&str], index: &[&str]) -> Arc<Recorded> {
        type Known = Mutex<HashMap<String, Arc<Recorded>>>;
        static KNOWN: OnceLock<Known> = OnceLock::new();
        let key = format!("{guest} {} {}", options.join(" "), index.join(" "));
        let mut known = KNOWN.get_or_init(Known::default).lock().unwrap();
        let recorded = known.entry(key).or_insert_with(|| {
            let recorded = record(guest, options, &[]);
            if !index.is_empty() {
                build_index(&recorded, index);
            }
            Arc::new(recorded)
        });
        Arc::clone(recorded)
    }
}

fn build_index(recorded: &Recorded, options: &[&str]) {
    let mut command = Command::new(retro());
    command.args(["index", "--rebuild"]).args(options).arg(recorded.directory());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Where the guests are.
pub fn guests() -> PathBuf {
    let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/gdb/guests");
    guests.canonicalize().unwrap()
}

/// Compiles a guest by the end of its name.
fn compile(source: &Path, options: &[&str], program: &Path) {
    let mut command = match source.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => {
            let mut command = Command::new("rustc");
            command.args(["--edition", "2024", "-A", "warnings", "-g"]);
            command
        }
        extension => {
            let is_cpp = extension == Some("cc");
            let mut command = Command::new(if is_cpp { "g++" } else { "gcc" });
            command.args(["-g", "-pthread"]);
            command
        }
    };
    let status = command.arg(source).args(options).arg("-o").arg(program).status().unwrap();
    assert!(status.success(), "{command:?}");
}

fn record(guest: &str, options: &[&str], recording: &[&str]) -> Recorded {
    let recorded = Recorded::compiled(guest, options);
    let guests = guests();
    // How it ends does not matter: some crash.
    let mut command = Command::new(retro());
    command.args(["record", "--quiet", "-o"]).arg(recorded.directory()).args(recording);
    command.arg("--").arg(recorded.program());
    // A guest with a library gets its path.
    let library = guests.join(guest).with_extension("so.c");
    if library.exists() {
        let compiled = recorded.scratch.path().join("library.so");
        compile(&library, &["-shared", "-fPIC"], &compiled);
        command.arg(compiled);
    }
    let command = command.current_dir(recorded.scratch.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap();
    drop(recordings::wait_for(&recorded.directory(), Duration::from_secs(60)));
    recorded
}
