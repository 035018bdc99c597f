//! Writing the call trees of all threads of a volume.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::callees::Callee;
use super::head::Head;
use super::matching::{CallOrReturn, Matcher, Parenthesis};
use super::output::Output;
use super::page::Mark;
use super::parentheses::Run;
use super::state_chain::{self, StateChain};
use super::{Columns, Directory, Error};
use retro_recording::NamedFile;

use crate::frames::FrameError;

/// Threads that are kept in memory from one commit to the next though nothing happened in them.
const MAX_IDLE_THREADS: usize = 256;

/// Writes call trees, window by window.
///
/// Windows are numbered from 0. What happens goes into the current window until it is ended; a commit is possible
/// between windows, and a build that was cut short goes on from its last commit.
#[derive(Debug)]
pub struct CallTreeWriter {
    output: Output,
    directory: Directory,
    threads: HashMap<u32, ThreadWriter>,
    /// The threads in which something happened in the current window.
    active: Vec<u32>,
    /// Parentheses of one call or return, on their way from the matcher to the page.
    parentheses: Vec<Parenthesis>,
}

#[derive(Debug)]
struct ThreadWriter {
    matcher: Matcher,
    states: StateChain,
    head: Head,
    /// Whether something happened in the current window, and since the last commit.
    is_active: bool,
    is_changed: bool,
}

impl CallTreeWriter {
    /// Begins a file. One that exists gives way.
    pub fn create(place: &NamedFile, columns: Columns) -> Result<CallTreeWriter, Error> {
        let directory = Directory::new(columns);
        Ok(CallTreeWriter::on(Output::create(place)?, directory))
    }

    /// Goes on with a file from the length that [`CallTreeWriter::commit`] told, with the columns that it was begun
    /// with.
    pub fn reopen(
        place: &NamedFile,
        committed: u64,
        columns: Columns,
    ) -> Result<CallTreeWriter, Error> {
        let mut output = Output::reopen(place, committed)?;
        let mut directory = Directory::load(output.frames.written()?)?;
        if directory.is_empty() {
            directory.columns = columns;
        }
        if directory.columns != columns {
            return Err(Error::OtherColumns);
        }
        Ok(CallTreeWriter::on(output, directory))
    }

    fn on(output: Output, directory: Directory) -> CallTreeWriter {
        CallTreeWriter {
            output,
            directory,
            threads: HashMap::new(),
            active: Vec::new(),
            parentheses: Vec::new(),
        }
    }

    /// The number of the current window: so many are complete.
    pub fn windows(&self) -> u64 {
        self.directory.windows
    }

    /// A thread called `target`, with the return address stored at `slot`. Times of a thread never fall.
    pub fn call(&mut self, thread: u32, time: u64, slot: u64, target: u64) -> Result<(), Error> {
        // Without the column, targets would only make the states larger.
        let target = if self.directory.columns.callees { target } else { 0 };
        self.happened(thread, time, |matcher, parentheses| {
            matcher.call(slot, target, |found| parentheses.push(found))
        })
    }

    /// A thread returned, with the address taken from `slot`.
    pub fn returned(&mut self, thread: u32, time: u64, slot: u64) -> Result<(), Error> {
        self.happened(thread, time, |matcher, parentheses| {
            matcher.returned(slot, |found| parentheses.push(found))
        })
    }

    /// What a thread did at a time, or from then on if nobody knows better: the same as one after the other, with target 0, and
    /// a lot faster.
    pub fn append(&mut self, thread: u32, time: u64, events: &[CallOrReturn]) -> Result<(), Error> {
        let in_runs = !self.directory.columns.callees;
        let mut rest = events;
        while let Some((first, later)) = rest.split_first() {
            rest = later;
            if first.is_call() {
                self.call(thread, time, first.slot(), 0)?;
            } else {
                self.returned(thread, time, first.slot())?;
            }
            if in_runs && let Some(thread) = self.threads.get_mut(&thread) {
                let taken = thread.append_runs(rest, time, &mut self.output)?;
                rest = &rest[taken..];
            }
        }
        Ok(())
    }

    /// Ends the current window and begins the next.
    pub fn end_window(&mut self) -> Result<(), Error> {
        for thread in self.active.drain(..) {
            if let Some(thread) = self.threads.get_mut(&thread) {
                thread.states.append(&mut thread.matcher, &mut self.output)?;
                thread.head.last_state = thread.states.last;
                thread.is_active = false;
            }
        }
        self.directory.windows += 1;
        Ok(())
    }

    /// Makes all complete windows readable, and tells the length that a manifest has to remember.
    pub fn commit(&mut self) -> Result<u64, Error> {
        if !self.active.is_empty() {
            return Err(Error::WindowNotEnded(self.directory.windows));
        }
        let mut changed: Vec<_> =
            self.threads.iter_mut().filter(|(_, thread)| thread.is_changed).collect();
        changed.sort_unstable_by_key(|(number, _)| **number);
        for (&number, thread) in changed {
            self.directory.set_head(number, thread.head.write(&mut self.output)?);
        }
        if self.threads.len() > MAX_IDLE_THREADS {
            self.threads.retain(|_, thread| thread.is_changed);
        }
        self.threads.values_mut().for_each(|thread| thread.is_changed = false);
        Ok(self.directory.commit(&mut self.output.frames)?)
    }

    /// Waits until everything committed is on the disk.
    pub fn sync(&self) -> Result<(), Error> {
        Ok(self.output.frames.sync()?)
    }

    fn happened(
        &mut self,
        number: u32,
        time: u64,
        matching: impl FnOnce(&mut Matcher, &mut Vec<Parenthesis>),
    ) -> Result<(), Error> {
        let thread = match self.threads.entry(number) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                unknown.insert(ThreadWriter::load(&mut self.output, &self.directory, number)?)
            }
        };
        if time < thread.head.last_time {
            return Err(Error::TimeFalls { thread: number, time, before: thread.head.last_time });
        }
        if !thread.is_active {
            thread.begin_window(self.directory.windows);
            self.active.push(number);
        }
        self.parentheses.clear();
        matching(&mut thread.matcher, &mut self.parentheses);
        thread.head.last_time = time;
        for &parenthesis in &self.parentheses {
            thread.push(parenthesis, time, &mut self.output)?;
        }
        Ok(())
    }
}

impl ThreadWriter {
    fn load(
        output: &mut Output,
        directory: &Directory,
        number: u32,
    ) -> Result<ThreadWriter, FrameError> {
        let head = match directory.head(number) {
            Some(position) => Head::read(output.frames.written()?, position)?,
            None => Head { callees: directory.columns.callees.then(Vec::new), ..Head::default() },
        };
        Ok(ThreadWriter {
            matcher: state_chain::load(output.frames.written()?, head.last_state)?,
            states: StateChain::going_on(head.last_state),
            head,
            is_active: false,
            is_changed: false,
        })
    }

    fn begin_window(&mut self, window: u64) {
        self.head.page.marks.push(Mark {
            window,
            start: self.head.length,
            state: self.states.last,
        });
        self.is_active = true;
        self.is_changed = true;
    }

    /// Takes events as long as they are orderly, and tells how many.
    fn append_runs(
        &mut self,
        events: &[CallOrReturn],
        time: u64,
        output: &mut Output,
    ) -> Result<usize, FrameError> {
        let mut taken = 0;
        loop {
            let run = self.matcher.take_run(&events[taken..]);
            self.head.append(run, time, output)?;
            taken += run.length;
            if run.length < Run::LONGEST {
                return Ok(taken);
            }
        }
    }

    fn push(
        &mut self,
        parenthesis: Parenthesis,
        time: u64,
        output: &mut Output,
    ) -> Result<(), FrameError> {
        let open = match parenthesis {
            Parenthesis::Open { target, resumed } => Some(Callee { target, resumed }),
            Parenthesis::Close => None,
        };
        self.head.push(open, time, output)
    }
}
