//! The order of output, on logs that are made up.

use retro_abi::channel::{Origin, Stream as LogStream};
use retro_abi::log::{Encoder, Event, MAX_FIXED, Relative};
use retro_recording::{
    ChunkHead, DEFAULT_LEVEL, Head, ProcessSummary, RunEnd, Writer, encode_chunk, encode_end,
    encode_process_summary,
};
use tempfile::TempDir;

use super::*;

/// Memory that holds at each address a letter of the process, and at some addresses other things.
struct Letters {
    log: u64,
    /// The last time that was asked about, since its beginning.
    reached: u64,
}

const PATH_OF_STDERR: u64 = 0x5000;
const VECTORS: u64 = 0x6000;
const NOTHING: u64 = 0x7000;

impl Memory for Letters {
    fn read(&mut self, at: Instant, address: u64, length: u64) -> Result<Vec<u8>> {
        assert!(
            at.time >= self.reached,
            "memory of {} is asked for after {}",
            at.time,
            self.reached
        );
        self.reached = at.time;
        Ok(match address {
            PATH_OF_STDERR => b"/dev/stderr\0".to_vec(),
            VECTORS => [0x9000u64, 2, NOTHING, 3].iter().flat_map(|w| w.to_le_bytes()).collect(),
            NOTHING => Vec::new(),
            _ => vec![b'a' + self.log as u8; length as usize],
        })
    }

    fn rest(&mut self) {
        self.reached = 0;
    }
}

/// A log that is being made up.
struct Made {
    summary: ProcessSummary,
    time: u64,
    events: Vec<(u64, Event<'static>)>,
}

fn process(log: u64, pid: u32, parent: Option<u64>, origin: Origin) -> Made {
    let summary =
        ProcessSummary { log, pid, parent, origin: Some(origin), ..ProcessSummary::default() };
    let begin = Event::Interval { number: 0, running: pid, threads: 1 };
    Made { summary, time: 0, events: vec![(0, begin)] }
}

impl Made {
    fn event(mut self, event: Event<'static>) -> Made {
        self.time += 10;
        self.events.push((self.time, event));
        self
    }

    fn enter(self, number: libc::c_long, args: &[u64]) -> Made {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        self.event(Event::SyscallEnter { number: number as u64, args: all, check: 0 })
    }

    fn exit(self, result: i64) -> Made {
        self.event(Event::SyscallExit { result: result.cast_unsigned() })
    }

    fn call(self, number: libc::c_long, args: &[u64], result: i64) -> Made {
        self.enter(number, args).exit(result)
    }

    fn write(self, fd: u64, length: u64) -> Made {
        self.call(libc::SYS_write, &[fd, 0x1000, length], length as i64)
    }

    fn fork(self, pid: u32, log: Option<u64>) -> Made {
        self.enter(libc::SYS_fork, &[])
            .event(Event::Fork { pid, log: log.map_or(0, |log| log + 1) })
            .exit(pid.into())
    }

    fn wait(self, pid: u32) -> Made {
        self.call(libc::SYS_wait4, &[u64::MAX, 0, 0, 0], pid.into())
    }

    fn switch(self, thread: u32) -> Made {
        self.event(Event::ThreadSwitch { thread, check: 0 })
    }

    fn exec(self) -> Made {
        self.enter(libc::SYS_execve, &[])
    }
}

/// Output as text, that to stderr in capitals, and what is missing.
fn told(logs: Vec<Made>, wanted: &Wanted) -> (String, Missing) {
    let place = TempDir::new().unwrap();
    let directory = place.path().join("run");
    let mut writer = Writer::create(&directory, &Head::default()).unwrap();
    for made in &logs {
        let mut bytes = Vec::new();
        let mut relative = Relative::at(0);
        for (time, event) in &made.events {
            let mut room = [0; MAX_FIXED];
            let length = Encoder::new(&mut room).event(*time, event, &mut relative);
            bytes.extend_from_slice(&room[..length]);
        }
        let log = made.summary.log;
        let head =
            ChunkHead { log, stream: LogStream::Main, sequence: 0, base_time: 0, interval: 0 };
        writer.append(&encode_chunk(head, &bytes, DEFAULT_LEVEL).unwrap()).unwrap();
        let summary = ProcessSummary { time: made.time, ..made.summary.clone() };
        writer.append(&encode_process_summary(&summary)).unwrap();
    }
    writer.append(&encode_end(&RunEnd::default())).unwrap();
    let recording = Recording::open(&directory).unwrap();
    let memory_of = |log| -> Box<dyn Memory> { Box::new(Letters { log, reached: 0 }) };
    let mut told = String::new();
    let followed = Family::new(&recording, wanted, &memory_of)
        .follow(&mut |piece| {
            let text = String::from_utf8_lossy(piece.bytes);
            told.push_str(&match piece.stream {
                Stream::Out => text.to_string(),
                Stream::Err => text.to_uppercase(),
            });
            Ok(())
        })
        .unwrap();
    assert!(followed.failures.is_empty(), "{:?}", followed.failures);
    (told, followed.missing)
}

#[track_caller]
fn check(logs: Vec<Made>, expected: &str) {
    let all = Wanted { logs: Vec::new(), from: 0, to: u64::MAX };
    assert_eq!(told(logs, &all), (expected.to_string(), Missing::default()));
}

#[test]
fn a_child_comes_before_its_parent_s_wait_returns() {
    let parent = || process(0, 10, None, Origin::First).write(1, 1).fork(20, Some(1)).write(1, 2);
    let child = || process(1, 20, Some(0), Origin::Fork).write(2, 3);
    check(vec![parent().wait(20).write(1, 1), child()], "aaaBBBa");
    // Nobody waits for it.
    check(vec![parent().write(1, 1), child()], "aaaaBBB");
    // Another one is waited for.
    check(vec![parent().wait(99).write(1, 1), child()], "aaaaBBB");
}

#[test]
fn an_executed_program_goes_on_as_the_same_process() {
    let shell = process(0, 10, None, Origin::First)
        .fork(20, Some(1))
        .call(libc::SYS_dup2, &[2, 1], 1)
        .call(libc::SYS_fcntl, &[2, libc::F_SETFD as u64, 1], 0)
        .exec()
        .exit(-2)
        .exec();
    let program =
        process(2, 10, Some(0), Origin::Exec).write(1, 1).write(2, 9).wait(20).write(1, 1);
    let child = process(1, 20, Some(0), Origin::Fork).write(1, 1);
    check(vec![shell, child, program], "CbC");
}

#[test]
fn a_spawned_child_has_a_log_from_its_program_on() {
    let parent = process(0, 10, None, Origin::First)
        .enter(libc::SYS_vfork, &[])
        .switch(20)
        .event(Event::ThreadStart { thread: 20 })
        .call(libc::SYS_dup2, &[2, 1], 1)
        .exec()
        .switch(10)
        .event(Event::Fork { pid: 20, log: 0 })
        .exit(20)
        .write(1, 1)
        .wait(20)
        .write(1, 1);
    let child = process(1, 20, Some(0), Origin::Fork).write(1, 2);
    check(vec![parent, child], "aBBa");
}

#[test]
fn what_was_in_memory_when_a_call_began_is_kept() {
    let threads = process(0, 10, None, Origin::First)
        .enter(libc::SYS_write, &[1, 0x1000, 3])
        .switch(11)
        .write(2, 1)
        .write(2, 1)
        .switch(10)
        .exit(2);
    check(vec![threads], "AAaa");
}

#[test]
fn other_names_and_vectors_are_followed() {
    let flags = libc::O_WRONLY as u64;
    let process = process(0, 10, None, Origin::First)
        .call(libc::SYS_openat, &[0, PATH_OF_STDERR, flags], 3)
        .write(3, 1)
        .call(libc::SYS_close, &[3], 0)
        .write(3, 1)
        .call(libc::SYS_writev, &[1, VECTORS, 2], 2);
    check(vec![process], "Aaa");
}

#[test]
fn what_is_missing_is_counted() {
    let all = Wanted { logs: Vec::new(), from: 0, to: u64::MAX };
    let process = process(0, 10, None, Origin::First)
        .call(libc::SYS_sendfile, &[1, 3, 0, 100], 100)
        .call(libc::SYS_writev, &[1, VECTORS, 2], 5)
        .call(libc::SYS_io_uring_enter, &[5, 1], 1)
        .fork(20, None)
        .write(1, 1);
    let missing = Missing { bytes: 103, asynchronous_calls: 1, processes: 1 };
    assert_eq!(told(vec![process], &all), ("aaa".to_string(), missing));
}

#[test]
fn only_what_is_wanted_is_told() {
    let logs = || {
        vec![
            process(0, 10, None, Origin::First).write(1, 1).fork(20, Some(1)).wait(20).write(1, 1),
            process(1, 20, Some(0), Origin::Fork).write(1, 1).write(1, 1),
        ]
    };
    let wanted = Wanted { logs: vec![1], from: 0, to: u64::MAX };
    assert_eq!(told(logs(), &wanted).0, "bb");
    let wanted = Wanted { logs: vec![1], from: 11, to: u64::MAX };
    assert_eq!(told(logs(), &wanted).0, "b");
    let wanted = Wanted { logs: vec![0], from: 0, to: 10 };
    assert_eq!(told(logs(), &wanted).0, "a");
}

#[test]
fn nobody_is_followed_twice() {
    // Parents and children that make no sense.
    let first = process(0, 10, None, Origin::First)
        .fork(20, Some(0))
        .fork(20, Some(1))
        .wait(20)
        .write(1, 1);
    let second = process(1, 20, Some(0), Origin::Fork).fork(10, Some(0)).wait(10).write(1, 1);
    let third = process(2, 20, Some(2), Origin::Exec).write(1, 1);
    let fourth = process(9, 77, Some(50), Origin::Fork).write(1, 1);
    check(vec![first, second, third, fourth], "abcj");
}
