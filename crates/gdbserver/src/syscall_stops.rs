//! The begins and ends of system calls as stops.
//!
//! A call begins in front of its instruction and ends where its thread goes on, maybe long after, when other threads have run. The
//! index has the begins by number. An end is found from its begin; going backward, calls that began before the nearest
//! begin may end behind it: their threads are in them at that begin.

use retro_query::{Direction, Error, Row, RowClass, RowFilter};

use crate::resume::Resume;
use crate::searches::Searches;
use crate::stop::{Reason, Stop};

impl Searches<'_> {
    /// The nearest begin or end of a system call that the client wants to know of.
    pub fn syscall(&self, nearest: &Stop) -> Result<Option<Stop>, Error> {
        let Some(numbers) = &self.resume.points.caught_syscalls else { return Ok(None) };
        let mut found = Nearest { searches: self, limit: *nearest, found: None };
        match self.course.direction {
            Direction::Forward => self.syscall_forward(numbers, &mut found)?,
            Direction::Backward => self.syscall_backward(numbers, &mut found)?,
        }
        Ok(found.found)
    }

    fn syscall_forward(&self, numbers: &[u64], nearest: &mut Nearest<'_>) -> Result<(), Error> {
        let Resume { run, process, cancel, from, .. } = *self.resume;
        // Those that wait in system calls come out of them.
        for info in run.threads(self.resume.at(from.time))? {
            let Some(number) = info.in_syscall.map(u64::from) else { continue };
            if is_caught(numbers, number)
                && let Some(time) = run.next_of_thread(process, info.thread, from.time + 1)?
            {
                nearest.consider(time, info.thread, Reason::SyscallReturn(number));
            }
        }
        let filter = filter_of(numbers);
        let rows = run.rows(self.resume.at(from.time), Direction::Forward, filter, cancel)?;
        for row in rows.until(nearest.limit.time) {
            let row = row?;
            let Row::SyscallEnter { number, .. } = row.row else { continue };
            if row.time > nearest.limit.time {
                break;
            }
            if !is_caught(numbers, number) || !self.counts(row.thread) {
                continue;
            }
            let entry = row.time.saturating_sub(1);
            let is_here = entry == from.time && matches!(from.reason, Reason::SyscallEntry(_));
            if is_here {
                // It was told that the call begins; next is that it is over.
                if let Some(time) = run.next_of_thread(process, row.thread, row.time)? {
                    nearest.consider(time, row.thread, Reason::SyscallReturn(number));
                }
                continue;
            }
            nearest.consider(entry, row.thread, Reason::SyscallEntry(number));
            break;
        }
        Ok(())
    }

    fn syscall_backward(&self, numbers: &[u64], nearest: &mut Nearest<'_>) -> Result<(), Error> {
        let Resume { run, process, cancel, from, .. } = *self.resume;
        let filter = filter_of(numbers);
        let rows = run.rows(self.resume.at(from.time), Direction::Backward, filter, cancel)?;
        // Everything that could be nearer is in its call there.
        let mut begin = nearest.limit.time;
        for row in rows.until(nearest.limit.time) {
            let row = row?;
            let Row::SyscallEnter { number, .. } = row.row else { continue };
            let (entry, thread) = (row.time.saturating_sub(1), row.thread);
            if entry < nearest.limit.time {
                break;
            }
            if entry >= from.time || !is_caught(numbers, number) || !self.counts(thread) {
                continue;
            }
            nearest.consider(entry, thread, Reason::SyscallEntry(number));
            let back = run.next_of_thread(process, thread, row.time)?;
            if let Some(time) = back.filter(|&time| time < from.time) {
                nearest.consider(time, thread, Reason::SyscallReturn(number));
            }
            begin = entry;
            break;
        }
        for info in run.threads(self.resume.at(begin))? {
            let Some(number) = info.in_syscall.map(u64::from) else { continue };
            if !is_caught(numbers, number) {
                continue;
            }
            let back = run.next_of_thread(process, info.thread, begin + 1)?;
            if let Some(time) = back.filter(|&time| time < from.time) {
                nearest.consider(time, info.thread, Reason::SyscallReturn(number));
            }
        }
        Ok(())
    }
}

/// The nearest of what is considered, if it is nearer than a limit.
struct Nearest<'a> {
    searches: &'a Searches<'a>,
    limit: Stop,
    found: Option<Stop>,
}

impl Nearest<'_> {
    fn consider(&mut self, time: u64, thread: u32, reason: Reason) {
        let stop = Stop { time, thread, reason };
        let nearest = self.found.as_ref().unwrap_or(&self.limit);
        if self.searches.counts(thread) && self.searches.comes_first(&stop, nearest) {
            self.found = Some(stop);
        }
    }
}

/// Which rows can be meant: a single number is looked for without looking at others.
fn filter_of(numbers: &[u64]) -> RowFilter {
    match numbers {
        [number] => RowFilter::Number(RowClass::Syscall, *number),
        _ => RowFilter::Class(RowClass::Syscall),
    }
}

fn is_caught(numbers: &[u64], number: u64) -> bool {
    numbers.is_empty() || numbers.contains(&number)
}
