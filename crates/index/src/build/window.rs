//! What a window tells while it is replayed.

use std::ops::Range;

use retro_recording::{Budget, Share};
use retro_replayer::{PAGE_SIZE, Snapshot, Summary, Transfer, WrittenPage};

use crate::call_tree::CallOrReturn;
use crate::page_versions::KNOWN_SIZE;

/// What a window has told.
#[derive(Default)]
pub(super) struct WindowData {
    /// The state at its end, unless it is the last.
    pub(super) next: Option<Snapshot>,
    pub(super) executed: Vec<Executed>,
    /// Lengths of instructions.
    pub(super) lengths: Vec<u8>,
    pub(super) written: Vec<Written>,
    pub(super) replaced: Vec<Replaced>,
    pub(super) calls: Vec<CallOrReturn>,
    /// How many calls and returns there were before other threads went on, and which.
    pub(super) switches: Vec<(usize, u32)>,
    pub(super) instructions: u64,
    /// The time at its start.
    pub(super) time: u64,
    /// The memory for what a process can tell any number of times.
    share: Option<Share>,
}

/// What happens to whole pages.
#[derive(Clone, Copy)]
pub(super) enum Replaced {
    Cleared { start: u64, end: u64 },
    Moved { from: u64, to: u64, len: u64 },
}

pub(super) struct Executed {
    pub(super) pc: u64,
    /// Where the lengths of its instructions are, among those of all.
    pub(super) lengths: Range<usize>,
    pub(super) times: u32,
    pub(super) enters: bool,
}

pub(super) struct Written {
    pub(super) address: u64,
    pub(super) bytes: [u8; PAGE_SIZE],
    pub(super) words: [u8; PAGE_SIZE / 64],
    pub(super) known: [u8; KNOWN_SIZE],
}

impl WindowData {
    /// A window that begins at a time, in the memory of one that was stored: what is there need not be found again.
    pub(super) fn begin(spare: Option<WindowData>, time: u64, budget: &Budget) -> WindowData {
        let mut data = spare.unwrap_or_default();
        data.next = None;
        data.executed.clear();
        data.lengths.clear();
        data.written.clear();
        data.replaced.clear();
        data.calls.clear();
        data.switches.clear();
        WindowData { instructions: 0, time, share: Some(budget.share()), ..data }
    }

    fn grow(&mut self, bytes: usize) -> Result<(), retro_replayer::Error> {
        // Vectors grow by doubling.
        self.share.as_mut().map_or(Ok(()), |share| Ok(share.grow(2 * bytes as u64)?))
    }
}

impl Summary for WindowData {
    #[inline]
    fn transfer(&mut self, transfer: Transfer) {
        let event = match transfer {
            Transfer::Call { slot } => CallOrReturn::call(slot),
            Transfer::Return { slot } => CallOrReturn::returned(slot),
            Transfer::Switch { thread } => return self.switches.push((self.calls.len(), thread)),
        };
        self.calls.push(event);
    }

    fn executed(&mut self, pc: u64, lengths: &[u8], times: u32, enters: bool) {
        let from = self.lengths.len();
        self.lengths.extend_from_slice(lengths);
        self.executed.push(Executed { pc, lengths: from..self.lengths.len(), times, enters });
    }

    fn cleared(&mut self, start: u64, end: u64) -> Result<(), retro_replayer::Error> {
        self.grow(size_of::<Replaced>())?;
        self.replaced.push(Replaced::Cleared { start, end });
        Ok(())
    }

    fn moved(&mut self, from: u64, to: u64, len: u64) -> Result<(), retro_replayer::Error> {
        self.grow(size_of::<Replaced>())?;
        self.replaced.push(Replaced::Moved { from, to, len });
        Ok(())
    }

    fn written(&mut self, page: WrittenPage<'_>) -> Result<(), retro_replayer::Error> {
        self.grow(size_of::<Written>())?;
        self.written.push(Written {
            address: page.address,
            bytes: *page.bytes,
            words: *page.words,
            known: *page.bytes_known,
        });
        Ok(())
    }
}
