//! Programs that cannot be run: the message and the status a shell user expects, and for a guest
//! that tries it, the `errno` the kernel would have given.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use retro_testkit::compare::{Ending, assert_same, run, under_retro};
use retro_testkit::programs::scratch::Scratch;

use crate::{MODES, TIMEOUT, retro, retro_path, text};

const ARCH_386: u8 = 3;
const ARCH_AARCH64: u8 = 183;
const ARCH_X86_64: u8 = 62;

/// An ELF header of an executable with one program header that lies past the file's end.
fn elf_header(class: u8, machine: u8) -> Vec<u8> {
    let mut header = vec![0; if class == 1 { 52 } else { 64 }];
    header[..4].copy_from_slice(b"\x7fELF");
    (header[4], header[5], header[6]) = (class, 1, 1);
    (header[16], header[18], header[20]) = (2, machine, 1);
    if class == 1 {
        (header[28], header[40], header[42], header[44]) = (52, 52, 32, 1);
    } else {
        (header[32], header[52], header[54], header[56]) = (64, 64, 56, 1);
    }
    header
}

/// A directory with one file for each way to fail.
fn broken_files() -> Scratch {
    let scratch = Scratch::new("errors");
    let write = |name: &str, mode: u32, bytes: &[u8]| {
        let path = scratch.path().join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    write("plain", 0o644, b"#!/bin/sh\necho no\n");
    write("text", 0o755, b"echo a shell would read this\n");
    write("empty", 0o755, b"");
    write("elf32", 0o755, &elf_header(1, ARCH_386));
    write("aarch64", 0o755, &elf_header(2, ARCH_AARCH64));
    write("no-program-headers", 0o755, &elf_header(2, ARCH_X86_64));
    write("truncated", 0o755, &fs::read("/bin/true").unwrap()[..40]);
    write("script-without-interpreter", 0o755, b"#!/nowhere/shell\n");
    write("script-of-script", 0o755, b"#!./script-without-interpreter\n");
    write("main.c", 0o644, b"int main(void) { return 0; }\n");
    fs::create_dir(scratch.path().join("directory")).unwrap();
    symlink("nowhere", scratch.path().join("dangling")).unwrap();
    let mut compiler = Command::new("cc");
    compiler.current_dir(scratch.path()).args(["-Wl,--dynamic-linker=/nowhere/ld.so", "main.c"]);
    let compiled = run(compiler.args(["-o", "elf-without-interpreter"]), TIMEOUT);
    assert_eq!(compiled.status, Ending::Exited(0), "{}", text(&compiled.stderr));
    scratch
}

#[test]
fn the_message_and_the_status_are_a_shell_s() {
    let scratch = broken_files();
    let cases = [
        ("absent", 127, "No such file or directory"),
        ("dangling", 127, "No such file or directory"),
        ("plain/below", 126, "Not a directory"),
        ("directory", 126, "Is a directory"),
        ("plain", 126, "Permission denied"),
        ("text", 126, "Exec format error"),
        ("empty", 126, "Exec format error"),
        ("elf32", 126, "Exec format error"),
        ("aarch64", 126, "Exec format error"),
        ("no-program-headers", 126, "Exec format error"),
        ("truncated", 126, "Exec format error"),
        ("elf-without-interpreter", 127, "No such file or directory"),
        ("script-without-interpreter", 127, "No such file or directory"),
    ];
    for mode in MODES {
        let mut wrong = Vec::new();
        for (name, status, message) in cases {
            let path = scratch.path().join(name);
            let mut command = Command::new(retro_path());
            let outcome = run(command.args(mode).arg("--").arg(&path), TIMEOUT);
            let stderr = text(&outcome.stderr);
            let first = stderr.lines().next().unwrap_or_default();
            let right = outcome.status == Ending::Exited(status)
                && first.starts_with("retro: ")
                && first.contains(path.to_str().unwrap())
                && first.contains(message)
                && outcome.stdout.is_empty();
            if !right {
                wrong.push(format!(
                    "{name}: expected status {status} and {message:?}, got {:?} and {stderr:?}",
                    outcome.status
                ));
            }
        }
        assert!(wrong.is_empty(), "{mode:?}\n{}", wrong.join("\n"));
    }
}

#[test]
fn a_name_is_looked_up_in_path() {
    let outcome = retro(["run", "--", "no-such-command"]);
    assert_eq!(outcome.status, Ending::Exited(127));
    assert_eq!(text(&outcome.stderr), "retro: no-such-command: command not found\n");

    let scratch = broken_files();
    let mut command = Command::new(retro_path());
    command.args(["run", "--", "plain"]).env("PATH", scratch.path());
    let outcome = run(&mut command, TIMEOUT);
    assert_eq!(outcome.status, Ending::Exited(126));
    let stderr = text(&outcome.stderr);
    assert!(stderr.ends_with("/plain)\n") && stderr.contains("Permission denied"), "{stderr}");
}

#[test]
fn retro_does_not_run_under_itself() {
    let message = "retro does not run under retro";
    let inner = retro_path().to_str().unwrap();
    for outer in MODES {
        for mode in MODES {
            let mut command = Command::new(retro_path());
            command.args(outer).args(["--", inner]).args(mode).args(["--", "/bin/true"]);
            let outcome = run(&mut command, TIMEOUT);
            let stderr = text(&outcome.stderr);
            assert_eq!(outcome.status, Ending::Exited(125), "{outer:?} {mode:?}: {stderr}");
            let first = stderr.lines().next().unwrap_or_default();
            assert!(first.starts_with("retro: ") && first.contains(message), "{stderr}");
            assert!(outcome.stdout.is_empty());
        }
    }
    // Nor is it the program's end, and what else `retro` does works.
    let script = format!("{inner} run -- /bin/true; echo $?; {inner} --version | cut -c 1-6");
    let outcome = retro(["run", "--", "bash", "-c", &script]);
    assert_eq!(
        (outcome.status, text(&outcome.stdout)),
        (Ending::Exited(0), "125\nretro \n".into())
    );
    assert!(text(&outcome.stderr).contains(message));
}

#[test]
fn a_guest_s_execve_fails_as_natively() {
    let scratch = broken_files();
    let script = "
import errno, os
for name in sorted(os.listdir('.')) + ['absent', 'plain/below', 'x' * 300, '']:
    try:
        os.execv(name, [name])
    except OSError as error:
        print(name[:40], errno.errorcode[error.errno])
";
    check_in(scratch.path(), &["/usr/bin/python3", "-c", script]);
}

#[test]
fn a_guest_s_shell_tells_what_it_cannot_execute() {
    let scratch = broken_files();
    let script = "for file in * absent; do ./$file; echo $file: $?; done";
    check_in(scratch.path(), &["bash", "-c", script]);
    check_in(scratch.path(), &["dash", "-c", script]);
}

fn check_in(directory: &Path, command: &[&str]) {
    let mut native = Command::new(command[0]);
    native.args(&command[1..]).current_dir(directory);
    let translated = run(&mut under_retro(retro_path(), &native), TIMEOUT);
    assert_same(&run(&mut native, TIMEOUT), &translated);
}
