//! A stream that is kept, to be looked at again.
//!
//! What is kept of a block that ran is its time, its code and its record, as the process has written it; code is
//! described once. Nothing is taken apart before somebody asks for it: most of a stream nobody ever looks at, and
//! keeping it costs a fraction of what taking it apart does.

use retro_abi::replay::RECORD_GRAIN;

use super::{AccessKind, Accesses, Block, Descriptions, Ending};

/// Blocks that ran, in the order of time.
#[derive(Debug, Default)]
pub struct KeptStream {
    /// The time that others count from.
    start: u64,
    codes: Descriptions,
    /// By the number that the process gives a block: its number in `codes`, plus one.
    numbers: Vec<u32>,
    /// When the numbers of the process began anew last.
    generation: u64,
    blocks: Vec<KeptBlock>,
    records: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct KeptBlock {
    /// Since the start.
    time: u32,
    code: u32,
    /// Where its record begins, in grains. What belongs to it besides comes behind it, up to the next record.
    record: u32,
}

impl KeptStream {
    /// Forgets what there is, but not the memory that it took. Blocks from a time on can be kept then.
    pub fn begin(&mut self, start: u64) {
        self.start = start;
        self.codes.clear();
        self.numbers.clear();
        self.blocks.clear();
        self.records.clear();
    }

    /// Keeps a block; its record comes with [`KeptStream::keep_records`]. False if there is no room: it comes too late, or
    /// there is too much already.
    #[inline]
    pub fn keep(&mut self, block: &Block<'_>) -> bool {
        if block.blocks.generation != self.generation {
            self.numbers.clear();
            self.generation = block.blocks.generation;
        }
        let known = self.numbers.get(block.number as usize).copied().unwrap_or_default();
        let code = known.checked_sub(1).unwrap_or_else(|| self.number(block));
        let time = u32::try_from(block.time.wrapping_sub(self.start));
        let record = u32::try_from((self.records.len() + block.offset) / RECORD_GRAIN);
        let (Ok(time), Ok(record)) = (time, record) else { return false };
        self.blocks.push(KeptBlock { time, code, record });
        true
    }

    /// Keeps the records of the blocks since the last call: all at once, since each by itself costs more than all else.
    pub fn keep_records(&mut self, bytes: &[u8]) {
        self.records.extend_from_slice(bytes);
    }

    /// Gives new code its number.
    #[cold]
    #[inline(never)]
    fn number(&mut self, block: &Block<'_>) -> u32 {
        let code = self.codes.take_in(block.blocks, block.description);
        let index = block.number as usize;
        if index >= self.numbers.len() {
            self.numbers.resize(index + 1, 0);
        }
        self.numbers[index] = code + 1;
        code
    }

    /// How many blocks there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// How many blocks begin before a time.
    pub fn count_before(&self, time: u64) -> usize {
        let since = time.saturating_sub(self.start);
        self.blocks.partition_point(|block| u64::from(block.time) < since)
    }

    /// The number of the first instruction of a block.
    #[inline]
    pub fn time(&self, block: usize) -> u64 {
        self.start + u64::from(self.blocks[block].time)
    }

    /// What code a block has: a number below [`KeptStream::codes`].
    #[inline]
    pub fn code(&self, block: usize) -> usize {
        self.blocks[block].code as usize
    }

    /// How much different code there is.
    pub fn codes(&self) -> usize {
        self.codes.known.len()
    }

    /// The address of the first instruction of code, and the length of each.
    #[inline]
    pub fn instructions(&self, code: usize) -> (u64, &[u8]) {
        self.codes.code(code).unwrap_or_default()
    }

    /// How code ends.
    #[inline]
    pub fn ending(&self, code: usize) -> Ending {
        self.codes.known[code].ending
    }

    /// What a block accesses, in the order of its instructions.
    #[inline]
    pub fn accesses(&self, block: usize) -> Accesses<'_> {
        let at = |block: &KeptBlock| block.record as usize * RECORD_GRAIN;
        let KeptBlock { code, .. } = self.blocks[block];
        let end = self.blocks.get(block + 1).map_or(self.records.len(), at);
        let bytes = &self.records[at(&self.blocks[block])..end];
        let description = &self.codes.known[code as usize];
        let (record, loose) = bytes.split_at(usize::from(description.bytes).min(bytes.len()));
        let time = self.time(block);
        Accesses {
            known: self.codes.accesses(description).iter(),
            time,
            end: time + u64::from(description.instructions),
            record,
            loose,
        }
    }

    /// The kinds of accesses that code always makes, in the order of its instructions.
    pub fn kinds(&self, code: usize) -> impl Iterator<Item = AccessKind> {
        self.codes.accesses(&self.codes.known[code]).iter().map(|access| access.kind)
    }

    /// Whether a block accesses something that its code does not always access.
    #[inline]
    pub fn has_loose(&self, block: usize) -> bool {
        let KeptBlock { code, record, .. } = self.blocks[block];
        let next = self.blocks.get(block + 1).map(|next| next.record as usize);
        let end = next.unwrap_or(self.records.len() / RECORD_GRAIN);
        end - record as usize > usize::from(self.codes.known[code as usize].bytes) / RECORD_GRAIN
    }

    /// Bytes that it takes in memory.
    pub fn memory_size(&self) -> usize {
        // Of room that was never used the kernel has nothing.
        self.blocks.len() * size_of::<KeptBlock>()
            + self.records.len()
            + self.numbers.len() * size_of::<u32>()
            + self.codes.memory_size()
    }
}
