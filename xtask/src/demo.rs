//! A small program with a bug: natively, recorded, and what the recording tells.

use std::fs;
use std::path::Path;
use std::process::Command;

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

    println!("\nexamples/ledger.c moves money between accounts, and in the end the books are off.");
    println!("\nNatively:");
    let native = show(&mut command(&ledger))?;
    println!("\nRecorded:");
    let recording = directory.join("recording");
    if recording.exists() {
        fs::remove_dir_all(&recording).context("cannot remove the last recording")?;
    }
    let recorded = show(
        command(&retro).args(["record", "--no-index", "-o"]).arg(&recording).arg("--").arg(&ledger),
    )?;
    ensure!(native == recorded, "the two runs differ");
    println!("\nSame output, same status. What the recording holds (retro info):");
    show(command(&retro).arg("info").arg(&recording))?;
    println!("\nWhat the program asked of the kernel at the end (retro dump --kind syscall):");
    let calls = output(command(&retro).arg("dump").arg(&recording).args(["--kind", "syscall"]))?;
    let calls = String::from_utf8_lossy(&calls).into_owned();
    let calls: Vec<&str> = calls.lines().collect();
    for line in &calls[calls.len().saturating_sub(5)..] {
        println!("    {line}");
    }
    println!("\nIs a replay of it the same run? (retro verify)");
    let (_, status) = show(command(&retro).arg("verify").arg(&recording))?;
    ensure!(status == Some(0), "the replay differs");
    ask_about_owners(&retro, &recording)?;
    println!("\nexamples/README.md tells what the bug is.");
    Ok(())
}

/// Follows a suspicion: transfers balance, so what else writes to accounts once they are open?
fn ask_about_owners(retro: &Path, recording: &Path) -> Result<()> {
    /// Accounts that are given owners when they are opened.
    const ACCOUNTS: usize = 64;
    println!("\nOwners change while money moves. When? (retro replay --trace=calls)");
    let calls = trace(retro, recording, &["--trace=calls"])?;
    let renamed: Vec<&String> =
        calls.iter().filter(|line| line.contains("-> set_owner")).skip(ACCOUNTS).collect();
    for line in &renamed {
        println!("    {line}");
    }
    let third = renamed.get(2).context("the recording lacks a call that the program makes")?;
    let time = third.split_whitespace().next().unwrap_or_default();
    let until = (time.parse::<u64>()? + 80).to_string();
    println!(
        "\nWhat did the third of these calls write? (retro replay --trace=writes --from {time})"
    );
    let writes = trace(retro, recording, &["--trace=writes", "--from", time, "--to", &until])?;
    let copied: Vec<&String> = writes.iter().filter(|line| line.contains("strcpy")).collect();
    ensure!(!copied.is_empty(), "the trace lacks the name that the call copies");
    for line in copied {
        println!("    {line}");
    }
    println!(
        "Sixteen letters and a zero, into sixteen bytes: the zero is the lowest byte of the balance."
    );
    Ok(())
}

/// The lines that `retro replay` prints.
fn trace(retro: &Path, recording: &Path, options: &[&str]) -> Result<Vec<String>> {
    let printed = output(command(retro).arg("replay").arg(recording).args(options))?;
    Ok(String::from_utf8_lossy(&printed).lines().map(str::to_owned).collect())
}

/// Runs a command, copies its output, and returns both output and status.
fn show(command: &mut Command) -> Result<(Vec<u8>, Option<i32>)> {
    let shown = command.output();
    let output = shown.with_context(|| format!("cannot run {:?}", command.get_program()))?;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        println!("    {line}");
    }
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        println!("    {line}");
    }
    println!("    ({})", output.status);
    Ok((output.stdout, output.status.code()))
}

fn target_directory() -> Result<std::path::PathBuf> {
    let metadata = output(cargo().args(["metadata", "--format-version=1", "--no-deps"]))?;
    let metadata: serde_json::Value = serde_json::from_slice(&metadata)?;
    let directory = metadata["target_directory"].as_str();
    Ok(directory.map_or_else(|| root().join("target"), Into::into))
}
