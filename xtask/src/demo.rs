//! A small program with a bug, natively and under `retro`.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process::{cargo, command, output, root, run};

/// Builds everything, runs the example twice, and shows both.
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
    println!("\nUnder the engine:");
    let translated = show(command(&retro).args(["run", "--stats", "--"]).arg(&ledger))?;
    ensure!(native == translated, "the two runs differ");
    println!("\nSame output, same status. examples/README.md tells what the bug is.");
    Ok(())
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
