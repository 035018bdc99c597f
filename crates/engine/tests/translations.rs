//! File tests of the translator: guest code in, emitted assembly out.
//!
//! Each file in `tests/translations` has a head of `key: value` lines, a guest program in hexadecimal bytes
//! (anything behind `#` is a comment) and, behind a line `---`, the expected listing. Run with
//! `RETRO_BLESS=1` to write what the translator emits now.

use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter};
use retro_engine::context::{self, JUMP_TABLE, spill_offset};
use retro_engine::entry::target;
use retro_engine::gs_offset;
use retro_engine::policy::{Count, Policy, Run};
use retro_engine::translate::{MAX_INSTRUCTIONS, Request, Translator};
use std::fmt::Write;
use std::path::Path;

struct Case {
    pc: u64,
    policy: String,
    checked: bool,
    jump_entry: bool,
    code: Vec<u8>,
}

fn parse(text: &str) -> Case {
    let mut case =
        Case { pc: 0, policy: "run".into(), checked: false, jump_entry: false, code: Vec::new() };
    for line in text.lines() {
        let line = line.split('#').next().unwrap().trim();
        match line.split_once(':') {
            Some(("pc", value)) => {
                let digits = value.trim().trim_start_matches("0x").replace('_', "");
                case.pc = u64::from_str_radix(&digits, 16).unwrap();
            }
            Some(("policy", value)) => case.policy = value.trim().into(),
            Some(("checked", value)) => case.checked = value.trim() == "yes",
            Some(("jump entry", value)) => case.jump_entry = value.trim() == "yes",
            Some((key, _)) => panic!("unknown key {key}"),
            None => {
                for byte in line.split_whitespace() {
                    case.code.push(u8::from_str_radix(byte, 16).unwrap());
                }
            }
        }
    }
    case
}

/// Names for the places that emitted code refers to, so that listings do not depend on addresses.
fn name_of_gs(displacement: i32) -> String {
    for slot in 0..8 {
        if displacement == spill_offset(slot) {
            return format!("spill{slot}");
        }
    }
    for counter in 0..context::counter::COUNT {
        if displacement == context::counter_offset(counter) {
            return format!("counter{counter}");
        }
    }
    match displacement {
        d if d == gs_offset!(exit_index) => "exit_index".into(),
        d if d == gs_offset!(guest_gs_base) => "guest_gs_base".into(),
        d if d == gs_offset!(x87_environment) => "x87_environment".into(),
        JUMP_TABLE => "jump_table".into(),
        d => panic!("emitted code uses gs:[{d}]"),
    }
}

fn name_of_target(address: u64) -> Option<&'static str> {
    let known = [
        (target::jump_miss(), "jump_miss"),
        (target::exit_syscall(), "exit_syscall"),
        (target::exit_emulate(), "exit_emulate"),
        (target::exit_modified(), "exit_modified"),
    ];
    known.into_iter().find(|&(at, _)| at == address).map(|(_, name)| name)
}

fn print(formatter: &mut IntelFormatter, instruction: &Instruction, start: u64) -> String {
    let mut shown = *instruction;
    let mut suffix = String::new();
    if instruction.segment_prefix() == iced_x86::Register::GS {
        let name = name_of_gs(instruction.memory_displacement64() as i32);
        let _ = write!(suffix, "    ; {name}");
        shown.set_memory_displacement64(0);
    }
    let mut text = String::new();
    if instruction.near_branch_target() != 0 {
        let to = instruction.near_branch_target();
        match name_of_target(to) {
            Some(name) => {
                let _ = write!(suffix, "    ; {name}");
            }
            None => {
                let _ = write!(suffix, "    ; +{:#x}", to.wrapping_sub(start) as i64);
            }
        }
        return format!("{:?}{suffix}", instruction.mnemonic()).to_lowercase();
    }
    formatter.format(&shown, &mut text);
    text + &suffix
}

fn listing(case: &Case) -> String {
    // Near the engine's code, as the real cache is, so that its targets are recognised.
    let address = (target::jump_miss() & !0xfff) + 0x10_0000;
    let request = Request {
        pc: case.pc,
        code: &case.code,
        max_instructions: MAX_INSTRUCTIONS,
        address,
        first_exit: 100,
        jump_entry: case.jump_entry,
        checked: case.checked,
        linkable: true,
    };
    let mut translator = Translator::new();
    match case.policy.as_str() {
        "run" => translate(&mut translator, &mut Run, &request),
        "count" => translate(&mut translator, &mut Count, &request),
        other => panic!("no policy {other}"),
    }
    let mut out = String::new();
    let mut formatter = IntelFormatter::new();
    let bytes = &translator.out.bytes;
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let mut boundaries = vec![];
    let (mut at, mut pc) = (translator.body, case.pc);
    for entry in &translator.map {
        boundaries.push((at, pc, entry.guest_len));
        at += entry.cache_len as usize;
        pc += entry.guest_len as u64;
    }
    assert_eq!(at, bytes.len(), "the map covers the block");
    assert_eq!(pc, case.pc + translator.guest_len as u64, "the map covers the guest code");
    while decoder.can_decode() {
        let position = decoder.position();
        let instruction = decoder.decode();
        assert!(!instruction.is_invalid(), "undecodable byte at {position}");
        for (_, pc, len) in boundaries.iter().filter(|b| b.0 == position) {
            let kind = if *len == 0 { "boundary" } else { "guest" };
            let _ = writeln!(out, "{kind} {pc:x}:");
        }
        let exit = translator.out.exits.iter().position(|e| e.offset as usize == position);
        let mut line =
            format!("    {position:03x}  {}", print(&mut formatter, &instruction, address));
        if let Some(exit) = exit {
            let exit = translator.out.exits[exit];
            if let Some(at) = line.rfind("    ; +") {
                line.truncate(at);
            }
            let _ = write!(line, "    => {:x}", exit.target);
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    for range in &translator.out.spills {
        let name = format!("{:?}", context::Gpr::ALL[range.register as usize]).to_lowercase();
        let _ = writeln!(
            out,
            "spilled {:03x}..{:03x} {name} in {}",
            range.start, range.end, range.slot
        );
    }
    out
}

fn translate<P: Policy>(translator: &mut Translator, policy: &mut P, request: &Request) {
    translator.translate(policy, request).expect("code is complete");
}

#[test]
fn translations() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/translations");
    let bless = std::env::var_os("RETRO_BLESS").is_some();
    let mut failures = vec![];
    let mut count = 0;
    let mut files: Vec<_> =
        std::fs::read_dir(&directory).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let (head, expected) = text.split_once("---\n").unwrap_or((&text, ""));
        let found = listing(&parse(head));
        count += 1;
        if bless {
            std::fs::write(&file, format!("{head}---\n{found}")).unwrap();
        } else if found != expected {
            failures.push(format!("{}:\n{found}\nexpected:\n{expected}", file.display()));
        }
    }
    assert!(count > 10, "the files are there");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
