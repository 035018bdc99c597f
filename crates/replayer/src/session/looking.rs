//! Looking around where a session stands.

use retro_abi::replay::{Header, MAX_PAYLOAD, ask, tell};

use super::{Registers, Session, ThreadInfo};
use crate::{Error, PAGE_SIZE};

impl Session {
    /// The registers of a thread, or of the one that runs.
    pub fn registers(&mut self, thread: Option<u32>) -> Result<Registers, Error> {
        let number = thread.unwrap_or(0);
        self.send(&Header::new(ask::REGISTERS, [number.into()]), &[])?;
        let (header, payload) = self.answer()?;
        match header.kind() {
            tell::REGISTERS => {
                let parsed = Registers::parse(&header, payload);
                parsed.ok_or_else(|| self.nonsense("its registers make no sense"))
            }
            tell::DONE => Err(Error::NoThread(number)),
            kind => Err(self.unexpected(kind)),
        }
    }

    /// All threads; the one that runs comes first.
    pub fn threads(&mut self) -> Result<Vec<ThreadInfo>, Error> {
        self.send(&Header::new(ask::THREADS, []), &[])?;
        let (header, payload) = self.answer()?;
        if header.kind() != tell::THREADS {
            return Err(self.unexpected(header.kind()));
        }
        let (pairs, _) = payload.as_chunks::<8>();
        let thread = |pair: &[u8; 8]| {
            let [a, b, c, d, e, f, g, h] = *pair;
            let in_syscall = u32::from_le_bytes([e, f, g, h]).checked_sub(1);
            ThreadInfo { thread: u32::from_le_bytes([a, b, c, d]), in_syscall }
        };
        Ok(pairs.iter().map(thread).collect())
    }

    /// Reads memory. What cannot be the guest's is not there, so that the answer may be shorter; what was
    /// never touched reads as zero.
    pub fn read(&mut self, address: u64, len: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let Some(at) = address.checked_add(bytes.len() as u64) else { break };
            // Not across a page where the guest's memory may end.
            let to_page = PAGE_SIZE - at as usize % PAGE_SIZE;
            let want = (len - bytes.len()).min(MAX_PAYLOAD - PAGE_SIZE + to_page);
            let got = self.read_once(at, want)?;
            bytes.extend_from_slice(got);
            let got = got.len();
            if got < want {
                break;
            }
        }
        Ok(bytes)
    }

    fn read_once(&mut self, address: u64, want: usize) -> Result<&[u8], Error> {
        self.send(&Header::new(ask::READ, [address, want as u64]), &[])?;
        let (header, len) = self.answer_length()?;
        if header.kind() != tell::MEMORY || header.0[1] != address || len > want {
            return Err(self.unexpected(header.kind()));
        }
        Ok(self.link.payload(len))
    }
}
