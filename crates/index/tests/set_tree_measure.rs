//! What trees of sets cost, in bits and in time: `cargo test --release -- --ignored --nocapture measure`.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use retro_index::set_tree::{SetKind, SetTree, SetTreeWriter};
use retro_recording::NamedFile;
use tempfile::tempdir;

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

    /// Small numbers are likely.
    fn skewed(&mut self, limit: u64) -> u64 {
        let below = self.below(limit) + 1;
        self.below(below)
    }
}

const STACK: u64 = 0x7fff_0000_0000 >> 3;
const OBJECTS: u64 = 0x5000_0000_0000 >> 3;
const ARRAYS: u64 = 0x6000_0000_0000 >> 3;
const HEAP: u64 = 0x5100_0000_0000 >> 3;

/// Words that a window writes, of each sort.
#[derive(Clone, Copy)]
struct Mix {
    stack: u64,
    objects: u64,
    streaming: u64,
    random: u64,
}

fn window(number: u64, mix: Mix, random: &mut Random) -> BTreeSet<u64> {
    let mut keys = BTreeSet::new();
    // Frames are written from the bottom of a stack that reaches down to varying depths.
    for _ in 0..mix.stack / 12 {
        let frame = STACK - random.skewed(mix.stack.max(1));
        keys.extend(frame..frame + 4 + random.below(12));
    }
    // Objects of eight words, of which some fields change, and which are not equally busy.
    for _ in 0..mix.objects / 2 {
        let object = random.skewed(20_000);
        let fields = object % 5;
        keys.extend([OBJECTS + object * 8 + fields, OBJECTS + object * 8 + fields + 2]);
    }
    // Two arrays that are filled again and again.
    let half = mix.streaming / 2;
    for array in 0..2 {
        let start = number * half % (40 * half.max(1));
        keys.extend((start..start + half).map(|word| ARRAYS + array * (1 << 24) + word));
    }
    keys.extend((0..mix.random).map(|_| HEAP + random.below(1 << 20)));
    keys
}

fn measure_plain(name: &str, windows: u32, mix: Mix) {
    let place = tempdir().unwrap();
    let named = NamedFile::at(&place.path().join("tree")).unwrap();
    let mut random = Random(1);
    let mut writer = SetTreeWriter::create(&named, SetKind::Plain).unwrap();
    let (mut keys, mut lowest) = (0, 0);
    let mut time = Duration::ZERO;
    for number in 0..windows {
        let set: Vec<u64> = window(number.into(), mix, &mut random).into_iter().collect();
        keys += set.len() as u64;
        let (start, bytes) = (now(), writer.bytes());
        writer.append(set).unwrap();
        time += now() - start;
        // What the other levels took is in the windows that complete their nodes.
        if number % 16 == 15 && number % 256 != 255 {
            lowest += writer.bytes() - bytes;
        }
    }
    let start = now();
    let committed = writer.finish().unwrap();
    time += now() - start;
    let lowest = lowest as f64 * 16.0 / 15.0 * 8.0 / keys as f64;
    let all = committed as f64 * 8.0 / keys as f64;
    println!(
        "{name}: {} keys/window, lowest level {lowest:.2} bits/key, all {all:.2} (+{:.0} %), {:.1} ns/key",
        keys / u64::from(windows),
        (all / lowest - 1.0) * 100.0,
        time.as_nanos() as f64 / keys as f64,
    );
    ask(&named, SetKind::Plain, committed);
    drop(fs::remove_file(named.path()));
}

fn ask(named: &NamedFile, kind: SetKind, committed: u64) {
    let start = Instant::now();
    let tree = SetTree::open(named, kind, committed, 256 << 20).unwrap();
    let opened = start.elapsed();
    for round in ["cold", "warm"] {
        let mut random = Random(5);
        let mut times = Vec::new();
        for question in 0..1000 {
            let key = match question % 4 {
                0 => STACK - random.below(3000),
                1 => OBJECTS + random.below(160_000),
                2 => ARRAYS + random.below(150_000),
                _ => HEAP + random.below(1 << 20),
            };
            let window = random.below(tree.windows().into()) as u32;
            let start = Instant::now();
            match kind {
                SetKind::Plain => drop(tree.last_before(window, key..key + 1).unwrap()),
                SetKind::Counted => drop(tree.nth_before(window, key..key + 8, 1000).unwrap()),
            }
            times.push(start.elapsed());
        }
        times.sort();
        println!("  {round}: opened in {opened:?}, median {:?}, max {:?}", times[500], times[999]);
    }
}

#[test]
#[ignore = "a measurement"]
fn measure_written_words() {
    let mix = Mix { stack: 3_000, objects: 7_000, streaming: 7_000, random: 0 };
    measure_plain("hot and streaming", 2_000, mix);
    measure_plain("with random heap", 2_000, Mix { random: 3_000, ..mix });
    measure_plain(
        "only objects",
        1_000,
        Mix { stack: 0, objects: 10_000, streaming: 0, random: 0 },
    );
    measure_plain("only random", 1_000, Mix { stack: 0, objects: 0, streaming: 0, random: 5_000 });
    measure_plain(
        "long",
        10_000,
        Mix { stack: 1_000, objects: 1_000, streaming: 1_000, random: 200 },
    );
}

/// Loops whose blocks run equally often, now some of them, now others.
#[test]
#[ignore = "a measurement"]
fn measure_executed_code() {
    let place = tempdir().unwrap();
    let named = NamedFile::at(&place.path().join("tree")).unwrap();
    let mut random = Random(1);
    let mut writer = SetTreeWriter::create(&named, SetKind::Counted).unwrap();
    let mut keys = 0;
    let mut time = Duration::ZERO;
    for _ in 0..2_000 {
        let mut set = Vec::new();
        for function in 0..400 {
            if random.skewed(400) < function {
                continue;
            }
            let times = 1 + random.skewed(10_000) as u32;
            let mut address = function * 1000;
            for block in 0..12 {
                address += 9 + (function + block) % 17;
                let count = if block % 4 == 3 { random.below(times.into()) as u32 } else { times };
                set.push((STACK + address, count));
            }
        }
        keys += set.len() as u64;
        let start = now();
        writer.append_counted(set).unwrap();
        time += now() - start;
    }
    let start = now();
    let committed = writer.finish().unwrap();
    time += now() - start;
    println!(
        "code: {} keys/window, {:.2} bits/key, {:.1} ns/key",
        keys / 2_000,
        committed as f64 * 8.0 / keys as f64,
        time.as_nanos() as f64 / keys as f64
    );
    ask(&named, SetKind::Counted, committed);
}
