//! The main stream as one sequence of events with times, whatever chunks it is cut into.

use alloc::vec::Vec;
use retro_abi::log::{Decoder, Event};

/// Reads chunks one after the other (see [`retro_abi::replay::ask::BEGIN`]).
pub struct Chunks {
    rest: &'static [u8],
}

impl Chunks {
    /// Over a stream.
    pub fn new(bytes: &'static [u8]) -> Chunks {
        Chunks { rest: bytes }
    }
}

impl Iterator for Chunks {
    type Item = (u64, &'static [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let word = |at: usize| {
            let bytes = self.rest.get(at..at + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let (len, base) = (word(0)? as usize, word(8)?);
        let chunk = self.rest.get(16..16usize.checked_add(len)?)?;
        let next = (16 + len).next_multiple_of(8).min(self.rest.len());
        self.rest = &self.rest[next..];
        Some((base, chunk))
    }
}

/// The state to start from: chunks of events with their time.
pub type State = Vec<(u64, &'static [u8])>;

/// The events of the main stream.
pub struct Log {
    state: alloc::vec::IntoIter<(u64, &'static [u8])>,
    chunks: Chunks,
    current: Option<Decoder<'static>>,
    next: Option<(u64, Event<'static>)>,
    /// Events up to then are part of the state.
    after: Option<u64>,
    skipping: bool,
    /// Whether a chunk could not be decoded.
    pub broken: bool,
}

impl Log {
    /// Starts with a state, if there is one, and goes on with what a stream has `after` that time.
    pub fn new(state: State, bytes: &'static [u8], after: u64) -> Log {
        let mut log = Log {
            after: (!state.is_empty()).then_some(after),
            state: state.into_iter(),
            chunks: Chunks::new(bytes),
            current: None,
            next: None,
            skipping: false,
            broken: false,
        };
        log.read();
        log
    }

    fn read(&mut self) {
        loop {
            match self.current.as_mut().and_then(Iterator::next) {
                Some(Ok((time, _))) if self.skipping && self.after.is_some_and(|t| time <= t) => {}
                Some(Ok(event)) => {
                    self.next = Some(event);
                    return;
                }
                Some(Err(_)) => {
                    self.broken = true;
                    self.next = None;
                    return;
                }
                None => {
                    let state = self.state.next();
                    self.skipping = state.is_none();
                    match state.or_else(|| self.chunks.next()) {
                        Some((base, chunk)) => self.current = Some(Decoder::new(chunk, base)),
                        None => {
                            self.next = None;
                            return;
                        }
                    }
                }
            }
        }
    }

    /// The next event, left in place.
    pub fn peek(&self) -> Option<(u64, Event<'static>)> {
        self.next
    }

    /// Takes the next event.
    pub fn take(&mut self) -> Option<(u64, Event<'static>)> {
        let event = self.next;
        self.read();
        event
    }
}
