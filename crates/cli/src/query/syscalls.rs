//! `retro syscalls`: system calls, as strace shows them.
//!
//! The index tells where calls of a name begin. Where each ends is found by going on from there once for all that are shown.

use std::collections::HashMap;

use anyhow::{Result, bail};
use retro_abi::syscall_names;
use retro_query::{Error, Process, Row, RowClass, RowFilter, TimedRow};

use super::latest;
use super::question::{Question, told};
use crate::Completeness;
use crate::arguments::SyscallsOptions;
use crate::message::notify;
use crate::replay::line::{Format, Line, What};

/// Windows that are searched for the end of a call. Who waits longer has not returned for what is shown.
const PATIENCE: usize = 4096;

/// Rows that are kept for the next call.
const ROWS_KEPT: usize = 1 << 20;

/// Lists system calls.
pub fn syscalls(options: &SyscallsOptions) -> Result<Completeness> {
    let mut question = Question::new(&options.subject)?;
    let numbers = numbers(&options.name)?;
    let mut results = Results::default();
    let thread = options.thread;
    let shown = latest::show(
        &mut question,
        &options.extent,
        |question, from, direction| {
            let filter = match numbers[..] {
                [number] => RowFilter::Number(RowClass::Syscall, number),
                _ => RowFilter::Class(RowClass::Syscall),
            };
            let from = question.at(from);
            let all =
                question.run.rows(from, direction, filter, &question.cancel()).map_err(told)?;
            let numbers = numbers.clone();
            Ok(all.filter(move |row| match row {
                Ok(TimedRow { row: Row::SyscallEnter { number, .. }, thread: by, .. }) => {
                    (numbers.is_empty() || numbers.contains(number))
                        && thread.is_none_or(|thread| thread == *by)
                }
                Ok(_) => false,
                Err(_) => true,
            }))
        },
        |row| row.time.saturating_sub(1),
        |question, row| show(question, &mut results, &row),
    )?;
    if shown == 0 {
        notify("no system call was made in that time");
    }
    Ok(Completeness::Whole)
}

fn numbers(names: &[String]) -> Result<Vec<u64>> {
    names
        .iter()
        .map(|name| {
            match (0..1024).find(|&number| syscall_names::name(number) == Some(name.as_str())) {
                Some(number) => Ok(number),
                None => bail!("no system call `{name}`: `retro info` counts those that were made"),
            }
        })
        .collect()
}

fn show(question: &mut Question, results: &mut Results, row: &TimedRow) -> Result<()> {
    let Row::SyscallEnter { number, ref args } = row.row else { return Ok(()) };
    let result = results.of(&question.process, row).map_err(told)?;
    let (time, thread) = (row.time, row.thread);
    let what = What::Syscall { number, args, result, place: None };
    let line = Line { log: question.moment.log, time, thread, what };
    let format = if question.is_json { Format::Json } else { Format::Text(question.style) };
    Ok(question.output.line(&line.shown(format))?)
}

/// Results of calls, as far as rows were read.
#[derive(Default)]
struct Results {
    /// Rows of windows, by volume and window.
    rows: HashMap<(usize, u32), Vec<TimedRow>>,
    /// How many rows these are.
    count: usize,
}

impl Results {
    /// What a call returned, if it did.
    fn of(&mut self, process: &Process, entered: &TimedRow) -> Result<Option<u64>, Error> {
        let number = entered.time.saturating_sub(1).max(process.start);
        let (volume, index) = process.volume_of(number)?;
        let mut place = (volume, index.window_of(number));
        for _ in 0..PATIENCE {
            let rows = self.rows_of(process, place)?;
            let first = rows.partition_point(|row| row.time < entered.time);
            for row in rows[first..].iter().filter(|row| row.thread == entered.thread) {
                match row.row {
                    Row::SyscallExit { result } => return Ok(Some(result)),
                    // Whoever makes another call has not returned from this one, or it was over before.
                    Row::SyscallEnter { .. } if row.time > entered.time => return Ok(None),
                    _ => {}
                }
            }
            place = match place {
                (volume, window) if window + 1 < process.volumes[volume].windows.len() => {
                    (volume, window + 1)
                }
                (volume, _) if volume + 1 < process.volumes.len() => (volume + 1, 0),
                _ => return Ok(None),
            };
        }
        Ok(None)
    }

    fn rows_of(&mut self, process: &Process, place: (usize, u32)) -> Result<&[TimedRow], Error> {
        if !self.rows.contains_key(&place) {
            if self.count > ROWS_KEPT {
                self.rows.clear();
                self.count = 0;
            }
            let rows = process.volumes[place.0].rows.rows(place.1)?;
            self.count += rows.len() + 1;
            self.rows.insert(place, rows);
        }
        Ok(&self.rows[&place])
    }
}
