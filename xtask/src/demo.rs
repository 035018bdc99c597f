//! A small program with a bug: natively, recorded, and what the recording tells.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, ensure};

use crate::process::{cargo, command, output, root, run};

/// Builds everything, runs and records the example, and asks the recording.
pub fn demo() -> Result<()> {
    run(cargo().args(["build", "--release", "--package", "retro-cli"]))?;
    let target = target_directory()?;
    let retro = target.join("release/retro");
    let directory = target.join("demo");
    fs::create_dir_all(&directory).context("cannot make a directory for the demo")?;
    let ledger = directory.join("ledger");
    run(command("cc").args(["-g", "-O1", "-o"]).arg(&ledger).arg("examples/ledger.c"))?;

    println!("\nexamples/ledger.c moves money between accounts, adds up, and crashes. Natively:");
    let native = show(&mut command(&ledger))?;
    println!("\nRecorded (retro record):");
    let recording = directory.join("recording");
    if recording.exists() {
        fs::remove_dir_all(&recording).context("cannot remove the last recording")?;
    }
    let recorded = show(
        command(&retro).args(["record", "--no-index", "-o"]).arg(&recording).arg("--").arg(&ledger),
    )?;
    ensure!(native == recorded, "the two runs differ");
    println!("\nSame output, same signal. Is a replay of it the same run? (retro verify)");
    let (_, status) = show(command(&retro).arg("verify").arg(&recording))?;
    ensure!(status.success(), "the replay differs");
    let demo = Demo { retro: &retro, recording: &recording };
    demo.find_the_write()?;
    demo.look_around()?;
    println!("\nexamples/README.md tells more of it.");
    Ok(())
}

/// A recording, and the command that asks it.
struct Demo<'a> {
    retro: &'a Path,
    recording: &'a Path,
}

impl Demo<'_> {
    /// From the crash to the write that caused it.
    fn find_the_write(&self) -> Result<()> {
        let stack = self.ask("Where did it crash?", &["bt"])?;
        ensure!(stack.contains("settle"), "the call stack of the crash is not that of the program");
        let write = self.ask(
            "The pointer `account->branch` is nonsense. Who wrote it? One command:",
            &["last-write", "account->branch"],
        )?;
        ensure!(
            write.contains("set_owner") && write.contains("strcpy(account->owner, owner);"),
            "the write that caused the crash was not found"
        );
        Ok(())
    }

    /// More about the moment of that write, and about the run.
    fn look_around(&self) -> Result<()> {
        self.ask("What was written there, and when?", &["history", "account->branch"])?;
        self.ask(
            "What was the function given? (`--at last` is where the last answer has led to)",
            &["print", "owner", "--at", "last", "--frame", "1"],
        )?;
        self.ask("How was it called otherwise?", &["calls", "set_owner", "--limit", "5"])?;
        self.ask(
            "The account holds billions. Which write took it beyond a million?",
            &[
                "goto",
                "backward store account->cents where oldval < 100000000 and newval > 100000000",
            ],
        )?;
        Ok(())
    }

    /// Asks, and shows question and answer.
    fn ask(&self, question: &str, arguments: &[&str]) -> Result<String> {
        let words: Vec<String> = arguments.iter().map(|word| shell_word(word)).collect();
        println!("\n{question}\n  $ retro {}", words.join(" "));
        let mut asked = command(self.retro);
        let (answer, status) = show(asked.args(arguments).arg("-r").arg(self.recording))?;
        ensure!(status.success(), "the recording did not answer");
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

/// A word as it is typed.
fn shell_word(word: &str) -> String {
    match word.contains([' ', '>', '*']) {
        true => format!("'{word}'"),
        false => word.to_string(),
    }
}

/// Runs a command, copies its output, and returns both output and status.
fn show(command: &mut Command) -> Result<(Vec<u8>, ExitStatus)> {
    let shown = command.output();
    let output = shown.with_context(|| format!("cannot run {:?}", command.get_program()))?;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        println!("    {line}");
    }
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        println!("    {line}");
    }
    if !output.status.success() {
        println!("    ({})", output.status);
    }
    Ok((output.stdout, output.status))
}

fn target_directory() -> Result<std::path::PathBuf> {
    let metadata = output(cargo().args(["metadata", "--format-version=1", "--no-deps"]))?;
    let metadata: serde_json::Value = serde_json::from_slice(&metadata)?;
    let directory = metadata["target_directory"].as_str();
    Ok(directory.map_or_else(|| root().join("target"), Into::into))
}
