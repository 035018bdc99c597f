//! What a volume's log tells besides memory: system calls, signals, mappings, threads, children.
//!
//! A frame has the rows of a window; the ledger tells where each window's is. Which windows have a row of a kind is a
//! tree of sets of its own ([`Row::key`]), so that the n-th of anything is found without reading the others.
//!
//! A row of time `t` happened right after the instruction before `t` retired: it belongs to the window that this
//! instruction is in. Rows at the very start of a volume belong to its first window.

use retro_abi::log::{Event, MapKind};
use retro_recording::NamedFile;

use crate::frames::fields::{BadField, Fields, put_bytes, put_number};
use crate::frames::ledger::Ledger;
use crate::frames::{FrameError, FrameFile, FrameWriter, HEAD_SIZE, Tag};

const TAG: Tag = *b"rows";
const ROWS: u8 = 0;

/// Something that the log tells.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants' texts tell of their fields")]
pub enum Row {
    /// A system call begins; the instruction before this time made it.
    SyscallEnter { number: u64, args: [u64; 6] },
    /// The system call of this thread is over.
    SyscallExit { result: u64 },
    /// A signal comes; with `handler` 0 it ends the process. `info` is `siginfo_t` without trailing zeroes.
    Signal { number: u32, synchronous: bool, handler: u64, info: Vec<u8> },
    /// The address space changes, as [`Event::Map`] tells.
    Map { kind: MapKind, start: u64, len: u64, prot: u32, flags: u32, file: u64, offset: u64 },
    /// The kernel wrote memory.
    Write { address: u64, len: u64 },
    /// A thread begins.
    ThreadStart { thread: u32 },
    /// Another thread runs from here.
    ThreadSwitch { thread: u32 },
    /// A thread ends.
    ThreadEnd { thread: u32, code: u32 },
    /// A child process was made; `log` is the number of its log plus one, 0 if it has none.
    Fork { pid: u32, log: u64 },
    /// The process ends.
    End { how: u32, code: u32 },
}

/// A row with its moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedRow {
    /// When.
    pub time: u64,
    /// The thread that ran.
    pub thread: u32,
    /// What.
    pub row: Row,
}

/// What rows are counted as: a class, and a number within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowClass {
    /// System calls that begin, by number.
    Syscall = 1,
    /// Signals, by number.
    Signal = 2,
    /// Changes of the address space, by [`MapKind`].
    Map = 3,
    /// Threads that begin.
    ThreadStart = 4,
    /// Threads that end.
    ThreadEnd = 5,
    /// Children.
    Fork = 6,
    /// Ends of processes.
    End = 7,
    /// Switches, by the thread that runs from then on.
    ThreadSwitch = 8,
}

impl RowClass {
    const SHIFT: u32 = 32;

    /// The keys of all rows of the class.
    pub fn keys(self) -> std::ops::Range<u64> {
        (self as u64) << RowClass::SHIFT..(self as u64 + 1) << RowClass::SHIFT
    }

    /// The key of rows of the class with a number.
    pub fn key(self, number: u64) -> u64 {
        self.keys().start | number & 0xffff_ffff
    }
}

impl Row {
    /// Of an event, if it is one of those that make a row.
    pub fn of(event: &Event<'_>) -> Option<Row> {
        Some(match *event {
            Event::SyscallEnter { number, args, .. } => Row::SyscallEnter { number, args },
            Event::SyscallExit { result } => Row::SyscallExit { result },
            Event::Signal { number, synchronous, handler, info, .. } => {
                Row::Signal { number, synchronous, handler, info: info.to_vec() }
            }
            Event::Map { kind, start, len, prot, flags, file, offset } => {
                Row::Map { kind, start, len, prot, flags, file, offset }
            }
            Event::Write { address, bytes } => Row::Write { address, len: bytes.len() as u64 },
            Event::ThreadStart { thread } => Row::ThreadStart { thread },
            Event::ThreadSwitch { thread, .. } => Row::ThreadSwitch { thread },
            Event::ThreadEnd { thread, code } => Row::ThreadEnd { thread, code },
            Event::Fork { pid, log } => Row::Fork { pid, log },
            Event::End { how, code } => Row::End { how, code },
            _ => return None,
        })
    }

    /// What it is counted as, if it is.
    pub fn key(&self) -> Option<u64> {
        Some(match self {
            Row::SyscallEnter { number, .. } => RowClass::Syscall.key(*number),
            Row::Signal { number, .. } => RowClass::Signal.key((*number).into()),
            Row::Map { kind, .. } => RowClass::Map.key(*kind as u64),
            Row::ThreadStart { .. } => RowClass::ThreadStart.key(0),
            Row::ThreadEnd { .. } => RowClass::ThreadEnd.key(0),
            Row::Fork { .. } => RowClass::Fork.key(0),
            Row::End { .. } => RowClass::End.key(0),
            Row::ThreadSwitch { thread } => RowClass::ThreadSwitch.key((*thread).into()),
            Row::SyscallExit { .. } | Row::Write { .. } => return None,
        })
    }

    fn put(&self, bytes: &mut Vec<u8>) {
        let mut numbers = |kind: u8, numbers: &[u64]| {
            bytes.push(kind);
            numbers.iter().for_each(|&number| put_number(bytes, number));
        };
        match *self {
            Row::SyscallEnter { number, args: [a, b, c, d, e, f] } => {
                numbers(0, &[number, a, b, c, d, e, f]);
            }
            Row::SyscallExit { result } => numbers(1, &[result]),
            Row::Signal { number, synchronous, handler, ref info } => {
                numbers(2, &[number.into(), synchronous.into(), handler]);
                put_bytes(bytes, info);
            }
            Row::Map { kind, start, len, prot, flags, file, offset } => {
                numbers(3, &[kind as u64, start, len, prot.into(), flags.into(), file, offset]);
            }
            Row::Write { address, len } => numbers(4, &[address, len]),
            Row::ThreadStart { thread } => numbers(5, &[thread.into()]),
            Row::ThreadSwitch { thread } => numbers(6, &[thread.into()]),
            Row::ThreadEnd { thread, code } => numbers(7, &[thread.into(), code.into()]),
            Row::Fork { pid, log } => numbers(8, &[pid.into(), log]),
            Row::End { how, code } => numbers(9, &[how.into(), code.into()]),
        }
    }

    fn parse(fields: &mut Fields<'_>) -> Result<Row, BadField> {
        Ok(match fields.byte()? {
            0 => {
                let number = fields.number()?;
                let mut args = [0; 6];
                for arg in &mut args {
                    *arg = fields.number()?;
                }
                Row::SyscallEnter { number, args }
            }
            1 => Row::SyscallExit { result: fields.number()? },
            2 => Row::Signal {
                number: fields.number32()?,
                synchronous: fields.number()? != 0,
                handler: fields.number()?,
                info: fields.bytes()?.to_vec(),
            },
            3 => Row::Map {
                kind: MapKind::from_number(fields.number()?).ok_or("an unknown kind of mapping")?,
                start: fields.number()?,
                len: fields.number()?,
                prot: fields.number32()?,
                flags: fields.number32()?,
                file: fields.number()?,
                offset: fields.number()?,
            },
            4 => Row::Write { address: fields.number()?, len: fields.number()? },
            5 => Row::ThreadStart { thread: fields.number32()? },
            6 => Row::ThreadSwitch { thread: fields.number32()? },
            7 => Row::ThreadEnd { thread: fields.number32()?, code: fields.number32()? },
            8 => Row::Fork { pid: fields.number32()?, log: fields.number()? },
            9 => Row::End { how: fields.number32()?, code: fields.number32()? },
            _ => return Err("an unknown kind of row"),
        })
    }
}

/// Writes the rows of windows, in order.
#[derive(Debug)]
pub(crate) struct RowWriter {
    file: FrameWriter,
    ledger: Ledger,
    windows: u64,
}

impl RowWriter {
    pub(crate) fn create(place: &NamedFile) -> Result<RowWriter, FrameError> {
        let file = FrameWriter::create(place, TAG)?;
        Ok(RowWriter { file, ledger: Ledger::default(), windows: 0 })
    }

    /// The rows of the next window.
    pub(crate) fn append(&mut self, rows: &[TimedRow]) -> Result<(), FrameError> {
        let mut position = 0;
        if !rows.is_empty() {
            let mut bytes = Vec::new();
            let mut time = 0;
            for row in rows {
                put_number(&mut bytes, row.time.wrapping_sub(time));
                put_number(&mut bytes, row.thread.into());
                row.row.put(&mut bytes);
                time = row.time;
            }
            position = self.file.append(ROWS, &lz4_flex::compress_prepend_size(&bytes))?;
        }
        put_number(self.ledger.end(), position);
        self.windows += 1;
        Ok(())
    }

    pub(crate) fn commit(&mut self) -> Result<u64, FrameError> {
        self.ledger.commit(&mut self.file, self.windows)
    }

    pub(crate) fn sync(&self) -> Result<(), FrameError> {
        self.file.sync()
    }
}

/// The rows of a volume.
#[derive(Debug)]
pub struct RowTable {
    file: FrameFile,
    /// Where the frame of each window is; 0 for none.
    positions: Vec<u64>,
}

/// Bytes of a window's rows, at most.
const ROWS_LIMIT: usize = 1 << 30;

impl RowTable {
    pub(crate) fn open(place: &NamedFile, committed: u64) -> Result<RowTable, FrameError> {
        let file = FrameFile::open(place, TAG, committed)?;
        let (ledger, windows) = Ledger::load(&file)?;
        let mut fields = Fields::new(ledger.list());
        let mut positions = Vec::new();
        while !fields.is_empty() {
            positions.push(fields.number().map_err(|reason| file.damaged(HEAD_SIZE, reason))?);
        }
        if positions.len() as u64 != windows {
            return Err(file.damaged(HEAD_SIZE, "windows are missing"));
        }
        Ok(RowTable { file, positions })
    }

    /// The rows of a window, in the order of time.
    pub fn rows(&self, window: u32) -> Result<Vec<TimedRow>, FrameError> {
        let Some(&position) = self.positions.get(window as usize).filter(|&&at| at != 0) else {
            return Ok(Vec::new());
        };
        let stored = self.file.read_kind(position, ROWS)?;
        let damaged = |reason| self.file.damaged(position, reason);
        let unpacked = lz4_flex::block::uncompressed_size(&stored).ok();
        let (size, packed) = unpacked
            .filter(|&(size, packed)| size <= ROWS_LIMIT && size / 300 <= packed.len())
            .ok_or_else(|| damaged("rows have an impossible size"))?;
        let bytes =
            lz4_flex::decompress(packed, size).map_err(|_| damaged("rows cannot be unpacked"))?;
        let mut fields = Fields::new(&bytes);
        let (mut rows, mut time) = (Vec::new(), 0u64);
        while !fields.is_empty() {
            time = time.wrapping_add(fields.number().map_err(damaged)?);
            let thread = fields.number32().map_err(damaged)?;
            rows.push(TimedRow { time, thread, row: Row::parse(&mut fields).map_err(damaged)? });
        }
        Ok(rows)
    }

    /// How many windows there are.
    pub fn windows(&self) -> u32 {
        self.positions.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back() {
        let directory = tempfile::tempdir().unwrap();
        let named = NamedFile::at(&directory.path().join("rows")).unwrap();
        let all = [
            Row::SyscallEnter { number: 231, args: [1, 2, 3, u64::MAX, 5, 6] },
            Row::SyscallExit { result: u64::MAX },
            Row::Signal { number: 11, synchronous: true, handler: 0, info: vec![1, 2, 3] },
            Row::Map {
                kind: MapKind::Move,
                start: 0x1000,
                len: 0x2000,
                prot: 7,
                flags: 34,
                file: 3,
                offset: 9,
            },
            Row::Write { address: 7, len: 1 << 40 },
            Row::ThreadStart { thread: 5 },
            Row::ThreadSwitch { thread: 6 },
            Row::ThreadEnd { thread: 5, code: 3 },
            Row::Fork { pid: 77, log: 2 },
            Row::End { how: 1, code: 0 },
        ];
        let timed = |row: &Row| TimedRow { time: 1 << 40, thread: 9, row: row.clone() };
        let rows: Vec<_> = all.iter().map(timed).collect();
        let mut writer = RowWriter::create(&named).unwrap();
        writer.append(&[]).unwrap();
        writer.append(&rows).unwrap();
        let committed = writer.commit().unwrap();
        let table = RowTable::open(&named, committed).unwrap();
        assert_eq!(table.rows(0).unwrap(), []);
        assert_eq!(table.rows(1).unwrap(), rows);
        assert_eq!(table.rows(2).unwrap(), []);
        assert!(RowClass::Syscall.keys().contains(&all[0].key().unwrap()));
    }
}
