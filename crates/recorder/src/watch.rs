//! Waiting for what the doorbell does not tell: the death of recorded processes, and the supervisor.
//!
//! A process that is killed cannot ring. A descriptor of the process (`pidfd`) becomes readable when it has
//! ended; one thread waits for all of them and for the supervisor's line, and rings the doorbell itself.
//! Where the system gives no such descriptors, the process table is looked at now and then.
//!
//! Which process to watch is what the memory that engines write says, and a guest may have written there. Whoever cannot
//! be recorded counts as ended: this process, whoever was there before it, and, once the run is over, whoever does not have
//! the memory for logs ([`has_file`]). Otherwise the recorder would wait for them for ever.
//!
//! Invariant: every event is reported once; the supervisor's line is silent until [`Watcher::listen`] arms it
//! again.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::unistd::getppid;
use retro_abi::kick;

use crate::Ending;

/// The event of the supervisor's line; all others are tokens given to [`Watcher::watch`].
pub const LINE: u64 = u64::MAX;

/// Waits for events.
pub struct Watcher {
    epoll: Arc<Epoll>,
    events: Receiver<u64>,
    /// When this process started, and its parent.
    start: Option<u64>,
    parent: (i32, Option<u64>),
}

/// How the end of one process is noticed.
#[derive(Debug)]
pub enum Watch {
    /// It has ended already.
    Ended,
    /// Its token will be reported, as long as the descriptor is open.
    Reported { pid: i32, process: OwnedFd },
    /// By asking [`Watch::has_ended`]. The process is the one that started at this time.
    Asked { pid: i32, start: u64 },
}

impl Watcher {
    /// Starts the thread; `on_event` is called from it after an event was queued.
    pub fn start(line: BorrowedFd, on_event: impl Fn() + Send + 'static) -> io::Result<Watcher> {
        let epoll = Arc::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        epoll.add(line, interest(LINE))?;
        let (sender, events) = channel();
        let waiting = epoll.clone();
        thread::Builder::new().name("watcher".into()).spawn(move || {
            let mut ready = [EpollEvent::empty(); 64];
            loop {
                let count = match waiting.wait(&mut ready, EpollTimeout::NONE) {
                    Ok(count) => count,
                    Err(Errno::EINTR) => continue,
                    Err(_) => return,
                };
                for event in &ready[..count] {
                    if sender.send(event.data()).is_err() {
                        return;
                    }
                }
                on_event();
            }
        })?;
        let parent = getppid().as_raw();
        let start = start_time(std::process::id() as i32);
        Ok(Watcher { epoll, events, start, parent: (parent, start_time(parent)) })
    }

    /// The next event that has been noticed.
    pub fn next(&self) -> Option<u64> {
        self.events.try_recv().ok()
    }

    /// Makes the supervisor's line report again.
    pub fn listen(&self, line: BorrowedFd) {
        // A line that cannot be armed stays silent, as that of a supervisor that never ends.
        let _ = self.epoll.modify(line, &mut interest(LINE));
    }

    /// Watches a process; its end will be reported by `token`, unless the result has to be asked.
    pub fn watch(&self, pid: i32, token: u64) -> Watch {
        if pid <= 0 || pid == std::process::id() as i32 || self.was_there_before(pid) {
            return Watch::Ended;
        }
        let reported = open_process(pid).and_then(|process| {
            self.epoll.add(process.as_fd(), interest(token))?;
            Ok(process)
        });
        match reported {
            Ok(process) => Watch::Reported { pid, process },
            Err(Errno::ESRCH) => Watch::Ended,
            // No such system call, no descriptors left, no permission.
            Err(_) => match start_time(pid) {
                Some(start) => Watch::Asked { pid, start },
                None => Watch::Ended,
            },
        }
    }
}

impl Watcher {
    /// Whether a process is older than this one, so that it cannot be of the run that this one records.
    fn was_there_before(&self, pid: i32) -> bool {
        let start = start_time(pid);
        // The parent may have started in the very same unit of time.
        (pid, start) == self.parent || self.start.zip(start).is_some_and(|(own, other)| other < own)
    }
}

/// Whether a process has a file in its memory; none if that cannot be told.
pub fn has_file(pid: i32, inode: u64) -> Option<bool> {
    let maps = fs::read(format!("/proc/{pid}/maps")).ok()?;
    let inode = inode.to_string();
    // The inode is the fifth field.
    let mut lines = maps.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).peekable();
    lines.peek()?;
    Some(lines.any(|line| {
        let mut fields = line.split(|&byte| byte == b' ').filter(|field| !field.is_empty());
        fields.nth(4) == Some(inode.as_bytes())
    }))
}

impl Watch {
    /// How the process ended, as far as the kernel tells those who are not its parent.
    pub fn ending(&self) -> Option<Ending> {
        let Watch::Reported { pid, process } = self else { return None };
        // One that is not reaped yet still has its number, and one that is has left word behind.
        let status = reaped_status(process)
            .or_else(|| zombie_status(*pid))
            .or_else(|| reaped_status(process))?;
        match (status & 0x7f, status >> 8 & 0xff) {
            (0, status) => Some(Ending::Exited(status)),
            (signal, _) => Some(Ending::Killed(signal)),
        }
    }

    /// Whether the process is known to have ended without a report.
    pub fn has_ended(&self) -> bool {
        match *self {
            Watch::Ended => true,
            Watch::Reported { .. } => false,
            Watch::Asked { pid, start } => start_time(pid) != Some(start),
        }
    }
}

/// Whether a thread is traced: it would stop at every signal until its tracer looks.
fn is_traced(pid: i32, thread: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/task/{thread}/status"));
    let tracer = |status: &str| {
        status.lines().find_map(|line| line.strip_prefix("TracerPid:")).map(|pid| pid.trim() != "0")
    };
    status.ok().and_then(|status| tracer(&status)).unwrap_or(false)
}

impl Watch {
    /// Kicks a thread of the process, so that it leaves guest code for a moment. Not one that is traced, and not where processes have no descriptors: another
    /// may have the number by now.
    pub fn kick(&self, pid: i32, thread: i32) {
        let Watch::Reported { process, .. } = self else { return };
        if has_ended(process.as_fd()) || is_traced(pid, thread) {
            return;
        }
        let info = kick::info();
        // SAFETY: the kernel reads the structure, which is as large as it must be.
        unsafe {
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, thread, kick::SIGNAL, info.as_ptr())
        };
    }
}

/// Whether the process of a descriptor has ended.
fn has_ended(process: BorrowedFd) -> bool {
    let mut asked = [PollFd::new(process, PollFlags::POLLIN)];
    !matches!(poll(&mut asked, PollTimeout::ZERO), Ok(0))
}

fn interest(token: u64) -> EpollEvent {
    EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLONESHOT, token)
}

fn open_process(pid: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: the call touches no memory of this process. The descriptor is close-on-exec.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let descriptor = Errno::result(result)?;
    // SAFETY: the descriptor was just created and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

/// Fields of `/proc/PID/stat`, by their numbers in proc(5).
const STATE: usize = 3;
const START_TIME: usize = 22;
const EXIT_CODE: usize = 52;

/// Fields of a process, from its state on.
fn fields_of(pid: i32) -> Option<Vec<String>> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses that may hold anything.
    let after_name = text.iter().rposition(|&byte| byte == b')')? + 1;
    let fields = std::str::from_utf8(&text[after_name..]).ok()?;
    Some(fields.split_ascii_whitespace().map(str::to_owned).collect())
}

/// When a process started, in the kernel's own unit; none if it has ended, reaped or not.
fn start_time(pid: i32) -> Option<u64> {
    let fields = fields_of(pid)?;
    match fields.first()?.as_str() {
        "Z" | "X" | "x" => None,
        _ => fields.get(START_TIME - STATE)?.parse().ok(),
    }
}

/// The status that the parent of a process will be told when it waits.
fn zombie_status(pid: i32) -> Option<i32> {
    let fields = fields_of(pid)?;
    (fields.first()? == "Z").then(|| fields.get(EXIT_CODE - STATE)?.parse().ok())?
}

/// The status that the parent of a process was told. Kernels before 6.15 do not say.
fn reaped_status(process: &OwnedFd) -> Option<i32> {
    /// `PIDFD_GET_INFO`, with the structure that the first kernels had.
    const GET_INFO: libc::c_ulong = 0xc040_ff0b;
    /// `PIDFD_INFO_EXIT`
    const EXIT: u64 = 1 << 3;
    /// `struct pidfd_info`: what is wanted and told, then what is not of interest, the status at the end.
    #[repr(C)]
    struct Information {
        mask: u64,
        others: [u32; 13],
        status: i32,
    }
    let mut information = Information { mask: EXIT, others: [0; 13], status: 0 };
    // SAFETY: the descriptor is open, and the number says how large the structure is that the kernel fills in.
    let result = unsafe { libc::ioctl(process.as_raw_fd(), GET_INFO, &raw mut information) };
    (result == 0 && information.mask & EXIT != 0).then_some(information.status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};
    use std::sync::mpsc::sync_channel;

    fn child() -> Child {
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
    }

    #[test]
    fn a_death_is_reported_before_it_is_reaped() {
        let (line, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let (noticed, notice) = sync_channel(1);
        let watcher = Watcher::start(line.as_fd(), move || noticed.send(()).unwrap()).unwrap();
        let mut child = child();
        let watch = watcher.watch(child.id() as i32, 17);
        assert!(!watch.has_ended());
        assert_eq!(watcher.next(), None);
        child.kill().unwrap();
        notice.recv().unwrap();
        assert_eq!(watcher.next(), Some(17));
        assert_eq!(watcher.next(), None);
        child.wait().unwrap();
        assert!(watcher.watch(child.id() as i32, 17).has_ended());
        assert!(watcher.watch(0, 17).has_ended());
        assert!(watcher.watch(-1, 17).has_ended());
        // Neither the recorder itself nor what was there before is recorded.
        assert!(watcher.watch(std::process::id() as i32, 17).has_ended());
        assert!(watcher.watch(1, 17).has_ended());
    }

    #[test]
    fn a_process_has_the_files_that_it_maps() {
        use std::os::unix::fs::MetadataExt;
        let own = fs::metadata("/proc/self/exe").unwrap().ino();
        assert_eq!(has_file(std::process::id() as i32, own), Some(true));
        assert_eq!(has_file(std::process::id() as i32, u64::MAX), Some(false));
        assert_eq!(has_file(-1, own), None);
    }

    #[test]
    fn the_kernel_tells_how_a_process_ended() {
        let (line, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let (noticed, notice) = sync_channel(1);
        let watcher = Watcher::start(line.as_fd(), move || noticed.send(()).unwrap()).unwrap();
        let mut child = child();
        let watch = watcher.watch(child.id() as i32, 17);
        assert_eq!(watch.ending(), None);
        child.kill().unwrap();
        notice.recv().unwrap();
        assert_eq!(watch.ending(), Some(Ending::Killed(9)));
        child.wait().unwrap();
        // Old kernels forget it.
        assert!(matches!(watch.ending(), Some(Ending::Killed(9)) | None));
    }

    #[test]
    fn asking_tells_the_living_from_the_dead_and_from_others() {
        let mut child = child();
        let pid = child.id() as i32;
        let start = start_time(pid).unwrap();
        assert!(!Watch::Asked { pid, start }.has_ended());
        assert!(Watch::Asked { pid, start: start - 1 }.has_ended());
        child.kill().unwrap();
        // Ended and not reaped.
        while start_time(pid).is_some() {}
        assert!(Watch::Asked { pid, start }.has_ended());
        child.wait().unwrap();
        assert!(Watch::Asked { pid, start }.has_ended());
    }
}
