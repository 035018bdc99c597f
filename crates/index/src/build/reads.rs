//! Storing which words are read, for those who want to know.

use std::ops::ControlFlow;

use retro_recording::Directory;
use retro_replayer::{AccessKind, Detail, Item, Replayer};

use super::{Job, Watch};
use crate::Error;
use crate::manifest::Manifest;
use crate::set_tree::{SetKind, SetTreeWriter};
use crate::windows::WindowTable;

/// Streams the interval for the words that its windows read.
pub(super) fn store_reads(
    replayer: &Replayer,
    job: Job,
    directory: &Directory,
    manifest: &Manifest,
    watch: &impl Watch,
    replay: impl Fn(retro_replayer::Error) -> Error + Copy,
) -> Result<u64, Error> {
    let table = WindowTable::open(&directory.named("windows"), manifest.window_table, 0)?;
    let mut reads = SetTreeWriter::create(&directory.named("reads"), SetKind::Plain)?;
    let mut session = replayer.session(job.log, job.interval.number).map_err(replay)?;
    for window in 0..table.len() {
        if watch.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let end = table.start(window + 1).unwrap_or(job.interval.end);
        let mut words = std::collections::BTreeSet::new();
        let visit = |item: &Item<'_>| {
            if let Item::Block(block) = item {
                for access in block.accesses() {
                    let is_read = matches!(access.kind, AccessKind::Read | AccessKind::Return);
                    if is_read && access.len > 0 {
                        let last = access.address.saturating_add(access.len - 1);
                        words.extend(access.address / 8..=last / 8);
                    }
                }
            }
            ControlFlow::Continue(())
        };
        session.stream(end, Detail::READS | Detail::CALLS, visit).map_err(replay)?;
        reads.append(words.into_iter().filter(|&word| word < crate::set_tree::KEY_LIMIT))?;
    }
    let committed = reads.finish()?;
    reads.sync()?;
    Ok(committed)
}
