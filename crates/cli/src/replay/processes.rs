//! Which process and which part of its time a replay is about.

use anyhow::{Result, bail};
use retro_recording::Recording;

use crate::arguments::ReplayOptions;
use crate::logs;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Logs; all if there are none.
    pub logs: Vec<u64>,
    /// The first time of them.
    pub from: u64,
    /// The last time of them.
    pub to: u64,
}

impl Wanted {
    /// What the options ask for. Times are those of one log, so that bounds and traces need one.
    pub fn new(recording: &Recording, options: &ReplayOptions) -> Result<Wanted> {
        let logs = match options.process {
            Some(number) => logs::with_number(recording, number)?,
            None => Vec::new(),
        };
        let is_bounded = options.from.is_some() || options.to.is_some();
        if !is_bounded && options.trace.is_empty() {
            return Ok(Wanted { logs, from: 0, to: u64::MAX });
        }
        let log = one_log(recording, &logs, options)?;
        let length = recording.process(log).map_or(0, |process| process.summary.time);
        let from = options.from.map_or(0, |moment| moment.in_run(length));
        let to = options.to.map_or(u64::MAX, |moment| moment.in_run(length));
        if from > to {
            bail!("nothing lies between time {from} and time {to}: --from is behind --to");
        }
        if from > length {
            bail!("log {log} ends at time {length}, before --from, which is {from}");
        }
        Ok(Wanted { logs: vec![log], from, to })
    }

    /// Whether something is asked for.
    pub fn has(&self, log: u64, time: u64) -> bool {
        (self.logs.is_empty() || self.logs.contains(&log)) && (self.from..=self.to).contains(&time)
    }
}

fn one_log(recording: &Recording, logs: &[u64], options: &ReplayOptions) -> Result<u64> {
    let candidates: Vec<u64> = match logs {
        [] => recording.processes().iter().map(|process| process.summary.log).collect(),
        logs => logs.to_vec(),
    };
    match candidates[..] {
        [log] => Ok(log),
        [] => bail!("this recording has no processes"),
        _ => {
            let what =
                if options.trace.is_empty() { "--from and --to need" } else { "--trace needs" };
            bail!(
                "{what} one process, and there are several: choose with --process from {}",
                logs::in_words(recording, &candidates)
            )
        }
    }
}
