//! Where the heads of the threads are, as of a commit.

use std::collections::BTreeMap;

use crate::frames::fields::{Fields, put_number};
use crate::frames::ledger::Ledger;
use crate::frames::{FrameError, FrameFile, FrameWriter, HEAD_SIZE};

/// Which optional columns a file has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// What each call entered.
    pub callees: bool,
}

/// The list of heads grows with each commit; the last entry of a thread counts.
#[derive(Debug, Default)]
pub(super) struct Directory {
    ledger: Ledger,
    heads: BTreeMap<u32, u64>,
    pub(super) windows: u64,
    pub(super) columns: Columns,
}

impl Directory {
    pub(super) fn new(columns: Columns) -> Directory {
        Directory { columns, ..Directory::default() }
    }

    pub(super) fn load(file: &FrameFile) -> Result<Directory, FrameError> {
        let (ledger, number) = Ledger::load(file)?;
        let mut heads = BTreeMap::new();
        let mut list = Fields::new(ledger.list());
        while !list.is_empty() {
            let head = list.number32().and_then(|thread| Ok((thread, list.number()?)));
            let (thread, position) = head.map_err(|reason| file.damaged(HEAD_SIZE, reason))?;
            heads.insert(thread, position);
        }
        let columns = Columns { callees: number & 1 == 1 };
        Ok(Directory { ledger, heads, windows: number >> 1, columns })
    }

    /// Whether it is that of a file in which nothing was committed.
    pub(super) fn is_empty(&self) -> bool {
        self.windows == 0 && self.heads.is_empty()
    }

    pub(super) fn head(&self, thread: u32) -> Option<u64> {
        self.heads.get(&thread).copied()
    }

    pub(super) fn threads(&self) -> impl Iterator<Item = u32> {
        self.heads.keys().copied()
    }

    pub(super) fn set_head(&mut self, thread: u32, position: u64) {
        put_number(self.ledger.end(), u64::from(thread));
        put_number(self.ledger.end(), position);
        self.heads.insert(thread, position);
    }

    pub(super) fn commit(&mut self, writer: &mut FrameWriter) -> Result<u64, FrameError> {
        self.ledger.commit(writer, self.windows << 1 | u64::from(self.columns.callees))
    }
}
