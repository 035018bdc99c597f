//! Random changes of a recording, with checksums made to fit: nothing panics, and memory stays small.
//!
//! The only test of its program, so that the memory is its own.

mod sample;

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use retro_abi::channel::Stream;
use retro_recording::Recording;
use tempfile::tempdir;

/// Length of the headers of the file and of segments.
const HEADER: usize = 64;

/// Gives a header the checksum that its bytes have.
fn seal(log: &mut [u8], at: usize) {
    let sum = crc32fast::hash(&log[at..at + HEADER - 4]);
    log[at + HEADER - 4..at + HEADER].copy_from_slice(&sum.to_le_bytes());
}

/// Gives a segment the payload checksum and header checksum that its bytes have.
fn seal_segment(log: &mut [u8], at: usize, end: usize) {
    let sum = crc32fast::hash(&log[at + HEADER..end]);
    log[at + 48..at + 52].copy_from_slice(&sum.to_le_bytes());
    seal(log, at);
}

/// Numbers without a seed from outside, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// Uses everything that can be used of a recording.
fn use_up(directory: &Path) {
    let Ok(recording) = Recording::open(directory) else { return };
    let _ = recording.verify();
    for process in recording.processes() {
        for stream in Stream::ALL {
            let _ = recording.for_each_event::<()>(process.summary.log, stream, |_, event| {
                std::hint::black_box(event.kind());
                ControlFlow::Continue(())
            });
        }
        std::hint::black_box(format!("{process:?}"));
    }
    std::hint::black_box(format!("{:?} {:?}", recording.head(), recording.end()));
    let pack = directory.with_extension("pack");
    let _ = fs::remove_file(&pack);
    retro_recording::pack::pack_with_debug_from(&recording, &pack, &[]).unwrap();
}

/// Most memory that this process ever had mapped, in KiB.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmPeak:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn random_changes_never_panic_and_take_little_memory() {
    let place = tempdir().unwrap();
    let directory = place.path().join("changed");
    let lengths: Vec<usize> = sample::write(&directory).into_iter().map(|n| n as usize).collect();
    let log = fs::read(directory.join("log")).unwrap();
    use_up(&directory);
    let before = peak_memory();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..4000 {
        let mut changed = log.clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(changed.len());
            changed[at] = [random.below(256) as u8, 0, 0xff, 0x7f, 0x80][random.below(5)];
        }
        // Most changes are sealed, so that they get past the checksums.
        if round % 4 != 0 {
            let sum = crc32fast::hash(&changed[HEADER..lengths[0]]);
            changed[44..48].copy_from_slice(&sum.to_le_bytes());
            seal(&mut changed, 0);
            for ends in lengths.windows(2) {
                seal_segment(&mut changed, ends[0], ends[1]);
            }
        }
        if round % 8 == 7 {
            changed.truncate(random.below(changed.len()));
        }
        sample::write_bytes(&directory, &changed);
        use_up(&directory);
    }
    let grown = peak_memory() - before;
    assert!(grown < 32 << 10, "{grown} KiB more were mapped");
}
