//! Keeping replay processes within bounds, and making sure that none is left.
//!
//! The problem: code of a recording that somebody sent runs in these processes. The sandbox keeps it from everything but
//! time, memory and life itself: it may run where nobody waits for it, use up the memory, and ignore that its owner is gone.
//!
//! The strategy: all replay processes of a recording are in one group of processes, which they cannot leave, and which a
//! *guard* kills as a whole when its socket closes: because the last session is gone, or because this process is, however it
//! ended. Meanwhile a thread looks at the processes a few times a second and ends those that take what they are not given:
//!
//! - processor time while nobody waits for an answer of theirs;
//! - more memory, all of them together, than [`memory_limit`] says.
//!
//! How many there are needs no limit of its own: a process cannot make another one that was not asked for (see the
//! engine's `sandbox`).
//!
//! Invariant: a process that has been waited for is never killed, since its number may be another's by then.

use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, Weak};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::Pid;
use retro_abi::replay::GUARD;
use retro_recording::budget::{MEMORY_VARIABLE, machine_memory, said_limit};

use crate::lock;
use crate::process::complaints_file;

/// How often processes are looked at.
const GLANCE: Duration = Duration::from_millis(200);

/// Processor time, in hundredths of a second, that a process may take while nobody waits for it: it fills the other half of
/// a stream while one half is looked at.
const UNASKED_TIME: u64 = 300;

/// Of the memory of the machine, so many fourths are for replay processes, if the user says nothing else.
const MEMORY_FOURTHS: u64 = 3;

/// Size of a page, which `/proc` counts memory in.
const PAGE: u64 = 4096;

/// Looks after the replay processes of one recording.
#[derive(Debug)]
pub(crate) struct Warden {
    engine: PathBuf,
    guard: Mutex<Option<Guard>>,
    watched: Arc<WatchedProcesses>,
}

/// The process that ends the others.
#[derive(Debug)]
struct Guard {
    child: Child,
    /// When this is closed, the guard kills its group and itself.
    line: Option<OwnedFd>,
}

#[derive(Debug, Default)]
struct WatchedProcesses {
    processes: Mutex<Vec<Weak<Watched>>>,
    is_over: Mutex<bool>,
    over: Condvar,
}

/// A process that is looked after.
#[derive(Debug)]
pub(crate) struct Watched {
    pid: Pid,
    /// Whether somebody waits for an answer of it.
    is_awaited: AtomicBool,
    /// How many answers have come.
    answers: AtomicU64,
    /// Whether it has been waited for, so that its number means nothing any more.
    is_gone: Mutex<bool>,
    /// Why it was ended, if it was.
    reason: OnceLock<String>,
}

impl Warden {
    /// For processes that execute the engine in a file.
    pub(crate) fn new(engine: &Path) -> Arc<Warden> {
        let watched = Arc::default();
        Arc::new(Warden { engine: engine.to_owned(), guard: Mutex::new(None), watched })
    }

    /// Starts a process in the group. If there is no guard yet, or not any more, there is one first.
    pub(crate) fn spawn(&self, mut command: Command) -> io::Result<Child> {
        let mut guard = lock(&self.guard);
        if let Some(known) = guard.as_ref() {
            match command.process_group(known.group()).spawn() {
                // The group is gone with its guard.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                spawned => return spawned,
            }
        } else {
            self.start_watching()?;
        }
        let started = guard.insert(Guard::start(&self.engine)?);
        command.process_group(started.group()).spawn()
    }

    /// Looks after a process from now on.
    pub(crate) fn watch(&self, pid: Pid) -> Arc<Watched> {
        let watched = Arc::new(Watched {
            pid,
            is_awaited: AtomicBool::new(false),
            answers: AtomicU64::new(0),
            is_gone: Mutex::new(false),
            reason: OnceLock::new(),
        });
        let mut processes = lock(&self.watched.processes);
        processes.retain(|known| known.strong_count() > 0);
        processes.push(Arc::downgrade(&watched));
        watched
    }

    fn start_watching(&self) -> io::Result<()> {
        let watched = Arc::clone(&self.watched);
        let limit = memory_limit();
        thread::Builder::new()
            .name("replay-warden".into())
            .spawn(move || watched.look_after(limit))
            .map(drop)
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        *lock(&self.watched.is_over) = true;
        self.watched.over.notify_all();
        // Sessions hold on to their warden, so there are none left.
        if let Some(guard) = lock(&self.guard).take() {
            guard.end();
        }
    }
}

impl Guard {
    fn start(engine: &Path) -> io::Result<Guard> {
        let (ours, theirs) =
            socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)?;
        let complaints = complaints_file()?;
        let mut child = Command::new(engine);
        let configuration = format!("policy=replay;path={}", String::from_utf8_lossy(GUARD));
        child.env_clear().env("RETRO_ENGINE", configuration).process_group(0);
        child.stdin(theirs).stdout(complaints.try_clone()?).stderr(complaints);
        Ok(Guard { child: child.spawn()?, line: Some(ours) })
    }

    fn group(&self) -> i32 {
        self.child.id() as i32
    }

    fn end(mut self) {
        self.line = None;
        // It ends at once, and takes with it whatever is left.
        let _ = self.child.wait();
    }
}

impl WatchedProcesses {
    /// Looks at the processes until there is nobody to look for.
    fn look_after(&self, limit: Option<u64>) {
        let mut seen: Vec<(Pid, Activity)> = Vec::new();
        let mut is_over = lock(&self.is_over);
        loop {
            let waited = self.over.wait_timeout(is_over, GLANCE);
            is_over = waited.map_or_else(|poisoned| poisoned.into_inner().0, |(guard, _)| guard);
            if *is_over {
                return;
            }
            let processes: Vec<Arc<Watched>> =
                lock(&self.processes).iter().filter_map(Weak::upgrade).collect();
            seen.retain(|(pid, _)| processes.iter().any(|process| process.pid == *pid));
            for process in &processes {
                let before = seen.iter_mut().find(|(pid, _)| *pid == process.pid);
                let Some(now) = Activity::of(process) else { continue };
                match before {
                    Some((_, known)) if known.answers == now.answers && !now.is_awaited => {
                        if now.time.saturating_sub(known.time) > UNASKED_TIME {
                            process.end("it ran on while nobody had asked it anything");
                        }
                    }
                    Some((_, known)) => *known = now,
                    None => seen.push((process.pid, now)),
                }
            }
            if let Some(limit) = limit {
                check_memory(&processes, limit);
            }
        }
    }
}

/// What a process has done so far.
#[derive(Clone, Copy, Debug)]
struct Activity {
    /// Processor time, in hundredths of a second.
    time: u64,
    answers: u64,
    is_awaited: bool,
}

impl Activity {
    /// None if it cannot be told: it is gone, or there is no `/proc`.
    fn of(process: &Watched) -> Option<Activity> {
        let is_awaited = process.is_awaited.load(Ordering::Relaxed);
        let answers = process.answers.load(Ordering::Relaxed);
        let text = fs::read(format!("/proc/{}/stat", process.pid)).ok()?;
        // The second field is a name in parentheses that may hold anything.
        let after_name = text.iter().rposition(|&byte| byte == b')')? + 1;
        let mut fields = std::str::from_utf8(&text[after_name..]).ok()?.split_ascii_whitespace();
        // The state is field 3; times of the process and of the system for it are fields 14 and 15.
        let user: u64 = fields.nth(14 - 3)?.parse().ok()?;
        let system: u64 = fields.next()?.parse().ok()?;
        Some(Activity { time: user + system, answers, is_awaited })
    }
}

/// Ends the largest process if all together take more than they may.
fn check_memory(processes: &[Arc<Watched>], limit: u64) {
    // Counts what copies share for each of them; looking closer takes longer.
    let sizes = processes.iter().map(|process| resident(process.pid).unwrap_or(0));
    if sizes.sum::<u64>() <= limit {
        return;
    }
    let shares: Vec<u64> = processes.iter().map(|process| share(process.pid)).collect();
    let all: u64 = shares.iter().sum();
    let largest = shares.iter().zip(processes).max_by_key(|(size, _)| **size);
    if let Some((_, process)) = largest
        && all > limit
    {
        process.end(&format!(
            "replay processes took {} MiB of memory, more than {} MiB: {MEMORY_VARIABLE} allows more",
            all >> 20,
            limit >> 20
        ));
    }
}

/// Bytes in memory.
fn resident(pid: Pid) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    Some(text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()? * PAGE)
}

/// Bytes in memory, with what several processes share counted once.
fn share(pid: Pid) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kilobytes = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kilobytes.map(|size| size << 10).or_else(|| resident(pid)).unwrap_or(0)
}

/// Bytes that the replay processes of a recording may take; none if nothing is known of this machine.
fn memory_limit() -> Option<u64> {
    said_limit().or_else(|| Some(machine_memory()? / 4 * MEMORY_FOURTHS))
}

impl Watched {
    /// Somebody waits for an answer until the result is dropped.
    pub(crate) fn awaited(&self) -> Awaited<'_> {
        self.is_awaited.store(true, Ordering::Relaxed);
        Awaited(self)
    }

    /// Why it was ended by us, if it was.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str)
    }

    /// Runs what waits for the process; from then on its number means nothing.
    pub(crate) fn bury<T>(&self, wait: impl FnOnce() -> T) -> T {
        let mut is_gone = lock(&self.is_gone);
        *is_gone = true;
        wait()
    }

    fn end(&self, reason: &str) {
        let is_gone = lock(&self.is_gone);
        if !*is_gone {
            let _ = self.reason.set(reason.to_owned());
            let _ = kill(self.pid, Signal::SIGKILL);
        }
    }
}

/// While this lives, a process works for somebody.
pub(crate) struct Awaited<'a>(&'a Watched);

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.0.is_awaited.store(false, Ordering::Relaxed);
        self.0.answers.fetch_add(1, Ordering::Relaxed);
    }
}

/// When memory runs out, the system is to end this process and no other.
pub(crate) fn offer_to_the_system(pid: Pid) {
    let file = fs::OpenOptions::new().write(true).open(format!("/proc/{pid}/oom_score_adj"));
    let _ = file.and_then(|mut file| file.write_all(b"1000"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_limit() {
        assert!(memory_limit().is_some_and(|limit| limit > 1 << 20));
    }
}
