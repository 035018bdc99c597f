//! What versions of pages cost, in bytes and in time: `cargo test --release -- --ignored --nocapture measure`.

use std::fs;
use std::time::{Duration, Instant};

use retro_index::page_versions::{KNOWN_SIZE, PAGE_SIZE, PageVersions, PageVersionsWriter};
use retro_recording::Directory;
use tempfile::tempdir;

fn open(place: &tempfile::TempDir) -> Directory {
    Directory::open(place.path()).unwrap()
}

/// Processor time of this thread, since the machine may have other things to do.
fn now() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// Numbers that look random and are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 ^ self.0 >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 32) % limit
    }
}

/// Pages of pointers, small numbers and text, of which each window changes some words.
fn measure(name: &str, pages: u64, per_window: u64, words: u64, windows: u32) {
    let place = tempdir().unwrap();
    let mut random = Random(1);
    let mut memory: Vec<[u8; PAGE_SIZE]> = (0..pages).map(|_| [0; PAGE_SIZE]).collect();
    let mut writer = PageVersionsWriter::create(&open(&place)).unwrap();
    let (mut time, mut added) = (Duration::ZERO, 0);
    for window in 0..windows {
        let first = random.below(pages - per_window + 1);
        for page in first..first + per_window {
            for _ in 0..words {
                let word = match random.below(4) {
                    0 => 0,
                    1 => 0x7f12_3400_0000 + random.below(100_000) * 16,
                    2 => random.below(1000),
                    _ => random.below(u64::MAX),
                };
                let at = random.below(512) as usize * 8;
                memory[page as usize][at..at + 8].copy_from_slice(&word.to_le_bytes());
            }
        }
        let start = now();
        for page in first..first + per_window {
            let bytes = &memory[page as usize];
            writer.add(window, page * PAGE_SIZE as u64, bytes, &[0xff; KNOWN_SIZE]).unwrap();
        }
        time += now() - start;
        added += per_window as u32;
    }
    let committed = writer.finish(windows).unwrap();
    let bytes = u64::from(added) * PAGE_SIZE as u64;
    println!(
        "{name}: {:.0} MB/s, {:.1} bytes/version, {:.2} % of the pages",
        bytes as f64 / time.as_secs_f64() / 1e6,
        writer.bytes() as f64 / f64::from(added),
        writer.bytes() as f64 * 100.0 / bytes as f64,
    );
    let start = Instant::now();
    let store = PageVersions::open(&open(&place), committed, 64 << 20).unwrap();
    let opened = start.elapsed();
    let mut times: Vec<Duration> = (0..2000)
        .map(|_| {
            let (page, window) = (random.below(pages), random.below(windows.into()));
            let start = Instant::now();
            store.page(page * PAGE_SIZE as u64, window as u32).unwrap();
            start.elapsed()
        })
        .collect();
    times.sort();
    println!("  opened in {opened:?}, a page: median {:?}, max {:?}", times[1000], times[1999]);
}

#[test]
#[ignore = "a measurement"]
fn measure_page_versions() {
    measure("few words", 2_000, 100, 10, 1_000);
    measure("hot pages", 50, 40, 5, 2_000);
    measure("many words", 2_000, 100, 150, 300);
    measure("new pages", 100_000, 300, 300, 300);
}
