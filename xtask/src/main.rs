//! The project's own tasks, run as `cargo xtask TASK`.
//!
//! Invariant: nothing of the project is linked here, so that a task can start, install what is
//! missing and say what is wrong even when the rest does not build.

mod demo;
mod fuzz;
mod lint;
mod packages;
mod page;
mod process;
mod test;
mod vector_code;

use std::env;
use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
Usage: cargo xtask TASK

  demo   build retro, then run a small program with a bug natively and under it
  test   install what is missing, check the style, run every test
  lint   check the style only: rustfmt, clippy, no vector code in the engine
  page   test the web page only, in Chromium
  fuzz M for M minutes, fuzz what a replay process may say, and run the property tests with new seeds

RETRO_FULL=1 cargo xtask test runs the slow tests of real programs, too.";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["demo"] => demo::demo(),
        ["test"] => test::test(),
        ["lint"] => lint::lint(),
        ["page"] => page::test(),
        ["fuzz", minutes] => fuzz::fuzz(minutes),
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(())
        }
        _ => bail!("no task {:?}\n{HELP}", arguments.join(" ")),
    }
}
