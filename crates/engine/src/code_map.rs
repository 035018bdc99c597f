//! The newest version of every byte of code that has been executed.
//!
//! A recorder asks it which code is news; a replay fetches from it. Both keep it the same way, so that what the one
//! leaves out the other has.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use retro_abi::layout::PAGE;

const WORDS: usize = PAGE as usize / 64;

struct Page {
    bytes: [u8; PAGE as usize],
    /// Which bytes are known, one bit each.
    known: [u64; WORDS],
}

/// What is new about some code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// All of it was known.
    Nothing,
    /// It was not known, or not all of it; what was known is the same.
    More,
    /// Some of it was known differently.
    Change,
}

/// Code by address.
#[derive(Default)]
pub struct CodeMap {
    pages: BTreeMap<u64, Box<Page>>,
}

impl CodeMap {
    /// Takes code in; says what is new about it.
    pub fn put(&mut self, address: u64, bytes: &[u8]) -> News {
        let mut news = News::Nothing;
        let mut done = 0;
        while done < bytes.len() {
            let at = address + done as u64;
            let offset = (at % PAGE) as usize;
            let len = (bytes.len() - done).min(PAGE as usize - offset);
            let page = self
                .pages
                .entry(at / PAGE)
                .or_insert_with(|| Box::new(Page { bytes: [0; PAGE as usize], known: [0; WORDS] }));
            for (index, &byte) in bytes[done..done + len].iter().enumerate() {
                let place = offset + index;
                let (word, bit) = (place / 64, 1 << (place % 64));
                if page.known[word] & bit == 0 {
                    page.known[word] |= bit;
                    news = if news == News::Change { news } else { News::More };
                } else if page.bytes[place] != byte {
                    news = News::Change;
                }
                page.bytes[place] = byte;
            }
            done += len;
        }
        news
    }

    /// Copies code as far as it is known; says how much.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        let mut page = None;
        for (index, byte) in bytes.iter_mut().enumerate() {
            let at = address.wrapping_add(index as u64);
            if page.is_none() || at.is_multiple_of(PAGE) {
                page = self.pages.get(&(at / PAGE));
            }
            let place = (at % PAGE) as usize;
            match page {
                Some(page) if page.known[place / 64] >> (place % 64) & 1 != 0 => {
                    *byte = page.bytes[place];
                }
                _ => return index,
            }
        }
        bytes.len()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn what_is_new_and_what_is_there() {
        let mut map = CodeMap::default();
        assert_eq!(map.put(0x1ffe, &[1, 2, 3, 4]), News::More);
        assert_eq!(map.put(0x1fff, &[2, 3]), News::Nothing);
        assert_eq!(map.put(0x2001, &[4, 5]), News::More);
        assert_eq!(map.put(0x2000, &[9, 4]), News::Change);
        // The old version again is news, too, whatever block it comes with.
        assert_eq!(map.put(0x1ffe, &[1, 2, 3, 4]), News::Change);
        let mut bytes = [0; 8];
        assert_eq!(map.read(0x1ffe, &mut bytes), 5);
        assert_eq!(bytes[..5], [1, 2, 3, 4, 5]);
        assert_eq!(map.read(0x3000, &mut bytes), 0);
    }
}
