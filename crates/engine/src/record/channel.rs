//! The engine's end of the recorder's shared memory: claiming a slot, filling chunks, the clock's page.
//!
//! Only the thread that runs the guest writes. When the recorder is gone or has given up, events are dropped
//! and the guest runs on.

use crate::context::CLOCK_PAGE;
use crate::sys::{self, Result};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use linux_raw_sys::general as c;
use retro_abi::channel::{self, Control, SlotHeader, Stream, chunk_state, slot_state};
use retro_abi::config::SharedFile;
use retro_abi::layout::{PAGE, SHADOW_DISTANCE};
use retro_abi::log::{Encoder, Event, MAX_FIXED, Relative};

/// Where the clock is counted.
const CLOCK_AT: u64 = SHADOW_DISTANCE.wrapping_add_signed(CLOCK_PAGE as i64);

/// The mapped file.
#[derive(Clone, Copy)]
pub struct Channel {
    base: u64,
    file: SharedFile,
}

impl Channel {
    /// Maps the recorder's file.
    pub fn open(file: SharedFile) -> Result<Channel> {
        let fd = open_file(file)?;
        let base = sys::map_shared(channel::FILE_SIZE as u64, fd);
        sys::close(fd);
        let channel = Channel { base: base?, file };
        let control = channel.control();
        if control.magic != channel::MAGIC || control.version != channel::VERSION {
            return Err(sys::Errno::EINVAL);
        }
        sys::advise(channel.base, channel::FILE_SIZE as u64, c::MADV_DONTDUMP);
        Ok(channel)
    }

    /// The recorder's file.
    pub fn file(&self) -> SharedFile {
        self.file
    }

    /// The control page.
    pub fn control(&self) -> &'static Control {
        // SAFETY: mapped for good; all shared fields are atomics.
        unsafe { &*(self.base as *const Control) }
    }

    fn header(&self, slot: usize) -> &'static SlotHeader {
        // SAFETY: as above; every slot lies inside the file.
        unsafe { &*((self.base + channel::slot_offset(slot) as u64) as *const SlotHeader) }
    }

    /// Claims a free slot for this process, or none if all are taken.
    pub fn claim(&self) -> Option<usize> {
        self.claim_for(visible_pid())
    }

    /// Claims one for a child that is about to be made. The recorder must not take it for this process's: that may
    /// be gone before the child has said who it is.
    pub fn claim_for_child(&self) -> Option<usize> {
        self.claim_for(0)
    }

    /// Says whose a slot is that was claimed for a child, unless it has said so itself: it may be killed before.
    pub fn name_child(&self, slot: usize, pid: i32) {
        let owner = &self.header(slot).pid;
        let _ = owner.compare_exchange(0, pid, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Counts a process that is not recorded.
    pub fn count_unrecorded(&self, why: channel::Unrecorded) {
        self.control().unrecorded[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn claim_for(&self, owner: i32) -> Option<usize> {
        let claimed = self.control().claims.claim();
        if let Some(slot) = claimed {
            let header = self.header(slot);
            header.pid.store(owner, Ordering::Relaxed);
            header.state.store(slot_state::CLAIMED, Ordering::Release);
        }
        claimed
    }

    /// Marks another slot as ended: the program that wrote it has been replaced. `how` is one of
    /// [`ended`](channel::ended).
    pub fn end(&self, slot: usize, how: u32) {
        if slot < channel::SLOTS {
            let header = self.header(slot);
            header.ended.store(how, Ordering::Relaxed);
            header.state.store(slot_state::ENDED, Ordering::Release);
            self.ring();
        }
    }

    /// Tells the recorder that there is something to do.
    pub fn ring(&self) {
        let control = self.control();
        control.doorbell.fetch_add(1, Ordering::SeqCst);
        if control.sleeping.load(Ordering::SeqCst) != 0 {
            shared_futex(&control.doorbell, c::FUTEX_WAKE, 1, 0);
        }
    }

    /// Gives a claimed slot back that was not used.
    pub fn unclaim(&self, slot: usize) {
        self.header(slot).state.store(slot_state::FREE, Ordering::Release);
        self.control().claims.give_back(slot);
    }

    /// Whether a program executed now could open the file again.
    pub fn is_reachable(&self) -> bool {
        open_file(self.file).map(sys::close).is_ok()
    }

    /// Whether the recorder has died. A zombie still has its process id, but no open files.
    fn recorder_is_gone(&self) -> bool {
        let mut buffer = [0u8; 16];
        matches!(sys::read_link(&path_of(self.file), &mut buffer), Err(sys::Errno::ENOENT))
    }
}

/// Where another process's open file is, ending in NUL.
fn path_of(file: SharedFile) -> Vec<u8> {
    alloc::format!("/proc/{}/fd/{}\0", file.pid, file.fd).into_bytes()
}

fn open_file(file: SharedFile) -> Result<i32> {
    sys::open(&path_of(file), c::O_RDWR | c::O_CLOEXEC, 0)
}

/// The process id as others see it: the one of the namespace that /proc shows.
pub fn visible_pid() -> i32 {
    let mut buffer = [0u8; 16];
    let number = sys::read_link(b"/proc/self\0", &mut buffer)
        .ok()
        .and_then(|text| core::str::from_utf8(text).ok()?.parse().ok());
    number.unwrap_or_else(sys::getpid)
}

fn shared_futex(word: &AtomicU32, operation: u32, value: u32, timeout: u64) {
    let args = [word.as_ptr() as u64, operation as u64, value as u64, timeout, 0, 0];
    // SAFETY: the kernel reads the word and the timeout.
    unsafe { sys::syscall(c::__NR_futex, args) };
}

struct StreamWriter {
    stream: Stream,
    chunk: usize,
    at: usize,
    relative: Relative,
}

/// The writer of one log.
pub struct Writer {
    channel: Channel,
    slot: usize,
    header: &'static SlotHeader,
    streams: [StreamWriter; 2],
    /// Number of the interval that chunks belong to.
    pub interval: u64,
    dropping: bool,
    /// Bytes written so far.
    pub bytes: u64,
}

impl Writer {
    /// A writer for a claimed slot. Its clock appears where emitted code counts.
    pub fn new(channel: Channel, slot: usize) -> Result<Writer> {
        let header = channel.header(slot);
        header.clock.store(0, Ordering::Relaxed);
        header.kickable.store(0, Ordering::Relaxed);
        header.deadline.store(0, Ordering::Relaxed);
        let page = core::ptr::from_ref(header) as u64;
        let flags = (c::MREMAP_MAYMOVE | c::MREMAP_FIXED) as u64;
        // With an old size of zero a shared mapping is doubled, not moved.
        let args = [page, 0, PAGE, flags, CLOCK_AT, 0];
        // SAFETY: the page in front of the branch table is the clock's.
        sys::check(unsafe { sys::syscall(c::__NR_mremap, args) })?;
        let stream = |stream| StreamWriter { stream, chunk: 0, at: 0, relative: Relative::at(0) };
        let mut writer = Writer {
            channel,
            slot,
            header,
            streams: [stream(Stream::Main), stream(Stream::Code)],
            interval: 0,
            dropping: false,
            bytes: 0,
        };
        for index in 0..2 {
            writer.open_chunk(index, 0);
        }
        Ok(writer)
    }

    /// The slot's header.
    pub fn header(&self) -> &'static SlotHeader {
        self.header
    }

    /// The slot.
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// The channel.
    pub fn channel(&self) -> Channel {
        self.channel
    }

    /// Appends an event.
    pub fn event(&mut self, stream: Stream, time: u64, event: &Event, payload: usize) {
        let room = MAX_FIXED + payload;
        let index = stream as usize;
        if self.streams[index].at + room > stream.chunk_size() {
            self.publish(index, time);
        }
        let writer = &mut self.streams[index];
        let place = self.header as *const SlotHeader as u64
            + stream.chunk_offset(writer.chunk) as u64
            + writer.at as u64;
        // SAFETY: inside the slot's chunk, which is this writer's while it fills it.
        let out = unsafe { core::slice::from_raw_parts_mut(place as *mut u8, room) };
        let len = Encoder::new(out).event(time, event, &mut writer.relative);
        writer.at += len;
        self.bytes += len as u64;
        // Counted first: whatever kills the process, the counts cover what is committed.
        let kind = event.kind() as usize;
        bump(&self.header.counts.events[kind], 1);
        bump(&self.header.counts.bytes[kind], len as u64);
        let chunk = &self.header.chunks(stream)[writer.chunk];
        chunk.committed.store(writer.at as u32, Ordering::Release);
    }

    /// Hands the current chunk over and takes the next.
    fn publish(&mut self, index: usize, time: u64) {
        let writer = &mut self.streams[index];
        let chunks = self.header.chunks(writer.stream);
        if !self.dropping {
            chunks[writer.chunk].state.store(chunk_state::FULL, Ordering::Release);
            self.channel.ring();
        }
        writer.chunk = (writer.chunk + 1) % chunks.len();
        self.open_chunk(index, time);
    }

    /// Starts new chunks, so that an interval begins one.
    pub fn cut(&mut self, time: u64) {
        if self.streams[0].at > 0 {
            self.publish(0, time);
        }
    }

    fn open_chunk(&mut self, index: usize, time: u64) {
        let writer = &mut self.streams[index];
        let chunk = &self.header.chunks(writer.stream)[writer.chunk];
        while !self.dropping {
            let state = chunk.state.load(Ordering::Acquire);
            if state == chunk_state::FREE {
                break;
            }
            // The recorder has given up, or given this slot to somebody else.
            let live = self.header.state.load(Ordering::Relaxed);
            if self.channel.control().closed.load(Ordering::Relaxed) != 0
                || !matches!(live, slot_state::LIVE | slot_state::CLAIMED)
            {
                self.dropping = true;
                break;
            }
            self.channel.ring();
            let timeout = [0u64, 100_000_000];
            shared_futex(&chunk.state, c::FUTEX_WAIT, state, timeout.as_ptr() as u64);
            if chunk.state.load(Ordering::Acquire) == state && self.channel.recorder_is_gone() {
                self.dropping = true;
            }
        }
        writer.at = 0;
        writer.relative = Relative::at(time);
        chunk.committed.store(0, Ordering::Relaxed);
        chunk.base_time.store(time, Ordering::Relaxed);
        chunk.interval.store(self.interval, Ordering::Relaxed);
        if !self.dropping {
            chunk.state.store(chunk_state::FILLING, Ordering::Release);
        }
    }

    /// The log is complete.
    pub fn end(&mut self) {
        self.header.state.store(slot_state::ENDED, Ordering::Release);
        self.channel.ring();
    }
}

/// Adds to a counter that only this process writes.
pub fn bump(counter: &core::sync::atomic::AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

/// Adds one to a counter that only this process writes.
pub fn bump32(counter: &AtomicU32) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}
