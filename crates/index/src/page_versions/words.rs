//! Differences between two rows of 8-byte words: how many are the same, how many are not, and so on.

use crate::frames::fields::{BadField, Fields, put_number};

/// Bytes of a word.
const WORD: usize = 8;

/// Appends where words differ to `structure`, and what they are now to `words`. Tells how many words differ.
pub(super) fn put_changes<const N: usize>(
    old: &[u8; N],
    new: &[u8; N],
    structure: &mut Vec<u8>,
    words: &mut Vec<u8>,
) -> usize {
    let before = words.len();
    let mut done = 0;
    let mut next = 0;
    while let Some(start) = find_word(old, new, next, false) {
        let end = find_word(old, new, start, true).unwrap_or(N / WORD);
        put_number(structure, (start - done) as u64);
        put_number(structure, (end - start) as u64);
        words.extend_from_slice(&new[start * WORD..end * WORD]);
        (done, next) = (end, end);
    }
    (words.len() - before) / WORD
}

/// The first word from another on that is the same in both, or that is not.
fn find_word<const N: usize>(
    old: &[u8; N],
    new: &[u8; N],
    from: usize,
    same: bool,
) -> Option<usize> {
    const LINE: usize = 64;
    let mut word = from;
    while word < N / WORD {
        let at = word * WORD;
        // Most of a page is as it was, so lines are skipped at once.
        if !same && at.is_multiple_of(LINE) && old[at..at + LINE] == new[at..at + LINE] {
            word += LINE / WORD;
            continue;
        }
        if (old[at..at + WORD] == new[at..at + WORD]) == same {
            return Some(word);
        }
        word += 1;
    }
    None
}

/// Makes the changes that [`put_changes`] appended, all of them.
pub(super) fn apply_changes<const N: usize>(
    bytes: &mut [u8; N],
    structure: &mut Fields,
    words: &mut Fields,
) -> Result<(), BadField> {
    const BEYOND: BadField = "changes reach beyond the page";
    let mut word = 0usize;
    while !structure.is_empty() {
        let skipped = structure.number()?.min(N as u64) as usize;
        let changed = structure.number()?.min(N as u64) as usize;
        let start = (word + skipped) * WORD;
        word += skipped + changed;
        let target = bytes.get_mut(start..word * WORD).ok_or(BEYOND)?;
        target.copy_from_slice(words.take(changed * WORD)?);
    }
    Ok(())
}
