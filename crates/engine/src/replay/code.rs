//! The code that was executed, as of the current time.
//!
//! Code events are applied in order as time goes on. Blocks made of bytes that change are thrown away.

use super::log::Chunks;
use crate::code_map::{CodeMap, News};
use alloc::vec::Vec;
use retro_abi::log::{Decoder, Event};

/// All code so far.
pub struct Code {
    chunks: Chunks,
    current: Option<Decoder<'static>>,
    next: Option<(u64, u64, &'static [u8])>,
    map: CodeMap,
    /// Ranges that took other bytes than they had.
    changed: Vec<(u64, u64)>,
}

impl Code {
    /// From the code stream.
    pub fn new(bytes: &'static [u8]) -> Code {
        let chunks = Chunks::new(bytes);
        let map = CodeMap::default();
        let mut code = Code { chunks, current: None, next: None, map, changed: Vec::new() };
        code.take_next();
        code
    }

    fn take_next(&mut self) {
        self.next = None;
        loop {
            match self.current.as_mut().and_then(Iterator::next) {
                Some(Ok((time, Event::Code { address, bytes }))) => {
                    self.next = Some((time, address, bytes));
                    return;
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => match self.chunks.next() {
                    Some((base, chunk)) => self.current = Some(Decoder::new(chunk, base)),
                    None => return,
                },
            }
        }
    }

    /// Applies what was logged up to now.
    pub fn advance(&mut self, now: u64) {
        while let Some((time, address, bytes)) = self.next
            && time <= now
        {
            if self.map.put(address, bytes) == News::Change {
                self.changed.push((address, address + bytes.len() as u64));
            }
            self.take_next();
        }
    }

    /// Time of the next code event: blocks that are out of date must not run on.
    pub fn next_time(&self) -> Option<u64> {
        self.next.map(|(time, ..)| time)
    }

    /// Ranges whose blocks are out of date.
    pub fn take_changes(&mut self) -> Vec<(u64, u64)> {
        core::mem::take(&mut self.changed)
    }

    /// Copies code as far as it is known; says how much.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        self.map.read(address, bytes)
    }
}
