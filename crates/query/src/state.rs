//! The state at a moment: registers, memory, threads.
//!
//! A [`State`] holds a replay that stands at the moment; looking costs nothing more once it is there, and what is read of
//! memory is kept.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use retro_abi::log::register;
use retro_replayer::{PAGE_SIZE, Registers, Session, ThreadInfo};
use retro_symbols::{Machine, register as dwarf};

use crate::run::{Run, WindowRef};
use crate::unknown_memory::{Known, Page, is_known};
use crate::{Error, Moment};

/// Most bytes that are read at once.
pub const READ_LIMIT: u64 = 16 << 20;

/// A moment of a process, to be looked at.
pub struct State {
    run: Run,
    moment: Moment,
    session: RefCell<Option<Session>>,
    pages: RefCell<HashMap<u64, SeenPage>>,
}

/// A page that was looked at.
struct SeenPage {
    bytes: Box<Page>,
    /// Which bytes the replay knows, until the page is completed.
    known: Option<Box<Known>>,
}

impl Run {
    /// The state at a moment.
    pub fn state(&self, moment: Moment) -> Result<State, Error> {
        let session = RefCell::new(Some(self.session(moment)?));
        Ok(State { run: self.clone(), moment, session, pages: RefCell::default() })
    }

    /// The thread that runs at a moment. The index knows it: nothing is replayed.
    pub fn running_thread(&self, moment: Moment) -> Result<u32, Error> {
        let process = self.process(moment.log)?;
        process.check_time(moment.time)?;
        let WindowRef { volume, window } = process.window_of(moment.time)?;
        let rows = volume.rows.rows(window)?;
        match rows.iter().rev().find(|row| row.time <= moment.time) {
            Some(row) => Ok(row.thread),
            None => {
                let snapshot = volume.windows.snapshot(window)?;
                Ok(snapshot.ok_or(retro_index::Error::NoWindow(window))?.running)
            }
        }
    }

    /// The registers of a thread, or of the one that runs.
    pub fn registers(&self, moment: Moment, thread: Option<u32>) -> Result<Registers, Error> {
        self.state(moment)?.registers(thread)
    }

    /// The threads; the one that runs comes first.
    pub fn threads(&self, moment: Moment) -> Result<Vec<ThreadInfo>, Error> {
        self.state(moment)?.threads()
    }

    /// Memory, as far as it is mapped.
    pub fn memory(&self, moment: Moment, address: u64, len: u64) -> Result<Vec<u8>, Error> {
        self.state(moment)?.read(address, len)
    }
}

impl State {
    /// The moment.
    pub fn moment(&self) -> Moment {
        self.moment
    }

    /// The run.
    pub fn run(&self) -> &Run {
        &self.run
    }

    fn with_session<T>(
        &self,
        ask: impl FnOnce(&mut Session) -> Result<T, retro_replayer::Error>,
    ) -> Result<T, Error> {
        let mut session = self.session.borrow_mut();
        match session.as_mut() {
            Some(session) => Ok(ask(session)?),
            None => Err(Error::Cancelled),
        }
    }

    /// The thread that runs.
    pub fn thread(&self) -> Result<u32, Error> {
        self.with_session(|session| Ok(session.thread()))
    }

    /// Its next instruction.
    pub fn pc(&self) -> Result<u64, Error> {
        self.with_session(|session| Ok(session.pc()))
    }

    /// The registers of a thread, or of the one that runs.
    pub fn registers(&self, thread: Option<u32>) -> Result<Registers, Error> {
        self.with_session(|session| session.registers(thread)).map_err(|error| match error {
            Error::Replay(retro_replayer::Error::NoThread(thread)) => {
                Error::NoThread { thread, moment: self.moment }
            }
            other => other,
        })
    }

    /// The threads; the one that runs comes first.
    pub fn threads(&self) -> Result<Vec<ThreadInfo>, Error> {
        self.with_session(|session| session.threads())
    }

    /// Memory, as far as it is mapped: shorter than asked for if it ends before.
    pub fn read(&self, address: u64, len: u64) -> Result<Vec<u8>, Error> {
        if len > READ_LIMIT {
            return Err(Error::Question(format!("{len} bytes are too many: at most {READ_LIMIT}")));
        }
        let mut bytes = Vec::with_capacity(len as usize);
        while (bytes.len() as u64) < len {
            let Some(at) = address.checked_add(bytes.len() as u64) else { break };
            let page = at & !(PAGE_SIZE as u64 - 1);
            let from = (at - page) as usize;
            let want = (PAGE_SIZE - from).min(len as usize - bytes.len());
            if !self.read_in_page(page, from..from + want, &mut bytes)? {
                break;
            }
        }
        Ok(bytes)
    }

    /// Appends a part of a page. False if there is no memory.
    fn read_in_page(&self, page: u64, part: Range<usize>, to: &mut Vec<u8>) -> Result<bool, Error> {
        let mut pages = self.pages.borrow_mut();
        let seen = match pages.entry(page) {
            Entry::Occupied(seen) => seen.into_mut(),
            Entry::Vacant(unseen) => {
                if !self.run.is_mapped(self.moment, page)? {
                    return Ok(false);
                }
                let read = self.with_session(|session| session.read(page, PAGE_SIZE))?;
                let Ok(bytes) = <Box<Page>>::try_from(read.into_boxed_slice()) else {
                    return Ok(false);
                };
                let known = Some(self.run.known_bytes(self.moment, page)?);
                unseen.insert(SeenPage { bytes, known })
            }
        };
        // Completing a page may take a while, and most of what is looked at is known.
        if let Some(known) = &seen.known
            && part.clone().any(|index| seen.bytes[index] == 0 && !is_known(known, index))
        {
            self.run.fill_in(self.moment, page, known, &mut seen.bytes)?;
            seen.known = None;
        }
        to.extend_from_slice(&seen.bytes[part]);
        Ok(true)
    }

    /// A whole page, which is not kept: for those who look at much and at everything once. Zeroes if no program can have
    /// memory there.
    pub(crate) fn read_once(&self, page: u64) -> Result<Box<Page>, Error> {
        let read = self.with_session(|session| session.read(page, PAGE_SIZE))?;
        let Ok(mut bytes) = <Box<Page>>::try_from(read.into_boxed_slice()) else {
            return Ok(Box::new([0; PAGE_SIZE]));
        };
        if bytes.contains(&0) {
            let known = self.run.known_bytes(self.moment, page)?;
            self.run.fill_in(self.moment, page, &known, &mut bytes)?;
        }
        Ok(bytes)
    }

    /// Fills a buffer from memory. False if not all of it is mapped.
    pub fn fill(&self, address: u64, buffer: &mut [u8]) -> bool {
        match self.read(address, buffer.len() as u64) {
            Ok(bytes) if bytes.len() == buffer.len() => {
                buffer.copy_from_slice(&bytes);
                true
            }
            _ => false,
        }
    }

    /// This moment as a thread sees it.
    pub fn machine(&self, registers: Registers) -> StateMachine<'_> {
        StateMachine { state: self, registers }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(session) = self.session.borrow_mut().take() {
            self.run.keep(session);
        }
    }
}

/// A moment as a thread sees it.
pub struct StateMachine<'a> {
    state: &'a State,
    registers: Registers,
}

impl StateMachine<'_> {
    /// The registers.
    pub fn registers(&self) -> &Registers {
        &self.registers
    }
}

/// From DWARF's numbers of general registers to those of the log.
const FROM_DWARF: [usize; 17] =
    [0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15, register::RIP as usize];

/// DWARF's numbers of the others that there are.
const OTHERS_FROM_DWARF: [(u16, u32); 3] = [
    (dwarf::RFLAGS, register::RFLAGS),
    (dwarf::FS_BASE, register::FS_BASE),
    (dwarf::GS_BASE, register::GS_BASE),
];

impl Machine for StateMachine<'_> {
    fn register(&self, number: u16) -> Option<u64> {
        let other = || OTHERS_FROM_DWARF.iter().find(|(known, _)| *known == number);
        let known = FROM_DWARF.get(usize::from(number)).copied();
        let index = known.or_else(|| Some(other()?.1 as usize))?;
        Some(self.registers.general[index])
    }

    fn vector(&self, number: u16) -> Option<[u8; 16]> {
        /// Where `xsave` has the lower halves of the vector registers.
        const XMM: usize = 160;
        let at = XMM + 16 * usize::from(number);
        (number < 16).then_some(())?;
        self.registers.vectors.get(at..at + 16)?.first_chunk().copied()
    }

    fn fs_base(&self) -> Option<u64> {
        Some(self.registers.general[register::FS_BASE as usize])
    }

    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        self.state.fill(address, buffer)
    }
}
