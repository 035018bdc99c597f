//! `retro run`: a program under the engine.
//!
//! Without `--stats` this process *becomes* the guest, so that its process id, parent, terminal,
//! signals and ending are the guest's with nothing in between. With `--stats` somebody must still
//! be there afterwards to print: a child becomes the guest and this process supervises it.

use std::env;
use std::io::{self, Write};
use std::time::Instant;

use anyhow::Result;
use retro_abi::config::Policy;

use crate::arguments::{RunOptions, StatsFormat};
use crate::counters::Counters;
use crate::launch::Launch;
use crate::report::Report;
use crate::{engine_file, resolve, supervise};

/// Runs the command. Returns only if it could not be started.
pub fn run(options: &RunOptions) -> Result<()> {
    let [name, ..] = options.command.as_slice() else {
        unreachable!("the command line requires a command")
    };
    let path = resolve::resolve(name, env::var_os("PATH").as_deref())?;
    let launch = Launch::new(engine_file::open()?, path, &options.command, options.code_cache)?;
    match options.stats {
        None => match launch.execute(Policy::Run, None, None)? {},
        Some(format) => counted(&launch, format),
    }
}

fn counted(launch: &Launch, format: StatsFormat) -> Result<()> {
    let counters = Counters::new()?;
    let start = Instant::now();
    let shared = counters.shared();
    let finale = supervise::supervise(None, |supervised| {
        launch.execute(Policy::Count, Some(shared), Some(supervised))
    })?;
    let report = Report::new(counters.get(), start.elapsed());
    let text = match format {
        StatsFormat::Text => report.text(),
        StatsFormat::Json => report.json()? + "\n",
    };
    // A guest's ending matters more than a reader of its counters that has gone away.
    let _ = io::stderr().write_all(text.as_bytes());
    supervise::end_as(finale.ending)
}
