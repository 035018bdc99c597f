//! File tests of the translator: guest code in, emitted assembly out.
//!
//! Each file in `tests/translations` has a head of `key: value` lines, a guest program in hexadecimal bytes
//! (anything behind `#` is a comment) and, behind a line `---`, the expected listing. Run with
//! `RETRO_BLESS=1` to write what the translator emits now.
//!
//! | key | value |
//! | --- | --- |
//! | `pc` | guest address of the code |
//! | `deadline` | a recording policy's blocks do not run past it |
//! | `policy` | `run` (unless told otherwise), `count`, `record` or `replay` |
//! | `checked`, `jump entry`, `careful` | `yes`: the fields of the request |
//! | `precise` | `yes`: the setting of the weaver |
//! | `keeps flags` | `yes`: the field of the request |
//! | `stream` | what a replay streams: any of `calls`, `writes` and `reads` |
//! | `breakpoint` | an address in front of which a replay stops |
//! | `behind` | code that follows the block and that the translator may look at |
//!
//! In a listing a place in the thread's context is shown as `gs:[0]` with its name behind it; any other `gs:[...]`
//! is the shadow. A recording or replaying policy's cold code and sites follow the block, then what a stream says of it.

use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter, Register};
use retro_abi::replay::{Access, access, detail};
use retro_engine::clock::CURSOR_WORD;
use retro_engine::clock::weave::Keeping;
use retro_engine::context::{self, CLOCK, Gpr, JUMP_TABLE, slot, spill_offset};
use retro_engine::entry::target;
use retro_engine::gs_offset;
use retro_engine::policy::{Count, Policy, Run};
use retro_engine::record::Record;
use retro_engine::record::weave::{NO_REGISTER, Site};
use retro_engine::replay::Replay;
use retro_engine::translate::address::Segment;
use retro_engine::translate::emit::{Emitter, FLAGS_REGISTER};
use retro_engine::translate::{MAX_INSTRUCTIONS, NOT_INTACT, Request, Translator};
use std::fmt::Write;
use std::path::Path;

#[derive(Default)]
struct Case {
    pc: u64,
    policy: String,
    deadline: bool,
    checked: bool,
    jump_entry: bool,
    careful: bool,
    precise: bool,
    keeps_flags: bool,
    stream: u64,
    breakpoints: Vec<u64>,
    code: Vec<u8>,
    behind: Vec<u8>,
}

/// Number of the first site of every case.
const FIRST_SITE: u32 = 200;

/// Distance from the block to its cold code.
const COLD_DISTANCE: u64 = 0x8_0000;

fn parse(text: &str) -> Case {
    let mut case = Case { policy: "run".into(), ..Case::default() };
    let address = |value: &str| {
        let digits = value.trim().trim_start_matches("0x").replace('_', "");
        u64::from_str_radix(&digits, 16).unwrap()
    };
    let hexadecimal = |digits: &str| -> Vec<u8> {
        digits.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
    };
    for line in text.lines() {
        let line = line.split('#').next().unwrap().trim();
        match line.split_once(':') {
            Some(("pc", value)) => case.pc = address(value),
            Some(("breakpoint", value)) => case.breakpoints.push(address(value)),
            Some(("keeps flags", value)) => case.keeps_flags = value.trim() == "yes",
            Some(("stream", value)) => {
                case.stream = detail::BLOCKS;
                for word in value.split_whitespace() {
                    case.stream |= match word {
                        "calls" => detail::CALLS,
                        "writes" => detail::WRITES,
                        "reads" => detail::READS,
                        other => panic!("no detail {other}"),
                    };
                }
            }
            Some(("policy", value)) => case.policy = value.trim().into(),
            Some(("deadline", _)) => case.deadline = true,
            Some(("checked", value)) => case.checked = value.trim() == "yes",
            Some(("jump entry", value)) => case.jump_entry = value.trim() == "yes",
            Some(("careful", value)) => case.careful = value.trim() == "yes",
            Some(("precise", value)) => case.precise = value.trim() == "yes",
            Some(("behind", value)) => case.behind = hexadecimal(value),
            Some((key, _)) => panic!("unknown key {key}"),
            None => case.code.extend(hexadecimal(line)),
        }
    }
    case
}

/// Names for the places that emitted code refers to, so that listings do not depend on addresses.
fn name_of_gs(displacement: i32) -> String {
    for slot in 0..slot::COUNT as u8 {
        if displacement == spill_offset(slot) {
            return match slot {
                slot::FLAGS => "flags".into(),
                slot::FLAGS_RAX => "rax of flags".into(),
                other => format!("spill{other}"),
            };
        }
    }
    for counter in 0..context::counter::COUNT {
        if displacement == context::counter_offset(counter) {
            return format!("counter{counter}");
        }
    }
    match displacement {
        d if d == gs_offset!(exit_index) => "exit_index".into(),
        d if d == gs_offset!(guest_fs_base) => "guest_fs_base".into(),
        d if d == gs_offset!(guest_gs_base) => "guest_gs_base".into(),
        d if d == gs_offset!(x87_environment) => "x87_environment".into(),
        CLOCK => "clock".into(),
        CURSOR_WORD => "cursor".into(),
        JUMP_TABLE => "jump_table".into(),
        d => panic!("emitted code uses gs:[{d}]"),
    }
}

/// Whether a GS operand is a place in the context. Everything else is the shadow of a guest operand: absolute
/// ones are not negative, because the guest has nothing in the upper half.
fn is_context(instruction: &Instruction) -> bool {
    let displacement = instruction.memory_displacement64() as i32;
    instruction.memory_base() == Register::None
        && (displacement == JUMP_TABLE
            || instruction.memory_index() == Register::None && displacement < 0)
}

fn name_of_target(address: u64) -> Option<&'static str> {
    let known = [
        (target::jump_miss(), "jump_miss"),
        (target::exit_syscall(), "exit_syscall"),
        (target::exit_emulate(), "exit_emulate"),
        (target::exit_modified(), "exit_modified"),
        (target::exit_mismatch(), "exit_mismatch"),
        (target::exit_deadline(), "exit_deadline"),
        (target::exit_before_access(), "exit_before_access"),
        (target::exit_after_access(), "exit_after_access"),
    ];
    known.into_iter().find(|&(at, _)| at == address).map(|(_, name)| name)
}

fn print(formatter: &mut IntelFormatter, instruction: &Instruction, start: u64) -> String {
    let mut shown = *instruction;
    let mut suffix = String::new();
    if instruction.segment_prefix() == Register::GS && is_context(instruction) {
        let name = name_of_gs(instruction.memory_displacement64() as i32);
        let _ = write!(suffix, "    ; {name}");
        shown.set_memory_displacement64(0);
    }
    let mut text = String::new();
    if instruction.near_branch_target() != 0 {
        let to = instruction.near_branch_target();
        let cold = start + COLD_DISTANCE;
        match name_of_target(to) {
            Some(name) => {
                let _ = write!(suffix, "    ; {name}");
            }
            None if to >= cold => {
                let _ = write!(suffix, "    ; cold+{:#x}", to - cold);
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
    let behind = case.pc + case.code.len() as u64;
    let peek = |at: u64, bytes: &mut [u8]| {
        if at != behind {
            return 0;
        }
        let len = case.behind.len().min(bytes.len());
        bytes[..len].copy_from_slice(&case.behind[..len]);
        len
    };
    let request = Request {
        pc: case.pc,
        code: &case.code,
        max_instructions: MAX_INSTRUCTIONS,
        address,
        first_exit: 100,
        jump_entry: case.jump_entry,
        careful: case.careful,
        checked: case.checked,
        linkable: true,
        keeps_flags: case.keeps_flags,
        side_exits: case.policy == "replay",
        cold_address: address + COLD_DISTANCE,
        first_site: FIRST_SITE,
        peek: &peek,
    };
    let mut translator = Translator::new();
    translator.weaver.settings.precise = case.precise;
    let replays = case.policy == "replay";
    translator.timekeeper.keeping = Keeping { deadline: replays || case.deadline, told: !replays };
    translator.timekeeper.tracer.detail = case.stream;
    translator.timekeeper.tracer.next = 0x5000;
    translator.timekeeper.breakpoints = case.breakpoints.clone();
    translator.timekeeper.leaves_at_breakpoints = true;
    match case.policy.as_str() {
        "run" => translate(&mut translator, &mut Run, &request),
        "count" => translate(&mut translator, &mut Count, &request),
        "record" => translate(&mut translator, &mut Record, &request),
        "replay" => translate(&mut translator, &mut Replay, &request),
        other => panic!("no policy {other}"),
    }
    let mut out = String::new();
    print_block(&mut out, &translator, case.pc, address);
    print_spills(&mut out, &translator);
    if matches!(case.policy.as_str(), "record" | "replay") {
        print_cold(&mut out, &translator.out.cold, address);
        for (number, site) in (FIRST_SITE..).zip(&translator.out.sites) {
            let _ = writeln!(out, "site {number}: {}", describe(site, address));
        }
    }
    if case.stream != 0 {
        let tracer = &translator.timekeeper.tracer;
        let _ = writeln!(out, "record of {} bytes, ending {}", tracer.len, tracer.ending);
        for access in &tracer.accesses {
            let _ = writeln!(out, "{}", describe_access(access));
        }
        for partial in &tracer.partial {
            let _ = writeln!(out, "{partial:?}");
        }
    }
    out
}

fn print_block(out: &mut String, translator: &Translator, start: u64, address: u64) {
    let mut formatter = IntelFormatter::new();
    let bytes = &translator.out.bytes;
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let mut boundaries = vec![];
    let (mut at, mut pc) = (translator.body, start);
    for entry in &translator.map {
        boundaries.push((at, pc, entry.guest_len));
        at += entry.cache_len as usize;
        pc += (entry.guest_len & !NOT_INTACT) as u64;
    }
    assert_eq!(at, bytes.len(), "the map covers the block");
    assert_eq!(pc, start + translator.guest_len as u64, "the map covers the guest code");
    while decoder.can_decode() {
        let position = decoder.position();
        let instruction = decoder.decode();
        assert!(!instruction.is_invalid(), "undecodable byte at {position}");
        for (_, pc, len) in boundaries.iter().filter(|b| b.0 == position) {
            let kind = if len & !NOT_INTACT == 0 { "boundary" } else { "guest" };
            let intact = if len & NOT_INTACT == 0 { "" } else { " (not intact)" };
            let _ = writeln!(out, "{kind} {pc:x}{intact}:");
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
}

fn print_spills(out: &mut String, translator: &Translator) {
    for range in &translator.out.spills {
        let name = match range.register {
            FLAGS_REGISTER => "flags".into(),
            number => name_of_register(number),
        };
        let _ = writeln!(
            out,
            "spilled {:03x}..{:03x} {name} in {}",
            range.start, range.end, range.slot
        );
    }
}

fn describe_access(it: &Access) -> String {
    let kind = match it.kind {
        access::WRITE => "writes",
        access::READ => "reads",
        access::CALL => "calls",
        _ => "returns",
    };
    let place = match it.base {
        Access::ABSOLUTE => format!("{:#x}", it.displacement),
        base => format!("[+{base:#x}] {:+}", it.displacement as i64),
    };
    let value = match it.value {
        Access::NO_VALUE => String::new(),
        at => format!(", value at +{at:#x}"),
    };
    format!("instruction {} {kind} {} bytes at {place}{value}", it.instruction, it.len)
}

fn print_cold(out: &mut String, cold: &Emitter, address: u64) {
    let mut formatter = IntelFormatter::new();
    assert_eq!(cold.address, address + COLD_DISTANCE);
    let _ = writeln!(out, "cold:");
    let mut decoder = Decoder::with_ip(64, &cold.bytes, cold.address, DecoderOptions::NONE);
    while decoder.can_decode() {
        let position = decoder.position();
        let instruction = decoder.decode();
        assert!(!instruction.is_invalid(), "undecodable byte at {position} of the cold code");
        let _ =
            writeln!(out, "    {position:03x}  {}", print(&mut formatter, &instruction, address));
    }
}

fn name_of_register(number: u8) -> String {
    format!("{:?}", Gpr::ALL[number as usize]).to_lowercase()
}

/// `guest pc, resume, what, time`
fn describe(site: &Site, address: u64) -> String {
    let mut text = format!("{:x}", site.pc);
    if site.resume != 0 {
        let _ = write!(text, ", resume +{:03x}", site.resume - address);
    }
    if site.len != 0 {
        let mut terms: Vec<String> = vec![];
        if site.base != NO_REGISTER {
            terms.push(name_of_register(site.base));
        }
        if site.index != NO_REGISTER {
            terms.push(format!("{}*{}", name_of_register(site.index), 1 << site.scale));
        }
        if site.displacement != 0 || terms.is_empty() {
            let sign = if site.displacement < 0 { "-" } else { "" };
            terms.push(format!("{sign}{:#x}", site.displacement.unsigned_abs()));
        }
        let segment = match site.segment {
            Segment::Flat => "",
            Segment::Fs => "fs:",
            Segment::Gs => "gs:",
        };
        let narrow = if site.narrow { " narrow" } else { "" };
        let _ = write!(text, ", {} bytes{narrow} {segment}[{}]", site.len, terms.join(" + "));
    }
    if site.value != NO_REGISTER {
        let _ = write!(text, " in {}", name_of_register(site.value));
    }
    let _ = write!(text, ", clock {:+}", site.adjust);
    text
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
