//! Damaged files cost names and nothing else; stacks of any contents come to an end.

mod scene;

use std::fs;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use retro_symbols::{DEPTH_LIMIT, Machine, StackEnd, Symbols};
use scene::{Program, Scene};

const BASE: u64 = 0x1000_0000;

const SOURCE: &str = "#include <stdio.h>
    static inline __attribute__((always_inline)) int twice(int x) { return 2 * x; }
    struct pair { int first; int second; } both = { 1, 2 };
    int __attribute__((noinline)) sum(struct pair *p) { return twice(p->first) + p->second; }
    int main(int argc, char **argv) { puts(argv[0]); both.first = argc; return sum(&both); }";

/// A thread at an address whose memory is whatever a function of addresses says.
struct Arbitrary<F: Fn(u64) -> Option<u64>> {
    pc: u64,
    sp: u64,
    word: F,
}

impl<F: Fn(u64) -> Option<u64>> Machine for Arbitrary<F> {
    fn register(&self, number: u16) -> Option<u64> {
        match number {
            16 => Some(self.pc),
            6 => Some(self.sp.wrapping_add(16)),
            _ => Some(self.sp),
        }
    }

    fn vector(&self, _: u16) -> Option<[u8; 16]> {
        None
    }

    fn fs_base(&self) -> Option<u64> {
        None
    }

    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        (address..).zip(buffer).all(|(at, byte)| match (self.word)(at & !7) {
            Some(word) => {
                *byte = word.to_le_bytes()[(at & 7) as usize];
                true
            }
            None => false,
        })
    }
}

/// Asks everything that can be asked about a file that is mapped at [`BASE`].
fn ask_everything(symbols: &Symbols, addresses: &[u64]) {
    for module in symbols.modules_at(0, 0) {
        let found = symbols.module_at(0, 0, BASE + addresses[0]);
        assert!(found.is_none_or(|found| found.module.path == module.module.path));
    }
    for name in ["main", "twice", "sum", "m*"] {
        let _ = symbols.functions_named(0, 0, name);
    }
    let _ = symbols.symbol_named(0, 0, "main");
    let _ = symbols.code_of_line(0, 0, "whole.c", 3);
    for address in addresses {
        let address = BASE + address;
        let _ = symbols.place(0, 0, address).to_string();
        let _ = symbols.source_of(0, 0, address);
        if let Some(line) = symbols.line_ranges_around(0, 0, address) {
            assert!(line.range.contains(&address));
        }
        // Each return address is one of these, and words in between are small.
        let word = |at: u64| Some(if at.is_multiple_of(16) { address } else { at & 0xfff });
        let stack = symbols.unwind(0, 0, &Arbitrary { pc: address, sp: 0x7000_0000, word }, 100);
        assert!(stack.frames.len() <= 100);
    }
}

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
    ask_everything(&symbols, addresses);
    drop((symbols, recording));
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

#[test]
fn damaged_split_units_do_no_harm() {
    let scene = Scene::new();
    fs::write(scene.path("whole.c"), SOURCE).unwrap();
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let options = ["-O1", "-g", version, "-gsplit-dwarf", "-c", "whole.c", "-o", "part.o"];
        scene.run(&[&["gcc"], &options[..]].concat());
        scene.run(&["gcc", "part.o", "-o", "whole"]);
        let whole = Program::at(&scene.path("whole"));
        let bytes = fs::read(scene.path("part.dwo")).unwrap();
        let addresses = [whole.symbol("main"), whole.symbol("sum") + 2];
        let mut dice = Dice(23);
        for _ in 0..150 {
            let mut damaged = bytes.clone();
            for _ in 0..1 + dice.below(8) {
                let at = dice.below(bytes.len());
                damaged[at] = if dice.below(2) == 0 { 0xff } else { dice.below(256) as u8 };
            }
            fs::write(scene.path("part.dwo"), &damaged).unwrap();
            let name = scene.fresh_name();
            let symbols = Symbols::new(scene.record_mapped(&name, &whole, BASE));
            ask_everything(&symbols, &addresses);
            fs::remove_dir_all(scene.path(&name)).unwrap();
        }
    }
}

#[test]
fn stacks_without_end_are_cut() {
    let scene = Scene::new();
    let whole = scene.compile("whole.c", SOURCE, &["-g", "-O0"]);
    let symbols = Symbols::new(scene.record_mapped("run", &whole, BASE));
    let main = BASE + whole.symbol("main") + 20;
    let started = Instant::now();
    // Each frame is said to be 16 bytes further, and called from the same place, for ever.
    let endless = |at: u64| Some(if at.is_multiple_of(16) { at + 16 } else { main });
    let machine = Arbitrary { pc: main, sp: 0x7000_0000, word: endless };
    let stack = symbols.unwind(0, 0, &machine, DEPTH_LIMIT);
    assert_eq!((stack.frames.len(), stack.end), (DEPTH_LIMIT, StackEnd::Cut));
    // Each frame is the one before it.
    let cyclic = |at: u64| Some(if at.is_multiple_of(16) { 0x7000_0010 } else { main });
    let machine = Arbitrary { pc: main, sp: 0x7000_0000, word: cyclic };
    let stack = symbols.unwind(0, 0, &machine, DEPTH_LIMIT);
    assert!(stack.frames.len() < 5, "{}", stack.frames.len());
    assert_eq!(stack.end, StackEnd::Corrupt);
    // There is no stack.
    let machine = Arbitrary { pc: main, sp: 0x7000_0000, word: |_| None };
    let stack = symbols.unwind(0, 0, &machine, DEPTH_LIMIT);
    assert_eq!((stack.frames.len(), stack.end), (1, StackEnd::Unknown));
    assert!(started.elapsed() < Duration::from_secs(20));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn stacks_of_any_contents_come_to_an_end(
        words in prop::collection::vec(prop_oneof![
            any::<u64>(),
            (0u64..0x4000).prop_map(|offset| BASE + offset),
            (0u64..0x400).prop_map(|offset| 0x7000_0000 + offset),
        ], 64),
        pcs in prop::collection::vec(0u64..0x2000, 1..8),
    ) {
        // Compiled once: the file is the same for all.
        static PROGRAM: std::sync::OnceLock<(Scene, Symbols)> = std::sync::OnceLock::new();
        let (_, symbols) = PROGRAM.get_or_init(|| {
            let scene = Scene::new();
            let whole = scene.compile("whole.c", SOURCE, &["-g", "-O2"]);
            let symbols = Symbols::new(scene.record_mapped("run", &whole, BASE));
            (scene, symbols)
        });
        for pc in pcs {
            let word = |at: u64| Some(words[(at / 8 % 64) as usize]);
            let machine = Arbitrary { pc: BASE + pc, sp: 0x7000_0000, word };
            let stack = symbols.unwind(0, 0, &machine, 1000);
            prop_assert!(stack.frames.len() <= 1000);
            for frame in &stack.frames {
                prop_assert_eq!(frame.machine(&machine).register(16), Some(frame.pc));
            }
        }
    }
}
