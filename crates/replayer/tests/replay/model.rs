//! A model of guest memory that knows only what a stream tells.

use std::collections::BTreeMap;

use retro_abi::log::{Event, MapKind};
use retro_replayer::{Access, AccessKind, Block, Item, PAGE_SIZE};

const PAGE: u64 = PAGE_SIZE as u64;

/// Pages that anything was written to. Others are zero.
#[derive(Default)]
pub struct Memory {
    pub pages: BTreeMap<u64, Box<[u8; PAGE_SIZE]>>,
    /// Values of reads that were compared.
    pub reads: u64,
}

impl Memory {
    /// Does what an item says. Reads must find what is there.
    pub fn apply(&mut self, item: &Item) {
        match item {
            Item::Block(block) => self.block(block),
            Item::Event { event, .. } => self.event(event),
        }
    }

    fn block(&mut self, block: &Block) {
        let accesses: Vec<Access> = block.accesses().collect();
        for instruction in accesses.chunk_by(|a, b| a.time == b.time) {
            for read in instruction.iter().filter(|access| access.kind == AccessKind::Read) {
                self.check_read(block, read);
            }
            for write in instruction.iter().filter(|access| access.kind.writes()) {
                assert_eq!(write.value.len() as u64, write.len, "a written value is in the stream");
                self.write(write.address, write.value);
            }
        }
    }

    fn check_read(&mut self, block: &Block, read: &Access) {
        for (address, &byte) in (read.address..).zip(read.value) {
            let known = self.pages.get(&(address / PAGE * PAGE));
            let expected = known.map_or(0, |page| page[(address % PAGE) as usize]);
            assert_eq!(
                byte,
                expected,
                "{read:x?} of the block at {:#x}, address {address:#x}",
                block.pc()
            );
            self.reads += 1;
        }
    }

    /// Does what an event says.
    pub fn event(&mut self, event: &Event) {
        match *event {
            Event::Load { address, bytes } | Event::Write { address, bytes } => {
                self.write(address, bytes)
            }
            Event::Map {
                kind: MapKind::Map | MapKind::Unmap | MapKind::Discard,
                start,
                len,
                ..
            } => {
                let pages = start / PAGE * PAGE..(start + len).next_multiple_of(PAGE);
                self.pages.retain(|page, _| !pages.contains(page));
            }
            Event::Map { kind: MapKind::Move, start, len, offset, .. } => {
                let mut bytes = vec![0; len as usize];
                for (index, chunk) in (0..).zip(bytes.chunks_mut(PAGE_SIZE)) {
                    if let Some(page) = self.pages.get(&(offset + index * PAGE)) {
                        chunk.copy_from_slice(&page[..chunk.len()]);
                    }
                }
                self.write(start, &bytes);
            }
            _ => {}
        }
    }

    fn write(&mut self, mut address: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let page =
                self.pages.entry(address / PAGE * PAGE).or_insert_with(|| Box::new([0; PAGE_SIZE]));
            let at = (address % PAGE) as usize;
            let (now, rest) = bytes.split_at(bytes.len().min(PAGE_SIZE - at));
            page[at..at + now.len()].copy_from_slice(now);
            address += now.len() as u64;
            bytes = rest;
        }
    }
}
