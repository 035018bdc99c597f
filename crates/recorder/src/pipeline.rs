//! From chunks to the file: compression on several threads, appending on one, in order.
//!
//! Strategy: whoever feeds the pipeline puts a promise of each segment into the writer's queue, in the order
//! of the file, and hands the work to any compressor. The writer takes promise after promise and waits for
//! each to be kept. No reordering is needed, and a slow chunk only delays what follows it.
//!
//! Backpressure: a chunk travels in one of a fixed number of buffers, which comes back when its segment is
//! written. Without a buffer the feeder leaves chunks where they are.
//!
//! Invariants:
//! 1. After the first failure nothing but notes (summaries, the end) is written any more: a log never has a gap.
//! 2. The pipeline never waits for its feeder, and the feeder never waits for the pipeline until it ends.

use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use nix::fcntl::{FallocateFlags, fallocate};
use retro_abi::channel::Stream;
use retro_recording::{
    ChunkHead, Directory, EncodedSegment, Error, RunEnd, Writer, encode_chunk, encode_end,
};

/// Room that is kept on the disk for summaries and the end, in case it fills up.
const RESERVE: i64 = 64 << 10;

/// Buffers for each compressor: one that it works on, and some that wait before and behind it.
const BUFFERS_PER_COMPRESSOR: usize = 4;

/// Memory for a chunk of any stream.
pub type Buffer = Box<[u8]>;

struct Work {
    head: ChunkHead,
    buffer: Buffer,
    length: usize,
    promise: SyncSender<Compressed>,
}

struct Compressed {
    segment: Result<EncodedSegment, Error>,
    buffer: Buffer,
}

enum Promise {
    Chunk(Receiver<Compressed>),
    Note(Box<EncodedSegment>),
    End(RunEnd),
}

/// The pipeline, seen from its feeder.
pub struct Pipeline {
    work: Sender<Work>,
    promises: Sender<Promise>,
    buffers: Receiver<Buffer>,
    returns: Sender<Buffer>,
    failure: Arc<OnceLock<String>>,
    writer: JoinHandle<u64>,
}

impl Pipeline {
    /// Starts the threads. `progress` is called from them whenever a buffer came back or something failed.
    pub fn start(
        writer: Writer,
        directory: &Directory,
        level: i32,
        progress: impl Fn() + Send + 'static,
    ) -> io::Result<Pipeline> {
        let (work, work_queue) = channel();
        let (promises, promise_queue) = channel();
        let (returns, buffers) = channel();
        let compressors = thread::available_parallelism().map_or(1, |n| n.get() - 1).max(1);
        for _ in 0..compressors * BUFFERS_PER_COMPRESSOR {
            let _ = returns.send(new_buffer());
        }
        let work_queue = Arc::new(Mutex::new(work_queue));
        for _ in 0..compressors {
            let queue = work_queue.clone();
            thread::Builder::new()
                .name("compressor".into())
                .spawn(move || compress_all(&queue, level))?;
        }
        let failure = Arc::new(OnceLock::new());
        let appender =
            Appender { writer, reserve: reserve(directory).ok(), failure: failure.clone() };
        let written = returns.clone();
        let writer = thread::Builder::new()
            .name("writer".into())
            .spawn(move || appender.run(promise_queue, written, progress))?;
        Ok(Pipeline { work, promises, buffers, returns, failure, writer })
    }

    /// Memory for a chunk, if there is any left.
    pub fn buffer(&self) -> Option<Buffer> {
        self.buffers.try_recv().ok()
    }

    /// Returns a buffer that was not needed after all.
    pub fn give_back(&self, buffer: Buffer) {
        let _ = self.returns.send(buffer);
    }

    /// Queues a chunk: the first `length` bytes of a buffer.
    pub fn chunk(&self, head: ChunkHead, buffer: Buffer, length: usize) {
        let (promise, kept) = sync_channel(1);
        // The threads run until this end of the queues is gone.
        let _ = self.promises.send(Promise::Chunk(kept));
        let _ = self.work.send(Work { head, buffer, length, promise });
    }

    /// Queues a segment that is not a chunk.
    pub fn note(&self, segment: EncodedSegment) {
        let _ = self.promises.send(Promise::Note(Box::new(segment)));
    }

    /// Why nothing more is written, if so.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Waits until everything is written, and the end behind it. Returns the length of the file and why it
    /// is not complete, if so.
    pub fn finish(self, end: RunEnd) -> (u64, Option<String>) {
        let _ = self.promises.send(Promise::End(end));
        drop((self.work, self.promises));
        let length = self.writer.join().unwrap_or(0);
        (length, self.failure.get().cloned())
    }
}

fn new_buffer() -> Buffer {
    let largest = Stream::ALL.into_iter().map(Stream::chunk_size).max().unwrap_or(0);
    vec![0; largest].into_boxed_slice()
}

fn compress_all(queue: &Mutex<Receiver<Work>>, level: i32) {
    loop {
        // The lock is held while waiting: the other compressors wait for it instead of for the queue.
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Work { head, buffer, length, promise }) = next else { return };
        let segment = encode_chunk(head, &buffer[..length.min(buffer.len())], level);
        let _ = promise.send(Compressed { segment, buffer });
    }
}

/// Keeps room on the disk in a file that has no name, so that nothing of it outlives this process.
fn reserve(directory: &Directory) -> io::Result<File> {
    let file = directory.unnamed_file()?;
    fallocate(&file, FallocateFlags::empty(), 0, RESERVE)?;
    Ok(file)
}

/// The thread that owns the file.
struct Appender {
    writer: Writer,
    reserve: Option<File>,
    failure: Arc<OnceLock<String>>,
}

impl Appender {
    fn run(
        mut self,
        promises: Receiver<Promise>,
        returns: Sender<Buffer>,
        progress: impl Fn(),
    ) -> u64 {
        for promise in promises {
            match promise {
                Promise::Note(segment) => self.note(&segment),
                Promise::End(end) => self.end(end),
                Promise::Chunk(kept) => match kept.recv() {
                    Ok(Compressed { segment, buffer }) => {
                        self.chunk(segment);
                        let _ = returns.send(buffer);
                    }
                    Err(_) => self.fail("a thread of the recorder ended unexpectedly"),
                },
            }
            progress();
        }
        self.writer.length()
    }

    fn chunk(&mut self, segment: Result<EncodedSegment, Error>) {
        if self.failure.get().is_none()
            && let Err(error) = segment.and_then(|segment| self.writer.append(&segment))
        {
            self.fail(&error.to_string());
        }
    }

    fn note(&mut self, segment: &EncodedSegment) {
        if let Err(error) = self.writer.append(segment) {
            self.fail(&error.to_string());
            // There is room now, unless somebody else took it.
            let _ = self.writer.append(segment);
        }
    }

    /// Only here is it known whether everything before was written.
    fn end(&mut self, mut end: RunEnd) {
        end.stopped = self.failure.get().cloned();
        if let Err(error) = self.writer.append(&encode_end(&end)) {
            self.fail(&error.to_string());
            end.stopped = self.failure.get().cloned();
            let _ = self.writer.append(&encode_end(&end));
        }
    }

    /// Remembers the first failure, and gives back the room that was kept for what is left to say.
    fn fail(&mut self, reason: &str) {
        let _ = self.failure.set(reason.to_owned());
        self.reserve = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use retro_recording::Head;

    #[test]
    fn chunks_stay_in_order_and_buffers_come_back() {
        let path = std::env::temp_dir().join(format!("retro-pipeline-{}", std::process::id()));
        let directory = Directory::create(&path).unwrap();
        let writer = Writer::create_in(&directory, &Head::default()).unwrap();
        let before = writer.length();
        let pipeline = Pipeline::start(writer, &directory, 1, || {}).unwrap();
        for sequence in 0..200 {
            let mut buffer = loop {
                match pipeline.buffer() {
                    Some(buffer) => break buffer,
                    None => thread::yield_now(),
                }
            };
            // Long and short ones, so that compressors overtake each other.
            let length = if sequence % 2 == 0 { buffer.len() } else { 10 };
            buffer[..length].fill(sequence as u8);
            let head =
                ChunkHead { log: 0, stream: Stream::Main, sequence, base_time: 0, interval: 0 };
            pipeline.chunk(head, buffer, length);
        }
        // The writer refuses chunks out of order.
        let (length, failure) = pipeline.finish(RunEnd::default());
        assert_eq!(failure, None);
        assert!(length > before + 200);
        std::fs::remove_dir_all(path).unwrap();
    }
}
