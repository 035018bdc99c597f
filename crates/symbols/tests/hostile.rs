//! Damaged files cost names and nothing else.

mod scene;

use std::fs;

use retro_symbols::Symbols;
use scene::{Program, Scene};

const BASE: u64 = 0x1000_0000;

const SOURCE: &str = "#include <stdio.h>
    static int twice(int x) { return 2 * x; }
    int main(int argc, char **argv) { puts(argv[0]); return twice(argc); }";

/// Asks for the names of all of a file that has these bytes, mapped as the whole one would be.
fn look_at(scene: &Scene, round: usize, bytes: &[u8], whole: &Program, addresses: &[u64]) {
    fs::write(scene.path("damaged"), bytes).unwrap();
    let damaged = Program { build_id: Vec::new(), ..Program::at(&scene.path("damaged")) };
    let files = scene::Chunk {
        log: 0,
        stream: retro_abi::channel::Stream::Code,
        base_time: 0,
        events: vec![(0, damaged.event(0))],
    };
    let main = scene::Chunk {
        log: 0,
        stream: retro_abi::channel::Stream::Main,
        base_time: 0,
        events: whole.maps(BASE, 1).into_iter().map(|event| (0, event)).collect(),
    };
    let name = format!("run-{round}");
    let recording = scene.record(&name, &[files, main]);
    let symbols = Symbols::new(recording.clone());
    for address in addresses {
        let _ = symbols.place(0, 0, BASE + address).to_string();
    }
    drop(recording);
    fs::remove_dir_all(scene.path(&name)).unwrap();
}

/// Numbers that repeat from run to run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

fn check(options: &[&str]) {
    let scene = Scene::new();
    let whole = scene.compile("whole.c", SOURCE, options);
    let bytes = fs::read(&whole.path).unwrap();
    let addresses =
        [whole.symbol("main"), whole.symbol("main") + 8, whole.symbol("_start"), 0x1024, 0x4000];
    let mut dice = Dice(17);
    let mut round = 0;
    for length in (0..128).chain((0..40).map(|_| dice.below(bytes.len()))) {
        look_at(&scene, round, &bytes[..length], &whole, &addresses);
        round += 1;
    }
    for flips in [1, 1, 4, 16, 64, 256] {
        for _ in 0..40 {
            let mut damaged = bytes.clone();
            for _ in 0..flips {
                // Half of them in the headers, where they matter most.
                let range = if dice.below(2) == 0 { 0..1024 } else { 0..bytes.len() };
                let at = range.start + dice.below(range.len());
                damaged[at] = match dice.below(4) {
                    0 => 0xff,
                    1 => 0,
                    2 => damaged[at] ^ 1 << dice.below(8),
                    _ => dice.below(256) as u8,
                };
            }
            look_at(&scene, round, &damaged, &whole, &addresses);
            round += 1;
        }
    }
    // Each byte of the headers at the ends, and of the debug sections' middle.
    for at in (0..64).chain(bytes.len() - 64 * 40..bytes.len()).step_by(3) {
        let mut damaged = bytes.clone();
        damaged[at] = 0xff;
        look_at(&scene, round, &damaged, &whole, &addresses);
        round += 1;
    }
}

#[test]
fn damaged_programs_do_no_harm() {
    check(&["-g", "-O1"]);
}

#[test]
fn damaged_compressed_debug_information_does_no_harm() {
    check(&["-g", "-O1", "-gz=zlib", "-gdwarf-4"]);
}
