//! What a log says of memory that the program itself never writes.
//!
//! Loads and effects of system calls fill it, changes of the address space empty it. Stores of the program are
//! not in a log, so that only memory which others write (the kernel, other processes) comes out right.

use std::collections::BTreeMap;

use retro_abi::log::{Event, MapKind};

const PAGE: u64 = 4096;

/// Memory as the events so far leave it.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Contents by page number; what is missing is zero.
    pages: BTreeMap<u64, Box<[u8; PAGE as usize]>>,
}

impl Memory {
    /// Takes the next event of a log.
    pub fn apply(&mut self, event: &Event) {
        match *event {
            Event::Load { address, bytes } | Event::Write { address, bytes } => {
                self.write(address, bytes);
            }
            Event::Interval { .. } => self.pages.clear(),
            Event::Map { kind, start, len, offset, .. } => match kind {
                MapKind::Map | MapKind::Unmap | MapKind::Discard => self.clear(start, len),
                MapKind::Protect => {}
                MapKind::Move => {
                    let moved: Vec<_> = self
                        .range(offset, len)
                        .map(|(page, bytes)| (*page, bytes.clone()))
                        .collect();
                    self.clear(offset, len);
                    self.clear(start, len);
                    for (page, bytes) in moved {
                        self.pages.insert(page - offset / PAGE + start / PAGE, bytes);
                    }
                }
            },
            _ => {}
        }
    }

    /// The bytes at an address.
    pub fn read(&self, address: u64, len: usize) -> Vec<u8> {
        (address..)
            .take(len)
            .map(|at| self.pages.get(&(at / PAGE)).map_or(0, |page| page[(at % PAGE) as usize]))
            .collect()
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        for (at, &byte) in (address..).zip(bytes) {
            let page = self.pages.entry(at / PAGE).or_insert_with(|| Box::new([0; PAGE as usize]));
            page[(at % PAGE) as usize] = byte;
        }
    }

    fn clear(&mut self, start: u64, len: u64) {
        let gone: Vec<u64> = self.range(start, len).map(|(page, _)| *page).collect();
        for page in gone {
            self.pages.remove(&page);
        }
    }

    fn range(
        &self,
        start: u64,
        len: u64,
    ) -> impl Iterator<Item = (&u64, &Box<[u8; PAGE as usize]>)> {
        self.pages.range(start / PAGE..start.saturating_add(len).div_ceil(PAGE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_others_write_until_it_is_unmapped() {
        let mut memory = Memory::default();
        memory.apply(&Event::Load { address: 0xffe, bytes: &[1, 2, 3] });
        assert_eq!(memory.read(0xffd, 5), [0, 1, 2, 3, 0]);
        let (kind, start, len) = (MapKind::Move, 0x8000, 0x2000);
        let file = 0;
        memory.apply(&Event::Map { kind, start, len, prot: 3, flags: 0, file, offset: 0 });
        assert_eq!(memory.read(0x8ffe, 3), [1, 2, 3]);
        assert_eq!(memory.read(0xffe, 3), [0, 0, 0]);
        let (kind, start, len) = (MapKind::Unmap, 0x9000, 0x1000);
        memory.apply(&Event::Map { kind, start, len, prot: 0, flags: 0, file, offset: 0 });
        assert_eq!(memory.read(0x8ffe, 3), [1, 2, 0]);
    }
}
