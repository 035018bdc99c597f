//! The state at a moment: registers, memory, threads.
//!
//! A [`State`] holds a replay that stands at the moment; looking costs nothing more once it is there, and what is read of
//! memory is kept.
//!
//! *Memory that the interval does not know.* A replay of an interval begins with empty memory and learns what the run
//! read and wrote. What was written before and not touched since is not in it; the index remembers which bytes
//! are known, and where one is not, the versions of pages of earlier intervals are asked. What no interval has ever seen
//! reads as zero.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use retro_abi::log::register;
use retro_replayer::{PAGE_SIZE, Registers, Session, ThreadInfo};
use retro_symbols::Machine;

use crate::run::{Process, Run, WindowRef};
use crate::{Error, Moment};

/// Most bytes that are read at once.
pub const READ_LIMIT: u64 = 16 << 20;

/// A moment of a process, to be looked at.
pub struct State {
    run: Run,
    moment: Moment,
    session: RefCell<Option<Session>>,
    pages: RefCell<HashMap<u64, Rc<[u8; PAGE_SIZE]>>>,
}

impl Run {
    /// The state at a moment.
    pub fn state(&self, moment: Moment) -> Result<State, Error> {
        let session = RefCell::new(Some(self.session(moment)?));
        Ok(State { run: self.clone(), moment, session, pages: RefCell::default() })
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

    /// Memory, as far as it can be the program's: shorter than asked for if it ends before.
    pub fn read(&self, address: u64, len: u64) -> Result<Vec<u8>, Error> {
        if len > READ_LIMIT {
            return Err(Error::Question(format!("{len} bytes are too many: at most {READ_LIMIT}")));
        }
        let mut bytes = Vec::with_capacity(len as usize);
        while (bytes.len() as u64) < len {
            let Some(at) = address.checked_add(bytes.len() as u64) else { break };
            let page = at & !(PAGE_SIZE as u64 - 1);
            let Some(contents) = self.page(page)? else { break };
            let from = (at - page) as usize;
            let want = (PAGE_SIZE - from).min(len as usize - bytes.len());
            bytes.extend_from_slice(&contents[from..from + want]);
        }
        Ok(bytes)
    }

    /// A page; none if no program can have memory there.
    fn page(&self, address: u64) -> Result<Option<Rc<[u8; PAGE_SIZE]>>, Error> {
        if let Some(known) = self.pages.borrow().get(&address) {
            return Ok(Some(Rc::clone(known)));
        }
        let read = self.with_session(|session| session.read(address, PAGE_SIZE))?;
        let Ok(mut bytes) = <Box<[u8; PAGE_SIZE]>>::try_from(read.into_boxed_slice()) else {
            return Ok(None);
        };
        self.run.fill_in(self.moment, address, &mut bytes)?;
        let page: Rc<[u8; PAGE_SIZE]> = Rc::from(bytes);
        self.pages.borrow_mut().insert(address, Rc::clone(&page));
        Ok(Some(page))
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

fn is_known(known: &[u8; PAGE_SIZE / 8], index: usize) -> bool {
    known[index / 8] >> (index % 8) & 1 != 0
}

impl Run {
    /// Puts what earlier intervals know into a page where the interval of a moment knows nothing.
    fn fill_in(&self, moment: Moment, page: u64, bytes: &mut [u8; PAGE_SIZE]) -> Result<(), Error> {
        let process = self.process(moment.log)?;
        let (index, volume) = process.volume_of(moment.time)?;
        if index == 0 {
            return Ok(());
        }
        let window = volume.window_of(moment.time);
        let at_start = volume.page(page, window)?;
        let known_at_start = at_start.map_or([0; PAGE_SIZE / 8], |version| *version.known);
        let mut missing: Vec<usize> = (0..PAGE_SIZE)
            .filter(|&index| bytes[index] == 0 && !is_known(&known_at_start, index))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        // What the window itself has written before the moment is known, too.
        let place = WindowRef { volume, window };
        if moment.time > volume.window_range(window).start
            && volume.words.contains(window, page / 8..(page + PAGE_SIZE as u64) / 8)?
        {
            let trace = self.trace(&process, place)?;
            let mut written = [false; PAGE_SIZE];
            let memory = page..page + PAGE_SIZE as u64;
            for write in trace.writes(memory.clone(), trace.range.start..moment.time) {
                let from = write.address.max(memory.start) - page;
                let to = (write.address + write.value.len() as u64).min(memory.end) - page;
                written[from as usize..to as usize].fill(true);
            }
            missing.retain(|&index| !written[index]);
        }
        let cleared = self.cleared_at(&process, page, moment.time)?;
        self.fill_from_earlier(&process, index, page, cleared, &missing, bytes)
    }

    fn fill_from_earlier(
        &self,
        process: &Process,
        before: usize,
        page: u64,
        cleared: Option<u64>,
        missing: &[usize],
        bytes: &mut [u8; PAGE_SIZE],
    ) -> Result<(), Error> {
        let mut missing = missing.to_vec();
        for volume in process.volumes[..before].iter().rev() {
            // What was there before memory was mapped anew is gone.
            if missing.is_empty() || cleared.is_some_and(|cleared| cleared >= volume.end) {
                return Ok(());
            }
            let Some(version) = volume.page(page, u32::MAX)? else { continue };
            let written_at = volume.windows.start(version.window).unwrap_or(volume.end);
            if cleared.is_some_and(|cleared| cleared > written_at) {
                return Ok(());
            }
            missing.retain(|&index| {
                let known = is_known(&version.known, index);
                if known {
                    bytes[index] = version.bytes[index];
                }
                !known
            });
        }
        Ok(())
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

impl Machine for StateMachine<'_> {
    fn register(&self, number: u16) -> Option<u64> {
        let number = *FROM_DWARF.get(usize::from(number))?;
        Some(self.registers.general[number])
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
        match self.state.read(address, buffer.len() as u64) {
            Ok(bytes) if bytes.len() == buffer.len() => {
                buffer.copy_from_slice(&bytes);
                true
            }
            _ => false,
        }
    }
}
