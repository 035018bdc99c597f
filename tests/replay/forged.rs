//! Recordings that nobody recorded: one process with code and events of the test's choice, whole by their checksums.

use std::path::Path;

use retro_abi::channel::{Origin, Stream, ended};
use retro_abi::log::{Encoder, Event, MAX_FIXED, RegisterSet, Relative, register};
use retro_recording::{
    ChunkHead, Counts, DEFAULT_LEVEL, Head, Machine, ProcessEnd, ProcessSummary, RunEnd,
    RunOutcome, Writer, encode_chunk, encode_end, encode_process_summary,
};

/// The only thread.
pub const THREAD: u32 = 77;

/// Where its code is.
pub const CODE: u64 = 0x1000_0000;

/// Where its stack ends.
pub const STACK: u64 = 0x1000_0000_0000;

/// A loop of two instructions that never ends: `nop`, `jmp` back.
pub const LOOP: &[u8] = &[0x90, 0xeb, 0xfd];

/// Bytes of an image of `xsave` that holds nothing.
const IMAGE_SIZE: usize = 2432;

/// A recording to be.
#[derive(Clone)]
pub struct Forged<'a> {
    pub machine: Machine,
    pub registers: RegisterSet,
    pub image: Vec<u8>,
    /// Code by address.
    pub code: Vec<(u64, &'a [u8])>,
    /// Events after the first moment, with their times.
    pub events: Vec<(u64, Event<'a>)>,
    /// Chunks of the main stream behind the first, with the times that they begin at.
    pub more: Vec<(u64, Vec<u8>)>,
    /// When the log begins.
    pub begin: u64,
    /// When the process exits.
    pub end: u64,
    /// When it exits as its summary has it.
    pub summary_end: Option<u64>,
    /// Instructions per interval that the user asked for.
    pub interval: u64,
}

impl<'a> Forged<'a> {
    /// A process that does what the code says, exits at time `end`, and replays.
    pub fn new(code: &'a [u8], end: u64) -> Forged<'a> {
        let mut registers = RegisterSet::default();
        (0..register::COUNT as u32).for_each(|number| registers.set(number, 0));
        registers.set(4, STACK);
        registers.set(register::RIP, CODE);
        registers.set(register::RFLAGS, 0x202);
        let mut image = vec![0; IMAGE_SIZE];
        // MXCSR, with all exceptions masked.
        image[24..28].copy_from_slice(&0x1f80u32.to_le_bytes());
        Forged {
            machine: Machine::this(),
            registers,
            image,
            code: vec![(CODE, code)],
            events: Vec::new(),
            more: Vec::new(),
            begin: 0,
            end,
            summary_end: None,
            interval: 0,
        }
    }

    /// With an event more.
    pub fn with(mut self, time: u64, event: Event<'a>) -> Forged<'a> {
        self.events.push((time, event));
        self
    }

    /// Writes it.
    pub fn write(&self, directory: &Path) {
        let _ = std::fs::remove_dir_all(directory);
        let mut head = Head::new(vec!["forged".into()], "/".into(), Default::default()).unwrap();
        head.machine = self.machine.clone();
        head.options.interval = self.interval;
        let mut writer = Writer::create(directory, &head).unwrap();
        let main = self.main_events();
        let code: Vec<_> = self
            .code
            .iter()
            .map(|&(address, bytes)| (self.begin, Event::Code { address, bytes }))
            .collect();
        for (stream, events) in [(Stream::Main, &main), (Stream::Code, &code)] {
            let head =
                ChunkHead { log: 0, stream, sequence: 0, base_time: self.begin, interval: 0 };
            let chunk = encode_chunk(head, &chunk(self.begin, events), DEFAULT_LEVEL).unwrap();
            writer.append(&chunk).unwrap();
        }
        for (sequence, (base_time, bytes)) in (1..).zip(&self.more) {
            let (log, stream) = (0, Stream::Main);
            let head = ChunkHead { log, stream, sequence, base_time: *base_time, interval: 0 };
            writer.append(&encode_chunk(head, bytes, DEFAULT_LEVEL).unwrap()).unwrap();
        }
        writer.append(&encode_process_summary(&self.summary(&main))).unwrap();
        let outcome = RunOutcome::Exited(0);
        let end =
            RunEnd { outcome, wall_nanoseconds: 1_000_000, stopped: None, unrecorded: [0; 4] };
        writer.append(&encode_end(&end)).unwrap();
    }

    fn main_events(&self) -> Vec<(u64, Event<'_>)> {
        let start = Event::Start {
            pid: THREAD,
            parent: 1,
            origin: Origin::First as u8,
            seconds: 1,
            nanoseconds: 0,
            path: b"/forged",
            arguments: b"forged\0",
            environment: b"",
            directory: b"/",
        };
        let state = Event::ThreadState {
            thread: THREAD,
            in_syscall: 0,
            registers: self.registers,
            image: &self.image,
        };
        let interval = Event::Interval { number: 0, running: THREAD, threads: 1 };
        let mut events = vec![(self.begin, start), (self.begin, interval), (self.begin, state)];
        events.extend_from_slice(&self.events);
        events.push((self.end, Event::End { how: ended::EXITED, code: 0 }));
        events
    }

    fn summary(&self, main: &[(u64, Event)]) -> ProcessSummary {
        let mut counts = Counts { threads: 1, intervals: 1, ..Counts::default() };
        for (_, event) in main {
            counts.events.entry(event.kind() as u32).or_default().events += 1;
        }
        ProcessSummary {
            log: 0,
            parent: None,
            origin: Some(Origin::First),
            pid: THREAD,
            time: self.summary_end.unwrap_or(self.end),
            end: ProcessEnd::Exited(0),
            counts,
        }
    }
}

/// The bytes of a chunk.
pub fn chunk(base_time: u64, events: &[(u64, Event)]) -> Vec<u8> {
    let mut chunk = Vec::new();
    let mut relative = Relative::at(base_time);
    for (time, event) in events {
        let mut room = vec![0; MAX_FIXED + (128 << 10)];
        let length = Encoder::new(&mut room).event(*time, event, &mut relative);
        chunk.extend_from_slice(&room[..length]);
    }
    chunk
}
