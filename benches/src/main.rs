//! `retro-bench`: what does it cost to run a program under Retrospect?
//!
//! Problem: a slowdown figure means something only beside the native time and a peer's, taken on
//! the same machine, at the same moment, on the same input, for a run that gave the right answer.
//!
//! Strategy: a fixed table of programs ([`programs`]) with inputs generated from fixed seeds
//! ([`inputs`]) is run in every mode ([`modes`]) in turn, round after round, so that a change in
//! the machine's speed hits all modes alike ([`session`]). Each run is timed and its standard
//! output compared with the native one's ([`measure`]); of recorded runs the log is measured, too
//! ([`recording`]). A recording made beforehand is replayed in the same rounds ([`replaying`]), and random questions about
//! it are asked ([`queries`]; of gdb's server: [`gdb`]), each in a process of this program with the engine of its own build ([`engine`]).
//! The medians become ratios to native ([`report`]), printed as a table ([`table`]) or JSON, judged against the
//! project's goals ([`targets`]), and written into RESULTS.md on request ([`results`]).
//!
//! Invariants:
//! 1. A figure in a report stems from a run whose output and exit status equalled native's, or from a replay
//!    without divergence that executed as many instructions as were recorded.
//! 2. Everything created lies in one directory that is removed on the way out ([`workdir`]).
//! 3. Nothing printed depends on the date, the user or where the tree is checked out.

mod c_source;
mod engine;
mod gdb;
mod inputs;
mod interrupt;
mod machine;
mod measure;
mod modes;
mod options;
mod programs;
mod queries;
mod random;
mod recording;
mod replaying;
mod report;
mod results;
mod session;
mod statistics;
mod table;
mod targets;
mod tools;
mod workdir;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

use crate::options::{Options, Task};
use crate::replaying::Depth;

fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = match &options.task {
        Some(task) => do_task(task).map(|()| true),
        None => run(&options),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("retro-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prints what was found as JSON, for the process that started this one.
fn do_task(task: &Task) -> Result<()> {
    let json = match task {
        Task::Replay { recording } => {
            serde_json::to_string(&replaying::replay(recording, Depth::Plain)?)?
        }
        Task::Stream { recording } => {
            serde_json::to_string(&replaying::replay(recording, Depth::Streamed)?)?
        }
        Task::Query { recording, questions } => {
            serde_json::to_string(&queries::measure(recording, *questions)?)?
        }
        Task::Gdb { recording, requests } => {
            serde_json::to_string_pretty(&gdb::measure(recording, *requests)?)?
        }
    };
    println!("{json}");
    Ok(())
}

/// Whether every measured run gave the right answer.
fn run(options: &Options) -> Result<bool> {
    if options.list {
        print!("{}", table::program_list(programs::all()));
        return Ok(true);
    }
    interrupt::install()?;
    let results_file = options.update_results.as_deref();
    if let Some(path) = results_file {
        // Checked before the long part, not after it.
        results::check(path)?;
    }

    let report = session::run(options)?;

    let text = if options.json {
        serde_json::to_string_pretty(&report)? + "\n"
    } else {
        table::render(&report)
    };
    match &options.out {
        Some(path) => {
            std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        None => print!("{text}"),
    }
    let failures = report.failures();
    for failure in &failures {
        eprintln!("retro-bench: {failure}");
    }
    if let Some(path) = results_file {
        results::update(path, &report)?;
    }
    Ok(failures.is_empty())
}
