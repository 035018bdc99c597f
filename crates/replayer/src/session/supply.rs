//! Memory for a process that began in the middle of an interval, and has none of its own.

use retro_abi::replay::{Header, ask};

use super::Session;
use crate::Error;

impl Session {
    /// Answers a question for a piece of memory. What will be asked for soon comes before the answer: the process takes
    /// what comes until it has that.
    pub(super) fn supply(&mut self, address: u64) -> Result<(), Error> {
        for other in self.read_ahead.others(address) {
            self.send_piece(other)?;
        }
        self.send_piece(address)
    }

    fn send_piece(&mut self, address: u64) -> Result<(), Error> {
        let Some(start) = &self.start else {
            return Err(self.nonsense("it asks for memory that it has"));
        };
        let piece = start.memory.piece(address).map_err(Error::Pages)?;
        self.send(&Header::new(ask::PAGES, [address, piece.mask]), &piece.bytes)
    }

    /// Sends pieces of memory that will be asked for.
    pub(super) fn supply_ahead(&mut self) -> Result<(), Error> {
        let Some(start) = &self.start else { return Ok(()) };
        for address in start.memory.needed_soon().map_err(Error::Pages)? {
            self.read_ahead.sent(address);
            self.send_piece(address)?;
        }
        Ok(())
    }
}
