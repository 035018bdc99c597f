//! Recordings that a stranger made: whole by their checksums, and full of nonsense. Nothing in them makes a
//! command panic, obey, or use up the machine.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::process::Command;

use retro_abi::channel::{Origin, Stream};
use retro_abi::log::{Encoder, Event, Kind, MapKind, RegisterSet, Relative};
use retro_recording::{
    ChunkHead, Counts, Head, KindCount, Machine, ProcessEnd, ProcessSummary, RunEnd, RunOutcome,
    Writer, encode_chunk, encode_end, encode_process_summary,
};
use retro_testkit::compare::{Ending, run};

use crate::store::Store;
use crate::{TIMEOUT, retro_path, text};

/// What a terminal would obey.
const COMMANDS: &[u8] = b"\x1b]0;owned\x07\x1b[2J\r\x9b1m\xff\n\xe2\x80\xae";

/// Events with the most extreme values that can be written down.
fn extreme_events() -> Vec<Event<'static>> {
    let mut registers = RegisterSet::default();
    (0..20).for_each(|register| registers.set(register, u64::MAX));
    let mut events = vec![
        Event::Start {
            pid: u32::MAX,
            parent: u32::MAX,
            origin: u8::MAX,
            seconds: u64::MAX,
            nanoseconds: u32::MAX,
            path: COMMANDS,
            arguments: b"\0\0\x1b[31m\0no end",
            environment: b"\0\0\0",
            directory: COMMANDS,
        },
        Event::SyscallExit { result: u64::MAX },
        Event::Load { address: u64::MAX, bytes: COMMANDS },
        Event::Write { address: u64::MAX, bytes: b"" },
        Event::SyscallEnter { number: u64::MAX, args: [u64::MAX; 6], check: 0 },
        Event::SyscallEnter { number: 0, args: [u64::MAX; 6], check: 0 },
        Event::SyscallExit { result: 1 << 63 },
        Event::SyscallExit { result: 0 },
        Event::Registers(registers),
        Event::Vectors { image: COMMANDS },
        Event::ThreadStart { thread: u32::MAX },
        Event::ThreadSwitch { thread: u32::MAX, check: 0 },
        Event::ThreadEnd { thread: 0, code: u32::MAX },
        Event::Interval { number: u64::MAX, running: u32::MAX, threads: u32::MAX },
        Event::ThreadState { thread: 0, in_syscall: u32::MAX, registers, image: b"" },
        Event::Fork { pid: u32::MAX, log: u64::MAX },
        Event::Inherit { log: u64::MAX, time: u64::MAX },
        Event::MemorySum { start: u64::MAX, len: u64::MAX, sum: u64::MAX },
        Event::MemorySum { start: u64::MAX, len: 0, sum: 0 },
        Event::End { how: u32::MAX, code: u32::MAX },
        Event::End { how: 2, code: u32::MAX },
        Event::Code { address: u64::MAX, bytes: COMMANDS },
        Event::File {
            number: u64::MAX,
            device: u64::MAX,
            inode: u64::MAX,
            size: u64::MAX,
            modified_seconds: i64::MIN,
            modified_nanoseconds: u32::MAX,
            build_id: COMMANDS,
            path: COMMANDS,
        },
    ];
    for number in [0, 11, 17, 64, 65, u32::MAX >> 1] {
        for info in [&b""[..], &[0xff; 200], &[1, 0, 0, 0, 0, 0, 0, 0, 0x7f]] {
            events.push(Event::Signal { number, synchronous: true, handler: 1, check: 0, info });
        }
    }
    for kind in [MapKind::Map, MapKind::Unmap, MapKind::Protect, MapKind::Discard, MapKind::Move] {
        for file in [0, 1, u64::MAX] {
            let (start, len, offset) = (u64::MAX, u64::MAX, u64::MAX);
            events.push(Event::Map {
                kind,
                start,
                len,
                prot: u32::MAX,
                flags: u32::MAX,
                file,
                offset,
            });
        }
    }
    events
}

/// The bytes of a chunk.
fn chunk(times: u64, events: &[Event]) -> Vec<u8> {
    let mut relative = Relative::at(0);
    let mut bytes = Vec::new();
    for (index, event) in (0u64..).zip(events) {
        let mut room = vec![0; 200 << 10];
        let length = Encoder::new(&mut room).event(times.wrapping_mul(index), event, &mut relative);
        bytes.extend_from_slice(&room[..length]);
    }
    bytes
}

struct Forged {
    store: Store,
    path: PathBuf,
    writer: Writer,
}

impl Forged {
    fn new(name: &str) -> Forged {
        let store = Store::new(name);
        let path = store.directory().join("forged");
        let nonsense = || OsString::from_vec(COMMANDS.to_vec());
        let nonsense_text = || String::from_utf8_lossy(COMMANDS).into_owned();
        let head = Head {
            created_seconds: u64::MAX,
            created_nanoseconds: u32::MAX,
            command: vec![nonsense(), nonsense()],
            directory: nonsense().into(),
            retro_version: nonsense_text(),
            machine: Machine {
                host: nonsense_text(),
                kernel: nonsense_text(),
                cpu_model: nonsense_text(),
                ..Machine::default()
            },
            ..Head::default()
        };
        let writer = Writer::create(&path, &head).unwrap();
        Forged { store, path, writer }
    }

    /// A chunk of the last interval that there can be.
    fn chunk(&mut self, log: u64, stream: Stream, sequence: u64, bytes: &[u8]) {
        let head = ChunkHead { log, stream, sequence, base_time: 0, interval: u64::MAX };
        self.writer.append(&encode_chunk(head, bytes, 3).unwrap()).unwrap();
    }

    fn summary(&mut self, summary: &ProcessSummary) {
        self.writer.append(&encode_process_summary(summary)).unwrap();
    }

    fn end(mut self) -> (Store, PathBuf) {
        let stopped = Some(String::from_utf8_lossy(COMMANDS).into_owned());
        let outcome = RunOutcome::Signalled(u32::MAX);
        let wall_nanoseconds = u64::MAX;
        let end = RunEnd { outcome, wall_nanoseconds, stopped, unrecorded: [u64::MAX; 4] };
        self.writer.append(&encode_end(&end)).unwrap();
        (self.store, self.path)
    }
}

/// Runs a command on the recording with little memory; returns what it printed.
#[track_caller]
fn look(store: &Store, arguments: &[&str]) -> (Ending, String, String) {
    let mut command: Command = store.command("bash");
    command.args(["-c", r#"ulimit -v 2000000; exec "$0" "$@""#]).arg(retro_path()).args(arguments);
    let outcome = run(&mut command, TIMEOUT);
    let (stdout, stderr) = (text(&outcome.stdout), text(&outcome.stderr));
    assert!(matches!(outcome.status, Ending::Exited(0 | 1)), "{arguments:?}: {stderr}");
    assert!(!stderr.contains("panicked"), "{arguments:?}: {stderr}");
    for shown in [&stdout, &stderr] {
        let obeyed = shown.chars().find(|&c| c != '\n' && c.is_control());
        assert_eq!(obeyed, None, "{arguments:?}");
    }
    (outcome.status, stdout, stderr)
}

const LOOKS: [&[&str]; 9] = [
    &["info", "forged"],
    &["info", "forged", "--all", "--check"],
    &["info", "forged", "--json"],
    &["dump", "forged"],
    &["dump", "forged", "--json"],
    &["dump", "forged", "--code"],
    &["dump", "forged", "--hex", "100", "--from", "1", "--thread", "0"],
    &["dump", "forged", "--from", "18446744073709551615"],
    &["dump", "forged", "--kind", "syscall", "--to", "3"],
];

#[test]
fn extreme_values_are_shown() {
    let mut forged = Forged::new("hostile-values");
    let events = extreme_events();
    let kinds: Vec<Kind> = events.iter().map(Event::kind).collect();
    assert!(Kind::ALL.iter().all(|kind| kinds.contains(kind)), "an event of each kind is tried");
    for stream in Stream::ALL {
        forged.chunk(0, stream, 0, &chunk(1, &events));
        forged.chunk(0, stream, 1, &chunk(u64::MAX / 50, &events));
    }
    let counts = Counts {
        events: (0..40)
            .map(|kind| (kind, KindCount { events: u64::MAX, bytes: u64::MAX }))
            .collect(),
        syscalls: [0, 400, 511, u32::MAX].map(|number| (number, u64::MAX)).into(),
        signals: [0, 9, 65, u32::MAX].map(|number| (number, u64::MAX)).into(),
        threads: u64::MAX,
        intervals: u64::MAX,
    };
    for (log, parent, origin) in [
        (0, Some(0), Some(Origin::Exec)),
        (1, Some(u64::MAX), Some(Origin::Fork)),
        (u64::MAX, Some(1), None),
    ] {
        forged.summary(&ProcessSummary {
            log,
            parent,
            origin,
            pid: u32::MAX,
            time: u64::MAX,
            end: ProcessEnd::Signalled(u32::MAX),
            counts: counts.clone(),
        });
    }
    let (store, path) = forged.end();
    for arguments in LOOKS {
        let (status, _, stderr) = look(&store, arguments);
        assert_eq!((status, stderr), (Ending::Exited(0), String::new()), "{arguments:?}");
    }
    let (_, shown, _) = look(&store, &["dump", "forged"]);
    assert_eq!(shown.lines().filter(|line| line.contains("interval ")).count(), 2, "{shown}");
    assert!(shown.contains(r"\x1b]0;owned\x07"), "{shown}");
    // In the list, too.
    fs::create_dir(store.root()).unwrap();
    fs::rename(path, store.root().join("forged")).unwrap();
    assert!(look(&store, &["ls"]).1.contains("forged"));
    look(&store, &["ls", "--json"]);
    let (status, ..) = look(&store, &["pack", "forged"]);
    assert_eq!(status, Ending::Exited(0));
}

#[test]
fn events_that_make_no_sense_are_reported_at_their_place() {
    let mut forged = Forged::new("hostile-events");
    let good = chunk(1, &[Event::Fork { pid: 1, log: 2 }, Event::ThreadStart { thread: 7 }]);
    forged.chunk(0, Stream::Main, 0, &good);
    forged.chunk(0, Stream::Main, 1, &[&good[..], b"\x7fnonsense"].concat());
    forged.chunk(0, Stream::Main, 2, &good);
    let (store, _) = forged.end();
    let (status, shown, stderr) = look(&store, &["dump", "forged"]);
    assert_eq!(status, Ending::Exited(1), "{stderr}");
    assert_eq!(shown.matches("thread 7 starts").count(), 3, "{shown}");
    assert!(stderr.contains("an unknown kind of event"), "{stderr}");
    let (status, ..) = look(&store, &["info", "forged", "--check"]);
    assert_eq!(status, Ending::Exited(0), "checksums are right");
}

#[test]
fn a_small_file_takes_little_memory() {
    let mut forged = Forged::new("hostile-size");
    let arguments = vec![0; 60 << 10];
    let start = Event::Start {
        pid: 1,
        parent: 1,
        origin: Origin::Exec as u8,
        seconds: 0,
        nanoseconds: 0,
        path: b"/bin/x",
        arguments: &arguments,
        environment: &arguments,
        directory: b"/",
    };
    let calls = |first: u32| -> Vec<Event> {
        let call = Event::SyscallEnter { number: 0, args: [0; 6], check: 0 };
        (first..first + 10_000)
            .flat_map(|thread| [Event::ThreadSwitch { thread, check: 0 }, call])
            .collect()
    };
    let files: Vec<Event> = (0..4)
        .map(|number| Event::File {
            number,
            device: 0,
            inode: 0,
            size: 0,
            modified_seconds: 0,
            modified_nanoseconds: 0,
            build_id: b"",
            path: &arguments[..30 << 10],
        })
        .collect();
    let (start, files) = (chunk(0, &[start]), chunk(0, &files));
    for log in 0..3_000 {
        forged.chunk(log, Stream::Main, 0, &start);
        forged.chunk(log, Stream::Code, 0, &files);
    }
    for sequence in 1..20 {
        let calls = chunk(0, &calls(sequence as u32 * 10_000));
        forged.chunk(0, Stream::Main, sequence, &calls);
    }
    let (store, path) = forged.end();
    let size = fs::metadata(path.join("log")).unwrap().len();
    assert!(size < 20 << 20, "{size}");
    for arguments in [
        &["info", "forged"][..],
        &["info", "forged", "--json"],
        &["dump", "forged", "--limit", "1000000"],
        &["dump", "forged", "--code", "--limit", "100"],
        &["pack", "forged"],
    ] {
        look(&store, arguments);
    }
}
