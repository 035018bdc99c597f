//! Replaying stretches of a recording in processes of their own.
//!
//! A stretch is one or more intervals of one log. Its chunks are put into shared memory, the engine is executed with
//! the replay policy, and says there how it went (see `retro_abi::replay`).
//!
//! Invariant: a replay needs nothing but the recording; whatever happens to its process is reported, never passed on.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

use nix::sys::memfd::{MFdFlags, memfd_create};
use retro_abi::channel::Stream;
use retro_abi::log::{Encoder, Event, MAX_FIXED, Relative};
use retro_abi::replay::{CONTROL_SIZE, MAGIC, REASON_SIZE, state};
use retro_recording::{Recording, SegmentRef};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

/// Why a stretch could not be replayed at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recording could not be read.
    #[error("the recording cannot be read: {0}")]
    Recording(#[from] retro_recording::Error),
    /// The replay process could not be made.
    #[error("cannot start a replay process: {0}")]
    Start(#[from] io::Error),
    /// There is no such log.
    #[error("the recording has no log {0}")]
    NoLog(u64),
}

/// How a replay ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything agreed with the log.
    Same,
    /// Something did not.
    Diverged(String),
    /// The replay process died.
    Crashed(String),
}

/// A replayed stretch.
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
}

/// The intervals of a log, by number, with the chunks of each.
pub fn intervals(recording: &Recording, log: u64) -> Vec<(u64, Vec<SegmentRef>)> {
    let mut found: Vec<(u64, Vec<SegmentRef>)> = Vec::new();
    for segment in recording.segments(log, Stream::Main) {
        match found.last_mut() {
            Some((interval, segments)) if *interval == segment.interval => {
                segments.push(*segment);
            }
            _ => found.push((segment.interval, vec![*segment])),
        }
    }
    found
}

fn append(to: &mut Vec<u8>, recording: &Recording, segments: &[SegmentRef]) -> Result<(), Error> {
    for segment in segments {
        let chunk = recording.read_chunk(segment)?;
        to.extend_from_slice(&(chunk.bytes.len() as u64).to_le_bytes());
        to.extend_from_slice(&chunk.base_time.to_le_bytes());
        to.extend_from_slice(&chunk.bytes);
        to.resize(to.len().next_multiple_of(8), 0);
    }
    Ok(())
}

/// The code that a forked process has from its parents, as chunks that all lie at time 0.
fn inherited_code(to: &mut Vec<u8>, recording: &Recording, log: u64) -> Result<(), Error> {
    // A log inherits from one with a lower number, so that this comes to an end.
    let mut inherits = None;
    let first = recording.segments(log, Stream::Code).first();
    if let Some(segment) = first {
        let chunk = recording.read_chunk(segment)?;
        if let Some(Ok((_, Event::Inherit { log: parent, time }))) = chunk.events().next()
            && parent < log
        {
            inherits = Some((parent, time));
        }
    }
    let Some((parent, until)) = inherits else { return Ok(()) };
    inherited_code(to, recording, parent)?;
    for segment in recording.segments(parent, Stream::Code) {
        let chunk = recording.read_chunk(segment)?;
        let mut encoded = vec![0; chunk.bytes.len() + MAX_FIXED];
        let mut len = 0;
        let mut relative = Relative::at(0);
        for event in chunk.events() {
            let Ok((time, event)) = event else { break };
            if time > until || !matches!(event, Event::Code { .. }) {
                continue;
            }
            len += Encoder::new(&mut encoded[len..]).event(0, &event, &mut relative);
        }
        to.extend_from_slice(&(len as u64).to_le_bytes());
        to.extend_from_slice(&0u64.to_le_bytes());
        to.extend_from_slice(&encoded[..len]);
        to.resize(to.len().next_multiple_of(8), 0);
    }
    Ok(())
}

/// Replays chunks of the main stream of a log with the engine at `engine`.
pub fn replay(
    recording: &Recording,
    log: u64,
    segments: &[SegmentRef],
    engine: &std::path::Path,
) -> Result<Replayed, Error> {
    if recording.process(log).is_none() {
        return Err(Error::NoLog(log));
    }
    let mut main = Vec::new();
    append(&mut main, recording, segments)?;
    let mut code = Vec::new();
    inherited_code(&mut code, recording, log)?;
    append(&mut code, recording, recording.segments(log, Stream::Code))?;
    let mut control = vec![0u8; CONTROL_SIZE];
    let words = [
        MAGIC,
        CONTROL_SIZE as u64,
        main.len() as u64,
        (CONTROL_SIZE + main.len()) as u64,
        code.len() as u64,
    ];
    for (place, word) in control.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let fd = memfd_create(c"retro-replay", MFdFlags::MFD_CLOEXEC).map_err(io::Error::from)?;
    let mut file = File::from(fd);
    for part in [&control, &main, &code] {
        file.write_all(part)?;
    }
    let variable =
        format!("policy=replay;channel={}/{};path=", std::process::id(), file.as_raw_fd());
    let output = Command::new(engine)
        .env_clear()
        .env("RETRO_ENGINE", variable)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()?;
    file.seek(SeekFrom::Start(0))?;
    file.read_exact(&mut control)?;
    let number = |at: usize, len: usize| {
        let mut bytes = [0; 8];
        bytes[..len].copy_from_slice(&control[at..at + len]);
        u64::from_le_bytes(bytes)
    };
    // Five words, then: state, thread, time, pc, events, length of the reason, the reason.
    let reason_len = (number(72, 4) as usize).min(REASON_SIZE);
    let reason = String::from_utf8_lossy(&control[76..76 + reason_len]).into_owned();
    let verdict = match number(40, 4) as u32 {
        state::FINISHED => Verdict::Same,
        state::DIVERGED => Verdict::Diverged(reason),
        _ => Verdict::Crashed(format!(
            "exit status {:?}, signal {:?}: {}",
            output.status.code(),
            output.status.signal(),
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    };
    Ok(Replayed {
        verdict,
        time: number(48, 8),
        thread: number(44, 4) as u32,
        pc: number(56, 8),
        events: number(64, 8),
    })
}
