//! Storing what the log tells besides memory: system calls, signals, mappings, threads.

use std::ops::ControlFlow;

use retro_abi::channel::Stream;
use retro_abi::log::Event;
use retro_recording::Directory;
use retro_replayer::Replayer;

use super::Job;
use crate::Error;
use crate::events::{Row, RowTable, RowWriter, TimedRow};
use crate::manifest::Manifest;
use crate::set_tree::{SetKind, SetTreeWriter};
use crate::windows::WindowTable;

/// Goes through the log for what it tells besides memory.
pub(super) fn store_rows(
    replayer: &Replayer,
    job: Job,
    directory: &Directory,
    manifest: &Manifest,
) -> Result<(u64, u64), Error> {
    let table = WindowTable::open(&directory.named("windows"), manifest.window_table, 0)?;
    let mut rows = RowWriter::create(&directory.named("rows"))?;
    let mut kinds = SetTreeWriter::create(&directory.named("row-kinds"), SetKind::Counted)?;
    let mut gathered: Vec<TimedRow> = Vec::new();
    let mut share = replayer.recording().budget().share();
    // The first interval of a log has rows before it is said to begin: what the program was loaded as.
    let intervals = replayer.intervals(job.log);
    let intervals = intervals.map_err(|source| Error::replay(job.log, source))?;
    let mut begun = intervals.first().is_some_and(|first| first.number == job.interval.number);
    let (mut window, mut thread) = (0u32, 0u32);
    let mut flush = |gathered: &mut Vec<TimedRow>| -> Result<(), Error> {
        rows.append(gathered)?;
        let mut keys: Vec<u64> = gathered.iter().filter_map(|row| row.row.key()).collect();
        keys.sort_unstable();
        let counts = keys.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u32));
        kinds.append_counted(counts)?;
        gathered.clear();
        Ok(())
    };
    let end_of = |window: u32| table.start(window + 1).unwrap_or(u64::MAX);
    let visit = |time: u64, event: &Event<'_>| {
        if let Event::Interval { number, running, .. } = *event {
            if number > job.interval.number {
                return ControlFlow::Break(None);
            }
            begun |= number == job.interval.number;
            thread = running;
            for row in gathered.iter_mut().filter(|row| row.thread == 0) {
                row.thread = running;
            }
        }
        if !begun {
            return ControlFlow::Continue(());
        }
        if let Event::ThreadSwitch { thread: next, .. } | Event::ThreadStart { thread: next } =
            event
        {
            thread = *next;
        }
        while time > end_of(window) {
            if let Err(error) = flush(&mut gathered) {
                return ControlFlow::Break(Some(error));
            }
            share.clear();
            window += 1;
        }
        if let Some(row) = Row::of(event) {
            // Vectors grow by doubling. What the log has for one window is kept until it is stored.
            if let Err(over) = share.grow(2 * size_of::<TimedRow>() as u64) {
                return ControlFlow::Break(Some(Error::Memory(over)));
            }
            gathered.push(TimedRow { time, thread, row });
        }
        ControlFlow::Continue(())
    };
    let start = job.interval.start;
    let visited = replayer.recording().for_each_event_from(job.log, Stream::Main, start, visit)?;
    if let ControlFlow::Break(Some(error)) = visited {
        return Err(error);
    }
    while window < table.len() {
        flush(&mut gathered)?;
        window += 1;
    }
    let committed = (rows.commit()?, kinds.finish()?);
    if manifest.is_worth_syncing() {
        rows.sync()?;
        kinds.sync()?;
    }
    debug_assert_eq!(
        RowTable::open(&directory.named("rows"), committed.0).map_or(0, |rows| rows.windows()),
        table.len()
    );
    Ok(committed)
}
