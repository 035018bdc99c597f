//! Writes the inputs that fuzzing starts from: what an honest process says.
//!
//! ```text
//! cargo run --manifest-path fuzz/Cargo.toml --bin seeds    # writes fuzz/seeds
//! ```

use std::fs;
use std::path::Path;

use retro_abi::log::register;
use retro_abi::replay::{Access, WRITTEN_SIZE, access, ending, record_word, tell, why};
use retro_fuzz::{END, Output};

/// Where everything happens.
const PC: u64 = 0x1000_0000;

fn main() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    for (target, name, bytes) in [
        ("answers", "run", questions(&[0x10, 0x01, 0x02, 0x03], run())),
        ("answers", "stream", questions(&[0x15], stream())),
        ("answers", "summary", questions(&[0x14], summary())),
        ("answers", "samples", questions(&[0x16], samples())),
        ("answers", "snapshot", questions(&[0x0a], snapshot(Output::default()))),
        ("answers", "ahead", questions(&[0x09], ahead())),
        ("index", "one-window", [vec![255], index()].concat()),
        ("index", "two-windows", [vec![125], two_windows()].concat()),
    ] {
        let directory = seeds.join(target);
        fs::create_dir_all(&directory).expect("a directory");
        fs::write(directory.join(name), bytes).expect("a file");
    }
}

fn questions(asked: &[u8], script: Vec<u8>) -> Vec<u8> {
    [vec![asked.len() as u8], asked.to_vec(), script].concat()
}

fn stopped(output: &mut Output, reason: u64, time: u64) {
    output.message(tell::STOPPED, &[reason, time, 77, PC, 3], &[]);
}

fn registers(output: &mut Output) {
    let general: Vec<u8> = (0..register::COUNT as u64).flat_map(u64::to_le_bytes).collect();
    output.message(tell::REGISTERS, &[77, 0, 1], &[general, vec![0; 832]].concat());
}

fn threads(output: &mut Output) {
    output.message(tell::THREADS, &[], &[77, 0, 0, 0, 0, 0, 0, 0]);
}

fn run() -> Vec<u8> {
    let mut output = Output::default();
    stopped(&mut output, why::TIME, 50);
    registers(&mut output);
    threads(&mut output);
    output.message(tell::MEMORY, &[PC], &[7; 100]);
    output.finish(&[])
}

/// A block of two instructions, with a write and a read.
fn block(number: u64) -> Vec<u8> {
    let accesses = [
        Access { instruction: 0, kind: access::WRITE, len: 8, base: 8, value: 16, displacement: 8 },
        Access {
            instruction: 1,
            kind: access::READ,
            len: 4,
            base: Access::ABSOLUTE,
            value: 24,
            displacement: PC + 0x100,
        },
    ];
    let accesses: Vec<u8> = accesses.iter().flat_map(Access::to_bytes).collect();
    let body = [accesses, vec![1, 2]].concat();
    let words = [body.len() as u64, number, PC, 2, ending::JUMP, 32, 0, 0];
    [words.iter().flat_map(|word| word.to_le_bytes()).collect(), body].concat()
}

fn record(number: u32) -> Vec<u8> {
    let mut record = vec![0; 32];
    record[..4].copy_from_slice(&record_word(number, 32).to_le_bytes());
    record[8..16].copy_from_slice(&PC.to_le_bytes());
    record
}

fn stream() -> Vec<u8> {
    let mut output = Output::default();
    output.message(tell::DONE, &[], &[]);
    output.message(tell::BLOCK, &[], &[block(0), block(1)].concat());
    output.message(tell::STREAM, &[0, 25 * 32, 0], &[]);
    stopped(&mut output, why::TIME, 50);
    output.finish(&record(0).repeat(25))
}

fn written() -> Vec<u8> {
    let mut page = vec![1; WRITTEN_SIZE];
    page[..8].copy_from_slice(&(PC & !4095).to_le_bytes());
    page
}

/// What comes of a stretch up to a time.
fn stretch(output: &mut Output, reason: u64, time: u64) {
    output.message(tell::BLOCK, &[], &block(0));
    output.message(tell::STREAM, &[0, 24, 0], &[]);
    stopped(output, reason, time);
    told(output);
}

fn told(output: &mut Output) {
    output.message(tell::COUNTS, &[], &[0, 0, 0, 0, 25, 0, 0, 0]);
    output.message(tell::DONE, &[], &[]);
    output.message(tell::CLEARED, &[PC, PC + 4096], &[]);
    output.message(tell::MOVED, &[PC, PC + 8192, 4096], &[]);
    output.message(tell::WRITTEN, &[], &written());
    output.message(tell::DONE, &[], &[]);
}

/// A call, a return and a switch of threads.
fn transfers() -> Vec<u8> {
    [0x2000u64, 0x2001 & !2, 77 << 2 | 2].iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn summary() -> Vec<u8> {
    let mut output = Output::default();
    output.message(tell::DONE, &[], &[]);
    stretch(&mut output, why::TIME, 50);
    output.finish(&transfers())
}

fn samples() -> Vec<u8> {
    let mut output = Output::default();
    let sample = |time: u64| -> Vec<u8> {
        let words = [time, 77].into_iter().chain(0..register::COUNT as u64);
        words.flat_map(u64::to_le_bytes).collect()
    };
    output.message(tell::SAMPLES, &[], &[sample(3), sample(7)].concat());
    stopped(&mut output, why::TIME, 50);
    output.finish(&[])
}

fn snapshot(mut output: Output) -> Vec<u8> {
    threads(&mut output);
    registers(&mut output);
    output.finish(&[])
}

fn ahead() -> Vec<u8> {
    let mut output = Output::default();
    output.message(tell::DONE, &[], &[]);
    output.message(tell::BLOCK, &[], &block(0));
    output.message(tell::DONE, &[], &[]);
    output.finish(&[])
}

/// The start of an index, and one window up to the end.
fn index() -> Vec<u8> {
    let mut output = Output::default();
    threads(&mut output);
    registers(&mut output);
    output.message(tell::DONE, &[], &[]);
    told(&mut output);
    stretch(&mut output, why::END, END);
    output.finish(&transfers())
}

fn two_windows() -> Vec<u8> {
    let mut output = Output::default();
    threads(&mut output);
    registers(&mut output);
    output.message(tell::DONE, &[], &[]);
    told(&mut output);
    stretch(&mut output, why::TIME, 2501);
    threads(&mut output);
    registers(&mut output);
    stopped(&mut output, why::END, END);
    told(&mut output);
    output.finish(&transfers())
}
