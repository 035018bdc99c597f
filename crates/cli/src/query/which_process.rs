//! Which process a question is about.

use anyhow::{Result, bail};
use retro_abi::channel::Stream;
use retro_abi::log::Event;
use retro_recording::{Process, ProcessEnd, Recording};

use crate::logs;

/// Signals that a process gets for what it did itself.
const CRASHES: [i32; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGABRT,
    libc::SIGTRAP,
    libc::SIGSYS,
];

fn is_crash(signal: u64) -> bool {
    CRASHES.iter().any(|&crash| u64::from(crash.cast_unsigned()) == signal)
}

/// The log with a number, or of the process with that id.
pub fn named(recording: &Recording, number: u64) -> Result<u64> {
    let logs = logs::with_number(recording, number)?;
    match logs[..] {
        [log] => Ok(log),
        _ => bail!(
            "process {number} has executed several programs, each with a log: choose with --process from {}",
            logs::in_words(recording, &logs)
        ),
    }
}

/// The log of the last process that crashed, or of the first.
pub fn likeliest(recording: &Recording) -> Result<u64> {
    let processes = recording.processes();
    let found = (processes.iter().rev().find(|process| crashed(recording, process)))
        .or_else(|| processes.first());
    match found {
        Some(process) => Ok(process.summary.log),
        None => bail!("this recording has no processes"),
    }
}

fn crashed(recording: &Recording, process: &Process) -> bool {
    match process.summary.end {
        ProcessEnd::Signalled(number) => is_crash(number.into()),
        // How a child ends that kills itself is not in its log; what it did last is.
        ProcessEnd::Unknown => killed_itself(recording, process.summary.log),
        _ => false,
    }
}

/// Whether the last thing that a log has is a call that sends such a signal, as `abort` does.
fn killed_itself(recording: &Recording, log: u64) -> bool {
    let Some(last) = recording.segments(log, Stream::Main).last() else { return false };
    let Ok(chunk) = recording.read_chunk(last) else { return false };
    let last_call = chunk.events().flatten().fold(None, |call, (_, event)| match event {
        Event::SyscallEnter { number, args, .. } => Some((number, args)),
        Event::SyscallExit { .. } => None,
        _ => call,
    });
    match last_call.map(|(number, args)| (number as i64, args)) {
        Some((libc::SYS_kill | libc::SYS_tkill, args)) => is_crash(args[1]),
        Some((libc::SYS_tgkill, args)) => is_crash(args[2]),
        _ => false,
    }
}
