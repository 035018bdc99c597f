//! `retro dump`: the log of a recording as text, one line for each event.
//!
//! Logs are long, and they may be damaged. So one chunk is in memory at a time; a chunk that cannot be read is
//! reported at its place, and the next one goes on.
//!
//! ```text
//! dump.rs    which logs and chunks, limits, damage
//! state.rs   what the events before mean for this one: the thread, calls in progress
//! files.rs   names of mapped files
//! text.rs    one event as a line, with calls.rs, signatures.rs, signals.rs and bytes.rs
//! json.rs    one event as an object
//! ```
//!
//! Invariant: memory does not grow with the length of the log, and only up to a bound with what is in it.

pub(crate) mod bytes;
pub(crate) mod calls;
mod files;
mod json;
pub(crate) mod signals;
mod signatures;
mod state;
mod text;

use anyhow::{Result, bail};
use retro_abi::channel::Stream;
use retro_abi::log::{Event, Kind};
use retro_recording::{Chunk, Damage, Error, Flaw, LOG_NAME, Recording, SegmentRef, State};

use crate::arguments::DumpOptions;
use crate::message::complain;
use crate::output::{Output, OutputError};
use crate::style::Style;
use crate::{Completeness, quantity, selection};
use files::FileNames;
use state::LogState;
use text::Line;

/// Bytes of memory that a line shows.
const BYTES_SHOWN: usize = 16;

/// Prints a recording.
pub fn dump(options: &DumpOptions) -> Result<Completeness> {
    let recording = selection::open(options.recording.as_deref())?;
    let logs = select(&recording, options)?;
    let with_headings = recording.processes().len() > 1 && !options.json;
    let mut dump = Dump {
        recording: &recording,
        filter: Filter::of(options),
        stream: if options.code { Stream::Code } else { Stream::Main },
        bytes_shown: (options.hex)
            .map_or(if options.json { usize::MAX } else { BYTES_SHOWN }, |bytes| bytes as usize),
        json: options.json,
        left: options.limit.unwrap_or(u64::MAX),
        style: Style::stdout(),
        output: Output::new(),
        completeness: Completeness::Whole,
    };
    for log in logs {
        if dump.left == 0 {
            break;
        }
        if with_headings {
            dump.heading(log)?;
        }
        dump.log(log)?;
    }
    dump.finish(options)?;
    Ok(dump.completeness)
}

/// The logs that are asked for.
fn select(recording: &Recording, options: &DumpOptions) -> Result<Vec<u64>> {
    let summaries = || recording.processes().iter().map(|process| &process.summary);
    let wanted = |log: u64, pid: u32| {
        options.log.is_none_or(|wanted| wanted == log)
            && options.pid.is_none_or(|wanted| wanted == pid)
    };
    let logs: Vec<u64> =
        summaries().filter(|summary| wanted(summary.log, summary.pid)).map(|s| s.log).collect();
    if logs.is_empty() && (options.log.is_some() || options.pid.is_some()) {
        let what = match (options.log, options.pid) {
            (Some(log), _) => format!("no log {log}"),
            (None, pid) => format!("no process {}", pid.unwrap_or(0)),
        };
        let known: Vec<String> =
            summaries().take(20).map(|s| format!("{} (pid {})", s.log, s.pid)).collect();
        let more = if recording.processes().len() > 20 { ", ..." } else { "" };
        bail!("{what} in this recording; its logs are {}{more}", known.join(", "));
    }
    Ok(logs)
}

/// Which events are shown.
struct Filter {
    from: u64,
    to: u64,
    /// Bit `k` stands for kind `k`.
    kinds: u32,
    thread: Option<u32>,
}

impl Filter {
    fn of(options: &DumpOptions) -> Filter {
        let named = options.kind.iter().flat_map(|group| &group.0);
        let kinds = named.fold(0, |mask, &kind| mask | 1 << kind as u32);
        Filter {
            from: options.from.unwrap_or(0),
            to: options.to.unwrap_or(u64::MAX),
            kinds: if options.kind.is_empty() { u32::MAX } else { kinds },
            thread: options.thread,
        }
    }

    fn shows(&self, time: u64, thread: Option<u32>, kind: Kind) -> bool {
        (self.from..=self.to).contains(&time)
            && self.kinds & 1 << kind as u32 != 0
            && self.thread.is_none_or(|wanted| thread == Some(wanted))
    }
}

struct Dump<'a> {
    recording: &'a Recording,
    filter: Filter,
    stream: Stream,
    bytes_shown: usize,
    json: bool,
    /// Lines that may still be printed.
    left: u64,
    style: Style,
    output: Output,
    completeness: Completeness,
}

impl Dump<'_> {
    fn heading(&mut self, log: u64) -> Result<(), OutputError> {
        let pid = self.recording.process(log).map_or(0, |process| process.summary.pid);
        let heading = self.style.bold(&format!("log {log}, process {pid}"));
        self.output.line(&heading)
    }

    fn log(&mut self, log: u64) -> Result<()> {
        let segments = self.recording.segments(log, self.stream);
        // A chunk may begin at the very time at which the one before has its last events.
        let first = segments
            .partition_point(|segment| segment.base_time < self.filter.from)
            .saturating_sub(1);
        let thread = match self.stream {
            Stream::Main => state::running_before(self.recording, log, first),
            Stream::Code => None,
        };
        let mut walk = Walk {
            state: LogState::new(thread),
            files: FileNames::new(self.recording, log),
            held: None,
            log,
        };
        for segment in segments.iter().skip(first) {
            if self.left == 0 || segment.base_time > self.filter.to {
                break;
            }
            match self.recording.read_chunk(segment) {
                Ok(chunk) => self.chunk(&mut walk, segment, &chunk)?,
                Err(error) => {
                    self.release(&mut walk)?;
                    self.damaged(log, segment, &error)?;
                    walk.state = LogState::new(state::only_thread(self.recording, log));
                }
            }
        }
        Ok(self.release(&mut walk)?)
    }

    fn chunk(&mut self, walk: &mut Walk, segment: &SegmentRef, chunk: &Chunk) -> Result<()> {
        for event in chunk.events() {
            match event {
                Ok((time, event)) => self.event(walk, time, &event)?,
                Err(bad) => {
                    self.release(walk)?;
                    let path = self.recording.directory().join(LOG_NAME);
                    let damage = Damage { offset: segment.offset, flaw: Flaw::Event(bad) };
                    self.damaged(walk.log, segment, &Error::Damaged { path, damage })?;
                }
            }
            if self.left == 0 {
                break;
            }
        }
        Ok(())
    }

    fn event(&mut self, walk: &mut Walk, time: u64, event: &Event) -> Result<(), OutputError> {
        let call = walk.state.take(event);
        let thread = walk.state.thread();
        let shown = self.filter.shows(time, thread, event.kind());
        if self.json {
            if shown {
                let object = json::object(walk.log, time, thread, event, self.bytes_shown);
                self.print(&object)?;
            }
            return Ok(());
        }
        // A call and its return are one line if nothing happened between them.
        let held = walk.held.take();
        if let (Some(held), Event::SyscallExit { result }) = (&held, event)
            && shown
        {
            return self.print(&held.returning(*result));
        }
        if let Some(held) = held {
            self.print(&held.unfinished())?;
        }
        if !shown || self.left == 0 {
            return Ok(());
        }
        let line = Line { time, thread, bytes_shown: self.bytes_shown, style: self.style };
        match *event {
            Event::SyscallEnter { number, args, .. } => {
                walk.held = Some(HeldCall { line, number, args });
                Ok(())
            }
            _ => self.print(&line.event(event, call, &mut walk.files)),
        }
    }

    /// Prints a call whose return does not follow.
    fn release(&mut self, walk: &mut Walk) -> Result<(), OutputError> {
        match walk.held.take() {
            Some(held) if self.left > 0 => self.print(&held.unfinished()),
            _ => Ok(()),
        }
    }

    fn print(&mut self, line: &str) -> Result<(), OutputError> {
        self.left = self.left.saturating_sub(1);
        self.output.line(line)
    }

    /// Says that a chunk cannot be shown, at its place in the output.
    fn damaged(
        &mut self,
        log: u64,
        segment: &SegmentRef,
        error: &Error,
    ) -> Result<(), OutputError> {
        self.output.flush()?;
        let time = quantity::grouped(segment.base_time);
        complain(&format!("log {log}, from time {time}: {error}"));
        self.completeness = Completeness::Partial;
        Ok(())
    }

    /// Says how the recording ends, if that is not in order.
    fn finish(&mut self, options: &DumpOptions) -> Result<(), OutputError> {
        self.output.flush()?;
        let name = self.recording.directory().display();
        if let Some(damage) = self.recording.damage() {
            complain(&format!("{name}: {damage}"));
            self.completeness = Completeness::Partial;
        } else if self.recording.state() == State::Interrupted && options.limit.is_none() {
            complain(&format!("{name} ends here: the recorder was killed"));
        }
        Ok(())
    }
}

/// What is known at one place of a log.
struct Walk<'a> {
    log: u64,
    state: LogState,
    files: FileNames<'a>,
    /// A call that is shown, if it was the last event: its return may follow.
    held: Option<HeldCall>,
}

struct HeldCall {
    line: Line,
    number: u64,
    args: [u64; 6],
}

impl HeldCall {
    fn returning(&self, result: u64) -> String {
        let call = calls::call(self.number, &self.args);
        self.line.with(&format!("{call} = {}", calls::result(Some(self.number), result)))
    }

    fn unfinished(&self) -> String {
        self.line.with(&format!("{} ...", calls::call(self.number, &self.args)))
    }
}
