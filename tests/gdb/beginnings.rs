//! Programs that change their first stack early, or are started in unusual ways: gdb must know where the program and its libraries
//! are all the same.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use retro_testkit::recordings;

use crate::recorded::{Recorded, has_gdb, retro};

/// How the guest is started.
#[derive(Default)]
struct Start<'a> {
    /// What stands before the program.
    before: &'a [&'a str],
    /// Options of `retro record`.
    recording: &'a [&'a str],
    environment: &'a [(&'a str, &'a str)],
}

/// An argument that is longer than anything that reads it early.
fn argument() -> String {
    "0123456789".repeat(5000)
}

/// Records the guest, and compares what is told of its beginning with what it saw itself.
#[track_caller]
fn check(start: &Start<'_>) {
    if !has_gdb() {
        eprintln!("there is no gdb: nothing is compared");
        return;
    }
    let recorded = Recorded::compiled("begin.c", &["-O0"]);
    let mut command = Command::new(retro());
    command.args(["record", "--quiet", "-o"]).arg(recorded.directory()).args(start.recording);
    command.arg("--").args(start.before).arg(recorded.program()).arg(argument());
    command.env("HOME", "/nowhere").envs(start.environment.iter().copied());
    let seen = command.stdin(Stdio::null()).output().unwrap();
    assert!(seen.status.success() && seen.stdout.len() > 64, "{seen:?}");
    drop(recordings::wait_for(&recorded.directory(), Duration::from_secs(60)));
    assert_eq!(vector_in_core(&recorded.directory()), seen.stdout, "the auxiliary vector");

    let said = gdb(&recorded.directory());
    for wanted in ["main (argc=2, argv=0x", "$1 = \"0123456789\"", "$2 = \"/nowhere\"", "#0  main"]
    {
        assert!(said.contains(wanted), "no {wanted}: {said}");
    }
}

fn gdb(recording: &Path) -> String {
    let mut command = Command::new(retro());
    command.arg("gdb").arg(recording).args(["--", "-nx", "-q", "-batch"]);
    for line in [
        "break main",
        "reverse-continue",
        "print *(argv[1]+40000)@10",
        // What the environment was before the program changed it.
        "python variables = (gdb.parse_and_eval('argv[%d]' % i).string() for i in range(3, 200))",
        "python home = next(v for v in variables if v.startswith('HOME='))",
        "python gdb.execute('print \"%s\"' % home[5:])",
        "backtrace",
    ] {
        command.arg("-ex").arg(line);
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// The auxiliary vector in a core file of the end.
fn vector_in_core(recording: &Path) -> Vec<u8> {
    let core = recording.with_file_name("core");
    let status = Command::new(retro())
        .arg("core")
        .arg("-r")
        .arg(recording)
        .arg("-o")
        .arg(&core)
        .stderr(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    let bytes = fs::read(&core).unwrap();
    note(&bytes, 6).expect("a core file has the vector")
}

/// The contents of a note of a core file.
fn note(core: &[u8], wanted: u64) -> Option<Vec<u8>> {
    let number = |at: usize, len: usize| {
        core[at..at + len].iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
    };
    // The first program header is that of the notes.
    let headers = number(32, 8) as usize;
    let (mut at, len) = (number(headers + 8, 8) as usize, number(headers + 32, 8) as usize);
    let end = at + len;
    while at < end {
        let (name, contents, kind) = (number(at, 4), number(at + 4, 4), number(at + 8, 4));
        let from = at + 12 + name.next_multiple_of(4) as usize;
        if kind == wanted {
            return Some(core[from..from + contents as usize].to_vec());
        }
        at = from + contents.next_multiple_of(4) as usize;
    }
    None
}

#[test]
fn a_program_that_removes_a_variable() {
    check(&Start::default());
}

#[test]
fn short_intervals() {
    check(&Start { recording: &["--interval", "50k"], ..Start::default() });
}

#[test]
fn tunables_of_the_c_library() {
    let environment = [("GLIBC_TUNABLES", "glibc.malloc.arena_max=1")];
    check(&Start { environment: &environment, ..Start::default() });
}

#[test]
fn through_the_dynamic_linker() {
    let linker = "/lib64/ld-linux-x86-64.so.2";
    if !Path::new(linker).exists() {
        return eprintln!("there is no {linker}: nothing is compared");
    }
    check(&Start { before: &[linker], ..Start::default() });
}
