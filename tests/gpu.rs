//! Programs that use a GPU: recorded, replayed without it, and asked about.
//!
//! All of it is a script, `tests/gpu/run.sh`, so that it can be run where there is a GPU and nothing but a built `retro`. What a machine
//! lacks (a GPU, `nvcc`, PyTorch) is left out with a message. `RETRO_BINARY=path` tests another `retro`.

use std::path::Path;
use std::process::{Command, Stdio};

use retro_testkit::programs::scratch::Scratch;

/// The script found nothing that it could try.
const SKIPPED: i32 = 77;

fn retro() -> std::ffi::OsString {
    std::env::var_os("RETRO_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_retro").into())
}

fn script() -> Command {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/gpu/run.sh");
    let mut command = Command::new("sh");
    command.arg(path).stdin(Stdio::null());
    command
}

#[test]
fn cuda_and_pytorch_are_recorded_and_verify() {
    let place = Scratch::new("gpu");
    let output = script().arg(retro()).arg(place.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    for line in said.lines().filter(|line| line.starts_with("SKIPPED")) {
        eprintln!("{line}");
    }
    match output.status.code() {
        Some(0) => assert!(said.ends_with("OK\n"), "{said}{complained}"),
        Some(SKIPPED) => assert!(said.contains("SKIPPED"), "{said}{complained}"),
        _ => panic!("{}: {said}{complained}", output.status),
    }
}

/// The script must not fail for a reason of its own: where nothing is wrong with it, it says what it needs.
#[test]
fn the_script_says_how_it_is_used() {
    let output = script().arg("/nonexistent/retro").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("usage: "));
}
