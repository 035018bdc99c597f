//! Recordings that are not what they were: bits flipped, cut short, parts missing or in another order, another version.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use retro_abi::channel::Stream;
use retro_cli::engine_file::EngineFile;
use retro_recording::{
    ChunkHead, DEFAULT_LEVEL, FORMAT_VERSION, Recording, SegmentRef, State, Writer, encode_chunk,
    encode_end, encode_process_summary,
};
use retro_replayer::{Replayer, Verdict, Verifier};
use retro_testkit::compare::{Ending, assert_orderly};

use crate::{Place, text};

/// Bytes of the header of a file, and of that of a segment.
const HEADER: usize = 64;

/// A real recording with several chunks and intervals, and the bytes of its log.
fn recorded(name: &str) -> (Place, Vec<u8>) {
    let place = Place::new(name);
    let outcome = place.record(&["--interval", "50k"], &["/bin/echo", "hello"]);
    assert_eq!(outcome.status, Ending::Exited(0), "{}", text(&outcome.stderr));
    let bytes = fs::read(log_of(&place)).unwrap();
    (place, bytes)
}

fn log_of(place: &Place) -> PathBuf {
    place.recording().join("log")
}

fn engine() -> &'static Path {
    static ENGINE: OnceLock<EngineFile> = OnceLock::new();
    ENGINE.get_or_init(|| EngineFile::new(&[]).unwrap()).path()
}

/// The first thing that is not right about a recording, as `retro verify` finds it.
fn flaw(directory: &Path) -> Option<String> {
    let recording = match Recording::open(directory) {
        Ok(recording) => recording,
        Err(error) => return Some(error.to_string()),
    };
    if let Some(damage) = recording.damage() {
        return Some(damage.to_string());
    }
    if recording.state() != State::Finished {
        return Some("it has no end".to_owned());
    }
    let replayer = Replayer::open(recording, engine().to_owned());
    let mut verifier = Verifier::new(replayer.clone());
    for process in replayer.recording().processes() {
        let log = process.summary.log;
        let mut events = 0;
        let intervals = match replayer.intervals(log) {
            Ok(intervals) => intervals,
            Err(error) => return Some(error.to_string()),
        };
        for interval in intervals.iter() {
            match verifier.verify(log, interval.number, |_| {}) {
                Err(error) => return Some(error.to_string()),
                Ok(done) if done.verdict != Verdict::Same => {
                    return Some(format!("at time {}: {:?}", done.time, done.verdict));
                }
                Ok(done) => events += done.events,
            }
        }
        let counted = replayer.counted_events(log);
        if counted.is_some_and(|counted| counted > events + 1) {
            return Some(format!("log {log} lacks events"));
        }
    }
    None
}

/// Numbers that are always the same and look like none.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) as usize % limit
    }
}

fn segments(place: &Place, stream: Stream) -> Vec<SegmentRef> {
    Recording::open(&place.recording()).unwrap().segments(0, stream).to_vec()
}

fn range_of(segment: &SegmentRef) -> std::ops::Range<usize> {
    let start = segment.offset as usize;
    start..start + HEADER + segment.stored_length as usize
}

/// `retro verify` and `retro replay` say that something is wrong.
#[track_caller]
fn assert_noticed(place: &Place, what: &str) -> String {
    let verified = place.retro(&["verify", "recording"]);
    assert_orderly(&verified, what);
    let said = text(&verified.stderr);
    assert_eq!(verified.status, Ending::Exited(1), "{what}: {said}");
    assert!(!text(&verified.stdout).contains("OK"), "{what}");
    let replayed = place.retro(&["replay", "recording"]);
    assert_orderly(&replayed, what);
    let shown = text(&replayed.stdout);
    assert!(shown == "hello\n" || shown.is_empty(), "{what}: {shown}");
    // Output that is missing is not missing in silence.
    assert!(shown == "hello\n" || !replayed.stderr.is_empty(), "{what}");
    said
}

#[test]
fn what_is_whole_is_right() {
    let (place, _) = recorded("damage-none");
    assert_eq!(flaw(&place.recording()), None);
    assert!(segments(&place, Stream::Main).len() > 2, "there is something to take out");
    let verified = place.retro(&["verify", "recording"]);
    assert_eq!(verified.status, Ending::Exited(0), "{}", text(&verified.stderr));
    assert_eq!(text(&place.retro(&["replay", "recording"]).stdout), "hello\n");
}

#[test]
fn every_flipped_bit_is_noticed() {
    let (place, bytes) = recorded("damage-flips");
    let mut numbers = Numbers(1);
    let mut places: Vec<usize> = (0..HEADER).collect();
    for stream in Stream::ALL {
        for segment in segments(&place, stream) {
            let range = range_of(&segment);
            places.extend((0..3).map(|_| range.start + numbers.below(HEADER)));
            places
                .extend((0..3).map(|_| range.start + HEADER + numbers.below(range.len() - HEADER)));
        }
    }
    places.extend((0..100).map(|_| numbers.below(bytes.len())));
    for (index, position) in places.into_iter().enumerate() {
        let mut changed = bytes.clone();
        let bit = numbers.below(8);
        changed[position] ^= 1 << bit;
        fs::write(log_of(&place), changed).unwrap();
        let what = format!("bit {bit} of byte {position}");
        assert!(flaw(&place.recording()).is_some(), "{what} was not noticed");
        if index % 10 == 0 {
            assert_noticed(&place, &what);
        }
    }
}

#[test]
fn a_recording_that_is_cut_short_says_so() {
    let (place, bytes) = recorded("damage-cut");
    let mut numbers = Numbers(2);
    let mut lengths: Vec<usize> = (0..60).map(|_| numbers.below(bytes.len())).collect();
    // At the ends of segments nothing but what is missing tells.
    for stream in Stream::ALL {
        lengths.extend(segments(&place, stream).iter().map(|segment| range_of(segment).end));
    }
    for (index, length) in lengths.into_iter().enumerate() {
        fs::write(log_of(&place), &bytes[..length]).unwrap();
        let what = format!("cut to {length} of {}", bytes.len());
        assert!(flaw(&place.recording()).is_some(), "{what}");
        if index % 8 == 0 {
            let verified = place.retro(&["verify", "recording"]);
            assert_orderly(&verified, &what);
            assert!(!verified.stderr.is_empty(), "{what}");
            assert_orderly(&place.retro(&["replay", "recording"]), &what);
        }
    }
}

#[test]
fn another_version_is_refused() {
    let (place, bytes) = recorded("damage-version");
    for version in [0, FORMAT_VERSION - 1, FORMAT_VERSION + 1, u32::MAX] {
        let mut changed = bytes.clone();
        changed[8..12].copy_from_slice(&version.to_le_bytes());
        fs::write(log_of(&place), changed).unwrap();
        let said = assert_noticed(&place, &format!("version {version}"));
        assert!(said.contains(&format!("version {version}")), "{said}");
    }
}

#[test]
fn a_missing_segment_is_noticed() {
    let (place, bytes) = recorded("damage-missing");
    for stream in Stream::ALL {
        for segment in segments(&place, stream) {
            let mut changed = bytes.clone();
            changed.drain(range_of(&segment));
            fs::write(log_of(&place), changed).unwrap();
            let what = format!("chunk {} of {stream:?}", segment.sequence);
            assert_noticed(&place, &what);
            fs::write(log_of(&place), &bytes).unwrap();
        }
    }
}

#[test]
fn segments_in_another_order_are_noticed() {
    let (place, bytes) = recorded("damage-order");
    for stream in Stream::ALL {
        for pair in segments(&place, stream).windows(2) {
            let [first, second] = [range_of(&pair[0]), range_of(&pair[1])];
            let changed = [
                &bytes[..first.start],
                &bytes[second.clone()],
                &bytes[first.end..second.start],
                &bytes[first],
                &bytes[second.end..],
            ]
            .concat();
            fs::write(log_of(&place), changed).unwrap();
            assert_noticed(
                &place,
                &format!("chunks {} and its next of {stream:?}", pair[0].sequence),
            );
            fs::write(log_of(&place), &bytes).unwrap();
        }
    }
}

/// The chunks of a stream, with what their headers say.
type Chunks = Vec<(SegmentRef, Vec<u8>)>;

/// Writes the recording anew, with right checksums, after something was done to the order of its chunks.
fn rewrite(place: &Place, rearrange: impl Fn(Stream, &mut Chunks)) {
    let recording = Recording::open(&place.recording()).unwrap();
    let new = place.path().join("new");
    let mut writer = Writer::create(&new, recording.head()).unwrap();
    for stream in Stream::ALL {
        let all = recording.segments(0, stream).iter();
        let mut chunks: Vec<_> =
            all.map(|segment| (*segment, recording.read_chunk(segment).unwrap().bytes)).collect();
        rearrange(stream, &mut chunks);
        for (sequence, (segment, bytes)) in (0..).zip(chunks) {
            let SegmentRef { base_time, interval, .. } = segment;
            let head = ChunkHead { log: 0, stream, sequence, base_time, interval };
            writer.append(&encode_chunk(head, &bytes, DEFAULT_LEVEL).unwrap()).unwrap();
        }
    }
    writer.append(&encode_process_summary(&recording.processes()[0].summary)).unwrap();
    writer.append(&encode_end(recording.end().unwrap())).unwrap();
    drop(writer);
    fs::rename(new.join("log"), log_of(place)).unwrap();
    fs::remove_dir(new).unwrap();
}

/// As whoever takes a recording apart and puts it together again would: all checksums and numbers are right.
#[test]
fn a_recording_put_together_wrong_is_noticed() {
    let (place, bytes) = recorded("damage-forged");
    rewrite(&place, |_, _| {});
    assert_eq!(flaw(&place.recording()), None, "nothing was changed");
    let count = segments(&place, Stream::Main).len();
    let code_count = segments(&place, Stream::Code).len();
    let noticed = |what: &str, of: Stream, change: &dyn Fn(&mut Chunks)| {
        fs::write(log_of(&place), &bytes).unwrap();
        rewrite(&place, |stream, chunks| {
            if stream == of {
                change(chunks);
            }
        });
        assert_noticed(&place, what);
    };
    for index in 0..count {
        noticed(&format!("without chunk {index}"), Stream::Main, &|chunks| {
            chunks.remove(index);
        });
    }
    for index in 1..count {
        noticed(&format!("chunk {index} before the one before"), Stream::Main, &|chunks| {
            chunks.swap(index - 1, index);
        });
        noticed(&format!("chunk {index} with the events of another"), Stream::Main, &|chunks| {
            chunks[index].1 = chunks[index - 1].1.clone();
        });
        noticed(&format!("chunk {index} twice"), Stream::Main, &|chunks| {
            let again = chunks[index].clone();
            chunks.insert(index, again);
        });
    }
    for index in 0..code_count {
        noticed(&format!("without code chunk {index}"), Stream::Code, &|chunks| {
            chunks.remove(index);
        });
    }
}

/// What was written in an interval is not passed over because another one stands in its place.
#[test]
fn an_interval_in_the_place_of_another_is_noticed_by_whoever_reads_on() {
    let place = Place::new("damage-place");
    let script = "echo hello; i=0; while [ $i -lt 100 ]; do i=$((i+1)); done";
    let outcome = place.record(&["--interval", "50k"], &["/bin/sh", "-c", script]);
    assert_eq!(outcome.status, Ending::Exited(0), "{}", text(&outcome.stderr));
    let bytes = fs::read(log_of(&place)).unwrap();
    let count = segments(&place, Stream::Main).len();
    assert!(count > 4, "{count} chunks");
    for index in 1..count {
        fs::write(log_of(&place), &bytes).unwrap();
        rewrite(&place, |stream, chunks| {
            if stream == Stream::Main {
                chunks[index].1 = chunks[index - 1].1.clone();
            }
        });
        assert_noticed(&place, &format!("chunk {index} of {count}"));
    }
}
