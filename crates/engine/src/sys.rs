//! Raw system calls: the only module that talks to the kernel for the engine itself.
//!
//! Guest system calls go through [`crate::entry::guest_syscall`] instead, which can be interrupted
//! by signals at a known point. Calls made here run to their end and never deliver guest signals.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};
use linux_raw_sys::general as c;
use retro_abi::layout::{ENGINE_MAPPINGS, PAGE};

/// A kernel error number, positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// The value a guest sees in rax.
    pub fn as_return(self) -> u64 {
        (-(self.0 as i64)) as u64
    }
}

macro_rules! errnos {
    ($($name:ident)*) => {
        impl Errno {
            $(#[allow(missing_docs, reason = "the kernel's names")]
            pub const $name: Errno = Errno(linux_raw_sys::errno::$name as i32);)*
        }
    };
}
errnos! {
    EPERM ENOENT EINTR EIO E2BIG ENOEXEC EBADF EAGAIN ENOMEM EACCES EFAULT EEXIST ENODEV ENOTDIR
    EISDIR EINVAL EMFILE ETXTBSY ENOSPC ENAMETOOLONG ENOSYS ELOOP ELIBBAD EOPNOTSUPP
}

/// What most calls return.
pub type Result<T> = core::result::Result<T, Errno>;

/// Turns the kernel's return register into a result.
pub fn check(value: u64) -> Result<u64> {
    if value > (-4096i64) as u64 { Err(Errno(-(value as i64) as i32)) } else { Ok(value) }
}

/// Any system call.
///
/// # Safety
/// The call must not break memory that Rust code relies on.
#[inline(always)]
pub unsafe fn syscall(nr: u32, args: [u64; 6]) -> u64 {
    let result;
    // SAFETY: the caller vouches for the call's effects; the clobbers are the kernel's.
    unsafe {
        asm!("syscall", inlateout("rax") nr as u64 => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

macro_rules! call {
    ($nr:ident $(, $arg:expr)*) => {{
        let given = [$($arg as u64),*];
        let mut args = [0u64; 6];
        args[..given.len()].copy_from_slice(&given);
        // SAFETY: each wrapper below passes memory it borrows or addresses its caller owns.
        check(unsafe { syscall(c::$nr, args) })
    }};
}

/// Maps memory.
///
/// # Safety
/// With `MAP_FIXED`, nothing that Rust code uses may lie in the range.
pub unsafe fn mmap(
    addr: u64,
    len: u64,
    prot: u32,
    flags: u32,
    fd: i32,
    offset: u64,
) -> Result<u64> {
    call!(__NR_mmap, addr, len, prot, flags, fd as i64, offset)
}

/// Unmaps memory.
///
/// # Safety
/// Nothing may use the range any more.
pub unsafe fn munmap(addr: u64, len: u64) -> Result<()> {
    call!(__NR_munmap, addr, len).map(drop)
}

/// Changes the protection of memory.
///
/// # Safety
/// Rust code must not rely on a right that is taken away.
pub unsafe fn mprotect(addr: u64, len: u64, prot: u32) -> Result<()> {
    call!(__NR_mprotect, addr, len, prot).map(drop)
}

/// Next address for the engine's own mappings. The kernel is not left to choose: with an unlimited stack it
/// would choose in the guest's range.
static NEXT_MAPPING: AtomicU64 = AtomicU64::new(ENGINE_MAPPINGS);

fn map_own(len: u64, prot: u32, flags: u32, fd: i32) -> Result<u64> {
    loop {
        // A page between two mappings keeps an overrun from going unnoticed.
        let room = len.next_multiple_of(PAGE) + PAGE;
        let at = NEXT_MAPPING.fetch_add(room, Ordering::Relaxed);
        // SAFETY: MAP_FIXED_NOREPLACE never replaces a mapping.
        match unsafe { mmap(at, len, prot, flags | c::MAP_FIXED_NOREPLACE, fd, 0) } {
            Ok(mapped) if mapped == at => return Ok(at),
            // A kernel too old for the flag found something there.
            // SAFETY: just mapped, and unused.
            Ok(mapped) => drop(unsafe { munmap(mapped, len) }),
            Err(Errno::EEXIST) => {}
            Err(error) => return Err(error),
        }
    }
}

/// New private zero pages: the engine's own memory.
pub fn map_anonymous(len: u64, prot: u32) -> Result<u64> {
    map_own(len, prot, c::MAP_PRIVATE | c::MAP_ANONYMOUS | c::MAP_NORESERVE, -1)
}

/// New pages that are there already, for memory that will be used at once; None if that fails.
pub fn map_populated(len: u64) -> Option<u64> {
    let flags = c::MAP_PRIVATE | c::MAP_ANONYMOUS | c::MAP_POPULATE;
    map_own(len, c::PROT_READ | c::PROT_WRITE, flags, -1).ok()
}

/// Maps memory at an address a second time, elsewhere, and returns where. What was mapped at the address is replaced, but for its
/// first bytes, which are copied; neither of the two can be used before it gets rights. Copies of the process share it.
///
/// # Safety
/// What is replaced is the caller's, and nobody refers to it. The bytes that are kept can be read.
pub unsafe fn map_twice(addr: u64, len: u64, kept: u64) -> Result<u64> {
    let flags = c::MAP_SHARED | c::MAP_ANONYMOUS | c::MAP_NORESERVE;
    let second = map_own(len, c::PROT_NONE, flags, -1)?;
    if kept != 0 {
        let room = kept.next_multiple_of(PAGE);
        // SAFETY: a new mapping, and what the caller lets be read.
        unsafe {
            mprotect(second, room, c::PROT_READ | c::PROT_WRITE)?;
            core::ptr::copy_nonoverlapping(addr as *const u8, second as *mut u8, kept as usize);
            mprotect(second, room, c::PROT_NONE)?;
        }
    }
    // Of a shared mapping that keeps its length a copy is made.
    let how = c::MREMAP_MAYMOVE | c::MREMAP_FIXED;
    call!(__NR_mremap, second, 0, len, how, addr)?;
    Ok(second)
}

/// The engine's next mappings come at a place that is hard to guess.
pub fn scatter_mappings(random: u64) {
    /// Two terabytes: after two calls there is still room below the shadow of what a guest may insist on.
    const PLACES: u64 = 1 << 29;
    // SAFETY: every x86-64 processor has it.
    let now = unsafe { core::arch::x86_64::_rdtsc() };
    let mixed = (random ^ now.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    NEXT_MAPPING.fetch_add((mixed >> 32) % PLACES * PAGE, Ordering::Relaxed);
}

/// A file as memory shared with others.
pub fn map_shared(len: u64, fd: i32) -> Result<u64> {
    map_own(len, c::PROT_READ | c::PROT_WRITE, c::MAP_SHARED, fd)
}

/// Any other advice about memory of the engine's own; a hint that may fail.
pub fn advise(addr: u64, len: u64, advice: u32) {
    let _ = call!(__NR_madvise, addr, len, advice);
}

/// Asks for huge pages; a hint that may fail.
pub fn advise_huge_pages(addr: u64, len: u64) {
    let _ = call!(__NR_madvise, addr, len, c::MADV_HUGEPAGE);
}

/// Marks with 1, else 0, which of the pages from an address on are in memory, as many as there are marks. A page that was
/// swapped out is not.
pub fn resident(addr: u64, marks: &mut [u8]) -> Result<()> {
    call!(__NR_mincore, addr, marks.len() as u64 * PAGE, marks.as_mut_ptr())?;
    marks.iter_mut().for_each(|mark| *mark &= 1);
    Ok(())
}

/// Whether anything on this machine is swapped out.
pub fn swap_in_use() -> bool {
    /// Words of `struct sysinfo`: all swap space, and what is free of it.
    const TOTAL: usize = 8;
    const FREE: usize = 9;
    let mut words = [0u64; 16];
    call!(__NR_sysinfo, words.as_mut_ptr()).is_err() || words[TOTAL] != words[FREE]
}

/// Opens a file; `path` ends in NUL.
pub fn open(path: &[u8], flags: u32, mode: u32) -> Result<i32> {
    open_at(c::AT_FDCWD, path, flags, mode)
}

/// Opens a file relative to a directory; `path` ends in NUL.
pub fn open_at(dir: i32, path: &[u8], flags: u32, mode: u32) -> Result<i32> {
    debug_assert_eq!(path.last(), Some(&0));
    call!(__NR_openat, dir as i64, path.as_ptr(), flags, mode).map(|fd| fd as i32)
}

/// Closes a descriptor.
pub fn close(fd: i32) {
    let _ = call!(__NR_close, fd as i64);
}

/// Closes all descriptors from a number on.
pub fn close_from(first: i32) -> Result<()> {
    match call!(__NR_close_range, first as i64, u32::MAX, 0) {
        // Kernels before 5.9, and filters that do not know the call.
        Err(Errno::ENOSYS | Errno::EPERM) => close_one_by_one(first),
        closed => closed.map(drop),
    }
}

fn close_one_by_one(first: i32) -> Result<()> {
    /// More than are open on any system that old.
    const MOST: u64 = 1 << 20;
    let (_, most) = resource_limit(c::RLIMIT_NOFILE);
    (first..most.min(MOST) as i32).for_each(close);
    Ok(())
}

/// Gives up all privileges that a process of root has.
pub fn drop_capabilities() -> Result<()> {
    /// `struct __user_cap_header_struct`: the version with two words for each set, and this process.
    const HEADER: [u32; 2] = [0x2008_0522, 0];
    // Effective, permitted and inheritable, the lower words and the upper ones.
    let none = [0u32; 6];
    call!(__NR_capset, HEADER.as_ptr(), none.as_ptr()).map(drop)
}

/// Sends a signal to all processes of this one's group, itself included.
pub fn kill_group(signal: u32) -> Result<()> {
    call!(__NR_kill, 0, signal).map(drop)
}

/// Reads from the current position.
pub fn read(fd: i32, buffer: &mut [u8]) -> Result<usize> {
    call!(__NR_read, fd as i64, buffer.as_mut_ptr(), buffer.len()).map(|n| n as usize)
}

/// Reads at an offset until the buffer is full or the file ends.
pub fn read_at(fd: i32, buffer: &mut [u8], offset: u64) -> Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        let rest = &mut buffer[done..];
        match call!(__NR_pread64, fd as i64, rest.as_mut_ptr(), rest.len(), offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n as usize,
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Writes all of the bytes, as far as the descriptor takes them.
pub fn write_all(fd: i32, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        match call!(__NR_write, fd as i64, bytes.as_ptr(), bytes.len()) {
            Ok(n) => bytes = &bytes[n as usize..],
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Sets a file position from the start.
pub fn seek(fd: i32, offset: u64) -> Result<u64> {
    call!(__NR_lseek, fd as i64, offset, 0)
}

/// An anonymous file.
pub fn memfd(name: &[u8], flags: u32) -> Result<i32> {
    debug_assert_eq!(name.last(), Some(&0));
    call!(__NR_memfd_create, name.as_ptr(), flags).map(|fd| fd as i32)
}

/// Duplicates a descriptor to the lowest number from `least` on.
pub fn duplicate_from(fd: i32, least: i32) -> Result<i32> {
    call!(__NR_fcntl, fd as i64, c::F_DUPFD, least as i64).map(|fd| fd as i32)
}

/// File metadata of a descriptor.
pub fn file_status(fd: i32) -> Result<c::stat> {
    // SAFETY: all-zero is a valid value of this plain C struct.
    let mut status: c::stat = unsafe { core::mem::zeroed() };
    call!(__NR_fstat, fd as i64, &raw mut status).map(|_| status)
}

/// Checks access by path with the effective ids; `path` ends in NUL.
pub fn access_at(dir: i32, path: &[u8], mode: u32, flags: u32) -> Result<()> {
    debug_assert_eq!(path.last(), Some(&0));
    match call!(__NR_faccessat2, dir as i64, path.as_ptr(), mode, flags | c::AT_EACCESS) {
        // Kernels before 5.8 lack faccessat2; the real ids are the best that is left.
        Err(Errno::ENOSYS) => call!(__NR_faccessat, dir as i64, path.as_ptr(), mode).map(drop),
        other => other.map(drop),
    }
}

/// Reads a symbolic link; `path` ends in NUL.
pub fn read_link<'a>(path: &[u8], buffer: &'a mut [u8]) -> Result<&'a [u8]> {
    debug_assert_eq!(path.last(), Some(&0));
    let n = call!(__NR_readlink, path.as_ptr(), buffer.as_mut_ptr(), buffer.len())?;
    Ok(&buffer[..n as usize])
}

/// The process id.
pub fn getpid() -> i32 {
    call!(__NR_getpid).unwrap_or(0) as i32
}

/// The thread id.
pub fn gettid() -> i32 {
    call!(__NR_gettid).unwrap_or(0) as i32
}

/// Real user id.
pub fn getuid() -> u32 {
    call!(__NR_getuid).unwrap_or(0) as u32
}

/// The process that traces this thread; 0 if nobody does.
pub fn tracer() -> i32 {
    const NAME: &[u8] = b"TracerPid:";
    let Ok(file) = open(b"/proc/thread-self/status\0", c::O_RDONLY | c::O_CLOEXEC, 0) else {
        return 0;
    };
    let mut bytes = [0u8; 1024];
    let got = read_at(file, &mut bytes, 0).unwrap_or(0);
    close(file);
    let line = bytes[..got].split(|&b| b == b'\n').find(|line| line.starts_with(NAME));
    line.and_then(|line| core::str::from_utf8(line[NAME.len()..].trim_ascii()).ok())
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0)
}

/// Sleeps for less than a second.
pub fn nanosleep(nanoseconds: u64) {
    let time = [0, nanoseconds];
    let _ = call!(__NR_nanosleep, time.as_ptr(), 0);
}

/// Effective user id.
pub fn geteuid() -> u32 {
    call!(__NR_geteuid).unwrap_or(0) as u32
}

/// Effective group id.
pub fn getegid() -> u32 {
    call!(__NR_getegid).unwrap_or(0) as u32
}

/// The soft and hard limit of a resource.
pub fn resource_limit(resource: u32) -> (u64, u64) {
    let mut limits = [u64::MAX; 2];
    let _ = call!(__NR_prlimit64, 0, resource, 0, limits.as_mut_ptr());
    (limits[0], limits[1])
}

/// Sets the soft and hard limit of a resource.
pub fn set_resource_limit(resource: u32, soft: u64, hard: u64) -> Result<()> {
    let limits = [soft, hard];
    call!(__NR_prlimit64, 0, resource, limits.as_ptr(), 0).map(drop)
}

/// `prctl` with integer arguments.
pub fn prctl(option: u32, a: u64, b: u64, c: u64) -> Result<u64> {
    call!(__NR_prctl, option, a, b, c)
}

/// `arch_prctl`.
pub fn arch_prctl(code: u32, value: u64) -> Result<u64> {
    call!(__NR_arch_prctl, code, value)
}

/// Codes of `arch_prctl`.
pub mod arch {
    #![allow(missing_docs, reason = "the kernel's names")]
    pub const SET_GS: u32 = 0x1001;
    pub const SET_FS: u32 = 0x1002;
    pub const GET_FS: u32 = 0x1003;
    pub const GET_GS: u32 = 0x1004;
    pub const GET_CPUID: u32 = 0x1011;
    pub const SET_CPUID: u32 = 0x1012;
    pub const GET_XCOMP_PERM: u32 = 0x1022;
    pub const REQ_XCOMP_PERM: u32 = 0x1023;
    pub const MAP_VDSO_X32: u32 = 0x2001;
    pub const MAP_VDSO_64: u32 = 0x2003;
}

/// Sleeps until the word changes from `expected` or somebody wakes us.
pub fn futex_wait(word: &core::sync::atomic::AtomicU32, expected: u32) {
    let op = c::FUTEX_WAIT | c::FUTEX_PRIVATE_FLAG;
    let _ = call!(__NR_futex, word.as_ptr(), op, expected, 0);
}

/// The same, for so many nanoseconds at most.
pub fn futex_wait_for(word: &core::sync::atomic::AtomicU32, expected: u32, nanoseconds: u64) {
    let op = c::FUTEX_WAIT | c::FUTEX_PRIVATE_FLAG;
    let timeout = [nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000];
    let _ = call!(__NR_futex, word.as_ptr(), op, expected, timeout.as_ptr());
}

/// The calling thread's FS base.
pub fn fs_base() -> u64 {
    let mut base = 0u64;
    let _ = arch_prctl(arch::GET_FS, &raw mut base as u64);
    base
}

/// The time of day: seconds since 1970 and nanoseconds.
pub fn wall_clock() -> (u64, u32) {
    let mut time = [0u64; 2];
    let _ = call!(__NR_clock_gettime, c::CLOCK_REALTIME, time.as_mut_ptr());
    (time[0], time[1] as u32)
}

/// The parent's process id.
pub fn getppid() -> i32 {
    call!(__NR_getppid).map_or(0, |pid| pid as i32)
}

/// Wakes up to `count` sleepers.
pub fn futex_wake(word: &core::sync::atomic::AtomicU32, count: u32) {
    let op = c::FUTEX_WAKE | c::FUTEX_PRIVATE_FLAG;
    let _ = call!(__NR_futex, word.as_ptr(), op, count);
}

/// Replaces the signal mask and returns the old one.
pub fn set_signal_mask(mask: u64) -> u64 {
    let mut old = 0u64;
    let _ = call!(__NR_rt_sigprocmask, c::SIG_SETMASK, &raw const mask, &raw mut old, 8);
    old
}

/// The kernel's `struct sigaction`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the kernel's names")]
pub struct SigAction {
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

/// Reads and optionally replaces the disposition of a signal.
///
/// # Safety
/// The handler must be the engine's, or SIG_DFL or SIG_IGN.
pub unsafe fn sigaction(signal: u32, new: Option<&SigAction>) -> Result<SigAction> {
    let mut old = SigAction::default();
    let new = new.map_or(core::ptr::null(), core::ptr::from_ref);
    call!(__NR_rt_sigaction, signal, new, &raw mut old, 8).map(|_| old)
}

/// Sends a signal to one thread of this process.
pub fn tgkill(pid: i32, tid: i32, signal: u32) {
    let _ = call!(__NR_tgkill, pid as i64, tid as i64, signal);
}

/// Whether a thread exists, as far as this process may know.
pub fn thread_exists(pid: i32, tid: i32) -> bool {
    const NO_SUCH_PROCESS: Errno = Errno(linux_raw_sys::errno::ESRCH as i32);
    call!(__NR_tgkill, pid as i64, tid as i64, 0) != Err(NO_SUCH_PROCESS)
}

/// Nanoseconds of the monotonic clock.
pub fn monotonic_nanoseconds() -> u64 {
    let mut time = [0u64; 2];
    let _ = call!(__NR_clock_gettime, c::CLOCK_MONOTONIC, time.as_mut_ptr());
    time[0] * 1_000_000_000 + time[1]
}

/// Ends the whole process.
pub fn exit_group(code: i32) -> ! {
    loop {
        let _ = call!(__NR_exit_group, code as i64);
    }
}

/// Writes a line to stderr without allocating: for messages of the engine's own.
pub fn complain(args: core::fmt::Arguments) {
    let mut line = Line { bytes: [0; 512], len: 0 };
    let _ = core::fmt::Write::write_fmt(&mut line, format_args!("retro: {args}\n"));
    let _ = write_all(2, &line.bytes[..line.len]);
}

struct Line {
    bytes: [u8; 512],
    len: usize,
}

impl core::fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = self.bytes.len() - self.len;
        let take = room.min(text.len());
        self.bytes[self.len..self.len + take].copy_from_slice(&text.as_bytes()[..take]);
        self.len += take;
        Ok(())
    }
}
