//! Which descriptors of a process are the standard output and error that the run began with.

use std::collections::BTreeMap;

/// Duplicates of a stream that are followed; more would only be in a log that was made to use up memory.
const ENTRIES_LIMIT: usize = 1 << 16;

/// One of the two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    stream: Stream,
    close_on_exec: bool,
}

/// The descriptors of a process that are one of the streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptors(BTreeMap<i32, Entry>);

impl Descriptors {
    /// As a program begins.
    pub fn standard() -> Descriptors {
        let entry = |stream| Entry { stream, close_on_exec: false };
        Descriptors([(1, entry(Stream::Out)), (2, entry(Stream::Err))].into())
    }

    /// The stream behind a descriptor.
    pub fn stream(&self, fd: i32) -> Option<Stream> {
        self.0.get(&fd).map(|entry| entry.stream)
    }

    /// `new` refers to what `old` refers to.
    pub fn duplicate(&mut self, old: i32, new: i32, close_on_exec: bool) {
        match self.stream(old) {
            Some(stream) => self.open(new, stream, close_on_exec),
            None => self.close(new),
        }
    }

    /// A descriptor refers to a stream.
    pub fn open(&mut self, fd: i32, stream: Stream, close_on_exec: bool) {
        if self.0.len() < ENTRIES_LIMIT || self.0.contains_key(&fd) {
            self.0.insert(fd, Entry { stream, close_on_exec });
        }
    }

    /// A descriptor is closed, or refers to something else.
    pub fn close(&mut self, fd: i32) {
        self.0.remove(&fd);
    }

    /// Descriptors with numbers from `first` to `last` are closed.
    pub fn close_range(&mut self, first: u32, last: u32) {
        self.0.retain(|&fd, _| !(first..=last).contains(&fd.cast_unsigned()));
    }

    /// Descriptors with numbers from `first` to `last` will be closed, or not, when a program is executed.
    pub fn set_close_on_exec(&mut self, first: u32, last: u32, close_on_exec: bool) {
        for (fd, entry) in &mut self.0 {
            if (first..=last).contains(&fd.cast_unsigned()) {
                entry.close_on_exec = close_on_exec;
            }
        }
    }

    /// What a program has that is executed now.
    pub fn after_exec(&self) -> Descriptors {
        let kept = self.0.iter().filter(|(_, entry)| !entry.close_on_exec);
        Descriptors(kept.map(|(&fd, &entry)| (fd, entry)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_refer_to_the_same_stream() {
        let mut descriptors = Descriptors::standard();
        descriptors.duplicate(2, 10, true);
        descriptors.duplicate(10, 1, false);
        assert_eq!(descriptors.stream(1), Some(Stream::Err));
        // A pipe takes its place.
        descriptors.duplicate(5, 2, false);
        assert_eq!(descriptors.stream(2), None);
        assert_eq!(descriptors.stream(10), Some(Stream::Err));
        let executed = descriptors.after_exec();
        assert_eq!((executed.stream(1), executed.stream(10)), (Some(Stream::Err), None));
    }

    #[test]
    fn ranges_are_closed_or_marked() {
        let mut descriptors = Descriptors::standard();
        descriptors.duplicate(1, 7, false);
        descriptors.set_close_on_exec(3, u32::MAX, true);
        assert_eq!(descriptors.after_exec(), Descriptors::standard());
        descriptors.set_close_on_exec(7, 7, false);
        descriptors.close_range(0, 2);
        assert_eq!((descriptors.stream(1), descriptors.stream(2)), (None, None));
        assert_eq!(descriptors.after_exec().stream(7), Some(Stream::Out));
    }
}
