//! Writing a recording and reading it back.

mod sample;

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use retro_abi::channel::{Origin, Stream};
use retro_abi::log::{Event, Kind};
use retro_recording::{
    ChunkHead, Error, Head, ProcessEnd, Recording, RunEnd, RunOutcome, State, Writer, chunk_limit,
    encode_chunk, encode_end, encode_process_summary,
};
use tempfile::tempdir;

#[test]
fn everything_written_is_read_back() {
    let place = tempdir().unwrap();
    let directory = place.path().join("run");
    let lengths = sample::write(&directory);
    let recording = Recording::open(&directory).unwrap();

    assert_eq!(recording.head(), &sample::head());
    assert_eq!(recording.end(), Some(&sample::run_end()));
    assert_eq!(recording.state(), State::Finished);
    assert_eq!(recording.damage(), None);
    assert_eq!(recording.log_bytes(), *lengths.last().unwrap());
    assert_eq!(recording.directory(), directory);
    recording.verify().unwrap();

    let summaries: Vec<_> = recording.processes().iter().map(|p| p.summary.clone()).collect();
    assert_eq!(summaries, [sample::summary(0), sample::summary(1)]);
    assert!(recording.processes().iter().all(|process| !process.derived));
    assert_eq!(recording.process(1).unwrap().summary.pid, 1001);
    assert!(recording.process(2).is_none());

    let chunks = recording.segments(0, Stream::Main);
    assert_eq!(chunks.iter().map(|chunk| chunk.sequence).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(chunks.iter().map(|chunk| chunk.base_time).collect::<Vec<_>>(), [0, 10, 300]);
    assert_eq!(chunks[1].interval, 1);
    assert_eq!(recording.segments(1, Stream::Code), []);
    let chunk = recording.read_chunk(&chunks[1]).unwrap();
    let load = Event::Load { address: 0x1000, bytes: &[5; 100] };
    let expected = [(10, load), (300, Event::SyscallExit { result: 7 })];
    assert_eq!(chunk.bytes, sample::chunk(10, &expected));
    assert_eq!(chunk.events().map(Result::unwrap).collect::<Vec<_>>(), expected);
}

fn times(recording: &Recording, log: u64, stream: Stream, from: u64) -> Vec<(u64, Kind)> {
    let mut found = Vec::new();
    let flow = recording
        .for_each_event_from::<()>(log, stream, from, |time, event| {
            found.push((time, event.kind()));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(flow, ControlFlow::Continue(()));
    found
}

#[test]
fn events_are_visited_in_order_and_from_a_time_on() {
    let place = tempdir().unwrap();
    let directory = place.path().join("run");
    sample::write(&directory);
    let recording = Recording::open(&directory).unwrap();
    let all = [
        (0, Kind::Start),
        (10, Kind::Load),
        (10, Kind::Load),
        (300, Kind::SyscallExit),
        (350, Kind::End),
    ];
    for from in [0, 1, 9, 10, 11, 299, 300, 301, 350, 351, u64::MAX] {
        let expected: Vec<_> = all.into_iter().filter(|&(time, _)| time >= from).collect();
        assert_eq!(times(&recording, 0, Stream::Main, from), expected, "from {from}");
    }
    assert_eq!(times(&recording, 0, Stream::Code, 0), [(0, Kind::Code)]);
    assert_eq!(times(&recording, 7, Stream::Main, 0), []);
    let flow = recording
        .for_each_event(0, Stream::Main, |time, event| match event.kind() {
            Kind::Load => ControlFlow::Break(time),
            _ => ControlFlow::Continue(()),
        })
        .unwrap();
    assert_eq!(flow, ControlFlow::Break(10));
}

#[test]
fn a_recording_without_an_end_tells_what_its_chunks_tell() {
    let place = tempdir().unwrap();
    let directory = place.path().join("run");
    let mut writer = Writer::create(&directory, &sample::head()).unwrap();
    for segment in &sample::segments()[..4] {
        writer.append(segment).unwrap();
    }
    let recording = Recording::open(&directory).unwrap();
    assert_eq!(recording.state(), State::Running);
    drop(writer);
    let recording_after = Recording::open(&directory).unwrap();
    assert_eq!(recording_after.state(), State::Interrupted);
    for recording in [recording, recording_after] {
        assert_eq!(recording.end(), None);
        assert_eq!(recording.damage(), None);
        recording.verify().unwrap();
        assert_eq!(recording.processes().len(), 2);
        for (process, (pid, origin, time)) in recording
            .processes()
            .iter()
            .zip([(1000, Origin::First, 300), (1001, Origin::Fork, 200)])
        {
            assert!(process.derived);
            assert_eq!(process.summary.pid, pid);
            assert_eq!(process.summary.origin, Some(origin));
            assert_eq!(process.summary.time, time);
            assert_eq!(process.summary.end, ProcessEnd::Unknown);
        }
    }
}

#[test]
fn half_a_segment_in_a_running_recording_is_no_damage() {
    let place = tempdir().unwrap();
    let directory = place.path().join("run");
    let mut writer = Writer::create(&directory, &sample::head()).unwrap();
    for segment in &sample::segments()[..2] {
        writer.append(segment).unwrap();
    }
    let log = fs::OpenOptions::new().write(true).open(directory.join("log")).unwrap();
    log.set_len(writer.length() - 3).unwrap();
    let recording = Recording::open(&directory).unwrap();
    assert_eq!((recording.state(), recording.damage()), (State::Running, None));
    recording.verify().unwrap();
    drop(writer);
    assert!(Recording::open(&directory).unwrap().damage().is_some());
}

#[test]
fn incompressible_empty_and_full_chunks_are_kept() {
    let place = tempdir().unwrap();
    let directory = place.path().join("run");
    let mut state = 1u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(chunk_limit(Stream::Main))
    .collect();
    let chunks = [&noise[..], &[], &[1], &vec![0; chunk_limit(Stream::Main)]];
    let head =
        |sequence| ChunkHead { log: 9, stream: Stream::Main, sequence, base_time: 1, interval: 0 };
    let mut writer = Writer::create(&directory, &sample::head()).unwrap();
    for (sequence, chunk) in (0..).zip(chunks) {
        for level in [-1, 1, 19] {
            let segment = encode_chunk(head(sequence), chunk, level).unwrap();
            assert!(segment.stored_length() <= chunk.len() + 64, "level {level}");
        }
        writer.append(&encode_chunk(head(sequence), chunk, 3).unwrap()).unwrap();
    }
    drop(writer);
    let recording = Recording::open(&directory).unwrap();
    for (segment, chunk) in recording.segments(9, Stream::Main).iter().zip(chunks) {
        assert_eq!(recording.read_chunk(segment).unwrap().bytes, chunk);
    }
    assert!(recording.log_bytes_of(9) < recording.log_bytes());
    let too_large = vec![0; chunk_limit(Stream::Code) + 1];
    let head = ChunkHead { stream: Stream::Code, ..head(0) };
    assert!(matches!(encode_chunk(head, &too_large, 3), Err(Error::ChunkTooLarge { .. })));
}

#[test]
fn chunks_are_encoded_on_other_threads() {
    let encoded = std::thread::spawn(sample::segments).join().unwrap();
    assert_eq!(encoded, sample::segments());
}

#[test]
fn chunks_of_a_stream_are_only_taken_in_order() {
    let place = tempdir().unwrap();
    let mut writer = Writer::create(&place.path().join("run"), &sample::head()).unwrap();
    let chunk = |stream, sequence| sample::segment(0, stream, sequence, 0, &[]);
    assert!(matches!(
        writer.append(&chunk(Stream::Main, 1)),
        Err(Error::OutOfOrder { expected: 0, found: 1, .. })
    ));
    writer.append(&chunk(Stream::Main, 0)).unwrap();
    writer.append(&chunk(Stream::Code, 0)).unwrap();
    writer.append(&chunk(Stream::Main, 1)).unwrap();
    assert!(writer.append(&chunk(Stream::Main, 1)).is_err());
    assert!(writer.append(&chunk(Stream::Main, 3)).is_err());
    drop(writer);
    let recording = Recording::open(&place.path().join("run")).unwrap();
    assert_eq!((recording.segments(0, Stream::Main).len(), recording.damage()), (2, None));
}

#[test]
fn ends_of_all_kinds_are_kept() {
    for outcome in [RunOutcome::Unknown, RunOutcome::Exited(255), RunOutcome::Signalled(9)] {
        for stopped in [None, Some(String::new()), Some("é".repeat(5000))] {
            let place = tempdir().unwrap();
            let directory = place.path().join("run");
            let mut writer = Writer::create(&directory, &Head::default()).unwrap();
            let end = RunEnd { outcome, stopped: stopped.clone(), ..RunEnd::default() };
            writer.append(&encode_end(&end)).unwrap();
            let read = Recording::open(&directory).unwrap().end().unwrap().clone();
            assert_eq!(read.outcome, outcome);
            let expected = stopped.map(|reason| reason.chars().take(2048).collect::<String>());
            assert_eq!(read.stopped, expected);
        }
    }
    let ends = [
        ProcessEnd::Unknown,
        ProcessEnd::Exited(1),
        ProcessEnd::Signalled(6),
        ProcessEnd::Executed,
        ProcessEnd::Stopped,
    ];
    let place = tempdir().unwrap();
    let directory = place.path().join("run");
    let mut writer = Writer::create(&directory, &Head::default()).unwrap();
    for (log, end) in (0..).zip(ends) {
        let summary = retro_recording::ProcessSummary { log, end, ..sample::summary(0) };
        writer.append(&encode_process_summary(&summary)).unwrap();
    }
    let recording = Recording::open(&directory).unwrap();
    let read: Vec<_> = recording.processes().iter().map(|process| process.summary.end).collect();
    assert_eq!(read, ends);
    assert_eq!(recording.head(), &Head::default());
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn only_the_owner_can_read_a_recording() {
    let place = tempdir().unwrap();
    let new = place.path().join("new");
    let existing = place.path().join("existing");
    fs::create_dir(&existing).unwrap();
    fs::set_permissions(&existing, fs::Permissions::from_mode(0o777)).unwrap();
    for directory in [new, existing] {
        sample::write(&directory);
        assert_eq!(mode(&directory), 0o700);
        assert_eq!(mode(&directory.join("log")), 0o600);
    }
}

#[test]
fn a_directory_in_use_is_not_taken() {
    let place = tempdir().unwrap();
    let directory = place.path().join("run");
    sample::write(&directory);
    let before = fs::read(directory.join("log")).unwrap();
    let error = Writer::create(&directory, &sample::head()).unwrap_err();
    assert!(matches!(error, Error::NotEmpty(_)), "{error}");
    assert_eq!(fs::read(directory.join("log")).unwrap(), before);
    let missing = place.path().join("no/such/place");
    assert!(matches!(Writer::create(&missing, &sample::head()), Err(Error::Io { .. })));
}

#[test]
fn what_is_no_recording_is_refused_with_a_reason() {
    let place = tempdir().unwrap();
    let open = |path: &Path| Recording::open(path).unwrap_err().to_string();
    assert!(open(&place.path().join("nothing")).contains("no such directory"));
    assert!(open(place.path()).contains("no log in it"));
    let text = place.path().join("text");
    sample::write_bytes(&text, &[b'x'; 100]);
    assert!(open(&text).contains("begins otherwise"));
    assert!(open(&text.join("log")).contains("not a directory"));
    sample::write_bytes(&text, b"");
    assert!(open(&text).contains("too short"));
    let newer = place.path().join("newer");
    sample::write(&newer);
    let mut log = fs::read(newer.join("log")).unwrap();
    for other in [1, 3] {
        log[8] = other;
        fs::write(newer.join("log"), &log).unwrap();
        let expected = format!("format version {other}, but this retro reads version 2");
        assert!(open(&newer).contains(&expected));
    }
    let pipe = place.path().join("pipe");
    fs::create_dir(&pipe).unwrap();
    nix::unistd::mkfifo(&pipe.join("log"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(open(&pipe).contains("not a file"));
}

#[test]
fn a_new_head_describes_this_machine() {
    let head = Head::new(vec!["ls".into()], "/".into(), Default::default()).unwrap();
    let other = Head::new(vec!["ls".into()], "/".into(), Default::default()).unwrap();
    assert_ne!(head.id, other.id);
    assert!(head.created_seconds > 1_600_000_000);
    assert!(!head.machine.kernel.is_empty());
    assert!(!head.machine.cpu_vendor.is_empty());
    assert!(head.machine.cpu_features.iter().any(|feature| feature == "sse2"));
}
