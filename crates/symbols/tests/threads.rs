//! Many threads that ask at once get the answers that one would.

mod scene;

use std::thread;

use retro_symbols::{Machine, Symbols};
use scene::Scene;

const BASE: u64 = 0x1000_0000;

/// A thread at an address, on a stack on which everything was called from that address.
struct At(u64);

impl Machine for At {
    fn register(&self, number: u16) -> Option<u64> {
        Some(if number == 16 { self.0 } else { 0x7000_0000 })
    }

    fn vector(&self, _: u16) -> Option<[u8; 16]> {
        None
    }

    fn fs_base(&self) -> Option<u64> {
        None
    }

    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        let words = (address..).zip(buffer);
        words.for_each(|(at, byte)| *byte = self.0.to_le_bytes()[(at & 7) as usize]);
        true
    }
}

fn answers(symbols: &Symbols, addresses: &[u64]) -> Vec<String> {
    let mut answers = Vec::new();
    for &address in addresses {
        answers.push(symbols.place(0, 0, address).to_string());
        answers.push(format!("{:?}", symbols.line_ranges_around(0, 0, address)));
        let stack = symbols.unwind(0, 0, &At(address), 20);
        let frames = stack.frames.iter();
        answers.extend(frames.map(|frame| format!("{:x} {:?}", frame.pc, frame.function)));
    }
    for name in ["innermost", "leaf", "main", "handler"] {
        answers.push(format!("{:?}", symbols.functions_named(0, 0, name)));
        answers.push(format!("{:?}", symbols.symbol_named(0, 0, name)));
    }
    answers.push(format!("{:?}", symbols.code_of_line(0, 0, "stepped.c", 24)));
    answers
}

#[test]
fn threads_share_what_was_read() {
    let scene = Scene::new();
    let program = scene.compile("stepped.c", include_str!("gdb/stepped.c"), &["-g", "-O2"]);
    let recording = scene.record_mapped("run", &program, BASE);
    let first = BASE + program.symbol("recursive");
    let addresses: Vec<u64> = (0..400).map(|offset| first + offset).collect();
    let expected = answers(&Symbols::new(recording.clone()), &addresses);
    let shared = Symbols::new(recording);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(answers(&shared, &addresses), expected));
        }
    });
}
