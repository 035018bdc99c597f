//! What a session in the middle of an interval starts from: the threads as they were, and somebody who has the memory.
//!
//! The process asks for memory piece by piece when it is touched first, so that starting costs what the guest touches, not what
//! it has. Who keeps snapshots and memory, and of which moments, is not decided here: the index does.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use retro_abi::log::{Encoder, Event, MAX_FIXED, RegisterSet, Relative, register};
use retro_abi::replay::MAX_PAYLOAD;

use crate::{Error, Registers, Session};

/// The state at the start of a window, but for memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The time.
    pub time: u64,
    /// The thread that runs.
    pub running: u32,
    /// The registers of all threads, the running one first. Threads that did not run share theirs with the snapshot
    /// before.
    pub threads: Vec<Arc<Registers>>,
}

/// Memory at the start of a window.
pub trait Memory: Debug + Send + Sync {
    /// The piece at an address.
    fn piece(&self, address: u64) -> io::Result<Piece>;
    /// Pieces that will soon be needed, as far as anybody knows: they are sent before they are asked for, since asking takes
    /// longer than sending.
    fn needed_soon(&self) -> io::Result<Vec<u64>>;
}

/// What a session in the middle of an interval starts from.
#[derive(Clone, Debug)]
pub struct Start {
    /// The threads.
    pub snapshot: Arc<Snapshot>,
    /// The memory.
    pub memory: Arc<dyn Memory>,
}

/// Some pages of a piece, for [`retro_abi::replay::ask::PAGES`].
#[derive(Clone, Debug, Default)]
pub struct Piece {
    /// Bit `n`: page `n` is in `bytes`; the others are zero.
    pub mask: u64,
    /// These pages, one after the other.
    pub bytes: Vec<u8>,
}

impl Snapshot {
    /// Of a session where it stands. Threads that are as they were before share their registers with that.
    pub fn take(session: &mut Session, before: Option<&Snapshot>) -> Result<Snapshot, Error> {
        let mut threads = Vec::new();
        for info in session.threads()? {
            let now = session.registers(Some(info.thread))?;
            let same =
                before.and_then(|snapshot| snapshot.threads.iter().find(|old| ***old == now));
            threads.push(same.map_or_else(|| Arc::new(now), Arc::clone));
        }
        Ok(Snapshot { time: session.time(), running: session.thread(), threads })
    }

    /// As payloads of [`retro_abi::replay::ask::STATE`].
    pub(crate) fn to_messages(&self, interval: u64) -> Vec<Vec<u8>> {
        let count = self.threads.len() as u32;
        let mut messages = vec![Vec::new()];
        let mut relative = Relative::at(self.time);
        let mut add = |event: Event, image: usize| {
            let mut bytes = vec![0; MAX_FIXED + image];
            let is_full = |message: &Vec<u8>| message.len() + bytes.len() > MAX_PAYLOAD;
            if messages.last().is_none_or(is_full) {
                messages.push(Vec::new());
            }
            let len = Encoder::new(&mut bytes).event(self.time, &event, &mut relative);
            if let Some(message) = messages.last_mut() {
                message.extend_from_slice(&bytes[..len]);
            }
        };
        add(Event::Interval { number: interval, running: self.running, threads: count }, 0);
        for thread in &self.threads {
            let mask = (1 << register::COUNT) - 1;
            let state = Event::ThreadState {
                thread: thread.thread,
                in_syscall: thread.in_syscall.map_or(0, |number| number.wrapping_add(1)),
                registers: RegisterSet { mask, values: thread.general },
                image: &thread.vectors,
            };
            add(state, thread.vectors.len());
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use retro_abi::log::Decoder;

    /// More threads than one message holds.
    #[test]
    fn a_snapshot_is_told_in_messages_that_fit() {
        let thread = |number: u32| {
            Arc::new(Registers {
                thread: number,
                running: number == 1,
                in_syscall: (number == 7).then_some(202),
                general: [u64::from(number); register::COUNT],
                vectors: vec![number as u8; 2696],
            })
        };
        let threads: Vec<_> = (1..100).map(thread).collect();
        let snapshot = Snapshot { time: 1 << 40, running: 1, threads };
        let messages = snapshot.to_messages(3);
        assert!(messages.len() > 4 && messages.iter().all(|bytes| bytes.len() <= MAX_PAYLOAD));
        let events: Vec<_> = messages
            .iter()
            .flat_map(|bytes| Decoder::new(bytes, snapshot.time))
            .map(Result::unwrap)
            .collect();
        assert_eq!(events[0], (1 << 40, Event::Interval { number: 3, running: 1, threads: 99 }));
        for ((time, event), expected) in events[1..].iter().zip(&snapshot.threads) {
            let Event::ThreadState { thread, in_syscall, registers, image } = *event else {
                panic!("{event:?}")
            };
            assert_eq!((*time, thread), (1 << 40, expected.thread));
            assert_eq!(in_syscall, if thread == 7 { 203 } else { 0 });
            assert_eq!(registers.values, expected.general);
            assert_eq!(image, expected.vectors);
        }
        assert_eq!(events.len(), 100);
    }
}
