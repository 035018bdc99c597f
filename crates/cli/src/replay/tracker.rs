//! Follows the descriptors of all threads of a process through its system calls, and finds what it writes to its
//! standard output and error.
//!
//! Threads share their descriptors, unless `clone` was told otherwise. The child of a `vfork` appears as a thread
//! in its parent's log until it executes a program, with descriptors of its own.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use libc::{c_int, c_long};

use super::happenings::{Call, Happening, Instant};
use super::output_calls::{Data, is_asynchronous, output_call};
use super::streams::{Descriptors, Stream};

/// Threads that are followed; more would only be in a log that was made to use up memory.
const THREADS_LIMIT: usize = 1 << 16;

/// Bytes of a path that can name a stream.
const PATH_LIMIT: u64 = 64;

/// Data that is on its way to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The thread.
    pub thread: u32,
    /// When the data was in memory.
    pub at: Instant,
    /// Where it goes.
    pub stream: Stream,
    /// Where it is.
    pub data: Data,
    /// What the call returned, or for one in progress, the most that it can.
    pub amount: u64,
}

/// What a happening means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing for the output.
    Nothing,
    /// Something was written.
    Written(Written),
    /// A file was opened for writing; its path is here in memory, and may be another name of a stream.
    Opened(Opened),
    /// A call was made whose effects on the output cannot be known.
    Asynchronous,
    /// There is a child; its log, if it begins with one, and its descriptors.
    Child {
        /// Its process id.
        pid: u32,
        /// Its log.
        log: Option<u64>,
        /// Its descriptors.
        descriptors: Descriptors,
    },
    /// A child was waited for.
    Reaped(u32),
}

/// A file that was opened for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// By whom.
    pub thread: u32,
    /// When its path was in memory.
    pub at: Instant,
    /// Where its path is.
    pub path: u64,
    /// Bytes of it that are of interest.
    pub length: u64,
    descriptor: i32,
    close_on_exec: bool,
}

/// The threads of a process.
pub struct Tracker {
    threads: BTreeMap<u32, Thread>,
    /// What a thread has that is not known.
    first: Rc<RefCell<Descriptors>>,
    /// What the last program that was executed begins with, by the thread that executed it.
    executed: BTreeMap<u32, Descriptors>,
    last_executed: Option<Descriptors>,
    /// All threads that ever began.
    began: BTreeSet<u32>,
}

struct Thread {
    descriptors: Rc<RefCell<Descriptors>>,
    call: Option<Call>,
    /// The last `clone` that has returned: what it returned, and whether the child shares descriptors.
    cloned: Option<(i64, bool)>,
}

impl Tracker {
    /// Of a process that begins with these descriptors.
    pub fn new(descriptors: Descriptors) -> Tracker {
        Tracker {
            threads: BTreeMap::new(),
            first: Rc::new(RefCell::new(descriptors)),
            executed: BTreeMap::new(),
            last_executed: None,
            began: BTreeSet::new(),
        }
    }

    /// Whether a thread has run in this log. The child of a `vfork` has, even if it is gone without a log of its own.
    pub fn has_run(&self, thread: u32) -> bool {
        self.began.contains(&thread)
    }

    /// What the program begins with that was executed in place of this one.
    pub fn after_exec(&self) -> Descriptors {
        self.last_executed.clone().unwrap_or_else(|| self.first.borrow().after_exec())
    }

    /// Takes what happens next.
    pub fn take(&mut self, happening: Happening) -> Outcome {
        match happening {
            Happening::Called { thread, call } => self.called(thread, call),
            Happening::Returned { thread, result } => self.returned(thread, result),
            Happening::Began { thread, before } => self.began(thread, before),
            Happening::Ended { thread } => {
                self.threads.remove(&thread);
                Outcome::Nothing
            }
            Happening::Forked { thread, pid, log } => {
                // The child of a `vfork` has executed a program already.
                let executed = self.executed.remove(&pid);
                self.threads.remove(&pid);
                let descriptors =
                    executed.unwrap_or_else(|| self.descriptors(thread).borrow().clone());
                Outcome::Child { pid, log, descriptors }
            }
            Happening::Reaped { pid } => Outcome::Reaped(pid),
        }
    }

    /// Calls in progress that write to a stream and were made before a time.
    pub fn in_progress(&self, before: u64) -> Vec<Written> {
        let calls = self.threads.iter().filter_map(|(&id, thread)| {
            let call = thread.call.as_ref().filter(|call| call.at.time <= before)?;
            self.written(id, thread, call, None)
        });
        let mut calls: Vec<Written> = calls.collect();
        calls.sort_by_key(|written| written.at.time);
        calls
    }

    /// The path of a file that was opened is known: it may be another name of a stream.
    pub fn named(&mut self, opened: &Opened, path: &[u8]) {
        let path = path.split(|&byte| byte == 0).next().unwrap_or_default();
        let descriptors = self.descriptors(opened.thread);
        let mut descriptors = descriptors.borrow_mut();
        let stream = descriptor_named(path).and_then(|fd| descriptors.stream(fd));
        match stream {
            Some(stream) => {
                descriptors.open(opened.descriptor, stream, opened.close_on_exec);
            }
            None => descriptors.close(opened.descriptor),
        }
    }

    fn descriptors(&self, thread: u32) -> Rc<RefCell<Descriptors>> {
        Rc::clone(self.threads.get(&thread).map_or(&self.first, |thread| &thread.descriptors))
    }

    fn thread(&mut self, id: u32) -> &mut Thread {
        if self.threads.len() > THREADS_LIMIT {
            self.threads.clear();
        }
        let descriptors = &self.first;
        self.threads.entry(id).or_insert_with(|| Thread {
            descriptors: Rc::clone(descriptors),
            call: None,
            cloned: None,
        })
    }

    fn called(&mut self, thread: u32, call: Call) -> Outcome {
        self.thread(thread).call = Some(call);
        if matches!(call.number as c_long, libc::SYS_execve | libc::SYS_execveat) {
            let descriptors = self.descriptors(thread).borrow().after_exec();
            if self.executed.len() < THREADS_LIMIT {
                self.executed.insert(thread, descriptors.clone());
            }
            self.last_executed = Some(descriptors);
        }
        Outcome::Nothing
    }

    fn began(&mut self, id: u32, before: u32) -> Outcome {
        if self.began.len() < THREADS_LIMIT {
            self.began.insert(id);
        }
        let creator = self.threads.get(&before);
        // While a `vfork` waits for its child, its call is in progress.
        let is_awaited = creator.and_then(|creator| creator.call).is_some_and(|call| {
            match call.number as c_long {
                libc::SYS_vfork | libc::SYS_clone3 => true,
                libc::SYS_clone => call.args[0] & libc::CLONE_FILES as u64 == 0,
                _ => false,
            }
        });
        let shares_nothing = |thread: &Thread| thread.cloned == Some((i64::from(id), false));
        let parent = if is_awaited {
            creator
        } else {
            self.threads.values().find(|thread| shares_nothing(thread))
        };
        let descriptors = match parent {
            Some(parent) => Rc::new(RefCell::new(parent.descriptors.borrow().clone())),
            None => self.descriptors(before),
        };
        self.thread(id).descriptors = descriptors;
        Outcome::Nothing
    }

    fn returned(&mut self, id: u32, result: i64) -> Outcome {
        let Some(call) = self.thread(id).call.take() else { return Outcome::Nothing };
        let Some(thread) = self.threads.get(&id) else { return Outcome::Nothing };
        if let Some(written) = self.written(id, thread, &call, Some(result)) {
            return Outcome::Written(written);
        }
        if is_asynchronous(call.number) && result > 0 {
            return Outcome::Asynchronous;
        }
        let shared = Rc::clone(&thread.descriptors);
        let mut descriptors = shared.borrow_mut();
        let args = call.args;
        let fd = args[0] as i32;
        let new = result as i32;
        let succeeded = result >= 0;
        match call.number as c_long {
            libc::SYS_execve | libc::SYS_execveat => {
                // It failed.
                self.executed.remove(&id);
            }
            libc::SYS_close if result != -i64::from(libc::EBADF) => descriptors.close(fd),
            libc::SYS_dup if succeeded => descriptors.duplicate(fd, new, false),
            libc::SYS_dup2 if succeeded && fd != new => descriptors.duplicate(fd, new, false),
            libc::SYS_dup3 if succeeded => {
                descriptors.duplicate(fd, new, has(args[2], libc::O_CLOEXEC));
            }
            libc::SYS_fcntl if succeeded => match args[1] as c_int {
                libc::F_DUPFD => descriptors.duplicate(fd, new, false),
                libc::F_DUPFD_CLOEXEC => descriptors.duplicate(fd, new, true),
                libc::F_SETFD => {
                    let close = has(args[2], libc::FD_CLOEXEC);
                    descriptors.set_close_on_exec(fd as u32, fd as u32, close);
                }
                _ => {}
            },
            libc::SYS_ioctl if succeeded => match args[1] {
                libc::FIOCLEX => descriptors.set_close_on_exec(fd as u32, fd as u32, true),
                libc::FIONCLEX => descriptors.set_close_on_exec(fd as u32, fd as u32, false),
                _ => {}
            },
            libc::SYS_close_range if succeeded => {
                drop(descriptors);
                self.close_range(id, args);
            }
            libc::SYS_unshare if succeeded && has(args[0], libc::CLONE_FILES) => {
                drop(descriptors);
                self.unshare(id);
            }
            libc::SYS_clone | libc::SYS_clone3 if succeeded => {
                // `clone3` has its flags in memory; threads that outlive it all share.
                let shares =
                    call.number == libc::SYS_clone3 as u64 || has(args[0], libc::CLONE_FILES);
                drop(descriptors);
                self.thread(id).cloned = Some((result, shares));
            }
            libc::SYS_open | libc::SYS_openat | libc::SYS_creat if succeeded => {
                return opened(id, &call, new);
            }
            _ => {}
        }
        Outcome::Nothing
    }

    fn close_range(&mut self, id: u32, args: [u64; 6]) {
        if has(args[2], libc::CLOSE_RANGE_UNSHARE as c_int) {
            self.unshare(id);
        }
        let (first, last) = (args[0] as u32, args[1] as u32);
        let descriptors = self.descriptors(id);
        if has(args[2], libc::CLOSE_RANGE_CLOEXEC as c_int) {
            descriptors.borrow_mut().set_close_on_exec(first, last, true);
        } else {
            descriptors.borrow_mut().close_range(first, last);
        }
    }

    fn unshare(&mut self, id: u32) {
        let own = self.descriptors(id).borrow().clone();
        self.thread(id).descriptors = Rc::new(RefCell::new(own));
    }

    /// What a call writes to a stream, if it does. Without a result it is in progress.
    fn written(
        &self,
        id: u32,
        thread: &Thread,
        call: &Call,
        result: Option<i64>,
    ) -> Option<Written> {
        let output = output_call(call.number, &call.args)?;
        let stream = thread.descriptors.borrow().stream(output.descriptor)?;
        let amount = match result {
            Some(result) => u64::try_from(result).ok().filter(|&amount| amount > 0)?,
            None => output.most,
        };
        Some(Written { thread: id, at: call.at, stream, data: output.data, amount })
    }
}

fn has(flags: u64, flag: c_int) -> bool {
    flags as c_int & flag == flag
}

/// Files that are opened for reading alone cannot be written to.
fn opened(thread: u32, call: &Call, descriptor: i32) -> Outcome {
    let args = call.args;
    let (path, flags) = match call.number as c_long {
        libc::SYS_creat => (args[0], libc::O_WRONLY as u64),
        libc::SYS_open => (args[0], args[1]),
        _ => (args[1], args[2]),
    };
    if flags as c_int & libc::O_ACCMODE == libc::O_RDONLY {
        return Outcome::Nothing;
    }
    let close_on_exec = has(flags, libc::O_CLOEXEC);
    let length = PATH_LIMIT;
    Outcome::Opened(Opened { thread, at: call.at, path, length, descriptor, close_on_exec })
}

/// The descriptor that a path is another name of.
fn descriptor_named(path: &[u8]) -> Option<i32> {
    match path {
        b"/dev/stdout" => return Some(1),
        b"/dev/stderr" => return Some(2),
        _ => {}
    }
    let number = path.strip_prefix(b"/dev/fd/").or_else(|| path.strip_prefix(b"/proc/self/fd/"))?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIN: u32 = 10;

    struct Scene {
        tracker: Tracker,
        time: u64,
    }

    impl Scene {
        fn new() -> Scene {
            Scene { tracker: Tracker::new(Descriptors::standard()), time: 0 }
        }

        fn enter(&mut self, thread: u32, number: c_long, args: &[u64]) -> Outcome {
            self.time += 1;
            let mut all = [0; 6];
            all[..args.len()].copy_from_slice(args);
            let at = Instant { interval: 0, time: self.time };
            let call = Call { at, number: number as u64, args: all };
            self.tracker.take(Happening::Called { thread, call })
        }

        fn call(&mut self, thread: u32, number: c_long, args: &[u64], result: i64) -> Outcome {
            self.enter(thread, number, args);
            self.tracker.take(Happening::Returned { thread, result })
        }

        /// Where `write` to a descriptor goes.
        fn stream(&mut self, thread: u32, fd: u64) -> Option<Stream> {
            match self.call(thread, libc::SYS_write, &[fd, 0x1000, 5], 5) {
                Outcome::Written(written) => {
                    assert_eq!((written.amount, written.at.time), (5, self.time));
                    Some(written.stream)
                }
                other => {
                    assert_eq!(other, Outcome::Nothing);
                    None
                }
            }
        }
    }

    #[test]
    fn a_shell_moves_its_descriptors() {
        // `echo x >&2`, as bash does it.
        let mut scene = Scene::new();
        scene.call(MAIN, libc::SYS_fcntl, &[1, libc::F_DUPFD as u64, 10], 11);
        scene.call(MAIN, libc::SYS_fcntl, &[11, libc::F_SETFD as u64, 1], 0);
        scene.call(MAIN, libc::SYS_dup2, &[2, 1], 1);
        assert_eq!(scene.stream(MAIN, 1), Some(Stream::Err));
        assert_eq!(scene.tracker.after_exec().stream(11), None);
        scene.call(MAIN, libc::SYS_dup2, &[11, 1], 1);
        scene.call(MAIN, libc::SYS_close, &[11], 0);
        assert_eq!(scene.stream(MAIN, 1), Some(Stream::Out));
        assert_eq!(scene.stream(MAIN, 11), None);
        scene.call(MAIN, libc::SYS_dup2, &[9, 1], -9);
        assert_eq!(scene.stream(MAIN, 1), Some(Stream::Out));
        scene.call(MAIN, libc::SYS_close, &[1], -9);
        assert_eq!(scene.stream(MAIN, 1), Some(Stream::Out));
    }

    #[test]
    fn calls_that_fail_or_write_nothing_are_no_output() {
        let mut scene = Scene::new();
        for result in [-11, 0] {
            let outcome = scene.call(MAIN, libc::SYS_write, &[1, 0x1000, 5], result);
            assert_eq!(outcome, Outcome::Nothing);
        }
    }

    #[test]
    fn the_child_of_a_vfork_has_its_own_descriptors() {
        let mut scene = Scene::new();
        scene.enter(MAIN, libc::SYS_clone3, &[0x2000, 88]);
        scene.tracker.take(Happening::Began { thread: 20, before: MAIN });
        scene.call(20, libc::SYS_dup2, &[2, 1], 1);
        scene.call(20, libc::SYS_execve, &[0, 0, 0], -2);
        scene.enter(20, libc::SYS_execve, &[0, 0, 0]);
        let outcome = scene.tracker.take(Happening::Forked { thread: MAIN, pid: 20, log: None });
        let Outcome::Child { pid: 20, log: None, descriptors } = outcome else {
            panic!("no child: {outcome:?}");
        };
        assert_eq!(descriptors.stream(1), Some(Stream::Err));
        scene.tracker.take(Happening::Returned { thread: MAIN, result: 20 });
        assert_eq!(scene.stream(MAIN, 1), Some(Stream::Out));
        assert!(scene.tracker.has_run(20) && !scene.tracker.has_run(30));
    }

    #[test]
    fn threads_share_their_descriptors() {
        let mut scene = Scene::new();
        scene.call(MAIN, libc::SYS_clone3, &[0x2000, 88], 20);
        scene.tracker.take(Happening::Began { thread: 20, before: MAIN });
        scene.call(20, libc::SYS_dup2, &[2, 1], 1);
        assert_eq!(scene.stream(MAIN, 1), Some(Stream::Err));
        scene.call(20, libc::SYS_unshare, &[libc::CLONE_FILES as u64], 0);
        scene.call(20, libc::SYS_close, &[1], 0);
        assert_eq!(scene.stream(20, 1), None);
        assert_eq!(scene.stream(MAIN, 1), Some(Stream::Err));
        // A copy that is no thread and runs beside.
        scene.call(MAIN, libc::SYS_clone, &[libc::CLONE_VM as u64, 0], 30);
        scene.tracker.take(Happening::Began { thread: 30, before: MAIN });
        scene.call(30, libc::SYS_close_range, &[0, u64::MAX, 0], 0);
        assert_eq!(scene.stream(30, 2), None);
        assert_eq!(scene.stream(MAIN, 2), Some(Stream::Err));
    }

    #[test]
    fn other_names_of_a_stream_are_known() {
        let mut scene = Scene::new();
        let open = |scene: &mut Scene, path: &[u8]| {
            let flags = (libc::O_WRONLY | libc::O_CREAT) as u64;
            let outcome = scene.call(MAIN, libc::SYS_openat, &[0, 0x2000, flags], 3);
            let Outcome::Opened(opened) = outcome else { panic!("not opened: {outcome:?}") };
            assert_eq!(opened.path, 0x2000);
            scene.tracker.named(&opened, path);
            scene.stream(MAIN, 3)
        };
        assert_eq!(open(&mut scene, b"/dev/stderr\0rest"), Some(Stream::Err));
        assert_eq!(open(&mut scene, b"/dev/fd/1"), Some(Stream::Out));
        assert_eq!(open(&mut scene, b"/dev/fd/7"), None);
        assert_eq!(open(&mut scene, b"/tmp/file"), None);
        let outcome = scene.call(MAIN, libc::SYS_openat, &[0, 0x2000, 0], 3);
        assert_eq!(outcome, Outcome::Nothing);
    }

    #[test]
    fn calls_in_progress_are_known() {
        let mut scene = Scene::new();
        scene.enter(MAIN, libc::SYS_write, &[1, 0x1000, 50]);
        assert_eq!(scene.stream(20, 2), Some(Stream::Err));
        let waiting = scene.tracker.in_progress(scene.time);
        assert_eq!(waiting.len(), 1);
        assert_eq!((waiting[0].thread, waiting[0].amount, waiting[0].at.time), (MAIN, 50, 1));
        assert_eq!(scene.tracker.in_progress(0), []);
    }
}
