//! A list that grows with a file of frames and is whole again when the file is opened.
//!
//! The problem: to find its frames, a user of a file needs a list of where they are. The list grows all the time,
//! has to be complete at every commit, and must not be written anew each time. The strategy: each commit writes what
//! was added since the last one, with a link to the piece before. A piece first swallows those before it that are not
//! larger than itself, so that a list is always made of few pieces, and each entry is written a logarithmic
//! number of times.
//!
//! The list is bytes; what they mean is the user's business. Besides it, a commit keeps one number of the user's.
//!
//! Invariant: after a commit, the file ends with a frame of fixed length, the commit, which points at the last piece.

use super::{FRAME_HEAD_SIZE, FrameError, FrameFile, FrameWriter, HEAD_SIZE};

/// The kinds of frames that are the ledger's. Users number theirs from 0.
const PIECE: u8 = 0xfe;
const COMMIT: u8 = 0xff;

/// Bytes in a commit: the position of the last piece, or 0, and the user's number.
const COMMIT_SIZE: u64 = 16;

/// Where a piece of the list is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    position: u64,
    /// Where in the list it begins.
    start: usize,
}

/// A growing list of bytes in a file.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    list: Vec<u8>,
    pub(super) pieces: Vec<Piece>,
    /// How much of the list is in pieces.
    stored: usize,
}

impl Ledger {
    /// The list and the number as of the last commit of a file; nothing and 0 if there was none.
    pub(crate) fn load(file: &FrameFile) -> Result<(Ledger, u64), FrameError> {
        if file.length() == HEAD_SIZE {
            return Ok((Ledger::default(), 0));
        }
        let commit = file.length().saturating_sub(FRAME_HEAD_SIZE + COMMIT_SIZE);
        let bytes = file.read_kind(commit, COMMIT)?;
        let Some((&last, number)) = bytes.split_first_chunk::<8>() else {
            return Err(file.damaged(commit, "a commit is cut short"));
        };
        let number = number.try_into().map(u64::from_le_bytes);
        let number = number.map_err(|_| file.damaged(commit, "a commit is cut short"))?;
        Ok((Ledger::of_pieces(file, u64::from_le_bytes(last), commit)?, number))
    }

    fn of_pieces(file: &FrameFile, last: u64, commit: u64) -> Result<Ledger, FrameError> {
        let mut contents = Vec::new();
        let (mut position, mut limit) = (last, commit);
        while position != 0 {
            // Links lead backwards, so that there is an end to them.
            if position >= limit {
                return Err(file.damaged(limit, "a list is linked in a circle"));
            }
            let bytes = file.read_kind(position, PIECE)?;
            let Some((&previous, _)) = bytes.split_first_chunk::<8>() else {
                return Err(file.damaged(position, "a piece of a list is cut short"));
            };
            contents.push((position, bytes));
            (position, limit) = (u64::from_le_bytes(previous), position);
        }
        let mut ledger = Ledger::default();
        for (position, bytes) in contents.into_iter().rev() {
            ledger.pieces.push(Piece { position, start: ledger.list.len() });
            ledger.list.extend_from_slice(&bytes[8..]);
        }
        ledger.stored = ledger.list.len();
        Ok(ledger)
    }

    /// All of the list.
    pub(crate) fn list(&self) -> &[u8] {
        &self.list
    }

    /// For adding to the list.
    pub(crate) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.list
    }

    /// Commits a file with the list as it is now.
    pub(crate) fn commit(
        &mut self,
        writer: &mut FrameWriter,
        number: u64,
    ) -> Result<u64, FrameError> {
        if self.stored < self.list.len() {
            self.write_piece(writer)?;
        }
        let last = self.pieces.last().map_or(0, |piece| piece.position);
        writer.append(COMMIT, &[last.to_le_bytes(), number.to_le_bytes()].concat())?;
        writer.commit()
    }

    fn write_piece(&mut self, writer: &mut FrameWriter) -> Result<(), FrameError> {
        let (mut start, mut kept) = (self.stored, self.pieces.len());
        while let Some(previous) = kept.checked_sub(1).map(|index| self.pieces[index].start) {
            if start - previous > self.list.len() - start {
                break;
            }
            (start, kept) = (previous, kept - 1);
        }
        self.pieces.truncate(kept);
        let previous = self.pieces.last().map_or(0, |piece| piece.position);
        let bytes = [&previous.to_le_bytes(), &self.list[start..]].concat();
        let position = writer.append(PIECE, &bytes)?;
        self.pieces.push(Piece { position, start });
        self.stored = self.list.len();
        Ok(())
    }
}
