//! What the kernel called the threads of a process at a moment.
//!
//! A thread begins with the name of the one that made it; all that a program can do to change it is a system call, which the log
//! has: `prctl` for its own name, a write to `/proc/self/task/ID/comm` for another's. Each is found once, for all clients.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use retro_query::{Cancel, Direction, Error, Row, RowClass, RowFilter, TimedRow};

use crate::debuggee::Debuggee;

/// Names of threads by number.
pub type ThreadNames = HashMap<u32, String>;

/// Bytes of a name.
const LONGEST: usize = 15;

const PRCTL: u64 = 157;
const OPENAT: u64 = 257;
const WRITE: u64 = 1;

/// System calls of a thread that are looked through for the write to a file that it has opened.
const CALLS_TRIED: usize = 1000;

/// The number of rax in the log.
const RAX: usize = 0;

/// Changes of names that are known by now.
#[derive(Debug, Default)]
pub struct NameChanges {
    /// Up to when.
    until: u64,
    /// In the order of time.
    found: Vec<Change>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    time: u64,
    thread: u32,
    name: String,
}

/// The names of some threads at a time.
pub fn names(debuggee: &Debuggee, threads: &[u32], now: u64) -> Result<ThreadNames, Error> {
    let path = &debuggee.program.path;
    let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let first = text(file);
    let mut names: ThreadNames = threads.iter().map(|&thread| (thread, first.clone())).collect();
    let known: &Mutex<NameChanges> = &debuggee.names;
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    match known.look_on(debuggee, now) {
        // Where not everything is indexed, some keep their first names.
        Ok(()) | Err(Error::NotIndexed { .. }) => {}
        Err(error) => return Err(error),
    }
    for change in known.found.iter().filter(|change| change.time <= now) {
        names.insert(change.thread, change.name.clone());
    }
    Ok(names)
}

impl NameChanges {
    /// Finds what there is up to a time.
    fn look_on(&mut self, debuggee: &Debuggee, now: u64) -> Result<(), Error> {
        let from = self.until.max(debuggee.process.start);
        if now <= from {
            return Ok(());
        }
        let cancel = Cancel::new();
        let mut found = Vec::new();
        for (number, change) in [
            (PRCTL, own_name as fn(&Debuggee, &TimedRow) -> Result<Option<Change>, Error>),
            (OPENAT, name_of_another),
        ] {
            let filter = RowFilter::Number(RowClass::Syscall, number);
            let calls =
                debuggee.run.rows(debuggee.at(from), Direction::Forward, filter, &cancel)?;
            for row in calls.until(now) {
                let row = row?;
                if row.time > now {
                    break;
                }
                found.extend(change(debuggee, &row)?);
            }
        }
        found.sort_by_key(|change| change.time);
        self.found.extend(found);
        self.until = now;
        Ok(())
    }
}

/// A thread names itself.
fn own_name(debuggee: &Debuggee, row: &TimedRow) -> Result<Option<Change>, Error> {
    const SET_NAME: u64 = 15;
    let Row::SyscallEnter { args: [SET_NAME, at, ..], .. } = row.row else { return Ok(None) };
    let bytes = debuggee.run.memory(debuggee.at(row.time), at, LONGEST as u64)?;
    Ok(Some(Change { time: row.time, thread: row.thread, name: text(&bytes) }))
}

/// A thread opens the file with another's name, and writes it.
fn name_of_another(debuggee: &Debuggee, row: &TimedRow) -> Result<Option<Change>, Error> {
    /// Bits of the flags of `open` that say that something will be written, and that the file may be new.
    const WRITES: u64 = 0b11;
    const CREATES: u64 = 0o100;
    /// Bytes of `/proc/4194304/task/4194304/comm`, and some more.
    const LONGEST_PATH: u64 = 64;
    let Row::SyscallEnter { args: [_, path, flags, ..], .. } = row.row else { return Ok(None) };
    if flags & WRITES == 0 || flags & CREATES != 0 {
        return Ok(None);
    }
    let Debuggee { run, process, .. } = debuggee;
    let path = run.memory(debuggee.at(row.time), path, LONGEST_PATH)?;
    let Some(named) = named_by(&path, debuggee.pid()) else { return Ok(None) };
    let Some(opened) = run.next_of_thread(process, row.thread, row.time)? else { return Ok(None) };
    let file = run.registers(debuggee.at(opened), Some(row.thread))?.general[RAX];
    let filter = RowFilter::Number(RowClass::Syscall, WRITE);
    let writes = run.rows(debuggee.at(opened), Direction::Forward, filter, &Cancel::new())?;
    for write in writes.take(CALLS_TRIED) {
        let write = write?;
        let Row::SyscallEnter { args: [to, at, len, ..], .. } = write.row else { continue };
        if write.thread == row.thread && to == file {
            let bytes = run.memory(debuggee.at(write.time), at, len.min(LONGEST as u64))?;
            return Ok(Some(Change { time: write.time, thread: named, name: text(&bytes) }));
        }
    }
    Ok(None)
}

/// The thread whose name is in a file, if it is one of this process.
fn named_by(path: &[u8], pid: u32) -> Option<u32> {
    let path = std::str::from_utf8(path.split(|&byte| byte == 0).next()?).ok()?;
    let (process, rest) = path.strip_prefix("/proc/")?.split_once("/task/")?;
    let (thread, file) = rest.split_once('/')?;
    let is_own = process == "self" || process.parse() == Ok(pid);
    if is_own && file == "comm" { thread.parse().ok() } else { None }
}

/// A name, as far as the kernel keeps it.
fn text(bytes: &[u8]) -> String {
    let name = bytes.split(|&byte| matches!(byte, 0 | b'\n')).next().unwrap_or_default();
    String::from_utf8_lossy(&name[..name.len().min(LONGEST)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_names_are_of_threads_of_the_process() {
        assert_eq!(named_by(b"/proc/self/task/42/comm\0rest", 7), Some(42));
        assert_eq!(named_by(b"/proc/7/task/42/comm\0", 7), Some(42));
        assert_eq!(named_by(b"/proc/8/task/42/comm\0", 7), None);
        assert_eq!(named_by(b"/proc/self/task/42/maps\0", 7), None);
        assert_eq!(named_by(b"/etc/passwd", 7), None);
    }

    #[test]
    fn names_are_cut_as_the_kernel_does() {
        assert_eq!(text(b"worker\n\0"), "worker");
        assert_eq!(text(b"a name that is too long"), "a name that is ");
    }
}
