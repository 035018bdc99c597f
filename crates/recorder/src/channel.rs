//! The recorder's side of the memory that it shares with engines (`retro_abi::channel`).
//!
//! Problem: other processes write this memory at any time, and a guest may have scribbled over it.
//!
//! Strategy: only headers are mapped, and only their atomics are looked at; the bytes of chunks are read
//! through the descriptor, so that nobody can change them under a reference. Reading through the
//! descriptor also takes no memory for parts of the file that nobody has touched.
//!
//! Invariants:
//! 1. The file cannot shrink, so no access to a mapping can fail.
//! 2. A slot becomes free by one bit, after everything of it is zero.
//!
//! All `unsafe` that concerns shared memory is in this file.

use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use memmap2::{MmapOptions, MmapRaw};
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use retro_abi::channel::{
    Chunk, Control, FILE_SIZE, HEADER_SIZE, MAGIC, SLOT_SIZE, SLOTS, SLOTS_START, SlotHeader,
    Stream, VERSION, chunk_state, slot_offset, slot_state,
};

/// Size of a page.
const PAGE: usize = 4096;

/// Offset of the page that holds a slot's state, from the start of the slot.
const STATE_OFFSET: usize = offset_of!(SlotHeader, state);

const _: () = assert!(
    STATE_OFFSET == PAGE && size_of::<SlotHeader>() <= 2 * PAGE,
    "releasing a slot takes the second page of its header for the last"
);

/// What engines are told through the first page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Instructions per interval; 0 lets the engine decide.
    pub interval: u64,
    /// Seed of the chaos scheduler, if it is wanted.
    pub chaos: Option<u64>,
    /// Whether children are recorded too.
    pub follow: bool,
}

/// The whole file.
#[derive(Debug)]
pub struct Channel {
    file: File,
    control: MmapRaw,
}

impl Channel {
    /// Makes the file, with this process as the recorder.
    pub fn create(settings: &Settings) -> io::Result<Channel> {
        let file = File::from(memory_file()?);
        file.set_len(FILE_SIZE as u64)?;
        let seals = SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        let control = MmapOptions::new().len(SLOTS_START).map_raw(&file)?;
        let channel = Channel { file, control };
        let control = channel.control();
        control.recorder.store(std::process::id() as i32, Ordering::Relaxed);
        control.interval.store(settings.interval, Ordering::Relaxed);
        control.chaos.store(settings.chaos.unwrap_or(0), Ordering::Relaxed);
        control.chaos_on.store(settings.chaos.is_some() as u32, Ordering::Relaxed);
        control.follow.store(settings.follow as u32, Ordering::Relaxed);
        let at = |offset: usize| offset as u64;
        channel.file.write_all_at(&VERSION.to_ne_bytes(), at(offset_of!(Control, version)))?;
        channel.file.write_all_at(&MAGIC.to_ne_bytes(), at(offset_of!(Control, magic)))?;
        Ok(channel)
    }

    /// Number of the file's descriptor in this process.
    pub fn descriptor(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// Number of the file, by which it is found in the memory of others.
    pub fn inode(&self) -> Option<u64> {
        use std::os::unix::fs::MetadataExt;
        Some(self.file.metadata().ok()?.ino())
    }

    /// The first page.
    pub fn control(&self) -> &Control {
        // SAFETY: the mapping is a page long, page-aligned, readable, writable, and lives as long as `self`;
        // the file cannot shrink. Any bytes are a valid `Control`. Others may change it: the fields that
        // they may change are atomics, and the two that are not are never read here.
        unsafe { &*self.control.as_ptr().cast::<Control>() }
    }

    /// Maps the head of a slot.
    pub fn slot(&self, slot: usize) -> io::Result<Slot> {
        let offset = slot_offset(slot.min(SLOTS - 1)) as u64;
        let header = MmapOptions::new().offset(offset).len(HEADER_SIZE).map_raw(&self.file)?;
        Ok(Slot { header, offset })
    }

    /// Copies bytes of a chunk, counted from `from`, to the start of `into`, which is long enough.
    pub fn copy(
        &self,
        slot: &Slot,
        stream: Stream,
        chunk: usize,
        from: usize,
        into: &mut [u8],
    ) -> io::Result<()> {
        let from = slot.offset + (stream.chunk_offset(chunk) + from) as u64;
        self.file.read_exact_at(into, from)
    }

    /// Gives back the memory of a slot and then the slot.
    pub fn release(&self, index: usize, slot: Slot) {
        // The page of the state goes last and apart: somebody may claim the slot the moment it is free.
        // Engines set up what they claim, so it matters little if the zeroes cannot be had.
        let _ = self.punch(slot.offset, PAGE);
        let _ = self.punch(slot.offset + 2 * PAGE as u64, SLOT_SIZE - 2 * PAGE);
        let rest = [0; PAGE - size_of::<AtomicU32>()];
        let after_state = slot.offset + (STATE_OFFSET + size_of::<AtomicU32>()) as u64;
        let _ = self.file.write_all_at(&rest, after_state);
        slot.header().state.store(slot_state::FREE, Ordering::Release);
        self.control().claims.give_back(index);
    }

    fn punch(&self, offset: u64, len: usize) -> io::Result<()> {
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        Ok(fallocate(&self.file, flags, offset as i64, len as i64)?)
    }

    /// What the doorbell says now; to be read before looking for work.
    pub fn doorbell(&self) -> u32 {
        self.control().doorbell.load(Ordering::SeqCst)
    }

    /// Sleeps until somebody rings after the doorbell said `seen`, or until the time is up.
    pub fn sleep(&self, seen: u32, timeout: Duration) {
        let control = self.control();
        control.sleeping.store(1, Ordering::SeqCst);
        futex_wait(&control.doorbell, seen, timeout);
        control.sleeping.store(0, Ordering::SeqCst);
    }

    /// Wakes the thread that sleeps: there is work that it cannot see from the slots.
    pub fn ring(&self) {
        let control = self.control();
        control.doorbell.fetch_add(1, Ordering::SeqCst);
        if control.sleeping.load(Ordering::SeqCst) != 0 {
            futex_wake(&control.doorbell);
        }
    }
}

/// The mapped head of a slot.
#[derive(Debug)]
pub struct Slot {
    header: MmapRaw,
    offset: u64,
}

impl Slot {
    /// The header.
    pub fn header(&self) -> &SlotHeader {
        // SAFETY: the mapping is `HEADER_SIZE` bytes long, page-aligned, readable, writable, and lives as
        // long as `self`; the file cannot shrink. All fields are atomics (the padding is never read), so
        // any bytes are valid and others may change them.
        unsafe { &*self.header.as_ptr().cast::<SlotHeader>() }
    }
}

/// Gives a chunk back to the engine, and wakes whoever waits for it.
pub fn free_chunk(chunk: &Chunk) {
    // An engine that dies right after it has begun to fill the chunk must not leave the old count behind.
    chunk.committed.store(0, Ordering::Relaxed);
    chunk.state.store(chunk_state::FREE, Ordering::Release);
    wake_chunk(chunk);
}

/// Wakes whoever waits for a chunk.
pub fn wake_chunk(chunk: &Chunk) {
    futex_wake(&chunk.state);
}

fn memory_file() -> io::Result<OwnedFd> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    // Kernels since 6.3 may insist on being told that the file is not for execution; older ones refuse
    // the unknown flag.
    let data_only = MFdFlags::from_bits_retain(libc::MFD_NOEXEC_SEAL);
    match memfd_create(c"retro-channel", flags | data_only) {
        Err(Errno::EINVAL) => Ok(memfd_create(c"retro-channel", flags)?),
        other => Ok(other?),
    }
}

fn futex_wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let timeout =
        libc::timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos() as i64 };
    // SAFETY: the word and the time are valid for the call. Whatever it returns, the caller looks again.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, &timeout) };
}

fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word is valid for the call, which changes no memory.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel() -> Channel {
        let settings = Settings { interval: 7, chaos: Some(9), follow: true };
        Channel::create(&settings).unwrap()
    }

    fn blocks(channel: &Channel) -> u64 {
        use std::os::unix::fs::MetadataExt;
        channel.file.metadata().unwrap().blocks()
    }

    #[test]
    fn the_first_page_says_what_engines_need() {
        let channel = channel();
        let control = channel.control();
        assert_eq!((control.magic, control.version), (MAGIC, VERSION));
        assert_eq!(control.recorder.load(Ordering::Relaxed), std::process::id() as i32);
        assert_eq!(control.interval.load(Ordering::Relaxed), 7);
        assert_eq!(control.chaos.load(Ordering::Relaxed), 9);
        assert_eq!(control.chaos_on.load(Ordering::Relaxed), 1);
        assert_eq!(control.follow.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn the_file_keeps_its_size() {
        let channel = channel();
        assert!(channel.file.set_len(0).is_err());
        assert!(channel.file.set_len(2 * FILE_SIZE as u64).is_err());
    }

    #[test]
    fn a_released_slot_is_zero_and_takes_one_page() {
        let channel = channel();
        let claims = &channel.control().claims;
        assert_eq!((claims.claim(), claims.claim()), (Some(0), Some(1)));
        let before = blocks(&channel);
        let slot = channel.slot(1).unwrap();
        channel.file.write_all_at(&vec![0xff; SLOT_SIZE], slot.offset).unwrap();
        channel.release(1, slot);
        assert_eq!(claims.taken().collect::<Vec<_>>(), [0]);
        assert!(blocks(&channel) <= before + PAGE as u64 / 512);
        let mut bytes = vec![1; SLOT_SIZE];
        channel.file.read_exact_at(&mut bytes, slot_offset(1) as u64).unwrap();
        assert!(bytes.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_ring_before_the_sleep_ends_it() {
        let channel = channel();
        let seen = channel.doorbell();
        channel.ring();
        let start = std::time::Instant::now();
        channel.sleep(seen, Duration::from_secs(60));
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}
