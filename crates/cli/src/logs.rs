//! Which logs of a recording a number stands for, and how errors name them.

use anyhow::{Result, bail};
use retro_abi::channel::Origin;
use retro_recording::Recording;

/// Processes that an error names.
const NAMED: usize = 20;

/// The log with a number, or those of the process with that id: one for each program that it has executed.
pub fn with_number(recording: &Recording, number: u64) -> Result<Vec<u64>> {
    if recording.process(number).is_some() {
        return Ok(vec![number]);
    }
    let logs: Vec<u64> = (recording.processes().iter())
        .filter(|process| u64::from(process.summary.pid) == number)
        .map(|process| process.summary.log)
        .collect();
    if logs.is_empty() {
        bail!("no log or process {number} in this recording; it has {}", in_words(recording, &[]));
    }
    Ok(logs)
}

/// Logs in words; all if none are given.
pub fn in_words(recording: &Recording, logs: &[u64]) -> String {
    let mut wanted = (recording.processes().iter())
        .filter(|process| logs.is_empty() || logs.contains(&process.summary.log))
        .map(|process| {
            let summary = &process.summary;
            let how = match summary.origin {
                Some(Origin::Exec) => ", executed",
                Some(Origin::Fork) => ", child",
                _ => "",
            };
            format!("{} (pid {}{how})", summary.log, summary.pid)
        });
    let mut names: Vec<String> = wanted.by_ref().take(NAMED).collect();
    if wanted.next().is_some() {
        names.push("...".to_string());
    }
    names.join(", ")
}
