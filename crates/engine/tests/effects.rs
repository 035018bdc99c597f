//! `record::effects` against the kernel: real system calls are made with all their output in an arena filled with
//! a pattern, and every byte that changed must lie in a range that was reported. Each check runs with two
//! patterns, so that a byte that happens to be written as it was does not hide a hole.

use libc::{
    SYS_accept4, SYS_adjtimex, SYS_arch_prctl, SYS_capget, SYS_clock_getres, SYS_clock_gettime,
    SYS_clock_nanosleep, SYS_clone, SYS_clone3, SYS_copy_file_range, SYS_epoll_pwait,
    SYS_epoll_wait, SYS_fcntl, SYS_fgetxattr, SYS_flistxattr, SYS_fstat, SYS_fstatfs, SYS_futex,
    SYS_get_mempolicy, SYS_get_robust_list, SYS_getcpu, SYS_getcwd, SYS_getdents, SYS_getdents64,
    SYS_getgroups, SYS_getitimer, SYS_getpeername, SYS_getrandom, SYS_getresgid, SYS_getresuid,
    SYS_getrlimit, SYS_getrusage, SYS_getsockname, SYS_getsockopt, SYS_gettimeofday, SYS_ioctl,
    SYS_lstat, SYS_mincore, SYS_mq_getsetattr, SYS_mq_open, SYS_mq_timedreceive, SYS_mq_timedsend,
    SYS_msgctl, SYS_msgget, SYS_msgrcv, SYS_msgsnd, SYS_name_to_handle_at, SYS_nanosleep,
    SYS_newfstatat, SYS_perf_event_open, SYS_pipe, SYS_pipe2, SYS_poll, SYS_ppoll, SYS_prctl,
    SYS_pread64, SYS_preadv, SYS_preadv2, SYS_prlimit64, SYS_process_vm_readv, SYS_pselect6,
    SYS_read, SYS_readlink, SYS_readlinkat, SYS_readv, SYS_recvfrom, SYS_recvmmsg, SYS_recvmsg,
    SYS_rt_sigaction, SYS_rt_sigpending, SYS_rt_sigprocmask, SYS_rt_sigtimedwait,
    SYS_sched_getaffinity, SYS_sched_getattr, SYS_sched_getparam, SYS_sched_rr_get_interval,
    SYS_sched_setattr, SYS_select, SYS_semctl, SYS_semget, SYS_sendfile, SYS_sendmmsg,
    SYS_setitimer, SYS_shmctl, SYS_shmget, SYS_sigaltstack, SYS_socketpair, SYS_splice, SYS_stat,
    SYS_statfs, SYS_statx, SYS_sysfs, SYS_sysinfo, SYS_time, SYS_timer_create, SYS_timer_gettime,
    SYS_timer_settime, SYS_timerfd_gettime, SYS_timerfd_settime, SYS_times, SYS_uname, SYS_wait4,
    SYS_waitid,
};
use linux_raw_sys::general::F_GETOWN_EX;
use retro_engine::record::effects::{Memory, written};
use std::ffi::CString;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Memory for arguments and outputs.
struct Arena {
    bytes: Vec<u8>,
    taken: usize,
}

/// What a call came to.
struct Answer {
    /// The raw result.
    result: i64,
    /// Whether its effects are known completely.
    known: bool,
    /// The ranges it wrote.
    ranges: Vec<(u64, u64)>,
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

    fn new(pattern: u8) -> Arena {
        Arena { bytes: vec![pattern; Arena::SIZE], taken: Arena::GAP }
    }

    fn base(&mut self) -> u64 {
        self.bytes.as_mut_ptr().expose_provenance() as u64
    }

    /// Address of a fresh piece that holds the pattern.
    fn take(&mut self, len: usize) -> u64 {
        let start = (self.base() as usize + self.taken).next_multiple_of(64) - self.base() as usize;
        self.taken = start + len + Arena::GAP;
        assert!(self.taken <= Arena::SIZE, "the arena is too small for this test");
        self.base() + start as u64
    }

    fn set(&mut self, address: u64, bytes: &[u8]) {
        let start = (address - self.base()) as usize;
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// Address of a fresh piece with this contents.
    fn put(&mut self, bytes: &[u8]) -> u64 {
        let address = self.take(bytes.len());
        self.set(address, bytes);
        address
    }

    fn put_words(&mut self, words: &[u64]) -> u64 {
        self.put(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())
    }

    fn put_text(&mut self, text: &str) -> u64 {
        self.put(CString::new(text).unwrap().as_bytes_with_nul())
    }

    /// Makes a system call and checks what it changed against what is reported for it.
    #[track_caller]
    fn call<const N: usize>(&mut self, number: libc::c_long, given: [u64; N]) -> Answer {
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
    fn succeeds<const N: usize>(&mut self, number: libc::c_long, args: [u64; N]) -> Answer {
        let answer = self.call(number, args);
        assert!(answer.result >= 0, "call {number} failed: {}", answer.result);
        assert!(answer.known, "call {number} is not known completely");
        answer
    }

    /// As [`Arena::call`], for a call that has to fail this way and be known completely.
    #[track_caller]
    fn fails<const N: usize>(
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
fn raw(number: libc::c_long, args: &[u64; 6]) -> i64 {
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
fn check(body: impl Fn(&mut Arena)) {
    for pattern in [0xa5, 0x5a] {
        body(&mut Arena::new(pattern));
    }
}

/// A file with this contents that has no name any more.
fn file(contents: &[u8]) -> std::fs::File {
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::memfd_create(c"effects".as_ptr(), 0) };
    assert!(fd >= 0);
    // SAFETY: the descriptor is new and nobody else's.
    let mut file = unsafe { std::fs::File::from_raw_fd(fd) };
    file.write_all(contents).unwrap();
    file
}

/// A pair of connected sockets.
fn sockets(kind: i32) -> (OwnedFd, OwnedFd) {
    let mut pair = [0; 2];
    // SAFETY: the array has room for two descriptors.
    assert_eq!(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) }, 0);
    // SAFETY: the descriptors are new and nobody else's.
    pair.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).into()
}

fn number(fd: &impl AsRawFd) -> u64 {
    fd.as_raw_fd() as u64
}

fn owned(result: i64) -> OwnedFd {
    assert!(result >= 0, "no descriptor: {result}");
    // SAFETY: the descriptor comes from a call that has just made it.
    unsafe { OwnedFd::from_raw_fd(result as RawFd) }
}

fn send(fd: &OwnedFd, bytes: &[u8]) {
    // SAFETY: the bytes are borrowed for the call.
    let sent = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
    assert_eq!(sent, bytes.len() as isize);
}

/// Descriptors that a set has room for.
const SET_SIZE: u64 = 1024;

/// The set of this one descriptor.
fn descriptor_set(fd: &OwnedFd) -> [u64; SET_SIZE as usize / 64] {
    let mut words = [0; _];
    words[number(fd) as usize / 64] = 1 << (number(fd) % 64);
    words
}

/// Runs `body` while another thread keeps interrupting this one with a signal that has a handler.
fn interrupted(body: impl FnOnce()) {
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

#[test]
fn reading_files() {
    check(|arena| {
        let mut file = file(b"some contents to be read in pieces");
        let fd = number(&file);
        std::io::Seek::rewind(&mut file).unwrap();
        let buffer = arena.take(64);
        let answer = arena.succeeds(SYS_read, [fd, buffer, 64]);
        assert_eq!(answer.ranges, [(buffer, 34)], "a short read writes as much as it says");
        arena.succeeds(SYS_pread64, [fd, buffer, 10, 3]);
        let (one, two, three) = (arena.take(8), arena.take(16), arena.take(64));
        let vectors = arena.put_words(&[one, 8, two, 16, three, 64]);
        std::io::Seek::rewind(&mut file).unwrap();
        let answer = arena.succeeds(SYS_readv, [fd, vectors, 3]);
        assert_eq!(answer.ranges, [(one, 8), (two, 16), (three, 10)]);
        arena.succeeds(SYS_preadv, [fd, vectors, 3, 20]);
        arena.succeeds(SYS_preadv2, [fd, vectors, 3, 2, 0, 0]);
        arena.fails(SYS_read, [u64::MAX, buffer, 64], libc::EBADF);
        arena.succeeds(SYS_getrandom, [buffer, 60, 0]);
        let remote = arena.put_words(&[vectors, 48]);
        let own = u64::from(std::process::id());
        arena.succeeds(SYS_process_vm_readv, [own, vectors, 3, remote, 1, 0]);
        let mut event = owned(raw(libc::SYS_eventfd2, &[7, 0, 0, 0, 0, 0]));
        arena.succeeds(SYS_read, [number(&event), buffer, 64]);
        event = owned(raw(libc::SYS_inotify_init1, &[0; 6]));
        let directory = std::env::temp_dir();
        let path = arena.put_text(directory.to_str().unwrap());
        let watch = u64::from(libc::IN_CREATE);
        arena.succeeds(libc::SYS_inotify_add_watch, [number(&event), path, watch]);
        let created = directory.join(format!("effects-{}-{buffer:x}", std::process::id()));
        std::fs::write(&created, "").unwrap();
        std::fs::remove_file(&created).unwrap();
        let room = arena.take(4096);
        arena.succeeds(SYS_read, [number(&event), room, 4096]);
    });
}

#[test]
fn moving_data_between_files() {
    check(|arena| {
        let (source, target) = (file(&[7; 5000]), file(b""));
        let offset = arena.put_words(&[100]);
        let answer = arena.succeeds(SYS_sendfile, [number(&target), number(&source), offset, 2000]);
        assert_eq!((answer.result, answer.ranges), (2000, vec![(offset, 8)]));
        let pipe = arena.take(8);
        arena.succeeds(SYS_pipe, [pipe]);
        arena.succeeds(SYS_pipe2, [pipe, libc::O_CLOEXEC as u64]);
        let start = (pipe - arena.base()) as usize;
        let end =
            |at: usize| u64::from(u32::from_le_bytes(arena.bytes[at..at + 4].try_into().unwrap()));
        let write_end = end(start + 4);
        arena.succeeds(SYS_splice, [number(&source), offset, write_end, 0, 512, 0]);
        let to = arena.put_words(&[0]);
        let copy = [number(&source), offset, number(&target), to, 700, 0];
        assert_eq!(arena.succeeds(SYS_copy_file_range, copy).ranges, [(offset, 8), (to, 8)]);
    });
}

#[test]
fn status_of_files() {
    check(|arena| {
        let directory = std::fs::File::open("/proc/self").unwrap();
        let (path, link) = (arena.put_text("/proc/self/status"), arena.put_text("/proc/self/exe"));
        let here = libc::AT_FDCWD as u64;
        let buffer = arena.take(8192);
        arena.succeeds(SYS_stat, [path, buffer]);
        arena.succeeds(SYS_lstat, [link, buffer]);
        arena.succeeds(SYS_fstat, [number(&directory), buffer]);
        arena.succeeds(SYS_newfstatat, [here, path, buffer, 0]);
        arena.succeeds(SYS_statx, [here, path, 0, 0xfff, buffer]);
        arena.succeeds(SYS_statfs, [path, buffer]);
        let same_again = arena.take(512);
        arena.succeeds(SYS_fstatfs, [number(&directory), same_again]);
        arena.succeeds(SYS_getcwd, [buffer, 4096]);
        arena.succeeds(SYS_readlink, [link, buffer, 4096]);
        assert_eq!(arena.succeeds(SYS_readlinkat, [here, link, buffer, 3]).ranges, [(buffer, 3)]);
        arena.succeeds(SYS_getdents, [number(&directory), buffer, 1000]);
        arena.succeeds(SYS_getdents64, [number(&directory), buffer, 1000]);
        let missing = arena.put_text("/nowhere");
        arena.fails(SYS_stat, [missing, buffer], libc::ENOENT);
    });
}

#[test]
fn extended_attributes() {
    check(|arena| {
        let path = std::env::temp_dir().join(format!("effects-attributes-{}", std::process::id()));
        let file = std::fs::File::create(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let (name, value) = (arena.put_text("user.effects"), arena.put(b"a value"));
        let set = arena.call(libc::SYS_fsetxattr, [number(&file), name, value, 7, 0]);
        assert!(set.known && set.ranges.is_empty());
        if set.result != 0 {
            eprintln!("the file system has no user attributes: {}", set.result);
            return;
        }
        let buffer = arena.take(64);
        let get = arena.succeeds(SYS_fgetxattr, [number(&file), name, buffer, 64]);
        assert_eq!(get.ranges, [(buffer, 7)]);
        let size_only = arena.succeeds(SYS_fgetxattr, [number(&file), name, buffer, 0]);
        assert_eq!((size_only.result, size_only.ranges), (7, vec![]));
        arena.succeeds(SYS_flistxattr, [number(&file), buffer, 64]);
    });
}

#[test]
fn file_handles() {
    check(|arena| {
        let (path, handle, mount) = (arena.put_text("/"), arena.take(200), arena.take(16));
        let here = libc::AT_FDCWD as u64;
        arena.set(handle, &128u32.to_le_bytes());
        let answer = arena.call(SYS_name_to_handle_at, [here, path, handle, mount, 0]);
        assert!(answer.known);
        if answer.result == 0 {
            arena.set(handle, &0u32.to_le_bytes());
            let call = [here, path, handle, mount, 0];
            let answer = arena.fails(SYS_name_to_handle_at, call, libc::EOVERFLOW);
            assert_eq!(answer.ranges, [(handle, 8), (mount, 4)]);
        }
    });
}

#[test]
fn waiting_for_descriptors() {
    check(|arena| {
        let (one, two) = sockets(libc::SOCK_STREAM);
        send(&one, b"x");
        let entry = |fd: &OwnedFd| number(fd) | (libc::POLLIN as u64) << 32 | 0xffff << 48;
        let polled = arena.put_words(&[entry(&one), entry(&two)]);
        arena.succeeds(SYS_poll, [polled, 2, 0]);
        let time = arena.put_words(&[5, 0]);
        let answer = arena.succeeds(SYS_ppoll, [polled, 2, time, 0, 8]);
        assert_eq!(answer.ranges, [(time, 16), (polled, 16)]);

        let count = number(&one).max(number(&two)) + 1;
        let [read, write, except] = [(); 3].map(|()| arena.put_words(&descriptor_set(&two)));
        let set_bytes = count.div_ceil(64) * 8;
        let answer = arena.succeeds(SYS_select, [count, read, write, except, time]);
        let sets = [read, write, except].map(|set| (set, set_bytes));
        assert_eq!(answer.ranges, [&[(time, 16)], &sets[..]].concat());
        arena.succeeds(SYS_pselect6, [count, read, 0, 0, time, 0]);
        // Says how much time is left although it fails.
        arena.fails(SYS_select, [u64::MAX, read, 0, 0, time], libc::EINVAL);

        let epoll = owned(raw(libc::SYS_epoll_create1, &[0; 6]));
        let event = arena.put_words(&[u64::from(libc::EPOLLIN as u32) | 1 << 32, 0]);
        let add = [number(&epoll), libc::EPOLL_CTL_ADD as u64, number(&two), event];
        arena.succeeds(libc::SYS_epoll_ctl, add);
        let events = arena.take(48);
        let answer = arena.succeeds(SYS_epoll_wait, [number(&epoll), events, 4, 100]);
        assert_eq!(answer.ranges, [(events, 12)]);
        let again = arena.take(48);
        arena.succeeds(SYS_epoll_pwait, [number(&epoll), again, 4, 100, 0, 8]);
    });
}

#[test]
fn interrupted_waiting() {
    check(|arena| {
        let (one, _two) = sockets(libc::SOCK_STREAM);
        let polled = arena.put_words(&[number(&one) | (libc::POLLIN as u64) << 32 | 0xffff << 48]);
        let time = arena.put_words(&[60, 0]);
        let left = arena.take(16);
        let set = arena.put_words(&descriptor_set(&one));
        interrupted(|| {
            let answer = arena.fails(SYS_poll, [polled, 1, 60_000], libc::EINTR);
            assert_eq!(answer.ranges, [(polled, 8)]);
            arena.set(polled, &(number(&one) | 0xffff << 48).to_le_bytes());
            arena.fails(SYS_ppoll, [polled, 1, time, 0, 8], libc::EINTR);
            arena.fails(SYS_select, [SET_SIZE, set, 0, 0, time], libc::EINTR);
            arena.fails(SYS_pselect6, [SET_SIZE, set, 0, 0, time, 0], libc::EINTR);
            let answer = arena.fails(SYS_nanosleep, [time, left], libc::EINTR);
            assert_eq!(answer.ranges, [(left, 16)]);
            let relative = [libc::CLOCK_MONOTONIC as u64, 0, time, left];
            assert_eq!(
                arena.fails(SYS_clock_nanosleep, relative, libc::EINTR).ranges,
                [(left, 16)]
            );
            arena.set(time, &(u64::MAX >> 8).to_le_bytes());
            let absolute = [libc::CLOCK_MONOTONIC as u64, 1, time, left];
            assert_eq!(arena.fails(SYS_clock_nanosleep, absolute, libc::EINTR).ranges, []);
        });
    });
}

#[test]
fn socket_addresses_and_options() {
    check(|arena| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let address = arena.take(128);
        let length = arena.put(&128u32.to_le_bytes());
        let accept = [number(&listener), address, length, 0];
        let answer = arena.succeeds(SYS_accept4, accept);
        assert_eq!(answer.ranges, [(address, 16), (length, 4)]);
        let served = owned(answer.result);
        arena.succeeds(SYS_getsockname, [number(&served), address, length]);
        arena.set(length, &3u32.to_le_bytes());
        arena.succeeds(SYS_getpeername, [number(&client), address, length]);
        for (level, option) in [
            (libc::SOL_SOCKET, libc::SO_RCVBUF),
            (libc::SOL_SOCKET, libc::SO_LINGER),
            (libc::IPPROTO_TCP, libc::TCP_INFO),
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION),
            (libc::IPPROTO_IP, libc::IP_TTL),
        ] {
            arena.set(length, &128u32.to_le_bytes());
            let ask = [number(&client), level as u64, option as u64, address, length];
            arena.succeeds(SYS_getsockopt, ask);
        }
        let pair = arena.take(8);
        arena.succeeds(SYS_socketpair, [libc::AF_UNIX as u64, libc::SOCK_STREAM as u64, 0, pair]);
        // Fails after it has written the descriptors that it would have used.
        let kind = libc::SOCK_STREAM as u64;
        arena.fails(SYS_socketpair, [libc::AF_INET as u64, kind, 0, pair], libc::EOPNOTSUPP);
    });
}

#[test]
fn receiving_messages() {
    check(|arena| {
        let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        let on = arena.put(&1u32.to_le_bytes());
        let stamp = [libc::SOL_SOCKET as u64, libc::SO_TIMESTAMP as u64];
        arena.succeeds(libc::SYS_setsockopt, [number(&receiver), stamp[0], stamp[1], on, 4]);
        let (buffer, address) = (arena.take(64), arena.take(128));
        let length = arena.put(&128u32.to_le_bytes());

        sender.send(b"datagram").unwrap();
        let answer =
            arena.succeeds(SYS_recvfrom, [number(&receiver), buffer, 64, 0, address, length]);
        assert_eq!(answer.ranges, [(buffer, 8), (address, 16), (length, 4)]);
        sender.send(b"a longer datagram").unwrap();
        let truncating = [number(&receiver), buffer, 4, libc::MSG_TRUNC as u64, 0, 0];
        let answer = arena.succeeds(SYS_recvfrom, truncating);
        assert_eq!((answer.result, answer.ranges), (17, vec![(buffer, 4)]));

        let second = arena.take(64);
        let vectors = arena.put_words(&[buffer, 5, second, 64]);
        let control = arena.take(256);
        let header = arena.put_words(&[address, 128, vectors, 2, control, 256, 0xffff_ffff]);
        sender.send(b"in two pieces").unwrap();
        let answer = arena.succeeds(SYS_recvmsg, [number(&receiver), header, 0]);
        assert!(answer.ranges.contains(&(buffer, 5)) && answer.ranges.contains(&(second, 8)));
        assert!(answer.ranges.iter().any(|&(start, len)| start == control && len > 16));

        let element = [address, 128, vectors, 2, control, 256, 0, 0];
        let plain = [0, 0, vectors, 2, 0, 0, 0, 0];
        let batch = arena.put_words(&[element, plain].concat());
        let time = arena.put_words(&[5, 0]);
        sender.send(b"one of them").unwrap();
        sender.send(b"the other").unwrap();
        let answer = arena.succeeds(SYS_recvmmsg, [number(&receiver), batch, 2, 0, time]);
        assert_eq!(answer.result, 2);

        let answer = arena.succeeds(SYS_sendmmsg, [number(&sender), batch + 64, 1, 0]);
        assert_eq!(answer.ranges, [(batch + 64 + 56, 4)]);
    });
}

#[test]
fn passed_descriptors() {
    check(|arena| {
        let (one, two) = sockets(libc::SOCK_DGRAM);
        let text = arena.put(b"with a descriptor");
        let vectors = arena.put_words(&[text, 17]);
        let rights = (libc::SOL_SOCKET as u64) | (libc::SCM_RIGHTS as u64) << 32;
        let control = arena.put_words(&[20, rights, number(&one)]);
        let header = arena.put_words(&[0, 0, vectors, 1, control, 24, 0]);
        arena.succeeds(libc::SYS_sendmsg, [number(&one), header, 0]);
        let (buffer, room) = (arena.take(64), arena.take(64));
        let vectors = arena.put_words(&[buffer, 64]);
        let header = arena.put_words(&[0, 0, vectors, 1, room, 64, 0]);
        arena.succeeds(SYS_recvmsg, [number(&two), header, 0]);
    });
}

#[test]
fn time_and_timers() {
    check(|arena| {
        let (one, two) = (arena.take(256), arena.take(64));
        let clock = libc::CLOCK_MONOTONIC as u64;
        arena.succeeds(SYS_gettimeofday, [one, two]);
        arena.succeeds(SYS_clock_gettime, [clock, one]);
        arena.succeeds(SYS_clock_getres, [clock, one]);
        arena.succeeds(SYS_time, [one]);
        arena.succeeds(SYS_times, [one]);
        let adjust = arena.put(&[0; 208]);
        arena.succeeds(SYS_adjtimex, [adjust]);

        arena.succeeds(SYS_getitimer, [libc::ITIMER_VIRTUAL as u64, one]);
        let interval = arena.put_words(&[0, 0, 1000, 7]);
        arena.succeeds(SYS_setitimer, [libc::ITIMER_VIRTUAL as u64, interval, 0]);
        let off = arena.put_words(&[0; 4]);
        arena.succeeds(SYS_setitimer, [libc::ITIMER_VIRTUAL as u64, off, one]);

        let silent = arena.put_words(&[0, libc::SIGEV_NONE as u64 * (1 << 32), 0, 0, 0, 0, 0, 0]);
        let answer = arena.succeeds(SYS_timer_create, [clock, silent, two]);
        assert_eq!(answer.ranges, [(two, 4)]);
        let start = (two - arena.base()) as usize;
        let timer =
            u64::from(u32::from_le_bytes(arena.bytes[start..start + 4].try_into().unwrap()));
        arena.succeeds(SYS_timer_settime, [timer, 0, interval, one]);
        arena.succeeds(SYS_timer_gettime, [timer, one]);
        arena.succeeds(libc::SYS_timer_delete, [timer]);

        let timer = owned(raw(libc::SYS_timerfd_create, &[clock, 0, 0, 0, 0, 0]));
        arena.succeeds(SYS_timerfd_settime, [number(&timer), 0, interval, one]);
        arena.succeeds(SYS_timerfd_gettime, [number(&timer), one]);
    });
}

#[test]
fn processes_and_limits() {
    check(|arena| {
        let buffer = arena.take(512);
        let (one, two, three) = (arena.take(16), arena.take(16), arena.take(16));
        arena.succeeds(SYS_getrusage, [0, buffer]);
        arena.succeeds(SYS_sysinfo, [buffer]);
        arena.succeeds(SYS_uname, [buffer]);
        arena.succeeds(SYS_getrlimit, [libc::RLIMIT_NOFILE.into(), buffer]);
        arena.succeeds(SYS_prlimit64, [0, libc::RLIMIT_STACK.into(), 0, buffer]);
        arena.succeeds(SYS_getresuid, [one, two, three]);
        let [group, effective, saved] = [(); 3].map(|()| arena.take(16));
        arena.succeeds(SYS_getresgid, [group, effective, saved]);
        arena.succeeds(SYS_getgroups, [100, buffer]);
        assert_eq!(arena.succeeds(SYS_getgroups, [0, buffer]).ranges, []);
        arena.succeeds(SYS_get_robust_list, [0, one, two]);
        arena.succeeds(SYS_getcpu, [one, two, 0]);
        arena.succeeds(SYS_sched_getaffinity, [0, 512, buffer]);
        arena.succeeds(SYS_sched_getparam, [0, one]);
        arena.succeeds(SYS_sched_getattr, [0, buffer, 128, 0]);
        arena.succeeds(SYS_sched_rr_get_interval, [0, one]);
        let too_new = arena.put(&[0xff; 200]);
        arena.set(too_new, &200u32.to_le_bytes());
        arena.fails(SYS_sched_setattr, [0, too_new, 0], libc::E2BIG);
        let too_new = arena.put(&[0xff; 200]);
        arena.set(too_new + 4, &200u32.to_le_bytes());
        let anyone = u64::MAX;
        let refused = arena.call(SYS_perf_event_open, [too_new, 0, anyone, anyone, 0]);
        assert!(refused.result < 0 && refused.known);

        let header = arena.put_words(&[0x2008_0522]);
        arena.succeeds(SYS_capget, [header, buffer]);
        arena.set(header, &0x1998_0330u32.to_le_bytes());
        assert_eq!(arena.succeeds(SYS_capget, [header, buffer]).ranges, [(buffer, 12)]);
        arena.set(header, &1u32.to_le_bytes());
        arena.fails(SYS_capget, [header, buffer], libc::EINVAL);
        arena.set(header, &1u32.to_le_bytes());
        arena.succeeds(SYS_capget, [header, 0]);

        for option in [libc::PR_GET_NAME, libc::PR_GET_PDEATHSIG, libc::PR_GET_TSC] {
            arena.succeeds(SYS_prctl, [option as u64, buffer]);
        }
        arena.succeeds(SYS_prctl, [libc::PR_GET_CHILD_SUBREAPER as u64, buffer]);
        assert_eq!(arena.succeeds(SYS_prctl, [libc::PR_GET_DUMPABLE as u64, buffer]).ranges, []);
        for code in [0x1003, 0x1004] {
            assert_eq!(arena.succeeds(SYS_arch_prctl, [code, buffer]).ranges, [(buffer, 8)]);
        }
        arena.call(SYS_arch_prctl, [0x1022, buffer]);
        let answer = arena.call(SYS_get_mempolicy, [one, buffer, 129, 0, 0]);
        assert!(answer.known);
        arena.call(SYS_sysfs, [2, 0, buffer]);
    });
}

#[test]
fn children() {
    check(|arena| {
        let (id, status, usage) = (arena.take(4), arena.take(4), arena.take(256));
        let info = arena.take(128);
        let flags = (libc::SIGCHLD | libc::CLONE_PARENT_SETTID | libc::CLONE_CHILD_SETTID) as u64;
        let child_word = arena.take(4);
        let answer = arena.succeeds(SYS_clone, [flags, 0, id, child_word, 0]);
        assert_eq!(answer.ranges, [(id, 4)]);
        let child = answer.result as u64;
        let wait = [libc::P_PID as u64, child, info, (libc::WEXITED | libc::WNOWAIT) as u64, usage];
        arena.succeeds(SYS_waitid, wait);
        arena.succeeds(SYS_wait4, [child, status, 0, usage]);
        arena.fails(SYS_wait4, [child, status, 0, usage], libc::ECHILD);
        // Clears the structure although it fails.
        arena.fails(SYS_waitid, wait, libc::ECHILD);

        let flags = (libc::CLONE_PIDFD | libc::CLONE_PARENT_SETTID) as u64;
        let descriptor = arena.take(4);
        let request = arena.put_words(&[flags, descriptor, 0, id, libc::SIGCHLD as u64, 0, 0, 0]);
        let answer = arena.succeeds(SYS_clone3, [request, 64]);
        assert_eq!(answer.ranges, [(descriptor, 4), (id, 4)]);
        arena.succeeds(SYS_wait4, [answer.result as u64, status, 0, 0]);
    });
}

#[test]
fn signals() {
    check(|arena| {
        let (old, info) = (arena.take(64), arena.take(256));
        arena.succeeds(SYS_rt_sigaction, [libc::SIGWINCH as u64, 0, old, 8]);
        arena.succeeds(SYS_rt_sigaction, [libc::SIGUSR1 as u64, 0, old, 8]);
        let set = arena.put_words(&[1 << (libc::SIGUSR2 - 1)]);
        arena.succeeds(SYS_rt_sigprocmask, [libc::SIG_BLOCK as u64, set, old, 8]);
        // SAFETY: neither call touches memory.
        let (process, thread) = unsafe { (libc::getpid() as u64, libc::gettid() as u64) };
        arena.succeeds(libc::SYS_tgkill, [process, thread, libc::SIGUSR2 as u64]);
        arena.succeeds(SYS_rt_sigpending, [old, 8]);
        assert_eq!(arena.succeeds(SYS_rt_sigtimedwait, [set, info, 0, 8]).ranges, [(info, 128)]);
        let time = arena.put_words(&[0, 0]);
        arena.fails(SYS_rt_sigtimedwait, [set, info, time, 8], libc::EAGAIN);
        arena.succeeds(SYS_sigaltstack, [0, old]);
    });
}

#[test]
fn futexes_that_write() {
    check(|arena| {
        let (one, two) = (arena.put(&[0; 4]), arena.put(&[0; 4]));
        // Sets the second word to 5, comparing it with 0.
        let operation = 5 << 12;
        let wake = [one, libc::FUTEX_WAKE_OP as u64, 1, 1, two, operation];
        assert_eq!(arena.succeeds(SYS_futex, wake).ranges, [(two, 4)]);
        arena.succeeds(SYS_futex, [one, libc::FUTEX_LOCK_PI as u64, 0, 0]);
        arena.fails(SYS_futex, [one, libc::FUTEX_LOCK_PI as u64, 0, 0], libc::EDEADLK);
        arena.succeeds(SYS_futex, [one, libc::FUTEX_UNLOCK_PI as u64, 0, 0]);
        arena.succeeds(SYS_futex, [one, libc::FUTEX_TRYLOCK_PI as u64, 0, 0]);
        assert_eq!(arena.succeeds(SYS_futex, [one, libc::FUTEX_WAKE as u64, 1]).ranges, []);
    });
}

#[test]
fn memory_queries() {
    check(|arena| {
        let vector = arena.take(64);
        let page = arena.base() & !4095;
        let answer = arena.succeeds(SYS_mincore, [page + 4096, 3 * 4096 + 1, vector]);
        assert_eq!(answer.ranges, [(vector, 4)]);
    });
}

#[test]
fn system_v_ipc() {
    check(|arena| {
        let buffer = arena.take(512);
        let (stat, info, create) = (2, 3, 0o1600);
        let queue = arena.succeeds(SYS_msgget, [0, create]).result as u64;
        let message = arena.put(b"\x07\0\0\0\0\0\0\0message");
        arena.succeeds(SYS_msgsnd, [queue, message, 7, 0]);
        assert_eq!(arena.succeeds(SYS_msgrcv, [queue, buffer, 100]).ranges, [(buffer, 15)]);
        arena.succeeds(SYS_msgctl, [queue, stat, buffer]);
        arena.succeeds(SYS_msgctl, [queue, info, buffer]);
        arena.succeeds(SYS_msgctl, [queue, 12, buffer]);
        arena.succeeds(SYS_msgctl, [queue, 0, 0]);

        let semaphores = arena.succeeds(SYS_semget, [0, 3, create]).result as u64;
        arena.succeeds(SYS_semctl, [semaphores, 0, stat, buffer]);
        arena.succeeds(SYS_semctl, [semaphores, 0, info, buffer]);
        arena.succeeds(SYS_semctl, [semaphores, 0, 19, buffer]);
        arena.succeeds(SYS_semctl, [semaphores, 0, 0]);

        let segment = arena.succeeds(SYS_shmget, [0, 8192, create]).result as u64;
        arena.succeeds(SYS_shmctl, [segment, stat, buffer]);
        arena.succeeds(SYS_shmctl, [segment, info, buffer]);
        arena.succeeds(SYS_shmctl, [segment, 14, buffer]);
        arena.succeeds(SYS_shmctl, [segment, 0, 0]);
    });
}

#[test]
fn posix_message_queues() {
    check(|arena| {
        let name = arena.put_text(&format!("effects-{}", std::process::id()));
        let open = [name, (libc::O_CREAT | libc::O_RDWR) as u64, 0o600, 0];
        let answer = arena.call(SYS_mq_open, open);
        assert!(answer.known);
        if answer.result < 0 {
            eprintln!("no message queues here: {}", answer.result);
            return;
        }
        let queue = owned(answer.result);
        arena.succeeds(libc::SYS_mq_unlink, [name]);
        let (text, priority) = (arena.put(b"hello"), arena.take(4));
        let buffer = arena.take(16 << 10);
        arena.succeeds(SYS_mq_timedsend, [number(&queue), text, 5, 3, 0]);
        let receive = [number(&queue), buffer, 16 << 10, priority, 0];
        let answer = arena.succeeds(SYS_mq_timedreceive, receive);
        assert_eq!(answer.ranges, [(buffer, 5), (priority, 4)]);
        arena.succeeds(SYS_mq_getsetattr, [number(&queue), 0, buffer]);
    });
}

#[test]
fn locks_and_owners() {
    check(|arena| {
        let file = file(b"locked");
        let lock = arena.put_words(&[libc::F_WRLCK as u64, 0, 0, 0]);
        arena.succeeds(SYS_fcntl, [number(&file), libc::F_GETLK as u64, lock]);
        let lock = arena.put_words(&[libc::F_WRLCK as u64, 0, 0, 0]);
        arena.succeeds(SYS_fcntl, [number(&file), libc::F_OFD_GETLK as u64, lock]);
        let (socket, _other) = sockets(libc::SOCK_STREAM);
        let owner = arena.take(8);
        arena.succeeds(SYS_fcntl, [number(&socket), F_GETOWN_EX.into(), owner]);
        assert_eq!(
            arena.succeeds(SYS_fcntl, [number(&file), libc::F_GETFL as u64, owner]).ranges,
            []
        );
    });
}

#[test]
fn terminal_requests() {
    check(|arena| {
        let master = std::fs::File::options().read(true).write(true).open("/dev/ptmx").unwrap();
        let buffer = arena.take(128);
        let number_of_slave = arena.take(4);
        let zero = arena.put(&[0; 4]);
        arena.succeeds(SYS_ioctl, [number(&master), libc::TIOCSPTLCK, zero]);
        arena.succeeds(SYS_ioctl, [number(&master), libc::TIOCGPTN, number_of_slave]);
        for request in [
            libc::TCGETS,
            libc::TCGETS2,
            libc::TIOCGWINSZ,
            libc::TIOCOUTQ,
            libc::FIONREAD,
            libc::TIOCGETD,
            libc::TIOCGEXCL,
            0x8004_5439, // TIOCGPTLCK
            0x8004_5438, // TIOCGPKT
            0x5405,      // TCGETA
        ] {
            arena.succeeds(SYS_ioctl, [number(&master), request, buffer]);
        }
        let size = arena.put(&[24, 0, 80, 0, 0, 0, 0, 0]);
        let set = arena.succeeds(SYS_ioctl, [number(&master), libc::TIOCSWINSZ, size]);
        assert_eq!(set.ranges, []);
        arena.fails(SYS_ioctl, [number(&file(b"")), libc::TIOCGWINSZ, buffer], libc::ENOTTY);
    });
}

#[test]
fn requests_to_files_sockets_and_devices() {
    check(|arena| {
        let buffer = arena.take(8192);
        let mut pipe = [0; 2];
        // SAFETY: the array has room for two descriptors.
        assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
        let [reader, writer] = pipe.map(|fd| owned(fd.into()));
        arena.succeeds(SYS_ioctl, [number(&reader), libc::FIONREAD, buffer]);
        arena.succeeds(SYS_ioctl, [number(&writer), libc::FIOCLEX, buffer]);

        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let list = arena.take(400);
        let request = arena.put_words(&[400 | 0xffff_ffff << 32, list]);
        let answer = arena.succeeds(SYS_ioctl, [number(&socket), 0x8912, request]);
        assert!(answer.ranges.iter().any(|&(start, len)| start == list && len % 40 == 0));
        for getter in [0x8913, 0x8915, 0x891b, 0x8921, 0x8927, 0x8933, 0x8942, 0x8970] {
            let mut interface = [0x77; 40];
            interface[..16].copy_from_slice(b"lo\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
            let interface = arena.put(&interface);
            let answer = arena.call(SYS_ioctl, [number(&socket), getter, interface]);
            assert!(answer.known);
        }

        let path = std::env::temp_dir().join(format!("effects-requests-{}", std::process::id()));
        let mut plain = std::fs::File::create(&path).unwrap();
        plain.write_all(&[1; 20000]).unwrap();
        plain.sync_all().unwrap();
        std::fs::remove_file(&path).unwrap();
        for request in [
            0x8008_6601u64, // FS_IOC_GETFLAGS
            0x8008_7601,    // FS_IOC_GETVERSION
            0x801c_581f,    // FS_IOC_FSGETXATTR
            0x8100_9431,    // FS_IOC_GETFSLABEL
            2,              // FIGETBSZ
            0x5460,         // FIOQSIZE
        ] {
            let answer = arena.call(SYS_ioctl, [number(&plain), request, buffer]);
            assert!(answer.known, "{request:#x}");
        }
        let extents = arena.take(32 + 4 * 56);
        arena.set(extents, &[0; 32]);
        arena.set(extents + 8, &u64::MAX.to_le_bytes());
        arena.set(extents + 24, &4u32.to_le_bytes());
        let answer = arena.call(SYS_ioctl, [number(&plain), 0xc020_660b, extents]);
        assert!(answer.known);

        let random = std::fs::File::open("/dev/urandom").unwrap();
        arena.succeeds(SYS_ioctl, [number(&random), 0x8004_5200, buffer]);
    });
}

/// Memory in which every byte is the same, and which ends nowhere.
struct Filled(u8);

impl Memory for Filled {
    fn read(&self, _: u64, bytes: &mut [u8]) -> bool {
        bytes.fill(self.0);
        true
    }
}

/// A request that nobody looked at: its number says that it writes 8 bytes, not what they point to.
#[test]
fn encoded_requests_are_reported_but_not_known() {
    let mut ranges = Vec::new();
    let args = [3, 0x8008_ff01, 0x1000, 0, 0, 0];
    let known = written(&Absent, SYS_ioctl as u32, &args, 0, &mut |start, len| {
        ranges.push((start, len));
    });
    assert!(!known);
    assert_eq!(ranges, [(0x1000, 8)]);
}

/// Memory that is not there.
struct Absent;

impl Memory for Absent {
    fn read(&self, _: u64, _: &mut [u8]) -> bool {
        false
    }
}

#[test]
fn every_call_is_listed_or_left_out_on_purpose() {
    let refused = -i64::from(libc::EPERM) as u64;
    let mut unknown = Vec::new();
    for number in 0..600 {
        let mut ranges = 0;
        let args = [1, 0x5401, 0, 0, 0, 0];
        if !written(&Filled(0), number, &args, refused, &mut |_, _| ranges += 1) {
            unknown.extend(retro_abi::syscall_names::name(number.into()));
        }
    }
    assert_eq!(
        unknown,
        [
            "ptrace",
            "quotactl",
            "io_submit",
            "restart_syscall",
            "keyctl",
            "vmsplice",
            "process_vm_writev",
            "bpf",
            "uretprobe",
            "uprobe",
            "io_uring_enter",
            "io_uring_register",
            "quotactl_fd",
        ]
    );
}

#[test]
fn calls_that_do_not_exist_wrote_nothing() {
    let absent = -i64::from(libc::ENOSYS) as u64;
    assert!(written(&Absent, 100_000, &[1; 6], absent, &mut |_, _| panic!("wrote")));
    assert!(!written(&Absent, 100_000, &[1; 6], 0, &mut |_, _| panic!("wrote")));
}

#[test]
fn a_bad_pointer_leaves_it_open_what_was_written() {
    let bad = -i64::from(libc::EFAULT) as u64;
    let [status, close] = [SYS_stat, libc::SYS_close]
        .map(|call| written(&Absent, call as u32, &[1; 6], bad, &mut |_, _| panic!("wrote")));
    assert!(!status);
    assert!(close);
}

#[test]
fn hostile_values_are_survived() {
    let memories: [&dyn Memory; 4] = [&Filled(0), &Filled(0xff), &Filled(0x7f), &Absent];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        match state % 5 {
            0 => 0,
            1 => u64::MAX - (state >> 40) % 64,
            2 => (state >> 32) % 2048,
            3 => 1 << ((state >> 20) % 64),
            _ => state,
        }
    };
    for number in 0..480 {
        for round in 0..400 {
            let args = [random(), random(), random(), random(), random(), random()];
            let mut ranges = 0u64;
            written(memories[round % 4], number, &args, random(), &mut |start, len| {
                assert!(start != 0 && len != 0 && start.checked_add(len).is_some());
                ranges += 1;
            });
            assert!(ranges <= 1024 * 1030, "call {number} reports without end");
        }
    }
}
