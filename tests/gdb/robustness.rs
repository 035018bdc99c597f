//! What is not as it should be: no gdb, no program, a damaged index, a recording that is still being indexed, a gdb that is killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use retro_index::Place;
use retro_index::claim::Claim;
use retro_recording::Directory;

use crate::clients::{Client, Server};
use crate::recorded::{Recorded, has_gdb, retro};

/// What `retro gdb` does with some commands for gdb.
fn gdb(recorded: &Recorded, options: &[&str], commands: &[&str]) -> Output {
    let mut command = Command::new(retro());
    command.arg("gdb").arg(recorded.directory()).args(options);
    command.args(["--", "-nx", "-q", "-batch"]);
    for line in commands {
        command.arg("-ex").arg(line);
    }
    command.stdin(Stdio::null()).output().unwrap()
}

fn all_of(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn without_a_gdb_it_says_so() {
    let output = gdb(&Recorded::of("steps.c", &["-O0"]), &["--gdb", "/nowhere/gdb"], &[]);
    let said = all_of(&output);
    assert!(
        !output.status.success() && said.contains("there is no /nowhere/gdb on this machine"),
        "{said}"
    );
}

#[test]
fn without_the_program_there_are_addresses() {
    if !has_gdb() {
        return;
    }
    let recorded = Recorded::anew("crash.c", &["-O0"], &[]);
    fs::remove_file(recorded.program()).unwrap();
    let output = gdb(&recorded, &[], &["info threads", "x/i $pc", "reverse-stepi", "bt 1"]);
    let said = all_of(&output);
    assert!(said.contains("is not there any more: gdb gets no symbols of it"), "{said}");
    assert!(said.contains("=> 0x"), "{said}");
}

/// Files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

#[test]
fn a_damaged_index_is_told() {
    if !has_gdb() {
        return;
    }
    let recorded = Recorded::anew("steps.c", &["-O0"], &[]);
    gdb(&recorded, &[], &[]);
    let index = place(&recorded.directory()).path();
    for file in files(&index) {
        let mut bytes = fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        bytes.iter_mut().skip(middle).step_by(7).for_each(|byte| *byte ^= 0x55);
        fs::write(&file, bytes).unwrap();
    }
    let output =
        gdb(&recorded, &[], &["break square", "reverse-continue", "info registers rip", "bt"]);
    let said = all_of(&output);
    assert!(!said.contains("panicked"), "{said}");
    // It says what is wrong, or builds it anew.
    assert!(said.contains("index") || said.contains("square (x=4)"), "{said}");
}

#[test]
fn a_gdb_that_is_killed_can_come_back() {
    if !has_gdb() {
        return;
    }
    let server = Server::start(&Recorded::of("steps.c", &["-O0"]));
    let end = Client::connect(&server.socket).ask("?");
    let mut killed = Command::new("gdb")
        .args(["-nx", "-q", "-batch", "-ex"])
        .arg(format!("target remote {}", server.socket.display()))
        .args(["-ex", "reverse-stepi", "-ex", "shell echo ready", "-ex", "shell sleep 60"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_millis(500));
    killed.kill().unwrap();
    killed.wait().unwrap();
    let mut again = Client::connect(&server.socket);
    assert_eq!(again.ask("?"), end);
    assert!(again.ask("bs").starts_with("T05"));
}

fn place(recording: &Path) -> Place {
    Place::beside(&Directory::open(recording).unwrap()).unwrap()
}

/// The right to build an index; who built it in the background may need a moment to end.
fn claimed(recording: &Path) -> Claim {
    for _ in 0..1000 {
        if let Some(claim) = Claim::take(&place(recording)).unwrap() {
            return claim;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("the index of {} is still being built", recording.display());
}

#[test]
fn what_is_indexed_can_be_looked_at() {
    if !has_gdb() {
        return;
    }
    let recorded = Recorded::anew("crash.c", &["-O0"], &["--interval", "50k"]);
    let built = Command::new(retro()).arg("index").arg(recorded.directory()).output().unwrap();
    assert!(built.status.success(), "{}", all_of(&built));
    // As if the last part was not built yet, and another process at it.
    let claim = claimed(&recorded.directory());
    let mut volumes: Vec<PathBuf> = fs::read_dir(claim.index().path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    volumes.sort();
    assert!(volumes.len() > 3, "{volumes:?}");
    let last = volumes.pop().unwrap();
    let aside = recorded.directory().join("aside");
    fs::rename(&last, &aside).unwrap();
    let server = Server::start(&recorded);
    let mut client = Client::connect(&server.socket);
    let first_end = client.ask("?");
    assert!(client.ask("bc").contains("replaylog:begin"));
    client.send("c");
    let remark = client.receive_any();
    let told = remark.strip_prefix('O').map(|digits| {
        let bytes = digits
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap());
        String::from_utf8(bytes.collect()).unwrap()
    });
    assert!(told.is_some_and(|told| told.contains("indexed up to here")), "{remark}");
    let stop = client.receive();
    assert!(stop.contains("replaylog:end"), "{stop}");
    let registers = |stop: &str| stop.split_once("6:").map(|(_, rest)| rest.to_owned());
    assert_eq!(registers(&stop), registers(&first_end));
    // The other process is done: the run goes on to its end, the crash.
    fs::rename(&aside, &last).unwrap();
    drop(claim);
    // It is not looked for all the time.
    thread::sleep(Duration::from_millis(1100));
    assert!(client.ask("c").starts_with("T0b"), "the crash is there now");
}
