//! How a process began and what ended it: its program, its arguments, the kernel's auxiliary vector, the last signal.

use std::ops::ControlFlow;

use retro_abi::channel::{Origin, Stream};
use retro_abi::log::Event;
use retro_index::events::{Row, RowClass};
use retro_recording::ProcessEnd;

use crate::locate::RowFilter;
use crate::run::Run;
use crate::{Cancel, Direction, Error, Moment};

/// Bytes of `siginfo_t`.
pub const SIGINFO_SIZE: usize = 128;

/// Words that the start of a stack may have, more than any kernel allows.
const STACK_WORDS: u64 = 1 << 20;

/// The number of the stack pointer in the log.
const RSP: usize = 4;

/// How a process began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The process.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// What it executes.
    pub path: Vec<u8>,
    /// Strings that end in NUL.
    pub arguments: Vec<u8>,
    /// Strings that end in NUL.
    pub environment: Vec<u8>,
    /// The working directory that it began in.
    pub directory: Vec<u8>,
}

/// The signal that ended a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// Which.
    pub signal: u32,
    /// `siginfo_t`.
    pub information: [u8; SIGINFO_SIZE],
}

impl Run {
    /// How a process began.
    pub fn program(&self, log: u64) -> Result<Program, Error> {
        let start = self.start_event(log)?;
        // A copy of a process is not told again what its program is.
        let program = self.start_event(self.executed_log(log))?;
        Ok(Program { pid: start.pid, parent: start.parent, ..program })
    }

    fn start_event(&self, log: u64) -> Result<Program, Error> {
        let found =
            self.recording().for_each_event(log, Stream::Main, |_, event| match *event {
                Event::Start { pid, parent, path, arguments, environment, directory, .. } => {
                    ControlFlow::Break(Program {
                        pid,
                        parent,
                        path: path.to_vec(),
                        arguments: arguments.to_vec(),
                        environment: environment.to_vec(),
                        directory: directory.to_vec(),
                    })
                }
                _ => ControlFlow::Continue(()),
            })?;
        Ok(match found {
            ControlFlow::Break(start) => start,
            ControlFlow::Continue(()) => Program::default(),
        })
    }

    /// The log that begins with the program that a process executes: its own, or that of the process it is a copy of.
    fn executed_log(&self, log: u64) -> u64 {
        let mut log = log;
        // Parents have smaller numbers.
        while let Some(process) = self.recording().process(log)
            && process.summary.origin == Some(Origin::Fork)
            && let Some(parent) = process.summary.parent.filter(|&parent| parent < log)
        {
            log = parent;
        }
        log
    }

    /// The signal that ends the process at a moment, if one does.
    pub fn death_at(&self, moment: Moment, cancel: &Cancel) -> Result<Option<Death>, Error> {
        let end = self.recording().process(moment.log).map(|process| process.summary.end);
        let Some(ProcessEnd::Signalled(signal)) = end else { return Ok(None) };
        if moment.time != self.process(moment.log)?.end || self.ends_early(moment.log)? {
            return Ok(None);
        }
        let mut information = [0; SIGINFO_SIZE];
        information[..4].copy_from_slice(&signal.to_le_bytes());
        let filter = RowFilter::Number(RowClass::Signal, signal.into());
        let last = self.rows(moment, Direction::Backward, filter, cancel)?.next().transpose()?;
        if let Some(Row::Signal { handler: 0, info, .. }) = last.map(|last| last.row) {
            let len = info.len().min(SIGINFO_SIZE);
            information[..len].copy_from_slice(&info[..len]);
        }
        Ok(Some(Death { signal, information }))
    }

    /// Whether recording stopped before the process ended: what ended it is not at the end of its log.
    fn ends_early(&self, log: u64) -> Result<bool, Error> {
        let time = self.recording().process(log).map_or(0, |process| process.summary.time);
        Ok(self.replayer().stops_early() && self.process(log)?.end < time)
    }

    /// The auxiliary vector, from where the kernel puts it: on the stack, behind arguments and environment. None if the run
    /// never looked at it.
    pub fn auxiliary_vector(&self, log: u64) -> Result<Option<Vec<u8>>, Error> {
        let log = self.executed_log(log);
        let process = match self.process(log) {
            Ok(process) => process,
            Err(Error::NotIndexed { .. } | Error::NoLog(_)) => return Ok(None),
            Err(other) => return Err(other),
        };
        let state = self.state(Moment { log, time: process.start })?;
        let stack = state.registers(None)?.general[RSP];
        let word = |index: u64| -> Result<u64, Error> {
            let bytes = state.read(stack.wrapping_add(index.wrapping_mul(8)), 8)?;
            Ok(bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)))
        };
        let arguments = word(0)?;
        if arguments > STACK_WORDS {
            return Ok(None);
        }
        let mut at = arguments + 2;
        while word(at)? != 0 {
            at += 1;
            if at > STACK_WORDS {
                return Ok(None);
            }
        }
        let mut vector = Vec::new();
        loop {
            let (key, value) = (word(at + 1)?, word(at + 2)?);
            at += 2;
            vector.extend([key, value].iter().flat_map(|word| word.to_le_bytes()));
            match key {
                0 => break,
                _ if at > STACK_WORDS => return Ok(None),
                _ => {}
            }
        }
        let has_entries = vector.len() > 16;
        Ok(has_entries.then_some(vector))
    }
}
