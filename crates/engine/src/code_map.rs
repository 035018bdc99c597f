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

impl Page {
    fn put(&mut self, offset: usize, bytes: &[u8]) -> News {
        let known = self.known_from(offset);
        let place = &mut self.bytes[offset..offset + bytes.len()];
        if known >= bytes.len() {
            if place == bytes {
                return News::Nothing;
            }
            place.copy_from_slice(bytes);
            return News::Change;
        }
        let mut news = News::More;
        for (index, (place, &byte)) in place.iter_mut().zip(bytes).enumerate() {
            let (word, bit) = ((offset + index) / 64, 1 << ((offset + index) % 64));
            if self.known[word] & bit != 0 && *place != byte {
                news = News::Change;
            }
            self.known[word] |= bit;
            *place = byte;
        }
        news
    }

    /// How many bytes are known from there on, at most up to the end of the page.
    fn known_from(&self, offset: usize) -> usize {
        let mut at = offset;
        while at < PAGE as usize {
            let run = (self.known[at / 64] >> (at % 64)).trailing_ones() as usize;
            at += run;
            // The bits shifted in are zero: a run that reaches the word's end goes on in the next.
            if run == 0 || !at.is_multiple_of(64) {
                break;
            }
        }
        at - offset
    }
}

/// What is new about some code: the more, the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
            news = news.max(page.put(offset, &bytes[done..done + len]));
            done += len;
        }
        news
    }

    /// Copies code as far as it is known; says how much.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        let mut done = 0;
        while done < bytes.len() {
            let Some(at) = address.checked_add(done as u64) else { return done };
            let Some(page) = self.pages.get(&(at / PAGE)) else { return done };
            let offset = (at % PAGE) as usize;
            let want = (bytes.len() - done).min(PAGE as usize - offset);
            let len = page.known_from(offset).min(want);
            bytes[done..done + len].copy_from_slice(&page.bytes[offset..offset + len]);
            done += len;
            if len < want {
                return done;
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
