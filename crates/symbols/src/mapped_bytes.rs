//! What mapped files hold: memory that shows a file has its bytes until somebody writes to it.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::modules::Mapped;
use crate::symbols::{Symbols, in_bounds};
use crate::{files, lock};

impl Symbols {
    /// Fills the buffer with what the file holds that is mapped at an address, if it is still the file that the run mapped.
    /// Says how many bytes there are; none behind the end of the mapping or of the file.
    pub fn mapped_bytes(&self, log: u64, time: u64, address: u64, buffer: &mut [u8]) -> usize {
        let time = in_bounds(time);
        let opened = self.open(log);
        let mapped = {
            let mut opened = lock(&opened);
            opened.read_to(time);
            opened.find(time, address)
        };
        let Mapped::File(piece) = mapped else { return 0 };
        let known = lock(&self.bytes).get(&piece.file).cloned();
        let file = known.unwrap_or_else(|| {
            let found = files::find(self.recording(), &piece.file).ok();
            let file = found.map(|(file, _)| Arc::new(file));
            lock(&self.bytes).insert(Arc::clone(&piece.file), file.clone());
            file
        });
        let Some(file) = file else { return 0 };
        let offset = address.wrapping_sub(piece.map_start).wrapping_add(piece.map_offset);
        let len = buffer.len().min(usize::try_from(piece.end - address).unwrap_or(usize::MAX));
        let mut done = 0;
        while done < len {
            match file.read_at(&mut buffer[done..len], offset + done as u64) {
                Ok(0) | Err(_) => break,
                Ok(read) => done += read,
            }
        }
        done
    }
}
