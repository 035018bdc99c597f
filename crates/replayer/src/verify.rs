//! Replaying an interval to see whether it is what was recorded.

use retro_abi::log::{Event, register};

use crate::{Divergence, Error, Replayer, Session, Stop, StopReason, intervals};

/// Instructions after which those who wait are told.
const STRETCH: u64 = 4_000_000;

/// How a replay ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything agreed with the log.
    Same,
    /// Something did not: what was expected and found.
    Diverged(String),
    /// The replay process died, or could not go on.
    Crashed(String),
}

/// A replayed interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// How it ended.
    pub verdict: Verdict,
    /// The time it reached.
    pub time: u64,
    /// The thread that ran last.
    pub thread: u32,
    /// Where it was.
    pub pc: u64,
    /// Events it applied.
    pub events: u64,
    /// Windows it went through.
    pub windows: u64,
}

/// Flags that a recording may have wrong, because nobody looks at them before they change.
const UNCERTAIN_FLAGS: u64 = 0x1_08d5;

/// Verifies one interval after the other. Those of the same log share a process, which need not translate its code anew.
#[derive(Debug)]
pub struct Verifier {
    replayer: Replayer,
    /// The process of the last interval, if it came to its end.
    warm: Option<Session>,
}

impl Verifier {
    /// For a recording.
    pub fn new(replayer: Replayer) -> Verifier {
        Verifier { replayer, warm: None }
    }

    /// Replays an interval, window by window, and compares it with what was recorded. After each window `progress`
    /// is told how many instructions were replayed since the last time.
    pub fn verify(
        &mut self,
        log: u64,
        interval: u64,
        progress: impl FnMut(u64),
    ) -> Result<Replayed, Error> {
        let session = match self.warm.take() {
            Some(mut session) if session.log() == log => {
                match session.go_to_interval(&self.replayer, interval) {
                    Ok(()) => session,
                    Err(error) => return found_otherwise(&session, 0, error),
                }
            }
            _ => self.replayer.session(log, interval)?,
        };
        verify(&self.replayer, session, &mut self.warm, progress)
    }
}

/// Replays an interval to its end, and keeps its process if all is well.
fn verify(
    replayer: &Replayer,
    mut session: Session,
    warm: &mut Option<Session>,
    mut progress: impl FnMut(u64),
) -> Result<Replayed, Error> {
    let mut windows = 0;
    let verdict = loop {
        let before = session.time();
        let stop = match session.run_to(before.saturating_add(STRETCH)) {
            Ok(stop) => stop,
            Err(error) => return found_otherwise(&session, windows, error),
        };
        windows += 1;
        progress(stop.time - before);
        if stop.time >= session.interval().end || stop.reason == StopReason::End {
            break compare_end(replayer, &mut session)?;
        }
    };
    let replayed = Replayed::here(&session, windows, verdict);
    *warm = Some(session);
    Ok(replayed)
}

impl Replayed {
    /// Where a session stands.
    fn here(session: &Session, windows: u64, verdict: Verdict) -> Replayed {
        let Stop { time, thread, pc, events, .. } = session.last_stop();
        Replayed { verdict, time, thread, pc, events, windows }
    }
}

/// What the process caused is a verdict; anything else says nothing about the recording.
fn found_otherwise(session: &Session, windows: u64, error: Error) -> Result<Replayed, Error> {
    let replayed = |verdict| Replayed::here(session, windows, verdict);
    match error {
        Error::Diverged(divergence) => {
            let Divergence { time, thread, pc, events, text } = *divergence;
            Ok(Replayed { time, thread, pc, events, ..replayed(Verdict::Diverged(text)) })
        }
        Error::Failed(text) | Error::Crashed(text) => Ok(replayed(Verdict::Crashed(text))),
        other => Err(other),
    }
}

/// At the end of an interval threads must be as the next one begins.
fn compare_end(replayer: &Replayer, session: &mut Session) -> Result<Verdict, Error> {
    let interval = session.interval();
    if session.time() < interval.end {
        return Ok(Verdict::Diverged(format!(
            "the replay is over, the recorded process went on to time {}",
            interval.end
        )));
    }
    let recording = replayer.recording();
    let next = interval.number.saturating_add(1);
    for segment in intervals::chunks_of(recording, session.log(), next) {
        for (_, event) in recording.read_chunk(segment)?.events().flatten() {
            match event {
                Event::Interval { running, .. } if running != session.thread() => {
                    return Ok(Verdict::Diverged(format!(
                        "thread {} runs where the next interval begins, not thread {running}",
                        session.thread()
                    )));
                }
                Event::Interval { .. } => {}
                Event::ThreadState { .. } => {
                    if let Some(text) = compare_thread(session, &event)? {
                        return Ok(Verdict::Diverged(text));
                    }
                }
                _ => return Ok(Verdict::Same),
            }
        }
    }
    Ok(Verdict::Same)
}

/// The first difference between a thread and what the log has of it, in words.
fn compare_thread(session: &mut Session, state: &Event) -> Result<Option<String>, Error> {
    let Event::ThreadState { thread, in_syscall, registers, .. } = state else { return Ok(None) };
    let own = match session.registers(Some(*thread)) {
        Err(Error::NoThread(_)) => {
            return Ok(Some(format!("thread {thread} is not there when the next interval begins")));
        }
        other => other?,
    };
    let place = "when the next interval begins";
    if own.in_syscall != in_syscall.checked_sub(1) {
        return Ok(Some(format!(
            "thread {thread} is in system call {:?} {place}, not in {:?}",
            own.in_syscall,
            in_syscall.checked_sub(1)
        )));
    }
    for (number, name) in register::NAMES.iter().enumerate() {
        let certain = if number == register::RFLAGS as usize { !UNCERTAIN_FLAGS } else { u64::MAX };
        let (found, expected) = (own.general[number], registers.values[number]);
        if registers.mask & 1 << number != 0 && (found ^ expected) & certain != 0 {
            return Ok(Some(format!(
                "{name} of thread {thread} is {found:#x} {place}, expected {expected:#x}"
            )));
        }
    }
    Ok(None)
}
