//! One recorded process: its slot, how far its log has been taken, and how it ends.
//!
//! Strategy: chunks are taken in order, each stream round robin. Before a chunk of the main stream is taken,
//! what the code stream holds by then is taken too, even of a chunk that is still being filled: so whatever
//! kills the recorder, a main chunk on disk never refers to code that is not. For the same reason nothing of a forked
//! process is taken before the code that it has inherited, which is in its parent's log.
//!
//! Invariants:
//! 1. Nothing in the slot is trusted: numbers are bounded before they are used, and the number of the log,
//!    the process id and the origin are read once.
//! 2. A byte of the log is taken once, and taken bytes are whole events.
//! 3. While the process lives, the chunk with its newest event is not taken: if it is killed, that event may be ahead
//!    of its clock, and then says how far it came.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use retro_abi::channel::{Chunk, Origin, REAPED, Stream, chunk_state, ended, slot_state};
use retro_abi::log::Decoder;
use retro_recording::{ChunkHead, Counts, ProcessEnd, ProcessSummary};

use crate::Ending;
use crate::channel::{Channel, Slot, free_chunk, wake_chunk};
use crate::pipeline::Pipeline;
use crate::watch::{Watch, Watcher, has_file};

/// How long a claimed slot may belong to a dead process: a child takes over what its parent claimed.
const PATIENCE_WITH_DEAD_CLAIMS: Duration = Duration::from_secs(1);

/// How long a claimed slot may belong to nobody: whoever claimed it is about to say who it is.
const PATIENCE_WITH_NAMELESS_CLAIMS: Duration = Duration::from_secs(5);

/// So often a process is found without the memory for logs before it is taken for another.
const STRANGE: u32 = 4;

/// Tells the watches of one slot apart, whose first tokens are small numbers.
const ANOTHER_PROCESS: u64 = 1 << 32;

/// Where the next byte of a stream is.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    /// Index of the chunk.
    chunk: usize,
    /// Bytes of it that have been taken.
    taken: usize,
    /// Time that the next event counts from.
    base_time: u64,
    /// Sequence number of the next segment.
    sequence: u64,
}

/// Who writes the log, as read when the slot became live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Number of the log.
    pub log: u64,
    /// Number of its parent's log.
    pub parent: u64,
    /// How it began.
    pub origin: Option<Origin>,
    /// Process id.
    pub pid: i32,
}

/// What is to be done with a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing at the moment.
    Idle,
    /// Some of the log was taken; there may be more.
    Took,
    /// There is more to take than there are buffers.
    Starved,
    /// Everything is taken and the process is over.
    Over,
    /// Whoever claimed the slot gave it back.
    Returned,
}

/// A slot in use.
pub struct Recorded {
    /// Index of the slot.
    pub index: usize,
    /// Its name in the reports of the watcher.
    pub token: u64,
    slot: Slot,
    identity: Option<Identity>,
    /// Process id that is watched, 0 for none.
    watched: i32,
    watch: Watch,
    /// How often it was found without the memory for logs, one time after the other.
    strangeness: u32,
    died: Option<Instant>,
    cursors: [Cursor; Stream::ALL.len()],
    first_time: Option<u64>,
    /// Time when it was last reminded.
    reminded_at: u64,
    /// Killed children that were taken note of.
    reaped: u32,
    /// The log with the code that it has inherited, until that is taken.
    pub heir_of: Option<u64>,
    /// Bytes of log taken.
    pub taken_bytes: u64,
    /// Whether what it says is thrown away: its header makes no sense.
    pub refused: bool,
}

impl Recorded {
    /// Begins with a slot that somebody claimed.
    pub fn new(index: usize, token: u64, slot: Slot) -> Recorded {
        Recorded {
            index,
            token,
            slot,
            identity: None,
            watched: 0,
            watch: Watch::Ended,
            strangeness: 0,
            died: None,
            cursors: Default::default(),
            first_time: None,
            reminded_at: 0,
            reaped: 0,
            heir_of: None,
            taken_bytes: 0,
            refused: false,
        }
    }

    /// Who it is, once it has said so.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// The process has ended.
    pub fn has_died(&mut self) {
        self.died.get_or_insert_with(Instant::now);
    }

    /// Looks at who owns the slot. Returns the identity when it is read for the first time.
    pub fn look(&mut self, watcher: &Watcher) -> Option<Identity> {
        if self.identity.is_some() {
            return None;
        }
        let state = self.state();
        let pid = self.slot.header().pid.load(Ordering::Relaxed);
        if pid != self.watched {
            self.watched = pid;
            self.strangeness = 0;
            self.died = None;
            // The end of whoever had the slot before may have been noticed already, and waits to be reported.
            self.token += ANOTHER_PROCESS;
            self.watch = watcher.watch(pid, self.token);
        }
        self.ask();
        if matches!(state, slot_state::FREE | slot_state::CLAIMED) {
            return None;
        }
        let header = self.slot.header();
        let identity = Identity {
            log: header.log.load(Ordering::Relaxed),
            parent: header.parent.load(Ordering::Relaxed),
            origin: Origin::from_number(header.origin.load(Ordering::Relaxed).into()),
            pid,
        };
        self.heir_of = (identity.origin == Some(Origin::Fork)).then_some(identity.parent);
        self.identity = Some(identity);
        self.identity
    }

    /// Makes the engine look whether a new interval is due, if the process has done anything since it was asked last. Returns
    /// whether it has.
    pub fn remind(&mut self) -> bool {
        let header = self.slot.header();
        let time = header.time();
        if self.state() != slot_state::LIVE || self.died.is_some() || time == self.reminded_at {
            return false;
        }
        self.reminded_at = time;
        // In this order, so that an engine that forbids kicks knows when none is under way.
        header.kicking.store(1, Ordering::SeqCst);
        let thread = header.kickable.load(Ordering::SeqCst);
        if thread > 0 {
            self.watch.kick(self.watched, thread);
        }
        header.kicking.store(0, Ordering::SeqCst);
        true
    }

    /// The process counts as ended if it does not have the memory for logs, time and again: whoever wrote its number there was
    /// another. One that is just executing a program does not have it for a moment.
    pub fn check_it_is_recorded(&mut self, inode: u64) {
        if self.watched == 0 || self.died.is_some() {
            return;
        }
        match has_file(self.watched, inode) {
            Some(false) => self.strangeness += 1,
            _ => self.strangeness = 0,
        }
        if self.strangeness >= STRANGE {
            self.has_died();
        }
    }

    /// Looks whether the process has ended, where that is not reported.
    pub fn ask(&mut self) {
        if self.died.is_none() && self.watch.has_ended() {
            self.has_died();
        }
    }

    fn state(&self) -> u32 {
        self.slot.header().state.load(Ordering::Acquire)
    }

    /// Takes what there is of the log.
    pub fn step(&mut self, channel: &Channel, pipeline: &Pipeline, drop_all: bool) -> Step {
        // Whether it is over must be known before looking at the chunks: what comes after would be missed.
        let state = self.state();
        if self.identity.is_none() {
            // Nothing was logged.
            let patience = match self.watched {
                0 => PATIENCE_WITH_NAMELESS_CLAIMS,
                _ => PATIENCE_WITH_DEAD_CLAIMS,
            };
            return match state {
                slot_state::FREE => Step::Returned,
                _ if self.dead_for() > patience => Step::Over,
                _ => Step::Idle,
            };
        }
        if self.heir_of.is_some() {
            return Step::Starved;
        }
        // With any other state, scribbled or not, the writer may still wait for room.
        let over = self.died.is_some() || state == slot_state::ENDED;
        let mut taker = Taker { process: self, channel, pipeline, drop_all };
        let taken = if over { taker.rest() } else { taker.full() };
        match taken {
            Err(NoBuffer) => Step::Starved,
            Ok(_) if over => Step::Over,
            Ok(true) => Step::Took,
            Ok(false) => Step::Idle,
        }
    }

    /// Takes the code that it has logged so far. False if there was more than there are buffers.
    pub fn take_code(&mut self, channel: &Channel, pipeline: &Pipeline, drop_all: bool) -> bool {
        Taker { process: self, channel, pipeline, drop_all }.code_so_far().is_ok()
    }

    /// Wakes a writer that waits for room.
    pub fn wake(&self) {
        let header = self.slot.header();
        Stream::ALL.into_iter().flat_map(|stream| header.chunks(stream)).for_each(wake_chunk);
    }

    /// Whether it has something to say, or may have: neither dead nor done.
    pub fn is_alive(&self) -> bool {
        self.watched != 0 && self.died.is_none() && self.state() != slot_state::ENDED
    }

    /// Children that were killed by signals, as the process was told since it was asked last: their ids, and the signals.
    pub fn killed_children(&mut self) -> Vec<(i32, u32)> {
        let header = self.slot.header();
        let count = header.reaped_count.load(Ordering::Acquire);
        // Those that were overwritten are lost.
        let from = self.reaped.max(count.saturating_sub(REAPED as u32)).min(count);
        self.reaped = count;
        let entries = (from..count).map(|index| &header.reaped[index as usize % REAPED]);
        let entries = entries.map(|entry| entry.load(Ordering::Relaxed));
        entries.map(|entry| ((entry >> 32) as i32, entry as u32)).collect()
    }

    /// Whether it was about to execute another program.
    pub fn was_executing(&self) -> bool {
        self.slot.header().ended.load(Ordering::Relaxed) == ended::EXECUTING
    }

    /// How it ended as far as the kernel tells.
    pub fn ending(&self) -> Option<Ending> {
        self.watch.ending()
    }

    /// Whether the process vanished without saying how.
    pub fn ended_silently(&self) -> bool {
        self.died.is_some() && self.end() == ProcessEnd::Unknown
    }

    /// Whether the process died before its log was complete.
    fn vanished(&self) -> bool {
        self.died.is_some() && self.state() != slot_state::ENDED
    }

    /// Since when it is known to be dead.
    pub fn dead_for(&self) -> Duration {
        self.died.map_or(Duration::ZERO, |at| at.elapsed())
    }

    fn end(&self) -> ProcessEnd {
        let header = self.slot.header();
        ProcessEnd::from_numbers(
            header.ended.load(Ordering::Relaxed),
            header.end_code.load(Ordering::Relaxed),
        )
    }

    /// What is known of it now that it is over; none if it never said who it is.
    pub fn summary(&self) -> Option<ProcessSummary> {
        let identity = self.identity?;
        let header = self.slot.header();
        Some(ProcessSummary {
            log: identity.log,
            parent: (identity.origin != Some(Origin::First)).then_some(identity.parent),
            origin: identity.origin,
            pid: identity.pid.max(0) as u32,
            time: self.time(),
            end: self.end(),
            counts: Counts::from_channel(&header.counts),
        })
    }

    /// Instructions that it executed in this log.
    pub fn instructions(&self) -> u64 {
        self.time().saturating_sub(self.first_time.unwrap_or(0))
    }

    /// Time at its end. A block is counted as a whole, so the clock of a process that was killed inside of one may be
    /// behind what it had logged.
    fn time(&self) -> u64 {
        let newest_event = self.cursors[Stream::Main as usize].base_time;
        self.slot.header().time().max(newest_event)
    }

    /// Gives up the slot.
    pub fn into_slot(self) -> Slot {
        self.slot
    }
}

/// There is something to take and nothing to take it with.
struct NoBuffer;

struct Taker<'a> {
    process: &'a mut Recorded,
    channel: &'a Channel,
    pipeline: &'a Pipeline,
    drop_all: bool,
}

impl Taker<'_> {
    /// Takes full chunks; says whether there were any.
    fn full(&mut self) -> Result<bool, NoBuffer> {
        let mut took = false;
        // One round at most, so that one process cannot keep the others waiting.
        for _ in 0..Stream::Main.chunks() {
            if self.chunk_state(Stream::Main) != chunk_state::FULL || self.holds_newest_event() {
                break;
            }
            self.code_so_far()?;
            self.take_whole(Stream::Main)?;
            took = true;
        }
        for _ in 0..Stream::Code.chunks() {
            if self.chunk_state(Stream::Code) != chunk_state::FULL {
                break;
            }
            self.take_whole(Stream::Code)?;
            took = true;
        }
        Ok(took)
    }

    /// Takes everything that is committed: the process will not write any more.
    fn rest(&mut self) -> Result<bool, NoBuffer> {
        for stream in [Stream::Code, Stream::Main] {
            for _ in 0..stream.chunks() {
                if self.chunk_state(stream) == chunk_state::FREE {
                    break;
                }
                self.take_whole(stream)?;
            }
        }
        Ok(true)
    }

    /// Whether the next chunk of the main stream is its last: the engine has not begun another yet.
    fn holds_newest_event(&self) -> bool {
        let chunks = self.process.slot.header().chunks(Stream::Main);
        let next = self.process.cursors[Stream::Main as usize].chunk + 1;
        chunks[next % chunks.len()].state.load(Ordering::Acquire) == chunk_state::FREE
    }

    fn code_so_far(&mut self) -> Result<(), NoBuffer> {
        for _ in 0..Stream::Code.chunks() {
            if self.chunk_state(Stream::Code) != chunk_state::FULL {
                break;
            }
            self.take_whole(Stream::Code)?;
        }
        if self.chunk_state(Stream::Code) == chunk_state::FILLING {
            self.take_committed(Stream::Code)?;
        }
        Ok(())
    }

    fn chunk_state(&self, stream: Stream) -> u32 {
        self.chunk(stream).state.load(Ordering::Acquire)
    }

    fn chunk(&self, stream: Stream) -> &Chunk {
        let chunks = self.process.slot.header().chunks(stream);
        &chunks[self.process.cursors[stream as usize].chunk % chunks.len()]
    }

    /// Takes the rest of a chunk and gives it back to the engine.
    fn take_whole(&mut self, stream: Stream) -> Result<(), NoBuffer> {
        self.take_committed(stream)?;
        free_chunk(self.chunk(stream));
        let cursor = &mut self.process.cursors[stream as usize];
        cursor.chunk = (cursor.chunk + 1) % stream.chunks();
        cursor.taken = 0;
        Ok(())
    }

    /// Takes what is committed of a chunk and has not been taken yet.
    fn take_committed(&mut self, stream: Stream) -> Result<(), NoBuffer> {
        let chunk = self.chunk(stream);
        let committed = chunk.committed.load(Ordering::Acquire) as usize;
        let chunk_base = chunk.base_time.load(Ordering::Relaxed);
        let interval = chunk.interval.load(Ordering::Relaxed);
        let cursor = &mut self.process.cursors[stream as usize];
        if cursor.taken == 0 {
            cursor.base_time = chunk_base;
        }
        let cursor = *cursor;
        let Some(length) = committed.min(stream.chunk_size()).checked_sub(cursor.taken) else {
            return Ok(());
        };
        if length == 0 || self.drop_all || self.process.refused {
            return Ok(());
        }
        let Some(identity) = self.process.identity else { return Ok(()) };
        let mut buffer = self.pipeline.buffer().ok_or(NoBuffer)?;
        let bytes = &mut buffer[..length];
        if self.channel.copy(&self.process.slot, stream, cursor.chunk, cursor.taken, bytes).is_err()
        {
            // No memory for a read of memory; the next attempt may have more luck.
            self.pipeline.give_back(buffer);
            return Err(NoBuffer);
        }
        let Cursor { sequence, base_time, .. } = cursor;
        let head = ChunkHead { log: identity.log, stream, sequence, base_time, interval };
        let next_base = match stream {
            // Never taken in parts: the addresses of loads count from the start of a chunk.
            Stream::Main if !self.process.vanished() => base_time,
            Stream::Main | Stream::Code => end_time(bytes, base_time),
        };
        self.pipeline.chunk(head, buffer, length);
        if stream == Stream::Main {
            self.process.first_time.get_or_insert(base_time);
        }
        self.process.taken_bytes += length as u64;
        let cursor = &mut self.process.cursors[stream as usize];
        cursor.taken += length;
        cursor.sequence += 1;
        cursor.base_time = next_base;
        Ok(())
    }
}

/// Time of the last event of a chunk.
fn end_time(chunk: &[u8], base_time: u64) -> u64 {
    let mut events = Decoder::new(chunk, base_time);
    // Bytes that are no events are for the readers of the recording to complain about.
    while let Some(Ok(_)) = events.next() {}
    events.time()
}
