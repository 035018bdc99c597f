//! Memory for system calls to write to, and the checks on it.

use libc::{SYS_clone, SYS_clone3};
use retro_engine::record::effects::{Memory, written};
use std::ffi::CString;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Memory for arguments and outputs.
pub struct Arena {
    bytes: Vec<u8>,
    taken: usize,
}

/// What a call came to.
pub struct Answer {
    /// The raw result.
    pub result: i64,
    /// Whether its effects are known completely.
    pub known: bool,
    /// The ranges it wrote.
    pub ranges: Vec<(u64, u64)>,
}

struct Snapshot<'a> {
    base: u64,
    bytes: &'a [u8],
}

impl Memory for Snapshot<'_> {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let found = address
            .checked_sub(self.base)
            .and_then(|start| self.bytes.get(start as usize..)?.get(..bytes.len()));
        found.is_some_and(|found| {
            bytes.copy_from_slice(found);
            true
        })
    }
}

impl Arena {
    const SIZE: usize = 256 << 10;
    /// Untouched bytes between any two pieces, which must stay as they are.
    const GAP: usize = 256;

    pub fn new(pattern: u8) -> Arena {
        Arena { bytes: vec![pattern; Arena::SIZE], taken: Arena::GAP }
    }

    pub fn base(&mut self) -> u64 {
        self.bytes.as_mut_ptr().expose_provenance() as u64
    }

    /// Address of a fresh piece that holds the pattern.
    pub fn take(&mut self, len: usize) -> u64 {
        let start = (self.base() as usize + self.taken).next_multiple_of(64) - self.base() as usize;
        self.taken = start + len + Arena::GAP;
        assert!(self.taken <= Arena::SIZE, "the arena is too small for this test");
        self.base() + start as u64
    }

    /// The number of 32 bits at an address.
    pub fn number_at(&mut self, address: u64) -> u64 {
        let at = (address - self.base()) as usize;
        u64::from(u32::from_le_bytes(self.bytes[at..at + 4].try_into().unwrap()))
    }

    pub fn set(&mut self, address: u64, bytes: &[u8]) {
        let start = (address - self.base()) as usize;
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// Address of a fresh piece with this contents.
    pub fn put(&mut self, bytes: &[u8]) -> u64 {
        let address = self.take(bytes.len());
        self.set(address, bytes);
        address
    }

    pub fn put_words(&mut self, words: &[u64]) -> u64 {
        self.put(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())
    }

    pub fn put_text(&mut self, text: &str) -> u64 {
        self.put(CString::new(text).unwrap().as_bytes_with_nul())
    }

    /// Makes a system call and checks what it changed against what is reported for it.
    #[track_caller]
    pub fn call<const N: usize>(&mut self, number: libc::c_long, given: [u64; N]) -> Answer {
        let mut args = [0; 6];
        args[..N].copy_from_slice(&given);
        let base = self.base();
        let before = self.bytes.clone();
        let result = raw(number, &args);
        let mut ranges = Vec::new();
        let snapshot = Snapshot { base, bytes: &self.bytes };
        let known = written(&snapshot, number as u32, &args, result as u64, &mut |start, len| {
            ranges.push((start, len));
        });
        for (index, (old, new)) in before.iter().zip(&self.bytes).enumerate() {
            let address = base + index as u64;
            let reported = ranges.iter().any(|&(start, len)| address.wrapping_sub(start) < len);
            assert!(
                old == new || reported,
                "call {number} with result {result} changed a byte at +{index:#x} \
                 (arguments {given:#x?}, arena {base:#x}) outside of what is reported: {ranges:#x?}"
            );
        }
        for &(start, len) in &ranges {
            let inside = start >= base && start + len <= base + Arena::SIZE as u64;
            assert!(inside, "call {number} claims memory that it was not given: {start:#x}+{len}");
        }
        Answer { result, known, ranges }
    }

    /// As [`Arena::call`], for a call that has to succeed and be known completely.
    #[track_caller]
    pub fn succeeds<const N: usize>(&mut self, number: libc::c_long, args: [u64; N]) -> Answer {
        let answer = self.call(number, args);
        assert!(answer.result >= 0, "call {number} failed: {}", answer.result);
        assert!(answer.known, "call {number} is not known completely");
        answer
    }

    /// As [`Arena::call`], for a call that has to fail this way and be known completely.
    #[track_caller]
    pub fn fails<const N: usize>(
        &mut self,
        number: libc::c_long,
        args: [u64; N],
        error: i32,
    ) -> Answer {
        let answer = self.call(number, args);
        assert_eq!(answer.result, -i64::from(error), "call {number}");
        assert!(answer.known, "call {number} is not known completely");
        answer
    }
}

/// Makes a system call. A child that it makes ends at once.
pub fn raw(number: libc::c_long, args: &[u64; 6]) -> i64 {
    let [a, b, c, d, e, f] = *args;
    // SAFETY: pointers among the arguments lead into an arena, which no reference looks at meanwhile, or are
    // invalid on purpose.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result == 0 && [SYS_clone, SYS_clone3].contains(&number) {
        // SAFETY: ends the child without running anything of the test.
        unsafe { libc::_exit(0) };
    }
    if result == -1 {
        -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap())
    } else {
        result
    }
}

/// Runs a check with both patterns.
pub fn check(body: impl Fn(&mut Arena)) {
    for pattern in [0xa5, 0x5a] {
        body(&mut Arena::new(pattern));
    }
}

/// A file with this contents that has no name any more.
pub fn file(contents: &[u8]) -> std::fs::File {
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::memfd_create(c"effects".as_ptr(), 0) };
    assert!(fd >= 0);
    // SAFETY: the descriptor is new and nobody else's.
    let mut file = unsafe { std::fs::File::from_raw_fd(fd) };
    file.write_all(contents).unwrap();
    file
}

/// A pair of connected sockets.
pub fn sockets(kind: i32) -> (OwnedFd, OwnedFd) {
    let mut pair = [0; 2];
    // SAFETY: the array has room for two descriptors.
    assert_eq!(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) }, 0);
    // SAFETY: the descriptors are new and nobody else's.
    pair.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).into()
}

pub fn number(fd: &impl AsRawFd) -> u64 {
    fd.as_raw_fd() as u64
}

pub fn owned(result: i64) -> OwnedFd {
    assert!(result >= 0, "no descriptor: {result}");
    // SAFETY: the descriptor comes from a call that has just made it.
    unsafe { OwnedFd::from_raw_fd(result as RawFd) }
}

pub fn send(fd: &OwnedFd, bytes: &[u8]) {
    // SAFETY: the bytes are borrowed for the call.
    let sent = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
    assert_eq!(sent, bytes.len() as isize);
}

/// Descriptors that a set has room for.
pub const SET_SIZE: u64 = 1024;

/// The set of this one descriptor.
pub fn descriptor_set(fd: &OwnedFd) -> [u64; SET_SIZE as usize / 64] {
    let mut words = [0; _];
    words[number(fd) as usize / 64] = 1 << (number(fd) % 64);
    words
}

/// Runs `body` while another thread keeps interrupting this one with a signal that has a handler.
pub fn interrupted(body: impl FnOnce()) {
    extern "C" fn handler(_: i32) {}
    // SAFETY: zeroes are a valid `sigaction`; the handler does nothing.
    let (process, thread) = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
        (libc::getpid(), libc::gettid())
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(10));
                // SAFETY: the thread lives as long as this scope.
                unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR1) };
            }
        });
        // A failed check has to end the other thread too.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        over.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}
