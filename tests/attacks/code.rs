//! Translated code, which lies at a known address: it cannot be written where it is executed.
//!
//! This is a second line. A recording can still take over its replay (see `takeover.rs`), only not by writing code at an
//! address that it knows.

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;

use retro_abi::layout::CACHE_BASE;
use retro_abi::log::Event;
use retro_cli::engine_file::EngineFile;
use retro_recording::Recording;
use retro_replayer::{Detail, Item, Replayer, Session};
use retro_testkit::compare::Ending;

use crate::forged::{CODE, Forged, LOOP};
use crate::place::{Place, assert_refused, said};
use crate::takeover::{RAX, RBX, RDI, load};

/// Instructions that the recordings claim to have.
const END: u64 = 50_000_000;

/// Stores of several kinds, to the start of the cache and further on.
#[test]
fn a_store_to_the_code_cache_is_refused() {
    let place = Place::new("code-store");
    let stores: [&[u8]; 5] = [
        &[0x48, 0x89, 0x3f],                // mov [rdi], rdi
        &[0xb9, 0, 0x10, 0, 0, 0xf3, 0xaa], // mov ecx, 4096; rep stosb
        &[0xf0, 0x48, 0x83, 0x07, 1],       // lock add [rdi], 1
        &[0x48, 0x8d, 0x67, 0x08, 0x50],    // lea rsp, [rdi+8]; push rax
        &[0x0f, 0x11, 0x07],                // movups [rdi], xmm0
    ];
    for address in [CACHE_BASE, CACHE_BASE + 0x100] {
        for store in stores {
            let code = [&load(RDI, address)[..], store, LOOP].concat();
            Forged::new(&code, END).write(&place.recording());
            let outcome = place.retro(&["verify", "recording"]);
            let fault = format!("the guest faults (signal 11, address {address:#x})");
            assert_refused(&outcome, &["log 0, interval 0", &fault]);
            let outcome = place.retro(&["bt", "-r", "recording"]);
            assert_refused(&outcome, &["is not indexed"]);
        }
    }
    place.assert_unharmed();
}

/// The log itself puts nothing there.
#[test]
fn a_log_writes_no_code() {
    let place = Place::new("code-log");
    let bytes = &[0xcc; 64];
    for event in [
        Event::Write { address: CACHE_BASE, bytes },
        Event::Load { address: CACHE_BASE + 0x100, bytes },
    ] {
        Forged::new(LOOP, 1000).with(500, event).write(&place.recording());
        assert_refused(&place.retro(&["verify", "recording"]), &["time 500"]);
    }
}

/// Code that looks for its own translation, writes a system call over it and goes there once more. Where that works, the process
/// exits with status 7.
#[test]
fn code_does_not_change_its_own_translation() {
    const MARK: u64 = 0x5a90_0044_1f0f_5ac3;
    // mov edi, 7; mov eax, exit_group; syscall; ud2; nop; nop
    const EXIT: [u8; 16] =
        [0xbf, 7, 0, 0, 0, 0xb8, 231, 0, 0, 0, 0x0f, 0x05, 0x0f, 0x0b, 0x90, 0x90];
    let half = |index: usize| u64::from_le_bytes(EXIT[8 * index..][..8].try_into().unwrap());
    let place = Place::new("code-own");
    let mut code = [load(RAX, MARK), load(RAX, MARK)].concat();
    // The value that is looked for must not be found in the code that looks for it.
    code.extend(load(RBX, !MARK));
    code.extend([0x48, 0xf7, 0xd3]); // not rbx
    code.extend(load(RDI, CACHE_BASE));
    code.extend([0xeb, 0x00]); // jmp to the next instruction: the loop is a block of its own
    code.extend([0x48, 0x39, 0x1f]); // cmp [rdi], rbx
    code.extend([0x74, 0x05]); // je out
    code.extend([0x48, 0xff, 0xc7]); // inc rdi
    code.extend([0xeb, 0xf6]); // jmp back
    // The instruction begins two bytes before its constant.
    for (index, distance) in [(0, -2i8), (1, 6)] {
        code.extend(load(RAX, half(index)));
        code.extend([0x48, 0x89, 0x47, distance as u8]); // mov [rdi + distance], rax
    }
    code.extend(load(RAX, CODE));
    code.extend([0xff, 0xe0]); // jmp rax
    Forged::new(&code, END).write(&place.recording());
    let outcome = place.retro(&["verify", "recording"]);
    assert_refused(&outcome, &["the guest faults (signal 11, address 0x"]);
    assert!(!said(&outcome).contains("status 7"), "{}", said(&outcome));
}

/// Asserts that nothing in a process can be both written and executed.
#[track_caller]
fn assert_no_writable_code(pid: u32, when: &str) {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let rights = |line: &&str| line.split(' ').nth(1).unwrap().to_owned();
    let both: Vec<&str> = maps
        .lines()
        .filter(|line| rights(line).contains('w') && rights(line).contains('x'))
        .collect();
    assert!(both.is_empty(), "{when}: {both:#?}");
    assert!(maps.lines().any(|line| rights(&line).contains('x')), "{when}: {maps}");
}

/// How far the processes are run.
const FAR: u64 = 60_000;

/// Looks at a session while it stands in several places.
#[track_caller]
fn look(session: &mut Session, when: &str) {
    let pid = session.process_id().unwrap();
    assert_no_writable_code(pid, when);
    session.run_to(FAR / 3).unwrap();
    assert_no_writable_code(pid, &format!("{when}, after some code"));
    let detail = Detail::CALLS | Detail::WRITES | Detail::READS;
    session.stream(FAR / 3 * 2, detail, |_| ControlFlow::Continue(())).unwrap();
    assert_no_writable_code(pid, &format!("{when}, after a stream"));
    session.run_to(FAR).unwrap();
    assert_no_writable_code(pid, &format!("{when}, at the end"));
}

/// Looks at all kinds of processes that replay: fresh ones, templates that have translated code which they never execute, and
/// their copies, which do.
#[track_caller]
fn look_at_everything(place: &Place) {
    let engine = EngineFile::new(&[]).unwrap();
    let recording = Recording::open(&place.recording()).unwrap();
    let replayer = Replayer::open(recording, engine.path().to_owned());
    let mut fresh = replayer.session(0, 0).unwrap();
    assert_no_writable_code(fresh.process_id().unwrap(), "a new process");
    let mut pcs = BTreeSet::new();
    fresh
        .stream(FAR, Detail::BLOCKS, |item| {
            if let Item::Block(block) = item {
                pcs.insert(block.pc_at(block.time));
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    let expected = fresh.registers(None).unwrap();
    let mut fresh = replayer.session(0, 0).unwrap();
    look(&mut fresh, "a process");
    assert_eq!(fresh.registers(None).unwrap(), expected);

    let mut template = replayer.session(0, 0).unwrap();
    template.translate_ahead(None, &pcs.into_iter().collect::<Vec<_>>()).unwrap();
    assert_no_writable_code(template.process_id().unwrap(), "a template");
    let mut copies = [template.fork().unwrap(), template.fork().unwrap()];
    for copy in &mut copies {
        look(copy, "a copy");
        assert_eq!(copy.registers(None).unwrap(), expected);
    }
    assert_no_writable_code(template.process_id().unwrap(), "a template with copies");
}

#[test]
fn nothing_is_writable_and_executable_in_a_forged_replay() {
    let place = Place::new("code-maps");
    Forged::new(LOOP, 100_000).write(&place.recording());
    look_at_everything(&place);
}

/// The guest had such memory; its replay does not.
#[test]
fn nothing_is_writable_and_executable_in_an_honest_replay() {
    let place = Place::new("code-honest");
    let source = "#include <string.h>\n#include <sys/mman.h>\n\
        int main(void) { unsigned char *code = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n\
        for (int i = 0; i < 1000; i++) { unsigned char made[] = {0xb8, i, i >> 8, 0, 0, 0xc3};\n\
        memcpy(code, made, 6); if (((int (*)(void))code)() != i) return 1; } return 0; }";
    fs::write(place.path().join("maker.c"), source).unwrap();
    let built = place.command("cc").args(["maker.c", "-o", "maker"]).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let recorded = place.retro(&["record", "--quiet", "-o", "recording", "--", "./maker"]);
    assert_eq!(recorded.status, Ending::Exited(0), "{}", said(&recorded));
    look_at_everything(&place);
}
