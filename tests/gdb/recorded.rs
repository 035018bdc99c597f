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

    /// Compiles and records a guest; another test's recording of the same serves as well.
    pub fn of(guest: &str, options: &[&str]) -> Arc<Recorded> {
        type Known = Mutex<HashMap<String, Arc<Recorded>>>;
        static KNOWN: OnceLock<Known> = OnceLock::new();
        let key = format!("{guest} {}", options.join(" "));
        let mut known = KNOWN.get_or_init(Known::default).lock().unwrap();
        let recorded = known.entry(key).or_insert_with(|| Arc::new(record(guest, options)));
        Arc::clone(recorded)
    }
}

fn record(guest: &str, options: &[&str]) -> Recorded {
    let scratch = Scratch::new("gdb");
    let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/gdb/guests");
    let compiler = if guest.ends_with(".cc") { "g++" } else { "gcc" };
    let program = scratch.path().join("program");
    let status = Command::new(compiler)
        .arg(guests.join(guest))
        .args(["-g", "-pthread"])
        .args(options)
        .arg("-o")
        .arg(&program)
        .status()
        .unwrap();
    assert!(status.success(), "{compiler} {guest}");
    let recorded = Recorded { scratch };
    // How it ends does not matter: some crash.
    Command::new(retro())
        .args(["record", "--quiet", "-o"])
        .arg(recorded.directory())
        .arg("--")
        .arg(&program)
        .current_dir(recorded.scratch.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    drop(recordings::wait_for(&recorded.directory(), Duration::from_secs(60)));
    recorded
}
