//! What the events so far mean for the next one: which thread runs, and which calls are in progress.

use std::collections::BTreeMap;

use retro_abi::channel::Stream;
use retro_abi::log::Event;
use retro_recording::Recording;

/// Calls in progress that are remembered; more would only be in a log that was made to use up memory.
const CALLS_LIMIT: usize = 1 << 16;

/// At one place of a log.
pub struct LogState {
    thread: Option<u32>,
    /// Numbers of the calls in progress, by thread.
    calls: BTreeMap<u32, u64>,
}

impl LogState {
    /// At a place where this thread runs, if it is known.
    pub fn new(thread: Option<u32>) -> LogState {
        LogState { thread, calls: BTreeMap::new() }
    }

    /// The thread that runs.
    pub fn thread(&self) -> Option<u32> {
        self.thread
    }

    /// Takes the next event; returns the number of the call that it ends, if it ends one.
    pub fn take(&mut self, event: &Event) -> Option<u64> {
        if let Some(thread) = runs_from(event) {
            self.thread = Some(thread);
        }
        let thread = self.thread.unwrap_or(0);
        match *event {
            Event::SyscallEnter { number, .. } => self.begin(thread, number),
            Event::ThreadState { thread, in_syscall: number @ 1.., .. } => {
                self.begin(thread, u64::from(number) - 1);
            }
            Event::SyscallExit { .. } => return self.calls.remove(&thread),
            Event::ThreadEnd { thread, .. } => {
                self.calls.remove(&thread);
            }
            _ => {}
        }
        None
    }

    fn begin(&mut self, thread: u32, number: u64) {
        if self.calls.len() < CALLS_LIMIT || self.calls.contains_key(&thread) {
            self.calls.insert(thread, number);
        }
    }
}

/// The thread that runs from an event on, if it says so.
fn runs_from(event: &Event) -> Option<u32> {
    match *event {
        // A process begins with its main thread, which has the same number.
        Event::Start { pid, .. } => Some(pid),
        Event::Interval { running, .. } => Some(running),
        Event::ThreadSwitch { thread, .. } => Some(thread),
        _ => None,
    }
}

/// The only thread of a process, if it has never had more.
pub fn only_thread(recording: &Recording, log: u64) -> Option<u32> {
    let process = recording.process(log)?;
    let is_alone = !process.derived && process.summary.counts.threads == 1;
    Some(process.summary.pid).filter(|&pid| is_alone && pid != 0)
}

/// The thread that runs when a chunk begins. Looks back for the last event that says so; each interval begins
/// with one, so that this is not far.
pub fn running_before(recording: &Recording, log: u64, chunk: usize) -> Option<u32> {
    let before = recording.segments(log, Stream::Main).get(..chunk)?;
    only_thread(recording, log).or_else(|| {
        before.iter().rev().find_map(|segment| {
            let chunk = recording.read_chunk(segment).ok()?;
            chunk.events().flatten().filter_map(|(_, event)| runs_from(&event)).last()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_belong_to_their_threads() {
        let mut state = LogState::new(None);
        let enter = |number| Event::SyscallEnter { number, args: [0; 6], check: 0 };
        let exit = Event::SyscallExit { result: 0 };
        assert_eq!(state.take(&exit), None);
        state.take(&Event::Interval { number: 0, running: 10, threads: 1 });
        assert_eq!(state.thread(), Some(10));
        assert_eq!(state.take(&enter(202)), None);
        state.take(&Event::ThreadSwitch { thread: 11, check: 0 });
        assert_eq!(state.take(&enter(0)), None);
        assert_eq!(state.take(&exit), Some(0));
        assert_eq!(state.take(&exit), None);
        state.take(&Event::ThreadSwitch { thread: 10, check: 0 });
        assert_eq!(state.take(&exit), Some(202));
    }
}
