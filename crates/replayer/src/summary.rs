//! Summaries: what a stretch of a run has written and executed, at a fraction of the cost of a stream.
//!
//! The process marks and counts while it runs ([`retro_abi::replay::detail::SUMMARY`]); what has gathered is asked for at
//! the end of the stretch. Only calls, returns and switches of threads come in the order of time.

use retro_abi::replay::{Header, MOST_BLOCKS, WRITTEN_SIZE, ask, detail, tell, transfer};

use crate::session::Session;
use crate::stream::Descriptions;
use crate::{Error, PAGE_SIZE, Stop};

/// A page that has changed.
#[derive(Clone, Copy, Debug)]
pub struct WrittenPage<'a> {
    /// Its address.
    pub address: u64,
    /// Its contents now.
    pub bytes: &'a [u8; PAGE_SIZE],
    /// A bit for each word of eight bytes that was written, by the guest or a system call.
    pub words: &'a [u8; PAGE_SIZE / 64],
    /// A bit for each byte that was written, or whose value has come from outside.
    pub bytes_known: &'a [u8; PAGE_SIZE / 8],
}

/// What a summary tells in the order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// A call stores its return address in this place of the stack.
    Call {
        /// The address.
        slot: u64,
    },
    /// A return takes its address from there.
    Return {
        /// The address.
        slot: u64,
    },
    /// Another thread runs from here.
    Switch {
        /// Its number.
        thread: u32,
    },
}

impl Transfer {
    fn read(word: u64) -> Transfer {
        let stack = word & !transfer::MASK;
        match word & transfer::MASK {
            transfer::CALL => Transfer::Call { slot: stack.wrapping_sub(8) },
            transfer::SWITCH => {
                Transfer::Switch { thread: (word >> transfer::THREAD_SHIFT) as u32 }
            }
            _ => Transfer::Return { slot: stack },
        }
    }
}

/// What a summary is told to.
pub trait Summary {
    /// A call, a return, or a switch of threads.
    fn transfer(&mut self, transfer: Transfer);
    /// Instructions with these lengths, one after the other from `pc` on, were executed so often. `enters`: as the start
    /// of a block.
    fn executed(&mut self, pc: u64, lengths: &[u8], times: u32, enters: bool);
    /// Pages have become zero, before what was written to them.
    fn cleared(&mut self, start: u64, end: u64) -> Result<(), Error>;
    /// Pages have moved: those at `to`, which were cleared before, are known as far as those at `from` were. In the order of
    /// what is cleared. Who does not care for what is known need not care for this.
    fn moved(&mut self, _from: u64, _to: u64, _len: u64) -> Result<(), Error> {
        Ok(())
    }
    /// A page has changed.
    fn written(&mut self, page: WrittenPage<'_>) -> Result<(), Error>;
}

impl Session {
    /// Goes on to a time and tells what was written and executed on the way. For sessions that were
    /// [started for it](crate::Replayer::summary_session).
    pub fn summarise(&mut self, until: u64, summary: &mut impl Summary) -> Result<Stop, Error> {
        self.check_forward(until)?;
        self.prepare_stream()?;
        let bits = detail::BLOCKS | detail::CALLS | detail::WRITES | detail::SUMMARY;
        let mut counts = Counts::default();
        let stop = self.run_in_stretches(until, |session, stretch_end| {
            session.send(&Header::new(ask::RUN, [stretch_end, bits]), &[])?;
            session.await_stop_summarising(stretch_end, &mut counts, summary)
        })?;
        self.take_counts(&mut counts)?;
        counts.tell(self.descriptions(), summary);
        self.take_written(summary)?;
        Ok(stop)
    }

    fn await_stop_summarising(
        &mut self,
        stretch_end: u64,
        counts: &mut Counts,
        summary: &mut impl Summary,
    ) -> Result<(), Error> {
        // A word for each call, return and switch; the latter are in the log.
        let words = (stretch_end - self.time()).saturating_add(self.log_file().length());
        let allowed = words.saturating_mul(8);
        let mut streamed = 0u64;
        loop {
            let (header, len) = self.answer_length()?;
            match header.kind() {
                tell::BLOCK => {
                    self.define_blocks(len, |known| {
                        counts.tell(known, summary);
                        Ok(())
                    })?;
                }
                tell::COUNTS => self.add_counts(counts, len)?,
                tell::STREAM => {
                    let [_, offset, len, ..] = header.0;
                    self.read_stream(offset, len)?;
                    streamed = streamed.saturating_add(len);
                    if streamed > allowed {
                        return Err(self.nonsense("it streams more than it can have executed"));
                    }
                    self.send(&Header::new(ask::GO_ON, []), &[])?;
                    for word in self.streamed(len).as_chunks().0 {
                        summary.transfer(Transfer::read(u64::from_le_bytes(*word)));
                    }
                }
                _ => return self.take_stop(&header),
            }
        }
    }

    fn take_counts(&mut self, counts: &mut Counts) -> Result<(), Error> {
        self.send(&Header::new(ask::COUNTS, []), &[])?;
        loop {
            let (header, len) = self.answer_length()?;
            match header.kind() {
                tell::COUNTS => self.add_counts(counts, len)?,
                tell::DONE => return Ok(()),
                kind => return Err(self.unexpected(kind)),
            }
        }
    }

    fn add_counts(&mut self, counts: &mut Counts, len: usize) -> Result<(), Error> {
        counts.add(self.payload(len));
        // A process counts each of its blocks, and tells when it begins anew with them.
        if counts.0.len() > 2 * MOST_BLOCKS as usize {
            return Err(self.nonsense("it counts more blocks than there can be"));
        }
        Ok(())
    }

    fn take_written(&mut self, summary: &mut impl Summary) -> Result<(), Error> {
        self.send(&Header::new(ask::CHANGES, []), &[])?;
        loop {
            let (header, len) = self.answer_length()?;
            let [kind, first, second, third, ..] = header.0;
            match kind {
                tell::CLEARED => summary.cleared(first, second)?,
                tell::MOVED => summary.moved(first, second, third)?,
                tell::WRITTEN => {
                    let (pages, rest) = self.payload(len).as_chunks::<WRITTEN_SIZE>();
                    let makes_sense = rest.is_empty();
                    for page in pages {
                        summary.written(written_page(page))?;
                    }
                    if !makes_sense {
                        return Err(self.nonsense("its pages make no sense"));
                    }
                }
                tell::DONE => return Ok(()),
                kind => return Err(self.unexpected(kind)),
            }
        }
    }
}

fn written_page(payload: &[u8; WRITTEN_SIZE]) -> WrittenPage<'_> {
    const WORDS: usize = 8 + PAGE_SIZE;
    const BYTES: usize = WORDS + PAGE_SIZE / 64;
    let mut address = [0; 8];
    address.copy_from_slice(&payload[..8]);
    let part = |from: usize| payload.get(from..).unwrap_or_default();
    WrittenPage {
        address: u64::from_le_bytes(address) & !(PAGE_SIZE as u64 - 1),
        bytes: part(8).first_chunk().unwrap_or(&[0; PAGE_SIZE]),
        words: part(WORDS).first_chunk().unwrap_or(&[0; PAGE_SIZE / 64]),
        bytes_known: part(BYTES).first_chunk().unwrap_or(&[0; PAGE_SIZE / 8]),
    }
}

/// How often blocks were executed, in the order of their numbers.
#[derive(Debug, Default)]
struct Counts(Vec<(u32, u32)>);

impl Counts {
    fn add(&mut self, payload: &[u8]) {
        let pairs = payload.as_chunks::<8>().0.iter();
        self.0.extend(pairs.map(|&[a, b, c, d, e, f, g, h]| {
            (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]))
        }));
    }

    /// Tells straight pieces: what lies between two side exits was executed as often as the block was, less by those that
    /// left it before. The side exits of a block have the numbers behind its own.
    fn tell(&mut self, blocks: &Descriptions, summary: &mut impl Summary) {
        let counts = std::mem::take(&mut self.0);
        let mut rest = counts.iter().peekable();
        while let Some(&(number, times)) = rest.next() {
            let number = number as usize;
            let Some((pc, lengths)) = blocks.code(number).filter(|_| !blocks.is_partial(number))
            else {
                continue;
            };
            let (mut left, mut start, mut at) = (times, 0, pc);
            for exit in (number + 1..).take_while(|&exit| blocks.is_partial(exit)) {
                let end = blocks.code(exit).map_or(start, |(_, part)| part.len());
                let Some(piece) = lengths.get(start..end) else { break };
                if left > 0 && !piece.is_empty() {
                    summary.executed(at, piece, left, start == 0);
                }
                at = at.wrapping_add(piece.iter().map(|&len| u64::from(len)).sum());
                start = end;
                if let Some(&(_, taken)) = rest.next_if(|(next, _)| *next as usize == exit) {
                    left = left.saturating_sub(taken);
                }
            }
            if left > 0 && start < lengths.len() {
                summary.executed(at, &lengths[start..], left, start == 0);
            }
        }
    }
}
