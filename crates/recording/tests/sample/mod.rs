//! A small recording with a bit of everything, for the tests of this crate.

// Each test is a program of its own and uses some of it.
#![allow(dead_code)]

use std::fs;
use std::path::Path;

use retro_abi::channel::{Origin, Stream, ended};
use retro_abi::log::{Encoder, Event, MAX_FIXED, Relative};
use retro_recording::{
    ChunkHead, Counts, DEFAULT_LEVEL, EncodedSegment, Head, KindCount, Machine, Options,
    ProcessEnd, ProcessSummary, RunEnd, RunOutcome, Writer, encode_chunk, encode_end,
    encode_process_summary,
};

/// A head with all fields set.
pub fn head() -> Head {
    Head {
        id: *b"0123456789abcdef",
        created_seconds: 1_700_000_000,
        created_nanoseconds: 123_456_789,
        command: ["ls", "-l", "", "a b"].map(Into::into).to_vec(),
        directory: "/home/user".into(),
        retro_version: "0.1.0".to_string(),
        machine: Machine {
            host: "host".to_string(),
            kernel: "6.1.0".to_string(),
            cpu_vendor: "AuthenticAMD".to_string(),
            cpu_model: "A processor".to_string(),
            cpu_features: ["fpu", "avx2"].map(Into::into).to_vec(),
        },
        options: Options { interval: 1_000_000, chaos: Some(u64::MAX), follow: true },
    }
}

/// The bytes of a chunk.
pub fn chunk(base_time: u64, events: &[(u64, Event)]) -> Vec<u8> {
    let mut chunk = Vec::new();
    let mut relative = Relative::at(base_time);
    for (time, event) in events {
        let mut room = vec![0; MAX_FIXED + 4096];
        let length = Encoder::new(&mut room).event(*time, event, &mut relative);
        chunk.extend_from_slice(&room[..length]);
    }
    chunk
}

/// A segment with a chunk.
pub fn segment(
    log: u64,
    stream: Stream,
    sequence: u64,
    base_time: u64,
    events: &[(u64, Event)],
) -> EncodedSegment {
    let head = ChunkHead { log, stream, sequence, base_time, interval: sequence };
    encode_chunk(head, &chunk(base_time, events), DEFAULT_LEVEL).unwrap()
}

/// The event that begins a process.
pub fn start(pid: u32, origin: Origin) -> Event<'static> {
    Event::Start {
        pid,
        parent: 1,
        origin: origin as u8,
        seconds: 1,
        nanoseconds: 2,
        path: b"/bin/ls",
        arguments: b"ls\0-l\0",
        environment: b"HOME=/home/user\0",
        directory: b"/home/user",
    }
}

/// A summary with all fields set.
pub fn summary(log: u64) -> ProcessSummary {
    ProcessSummary {
        log,
        parent: log.checked_sub(1),
        origin: Some(if log == 0 { Origin::First } else { Origin::Fork }),
        pid: 1000 + log as u32,
        time: 350,
        end: if log == 0 { ProcessEnd::Exited(3) } else { ProcessEnd::Signalled(11) },
        counts: Counts {
            events: [
                (0, KindCount { events: 3, bytes: 40 }),
                (14, KindCount { events: 1, bytes: 70 }),
            ]
            .into(),
            syscalls: [(1, 20), (511, 1)].into(),
            signals: [(11, 1)].into(),
            threads: 2,
            intervals: 1,
        },
    }
}

/// The end of a run.
pub fn run_end() -> RunEnd {
    RunEnd {
        outcome: RunOutcome::Exited(3),
        wall_nanoseconds: 123_456_789_012,
        stopped: Some("the disk is full".to_string()),
        unrecorded: [2, 3, 0, 1],
    }
}

/// The segments of the sample: two processes, with chunks of both streams between each other's.
pub fn segments() -> Vec<EncodedSegment> {
    let load = Event::Load { address: 0x1000, bytes: &[5; 100] };
    vec![
        segment(0, Stream::Main, 0, 0, &[(0, start(1000, Origin::First)), (10, load)]),
        segment(
            0,
            Stream::Code,
            0,
            0,
            &[(0, Event::Code { address: 0x400000, bytes: &[0x90; 64] })],
        ),
        segment(1, Stream::Main, 0, 100, &[(100, start(1001, Origin::Fork)), (200, load)]),
        segment(0, Stream::Main, 1, 10, &[(10, load), (300, Event::SyscallExit { result: 7 })]),
        encode_process_summary(&summary(1)),
        segment(0, Stream::Main, 2, 300, &[(350, Event::End { how: ended::EXITED, code: 3 })]),
        encode_process_summary(&summary(0)),
        encode_end(&run_end()),
    ]
}

/// Writes the sample; returns the length of the file after its header and after each segment.
pub fn write(directory: &Path) -> Vec<u64> {
    let mut writer = Writer::create(directory, &head()).unwrap();
    let mut lengths = vec![writer.length()];
    for segment in segments() {
        writer.append(&segment).unwrap();
        lengths.push(writer.length());
    }
    lengths
}

/// Makes a recording of given bytes.
pub fn write_bytes(directory: &Path, log: &[u8]) {
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join("log"), log).unwrap();
}
