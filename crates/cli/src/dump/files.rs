//! Names of mapped files. They are in the other stream of a log, which is read only as far as it takes.

use std::collections::HashMap;

use retro_abi::channel::Stream;
use retro_abi::log::Event;
use retro_recording::{Recording, SegmentRef};

/// Bytes of names that are remembered; more would only be in a log that was made to use up memory.
const NAMES_LIMIT: usize = 16 << 20;

/// The names of the files of one log.
pub struct FileNames<'a> {
    recording: &'a Recording,
    unread: std::slice::Iter<'a, SegmentRef>,
    names: HashMap<u64, Vec<u8>>,
    held: usize,
}

impl<'a> FileNames<'a> {
    /// For a log of the recording.
    pub fn new(recording: &'a Recording, log: u64) -> FileNames<'a> {
        let unread = recording.segments(log, Stream::Code).iter();
        FileNames { recording, unread, names: HashMap::new(), held: 0 }
    }

    /// The name of the file with this number.
    pub fn name(&mut self, number: u64) -> Option<&[u8]> {
        while !self.names.contains_key(&number) {
            let segment = self.unread.next()?;
            // Damage there is not the business of whoever looks at the other stream.
            if let Ok(chunk) = self.recording.read_chunk(segment) {
                chunk.events().flatten().for_each(|(_, event)| self.take(&event));
            }
        }
        self.names.get(&number).map(Vec::as_slice)
    }

    fn take(&mut self, event: &Event) {
        if let Event::File { number, path, .. } = *event
            && self.held < NAMES_LIMIT
        {
            // With what an entry takes beyond the name.
            self.held += path.len() + 64;
            self.names.insert(number, path.to_vec());
        }
    }
}
