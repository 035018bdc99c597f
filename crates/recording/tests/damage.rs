//! Recordings that are cut, flipped and forged: what is whole before the damage stays readable, and nothing
//! wrong is handed out.

mod sample;

use std::fs;

use retro_abi::channel::Stream;
use retro_recording::{Error, Flaw, Recording, SegmentRef, State};
use tempfile::tempdir;

/// Length of the headers of the file and of segments.
const HEADER: usize = 64;

/// The sample's bytes and the lengths of the file after its header and after each segment.
fn sample_bytes() -> (Vec<u8>, Vec<usize>) {
    let place = tempdir().unwrap();
    let directory = place.path().join("run");
    let lengths = sample::write(&directory);
    let log = fs::read(directory.join("log")).unwrap();
    (log, lengths.into_iter().map(|length| length as usize).collect())
}

/// All chunks of a recording that are found, in the order of the file.
fn chunks(recording: &Recording) -> Vec<SegmentRef> {
    let mut all: Vec<SegmentRef> = (0..4)
        .flat_map(|log| Stream::ALL.map(|stream| recording.segments(log, stream)))
        .flatten()
        .copied()
        .collect();
    all.sort_by_key(|segment| segment.offset);
    all
}

/// Checks that what a damaged copy shows of the sample is the sample's.
fn check_agrees(damaged: &Recording, good: &Recording) {
    assert_eq!(damaged.head(), good.head());
    let good_chunks = chunks(good);
    for (index, segment) in chunks(damaged).iter().enumerate() {
        assert_eq!(segment, &good_chunks[index]);
        if let Ok(chunk) = damaged.read_chunk(segment) {
            assert_eq!(chunk, good.read_chunk(segment).unwrap());
        }
    }
    for process in damaged.processes() {
        let log = process.summary.log;
        if !process.derived {
            assert_eq!(Some(process), good.process(log));
        }
        assert!(process.summary.time <= good.process(log).unwrap().summary.time);
    }
    if damaged.end().is_some() {
        assert_eq!(damaged.end(), good.end());
    }
}

#[test]
fn a_log_cut_anywhere_keeps_every_whole_segment() {
    let place = tempdir().unwrap();
    let good_directory = place.path().join("good");
    sample::write(&good_directory);
    let good = Recording::open(&good_directory).unwrap();
    let (log, lengths) = sample_bytes();
    let directory = place.path().join("cut");
    for cut in 0..log.len() {
        sample::write_bytes(&directory, &log[..cut]);
        let opened = Recording::open(&directory);
        if cut < lengths[0] {
            assert!(matches!(opened, Err(Error::HeaderDamaged { .. })), "cut at {cut}");
            continue;
        }
        let recording = opened.unwrap();
        check_agrees(&recording, &good);
        assert_eq!(recording.state(), State::Interrupted);
        let whole = *lengths.iter().rfind(|&&length| length <= cut).unwrap();
        let expected = chunks(&good).iter().filter(|chunk| (chunk.offset as usize) < whole).count();
        assert_eq!(chunks(&recording).len(), expected, "cut at {cut}");
        for chunk in chunks(&recording) {
            recording.read_chunk(&chunk).unwrap();
        }
        let written = [lengths[5], lengths[7]].iter().filter(|&&length| length <= cut).count();
        let found = recording.processes().iter().filter(|process| !process.derived).count();
        assert_eq!(found, written, "cut at {cut}");
        match recording.damage() {
            None => assert_eq!(cut, whole, "cut at {cut}"),
            Some(damage) => {
                assert_ne!(cut, whole);
                assert_eq!((damage.offset, &damage.flaw), (whole as u64, &Flaw::CutShort));
            }
        }
    }
}

#[test]
fn a_flipped_bit_is_always_noticed() {
    let place = tempdir().unwrap();
    let good_directory = place.path().join("good");
    sample::write(&good_directory);
    let good = Recording::open(&good_directory).unwrap();
    let (log, lengths) = sample_bytes();
    let directory = place.path().join("flipped");
    // With and without an end: chunks are checked later in the one case and at once in the other.
    for log in [&log[..], &log[..lengths[lengths.len() - 2]]] {
        for byte in 0..log.len() {
            for bit in 0..8 {
                let mut flipped = log.to_vec();
                flipped[byte] ^= 1 << bit;
                sample::write_bytes(&directory, &flipped);
                let Ok(recording) = Recording::open(&directory) else {
                    assert!(byte < lengths[0], "byte {byte}: a recording must open");
                    continue;
                };
                assert!(byte >= lengths[0], "byte {byte}: the head was believed");
                check_agrees(&recording, &good);
                let error = recording.verify().unwrap_err();
                let hit = *lengths.iter().rfind(|&&length| length <= byte).unwrap();
                let Error::Damaged { damage, .. } = error else { panic!("{error}") };
                assert_eq!(damage.offset, hit as u64, "byte {byte}");
                let unreadable = chunks(&recording)
                    .iter()
                    .filter(|chunk| recording.read_chunk(chunk).is_err())
                    .count();
                assert!(recording.damage().is_some() || unreadable == 1, "byte {byte}");
                for chunk in chunks(&recording) {
                    let is_hit = chunk.offset == hit as u64;
                    assert_eq!(recording.read_chunk(&chunk).is_err(), is_hit, "byte {byte}");
                }
            }
        }
    }
}

/// Gives a header the checksum that its bytes have.
fn seal(log: &mut [u8], at: usize) {
    let sum = crc32fast::hash(&log[at..at + HEADER - 4]);
    log[at + HEADER - 4..at + HEADER].copy_from_slice(&sum.to_le_bytes());
}

fn check_flaw(change: impl Fn(&mut Vec<u8>, &[usize]), at_segment: usize, expected: Flaw) {
    let place = tempdir().unwrap();
    let (mut log, lengths) = sample_bytes();
    change(&mut log, &lengths);
    sample::write_bytes(place.path(), &log);
    let recording = Recording::open(place.path()).unwrap();
    let damage = recording.damage().expect("damage");
    assert_eq!((damage.offset as usize, &damage.flaw), (lengths[at_segment], &expected));
}

#[test]
fn forged_headers_are_refused() {
    let field = |offset: usize, value: u8| {
        move |log: &mut Vec<u8>, lengths: &[usize]| {
            log[lengths[1] + offset] = value;
            seal(log, lengths[1]);
        }
    };
    check_flaw(field(4, 0), 1, Flaw::HeaderField("its kind is 0"));
    check_flaw(field(5, 2), 1, Flaw::HeaderField("an unknown stream"));
    check_flaw(field(6, 2), 1, Flaw::HeaderField("an unknown compression"));
    check_flaw(field(6, 0), 1, Flaw::HeaderField("its lengths contradict each other"));
    check_flaw(field(16, 1), 1, Flaw::MissingChunk);
    check_flaw(field(43, 0xff), 1, Flaw::HeaderField("it declares an absurd length"));
    // Stored length, which then is larger than the raw one.
    check_flaw(field(46, 0xff), 1, Flaw::HeaderField("its lengths contradict each other"));
    check_flaw(field(0, 0), 1, Flaw::NoSegment);
    check_flaw(|log, lengths| log[lengths[1] + 8] ^= 1, 1, Flaw::HeaderChecksum);
    check_flaw(|log, _| log.push(0), 8, Flaw::AfterEnd);
    let twice = |log: &mut Vec<u8>, lengths: &[usize]| {
        let first = log[lengths[0]..lengths[1]].to_vec();
        log.splice(lengths[1]..lengths[1], first);
    };
    check_flaw(twice, 1, Flaw::MissingChunk);
}

#[test]
fn a_payload_that_decompresses_to_another_length_is_refused() {
    let place = tempdir().unwrap();
    let (mut log, lengths) = sample_bytes();
    for change in [1u8, 255] {
        let length = &mut log[lengths[0] + 40];
        *length = length.wrapping_add(change);
        seal(&mut log, lengths[0]);
        sample::write_bytes(place.path(), &log);
        let recording = Recording::open(place.path()).unwrap();
        let error = recording.read_chunk(&recording.segments(0, Stream::Main)[0]).unwrap_err();
        let Error::Damaged { damage, .. } = error else { panic!("{error}") };
        assert_eq!(damage.flaw, Flaw::Decompression);
        log[lengths[0] + 40] = log[lengths[0] + 40].wrapping_sub(change);
    }
}

#[test]
fn segments_of_a_later_kind_are_skipped() {
    let place = tempdir().unwrap();
    let (mut log, lengths) = sample_bytes();
    // A summary becomes something unknown; all else stays.
    log[lengths[4] + 4] = 200;
    seal(&mut log, lengths[4]);
    sample::write_bytes(place.path(), &log);
    let recording = Recording::open(place.path()).unwrap();
    assert_eq!((recording.damage(), recording.state()), (None, State::Finished));
    assert_eq!(chunks(&recording).len(), 5);
    assert!(recording.process(1).unwrap().derived);
}
