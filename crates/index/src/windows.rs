//! The windows of a volume: when each begins, and the state of all threads then.
//!
//! States are large when there are many threads, and most of them wait: a thread that is as it was in an earlier window
//! is told by the place of its state there.
//!
//! ```text
//! THREAD frame   registers of a thread, compressed
//! WINDOW frame   running thread, then of each thread the position of its frame
//! ledger         for each window: time since the one before, position of its frame
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use retro_abi::log::register;
use retro_recording::NamedFile;
use retro_replayer::{Registers, Snapshot};

use crate::frames::fields::{BadField, Fields, put_bytes, put_number};
use crate::frames::generations::Generations;
use crate::frames::ledger::Ledger;
use crate::frames::{FrameError, FrameFile, FrameWriter, HEAD_SIZE, Tag};

const TAG: Tag = *b"wins";
const THREAD: u8 = 0;
const WINDOW: u8 = 1;

/// Bytes of a thread's state, uncompressed, at most.
const STATE_LIMIT: usize = 1 << 16;

/// Writes windows as they begin.
#[derive(Debug)]
pub(crate) struct WindowWriter {
    file: FrameWriter,
    ledger: Ledger,
    count: u64,
    last_time: u64,
    /// Where the state of each thread of the last window is.
    places: HashMap<u32, (Arc<Registers>, u64)>,
}

impl WindowWriter {
    pub(crate) fn create(place: &NamedFile) -> Result<WindowWriter, FrameError> {
        let file = FrameWriter::create(place, TAG)?;
        let (ledger, places) = (Ledger::default(), HashMap::new());
        Ok(WindowWriter { file, ledger, count: 0, last_time: 0, places })
    }

    pub(crate) fn resume(place: &NamedFile, committed: u64) -> Result<WindowWriter, FrameError> {
        let mut file = FrameWriter::reopen(place, TAG, committed)?;
        let (ledger, rows) = load(file.written()?)?;
        let last_time = rows.last().map_or(0, |row| row.time);
        Ok(WindowWriter {
            file,
            ledger,
            count: rows.len() as u64,
            last_time,
            places: HashMap::new(),
        })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn append(&mut self, snapshot: &Snapshot) -> Result<(), FrameError> {
        let mut places = HashMap::with_capacity(snapshot.threads.len());
        let mut bytes = Vec::new();
        put_number(&mut bytes, snapshot.running.into());
        put_number(&mut bytes, snapshot.threads.len() as u64);
        for thread in &snapshot.threads {
            let known = self.places.get(&thread.thread);
            let position = match known.filter(|(known, _)| known == thread) {
                Some((_, position)) => *position,
                None => {
                    self.file.append(THREAD, &lz4_flex::compress_prepend_size(&state(thread)))?
                }
            };
            put_number(&mut bytes, position);
            places.insert(thread.thread, (Arc::clone(thread), position));
        }
        self.places = places;
        let position = self.file.append(WINDOW, &bytes)?;
        let list = self.ledger.end();
        put_number(list, snapshot.time.wrapping_sub(self.last_time));
        put_number(list, position);
        self.last_time = snapshot.time;
        self.count += 1;
        Ok(())
    }

    pub(crate) fn commit(&mut self) -> Result<u64, FrameError> {
        self.ledger.commit(&mut self.file, self.count)
    }

    pub(crate) fn sync(&self) -> Result<(), FrameError> {
        self.file.sync()
    }
}

fn state(registers: &Registers) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_number(&mut bytes, registers.thread.into());
    bytes.push(registers.running.into());
    put_number(&mut bytes, registers.in_syscall.map_or(0, |number| u64::from(number) + 1));
    for word in registers.general {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    put_bytes(&mut bytes, &registers.vectors);
    bytes
}

fn parse_state(bytes: &[u8]) -> Result<Registers, BadField> {
    let mut fields = Fields::new(bytes);
    let (thread, running) = (fields.number32()?, fields.byte()? != 0);
    let in_syscall = fields.number32()?.checked_sub(1);
    let mut general = [0; register::COUNT];
    for (word, bytes) in general.iter_mut().zip(fields.take(8 * register::COUNT)?.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    Ok(Registers { thread, running, in_syscall, general, vectors: fields.bytes()?.to_vec() })
}

#[derive(Clone, Copy, Debug)]
struct Row {
    time: u64,
    position: u64,
}

fn load(file: &FrameFile) -> Result<(Ledger, Vec<Row>), FrameError> {
    let (ledger, count) = Ledger::load(file)?;
    let parsed = (|| {
        let mut fields = Fields::new(ledger.list());
        let (mut rows, mut time): (Vec<Row>, u64) = (Vec::new(), 0);
        while !fields.is_empty() {
            time = time.checked_add(fields.number()?).ok_or("a time is too large")?;
            rows.push(Row { time, position: fields.number()? });
        }
        Ok(rows)
    })();
    let rows = parsed.map_err(|reason| file.damaged(HEAD_SIZE, reason))?;
    if rows.len() as u64 != count {
        return Err(file.damaged(HEAD_SIZE, "windows are missing"));
    }
    Ok((ledger, rows))
}

/// The windows of a volume.
#[derive(Debug)]
pub struct WindowTable {
    file: FrameFile,
    rows: Vec<Row>,
    states: Mutex<Generations<u64, Arc<Registers>>>,
}

impl WindowTable {
    /// Opens it. It may keep so many bytes of states.
    pub(crate) fn open(
        place: &NamedFile,
        committed: u64,
        cache: usize,
    ) -> Result<WindowTable, FrameError> {
        let file = FrameFile::open(place, TAG, committed)?;
        let (_, rows) = load(&file)?;
        Ok(WindowTable { file, rows, states: Mutex::new(Generations::new(cache)) })
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        self.rows.len() as u32
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// When a window begins.
    pub fn start(&self, window: u32) -> Option<u64> {
        self.rows.get(window as usize).map(|row| row.time)
    }

    /// The window that a time lies in: the last that begins at it or before.
    pub fn window_of(&self, time: u64) -> u32 {
        self.rows.partition_point(|row| row.time <= time).saturating_sub(1) as u32
    }

    /// The threads at the start of a window.
    pub fn snapshot(&self, window: u32) -> Result<Option<Snapshot>, FrameError> {
        let Some(row) = self.rows.get(window as usize) else { return Ok(None) };
        let bytes = self.file.read_kind(row.position, WINDOW)?;
        let damaged = |reason| self.file.damaged(row.position, reason);
        let mut fields = Fields::new(&bytes);
        let running = fields.number32().map_err(damaged)?;
        let count = fields.count().map_err(damaged)?;
        let mut threads = Vec::with_capacity(count);
        for _ in 0..count {
            threads.push(self.state(fields.number().map_err(damaged)?)?);
        }
        Ok(Some(Snapshot { time: row.time, running, threads }))
    }

    fn state(&self, position: u64) -> Result<Arc<Registers>, FrameError> {
        let states = || self.states.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = states().get(position) {
            return Ok(Arc::clone(known));
        }
        let stored = self.file.read_kind(position, THREAD)?;
        let damaged = |reason| self.file.damaged(position, reason);
        let (size, packed) = lz4_flex::block::uncompressed_size(&stored)
            .map_err(|_| damaged("a thread's state is cut short"))?;
        if size > STATE_LIMIT {
            return Err(damaged("a thread's state is too large"));
        }
        let bytes = lz4_flex::decompress(packed, size)
            .map_err(|_| damaged("a thread's state cannot be unpacked"))?;
        let state = Arc::new(parse_state(&bytes).map_err(damaged)?);
        states().insert(position, Arc::clone(&state), bytes.len());
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(number: u32, seed: u64) -> Arc<Registers> {
        Arc::new(Registers {
            thread: number,
            running: number == 1,
            in_syscall: (seed % 2 == 1).then_some(seed as u32),
            general: std::array::from_fn(|index| seed.wrapping_mul(index as u64 + 1)),
            vectors: vec![seed as u8; 2696],
        })
    }

    #[test]
    fn windows_come_back_and_waiting_threads_cost_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let named = NamedFile::at(&directory.path().join("windows")).unwrap();
        let waiting: Vec<_> = (2..50).map(|number| thread(number, number.into())).collect();
        let snapshot = |window: u64| Snapshot {
            time: 1000 + window * 77,
            running: 1,
            threads: std::iter::once(thread(1, window)).chain(waiting.iter().cloned()).collect(),
        };
        let mut writer = WindowWriter::create(&named).unwrap();
        (0..3).for_each(|window| writer.append(&snapshot(window)).unwrap());
        let committed = writer.commit().unwrap();
        writer.append(&snapshot(99)).unwrap();
        drop(writer);
        let mut writer = WindowWriter::resume(&named, committed).unwrap();
        assert_eq!(writer.count(), 3);
        (3..20).for_each(|window| writer.append(&snapshot(window)).unwrap());
        let committed = writer.commit().unwrap();
        assert!(committed < 64 << 10, "{committed} bytes");
        let table = WindowTable::open(&named, committed, 1 << 20).unwrap();
        assert_eq!(table.len(), 20);
        for window in 0..20 {
            assert_eq!(table.snapshot(window).unwrap().unwrap(), snapshot(window.into()));
            assert_eq!(table.window_of(1000 + u64::from(window) * 77 + 76), window);
        }
        assert_eq!(table.window_of(3), 0);
        assert!(table.snapshot(20).unwrap().is_none());
    }
}
