//! The engine's side of the shared memory, as `retro_abi::channel` describes it, in its simplest form.

use std::fs::{File, OpenOptions};
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use retro_abi::channel::{
    Control, Origin, SLOT_SIZE, SLOTS_START, SlotHeader, Stream, Unrecorded, chunk_state,
    slot_offset, slot_state,
};
use retro_abi::log::{Encoder, Event, MAX_BYTES, MAX_FIXED, Relative};

/// The recorder's file, mapped.
pub struct Channel {
    file: File,
    control: MmapRaw,
    recorder: String,
}

impl Channel {
    /// Opens `PID/FD`.
    pub fn open(place: &str) -> Channel {
        let (pid, fd) = place.split_once('/').expect("PID/FD");
        let recorder = format!("/proc/{pid}/fd/{fd}");
        let file = OpenOptions::new().read(true).write(true).open(&recorder).unwrap();
        let control = MmapOptions::new().len(SLOTS_START).map_raw(&file).unwrap();
        Channel { file, control, recorder }
    }

    /// The first page.
    pub fn control(&self) -> &Control {
        // SAFETY: a page that lives as long as `self`, in a file that cannot shrink; the fields are atomics.
        unsafe { &*self.control.as_ptr().cast::<Control>() }
    }

    /// Rings the doorbell.
    pub fn ring(&self) {
        let control = self.control();
        control.doorbell.fetch_add(1, Ordering::SeqCst);
        if control.sleeping.load(Ordering::SeqCst) != 0 {
            futex(&control.doorbell, libc::FUTEX_WAKE, i32::MAX as u32);
        }
    }

    /// Claims a slot. None if all are taken, or the recorder has given up.
    pub fn claim(&self) -> Option<Memory> {
        let control = self.control();
        if control.closed.load(Ordering::SeqCst) != 0 {
            return None;
        }
        if let Some(index) = control.claims.claim() {
            let memory = self.map(index);
            memory.header().pid.store(std::process::id() as i32, Ordering::Relaxed);
            memory.header().state.store(slot_state::CLAIMED, Ordering::SeqCst);
            return Some(memory);
        }
        control.unrecorded[Unrecorded::TooMany as usize].fetch_add(1, Ordering::Relaxed);
        None
    }

    fn map(&self, index: usize) -> Memory {
        let options = MmapOptions::new().offset(slot_offset(index) as u64).len(SLOT_SIZE).clone();
        Memory { map: options.map_raw(&self.file).unwrap() }
    }

    /// Claims a slot and begins a log in it.
    pub fn begin(&self, origin: Origin) -> Option<Log<'_>> {
        Some(self.begin_in(self.claim()?, origin))
    }

    /// Begins a log in a slot that was claimed.
    pub fn begin_in(&self, memory: Memory, origin: Origin) -> Log<'_> {
        let log = self.control().next_log.fetch_add(1, Ordering::SeqCst);
        self.begin_as(memory, origin, log)
    }

    /// Begins a log with a number that was given out before.
    pub fn begin_as(&self, memory: Memory, origin: Origin, log: u64) -> Log<'_> {
        self.begin_of(std::process::id() as i32, memory, origin, log)
    }

    /// Begins the log of another process.
    pub fn begin_of(&self, pid: i32, memory: Memory, origin: Origin, log: u64) -> Log<'_> {
        let header = memory.header();
        header.pid.store(pid, Ordering::Relaxed);
        header.log.store(log, Ordering::Relaxed);
        header.origin.store(origin as u32, Ordering::Relaxed);
        header.state.store(slot_state::LIVE, Ordering::Release);
        self.ring();
        let open = [None, None];
        let scratch = vec![0; MAX_BYTES + MAX_FIXED];
        Log { channel: self, memory, open, next: [0, 0], scratch }
    }

    fn has_recorder(&self) -> bool {
        std::fs::symlink_metadata(&self.recorder).is_ok()
    }
}

/// A mapped slot.
pub struct Memory {
    map: MmapRaw,
}

impl Memory {
    /// Its header.
    pub fn header(&self) -> &SlotHeader {
        // SAFETY: as for the control page.
        unsafe { &*self.map.as_ptr().cast::<SlotHeader>() }
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= SLOT_SIZE);
        // SAFETY: within the mapping; the recorder reads these bytes only after they are committed.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.map.as_mut_ptr().add(offset),
                bytes.len(),
            );
        }
    }

    /// Overwrites the header with what a broken guest might leave there.
    pub fn scribble(&self, mut seed: u64) {
        let mut bytes = vec![0; retro_abi::channel::HEADER_SIZE];
        for byte in &mut bytes {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            *byte = (seed >> 56) as u8;
        }
        self.write(0, &bytes);
    }
}

/// A log that is being written. Its time is the number of events in the main stream.
pub struct Log<'a> {
    channel: &'a Channel,
    memory: Memory,
    /// The chunk that is being filled, and what its next event is relative to.
    open: [Option<Relative>; 2],
    next: [usize; 2],
    scratch: Vec<u8>,
}

/// The recorder is gone or has given up.
#[derive(Debug)]
pub struct Stopped;

impl Log<'_> {
    /// The slot.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    fn time(&self) -> u64 {
        self.memory.header().clock.load(Ordering::Relaxed)
    }

    /// Appends an event and commits it.
    pub fn event(&mut self, stream: Stream, event: &Event) -> Result<(), Stopped> {
        let (at, time) = (stream as usize, self.time());
        loop {
            let index = self.next[at];
            let relative = match &mut self.open[at] {
                Some(relative) => relative,
                closed => {
                    wait_for_room(self.channel, &self.memory, stream, index)?;
                    let chunk = &self.memory.header().chunks(stream)[index];
                    chunk.base_time.store(time, Ordering::Relaxed);
                    chunk.state.store(chunk_state::FILLING, Ordering::Release);
                    closed.insert(Relative::at(time))
                }
            };
            let chunk = &self.memory.header().chunks(stream)[index];
            let committed = chunk.committed.load(Ordering::Relaxed) as usize;
            let before = *relative;
            let length = Encoder::new(&mut self.scratch).event(time, event, relative);
            if committed + length <= stream.chunk_size() {
                self.memory.write(stream.chunk_offset(index) + committed, &self.scratch[..length]);
                chunk.committed.store((committed + length) as u32, Ordering::Release);
                let counts = &self.memory.header().counts;
                counts.events[event.kind() as usize].fetch_add(1, Ordering::Relaxed);
                if stream == Stream::Main {
                    self.memory.header().clock.store(time + 1, Ordering::Relaxed);
                }
                return Ok(());
            }
            *relative = before;
            self.publish(stream);
        }
    }

    /// Hands the chunk over that is being filled.
    pub fn publish(&mut self, stream: Stream) {
        let (at, index) = (stream as usize, self.next[stream as usize]);
        self.open[at] = None;
        self.next[at] = (index + 1) % stream.chunks();
        let chunk = &self.memory.header().chunks(stream)[index];
        chunk.state.store(chunk_state::FULL, Ordering::Release);
        self.channel.ring();
    }

    /// Ends the log.
    pub fn end(self, how: u32, code: u32) {
        let header = self.memory.header();
        header.ended.store(how, Ordering::Relaxed);
        header.end_code.store(code, Ordering::Relaxed);
        header.state.store(slot_state::ENDED, Ordering::Release);
        self.channel.ring();
    }
}

fn wait_for_room(
    channel: &Channel,
    memory: &Memory,
    stream: Stream,
    index: usize,
) -> Result<(), Stopped> {
    let state = &memory.header().chunks(stream)[index].state;
    loop {
        if channel.control().closed.load(Ordering::SeqCst) != 0 || !channel.has_recorder() {
            return Err(Stopped);
        }
        match state.load(Ordering::Acquire) {
            chunk_state::FREE => return Ok(()),
            busy => futex(state, libc::FUTEX_WAIT, busy),
        }
    }
}

fn futex(word: &AtomicU32, operation: i32, value: u32) {
    let timeout = libc::timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    // SAFETY: the word and the time are valid for the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, &timeout) };
}
