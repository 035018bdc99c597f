//! The code that a volume executed, as pieces: instructions that follow each other, of which all are executed or none.
//!
//! The problem: which code a window executed has to be stored for every window, and asked for by address. The strategy:
//! pieces get numbers when they are first seen. What a window executed is a set of such numbers, most of them small and
//! close together; this dictionary tells which pieces contain an address.
//!
//! A piece is known by its address and the lengths of its instructions: where code changes, or where replay cut blocks
//! differently, there are several at an address.
//!
//! On disk: the list of pieces, in the order of their numbers, is the ledger of a file of frames.

use std::collections::HashMap;
use std::sync::Arc;

use retro_recording::NamedFile;

use crate::frames::fields::{BadField, Fields, put_bytes, put_number};
use crate::frames::ledger::Ledger;
use crate::frames::{FrameError, FrameFile, FrameWriter, HEAD_SIZE, Tag};

const TAG: Tag = *b"code";

/// Instructions of a piece are at most this long, all together: replay cuts blocks at 64 instructions.
const LONGEST: u64 = 64 * 15;

/// Instructions that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Address of the first.
    pub pc: u64,
    /// Length of each.
    pub lengths: Arc<[u8]>,
    /// Whether replay jumps there: then code that begins there can be translated ahead.
    pub is_entered: bool,
}

impl Piece {
    /// Address behind the last instruction.
    pub fn end(&self) -> u64 {
        self.pc + self.lengths.iter().map(|&len| u64::from(len)).sum::<u64>()
    }

    /// Which of its instructions begins at an address.
    pub fn instruction_at(&self, address: u64) -> Option<usize> {
        let mut at = self.pc;
        for (index, &len) in self.lengths.iter().enumerate() {
            if at >= address {
                return (at == address).then_some(index);
            }
            at += u64::from(len);
        }
        None
    }
}

/// The number of a piece, and the lengths of its instructions.
type Numbered = (u32, Arc<[u8]>);

/// Numbers pieces as they come.
#[derive(Debug)]
pub(crate) struct PieceWriter {
    file: FrameWriter,
    ledger: Ledger,
    /// By address.
    known: HashMap<u64, Vec<Numbered>>,
    count: u32,
}

impl PieceWriter {
    pub(crate) fn create(place: &NamedFile) -> Result<PieceWriter, FrameError> {
        let file = FrameWriter::create(place, TAG)?;
        Ok(PieceWriter { file, ledger: Ledger::default(), known: HashMap::new(), count: 0 })
    }

    pub(crate) fn resume(place: &NamedFile, committed: u64) -> Result<PieceWriter, FrameError> {
        let mut file = FrameWriter::reopen(place, TAG, committed)?;
        let (ledger, pieces) = load(file.written()?)?;
        let mut known: HashMap<u64, Vec<_>> = HashMap::new();
        for (number, piece) in pieces.iter().enumerate() {
            known.entry(piece.pc).or_default().push((number as u32, Arc::clone(&piece.lengths)));
        }
        Ok(PieceWriter { file, ledger, known, count: pieces.len() as u32 })
    }

    /// The number of a piece.
    pub(crate) fn number(&mut self, pc: u64, lengths: &[u8], is_entered: bool) -> u32 {
        let here = self.known.entry(pc).or_default();
        if let Some((number, _)) = here.iter().find(|(_, known)| **known == *lengths) {
            return *number;
        }
        let number = self.count;
        here.push((number, lengths.into()));
        self.count += 1;
        let list = self.ledger.end();
        put_number(list, pc);
        list.push(is_entered.into());
        put_bytes(list, lengths);
        number
    }

    pub(crate) fn commit(&mut self) -> Result<u64, FrameError> {
        self.ledger.commit(&mut self.file, self.count.into())
    }

    pub(crate) fn sync(&self) -> Result<(), FrameError> {
        self.file.sync()
    }
}

fn load(file: &FrameFile) -> Result<(Ledger, Vec<Piece>), FrameError> {
    let (ledger, count) = Ledger::load(file)?;
    let pieces = parse(ledger.list()).map_err(|reason| file.damaged(HEAD_SIZE, reason))?;
    if pieces.len() as u64 != count {
        return Err(file.damaged(HEAD_SIZE, "pieces of code are missing"));
    }
    Ok((ledger, pieces))
}

fn parse(list: &[u8]) -> Result<Vec<Piece>, BadField> {
    let mut fields = Fields::new(list);
    let mut pieces = Vec::new();
    while !fields.is_empty() {
        let (pc, is_entered, lengths) = (fields.number()?, fields.byte()? != 0, fields.bytes()?);
        let length: u64 = lengths.iter().map(|&len| u64::from(len)).sum();
        if length > LONGEST || pc.checked_add(length).is_none() || lengths.contains(&0) {
            return Err("a piece of code makes no sense");
        }
        pieces.push(Piece { pc, lengths: lengths.into(), is_entered });
    }
    Ok(pieces)
}

/// The pieces of a volume, by number and by address.
#[derive(Debug, Default)]
pub struct Pieces {
    by_number: Vec<Piece>,
    /// Numbers, in the order of addresses.
    by_address: Vec<u32>,
}

impl Pieces {
    pub(crate) fn open(place: &NamedFile, committed: u64) -> Result<Pieces, FrameError> {
        let (_, by_number) = load(&FrameFile::open(place, TAG, committed)?)?;
        let mut by_address: Vec<u32> = (0..by_number.len() as u32).collect();
        by_address.sort_by_key(|&number| by_number[number as usize].pc);
        Ok(Pieces { by_number, by_address })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Whether nothing was executed.
    pub fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    /// By number.
    pub fn get(&self, number: u64) -> Option<&Piece> {
        self.by_number.get(usize::try_from(number).ok()?)
    }

    /// Numbers of the pieces with an instruction at an address.
    pub fn containing(&self, address: u64) -> Vec<u64> {
        self.near(address, address.saturating_add(1))
            .filter(|(_, piece)| piece.instruction_at(address).is_some())
            .map(|(number, _)| number)
            .collect()
    }

    /// Numbers of the pieces with an instruction that begins in a range.
    pub fn touching(&self, start: u64, end: u64) -> Vec<u64> {
        self.near(start, end)
            .filter(|(_, piece)| {
                let mut at = piece.pc;
                piece.lengths.iter().any(|&len| {
                    let here = at;
                    at += u64::from(len);
                    (start..end).contains(&here)
                })
            })
            .map(|(number, _)| number)
            .collect()
    }

    /// Those that may reach into a range.
    fn near(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, &Piece)> {
        let pc_of = |number: &u32| self.by_number[*number as usize].pc;
        let lowest = start.saturating_sub(LONGEST);
        let first = self.by_address.partition_point(|number| pc_of(number) < lowest);
        self.by_address[first..]
            .iter()
            .take_while(move |number| pc_of(number) < end)
            .map(|&number| (u64::from(number), &self.by_number[number as usize]))
    }

    /// Addresses that replay jumps to.
    pub fn entries(&self) -> impl Iterator<Item = u64> {
        self.by_number.iter().filter(|piece| piece.is_entered).map(|piece| piece.pc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_numbered_once_and_found_by_address() {
        let directory = tempfile::tempdir().unwrap();
        let named = NamedFile::at(&directory.path().join("pieces")).unwrap();
        let mut writer = PieceWriter::create(&named).unwrap();
        assert_eq!(writer.number(0x1000, &[3, 5, 2], true), 0);
        assert_eq!(writer.number(0x100a, &[1], false), 1);
        assert_eq!(writer.number(0x1000, &[3, 5, 2], true), 0);
        let committed = writer.commit().unwrap();
        drop(writer);
        let mut writer = PieceWriter::resume(&named, committed).unwrap();
        assert_eq!(writer.number(0x1003, &[5], true), 2);
        assert_eq!(writer.number(0x100a, &[1], false), 1);
        let committed = writer.commit().unwrap();
        let pieces = Pieces::open(&named, committed).unwrap();
        assert_eq!(pieces.len(), 3);
        assert_eq!(pieces.containing(0x1003), [0, 2]);
        assert_eq!(pieces.containing(0x1004), [0u64; 0]);
        assert_eq!(pieces.containing(0x100a), [1]);
        assert_eq!(pieces.touching(0x1004, 0x100b), [0, 1]);
        assert_eq!(pieces.entries().collect::<Vec<_>>(), [0x1000, 0x1003]);
        assert_eq!(pieces.get(1).unwrap().end(), 0x100b);
    }

    #[test]
    fn damaged_lists_are_refused() {
        assert!(parse(&[1, 1, 2, 3]).is_err());
        assert!(parse(&[1, 1, 1, 0]).is_err());
        let mut list = Vec::new();
        put_number(&mut list, u64::MAX);
        list.extend_from_slice(&[1, 1, 9]);
        assert!(parse(&list).is_err());
    }
}
